/* Definitions of tables and indexes; to create, open, rename, replace and drop tables. */
#ifndef SLUICE_ABI_TABLES_H
#define SLUICE_ABI_TABLES_H
#include "foreign_keys.h"
#ifdef __cplusplus
extern "C" {
#endif

/* What the keys of an index are made of: engine/src/index/key_shape.rs draws the images. */
enum { SLC_LEVEL_PLAIN = 0, SLC_LEVEL_PADDED = 1, SLC_LEVEL_FILLED = 2 };
enum { SLC_STRING_LEVELS_MAX = 6 };
typedef struct {
  uint8_t form;              /* SLC_LEVEL_* */
  uint8_t unit;              /* bytes of a weight, 1 to 4 */
  uint8_t space[4];          /* the weight of a space */
} slc_string_level;
typedef struct {
  uint8_t nullable;
  uint8_t inverted;          /* DESC */
  uint8_t level_count;       /* of a string; 0: the part has a fixed length */
  uint32_t fixed;            /* bytes, without the null byte */
  slc_string_level levels[SLC_STRING_LEVELS_MAX];
} slc_key_part;
/* WIDE: the keys of its entries, with the clustered key at their end, may be longer than
   SLC_KEY_MAX. No change of it is buffered. */
enum { SLC_INDEX_UNIQUE = 1, SLC_INDEX_WIDE = 2 };
enum { SLC_KEY_MAX = 3500, SLC_WIDE_KEY_MAX = 14000 };
/* one part of an index: foreign keys need it */
typedef struct {
  const char *column;
  /* what the column's values are: two columns with equal domains and shapes have equal bytes for
     equal values */
  const char *domain;
  uint8_t whole;             /* 0 = the key has only the beginning of the column */
  slc_key_part shape;
} slc_index_part;
typedef struct {
  const char *name;          /* index name */
  uint32_t flags;            /* SLC_INDEX_* */
  uint32_t part_count;       /* the index's own; 0 = not known */
  const slc_index_part *parts;
} slc_index_def;

/* WIDE_PK: as SLC_INDEX_WIDE, of the clustered key. FOREIGN_UNCHECKED: foreign_key_checks=0, a
   parent may be missing and children may not fit. MARKS_PAST: bit 6 of a row's second byte says
   that it is one of the past, which is no row to foreign keys. A row that becomes one of the past,
   or of the present, is moved, also if it keeps its clustered key. IN_PLACE: slc_tables_replace()
   will put the table in the place of `replaces`; children that do not fit that one need not fit
   this one */
enum {
  SLC_TABLE_TEMPORARY = 1,
  SLC_TABLE_HIDDEN_PK = 2,
  SLC_TABLE_WIDE_PK = 4,
  SLC_TABLE_FOREIGN_UNCHECKED = 8,
  SLC_TABLE_MARKS_PAST = 16,
  SLC_TABLE_IN_PLACE = 32
};
typedef struct {
  uint32_t flags;
  /* > 0: every clustered key has this length (6 for hidden); 0 = varies */
  uint32_t pk_fixed_len;
  uint32_t index_count;      /* secondary indexes */
  const slc_index_def *indexes;
  /* of its indexes: 0 = as the setting change_buffering says, else the number of its value + 1 */
  uint32_t change_buffering;
  /* opaque to the engine: plugin's own notes (format version, collation ids, ...), given back at
     open */
  slc_bytes schema;
  uint32_t part_count;       /* of the clustered key; 0 = not known */
  const slc_index_part *parts;
  uint32_t foreign_count;    /* foreign keys in which the table is the child */
  const slc_foreign_def *foreign;
  /* so many of them, the first ones, are those of `replaces`: their names now count */
  uint32_t foreign_kept;
  /* the table whose place it will take, which may have the same foreign keys; NULL = none */
  const char *replaces;
  /* pairs: old name, new name of a column of that table. When slc_tables_replace() puts this one
     in its place, the foreign keys of other tables follow */
  const char *const *renamed_columns;
  uint32_t renamed_column_count; /* of pairs */
} slc_table_def;

/* Names are the server's normalised path, e.g. "./db/table" or "./db/t#P#p0". Each call is atomic,
   durable on return, idempotent. */
slc_err slc_table_create(slc_engine *, const char *name, const slc_table_def *);  /* SLC_EXISTS */
/* orphans: other tables whose names begin so may lose the table as their parent ("" = all, NULL =
   none); else SLC_TABLE_IS_REFERENCED. SLC_NO_TABLE */
slc_err slc_table_drop(slc_engine *, const char *name, const char *orphans);
/* What a new name means to the foreign keys that name the table: they follow; they mean the table
   still, until another one has the old name; they mean this table from now on. */
enum { SLC_RENAME = 0, SLC_RENAME_OUT_OF_PLACE = 1, SLC_RENAME_INTO_PLACE = 2 };
typedef struct {
  uint32_t kind;             /* SLC_RENAME... */
  uint8_t unchecked;         /* children that wait for the table need not fit */
  uint32_t foreign_count;    /* 0 = the table's own foreign keys keep their names */
  const char *const *foreign_names; /* in the order of their definition */
  /* INTO_PLACE: the name of the table that this one replaces, if it is not `to`; else NULL */
  const char *replaces;
} slc_rename;
slc_err slc_table_rename(slc_engine *, const char *from, const char *to, const slc_rename *);
/* Each table gets the contents and the definition of the table `rebuilt`, which is no more then.
   One atomic, durable change; needs exclusive use of all. */
/* own_counter: rows of the rebuilt table have numbers of a new AUTO_INCREMENT column; the counter
   of the old column ends */
typedef struct { slc_table *table; const char *rebuilt; int own_counter; } slc_replacement;
slc_err slc_tables_replace(slc_engine *, const slc_replacement *list, uint32_t count, int foreign_unchecked);

/* new, empty incarnation; needs exclusive use. also: a table truncated in the same change; NULL:
   none. orphans: as in slc_table_drop() */
slc_err slc_table_truncate(slc_engine *, const char *name, const char *also, const char *orphans);
/* SLC_LOCKED: a prepared transaction, which may have no connection any more, has changed rows of
   the table: its definition must not change. losers: also while transactions found at open are
   being rolled back, or while the rollback of one that has changed the table waits. An index build
   would read their rows. by: one of them. */
slc_err slc_table_check_decided(slc_engine *, const char *name, int losers, uint64_t *by);
int     slc_table_exists(slc_engine *, const char *name);
void    slc_table_list(slc_engine *, slc_text_cb cb, void *ctx); /* one call per table name */
/* shared by all handlers of the name; counted */
slc_err slc_table_open(slc_engine *, const char *name, slc_table **out);
void    slc_table_close(slc_table *);
slc_bytes slc_table_schema(slc_table *);          /* valid while open */
/* the table that an ALTER TABLE will replace by `name`, if foreign keys have to follow: after a
   crash only the engine knows it */
slc_err slc_table_replaces(slc_engine *, const char *name, slc_text_cb cb, void *ctx);
slc_err slc_table_set_schema(slc_engine *, const char *name, slc_bytes schema);
/* as in slc_table_def; until the next restart */
void    slc_table_use_change_buffering(slc_table *, uint32_t change_buffering);
uint32_t slc_table_index_count(slc_table *);
const char *slc_table_index_name(slc_table *, uint32_t i);   /* i = secondary ordinal, 0-based */
/* of two indexes the younger one has the larger number; UINT32_MAX for an ordinal out of range */
uint32_t slc_table_index_id(slc_table *, uint32_t i);
/* hidden primary key: next id, never given twice */
uint64_t slc_table_next_row_id(slc_table *);

#ifdef __cplusplus
}
#endif
#endif

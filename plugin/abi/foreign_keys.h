/* Foreign keys: their definitions, and the rows that a cascade makes. */
#ifndef SLUICE_ABI_FOREIGN_KEYS_H
#define SLUICE_ABI_FOREIGN_KEYS_H
#include "rows.h"
#ifdef __cplusplus
extern "C" {
#endif

enum { SLC_FOREIGN_NO_ACTION = 0, SLC_FOREIGN_RESTRICT = 1, SLC_FOREIGN_CASCADE = 2, SLC_FOREIGN_SET_NULL = 3 };
/* a foreign key of a child table; column names compare without regard to case */
typedef struct {
  const char *name;          /* "database/constraint": unique */
  const char *parent;        /* table name, as slc_table_create() takes it; need not exist */
  uint32_t column_count;
  const char *const *columns;
  const char *const *parent_columns;
  uint8_t on_delete, on_update; /* SLC_FOREIGN_* */
} slc_foreign_def;

/* A foreign key. Texts are valid until the callback returns. */
typedef struct {
  slc_bytes name, child, parent;
  uint32_t column_count;
  /* as the tables write them */
  const slc_bytes *columns, *parent_columns;
  /* 1 = the column may be NULL; 0 also if nothing is known of the column */
  const uint8_t *child_nullable, *parent_nullable;
  /* names of the indexes that serve it ("PRIMARY": the clustered one); parent_index is empty if it
     has no parent now, child_index if the child has lost the index */
  slc_bytes child_index, parent_index;
  /* why the parent does not fit, so that the foreign key is not in force; empty: it fits, or is
     missing */
  slc_bytes misfit;
  uint8_t on_delete, on_update;
} slc_foreign_info;
typedef void (*slc_foreign_cb)(void *ctx, const slc_foreign_info *);
/* those of the child `table`, in the order of its definition; those that name the parent `table`;
   all */
enum { SLC_FOREIGN_OF_CHILD = 0, SLC_FOREIGN_OF_PARENT = 1, SLC_FOREIGN_ALL = 2 };
slc_err slc_foreign_list(slc_engine *, uint32_t which, const char *table, slc_foreign_cb cb, void *ctx);
/* Bits: 1 = the table is a child, 2 = a parent, perhaps one that lacks the index, 4 = a child that
   has lost the index of a foreign key. */
uint32_t slc_table_foreign(slc_table *);
/* SLC_TABLE_MARKS_PAST */
int slc_table_marks_past(slc_table *);

/* A row of a table, which is named as in slc_table_create(). */
typedef struct { slc_bytes table, pk, row; } slc_row_of;
typedef struct slc_row_sink slc_row_sink;
/* Takes the row and its entries. Called once for each sink. The bytes are copied. */
void slc_row_sink_put(slc_row_sink *, slc_bytes pk, slc_bytes row, const slc_entry *entries, uint32_t count);
/* Of `after`, as SLC_UPDATE_KEEPS_UNINDEXED. */
void slc_row_sink_keeps_unindexed(slc_row_sink *);
typedef struct slc_value_sink slc_value_sink;
/* Called for each column of the foreign key, in their order. domain: as in slc_index_part. image:
   as in an ascending index, without the null byte. The bytes are copied. */
void slc_value_sink_put(slc_value_sink *, slc_bytes domain, int is_null, slc_bytes image);
/* Called inside slc_row_insert, _update, _move and _delete, by the transaction's thread, without
   latches. 0 = done; else the call ends with SLC_ROW_NOT_MADE. */
typedef struct {
  void *ctx;
  /* Puts the row with its entries into the sink. */
  int (*entries)(void *ctx, const slc_row_of *child, slc_row_sink *to);
  /* Puts the row as it is into `before`, and as it becomes into `after`. The columns of the table's
     foreign key number `foreign` get the parent row's values. `parent` NULL: they become NULL.
     Puts the row of the past that stays into `past`, if there is one. */
  int (*changed)(void *ctx, const slc_row_of *child, uint32_t foreign, const slc_row_of *parent, slc_row_sink *before,
                 slc_row_sink *after, slc_row_sink *past);
  /* Of a table with SLC_TABLE_MARKS_PAST: puts the row as it is into `before`, and the row of the
     past that it becomes now into `after`. Without the latter the row goes without a trace. */
  int (*ended)(void *ctx, const slc_row_of *child, slc_row_sink *before, slc_row_sink *after);
  /* Puts the values that the columns of the table's foreign key number `foreign` have in the row
     into the sink. Called if the table has lost the index of the foreign key. */
  int (*reference)(void *ctx, const slc_row_of *child, uint32_t foreign, slc_value_sink *to);
} slc_row_maker;
void slc_trx_set_row_maker(slc_trx *, const slc_row_maker *);
/* foreign_key_checks; on in a new transaction object, stays */
void slc_trx_foreign_key_checks(slc_trx *, int on);

#ifdef __cplusplus
}
#endif
#endif

/* Indexes that are built, and ALTER TABLE in place. */
#ifndef SLUICE_ABI_ALTER_H
#define SLUICE_ABI_ALTER_H
#include "tables.h"
#ifdef __cplusplus
extern "C" {
#endif

/* index DDL. The builder sorts (spilling to files), then loads the index bottom up; invisible until
   publish. */
slc_err slc_index_build_begin(slc_engine *, slc_table *, const slc_index_def *, slc_build **out);
/* SLC_OK; key = index key + clustered key; user_key_len = length of the index key alone;
   unique_check = 0 when a part is NULL */
slc_err slc_index_build_add(slc_build *, slc_bytes key, uint32_t user_key_len, int unique_check, slc_bytes value);
/* sorts and loads; SLC_DUPLICATE for a unique index (slc_duplicate_pk names one row) */
slc_err slc_index_build_finish(slc_build *, slc_trx *);
/* Gives up the build and frees its pages, also after a failed finish. */
void    slc_index_build_abort(slc_build *);
/* after finish, for rows that were changed meanwhile: the entry that a row has now, and the one
   that it had before */
slc_err slc_index_build_put(slc_build *, slc_bytes key, uint32_t user_key_len, int unique_check, slc_bytes value);
slc_err slc_index_build_remove(slc_build *, slc_bytes key);
/* After the last put. SLC_DUPLICATE: two rows have the same unique value. */
slc_err slc_index_build_prove(slc_build *);

/* ---- an ALTER TABLE that lets writers go on ---- */
typedef struct slc_online slc_online;
/* Notes the keys of all rows that are changed from now on. No other transaction has changes in the
   table, and none makes any before this call returns. base: a transaction at
   SLC_ISO_REPEATABLE_READ without a snapshot. It gets one, in which the caller reads the rows. */
slc_err slc_online_begin(slc_table *, slc_trx *base, slc_online **out);
/* was, is: the row in the older and in the newer snapshot; ptr NULL: the snapshot has no row. If
   the callback sets older_row_only, the newer row comes again in the second pass, when all keys
   have come once; was.ptr is NULL then. */
typedef struct
{
  slc_bytes pk, was, is;
  int is_second_pass;
  int older_row_only;
} slc_online_change;
/* A result other than 0 ends the round with SLC_ROW_NOT_MADE. */
typedef int (*slc_online_cb)(void *ctx, slc_online_change *);
typedef struct { uint64_t keys, changed, again; } slc_online_report;
/* Gives the rows that differ between the snapshots of two transactions. older: `base`, or `newer`
   of the round before. newer: as `base`; it gets its snapshot here. In the last round no other
   transaction has changes in the table. */
slc_err slc_online_round(slc_online *, slc_trx *older, slc_trx *newer, slc_online_cb each, void *ctx, slc_online_report *out);
void    slc_online_end(slc_online *);

typedef struct {
  slc_table *table;
  const char *const *drop;   /* names of indexes */
  uint32_t drop_count;
  /* pairs: old name, new name; after the drops, before the adds, all at once */
  const char *const *rename;
  uint32_t rename_count;     /* of pairs */
  slc_build *const *add;     /* finished builds; given up by the caller if the change succeeds */
  uint32_t add_count;
  const char *const *order;  /* every index that is there afterwards */
  uint32_t order_count;
  uint32_t change_buffering; /* as in slc_table_def */
  slc_bytes schema;
  /* what the keys are made of afterwards: of the clustered index, then of each in `order`; NULL =
     as before, refused if an index is added */
  const slc_index_def *keys;
  uint32_t key_count;
  uint8_t sets_foreign;      /* 0 = the foreign keys stay as they are */
  uint8_t foreign_unchecked; /* they may lack a parent or an index */
  const slc_foreign_def *foreign; /* all that are there afterwards */
  uint32_t foreign_count;
  uint32_t foreign_kept;     /* so many, the first ones, are there already: see slc_table_def */
  /* pairs: old name, new name of a column; foreign keys of other tables follow */
  const char *const *renamed_columns;
  uint32_t renamed_column_count; /* of pairs */
} slc_index_change;
/* one atomic, durable catalog change of all tables named (a table's partitions) */
slc_err slc_alter_indexes(slc_engine *, const slc_index_change *changes, uint32_t count);

#ifdef __cplusplus
}
#endif
#endif

/* Loads of rows past undo and redo. */
#ifndef SLUICE_ABI_LOADS_H
#define SLUICE_ABI_LOADS_H
#include "rows.h"
#ifdef __cplusplus
extern "C" {
#endif

/* ---- load of a new table that no other connection sees yet: no undo, no redo. A caller whose load
   fails must drop the table. ---- */
/* *out NULL: not a table to be loaded (it has rows, or is temporary) */
slc_err slc_load_begin(slc_table *, slc_load **out);
slc_err slc_load_add(slc_load *, slc_bytes pk, slc_bytes row, const slc_entry *entries, uint32_t entry_count);
/* durable on return; SLC_DUPLICATE may come here only (slc_duplicate_index, slc_duplicate_pk, and
   the row) */
slc_err slc_load_finish(slc_load *, slc_trx *);
slc_bytes slc_load_duplicate_row(const slc_load *);   /* valid until the load ends */
/* NULL is fine; frees the pages of a load that was not finished */
void    slc_load_end(slc_load *);

/* ---- a statement that fills an empty table that others may know; it does not read the table. Many
   rows go past undo and redo. After an error nothing but the end is left; what fails is undone by
   the statement's rollback, which comes after the end. ---- */
slc_err slc_bulk_begin(slc_table *, slc_bulk **out);  /* *out NULL: the table is not empty */
/* as slc_row_insert; may hold the row back, and return the error of an earlier one */
slc_err slc_bulk_add(slc_bulk *, slc_trx *, slc_bytes pk, slc_bytes row, const slc_entry *entries, uint32_t entry_count);
slc_err slc_bulk_finish(slc_bulk *, slc_trx *);       /* all rows are there on return */
/* after SLC_DUPLICATE: 1 and the row refused, valid until the end; 0: it was the one given last */
int     slc_bulk_refused(const slc_bulk *, slc_bytes *pk, slc_bytes *row);
void    slc_bulk_end(slc_bulk *, slc_trx *);          /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif

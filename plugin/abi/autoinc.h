/* AUTO_INCREMENT counters. */
#ifndef SLUICE_ABI_AUTOINC_H
#define SLUICE_ABI_AUTOINC_H
#include "base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* persistent counter: next value to give (0 = never set) */
uint64_t slc_table_autoinc(slc_table *);
/* The values that a session's inserts may have: offset, offset + increment, ... up to limit, which
   is the column's greatest. */
typedef struct { uint64_t offset, increment, limit; } slc_autoinc_series;
/* Takes up to `wanted` values of the series, at least 1: the first one goes to `first`, the result
   is their number. The counter moves beyond them. `first` is above the limit if the column is
   exhausted. take = 0: the counter stays, and the result is 1. */
uint64_t slc_table_autoinc_reserve(slc_table *, const slc_autoinc_series *, uint64_t wanted, int take, uint64_t *first);
/* The value after `value` in the series, which the counter becomes; the greatest number if there is
   none. */
uint64_t slc_autoinc_after(const slc_autoinc_series *, uint64_t value);
/* raise the counter to at least `next`, in memory at once. It is on disk with the next row change
   of this table; of reset, at once. */
uint64_t slc_table_autoinc_raise(slc_table *, uint64_t next); /* what it was */
/* Takes back a raise whose row was refused: the counter is what it was before, unless it has been
   raised since. */
void    slc_table_autoinc_take_back(slc_table *, uint64_t raised, uint64_t before);
/* keeps other transactions that ask for it too from taking values, until it is given back (or the
   transaction ends); waits like a row lock */
slc_err slc_table_autoinc_lock(slc_table *, slc_trx *);
void    slc_table_autoinc_unlock(slc_table *, slc_trx *);
/* ALTER TABLE ... AUTO_INCREMENT=n; durable */
slc_err slc_table_autoinc_reset(slc_table *, uint64_t next);

#ifdef __cplusplus
}
#endif
#endif

/* Transactions, locks and waits, for INFORMATION_SCHEMA. */
#ifndef SLUICE_ABI_LOCKS_H
#define SLUICE_ABI_LOCKS_H
#include "base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Texts are valid until the callback returns. Times are in microseconds; -1 = unknown or none. */
typedef struct {
  uint64_t number;           /* its id; 2^48 + connection as long as it has none */
  uint64_t connection;       /* 0 = it has none (any more) */
  int64_t  age_us, waiting_us, snapshot_age_us;
  uint64_t undo_records, undo_bytes, buffered_changes, row_locks, range_locks, tables_locked, indexes_locked;
  uint64_t weight;           /* decides which transaction is the victim of a deadlock */
  slc_bytes requested_lock;  /* empty = it waits for none */
  slc_bytes xid;             /* as people write it; empty = it is not XA */
  uint8_t  isolation, has_id, prepared, rolling_back;
} slc_trx_info;
enum { SLC_LOCKED_ROW = 0, SLC_LOCKED_RANGE = 1, SLC_LOCKED_INSERT = 2, SLC_LOCKED_COUNTER = 3 };
typedef struct {
  slc_bytes id;
  uint64_t trx;              /* as slc_trx_info.number */
  slc_bytes table, index;    /* empty = dropped since */
  uint32_t index_number;     /* 0 = clustered, i + 1 = secondary i */
  /* a row; a range, from key to key_to (empty = to the end); an insert that waits for ranges;
     AUTO_INCREMENT */
  uint32_t kind;
  slc_bytes key, key_to;
  uint8_t  exclusive, granted;
} slc_lock_info;
typedef struct { uint64_t requesting_trx, blocking_trx; slc_bytes requested_lock, blocking_lock; } slc_lock_wait;
typedef struct {
  void *ctx;
  void (*trx)(void *ctx, const slc_trx_info *);
  void (*lock)(void *ctx, const slc_lock_info *);
  void (*wait)(void *ctx, const slc_lock_wait *);
} slc_lock_sink;
/* what is reported of locks that no transaction waits for: nothing, in how many tables a
   transaction has any, every one */
enum { SLC_LOCKS_WAITED_FOR, SLC_LOCKS_COUNTED, SLC_LOCKS_ALL };
/* transactions first, then locks, then waits */
slc_err slc_lock_report(slc_engine *, uint32_t detail, const slc_lock_sink *);

#ifdef __cplusplus
}
#endif
#endif

/* Reads. */
#ifndef SLUICE_ABI_CURSORS_H
#define SLUICE_ABI_CURSORS_H
#include "statistics.h"
#ifdef __cplusplus
extern "C" {
#endif

/* AFTER_PREFIX: forward from the first key after all that begin with the given one.
   PREFIX_OR_BEFORE: backward from the last key that begins with the given one or is below. */
enum {
  SLC_SEEK_FIRST = 0, SLC_SEEK_LAST = 1, SLC_SEEK_GE = 2, SLC_SEEK_GT = 3, SLC_SEEK_LE = 4, SLC_SEEK_LT = 5, SLC_SEEK_AFTER_PREFIX = 6,
  SLC_SEEK_PREFIX_OR_BEFORE = 7
};
/* `row` is a secondary entry's value; else `row` is the clustered row */
enum { SLC_ENTRY_COVERING = 1 };
typedef struct {
  uint32_t flags;
  /* clustered cursor: the clustered key. Secondary cursor: index key + clustered key */
  slc_bytes key;
  slc_bytes pk;              /* clustered key */
  /* clustered row, or (SLC_ENTRY_COVERING) the value stored in the secondary entry */
  slc_bytes row;
} slc_found;
/* one per handler; reusable for any index of the table */
slc_cursor *slc_cursor_new(slc_table *);
void slc_cursor_free(slc_cursor *);
/* start a scan set-up on index (0 = clustered, i+1 = secondary i). lock: SLC_LOCK_*, policy:
   SLC_WAIT...; covering: a secondary entry that the snapshot may see is handed out as it is,
   without the clustered row. Consistent reads (SLC_LOCK_NONE) use trx's snapshot (READ UNCOMMITTED:
   newest version; SLC_LOCK_NONE_STATEMENT_VIEW: the statement's own). Locks are taken on rows (clustered
   key), in key order, as they are handed out. */
slc_err slc_cursor_begin(slc_cursor *, slc_trx *, uint32_t index, uint32_t lock, uint32_t policy, int covering);
/* after begin, of a locking scan of a secondary index outside of a transaction: a row that moves to
   a key that the scan has passed is handed out by its old entry. key_of: the key that a row has in
   that index, without the clustered key; valid until the next call; null ptr: unknown */
typedef slc_bytes (*slc_key_of)(void *ctx, slc_bytes clustered, slc_bytes row);
void     slc_cursor_follow_moved(slc_cursor *, slc_key_of, void *ctx);
/* the scan goes on, where it is, in another statement (HANDLER), perhaps of another transaction */
slc_err slc_cursor_go_on(slc_cursor *, slc_trx *, uint32_t lock, uint32_t policy);
/* optional bounds, checked before an entry is handed out or locked: forward scans stop at the place
   hi, backward ones at a key < lo. Empty = none. */
slc_err slc_cursor_bounds(slc_cursor *, slc_bytes lo, slc_bound hi);
/* position and hand out the first entry; SLC_SEEK_LE/LT/LAST/PREFIX_OR_BEFORE run backward, the
   others forward */
slc_err slc_cursor_seek(slc_cursor *, uint32_t seek, slc_bytes key, slc_found *out);
/* next in key order, whatever direction the scan had so far */
slc_err slc_cursor_next(slc_cursor *, slc_found *out);
slc_err slc_cursor_prev(slc_cursor *, slc_found *out);
/* hint: about this many entries will be wanted (read-ahead, batch size); 0 = unknown */
void    slc_cursor_expect(slc_cursor *, uint64_t rows);
/* the clustered row of a key, by lock mode as in begin; used for rnd_pos, covering -> full row,
   unique PK lookups. SLC_NOT_FOUND. */
slc_err slc_row_get(slc_cursor *, slc_trx *, slc_bytes pk, uint32_t lock, uint32_t policy, slc_found *out);
/* last row handed out with a lock, by a scan or by slc_row_get, does not match the WHERE: release
   its lock if that took it (<= READ COMMITTED). With the transaction that it was read in. */
void    slc_cursor_unlock_row(slc_cursor *, slc_trx *);
/* last committed version without locking (semi-consistent read): set before begin; entries that are
   locked by others come with their committed version; *was = 1 if the last one did */
void    slc_cursor_semi_consistent(slc_cursor *, int on);
int     slc_cursor_was_semi_consistent(slc_cursor *);
/* end of scan: frees buffers, forgets position and transaction; steps need a new begin */
void    slc_cursor_reset(slc_cursor *);

#ifdef __cplusplus
}
#endif
#endif

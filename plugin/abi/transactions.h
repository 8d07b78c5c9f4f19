/* Transactions: their waits, snapshots, savepoints and ends; prepared ones after a crash. */
#ifndef SLUICE_ABI_TRANSACTIONS_H
#define SLUICE_ABI_TRANSACTIONS_H
#include "base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* XA recovery: prepared transactions found at open */
typedef struct { int64_t format_id; uint32_t gtrid_len, bqual_len; uint8_t data[128]; } slc_xid;
/* not yet decided ones */
uint32_t slc_recovered_prepared(slc_engine *, slc_xid *out, uint32_t max);
/* SLC_NOT_FOUND if unknown; pos: as in slc_trx_set_position(); len 0 = none */
slc_err slc_commit_by_xid(slc_engine *, const slc_xid *, const uint8_t *pos, size_t len);
slc_err slc_rollback_by_xid(slc_engine *, const slc_xid *);

/* ---- transactions: one object per connection, reused ---- */
enum { SLC_WAIT_WOKEN = 0, SLC_WAIT_TIMEOUT = 1, SLC_WAIT_KILLED = 2 };
typedef struct {
  void *ctx;                                             /* the connection (THD) */
  /* block until `*flag` != 0, the timeout, or a kill. Called without any engine latch or mutex
     held. */
  int  (*wait)(void *ctx, volatile uint32_t *flag, uint64_t timeout_us);
  /* wake the thread that is in wait() of this ctx; may be called from any thread, while ctx is
     alive; flag is set before. slc_trx_free() waits for such calls, and for about_to_wait() of
     others with this ctx, so they must not wait for a connection to end */
  void (*wake)(void *ctx);
  int  (*killed)(void *ctx);                             /* polled in long scans: nonzero = stop */
  /* before a wait: `ctx` is about to wait for `holder_ctx` (replication, Galera). may be NULL.
     Return nonzero: do not wait, give SLC_DEADLOCK */
  int  (*about_to_wait)(void *ctx, void *holder_ctx);
  /* writes the statement that the connection runs, returns the bytes written. Called by its own
     thread. may be NULL */
  size_t (*statement)(void *ctx, char *to, size_t size);
  /* Reports the progress of a sort, or of a round of an ALTER TABLE. Called by the connection's own
     thread. May be NULL. */
  void (*progress)(void *ctx, uint64_t done, uint64_t all);
} slc_waiter;
/* READ UNCOMMITTED is for upkeep (CHECK TABLE, index builds), which reads the newest version of
   every row, and for users of the stand-in. Other users are served READ COMMITTED. */
enum { SLC_ISO_READ_UNCOMMITTED = 0, SLC_ISO_READ_COMMITTED = 1, SLC_ISO_REPEATABLE_READ = 2, SLC_ISO_SERIALIZABLE = 3 };
/* NONE_STATEMENT_VIEW: none, and the rows are read by a view of the statement alone. That view
   makes no conflicts: the statement may lock and change rows that changed since. NONE_NEWEST: none,
   and the newest version of each row is read. The caller keeps other writers of the table out */
enum { SLC_LOCK_NONE = 0, SLC_LOCK_SHARED = 1, SLC_LOCK_EXCLUSIVE = 2, SLC_LOCK_NONE_STATEMENT_VIEW = 3, SLC_LOCK_NONE_NEWEST = 8 };
/* with SHARED or EXCLUSIVE: the gaps between the rows, too, whatever the level */
enum { SLC_LOCK_GAPS = 4 };
enum { SLC_WAIT = 0, SLC_NOWAIT = 1, SLC_SKIP_LOCKED = 2 };

slc_trx *slc_trx_new(slc_engine *, const slc_waiter *, uint64_t connection_id);
void     slc_trx_free(slc_trx *);                 /* rolls back if active */
/* begin: idempotent while active. lock_wait_timeout_ms as of now. */
void     slc_trx_start(slc_trx *, uint32_t isolation, uint32_t lock_wait_timeout_ms);
/* after slc_trx_start(): whether what was changed since a snapshot may be locked or changed (at
   SLC_ISO_REPEATABLE_READ) */
void     slc_trx_snapshot_isolation(slc_trx *, int on);
/* at REPEATABLE READ a locking read that may find nothing takes the snapshot, too (off in a new
   transaction object, stays) */
void     slc_trx_snapshot_by_locking(slc_trx *, int on);
/* after slc_trx_start(), XA: what the user calls the transaction, for reports */
void     slc_trx_name(slc_trx *, const slc_xid *);
int      slc_trx_is_started(const slc_trx *);
int      slc_trx_has_writes(const slc_trx *);
/* of rows or ranges; rows that it has changed count */
int      slc_trx_has_locks(const slc_trx *);
uint64_t slc_trx_id(const slc_trx *);             /* 0 = none assigned (read only so far) */
/* START TRANSACTION WITH CONSISTENT SNAPSHOT; else made lazily by the first consistent read */
slc_err  slc_trx_open_snapshot(slc_trx *);
void     slc_trx_close_snapshot(slc_trx *);       /* end of a statement at <= READ COMMITTED */
uint64_t slc_trx_savepoint(slc_trx *);            /* a mark; also taken at each statement's start */
slc_err  slc_trx_rollback_to(slc_trx *, uint64_t savepoint);
/* durable unless flush mode says otherwise. may_outlive: the connection may go before the
   decision. */
slc_err  slc_trx_prepare(slc_trx *, const slc_xid *, int may_outlive);
/* The server has let go of a transaction so prepared (XA PREPARE) without ending it: what comes
   next is another one. */
void     slc_trx_leave(slc_trx *);
/* makes it visible and gives the commit number; no I/O, cannot fail */
void     slc_trx_commit_ordered(slc_trx *);
/* commit_ordered if not done; then waits for the redo flush (per flush mode) if durable */
slc_err  slc_trx_commit(slc_trx *, int durable);
slc_err  slc_trx_rollback(slc_trx *);
void     slc_trx_cancel_wait(slc_trx *);          /* from any thread: KILL */
/* Sets the transaction's place in the order that a cluster has decided; 0 = none. Its lock requests
   pass waiting requests of transactions without a place, or with a later one. It is no victim of a
   deadlock with such a transaction. The place holds until the transaction ends. */
void     slc_trx_set_place(slc_trx *, uint64_t place);
/* it has changed what a rollback leaves changed: no deadlock's victim, if another can be. Until its
   end. */
void     slc_trx_note_changes_that_stay(slc_trx *);
/* Gives the transaction an id, so that its end is in the log even if it changes no row. */
slc_err  slc_trx_begin_writing(slc_trx *);
/* Stores a position of a cluster or a binary log with the transaction's commit; at most 140
   bytes. */
void     slc_trx_set_position(slc_trx *, const uint8_t *pos, size_t len);

#ifdef __cplusplus
}
#endif
#endif

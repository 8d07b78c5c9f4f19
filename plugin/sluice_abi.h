/* The C ABI between the MariaDB shim (plugin/) and the engine (ffi/).

   Words here are the engine's: keys and rows are byte strings, made by the codec in plugin/;
   nothing below this line knows a collation or a column. Every function may be called from any
   thread; an object (transaction, cursor, build) is used by one thread at a time unless said
   otherwise. Every function that can fail returns a `slc_err`; the text of the last error of this
   thread is had from slc_error_text(). A panic inside the engine is caught at this border: it
   poisons the engine (SLC_POISONED from then on), never the server.

   Pointers handed out by the engine (rows, keys) stay valid until the next call on the same object.
   Keys compare as bytes (invariant I8). Lengths are bytes. */
#ifndef SLUICE_ABI_H
#define SLUICE_ABI_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t slc_err;
enum {
  SLC_OK = 0,
  SLC_NOT_FOUND = 1,      /* no such key; a point read or a locate found nothing */
  SLC_END = 2,            /* a scan has no further entry */
  SLC_DUPLICATE = 3,      /* see slc_duplicate_index() */
  SLC_LOCK_WAIT_TIMEOUT = 4,
  SLC_DEADLOCK = 5,       /* the whole transaction must be rolled back */
  SLC_INTERRUPTED = 6,    /* KILL, max_statement_time: waiter said stop */
  SLC_CONFLICT = 7,       /* snapshot isolation: row changed since the snapshot (1020) */
  SLC_FULL = 8,           /* disk or file full */
  SLC_CORRUPT = 9,        /* text names file, page, index */
  SLC_IO = 10,
  SLC_POISONED = 11,      /* after a failed write/sync or a caught panic: restart the server */
  SLC_UNSUPPORTED = 12,
  SLC_EXISTS = 13,        /* table or index exists */
  SLC_NO_TABLE = 14,      /* table or index does not exist */
  SLC_TOO_BIG = 15,       /* key or row longer than the engine takes */
  SLC_READ_ONLY = 16,
  /* snapshot older than the table's definition (HA_ERR_TABLE_DEF_CHANGED) */
  SLC_TABLE_CHANGED = 17,
  SLC_LOCKED = 18,        /* NOWAIT / SKIP LOCKED asked for, and the row is locked */
  /* of the foreign key that slc_foreign_child() and slc_foreign_name() name: */
  SLC_NO_REFERENCED_ROW = 19, /* a child row has no parent row */
  SLC_ROW_IS_REFERENCED = 20, /* a parent row has child rows */
  SLC_FOREIGN_DUPLICATE = 21, /* a cascade makes a duplicate key in the child */
  SLC_FOREIGN_NEEDS_INDEX = 22, /* the index cannot be dropped */
  SLC_TABLE_IS_REFERENCED = 23, /* the table cannot be dropped */
  SLC_FOREIGN_DEPTH = 24, /* a cascade is too deep */
  SLC_FOREIGN_DEFINITION = 25, /* text says why a foreign key cannot be made */
  SLC_FOREIGN_NAME_TAKEN = 26,
  SLC_ROW_NOT_MADE = 27,  /* a callback of slc_row_maker failed, and has said why */
  SLC_ONLINE_ALTER_FULL = 28, /* rows change faster than an online ALTER TABLE can follow */
  SLC_FOREIGN_UNFIT = 29, /* as FOREIGN_DEFINITION: of children of this table */
  /* as FOREIGN_DEFINITION, of the foreign key that slc_foreign_name() names: */
  SLC_FOREIGN_NO_PARENT_INDEX = 30, /* the parent has no index that fits */
  SLC_FOREIGN_NOT_NULL = 31 /* SET NULL of a column that is NOT NULL */
};

typedef struct slc_engine slc_engine;
typedef struct slc_trx slc_trx;
typedef struct slc_table slc_table;
typedef struct slc_cursor slc_cursor;
typedef struct slc_build slc_build;
typedef struct slc_load slc_load;
typedef struct slc_bulk slc_bulk;
typedef struct { const uint8_t *ptr; size_t len; } slc_bytes;
typedef void (*slc_text_cb)(void *ctx, const char *text, size_t len);

/* ---- errors ---- */
/* of this thread; NUL-terminated; returns length */
size_t slc_error_text(char *buf, size_t size);
/* of this thread: ordinal of the violated index (0 = clustered, else as in slc_table_def.indexes +
   1); after SLC_FOREIGN_DUPLICATE, of the child */
uint32_t slc_duplicate_index(void);
/* of this thread: clustered key of the row that is in the way */
slc_bytes slc_duplicate_pk(void);
/* of this thread: the child table, and the foreign key's name with its database */
slc_bytes slc_foreign_child(void);
slc_bytes slc_foreign_name(void);

/* ---- engine ---- */
typedef struct {
  const char *name;                  /* as slc_engine_set() takes it */
  uint64_t value;
} slc_setting;
typedef struct {
  const char *dir;                   /* must exist, but for the default, ./#sluice */
  /* those that are not named have their defaults; the last one of a name counts */
  const slc_setting *settings;
  uint32_t setting_count;
  uint8_t  read_only;                /* 0/1 */
  /* engine's notes for the error log (may be called from any thread); first char 'I','W','E' =
     level */
  slc_text_cb log;
  void *log_ctx;
  /* writes a key as people write it (index: 0 = clustered, i + 1 = secondary i), returns the bytes
     written; 0: unknown. May be NULL. Called from any thread, without latches */
  size_t (*key_text)(slc_bytes table, uint32_t index, slc_bytes key, char *to, size_t size);
  /* writes a table's name as people write it, returns the bytes written. May be NULL. Called as
     key_text is */
  size_t (*table_text)(slc_bytes table, char *to, size_t size);
} slc_config;

/* ---- instrumentation: performance_schema ---- */
/* A callback that gets `run` and `arg` calls run(arg) exactly once before it returns. Any thread
   may call. A NULL member: not observed. */
typedef void (*slc_run)(void *arg);
typedef int (*slc_open_run)(void *arg);   /* the descriptor; -1 = the file was not opened */
enum { SLC_FILE_READ = 0, SLC_FILE_WRITE = 1, SLC_FILE_SYNC = 2, SLC_FILE_CHANGE_SIZE = 3 };
enum { SLC_STAGE_DRAIN = 0, SLC_STAGE_ROLLBACK_AT_START = 1 };
enum { SLC_MEMORY_BUFFER_POOL = 0 };
typedef struct { int fd; uint64_t bytes; } slc_file_part;
typedef struct {
  /* the thread has to wait for a mutex of that rank (slc_mutex_list) */
  void (*mutex_wait)(uint32_t rank, slc_run run, void *arg);
  void (*file_open)(const char *path, int creates, slc_open_run open, void *arg);
  /* one call, or a batch; each file stands in one part */
  void (*file_call)(uint32_t call, const slc_file_part *parts, uint32_t count, slc_run run, void *arg);
  void (*file_close)(int fd);
  void (*file_removed)(const char *path);
  void (*thread)(slc_bytes name, slc_run run, void *arg);   /* run: all that the thread does */
  /* of the calling thread's work; done == total at the end */
  void (*progress)(uint32_t stage, uint64_t done, uint64_t total);
  void (*memory)(uint32_t what, int64_t bytes);             /* below 0: given back */
} slc_observer;
/* for the life of the process, before the first open; the first one stays */
void    slc_observe(const slc_observer *);

/* runs redo recovery; prepared transactions survive */
slc_err slc_engine_open(const slc_config *config, slc_engine **out);
/* purge, rollback of losers, page cleaner full speed: after DDL recovery */
void    slc_engine_start_background(slc_engine *);
/* fast: 0 = purge all + flush all, 1 = flush all, 2 = flush redo only */
void    slc_engine_close(slc_engine *, uint32_t fast);
slc_err slc_engine_flush_log(slc_engine *);
void    slc_engine_count_conflict(slc_engine *); /* SLC_CONFLICT was reported to a user */
slc_err slc_engine_checkpoint(slc_engine *);        /* flush all dirty pages, move the checkpoint */
/* the position of the newest commit that carried one, into `to`; returns its length, 0 = none */
size_t slc_engine_position(slc_engine *, uint8_t *to, size_t size);
/* a position that comes with no transaction; durable on return, whatever the flush mode */
slc_err slc_engine_set_position(slc_engine *, const uint8_t *pos, size_t len);
/* 1: flushes all, and keeps the files as they are until 0 is said, so that they can be copied.
   Threads that have something to write wait. Not to be nested. */
slc_err slc_engine_hold_writes(slc_engine *, int hold);
uint64_t slc_engine_lsn(slc_engine *);
uint64_t slc_engine_durable_lsn(slc_engine *);
/* Changes a setting while the engine runs. Names are those of the system variables without prefix,
   e.g. "io_capacity"; the table of them is engine/src/engine/config.rs. SLC_UNSUPPORTED for an
   unknown name, or a setting that is read only at the start. */
slc_err slc_engine_set(slc_engine *, const char *name, uint64_t value);

/* ---- hot backup ---- */
/* Begins a backup, which a thread writes to the named pipe; returns when it has begun. */
slc_err slc_backup_start(slc_engine *, const char *pipe);
/* ends the backup that is under way, if there is one */
void    slc_backup_cancel(slc_engine *);
/* 0 none is under way, 1 data files are read, 2 the log is followed until the point, 3 the end */
uint32_t slc_backup_phase(slc_engine *);
/* The backup has what is committed now; the caller blocks commits. `about` is a line of text that
   goes into the backup. Nothing happens if none is under way; SLC_UNSUPPORTED, and the backup
   fails, if data files are still being read. */
slc_err slc_backup_fix_point(slc_engine *, slc_bytes about);
/* status counters: fixed count and order for the life of the process; usable before open (engine
   NULL -> values 0) */
uint32_t slc_counter_count(void);
/* e.g. "buffer_pool_reads": shown as Sluice_buffer_pool_reads */
const char *slc_counter_name(uint32_t i);
/* all of one moment, as far as they belong together; room for slc_counter_count() */
void slc_counter_values(slc_engine *, uint64_t *out);
/* body of SHOW ENGINE SLUICE STATUS; foreign_error: the body of that section, empty = none. The
   averages per second are those since the last call */
void slc_engine_status_text(slc_engine *, slc_bytes foreign_error, slc_text_cb cb, void *ctx);

/* ---- counters, mutexes, tables, indexes and files, for INFORMATION_SCHEMA and SHOW ENGINE. Texts
   live through the callback. ---- */
enum { SLC_METRIC_TOTAL = 0, SLC_METRIC_GAUGE = 1, SLC_METRIC_MAXIMUM = 2 };
typedef struct {
  slc_bytes name, subsystem, comment;
  uint64_t value;
  double   per_second;       /* of a total: since the engine was opened */
  uint32_t kind;             /* SLC_METRIC_... */
  uint64_t elapsed_s;        /* since the engine was opened */
} slc_metric;
typedef void (*slc_metric_cb)(void *ctx, const slc_metric *);
slc_err slc_metric_list(slc_engine *, slc_metric_cb cb, void *ctx);

/* a family of mutexes: those of one rank */
typedef struct {
  slc_bytes name;
  uint32_t rank;
  uint64_t waits;            /* times that a thread found one of them locked */
} slc_mutex_info;
typedef void (*slc_mutex_cb)(void *ctx, const slc_mutex_info *);
void slc_mutex_list(slc_mutex_cb cb, void *ctx);

/* -1 = not known yet: no statement has asked since the start */
typedef struct {
  uint32_t id;               /* also of its file */
  slc_bytes name;            /* as in slc_table_create() */
  uint8_t  temporary;
  uint32_t indexes, handles;
  int64_t  rows, autoinc;
  uint64_t changes;          /* rows changed since the table was loaded into memory */
  int64_t  created;          /* seconds since the epoch */
  slc_bytes broken;          /* why it cannot be used; empty = it can */
} slc_table_info;
typedef void (*slc_table_info_cb)(void *ctx, const slc_table_info *);
slc_err slc_table_info_list(slc_engine *, slc_table_info_cb cb, void *ctx);

enum { SLC_INDEX_OF_PLAIN = 0, SLC_INDEX_OF_HIDDEN_KEY = 1, SLC_INDEX_OF_UNIQUE = 2, SLC_INDEX_OF_PRIMARY_KEY = 3 };
typedef struct {
  uint32_t id, table;
  slc_bytes name;
  uint32_t kind;             /* SLC_INDEX_OF_... */
  int32_t  parts;            /* -1 = not known, of a table that an old version made */
  uint32_t root;             /* page */
  int64_t  delta_root;       /* page; -1 = no change of it is buffered */
  uint8_t  wide, quarantined;
} slc_index_info;
typedef void (*slc_index_info_cb)(void *ctx, const slc_index_info *);
slc_err slc_index_info_list(slc_engine *, slc_index_info_cb cb, void *ctx);

enum {
  SLC_FILE_SYSTEM = 0, SLC_FILE_UNDO = 1, SLC_FILE_TABLE = 2, SLC_FILE_TEMPORARY = 3, SLC_FILE_REDO_LOG = 4, SLC_FILE_DOUBLEWRITE = 5,
  SLC_FILE_UNNAMED = 6       /* being made or removed, or left when it could not be removed */
};
typedef struct {
  slc_bytes name;            /* in the engine's directory */
  slc_bytes owner;           /* the table's name; empty = none */
  uint32_t kind;             /* SLC_FILE_... */
  int64_t  id;               /* of a data file; -1 = another file */
  uint64_t bytes, allocated;
  int64_t  pages, pages_used; /* of a data file that can be read; -1 = unknown */
} slc_file_info;
typedef void (*slc_file_info_cb)(void *ctx, const slc_file_info *);
slc_err slc_file_info_list(slc_engine *, slc_file_info_cb cb, void *ctx);

/* Another size of the buffer pool. Returns when the pool has it; after an error it has its old
   size. is_killed is asked now and then: not 0 = give up (SLC_INTERRUPTED). */
typedef uint8_t (*slc_killed_cb)(void *ctx);
slc_err slc_pool_resize(slc_engine *, uint64_t bytes, slc_killed_cb is_killed, void *ctx);
/* The list of the pool's pages, a file in the engine's directory. at_close: not if a load of it has
   not ended. A load is done by a worker; if_there: nothing is done if there is no such file. */
slc_err slc_page_list_dump(slc_engine *, const char *file, uint32_t percent, uint8_t at_close);
slc_err slc_page_list_load(slc_engine *, const char *file, uint8_t if_there);
void    slc_page_list_abort(slc_engine *);
/* what goes on, or was done last: 0 = a resize, 1 = a dump of the list, 2 = a load of it */
void    slc_pool_status_text(slc_engine *, uint32_t which, slc_text_cb cb, void *ctx);
typedef struct {
  uint64_t pages, free, resident, cold, dirty, in_flight;              /* now */
  uint64_t read, read_ahead, created, written, evicted, requested;     /* totals, pages */
  uint64_t hits_per_thousand;                                          /* since the last call */
  double   read_rate, read_ahead_rate, created_rate, written_rate, evicted_rate;
} slc_pool_stats;
void    slc_pool_stats_get(slc_engine *, slc_pool_stats *out);

/* what is buffered for one index; the texts live through the callback */
typedef struct {
  slc_bytes table, index;
  slc_bytes buffering;       /* the setting in effect: "none", "inserts", ... */
  uint8_t  own;              /* 1 = it is the table's own */
  uint8_t  counted;          /* 0 = after a restart: entries and bytes are what is counted so far */
  uint64_t entries, bytes, partitions, pages;
  uint64_t age_s;            /* of the oldest entry, at the most; after a restart, since then */
  uint64_t merged;           /* entries, since the engine was opened */
} slc_index_changes;
typedef void (*slc_index_changes_cb)(void *ctx, const slc_index_changes *);
/* every index that can be buffered, by table */
slc_err slc_change_buffer_list(slc_engine *, slc_index_changes_cb cb, void *ctx);

/* Transactions, locks and waits as people see them. The texts live through the callback; times are
   microseconds, -1 = unknown or none. */
typedef struct {
  uint64_t number;           /* its id; 2^48 + connection as long as it has none */
  uint64_t connection;       /* 0 = it has none (any more) */
  int64_t  age_us, waiting_us, snapshot_age_us;
  uint64_t undo_records, undo_bytes, buffered_changes, row_locks, range_locks, tables_locked;
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
  /* so much of a sort, or of a round of an ALTER TABLE, is done. Called by its own thread. may be
     NULL */
  void (*progress)(void *ctx, uint64_t done, uint64_t all);
} slc_waiter;
/* READ UNCOMMITTED is for upkeep (CHECK TABLE, index builds), which reads the newest version of
   every row; users are served READ COMMITTED. */
enum { SLC_ISO_READ_UNCOMMITTED = 0, SLC_ISO_READ_COMMITTED = 1, SLC_ISO_REPEATABLE_READ = 2, SLC_ISO_SERIALIZABLE = 3 };
/* NONE_OF_SOURCE: none, and read by a snapshot of the statement's own, which makes no conflicts: it
   may lock and change rows that changed since */
enum { SLC_LOCK_NONE = 0, SLC_LOCK_SHARED = 1, SLC_LOCK_EXCLUSIVE = 2, SLC_LOCK_NONE_OF_SOURCE = 3 };
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
/* its place in the order that a cluster has decided, which it keeps to its end: it passes the
   requests of those that have none, or a later one, and is no deadlock's victim. 0 = none */
void     slc_trx_set_place(slc_trx *, uint64_t place);
/* an id, and a commit record, also if it changes nothing that needs one */
slc_err  slc_trx_begin_writing(slc_trx *);
/* persist a wsrep/binlog position with the next commit of this transaction (opaque <= 140 bytes) */
void     slc_trx_set_position(slc_trx *, const uint8_t *pos, size_t len);

/* ---- tables ---- */
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
/* WIDE_PK: as SLC_INDEX_WIDE, of the clustered key. FOREIGN_UNCHECKED: foreign_key_checks=0, a
   parent may be missing and children may not fit */
enum { SLC_TABLE_TEMPORARY = 1, SLC_TABLE_HIDDEN_PK = 2, SLC_TABLE_WIDE_PK = 4, SLC_TABLE_FOREIGN_UNCHECKED = 8 };
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
  /* the table whose place it will take, which may have the same foreign keys; NULL = none */
  const char *replaces;
} slc_table_def;

/* Names are the server's normalised path, e.g. "./db/table" or "./db/t#P#p0". Each call is atomic,
   durable on return, idempotent. */
slc_err slc_table_create(slc_engine *, const char *name, const slc_table_def *);  /* SLC_EXISTS */
/* orphans: other tables whose names begin so may lose the table as their parent ("" = all, NULL =
   none); else SLC_TABLE_IS_REFERENCED. SLC_NO_TABLE */
slc_err slc_table_drop(slc_engine *, const char *name, const char *orphans);
/* What a new name means to the foreign keys that name the table: they follow; they mean the table
   still, until another one has the old name; they mean this table from now on. */
enum { SLC_RENAME = 0, SLC_RENAME_ASIDE = 1, SLC_RENAME_INTO_PLACE = 2 };
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
typedef struct { slc_table *table; const char *rebuilt; } slc_replacement;
slc_err slc_tables_replace(slc_engine *, const slc_replacement *list, uint32_t count, int foreign_unchecked);
/* a foreign key; the texts live through the callback */
typedef struct {
  slc_bytes name, child, parent;
  uint32_t column_count;
  /* as the tables write them */
  const slc_bytes *columns, *parent_columns;
  /* 1 = the column may be NULL; 0 also if nothing is known of the column */
  const uint8_t *child_nullable, *parent_nullable;
  /* names of the indexes that serve it ("PRIMARY": the clustered one); parent_index is empty if it
     has no parent now */
  slc_bytes child_index, parent_index;
  uint8_t on_delete, on_update;
} slc_foreign_info;
typedef void (*slc_foreign_cb)(void *ctx, const slc_foreign_info *);
/* those of the child `table`, in the order of its definition; those that name the parent `table`;
   all */
enum { SLC_FOREIGN_OF_CHILD = 0, SLC_FOREIGN_OF_PARENT = 1, SLC_FOREIGN_ALL = 2 };
slc_err slc_foreign_list(slc_engine *, uint32_t which, const char *table, slc_foreign_cb cb, void *ctx);
/* 0 = the table has no foreign key, 1 = it is a child, 2 = it is a parent, 3 = both */
uint32_t slc_table_foreign(slc_table *);
/* new, empty incarnation; needs exclusive use. orphans: as in slc_table_drop() */
slc_err slc_table_truncate(slc_engine *, const char *name, const char *orphans);
/* SLC_LOCKED: a prepared transaction, which may have no connection any more, has changed rows of
   the table: its definition must not change. losers: also while transactions found at open are
   being rolled back, or the rollback of one that has changed the table waits (an index build would
   read their rows). by: one of them. */
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
/* hidden primary key: next id, never given twice */
uint64_t slc_table_next_row_id(slc_table *);
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
/* raise the counter to at least `next`, in memory at once, on disk with the next row change of this
   table (or at once for reset) */
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
typedef struct {
  uint64_t rows;             /* estimate */
  uint64_t data_bytes;       /* clustered index + overflow pages */
  uint64_t index_bytes;      /* all secondary indexes */
  uint64_t free_bytes;       /* allocated, unused */
  uint64_t file_bytes;
  uint64_t clustered_leaf_pages;
  int64_t  create_time, update_time;  /* seconds since the epoch; 0 = unknown */
} slc_table_stats;
slc_err slc_table_get_stats(slc_table *, slc_table_stats *);
typedef struct {
  uint32_t part_count;
  const slc_key_part *parts; /* the index's own */
} slc_key_shape;
typedef struct {
  uint32_t shape_count;      /* clustered first, then each secondary index by ordinal */
  const slc_key_shape *shapes;
  uint8_t persistent;        /* 0 = as the setting stats_persistent says, 1 = no, 2 = yes */
  uint8_t auto_recalc;       /* in the same way */
  uint32_t sample_pages;     /* 0 = as the setting says */
} slc_statistics_options;
void     slc_statistics_describe(slc_table *, const slc_statistics_options *);
/* computes them if there are none or they are far off, else those of added indexes; `anew`: all */
slc_err  slc_statistics_compute(slc_table *, int anew);
uint64_t slc_statistics_version(slc_table *);  /* grows with each new computation */
/* Number of values of the first 1, 2, ... parts of the index (0 = clustered, i+1 = secondary i),
   its own and then those of the clustered key, to at most `max` numbers; *rows = the table's rows
   at that time. Returns how many there are, 0 = unknown. */
uint32_t slc_statistics_get(slc_table *, uint32_t index, uint64_t *rows, uint64_t *distinct, uint32_t max);
typedef struct {
  /* index: empty in the row of the table, which comes before those of its indexes */
  slc_bytes table, index;
  slc_bytes schema;          /* as in slc_table_def */
  uint64_t rows, changes;    /* changes since the statistics were computed */
  int64_t  computed, updated;/* seconds since the epoch; 0 = never */
  /* of the index; of the table: pages of the clustered index, of all others */
  uint64_t pages, leaf_pages, pages_read;
  const uint64_t *distinct;  /* as in slc_statistics_get */
  uint32_t distinct_count;
} slc_statistics_row;
typedef void (*slc_statistics_cb)(void *ctx, const slc_statistics_row *);
/* of all tables that are not temporary */
slc_err  slc_statistics_list(slc_engine *, slc_statistics_cb cb, void *ctx);
uint64_t slc_index_leaf_pages(slc_table *, uint32_t index);
/* A place between keys: before all that begin with `key`, or after them. An empty key: no bound. */
typedef struct { slc_bytes key; uint8_t after; } slc_bound;
/* estimated entries between two places */
slc_err slc_records_in_range(slc_table *, uint32_t index, slc_bound lo, slc_bound hi, uint64_t *out);
/* CHECK TABLE. Quick: every page of the trees (order, fences, links, checksums, page marks).
   Medium: overflow pages, free space, and by sums that each secondary index holds the entries of
   the rows and no others. Extended: every entry is looked up, so that those that are wrong are
   named; and the parent of every row that foreign keys have refer to one. */
enum { SLC_CHECK_QUICK = 0, SLC_CHECK_MEDIUM = 1, SLC_CHECK_EXTENDED = 2 };
typedef struct slc_check_sink slc_check_sink;
enum { SLC_ORPHANS_NO_ROW = 0, SLC_ORPHANS_NO_TABLE = 1, SLC_ORPHANS_NOT_COMPARED = 2 };
/* The rows of one foreign key that refer to no parent row. NO_TABLE: the parent's table is missing,
   or has no fitting index. NOT_COMPARED: definitions changed all the time. */
typedef struct {
  uint32_t foreign;          /* its place in the definition */
  uint32_t kind;             /* SLC_ORPHANS_* */
  slc_bytes name;            /* "database/constraint" */
  uint64_t rows;
  uint32_t count;            /* of those that follow: the first ones, each with another key */
  const slc_bytes *keys;     /* clustered keys */
  const slc_bytes *images;   /* rows */
} slc_orphans;
typedef struct {
  uint32_t level;
  void *ctx;
  slc_text_cb finding;
  /* gives each entry that the row must have to slc_check_entry() */
  void (*entries)(void *ctx, slc_bytes pk, slc_bytes row, slc_check_sink *to);
  /* stage and stages count from 1; done of total are pages or rows */
  void (*progress)(void *ctx, uint32_t stage, uint32_t stages, uint64_t done, uint64_t total);
  /* of an extended check; such rows are no findings */
  void (*orphans)(void *ctx, const slc_orphans *);
} slc_check;
/* findings as lines; SLC_CORRUPT if any. The transaction's waiter says when to stop
   (SLC_INTERRUPTED); its view is not used. */
slc_err slc_table_check(slc_trx *, slc_table *, const slc_check *);
/* index: ordinal as in slc_table_def.indexes; key = index key + clustered key */
void slc_check_entry(slc_check_sink *, uint32_t index, slc_bytes key, slc_bytes value);

/* index DDL. The builder sorts (spilling to files), then loads the index bottom up; invisible until
   publish. */
slc_err slc_index_build_begin(slc_engine *, slc_table *, const slc_index_def *, slc_build **out);
/* SLC_OK; key = index key + clustered key; user_key_len = length of the index key alone;
   unique_check = 0 when a part is NULL */
slc_err slc_index_build_add(slc_build *, slc_bytes key, uint32_t user_key_len, int unique_check, slc_bytes value);
/* sorts and loads; SLC_DUPLICATE for a unique index (slc_duplicate_pk names one row) */
slc_err slc_index_build_finish(slc_build *, slc_trx *);
/* frees pages; also after a failed finish */
void    slc_index_build_abort(slc_build *);
/* after finish, for rows that were changed meanwhile: the entry that a row has now, and the one
   that it had before */
slc_err slc_index_build_put(slc_build *, slc_bytes key, uint32_t user_key_len, int unique_check, slc_bytes value);
slc_err slc_index_build_remove(slc_build *, slc_bytes key);
/* after the last put: SLC_DUPLICATE if two rows have the same unique value */
slc_err slc_index_build_prove(slc_build *);

/* ---- an ALTER TABLE that lets writers go on ---- */
typedef struct slc_online slc_online;
/* Notes the keys of all rows that are changed from now on. No other transaction has changes in the
   table, and none makes any before this returns. base: at SLC_ISO_REPEATABLE_READ, without a
   snapshot; it gets one, by which the rows are to be read. */
slc_err slc_online_begin(slc_table *, slc_trx *base, slc_online **out);
/* was, is: the row by the older and by the newer snapshot; ptr NULL = no row, or one that comes at
   another call. Not 0: the round ends with SLC_ROW_NOT_MADE */
typedef int (*slc_online_cb)(void *ctx, slc_bytes pk, slc_bytes was, slc_bytes is);
typedef struct { uint64_t keys, changed, again; } slc_online_report;
/* Gives the rows that differ between the snapshots of both transactions. older: base, or `newer` of
   the round before. newer: as base, gets its snapshot here. In the last round no other transaction
   has changes in the table. older_rows_first: all rows by the older snapshot come first, then all by
   the newer one. */
slc_err slc_online_round(slc_online *, slc_trx *older, slc_trx *newer, int older_rows_first, slc_online_cb each, void *ctx,
                         slc_online_report *out);
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
     as before */
  const slc_index_def *keys;
  uint32_t key_count;
  uint8_t sets_foreign;      /* 0 = the foreign keys stay as they are */
  uint8_t foreign_unchecked; /* they may lack a parent or an index */
  const slc_foreign_def *foreign; /* all that are there afterwards */
  uint32_t foreign_count;
  /* pairs: old name, new name of a column; foreign keys of other tables follow */
  const char *const *renamed_columns;
  uint32_t renamed_column_count; /* of pairs */
} slc_index_change;
/* one atomic, durable catalog change of all tables named (a table's partitions) */
slc_err slc_alter_indexes(slc_engine *, const slc_index_change *changes, uint32_t count);

/* ---- rows ---- */
typedef struct {
  uint32_t index;            /* secondary ordinal, 0-based */
  /* insert/update: length of the index key inside `key` (without the clustered key) */
  uint32_t user_key_len;
  uint8_t  unique_check;     /* 0: not unique or a part is NULL */
  slc_bytes key;             /* index key + clustered key */
  /* raw bytes of the columns that cannot be decoded from the key; may be empty */
  slc_bytes value;
} slc_entry;
/* one secondary index of an update; old and new may be equal in key and differ in value */
typedef struct {
  uint32_t index;
  uint32_t user_key_len;     /* of new_key */
  uint8_t  unique_check;
  slc_bytes old_key, new_key, new_value;
} slc_entry_change;
/* How the row in the way is locked on SLC_DUPLICATE. REPLACE: exclusively, and it will be changed;
   a table younger than the snapshot is refused. */
enum { SLC_ON_DUPLICATE_SHARED= 0, SLC_ON_DUPLICATE_EXCLUSIVE= 1, SLC_ON_DUPLICATE_REPLACE= 2 };
/* All or nothing: a failed call leaves the table as it was. On SLC_DUPLICATE the row in the way is
   locked (update, move: exclusively if x_on_duplicate). */
slc_err slc_row_insert(slc_trx *, slc_table *, slc_bytes pk, slc_bytes row, const slc_entry *entries, uint32_t entry_count, int on_duplicate);
slc_err slc_row_update(slc_trx *, slc_table *, slc_bytes pk, slc_bytes new_row, const slc_entry_change *changes, uint32_t change_count, int x_on_duplicate,
                       /* bytes of the primary key's columns change, and the key stays: 'a', 'A' */
                       int pk_rewritten);
/* the clustered key changes: old row deleted, new one inserted, all entries move */
slc_err slc_row_move(slc_trx *, slc_table *, slc_bytes old_pk, const slc_entry *old_entries, slc_bytes new_pk, slc_bytes new_row,
                     const slc_entry *new_entries, uint32_t entry_count, int x_on_duplicate);
slc_err slc_row_delete(slc_trx *, slc_table *, slc_bytes pk, const slc_entry *entries, uint32_t entry_count);

/* ---- foreign keys: rows that a cascade makes ---- */
typedef struct slc_row_sink slc_row_sink;
/* the row and its entries, once; the bytes are copied */
void slc_row_sink_put(slc_row_sink *, slc_bytes pk, slc_bytes row, const slc_entry *entries, uint32_t count);
/* Called inside slc_row_update, _move and _delete, by the transaction's thread, without latches.
   Tables are named as in slc_table_create(). 0 = done; else the call ends with SLC_ROW_NOT_MADE. */
typedef struct {
  void *ctx;
  /* gives the row of the table with its entries */
  int (*entries)(void *ctx, slc_bytes table, slc_bytes pk, slc_bytes row, slc_row_sink *to);
  /* gives the row as it is, and as it becomes when the columns of the table's foreign key with that
     place in its definition follow the parent row; `parent` empty: when they become NULL */
  int (*changed)(void *ctx, slc_bytes table, uint32_t foreign, slc_bytes pk, slc_bytes row, slc_bytes parent, slc_bytes parent_pk,
                 slc_bytes parent_row, slc_row_sink *before, slc_row_sink *after);
} slc_row_maker;
void slc_trx_set_row_maker(slc_trx *, const slc_row_maker *);
/* foreign_key_checks; on in a new transaction object, stays */
void slc_trx_foreign_key_checks(slc_trx *, int on);

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

/* ---- reads ---- */
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
   newest version; SLC_LOCK_NONE_OF_SOURCE: the statement's own). Locks are taken on rows (clustered
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

/* The engine itself: its configuration, open and close, the log, settings, the position of a
   replication or a cluster. */
#ifndef SLUICE_ABI_ENGINE_H
#define SLUICE_ABI_ENGINE_H
#include "base.h"
#ifdef __cplusplus
extern "C" {
#endif

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

/* Opens the engine, and runs the recovery from the redo log. Prepared transactions stay
   prepared. */
slc_err slc_engine_open(const slc_config *config, slc_engine **out);
/* Starts the background threads: purge, the rollback of unfinished transactions, and so on. Called
   after the server's recovery of DDL. */
void    slc_engine_start_background(slc_engine *);
/* fast: 0 = purge, merge and write everything, 1 = write all pages, 2 = write the redo log only */
void    slc_engine_close(slc_engine *, uint32_t fast);
slc_err slc_engine_flush_log(slc_engine *);
void    slc_engine_count_conflict(slc_engine *); /* SLC_CONFLICT was reported to a user */
slc_err slc_engine_checkpoint(slc_engine *);        /* flush all dirty pages, move the checkpoint */
/* Writes the position of the newest commit that has one. Returns its length; 0 = none. */
size_t slc_engine_position(slc_engine *, uint8_t *to, size_t size);
/* Stores a position without a transaction. durable: it is durable on return, whatever the flush
   mode is. Otherwise with the next flush of the log. */
slc_err slc_engine_set_position(slc_engine *, const uint8_t *pos, size_t len, int durable);
/* hold = 1: writes all pages, and then holds off all writes, so that the files can be copied.
   Threads that have to write wait until a call with 0. Calls do not nest. */
slc_err slc_engine_hold_writes(slc_engine *, int hold);
uint64_t slc_engine_lsn(slc_engine *);
uint64_t slc_engine_durable_lsn(slc_engine *);
/* Changes a setting while the engine runs. Names are those of the system variables without prefix,
   e.g. "io_capacity"; the table of them is engine/src/engine/config.rs. SLC_UNSUPPORTED for an
   unknown name, or a setting that is read only at the start. */
slc_err slc_engine_set(slc_engine *, const char *name, uint64_t value);

#ifdef __cplusplus
}
#endif
#endif

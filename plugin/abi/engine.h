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

#ifdef __cplusplus
}
#endif
#endif

/* Instrumentation: the engine's waits, files, threads and stages, for performance_schema. */
#ifndef SLUICE_ABI_OBSERVER_H
#define SLUICE_ABI_OBSERVER_H
#include "base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* A callback with the parameters `run` and `arg` calls run(arg) exactly once before it returns. Any
   thread may call it. A NULL member: nothing is reported. */
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
  /* one call, or a batch; each file has one part */
  void (*file_call)(uint32_t call, const slc_file_part *parts, uint32_t count, slc_run run, void *arg);
  void (*file_close)(int fd);
  void (*file_removed)(const char *path);
  void (*thread)(slc_bytes name, slc_run run, void *arg);   /* run: all that the thread does */
  /* of the calling thread's work; done == total at the end */
  void (*progress)(uint32_t stage, uint64_t done, uint64_t total);
  void (*memory)(uint32_t what, int64_t bytes);             /* below 0: given back */
} slc_observer;
/* Sets the observer of the process, before the first slc_engine_open(). Later calls do nothing. */
void    slc_observe(const slc_observer *);

#ifdef __cplusplus
}
#endif
#endif

/* The buffer pool: its size, its page list, its statistics. */
#ifndef SLUICE_ABI_POOL_H
#define SLUICE_ABI_POOL_H
#include "base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Changes the size of the buffer pool, and returns then. After an error the pool has its old size.
   is_killed is called now and then; not 0 = give up (SLC_INTERRUPTED). */
typedef uint8_t (*slc_killed_cb)(void *ctx);
slc_err slc_pool_resize(slc_engine *, uint64_t bytes, slc_killed_cb is_killed, void *ctx);
/* The list of the pool's pages, a file in the engine's directory. at_close: the list stays as it is
   if a load of it has not ended. A worker does the load. if_there: a missing file is no error. */
slc_err slc_page_list_dump(slc_engine *, const char *file, uint32_t percent, uint8_t at_close);
slc_err slc_page_list_load(slc_engine *, const char *file, uint8_t if_there);
void    slc_page_list_abort(slc_engine *);
/* A text about the present or the latest: 0 = resize, 1 = dump of the list, 2 = load of it. */
void    slc_pool_status_text(slc_engine *, uint32_t which, slc_text_cb cb, void *ctx);
typedef struct {
  uint64_t pages, free, resident, cold, dirty, in_flight;              /* now */
  uint64_t read, read_ahead, created, written, evicted, requested;     /* totals, pages */
  uint64_t hits_per_thousand;                                          /* since the last call */
  double   read_rate, read_ahead_rate, created_rate, written_rate, evicted_rate;
} slc_pool_stats;
void    slc_pool_stats_get(slc_engine *, slc_pool_stats *out);

#ifdef __cplusplus
}
#endif
#endif

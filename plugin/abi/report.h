/* Counters, the text of SHOW ENGINE SLUICE STATUS, metrics and mutexes. */
#ifndef SLUICE_ABI_REPORT_H
#define SLUICE_ABI_REPORT_H
#include "base.h"
#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
#endif

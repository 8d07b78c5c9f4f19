/* Counters, the text of SHOW ENGINE SLUICE STATUS, metrics and mutexes. */
#ifndef SLUICE_ABI_REPORT_H
#define SLUICE_ABI_REPORT_H
#include "base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* The status counters. Their number and order stay the same while the process lives. Before the
   open, with the engine NULL, all values are 0. */
uint32_t slc_counter_count(void);
/* e.g. "buffer_pool_reads": shown as Sluice_buffer_pool_reads */
const char *slc_counter_name(uint32_t i);
/* Writes slc_counter_count() values. Counters that belong together are of one moment. */
void slc_counter_values(slc_engine *, uint64_t *out);
/* Gives the text of SHOW ENGINE SLUICE STATUS. foreign_error: the text of the section LATEST
   FOREIGN KEY ERROR, empty = no such section. Averages per second are those since the last call. */
void slc_engine_status_text(slc_engine *, slc_bytes foreign_error, slc_text_cb cb, void *ctx);

/* Texts are valid until the callback returns. */
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

/* All mutexes of one rank. */
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

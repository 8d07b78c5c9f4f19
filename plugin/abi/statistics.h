/* Sizes of tables, and the statistics of the optimizer. */
#ifndef SLUICE_ABI_STATISTICS_H
#define SLUICE_ABI_STATISTICS_H
#include "tables.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint64_t rows;             /* estimate */
  uint64_t data_bytes;       /* clustered index + overflow pages */
  uint64_t index_bytes;      /* all secondary indexes */
  uint64_t empty_buffer_bytes; /* of them: pages for changes to come, of indexes without any */
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
  int64_t  computed, updated;/* seconds since the epoch; 0 = never: then there is no row of an index */
  uint8_t  persistent;       /* kept over a restart */
  /* of the index; of the table: pages of the clustered index, of all others */
  uint64_t pages, leaf_pages, pages_read;
  const uint64_t *distinct;  /* as in slc_statistics_get */
  uint32_t distinct_count;
} slc_statistics_row;
typedef void (*slc_statistics_cb)(void *ctx, const slc_statistics_row *);
/* of all tables that are not temporary, also those without statistics */
slc_err  slc_statistics_list(slc_engine *, slc_statistics_cb cb, void *ctx);
uint64_t slc_index_leaf_pages(slc_table *, uint32_t index);
/* A place between keys: before all that begin with `key`, or after them. An empty key: no bound. */
typedef struct { slc_bytes key; uint8_t after; } slc_bound;
/* estimated entries between two places */
slc_err slc_records_in_range(slc_table *, uint32_t index, slc_bound lo, slc_bound hi, uint64_t *out);

#ifdef __cplusplus
}
#endif
#endif

/* What is buffered for each index, for INFORMATION_SCHEMA. */
#ifndef SLUICE_ABI_CHANGE_BUFFER_H
#define SLUICE_ABI_CHANGE_BUFFER_H
#include "base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* The buffered changes of one index. Texts are valid until the callback returns. */
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
/* Lists each index whose changes can be buffered, by table. */
slc_err slc_change_buffer_list(slc_engine *, slc_index_changes_cb cb, void *ctx);

#ifdef __cplusplus
}
#endif
#endif

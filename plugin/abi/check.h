/* CHECK TABLE. */
#ifndef SLUICE_ABI_CHECK_H
#define SLUICE_ABI_CHECK_H
#include "base.h"
#include "pool.h"
#ifdef __cplusplus
extern "C" {
#endif

/* CHECK TABLE. Quick: every page of the trees (order, fences, links, checksums, page marks).
   Medium: overflow pages, free space, and by sums that each secondary index holds the entries of
   the rows and no others. Extended: every entry is looked up, so that those that are wrong are
   named; and the parent of every row that foreign keys have refer to one. */
enum { SLC_CHECK_QUICK = 0, SLC_CHECK_MEDIUM = 1, SLC_CHECK_EXTENDED = 2 };
typedef struct slc_check_sink slc_check_sink;
enum { SLC_ORPHANS_NO_ROW = 0, SLC_ORPHANS_NO_TABLE = 1, SLC_ORPHANS_NOT_COMPARED = 2, SLC_ORPHANS_NO_CHILD_INDEX = 3 };
/* The rows of one foreign key whose parent row is missing. NO_TABLE: the parent's table is missing,
   or has no fitting index. NOT_COMPARED: definitions changed again and again during the check.
   NO_CHILD_INDEX: the table has lost the index of the foreign key, so rows were not compared. */
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
  /* Called by an extended check. Such rows are no findings. */
  void (*orphans)(void *ctx, const slc_orphans *);
} slc_check;
/* Checks the table, and gives each finding as a line. SLC_CORRUPT: there were findings. The waiter
   of the transaction tells of a KILL (SLC_INTERRUPTED). The transaction's view is not used. */
/* Merges the sparse pages of all indexes in place; others read and write meanwhile. */
slc_err slc_table_defragment(slc_table *, slc_killed_cb is_killed, void *ctx);
slc_err slc_table_check(slc_trx *, slc_table *, const slc_check *);
/* index: ordinal as in slc_table_def.indexes; key = index key + clustered key */
void slc_check_entry(slc_check_sink *, uint32_t index, slc_bytes key, slc_bytes value);

#ifdef __cplusplus
}
#endif
#endif

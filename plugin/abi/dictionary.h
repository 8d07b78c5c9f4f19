/* Tables, indexes and files, for INFORMATION_SCHEMA. Texts are valid until the callback returns. */
#ifndef SLUICE_ABI_DICTIONARY_H
#define SLUICE_ABI_DICTIONARY_H
#include "base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* A value is not known until a statement has opened the table since the start. */
typedef struct {
  uint32_t id;               /* also of its file */
  slc_bytes name;            /* as in slc_table_create() */
  uint8_t  temporary;
  uint32_t indexes, handles;
  int64_t  rows;             /* -1 = not known yet */
  uint64_t autoinc;          /* the next value; 0 = there is none */
  uint8_t  autoinc_known;    /* 0 = not known yet */
  uint64_t changes;          /* rows changed since the start */
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
/* Not 0: the list ends, with SLC_INTERRUPTED. */
typedef int (*slc_file_info_cb)(void *ctx, const slc_file_info *);
slc_err slc_file_info_list(slc_engine *, slc_file_info_cb cb, void *ctx);

#ifdef __cplusplus
}
#endif
#endif

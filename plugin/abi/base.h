/* What every part of the ABI uses: error codes and their texts, the handles, a range of bytes. */
#ifndef SLUICE_ABI_BASE_H
#define SLUICE_ABI_BASE_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t slc_err;
enum {
  SLC_OK = 0,
  SLC_NOT_FOUND = 1,      /* no such key; a point read or a locate found nothing */
  SLC_END = 2,            /* a scan has no further entry */
  SLC_DUPLICATE = 3,      /* see slc_duplicate_index() */
  SLC_LOCK_WAIT_TIMEOUT = 4,
  SLC_DEADLOCK = 5,       /* the whole transaction must be rolled back */
  SLC_INTERRUPTED = 6,    /* KILL, max_statement_time: waiter said stop */
  SLC_CONFLICT = 7,       /* snapshot isolation: row changed since the snapshot (1020) */
  SLC_FULL = 8,           /* disk or file full */
  SLC_CORRUPT = 9,        /* text names file, page, index */
  SLC_IO = 10,
  SLC_POISONED = 11,      /* after a failed write/sync or a caught panic: restart the server */
  SLC_UNSUPPORTED = 12,
  SLC_EXISTS = 13,        /* table or index exists */
  SLC_NO_TABLE = 14,      /* table or index does not exist */
  SLC_TOO_BIG = 15,       /* key or row longer than the engine takes */
  SLC_READ_ONLY = 16,
  /* snapshot older than the table's definition (HA_ERR_TABLE_DEF_CHANGED) */
  SLC_TABLE_CHANGED = 17,
  SLC_LOCKED = 18,        /* NOWAIT / SKIP LOCKED asked for, and the row is locked */
  /* of the foreign key that slc_foreign_child() and slc_foreign_name() name: */
  SLC_NO_REFERENCED_ROW = 19, /* a child row has no parent row */
  SLC_ROW_IS_REFERENCED = 20, /* a parent row has child rows */
  SLC_FOREIGN_DUPLICATE = 21, /* a cascade makes a duplicate key in the child */
  SLC_FOREIGN_NEEDS_INDEX = 22, /* the index cannot be dropped */
  SLC_TABLE_IS_REFERENCED = 23, /* the table cannot be dropped */
  SLC_FOREIGN_DEPTH = 24, /* a cascade is too deep */
  SLC_FOREIGN_DEFINITION = 25, /* text says why a foreign key cannot be made */
  SLC_FOREIGN_NAME_TAKEN = 26,
  SLC_ROW_NOT_MADE = 27,  /* a callback of the plugin failed, and has reported why */
  SLC_ONLINE_ALTER_FULL = 28, /* rows change faster than an online ALTER TABLE can follow */
  SLC_FOREIGN_UNFIT = 29, /* as FOREIGN_DEFINITION, but the foreign key is one of a child */
  /* as FOREIGN_DEFINITION, of the foreign key that slc_foreign_name() names: */
  SLC_FOREIGN_NO_PARENT_INDEX = 30, /* the parent has no index that fits */
  SLC_FOREIGN_NOT_NULL = 31 /* SET NULL of a column that is NOT NULL */
};

typedef struct slc_engine slc_engine;
typedef struct slc_trx slc_trx;
typedef struct slc_table slc_table;
typedef struct slc_cursor slc_cursor;
typedef struct slc_build slc_build;
typedef struct slc_load slc_load;
typedef struct slc_bulk slc_bulk;
typedef struct { const uint8_t *ptr; size_t len; } slc_bytes;
typedef void (*slc_text_cb)(void *ctx, const char *text, size_t len);

/* Writes the text of this thread's last error, NUL-terminated. Returns its length. */
size_t slc_error_text(char *buf, size_t size);
/* After SLC_DUPLICATE in this thread: the ordinal of the violated index. 0 = clustered, i + 1 =
   slc_table_def.indexes[i]. After SLC_FOREIGN_DUPLICATE: of the child's index. */
uint32_t slc_duplicate_index(void);
/* After SLC_DUPLICATE in this thread: the clustered key of the row that has the value. */
slc_bytes slc_duplicate_pk(void);
/* After an error of a foreign key in this thread: the child table, and the foreign key's name with
   its database. */
slc_bytes slc_foreign_child(void);
slc_bytes slc_foreign_name(void);

#ifdef __cplusplus
}
#endif
#endif

/* Changes of rows. */
#ifndef SLUICE_ABI_ROWS_H
#define SLUICE_ABI_ROWS_H
#include "base.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint32_t index;            /* secondary ordinal, 0-based */
  /* insert/update: length of the index key inside `key` (without the clustered key) */
  uint32_t user_key_len;
  uint8_t  unique_check;     /* 0: not unique or a part is NULL */
  slc_bytes key;             /* index key + clustered key */
  /* raw bytes of the columns that cannot be decoded from the key; may be empty */
  slc_bytes value;
} slc_entry;
/* one secondary index of an update; old and new may be equal in key and differ in value */
typedef struct {
  uint32_t index;
  uint32_t user_key_len;     /* of new_key */
  uint8_t  unique_check;
  slc_bytes old_key, new_key, new_value;
} slc_entry_change;
/* How the row in the way is locked on SLC_DUPLICATE. REPLACE: exclusively, and it will be changed;
   a table younger than the snapshot is refused. */
enum { SLC_ON_DUPLICATE_SHARED= 0, SLC_ON_DUPLICATE_EXCLUSIVE= 1, SLC_ON_DUPLICATE_REPLACE= 2 };
/* PK_REWRITTEN: bytes of the primary key's columns change, and the key stays: 'a', 'A'.
   KEEPS_UNINDEXED: the columns of those foreign keys of the table whose index is gone keep their
   values. Without it, and with checks on, the update is refused if there is such a foreign key. */
enum { SLC_UPDATE_PK_REWRITTEN= 1, SLC_UPDATE_KEEPS_UNINDEXED= 2 };
/* All or nothing: a failed call leaves the table as it was. On SLC_DUPLICATE the row in the way is
   locked (update, move: exclusively if x_on_duplicate). */
slc_err slc_row_insert(slc_trx *, slc_table *, slc_bytes pk, slc_bytes row, const slc_entry *entries, uint32_t entry_count, int on_duplicate);
slc_err slc_row_update(slc_trx *, slc_table *, slc_bytes pk, slc_bytes new_row, const slc_entry_change *changes, uint32_t change_count, int x_on_duplicate,
                       /* SLC_UPDATE_* */
                       uint32_t flags);
/* the clustered key changes: old row deleted, new one inserted, all entries move */
slc_err slc_row_move(slc_trx *, slc_table *, slc_bytes old_pk, const slc_entry *old_entries, slc_bytes new_pk, slc_bytes new_row,
                     const slc_entry *new_entries, uint32_t entry_count, int x_on_duplicate);
slc_err slc_row_delete(slc_trx *, slc_table *, slc_bytes pk, const slc_entry *entries, uint32_t entry_count);

#ifdef __cplusplus
}
#endif
#endif

/* ScanState: where a handler's scan is, beyond what the engine's cursor knows. CoveredColumns:
   whether an index has every column that is read. RowImages: the row that is written, as the engine
   takes it.
   Called by: the handler files, each from its connection's thread. */
#ifndef SLUICE_SCAN_STATE_H
#define SLUICE_SCAN_STATE_H
#include "compat.h"
#include "buffer.h"
#include "codec.h"
#include "sluice_abi.h"
#include <vector>

namespace sluice {

struct ScanState
{
  /* Where index_next() and index_prev() continue: AT_ENTRY, the cursor's entry. AT_KEY, the row of
     a point read, for which the cursor was not moved. BEFORE_KEY and AFTER_KEY, the places before
     and after the entries that begin with `key`. AT_START and AT_END, the ends of the index. */
  enum Place { AT_ENTRY, AT_KEY, BEFORE_KEY, AFTER_KEY, AT_START, AT_END };

  uint engine_index= 0;
  bool is_set_up= false;                // slc_cursor_begin() was called for this scan
  bool is_covering= false;
  bool keyread_needs_row= false;        // the server wants entries only, and more than they have
  bool has_bounds= false;
  bool bounds_are_of_lookup= false;     // set by an exact lookup: index_next() goes beyond them
  bool at_start= false;                 // of a table scan
  bool of_positions= false;             // rnd_pos() reads single rows
  /* No row that the scan delivers lies after the end of the range. */
  bool engine_ends_range= false;
  Place place= AT_ENTRY;
  const key_range *range_end= nullptr;  // while read_range_first() seeks
  slc_found found{};
  uchar *record= nullptr;               // where the last row was put
  slc_bytes row_bytes{};                // the engine's bytes that its BLOBs point into
  Buffer key, high;                     // the search key, and the end of the range

  /* A scan of that index begins; the cursor is set up by its first seek. */
  void begin(uint index, bool of_table)
  {
    engine_index= index;
    is_set_up= bounds_are_of_lookup= false;
    place= AT_ENTRY;
    at_start= of_table;
    of_positions= false;
  }
};

/* The answer for one read_set is kept: a scan asks for each row. */
class CoveredColumns
{
public:
  void forget() { m_index= MAX_KEY; }
  /* Whether index `index` of the table has every column of its read_set. */
  bool in_index(const TABLE *table, uint index)
  {
    const MY_BITMAP *wanted= table->read_set;
    const size_t words= no_words_in_map(wanted);
    if (likely(m_index == index && m_set.size() == words &&
               !memcmp(m_set.data(), wanted->bitmap, words * sizeof(my_bitmap_map))))
      return m_all;
    m_index= index;
    m_set.assign(wanted->bitmap, wanted->bitmap + words);
    m_all= true;
    for (uint field= bitmap_get_first_set(wanted); m_all && field != MY_BIT_NONE; field= bitmap_get_next_set(wanted, field))
      m_all= table->field[field]->part_of_key.is_set(index);
    return m_all;
  }

private:
  bool m_all= false;
  uint m_index= MAX_KEY;
  std::vector<my_bitmap_map> m_set;
};

struct RowImages
{
  Buffer row, entries;                  // the row; keys and values of its index entries
  Buffer new_clustered;
  std::vector<EntryImage> images, old_images;  // where each entry is in `entries`

  void release_if_larger(size_t bytes)
  {
    row.release_if_larger(bytes);
    entries.release_if_larger(bytes);
  }
};

} // namespace sluice
#endif

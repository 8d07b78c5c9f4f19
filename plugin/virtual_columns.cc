/* Virtual columns in indexes. Their values are stored nowhere else. The server computes them when
   it has read a row or is about to write one. Here are the cases in which it does not, and an index
   needs them:
   - an index-only read, and a record of the server's own (an ordered scan of partitions compares
     the keys of such records);
   - a row event. It is applied as it came. It brings no value for a column that the primary does
     not have, or need not log (binlog_row_image=MINIMAL). The primary may compute a value that it
     brings in another way. A row that it changes was read, and read_set says what the server then
     computed;
   - a BLOB of a system-versioned row that changes. The server computes it twice. The second time
     its bytes take the place of the old row's, which are then those of the new one;
   - a row of a child that a cascade changes, and the parent's value for it.
   The server also keeps the bytes of a virtual BLOB badly where it merges ranges of partitions: see
   keep_virtual_blobs().
   Called by: ha_read.cc, ha_write.cc, admin.cc, foreign_rows.cc. */
#include "ha_sluice.h"
#include <algorithm>

using namespace sluice;

/* From the record's other columns, all of which it must have. */
template <typename Wanted> void ha_sluice::compute_virtual_columns(uchar *record, const Wanted &wanted)
{
  m_wanted_virtual.clear();
  for (const uint16 number : m_codec->indexed_virtual_columns())
    if (wanted(number))
      m_wanted_virtual.push_back(number);
  compute_columns(record, m_wanted_virtual.data(), m_wanted_virtual.size());
}

bool ha_sluice::compute_columns(uchar *record, const uint16 *numbers, size_t count, bool of_changed_row)
{
  /* The computation uses tmp_set, which may be what a sort has made the read_set. */
  const size_t words= no_words_in_map(&table->tmp_set);
  m_saved_set.assign(table->tmp_set.bitmap, table->tmp_set.bitmap + words);
  if (record != table->record[0])
    table->move_fields(table->field, record, table->record[0]);
  bool failed= false;
  for (size_t i= 0; i < count && !(failed && of_changed_row); i++)
    failed|= table->update_virtual_field(table->field[numbers[i]], !of_changed_row) != 0;
  if (record != table->record[0])
    table->move_fields(table->field, table->record[0], record);
  std::copy(m_saved_set.begin(), m_saved_set.end(), table->tmp_set.bitmap);
  return !failed;
}

/* Of a row that was read. */
bool ha_sluice::wants_virtual_columns(const uchar *record) const
{
  return m_scan.engine_index && (m_keyread || record != table->record[0]);
}

/* The index's virtual columns, from the row that the engine handed out. */
void ha_sluice::add_virtual_columns(uchar *record, slc_bytes clustered, slc_bytes row)
{
  if (m_codec->indexed_virtual_columns().empty())
    return;
  const auto in_index= [&](uint16 number) {
    const std::vector<KeyPart> &parts= m_codec->key(active_index).parts;
    return std::any_of(parts.begin(), parts.end(), [&](const KeyPart &part) { return part.column.field == number; });
  };
  const std::vector<uint16> &numbers= m_codec->indexed_virtual_columns();
  if (std::none_of(numbers.begin(), numbers.end(), in_index) ||
      !m_codec->get_row(plan_of_whole_rows(), record, clustered, row))
    return;
  compute_virtual_columns(record, in_index);
}

void ha_sluice::compute_indexed_virtual_columns(uchar *record)
{
  if (!m_codec->indexed_virtual_columns().empty())
    compute_virtual_columns(record, [](uint16) { return true; });
}

bool ha_sluice::compute_changed_virtual_columns(uchar *record)
{
  const std::vector<uint16> &numbers= m_codec->indexed_virtual_columns();
  return numbers.empty() || compute_columns(record, numbers.data(), numbers.size(), true);
}

/* Also one that no index has. */
void ha_sluice::compute_virtual_column(uchar *record, uint16 number) { compute_columns(record, &number, 1); }

/* Of the record of a multi-range read. A partitioned table reads a row of each partition before it
   returns the first one. It does not keep the virtual BLOBs of a row that belongs to a later range:
   those of the next row take the place of their bytes, which are the field's. */
void ha_sluice::keep_virtual_blobs()
{
  if (m_keyread || !table->vfield || !table->s->blob_fields)
    return;
  const auto is_read_blob= [this](const Field *field) {
    return field->flags & BLOB_FLAG && !field->stored_in_db() && bitmap_is_set(table->read_set, field->field_index) && !field->is_null();
  };
  size_t size= 0;
  for (Field **field= table->vfield; *field; field++)
    if (is_read_blob(*field))
      size+= static_cast<Field_blob *>(*field)->get_length();
  m_kept_virtual_blobs.clear();
  m_kept_virtual_blobs.reserve(size);
  for (Field **field= table->vfield; *field; field++)
    if (is_read_blob(*field))
    {
      Field_blob *const blob= static_cast<Field_blob *>(*field);
      const uint32 length= blob->get_length();
      uchar *const kept= m_kept_virtual_blobs.data() + m_kept_virtual_blobs.length();
      m_kept_virtual_blobs.append({blob->get_ptr(), length});
      blob->set_ptr(length, kept);
    }
}

void ha_sluice::complete_virtual_columns(const uchar *record, bool is_new)
{
  const std::vector<uint16> &numbers= m_codec->indexed_virtual_columns();
  if (likely(numbers.empty()))
    return;
  const MY_BITMAP *known= is_new ? table->write_set : table->read_set;
  const bool of_event= is_new && ha_thd()->lex->is_stmt_row_injection(), versioned= table->versioned();
  const auto is_blob= [&](uint16 number) { return (table->field[number]->flags & BLOB_FLAG) != 0; };
  const auto is_unknown= [&](uint16 number) {
    return of_event || !bitmap_is_set(known, number) || (versioned && is_blob(number));
  };
  if (std::none_of(numbers.begin(), numbers.end(), is_unknown))
    return;
  /* A column that is computed from a BLOB computes that, too. */
  compute_virtual_columns(const_cast<uchar *>(record), [&](uint16 number) { return is_unknown(number) || is_blob(number); });
  /* The bytes of a BLOB are the field's: the next record's must not take their place. */
  if (record != table->record[0])
    for (const uint16 number : numbers)
      if (is_blob(number))
        static_cast<Field_blob *>(table->field[number])->swap_value_and_read_value();
}

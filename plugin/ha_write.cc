/* Changing rows. The engine gets bytes for everything that changes: the row, and for each index
   concerned the old and the new entry. It does all of it or nothing, and says which index has the
   key already.

   In the engine's numbering 0 is the clustered index and i+1 the i-th secondary one. */
#include "ha_sluice.h"
#include "engine.h"
#include "errors.h"
#include "foreign_rows.h"

using namespace sluice;

namespace {

constexpr size_t ENTRIES_ON_STACK= MAX_KEY;

slc_entry entry_of(const Buffer &bytes, const EntryImage &image, uint ordinal)
{
  slc_entry entry;
  entry.index= ordinal;
  entry.user_key_len= image.user_key_length;
  entry.unique_check= image.unique_check;
  entry.key= bytes.bytes(image.key, image.key_length);
  entry.value= bytes.bytes(image.value, image.value_length);
  return entry;
}

} // namespace

/* The clustered key of a record; in a table without a primary key that of the current row. */
slc_bytes ha_sluice::clustered_of(Buffer &to, const uchar *record) const
{
  if (!m_codec->has_primary_key())
    return m_clustered.bytes();
  to.clear();
  m_codec->put_key(to, m_codec->primary(), record);
  return to.bytes();
}

/* All secondary entries of a record, appended to m_write.entries; their places to `images`. */
void ha_sluice::put_entries(const uchar *record, slc_bytes clustered, std::vector<EntryImage> &images)
{
  images.clear();
  for (uint i= 0; i < m_codec->secondary_count(); i++)
    images.push_back(m_codec->put_entry(m_write.entries, m_codec->server_index(i + 1), record, clustered));
}

/* Which key is in the way, for the message and for REPLACE and ON DUPLICATE KEY UPDATE. */
int ha_sluice::duplicate(slc_err error)
{
  if (error != SLC_DUPLICATE)
    return fail(error);
  m_connection->set_duplicate_key(m_codec->server_index(slc_duplicate_index()));
  if (ref_is_image() && dup_ref)
  {
    const slc_bytes key= slc_duplicate_pk();
    if (key.len && key.len <= ref_length)
      put_ref(dup_ref, key);
  }
  return HA_ERR_FOUND_DUPP_KEY;
}

/* Of the stand-in, whose UPDATE_TIME is the time of the commit. */
inline void ha_sluice::note_change(int error)
{
#ifdef SLUICE_STAND_IN
  if (error || m_change_noted || is_sequence())
    return;
  m_change_noted= true;
  m_connection->note_change(m_share->name());
#endif
}

int ha_sluice::write_row(const uchar *record)
{
  if (unlikely(is_graph()))
    return guarded([&] { return insert_node(record); });
  if (const int error= lock_graph())
    return error;
  const auto write= [&] {
    const int error= insert(record);
    note_change(error);
    return unlikely(error) ? error : certify(ha_thd(), nullptr, record);
  };
  return own_commit(guarded(write));
}

int ha_sluice::update_row(const uchar *old_record, const uchar *new_record)
{
  if (unlikely(is_graph()))
    return guarded([&] { return update_node(old_record, new_record); });
  if (const int error= finish_load())
    return error;
  if (const int error= lock_graph())
    return error;
  const auto change= [&] {
    const int error= update(old_record, new_record);
    note_change(error);
    return unlikely(error) ? error : certify(ha_thd(), old_record, new_record);
  };
  return own_commit(guarded(change));
}

int ha_sluice::delete_row(const uchar *record)
{
  if (const int error= finish_load())
    return error;
  if (const int error= lock_graph())
    return error;
  const auto change= [&] {
    const int error= remove(record);
    note_change(error);
    return unlikely(error) ? error : certify(ha_thd(), record, nullptr);
  };
  return guarded(change);
}

int ha_sluice::insert(const uchar *record)
{
  if (const int error= connect_to_write())
    return error;
  const bool may_be_numbered= table->next_number_field && record == table->record[0];
  if (may_be_numbered)
    if (const int error= update_auto_increment())
      return m_autoinc_error ? m_autoinc_error : error;
  const AutoincRaise raise= autoinc_note(record);
  const int error= insert_numbered(record);
  if (may_be_numbered && m_autoinc_rows)
    m_autoinc_rows--;
  autoinc_settle(record, raise, error);
  return error;
}

/* Its AUTO_INCREMENT number is in the record, and noted. */
int ha_sluice::insert_numbered(const uchar *record)
{
  slc_bytes clustered;
  if (m_codec->has_primary_key())
    clustered= clustered_of(m_write.new_clustered, record);
  else
  {
    const ulonglong id= slc_table_next_row_id(m_share->table());
    m_write.new_clustered.clear();
    uchar *at= m_write.new_clustered.reserve(HIDDEN_KEY_LENGTH);
    mi_int6store(at, id);
    m_write.new_clustered.end_at(at + HIDDEN_KEY_LENGTH);
    clustered= m_write.new_clustered.bytes();
  }
  complete_virtual_columns(record, true);
  m_write.row.clear();
  m_codec->put_row(m_write.row, record);
  m_write.entries.clear();
  put_entries(record, clustered, m_write.images);
  slc_entry entries[ENTRIES_ON_STACK];
  for (uint i= 0; i < m_write.images.size(); i++)
    entries[i]= entry_of(m_write.entries, m_write.images[i], i);
  const uint32_t count= static_cast<uint32_t>(m_write.images.size());
  /* A row of the past that the server writes takes no other's place, whatever the statement is. */
  const bool is_past= table->versioned() && !table->vers_end_field()->is_max();
  const int on_duplicate= !m_exclusive_on_duplicate ? SLC_ON_DUPLICATE_SHARED : is_past ? SLC_ON_DUPLICATE_EXCLUSIVE : SLC_ON_DUPLICATE_REPLACE;
  if (m_bulk_begins)
    begin_bulk();
  const slc_err error= m_load   ? slc_load_add(m_load, clustered, m_write.row.bytes(), entries, count)
                       : m_bulk ? slc_bulk_add(m_bulk, trx(), clustered, m_write.row.bytes(), entries, count)
                                : slc_row_insert(trx(), m_share->table(), clustered, m_write.row.bytes(), entries, count, on_duplicate);
  if (error)
    return m_bulk ? duplicate_in_bulk(error) : duplicate(error);
  m_clustered.clear();
  m_clustered.append(clustered);
  return 0;
}

int ha_sluice::update(const uchar *old_record, const uchar *new_record)
{
  if (const int error= connect_to_write())
    return error;
  /* The server compares only if it has read all that it writes; and what it counts as changed must
     have changed. */
  if (m_codec->same_row(old_record, new_record))
    return HA_ERR_RECORD_IS_THE_SAME;
  if (!table->found_next_number_field || new_record != table->record[0] ||
      !bitmap_is_set(table->write_set, table->found_next_number_field->field_index))
    return update_numbered(old_record, new_record);
  const AutoincRaise raise= autoinc_note(new_record);
  const int error= update_numbered(old_record, new_record);
  autoinc_settle(new_record, raise, error);
  return error;
}

int ha_sluice::update_numbered(const uchar *old_record, const uchar *new_record)
{
  const slc_bytes old_clustered= clustered_of(m_low, old_record);
  const slc_bytes new_clustered= clustered_of(m_write.new_clustered, new_record);
  complete_virtual_columns(old_record, false);
  complete_virtual_columns(new_record, true);
  m_write.row.clear();
  m_codec->put_row(m_write.row, new_record);
  m_write.entries.clear();
  const ForeignRows::Update for_children(m_connection->foreign_rows(), table, old_record, new_record);
  /* To foreign keys a row that becomes one of the past is deleted: the engine needs all entries. */
  return same_bytes(old_clustered, new_clustered) && m_codec->is_past(old_record) == m_codec->is_past(new_record)
           ? update_in_place(old_record, new_record, old_clustered)
           : update_moving(old_record, new_record, old_clustered, new_clustered);
}

int ha_sluice::update_in_place(const uchar *old_record, const uchar *new_record, slc_bytes clustered)
{
  m_write.images.clear();
  m_write.old_images.clear();
  uint ordinals[ENTRIES_ON_STACK];
  for (uint i= 0; i < m_codec->secondary_count(); i++)
  {
    const uint index= m_codec->server_index(i + 1);
    if (!m_codec->touches(index, table->write_set))
      continue;
    const EntryImage old_image= m_codec->put_entry(m_write.entries, index, old_record, clustered);
    const EntryImage new_image= m_codec->put_entry(m_write.entries, index, new_record, clustered);
    if (same_bytes(m_write.entries.bytes(old_image.key, old_image.key_length),
                   m_write.entries.bytes(new_image.key, new_image.key_length)) &&
        same_bytes(m_write.entries.bytes(old_image.value, old_image.value_length),
                   m_write.entries.bytes(new_image.value, new_image.value_length)))
      continue;
    ordinals[m_write.images.size()]= i;
    m_write.images.push_back(new_image);
    m_write.old_images.push_back(old_image);
  }
  slc_entry_change changes[ENTRIES_ON_STACK];
  for (uint i= 0; i < m_write.images.size(); i++)
  {
    const EntryImage &image= m_write.images[i];
    slc_entry_change &change= changes[i];
    change.index= ordinals[i];
    change.user_key_len= image.user_key_length;
    change.unique_check= image.unique_check;
    change.old_key= m_write.entries.bytes(m_write.old_images[i].key, m_write.old_images[i].key_length);
    change.new_key= m_write.entries.bytes(image.key, image.key_length);
    change.new_value= m_write.entries.bytes(image.value, image.value_length);
  }
  const slc_err error= slc_row_update(trx(), m_share->table(), clustered, m_write.row.bytes(), changes,
                                      static_cast<uint32_t>(m_write.images.size()), m_exclusive_on_duplicate,
                                      update_flags(old_record, new_record));
  return error ? duplicate(error) : 0;
}

uint32_t ha_sluice::update_flags(const uchar *old_record, const uchar *new_record) const
{
  const uint32_t foreign= slc_table_foreign(m_share->table());
  return (foreign & 2 && rewrites_primary_key(old_record, new_record) ? SLC_UPDATE_PK_REWRITTEN : 0) |
         (foreign & 4 && keeps_unindexed(foreign_keys(SLC_FOREIGN_OF_CHILD, m_share->name()), table, old_record, new_record, false) ? SLC_UPDATE_KEEPS_UNINDEXED : 0);
}

/* Of a parent, by an update that leaves the clustered key as it is: children follow 'a' to 'A'. */
bool ha_sluice::rewrites_primary_key(const uchar *old_record, const uchar *new_record) const
{
  if (!m_codec->has_primary_key())
    return false;
  for (const KeyPart &part : m_codec->key(m_codec->primary()).parts)
    if (!part.column.is_null(old_record) && !same_bytes(part.column.value(old_record), part.column.value(new_record)))
      return true;
  return false;
}

/* A row that a cascade makes, with its clustered key and its entries. This handler is not in the
   middle of a change of its own. */
void ha_sluice::put_made(slc_row_sink *to, const uchar *record, slc_bytes old_clustered)
{
  const slc_bytes clustered= m_codec->has_primary_key() ? clustered_of(m_write.new_clustered, record) : old_clustered;
  m_write.row.clear();
  m_codec->put_row(m_write.row, record);
  m_write.entries.clear();
  put_entries(record, clustered, m_write.images);
  slc_entry entries[ENTRIES_ON_STACK];
  for (uint i= 0; i < m_write.images.size(); i++)
    entries[i]= entry_of(m_write.entries, m_write.images[i], i);
  slc_row_sink_put(to, clustered, m_write.row.bytes(), entries, static_cast<uint32_t>(m_write.images.size()));
}

/* One that a cascade leaves, with a number of its own if the clustered key is hidden. */
void ha_sluice::put_made_past(slc_row_sink *to, const uchar *record)
{
  uchar id[HIDDEN_KEY_LENGTH];
  if (!m_codec->has_primary_key())
  {
    const ulonglong number= slc_table_next_row_id(m_share->table());
    mi_int6store(id, number);
  }
  put_made(to, record, {id, sizeof id});
}

int ha_sluice::update_moving(const uchar *old_record, const uchar *new_record, slc_bytes old_clustered,
                             slc_bytes new_clustered)
{
  put_entries(old_record, old_clustered, m_write.old_images);
  put_entries(new_record, new_clustered, m_write.images);
  slc_entry old_entries[ENTRIES_ON_STACK], new_entries[ENTRIES_ON_STACK];
  for (uint i= 0; i < m_write.images.size(); i++)
  {
    old_entries[i]= entry_of(m_write.entries, m_write.old_images[i], i);
    new_entries[i]= entry_of(m_write.entries, m_write.images[i], i);
  }
  const slc_err error= slc_row_move(trx(), m_share->table(), old_clustered, old_entries, new_clustered,
                                    m_write.row.bytes(), new_entries, static_cast<uint32_t>(m_write.images.size()),
                                    m_exclusive_on_duplicate);
  return error ? duplicate(error) : 0;
}

int ha_sluice::remove(const uchar *record)
{
  if (const int error= connect_to_write())
    return error;
  const slc_bytes clustered= clustered_of(m_write.new_clustered, record);
  complete_virtual_columns(record, false);
  m_write.entries.clear();
  put_entries(record, clustered, m_write.images);
  slc_entry entries[ENTRIES_ON_STACK];
  for (uint i= 0; i < m_write.images.size(); i++)
    entries[i]= entry_of(m_write.entries, m_write.images[i], i);
  const slc_err error= slc_row_delete(trx(), m_share->table(), clustered, entries,
                                      static_cast<uint32_t>(m_write.images.size()));
  return error ? fail(error) : 0;
}

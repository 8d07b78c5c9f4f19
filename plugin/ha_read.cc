/* Reading: scans of the table and of indexes, lookups, row references, and the server's multi-range
   read over them.

   A search key becomes the image of its parts; rows that match it are those whose key begins with
   that image. So every mode of the server is a seek to the place before these keys or after them.
   An end of a range is a bound, which the engine checks before it locks or hands out an entry. */
#include "ha_sluice.h"
#include "engine.h"
#include "errors.h"
#include <algorithm>

using namespace sluice;

static const slc_bytes NOTHING= {nullptr, 0};

static const slc_bound OPEN= {NOTHING, 0};

/* ---- the scan as the engine sees it ---- */

/* An index-only read may ask for a column of which the entry has only a prefix: a merge of
   partitions compares whole columns, and the position of a row is made from the primary key's. */
bool ha_sluice::entry_lacks_column() const
{
  for (const uint16 field : m_codec->key(active_index).cut)
    if (bitmap_is_set(table->read_set, field))
      return true;
  return false;
}

/* The server does not always ask for entries only when they have all that it reads: a plan made for
   one execution of a prepared statement may lose that on the next. Judged once per read_set. A row
   that may be changed is needed whole. */
bool ha_sluice::index_covers()
{
  if (m_lock == SLC_LOCK_EXCLUSIVE || table->vfield)
    return false;
  return m_covered.in_index(table, active_index);
}

int ha_sluice::scan_set_up()
{
  m_scan.keyread_needs_row= m_keyread && m_scan.engine_index && entry_lacks_column();
  const bool covering= m_scan.engine_index && reads_entries();
  if (likely(m_scan.is_set_up && covering == m_scan.is_covering))
    return 0;
  slc_cursor_semi_consistent(m_cursor, m_semi != SEMI_OFF && !m_scan.engine_index);
  if (const slc_err error= slc_cursor_begin(m_cursor, trx(), m_scan.engine_index, lock_of_reads(), m_policy, covering))
    return fail(error);
  if (m_key_change_policy == KEY_CHANGE_FOLLOWED && m_scan.engine_index)
    slc_cursor_follow_moved(m_cursor, key_of_moved, this);
  m_scan.is_set_up= true;
  m_scan.is_covering= covering;
  m_scan.has_bounds= false;
  return 0;
}

void ha_sluice::set_bounds(slc_bytes low, slc_bound high)
{
  if (!m_scan.has_bounds && !low.len && !high.key.len)
    return;
  slc_cursor_bounds(m_cursor, low, high);
  m_scan.has_bounds= low.len || high.key.len;
}

/* After an exact lookup the server may go on to entries beyond it (HANDLER does). */
void ha_sluice::lift_lookup_bounds()
{
  if (m_scan.bounds_are_of_lookup)
    set_bounds(NOTHING, OPEN);
  m_scan.bounds_are_of_lookup= false;
}

int ha_sluice::seek(uchar *record, uint mode, slc_bytes key, Direction direction)
{
  m_scan.place= ScanState::AT_ENTRY;
  return deliver(record, slc_cursor_seek(m_cursor, mode, key, &m_scan.found), direction);
}

int ha_sluice::step(uchar *record, Direction direction)
{
  if (unlikely(!m_scan.is_set_up))         // another statement began it (HANDLER)
  {
    if (const slc_err error= slc_cursor_go_on(m_cursor, trx(), lock_of_reads(), m_policy))
      return fail(error);
    m_scan.is_set_up= true;
  }
  return deliver(record, direction == FORWARD ? slc_cursor_next(m_cursor, &m_scan.found) : slc_cursor_prev(m_cursor, &m_scan.found),
                 direction);
}

/* The scan is not at an entry: HANDLER goes on after a lookup that found nothing, and turns round
   at an end. */
int ha_sluice::step_from_place(uchar *record, Direction direction)
{
  const bool forward= direction == FORWARD;
  if (m_scan.place == (forward ? ScanState::AT_END : ScanState::AT_START))
    return HA_ERR_END_OF_FILE;
  if (const int error= scan_set_up())
    return error;
  lift_lookup_bounds();
  const slc_bytes key= m_scan.key.bytes();
  switch (m_scan.place)
  {
  case ScanState::AT_KEY:
    return forward ? seek(record, SLC_SEEK_GT, key, FORWARD) : seek(record, SLC_SEEK_LT, key, BACKWARD);
  case ScanState::BEFORE_KEY:
    return forward ? seek(record, SLC_SEEK_GE, key, FORWARD) : seek(record, SLC_SEEK_LT, key, BACKWARD);
  case ScanState::AFTER_KEY:
    return forward ? seek(record, SLC_SEEK_AFTER_PREFIX, key, FORWARD) : seek(record, SLC_SEEK_PREFIX_OR_BEFORE, key, BACKWARD);
  default:
    return seek(record, forward ? SLC_SEEK_FIRST : SLC_SEEK_LAST, NOTHING, direction);
  }
}

/* From an entry found to a row in the record, past those that a pushed condition, a filter or a
   lock rules out. */
int ha_sluice::deliver(uchar *record, slc_err error, Direction direction)
{
  for (;; error= direction == FORWARD ? slc_cursor_next(m_cursor, &m_scan.found) : slc_cursor_prev(m_cursor, &m_scan.found))
  {
    if (unlikely(error != SLC_OK))
    {
      if (error == SLC_LOCKED && m_policy == SLC_SKIP_LOCKED)
        continue;
      if (error == SLC_END)
        m_scan.place= direction == FORWARD ? ScanState::AT_END : ScanState::AT_START;
      return fail(error);
    }
    m_clustered.clear();
    m_clustered.append(m_scan.found.pk);
    if (m_semi == SEMI_TRY && slc_cursor_was_semi_consistent(m_cursor))
      m_semi= SEMI_DID;
    if (!m_scan.is_covering)
    {
      const int error= read_row(record, m_scan.found.pk, m_scan.found.row);
      if (!error && wants_virtual_columns(record))
        add_virtual_columns(record, m_scan.found.pk, m_scan.row_bytes);
      return error;
    }
    const int result= check_entry(record);
    if (result != NO_MATCH)
      return result;
    unlock_row();
  }
}

/* The engine keeps to the range, so the server's functions are not to: they would compare columns
   of which the entry has only a part with the range's end. */
check_result_t ha_sluice::check_conditions()
{
  key_range *const end= end_range;
  end_range= nullptr;
  check_result_t result= pushed_idx_cond_here() ? handler_index_cond_check(this) : CHECK_POS;
  if (result == CHECK_POS && filter_here())
    result= handler_rowid_filter_check(this);
  end_range= end;
  return result;
}

/* The entry at hand against the pushed condition and filter; then its row, unless the entry is all
   that is wanted. */
int ha_sluice::check_entry(uchar *record)
{
  const bool is_entry= m_scan.found.flags & SLC_ENTRY_COVERING;
  if (is_entry)
  {
    if (!m_codec->get_entry(active_index, record, m_scan.found.key, m_scan.found.pk, m_scan.found.row))
      return bad_row(shown_name().c_str());
  }
  else if (const int error= read_row(record, m_scan.found.pk, m_scan.found.row))
    return error;
  else
    add_virtual_columns(record, m_scan.found.pk, m_scan.row_bytes);
  switch (check_conditions())
  {
  case CHECK_POS: break;
  case CHECK_NEG: return NO_MATCH;
  case CHECK_OUT_OF_RANGE: return HA_ERR_END_OF_FILE;
  case CHECK_ABORTED_BY_USER: return HA_ERR_ABORTED_BY_USER;
  default: return HA_ERR_GENERIC;
  }
  if (!is_entry || wants_entry())
    return 0;
  slc_found row;
  const slc_err error= slc_row_get(m_cursor, trx(), m_clustered.bytes(), lock_of_reads(), m_policy, &row);
  if (error == SLC_NOT_FOUND || (error == SLC_LOCKED && m_policy == SLC_SKIP_LOCKED))
    return NO_MATCH;
  if (error)
    return fail(error);
  const int read_error= read_row(record, m_clustered.bytes(), row.row);
  if (!read_error && wants_virtual_columns(record))
    add_virtual_columns(record, m_clustered.bytes(), m_scan.row_bytes);
  return read_error;
}

/* Plans are kept by the codec, which now and then throws them all away to make a new one: the one
   at hand is then found again. */
const DecodePlan *ha_sluice::plan_of_whole_rows()
{
  m_plan= nullptr;
  return m_codec->plan(m_codec->stored());
}

/* A row that may be changed is needed whole: the new one is built from it. The server may sort the
   positions of an index-only scan, and then read their rows. It computes the index's virtual columns
   from those, and does not ask for the columns that it computes from. */
const MY_BITMAP *ha_sluice::columns_read() const
{
  const bool is_whole= m_lock == SLC_LOCK_EXCLUSIVE || (m_scan.of_positions && !m_codec->indexed_virtual_columns().empty());
  return is_whole ? m_codec->stored() : table->read_set;
}

const DecodePlan *ha_sluice::plan()
{
  const MY_BITMAP *wanted= columns_read();
  if (unlikely(!m_plan || m_plan->read_set.front() != wanted->bitmap[0] ||
               (m_plan->read_set.size() > 1 && memcmp(m_plan->read_set.data(), wanted->bitmap,
                                                      m_plan->read_set.size() * sizeof(my_bitmap_map)))))
    m_plan= m_codec->plan(wanted);
  return m_plan;
}

int ha_sluice::read_row(uchar *record, slc_bytes clustered, slc_bytes stored)
{
  const slc_bytes row= Codec::plain_row(stored, m_plain_row);
  if (unlikely(!m_codec->get_row(plan(), record, clustered, row)))
    return bad_row(shown_name().c_str(), m_codec->unknown_definition(stored));
  m_scan.record= record;
  m_scan.row_bytes= row;
  return 0;
}

/* The engine's bytes go away with the scan, but the server may use its last row for the rest of the
   statement. */
void ha_sluice::keep_blobs()
{
  if (!m_scan.row_bytes.len || !m_codec->has_blobs() || !m_scan.record)
    return;
  auto is_in_row= [&](const slc_bytes &value)
  { return value.len && value.ptr >= m_scan.row_bytes.ptr && value.ptr < m_scan.row_bytes.ptr + m_scan.row_bytes.len; };
  size_t size= 0;
  for (const Column &column : m_codec->blobs())
  {
    const slc_bytes value= column.value(m_scan.record);
    if (bitmap_is_set(columns_read(), column.field) && !column.is_null(m_scan.record) && is_in_row(value))
      size+= value.len;
  }
  if (!size)
    return;
  m_kept_blobs.clear();
  m_kept_blobs.reserve(size);
  for (const Column &column : m_codec->blobs())
  {
    const slc_bytes value= column.value(m_scan.record);
    if (!bitmap_is_set(columns_read(), column.field) || column.is_null(m_scan.record) || !is_in_row(value))
      continue;
    const uchar *kept= m_kept_blobs.data() + m_kept_blobs.length();
    m_kept_blobs.append(value);
    memcpy(m_scan.record + column.offset + column.length_bytes, &kept, sizeof kept);
  }
}

/* ---- the whole table, in the order of the clustered key ---- */

int ha_sluice::rnd_init(bool scan)
{
  connect(false);
  if (unlikely(is_graph()))
    begin_graph_read();
  m_scan.begin(0, true);
  m_scan.of_positions= !scan;
  if (!scan)
    return lock_graph_of_search();
  if (const int error= before_copy())
    return error;
  return scan_set_up();
}

int ha_sluice::rnd_end() { return index_end(); }

int ha_sluice::rnd_next(uchar *record)
{
  if (m_scan.at_start)
  {
    m_scan.at_start= false;
    if (const int error= scan_set_up())
      return error;
    return seek(record, SLC_SEEK_FIRST, NOTHING, FORWARD);
  }
  return index_next(record);
}

int ha_sluice::rnd_pos(uchar *record, uchar *position)
{
  put_clustered(m_clustered, position);
  if (unlikely(is_graph()))
    return read_node(record);
  if (unlikely(searches_graph(table)))
    return found_by_graph(record);
  const int error= point_read(record);
  /* As columns_read(): nor does the server compute what they are computed from. */
  if (!error && unlikely(m_codec->has_nested_virtual()))
    compute_indexed_virtual_columns(record);
  return error == HA_ERR_END_OF_FILE ? HA_ERR_KEY_NOT_FOUND : error;
}

/* The row whose clustered key is in m_clustered. */
int ha_sluice::point_read(uchar *record)
{
  slc_found row;
  const slc_err error= slc_row_get(m_cursor, trx(), m_clustered.bytes(), lock_of_reads(), m_policy, &row);
  if (error == SLC_LOCKED && m_policy == SLC_SKIP_LOCKED)
    return HA_ERR_KEY_NOT_FOUND;
  return error ? fail(error) : read_row(record, m_clustered.bytes(), row.row);
}

/* True: the last row was shown in its committed version although another transaction has locked it,
   and the server wants the row. So the row is locked, with a wait, and read again; *result is the
   result. False: the scan continues with the next row, also if the row is gone by now. */
bool ha_sluice::rereads_locked(uchar *record, int *result)
{
  if (likely(m_semi != SEMI_DID))
    return false;
  m_semi= SEMI_TRY;
  *result= point_read(record);
  return *result != HA_ERR_KEY_NOT_FOUND;
}

/* ---- indexes ---- */

int ha_sluice::index_init(uint index, bool)
{
  connect(false);
  if (unlikely(is_graph()))
    begin_graph_read();
  active_index= index;
  m_scan.begin(m_codec->engine_index(index), false);
  return 0;
}

int ha_sluice::index_end()
{
  const int error= guarded([&] { keep_blobs(); return 0; });
  m_scan.is_set_up= false;
  if (m_cursor)
    slc_cursor_reset(m_cursor);
  m_scan.row_bytes= NOTHING;
  m_ds_mrr.dsmrr_close();
  m_ranges_begun= false;
  own_end();
  return error;
}

/* A whole primary key names one row. Where ranges are locked, the scan must see that there is
   none. */
bool ha_sluice::wants_point_read(uint index, key_part_map parts) const
{
  return index == m_codec->primary() && (m_lock == SLC_LOCK_NONE || m_connection->isolation() != SLC_ISO_SERIALIZABLE) &&
         parts >= (key_part_map(1) << m_codec->key(index).parts.size()) - 1;
}

int ha_sluice::index_read_map(uchar *record, const uchar *key, key_part_map parts, enum ha_rkey_function mode)
{
  if (!key)
    return index_first(record);
  m_scan.key.clear();
  m_codec->put_search_key(m_scan.key, active_index, key, calculate_key_len(table, active_index, key, parts));
  const slc_bytes image= m_scan.key.bytes();
  if (mode == HA_READ_KEY_EXACT && wants_point_read(active_index, parts))
  {
    m_clustered.clear();
    m_clustered.append(image);
    m_scan.place= ScanState::AT_KEY;
    return point_read(record);
  }
  if (const int error= scan_set_up())
    return error;
  m_scan.bounds_are_of_lookup= mode == HA_READ_KEY_EXACT || mode == HA_READ_PREFIX || mode == HA_READ_PREFIX_LAST;
  if (m_scan.bounds_are_of_lookup)
    set_bounds(image, {image, 1});
  else
    set_bounds(NOTHING, range_end());
  int error;
  switch (mode)
  {
  case HA_READ_KEY_EXACT:
  case HA_READ_PREFIX:
  case HA_READ_KEY_OR_NEXT:
    error= seek(record, SLC_SEEK_GE, image, FORWARD);
    break;
  case HA_READ_AFTER_KEY:
    error= seek(record, SLC_SEEK_AFTER_PREFIX, image, FORWARD);
    break;
  case HA_READ_BEFORE_KEY:
    error= seek(record, SLC_SEEK_LT, image, BACKWARD);
    break;
  case HA_READ_KEY_OR_PREV:
  case HA_READ_PREFIX_LAST:
  case HA_READ_PREFIX_LAST_OR_PREV:
    error= seek(record, SLC_SEEK_PREFIX_OR_BEFORE, image, BACKWARD);
    break;
  default:
    return HA_ERR_WRONG_COMMAND;
  }
  if (error != HA_ERR_END_OF_FILE)
    return error;
  if (m_scan.bounds_are_of_lookup)
    m_scan.place= ScanState::BEFORE_KEY;                // it came to the end of the bounds
  return HA_ERR_KEY_NOT_FOUND;
}

int ha_sluice::index_read_last_map(uchar *record, const uchar *key, key_part_map parts)
{
  return index_read_map(record, key, parts, HA_READ_PREFIX_LAST);
}

int ha_sluice::index_next(uchar *record)
{
  int result;
  if (rereads_locked(record, &result))
    return result;
  if (unlikely(m_scan.place != ScanState::AT_ENTRY))
    return step_from_place(record, FORWARD);
  lift_lookup_bounds();
  return step(record, FORWARD);
}

int ha_sluice::index_prev(uchar *record)
{
  int result;
  if (rereads_locked(record, &result))
    return result;
  if (unlikely(m_scan.place != ScanState::AT_ENTRY))
    return step_from_place(record, BACKWARD);
  lift_lookup_bounds();
  return step(record, BACKWARD);
}

int ha_sluice::index_next_same(uchar *record, const uchar *key, uint key_length)
{
  if (m_scan.place != ScanState::AT_ENTRY)
    return HA_ERR_END_OF_FILE;
  if (!m_scan.bounds_are_of_lookup)
    return handler::index_next_same(record, key, key_length);
  int result;
  if (rereads_locked(record, &result))
    return result;
  const int error= step(record, FORWARD);
  if (error == HA_ERR_END_OF_FILE && m_scan.place == ScanState::AT_END)
    m_scan.place= ScanState::AFTER_KEY;                 // of the bounds
  return error;
}

int ha_sluice::index_first(uchar *record)
{
  if (const int error= scan_set_up())
    return error;
  m_scan.bounds_are_of_lookup= false;
  set_bounds(NOTHING, range_end());
  return seek(record, SLC_SEEK_FIRST, NOTHING, FORWARD);
}

int ha_sluice::index_last(uchar *record)
{
  if (const int error= scan_set_up())
    return error;
  m_scan.bounds_are_of_lookup= false;
  set_bounds(NOTHING, OPEN);
  return seek(record, SLC_SEEK_LAST, NOTHING, BACKWARD);
}

/* The server's own loop, but the engine knows where the range ends: it neither reads nor locks
   entries after that. */
int ha_sluice::read_range_first(const key_range *start, const key_range *end, bool equal, bool sorted)
{
  m_scan.range_end= end;
  m_scan.engine_ends_range= false;
  const int error= handler::read_range_first(start, end, equal, sorted);
  m_scan.range_end= nullptr;
  return error;
}

/* The server would compare each row with the range's end once more. */
int ha_sluice::read_range_next()
{
  return m_scan.engine_ends_range && !eq_range ? ha_index_next(table->record[0]) : handler::read_range_next();
}

/* Whether the image of a range's end says all that the server's own comparison would: so it is with
   integers of the index itself. */
bool ha_sluice::is_exact_end(const key_range &end) const
{
  const std::vector<KeyPart> &parts= m_codec->key(active_index).parts;
  for (size_t i= 0; i < parts.size(); i++)
  {
    if (!(end.keypart_map >> i))
      return true;
    if (parts[i].column.kind > Kind::SIGNED || parts[i].descending)
      return false;
  }
  return !(end.keypart_map >> parts.size());
}

/* Where the range being opened ends; OPEN if it has no end. The key is in m_scan.high. */
slc_bound ha_sluice::range_end()
{
  if (!m_scan.range_end)
    return OPEN;
  m_scan.engine_ends_range= is_exact_end(*m_scan.range_end);
  m_scan.high.clear();
  m_codec->put_search_key(m_scan.high, active_index, m_scan.range_end->key,
                          calculate_key_len(table, active_index, m_scan.range_end->key, m_scan.range_end->keypart_map));
  return {m_scan.high.bytes(), m_scan.range_end->flag == HA_READ_AFTER_KEY};
}

Item *ha_sluice::idx_cond_push(uint index, Item *condition)
{
  pushed_idx_cond= condition;
  pushed_idx_cond_keyno= index;
  in_range_check_pushed_down= true;
  return nullptr;
}

bool ha_sluice::rowid_filter_push(Rowid_filter *filter)
{
  pushed_rowid_filter= filter;
  return false;
}

/* ---- multi-range read ---- */

/* The buffer of a partition is not its own. When the last index that the server weighed asked for
   none, all partitions get the same buffer. Each partition fills it with references to its rows
   before any of them reads them. It may also be a buffer of an earlier statement. So only its size
   is taken, up to what the user allows. */
int ha_sluice::multi_range_read_init(RANGE_SEQ_IF *seq, void *init, uint ranges, uint mode, HANDLER_BUFFER *buffer)
{
  const bool is_own= !table->part_info || mode & (HA_MRR_USE_DEFAULT_IMPL | HA_MRR_SORTED);
  const int error= guarded(
      [&]
      {
        /* Changed keys cannot be followed from range to range: a row may move from a later range
           into one that was read already. */
        if (ranges > 1 && m_key_change_policy == KEY_CHANGE_FOLLOWED)
        {
          m_key_change_policy= KEY_CHANGE_LOCKS_GAPS;
          m_scan.is_set_up= false;
        }
        if (likely(is_own))
          return m_ds_mrr.dsmrr_init(this, seq, init, ranges, mode, buffer);
        const size_t size= std::min<size_t>(buffer->buffer_end - buffer->buffer, table->in_use->variables.mrr_buff_size);
        uchar *const own= m_range_buffer.reserve(size);
        HANDLER_BUFFER of_partition= {own, own + size, own};
        return m_ds_mrr.dsmrr_init(this, seq, init, ranges, mode, &of_partition);
      });
  m_ranges_begun= !error;
  return error;
}

/* The server asks partitions for rows without a beginning when a join by keys in batches has no key
   for any of them. */
int ha_sluice::multi_range_read_next(range_id_t *range)
{
  if (unlikely(!m_ranges_begun))
    return HA_ERR_END_OF_FILE;
  const int error= m_ds_mrr.dsmrr_next(range);
  if (likely(error || !table->part_info))
    return error;
  return guarded([this] { return keep_virtual_blobs(), 0; });
}

ha_rows ha_sluice::multi_range_read_info_const(SLUICE_MRR_INFO_CONST_ARGUMENTS)
{
  m_ds_mrr.init(this, table);
  return m_ds_mrr.dsmrr_info_const(index, seq, init, ranges, buffer_size, flags, SLUICE_MRR_LIMIT cost);
}

ha_rows ha_sluice::multi_range_read_info(uint index, uint ranges, uint keys, uint key_parts, uint *buffer_size,
                                         uint *flags, Cost_estimate *cost)
{
  m_ds_mrr.init(this, table);
  return m_ds_mrr.dsmrr_info(index, ranges, keys, key_parts, buffer_size, flags, cost);
}

int ha_sluice::multi_range_read_explain_info(uint mode, char *text, size_t size)
{
  return m_ds_mrr.dsmrr_explain_info(mode, text, size);
}

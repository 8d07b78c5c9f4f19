/* Rows: encoding a record, and decoding the columns that a read_set asks for. Format: codec.h.

   A plan is made once per read_set and kept: fixed columns become a few memcpy, the sized ones a
   walk that stops at the last wanted one. Every length that comes from a row is checked against the
   row's end. */
#include "codec.h"
#include "column_value.h"
#include "settings.h"
#include <zlib.h>

namespace sluice {

namespace {

constexpr size_t PLANS_MAX= 64;

/* Of a row's number. */
constexpr uint16 PAST_BIT= 0x4000;

/* A compressed row: the number of its definition with this bit, four bytes with the length of the
   row, and the row as zlib compresses it. */
constexpr uchar COMPRESSED_BIT= 0x80;   // of the second byte
constexpr size_t COMPRESSED_HEAD_BYTES= 6;

bool is_compressed(slc_bytes row) { return row.len >= COMPRESSED_HEAD_BYTES && row.ptr[1] & COMPRESSED_BIT; }

#ifdef SLUICE_STAND_IN
constexpr size_t WORTH_COMPRESSING_BYTES= 64, PLAIN_BYTES_MAX= UINT_MAX32;

/* Replaces the row that begins at `from` by its compressed form, if that is shorter. */
void compress_row(Buffer &to, size_t from, int level)
{
  const size_t length= to.length() - from;
  if (length < WORTH_COMPRESSING_BYTES || length > PLAIN_BYTES_MAX)
    return;
  std::vector<uchar> packed(length);
  uLongf packed_length= length - COMPRESSED_HEAD_BYTES - 1;
  if (compress2(packed.data(), &packed_length, to.data() + from, length, level) != Z_OK)
    return;                             // it would not be shorter
  const uint16 definition= uint2korr(to.data() + from);
  to.cut(from);
  uchar *at= to.reserve(COMPRESSED_HEAD_BYTES + packed_length);
  int2store(at, definition);
  at[1]|= COMPRESSED_BIT;
  int4store(at + 2, static_cast<uint32>(length));
  memcpy(at + COMPRESSED_HEAD_BYTES, packed.data(), packed_length);
  to.end_at(at + COMPRESSED_HEAD_BYTES + packed_length);
}
#endif

} // namespace

slc_bytes Codec::plain_row(slc_bytes row, Buffer &to)
{
  if (likely(!is_compressed(row)))
    return row;
  uLongf length= uint4korr(row.ptr + 2);
  const size_t wanted= length;
  to.clear();
  uchar *const at= to.reserve(wanted);
  if (uncompress(at, &length, row.ptr + COMPRESSED_HEAD_BYTES, row.len - COMPRESSED_HEAD_BYTES) != Z_OK || length != wanted)
    return {nullptr, 0};
  to.end_at(at + wanted);
  return to.bytes();
}

bool set_to_null(const Column &column, uchar *record)
{
  if (!column.null_bit)
    return false;
  record[column.null_offset]|= column.null_bit;
  put_nothing(column, record);
  return true;
}

bool copy_value(const Column &from, const uchar *from_record, const Column &to, uchar *to_record)
{
  if (from.is_null(from_record))
    return set_to_null(to, to_record);
  const slc_bytes value= from.value(from_record);
  /* A VARBINARY's value fits a BINARY if it has as many bytes. */
  if (to.is_fixed() ? value.len != to.length || (from.is_fixed() && from.kind != to.kind) : value.len > to.length)
    return false;
  if (!to.is_fixed() && to.charset->mbmaxlen > 1)
  {
    const char *const text= reinterpret_cast<const char *>(value.ptr);
    if (to.charset->numchars(text, text + value.len) > to.length / to.charset->mbmaxlen)
      return false;
  }
  if (to.null_bit)
    to_record[to.null_offset]&= static_cast<uchar>(~to.null_bit);
  if (to.is_fixed())
    memcpy(to_record + to.offset, value.ptr, to.length);
  else
    put_sized(to, to_record, value.ptr, value.len);
  return true;
}

void Codec::put_columns(Buffer &to, const uchar *record) const
{
  for (const Column &column : m_stored_columns)
  {
    uchar *at= to.reserve(5);
    const bool is_null= column.is_null(record);
    const slc_bytes value= is_null ? slc_bytes{nullptr, 0} : column.value(record);
    *at= is_null;
    int4store(at + 1, static_cast<uint32>(value.len));
    to.end_at(at + 5);
    to.append(value);
  }
}


void Codec::put_row(Buffer &to, const uchar *record) const
{
  size_t size= m_fixed_end + m_sized_max;
  for (const Column &column : m_blobs)
    if (!column.is_null(record))
      size+= column.length_bytes + column.value(record).len;
#ifdef SLUICE_STAND_IN
  const size_t from= to.length();
#endif
  uchar *at= to.reserve(size);
  int2store(at, m_row_definition | (unlikely(m_past_bit) && is_past(record) ? m_past_bit : 0));
  copy_few(at + 2, record, m_null_bytes);
  at+= 2 + m_null_bytes;
  for (const DecodePlan::Copy &copy : m_fixed)
  {
    copy_few(at, record + copy.to, copy.length);
    at+= copy.length;
  }
  for (const Column &column : m_sized)
  {
    if (column.is_null(record))
      continue;
    const slc_bytes value= column.value(record);
    *at++= static_cast<uchar>(value.len);
    if (length_bytes_for(column.length) == 2)
      *at++= static_cast<uchar>(value.len >> 8);
    memcpy(at, value.ptr, value.len);
    at+= value.len;
  }
  for (const Column &column : m_blobs)
  {
    if (column.is_null(record))
      continue;
    const slc_bytes value= column.value(record);
    for (uint i= 0; i < column.length_bytes; i++)
      *at++= static_cast<uchar>(value.len >> (8 * i));
    if (value.len)
      memcpy(at, value.ptr, value.len);
    at+= value.len;
  }
  to.end_at(at);
#ifdef SLUICE_STAND_IN
  if (unlikely(m_compresses))
    compress_row(to, from, compression_level());
#endif
}

void Codec::set_marks_past(bool marks)
{
  m_past_bit= marks && m_table->versioned() ? PAST_BIT : 0;
  if (!m_past_bit)
    return;
  Field *const end= m_table->vers_end_field();
  const Column column= column_of(m_table, end);
  m_row_end= column.offset;
  uchar *const at= m_table->record[0] + m_row_end;
  const std::string kept(reinterpret_cast<const char *>(at), column.length);
  MY_BITMAP *const set= dbug_tmp_use_all_columns(m_table, &m_table->write_set);
  end->set_max();
  dbug_tmp_restore_column_map(&m_table->write_set, set);
  m_row_end_max.assign(reinterpret_cast<const char *>(at), column.length);
  memcpy(at, kept.data(), kept.size());
}

bool Codec::same_row(const uchar *left, const uchar *right) const
{
  for (const Column &column : m_stored_columns)
  {
    const bool is_null= column.is_null(left);
    if (is_null != column.is_null(right))
      return false;
    if (is_null)
      continue;
    const slc_bytes a= column.value(left), b= column.value(right);
    if (a.len != b.len || (a.ptr != b.ptr && a.len && memcmp(a.ptr, b.ptr, a.len)))
      return false;
  }
  return true;
}

const DecodePlan *Codec::plan(const MY_BITMAP *read_set)
{
  const size_t words= no_words_in_map(read_set);
  for (const auto &plan : m_plans)
    if (!memcmp(plan->read_set.data(), read_set->bitmap, words * sizeof(my_bitmap_map)))
      return plan.get();
  if (m_plans.size() >= PLANS_MAX)
    m_plans.clear();
  auto plan= std::make_unique<DecodePlan>();
  plan->read_set.assign(read_set->bitmap, read_set->bitmap + words);
  for (const auto &[column, offset] : m_fixed_columns)
  {
    if (!bitmap_is_set(read_set, column.field))
      continue;
    if (!plan->fixed.empty())
    {
      DecodePlan::Copy &last= plan->fixed.back();
      if (last.from + last.length == offset && last.to + last.length == column.offset)
      {
        last.length+= column.length;
        continue;
      }
    }
    plan->fixed.push_back({offset, column.offset, column.length});
  }
  auto wanted= [&](const std::vector<Column> &columns, std::vector<uchar> &to)
  {
    for (size_t i= 0; i < columns.size(); i++)
      if (bitmap_is_set(read_set, columns[i].field))
      {
        to.resize(i + 1);
        to[i]= 1;
      }
  };
  wanted(m_sized, plan->sized_wanted);
  wanted(m_blobs, plan->blob_wanted);
  if (!plan->blob_wanted.empty())
    plan->sized_wanted.resize(m_sized.size());
  for (const KeyedColumn &column : m_keyed)
    if (bitmap_is_set(read_set, column.part->column.field))
      plan->keyed.push_back(column);
  for (Field **field= m_table->vfield; field && *field; field++)
  {
    const Column column= column_of(m_table, *field);
    if (!column.null_bit || ((*field)->stored_in_db() && bitmap_is_set(read_set, column.field)))
      continue;
    const uchar byte= m_table->s->default_values[column.null_offset];
    plan->unread_nulls.push_back({column.null_offset, column.null_bit, static_cast<uchar>(byte & column.null_bit)});
  }
  m_plans.push_back(std::move(plan));
  return m_plans.back().get();
}

bool Codec::get_row(const DecodePlan *plan, uchar *record, slc_bytes clustered, slc_bytes stored) const
{
  const slc_bytes row= plain_row(stored, m_plain_row);
  if (unlikely(row.len < m_fixed_end || (uint2korr(row.ptr) & ~m_past_bit) != m_row_definition ||
               (m_clustered_fixed && clustered.len != m_clustered_fixed)))
    return get_old_row(plan, record, clustered, row);
  copy_few(record, row.ptr + 2, m_null_bytes);
  get_clustered(record, clustered, plan->keyed);
  for (const DecodePlan::Copy &copy : plan->fixed)
    copy_few(record + copy.to, row.ptr + copy.from, copy.length);
  const uchar *at= row.ptr + m_fixed_end, *end= row.ptr + row.len;
  for (size_t i= 0; i < plan->sized_wanted.size(); i++)
  {
    const Column &column= m_sized[i];
    if (column.is_null(record))
    {
      if (plan->sized_wanted[i])
        put_nothing(column, record);
      continue;
    }
    const uint bytes= length_bytes_for(column.length);
    if (unlikely(static_cast<size_t>(end - at) < bytes))
      return false;
    const size_t length= load_length(at, bytes);
    at+= bytes;
    if (unlikely(static_cast<size_t>(end - at) < length || length > column.length))
      return false;
    if (plan->sized_wanted[i])
      put_sized(column, record, at, length);
    at+= length;
  }
  for (size_t i= 0; i < plan->blob_wanted.size(); i++)
  {
    const Column &column= m_blobs[i];
    uchar *to= record + column.offset;
    if (column.is_null(record))
    {
      if (plan->blob_wanted[i])
        memset(to, 0, column.length_bytes + sizeof at);
      continue;
    }
    if (unlikely(static_cast<size_t>(end - at) < column.length_bytes))
      return false;
    const size_t length= load_length(at, column.length_bytes);
    const uchar *data= at + column.length_bytes;
    if (unlikely(static_cast<size_t>(end - data) < length))
      return false;
    if (plan->blob_wanted[i])
    {
      memcpy(to, at, column.length_bytes);
      memcpy(to + column.length_bytes, &data, sizeof data);
    }
    at= data + length;
  }
  put_unread_nulls(plan, record);
  return true;
}

/* CHECKSUM TABLE takes all these bits in, whether it reads the column or not. They are as in
   InnoDB's records. */
void Codec::put_unread_nulls(const DecodePlan *plan, uchar *record)
{
  for (const DecodePlan::NullBits &nulls : plan->unread_nulls)
    record[nulls.offset]= static_cast<uchar>((record[nulls.offset] & ~nulls.mask) | nulls.bits);
}

} // namespace sluice

/* Key images and index entries: from records and from the server's key tuples, and back. Formats:
   codec.h. */
#include "codec.h"

namespace sluice {

namespace {

/* Length of a CHAR value without its pad, for charsets in which a space is one byte. */
inline size_t without_pad(const uchar *from, size_t length)
{
  while (length >= 8)
  {
    uint64 word;
    memcpy(&word, from + length - 8, 8);
    if (word != 0x2020202020202020ULL)
      break;
    length-= 8;
  }
  while (length && from[length - 1] == ' ')
    length--;
  return length;
}

/* Bytes in the opposite order: the machine has an instruction for the usual lengths. */
inline void put_reversed(uchar *to, const uchar *from, uint length)
{
  if (length == 4)
  {
    uint32 word;
    memcpy(&word, from, 4);
    word= __builtin_bswap32(word);
    memcpy(to, &word, 4);
  }
  else if (length == 8)
  {
    uint64 word;
    memcpy(&word, from, 8);
    word= __builtin_bswap64(word);
    memcpy(to, &word, 8);
  }
  else
    for (uint i= 0; i < length; i++)
      to[i]= from[length - 1 - i];
}

inline void invert(uchar *from, const uchar *end)
{
  for (; from < end; from++)
    *from= ~*from;
}

inline uchar *put_integer(uchar *to, const uchar *from, uint length, bool is_signed)
{
  put_reversed(to, from, length);
  if (is_signed)
    to[0]^= 0x80;
  return to + length;
}

/* A part's value (without its null byte) back into a record. */
void get_fixed(const KeyPart &part, uchar *record, const uchar *image)
{
  uchar *to= record + part.column.offset;
  const uint length= part.column.length;
  if (part.column.kind == Kind::BYTES)
    memcpy(to, image, length);
  else
    put_reversed(to, image, length);
  if (part.descending)
    invert(to, to + length);
  if (part.column.kind == Kind::SIGNED)
    to[length - 1]^= 0x80;
}

inline void set_null(const Column &column, uchar *record, bool is_null)
{
  if (!column.null_bit)
    return;
  if (is_null)
    record[column.null_offset]|= column.null_bit;
  else
    record[column.null_offset]&= ~column.null_bit;
}

} // namespace

slc_bytes Column::value(const uchar *record) const
{
  const uchar *at= record + offset;
  switch (kind)
  {
  case Kind::CHARS:
    return {at, charset->mbminlen == 1 ? without_pad(at, length)
                                       : charset->lengthsp(reinterpret_cast<const char *>(at), length)};
  case Kind::VARCHARS:
    return {at + length_bytes, static_cast<size_t>(length_bytes == 1 ? *at : uint2korr(at))};
  case Kind::BLOBS:
  {
    size_t size= 0;
    for (uint i= length_bytes; i-- > 0;)
      size= size << 8 | at[i];
    const uchar *data;
    memcpy(&data, at + length_bytes, sizeof data);
    return {data, data ? size : 0};
  }
  default:
    return {at, length};
  }
}

uchar *Codec::put_fixed(uchar *to, const KeyPart &part, const uchar *value) const
{
  const uint length= part.image_length_max - part.nullable;
  switch (part.column.kind)
  {
  case Kind::UNSIGNED:
    return put_integer(to, value, length, false);
  case Kind::SIGNED:
    return put_integer(to, value, length, true);
  case Kind::BYTES:
    memcpy(to, value, length);
    return to + length;
  default:
  {
    Field *field= m_table->field[part.column.field];
    uchar *saved= field->ptr;
    field->ptr= const_cast<uchar *>(value);
    field->sort_string(to, length);
    field->ptr= saved;
    return to + length;
  }
  }
}

static uchar *put_string(uchar *to, const KeyPart &part, slc_bytes value)
{
  if (part.prefix_chars)
  {
    const size_t cut= part.column.charset->charpos(value.ptr, value.ptr + value.len, part.prefix_chars);
    if (cut < value.len)
      value.len= cut;
  }
  return part.string.encode(to, value.ptr, value.len);
}

uchar *Codec::put_part(uchar *to, const KeyPart &part, const uchar *record) const
{
  uchar *begin= to;
  if (part.nullable)
  {
    const bool is_null= part.column.is_null(record);
    *to++= is_null ? 0 : 1;
    if (is_null)
    {
      if (part.descending)
        invert(begin, to);
      return to;
    }
  }
  to= part.column.is_fixed() ? put_fixed(to, part, record + part.column.offset)
                             : put_string(to, part, part.column.value(record));
  if (part.descending)
    invert(begin, to);
  return to;
}

/* The same from a key tuple: null byte (1 = NULL), then fixed bytes, or a length of two bytes and
   data. */
uchar *Codec::put_part_tuple(uchar *to, const KeyPart &part, const uchar *tuple) const
{
  uchar *begin= to;
  if (part.nullable)
  {
    const bool is_null= *tuple++ != 0;
    *to++= is_null ? 0 : 1;
    if (is_null)
    {
      if (part.descending)
        invert(begin, to);
      return to;
    }
  }
  if (part.column.is_fixed())
    to= put_fixed(to, part, tuple);
  else if (part.column.kind == Kind::CHARS)
  {
    const size_t length= part.string.without_filling(tuple, part.length);
    to= likely(length == part.length) ? put_string(to, part, {tuple, part.length}) : part.string.encode_bare(to, tuple, length);
  }
  else
    to= put_string(to, part, {tuple + HA_KEY_BLOB_LENGTH, uint2korr(tuple)});
  if (part.descending)
    invert(begin, to);
  return to;
}

void Codec::put_image(Buffer &to, KeyPart part, const uchar *record) const
{
  part.image_length_max-= part.nullable;
  part.nullable= false;
  to.end_at(put_part(to.reserve(part.image_length_max), part, record));
}

bool Codec::put_certified(Buffer &to, uint index, uint count, const uchar *record) const
{
  const KeyLayout &layout= m_keys[index];
  for (uint i= 0; i < count; i++)
  {
    KeyPart part= layout.parts[i];
    if (part.nullable && part.column.is_null(record))
      return false;
    part.image_length_max-= part.nullable;
    part.nullable= part.descending= false;
    if (dynamic_cast<const Field_string *>(m_table->field[part.column.field]) && part.column.kind == Kind::BYTES)
    {
      /* A BINARY as a VARBINARY, to which it may refer. */
      part.string.init(&my_charset_bin, 0);
      uchar *const at= to.reserve(part.string.length_max(part.image_length_max));
      to.end_at(part.string.encode(at, record + part.column.offset, part.image_length_max));
      continue;
    }
    to.end_at(put_part(to.reserve(part.image_length_max), part, record));
  }
  return true;
}

bool Codec::put_key(Buffer &to, uint index, const uchar *record) const
{
  const KeyLayout &layout= m_keys[index];
  uchar *at= to.reserve(layout.image_length_max);
  bool has_null= false;
  for (const KeyPart &part : layout.parts)
  {
    has_null|= part.nullable && part.column.is_null(record);
    at= put_part(at, part, record);
  }
  to.end_at(at);
  return has_null;
}

/* After the index's own parts the tuple may have those of the primary key that the index lacks
   (ha_sluice::open says which). */
void Codec::put_search_key(Buffer &to, uint index, const uchar *tuple, uint tuple_length) const
{
  const uchar *end= tuple + tuple_length;
  const uchar *starts[MAX_REF_PARTS];
  const std::vector<KeyPart> &own= m_keys[index].parts;
  for (size_t i= 0; i < own.size(); i++)
  {
    if (tuple >= end)
      return;
    starts[i]= tuple;
    to.end_at(put_part_tuple(to.reserve(own[i].image_length_max), own[i], tuple));
    tuple+= own[i].store_length;
  }
  if (tuple >= end || !has_primary_key() || index == m_primary)
    return;
  for (const KeyPart &part : m_keys[m_primary].parts)
  {
    if (tuple >= end)
      return;
    size_t i= 0;
    while (i < own.size() && own[i].column.field != part.column.field)
      i++;
    const uchar *from= i < own.size() ? starts[i] : tuple;
    if (i < own.size() && own[i].length != part.length)
      /* One of both has only a prefix of the column: no later part can narrow the search. */
      return;
    to.end_at(put_part_tuple(to.reserve(part.image_length_max), part, from));
    if (i == own.size())
      tuple+= part.store_length;
  }
}

void Codec::put_value(Buffer &to, uint index, const uchar *record) const
{
  const KeyLayout &layout= m_keys[index];
  if (layout.raw.empty())
    return;
  uchar *at= to.reserve(layout.value_length_max);
  for (const Column &column : layout.raw)
  {
    if (column.is_null(record))
      continue;
    const slc_bytes value= column.value(record);
    if (!column.is_fixed())
    {
      *at++= static_cast<uchar>(value.len);
      if (length_bytes_for(column.length) == 2)
        *at++= static_cast<uchar>(value.len >> 8);
    }
    memcpy(at, value.ptr, value.len);
    at+= value.len;
  }
  to.end_at(at);
}

EntryImage Codec::put_entry(Buffer &to, uint index, const uchar *record, slc_bytes clustered) const
{
  EntryImage image;
  image.key= static_cast<uint32>(to.length());
  const bool has_null= put_key(to, index, record);
  image.user_key_length= static_cast<uint32>(to.length()) - image.key;
  image.unique_check= m_keys[index].unique && !has_null;
  to.append(clustered);
  image.value= static_cast<uint32>(to.length());
  image.key_length= image.value - image.key;
  put_value(to, index, record);
  image.value_length= static_cast<uint32>(to.length()) - image.value;
  return image;
}

const uchar *Codec::skip_part(const KeyPart &part, const uchar *from, const uchar *end)
{
  const uchar mask= part.descending ? 0xFF : 0;
  if (part.nullable)
  {
    if (from >= end)
      return nullptr;
    if ((*from++ ^ mask) == 0)
      return from;
  }
  if (!part.column.is_fixed())
    return part.string.skip(from, end, mask);
  const size_t length= part.image_length_max - part.nullable;
  return static_cast<size_t>(end - from) < length ? nullptr : from + length;
}

/* One raw column of an entry's value into a record; NULL if the value is too short. */
static const uchar *get_raw(const Column &column, uchar *record, const uchar *from, const uchar *end)
{
  size_t length= column.length;
  uchar *to= record + column.offset;
  if (!column.is_fixed())
  {
    const uint bytes= length_bytes_for(column.length);
    if (static_cast<size_t>(end - from) < bytes)
      return nullptr;
    length= bytes == 1 ? *from : uint2korr(from);
    from+= bytes;
  }
  if (static_cast<size_t>(end - from) < length || length > column.length)
    return nullptr;
  if (column.kind == Kind::VARCHARS)
  {
    *to++= static_cast<uchar>(length);
    if (column.length_bytes == 2)
      *to++= static_cast<uchar>(length >> 8);
  }
  memcpy(to, from, length);
  if (column.kind == Kind::CHARS)
    column.charset->fill(reinterpret_cast<char *>(to) + length, column.length - length, ' ');
  return from + length;
}

void Codec::get_clustered(uchar *record, slc_bytes clustered, const std::vector<KeyedColumn> &columns)
{
  for (const KeyedColumn &column : columns)
  {
    set_null(column.part->column, record, false);
    get_fixed(*column.part, record, clustered.ptr + column.image_offset);
  }
}

bool Codec::get_entry(uint index, uchar *record, slc_bytes key, slc_bytes clustered, slc_bytes value) const
{
  const KeyLayout &layout= m_keys[index];
  const uchar *from= key.ptr, *end= key.ptr + key.len;
  if (has_primary_key())
  {
    if (m_clustered_fixed && clustered.len != m_clustered_fixed)
      return false;
    get_clustered(record, clustered, m_keyed);
  }
  for (const KeyPart &part : layout.parts)
  {
    const uchar *next= skip_part(part, from, end);
    if (!next)
      return false;
    const bool is_null= part.nullable && next == from + 1;
    set_null(part.column, record, is_null);
    if (part.decodable && !is_null)
      get_fixed(part, record, from + part.nullable);
    from= next;
  }
  from= value.ptr;
  end= value.ptr + value.len;
  for (const Column &column : layout.raw)
    if (!column.is_null(record) && !(from= get_raw(column, record, from, end)))
      return false;
  return true;
}

} // namespace sluice

/* Building a Codec from a TABLE: which kind each column is, the layout of every key, of index
   values and of the row. Formats: codec.h. */
#include "codec.h"
#include "table_options.h"
#include <algorithm>

namespace sluice {

namespace {

Kind kind_of(const Field *field)
{
  if (dynamic_cast<const Field_blob *>(field))
    return Kind::BLOBS;
  if (dynamic_cast<const Field_varstring *>(field))
    return Kind::VARCHARS;
  if (dynamic_cast<const Field_string *>(field))
    return field->charset() == &my_charset_bin ? Kind::BYTES : Kind::CHARS;
  switch (field->real_type())
  {
  case MYSQL_TYPE_TINY:
  case MYSQL_TYPE_SHORT:
  case MYSQL_TYPE_INT24:
  case MYSQL_TYPE_LONG:
  case MYSQL_TYPE_LONGLONG:
    return field->flags & UNSIGNED_FLAG ? Kind::UNSIGNED : Kind::SIGNED;
  case MYSQL_TYPE_YEAR:
  case MYSQL_TYPE_NEWDATE:
  case MYSQL_TYPE_ENUM:
  case MYSQL_TYPE_SET:
    return Kind::UNSIGNED;
  case MYSQL_TYPE_NEWDECIMAL:
  case MYSQL_TYPE_TIMESTAMP2:
  case MYSQL_TYPE_TIME2:
  case MYSQL_TYPE_DATETIME2:
  case MYSQL_TYPE_BIT:
  case MYSQL_TYPE_STRING:               // the types of fixed binary form: INET4, INET6, UUID
    return Kind::BYTES;
  default:
    return Kind::SORTED;
  }
}

} // namespace

Column column_of(const TABLE *table, const Field *field)
{
  Column column{};
  column.kind= kind_of(field);
  column.field= field->field_index;
  column.offset= static_cast<uint32>(field->offset(table->record[0]));
  column.charset= field->charset();
  column.length= field->pack_length();
  if (field->real_maybe_null())
  {
    column.null_bit= field->null_bit;
    column.null_offset= static_cast<uint32>(field->null_ptr - table->record[0]);
  }
  if (column.kind == Kind::VARCHARS)
  {
    column.length_bytes= static_cast<const Field_varstring *>(field)->length_bytes;
    column.length= field->pack_length() - column.length_bytes;
  }
  else if (column.kind == Kind::BLOBS)
    column.length_bytes= static_cast<uchar>(static_cast<const Field_blob *>(field)->pack_length_no_ptr());
  return column;
}

std::unique_ptr<Codec> Codec::build(TABLE *table) { return std::unique_ptr<Codec>(new Codec(table)); }

Codec::Codec(TABLE *table) : m_table(table), m_primary(table->s->primary_key)
{
  set_history(std::make_shared<const RowHistory>());
#ifdef SLUICE_STAND_IN
  m_compresses= asks_for_compression(table->s);
#endif
  const uint columns= table->s->fields;
  m_null_bytes= table->s->null_bytes;
  m_stored_map.resize(columns / (8 * sizeof(my_bitmap_map)) + 2);
  my_bitmap_init(&m_stored, m_stored_map.data(), columns);
  for (uint i= 0; i < columns; i++)
    if (table->field[i]->stored_in_db())
      bitmap_set_bit(&m_stored, i);
  m_keys.resize(table->s->keys);
  std::vector<uint> secondary;
  for (uint i= 0; i < table->s->keys; i++)
  {
    build_key(i);
    if (i != m_primary)
      secondary.push_back(i);
  }
  set_order(secondary);
  m_clustered_fixed= m_clustered_max= HIDDEN_KEY_LENGTH;
  if (has_primary_key())
  {
    KeyLayout &layout= m_keys[m_primary];
    m_clustered_max= layout.image_length_max;
    m_clustered_fixed= layout.fixed ? m_clustered_max : 0;
    uint32 offset= 0;
    for (const KeyPart &part : layout.parts)
    {
      if (!part.column.is_fixed() || part.nullable)
        break;
      if (part.decodable && bitmap_is_set(&m_stored, part.column.field))
        m_keyed.push_back({offset, &part});
      offset+= part.image_length_max;
    }
  }
  for (uint i= 0; i < table->s->keys; i++)
    build_raw(i);
  build_row();
}

Codec::~Codec()= default;

bool Codec::is_wide(uint index) const
{
  const uint32 clustered= has_primary_key() ? m_keys[m_primary].image_length_usual : HIDDEN_KEY_LENGTH;
  return (index == m_primary ? 0 : m_keys[index].image_length_usual) + clustered > SLC_KEY_MAX;
}

uint32_t Codec::index_flags(uint index) const
{
  return (m_keys[index].unique ? SLC_INDEX_UNIQUE : 0) | (is_wide(index) ? SLC_INDEX_WIDE : 0);
}

/* An ascending part. `length`: as KEY_PART_INFO::length. */
KeyPart Codec::part_of(const TABLE *table, const Field *field, uint length)
{
  KeyPart part{};
  part.column= column_of(table, field);
  part.nullable= part.column.null_bit != 0;
  part.descending= false;
  part.length= length;
  part.store_length= 0;
  const bool prefix= part.column.kind == Kind::BLOBS || length < field->key_length();
  part.decodable= part.column.kind <= Kind::BYTES && !prefix;
  part.prefix_chars= 0;
  if (part.column.is_fixed())
    part.image_length_max= prefix ? length : part.column.length;
  else
  {
    const uint chars= length / part.column.charset->mbmaxlen;
    if (prefix)
      part.prefix_chars= chars;
    part.string.init(part.column.charset, part.column.kind == Kind::CHARS ? chars : 0);
    part.image_length_max= static_cast<uint32>(part.string.length_max(length));
  }
  part.image_length_max+= part.nullable;
  return part;
}

KeyPart Codec::whole_part(const TABLE *table, const Field *field) { return part_of(table, field, field->key_length()); }

/* The virtual column is computed from another one. */
static bool is_from_virtual(const TABLE *table, const Field *field)
{
  std::vector<my_bitmap_map> map(bitmap_buffer_size(table->s->fields) / sizeof(my_bitmap_map) + 1);
  MY_BITMAP bases;
  my_bitmap_init(&bases, map.data(), table->s->fields);
  field->vcol_info->expr->walk(&Item::register_field_in_bitmap, true, &bases);
  for (uint i= 0; i < table->s->fields; i++)
    if (bitmap_is_set(&bases, i) && !table->field[i]->stored_in_db())
      return true;
  return false;
}

void Codec::build_key(uint index)
{
  const KEY &key= m_table->key_info[index];
  KeyLayout &layout= m_keys[index];
  layout.unique= key.flags & HA_NOSAME;
  layout.fixed= true;
  layout.parts.resize(key.user_defined_key_parts);
  for (uint i= 0; i < key.user_defined_key_parts; i++)
  {
    const KEY_PART_INFO &info= key.key_part[i];
    const Field *field= m_table->field[info.fieldnr - 1];
    if (!field->stored_in_db() && !std::count(m_indexed_virtual.begin(), m_indexed_virtual.end(), field->field_index))
    {
      m_indexed_virtual.push_back(field->field_index);
      m_has_nested_virtual|= is_from_virtual(m_table, field);
    }
    KeyPart &part= layout.parts[i];
    part= part_of(m_table, field, info.length);
    part.descending= info.key_part_flag & HA_REVERSE_SORT;
    part.store_length= info.store_length;
    layout.image_length_usual+= part.column.is_fixed() ? part.image_length_max
                                                       : part.nullable + static_cast<uint32>(part.string.length_usual(info.length));
    layout.fixed&= part.column.is_fixed() && !part.nullable;
    layout.image_length_max+= part.image_length_max;
  }
}

/* The columns of the index, and of the primary key, that have to be kept raw in the entry's
   value. */
void Codec::build_raw(uint index)
{
  if (index == m_primary)
    return;
  KeyLayout &layout= m_keys[index];
  std::vector<bool> have(m_table->s->fields);
  auto keep= [&](const KeyPart &part, bool decodable)
  {
    const uint field= part.column.field;
    if (have[field])
      return;
    const bool whole= part.column.kind != Kind::BLOBS &&
                      part.length >= m_table->field[field]->key_length();
    if (!whole)
      return;
    have[field]= true;
    if (decodable)
      return;
    layout.raw.push_back(part.column);
    layout.value_length_max+= part.column.length + 2;
  };
  auto note_cut= [&](const KeyPart &part)
  {
    if (!have[part.column.field])
      layout.cut.push_back(part.column.field);
  };
  for (const KeyPart &part : layout.parts)
    keep(part, part.decodable);
  if (!has_primary_key())
  {
    std::for_each(layout.parts.begin(), layout.parts.end(), note_cut);
    return;
  }
  for (const KeyPart &part : m_keys[m_primary].parts)
  {
    bool keyed= false;
    for (const KeyedColumn &column : m_keyed)
      keyed|= column.part == &part;
    keep(part, keyed);
  }
  std::for_each(layout.parts.begin(), layout.parts.end(), note_cut);
  for (const KeyPart &part : m_keys[m_primary].parts)
    layout.has_position&= have[part.column.field];
  std::for_each(m_keys[m_primary].parts.begin(), m_keys[m_primary].parts.end(), note_cut);
}

void Codec::build_row()
{
  std::vector<bool> keyed(m_table->s->fields);
  for (const KeyedColumn &column : m_keyed)
    keyed[column.part->column.field]= true;
  uint32 offset= 2 + m_null_bytes;
  for (uint i= 0; i < m_table->s->fields; i++)
  {
    if (!bitmap_is_set(&m_stored, i))
      continue;
    const Column column= column_of(m_table, m_table->field[i]);
    m_stored_columns.push_back(column);
    if (keyed[i])
      continue;
    if (column.kind == Kind::BLOBS)
    {
      m_blobs.push_back(column);
      continue;
    }
    if (is_sized(column.kind, column.null_bit != 0, column.length))
    {
      m_sized.push_back(column);
      m_sized_max+= column.length + length_bytes_for(column.length);
      continue;
    }
    m_fixed_columns.push_back({column, offset});
    if (!m_fixed.empty() && m_fixed.back().to + m_fixed.back().length == column.offset)
      m_fixed.back().length+= column.length;
    else
      m_fixed.push_back({offset, column.offset, column.length});
    offset+= column.length;
  }
  m_fixed_end= offset;
}

void Codec::set_order(const std::vector<uint> &indexes)
{
  m_server_indexes.assign(1, m_primary);
  m_server_indexes.insert(m_server_indexes.end(), indexes.begin(), indexes.end());
  m_engine_indexes.assign(m_keys.size(), 0);
  for (uint i= 1; i < m_server_indexes.size(); i++)
    m_engine_indexes[m_server_indexes[i]]= i;
}

/* A DELETE that ends a version of a system-versioned row computes generated columns over the period
   anew. The hash of a UNIQUE ... USING HASH is one of them. The write_set does not name them. Nor does the write_set of a row event name virtual columns. */
bool Codec::touches(uint index, const MY_BITMAP *write_set) const
{
  const bool versioned= m_table->versioned();
  const auto is_written= [&](const Column &column) {
    return bitmap_is_set(write_set, column.field) || !bitmap_is_set(&m_stored, column.field) ||
           (versioned && m_table->field[column.field]->vcol_info);
  };
  for (const KeyPart &part : m_keys[index].parts)
    if (is_written(part.column))
      return true;
  for (const Column &column : m_keys[index].raw)
    if (is_written(column))
      return true;
  return false;
}

} // namespace sluice

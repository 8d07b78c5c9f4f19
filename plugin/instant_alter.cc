/* Which changes of columns leave rows and indexes as they are; see instant_alter.h. A row may have
   any older form of a column. The key of a row and its index entries have no number of a
   definition: what they are made of must stay as it is. */
#include "instant_alter.h"
#include "ddl.h"
#include <algorithm>

namespace sluice {

std::atomic<uint64_t> instant_alters{0};

namespace {

/* Bytes of the note. The engine takes 287,000 of a whole definition. */
constexpr size_t NOTE_MAX= 200000;

/* The number of the table's first null bit: 1 in a table that could have rows of fixed length. */
uint32 first_null_bit(const TABLE *table)
{
  for (uint i= 0; i < table->s->fields; i++)
  {
    const Column column= column_of(table, table->field[i]);
    if (column.null_bit)
      return column.null_offset * 8 + my_count_bits(column.null_bit - 1U);
  }
  return 0;
}

/* The server gives null bits to columns in their order. */
bool has_null_bits_in_order(const TABLE *table)
{
  uint32 bit= first_null_bit(table);
  for (uint i= 0; i < table->s->fields; i++)
  {
    const Column column= column_of(table, table->field[i]);
    if (!column.null_bit)
      continue;
    if (column.null_offset != bit / 8 || column.null_bit != 1 << bit % 8)
      return false;
    bit++;
  }
  return first_null_bit(table) < 8 && bit <= table->s->null_bytes * 8;
}

bool is_integer(const Field &field)
{
  switch (field.real_type())
  {
  case MYSQL_TYPE_TINY:
  case MYSQL_TYPE_SHORT:
  case MYSQL_TYPE_INT24:
  case MYSQL_TYPE_LONG:
  case MYSQL_TYPE_LONGLONG:
    return true;
  default:
    return false;
  }
}

bool is_integer_type(const Type_handler *type)
{
  return type == &type_handler_stiny || type == &type_handler_sshort || type == &type_handler_sint24 ||
         type == &type_handler_slong || type == &type_handler_slonglong || type == &type_handler_utiny ||
         type == &type_handler_ushort || type == &type_handler_uint24 || type == &type_handler_ulong ||
         type == &type_handler_ulonglong;
}

bool is_varchar(const Field &field, const Column_definition &type)
{
  return field.real_type() == MYSQL_TYPE_VARCHAR && type.type_handler() == &type_handler_varchar &&
         field.type_handler() == &type_handler_varchar;
}

bool is_blob(const Field &field, const Column_definition &type)
{
  const auto is= [](const Type_handler *handler) {
    return handler == &type_handler_tiny_blob || handler == &type_handler_blob || handler == &type_handler_medium_blob ||
           handler == &type_handler_long_blob;
  };
  return is(field.type_handler()) && is(type.type_handler());
}

} // namespace

bool use_history(Codec &codec, const TABLE *table, const std::shared_ptr<const RowHistory> &history)
{
  if (!history)
    return false;
  if (history->is_empty())
    return true;
  const RowDefinition *now= history->find(history->current());
  const std::vector<ColumnForm> forms= codec.forms();
  if (forms.size() != now->forms.size() || now->null_bytes != table->s->null_bytes ||
      now->first_null_bit != first_null_bit(table) || !has_null_bits_in_order(table))
    return false;
  for (size_t i= 0; i < forms.size(); i++)
  {
    ColumnForm form= history->form(now->forms[i]);
    form.id= 0;
    if (!(form == forms[i]))
      return false;
  }
  codec.set_history(history);
  return true;
}

/* Generated columns: their values were made to fit the old type. */
bool grows_into(const Field &field, const Column_definition &type)
{
  if (field.vcol_info || type.vcol_info || field.compression_method() || type.compression_method() ||
      (type.flags & AUTO_INCREMENT_FLAG) > (field.flags & AUTO_INCREMENT_FLAG))
    return false;
  if (is_varchar(field, type))
    return field.charset() == type.charset && type.length >= field.field_length;
  if (is_blob(field, type))
    return field.charset() == type.charset && type.pack_length >= field.pack_length();
  return is_integer(field) && is_integer_type(type.type_handler()) &&
         (type.flags & UNSIGNED_FLAG) == (field.flags & UNSIGNED_FLAG) && type.pack_length >= field.pack_length();
}

Compare_keys compare_grown_part(const Field &field, const Column_definition &type, const KEY_PART_INFO &part,
                                const KEY_PART_INFO &new_part)
{
  const bool stays= (type.flags & NOT_NULL_FLAG) == (field.flags & NOT_NULL_FLAG);
  if (!stays || !grows_into(field, type) || (!is_varchar(field, type) && !is_blob(field, type)))
    return Compare_keys::NotEqual;
  const bool whole= is_varchar(field, type) && part.length == field.field_length;
  if (!whole)
    return part.length == new_part.length ? Compare_keys::Equal : Compare_keys::NotEqual;
  return new_part.length == type.length && length_bytes_for(part.length) == length_bytes_for(new_part.length)
           ? Compare_keys::EqualButKeyPartLength
           : Compare_keys::NotEqual;
}

const char *new_name_of(const KEY *key, const TABLE *altered, const Alter_inplace_info *info)
{
  for (const auto &pair : info->rename_keys)
    if (pair.old_key == key)
      return pair.new_key->name.str;
  for (uint i= 0; i < altered->s->keys; i++)
    if (same_name(altered->key_info[i].name, key->name))
      return altered->key_info[i].name.str;
  return key->name.str;                 // nothing the server asks for: the engine refuses it
}

ColumnChange::ColumnChange(const TABLE *table, const Codec &codec, const TABLE *altered, const Codec &altered_codec,
                           const Alter_inplace_info *info)
  : m_table(table), m_codec(codec), m_altered(altered), m_altered_codec(altered_codec), m_info(info),
    m_moves_null_bits(info->handler_flags & ALTER_OPTIONS &&
                      (table->s->null_bytes != altered->s->null_bytes || first_null_bit(table) != first_null_bit(altered)))
{
  List_iterator_fast<Create_field> columns(info->alter_info->create_list);
  while (const Create_field *column= columns++)
    m_old.push_back(column->field ? column->field->field_index : NEW_COLUMN);
  if (m_old.size() != altered->s->fields)
    m_old.clear();
}

const Field *ColumnChange::old_field(uint column) const
{
  return column >= m_old.size() || m_old[column] == NEW_COLUMN ? nullptr : m_table->field[m_old[column]];
}

namespace {

bool is_one_of(const Field *field, const std::vector<std::string> &columns)
{
  return std::any_of(columns.begin(), columns.end(), [field](const std::string &column) {
    return same_name(field->field_name, column);
  });
}

} // namespace

bool ColumnChange::changes_one_of(const std::vector<std::string> &columns) const
{
  std::vector<bool> stays(m_table->s->fields, false);
  for (uint i= 0; i < m_altered->s->fields; i++)
  {
    const Field *old= old_field(i);
    if (!old)
      continue;
    const Column from= column_of(m_table, old), to= column_of(m_altered, m_altered->field[i]);
    stays[old->field_index]= from.kind == to.kind && from.length == to.length && from.charset == to.charset &&
                             (!from.null_bit || to.null_bit) && old->stored_in_db() == m_altered->field[i]->stored_in_db();
  }
  for (uint i= 0; i < m_table->s->fields; i++)
    if (!stays[i] && is_one_of(m_table->field[i], columns))
      return true;
  return false;
}

bool ColumnChange::drops_one_of(const std::vector<std::string> &columns) const
{
  std::vector<bool> stays(m_table->s->fields, false);
  for (uint i= 0; i < m_altered->s->fields; i++)
    if (const Field *old= old_field(i))
      stays[old->field_index]= true;
  for (uint i= 0; i < m_table->s->fields; i++)
    if (!stays[i] && is_one_of(m_table->field[i], columns))
      return true;
  return false;
}

bool ColumnChange::holds_for_added(Virtual_column_info *check) const
{
  std::vector<my_bitmap_map> map(m_altered->s->fields / (8 * sizeof(my_bitmap_map)) + 1);
  MY_BITMAP used;
  my_bitmap_init(&used, map.data(), m_altered->s->fields);
  check->expr->walk(&Item::register_field_in_bitmap, true, &used);
  for (uint i= 0; i < m_altered->s->fields; i++)
    if (bitmap_is_set(&used, i) && (m_old.empty() || old_field(i) || !m_altered->field[i]->stored_in_db()))
      return false;
  return !check->flags || check->flags == VCOL_FIELD_REF ? check->expr->val_bool() || check->expr->null_value : false;
}

Field *ColumnChange::added_number() const
{
  for (uint i= 0; i < m_altered->s->fields; i++)
    if (m_altered->field[i]->flags & AUTO_INCREMENT_FLAG && !m_old.empty() && !old_field(i))
      return m_altered->field[i];
  return nullptr;
}

/* All rows that are there get one value, as it is now. Rows that are rebuilt can be numbered. */
const char *ColumnChange::why_added_column_is_copied(const Field *field) const
{
  Virtual_column_info *const value= field->default_value;
  if (value && (value->flags & ~(VCOL_SESSION_FUNC | VCOL_TIME_FUNC) || value->expr->used_tables() & RAND_TABLE_BIT))
    return "the DEFAULT of a new column has another value for each row";
  return nullptr;
}

const char *ColumnChange::why_column_is_copied(const Field *old, const Field *field) const
{
  if (!field->stored_in_db() && !old->stored_in_db())
    return nullptr;
  const Column from= column_of(m_table, old), to= column_of(m_altered, field);
  const bool grows= from.length != to.length;
  if (field->stored_in_db() != old->stored_in_db() || from.kind != to.kind || from.charset != to.charset)
    return "a column's type does not fit the values that rows have";
  if ((grows || (!from.null_bit && to.null_bit)) && old->flags & FIELD_IN_PART_FUNC_FLAG)
    return "the type of a column that partitions depend on";
  if (!grows)
    return nullptr;
  if (to.is_fixed() && m_table->vfield)
    return "generated columns may depend on a column's type";
  const bool fits= from.kind == Kind::UNSIGNED || from.kind == Kind::SIGNED || !from.is_fixed();
  return fits && from.kind != Kind::CHARS && from.length < to.length ? nullptr
                                                                     : "a column's type does not fit the values that rows have";
}

/* Of VARCHARs and BLOBs the length may be another one: no value of theirs is filled up to it. */
bool ColumnChange::is_same_column(const Column &old, const Column &column) const
{
  return m_old[column.field] == old.field && old.kind == column.kind && old.charset == column.charset &&
         (old.kind >= Kind::VARCHARS || old.length == column.length);
}

bool ColumnChange::is_same_part(const KeyPart &old, const KeyPart &part) const
{
  return is_same_column(old.column, part.column) && old.nullable == part.nullable && old.descending == part.descending &&
         old.decodable == part.decodable && old.prefix_chars == part.prefix_chars &&
         ((old.column.kind == Kind::VARCHARS && !old.prefix_chars) || old.length == part.length);
}

bool ColumnChange::is_same_key(const KeyLayout &old, const KeyLayout &key) const
{
  const auto part= [this](const KeyPart &a, const KeyPart &b) { return is_same_part(a, b); };
  const auto column= [this](const Column &a, const Column &b) {
    return is_same_column(a, b) && length_bytes_for(a.length) == length_bytes_for(b.length);
  };
  return old.unique == key.unique && std::equal(old.parts.begin(), old.parts.end(), key.parts.begin(), key.parts.end(), part) &&
         std::equal(old.raw.begin(), old.raw.end(), key.raw.begin(), key.raw.end(), column);
}

/* Those that are dropped and added in this statement are built anew. */
bool ColumnChange::indexes_stay() const
{
  KEY **const drop_end= m_info->index_drop_buffer + m_info->index_drop_count;
  for (uint i= 0; i < m_table->s->keys; i++)
  {
    KEY *key= m_table->key_info + i;
    if (std::find(m_info->index_drop_buffer, drop_end, key) != drop_end)
      continue;
    const LEX_CSTRING name= {new_name_of(key, m_altered, m_info), strlen(new_name_of(key, m_altered, m_info))};
    uint now= 0;
    while (now < m_altered->s->keys && !same_name(m_altered->key_info[now].name, name))
      now++;
    if (now == m_altered->s->keys || (i == m_codec.primary()) != (now == m_altered_codec.primary()) ||
        m_codec.is_wide(i) != m_altered_codec.is_wide(now) || !is_same_key(m_codec.key(i), m_altered_codec.key(now)))
      return false;
  }
  return true;
}

const char *ColumnChange::why_columns_are_copied() const
{
  if (m_old.empty() || m_table->s->long_unique_table || m_altered->s->long_unique_table)
    return "the server adds or drops the hidden column of a UNIQUE key over hashes";
  if (m_info->error_if_not_empty)
    return "a new date column without a default may be added to an empty table only";
  for (uint i= 0; i < m_altered->s->fields; i++)
  {
    const Field *old= old_field(i), *field= m_altered->field[i];
    if (const char *why= old ? why_column_is_copied(old, field) : why_added_column_is_copied(field))
      return why;
  }
  return nullptr;
}

const char *ColumnChange::why_copied() const
{
  if (const char *why= why_columns_are_copied())
    return why;
  if (added_number())
    return "each row needs a value of a new AUTO_INCREMENT column";
  if (m_info->handler_flags & ALTER_COLUMN_NOT_NULLABLE)
    return "rows may have NULL where a column becomes NOT NULL";
  if (!has_null_bits_in_order(m_table) || !has_null_bits_in_order(m_altered) || m_codec.has_primary_key() != m_altered_codec.has_primary_key())
    return "the form of rows";
  if (!indexes_stay())
    return "the entries of an index would have another form";
  const auto changed= history();
  if (!changed || schema_of(m_altered, *changed).size() > NOTE_MAX)
    return "the table's list of row definitions is full (ALTER TABLE ... FORCE empties it)";
  return nullptr;
}

std::shared_ptr<const RowHistory> ColumnChange::history() const
{
  auto history= std::make_shared<RowHistory>(m_codec.history());
  if (!changes_columns())
    return history;
  if (history->is_empty())
    history->begin(m_codec.forms(), m_table->s->null_bytes, first_null_bit(m_table));
  const std::vector<uint32> before= history->find(history->current())->forms;
  std::vector<ColumnForm> forms= m_altered_codec.forms();
  for (uint i= 0; i < forms.size(); i++)
  {
    if (forms[i].place == ColumnForm::NOWHERE)
      continue;
    if (old_field(i))
    {
      forms[i].id= history->form(before[m_old[i]]).id;
      continue;
    }
    const Column column= column_of(m_altered, m_altered->field[i]);
    const bool is_null= column.is_null(m_altered->record[0]);
    const slc_bytes value= is_null ? slc_bytes{nullptr, 0} : column.value(m_altered->record[0]);
    forms[i].id= history->add_column(forms[i], is_null, std::string(reinterpret_cast<const char *>(value.ptr), value.len));
  }
  return history->change(forms, m_altered->s->null_bytes, first_null_bit(m_altered)) ? history : nullptr;
}

} // namespace sluice

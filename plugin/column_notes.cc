/* InnoDB's numbers for the types of columns. A line: "column POSITION TYPE PROPERTIES LENGTH NAME",
   the name in hexadecimal digits, because it may have any character. Compiled only for a plugin with
   InnoDB's name. */
#include "column_notes.h"
#include <algorithm>
#include <cstdio>
#include <cstring>

#ifdef SLUICE_STAND_IN

namespace sluice {

namespace {

const char LINE[]= "\ncolumn ";

/* InnoDB's kinds of types. */
enum Type { VARCHAR= 1, CHAR= 2, FIXED_BINARY= 3, BINARY= 4, BLOB= 5, INTEGER= 6, FLOAT= 9, DOUBLE= 10, DECIMAL= 11, OTHER_VARCHAR= 12,
            OTHER_CHAR= 13, GEOMETRY= 14 };
/* Properties, beside the server's number of the type. The collation is above them. */
enum Property { NOT_NULL_COLUMN= 256, UNSIGNED= 512, BINARY_COLUMN= 1024, LONG_VARCHAR= 4096, VIRTUAL= 8192 };
constexpr uint COLLATION_SHIFT= 16, VIRTUAL_SHIFT= 16;

/* InnoDB has old types for strings in latin1_swedish_ci. */
Type string_type(const Field *field, Type of_bytes, Type of_latin1, Type other)
{
  if (field->binary())
    return of_bytes;
  return field->charset() == &my_charset_latin1 ? of_latin1 : other;
}

Type type_of(const Field *field)
{
  if (field->real_type() == MYSQL_TYPE_ENUM || field->real_type() == MYSQL_TYPE_SET)
    return INTEGER;
  switch (field->type())
  {
  case MYSQL_TYPE_VAR_STRING:
  case MYSQL_TYPE_VARCHAR: return string_type(field, BINARY, VARCHAR, OTHER_VARCHAR);
  case MYSQL_TYPE_BIT:
  case MYSQL_TYPE_STRING: return string_type(field, FIXED_BINARY, CHAR, OTHER_CHAR);
  case MYSQL_TYPE_TIME: return field->real_type() == MYSQL_TYPE_TIME ? INTEGER : FIXED_BINARY;
  case MYSQL_TYPE_DATETIME: return field->real_type() == MYSQL_TYPE_DATETIME ? INTEGER : FIXED_BINARY;
  case MYSQL_TYPE_TIMESTAMP: return field->real_type() == MYSQL_TYPE_TIMESTAMP ? INTEGER : FIXED_BINARY;
  case MYSQL_TYPE_FLOAT: return FLOAT;
  case MYSQL_TYPE_DOUBLE: return DOUBLE;
  case MYSQL_TYPE_DECIMAL: return DECIMAL;
  case MYSQL_TYPE_NEWDECIMAL:
  case MYSQL_TYPE_NULL: return FIXED_BINARY;
  case MYSQL_TYPE_GEOMETRY: return GEOMETRY;
  case MYSQL_TYPE_TINY_BLOB:
  case MYSQL_TYPE_MEDIUM_BLOB:
  case MYSQL_TYPE_BLOB:
  case MYSQL_TYPE_LONG_BLOB: return BLOB;
  default: return INTEGER;
  }
}

bool is_unsigned(const Field *field)
{
  return field->flags & UNSIGNED_FLAG || field->real_type() == MYSQL_TYPE_ENUM || field->real_type() == MYSQL_TYPE_SET;
}

bool has_collation(Type type) { return type <= BLOB || type == OTHER_VARCHAR || type == OTHER_CHAR; }

ColumnNote note_of(const Field *field, uint64_t position)
{
  ColumnNote note= {{field->field_name.str, field->field_name.length}, position, static_cast<uint64_t>(type_of(field)), 0, field->pack_length()};
  note.properties= field->type();
  if (!field->real_maybe_null())
    note.properties|= NOT_NULL_COLUMN;
  if (is_unsigned(field))
    note.properties|= UNSIGNED;
  if (field->binary())
    note.properties|= BINARY_COLUMN;
  if (field->type() == MYSQL_TYPE_VARCHAR)
  {
    const uint length_bytes= static_cast<const Field_varstring *>(field)->length_bytes;
    note.length-= length_bytes;
    if (length_bytes == 2)
      note.properties|= LONG_VARCHAR;
  }
  if (!field->stored_in_db())
    note.properties|= VIRTUAL;
  if (has_collation(static_cast<Type>(note.type)))
    note.properties|= static_cast<uint64_t>(field->charset()->number) << COLLATION_SHIFT;
  return note;
}

std::string in_hex(const std::string &name)
{
  std::string hex;
  for (const char c : name)
  {
    hex+= _dig_vec_lower[static_cast<uchar>(c) >> 4];
    hex+= _dig_vec_lower[static_cast<uchar>(c) & 15];
  }
  return hex;
}

std::string from_hex(const char *hex)
{
  std::string name;
  uint byte;
  for (; isxdigit(static_cast<uchar>(hex[0])) && isxdigit(static_cast<uchar>(hex[1])) && sscanf(hex, "%2x", &byte) == 1; hex+= 2)
    name+= static_cast<char>(byte);
  return name;
}

} // namespace

bool ColumnNote::is_virtual() const { return properties & VIRTUAL; }

/* InnoDB numbers the stored columns from 0. The number of a virtual one has its place among all
   columns, and among the virtual ones. */
std::string lines_of_columns(const TABLE *form)
{
  std::string text;
  uint64_t stored= 0, computed= 0;
  for (uint i= 0; i < form->s->fields; i++)
  {
    const Field *const field= form->field[i];
    const ColumnNote note= note_of(field, field->stored_in_db() ? stored++ : (++computed << VIRTUAL_SHIFT) + i);
    text+= (LINE + 1) + std::to_string(note.position) + " " + std::to_string(note.type) + " " + std::to_string(note.properties) + " " +
           std::to_string(note.length) + " " + in_hex(note.name) + "\n";
  }
  return text;
}

std::vector<ColumnNote> column_notes(const std::string &schema)
{
  std::vector<ColumnNote> notes;
  for (size_t at= schema.find(LINE); at != std::string::npos; at= schema.find(LINE, at + 1))
  {
    ulonglong position, type, properties, length;
    int name_at= 0;
    if (sscanf(schema.c_str() + at + strlen(LINE), "%llu %llu %llu %llu %n", &position, &type, &properties, &length, &name_at) == 4 && name_at)
      notes.push_back({from_hex(schema.c_str() + at + strlen(LINE) + name_at), position, type, properties, length});
  }
  std::sort(notes.begin(), notes.end(), [](const ColumnNote &a, const ColumnNote &b) { return a.position < b.position; });
  return notes;
}

static const char FORMAT_LINE[]= "\nformat ";

std::string line_of_format(enum row_type format)
{
  switch (format)
  {
  case ROW_TYPE_REDUNDANT: return "format redundant\n";
  case ROW_TYPE_COMPACT: return "format compact\n";
  default: return "";
  }
}

enum row_type format_note(const std::string &schema)
{
  const size_t at= schema.find(FORMAT_LINE);
  if (at == std::string::npos)
    return ROW_TYPE_DYNAMIC;
  return schema[at + strlen(FORMAT_LINE)] == 'r' ? ROW_TYPE_REDUNDANT : ROW_TYPE_COMPACT;
}

} // namespace sluice

#endif

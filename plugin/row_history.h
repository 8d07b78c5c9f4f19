/* RowHistory: the definitions that rows of a table have been written in. ALTER TABLE may change
   columns and leave the rows as they are: a row begins with the number of its definition. The list
   of definitions is a part of the table's note in the engine's catalog (ddl.h), so it goes with the
   rows: through RENAME, EXCHANGE PARTITION and a restart. A table that is made, or made anew by a
   copy, has no list, and its rows have the number 1.

   Lines of the note, after "row N", which says the number that new rows get:

   form ID PLACE KIND LENGTH BYTES NULLABLE
                a form of a column; forms count from 0. ID is the number that the column keeps
                through renames and moves; a number is not given twice; 0 = any VIRTUAL column.
                PLACE: 0 = in the row, 1 = in the clustered key, 2 = not stored. KIND is a number of
                the enum below, LENGTH the bytes in the record (of a VARCHAR: of its data), BYTES the
                size of a BLOB's length.
   added ID FORM VALUE
                the value of the column in rows that are older than it: "null", or "=" and its bytes
                in hexadecimal, as a column of that form has them in a row.
   rows NUMBER NULL_BYTES FIRST FORMS
                a definition. FORMS are its columns in the table's order: numbers and ranges. Their
                null bits count from bit FIRST of the null bytes.

   An object does not change once a handler has it. Called by: codec, ddl, instant_alter, share. */
#ifndef SLUICE_ROW_HISTORY_H
#define SLUICE_ROW_HISTORY_H
#include "compat.h"
#include "sluice_abi.h"
#include <map>
#include <string>
#include <vector>

namespace sluice {

/* The numbers are in notes of tables. */
enum class Kind : uchar
{
  /* Little-endian in the record, any of 1..8 bytes; also dates, ENUM, SET, YEAR. */
  UNSIGNED,
  SIGNED,
  /* Sorts as it is: decimals, temporal types, BINARY, BIT, INET6, UUID. */
  BYTES,
  /* Field::sort_string knows; not decodable: floats, old temporal types. */
  SORTED,
  CHARS,                                // CHAR
  VARCHARS,                             // VARCHAR
  BLOBS                                 // TEXT, BLOB, GEOMETRY: always a prefix
};

/* Size of a length in a row, for data of at most so many bytes. */
inline uint length_bytes_for(uint32 length_max) { return length_max < 256 ? 1 : 2; }

/* In a row with a length before it, so that it takes no room while NULL. */
inline bool is_sized(Kind kind, bool nullable, uint32 length)
{
  constexpr uint32 FIXED_NULLABLE_MAX= 8;
  return kind > Kind::SORTED || (nullable && length > FIXED_NULLABLE_MAX);
}

struct ColumnForm
{
  enum Place : uchar { IN_ROW, IN_KEY, NOWHERE };
  uint32 id;
  Place place;
  Kind kind;
  uchar length_bytes;                   // of a BLOB
  bool nullable;
  uint32 length;

  bool operator==(const ColumnForm &other) const
  {
    return id == other.id && place == other.place && kind == other.kind && length_bytes == other.length_bytes &&
           nullable == other.nullable && length == other.length;
  }
};

struct AddedValue
{
  uint32 form;
  bool is_null;
  std::string bytes;                    // of fixed columns as in the record; of others the data
};

struct RowDefinition
{
  uint16 number;
  uint32 null_bytes, first_null_bit;
  std::vector<uint32> forms;            // by the table's columns

  bool operator==(const RowDefinition &other) const
  {
    return null_bytes == other.null_bytes && first_null_bit == other.first_null_bit && forms == other.forms;
  }
};

class RowHistory
{
public:
  static constexpr uint16 FIRST_NUMBER= 1;

  /* False: the lines are not such lines. */
  bool parse(slc_bytes note);
  /* Appends the lines of forms, values and definitions. */
  void print(std::string &to) const;

  bool is_empty() const { return m_definitions.empty(); }
  /* Of rows that are written now. */
  uint16 current() const { return m_current; }
  const RowDefinition *find(uint16 number) const;
  const ColumnForm &form(uint32 number) const { return m_forms[number]; }
  /* Of a column that was added to a table with rows; null: there is none. */
  const AddedValue *added(uint32 id) const;

  /* The first definition of a table with such columns, which get numbers. */
  void begin(const std::vector<ColumnForm> &columns, uint32 null_bytes, uint32 first_null_bit);
  /* A column that older rows lack: its number. `form`: without a number. */
  uint32 add_column(ColumnForm form, bool is_null, std::string value);
  /* Rows are written with these columns from here on. False: the numbers are used up. */
  bool change(const std::vector<ColumnForm> &columns, uint32 null_bytes, uint32 first_null_bit);
  /* Columns that the table has, and those that it had since rows were last stored anew. */
  uint32 columns_ever() const { return m_next_id - 1; }
  /* Bytes of the columns NOT NULL that are gone. */
  size_t gone_bytes() const;
  /* Of a table without rows: no other definition is needed. */
  RowHistory without_past() const;

private:
  uint32 number_of_form(const ColumnForm &form);
  bool parse_form(const char *line);
  bool parse_added(const char *line);
  bool parse_definition(const char *line);
  bool is_sound() const;

  uint16 m_current= FIRST_NUMBER;
  uint32 m_next_id= 1;
  std::vector<ColumnForm> m_forms;
  std::map<uint32, AddedValue> m_added; // by the column's number
  std::map<uint16, RowDefinition> m_definitions;
};

} // namespace sluice
#endif

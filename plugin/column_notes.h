/* The columns of a table as INNODB_SYS_COLUMNS shows them: notes in the engine's catalog, with a
   line for each column. Of the stand-in alone; the engine does not read them.
   Used by: ddl (writes them), innodb_tables. */
#ifndef SLUICE_COLUMN_NOTES_H
#define SLUICE_COLUMN_NOTES_H
#include "compat.h"

#ifdef SLUICE_STAND_IN
#include <string>
#include <vector>

namespace sluice {

struct ColumnNote
{
  std::string name;
  uint64_t position, type, properties, length;

  bool is_virtual() const;
};

/* The lines, for the note on a table. */
std::string lines_of_columns(const TABLE *form);
/* By position. A table that was made under the name Sluice has none. */
std::vector<ColumnNote> column_notes(const std::string &schema);

/* The format of a table that was made without ROW_FORMAT: innodb_default_row_format counted when
   its rows were stored. A line of the note; empty for DYNAMIC. */
std::string line_of_format(enum row_type format);
enum row_type format_note(const std::string &schema);

} // namespace sluice
#endif
#endif

/* Definitions of tables, from the server's to the engine's. Called by: ha_sluice (create), inplace. */
#ifndef SLUICE_DDL_H
#define SLUICE_DDL_H
#include "compat.h"
#include "sluice_abi.h"
#include <string>
#include <vector>

namespace sluice {

/* slc_table_def with the memory that it points into. */
struct Definition
{
  Definition(TABLE *form, bool temporary);
  slc_table_def def{};
  std::vector<slc_index_def> indexes;
  std::string schema;
};

/* The plugin's note that the engine keeps with a table: the row format's version, and for each key the collations of
   its parts, so that a later server can tell whether the images in the table are still those it would make; and a number
   that every in-place ALTER TABLE raises. Text: "sluice 1", "version N", "row N", then a line for each key:
   "key NAME COLUMN:COLLATION_ID[:desc] ...". */
std::string schema_of(const TABLE *form, ulonglong version);
/* The number of a note; 0 if it has none. */
ulonglong schema_version(slc_bytes schema);

} // namespace sluice
#endif

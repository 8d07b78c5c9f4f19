/* Definitions of tables, from the server's to the engine's. Called by: ha_sluice (create),
   inplace. */
#ifndef SLUICE_DDL_H
#define SLUICE_DDL_H
#include "compat.h"
#include "foreign.h"
#include "key_parts.h"
#include "row_history.h"
#include "sluice_abi.h"
#include <string>
#include <vector>

namespace sluice {

/* slc_table_def with the memory that it points into. */
struct Definition
{
  Definition(TABLE *form, bool temporary, ForeignDefinition &foreign);
  Definition(const Definition &)= delete;
  slc_table_def def{};
  std::unique_ptr<IndexParts> parts;
  std::vector<slc_index_def> indexes;
  std::string schema;
};

/* The plugin's note that the engine keeps with a table. It has the server's number of the
   definition (a UUID; each CREATE and ALTER makes a new one), and the definitions of rows. For each
   key it has the collations of its parts: a later server compares whether it would make the same
   images. Text: "sluice 1", "definition HEX", "row N", "spaces 1" if a key has a CHAR whose image
   counts its spaces, the other lines of row_history.h, then a line for each key:
   "key NAME COLUMN:COLLATION_ID[:desc] ...". The stand-in adds a line for each column
   (column_notes.h). */
/* `format`: of rows that stay, in the stand-in; NOT_USED: that of a new table. */
std::string schema_of(const TABLE *form, const RowHistory &history= RowHistory(), enum row_type format= ROW_TYPE_NOT_USED);
/* Whether the images in the table are those that this version makes: a version before this one
   counted no spaces of a CHAR. */
bool schema_has_images_of(slc_bytes schema, const TABLE *form);
/* Was the note made from the definition of this number? */
bool schema_is_of(slc_bytes schema, const LEX_CUSTRING &definition);

/* Waits, as for a lock, until no transaction in doubt has changes in the table. Metadata locks end
   with a connection or a restart, XA transactions do not. HA_ERR_ code. `builds`: the rows will be
   read for an index, so no rollback may be left either; rollbacks continue after a restart, and
   after a ROLLBACK that met a broken page. */
int wait_until_decided(THD *thd, const char *name, bool builds);

#ifdef SLUICE_STAND_IN
/* As InnoDB, a new table has statistics at once. In statistics.cc. */
void compute_statistics_of_new(const char *name, TABLE *form);
#endif

/* Names of all tables of the engine that begin so. */
std::vector<std::string> tables_with_prefix(const std::string &prefix);

} // namespace sluice
#endif

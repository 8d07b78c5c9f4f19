/* What ALTER TABLE can do without copying. inplace_check.cc decides, inplace.cc does it. */
#ifndef SLUICE_INPLACE_H
#define SLUICE_INPLACE_H
#include "compat.h"
#include "instant_alter.h"

namespace sluice {

constexpr alter_table_operations INDEX_ADD= ALTER_ADD_NON_UNIQUE_NON_PRIM_INDEX | ALTER_ADD_UNIQUE_INDEX;

/* Every column is at its place in the record and of the same form. */
bool same_columns(const TABLE *table, const TABLE *altered);
/* Rows are stored anew. */
bool is_rebuilt(const ColumnChange &change, const Alter_inplace_info *info);
/* A generated column gets another expression, and its values are stored, indexed, checked, or
   decide on partitions; or such values depend on it. */
bool changes_kept_values(const ColumnChange &change);

} // namespace sluice
#endif

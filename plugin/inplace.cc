/* ALTER TABLE without copying the table. */
#include "ddl.h"
#include "engine.h"
#include "errors.h"
#include "ha_sluice.h"

using namespace sluice;

enum_alter_inplace_result ha_sluice::check_if_supported_inplace_alter(TABLE *altered, Alter_inplace_info *info)
{
  return HA_ALTER_INPLACE_NOT_SUPPORTED;
}

bool ha_sluice::prepare_inplace_alter_table(TABLE *, Alter_inplace_info *) { return false; }
bool ha_sluice::inplace_alter_table(TABLE *, Alter_inplace_info *) { return false; }
bool ha_sluice::commit_inplace_alter_table(TABLE *, Alter_inplace_info *, bool) { return false; }
bool ha_sluice::check_if_incompatible_data(HA_CREATE_INFO *, uint) { return COMPATIBLE_DATA_NO; }

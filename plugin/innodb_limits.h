/* InnoDB's limits on rows and on columns of keys, which the stand-in has, too.
   Used by: ddl, inplace. */
#ifndef SLUICE_INNODB_LIMITS_H
#define SLUICE_INNODB_LIMITS_H
#include "compat.h"

#ifdef SLUICE_STAND_IN

namespace sluice {

/* How the error is reported: of a table that is made, or of an ALTER TABLE in place. A table that
   is there already may stay as it is: AS_WARNINGS. */
enum Limits { LIMITS_OF_CREATE, LIMITS_IN_PLACE, LIMITS_AS_WARNINGS };

/* HA_WRONG_CREATE_OPTION, and the error is reported: InnoDB would refuse the definition. Without
   strict mode, a row that may be too long is a warning. `asked`: the ROW_FORMAT of the
   definition. */
int check_innodb_limits(THD *thd, const TABLE *form, const HA_CREATE_INFO *info, Limits limits);
int check_key_limits(const KEY &key, enum row_type asked);
/* With so many bytes of columns that are gone and that rows still have in InnoDB. */
bool is_too_long_with(const TABLE *form, enum row_type asked, size_t gone_bytes);

} // namespace sluice
#endif
#endif

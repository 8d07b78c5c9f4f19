/* InnoDB's limits on rows and on columns of keys, which the stand-in has, too.
   Used by: ddl, inplace. */
#ifndef SLUICE_INNODB_LIMITS_H
#define SLUICE_INNODB_LIMITS_H
#include "compat.h"

#ifdef SLUICE_STAND_IN

namespace sluice {

/* How the error is told: of a table that is made, or of an ALTER TABLE in place. */
enum Limits { LIMITS_OF_CREATE, LIMITS_IN_PLACE };

/* HA_WRONG_CREATE_OPTION, and the error is told: InnoDB would refuse the definition. Without strict
   mode, a row that may be too long is a warning. `asked`: the ROW_FORMAT of the definition. */
int check_key_limits(const KEY &key, enum row_type asked);
int check_innodb_limits(THD *thd, const TABLE *form, enum row_type asked, Limits limits);

} // namespace sluice
#endif
#endif

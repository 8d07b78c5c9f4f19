/* InnoDB's names of what the engine counts, for the stand-in. Defined in innodb_status.cc.
   Used by: innodb_tables, innodb_status. */
#ifndef SLUICE_INNODB_NAMES_H
#define SLUICE_INNODB_NAMES_H
#include "compat.h"

#ifdef SLUICE_STAND_IN

namespace sluice {

/* A row of INNODB_METRICS: InnoDB's name, and the engine's counter. The counter divided by the
   divisor has InnoDB's unit. */
struct InnodbMetric
{
  const char *name, *counter;
  uint64_t divisor;
};
extern const InnodbMetric innodb_metrics[];

} // namespace sluice
#endif
#endif

/* InnoDB's names of what the engine counts, for the stand-in. Defined in innodb_status.cc.
   Used by: innodb_tables, innodb_status. */
#ifndef SLUICE_INNODB_NAMES_H
#define SLUICE_INNODB_NAMES_H
#include "compat.h"

#ifdef SLUICE_STAND_IN
#include <utility>
#include <vector>

namespace sluice {

/* A row of INNODB_METRICS: InnoDB's name, subsystem and type, and the engine's counter. The counter
   divided by the divisor has InnoDB's unit. */
struct InnodbMetric
{
  const char *name, *subsystem, *type, *counter;
  uint64_t divisor;
};
extern const InnodbMetric innodb_metrics[];

/* The others that InnoDB enables by default. Their values are those of status variables, whose
   names are in the place of the counters' names. An empty name stands for 0. */
extern const InnodbMetric innodb_metrics_of_status[];

/* The status variables that are numbers, without the prefix Innodb_: InnoDB's, and then the
   engine's other counters. */
using StatusNumbers= std::vector<std::pair<const char *, uint64_t>>;
StatusNumbers status_numbers();

} // namespace sluice
#endif
#endif

/* What the statistics of an index are as rows. Defined in statistics_tables.cc.
   Used by: statistics_tables, innodb_stats_tables. */
#ifndef SLUICE_STATISTICS_ROWS_H
#define SLUICE_STATISTICS_ROWS_H
#include "compat.h"
#include "sluice_abi.h"
#include <string>
#include <vector>

namespace sluice {

/* A row of mysql.innodb_index_stats. */
struct Statistic
{
  std::string name;
  uint64_t value, sample;               // sample 0: NULL
  std::string description;
};
std::vector<Statistic> statistics_of_index(const slc_statistics_row *row);

} // namespace sluice
#endif

/* mysql.innodb_table_stats and innodb_index_stats of the stand-in.
   Used by: hton (start and stop), admin (ANALYZE TABLE). */
#ifndef SLUICE_INNODB_STATS_TABLES_H
#define SLUICE_INNODB_STATS_TABLES_H
#include "compat.h"

#ifdef SLUICE_STAND_IN

namespace sluice {

void start_statistics_writer();
/* Before the server's connections end. */
void stop_statistics_writer();
/* Waits until the tables have the newest statistics, for two seconds at most. */
void wait_for_statistics_tables();

} // namespace sluice
#endif
#endif

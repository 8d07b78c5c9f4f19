/* mysql.innodb_table_stats and innodb_index_stats of the stand-in.
   Used by: hton (start and stop), admin (ANALYZE TABLE), ha_lock (a SELECT reads them). */
#ifndef SLUICE_INNODB_STATS_TABLES_H
#define SLUICE_INNODB_STATS_TABLES_H
#include "compat.h"

#ifdef SLUICE_STAND_IN

namespace sluice {

void start_statistics_writer();
/* Before the server's connections end. */
void stop_statistics_writer();
/* Waits until the tables have the newest statistics, for two seconds at most. The rows of `table`
   (by the engine's name) are written again even if they have not changed. nullptr: of no table. */
void wait_for_statistics_tables(const char *table);
bool is_statistics_table(const TABLE_SHARE *share);

} // namespace sluice
#endif
#endif

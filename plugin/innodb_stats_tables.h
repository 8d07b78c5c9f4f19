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
/* A new table: its rows are written, whatever a table of that name had. */
void write_statistics_again(const char *table);
/* As InnoDB does when it opens a renamed table whose statistics are recalculated automatically:
   rows that somebody has removed are written again. */
void statistics_renamed(const char *from, const char *to);
void statistics_opened(const char *table, bool recalculates);
/* Before a table goes, or one of its indexes. False: rows stay locked for longer than the session's
   innodb_lock_wait_timeout, so the statement fails. */
bool remove_statistics(THD *thd, const char *table, const char *index);
bool is_statistics_table(const TABLE_SHARE *share);

} // namespace sluice
#endif
#endif

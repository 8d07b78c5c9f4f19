/* INFORMATION_SCHEMA.SLUICE_BUFFER_POOL_STATS: one row about the buffer pool. The columns are those
   of InnoDB's table that have a meaning here, in its order. Declared in hton.cc. Shown to users
   with the privilege PROCESS. Called by: the server. */
#include "engine.h"
#include "information_schema.h"

namespace sluice {

namespace {

ST_FIELD_INFO columns[]= {
  Show::Column("POOL_ID", Show::ULong(), NOT_NULL),
  Show::Column("POOL_SIZE", Show::ULonglong(), NOT_NULL),
  Show::Column("FREE_BUFFERS", Show::ULonglong(), NOT_NULL),
  Show::Column("DATABASE_PAGES", Show::ULonglong(), NOT_NULL),
  Show::Column("OLD_DATABASE_PAGES", Show::ULonglong(), NOT_NULL),
  Show::Column("MODIFIED_DATABASE_PAGES", Show::ULonglong(), NOT_NULL),
  Show::Column("PENDING_FLUSH_LIST", Show::ULonglong(), NOT_NULL),
  Show::Column("NUMBER_PAGES_READ", Show::ULonglong(), NOT_NULL),
  Show::Column("NUMBER_PAGES_CREATED", Show::ULonglong(), NOT_NULL),
  Show::Column("NUMBER_PAGES_WRITTEN", Show::ULonglong(), NOT_NULL),
  Show::Column("NUMBER_PAGES_EVICTED", Show::ULonglong(), NOT_NULL),
  Show::Column("PAGES_READ_RATE", Show::Float(MAX_FLOAT_STR_LENGTH), NOT_NULL),
  Show::Column("PAGES_CREATE_RATE", Show::Float(MAX_FLOAT_STR_LENGTH), NOT_NULL),
  Show::Column("PAGES_WRITTEN_RATE", Show::Float(MAX_FLOAT_STR_LENGTH), NOT_NULL),
  Show::Column("PAGES_EVICTED_RATE", Show::Float(MAX_FLOAT_STR_LENGTH), NOT_NULL),
  Show::Column("NUMBER_PAGES_GET", Show::ULonglong(), NOT_NULL),
  Show::Column("HIT_RATE", Show::ULonglong(), NOT_NULL),
  Show::Column("NUMBER_PAGES_READ_AHEAD", Show::ULonglong(), NOT_NULL),
  Show::Column("READ_AHEAD_RATE", Show::Float(MAX_FLOAT_STR_LENGTH), NOT_NULL),
  Show::CEnd()};

int fill_table(THD *thd, TABLE_LIST *tables, COND *)
{
  if (!engine || check_global_access(thd, PROCESS_ACL, true))
    return 0;
  slc_pool_stats stats;
  slc_pool_stats_get(engine, &stats);
  SchemaRow row(thd, tables->table);
  row.begin();
  row.number(0);
  for (const uint64_t n : {stats.pages, stats.free, stats.resident, stats.cold, stats.dirty, stats.in_flight, stats.read, stats.created,
                           stats.written, stats.evicted})
    row.number(n);
  for (const double n : {stats.read_rate, stats.created_rate, stats.written_rate, stats.evicted_rate})
    row.fraction(n);
  row.number(stats.requested);
  row.number(stats.hits_per_thousand);
  row.number(stats.read_ahead);
  row.fraction(stats.read_ahead_rate);
  row.end();
  return row.failed() ? 1 : 0;
}

} // namespace

int buffer_pool_stats_init(void *schema) { return set_up_schema_table(schema, columns, fill_table); }

} // namespace sluice

/* INFORMATION_SCHEMA.SLUICE_BUFFER_POOL_STATS: one row about the buffer pool. The columns are those
   of InnoDB's table that have a meaning here, in its order. Declared in hton.cc. Shown to users
   with the privilege PROCESS. Called by: the server. */
#include "engine.h"
#include "information_schema.h"
#include "innodb_columns.h"

namespace sluice {

namespace {

[[maybe_unused]] ST_FIELD_INFO columns[]= {
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
  if (!engine || is_hidden_from(thd))
    return 0;
  slc_pool_stats stats;
  slc_pool_stats_get(engine, &stats);
  TABLE *const table= tables->table;
  restore_record(table, s->default_values);
  const auto number= [table](const char *name, uint64_t n) { column_of(table, name)->store(static_cast<longlong>(n), true); };
  const auto rate= [table](const char *name, double n) { column_of(table, name)->store(n); };
  number("POOL_ID", 0);
  number("POOL_SIZE", stats.pages);
  number("FREE_BUFFERS", stats.free);
  number("DATABASE_PAGES", stats.resident);
  number("OLD_DATABASE_PAGES", stats.cold);
  number("MODIFIED_DATABASE_PAGES", stats.dirty);
  number("PENDING_FLUSH_LIST", stats.in_flight);
  number("NUMBER_PAGES_READ", stats.read);
  number("NUMBER_PAGES_CREATED", stats.created);
  number("NUMBER_PAGES_WRITTEN", stats.written);
#ifndef SLUICE_STAND_IN
  number("NUMBER_PAGES_EVICTED", stats.evicted);
  rate("PAGES_EVICTED_RATE", stats.evicted_rate);
#endif
  rate("PAGES_READ_RATE", stats.read_rate);
  rate("PAGES_CREATE_RATE", stats.created_rate);
  rate("PAGES_WRITTEN_RATE", stats.written_rate);
  number("NUMBER_PAGES_GET", stats.requested);
  number("HIT_RATE", stats.hits_per_thousand);
  number("NUMBER_PAGES_READ_AHEAD", stats.read_ahead);
  rate("READ_AHEAD_RATE", stats.read_ahead_rate);
  return schema_table_store_record(thd, table) ? 1 : 0;
}

} // namespace

#ifdef SLUICE_STAND_IN
int buffer_pool_stats_init(void *schema) { return set_up_schema_table(schema, innodb_buffer_pool_stats_columns, fill_table); }
#else
int buffer_pool_stats_init(void *schema) { return set_up_schema_table(schema, columns, fill_table); }
#endif

} // namespace sluice

/* INFORMATION_SCHEMA.SLUICE_TRX, SLUICE_LOCKS, SLUICE_LOCK_WAITS, with the columns of InnoDB's
   tables of that kind as far as they mean something here. Shown to users with the privilege
   PROCESS.

   A statement that reads more than one of them sees one report in all of them, so that joins fit.
   Transactions and waits are those of one moment; engine/src/txn/lock/report.rs says what that
   costs. What only the server knows, such as statements, is taken from its connections afterwards.
   Each connection's mutex is only tried: a connection that just ends or begins a statement shows
   none. Called by: the server. */
#include "connection.h"
#include "engine.h"
#include "errors.h"
#include "information_schema.h"
#include "innodb_columns.h"
#include "key_text.h"
#include "table_path.h"
#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace sluice {

namespace {

/* ---- the report ---- */

constexpr size_t QUERY_BYTES_MAX= 1024;
/* X'..',X'..', and a number of 64 bits with its sign. */
constexpr size_t XID_TEXT_MAX= 2 * XIDDATASIZE + 8 + 20;

struct TrxRow
{
  slc_trx_info info;
  std::string requested_lock, xid, query;
  CHARSET_INFO *query_charset= system_charset_info;
  std::string foreign_error;
  uint tables_in_use= 0;
  bool read_only= false, unique_checks= true, foreign_key_checks= true;
};

struct LockRow
{
  std::string id, table, index, key, key_to;
  uint64_t trx;
  uint32_t index_number, kind;
  bool exclusive, granted;
};

struct WaitRow
{
  uint64_t requesting_trx, blocking_trx;
  std::string requested_lock, blocking_lock;
};

} // namespace

struct LockReport
{
  my_hrtime_t at;
  std::vector<TrxRow> transactions;
  std::vector<LockRow> locks;
  std::vector<WaitRow> waits;
};

namespace {

slc_bytes bytes_of(const std::string &text) { return {reinterpret_cast<const uint8_t *>(text.data()), text.size()}; }

void add_trx(void *ctx, const slc_trx_info *info)
{
  TrxRow row;
  row.info= *info;
  row.requested_lock= string_of(info->requested_lock);
  row.xid= string_of(info->xid);
  static_cast<LockReport *>(ctx)->transactions.push_back(row);
}

void add_lock(void *ctx, const slc_lock_info *lock)
{
  static_cast<LockReport *>(ctx)->locks.push_back({string_of(lock->id), string_of(lock->table), string_of(lock->index), string_of(lock->key),
                                               string_of(lock->key_to), lock->trx, lock->index_number, lock->kind,
                                               lock->exclusive != 0, lock->granted != 0});
}

void add_wait(void *ctx, const slc_lock_wait *wait)
{
  static_cast<LockReport *>(ctx)->waits.push_back({wait->requesting_trx, wait->blocking_trx, string_of(wait->requested_lock),
                                               string_of(wait->blocking_lock)});
}

using ByConnection= std::unordered_map<ulonglong, TrxRow *>;

/* For each connection of the server, which does not end meanwhile. */
my_bool add_what_the_server_knows(THD *thd, ByConnection *wanted)
{
  const auto found= wanted->find(thd->thread_id);
  if (found == wanted->end() || mysql_mutex_trylock(&thd->LOCK_thd_data))
    return 0;
  TrxRow *row= found->second;
  if (thd->query())
    row->query.assign(thd->query(), MY_MIN(QUERY_BYTES_MAX, thd->query_length()));
  row->query_charset= thd->query_charset();
  row->read_only= thd->tx_read_only;
  row->unique_checks= !(thd->variables.option_bits & OPTION_RELAXED_UNIQUE_CHECKS);
  row->foreign_key_checks= !(thd->variables.option_bits & OPTION_NO_FOREIGN_KEY_CHECKS);
  if (Connection *connection= Connection::existing(thd))
  {
    row->tables_in_use= connection->tables_in_use();
#ifdef SLUICE_STAND_IN
    row->foreign_error= connection->foreign_error();
#endif
  }
  mysql_mutex_unlock(&thd->LOCK_thd_data);
  return 0;
}

#ifdef SLUICE_STAND_IN
/* InnoDB's table has the locks that are waited for, and those in their way. */
void keep_locks_of_waits(LockReport *report)
{
  std::unordered_set<std::string> wanted;
  for (const WaitRow &wait : report->waits)
    wanted.insert({wait.requested_lock, wait.blocking_lock});
  auto &locks= report->locks;
  locks.erase(std::remove_if(locks.begin(), locks.end(), [&](const LockRow &lock) { return !wanted.count(lock.id); }), locks.end());
}
#endif

/* detail: one of SLC_LOCKS_*. */
std::shared_ptr<const LockReport> make_report(uint detail)
{
  auto report= std::make_shared<LockReport>();
  report->at= my_hrtime();
  const slc_lock_sink sink= {report.get(), add_trx, detail == SLC_LOCKS_ALL ? add_lock : nullptr, add_wait};
  if (report_error(slc_lock_report(engine, detail, &sink)))
    return nullptr;
  ByConnection wanted;
  for (TrxRow &row : report->transactions)
    if (row.info.connection)
      wanted[row.info.connection]= &row;
  THD_list_iterator::iterator()->iterate(add_what_the_server_knows, &wanted);
#ifdef SLUICE_STAND_IN
  keep_locks_of_waits(report.get());
#endif
  return report;
}

int fill_trx(THD *thd, TABLE_LIST *tables, COND *);
int fill_locks(THD *thd, TABLE_LIST *tables, COND *);
int fill_lock_waits(THD *thd, TABLE_LIST *tables, COND *);

#ifdef SLUICE_STAND_IN
/* As in InnoDB, a report serves the statements of the next tenth of a second: programs ask for it
   again and again. */
struct RecentReport
{
  static constexpr ulonglong FRESH_NS= 100 * 1000 * 1000;
  std::mutex mutex;
  std::shared_ptr<const LockReport> report;
  uint detail= 0;
  ulonglong at= 0;
} recent_report;

std::shared_ptr<const LockReport> recent_or_new_report(uint detail)
{
  const std::lock_guard<std::mutex> guard(recent_report.mutex);
  const ulonglong now= my_interval_timer();
  if (recent_report.report && recent_report.detail >= detail && now - recent_report.at < RecentReport::FRESH_NS)
    return recent_report.report;
  recent_report.report= make_report(detail);
  recent_report.detail= detail;
  recent_report.at= now;
  return recent_report.report;
}
#else
std::shared_ptr<const LockReport> recent_or_new_report(uint detail) { return make_report(detail); }
#endif

/* The report of this statement, which its connection keeps: others ask for theirs meanwhile. */
std::shared_ptr<const LockReport> report_for(THD *thd)
{
  uint readers= 0, detail= SLC_LOCKS_WAITED_FOR;
  for (const TABLE_LIST *table= thd->lex->query_tables; table; table= table->next_global)
    if (table->schema_table)
    {
      const auto fill= table->schema_table->fill_table;
      readers+= fill == fill_trx || fill == fill_locks || fill == fill_lock_waits;
      if (fill == fill_locks)
        detail= SLC_LOCKS_ALL;
      else if (fill == fill_trx && detail == SLC_LOCKS_WAITED_FOR)
        detail= SLC_LOCKS_COUNTED;
    }
  Connection::StatementReport &kept= Connection::of(thd)->lock_report();
  if (readers == 1)
  {
    kept= {};
    return recent_or_new_report(detail);
  }
  if (kept.query != thd->query_id)
    kept= {thd->query_id, nullptr, 0};
  if (!kept.report)
    kept.report= recent_or_new_report(detail);
  const std::shared_ptr<const LockReport> report= kept.report;
  /* The last of them has it: a report can be large. (A table that is read once more, by a subquery
     that depends on its row, keeps the next one.) */
  if (++kept.served == readers)
    kept.report.reset();
  return report;
}

/* ---- rows ---- */

/* A column that the table does not have is left out. */
void store(Field *field, const std::string &text, CHARSET_INFO *charset= system_charset_info)
{
  if (!field)
    return;
  field->set_notnull();
  field->store(text.data(), text.size(), charset);
}
void store(Field *field, uint64_t number)
{
  if (!field)
    return;
  field->set_notnull();
  field->store(static_cast<longlong>(number), true);
}
void store_or_null(Field *field, const std::string &text, CHARSET_INFO *charset= system_charset_info)
{
  if (!text.empty())
    store(field, text, charset);
  else if (field)
    field->set_null();
}
void store_time(THD *thd, Field *field, my_hrtime_t now, int64_t ago_us)
{
  if (ago_us < 0 && field->maybe_null())
    return field->set_null();
  set_if_bigger(ago_us, 0);
  MYSQL_TIME time;
  thd->variables.time_zone->gmt_sec_to_TIME(&time, static_cast<my_time_t>((now.val - ago_us) / 1000000));
  time.second_part= 0;
  field->set_notnull();
  field->store_time(&time);
}

const char *state_of(const slc_trx_info &info)
{
  if (info.requested_lock.len)
    return "LOCK WAIT";
  return info.rolling_back ? "ROLLING BACK" : info.prepared ? "PREPARED" : "RUNNING";
}

const char *operation_of(const TrxRow &row)
{
  if (row.info.requested_lock.len)
    return "waiting for row lock";
  if (row.info.rolling_back)
    return "rollback";
  /* Else the server has prepared it for its own commit. */
  return !row.info.prepared ? "" : row.xid.empty() ? "commit" : "waiting for XA COMMIT or XA ROLLBACK";
}

const char *isolation_names[]= {"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"};

[[maybe_unused]] ST_FIELD_INFO trx_columns[]= {
  Show::Column("trx_id", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_state", Show::Varchar(13), NOT_NULL),
  Show::Column("trx_started", Show::Datetime(0), NULLABLE),
  Show::Column("trx_requested_lock_id", Show::Varchar(81), NULLABLE),
  Show::Column("trx_wait_started", Show::Datetime(0), NULLABLE),
  Show::Column("trx_weight", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_mysql_thread_id", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_query", Show::Varchar(QUERY_BYTES_MAX), NULLABLE),
  Show::Column("trx_operation_state", Show::Varchar(64), NULLABLE),
  Show::Column("trx_tables_in_use", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_tables_locked", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_lock_structs", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_rows_locked", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_rows_modified", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_isolation_level", Show::Varchar(16), NOT_NULL),
  Show::Column("trx_is_read_only", Show::SLong(1), NOT_NULL),
  Show::Column("trx_snapshot", Show::Varchar(3), NOT_NULL),
  Show::Column("trx_snapshot_age", Show::ULonglong(), NULLABLE),
  Show::Column("trx_undo_bytes", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_buffered_changes", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_xid", Show::Varchar(XID_TEXT_MAX), NULLABLE),
  Show::CEnd()};

void store_trx(THD *thd, TABLE *table, const LockReport &report, const TrxRow &row)
{
  const slc_trx_info &info= row.info;
  const auto column= [table](const char *name) { return column_of(table, name); };
  store(column("trx_id"), info.number);
  store(column("trx_state"), state_of(info));
  store_time(thd, column("trx_started"), report.at, info.age_us);
  store_or_null(column("trx_requested_lock_id"), row.requested_lock);
  /* A transaction that has just queued has not noted when, and one that was just woken still has
     its note. */
  store_time(thd, column("trx_wait_started"), report.at, row.requested_lock.empty() ? -1 : MY_MAX(info.waiting_us, 0));
#ifdef SLUICE_STAND_IN
  /* InnoDB has a lock object for each table, and for each page of an index. Here an index counts
     once. */
  const uint64_t lock_objects= info.tables_locked + info.indexes_locked, weight= info.undo_records + lock_objects;
  const uint64_t rows_locked= info.row_locks + info.range_locks;
#else
  const uint64_t lock_objects= info.row_locks + info.range_locks, weight= info.weight, rows_locked= info.row_locks;
#endif
  store(column("trx_weight"), weight);
  store(column("trx_mysql_thread_id"), info.connection);
  store_or_null(column("trx_query"), row.query, row.query_charset);
  store_or_null(column("trx_operation_state"), operation_of(row));
  store(column("trx_tables_in_use"), row.tables_in_use);
  store(column("trx_tables_locked"), info.tables_locked);
  store(column("trx_lock_structs"), lock_objects);
  store(column("trx_rows_locked"), rows_locked);
  store(column("trx_rows_modified"), info.undo_records);
  store(column("trx_isolation_level"), isolation_names[info.isolation & 3]);
  store(column("trx_is_read_only"), static_cast<uint64_t>(row.read_only));
  store(column("trx_snapshot"), std::string(info.snapshot_age_us < 0 ? "NO" : "YES"));
  if (Field *age= column("trx_snapshot_age"))
  {
    age->set_null();
    if (info.snapshot_age_us >= 0)
      store(age, static_cast<uint64_t>(info.snapshot_age_us / 1000000));
  }
  store(column("trx_undo_bytes"), info.undo_bytes);
  store(column("trx_buffered_changes"), info.buffered_changes);
  store_or_null(column("trx_xid"), row.xid);
  store_or_null(column("trx_last_foreign_key_error"), row.foreign_error);
  store(column("trx_unique_checks"), static_cast<uint64_t>(row.unique_checks));
  store(column("trx_foreign_key_checks"), static_cast<uint64_t>(row.foreign_key_checks));
}

[[maybe_unused]] ST_FIELD_INFO lock_columns[]= {
  Show::Column("lock_id", Show::Varchar(81), NOT_NULL),
  Show::Column("lock_trx_id", Show::ULonglong(), NOT_NULL),
  Show::Column("lock_mode", Show::Varchar(32), NOT_NULL),
  Show::Column("lock_type", Show::Varchar(32), NOT_NULL),
  Show::Column("lock_table", Show::Varchar(1024), NOT_NULL),
  Show::Column("lock_index", Show::Varchar(1024), NULLABLE),
  Show::Column("lock_status", Show::Varchar(7), NOT_NULL),
  Show::Column("lock_data", Show::Varchar(8192), NULLABLE),
  Show::CEnd()};

const char *mode_of(const LockRow &lock)
{
#ifdef SLUICE_STAND_IN
  /* InnoDB's column has these words alone. */
  if (lock.kind == SLC_LOCKED_RANGE || lock.kind == SLC_LOCKED_INSERT)
    return lock.exclusive || lock.kind == SLC_LOCKED_INSERT ? "X,GAP" : "S,GAP";
#endif
  switch (lock.kind)
  {
  case SLC_LOCKED_RANGE: return "GAP";
  case SLC_LOCKED_INSERT: return "X,INSERT_INTENTION";
  case SLC_LOCKED_COUNTER: return "AUTO_INC";
  default: return lock.exclusive ? "X" : "S";
  }
}

std::string table_of(const LockRow &lock)
{
  return lock.table.empty() ? "(dropped)" : TablePath(lock.table).quoted();
}

std::string data_of(const LockRow &lock)
{
  if (lock.kind == SLC_LOCKED_COUNTER)
    return "";
  if (lock.kind == SLC_LOCKED_RANGE)
    return KeyTexts::range_text(lock.table, lock.index_number, bytes_of(lock.key), bytes_of(lock.key_to));
  return lock.key.empty() ? "" : KeyTexts::text(lock.table, lock.index_number, bytes_of(lock.key));
}

void store_lock(TABLE *table, const LockRow &lock)
{
  const auto column= [table](const char *name) { return column_of(table, name); };
  store(column("lock_id"), lock.id);
  store(column("lock_trx_id"), lock.trx);
  store(column("lock_mode"), std::string(mode_of(lock)));
  store(column("lock_type"), std::string(lock.kind == SLC_LOCKED_COUNTER ? "TABLE" : "RECORD"));
  store(column("lock_table"), table_of(lock));
  store_or_null(column("lock_index"), lock.index);
  store(column("lock_status"), std::string(lock.granted ? "GRANTED" : "WAITING"));
  store_or_null(column("lock_data"), data_of(lock));
}

ST_FIELD_INFO wait_columns[]= {
  Show::Column("requesting_trx_id", Show::ULonglong(), NOT_NULL),
  Show::Column("requested_lock_id", Show::Varchar(81), NOT_NULL),
  Show::Column("blocking_trx_id", Show::ULonglong(), NOT_NULL),
  Show::Column("blocking_lock_id", Show::Varchar(81), NOT_NULL),
  Show::CEnd()};

void store_wait(Field **fields, const WaitRow &wait)
{
  store(fields[0], wait.requesting_trx);
  store(fields[1], wait.requested_lock);
  store(fields[2], wait.blocking_trx);
  store(fields[3], wait.blocking_lock);
}

/* ---- the server's calls ---- */

template <typename Row, typename Store>
int fill(THD *thd, TABLE *table, std::vector<Row> LockReport::*rows, Store store_row)
{
  if (!engine || is_hidden_from(thd))
    return 0;
  const std::shared_ptr<const LockReport> report= report_for(thd);
  if (!report)
    return 1;
  for (const Row &row : (*report).*rows)
  {
    if (thd->killed)
    {
      thd->send_kill_message();
      return 1;
    }
    restore_record(table, s->default_values);
    store_row(*report, row);
    if (schema_table_store_record(thd, table))
      return 1;
  }
  return 0;
}

int fill_trx(THD *thd, TABLE_LIST *tables, COND *)
{
  TABLE *table= tables->table;
  return fill(thd, table, &LockReport::transactions,
              [&](const LockReport &report, const TrxRow &row) { store_trx(thd, table, report, row); });
}

int fill_locks(THD *thd, TABLE_LIST *tables, COND *)
{
  TABLE *table= tables->table;
  return fill(thd, table, &LockReport::locks, [&](const LockReport &, const LockRow &row) { store_lock(table, row); });
}

int fill_lock_waits(THD *thd, TABLE_LIST *tables, COND *)
{
  TABLE *table= tables->table;
  return fill(thd, table, &LockReport::waits, [&](const LockReport &, const WaitRow &row) { store_wait(table->field, row); });
}

} // namespace

#ifdef SLUICE_STAND_IN
#define COLUMNS(OURS, INNODB) INNODB
#else
#define COLUMNS(OURS, INNODB) OURS
#endif
int trx_table_init(void *schema) { return set_up_schema_table(schema, COLUMNS(trx_columns, innodb_trx_columns), fill_trx); }
int locks_table_init(void *schema) { return set_up_schema_table(schema, COLUMNS(lock_columns, innodb_locks_columns), fill_locks); }
int lock_waits_table_init(void *schema) { return set_up_schema_table(schema, wait_columns, fill_lock_waits); }
#undef COLUMNS

} // namespace sluice

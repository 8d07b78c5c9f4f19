/* mysql.innodb_table_stats and mysql.innodb_index_stats, as InnoDB keeps them: a thread writes the
   engine's statistics there, within a second, and at once for ANALYZE TABLE and for a SELECT that
   reads one of them. As in InnoDB, tables with STATS_PERSISTENT=0 have no rows there. The engine does
   not read the tables: a manual change is overwritten when statistics are computed again. The thread
   runs statements on a connection inside the server, without binary log and general log. The server
   counts them in Com_replace, Com_insert, Com_delete and others. There is no thread with
   innodb_read_only, and while the system tables are created. If a table cannot be written (it is
   missing, or locked), the error log gets one warning, and the thread tries again. Compiled only
   for a plugin with InnoDB's name.
   Latches: one mutex of its own, never held during a statement. */
#include "innodb_stats_tables.h"
#include "engine.h"
#include "settings.h"
#include "statistics_rows.h"
#include "table_path.h"
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#ifdef SLUICE_STAND_IN

namespace sluice {

namespace {

using namespace std::chrono_literals;

/* Rows as SQL text. The key is the condition after WHERE, the value the list after VALUES. */
using Rows= std::map<std::string, std::string>;

struct Statistics
{
  Rows of_tables, of_indexes;
};


std::string quoted(const std::string &text)
{
  std::string out= "'";
  for (const char c : text)
    out+= c == '\'' ? std::string("''") : c == '\\' ? std::string("\\\\") : std::string(1, c);
  return out + "'";
}

std::string time_of(int64_t seconds) { return "FROM_UNIXTIME(" + std::to_string(seconds) + ")"; }

/* A subpartition is "partition.subpartition" in a TablePath. */
std::string name_of(const TablePath &path)
{
  std::string partition= path.partition;
  const size_t dot= partition.find('.');
  if (dot != std::string::npos)
    partition.replace(dot, 1, "#SP#");
  return partition.empty() ? path.table : path.table + "#P#" + partition;
}

std::string key_of(const TablePath &path)
{
  return "database_name = " + quoted(path.schema) + " AND table_name = " + quoted(name_of(path));
}

bool is_of(const std::string &key, const std::string &table)
{
  return !key.compare(0, table.size(), table) && (key.size() == table.size() || key[table.size()] == ' ');
}

/* Has the rows of a table written again. */
void forget_values(Rows &rows, const std::string &table)
{
  for (auto &[key, values] : rows)
    if (is_of(key, table))
      values.clear();
}

void add_row(void *ctx, const slc_statistics_row *row)
{
  Statistics &all= *static_cast<Statistics *>(ctx);
  const TablePath path(string_of(row->table));
  const bool is_kept_here= path.schema == "mysql" && !path.table.compare(0, 7, "innodb_");
  if (!row->computed || !row->persistent || is_kept_here || !path.table.compare(0, 5, "#sql-"))
    return;
  const std::string table= name_of(path), key= key_of(path);
  const std::string names= quoted(path.schema) + ", " + quoted(table) + ", ";
  if (!row->index.len)
  {
    all.of_tables[key]= names + time_of(row->computed) + ", " + std::to_string(row->rows) + ", " + std::to_string(row->pages) + ", " +
                        std::to_string(row->leaf_pages);
    return;
  }
  const std::string index= quoted(string_of(row->index));
  for (const Statistic &statistic : statistics_of_index(row))
    all.of_indexes[key + " AND index_name = " + index + " AND stat_name = " + quoted(statistic.name)]=
      names + index + ", " + time_of(row->computed) + ", " + quoted(statistic.name) + ", " + std::to_string(statistic.value) + ", " +
      (statistic.sample ? std::to_string(statistic.sample) : "NULL") + ", " + quoted(statistic.description);
}

/* A connection inside the server. Each statement is a transaction. */
class Local
{
public:
  Local()
  {
    m_mysql= mysql_init(nullptr);
    m_is_open= m_mysql && mysql_real_connect_local(m_mysql);
    m_is_open= m_is_open && run("SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1, sql_mode = '', time_zone = DEFAULT, "
                                "autocommit = 1, innodb_snapshot_isolation = OFF, max_statement_time = 0, character_set_client = utf8mb3, "
                                "sql_safe_updates = 0, tx_read_only = 0, sql_log_off = 1");
  }
  ~Local()
  {
    if (m_mysql)
      mysql_close(m_mysql);
  }
  bool is_open() const { return m_is_open; }
  bool run(const std::string &statement)
  {
    const bool done= !mysql_real_query(m_mysql, statement.data(), statement.size());
    if (!done)
      m_error= mysql_error(m_mysql);
    if (MYSQL_RES *result= done ? mysql_store_result(m_mysql) : nullptr)
      mysql_free_result(result);
    return done;
  }
  const std::string &error() const { return m_error; }
  bool timed_out() const { return mysql_errno(m_mysql) == ER_LOCK_WAIT_TIMEOUT; }

private:
  MYSQL *m_mysql;
  bool m_is_open;
  std::string m_error;
};

/* Changes the rows of `table` from `was` to `is`, and `was` with them. True: all were changed. */
bool write_rows(Local &local, const std::string &table, Rows &was, const Rows &is)
{
  for (auto row= was.begin(); row != was.end();)
    if (is.count(row->first))
      ++row;
    else if (local.run("DELETE FROM " + table + " WHERE " + row->first))
      row= was.erase(row);
    else
      return false;
  for (const auto &[key, values] : is)
  {
    const auto old= was.find(key);
    if (old != was.end() && old->second == values)
      continue;
    if (!local.run("REPLACE INTO " + table + " VALUES (" + values + ")"))
      return false;
    was[key]= values;
  }
  return true;
}

/* ---- the thread ---- */

class Writer
{
public:
  void start()
  {
    m_stops= false;
    m_thread= std::thread([this] { run(); });
  }
  void stop()
  {
    if (!m_thread.joinable())
      return;
    {
      const std::lock_guard<std::mutex> guard(m_mutex);
      m_stops= true;
    }
    m_wake.notify_all();
    m_thread.join();
  }
  /* The rows of the table are written again in the next round. */
  void forget(const char *table)
  {
    const std::lock_guard<std::mutex> guard(m_mutex);
    m_forgotten.insert(key_of(TablePath(table)));
  }
  void renamed(const char *from, const char *to)
  {
    const std::lock_guard<std::mutex> guard(m_mutex);
    m_renamed.erase(from);
    m_renamed.insert(to);
  }
  void opened(const char *table, bool recalculates)
  {
    const std::lock_guard<std::mutex> guard(m_mutex);
    if (m_renamed.erase(table) && recalculates)
      m_restored.insert(key_of(TablePath(table)));
  }
  /* False: another transaction has kept rows of the table, or of one of its indexes, locked for
     longer than the timeout. They are not removed then. */
  bool remove(const std::string &key, uint timeout_s)
  {
    std::unique_lock<std::mutex> lock(m_mutex);
    if (!m_thread.joinable() || m_stops || std::this_thread::get_id() == m_thread.get_id())
      return true;
    Removal removal= {key, timeout_s};
    m_removals.push_back(&removal);
    m_asked= true;
    m_wake.notify_all();
    m_done.wait(lock, [&] { return removal.is_done; });
    return removal.is_removed;
  }
  void wait_for_a_round(const char *table)
  {
    constexpr auto LONGEST= 2s;
    std::unique_lock<std::mutex> lock(m_mutex);
    if (!m_thread.joinable() || m_stops || std::this_thread::get_id() == m_thread.get_id())
      return;
    if (table)
      m_forgotten.insert(key_of(TablePath(table)));
    /* A round that runs now may have read the statistics before they changed. */
    const uint64_t wanted= m_rounds_begun + 1;
    m_asked= true;
    m_wake.notify_all();
    m_done.wait_for(lock, LONGEST, [&] { return m_stops || m_rounds_ended >= wanted; });
  }

private:
  struct Removal
  {
    std::string key;
    uint timeout_s;
    bool is_done= false, is_removed= true;
  };

  void run()
  {
    my_thread_init();
    std::unique_lock<std::mutex> lock(m_mutex);
    while (!m_stops)
    {
      m_wake.wait_for(lock, 1s, [this] { return m_stops || m_asked; });
      m_asked= false;
      remove_rows(lock);
      if (m_stops || !mysqld_server_started)
        continue;
      const uint64_t round= ++m_rounds_begun;
      const std::set<std::string> forgotten= std::move(m_forgotten);
      m_forgotten.clear();
      const std::set<std::string> restored= std::move(m_restored);
      m_restored.clear();
      lock.unlock();
      for (const std::string &table : forgotten)
      {
        forget_values(m_written.of_tables, table);
        forget_values(m_written.of_indexes, table);
      }
      round_of_writes();
      for (const std::string &table : restored)
        restore_rows(table);
      lock.lock();
      m_rounds_ended= round;
      m_done.notify_all();
    }
    remove_rows(lock);
    m_done.notify_all();
    lock.unlock();
    my_thread_end();
  }

  /* For statements that wait: they drop a table or an index. */
  void remove_rows(std::unique_lock<std::mutex> &lock)
  {
    while (!m_removals.empty())
    {
      Removal &removal= *m_removals.front();
      m_removals.pop_front();
      lock.unlock();
      const bool is_removed= m_stops || !mysqld_server_started || remove_rows(removal);
      lock.lock();
      removal.is_removed= is_removed;
      removal.is_done= true;
      m_done.notify_all();
    }
  }

  bool remove_rows(const Removal &removal)
  {
    const auto is_it= [&](const auto &row) { return is_of(row.first, removal.key); };
    const bool of_table= std::any_of(m_written.of_tables.begin(), m_written.of_tables.end(), is_it);
    if (!of_table && std::none_of(m_written.of_indexes.begin(), m_written.of_indexes.end(), is_it))
      return true;
    Local local;
    const std::string timeout= "SET SESSION innodb_lock_wait_timeout = " + std::to_string(removal.timeout_s);
    if (!local.is_open() || !local.run(timeout))
      return true;
    const bool is_removed= local.run("START TRANSACTION") &&
                           (!of_table || local.run("DELETE FROM mysql.innodb_table_stats WHERE " + removal.key)) &&
                           local.run("DELETE FROM mysql.innodb_index_stats WHERE " + removal.key);
    if (!is_removed)
    {
      const bool timed_out= local.timed_out();
      (void) local.run("ROLLBACK");
      return !timed_out;
    }
    if (!local.run("COMMIT"))
      return true;
    for (Rows *rows : {&m_written.of_tables, &m_written.of_indexes})
      for (auto row= rows->begin(); row != rows->end();)
        row= is_it(*row) ? rows->erase(row) : std::next(row);
    return true;
  }

  /* Rows that somebody has removed. */
  void restore_rows(const std::string &table)
  {
    Local local;
    if (!local.is_open())
      return;
    const std::pair<const char *, const Rows *> both[]= {{"mysql.innodb_table_stats", &m_written.of_tables},
                                                         {"mysql.innodb_index_stats", &m_written.of_indexes}};
    for (const auto &[name, rows] : both)
      for (const auto &[key, values] : *rows)
        if (is_of(key, table))
          (void) local.run(std::string("INSERT IGNORE INTO ") + name + " VALUES (" + values + ")");
  }

  void round_of_writes()
  {
    Statistics now;
    if (slc_statistics_list(engine, add_row, &now) || (m_is_known && now.of_tables == m_written.of_tables && now.of_indexes == m_written.of_indexes))
      return;
    Local local;
    bool done= local.is_open();
    /* After a start the tables may have outdated rows. */
    if (done && !m_is_known)
      done= local.run("DELETE FROM mysql.innodb_table_stats") && local.run("DELETE FROM mysql.innodb_index_stats");
    m_is_known|= done;
    done= done && write_rows(local, "mysql.innodb_table_stats", m_written.of_tables, now.of_tables) &&
          write_rows(local, "mysql.innodb_index_stats", m_written.of_indexes, now.of_indexes);
    if (!done && !m_warned)
      sql_print_warning(SLUICE_ENGINE_NAME ": statistics are not written to mysql.innodb_table_stats and innodb_index_stats for now: %s",
                        local.error().c_str());
    m_warned= !done;
  }

  std::thread m_thread;
  std::mutex m_mutex;
  std::condition_variable m_wake, m_done;
  bool m_stops= false, m_asked= false;
  uint64_t m_rounds_begun= 0, m_rounds_ended= 0;
  std::set<std::string> m_forgotten, m_restored; // keys
  std::set<std::string> m_renamed;      // the engine's names
  std::deque<Removal *> m_removals;
  /* Of the thread alone. */
  Statistics m_written;
  bool m_is_known= false, m_warned= false;
};

Writer writer;

} // namespace

void start_statistics_writer()
{
  if (!opt_bootstrap && !settings.read_only)
    writer.start();
}

void stop_statistics_writer() { writer.stop(); }

void wait_for_statistics_tables(const char *table) { writer.wait_for_a_round(table); }

void write_statistics_again(const char *table) { writer.forget(table); }
void statistics_renamed(const char *from, const char *to) { writer.renamed(from, to); }
void statistics_opened(const char *table, bool recalculates) { writer.opened(table, recalculates); }

bool remove_statistics(THD *thd, const char *table, const char *index)
{
  const TablePath path(table);
  /* What an ALTER TABLE makes has no rows. The statistics tables themselves have none. */
  if (!path.table.compare(0, 4, tmp_file_prefix) || path.schema == "mysql" || in_ddl_recovery)
    return true;
  const std::string key= key_of(path) + (index ? " AND index_name = " + quoted(index) : "");
  return writer.remove(key, lock_wait_timeout_ms(thd) / 1000);
}

bool is_statistics_table(const TABLE_SHARE *share)
{
  const std::string name(share->table_name.str, share->table_name.length);
  return !strcmp(share->db.str, "mysql") && (name == "innodb_table_stats" || name == "innodb_index_stats");
}

} // namespace sluice

#endif

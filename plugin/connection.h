/* Connection: what Sluice keeps for one THD: its transaction object in the engine, and where it
   stands in the server's protocol of statements and transactions.

   A statement begins with the first external_lock()/start_stmt()/read of a table. use() then starts
   the transaction if none is active, and registers it with the server: always for the statement,
   and for the transaction if it is longer than the statement. Before the first change use() takes
   the mark to which a failed statement rolls back. A statement ends in commit(all = false),
   rollback(all = false), or with the last table unlocked. Everything is called by the connection's
   own thread, except commit_ordered() (group commit's leader), cancel_wait() and wake(). Latches:
   m_mutex, which only a waiter and the threads that wake it take, for a moment.
   Called by: hton (transaction callbacks), the handler files. */
#ifndef SLUICE_CONNECTION_H
#define SLUICE_CONNECTION_H
#include "compat.h"
#include "foreign_rows.h"
#include "sluice_abi.h"
#include "update_times.h"
#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace sluice {

class Share;
struct LockReport;

class Connection
{
public:
  /* Of this THD; made when there is none. */
  static Connection *of(THD *thd);
  static Connection *existing(THD *thd);
  ~Connection();

  THD *thd() const { return m_thd; }
  slc_trx *trx() const { return m_trx; }
  uint isolation() const { return m_isolation; }
  bool is_started() const { return m_started; }
  /* Whether the transaction goes on after the present statement. */
  bool in_long_transaction() const { return thd_test_options(m_thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN) != 0; }

  int use(bool writes); // an error of the handler, reported already
  void table_locked() { m_locked_tables++; }
  void table_unlocked();
  /* From any thread that keeps this one from ending. */
  uint tables_in_use() const { return m_locked_tables.load(std::memory_order_relaxed); }

  int prepare(bool all);
  /* Galera: prepares an applied write set before its turn to commit. */
  int prepare_applied(const XID &xid);
  /* Galera: the write set will be durable after its turn to commit, if that is allowed (G9). */
  int begin_after_turn(bool *begun);
  void commit_ordered(bool all);
  int commit(bool all);
  int rollback(bool all);
  int start_snapshot();
  /* A savepoint: the engine's mark, and how many tables the transaction had changed. */
  struct Savepoint
  {
    uint64 mark, changed_tables;
  };
  Savepoint savepoint();
  int rollback_to(const Savepoint &savepoint);
  void cancel_wait();

  /* waiter.cc: how the engine sleeps in this connection's name */
  slc_waiter waiter() { return {this, &wait, &wake, &killed, &about_to_wait, &statement, &progress}; }
  static int wait(void *ctx, volatile uint32_t *flag, uint64_t timeout_us);
  static void wake(void *ctx);
  static int killed(void *ctx);
  static int about_to_wait(void *ctx, void *holder);
  static size_t statement(void *ctx, char *to, size_t size);
  static void progress(void *ctx, uint64_t done, uint64_t all);
  /* From thd_progress_init() to thd_progress_end(). */
  void shows_progress(bool on) { m_shows_progress= on; }

#ifdef SLUICE_STAND_IN
  /* The transaction has locked the table, or rows of it. */
  void note_locked(const char *table);
  /* From any thread that keeps this one from ending. */
  uint64_t tables_locked() const { return m_locked_in_transaction.load(std::memory_order_relaxed); }
  /* A row of the table has been changed. */
  void note_change(const char *table) { m_changed.note(table); }
  /* What INNODB_TRX shows of the last row that a foreign key refused; from any thread that keeps
     this one from ending. */
  void set_foreign_error(const std::string &text);
  std::string foreign_error();
#endif

  /* The server's number of the key that was last found twice. Not the handler's: that of a
     partitioned table asks the partition which a row comes from, not the one that refused it. */
  uint duplicate_key() const { return m_duplicate_key; }
  void set_duplicate_key(uint index) { m_duplicate_key= index; }

  /* Graphs of vector indexes whose lock the transaction holds. */
  bool holds_graph(const char *name) const;
  void note_graph(const char *name) { m_graphs.emplace_back(name); }
  bool has_snapshot_isolation() const { return m_snapshot_isolation; }

  /* Table-wide AUTO_INCREMENT locks held until the statement ends, or the table is closed for good;
     autoinc.cc */
  std::vector<Share *> &autoinc_locks() { return m_autoinc_locks; }
  void give_back_autoinc_lock(Share *share);

  /* What one statement sees of all transactions and locks, kept until all of its tables that show
     it have it; lock_tables.cc */
  struct StatementReport
  {
    query_id_t query= 0;
    std::shared_ptr<const LockReport> report;
    uint served= 0;
  };
  StatementReport &lock_report() { return m_lock_report; }

  /* ALTER TABLE by copy: `made` will take the place of `replaced`. Until the connection makes the
     next copy. */
  void note_copy(const std::string &made, const std::string &replaced) { m_copy= {made, replaced}; }
  const ForeignRows &foreign_rows() const { return m_foreign_rows; }
  ForeignRows &foreign_rows() { return m_foreign_rows; }
  std::string replaced_by_copy(const std::string &made) const { return m_copy.first == made ? m_copy.second : ""; }

private:
  explicit Connection(THD *thd);
  void start();
  void register_with_server();
  void close_snapshot_of_statement();
  void end_statement();
  void give_back_autoinc_locks();
  void end_transaction();
  bool waits_for_log() const;
  int prepare(const XID &xid, bool outlives);
  void make_visible();
  bool is_alone() const;
  bool is_prepared_and_attached() const;
  /* A statement that began as a transaction of its own ends it, even if it has turned autocommit
     off meanwhile. So does a statement of the server's own (a replica's position): it runs in a
     connection's transaction, with the options of a transaction taken away. */
  bool is_real_end(bool all) const { return all || !m_is_long || !in_long_transaction(); }

  THD *m_thd;
  slc_trx *m_trx;
  /* SLC_ISO_READ_UNCOMMITTED: in the stand-in alone. */
  uint m_isolation= SLC_ISO_REPEATABLE_READ;
  uint32 m_lock_wait_timeout_ms= 0;     // that the transaction knows
  std::atomic<uint> m_locked_tables{0};
  uint64 m_mark= 0;
  bool m_has_mark= false;
  bool m_started= false;
  bool m_in_statement= false;
  bool m_is_long= false;                // registered with the server for more than a statement
  bool m_ordered= false;
  bool m_applied= false;                // prepare_applied() was called
  bool m_xa_prepared= false;            // XA PREPARE: any connection may end the transaction
  bool m_shows_progress= false;
  uint m_duplicate_key= MAX_KEY;
  std::vector<Share *> m_autoinc_locks;
  std::vector<std::string> m_graphs;
  bool m_snapshot_isolation= false;     // as the transaction knows
  StatementReport m_lock_report;
  std::pair<std::string, std::string> m_copy;
  bool m_checks_foreign_keys= true;     // as the transaction knows
  ForeignRows m_foreign_rows;
#ifdef SLUICE_STAND_IN
  ChangedTables m_changed;
  std::vector<std::string> m_locked;
  std::atomic<uint64_t> m_locked_in_transaction{0};
  size_t m_changed_before= 0;           // the statement
  std::string m_foreign_error;          // under m_mutex
#endif
  mysql_mutex_t m_mutex;
  mysql_cond_t m_cond;
  bool m_after_turn= false;             // begin_after_turn() has begun it
};

} // namespace sluice
#endif

/* The life of a transaction as the server sees it; see connection.h. */
#include "connection.h"
#include "asleep.h"
#include "cluster.h"
#include "commit_turn.h"
#include "engine.h"
#include "errors.h"
#include "foreign.h"
#include "mutant.h"
#include "replica_order.h"
#include "settings.h"
#include "share.h"
#include "xa.h"
#include <algorithm>
#include <mysql/service_wsrep.h>

namespace sluice {

#ifdef SLUICE_STAND_IN
/* As InnoDB, the stand-in shows what is not committed. */
static constexpr uint LOWEST_ISOLATION= SLC_ISO_READ_UNCOMMITTED;
#else
/* READ UNCOMMITTED is served as READ COMMITTED. */
static constexpr uint LOWEST_ISOLATION= SLC_ISO_READ_COMMITTED;
#endif

Connection *Connection::existing(THD *thd) { return static_cast<Connection *>(thd_get_ha_data(thd, hton)); }

Connection *Connection::of(THD *thd)
{
  Connection *connection= existing(thd);
  if (unlikely(!connection))
  {
    connection= new Connection(thd);
    thd_set_ha_data(thd, hton, connection);
  }
  return connection;
}

Connection::Connection(THD *thd) : m_thd(thd), m_foreign_rows(thd)
{
  mysql_mutex_init(0, &m_mutex, MY_MUTEX_INIT_FAST);
  mysql_cond_init(0, &m_cond, nullptr);
  const slc_waiter sleeps= waiter();
  m_trx= slc_trx_new(engine, &sleeps, thd_get_thread_id(thd));
  const slc_row_maker rows= m_foreign_rows.maker();
  slc_trx_set_row_maker(m_trx, &rows);
}

Connection::~Connection()
{
  end_statement();
  slc_trx_free(m_trx);
  mysql_cond_destroy(&m_cond);
  mysql_mutex_destroy(&m_mutex);
}

/* The isolation level is read when a transaction begins; at the levels up to READ COMMITTED it may
   change between. */
void Connection::start()
{
  if (!m_started)
  {
    m_isolation= std::max<uint>(thd_tx_isolation(m_thd), LOWEST_ISOLATION);
    /* The locking reads of an autocommit statement take no snapshot: its transaction has no later
       statement that could see newer rows. A replica repeats what the primary decided, in the
       primary's order, and must not be refused. */
    slc_trx_snapshot_by_locking(m_trx, in_long_transaction() && !m_thd->slave_thread);
  }
  const uint64_t place= place_in_cluster(m_thd);
  /* What the cluster has decided is carried out, however long it takes. */
  const uint32 timeout_ms= unlikely(place != 0) ? UINT_MAX32 : lock_wait_timeout_ms(m_thd);
  if (!m_started || timeout_ms != m_lock_wait_timeout_ms)
    slc_trx_start(m_trx, m_isolation, timeout_ms);
  m_lock_wait_timeout_ms= timeout_ms;
  if (unlikely(place != 0))
    slc_trx_set_place(m_trx, place);
  if (!m_started)
  {
    m_snapshot_isolation= snapshot_isolation(m_thd) && !place;
    slc_trx_snapshot_isolation(m_trx, m_snapshot_isolation);
    const XID_STATE &xa= m_thd->transaction->xid_state;
    if (unlikely(xa.is_explicit_XA()))
    {
      const slc_xid name= engine_xid(*xa.get_xid());
      slc_trx_name(m_trx, &name);
    }
  }
  m_started= true;
}

void Connection::register_with_server()
{
  trans_register_ha(m_thd, false, hton, 0);
  m_is_long= in_long_transaction();
  if (!m_is_long)
    return;
  trans_register_ha(m_thd, true, hton, 0);
  if (unlikely(is_local_to_cluster(m_thd)))
    include_write_set_in_savepoints(m_thd);
}

/* XA PREPARE was executed, and the transaction is still attached to this session. */
bool Connection::is_prepared_and_attached() const
{
  const XID_STATE &xa= m_thd->transaction->xid_state;
  return m_xa_prepared && xa.is_explicit_XA() && xa.get_state_code() == XA_PREPARED;
}

int Connection::use(bool writes)
{
  /* The server refuses statements after XA PREPARE, but not before it has locked the tables of
     their functions (SELECT f()). */
  if (unlikely(is_prepared_and_attached()))
  {
    m_thd->transaction->xid_state.er_xaer_rmfail();
    return HA_ERR_UNSUPPORTED;
  }
  /* The transaction is prepared, and the server has detached it from this session. It does not call
     engines when a client resets its connection (COM_RESET_CONNECTION, COM_CHANGE_USER). */
  if (unlikely(m_xa_prepared))
  {
    slc_trx_leave(m_trx);
    end_transaction();
  }
  if (!m_started || !m_in_statement)
  {
    start();
    register_with_server();
    m_in_statement= true;
  }
  if (unlikely(m_thd->transaction->all.modified_non_trans_table))
    slc_trx_note_changes_that_stay(m_trx);
  if (unlikely(checks_foreign_keys(m_thd) != m_checks_foreign_keys))
  {
    m_checks_foreign_keys= !m_checks_foreign_keys;
    slc_trx_foreign_key_checks(m_trx, m_checks_foreign_keys);
  }
  if (writes && !m_has_mark)
  {
    m_mark= slc_trx_savepoint(m_trx);
    m_has_mark= true;
#ifdef SLUICE_STAND_IN
    m_changed_before= m_changed.place();
#endif
  }
  return 0;
}

void Connection::table_unlocked()
{
  if (m_locked_tables && --m_locked_tables == 0)
    close_snapshot_of_statement();
}

/* Up to READ COMMITTED each statement reads by a snapshot of its own. */
void Connection::close_snapshot_of_statement()
{
  if (m_started && m_isolation <= SLC_ISO_READ_COMMITTED)
    slc_trx_close_snapshot(m_trx);
}

void Connection::end_statement()
{
  m_in_statement= false;
  m_has_mark= false;
  m_foreign_rows.end_statement();
  give_back_autoinc_locks();
}

void Connection::give_back_autoinc_lock(Share *share)
{
  share->autoinc_unlock(this);
  m_autoinc_locks.erase(std::find(m_autoinc_locks.begin(), m_autoinc_locks.end(), share));
}

void Connection::give_back_autoinc_locks()
{
  while (!m_autoinc_locks.empty())
    give_back_autoinc_lock(m_autoinc_locks.back());
}

bool Connection::holds_graph(const char *name) const
{
  return std::find(m_graphs.begin(), m_graphs.end(), name) != m_graphs.end();
}

void Connection::end_transaction()
{
  end_statement();
  m_graphs.clear();
  m_started= false;
  m_ordered= false;
  m_applied= false;
  m_xa_prepared= false;
  if (m_after_turn)
    write_set_ended();
  m_after_turn= false;
#ifdef SLUICE_STAND_IN
  m_locked.clear();
  m_locked_in_transaction.store(0, std::memory_order_relaxed);
  if (unlikely(!m_foreign_error.empty()))
    set_foreign_error("");
#endif
}

/* Whether the log must have what this transaction wrote before its commit, or its preparation,
   returns. */
bool Connection::waits_for_log() const { return settings.flush_log_at_trx_commit != 0 && slc_trx_has_writes(m_trx); }

int Connection::prepare(bool all)
{
  if (!is_real_end(all))
  {
    end_statement();
    return 0;
  }
  XID xid;
  thd_get_xid(m_thd, reinterpret_cast<MYSQL_XID *>(&xid));
  const bool outlives= thd_sql_command(m_thd) == SQLCOM_XA_PREPARE;
  if (m_thd->transaction->xid_state.is_explicit_XA() && !outlives && is_alone())
    xid= m_thd->transaction->implicit_xid;
  int error= prepare(xid, outlives);
  m_xa_prepared= outlives && !error;
  if (unlikely(lacks_order(m_thd)) && !error && !outlives)
  {
    warn_of_two_engines();
    error= wait_for_commit_before(m_thd);
    if (!error && !other_engine_follows(m_thd, all))
      make_visible();
  }
  return error;
}

int Connection::prepare(const XID &xid, bool outlives)
{
  const ClusterPosition position= position_of(xid);
  if (unlikely(position.length))
  {
    /* Changes that need no record (a loaded table) must have the position, too. */
    if (const int error= server_error(slc_trx_begin_writing(m_trx), m_thd, "(transaction)"))
      return error;
    slc_trx_set_position(m_trx, position.bytes, position.length);
  }
  const slc_xid name= engine_xid(xid);
  const Asleep asleep(m_thd, THD_WAIT_GROUP_COMMIT, waits_for_log());
  return server_error(slc_trx_prepare(m_trx, &name, outlives), m_thd, "(transaction)");
}

int Connection::prepare_applied(const XID &xid)
{
  if (!m_started || m_applied)
    return 0;
  const int error= prepare(xid, false);
  m_applied= !error;
  return error;
}

int Connection::begin_after_turn(bool *begun)
{
  *begun= m_after_turn;
  if (m_after_turn || !m_started || !sluice::begin_after_turn())
    return 0;
  *begun= m_after_turn= true;
  /* Changes that need no record (a loaded table) must have the position, too. */
  return server_error(slc_trx_begin_writing(m_trx), m_thd, "(transaction)");
}

/* Of all engines that can be asked after a crash. XA COMMIT ... ONE PHASE prepares under the user's
   name. Recovery would leave the transaction to the user, although the binlog has it as committed,
   by the server's name. Where other engines take part, they have the user's name, and one decision
   must end all parts. */
bool Connection::is_alone() const
{
  for (Ha_trx_info *part= m_thd->transaction->all.ha_list; part; part= part->next())
    if (part->ht() != hton && part->ht()->recover && part->is_trx_read_write())
      return false;
  return true;
}

/* Visible, in the cluster's order if there is one. The next one's turn comes before this commit is
   durable. */
void Connection::make_visible()
{
  if (unlikely(commit_in_cluster(m_thd, m_trx)))
    wsrep_commit_ordered(m_thd);
  else
    slc_trx_commit_ordered(m_trx);
}

void Connection::commit_ordered(bool all)
{
  if (!is_real_end(all) || !m_started)
    return;
  /* The server asks every engine that takes part. A reader has nothing in the coordinator's log: it
     must itself wait until the commits that it was shown are durable. */
  m_ordered= slc_trx_has_writes(m_trx);
  make_visible();
}

/* A commit that went through commit_ordered() is on the coordinator's log: the binlog, or tc.log
   (xa.cc), decides after a crash, so its redo need not be synced here. */
int Connection::commit(bool all)
{
  if (!is_real_end(all))
  {
    end_statement();
    close_snapshot_of_statement();
    return 0;
  }
  give_back_autoinc_locks();
  /* A client waits for its own write set (G9), also if another thread replays it in its place. */
  const bool is_applier= m_after_turn && m_thd->system_thread != NON_SYSTEM_THREAD && wsrep_thd_is_applying(m_thd);
  const bool durable= m_after_turn ? !is_applier && !planted(Mutant::ClientAnsweredEarly) : (!m_ordered && !m_applied) || m_xa_prepared;
  if (planted(Mutant::GraphCacheFirst) && !m_graphs.empty())
    pause_of_mutant();                  // after the server has called the cache
  if (m_started && !m_ordered && slc_trx_has_writes(m_trx))
    make_visible();
  /* V5. The server would do it after this function, which may wait for the log. */
  if (unlikely(!m_graphs.empty()))
  {
    if (planted(Mutant::GraphCacheLate))
      pause_of_mutant();
    else
      commit_graph_cache(m_thd, all);
  }
  if (likely(!lacks_order(m_thd)) || !other_engine_follows(m_thd, all))
    thd_wakeup_subsequent_commits(m_thd, 0);
  int error= 0;
  if (m_started)
  {
    const Asleep asleep(m_thd, THD_WAIT_GROUP_COMMIT, durable && waits_for_log());
    error= server_error(slc_trx_commit(m_trx, durable), nullptr, "(commit)");
  }
#ifdef SLUICE_STAND_IN
  m_changed.committed();
#endif
  end_transaction();
  return error;
}

int Connection::rollback(bool all)
{
  int error= 0;
  if (is_real_end(all))
  {
    give_back_autoinc_locks();          // while they are surely ours
    if (m_started)
      error= server_error(slc_trx_rollback(m_trx), nullptr, "(rollback)");
#ifdef SLUICE_STAND_IN
    m_changed.rolled_back_to(0);
#endif
    end_transaction();
    return error;
  }
  if (m_has_mark)
  {
    error= server_error(slc_trx_rollback_to(m_trx, m_mark), nullptr, "(rollback of a statement)");
#ifdef SLUICE_STAND_IN
    m_changed.rolled_back_to(m_changed_before);
#endif
  }
  end_statement();
  close_snapshot_of_statement();
  return error;
}

int Connection::start_snapshot()
{
  if (const int error= use(false))
    return error;
  if (m_isolation != SLC_ISO_REPEATABLE_READ)
  {
    push_warning_printf(m_thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_UNSUPPORTED,
                        SLUICE_ENGINE_NAME ": WITH CONSISTENT SNAPSHOT is ignored: of the isolation levels only REPEATABLE READ "
                        "reads from one snapshot.");
    return 0;
  }
  return server_error(slc_trx_open_snapshot(m_trx), m_thd, "(snapshot)");
}

Connection::Savepoint Connection::savepoint()
{
#ifdef SLUICE_STAND_IN
  return {slc_trx_savepoint(m_trx), m_changed.place()};
#else
  return {slc_trx_savepoint(m_trx), 0};
#endif
}

int Connection::rollback_to(const Savepoint &savepoint)
{
  const int error= server_error(slc_trx_rollback_to(m_trx, savepoint.mark), m_thd, "(savepoint)");
#ifdef SLUICE_STAND_IN
  if (!error)
    m_changed.rolled_back_to(savepoint.changed_tables);
#endif
  return error;
}

#ifdef SLUICE_STAND_IN
void Connection::note_locked(const char *table)
{
  if (std::find(m_locked.begin(), m_locked.end(), table) == m_locked.end())
    m_locked.emplace_back(table);
  m_locked_in_transaction.store(m_locked.size(), std::memory_order_relaxed);
}

void Connection::set_foreign_error(const std::string &text)
{
  mysql_mutex_lock(&m_mutex);
  m_foreign_error= text;
  mysql_mutex_unlock(&m_mutex);
}

std::string Connection::foreign_error()
{
  mysql_mutex_lock(&m_mutex);
  const std::string text= m_foreign_error;
  mysql_mutex_unlock(&m_mutex);
  return text;
}
#endif

void Connection::cancel_wait() { slc_trx_cancel_wait(m_trx); }

} // namespace sluice

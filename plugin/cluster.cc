/* Galera: positions, and the refusals of what a cluster cannot do; see cluster.h. The aborts are in
   cluster_abort.cc. */
#include "cluster.h"
#include "commit_turn.h"
#include "connection.h"
#include "engine.h"
#include "errors.h"
#include "mutant.h"
#include "settings.h"
#include "xa.h"
#include "sys_vars_shared.h"
#include "wsrep_mysqld.h"
#include "wsrep_sst.h"
#include <algorithm>
#include <mysql/service_wsrep.h>
#include <vector>

/* Exported by the server. Its own header does not go with the macros of service_wsrep.h. */
extern "C" my_bool wsrep_thd_is_toi(const MYSQL_THD thd);
void wsrep_xid_init(xid_t *, const wsrep::gtid &, const wsrep_server_gtid_t &);

namespace sluice {

bool is_high_priority(const THD *thd) { return thd && WSREP(thd) && wsrep_thd_is_BF(thd, false); }

uint64_t place_in_cluster(const THD *thd)
{
  /* A thread without a number yet comes after all others. */
  constexpr uint64_t LAST= 1ULL << 62;
  if (!is_high_priority(thd))
    return 0;
  const long long number= wsrep_thd_trx_seqno(thd);
  return number > 0 ? static_cast<uint64_t>(number) : LAST;
}

bool is_local_to_cluster(THD *thd) { return WSREP(thd) && wsrep_thd_is_local(thd) && !wsrep_thd_ignore_table(thd); }

/* The server collects the write set in the cache of the binary log. A connection gets its cache at
   its first write. A savepoint set before leaves the cache out, and so does ROLLBACK TO. So the cache
   is made earlier. If memory lacks, it is made at the first write after all. */
void include_write_set_in_savepoints(THD *thd)
{
  if (WSREP_EMULATE_BINLOG(thd) && !planted(Mutant::SavepointUnknownToWriteSet))
    thd->binlog_setup_trx_data();
}

/* ---- the position (G6) ---- */

namespace {

/* The other engines that the cluster replicates; from begin_in_cluster() on. */
std::vector<handlerton *> others;

my_bool note_other(THD *, plugin_ref plugin, void *)
{
  handlerton *const other= plugin_hton(plugin);
  if (other != hton && (other->flags & HTON_WSREP_REPLICATION) && other->flush_logs)
    others.push_back(other);
  return false;
}

/* Before a position gets into Sluice's log: what other replicated engines have committed is
   durable, since the position stands for that, too (G7). Costs nothing in an engine that has
   written nothing since the last call. */
void make_others_durable()
{
  for (handlerton *other : others)
    other->flush_logs(other);
}

/* What is stored: one byte of State, then the data of the server's XID. */
struct Stored
{
  State state= STATE_RUNNING;
  XID xid;                              // null: none
};

Stored stored_position()
{
  Stored found;
  found.xid.null();
  uint8_t bytes[sizeof(XID)];
  const size_t length= slc_engine_position(engine, bytes, sizeof bytes);
  if (length < 2)
    return found;
  found.state= static_cast<State>(bytes[0]);
  found.xid.set(1, reinterpret_cast<const char *>(bytes + 1), static_cast<long>(length - 1), "", 0);
  if (!wsrep_is_wsrep_xid(&found.xid))
    found.xid.null();
  return found;
}

ClusterPosition position_of(const XID &xid, State state)
{
  ClusterPosition position;
  if (!wsrep_is_wsrep_xid(&xid))
    return position;
  position.bytes[0]= state;
  memcpy(position.bytes + 1, xid.data, xid.gtrid_length);
  position.length= 1 + xid.gtrid_length;
  return position;
}

bool same_cluster(const XID &a, const XID &b) { return !memcmp(wsrep_xid_uuid(&a), wsrep_xid_uuid(&b), sizeof(wsrep_uuid_t)); }

/* The newer of both goes to `to`. Positions of two clusters: the server's engines have got the
   newer one, since it is stored in all. */
void keep_newer(XID *to, const XID &other)
{
  if (!wsrep_is_wsrep_xid(&other))
    return;
  if (!wsrep_is_wsrep_xid(to) || (same_cluster(*to, other) && wsrep_xid_seqno(to) < wsrep_xid_seqno(&other)))
    *to= other;
}

bool store(const XID &xid, State state, bool durable= true)
{
  const ClusterPosition position= position_of(xid, state);
  if (!position.length || settings.read_only)
    return false;
  const slc_err error= slc_engine_set_position(engine, position.bytes, position.length, durable);
  if (error)
    server_error(error, nullptr, "(position of the cluster)");
  return !error;
}

/* For begin_turns(). Not while the files are copied, or are of no use. */
bool store_state(State state)
{
  const Stored now= stored_position();
  return now.state != STATE_CLEAN && now.state != STATE_UNKNOWN && store(now.xid, state);
}

my_bool position_of_engine(THD *, plugin_ref plugin, void *xid)
{
  handlerton *const other= plugin_hton(plugin);
  if (other == hton || !other->get_checkpoint)
    return false;
  XID theirs;
  theirs.null();
  other->get_checkpoint(other, &theirs);
  keep_newer(static_cast<XID *>(xid), theirs);
  return false;
}

/* Of the other engines. */
XID position_elsewhere()
{
  XID xid;
  xid.null();
  plugin_foreach(nullptr, position_of_engine, MYSQL_STORAGE_ENGINE_PLUGIN, &xid);
  return xid;
}

/* Durable, but for a refused write set while G9 holds: if it is lost, it comes again. */
int set_checkpoint(handlerton *, const XID *xid)
{
  CommitTurn turn;
  const Stored now= stored_position();
  const bool goes_back= wsrep_is_wsrep_xid(&now.xid) && wsrep_is_wsrep_xid(xid) && same_cluster(now.xid, *xid) && now.state != STATE_UNKNOWN &&
                        wsrep_xid_seqno(xid) >= 0 && wsrep_xid_seqno(xid) < wsrep_xid_seqno(&now.xid);
  if (goes_back)
    return 0;
  const long long number= wsrep_is_wsrep_xid(xid) ? wsrep_xid_seqno(xid) : -1;
  const bool is_refused_write_set= turn.is_next(number) && current_thd && !wsrep_thd_is_toi(current_thd);
  store(*xid, turn.state(), !turn.is_after() || !is_refused_write_set);
  turn.note_position(number);
  return 0;
}

/* The server asks all engines in turn, with one answer for all. */
int get_checkpoint(handlerton *, XID *xid)
{
  const Stored now= stored_position();
  if (now.state == STATE_UNKNOWN)
    xid->null();
  else
    keep_newer(xid, now.xid);
  return 0;
}

} // namespace

ClusterPosition position_of(const XID &xid) { return position_of(xid, STATE_RUNNING); }

/* A statement in total order stores its position itself, at its end. */
bool commit_in_cluster(THD *thd, slc_trx *trx)
{
  if (!WSREP(thd) || wsrep_thd_is_toi(thd))
    return false;
  XID xid;
  thd_get_xid(thd, reinterpret_cast<MYSQL_XID *>(&xid));
  if (!wsrep_is_wsrep_xid(&xid))
    return false;
  const CommitTurn turn(wsrep_xid_seqno(&xid));
  if (turn.others_may_have_written())
    make_others_durable();
  const ClusterPosition position= position_of(xid, turn.state());
  if (planted(Mutant::PositionAheadOfChanges))
    store(xid, turn.state());
  slc_trx_set_position(trx, position.bytes, position.length);
  slc_trx_commit_ordered(trx);
  return true;
}


/* ---- after a crash (G7) ---- */

namespace {

struct Prepared
{
  handlerton *where;
  XID xid;
};

my_bool prepared_in_engine(THD *, plugin_ref plugin, void *found)
{
  handlerton *const other= plugin_hton(plugin);
  if (other == hton || !(other->flags & HTON_WSREP_REPLICATION) || !other->recover || !other->commit_by_xid)
    return false;
  std::vector<XID> list(UINT_MAX16);
#if MYSQL_VERSION_ID < 110800
  const int count= other->recover(other, list.data(), static_cast<uint>(list.size()));
#else
  const int count= other->recover(list.data(), static_cast<uint>(list.size()));
#endif
  for (int i= 0; i < count; i++)
    if (wsrep_is_wsrep_xid(&list[i]))
      static_cast<std::vector<Prepared> *>(found)->push_back({other, list[i]});
  return false;
}

std::vector<Prepared> prepared_everywhere()
{
  std::vector<Prepared> found;
  for (const XID &xid : prepared_xids())
    if (wsrep_is_wsrep_xid(&xid))
      found.push_back({hton, xid});
  plugin_foreach(nullptr, prepared_in_engine, MYSQL_STORAGE_ENGINE_PLUGIN, &found);
  std::sort(found.begin(), found.end(), [](const Prepared &a, const Prepared &b) { return wsrep_xid_seqno(&a.xid) < wsrep_xid_seqno(&b.xid); });
  return found;
}

bool commit_prepared(const Prepared &prepared)
{
  if (prepared.where != hton)
  {
    XID xid= prepared.xid;
    return SLUICE_COMMIT_BY_XID(prepared.where, &xid) == XA_OK;
  }
  const slc_xid name= engine_xid(prepared.xid);
  const ClusterPosition position= position_of(prepared.xid, STATE_RUNNING);
  return slc_commit_by_xid(engine, &name, position.bytes, position.length) == SLC_OK;
}

/* With a binary log, the server's own recovery decides. */
void settle_prepared()
{
  if (opt_bin_log)
    return;
  const Stored ours= stored_position();
  XID at= position_elsewhere();
  keep_newer(&at, ours.xid);
  if (!wsrep_is_wsrep_xid(&at) || ours.state == STATE_UNKNOWN)
    return;
  long long number= wsrep_xid_seqno(&at);
  uint committed= 0;
  for (const Prepared &prepared : prepared_everywhere())
  {
    const long long its= wsrep_xid_seqno(&prepared.xid);
    if (!same_cluster(at, prepared.xid) || its > number + 1)
      continue;
    if (!commit_prepared(prepared))
    {
      sql_print_error(SLUICE_ENGINE_NAME ": Galera: write set %lld is prepared and cannot be committed: this node needs a full state transfer", its);
      store(at, STATE_UNKNOWN);
      return;
    }
    number= std::max(number, its);
    committed++;
  }
  if (committed)
    sql_print_information(SLUICE_ENGINE_NAME ": Galera: committed %u prepared write sets after the crash; the position is %lld", committed, number);
}

} // namespace

/* ---- a lost end of a log ---- */

namespace {

/* A global variable of the server or of another engine; `otherwise`: there is none. */
longlong global_variable(const char *name, longlong otherwise)
{
  sys_var *const variable= intern_find_sys_var(name, strlen(name));
  if (!variable)
    return otherwise;
  bool is_null;
  return variable->val_int(&is_null, nullptr, OPT_GLOBAL, &null_clex_str);
}

/* One log has a later position than the other, and the end of the other may be lost. Its changes
   are below the position, so no node would send them again. */
bool lost_an_end(const Stored &ours, const XID &theirs)
{
  if (ours.state == STATE_CLEAN || !wsrep_is_wsrep_xid(&theirs) || !wsrep_is_wsrep_xid(&ours.xid) || !same_cluster(ours.xid, theirs))
    return false;
  const long long here= wsrep_xid_seqno(&ours.xid), there= wsrep_xid_seqno(&theirs);
  return (here < there && (ours.state == STATE_AFTER || settings.flush_log_at_trx_commit != 1)) ||
         (there < here && global_variable("innodb_flush_log_at_trx_commit", 1) != 1);
}

} // namespace

void begin_in_cluster()
{
  others.clear();
  plugin_foreach(nullptr, note_other, MYSQL_STORAGE_ENGINE_PLUGIN, nullptr);
  if (tc_log || !global_system_variables.wsrep_on || settings.read_only)
    return;
  const bool has_lost= lost_an_end(stored_position(), position_elsewhere());
  /* What is prepared may follow what is lost. */
  if (!has_lost)
    settle_prepared();
  const Stored ours= stored_position();
  XID at= position_elsewhere();
  const bool is_unknown= ours.state == STATE_UNKNOWN || has_lost;
  keep_newer(&at, ours.xid);
  if (is_unknown)
    sql_print_warning(SLUICE_ENGINE_NAME ": Galera: after a crash in the middle of a state transfer, or with flush_log_at_trx_commit other than 1, of "
                      "Sluice or InnoDB, or when a table of InnoDB was changed first after Sluice's alone, this node may lack write sets up to %lld: "
                      "its position counts as unknown, and it needs a full state transfer",
                      wsrep_is_wsrep_xid(&at) ? wsrep_xid_seqno(&at) : -1LL);
  /* --wsrep-recover only asks for the position. */
  if (is_unknown || (ours.state != STATE_RUNNING && !get_wsrep_recovery()))
    store(at, is_unknown ? STATE_UNKNOWN : STATE_RUNNING);
  if (!opt_bin_log && !get_wsrep_recovery())
    begin_turns(store_state);
}

void end_in_cluster()
{
  end_turns();
  if (!global_system_variables.wsrep_on || settings.read_only || stored_position().state == STATE_UNKNOWN)
    return;
  XID at= position_elsewhere();
  keep_newer(&at, stored_position().xid);
  store(at, STATE_CLEAN);
}

/* ---- state transfer ---- */

const char *refused_state_transfer()
{
  if (!global_system_variables.wsrep_on || !wsrep_sst_method)
    return nullptr;
  for (const char *leaves_out : {"mariabackup", "xtrabackup"})
    if (!strncmp(wsrep_sst_method, leaves_out, strlen(leaves_out)))
      return "wsrep_sst_method=mariabackup transfers no tables of " SLUICE_ENGINE_NAME ", and this node would lack them: use wsrep_sst_method=sluice "
             "(the programs of sluice-tools) or wsrep_sst_method=rsync";
  return nullptr;
}

namespace {

/* Stores the position before or after the donor's files are copied by rsync. No write set commits
   meanwhile, and the logs of all engines are durable up to the position. So the joiner must not take
   different positions of its engines for a lost end of a log. */
void store_for_copy(bool begins)
{
  CommitTurn turn;
  const Stored ours= stored_position();
  if (ours.state == STATE_UNKNOWN)
    return;
  XID at= position_elsewhere();
  keep_newer(&at, ours.xid);
  make_others_durable();
  store(at, begins ? STATE_CLEAN : turn.state());
}

void disable_internal_writes(bool disable)
{
  if (disable)
    store_for_copy(true);
  if (const slc_err error= slc_engine_hold_writes(engine, disable))
    server_error(error, nullptr, "(writes held off for a state transfer)");
  if (!disable)
    store_for_copy(false);
  sql_print_information(SLUICE_ENGINE_NAME ": Galera: writes to %s %s", settings.directory,
                        disable ? "are held off: its files are being copied to another node" : "go on");
}

/* ---- what a cluster cannot do (G8) ---- */

handlerton *other_writer(const THD_TRANS &transaction)
{
  for (Ha_trx_info *part= transaction.ha_list; part; part= part->next())
    if (part->ht() != hton && (part->ht()->flags & HTON_WSREP_REPLICATION) && part->is_trx_read_write())
      return static_cast<handlerton *>(part->ht());
  return nullptr;
}

bool is_writer(const THD_TRANS &transaction)
{
  for (Ha_trx_info *part= transaction.ha_list; part; part= part->next())
    if (part->ht() == hton)
      return part->is_trx_read_write();
  return false;
}

/* The write set that is applied is a transaction of one engine, so the server prepares nothing. But
   its turn to commit must find it durable (G7), unless G9 holds. With a binary log there are two
   phases. */
bool prepare_applied(THD *thd)
{
  Connection *const connection= Connection::existing(thd);
  if (opt_bin_log || !connection)
    return true;
  bool is_after_turn;
  if (const int error= connection->begin_after_turn(&is_after_turn); error || is_after_turn)
    return !error;
  wsrep_server_gtid_t no_gtid= {0, 0, 0};
  XID xid;
  wsrep_xid_init(&xid, thd->wsrep_trx().ws_meta().gtid(), no_gtid);
  return !connection->prepare_applied(xid);
}

/* G9: a commit of one phase. The second phase is there for engines that must agree, and only one
   has changes here. Between the two the server would sync its tc.log, in the turn to commit. False:
   an error was reported. */
bool commit_after_turn(THD *thd, THD_TRANS *all)
{
  Connection *const connection= Connection::existing(thd);
  /* Parallel threads of a replica agree on their order before certification, in two phases only. */
  if (opt_bin_log || !connection || thd->slave_thread)
    return true;
  bool is_after_turn;
  if (connection->begin_after_turn(&is_after_turn))
    return false;
  if (is_after_turn)
    all->no_2pc= true;
  return true;
}

/* The server asks before a commit, whichever engine was written first. Nothing is prepared or
   replicated then. */
ulonglong before_commit(THD *thd, ulonglong *)
{
  if (WSREP(thd) && wsrep_thd_is_applying(thd) && !wsrep_thd_is_toi(thd) && wsrep_thd_trx_seqno(thd) > 0)
    return prepare_applied(thd) ? 0 : ULONGLONG_MAX;
  if (!is_local_to_cluster(thd))
    return 0;
  THD_TRANS &all= thd->transaction->all.ha_list ? thd->transaction->all : thd->transaction->stmt;
  if (!is_writer(all))
    return 0;
  handlerton *const other= other_writer(all);
  if (!other)
    return commit_after_turn(thd, &all) ? 0 : ULONGLONG_MAX;
  my_printf_error(ER_NOT_SUPPORTED_YET, "In a Galera cluster one transaction cannot change tables of both " SLUICE_ENGINE_NAME
                  " and %s: it was rolled back. Change them in two transactions", MYF(0), hton_name(other)->str);
  return ULONGLONG_MAX;
}

} // namespace

int refuse_second_engine(THD *thd, const TABLE_SHARE *share)
{
  /* The nodes that apply the fragments remove them from InnoDB's table in the same transaction. */
  if (thd->variables.wsrep_trx_fragment_size > 0)
  {
    my_printf_error(ER_NOT_SUPPORTED_YET, "Galera's streaming replication cannot change tables of " SLUICE_ENGINE_NAME
                    " (%s.%s): SET SESSION wsrep_trx_fragment_size=0", MYF(0), share->db.str, share->table_name.str);
    return SLUICE_ERR_ALREADY_REPORTED;
  }
  handlerton *other= other_writer(thd->transaction->all);
  if (!other)
    other= other_writer(thd->transaction->stmt);
  if (likely(!other))
    return 0;
  my_printf_error(ER_NOT_SUPPORTED_YET, "In a Galera cluster one transaction cannot change tables of both " SLUICE_ENGINE_NAME
                  " (%s.%s) and %s. Change them in two transactions", MYF(0), share->db.str, share->table_name.str, hton_name(other)->str);
  return SLUICE_ERR_ALREADY_REPORTED;
}

#ifdef SLUICE_STAND_IN
#define INSTEAD_OF_SEQUENCE "an AUTO_INCREMENT column"
#else
#define INSTEAD_OF_SEQUENCE "ENGINE=InnoDB for it"
#endif

int refuse_sequence(THD *thd, const TABLE_SHARE *share)
{
  if (!is_local_to_cluster(thd))
    return 0;
  my_printf_error(ER_NOT_SUPPORTED_YET, "A Galera cluster replicates no sequence of " SLUICE_ENGINE_NAME " (%s.%s). Use " INSTEAD_OF_SEQUENCE
                  ", or SET SESSION wsrep_on=OFF to use it on this node alone", MYF(0), share->db.str, share->table_name.str);
  return SLUICE_ERR_ALREADY_REPORTED;
}

int refuse_vector_index(THD *thd, const TABLE_SHARE *share)
{
  if (likely(!WSREP(thd)))
    return 0;
  my_printf_error(ER_NOT_SUPPORTED_YET, "A Galera cluster replicates no table of " SLUICE_ENGINE_NAME " with a VECTOR index (%s.%s). Drop the index, "
                  "or SET SESSION wsrep_on=OFF to use the table on this node alone", MYF(0), share->db.str, share->table_name.str);
  return SLUICE_ERR_ALREADY_REPORTED;
}

#ifdef SLUICE_STAND_IN
namespace {

/* The server has marked the victim as killed. Its wait in the engine and its two mutexes are left
   to the engine with InnoDB's number. */
void abort_transaction(handlerton *, THD *, THD *victim, my_bool)
{
  if (Connection *connection= Connection::existing(victim))
    connection->cancel_wait();
  wsrep_thd_UNLOCK(victim);
  wsrep_thd_kill_UNLOCK(victim);
}

} // namespace
#endif

void set_cluster_callbacks(handlerton *to)
{
#ifdef SLUICE_STAND_IN
  /* By this number the server knows what a cluster replicates in full. */
  to->db_type= DB_TYPE_INNODB;
  to->abort_transaction= abort_transaction;
#endif
  to->flags|= HTON_WSREP_REPLICATION;
  to->set_checkpoint= set_checkpoint;
  to->get_checkpoint= get_checkpoint;
  to->disable_internal_writes= disable_internal_writes;
  to->prepare_commit_versioned= before_commit;
}

} // namespace sluice

/* Galera: a write set of another node aborts the local holder of a row lock that it needs (G5); see
   cluster.h.

   Order of mutexes in an abort: the holder's LOCK_thd_kill, its LOCK_thd_data, and under them what
   the server takes to wake it: the mutex of its wait (Connection::m_mutex). The engine calls with
   no latch and no mutex held (I5), and keeps the holder's connection from ending. */
#include "cluster.h"
#include "connection.h"
#include "engine.h"
#include "mutant.h"
#include "wsrep_mysqld.h"
#include <mysql/service_wsrep.h>
#include <string>

namespace sluice {

namespace {

/* Of a thread whose LOCK_thd_data is held, or of the caller's own. An applier's text has no zero at
   its end. The server masks passwords. */
std::string statement_of(const THD *thd)
{
  constexpr uint32 BYTES_MAX= 400;
  if (!thd->query())
    return "none at this moment";
  const char *const text= wsrep_thd_query(thd);
  return text == thd->query() ? std::string(text, MY_MIN(thd->query_length(), BYTES_MAX)) : std::string(text);
}

/* Both transactions have a place in the cluster's order. The later one holds a lock that the
   earlier one needs. Their certification keys should have kept the nodes from applying both at
   once. */
void note_wrong_order(THD *waiting, THD *holding)
{
  sql_print_warning(SLUICE_ENGINE_NAME ": Galera: write set %lld waits for a row lock of write set %lld, which comes later: \"%s\" and \"%s\"",
                    wsrep_thd_trx_seqno(waiting), wsrep_thd_trx_seqno(holding), statement_of(waiting).c_str(), statement_of(holding).c_str());
}

void note_part_of_conflict(const char *role, THD *thd, const char *transaction)
{
  sql_print_information("WSREP: " SLUICE_ENGINE_NAME ": %s: thread %lu, mode: %s, state: %s, transaction: %s, seqno: %lld, statement: %s", role,
                        thd_get_thread_id(thd), wsrep_thd_client_mode_str(thd), wsrep_thd_client_state_str(thd), transaction,
                        wsrep_thd_trx_seqno(thd), statement_of(thd).c_str());
}

/* For wsrep_log_conflicts. The first line is the server's own, which programs look for. */
void note_conflict(THD *winner, THD *victim, const char *state_of_victim)
{
  sql_print_information("WSREP: cluster conflict due to high priority abort for threads:");
  note_part_of_conflict("waits for a row lock and wins", winner, wsrep_thd_transaction_state_str(winner));
  note_part_of_conflict("holds the row lock and is aborted", victim, state_of_victim);
}

} // namespace

void abort_local_holder(THD *thd, Connection *holder)
{
  THD *const victim= holder->thd();
  if (victim == thd)
    return;
  bool aborted= false;
  wsrep_thd_kill_LOCK(victim);
  wsrep_thd_LOCK(victim);
  if (wsrep_thd_is_BF(victim, false))
  {
    if (wsrep_thd_order_before(thd, victim))
      note_wrong_order(thd, victim);
  }
  else if (!victim->wsrep_aborter)
  {
    const char *const state= wsrep_thd_transaction_state_str(victim);
    aborted= wsrep_thd_bf_abort(thd, victim, true);
    /* The victim's statement reads, and the server has not begun its transaction yet. */
    if (!aborted && WSREP(victim) && !wsrep_thd_is_aborting(victim) && !victim->wsrep_trx().active())
    {
      victim->awake_no_mutex(KILL_QUERY_HARD);
      aborted= true;
    }
    if (aborted && wsrep_log_conflicts)
      note_conflict(thd, victim, state);
  }
  /* The server does not call kill_query() for a victim of the cluster. Does nothing to a thread
     that does not wait. With these mutexes held, the victim stays killed. Without them it may be
     in its next statement by now, and the wait of that one would end. */
  const bool late= planted(Mutant::WaitOfNextStatementEnded);
  if (aborted && !late)
    holder->cancel_wait();
  wsrep_thd_UNLOCK(victim);
  wsrep_thd_kill_UNLOCK(victim);
  if (aborted && late)
  {
    my_sleep(1000);
    holder->cancel_wait();
  }
}

} // namespace sluice

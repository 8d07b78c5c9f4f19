/* Sequences. The server keeps each as a table of one row, hands out values from memory, and writes the row when it reserves the
   next ones, inside whatever statement asked for a value. What was handed out must never be handed out again: not after the
   statement or its transaction is rolled back, not after a crash, and not to another connection, which must not wait for
   this one's transaction either.

   So a handler of such a table uses no transaction of its connection, and the server's transactions know nothing of it: each
   change is a transaction of its own (m_own_trx), committed and (as sluice_flush_log_at_trx_commit says) durable before the value is
   handed out. A read sees what was committed last, at every isolation level. The server keeps changes of one sequence apart, so that
   such a transaction finds its row free, and a KILL has no wait of it to end.

   The server does not pass reset() and start_stmt() on: an own transaction ends with the change, with the scan, or when the table is
   unlocked. Called by: the handler's other files. */
#include "ha_sluice.h"
#include "engine.h"
#include "settings.h"

using namespace sluice;

void ha_sluice::own_begin()
{
  if (!m_own_trx)
  {
    const slc_waiter waiter= m_connection->waiter();
    m_own_trx= slc_trx_new(engine, &waiter, thd_get_thread_id(m_connection->thd()));
  }
  slc_trx_start(m_own_trx, SLC_ISO_READ_COMMITTED, lock_wait_timeout_ms(m_connection->thd()));
}

/* After a change: `error` is its outcome. */
int ha_sluice::own_commit(int error)
{
  if (likely(!m_own_trx))
    return error;
  if (error)
  {
    const slc_err rollback_error= slc_trx_rollback(m_own_trx);
    return rollback_error ? fail(rollback_error) : error;
  }
  const slc_err commit_error= slc_trx_commit(m_own_trx, true);
  return commit_error ? fail(commit_error) : 0;
}

/* Whatever is not committed is rolled back: that of a scan has only read. */
void ha_sluice::own_end()
{
  if (m_own_trx)
    slc_trx_free(m_own_trx);
  m_own_trx= nullptr;
}

/* Sequences. The server keeps each as a table of one row, and hands out values from memory. It
   writes the row when it reserves the next values, inside the statement that asked for one. A value
   must never be handed out twice: not after the statement or its transaction is rolled back, not
   after a crash, and not to another connection. Nor must another connection wait for this one's
   transaction.

   So a handler of such a table uses no transaction of its connection. Each change is a transaction
   of its own (m_own_trx), which the server does not know. It is committed, and durable as
   sluice_flush_log_at_trx_commit says, before the value is handed out. A read sees what was
   committed last, at every isolation level. The server serialises changes of one sequence, so such
   a transaction finds its row free, and a KILL has no wait of it to end.

   The server does not pass reset() and start_stmt() on: an own transaction ends with the change,
   with the scan, or when the table is unlocked. Called by: the handler's other files. */
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

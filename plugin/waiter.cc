/* How a connection sleeps while it waits for a row lock: on a condition of its own, announced to
   the server through thd_enter_cond(), so that KILL, max_statement_time and a Galera abort wake it.
   The engine calls wait() with no latch held (I5). wake() may come before wait(): then *flag is set
   already.
   Called by: the engine, through slc_waiter (connection.cc). */
#include "asleep.h"
#include "cluster.h"
#include "connection.h"

namespace sluice {

#ifdef SLUICE_STAND_IN
/* As in InnoDB the statement's own state stays: programs look for it. */
static PSI_stage_info stage_of_wait(const THD *thd)
{
  PSI_stage_info stage{};
  const_cast<THD *>(thd)->backup_stage(&stage);
  return stage;
}
#else
static PSI_stage_info stage_of_wait(const THD *) { return {0, "Waiting for row lock", 0}; }
#endif

int Connection::wait(void *ctx, volatile uint32_t *flag, uint64_t timeout_us)
{
  Connection *self= static_cast<Connection *>(ctx);
  struct timespec until;
  set_timespec_nsec(until, MY_MIN(timeout_us, 1ULL << 50) * 1000);
  const Asleep asleep(self->m_thd, THD_WAIT_ROW_LOCK);
  PSI_stage_info old_stage, stage= stage_of_wait(self->m_thd);
  mysql_mutex_lock(&self->m_mutex);
  THD_ENTER_COND(self->m_thd, &self->m_cond, &self->m_mutex, &stage, &old_stage);
  int result= SLC_WAIT_WOKEN;
  while (!*flag)
  {
    if (thd_kill_level(self->m_thd) != THD_IS_NOT_KILLED)
    {
      result= SLC_WAIT_KILLED;
      break;
    }
    const int error= mysql_cond_timedwait(&self->m_cond, &self->m_mutex, &until);
    if ((error == ETIMEDOUT || error == ETIME) && !*flag)
    {
      result= SLC_WAIT_TIMEOUT;
      break;
    }
  }
  THD_EXIT_COND(self->m_thd, &old_stage);  // unlocks m_mutex
  return result;
}

void Connection::wake(void *ctx)
{
  Connection *self= static_cast<Connection *>(ctx);
  mysql_mutex_lock(&self->m_mutex);
  mysql_cond_signal(&self->m_cond);
  mysql_mutex_unlock(&self->m_mutex);
}

int Connection::killed(void *ctx)
{
  return thd_kill_level(static_cast<Connection *>(ctx)->m_thd) != THD_IS_NOT_KILLED;
}

void Connection::progress(void *ctx, uint64_t done, uint64_t all)
{
  const Connection *self= static_cast<Connection *>(ctx);
  if (self->m_shows_progress)
    thd_progress_report(self->m_thd, done, all);
}

/* By its own thread, so the text cannot change meanwhile. */
size_t Connection::statement(void *ctx, char *to, size_t size)
{
  const THD *thd= static_cast<Connection *>(ctx)->m_thd;
  if (!thd->query())
    return 0;
  uint errors;
  return copy_and_convert(to, static_cast<uint32>(size), system_charset_info, thd->query(), thd->query_length(), thd->query_charset(),
                          &errors);
}

/* Parallel replication: a later transaction must not make an earlier one wait; the server kills it
   if it would. In a cluster such a transaction aborts the local ones. */
int Connection::about_to_wait(void *ctx, void *holder)
{
  if (!holder)
    return 0;
  THD *const thd= static_cast<Connection *>(ctx)->m_thd;
  Connection *const other= static_cast<Connection *>(holder);
  thd_rpl_deadlock_check(thd, other->m_thd);
  if (unlikely(is_high_priority(thd)))
    abort_local_holder(thd, other);
  return 0;
}

} // namespace sluice

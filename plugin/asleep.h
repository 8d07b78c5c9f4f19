/* Tells the server's thread pool (thread_handling=pool-of-threads) that this thread sleeps, so that
   another one runs meanwhile. Without it the pool notices only after thread_pool_stall_limit. With
   a thread for each connection it costs a look at a pointer. */
#ifndef SLUICE_ASLEEP_H
#define SLUICE_ASLEEP_H
#include "compat.h"

namespace sluice {

class Asleep
{
public:
  /* Without a THD, or where the thread does not sleep after all, the server is not notified. */
  Asleep(THD *thd, _thd_wait_type_e why, bool sleeps= true) : m_thd(sleeps ? thd : nullptr)
  {
    if (m_thd)
      thd_wait_begin(m_thd, why);
  }
  ~Asleep()
  {
    if (m_thd)
      thd_wait_end(m_thd);
  }
  Asleep(const Asleep &)= delete;
  Asleep &operator=(const Asleep &)= delete;

private:
  THD *m_thd;
};

} // namespace sluice

#endif

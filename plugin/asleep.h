/* Tells the server's thread pool (thread_handling=pool-of-threads) that this thread sleeps, so that another one runs meanwhile. Without it the
   pool notices only after thread_pool_stall_limit. With a thread for each connection it costs a look at a pointer. */
#pragma once
#include "compat.h"

namespace sluice {

class Asleep
{
public:
  Asleep(THD *thd, _thd_wait_type_e why) : m_thd(thd) { thd_wait_begin(m_thd, why); }
  ~Asleep() { thd_wait_end(m_thd); }
  Asleep(const Asleep &)= delete;
  Asleep &operator=(const Asleep &)= delete;

private:
  THD *m_thd;
};

} // namespace sluice

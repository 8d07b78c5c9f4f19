/* Pace: a long statement in the background of others, on a machine whose processors are all busy.
   Called by: online_rebuild. */
#ifndef SLUICE_PACE_H
#define SLUICE_PACE_H
#include "compat.h"
#include <sys/resource.h>
#include <algorithm>

namespace sluice {

/* When the kernel has taken the processor from this thread, others want it. Then the thread sleeps
   for as long as it has computed since it last looked. On an idle machine it never sleeps. */
class Pace
{
public:
  Pace() : m_last(usage()) {}
  Pace(const Pace &)= delete;

  /* One more row is done. */
  void step()
  {
    constexpr uint ROWS_A_LOOK= 64;
    if (!(++m_rows % ROWS_A_LOOK))
      look();
  }

private:
  static constexpr ulong SLEEP_US_MAX= 10000;

  static rusage usage()
  {
    rusage found{};
    getrusage(RUSAGE_THREAD, &found);
    return found;
  }
  static ulong computed_us(const rusage &of)
  {
    return (of.ru_utime.tv_sec + of.ru_stime.tv_sec) * 1000000UL + of.ru_utime.tv_usec + of.ru_stime.tv_usec;
  }
  void look()
  {
    const rusage now= usage();
    if (now.ru_nivcsw > m_last.ru_nivcsw)
      my_sleep(std::min(computed_us(now) - computed_us(m_last), SLEEP_US_MAX));
    m_last= now;
  }

  uint m_rows= 0;
  rusage m_last;
};

} // namespace sluice
#endif

#include "compat.h"
#include "huge_pages.h"

#include <atomic>
#include <chrono>
#include <sys/prctl.h>
#include <thread>

namespace sluice {
namespace {

#ifdef PR_SET_THP_DISABLE

/* PR_THP_DISABLE_EXCEPT_ADVISED, which older headers lack. */
constexpr unsigned long EXCEPT_ADVISED= 2;

/* Time between two checks, and the limit. The server may have to recover other engines first. */
constexpr std::chrono::milliseconds STEP(2);
constexpr std::chrono::minutes LONGEST(10);

std::thread waiting;
std::atomic<bool> stops;

bool huge_pages_are_off() { return prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1; }

void wait_and_keep()
{
  const auto end= std::chrono::steady_clock::now() + LONGEST;
  while (!stops && !huge_pages_are_off() && std::chrono::steady_clock::now() < end)
  {
    /* The server has started without such a call. */
    if (mysqld_server_started)
      return;
    std::this_thread::sleep_for(STEP);
  }
  if (!stops && huge_pages_are_off())
    prctl(PR_SET_THP_DISABLE, 1, EXCEPT_ADVISED, 0, 0);
}

} // namespace

void start_keeping_huge_pages()
{
  if (huge_pages_are_off())
    return;
  stops= false;
  waiting= std::thread(wait_and_keep);
}

void stop_keeping_huge_pages()
{
  stops= true;
  if (waiting.joinable())
    waiting.join();
}

#else

} // namespace

void start_keeping_huge_pages() {}
void stop_keeping_huge_pages() {}

#endif

} // namespace sluice

#include "compat.h"
#include "huge_pages.h"

#include <atomic>
#include <chrono>
#include <sys/prctl.h>
#include <thread>

namespace sluice {
namespace {

#ifdef PR_SET_THP_DISABLE

/* Linux's value, which older headers lack. */
constexpr unsigned long EXCEPT_ADVISED= 2;

constexpr std::chrono::milliseconds STEP(2);
/* The server may have to recover other engines before its call. */
constexpr std::chrono::minutes LONGEST(10);

std::thread waiting;
std::atomic<bool> stops;

bool are_off() { return prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == 1; }

void wait_and_keep()
{
  const auto end= std::chrono::steady_clock::now() + LONGEST;
  while (!stops && !are_off() && std::chrono::steady_clock::now() < end)
  {
    /* This server makes no such call. */
    if (mysqld_server_started)
      return;
    std::this_thread::sleep_for(STEP);
  }
  if (!stops && are_off())
    prctl(PR_SET_THP_DISABLE, 1, EXCEPT_ADVISED, 0, 0);
}

} // namespace

void keep_huge_pages()
{
  if (are_off())
    return;
  stops= false;
  waiting= std::thread(wait_and_keep);
}

void forget_huge_pages()
{
  stops= true;
  if (waiting.joinable())
    waiting.join();
}

#else

} // namespace

void keep_huge_pages() {}
void forget_huge_pages() {}

#endif

} // namespace sluice

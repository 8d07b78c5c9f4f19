/* Galera: the choice between durable before and after the turn to commit; see commit_turn.h.

   BEFORE --(write sets, and no gap for a second, or for long after a gap; AFTER is stored)--> AFTER
   AFTER  --(a gap, or nothing to commit for some seconds)--> LEAVING
   LEAVING --(no write set under way is durable after its turn; RUNNING is stored)--> BEFORE

   In LEAVING new write sets are made durable before their turn, and positions still have AFTER.
   Locks: the mutex of CommitTurn, then what the engine takes to append a commit. */
#include "commit_turn.h"
#include "my_pthread.h"
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <thread>

namespace sluice {

namespace {

enum Mode : uint { BEFORE, AFTER, LEAVING };

constexpr auto LOOK_EVERY= std::chrono::seconds(1);
constexpr uint IDLE_LOOKS_MAX= 5;
/* After a gap. Each change of the way has a moment in which a crash asks for a full transfer. */
constexpr uint CALM_LOOKS_MIN= 30;

std::mutex turn_mutex;
/* Written with turn_mutex held. */
std::atomic<uint> mode{BEFORE};
/* Under way, and durable after their turn. */
std::atomic<uint> under_way{0};
/* The rest is guarded by turn_mutex. */
long long last_number= -1;
bool position_between= true;
ulonglong write_sets= 0, gaps= 0;

/* The thread. */
std::thread looker;
std::mutex looker_mutex;
std::condition_variable looker_wakes;
bool looker_ends= false;
store_state_fn store_state= nullptr;

void enter(Mode next, State state)
{
  if (store_state(state))
    mode.store(next);
}

/* What the thread has seen. */
struct Seen
{
  ulonglong write_sets= 0, gaps= 0;
  uint idle_looks= 0, calm_looks= CALM_LOOKS_MIN;
};

/* Once a second. */
void look(Seen *seen)
{
  const CommitTurn turn;
  const bool wrote= write_sets != seen->write_sets;
  seen->idle_looks= wrote ? 0 : seen->idle_looks + 1;
  seen->calm_looks= gaps == seen->gaps ? seen->calm_looks + 1 : 0;
  seen->write_sets= write_sets;
  seen->gaps= gaps;
  switch (mode.load()) {
  case BEFORE:
    if (wrote && seen->calm_looks > CALM_LOOKS_MIN)
      enter(AFTER, STATE_AFTER);
    break;
  case AFTER:
    if (seen->idle_looks > IDLE_LOOKS_MAX)
      mode.store(LEAVING);
    break;
  case LEAVING:
    if (!under_way.load())
      enter(BEFORE, STATE_RUNNING);
    break;
  }
}

void look_for_ever()
{
  my_thread_init();
  Seen seen;
  {
    std::unique_lock<std::mutex> lock(looker_mutex);
    while (!looker_wakes.wait_for(lock, LOOK_EVERY, [] { return looker_ends; }))
      look(&seen);
  }
  my_thread_end();
}

} // namespace

/* Counted before the mode is read: LEAVING ends only when the count is 0 after it began. */
bool begin_after_turn()
{
  under_way.fetch_add(1);
  if (mode.load() == AFTER)
    return true;
  under_way.fetch_sub(1);
  return false;
}

void write_set_ended() { under_way.fetch_sub(1); }

std::mutex &CommitTurn::mutex() { return turn_mutex; }

CommitTurn::CommitTurn(long long number) : m_held(mutex())
{
  const bool follows= is_next(number), is_gap= !follows && last_number >= 0;
  m_others_may_have_written= !follows || position_between;
  last_number= number;
  position_between= false;
  write_sets++;
  gaps+= is_gap;
  if (!follows && mode.load() == AFTER)
    mode.store(LEAVING);
}

void CommitTurn::note_position(long long number)
{
  last_number= number;
  position_between= true;
}

bool CommitTurn::is_next(long long number) const { return last_number >= 0 && number == last_number + 1; }

State CommitTurn::state() const { return mode.load() == BEFORE ? STATE_RUNNING : STATE_AFTER; }

void begin_turns(store_state_fn store)
{
  store_state= store;
  looker_ends= false;
  looker= std::thread(look_for_ever);
}

void end_turns()
{
  if (!looker.joinable())
    return;
  {
    const std::lock_guard<std::mutex> lock(looker_mutex);
    looker_ends= true;
  }
  looker_wakes.notify_all();
  looker.join();
  const CommitTurn turn;
  mode.store(BEFORE);
}

} // namespace sluice

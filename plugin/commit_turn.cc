/* Galera: the choice between durable before and after the turn to commit; see commit_turn.h.

   | mode    | write sets become durable | it ends when                                      | then    |
   | BEFORE  | before their turn         | write sets came without a gap for                 | AFTER   |
   |         |                           | SECONDS_AFTER_A_GAP, and STATE_AFTER is stored    |         |
   | AFTER   | after their turn          | a gap comes, or some seconds have no write set    | LEAVING |
   | LEAVING | new ones before their     | the last write set that is durable after its turn | BEFORE  |
   |         | turn                      | has ended, and STATE_RUNNING is stored            |         |

   In LEAVING, stored positions still have STATE_AFTER.
   Locks: the mutex of CommitTurn, then what the engine takes to append a commit. */
#include "commit_turn.h"
#include "mutant.h"
#include "my_pthread.h"
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <thread>

namespace sluice {

namespace {

enum Mode : uint { BEFORE, AFTER, LEAVING };

constexpr auto CHOOSE_EVERY= std::chrono::seconds(1);
constexpr uint IDLE_SECONDS_MAX= 5;
/* A change of the mode has a moment in which a crash makes a full transfer necessary. So a gap
   keeps the mode BEFORE for some time. */
constexpr uint SECONDS_AFTER_A_GAP= 30;

std::mutex turn_mutex;
/* Written with turn_mutex held. */
std::atomic<uint> mode{BEFORE};
/* Under way, and durable after their turn. */
std::atomic<uint> under_way{0};
/* The rest is guarded by turn_mutex. */
long long last_number= -1;
bool position_between= true;
ulonglong write_sets= 0, gaps= 0;

/* The thread that chooses the mode. */
std::thread chooser;
std::mutex chooser_mutex;
std::condition_variable chooser_wakes;
bool chooser_ends= false;
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
  uint idle_seconds= 0, seconds_without_a_gap= SECONDS_AFTER_A_GAP;
};

/* Called once a second. */
void choose_mode(Seen *seen)
{
  const CommitTurn turn;
  const bool wrote= write_sets != seen->write_sets;
  seen->idle_seconds= wrote ? 0 : seen->idle_seconds + 1;
  seen->seconds_without_a_gap= gaps == seen->gaps ? seen->seconds_without_a_gap + 1 : 0;
  seen->write_sets= write_sets;
  seen->gaps= gaps;
  switch (mode.load()) {
  case BEFORE:
    if (wrote && seen->seconds_without_a_gap > SECONDS_AFTER_A_GAP)
      enter(AFTER, STATE_AFTER);
    break;
  case AFTER:
    if (seen->idle_seconds > IDLE_SECONDS_MAX)
      mode.store(LEAVING);
    break;
  case LEAVING:
    if (!under_way.load())
      enter(BEFORE, STATE_RUNNING);
    break;
  }
}

void choose_until_the_end()
{
  my_thread_init();
  Seen seen;
  {
    std::unique_lock<std::mutex> lock(chooser_mutex);
    while (!chooser_wakes.wait_for(lock, CHOOSE_EVERY, [] { return chooser_ends; }))
      choose_mode(&seen);
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

State CommitTurn::state() const
{
  return mode.load() == BEFORE || planted(Mutant::AfterStoredAsRunning) ? STATE_RUNNING : STATE_AFTER;
}

void begin_turns(store_state_fn store)
{
  store_state= store;
  chooser_ends= false;
  chooser= std::thread(choose_until_the_end);
}

void end_turns()
{
  if (!chooser.joinable())
    return;
  {
    const std::lock_guard<std::mutex> lock(chooser_mutex);
    chooser_ends= true;
  }
  chooser_wakes.notify_all();
  chooser.join();
  const CommitTurn turn;
  mode.store(BEFORE);
}

} // namespace sluice

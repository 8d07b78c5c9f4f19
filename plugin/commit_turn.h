/* Galera: when a write set becomes durable, before its turn to commit or after it.

   G9 While the cluster changes tables of Sluice alone, a write set is made durable after its turn:
      the client's own one before the client is answered, an applied one when the log is written
      next. The stored position then has the state AFTER.
   G10 The state RUNNING says: all write sets of Sluice up to the position, and all later ones
      before their turn, are durable. It is stored when no write set is under way that is made
      durable after its turn. AFTER is durable before the first such write set.

   Why: a write set of another engine may be durable while an earlier one of Sluice is not. Then the
   newest position is ahead of the data. At a start the state AFTER shows that this can be so, and
   the position counts as unknown. The numbers of Sluice's own write sets show whether others write:
   a gap is one of another engine. Reasons: docs/decisions/2026-11-29-galera-durability.md.

   Called by: cluster, connection, hton. */
#ifndef SLUICE_COMMIT_TURN_H
#define SLUICE_COMMIT_TURN_H
#include "compat.h"
#include <mutex>

namespace sluice {

/* Stored with a position, as its first byte. tools/backup reads it, too. */
enum State : uint8_t { STATE_RUNNING= 0, STATE_CLEAN= 1, STATE_UNKNOWN= 2, STATE_AFTER= 3 };

/* True: the write set may be made durable after its turn; write_set_ended() must follow, when its
   commit is visible or rolled back. */
bool begin_after_turn();
void write_set_ended();

/* Held while a write set or a position takes its place in the log, in the cluster's order. */
class CommitTurn
{
public:
  /* The turn of a write set. */
  explicit CommitTurn(long long number);
  CommitTurn() : m_held(mutex()) {}
  /* The position of a definition, or of a refused write set. */
  void note_position(long long number);
  /* Since the last write set of Sluice, another engine may have committed one. */
  bool others_may_have_written() const { return m_others_may_have_written; }
  bool is_next(long long number) const;
  /* The state that a position stored now gets. */
  State state() const;
  bool is_after() const { return state() == STATE_AFTER; }

private:
  static std::mutex &mutex();
  std::lock_guard<std::mutex> m_held;
  bool m_others_may_have_written= true;
};

/* Stores the present position with the given state, durably. Called with a CommitTurn held. */
using store_state_fn= bool (*)(State);
/* begin_turns() starts a thread that chooses between the two ways once a second. end_turns() ends
   the thread. Only for a server without a binary log. */
void begin_turns(store_state_fn store);
void end_turns();

} // namespace sluice
#endif

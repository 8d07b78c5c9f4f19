/* A replica with a binary log that does not record what it applies (log_bin without
   log_slave_updates), and a transaction over several engines: mostly tables of one engine, and
   mysql.gtid_slave_pos in another. The server then orders no commits: it calls no commit_ordered(),
   and no thread waits for the commit of the transaction before its own. Later transactions would
   commit first, and the position would pass one that failed.

   O1 In such a transaction Sluice waits, when it prepares, for the commit before.
   O2 Sluice's part is visible before a thread that waits for this commit is woken. Each engine
      wakes these threads when it commits. If an engine commits after Sluice, Sluice leaves it to
      that engine. Else Sluice's part becomes visible when it is prepared, because another engine
      may commit first. Nothing that follows can fail.

   What a crash between the two commits leaves cannot be mended here, so the error log warns. Called
   by: connection. */
#ifndef SLUICE_REPLICA_ORDER_H
#define SLUICE_REPLICA_ORDER_H
#include "compat.h"

namespace sluice {

/* A replication thread's transaction whose commit the server does not order. */
bool lacks_order(THD *thd);
/* O1. Not 0: the one before has failed, and the error is raised. */
int wait_for_commit_before(THD *thd);
/* Another engine that has written ends its part of the transaction after Sluice. */
bool other_engine_follows(THD *thd, bool all);
void warn_of_two_engines();

} // namespace sluice
#endif

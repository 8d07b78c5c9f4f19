/* Mutants: planted bugs of the plugin, as the engine has them (engine/src/base/mutant.rs). Only a
   plugin made with MUTANTS=1 has them, which is no release. One is active at a time, named by
   SLUICE_MUTANT. `make plugin-mutants` runs scripts/instant_alters.py, scripts/online_alter.py,
   scripts/galera_durability.py, scripts/isolation.py and scripts/galera.py against each, and prints
   which of them catches it. `make vector-mutants` does so with MariaDB 11.8 for those of vector
   indexes.
   Used by: the steps that the mutants break. */
#ifndef SLUICE_MUTANT_H
#define SLUICE_MUTANT_H
#include "compat.h"

namespace sluice {

enum class Mutant
{
  /* A row that is older than a column has nothing in it, not the value that it was added with. */
  AddedValueForgotten,
  /* A negative integer in an older row becomes a large one where the column is wider now. */
  GrownSignForgotten,
  /* NULL in an older row is looked for where the present definition has it. */
  OldNullBitMisplaced,
  /* Virtual columns are not computed for the rows that an index is built of. */
  VirtualValueStale,
  /* The values of a round of a rebuild are put before those that they replace are removed. */
  OldRowsLast,
  /* Galera: a client is answered before its write set is durable (G9). */
  ClientAnsweredEarly,
  /* Galera: the position of a write set is durable before its changes are (G9). */
  PositionAheadOfChanges,
  /* Galera: positions have the state RUNNING while write sets are made durable after their turn
     (G10). */
  AfterStoredAsRunning,
  /* Galera: the wait of an aborted connection is ended when that may be in its next statement (G5),
     which is then answered as if it had been carried out. */
  WaitOfNextStatementEnded,
  /* Galera: a savepoint from before the first write has no place in the write set (G11). */
  SavepointUnknownToWriteSet,
  /* A replica commits in another order than the primary (O1, O2). */
  ReplicaUnordered,
  /* A node of a vector index's graph is changed in a transaction of its own (V1). */
  NodeOfOwnTransaction,
  /* A change of a row does not take the graph's lock (V2). */
  GraphNotLocked,
  /* The graph's lock is taken while a transaction that a crash cut short is rolled back (V3). */
  CrashedWriterNotAwaited,
  /* Nodes are read by the transaction's snapshot (V3). */
  NodesOfSnapshot,
  /* The holder of the graph's lock reads committed nodes (V3). */
  HolderReadsCommitted,
  /* Other readers read the newest nodes, committed or not (V3). */
  UncommittedNodesRead,
  /* A reader of the graph locks the nodes (V4). */
  ReadNodesLocked,
  /* In a commit, the changed nodes leave the shared cache before the change is visible (V5). */
  GraphCacheFirst,
  /* In a commit, the changed nodes leave the shared cache after the wait for the log (V5). */
  GraphCacheLate,
  /* A search ends at a row that it may not show (V6). */
  UnseenRowEndsSearch,
  /* A search shows a row whose vector is another one by now (V6). */
  ChangedVectorShown,
  /* Cascades may delete rows of a table with a graph (V7). */
  CascadeOverGraph
};

#ifndef SLUICE_MUTANTS
constexpr bool planted(Mutant) { return false; }
inline void pause_of_mutant() {}
#else
inline bool planted(Mutant mutant)
{
  static const char *const NAMES[]= {"AddedValueForgotten", "GrownSignForgotten", "OldNullBitMisplaced", "VirtualValueStale", "OldRowsLast",
                                      "ClientAnsweredEarly", "PositionAheadOfChanges", "AfterStoredAsRunning", "WaitOfNextStatementEnded",
                                      "SavepointUnknownToWriteSet", "ReplicaUnordered", "NodeOfOwnTransaction", "GraphNotLocked", "CrashedWriterNotAwaited",
                                      "NodesOfSnapshot", "HolderReadsCommitted", "UncommittedNodesRead", "ReadNodesLocked",
                                      "GraphCacheFirst", "GraphCacheLate", "UnseenRowEndsSearch", "ChangedVectorShown", "CascadeOverGraph"};
  static const char *const chosen= getenv("SLUICE_MUTANT");
  return chosen && !strcmp(chosen, NAMES[static_cast<int>(mutant)]);
}
/* As a busy machine may make it, between two steps whose order a mutant has changed. */
inline void pause_of_mutant() { my_sleep(10000); }
#endif

} // namespace sluice
#endif

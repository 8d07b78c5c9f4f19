/* Galera: what a node of a cluster asks of the engine, except the certification keys (certify.cc).

   G5 A transaction of the cluster's order waits for no local one: about to wait, it has the server
      abort the holder. Among each other such transactions wait, since the order is decided.
   G6 The position is in the log record of the commit that it belongs to. A read gives the newest of
      all engines.
   G7 After a crash, a prepared transaction commits if its place is not beyond the position, or
      follows it without a gap. All others roll back, and come again from another node.
   G8 A transaction writes tables of one replicated engine.
   G11 A change that is undone on its own node is not in the write set.
   When a write set becomes durable (G9, G10): commit_turn.h.
   Reasons: docs/decisions/2026-11-28-galera.md.
   Called by: connection, waiter, hton, xa, the handler files. */
#ifndef SLUICE_CLUSTER_H
#define SLUICE_CLUSTER_H
#include "compat.h"
#include "sluice_abi.h"

namespace sluice {

class Connection;

/* The thread carries out what the cluster has decided: it applies a write set, or runs a statement
   in total order. */
bool is_high_priority(const THD *thd);
/* Its place in the cluster's order, for slc_trx_set_place(); 0: none. */
uint64_t place_in_cluster(const THD *thd);
/* The changes of the session are replicated to the other nodes. */
bool is_local_to_cluster(THD *thd);
/* From here on savepoints cover the transaction's write set (G11). */
void include_write_set_in_savepoints(THD *thd);

/* `thd`, of high priority, is about to wait for `holder`. */
void abort_local_holder(THD *thd, Connection *holder);

/* The position that the transaction's commit stands for; length 0: none. */
struct ClusterPosition
{
  uint8_t bytes[sizeof(XID)];
  size_t length= 0;
};
ClusterPosition position_of(const XID &xid);
/* Makes the transaction visible with its position, if it has one. False: it has none, and nothing
   was done. */
bool commit_in_cluster(THD *thd, slc_trx *trx);

/* HA_ERR_ code, reported: another replicated engine has changes in this transaction, or will have
   (G8). */
int refuse_second_engine(THD *thd, const TABLE_SHARE *share);
/* HA_ERR_ code, reported: the cluster cannot replicate a sequence of this engine. */
int refuse_sequence(THD *thd, const TABLE_SHARE *share);
/* HA_ERR_ code, reported: nodes that apply write sets at the same time would wait for one another
   at the graph of a vector index. */
int refuse_vector_index(THD *thd, const TABLE_SHARE *share);

/* At the start, once the engine is open and before the server recovers (G7). */
void begin_in_cluster();
/* At the end, when nothing is committed any more. */
void end_in_cluster();
/* Why wsrep_sst_method keeps the engine from starting; nullptr: it does not. */
const char *refused_state_transfer();
/* Fills the handlerton's callbacks. */
void set_cluster_callbacks(handlerton *hton);

} // namespace sluice
#endif

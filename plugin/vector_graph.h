/* Vector indexes. The server (MariaDB 11.8 or newer) makes and searches the graph. It keeps each
   graph in a table of this engine, the graph table, whose name is the main table's with "#i#NN".
   A row of the graph table is a node. It has a reference to a row (tref; NULL once the row has been
   changed or deleted), the vector, and the nodes next to it. The server also has a cache of nodes,
   which all connections share. A transaction that changes a graph has a cache of its own.

   V1 A row and its node are changed in one transaction. A rollback takes back both.
   V2 One transaction at a time changes a graph. A change of a row first takes the graph's lock,
      which is kept until the transaction ends. Nodes are not locked.
   V3 The holder of the lock reads the newest nodes. Any other reader reads what is committed at the
      moment of the read: the shared cache serves all snapshots.
   V4 A reader of the graph waits for no transaction: it may hold the lock of the shared cache,
      which the commit of that transaction waits for.
   V5 In a commit, a change is visible before the server removes the changed nodes from the shared
      cache, which follows at once. So no older node can come back to the cache.
   V6 A search returns rows that the statement may see, and in the order of the vectors that it
      sees. It passes over a row that it does not see, or whose vector is another one now.
   V7 A reference names one row as long as the row exists. What would change references without the
      server's knowledge is refused: rebuilds in place, cascades that delete rows.
   V8 A graph table has its main table's life. After a crash there is none without a main table.
   Reasons: docs/decisions/2026-11-29-vector-indexes.md.
   Called by: the handler files, ddl, hton, inplace_check, foreign_ddl. */
#ifndef SLUICE_VECTOR_GRAPH_H
#define SLUICE_VECTOR_GRAPH_H
#include "compat.h"
#include <string>
#include <vector>

namespace sluice {

struct ForeignKey;

/* V5: of the participants of the transaction, the server's cache of graphs comes after this
   engine. */
void commit_before_graph_cache(THD *thd);

/* The columns that references to rows are made of, and the vector. */
std::vector<std::string> columns_of_graph(const TABLE *table);

/* V7: what a cascade over the foreign key would do to the graph of the child `form`; nullptr:
   nothing. */
const char *why_no_cascade(const TABLE *form, const ForeignKey &key);

} // namespace sluice
#endif

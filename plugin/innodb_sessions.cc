/* The list of transactions in SHOW ENGINE INNODB STATUS, as InnoDB writes it: one for each session
   that has begun one. Compiled only for a plugin with InnoDB's name.
   Called by: innodb_monitor. */
#include "innodb_sessions.h"
#include "connection.h"
#include "engine.h"
#include <map>

#ifdef SLUICE_STAND_IN

namespace sluice {

namespace {

struct Session
{
  uint64_t tables_locked= 0;
  std::string query;
};

/* By the number of the connection. */
using Sessions= std::map<uint64_t, Session>;

/* For each connection of the server, which does not end meanwhile. */
my_bool add_session(THD *thd, Sessions *all)
{
  if (mysql_mutex_trylock(&thd->LOCK_thd_data))
    return 0;
  if (Connection *const connection= Connection::existing(thd))
    if (connection->is_started())
      (*all)[thd->thread_id]= {connection->tables_locked(), thd->query() ? std::string(thd->query(), thd->query_length()) : ""};
  mysql_mutex_unlock(&thd->LOCK_thd_data);
  return 0;
}

using Transactions= std::map<uint64_t, slc_trx_info>;

void add_transaction(void *ctx, const slc_trx_info *info)
{
  (*static_cast<Transactions *>(ctx))[info->connection]= *info; // of its texts only the lengths are used
}

void ignore_wait(void *, const slc_lock_wait *) {}

} // namespace

std::string transactions_of_sessions()
{
  constexpr uint64_t WITHOUT_ID= 1ULL << 48; // as the engine numbers a transaction that has written nothing
  constexpr int64_t US= 1000000;
  Sessions sessions;
  THD_list_iterator::iterator()->iterate(add_session, &sessions);
  Transactions transactions;
  const slc_lock_sink sink= {&transactions, add_transaction, nullptr, ignore_wait};
  if (slc_lock_report(engine, SLC_LOCKS_COUNTED, &sink))
    return "";
  std::string text= "LIST OF TRANSACTIONS FOR EACH SESSION:\n";
  for (const auto &[connection, session] : sessions)
  {
    const auto found= transactions.find(connection);
    const slc_trx_info info= found == transactions.end() ? slc_trx_info{} : found->second;
    const uint64_t number= info.number ? info.number : WITHOUT_ID + connection;
    const uint64_t tables= MY_MAX(session.tables_locked, info.tables_locked);
    text+= "---TRANSACTION " + std::to_string(number) + ", ACTIVE " + std::to_string(MY_MAX(info.age_us, 0) / US) + " sec\n" +
           (info.requested_lock.len ? "LOCK WAIT " : "") + std::to_string(tables + info.indexes_locked) + " lock struct(s), heap size 0, " +
           std::to_string(info.row_locks + info.range_locks) + " row lock(s)" +
           (info.undo_records ? ", undo log entries " + std::to_string(info.undo_records) : "") + "\nMariaDB thread id " +
           std::to_string(connection) + ", query " + session.query + "\n";
  }
  return text;
}

} // namespace sluice

#endif

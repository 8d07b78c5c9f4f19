/* UPDATE_TIME of the stand-in, as of InnoDB: when a transaction that changed rows of the table last
   committed. It is kept in memory, until the server stops or the table is made anew.
   Used by: connection (commits), ddl, statistics. */
#ifndef SLUICE_UPDATE_TIMES_H
#define SLUICE_UPDATE_TIMES_H
#include "compat.h"

#ifdef SLUICE_STAND_IN
#include <string>
#include <vector>

namespace sluice {

/* 0: not known. */
time_t update_time_of(const char *table);
void rename_update_time(const char *from, const char *to);
void forget_update_time(const char *table);

/* The tables that a transaction has changed, in the order in which it first did. */
class ChangedTables
{
public:
  void note(const char *table);
  /* The place of a savepoint, or of a statement's start. */
  size_t place() const { return m_tables.size(); }
  void rolled_back_to(size_t place) { m_tables.resize(MY_MIN(place, m_tables.size())); }
  void committed();

private:
  std::vector<std::string> m_tables;
};

} // namespace sluice
#endif
#endif

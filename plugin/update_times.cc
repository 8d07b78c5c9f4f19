/* UPDATE_TIME of the stand-in; see update_times.h. Compiled only for a plugin with InnoDB's name.
   Latches: one mutex of its own, held for a look-up or a store. */
#include "update_times.h"
#include <algorithm>
#include <map>
#include <mutex>

#ifdef SLUICE_STAND_IN

namespace sluice {

namespace {

struct Times
{
  std::mutex mutex;
  std::map<std::string, time_t> of_tables; // by the engine's names
} times;

} // namespace

time_t update_time_of(const char *table)
{
  const std::lock_guard<std::mutex> guard(times.mutex);
  const auto found= times.of_tables.find(table);
  return found == times.of_tables.end() ? 0 : found->second;
}

void forget_update_time(const char *table)
{
  const std::lock_guard<std::mutex> guard(times.mutex);
  times.of_tables.erase(table);
}

void rename_update_time(const char *from, const char *to)
{
  const std::lock_guard<std::mutex> guard(times.mutex);
  const auto found= times.of_tables.find(from);
  if (found == times.of_tables.end())
    return;
  times.of_tables[to]= found->second;
  times.of_tables.erase(from);
}

void ChangedTables::note(const char *table)
{
  if (std::find(m_tables.begin(), m_tables.end(), table) == m_tables.end())
    m_tables.emplace_back(table);
}

void ChangedTables::committed()
{
  if (m_tables.empty())
    return;
  const time_t now= my_time(0);
  const std::lock_guard<std::mutex> guard(times.mutex);
  for (const std::string &table : m_tables)
    times.of_tables[table]= now;
  m_tables.clear();
}

} // namespace sluice

#endif

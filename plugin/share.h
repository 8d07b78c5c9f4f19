/* Share: what all handlers of one table have in common: the engine's table, and the owner of the
   AUTO_INCREMENT counter's table-wide lock. The server keeps it in the TABLE_SHARE (or in the
   partition's place of it) and deletes it with that.
   Latches: none.
   Called by: the handler files, autoinc, statistics. */
#ifndef SLUICE_SHARE_H
#define SLUICE_SHARE_H
#include "compat.h"
#include "connection.h"
#include "row_history.h"
#include "sluice_abi.h"
#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace sluice {

class Codec;

class Share : public Handler_share
{
public:
  explicit Share(const char *name);
  ~Share() override;

  slc_err open();
  slc_table *table() const { return m_table; }
  /* Null: the note in the catalog cannot be read. */
  const std::shared_ptr<const RowHistory> &history() const { return m_history; }
  const char *name() const { return m_name.c_str(); }
  /* The table is the graph of a vector index. */
  bool is_graph() const { return m_is_graph; }
  /* Gives the engine's table back and takes it anew: around a truncation. */
  void close();

  /* Notes what its keys are made of, for reports of locks; once. */
  void describe_keys(const TABLE_SHARE *share, const Codec &codec);

  /* The counter: the next value to give. */
  ulonglong autoinc_next() const { return slc_table_autoinc(m_table); }
  /* What it was. */
  ulonglong autoinc_raise(ulonglong next) { return slc_table_autoinc_raise(m_table, next); }
  void autoinc_take_back(ulonglong raised, ulonglong before) { slc_table_autoinc_take_back(m_table, raised, before); }
  /* The lock that keeps other statements' values out until ours ends. HA_ERR_ code. */
  int autoinc_lock(Connection *connection);
  bool autoinc_is_locked_by_other(const Connection *connection) const
  {
    const Connection *owner= m_autoinc_owner;
    return owner && owner != connection;
  }
  void autoinc_unlock(Connection *connection);

  /* Tells the engine what the keys are made of, and the table's options for statistics; once. */
  void describe_statistics(const TABLE_SHARE *share, const Codec &codec);

private:
  std::string m_name;
  const bool m_is_graph;
  std::atomic<bool> m_keys_described{false};
  slc_table *m_table= nullptr;
  std::shared_ptr<const RowHistory> m_history;
  /* The holder of the engine's lock; only it changes this. */
  std::atomic<Connection *> m_autoinc_owner{nullptr};
  std::atomic<bool> m_statistics_described{false};
};

} // namespace sluice
#endif

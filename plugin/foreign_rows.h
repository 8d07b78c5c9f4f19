/* ForeignRows: the rows that cascades of one connection make. The engine asks for them while it
   changes a row of the statement's own (slc_row_maker); it has no codec for the tables concerned.

   A child's TABLE is the one that the server opened for the cascades of the statement. It has none
   for a table that only a chain of different actions reaches: that one is opened here, under a
   metadata lock that is kept to the end of the transaction, and closed with the statement.
   Latches: none; everything is called by the connection's own thread.
   Called by: the engine, connection, errors. */
#ifndef SLUICE_FOREIGN_ROWS_H
#define SLUICE_FOREIGN_ROWS_H
#include "compat.h"
#include "buffer.h"
#include "foreign.h"
#include "sluice_abi.h"
#include <map>

class ha_sluice;

namespace sluice {

class ForeignRows
{
public:
  explicit ForeignRows(THD *thd) : m_thd(thd) {}
  ~ForeignRows() { end_statement(); }
  ForeignRows(const ForeignRows &)= delete;
  slc_row_maker maker() { return {this, entries, changed}; }
  /* HA_ERR_ code of the row that was not made last. */
  int error() const { return m_error; }
  void end_statement();

private:
  static int entries(void *ctx, slc_bytes table, slc_bytes pk, slc_bytes row, slc_row_sink *to);
  static int changed(void *ctx, slc_bytes table, uint32_t foreign, slc_bytes pk, slc_bytes row, slc_bytes parent, slc_bytes parent_pk,
                     slc_bytes parent_row, slc_row_sink *before, slc_row_sink *after);
  template <typename Body> int guarded(const Body &body);
  int change(const std::string &table, uint32_t foreign, slc_bytes pk, slc_bytes row, const std::string &parent, slc_bytes parent_pk,
             slc_bytes parent_row, slc_row_sink *before, slc_row_sink *after);
  ha_sluice *child(const std::string &path);
  ha_sluice *parent(const std::string &path);
  ha_sluice *opened_here(const std::string &path);
  TABLE *open(const std::string &path);
  const ForeignKey *key_of(const std::string &child, uint32_t ordinal);

  THD *m_thd;
  int m_error= 0;
  std::map<std::string, std::vector<ForeignKey>> m_keys; // by child; for one statement
  std::vector<TABLE *> m_opened;
  Buffer m_parent_record, m_record;
};

} // namespace sluice
#endif

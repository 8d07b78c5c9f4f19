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

/* Of `keys`, those of the table: the columns of the ones whose index is gone have the same values.
   False also if one of them is not stored, or written and not read. `are_whole`: all columns are in
   the records. */
bool keeps_unindexed(const std::vector<ForeignKey> &keys, const TABLE *table, const uchar *before, const uchar *after, bool are_whole);

class ForeignRows
{
public:
  explicit ForeignRows(THD *thd) : m_thd(thd) {}
  ~ForeignRows() { end_statement(); }
  ForeignRows(const ForeignRows &)= delete;
  slc_row_maker maker() { return {this, entries, changed, ended, reference}; }
  /* The statement's own row gets this new form. Children whose columns of the parent keep their
     bytes are left alone. */
  class Update
  {
  public:
    Update(ForeignRows &rows, const TABLE *table, const uchar *before, const uchar *after) : m_rows(rows)
    {
      rows.m_update= {table, before, after};
      rows.m_made.clear();
    }
    ~Update() { m_rows.m_update= {}; }
    Update(const Update &)= delete;

  private:
    ForeignRows &m_rows;
  };
  /* HA_ERR_ code of the row that was not made last. */
  int error() const { return m_error; }
  void end_statement();

private:
  static int entries(void *ctx, const slc_row_of *child, slc_row_sink *to);
  static int changed(void *ctx, const slc_row_of *child, uint32_t foreign, const slc_row_of *parent, slc_row_sink *before,
                     slc_row_sink *after, slc_row_sink *past);
  static int ended(void *ctx, const slc_row_of *child, slc_row_sink *before, slc_row_sink *after);
  static int reference(void *ctx, const slc_row_of *child, uint32_t foreign, slc_value_sink *to);
  template <typename Body> int guarded(const Body &body);
  int change(const slc_row_of &child, uint32_t foreign, const slc_row_of *parent, slc_row_sink *before, slc_row_sink *after,
             slc_row_sink *past);
  int end(const slc_row_of &child, slc_row_sink *before, slc_row_sink *after);
  int put_past(ha_sluice *handler, const uchar *old_record, uchar *record, slc_row_sink *to);
  ha_sluice *child(const std::string &path);
  ha_sluice *changed_child(const std::string &path);
  ha_sluice *parent(const std::string &path);
  ha_sluice *opened_here(const std::string &path);
  TABLE *open(const std::string &path);
  int put_reference(const slc_row_of &child, uint32_t foreign, slc_value_sink *to);
  const ForeignKey *key_of(const std::string &child, uint32_t ordinal);

  bool keeps(const std::string &parent, const std::vector<Field *> &columns) const;
  void note_made(const std::string &table, const TABLE *form, const std::vector<Field *> &columns, const uchar *before, const uchar *after);

  struct RowUpdate
  {
    const TABLE *table= nullptr;
    const uchar *before= nullptr, *after= nullptr;
  };
  THD *m_thd;
  int m_error= 0;
  RowUpdate m_update;
  /* By table: the columns that got other bytes in the row of it that was made last. */
  std::map<std::string, std::vector<uint16>> m_made;
  std::map<std::string, std::vector<ForeignKey>> m_keys; // by child; for one statement
  std::vector<TABLE *> m_opened;
  Buffer m_parent_record, m_record, m_old_record, m_past_record, m_reference;
};

} // namespace sluice
#endif

/* ALTER TABLE that rebuilds the rows while writers go on: FORCE, OPTIMIZE, another primary key. The
   rows of a snapshot are loaded into a new table of the engine; then changed rows are followed as in
   online_alter.h. At the end the table takes over what is in the new one. Called by: inplace.cc. */
#ifndef SLUICE_ONLINE_REBUILD_H
#define SLUICE_ONLINE_REBUILD_H
#include "compat.h"
#include "altered_row.h"
#include "foreign.h"
#include "online_alter.h"
#include <memory>
#include <string>

namespace sluice {

/* Why the table cannot be rebuilt while writers go on; null: it can. */
const char *why_not_rebuilt(const ColumnChange &change, const TABLE *table, const TABLE *altered, const Alter_inplace_info *info);

class OnlineRebuild
{
public:
  /* `from` reads the table's rows to its record, `altered_codec` writes those of the new
     definition. */
  OnlineRebuild(TABLE *table, Codec &from, TABLE *altered, Codec &altered_codec, const ColumnChange &change);
  OnlineRebuild(const OnlineRebuild &)= delete;
  ~OnlineRebuild() { give_up(); }

  /* Of all steps: SLC_ROW_NOT_MADE: the server has the error.
     Under the exclusive lock. */
  slc_err begin(const slc_waiter &waiter, THD *thd, slc_table *table, const std::string &name, const Alter_inplace_info *info);
  /* Loads the rows, and follows those that are changed meanwhile. */
  slc_err fill();
  /* Rounds until the last one will be short. */
  slc_err follow();
  /* Under the exclusive lock. */
  slc_err last_round();
  /* After the last round of each: one change of the catalog. */
  static slc_err publish(const std::vector<OnlineRebuild *> &all);
  /* Rows get numbers, from the AUTO_INCREMENT of the statement or 1. */
  bool numbers_rows() const { return m_number; }
  /* After SLC_DUPLICATE: the altered table's record has the row; which of the server's keys. */
  uint duplicate_key() const { return m_duplicate_key; }

private:
  /* What the new table has of a row, but for the row itself. */
  struct Made
  {
    slc_bytes clustered;
    std::vector<slc_entry> entries;
    Buffer clustered_buffer, entry_buffer;
    std::vector<EntryImage> images;
  };
  slc_err read(slc_bytes pk, slc_bytes row);
  void make(slc_bytes pk, Made *made);
  bool put_number();
  slc_err note_duplicate(slc_err error);
  slc_err commit_round(bool last);
  static int follow_row(void *ctx, slc_online_change *change);
  slc_err follow(slc_online_change *change);
  static bool keeps_unique_values(const Made &was, const Made &is);
  slc_err update(const Made &was, const Made &is);
  void give_up();

  TABLE *m_table;
  Codec &m_from;
  TABLE *m_altered;
  Codec &m_codec;
  AlteredRow m_row_of;
  VirtualValues m_values;
  /* The new AUTO_INCREMENT column; null: none. While rows get their numbers, no statement
     writes. */
  Field *const m_number;
  slc_autoinc_series m_series{};
  ForeignDefinition m_foreign;
  THD *m_thd= nullptr;
  slc_table *m_old= nullptr, *m_new= nullptr;
  std::string m_new_name;
  slc_load *m_load= nullptr;
  slc_trx *m_writes= nullptr;           // of rounds, into the new table
  OnlineAlter m_online;
  slc_waiter m_waiter{};
  Buffer m_row;
  Made m_was, m_is;
  std::vector<slc_entry_change> m_changes;
  slc_err m_round_error= SLC_OK;
  uint m_duplicate_key= 0;
};

} // namespace sluice
#endif

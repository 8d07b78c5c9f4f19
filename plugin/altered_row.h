/* Rows of the table in the record of the altered table, while an ALTER TABLE builds indexes or
   rebuilds rows.
   Called by: inplace.cc, online_alter.cc, online_rebuild.cc. */
#ifndef SLUICE_ALTERED_ROW_H
#define SLUICE_ALTERED_ROW_H
#include "compat.h"
#include "codec.h"
#include "instant_alter.h"
#include <string>
#include <vector>

namespace sluice {

/* The virtual columns of the altered table that its indexes need. The server computes none of them
   in an ALTER TABLE in place. */
class VirtualValues
{
public:
  explicit VirtualValues(TABLE *altered) : m_altered(altered) {}
  /* Adds the virtual columns of this index. */
  void need(const KeyLayout &key);
  /* Into record[0], which has the stored columns. SLC_ROW_NOT_MADE: the server has the error. */
  slc_err compute();

private:
  TABLE *m_altered;
  std::vector<uint16> m_fields;
};

/* From record[0] of the table to record[0] of the altered table: columns that stay are taken over,
   new ones get the values that the altered table's record has when this is made. */
class AlteredRow
{
public:
  /* same_columns: both records have the same columns at the same places. */
  AlteredRow(const TABLE *table, TABLE *altered, const ColumnChange &change, bool same_columns);
  AlteredRow(const AlteredRow &)= delete;
  /* SLC_ROW_NOT_MADE: a NOT NULL column has NULL; the error is reported. */
  slc_err take();

private:
  struct Step
  {
    Column from, to;
  };
  struct AddedBlob
  {
    Column column;
    std::string value;
  };
  const TABLE *m_table;
  TABLE *m_altered;
  bool m_is_same;
  ulong m_rows= 0; /* taken: errors name the row by its number */
  std::vector<uchar> m_defaults;
  std::vector<Step> m_steps;
  std::vector<AddedBlob> m_added_blobs;
};

} // namespace sluice
#endif

/* See altered_row.h. */
#include "altered_row.h"
#include "column_value.h"
#include "mutant.h"
#include <algorithm>

namespace sluice {

void VirtualValues::need(const KeyLayout &key)
{
  const auto add= [this](uint16 number) {
    const bool is_computed= !m_altered->field[number]->stored_in_db();
    if (is_computed && std::find(m_fields.begin(), m_fields.end(), number) == m_fields.end())
      m_fields.push_back(number);
  };
  for (const KeyPart &part : key.parts)
    add(part.column.field);
  for (const Column &column : key.raw)
    add(column.field);
}

/* As when rows are written: a value that cannot be computed under the session's sql_mode ends the
   statement. */
slc_err VirtualValues::compute()
{
  if (planted(Mutant::VirtualValueStale))
    return SLC_OK;
  for (const uint16 number : m_fields)
    if (m_altered->update_virtual_field(m_altered->field[number], false))
      return SLC_ROW_NOT_MADE;
  return SLC_OK;
}

AlteredRow::AlteredRow(const TABLE *table, TABLE *altered, const ColumnChange &change, bool same_columns)
  : m_table(table), m_altered(altered), m_is_same(same_columns), m_defaults(altered->record[0], altered->record[0] + altered->s->reclength)
{
  for (uint i= 0; i < altered->s->fields && !m_is_same; i++)
  {
    const Field *old= change.old_field(i);
    const Column to= column_of(altered, altered->field[i]);
    if (!altered->field[i]->stored_in_db())
      continue;
    if (old)
      m_steps.push_back({column_of(table, old), to});
    else if (to.kind == Kind::BLOBS && !to.is_null(m_defaults.data()))
    {
      const slc_bytes value= to.value(m_defaults.data());
      m_added_blobs.push_back({to, std::string(reinterpret_cast<const char *>(value.ptr), value.len)});
    }
  }
}

slc_err AlteredRow::take()
{
  const uchar *from= m_table->record[0];
  uchar *to= m_altered->record[0];
  m_rows++;
  if (m_is_same)
  {
    memcpy(to, from, m_altered->s->reclength);
    return SLC_OK;
  }
  memcpy(to, m_defaults.data(), m_defaults.size());
  for (const AddedBlob &blob : m_added_blobs)
    put_blob(blob.column, to, reinterpret_cast<const uchar *>(blob.value.data()), blob.value.size());
  for (const Step &step : m_steps)
  {
    if (step.from.is_null(from))
    {
      if (!step.to.null_bit)
      {
        my_error(WARN_DATA_TRUNCATED, MYF(0), m_altered->field[step.to.field]->field_name.str, m_rows);
        return SLC_ROW_NOT_MADE;
      }
      to[step.to.null_offset]|= step.to.null_bit;
      put_null(step.to, to);
      continue;
    }
    if (step.to.null_bit)
      to[step.to.null_offset]&= static_cast<uchar>(~step.to.null_bit);
    const slc_bytes value= step.from.value(from);
    put_grown_value(step.to, to, value.ptr, value.len);
  }
  return SLC_OK;
}

} // namespace sluice

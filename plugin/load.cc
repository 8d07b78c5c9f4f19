/* Loads of new tables. Between extra(HA_EXTRA_BEGIN_COPY) and HA_EXTRA_END_COPY (ALTER TABLE by
   copy, CREATE TABLE ... SELECT) the server fills a table that no other connection can see, and
   drops it if that fails. Its rows go to the engine's load instead of being inserted. A duplicate
   in a UNIQUE index may then be found only at the end. extra() returns the error, and the server
   reports it as one of write_row(). */
#include "ha_sluice.h"
#include "engine.h"
#include "errors.h"

using namespace sluice;

/* Not for tables whose rows the server reads while it writes (to find overlaps, or values of long
   UNIQUE columns), and not for partitions: when those are reorganised, the server does not look at
   what HA_EXTRA_END_COPY returns. */
void ha_sluice::begin_load()
{
  if (is_sequence() || table->part_info || table->s->long_unique_table || table->s->period.unique_keys)
    return;
  end_load();
  /* If it fails, so will the inserts, and tell why. */
  if (slc_load_begin(m_share->table(), &m_load))
    m_load= nullptr;
}

int ha_sluice::finish_load()
{
  if (!m_load)
    return 0;
  return guarded([&] {
    const slc_err error= slc_load_finish(m_load, connect(true)->trx());
    const int result= error ? duplicate_in_load(error) : 0;
    end_load();
    return result;
  });
}

/* The source has been read to its end. What others changed in it meanwhile MariaDB 11 does to the
   copy now, which is younger than the snapshot that the source was read by: that one has done its
   work. */
int ha_sluice::end_copy()
{
  if (!m_load)
    return 0;
  const int error= finish_load();
  if (!error)
    slc_trx_close_snapshot(trx());
  return error;
}

/* The server shows the value in record[0]. */
int ha_sluice::duplicate_in_load(slc_err error)
{
  if (error != SLC_DUPLICATE)
    return fail(error);
  const slc_bytes row= slc_load_duplicate_row(m_load);
  if (row.len)
  {
    m_write.row.clear();
    m_write.row.append(row);
    if (m_codec->get_row(plan_of_whole_rows(), table->record[0], slc_duplicate_pk(), m_write.row.bytes()))
      compute_indexed_virtual_columns(table->record[0]);
  }
  return duplicate(error);
}

void ha_sluice::end_load()
{
  slc_load_end(m_load);
  m_load= nullptr;
}

/* INSERT ... SELECT and LOAD DATA into an empty table. Between start_bulk_insert() and
   end_bulk_insert() the rows go to the engine's bulk insert. It holds the first rows; if many come,
   it writes their pages once, past undo and log. So a row may be refused late: by a later
   write_row(), or by end_bulk_insert(). The server reports both errors in the same way, and finds
   the refused row where it looks for it. Other statements insert row by row: those that continue
   after a duplicate, those that read the table while they fill it, and those that fill the graph of
   a vector index. So do partitions: each of
   hundreds would hold rows of its own. */
#include "ha_sluice.h"
#include "engine.h"
#include "errors.h"
#include "foreign.h"

using namespace sluice;

/* The table is open a second time in this statement (or under this LOCK TABLES). */
static bool is_open_twice(THD *thd, const TABLE *table)
{
  for (const TABLE *other= thd->open_tables; other; other= other->next)
    if (other != table && other->s == table->s)
      return true;
  return false;
}

bool ha_sluice::may_fill_table() const
{
  THD *thd= ha_thd();
  const int command= thd_sql_command(thd);
  if (command != SQLCOM_INSERT_SELECT && command != SQLCOM_LOAD)
    return false;
  if (m_load || m_ignores_duplicates || m_exclusive_on_duplicate || thd->lex->ignore || thd->lex->duplicates != DUP_ERROR ||
      thd->lex->has_returning())
    return false;
  /* The server undoes a function's statement that fails with the statement that called it, not by
     itself. */
  if (thd->in_sub_stmt)
    return false;
  if (is_sequence() || vector_index(table) || table->part_info || table->triggers || table->s->long_unique_table || table->s->period.unique_keys)
    return false;
  /* A row that is held back would be checked late. */
  if (slc_table_foreign(m_share->table()) & 1 && checks_foreign_keys(thd))
    return false;
  return !is_open_twice(thd, table);
}

/* Whether duplicates are ignored is said after this, and before the first row. */
void ha_sluice::start_bulk_insert(ha_rows, uint) { m_bulk_begins= true; }

void ha_sluice::begin_bulk()
{
  m_bulk_begins= false;
  end_bulk();
  /* If it fails, so will the inserts, and tell why. */
  if (may_fill_table() && slc_bulk_begin(m_share->table(), &m_bulk))
    m_bulk= nullptr;
}

/* Called after an error too: then the rows are given up. LOAD DATA looks at my_errno. */
int ha_sluice::end_bulk_insert()
{
  m_bulk_begins= false;
  if (!m_bulk)
    return 0;
  int result= 0;
  if (!ha_thd()->is_error())
    result= guarded([&] {
      const slc_err error= slc_bulk_finish(m_bulk, connect(true)->trx());
      return error ? duplicate_in_bulk(error) : 0;
    });
  end_bulk();
  if (result)
    my_errno= result;
  return result;
}

/* The server shows the value in record[0]. */
int ha_sluice::duplicate_in_bulk(slc_err error)
{
  slc_bytes clustered, row;
  if (error == SLC_DUPLICATE && slc_bulk_refused(m_bulk, &clustered, &row))
  {
    m_write.row.clear();
    m_write.row.append(row);
    m_codec->get_row(plan_of_whole_rows(), table->record[0], clustered, m_write.row.bytes());
    if (table->vfield)
      for (Field **field= table->vfield; *field; field++)
        if (!(*field)->stored_in_db())
          table->update_virtual_field(*field, true);
  }
  return duplicate(error);
}

void ha_sluice::end_bulk()
{
  if (!m_bulk)
    return;
  slc_bulk_end(m_bulk, Connection::of(ha_thd())->trx());
  m_bulk= nullptr;
}

/* AUTO_INCREMENT. The counter is the engine's, and survives a restart. Here is which statement may
   take values from it, and when.

   sluice_autoinc_lock_mode   0: every statement that takes a value keeps others out until it ends,
   so that its values are consecutive. 1: only statements of unknown length do (INSERT ... SELECT,
   LOAD DATA). 2: none does. Otherwise a statement takes as many values as the server asks for, at
   once. As in InnoDB, values taken and not used are lost. An explicit value moves the counter
   beyond itself when its row is written. With 0 a generated value does, too.
   The counter is the next value of the series that auto_increment_increment and
   auto_increment_offset make.

   The counter moves before the row is written. The engine makes it durable with the next change of
   the table, so a value that is in a row is never given again after a crash. If the row is refused,
   the counter goes back.
   Called by: the server, ha_write.cc. */
#include "ha_sluice.h"
#include "engine.h"
#include "errors.h"
#include "settings.h"

using namespace sluice;

enum { AUTOINC_TRADITIONAL= 0, AUTOINC_CONSECUTIVE= 1, AUTOINC_INTERLEAVED= 2 };

int Share::autoinc_lock(Connection *connection)
{
  if (m_autoinc_owner == connection)
    return 0;
  if (const slc_err error= slc_table_autoinc_lock(m_table, connection->trx()))
    return server_error(error, connection->thd(), name());
  m_autoinc_owner= connection;
  connection->autoinc_locks().push_back(this);
  return 0;
}

void Share::autoinc_unlock(Connection *connection)
{
  m_autoinc_owner= nullptr;
  slc_table_autoinc_unlock(m_table, connection->trx());
}

bool ha_sluice::autoinc_lock_mode_stmt_unsafe() const { return settings.autoinc_lock_mode == AUTOINC_INTERLEAVED; }

bool ha_sluice::autoinc_takes_table_lock() const
{
  if (settings.autoinc_lock_mode == AUTOINC_INTERLEAVED)
    return false;
  if (settings.autoinc_lock_mode == AUTOINC_TRADITIONAL)
    return true;
  switch (thd_sql_command(m_connection->thd()))
  {
  case SQLCOM_INSERT:
  case SQLCOM_REPLACE:
  case SQLCOM_END:                      // a row event
    return m_share->autoinc_is_locked_by_other(m_connection);
  default:
    return true;
  }
}

/* The value after this one in the series that this handler gave values of last. */
ulonglong ha_sluice::autoinc_after(ulonglong value) const
{
  return slc_autoinc_after(&m_autoinc_series, value);
}

void ha_sluice::get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                                   ulonglong *reserved)
{
  *first= ULONGLONG_MAX;
  *reserved= 0;
  connect(true);
  m_autoinc_error= autoinc_takes_table_lock() ? m_share->autoinc_lock(m_connection) : 0;
  if (m_autoinc_error)
    return;
  m_autoinc_series= {offset, increment, table->next_number_field->get_max_int_value()};
  /* TRADITIONAL: the counter moves with the row, in autoinc_note(). */
  const int take= settings.autoinc_lock_mode != AUTOINC_TRADITIONAL;
  /* As in InnoDB: what the server wants first is how many rows there are, if it knows. Where a row
     brings a number of its own, the rest of the statement takes as many as it has rows. */
  if (!m_autoinc_rows)
    m_autoinc_rows= wanted ? wanted : 1;
  uint64_t value;
  *reserved= slc_table_autoinc_reserve(m_share->table(), &m_autoinc_series, m_autoinc_rows, take, &value);
  *first= value;
}

/* The number in the AUTO_INCREMENT column of a record; 0 if NULL or not above 0. */
ulonglong ha_sluice::autoinc_value(const uchar *record) const
{
  Field *field= table->found_next_number_field;
  const my_ptrdiff_t move= record - table->record[0];
  field->move_field_offset(move);
  const bool is_null= field->is_real_null();
  /* A number of a FLOAT or DOUBLE may be too large for a signed integer. */
  if (field->result_type() == REAL_RESULT)
  {
    const double real= is_null ? 0 : field->val_real();
    field->move_field_offset(-move);
    return real <= 0 ? 0 : double2ulonglong(real);
  }
  const longlong value= is_null ? 0 : field->val_int();
  field->move_field_offset(-move);
  return value < 0 && !(field->flags & UNSIGNED_FLAG) ? 0 : static_cast<ulonglong>(value);
}

/* A row with this number is about to be written. */
ha_sluice::AutoincRaise ha_sluice::autoinc_note(const uchar *record)
{
  if (!table->found_next_number_field)
    return {0, 0};
  const ulonglong value= autoinc_value(record);
  if (!value || value < m_share->autoinc_next())
    return {0, 0};
  if (value > table->found_next_number_field->get_max_int_value())
    return {0, 0};
  const ulonglong next= autoinc_after(value);
  const ulonglong before= m_share->autoinc_raise(next);
  return before < next ? AutoincRaise{next, before} : AutoincRaise{0, 0};
}

/* Statements that continue after a duplicate, with the same number, keep the number, as InnoDB's
   do. */
static bool keeps_number_of_duplicate(THD *thd)
{
  switch (thd_sql_command(thd))
  {
  case SQLCOM_LOAD:
    return thd->lex->duplicates == DUP_REPLACE;
  case SQLCOM_REPLACE:
  case SQLCOM_REPLACE_SELECT:
  case SQLCOM_INSERT_SELECT:
    return true;
  default:
    return false;
  }
}

/* The row of autoinc_note() was written, or refused with `error`. */
void ha_sluice::autoinc_settle(const uchar *record, const AutoincRaise &raise, int error)
{
  if (!table->found_next_number_field)
    return;
  if (!error)
  {
    /* Another statement may have raised the counter for the same number, been refused because of
       this row, and taken the raise back. */
    if (!raise.to)
      autoinc_note(record);
    return;
  }
  if (!raise.to)
    return;
  if (error == HA_ERR_FOUND_DUPP_KEY)
  {
    if (keeps_number_of_duplicate(m_connection->thd()))
      return;
    /* The number itself is in the table, beyond the counter: a row with it would be refused each
       time. */
    if (m_connection->duplicate_key() == table->s->next_number_index)
      return;
  }
  m_share->autoinc_take_back(raise.to, raise.before);
}

int ha_sluice::reset_auto_increment(ulonglong value)
{
  const slc_err error= slc_table_autoinc_reset(m_share->table(), MY_MAX(value, 1ULL));
  return error ? fail(error) : 0;
}

/* The greatest number in the table; 0 if there is none above 0. The column is the first of its key:
   the engine has no other kind. */
int ha_sluice::greatest_auto_increment(ulonglong *greatest)
{
  *greatest= 0;
  const uint key= table->s->next_number_index;
  table->use_all_columns();
  if (const int error= ha_index_init(key, true))
    return error;
  uchar *record= table->record[0];
  const int error= m_codec->key(key).parts[0].descending ? ha_index_first(record) : ha_index_last(record);
  if (!error)
    *greatest= autoinc_value(record);
  ha_index_end();
  return error == HA_ERR_END_OF_FILE || error == HA_ERR_KEY_NOT_FOUND ? 0 : error;
}

/* ALTER TABLE ... AUTO_INCREMENT=n: the counter goes to n, but never to or below a number that is
   in the table. */
int ha_sluice::set_auto_increment_at_least(ulonglong value)
{
  ulonglong greatest= 0;
  if (table->found_next_number_field)
    if (const int error= greatest_auto_increment(&greatest))
      return error;
  return reset_auto_increment(value > greatest ? value : autoinc_after(greatest));
}

void ha_sluice::update_create_info(HA_CREATE_INFO *info)
{
  if (!(info->used_fields & HA_CREATE_USED_AUTO))
  {
    ha_sluice::info(HA_STATUS_AUTO);
    info->auto_increment_value= stats.auto_increment_value;
  }
}

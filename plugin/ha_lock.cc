/* The locks of a statement: which ones its reads of a table take, what they do about keys that
   change meanwhile, and what is given back. */
#include "ha_sluice.h"
#include "cluster.h"
#include "engine.h"
#include "errors.h"
#include "innodb_stats_tables.h"
#include "mutant.h"
#include "settings.h"
#include "slave.h"

using namespace sluice;

/* The cases in which a row whose duplicate is found only after the write would not be rolled back,
   so that the check must come first:
   - a single statement of a function or a trigger is not rolled back;
   - UPDATE IGNORE goes on with the next row, and a replica in idempotent mode with the next event.
     The server takes an inserted row back, but not a changed one;
   - in a system-versioned table, the server deletes a history row whose duplicate (of the same
     moment) exists. It does so with the index entries of the row before the change, since it knows
     no others. */
bool sluice::checks_unique_first(const THD *thd, const TABLE_SHARE *share)
{
  LEX *const lex= thd->lex;
  if ((share && share->versioned) || lex->requires_prelocking())
    return true;
  if (lex->is_stmt_row_injection())
    return slave_exec_mode_options == SLAVE_EXEC_MODE_IDEMPOTENT;
  switch (lex->sql_command)
  {
  case SQLCOM_UPDATE:
  case SQLCOM_UPDATE_MULTI:
    return lex->ignore;
  case SQLCOM_INSERT:
  case SQLCOM_INSERT_SELECT:
    return lex->ignore && lex->duplicates == DUP_UPDATE;
  default:
    return false;
  }
}

/* An autocommit statement at REPEATABLE READ with snapshot isolation. Not on a replica, which
   repeats what the primary decided: there a statement reads and locks as in any transaction. */
static bool is_autocommit_snapshot_statement(THD *thd)
{
  return !thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN) && thd_tx_isolation(thd) == ISO_REPEATABLE_READ &&
         snapshot_isolation(thd) && !thd->slave_thread;
}

/* Whether the statement changes no existing row, and adds none to a table that other connections
   can use. (CREATE TABLE ... SELECT fills a table that they cannot see yet.) */
static bool modifies_no_shared_rows(THD *thd)
{
  switch (thd_sql_command(thd))
  {
  case SQLCOM_CREATE_TABLE:
  case SQLCOM_CREATE_SEQUENCE:
  case SQLCOM_SET_OPTION:
  case SQLCOM_DO:
    return true;
  default:
    return false;
  }
}

/* What a statement other than SELECT reads of a table that it does not write: up to READ COMMITTED
   some read it as of the statement's snapshot; at REPEATABLE READ, outside of a transaction, those
   that change nothing. */
static uint source_lock(THD *thd)
{
  switch (thd_sql_command(thd))
  {
  case SQLCOM_INSERT_SELECT:
  case SQLCOM_REPLACE_SELECT:
  case SQLCOM_UPDATE:
  case SQLCOM_CREATE_TABLE:
  case SQLCOM_CREATE_SEQUENCE:
    if (thd_tx_isolation(thd) <= ISO_READ_COMMITTED)
      return SLC_LOCK_NONE;
    break;
  default:
    break;
  }
  return is_autocommit_snapshot_statement(thd) && modifies_no_shared_rows(thd) ? SLC_LOCK_NONE_STATEMENT_VIEW : SLC_LOCK_SHARED;
}

/* Which lock a statement's reads of this table take when it does not write to it (then
   external_lock() says exclusive). */
static uint read_lock(THD *thd, enum thr_lock_type type)
{
  const int command= thd_sql_command(thd);
  switch (command)
  {
  case SQLCOM_ALTER_TABLE:              // the metadata lock keeps writers out
  case SQLCOM_CREATE_INDEX:
  case SQLCOM_DROP_INDEX:
  case SQLCOM_OPTIMIZE:
  case SQLCOM_ANALYZE:
  case SQLCOM_CHECK:
  case SQLCOM_CHECKSUM:
  case SQLCOM_HA_OPEN:
  case SQLCOM_HA_READ:
    return SLC_LOCK_NONE;
  default:
    break;
  }
  const bool in_lock_tables= thd_in_lock_tables(thd);
  const bool locks= type == TL_READ_WITH_SHARED_LOCKS || type == TL_READ_NO_INSERT || type == TL_READ_SKIP_LOCKED ||
                    ((type == TL_READ || type == TL_READ_HIGH_PRIORITY) && in_lock_tables) ||
                    command != SQLCOM_SELECT;
  if (!locks)
    return SLC_LOCK_NONE;
  if (type == TL_READ || type == TL_READ_NO_INSERT)
    return source_lock(thd);
  return SLC_LOCK_SHARED;
}

/* Whether the statement is a SELECT whose functions write to no table: all of it reads as a SELECT
   does. (It may lock its own rows FOR UPDATE.) */
static bool is_select_throughout(THD *thd)
{
  if (thd_sql_command(thd) != SQLCOM_SELECT)
    return false;
  for (const TABLE_LIST *named= thd->lex->query_tables; named; named= named->next_global)
    if (named->prelocking_placeholder && named->lock_type >= TL_FIRST_WRITE)
      return false;
  return true;
}

static uint read_policy(enum thr_lock_type type)
{
  return type == TL_READ_SKIP_LOCKED || type == TL_WRITE_SKIP_LOCKED ? SLC_SKIP_LOCKED : SLC_WAIT;
}

/* Whether the statement writes to this table, and does not merely read it FOR UPDATE. */
static bool is_target(THD *thd, const TABLE *table)
{
  TABLE_LIST *const named= table->pos_in_table_list;
  if (!named)
    return false;
  switch (thd_sql_command(thd))
  {
  case SQLCOM_UPDATE:
  case SQLCOM_UPDATE_MULTI:
  case SQLCOM_DELETE:
  case SQLCOM_DELETE_MULTI:
    return named->top_table()->select_lex == thd->lex->first_select_lex();
  case SQLCOM_INSERT:
  case SQLCOM_INSERT_SELECT:
  case SQLCOM_REPLACE:
  case SQLCOM_REPLACE_SELECT:
  case SQLCOM_LOAD:
    return named->top_table() == thd->lex->query_tables;
  /* What else asks FOR UPDATE (SET, DO, CALL, IF, CREATE TABLE ... SELECT) writes none of its
     tables. */
  default:
    return false;
  }
}

/* Below SERIALIZABLE a statement does not lock the ranges that it reads. Repeated on a replica it
   may read other rows, and write others, also into another engine's table. The server asks no flag
   of tables that are only read. So the statement is marked unsafe here, before the server decides
   how to log it. Under MIXED it is then logged as rows, under STATEMENT with a warning. */
static void tell_binlog_of_read(THD *thd, const TABLE *table)
{
  const bool may_write= thd_sql_command(thd) != SQLCOM_SELECT || thd->lex->requires_prelocking();
  if (!may_write || thd->variables.binlog_format == BINLOG_FORMAT_ROW || thd_tx_isolation(thd) == ISO_SERIALIZABLE ||
      !(thd->variables.option_bits & OPTION_BIN_LOG) || !mysql_bin_log.is_open() || table->s->tmp_table != NO_TMP_TABLE)
    return;
  thd->lex->set_stmt_unsafe(LEX::BINLOG_STMT_UNSAFE_LIMIT);
}

/* What a locking scan of an autocommit statement does about a row to which another transaction
   gives a key that the scan has passed. UPDATE and DELETE follow such rows, and no statement waits.
   But these rows come out of the index's order, by which other statements may group. In a join
   they would belong to another lookup. So such statements lock the gaps. */
ha_sluice::KeyChangePolicy ha_sluice::key_change_policy(THD *thd) const
{
  if (m_lock == SLC_LOCK_NONE || m_lock == SLC_LOCK_NONE_STATEMENT_VIEW || m_policy == SLC_SKIP_LOCKED || !is_autocommit_snapshot_statement(thd))
    return KEY_CHANGE_IGNORED;
  const int command= thd_sql_command(thd);
  if (m_lock == SLC_LOCK_SHARED || command == SQLCOM_SELECT || !is_target(thd, table))
    return KEY_CHANGE_LOCKS_GAPS;
  switch (command)
  {
  case SQLCOM_UPDATE:
  case SQLCOM_UPDATE_MULTI:
  case SQLCOM_DELETE:
  case SQLCOM_DELETE_MULTI:
    return thd->lex->query_tables->next_global ? KEY_CHANGE_LOCKS_GAPS : KEY_CHANGE_FOLLOWED;
  /* INSERT and the like look for the duplicate row, which they have locked. */
  default:
    return KEY_CHANGE_IGNORED;
  }
}

uint ha_sluice::lock_of_reads() const
{
  if (unlikely(is_graph()))
  {
    if (planted(Mutant::ReadNodesLocked))
      return SLC_LOCK_SHARED;
    return m_own_trx || planted(Mutant::NodesOfSnapshot) ? SLC_LOCK_NONE : SLC_LOCK_NONE_NEWEST;
  }
  const auto is_check= [&] {
    const KEY *const key= active_index < table->s->keys ? &table->key_info[active_index] : nullptr;
    return key && m_lock == SLC_LOCK_EXCLUSIVE && (key->algorithm == HA_KEY_ALG_LONG_HASH || key->without_overlaps);
  };
  return m_key_change_policy == KEY_CHANGE_LOCKS_GAPS || (m_checks_unique_first && is_check()) ? m_lock | SLC_LOCK_GAPS : m_lock;
}

/* The key, in the index that is scanned, of a row that is not in the server's record and may never
   be. */
slc_bytes ha_sluice::key_of_moved(void *ctx, slc_bytes clustered, slc_bytes stored)
{
  ha_sluice *const self= static_cast<ha_sluice *>(ctx);
  const slc_bytes row= Codec::plain_row(stored, self->m_plain_moved);
  const size_t length= self->table->s->reclength;
  const auto compute= [&] {
    uchar *const record= self->m_moved_record.reserve(length);
    memcpy(record, self->table->s->default_values, length);
    if (!self->m_codec->get_row(self->plan_of_whole_rows(), record, clustered, row))
      return bad_row(self->shown_name().c_str(), self->m_codec->unknown_definition(row));
    self->add_virtual_columns(record, clustered, row);
    self->m_moved_key.clear();
    self->m_codec->put_key(self->m_moved_key, self->active_index, record);
    return 0;
  };
  return guarded(compute) ? slc_bytes{nullptr, 0} : self->m_moved_key.bytes();
}

THR_LOCK_DATA **ha_sluice::store_lock(THD *thd, THR_LOCK_DATA **to, enum thr_lock_type type)
{
  if (type == TL_IGNORE)
    return to;
  m_stored_lock= read_lock(thd, type);
  m_select_throughout= m_stored_lock == SLC_LOCK_NONE && is_select_throughout(thd);
  m_policy= read_policy(type);
  return to;
}

/* A statement that may change the table. */
static int refuse_in_cluster(THD *thd, const TABLE *table, bool is_sequence)
{
  if (table->s->tmp_table != NO_TMP_TABLE || !is_local_to_cluster(thd))
    return 0;
  if (is_sequence)
    return refuse_sequence(thd, table->s);
  if (thd_sql_command(thd) == SQLCOM_SELECT && !thd->lex->requires_prelocking())
    return 0;                           // SELECT ... FOR UPDATE
  return refuse_second_engine(thd, table->s);
}

int ha_sluice::external_lock(THD *thd, int type)
{
  m_scan.is_set_up= false;
#ifdef SLUICE_STAND_IN
  m_change_noted= false;
#endif
  if (type == F_WRLCK)
    if (const int error= refuse_in_cluster(thd, table, is_sequence()))
      return error;
  if (is_sequence())
  {
    own_end();
    m_lock= type == F_WRLCK ? SLC_LOCK_EXCLUSIVE : SLC_LOCK_NONE;
    return 0;
  }
  if (type == F_UNLCK)
  {
    end_bulk();
    if (Connection *connection= Connection::existing(thd))
      connection->table_unlocked();
    m_connection= nullptr;
    m_lock= SLC_LOCK_NONE;
    own_end();                          // of a graph
    return 0;
  }
#ifdef SLUICE_STAND_IN
  /* Before the statement has its snapshot. A change must not be followed by an older one. */
  if (is_statistics_table(table->s))
    wait_for_statistics_tables(nullptr);
#endif
  m_connection= Connection::of(thd);
  if (const int error= m_connection->use(type == F_WRLCK))
    return error;
  m_connection->table_locked();
  m_lock= type == F_WRLCK ? static_cast<uint>(SLC_LOCK_EXCLUSIVE) : m_stored_lock;
  if (m_lock == SLC_LOCK_NONE && m_connection->isolation() == SLC_ISO_SERIALIZABLE &&
      m_connection->in_long_transaction())
    m_lock= SLC_LOCK_SHARED;
#ifdef SLUICE_STAND_IN
  if ((m_lock == SLC_LOCK_SHARED || m_lock == SLC_LOCK_EXCLUSIVE) && !is_graph())
    m_connection->note_locked(m_share->name());
#endif
  m_key_change_policy= is_graph() ? KEY_CHANGE_IGNORED : key_change_policy(thd);
  m_checks_unique_first= (table->s->long_unique_table || table->s->period.unique_keys) && checks_unique_first(thd, table->s);
  if (type == F_RDLCK)
    tell_binlog_of_read(thd, table);
  return 0;
}

/* A statement under LOCK TABLES or inside a stored routine: the table was locked for all of them,
   by the strongest of their types. Called also, right after external_lock(), for the tables of
   CREATE OR REPLACE TABLE, and for the own tables of a statement with triggers or functions. The
   latter read by no snapshot of the statement's, since its routines do not. */
int ha_sluice::start_stmt(THD *thd, thr_lock_type type)
{
  m_scan.is_set_up= false;
#ifdef SLUICE_STAND_IN
  m_change_noted= false;
#endif
  m_policy= read_policy(type);
  const bool writes= type >= TL_FIRST_WRITE, is_plain= type == TL_READ || type == TL_READ_NO_INSERT;
  if (writes)
    if (const int error= refuse_in_cluster(thd, table, is_sequence()))
      return error;
  m_connection= Connection::of(thd);
  if (const int error= m_connection->use(writes))
    return error;
  if (writes)
    m_lock= SLC_LOCK_EXCLUSIVE;
  else if (thd_sql_command(thd) == SQLCOM_SELECT && type == TL_READ &&
           m_connection->isolation() != SLC_ISO_SERIALIZABLE)
    m_lock= SLC_LOCK_NONE;
  else if (is_plain && m_stored_lock == SLC_LOCK_NONE &&
           (m_connection->isolation() <= SLC_ISO_READ_COMMITTED ||
            (m_select_throughout && m_connection->isolation() != SLC_ISO_SERIALIZABLE)))
    m_lock= SLC_LOCK_NONE;
  else if (is_plain && m_stored_lock == SLC_LOCK_NONE_STATEMENT_VIEW && thd->locked_tables_mode == LTM_NONE && !thd->lex->requires_prelocking())
    m_lock= SLC_LOCK_NONE_STATEMENT_VIEW;
  else
    m_lock= SLC_LOCK_SHARED;
  m_key_change_policy= key_change_policy(thd);
  if (!writes)
    tell_binlog_of_read(thd, table);
  return 0;
}

void ha_sluice::unlock_row()
{
  if (m_semi == SEMI_DID)
    m_semi= SEMI_TRY;
  else if (m_lock != SLC_LOCK_NONE && m_connection && m_connection->isolation() <= SLC_ISO_READ_COMMITTED)
    slc_cursor_unlock_row(m_cursor, trx());
}

bool ha_sluice::was_semi_consistent_read() { return m_semi == SEMI_DID; }

void ha_sluice::try_semi_consistent_read(bool on)
{
  m_semi= on && m_connection && m_connection->isolation() <= SLC_ISO_READ_COMMITTED ? SEMI_TRY : SEMI_OFF;
  m_scan.is_set_up= false;
}

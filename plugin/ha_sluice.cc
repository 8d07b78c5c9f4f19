/* A handler's life: open and close, what it can do, and how a statement's locks are chosen. */
#include "ha_sluice.h"
#include "ddl.h"
#include "engine.h"
#include "errors.h"
#include "settings.h"
#include "table_options.h"
#include "table_path.h"
#include <algorithm>

using namespace sluice;

/* Row references are key images up to this size; longer ones (string keys) are in the server's key format, which is shorter. */
static constexpr uint REF_IMAGE_BYTES_MAX= 64;

ha_sluice::ha_sluice(handlerton *hton_arg, TABLE_SHARE *table_share_arg) : handler(hton_arg, table_share_arg) {}

ha_sluice::~ha_sluice()
{
  if (m_cursor)
    slc_cursor_free(m_cursor);
  own_end();
}

/* Statements that make a copy of a table in which nobody else comes to its rows, and drop the old one, or lock it for those to come. */
static bool keeps_others_out(const THD *thd)
{
  switch (thd_sql_command(thd))
  {
  case SQLCOM_ALTER_TABLE:
  case SQLCOM_CREATE_INDEX:
  case SQLCOM_DROP_INDEX:
  case SQLCOM_OPTIMIZE:
  case SQLCOM_REPAIR:
  case SQLCOM_LOCK_TABLES:
    return true;
  default:
    return false;
  }
}

handler::Table_flags ha_sluice::table_flags() const
{
  Table_flags flags= HA_REC_NOT_IN_SEQ | HA_NULL_IN_KEY | HA_CAN_INDEX_BLOBS | HA_CAN_VIRTUAL_COLUMNS |
                     HA_CAN_SQL_HANDLER | HA_REQUIRES_KEY_COLUMNS_FOR_DELETE | HA_PRIMARY_KEY_REQUIRED_FOR_POSITION |
                     HA_PRIMARY_KEY_IN_READ_INDEX | HA_BINLOG_ROW_CAPABLE | HA_CAN_GEOMETRY | HA_PARTIAL_COLUMN_READ |
                     HA_TABLE_SCAN_ON_INDEX | HA_CAN_ONLINE_BACKUPS | HA_CAN_SKIP_LOCKED | HA_ONLINE_ANALYZE |
                     HA_CONCURRENT_OPTIMIZE | HA_CAN_TABLES_WITHOUT_ROLLBACK;
  /* Only SERIALIZABLE locks all ranges. Below it a statement may see another one's rows appear: it is not safe to replicate
     as text, and the server's own unique checks (over hashes) come after the write. Not where what has been written would stay: ALTER IGNORE
     goes on behind a duplicate, and of a function or a trigger no statement is rolled back by itself (there the check locks the gap). */
  const THD *thd= current_thd;
  const bool serializable= thd && thd_tx_isolation(thd) == ISO_SERIALIZABLE;
  if (serializable)
    flags|= HA_BINLOG_STMT_CAPABLE;
  if (!thd || (!serializable && !keeps_others_out(thd) && !thd->lex->requires_prelocking()))
    flags|= HA_CHECK_UNIQUE_AFTER_WRITE;
  if (m_codec)
    flags|= ref_is_image() ? HA_DUPLICATE_POS : HA_SLOW_CMP_REF;
  return flags;
}

ulong ha_sluice::index_flags(uint index, uint part, bool all_parts) const
{
  ulong flags= HA_READ_NEXT | HA_READ_PREV | HA_READ_ORDER | HA_READ_RANGE | HA_KEYREAD_ONLY;
  if (index == table_share->primary_key)
    flags|= HA_CLUSTERED_INDEX;
  else
    flags|= HA_DO_INDEX_COND_PUSHDOWN | HA_DO_RANGE_FILTER_PUSHDOWN;
  return flags;
}

Share *ha_sluice::get_share(const char *name)
{
  lock_shared_ha_data();
  Share *share= static_cast<Share *>(get_ha_share_ptr());
  if (!share)
  {
    share= new Share(name);
    const slc_err error= share->open();
    if (error != SLC_OK)
    {
      my_errno= server_error(error, ha_thd(), name);
      delete share;
      share= nullptr;
    }
    else
      set_ha_share_ptr(share);
  }
  unlock_shared_ha_data();
  return share;
}

/* Entries are addressed by an index's ordinal. EXCHANGE PARTITION changes what a table's indexes are, for the engine, but not the .frm file, and
   looks at names, not at the order. False: they are not the same indexes. */
static bool find_indexes(Codec &codec, const TABLE *table, slc_table *engine_table)
{
  std::vector<uint> order;
  for (uint i= 0; i < slc_table_index_count(engine_table); i++)
  {
    const char *text= slc_table_index_name(engine_table, i);
    const LEX_CSTRING name= {text, strlen(text)};
    uint found= MAX_KEY;
    for (uint index= 0; index < table->s->keys; index++)
      if (index != codec.primary() && same_key_name(table->key_info[index].name, name))
        found= index;
    if (found == MAX_KEY || std::count(order.begin(), order.end(), found))
      return false;
    order.push_back(found);
  }
  if (order.size() != codec.secondary_count())
    return false;
  codec.set_order(order);
  return true;
}

/* A table that cannot be opened the server calls corrupt when it is asked to check or repair it, unless the error is one of a few: this one
   (its number is not shown) stands for a file that may be whole, and for an engine that has stopped. */
static void tell_who_asks(THD *thd, const char *why)
{
  switch (thd_sql_command(thd))
  {
  case SQLCOM_CHECK:
  case SQLCOM_REPAIR:
  case SQLCOM_ANALYZE:
  case SQLCOM_OPTIMIZE:
    my_printf_error(ER_FILE_NOT_FOUND, "%s", MYF(0), why);
    break;
  default:
    break;
  }
}

/*
  The server goes on behind a secondary key's own parts with those of the primary key that it lacks, and takes both together for unique. Here it
  does so only where they hold every column of the primary key, each one whole. It leaves out parts itself, but
  - with PRIMARY KEY (a, c(3), id), KEY (c, a) it goes on with id: equal strings need not have equal beginnings, and by those the entries lie;
  - with PRIMARY KEY (a, c(3)), KEY (c) it takes (c, a) for unique, where two strings may be equal and their beginnings not;
  - where some parts are left it groups by an index although a condition is on a part that is not.
*/
static void cut_extended_keys(TABLE *table)
{
  if (table->s->primary_key >= MAX_KEY)
    return;
  const KEY &primary= table->key_info[table->s->primary_key];
  const auto is_whole= [table](const KEY_PART_INFO &part) { return table->field[part.fieldnr - 1]->key_length() == part.length; };
  const auto has_part= [&](const KEY &key, uint part) {
    if (key.ext_key_part_map >> part & 1)
      return true;
    const KEY_PART_INFO *own= key.key_part, *end= own + key.user_defined_key_parts;
    while (own < end && own->fieldnr != primary.key_part[part].fieldnr)
      own++;
    return own < end && is_whole(*own);
  };
  for (uint i= 0; i < table->s->keys; i++)
  {
    KEY &key= table->key_info[i];
    if (i == table->s->primary_key || (!key.ext_key_part_map && !(key.ext_key_flags & HA_EXT_NOSAME)))
      continue;
    uint part= 0;
    while (part < primary.user_defined_key_parts && is_whole(primary.key_part[part]) && has_part(key, part))
      part++;
    if (part == primary.user_defined_key_parts)
      continue;
    key.ext_key_part_map= 0;
    key.ext_key_parts= key.user_defined_key_parts;
    key.ext_key_flags= key.flags;
  }
}

int ha_sluice::open(const char *name, int, uint)
{
  if (!(m_share= get_share(name)))
  {
    if (my_errno == SLUICE_ERR_IO || my_errno == SLUICE_ERR_POISONED)
      tell_who_asks(ha_thd(), error_text(my_errno));
    return my_errno;
  }
  m_codec= Codec::build(table);
  if (!find_indexes(*m_codec, table, m_share->table()))
  {
    sql_print_error(SLUICE_ENGINE_NAME ": table %s: its .frm file and the engine's catalog name different indexes",
                    shown_table(name).c_str());
    return HA_ERR_TABLE_DEF_CHANGED;
  }
  if (!schema_has_images_of(slc_table_schema(m_share->table()), table))
  {
    static const char *const WHY= "an earlier version made its keys, whose order of CHAR values was another: dump the table with that version "
                                  "and load it again";
    sql_print_error(SLUICE_ENGINE_NAME ": table %s: %s", shown_table(name).c_str(), WHY);
    tell_who_asks(ha_thd(), WHY);
    return HA_ERR_TABLE_NEEDS_UPGRADE;
  }
  cut_extended_keys(table);
  m_share->describe_keys(table->s, *m_codec);
  /* EXCHANGE PARTITION moves rows and indexes from one table to another, each with its own. */
  slc_table_use_change_buffering(m_share->table(), change_buffering_of(table->s));
  if (!m_cursor)
    m_cursor= slc_cursor_new(m_share->table());
  if (m_codec->clustered_key_length_fixed())
    ref_length= m_codec->clustered_key_length_fixed();
  else if (m_codec->clustered_key_length_max() <= REF_IMAGE_BYTES_MAX)
    ref_length= m_codec->clustered_key_length_max() + 1;
  else
    ref_length= table->key_info[m_codec->primary()].key_length;
  /* A table scan walks the clustered index: an UPDATE of its key must collect the rows first, or it would meet them again. */
  key_used_on_scan= table->s->primary_key;
  stats.block_size= 16384;
  return info(HA_STATUS_NO_LOCK | HA_STATUS_VARIABLE | HA_STATUS_CONST | HA_STATUS_OPEN);
}

int ha_sluice::close()
{
  end_load();
  if (m_cursor)
    slc_cursor_free(m_cursor);
  m_cursor= nullptr;
  own_end();
  m_codec.reset();
  m_plan= nullptr;
  m_connection= nullptr;
  return 0;
}

handler *ha_sluice::clone(const char *name, MEM_ROOT *mem_root)
{
  ha_sluice *copy= static_cast<ha_sluice *>(handler::clone(name, mem_root));
  if (copy)
  {
    copy->m_lock= m_lock;
    copy->m_stored_lock= m_lock;
    copy->m_policy= m_policy;
    copy->m_about_moved= m_about_moved;
    copy->m_checks_unique_first= m_checks_unique_first;
  }
  return copy;
}

void ha_sluice::change_table_ptr(TABLE *table_arg, TABLE_SHARE *share_arg)
{
  handler::change_table_ptr(table_arg, share_arg);
  m_covers_index= MAX_KEY;
  if (m_codec)
    m_codec->set_table(table_arg);
}

int ha_sluice::reset()
{
  constexpr size_t KEPT_BYTES= 1 << 20;
  end_load();
  end_bulk();
  m_keyread= false;
  m_exclusive_on_duplicate= false;
  m_ignores_duplicates= false;
  m_bulk_begins= false;
  m_semi= SEMI_OFF;
  m_scan_set_up= false;
  m_ds_mrr.dsmrr_close();
  m_ranges_begun= false;
  m_range_buffer.release_if_larger(0);
  if (m_cursor && m_row_bytes.len)
    slc_cursor_reset(m_cursor);
  m_row_bytes= {nullptr, 0};
  m_kept_blobs.release_if_larger(KEPT_BYTES);
  m_row.release_if_larger(KEPT_BYTES);
  m_entries.release_if_larger(KEPT_BYTES);
  return 0;
}

int ha_sluice::extra(enum ha_extra_function operation)
{
  switch (operation)
  {
  case HA_EXTRA_KEYREAD:
  case HA_EXTRA_KEYREAD_PRESERVE_FIELDS:
    m_keyread= true;
    break;
  case HA_EXTRA_NO_KEYREAD:
    m_keyread= false;
    break;
  case HA_EXTRA_WRITE_CAN_REPLACE:
  case HA_EXTRA_INSERT_WITH_UPDATE:
    m_exclusive_on_duplicate= true;
    break;
  case HA_EXTRA_WRITE_CANNOT_REPLACE:
    m_exclusive_on_duplicate= false;
    break;
  case HA_EXTRA_IGNORE_DUP_KEY:
    m_ignores_duplicates= true;
    break;
  case HA_EXTRA_NO_IGNORE_DUP_KEY:
    m_exclusive_on_duplicate= false;
    m_ignores_duplicates= false;
    break;
  case EXTRA_BEGIN_COPY:
    begin_load();
    break;
  case EXTRA_END_COPY:
    return end_copy();
  case EXTRA_ABORT_COPY:
    end_load();
    break;
  default:
    break;
  }
  return 0;
}

bool ha_sluice::get_error_message(int error, String *text)
{
  text->copy(error_text(error), static_cast<uint>(strlen(error_text(error))), system_charset_info);
  return false;
}

int ha_sluice::fail(slc_err error) { return server_error(error, ha_thd(), name()); }

Connection *ha_sluice::connect(bool writes)
{
  m_connection= Connection::of(ha_thd());
  if (unlikely(is_sequence()))
    own_begin();
  else
    m_connection->use(writes);
  return m_connection;
}

/* A statement of its own transaction. A replica repeats what was decided elsewhere: there it reads and locks as in any other. */
static bool is_lone_statement(THD *thd)
{
  return !thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN) && thd_tx_isolation(thd) == ISO_REPEATABLE_READ &&
         snapshot_isolation(thd) && !thd->slave_thread;
}

/* Whether the statement changes no row that is there, nor adds one to a table that others may use: it decides nothing that others might wait for. */
static bool only_reads(THD *thd)
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

/* What a statement other than SELECT reads of a table that it does not write: up to READ COMMITTED some read it as of the statement's snapshot;
   at REPEATABLE READ, outside of a transaction, those that change nothing. */
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
  return is_lone_statement(thd) && only_reads(thd) ? SLC_LOCK_NONE_OF_SOURCE : SLC_LOCK_SHARED;
}

/* Which lock a statement's reads of this table take when it does not write to it (then external_lock() says exclusive). */
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

/* Whether the statement is a SELECT whose functions write to no table: all of it reads as a SELECT does. (It may lock its own rows FOR UPDATE.) */
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
  default:                              // what else asks FOR UPDATE (SET, DO, CALL, IF, CREATE TABLE ... SELECT) writes none of its tables
    return false;
  }
}

/* Below SERIALIZABLE nobody locks the ranges that he reads: repeated on a replica, a statement may read other rows, and what it writes, be it into
   another engine's table, is then another thing. Of tables that are only read the server asks no flag, so it is told here that the statement is
   unsafe: under MIXED it is logged as rows, under STATEMENT with a warning. Before it decides how the statement is logged. */
static void tell_binlog_of_read(THD *thd, const TABLE *table)
{
  const bool may_write= thd_sql_command(thd) != SQLCOM_SELECT || thd->lex->requires_prelocking();
  if (!may_write || thd->variables.binlog_format == BINLOG_FORMAT_ROW || thd_tx_isolation(thd) == ISO_SERIALIZABLE ||
      !(thd->variables.option_bits & OPTION_BIN_LOG) || !mysql_bin_log.is_open() || table->s->tmp_table != NO_TMP_TABLE)
    return;
  thd->lex->set_stmt_unsafe(LEX::BINLOG_STMT_UNSAFE_LIMIT);
}

/* What a locking scan outside of a transaction does about rows that move behind it. Those that UPDATE and DELETE change are followed, and nobody
   has to wait; but they may come out of the index's order, by which a statement may group, and in a join they would belong to another lookup. */
ha_sluice::Moved ha_sluice::about_moved(THD *thd) const
{
  if (m_lock == SLC_LOCK_NONE || m_lock == SLC_LOCK_NONE_OF_SOURCE || m_policy == SLC_SKIP_LOCKED || !is_lone_statement(thd))
    return MOVED_MISSED;
  const int command= thd_sql_command(thd);
  if (m_lock == SLC_LOCK_SHARED || command == SQLCOM_SELECT || !is_target(thd, table))
    return MOVED_KEPT_OUT;
  switch (command)
  {
  case SQLCOM_UPDATE:
  case SQLCOM_UPDATE_MULTI:
  case SQLCOM_DELETE:
  case SQLCOM_DELETE_MULTI:
    return thd->lex->query_tables->next_global ? MOVED_KEPT_OUT : MOVED_FOLLOWED;
  default:                              // it looks for the row that is there twice, which it has locked
    return MOVED_MISSED;
  }
}

uint ha_sluice::lock_of_reads() const
{
  const auto is_check= [&] {
    const KEY *const key= active_index < table->s->keys ? &table->key_info[active_index] : nullptr;
    return key && m_lock == SLC_LOCK_EXCLUSIVE && (key->algorithm == HA_KEY_ALG_LONG_HASH || key->without_overlaps);
  };
  return m_about_moved == MOVED_KEPT_OUT || (m_checks_unique_first && is_check()) ? m_lock | SLC_LOCK_GAPS : m_lock;
}

/* The key, in the index that is scanned, of a row that is not in the server's record and may never be. */
slc_bytes ha_sluice::key_of_moved(void *ctx, slc_bytes clustered, slc_bytes row)
{
  ha_sluice *const self= static_cast<ha_sluice *>(ctx);
  const size_t length= self->table->s->reclength;
  const auto compute= [&] {
    uchar *const record= self->m_moved_record.reserve(length);
    memcpy(record, self->table->s->default_values, length);
    if (!self->m_codec->get_row(self->plan_of_whole_rows(), record, clustered, row))
      return bad_row(self->name());
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

int ha_sluice::external_lock(THD *thd, int type)
{
  m_scan_set_up= false;
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
    return 0;
  }
  m_connection= Connection::of(thd);
  if (const int error= m_connection->use(type == F_WRLCK))
    return error;
  m_connection->table_locked();
  m_lock= type == F_WRLCK ? static_cast<uint>(SLC_LOCK_EXCLUSIVE) : m_stored_lock;
  if (m_lock == SLC_LOCK_NONE && m_connection->isolation() == SLC_ISO_SERIALIZABLE &&
      m_connection->in_long_transaction())
    m_lock= SLC_LOCK_SHARED;
  m_about_moved= about_moved(thd);
  m_checks_unique_first= (table->s->long_unique_table || table->s->period.unique_keys) && thd->lex->requires_prelocking();
  if (type == F_RDLCK)
    tell_binlog_of_read(thd, table);
  return 0;
}

/* A statement under LOCK TABLES or inside a stored routine: the table was locked for all of them, by the strongest of their types. Called also,
   right behind external_lock(), for the own tables of a statement with triggers or functions (they read by no snapshot of the statement's, for its
   routines do not), and of CREATE OR REPLACE TABLE. */
int ha_sluice::start_stmt(THD *thd, thr_lock_type type)
{
  m_scan_set_up= false;
  m_policy= read_policy(type);
  const bool writes= type >= TL_FIRST_WRITE, is_plain= type == TL_READ || type == TL_READ_NO_INSERT;
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
  else if (is_plain && m_stored_lock == SLC_LOCK_NONE_OF_SOURCE && thd->locked_tables_mode == LTM_NONE && !thd->lex->requires_prelocking())
    m_lock= SLC_LOCK_NONE_OF_SOURCE;
  else
    m_lock= SLC_LOCK_SHARED;
  m_about_moved= about_moved(thd);
  if (!writes)
    tell_binlog_of_read(thd, table);
  return 0;
}

/* A copy of the table is about to be made, and the table dropped: what is not decided yet would be lost with it. The metadata lock keeps writers
   out, but it is not held for a transaction that is prepared and has lost its connection. */
int ha_sluice::before_copy()
{
  THD *const thd= ha_thd();
  if (!keeps_others_out(thd) || table->s->tmp_table != NO_TMP_TABLE || is_sequence())
    return 0;
  if (settings.read_only)
    return HA_ERR_TABLE_READONLY;
  return wait_until_decided(thd, m_share->name(), false);
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
  m_scan_set_up= false;
}

bool ha_sluice::ref_is_image() const
{
  return m_codec->clustered_key_length_fixed() || m_codec->clustered_key_length_max() <= REF_IMAGE_BYTES_MAX;
}

void ha_sluice::position(const uchar *record)
{
  if (!m_codec->has_primary_key())
  {
    memcpy(ref, m_clustered.data(), HIDDEN_KEY_LENGTH);
    return;
  }
  if (!ref_is_image())
  {
    key_copy(ref, record, &table->key_info[m_codec->primary()], ref_length, true);
    return;
  }
  m_low.clear();
  m_codec->put_key(m_low, m_codec->primary(), record);
  put_ref(ref, m_low.bytes());
}

/* An image of varying length is padded with zeros and ends with its length, so that references still compare as bytes. */
void ha_sluice::put_ref(uchar *to, slc_bytes clustered) const
{
  memcpy(to, clustered.ptr, clustered.len);
  if (m_codec->clustered_key_length_fixed())
    return;
  memset(to + clustered.len, 0, ref_length - 1 - clustered.len);
  to[ref_length - 1]= static_cast<uchar>(clustered.len);
}

void ha_sluice::put_clustered(Buffer &to, const uchar *ref_bytes) const
{
  to.clear();
  if (!ref_is_image())
    m_codec->put_search_key(to, m_codec->primary(), ref_bytes, ref_length);
  else
    to.append(ref_bytes, m_codec->clustered_key_length_fixed() ? ref_length : ref_bytes[ref_length - 1]);
}

int ha_sluice::cmp_ref(const uchar *left, const uchar *right)
{
  if (ref_is_image())
    return memcmp(left, right, ref_length);
  put_clustered(m_low, left);
  put_clustered(m_high, right);
  const int order= memcmp(m_low.data(), m_high.data(), MY_MIN(m_low.length(), m_high.length()));
  return order ? order : static_cast<int>(m_low.length()) - static_cast<int>(m_high.length());
}

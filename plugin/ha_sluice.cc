/* A handler's life: open and close, what it can do, what of a row a reference keeps. */
#include "ha_sluice.h"
#include "ddl.h"
#include "cluster.h"
#include "column_notes.h"
#include "engine.h"
#include "errors.h"
#include "instant_alter.h"
#include "settings.h"
#include "table_options.h"
#include "table_path.h"
#include <algorithm>

using namespace sluice;

/* Row references are key images up to this size; longer ones (string keys) are in the server's key
   format, which is shorter. */
static constexpr uint REF_IMAGE_BYTES_MAX= 64;

ha_sluice::ha_sluice(handlerton *hton_arg, TABLE_SHARE *table_share_arg) : handler(hton_arg, table_share_arg) {}

ha_sluice::~ha_sluice()
{
  if (m_cursor)
    slc_cursor_free(m_cursor);
  own_end();
}

/* Statements that copy a table while no other statement reaches its rows, and then drop the old
   table, or lock it for statements to come. */
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
  /* Only SERIALIZABLE locks all ranges. Below it a statement may see another one's rows appear: it
     is not safe to replicate as text, and the server's own unique checks (over hashes) come after
     the write. Not where written rows would stay: ALTER IGNORE continues after a duplicate, and so
     do statements of checks_unique_first() (there the check locks the gap). */
  const THD *thd= current_thd;
  const bool serializable= thd && thd_tx_isolation(thd) == ISO_SERIALIZABLE;
  if (serializable)
    flags|= HA_BINLOG_STMT_CAPABLE;
  if (!thd || (!serializable && !keeps_others_out(thd) && !checks_unique_first(thd, table_share)))
    flags|= HA_CHECK_UNIQUE_AFTER_WRITE;
  /* REPLACE changes the row in the way, instead of deleting it, if its key is the server's last
     UNIQUE one. That fails if another UNIQUE key is checked later: one over hashes after the write,
     or one that ALTER TABLE added, which the server puts before those with nullable columns. */
  const bool hashes_last= (flags & HA_CHECK_UNIQUE_AFTER_WRITE) && table_share && table_share->long_unique_table;
  if (hashes_last || (m_codec && !m_unique_in_order))
    flags|= HA_DUPLICATE_KEY_NOT_IN_ORDER;
#ifdef SLUICE_STAND_IN
  if (requires_primary_key())
    flags|= HA_REQUIRE_PRIMARY_KEY;
#endif
#ifdef SLUICE_STAND_IN
  /* As of InnoDB, the server reads the row in the way by its key, and counts that. */
  if (m_codec && !ref_is_image())
    flags|= HA_SLOW_CMP_REF;
#else
  if (m_codec)
    flags|= ref_is_image() ? HA_DUPLICATE_POS : HA_SLOW_CMP_REF;
#endif
  return flags;
}

#ifdef SLUICE_STAND_IN
/* What the definition says, as in InnoDB, or what innodb_default_row_format said. Rows have the
   form of DYNAMIC, or are compressed. */
enum row_type ha_sluice::get_row_type() const
{
  switch (table_share->row_type)
  {
  case ROW_TYPE_REDUNDANT:
  case ROW_TYPE_COMPACT:
  case ROW_TYPE_COMPRESSED:
    return table_share->row_type;
  case ROW_TYPE_DEFAULT:
    if (table_share->key_block_size)
      return ROW_TYPE_COMPRESSED;
    return m_share && m_share->table() ? format_note(string_of(slc_table_schema(m_share->table()))) : ROW_TYPE_DYNAMIC;
  default:
    return ROW_TYPE_DYNAMIC;
  }
}
#endif

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

/* Entries are addressed by an index's ordinal. EXCHANGE PARTITION changes what a table's indexes
   are, for the engine, but not the .frm file, and looks at names, not at the order. False: they are
   not the same indexes. */
static bool find_indexes(Codec &codec, const TABLE *table, slc_table *engine_table)
{
  std::vector<uint> order;
  for (uint i= 0; i < slc_table_index_count(engine_table); i++)
  {
    const char *text= slc_table_index_name(engine_table, i);
    const LEX_CSTRING name= {text, strlen(text)};
    uint found= MAX_KEY;
    for (uint index= 0; index < table->s->keys; index++)
      if (index != codec.primary() && same_name(table->key_info[index].name, name))
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

/* The engine checks secondary UNIQUE indexes in the order in which they were made: is that the
   server's order? EXCHANGE PARTITION may give each partition another one, but to the server all of
   them are alike. */
static bool has_unique_in_order(const Codec &codec, const TABLE *table, slc_table *engine_table)
{
  uint32_t last= 0;
  uint count= 0;
  for (uint index= 0; index < table->s->keys; index++)
  {
    if (index == codec.primary() || !(table->key_info[index].flags & HA_NOSAME))
      continue;
    const uint32_t id= slc_table_index_id(engine_table, codec.engine_index(index) - 1);
    if (id < last || (table->part_info && ++count > 1))
      return false;
    last= id;
  }
  return true;
}

/* The server calls a table corrupt if it cannot open it for CHECK or REPAIR, unless the error is
   one of a few. This one, whose number is not shown, stands for a file that may be whole, and for
   an engine that has stopped. */
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


/* The server extends a secondary key by the parts of the primary key that it lacks, and takes both
   together for unique. Here it does so only where they hold every column of the primary key, each
   one whole. It leaves out parts itself, but
   - with PRIMARY KEY (a, c(3), id), KEY (c, a) it goes on with id: equal strings need not have
     equal beginnings, and by those the entries lie;
   - with PRIMARY KEY (a, c(3)), KEY (c) it takes (c, a) for unique, where two strings may be equal
     and their beginnings not;
   - where some parts are left it groups by an index although a condition is on a part that is
     not. */
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
  m_unique_in_order= has_unique_in_order(*m_codec, table, m_share->table());
  if (!schema_has_images_of(slc_table_schema(m_share->table()), table))
  {
    static const char *const WHY= "an earlier version made its keys, whose order of CHAR values was another: dump the table with that version "
                                  "and load it again";
    sql_print_error(SLUICE_ENGINE_NAME ": table %s: %s", shown_table(name).c_str(), WHY);
    tell_who_asks(ha_thd(), WHY);
    return HA_ERR_TABLE_NEEDS_UPGRADE;
  }
  if (!use_history(*m_codec, table, m_share->history()))
  {
    sql_print_error(SLUICE_ENGINE_NAME ": table %s: the definition of rows in the engine's catalog cannot be read, or is not that of the .frm file",
                    shown_table(name).c_str());
    return HA_ERR_TABLE_DEF_CHANGED;
  }
  m_codec->set_marks_past(slc_table_marks_past(m_share->table()));
  cut_extended_keys(table);
  m_share->describe_keys(table->s, *m_codec);
  m_share->describe_statistics(table->s, *m_codec);
  quote_keywords(table->s);
  /* EXCHANGE PARTITION moves rows and indexes from one table to another, each with its own. */
  slc_table_use_change_buffering(m_share->table(), change_buffering_of(table->s));
  if (!m_cursor)
    m_cursor= slc_cursor_new(m_share->table());
  set_ref_length(*m_codec, table);
  /* A table scan walks the clustered index: an UPDATE of its key must collect the rows first, or it
     would meet them again. */
  key_used_on_scan= table->s->primary_key;
  stats.block_size= 16384;
  return info(HA_STATUS_NO_LOCK | HA_STATUS_VARIABLE | HA_STATUS_CONST | HA_STATUS_OPEN);
}

void ha_sluice::set_ref_length(const Codec &codec, const TABLE *form)
{
  if (codec.clustered_key_length_fixed())
    ref_length= codec.clustered_key_length_fixed();
  else if (codec.clustered_key_length_max() <= REF_IMAGE_BYTES_MAX)
    ref_length= codec.clustered_key_length_max() + 1;
  else
    ref_length= form->key_info[codec.primary()].key_length;
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
    copy->m_key_change_policy= m_key_change_policy;
    copy->m_checks_unique_first= m_checks_unique_first;
  }
  return copy;
}

void ha_sluice::change_table_ptr(TABLE *table_arg, TABLE_SHARE *share_arg)
{
  handler::change_table_ptr(table_arg, share_arg);
  m_covered.forget();
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
  m_autoinc_rows= 0;
  m_semi= SEMI_OFF;
  m_scan.is_set_up= false;
  m_ds_mrr.dsmrr_close();
  m_ranges_begun= false;
  m_range_buffer.release_if_larger(0);
  if (m_cursor && m_scan.row_bytes.len)
    slc_cursor_reset(m_cursor);
  m_scan.row_bytes= {nullptr, 0};
  m_kept_blobs.release_if_larger(KEPT_BYTES);
  m_kept_virtual_blobs.release_if_larger(KEPT_BYTES);
  m_write.release_if_larger(KEPT_BYTES);
  for (Buffer *plain : {&m_plain_row, &m_plain_moved, &m_plain_foreign, &m_plain_parent})
    plain->release_if_larger(KEPT_BYTES);
  m_certified.reset();
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
    if (const int error= end_copy())
      return error;
#ifdef SLUICE_STAND_IN
    (void) slc_statistics_compute(m_share->table(), true); // as InnoDB, which has them at once
#endif
    return certify_new_table(ha_thd());
  case EXTRA_ABORT_COPY:
    end_load();
    break;
  default:
    break;
  }
  return 0;
}

/* The server's text for this number names a variable of InnoDB. */
void ha_sluice::print_error(int error, myf flags)
{
  if (error != SLUICE_ERR_ONLINE_ALTER_FULL)
  {
    handler::print_error(error, flags);
    return;
  }
  const std::string engine_name= "online_alter_log_max_size";
  std::string text= error_text(error);
  const size_t at= text.find(engine_name);
  if (at != std::string::npos)
    text.replace(at, engine_name.size(), variable_name(engine_name.c_str()));
  my_printf_error(ER_INNODB_ONLINE_LOG_TOO_BIG, "%s", flags, text.c_str());
}

bool ha_sluice::get_error_message(int error, String *text)
{
  /* The server has only reported that the table cannot be made: not why. */
  if (error == HA_WRONG_CREATE_OPTION && ha_thd()->is_error() && ha_thd()->get_stmt_da()->sql_errno() == ER_CANT_CREATE_TABLE)
    return false;
  if (error == HA_WRONG_CREATE_OPTION || error == SLUICE_ERR_ALREADY_REPORTED)
    return true;                        // the message is there: no second one
  if (error == HA_ERR_ROW_IS_REFERENCED || error == HA_ERR_NO_REFERENCED_ROW || error == HA_ERR_FK_DEPTH_EXCEEDED)
  {
    append_foreign_fault(ha_thd(), text);
#ifdef SLUICE_STAND_IN
    Connection::of(ha_thd())->set_foreign_error(std::string(text->ptr(), text->length()));
#endif
    return false;
  }
  text->copy(error_text(error), static_cast<uint>(strlen(error_text(error))), system_charset_info);
  return false;
}

/* A temporary table, and one that ALTER TABLE copies rows to, have a path of the server's making.
   The server's share of the table has the names that the user knows. */
std::string ha_sluice::shown_name() const
{
  const char *base= strrchr(name(), '/');
  if (!base || strncmp(base + 1, "#sql", 4))
    return shown_table(name());
  TablePath path(name());
  path.schema= table_share->db.str;
  path.table= table_share->table_name.str;
  return path.quoted();
}

int ha_sluice::fail(slc_err error)
{
  return server_error(error, ha_thd(), needs_no_text(error) ? "" : shown_name().c_str());
}

Connection *ha_sluice::connect(bool writes)
{
  m_connection= Connection::of(ha_thd());
  if (unlikely(is_sequence()))
    own_begin();
  else
    m_connection->use(writes);
  return m_connection;
}

int ha_sluice::connect_to_write()
{
  connect(true);
  THD *const thd= m_connection->thd();
  return unlikely(is_local_to_cluster(thd)) && table->s->tmp_table == NO_TMP_TABLE && !is_sequence() ? refuse_second_engine(thd, table->s) : 0;
}

/* A copy of the table is about to be made, and the table dropped: what is not decided yet would be
   lost with it. The metadata lock keeps writers out, but it is not held for a transaction that is
   prepared and has lost its connection. */
int ha_sluice::before_copy()
{
  THD *const thd= ha_thd();
  if (!keeps_others_out(thd) || table->s->tmp_table != NO_TMP_TABLE || is_sequence())
    return 0;
  if (settings.read_only)
    return HA_ERR_TABLE_READONLY;
  return wait_until_decided(thd, m_share->name(), false);
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

/* An image of varying length is padded with zeros and ends with its length, so that references
   still compare as bytes. */
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

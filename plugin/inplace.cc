/* ALTER TABLE without copying the table.

   Instant: dropping, renaming and reordering indexes, CHANGE_BUFFERING, and what only the .frm has
   (defaults, comments, names of columns, AUTO_INCREMENT, check constraints that go or are not to be
   checked). Without copying, but with writers kept out: adding secondary indexes. In other cases
   the server copies.

   An index is added in three steps of the server's.
   - Prepare: the builds begin.
   - The main phase: the clustered index is read, and every row's entries go to the builds, which
     sort and load them.
   - Commit: one change of the engine's catalog, for all partitions, publishes the new indexes,
     drops and renames the old ones. Until then no statement sees a change, and rollback only throws
     the builds away.

   Writers are kept out by the metadata lock. It is granted only when all transactions that wrote
   have ended, have lost their connections or could not be rolled back. For the latter two
   wait_until_decided() waits. So the newest version of every row is a committed one.

   After a crash between the engine's commit and the change of the .frm the server asks
   check_version() (hton.cc) which of the two definitions holds. The answer is in the schema note
   (ddl.h): the server's own number of the definition.
   Called by: the server. */
#include "ddl.h"
#include "engine.h"
#include "errors.h"
#include "ha_sluice.h"
#include "settings.h"
#include "table_options.h"
#include <algorithm>
#include <deque>

using namespace sluice;

static const alter_table_operations DEFINITION_ONLY=
  ALTER_COLUMN_DEFAULT | ALTER_COLUMN_NAME | ALTER_RENAME_COLUMN | ALTER_CHANGE_INDEX_COMMENT | ALTER_RENAME |
  ALTER_ADD_CHECK_CONSTRAINT | ALTER_DROP_CHECK_CONSTRAINT | ALTER_COLUMN_OPTION | ALTER_COLUMN_COLUMN_FORMAT |
  ALTER_OPTIONS | ALTER_INDEX_IGNORABILITY | ALTER_PARTITIONED;
static const alter_table_operations INDEX_CATALOG=
  ALTER_DROP_NON_UNIQUE_NON_PRIM_INDEX | ALTER_DROP_UNIQUE_INDEX | ALTER_RENAME_INDEX | ALTER_INDEX_ORDER;
static const alter_table_operations INDEX_ADD= ALTER_ADD_NON_UNIQUE_NON_PRIM_INDEX | ALTER_ADD_UNIQUE_INDEX;

namespace {

class InplaceContext : public inplace_alter_handler_ctx
{
public:
  InplaceContext(ha_sluice *handler_arg, const TABLE *old_arg, const Codec &old_codec_arg, TABLE *altered)
    : old(old_arg), old_codec(old_codec_arg), handler(handler_arg), codec(Codec::build(altered))
  {}
  ~InplaceContext() override { abort_builds(); }
  void abort_builds()
  {
    for (slc_build *build : builds)
      slc_index_build_abort(build);
    builds.clear();
  }
  const TABLE *old;
  const Codec &old_codec;               // the handler's, with the engine's order of the indexes
  ha_sluice *handler;                   // of the table, or of one partition
  std::unique_ptr<Codec> codec;         // of the new definition
  std::vector<uint> indexes;            // of the new definition that are built
  std::vector<slc_build *> builds;      // in their order
};

/* Rows stay as they are: every column must be at its place in the record and of the same form. */
bool same_layout(const TABLE *table, const TABLE *altered)
{
  if (table->s->fields != altered->s->fields || table->s->null_bytes != altered->s->null_bytes ||
      table->s->primary_key != altered->s->primary_key)
    return false;
  for (uint i= 0; i < table->s->fields; i++)
  {
    const Field *field= table->field[i], *other= altered->field[i];
    const Column column= column_of(table, field), other_column= column_of(altered, other);
    if (column.kind != other_column.kind || column.offset != other_column.offset ||
        column.length != other_column.length || column.null_bit != other_column.null_bit ||
        column.null_offset != other_column.null_offset || column.charset != other_column.charset ||
        field->stored_in_db() != other->stored_in_db())
      return false;
  }
  return true;
}

/* Values of virtual columns are the server's to compute: not while an index is built. */
bool adds_virtual_column(const TABLE *altered, const Alter_inplace_info *info)
{
  for (uint i= 0; i < info->index_add_count; i++)
  {
    const KEY &key= altered->key_info[info->index_add_buffer[i]];
    for (uint part= 0; part < key.user_defined_key_parts; part++)
      if (!altered->field[key.key_part[part].fieldnr - 1]->stored_in_db())
        return true;
  }
  return false;
}

/* The server checks rows against constraints that are new to them while it copies, and at no other
   time. */
bool adds_check(THD *thd, const TABLE *table, const TABLE *altered, const Alter_inplace_info *info)
{
  if (thd_test_options(thd, OPTION_NO_CHECK_CONSTRAINT_CHECKS))
    return false;
  bool adds= (info->handler_flags & ALTER_ADD_CHECK_CONSTRAINT) != 0;
  for (uint i= 0; i < altered->s->fields; i++)
    if (Virtual_column_info *check= altered->field[i]->check_constraint)
    {
      Virtual_column_info *old= table->field[i]->check_constraint;
      StringBuffer<MAX_FIELD_WIDTH> text, old_text;
      check->print(&text);
      if (old)
        old->print(&old_text);
      adds|= text.length() != old_text.length() || memcmp(text.ptr(), old_text.ptr(), text.length());
    }
  return adds;
}

bool changes_unsupported_option(const Alter_inplace_info *info)
{
  constexpr ulong HARMLESS= HA_CREATE_USED_AUTO | HA_CREATE_USED_COMMENT | HA_CREATE_USED_DEFAULT_CHARSET |
                            HA_CREATE_USED_CHARSET | HA_CREATE_USED_MIN_ROWS | HA_CREATE_USED_MAX_ROWS |
                            HA_CREATE_USED_AVG_ROW_LENGTH | HA_CREATE_USED_STATS_PERSISTENT |
                            HA_CREATE_USED_STATS_AUTO_RECALC | HA_CREATE_USED_STATS_SAMPLE_PAGES | HA_CREATE_USED_ENGINE;
  return ((info->handler_flags & ALTER_OPTIONS) && (info->create_info->used_fields & ~HARMLESS)) ||
         unsupported_engine_option(info->create_info->option_struct);
}

/* What a key that stays is called afterwards: by its new name, or as the new definition writes the
   old one. */
const char *new_name_of(const KEY *key, const TABLE *altered, const Alter_inplace_info *info)
{
  for (const auto &pair : info->rename_keys)
    if (pair.old_key == key)
      return pair.new_key->name.str;
  for (uint i= 0; i < altered->s->keys; i++)
    if (same_key_name(altered->key_info[i].name, key->name))
      return altered->key_info[i].name.str;
  return key->name.str;                 // nothing the server asks for: the engine refuses it
}

/* slc_index_change with the memory that it points into. The engine compares names byte for byte.
   After an EXCHANGE PARTITION its name of an index may differ from the server's key in upper and
   lower case. So indexes are named as the engine has them, and those that stay get the names of the
   new definition. */
struct IndexChange
{
  IndexChange(InplaceContext *context, slc_table *table, const TABLE *altered, const Alter_inplace_info *info)
    : schema(schema_of(altered))
  {
    KEY **const drop_end= info->index_drop_buffer + info->index_drop_count;
    for (uint i= 0; i < context->old_codec.secondary_count(); i++)
    {
      const char *name= slc_table_index_name(table, i);
      KEY *key= context->old->key_info + context->old_codec.server_index(i + 1);
      if (std::find(info->index_drop_buffer, drop_end, key) != drop_end)
      {
        drop.push_back(name);
        continue;
      }
      const char *new_name= new_name_of(key, altered, info);
      if (!strcmp(name, new_name))
        continue;
      rename.push_back(name);
      rename.push_back(new_name);
    }
    for (uint i= 0; i < context->codec->secondary_count(); i++)
      order.push_back(altered->key_info[context->codec->server_index(i + 1)].name.str);
    change.table= table;
    change.drop= drop.data();
    change.drop_count= static_cast<uint32_t>(drop.size());
    change.rename= rename.data();
    change.rename_count= static_cast<uint32_t>(rename.size() / 2);
    change.add= context->builds.data();
    change.add_count= static_cast<uint32_t>(context->builds.size());
    change.order= order.data();
    change.order_count= static_cast<uint32_t>(order.size());
    change.change_buffering= change_buffering_of(altered->s);
    change.schema= {reinterpret_cast<const uint8_t *>(schema.data()), schema.size()};
  }
  slc_index_change change{};
  std::string schema;
  std::vector<const char *> drop, rename, order;
};

/* The row that has the key twice, for the server's message. */
void report_duplicate(TABLE *altered, KEY *key) { print_keydup_error(altered, key, MYF(0)); }

} // namespace

enum_alter_inplace_result ha_sluice::check_if_supported_inplace_alter(TABLE *altered, Alter_inplace_info *info)
{
  if ((info->handler_flags & ~(DEFINITION_ONLY | INDEX_CATALOG | INDEX_ADD)) || info->ignore ||
      changes_unsupported_option(info) || !same_layout(table, altered) || adds_check(ha_thd(), table, altered, info))
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  if (!(info->handler_flags & INDEX_ADD))
    return HA_ALTER_INPLACE_INSTANT;
  return adds_virtual_column(altered, info) ? HA_ALTER_INPLACE_NOT_SUPPORTED : HA_ALTER_INPLACE_NOCOPY_LOCK;
}

/* Of two tables with the same keys, which the server has in different order, another UNIQUE key may
   serve as the primary one: then rows are kept by another key. */
static bool same_primary_key(THD *thd, const TABLE *table)
{
  const TABLE_LIST *first= thd->lex->query_tables;
  const TABLE *other= first ? first->table : nullptr;
  if (!other || table->s->primary_key == MAX_KEY || other->s->primary_key == MAX_KEY)
    return true;                        // the server compares the keys themselves
  const LEX_CSTRING &name= table->key_info[table->s->primary_key].name;
  const LEX_CSTRING &other_name= other->key_info[other->s->primary_key].name;
  if (same_key_name(name, other_name))
    return true;
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_UNSUPPORTED,
                      SLUICE_ENGINE_NAME ": the key %s serves as the primary key of one table, %s as that of the other.", name.str,
                      other_name.str);
  return false;
}

/* Whether rows of this table would be right under that definition. EXCHANGE PARTITION and CONVERT
   TABLE ask this of the table that is not partitioned, with the options of the partitioned one,
   which comes first in the statement. */
bool ha_sluice::check_if_incompatible_data(HA_CREATE_INFO *info, uint table_changes)
{
  const bool other_rows= table_changes != IS_EQUAL_YES ||
                         (info->used_fields & (HA_CREATE_USED_ROW_FORMAT | HA_CREATE_USED_KEY_BLOCK_SIZE)) ||
                         !same_primary_key(ha_thd(), table);
  return other_rows ? COMPATIBLE_DATA_NO : COMPATIBLE_DATA_YES;
}

bool ha_sluice::prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info)
{
  if (const int error= wait_until_decided(ha_thd(), m_share->name(), info->index_add_count > 0))
  {
    print_error(error, MYF(0));
    return true;
  }
  std::unique_ptr<InplaceContext> context(new InplaceContext(this, table, *m_codec, altered));
  for (uint i= 0; i < info->index_add_count; i++)
  {
    const uint index= info->index_add_buffer[i];
    const slc_index_def def= {altered->key_info[index].name.str,
                              context->codec->index_flags(index)};
    slc_build *build= nullptr;
    if (const slc_err error= slc_index_build_begin(engine, m_share->table(), &def, &build))
    {
      print_error(fail(error), MYF(0));
      return true;
    }
    context->indexes.push_back(index);
    context->builds.push_back(build);
  }
  info->handler_ctx= context.release();
  return false;
}

/* Every row's entries to the builds. `trx` reads the newest versions, which are committed ones (see
   above). */
int ha_sluice::feed_builds(slc_trx *trx, slc_cursor *cursor, const Codec &codec, const std::vector<uint> &indexes,
                           const std::vector<slc_build *> &builds)
{
  uchar *record= table->record[0];
  const DecodePlan *plan= plan_of_whole_rows();
  slc_err error= slc_cursor_begin(cursor, trx, 0, SLC_LOCK_NONE, SLC_WAIT, 0);
  slc_found found;
  if (!error)
    error= slc_cursor_seek(cursor, SLC_SEEK_FIRST, {nullptr, 0}, &found);
  for (; !error; error= slc_cursor_next(cursor, &found))
  {
    if (thd_kill_level(ha_thd()) != THD_IS_NOT_KILLED)
      return HA_ERR_ABORTED_BY_USER;
    if (!m_codec->get_row(plan, record, found.pk, found.row))
      return bad_row(shown_name().c_str());
    for (uint i= 0; i < builds.size() && !error; i++)
    {
      m_write.entries.clear();
      const EntryImage image= codec.put_entry(m_write.entries, indexes[i], record, found.pk);
      error= slc_index_build_add(builds[i], m_write.entries.bytes(image.key, image.key_length), image.user_key_length,
                                 image.unique_check, m_write.entries.bytes(image.value, image.value_length));
    }
    if (error)
      return fail(error);
  }
  return error == SLC_END ? 0 : fail(error);
}

bool ha_sluice::inplace_alter_table(TABLE *altered, Alter_inplace_info *info)
{
  if (!(info->handler_flags & INDEX_ADD))
    return false;
  InplaceContext *context= static_cast<InplaceContext *>(info->handler_ctx);
  Connection *connection= connect(false);
  slc_waiter waiter= connection->waiter();
  slc_trx *trx= slc_trx_new(engine, &waiter, thd_get_thread_id(ha_thd()));
  slc_trx_start(trx, SLC_ISO_READ_UNCOMMITTED, lock_wait_timeout_ms(ha_thd()));
  slc_cursor *cursor= slc_cursor_new(m_share->table());
  int error= feed_builds(trx, cursor, *context->codec, context->indexes, context->builds);
  if (error)
    print_error(error, MYF(0));
  for (uint i= 0; i < info->index_add_count && !error; i++)
  {
    const slc_err finish_error= slc_index_build_finish(context->builds[i], trx);
    if (!finish_error)
      continue;
    error= fail(finish_error);
    slc_found found;
    const slc_bytes pk= slc_duplicate_pk();
    Buffer key;
    key.append(pk);
    if (finish_error == SLC_DUPLICATE &&
        !slc_row_get(cursor, trx, key.bytes(), SLC_LOCK_NONE, SLC_WAIT, &found) &&
        m_codec->get_row(plan_of_whole_rows(), altered->record[0], key.bytes(), found.row))
      report_duplicate(altered, &altered->key_info[info->index_add_buffer[i]]);
    else
      print_error(error, MYF(0));
  }
  slc_cursor_free(cursor);
  slc_trx_free(trx);
  return error != 0;
}

/* The server commits the first partition and leaves it to the engine to take all with it: then no
   crash can come between. */
bool ha_sluice::commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit)
{
  InplaceContext *context= static_cast<InplaceContext *>(info->handler_ctx);
  if (!commit)
  {
    /* The server deletes the context. One of a partition is in a list of ha_partition's, too. */
    if (context)
      context->abort_builds();
    return false;
  }
  std::vector<InplaceContext *> contexts;
  if (info->group_commit_ctx)
    for (inplace_alter_handler_ctx **each= info->group_commit_ctx; *each; each++)
      contexts.push_back(static_cast<InplaceContext *>(*each));
  else
    contexts.push_back(context);
  int error= 0;
  const bool sets_counter= info->create_info->used_fields & HA_CREATE_USED_AUTO && info->create_info->auto_increment_value;
  std::deque<IndexChange> changes;
  std::vector<slc_index_change> list;
  for (InplaceContext *each : contexts)
  {
    /* First, since setting a counter for nothing does no harm. */
    if (sets_counter && !error)
      error= each->handler->set_auto_increment_at_least(info->create_info->auto_increment_value);
    changes.emplace_back(each, each->handler->m_share->table(), altered, info);
    list.push_back(changes.back().change);
  }
  if (!error)
    error= fail(slc_alter_indexes(engine, list.data(), static_cast<uint32_t>(list.size())));
  if (error)
  {
    print_error(error, MYF(0));
    return true;
  }
  for (InplaceContext *each : contexts)
    each->builds.clear();               // published: they are the engine's now
  info->group_commit_ctx= nullptr;
  return false;
}

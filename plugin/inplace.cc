/* ALTER TABLE without copying the table.

   Instant: dropping, renaming and reordering indexes, CHANGE_BUFFERING, and what only the .frm has
   (defaults, comments, names of columns, AUTO_INCREMENT, check constraints that go or are not to be
   checked). And what leaves rows as they are, in their old form: adding, dropping, moving and
   widening columns (instant_alter.h), ROW_FORMAT, and foreign keys that go or are not to be
   checked. Without copying, while writers go on:
   adding secondary indexes. In other cases the server copies.

   An index is added in three steps of the server's.
   - Prepare, under the exclusive metadata lock: the builds begin, and the engine begins to note
     which rows are changed (online_alter.h).
   - The main phase: the rows of a snapshot are read, and every row's entries go to the builds, which
     sort and load them. Then the builds are brought up to date in rounds.
   - Commit, under the exclusive lock: the last round. One change of the engine's catalog, for all
     partitions, publishes the new indexes, drops and renames the old ones. Until then no statement
     sees a change, and rollback only throws the builds away.

   The exclusive lock is granted only when all transactions that wrote have ended, have lost their
   connections or could not be rolled back. For the latter two wait_until_decided() waits. So the
   newest version of every row is a committed one.

   After a crash between the engine's commit and the change of the .frm the server asks
   check_version() (hton.cc) which of the two definitions holds. The answer is in the schema note
   (ddl.h): the server's own number of the definition.
   Called by: the server. */
#include "ddl.h"
#include "engine.h"
#include "errors.h"
#include "ha_sluice.h"
#include "instant_alter.h"
#include "instruments.h"
#include "online_alter.h"
#include "online_rebuild.h"
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
/* Columns that the table has get another type, or go. */
static const alter_table_operations OLD_COLUMNS= ALTER_COLUMN_TYPE_CHANGE_BY_ENGINE | ALTER_COLUMN_NULLABLE | ALTER_COLUMN_INDEX_LENGTH |
                                                 ALTER_DROP_STORED_COLUMN | ALTER_DROP_VIRTUAL_COLUMN;
/* Rows are stored anew. */
static const alter_table_operations REBUILD= ALTER_RECREATE_TABLE | ALTER_ADD_PK_INDEX | ALTER_DROP_PK_INDEX;
static const alter_table_operations FOREIGN_KEYS= ALTER_ADD_FOREIGN_KEY | ALTER_DROP_FOREIGN_KEY;
static const alter_table_operations INDEX_ADD= ALTER_ADD_NON_UNIQUE_NON_PRIM_INDEX | ALTER_ADD_UNIQUE_INDEX;

namespace {

class InplaceContext : public inplace_alter_handler_ctx
{
public:
  InplaceContext(ha_sluice *handler_arg, const TABLE *old_arg, const Codec &old_codec_arg, TABLE *altered,
                 const Alter_inplace_info *info)
    : old(old_arg), old_codec(old_codec_arg), handler(handler_arg), codec(Codec::build(altered))
  {
    /* A table that is rebuilt begins with one definition of rows. */
    if (!(info->handler_flags & REBUILD))
      codec->set_history(ColumnChange(old, old_codec, altered, *codec, info).history());
  }
  ~InplaceContext() override { abort_builds(); }
  void abort_builds()
  {
    online.end();
    rebuild.reset();
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
  OnlineAlter online;                   // while indexes are built
  std::unique_ptr<OnlineRebuild> rebuild; // or of the whole table
  ForeignAlter foreign;

  OnlineAlter::Builds builds_of(TABLE *altered) { return {codec.get(), altered->record[0], &indexes, &builds}; }
};

/* Every column is at its place in the record and of the same form. */
bool same_columns(const TABLE *table, const TABLE *altered)
{
  if (table->s->fields != altered->s->fields || table->s->null_bytes != altered->s->null_bytes)
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
bool adds_check(THD *thd, const ColumnChange &change, const TABLE *altered, const Alter_inplace_info *info)
{
  if (thd_test_options(thd, OPTION_NO_CHECK_CONSTRAINT_CHECKS))
    return false;
  bool adds= (info->handler_flags & ALTER_ADD_CHECK_CONSTRAINT) != 0;
  for (uint i= 0; i < altered->s->fields; i++)
    if (Virtual_column_info *check= altered->field[i]->check_constraint)
    {
      if (!change.old_field(i) && change.holds_for_added(check))
        continue;
      const Field *field= change.old_field(i);
      Virtual_column_info *old= field ? field->check_constraint : nullptr;
      StringBuffer<MAX_FIELD_WIDTH> text, old_text;
      check->print(&text);
      if (old)
        old->print(&old_text);
      adds|= text.length() != old_text.length() || memcmp(text.ptr(), old_text.ptr(), text.length());
    }
  return adds;
}

/* Those that are only words in the .frm are left to check_options(). */
bool changes_option_of_rows(const Alter_inplace_info *info)
{
  constexpr ulong HARMLESS= HA_CREATE_USED_AUTO | HA_CREATE_USED_COMMENT | HA_CREATE_USED_DEFAULT_CHARSET |
                            HA_CREATE_USED_CHARSET | HA_CREATE_USED_MIN_ROWS | HA_CREATE_USED_MAX_ROWS |
                            HA_CREATE_USED_AVG_ROW_LENGTH | HA_CREATE_USED_STATS_PERSISTENT |
                            HA_CREATE_USED_STATS_AUTO_RECALC | HA_CREATE_USED_STATS_SAMPLE_PAGES | HA_CREATE_USED_ENGINE |
                            HA_CREATE_USED_ROW_FORMAT | HA_CREATE_USED_KEY_BLOCK_SIZE;
  return (info->handler_flags & ALTER_OPTIONS) && (info->create_info->used_fields & ~HARMLESS);
}

/* slc_index_change with the memory that it points into. The engine compares names byte for byte.
   After an EXCHANGE PARTITION its name of an index may differ from the server's key in upper and
   lower case. So indexes are named as the engine has them, and those that stay get the names of the
   new definition. */
struct IndexChange
{
  IndexChange(InplaceContext *context, slc_table *table, const TABLE *altered, const Alter_inplace_info *info)
    : schema(schema_of(altered, context->codec->history()))
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
    context->foreign.put_into(&change, altered, *context->codec);
  }
  slc_index_change change{};
  std::string schema;
  std::vector<const char *> drop, rename, order;
};

/* Why the server has to copy the table; null: it has not. */
const char *why_copied(THD *thd, const ColumnChange &change, const TABLE *table, const TABLE *altered, const Alter_inplace_info *info,
                       slc_table *engine_table)
{
  if (info->ignore)
    return "IGNORE";
  if (info->handler_flags & (ALTER_STORED_COLUMN_TYPE | ALTER_VIRTUAL_COLUMN_TYPE | ALTER_COLUMN_NOT_NULLABLE))
    return "a column's type or NOT NULL does not fit the values that rows have";
  if (info->handler_flags & ~(DEFINITION_ONLY | INDEX_CATALOG | INDEX_ADD | COLUMN_CHANGES | REBUILD | FOREIGN_KEYS))
    return info->handler_flags & ALTER_ADD_STORED_GENERATED_COLUMN ? "each row needs a value of a new STORED column"
                                                                   : "the kind of change";
  if (changes_option_of_rows(info))
    return "the table's options";
  if (adds_check(thd, change, altered, info))
    return "rows have to be checked against a new CHECK";
  if (info->handler_flags & INDEX_ADD && adds_virtual_column(altered, info))
    return "an index on a virtual column";
  /* While it copies, the server looks at the columns of foreign keys. */
  if (info->handler_flags & OLD_COLUMNS && slc_table_foreign(engine_table))
    return "columns of a table with foreign keys change";
  if (change.changes_columns())
    return info->handler_flags & REBUILD ? "columns change and rows are rebuilt" : change.why_copied();
  if (info->handler_flags & REBUILD && info->handler_flags & FOREIGN_KEYS)
    return "foreign keys change and rows are rebuilt";
  if (info->handler_flags & REBUILD && same_columns(table, altered))
    return why_not_rebuilt(table, altered, engine_table);
  return same_columns(table, altered) && table->s->primary_key == altered->s->primary_key ? nullptr : "the form of rows";
}

/* The row that has the key twice, for the server's message. */
void report_duplicate(TABLE *altered, KEY *key) { print_keydup_error(altered, key, MYF(0)); }

} // namespace

enum_alter_inplace_result ha_sluice::check_if_supported_inplace_alter(TABLE *altered, Alter_inplace_info *info)
{
  /* While it copies the table, the server has each row checked. */
  if ((info->handler_flags & ALTER_ADD_FOREIGN_KEY) && checks_foreign_keys(ha_thd()))
  {
    info->unsupported_reason= ER_THD(ha_thd(), ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_FK_CHECK);
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  }
  const std::unique_ptr<Codec> codec= Codec::build(altered);
  const ColumnChange change(table, *m_codec, altered, *codec, info);
  info->unsupported_reason= why_copied(ha_thd(), change, table, altered, info, m_share->table());
  if (info->unsupported_reason)
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  if (info->handler_flags & REBUILD)
  {
    info->unsupported_reason= "rows are rebuilt";
    return HA_ALTER_INPLACE_COPY_NO_LOCK;
  }
  if (!(info->handler_flags & INDEX_ADD))
    return HA_ALTER_INPLACE_INSTANT;
  info->unsupported_reason= "an index is built";
  return HA_ALTER_INPLACE_NOCOPY_NO_LOCK;
}

bool ha_sluice::can_convert_nocopy(const Field &field, const Column_definition &type) const { return grows_into(field, type); }

Compare_keys ha_sluice::compare_key_parts(const Field &field, const Column_definition &type, const KEY_PART_INFO &part,
                                          const KEY_PART_INFO &new_part) const
{
  const Compare_keys result= handler::compare_key_parts(field, type, part, new_part);
  const bool stays= (type.flags & NOT_NULL_FLAG) == (field.flags & NOT_NULL_FLAG);
  return result == Compare_keys::NotEqual ? compare_grown_part(field, type, part, new_part) : stays ? result : Compare_keys::NotEqual;
}

/* Of two tables with the same keys, which the server has in different order, another UNIQUE key may
   serve as the primary one: then rows are kept by another key. */
static bool same_primary_key(THD *thd, const TABLE *table, const TABLE *other)
{
  if (table->s->primary_key == MAX_KEY || other->s->primary_key == MAX_KEY)
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
   which comes first in the statement. The server does not see that a column is generated in one of
   them. */
bool ha_sluice::check_if_incompatible_data(HA_CREATE_INFO *info, uint table_changes)
{
  const TABLE_LIST *first= ha_thd()->lex->query_tables;
  const TABLE *other= first ? first->table : nullptr;
  const bool other_rows= table_changes != IS_EQUAL_YES ||
                         (info->used_fields & (HA_CREATE_USED_ROW_FORMAT | HA_CREATE_USED_KEY_BLOCK_SIZE)) ||
                         (other && (!same_primary_key(ha_thd(), table, other) || !same_columns(table, other)));
  return other_rows ? COMPATIBLE_DATA_NO : COMPATIBLE_DATA_YES;
}

bool ha_sluice::prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info)
{
  if (check_options(ha_thd(), altered->s, info->create_info, table->s))
    return true;
  const bool rebuilds= info->handler_flags & REBUILD;
  if (const int error= wait_until_decided(ha_thd(), m_share->name(), rebuilds || info->index_add_count > 0))
  {
    print_error(error, MYF(0));
    return true;
  }
  std::unique_ptr<InplaceContext> context(new InplaceContext(this, table, *m_codec, altered, info));
  if (rebuilds)
  {
    context->rebuild.reset(new OnlineRebuild(table, *m_codec, altered, *context->codec));
    if (const slc_err error= context->rebuild->begin(connect(false)->waiter(), ha_thd(), m_share->table(), m_share->name()))
    {
      print_error(fail(error), MYF(0));
      return true;
    }
    info->handler_ctx= context.release();
    return false;
  }
  if (const int error= context->foreign.prepare(ha_thd(), m_share->name(), altered, info))
  {
    print_error(error, MYF(0));
    return true;
  }
  for (uint i= 0; i < info->index_add_count; i++)
  {
    const uint index= info->index_add_buffer[i];
    const slc_index_def def= {altered->key_info[index].name.str,
                              context->codec->index_flags(index), 0, nullptr};
    slc_build *build= nullptr;
    if (const slc_err error= slc_index_build_begin(engine, m_share->table(), &def, &build))
    {
      print_error(fail(error), MYF(0));
      return true;
    }
    context->indexes.push_back(index);
    context->builds.push_back(build);
  }
  if (!context->builds.empty())
    if (const slc_err error= context->online.begin(connect(false)->waiter(), ha_thd(), m_share->table()))
    {
      print_error(fail(error), MYF(0));
      return true;
    }
  info->handler_ctx= context.release();
  return false;
}

/* Every row's entries to the builds. The record is one of the codec's table. `trx` reads the newest
   versions, which are committed ones (see above). */
int ha_sluice::feed_builds(slc_trx *trx, slc_cursor *cursor, Codec &codec, uchar *record, const std::vector<uint> &indexes,
                           const std::vector<slc_build *> &builds)
{
  m_plan= nullptr;
  const DecodePlan *plan= codec.plan(codec.stored());
  slc_err error= slc_cursor_begin(cursor, trx, 0, SLC_LOCK_NONE, SLC_WAIT, 0);
  slc_found found;
  if (!error)
    error= slc_cursor_seek(cursor, SLC_SEEK_FIRST, {nullptr, 0}, &found);
  slc_table_stats stats{};
  slc_table_get_stats(m_share->table(), &stats);
  AlterProgress progress(ha_thd(), AlterStage::READ_ROWS, stats.rows);
  for (; !error; error= slc_cursor_next(cursor, &found))
  {
    if (thd_kill_level(ha_thd()) != THD_IS_NOT_KILLED)
      return HA_ERR_ABORTED_BY_USER;
    progress.step();
    if (!codec.get_row(plan, record, found.pk, found.row))
      return bad_row(shown_name().c_str(), codec.unknown_definition(found.row));
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

/* The error of a build; a duplicate with the row that has the value. */
void ha_sluice::report_build_error(slc_err build_error, slc_trx *view, TABLE *altered, Codec &codec, uint index)
{
  const int error= fail(build_error);
  if (build_error == SLC_DUPLICATE)
  {
    slc_found found;
    Buffer key;
    key.append(slc_duplicate_pk());
    slc_cursor *cursor= slc_cursor_new(m_share->table());
    const bool is_read= !slc_row_get(cursor, view, key.bytes(), SLC_LOCK_NONE, SLC_WAIT, &found) &&
                        codec.get_row(codec.plan(codec.stored()), altered->record[0], key.bytes(), found.row);
    if (is_read)
      report_duplicate(altered, &altered->key_info[index]);
    slc_cursor_free(cursor);
    if (is_read)
      return;
  }
  print_error(error, MYF(0));
}

bool ha_sluice::report_rebuild_error(slc_err error, TABLE *altered, const OnlineRebuild &rebuild)
{
  if (error == SLC_DUPLICATE)
    report_duplicate(altered, &altered->key_info[rebuild.duplicate_key()]);
  else if (error)
    print_error(fail(error), MYF(0));
  return error != SLC_OK;
}

/* Writers go on. */
bool ha_sluice::inplace_alter_table(TABLE *altered, Alter_inplace_info *info)
{
  InplaceContext *context= static_cast<InplaceContext *>(info->handler_ctx);
  if (context->rebuild)
    return report_rebuild_error(context->rebuild->fill(), altered, *context->rebuild);
  if (!(info->handler_flags & INDEX_ADD))
    return false;
  connect(false);
  slc_trx *view= context->online.view();
  slc_cursor *cursor= slc_cursor_new(m_share->table());
  const int error= feed_builds(view, cursor, *context->codec, altered->record[0], context->indexes, context->builds);
  slc_cursor_free(cursor);
  if (error)
  {
    print_error(error, MYF(0));
    return true;
  }
  for (uint i= 0; i < context->builds.size(); i++)
  {
    const AlterProgress progress(ha_thd(), AlterStage::BUILD_INDEXES, 1);
    if (const slc_err finish_error= slc_index_build_finish(context->builds[i], view))
    {
      report_build_error(finish_error, view, altered, *context->codec, context->indexes[i]);
      return true;
    }
  }
  if (const slc_err follow_error= context->online.follow(context->builds_of(altered)))
  {
    print_error(fail(follow_error), MYF(0));
    return true;
  }
  return false;
}

/* The last round, under the exclusive lock. */
bool ha_sluice::end_online(TABLE *altered, void *inplace_context)
{
  InplaceContext *context= static_cast<InplaceContext *>(inplace_context);
  if (context->builds.empty())
    return false;
  if (const int error= wait_until_decided(ha_thd(), m_share->name(), true))
  {
    print_error(error, MYF(0));
    return true;
  }
  slc_online_report report{};
  slc_err error= context->online.round(context->builds_of(altered), &report);
  if (!error && report.again)
    error= SLC_LOCKED;
  if (error)
  {
    print_error(fail(error), MYF(0));
    return true;
  }
  for (uint i= 0; i < context->builds.size(); i++)
    if ((error= slc_index_build_prove(context->builds[i])))
    {
      report_build_error(error, context->online.view(), altered, *context->codec, context->indexes[i]);
      return true;
    }
  context->online.end();
  return false;
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
  const bool sets_counter= info->create_info->used_fields & HA_CREATE_USED_AUTO && info->create_info->auto_increment_value;
  if (context->rebuild)
  {
    if (const int error= wait_until_decided(ha_thd(), m_share->name(), true))
    {
      print_error(error, MYF(0));
      return true;
    }
    if (report_rebuild_error(context->rebuild->publish(), altered, *context->rebuild))
      return true;
    if (sets_counter)
      set_auto_increment_at_least(info->create_info->auto_increment_value);
    return false;
  }
  std::vector<InplaceContext *> contexts;
  if (info->group_commit_ctx)
    for (inplace_alter_handler_ctx **each= info->group_commit_ctx; *each; each++)
      contexts.push_back(static_cast<InplaceContext *>(*each));
  else
    contexts.push_back(context);
  for (InplaceContext *each : contexts)
    if (each->handler->end_online(altered, each))
      return true;
  int error= 0;
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
  if (error == HA_ERR_DROP_INDEX_FK)
  {
    my_error(ER_DROP_INDEX_FK, MYF(0), ForeignAlter::needed_index(info));
    return true;
  }
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

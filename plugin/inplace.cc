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
#include "inplace.h"
#include "innodb_limits.h"
#include "innodb_stats_tables.h"
#include "instruments.h"
#include "online_alter.h"
#include "online_rebuild.h"
#include "settings.h"
#include "table_options.h"
#include <algorithm>
#include <deque>

using namespace sluice;

namespace {

class InplaceContext : public inplace_alter_handler_ctx
{
public:
  InplaceContext(ha_sluice *handler_arg, TABLE *old_arg, Codec &old_codec_arg, TABLE *altered, const Alter_inplace_info *info)
    : old(old_arg), old_codec(old_codec_arg), handler(handler_arg), codec(Codec::build(altered)), values(altered)
  {
    const ColumnChange change(old, old_codec, altered, *codec, info);
    /* A table that is rebuilt begins with one definition of rows. */
    const bool rebuilds= is_rebuilt(change, info);
    codec->set_marks_past(rebuilds ? altered->versioned() : old_codec.marks_past());
    if (rebuilds)
      rebuild.reset(new OnlineRebuild(old_arg, old_codec_arg, altered, *codec, change));
    else
      codec->set_history(change.history());
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
  VirtualValues values;                 // of the indexes that are built
  std::vector<uint> indexes;            // of the new definition that are built
  std::vector<slc_build *> builds;      // in their order
  OnlineAlter online;                   // while indexes are built
  std::unique_ptr<OnlineRebuild> rebuild; // or of the whole table
  ForeignAlter foreign;

  /* Rows are read, and writers followed. */
  bool is_long() const { return rebuild || !builds.empty(); }
  OnlineAlter::Builds builds_of(TABLE *altered) { return {codec.get(), altered->record[0], &values, &indexes, &builds}; }
  slc_err follow(TABLE *altered) { return rebuild ? rebuild->follow() : online.follow(builds_of(altered)); }
};

InplaceContext *context_of(inplace_alter_handler_ctx *context) { return static_cast<InplaceContext *>(context); }

/* Those of all partitions, or of the table. */
std::vector<InplaceContext *> contexts_of(const Alter_inplace_info *info)
{
  std::vector<InplaceContext *> contexts;
  if (!info->group_commit_ctx)
    return {context_of(info->handler_ctx)};
  for (inplace_alter_handler_ctx **each= info->group_commit_ctx; *each; each++)
    contexts.push_back(context_of(*each));
  return contexts;
}

/* slc_index_change with the memory that it points into. The engine compares names byte for byte.
   After an EXCHANGE PARTITION its name of an index may differ from the server's key in upper and
   lower case. So indexes are named as the engine has them, and those that stay get the names of the
   new definition. */
struct IndexChange
{
  IndexChange(InplaceContext *context, slc_table *table, const TABLE *altered, const Alter_inplace_info *info)
    : schema(schema_of(altered, context->codec->history(), context->handler->get_row_type()))
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

/* The row that has the key twice, for the server's message. */
void report_duplicate(TABLE *altered, KEY *key) { print_keydup_error(altered, key, MYF(0)); }

} // namespace

bool ha_sluice::prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info)
{
  if (check_options(ha_thd(), altered->s, info->create_info, table->s))
  {
    if (!ha_thd()->is_error())
      refuse_option("PAGE_COMPRESSED");
    return true;
  }
  std::unique_ptr<InplaceContext> context(new InplaceContext(this, table, *m_codec, altered, info));
  if (const int error= wait_until_decided(ha_thd(), m_share->name(), context->rebuild || info->index_add_count > 0))
  {
    print_error(error, MYF(0));
    return true;
  }
  if (context->rebuild)
  {
#ifdef SLUICE_STAND_IN
    if (check_innodb_limits(ha_thd(), altered, info->create_info,
                            info->create_info->used_fields & HA_CREATE_USED_ENGINE ? LIMITS_IN_PLACE : LIMITS_AS_WARNINGS))
      return true;
#endif
    if (const slc_err error= context->rebuild->begin(connect(false)->waiter(), ha_thd(), m_share->table(), m_share->name(), info))
      return tell_inplace(error);
    info->handler_ctx= context.release();
    return false;
  }
#ifdef SLUICE_STAND_IN
  for (uint i= 0; i < info->index_add_count; i++)
    if (check_key_limits(altered->key_info[info->index_add_buffer[i]], get_row_type()))
      return true;
#endif
  if (const int error= context->foreign.prepare(ha_thd(), m_share->name(), altered, info))
  {
    if (error != SLUICE_ERR_ALREADY_REPORTED)
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
      return tell_inplace(error);
    context->indexes.push_back(index);
    context->builds.push_back(build);
    context->values.need(context->codec->key(index));
  }
  if (!context->builds.empty())
    if (const slc_err error= context->online.begin(connect(false)->waiter(), ha_thd(), m_share->table()))
      return tell_inplace(error);
  info->handler_ctx= context.release();
  return false;
}

/* True: there is an error, and the user knows. */
bool ha_sluice::tell_inplace(slc_err error)
{
  if (error && error != SLC_ROW_NOT_MADE)
    print_error(fail(error), MYF(0));
  return error != SLC_OK;
}

/* Every row's entries to the builds. The record is one of the codec's table. `trx` reads the newest
   versions, which are committed ones (see above). */
int ha_sluice::feed_builds(slc_trx *trx, slc_cursor *cursor, const OnlineAlter::Builds &to)
{
  Codec &codec= *to.codec;
  const std::vector<slc_build *> &builds= *to.builds;
  m_plan= nullptr;
  const DecodePlan *plan= codec.plan(codec.stored());
  slc_err error= slc_cursor_begin(cursor, trx, 0, SLC_LOCK_NONE, SLC_WAIT, 0);
  slc_found found;
  if (!error)
    error= slc_cursor_seek(cursor, SLC_SEEK_FIRST, {nullptr, 0}, &found);
  AlterProgress progress(ha_thd(), AlterStage::READ_ROWS, m_share->table());
  for (; !error; error= slc_cursor_next(cursor, &found))
  {
    progress.step();
    if (thd_kill_level(ha_thd()) != THD_IS_NOT_KILLED)
      return HA_ERR_ABORTED_BY_USER;
    if (!codec.get_row(plan, to.record, found.pk, found.row))
      return bad_row(shown_name().c_str(), codec.unknown_definition(found.row));
    if (to.values->compute())
      return SLUICE_ERR_ALREADY_REPORTED;
    for (uint i= 0; i < builds.size() && !error; i++)
    {
      m_write.entries.clear();
      const EntryImage image= codec.put_entry(m_write.entries, (*to.indexes)[i], to.record, found.pk);
      error= slc_index_build_add(builds[i], m_write.entries.bytes(image.key, image.key_length), image.user_key_length,
                                 image.unique_check, m_write.entries.bytes(image.value, image.value_length));
    }
    if (error)
      return fail(error);
  }
  return error == SLC_END ? 0 : fail(error);
}

/* The error of a build; a duplicate with the row that has the value. */
void ha_sluice::report_build_error(slc_err build_error, slc_trx *view, TABLE *altered, const OnlineAlter::Builds &builds, uint index)
{
  Codec &codec= *builds.codec;
  const int error= fail(build_error);
  if (build_error == SLC_DUPLICATE)
  {
    slc_found found;
    Buffer key;
    key.append(slc_duplicate_pk());
    slc_cursor *cursor= slc_cursor_new(m_share->table());
    const bool is_read= !slc_row_get(cursor, view, key.bytes(), SLC_LOCK_NONE, SLC_WAIT, &found) &&
                        codec.get_row(codec.plan(codec.stored()), altered->record[0], key.bytes(), found.row) &&
                        !builds.values->compute();
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
  if (error != SLC_DUPLICATE)
    return tell_inplace(error);
  report_duplicate(altered, &altered->key_info[rebuild.duplicate_key()]);
  return true;
}

/* Writers go on. SHOW PROCESSLIST has these stages of each partition: its rows are read, each index
   is built (of a rebuild: all), and writers are followed. */
bool ha_sluice::inplace_alter_table(TABLE *altered, Alter_inplace_info *info)
{
  InplaceContext *context= context_of(info->handler_ctx);
  if (!context->is_long())
    return false;
  const std::vector<InplaceContext *> all= contexts_of(info);
  const bool is_last= context == all.back();
  Connection *connection= connect(false);
  if (context == all.front())
  {
    const size_t builds= context->rebuild ? 1 : context->builds.size();
    thd_progress_init(ha_thd(), static_cast<uint>(all.size() * (2 + builds)));
    connection->shows_progress(true);
  }
  else
    thd_progress_next_stage(ha_thd());
  bool failed= fill_inplace(altered, context);
  /* The partitions that were filled first: filling the others may have taken long. */
  if (is_last && all.size() > 1)
    for (size_t i= 0; i + 1 < all.size() && !failed; i++)
      failed= all[i]->handler->report_follow_error(all[i]->follow(altered), altered, all[i]);
  if (failed || is_last)
  {
    connection->shows_progress(false);
    thd_progress_end(ha_thd());
  }
  return failed;
}

bool ha_sluice::fill_inplace(TABLE *altered, void *inplace_context)
{
  InplaceContext *context= static_cast<InplaceContext *>(inplace_context);
  if (context->rebuild)
    return report_rebuild_error(context->rebuild->fill(), altered, *context->rebuild);
  slc_trx *view= context->online.view();
  slc_cursor *cursor= slc_cursor_new(m_share->table());
  const int error= feed_builds(view, cursor, context->builds_of(altered));
  slc_cursor_free(cursor);
  if (error)
  {
    if (error != SLUICE_ERR_ALREADY_REPORTED)
      print_error(error, MYF(0));
    return true;
  }
  for (uint i= 0; i < context->builds.size(); i++)
  {
    thd_progress_next_stage(ha_thd());
    const AlterProgress stage(ha_thd(), AlterStage::BUILD_INDEXES);
    if (const slc_err finish_error= slc_index_build_finish(context->builds[i], view))
    {
      report_build_error(finish_error, view, altered, context->builds_of(altered), context->indexes[i]);
      return true;
    }
  }
  thd_progress_next_stage(ha_thd());
  return tell_inplace(context->follow(altered));
}

bool ha_sluice::report_follow_error(slc_err error, TABLE *altered, void *inplace_context)
{
  const InplaceContext *context= static_cast<InplaceContext *>(inplace_context);
  return context->rebuild ? report_rebuild_error(error, altered, *context->rebuild) : tell_inplace(error);
}

/* The last round, under the exclusive lock. */
bool ha_sluice::end_online(TABLE *altered, void *inplace_context)
{
  InplaceContext *context= static_cast<InplaceContext *>(inplace_context);
  if (!context->is_long())
    return false;
  if (const int error= wait_until_decided(ha_thd(), m_share->name(), true))
  {
    print_error(error, MYF(0));
    return true;
  }
  if (context->rebuild)
    return report_rebuild_error(context->rebuild->last_round(), altered, *context->rebuild);
  slc_online_report report{};
  slc_err error= context->online.round(context->builds_of(altered), &report);
  if (!error && report.again)
    error= SLC_LOCKED;
  if (error)
    return tell_inplace(error);
  for (uint i= 0; i < context->builds.size(); i++)
    if ((error= slc_index_build_prove(context->builds[i])))
    {
      report_build_error(error, context->online.view(), altered, context->builds_of(altered), context->indexes[i]);
      return true;
    }
  context->online.end();
  return false;
}

/* The server commits the first partition and leaves it to the engine to take all with it: then no
   crash can come between. */
bool ha_sluice::commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit)
{
  if (!commit)
  {
    /* The server deletes the context. One of a partition is in a list of ha_partition's, too. */
    if (info->handler_ctx)
      context_of(info->handler_ctx)->abort_builds();
    return false;
  }
  const std::vector<InplaceContext *> contexts= contexts_of(info);
  for (InplaceContext *each : contexts)
    if (each->handler->end_online(altered, each))
      return true;
  if (contexts.front()->rebuild ? publish_rebuilt(altered, info) : publish_indexes(altered, info))
    return true;
  info->group_commit_ctx= nullptr;
  return false;
}

static ulonglong new_counter(const Alter_inplace_info *info)
{
  return info->create_info->used_fields & HA_CREATE_USED_AUTO ? info->create_info->auto_increment_value : 0;
}

bool ha_sluice::publish_rebuilt(TABLE *altered, Alter_inplace_info *info)
{
  const std::vector<InplaceContext *> contexts= contexts_of(info);
  std::vector<OnlineRebuild *> rebuilds;
  for (InplaceContext *each : contexts)
  {
    /* First: the engine gives the rebuilt table the counter of the old one, before it replaces it.
       After that an error could not be undone, and a crash would lose the new counter. */
    const ulonglong counter= each->rebuild->numbers_rows() ? 0 : new_counter(info);
    if (const int error= counter ? each->handler->set_auto_increment_at_least(counter) : 0)
    {
      print_error(error, MYF(0));
      return true;
    }
    rebuilds.push_back(each->rebuild.get());
  }
  return report_rebuild_error(OnlineRebuild::publish(rebuilds), altered, *rebuilds.front());
}

bool ha_sluice::publish_indexes(TABLE *altered, Alter_inplace_info *info)
{
  const std::vector<InplaceContext *> contexts= contexts_of(info);
  int error= 0;
#ifdef SLUICE_STAND_IN
  for (uint i= 0; i < info->index_drop_count && !table->s->tmp_table; i++)
    for (const InplaceContext *each : contexts)
      if (!error && !remove_statistics(ha_thd(), each->handler->m_share->name(), info->index_drop_buffer[i]->name.str))
        error= HA_ERR_LOCK_WAIT_TIMEOUT;
  if (error)
  {
    print_error(error, MYF(0));
    return true;
  }
#endif
  std::deque<IndexChange> changes;
  std::vector<slc_index_change> list;
  for (InplaceContext *each : contexts)
  {
    /* First, since setting a counter for nothing does no harm. */
    const ulonglong counter= new_counter(info);
    if (counter && !error)
      error= each->handler->set_auto_increment_at_least(counter);
    changes.emplace_back(each, each->handler->m_share->table(), altered, info);
    list.push_back(changes.back().change);
  }
  slc_err refused= SLC_OK;
  if (!error)
    error= fail(refused= slc_alter_indexes(engine, list.data(), static_cast<uint32_t>(list.size())));
  if (contexts.front()->foreign.tell(refused, contexts.front()->old, info))
    return true;
  if (error)
  {
    print_error(error, MYF(0));
    return true;
  }
  constexpr alter_table_operations MOVED= ALTER_ADD_STORED_BASE_COLUMN | ALTER_DROP_STORED_COLUMN | ALTER_STORED_COLUMN_ORDER;
  if (info->handler_flags & MOVED)
    instant_alters++;
  for (InplaceContext *each : contexts)
    each->builds.clear();               // published: they are the engine's now
  return false;
}

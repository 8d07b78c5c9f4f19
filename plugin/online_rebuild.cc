/* See online_rebuild.h. */
#include "online_rebuild.h"
#include "ddl.h"
#include "engine.h"
#include "errors.h"
#include "inplace.h"
#include "instruments.h"
#include "mutant.h"
#include "pace.h"
#include "settings.h"
#include <atomic>

namespace sluice {

namespace {

/* The prefix makes the server's start remove what a crash left (hton.cc). */
std::string name_beside(const std::string &name)
{
  static std::atomic<uint> number{0};
  return name.substr(0, name.rfind('/') + 1) + "#sql-rebuild-" + std::to_string(current_pid) + "-" + std::to_string(++number);
}

/* The index that goes, and serves a foreign key of the table or of a child; null: there is none. */
const char *needed_index(const std::string &table, const Alter_inplace_info *info)
{
  for (uint i= 0; i < info->index_drop_count; i++)
  {
    const char *const name= info->index_drop_buffer[i]->name.str;
    for (const ForeignKey &key : foreign_keys(SLC_FOREIGN_OF_CHILD, table.c_str()))
      if (key.child_index == name)
        return name;
    for (const ForeignKey &key : foreign_keys(SLC_FOREIGN_OF_PARENT, table.c_str()))
      if (key.parent_index == name)
        return name;
  }
  return nullptr;
}

} // namespace

const char *why_not_rebuilt(const ColumnChange &change, const TABLE *table, const TABLE *altered, const Alter_inplace_info *info)
{
  if (table->s->tmp_table)
    return "a temporary table is rebuilt";
  if (table->s->primary_key != MAX_KEY && altered->s->primary_key == MAX_KEY)
    return "the table loses its primary key";
  if (info->handler_flags & ALTER_ADD_PK_INDEX && altered->key_info[altered->s->primary_key].without_overlaps)
    return "rows have to be checked against a new key WITHOUT OVERLAPS";
  /* Partitions share one counter. Of a table with system versioning the server numbers the rows of
     the past by rules of its own. */
  if (change.added_number() && (altered->part_info || altered->versioned()))
    return "each row needs a value of a new AUTO_INCREMENT column";
  const bool same_forms= !change.changes_columns() && same_columns(table, altered);
  return same_forms ? nullptr : change.why_columns_are_copied();
}

OnlineRebuild::OnlineRebuild(TABLE *table, Codec &from, TABLE *altered, Codec &altered_codec, const ColumnChange &change)
  : m_table(table), m_from(from), m_altered(altered), m_codec(altered_codec),
    m_row_of(table, altered, change, !change.changes_columns() && same_columns(table, altered)), m_values(altered), m_number(change.added_number())
{
  for (uint i= 0; i < altered->s->keys; i++)
    m_values.need(altered_codec.key(i));
}

slc_err OnlineRebuild::begin(const slc_waiter &waiter, THD *thd, slc_table *table, const std::string &name,
                             const Alter_inplace_info *info)
{
  m_thd= thd;
  m_waiter= waiter;
  m_old= table;
  const std::vector<std::string> renamed= renamed_columns(info);
  if (!m_altered->part_info)
    if (const int error= m_foreign.of_alter(thd, name.c_str(), m_altered, info->create_info, info->alter_info, renamed))
    {
      m_table->file->print_error(error, MYF(0));
      return SLC_ROW_NOT_MADE;
    }
  Definition definition(m_altered, false, m_foreign);
  definition.def.replaces= name.c_str();
  definition.def.flags|= SLC_TABLE_IN_PLACE;
  std::vector<const char *> renamed_names;
  for (const std::string &each : renamed)
    renamed_names.push_back(each.c_str());
  definition.def.renamed_columns= renamed_names.data();
  definition.def.renamed_column_count= static_cast<uint32_t>(renamed_names.size() / 2);
  const std::string new_name= name_beside(name);
  if (const slc_err error= slc_table_create(engine, new_name.c_str(), &definition.def))
  {
    const char *const needed= error == SLC_FOREIGN_DEFINITION || error == SLC_FOREIGN_UNFIT ? needed_index(name, info) : nullptr;
    if (needed)
      my_error(ER_DROP_INDEX_FK, MYF(0), needed);
    else if (error != SLC_FOREIGN_NO_PARENT_INDEX)
      return error;
    else
    {
      server_error(error, thd, name.c_str()); // which warns of the reason
      tell_foreign_error(error, m_foreign, m_table, info);
    }
    return SLC_ROW_NOT_MADE;
  }
  m_new_name= new_name;
  slc_err error= slc_table_open(engine, new_name.c_str(), &m_new);
  if (!error && m_number)
  {
    const bool is_given= info->create_info->used_fields & HA_CREATE_USED_AUTO && info->create_info->auto_increment_value;
    m_series= {thd->variables.auto_increment_offset, thd->variables.auto_increment_increment, m_number->get_max_int_value()};
    slc_table_autoinc_raise(m_new, is_given ? info->create_info->auto_increment_value : 1);
  }
  if (!error)
    error= slc_load_begin(m_new, &m_load);
  if (!error)
    error= m_online.begin(waiter, thd, table);
  return error;
}

/* A row of the table as the altered table's record. */
slc_err OnlineRebuild::read(slc_bytes pk, slc_bytes row)
{
  if (!m_from.get_row(m_from.plan(m_from.stored()), m_table->record[0], pk, row))
    return SLC_CORRUPT;
  if (const slc_err error= m_row_of.take())
    return error;
  if (m_number && !put_number())
    return SLC_ROW_NOT_MADE;
  return m_values.compute();
}

/* The next number of the new table's counter. False: there is none; the server has the error. */
bool OnlineRebuild::put_number()
{
  constexpr int TAKE= 1;
  uint64_t number;
  if (!slc_table_autoinc_reserve(m_new, &m_series, 1, TAKE, &number) || number > m_series.limit)
  {
    my_error(ER_AUTOINC_READ_FAILED, MYF(0));
    return false;
  }
  m_number->store(static_cast<longlong>(number), true);
  return true;
}

/* Clustered key and entries of the record; `pk`: that of the old row, which a table without a
   primary key keeps. */
void OnlineRebuild::make(slc_bytes pk, Made *made)
{
  const uchar *record= m_altered->record[0];
  made->clustered_buffer.clear();
  if (m_codec.has_primary_key())
    m_codec.put_key(made->clustered_buffer, m_codec.primary(), record);
  else
    made->clustered_buffer.append(pk);
  made->clustered= made->clustered_buffer.bytes();
  made->entry_buffer.clear();
  made->images.clear();
  for (uint i= 0; i < m_codec.secondary_count(); i++)
    made->images.push_back(m_codec.put_entry(made->entry_buffer, m_codec.server_index(i + 1), record, made->clustered));
  made->entries.clear();
  for (uint i= 0; i < made->images.size(); i++)
  {
    const EntryImage &image= made->images[i];
    slc_entry entry;
    entry.index= i;
    entry.user_key_len= image.user_key_length;
    entry.unique_check= image.unique_check;
    entry.key= made->entry_buffer.bytes(image.key, image.key_length);
    entry.value= made->entry_buffer.bytes(image.value, image.value_length);
    made->entries.push_back(entry);
  }
}

/* For the server's message the record gets the row in m_row. The bytes that the row was made of are
   freed before, and BLOBs in the record point to them. */
slc_err OnlineRebuild::note_duplicate(slc_err error)
{
  if (error != SLC_DUPLICATE)
    return error;
  m_duplicate_key= m_codec.server_index(slc_duplicate_index());
  if (!m_codec.get_row(m_codec.plan(m_codec.stored()), m_altered->record[0], m_is.clustered, m_row.bytes()))
    return SLC_CORRUPT;
  return m_values.compute() ? SLC_ROW_NOT_MADE : error;
}

slc_err OnlineRebuild::fill()
{
  slc_cursor *cursor= slc_cursor_new(m_old);
  slc_trx *view= m_online.view();
  slc_found found;
  slc_err error= slc_cursor_begin(cursor, view, 0, SLC_LOCK_NONE, SLC_WAIT, 0);
  if (!error)
    error= slc_cursor_seek(cursor, SLC_SEEK_FIRST, {nullptr, 0}, &found);
  AlterProgress progress(m_thd, AlterStage::REBUILD_ROWS, m_old);
  Pace pace;
  while (!error)
  {
    progress.step();
    pace.step();
    if (thd_kill_level(m_thd) != THD_IS_NOT_KILLED)
      error= SLC_INTERRUPTED;
    else if (!(error= read(found.pk, found.row)))
    {
      make(found.pk, &m_is);
      m_row.clear();
      m_codec.put_row(m_row, m_altered->record[0]);
      error= note_duplicate(slc_load_add(m_load, m_is.clustered, m_row.bytes(), m_is.entries.data(),
                                         static_cast<uint32_t>(m_is.entries.size())));
    }
    if (!error)
      error= slc_cursor_next(cursor, &found);
  }
  slc_cursor_free(cursor);
  if (error != SLC_END)
    return error;
  thd_progress_next_stage(m_thd);
  if ((error= slc_load_finish(m_load, view)))
  {
    const slc_bytes row= slc_load_duplicate_row(m_load);
    if (error == SLC_DUPLICATE && row.len)
    {
      m_is.clustered_buffer.clear();
      m_is.clustered_buffer.append(slc_duplicate_pk());
      m_is.clustered= m_is.clustered_buffer.bytes();
      m_row.clear();
      m_row.append(row);
    }
    return note_duplicate(error);
  }
  slc_load_end(m_load);
  m_load= nullptr;
  m_writes= slc_trx_new(engine, &m_waiter, thd_get_thread_id(m_thd));
  /* The old table's rows satisfy its foreign keys, and no table refers to the new one yet. */
  slc_trx_foreign_key_checks(m_writes, 0);
  thd_progress_next_stage(m_thd);
  return follow();
}

slc_err OnlineRebuild::follow()
{
  return m_online.rounds([this](slc_online_report *report) {
    slc_err error= m_online.round_with(follow_row, this, &m_round_error, report);
    if (!error)
      error= commit_round(false);
    return note_duplicate(error);
  });
}

/* Commits what a round has written. The rows count as old ones once the table is published: no
   session reads them before. */
slc_err OnlineRebuild::commit_round(bool last)
{
  return slc_trx_is_started(m_writes) ? slc_trx_commit(m_writes, last) : SLC_OK;
}

int OnlineRebuild::follow_row(void *ctx, slc_online_change *change)
{
  OnlineRebuild *self= static_cast<OnlineRebuild *>(ctx);
  slc_trx_start(self->m_writes, SLC_ISO_READ_COMMITTED, lock_wait_timeout_ms(self->m_thd));
  return self->m_round_error= self->follow(change);
}

/* A row that keeps its unique values is updated, which costs less than a delete and an insert. The
   new values of others have to wait until all old ones are gone. */
slc_err OnlineRebuild::follow(slc_online_change *change)
{
  slc_err error;
  if (change->was.ptr)
  {
    if ((error= read(change->pk, change->was)))
      return error;
    make(change->pk, &m_was);
  }
  const bool waits= !change->is_second_pass && !planted(Mutant::OldRowsLast);
  if (change->is.ptr && (change->was.ptr || !waits))
  {
    if ((error= read(change->pk, change->is)))
      return error;
    make(change->pk, &m_is);
    m_row.clear();
    m_codec.put_row(m_row, m_altered->record[0]);
    if (change->was.ptr && keeps_unique_values(m_was, m_is))
      return update(m_was, m_is);
  }
  if (change->was.ptr && (error= slc_row_delete(m_writes, m_new, m_was.clustered, m_was.entries.data(),
                                                static_cast<uint32_t>(m_was.entries.size()))))
    return error;
  change->older_row_only= waits;
  if (!change->is.ptr || waits)
    return SLC_OK;
  return slc_row_insert(m_writes, m_new, m_is.clustered, m_row.bytes(), m_is.entries.data(), static_cast<uint32_t>(m_is.entries.size()),
                        SLC_ON_DUPLICATE_SHARED);
}

bool OnlineRebuild::keeps_unique_values(const Made &was, const Made &is)
{
  if (!same_bytes(was.clustered, is.clustered))
    return false;
  for (size_t i= 0; i < is.entries.size(); i++)
    if ((was.entries[i].unique_check || is.entries[i].unique_check) && !same_bytes(was.entries[i].key, is.entries[i].key))
      return false;
  return true;
}

/* The row itself is in m_row. */
slc_err OnlineRebuild::update(const Made &was, const Made &is)
{
  m_changes.clear();
  for (size_t i= 0; i < is.entries.size(); i++)
  {
    const slc_entry &before= was.entries[i], &after= is.entries[i];
    if (same_bytes(before.key, after.key) && same_bytes(before.value, after.value))
      continue;
    slc_entry_change change;
    change.index= after.index;
    change.user_key_len= after.user_key_len;
    change.unique_check= after.unique_check;
    change.old_key= before.key;
    change.new_key= after.key;
    change.new_value= after.value;
    m_changes.push_back(change);
  }
  constexpr uint32_t NO_FLAGS= 0; // foreign keys are not checked, and no table refers to the new one
  return slc_row_update(m_writes, m_new, is.clustered, m_row.bytes(), m_changes.data(), static_cast<uint32_t>(m_changes.size()),
                        SLC_ON_DUPLICATE_SHARED, NO_FLAGS);
}

slc_err OnlineRebuild::last_round()
{
  slc_online_report report{};
  slc_err error= m_online.round_with(follow_row, this, &m_round_error, &report);
  if (!error)
    error= commit_round(true);
  if (!error && report.again)
    error= SLC_LOCKED;
  return note_duplicate(error);
}

slc_err OnlineRebuild::publish(const std::vector<OnlineRebuild *> &all)
{
  std::vector<slc_replacement> list;
  for (OnlineRebuild *each : all)
  {
    each->m_online.end();
    slc_trx_free(each->m_writes);
    each->m_writes= nullptr;
    slc_table_close(each->m_new);
    each->m_new= nullptr;
    list.push_back({each->m_old, each->m_new_name.c_str(), each->numbers_rows()});
  }
  const int unchecked= !checks_foreign_keys(all.front()->m_thd);
  if (const slc_err error= slc_tables_replace(engine, list.data(), static_cast<uint32_t>(list.size()), unchecked))
    return error;
  for (OnlineRebuild *each : all)
    each->m_new_name.clear();
  return SLC_OK;
}

void OnlineRebuild::give_up()
{
  m_online.end();
  slc_load_end(m_load);
  if (m_writes)
  {
    /* The table is dropped next, so nothing has to be undone. */
    if (slc_trx_is_started(m_writes))
      slc_trx_commit(m_writes, false);
    slc_trx_free(m_writes);
  }
  if (m_new)
    slc_table_close(m_new);
  if (!m_new_name.empty())
    slc_table_drop(engine, m_new_name.c_str(), nullptr);
  m_load= nullptr;
  m_writes= nullptr;
  m_new= nullptr;
  m_new_name.clear();
}

} // namespace sluice

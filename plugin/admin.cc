/* CHECK, REPAIR, ANALYZE, OPTIMIZE TABLE.

   CHECK: the engine walks its pages. Only the codec can compute a row's index entries: the engine
   hands each row here, and compares the result with its indexes. The graph of a vector index is
   checked as a table, and compared with the rows (vector_graph.cc). Progress goes to SHOW
   PROCESSLIST, KILL ends it. Rows without the parent row that a foreign key asks for are a warning:
   users may have made them on purpose. REPAIR: builds the secondary indexes anew from the rows, and
   swaps them for the old ones in one change of the catalog. That is the cheapest way out when a
   page of an index cannot be read. In other cases (virtual columns, EXTENDED, nothing to build) the
   server copies the table.
   Called by: the server. */
#include "engine.h"
#include "ddl.h"
#include "errors.h"
#include "foreign.h"
#include "ha_sluice.h"
#include "innodb_stats_tables.h"
#include "settings.h"
#include "table_options.h"
#include "table_path.h"
#include <algorithm>
#include <set>

using namespace sluice;

/* ---- CHECK ---- */

namespace {

struct Check
{
  THD *thd;
  TABLE *table;
  ha_sluice *handler;
  uint32_t stage;
  std::set<std::string> told;           // foreign keys
};

void report_finding(void *ctx, const char *text, size_t length)
{
  const Check *check= static_cast<Check *>(ctx);
  const int bytes= static_cast<int>(MY_MIN(length, 500U));
  sql_print_error(SLUICE_ENGINE_NAME ": CHECK TABLE %s.%s: %.*s", check->table->s->db.str, check->table->s->table_name.str,
                  static_cast<int>(length), text);
  push_warning_printf(check->thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_CRASHED, "%.*s", bytes, text);
}

void report_progress(void *ctx, uint32_t stage, uint32_t stages, uint64_t done, uint64_t total)
{
  Check *check= static_cast<Check *>(ctx);
  if (!check->stage)
    thd_progress_init(check->thd, stages);
  for (check->stage= MY_MAX(check->stage, 1U); check->stage < stage; check->stage++)
    thd_progress_next_stage(check->thd);
  thd_progress_report(check->thd, done, MY_MAX(total, done));
}

uint32_t level_of(uint flags)
{
  if (flags & T_EXTEND)
    return SLC_CHECK_EXTENDED;
  return flags & (T_QUICK | T_FAST | T_CHECK_ONLY_CHANGED) ? SLC_CHECK_QUICK : SLC_CHECK_MEDIUM;
}

} // namespace

/* The virtual columns are computed as for an index-only read (virtual_columns.cc): tmp_set may be
   somebody else's. */
void ha_sluice::entries_to_check(void *ctx, slc_bytes clustered, slc_bytes row, slc_check_sink *to)
{
  ha_sluice *self= static_cast<Check *>(ctx)->handler;
  TABLE *table= self->table;
  uchar *record= table->record[0];
  if (!self->m_codec->get_row(self->plan_of_whole_rows(), record, clustered, row))
    return;                             // then it has none, and the comparison says so
  for (const uint16 number : self->m_codec->indexed_virtual_columns())
    table->update_virtual_field(table->field[number], true);
  self->m_write.entries.clear();
  self->put_entries(record, clustered, self->m_write.images);
  for (uint i= 0; i < self->m_write.images.size(); i++)
  {
    const EntryImage &image= self->m_write.images[i];
    slc_check_entry(to, i, self->m_write.entries.bytes(image.key, image.key_length),
                    self->m_write.entries.bytes(image.value, image.value_length));
  }
}

/* "('a', 5)": the values of these columns in record[0]. */
std::string ha_sluice::shown_values(const std::vector<std::string> &columns)
{
  std::string shown= "(";
  for (const std::string &column : columns)
    for (Field **field= table->field; *field; field++)
    {
      if (!same_name((*field)->field_name, column))
        continue;
      StringBuffer<MAX_FIELD_WIDTH> value;
      (*field)->val_str(&value);
      const bool is_number= (*field)->cmp_type() == INT_RESULT || (*field)->cmp_type() == REAL_RESULT || (*field)->cmp_type() == DECIMAL_RESULT;
      const char *const quote= is_number ? "" : "'";
      shown+= std::string(shown.size() > 1 ? ", " : "") + quote + ErrConvString(&value).ptr() + quote;
    }
  return shown + ")";
}

void ha_sluice::report_orphans(void *ctx, const slc_orphans *orphans)
{
  Check *const check= static_cast<Check *>(ctx);
  ha_sluice *const self= check->handler;
  const std::string name(reinterpret_cast<const char *>(orphans->name.ptr), orphans->name.len);
  const std::vector<ForeignKey> keys= foreign_keys(SLC_FOREIGN_OF_CHILD, self->m_share->name());
  const auto is_it= [&](const ForeignKey &key) { return key.name == name; };
  const auto key= std::find_if(keys.begin(), keys.end(), is_it);
  if (key == keys.end())
    return;                             // dropped meanwhile
  check->told.insert(name);
  std::string text= "foreign key " + key->constraint() + ": ";
  const std::string parent= TablePath(key->parent).quoted();
  switch (orphans->kind)
  {
  case SLC_ORPHANS_NOT_COMPARED:
    text+= "not checked, because definitions changed all the time; run CHECK TABLE again";
    break;
  case SLC_ORPHANS_NO_CHILD_INDEX:
    text+= "not checked, because the table has no index for it; add one";
    break;
  case SLC_ORPHANS_NO_TABLE:
    text+= std::to_string(orphans->rows) + " rows refer to table " + parent + (key->misfit.empty() ? ", which is missing" : ", which does not fit: " + key->misfit);
    break;
  default:
    text+= std::to_string(orphans->rows) + " rows have no parent row in table " + parent;
  }
  TABLE *const table= self->table;
  for (uint32_t i= 0; i < orphans->count; i++)
  {
    if (!self->m_codec->get_row(self->plan_of_whole_rows(), table->record[0], orphans->keys[i], orphans->images[i]))
      continue;
    self->compute_indexed_virtual_columns(table->record[0]);
    if (!i)
    {
      text+= "; the first values of (";
      for (size_t n= 0; n < key->columns.size(); n++)
        text+= (n ? ", " : "") + key->columns[n];
      text+= "): ";
    }
    text+= (i ? ", " : "") + self->shown_values(key->columns);
  }
  push_warning_printf(check->thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_NO_REFERENCED_ROW, "%.*s",
                      static_cast<int>(MY_MIN(text.size(), 500U)), text.c_str());
}

/* This table alone, without its graph. */
slc_err ha_sluice::check_by_engine(THD *thd, slc_trx *reader, uint32_t level)
{
  Check check= {thd, table, this, 0, {}};
  const size_t words= no_words_in_map(&table->tmp_set);
  m_saved_set.assign(table->tmp_set.bitmap, table->tmp_set.bitmap + words);
  const slc_check how= {level, &check, report_finding, entries_to_check, report_progress, report_orphans};
  const slc_err error= slc_table_check(reader, m_share->table(), &how);
  if (error == SLC_OK && level == SLC_CHECK_EXTENDED)
    for (const ForeignKey &key : foreign_keys(SLC_FOREIGN_OF_CHILD, m_share->name()))
      if (!key.misfit.empty() && !check.told.count(key.name))
      {
        slc_orphans none{};
        none.kind= SLC_ORPHANS_NO_TABLE;
        none.name= {reinterpret_cast<const uchar *>(key.name.data()), key.name.size()};
        report_orphans(&check, &none);
      }
  std::copy(m_saved_set.begin(), m_saved_set.end(), table->tmp_set.bitmap);
  if (check.stage)
    thd_progress_end(thd);
  return error;
}

int ha_sluice::check(THD *thd, HA_CHECK_OPT *options)
{
  if (is_graph())
    return HA_ADMIN_OK;                 // the main table's handler has checked it
  connect(false);
  const uint32_t level= level_of(options->flags);
  const slc_err error= check_by_engine(thd, trx(), level);
  if (error == SLC_CORRUPT)
    return HA_ADMIN_CORRUPT;            // each finding is in the log and in the result
  std::string finding;
  const int failure= error ? fail(error) : vector_index(table) ? check_graph(level, &finding) : 0;
  if (failure)
  {
    print_error(failure, MYF(0));
    return HA_ADMIN_FAILED;
  }
  if (finding.empty())
    return HA_ADMIN_OK;
  Check check= {thd, table, this, 0, {}};
  report_finding(&check, finding.data(), finding.size());
  return HA_ADMIN_CORRUPT;
}

/* ---- REPAIR ---- */

int ha_sluice::rebuild_indexes(slc_trx *trx, slc_cursor *cursor, std::vector<slc_build *> &builds)
{
  std::vector<uint> indexes;
  /* They may differ in upper and lower case: see IndexChange in inplace.cc. */
  std::vector<const char *> names, old_names;
  for (uint i= 0; i < m_codec->secondary_count(); i++)
  {
    const uint index= m_codec->server_index(i + 1);
    const slc_index_def def= {table->key_info[index].name.str,
                              m_codec->index_flags(index), 0, nullptr};
    slc_build *build= nullptr;
    if (const slc_err error= slc_index_build_begin(engine, m_share->table(), &def, &build))
      return fail(error);
    builds.push_back(build);
    indexes.push_back(index);
    names.push_back(def.name);
    old_names.push_back(slc_table_index_name(m_share->table(), i));
  }
  VirtualValues none(table);
  if (const int error= feed_builds(trx, cursor, {m_codec.get(), table->record[0], &none, &indexes, &builds}))
    return error;
  for (slc_build *build : builds)
    if (const slc_err error= slc_index_build_finish(build, trx))
      return error == SLC_DUPLICATE ? HA_ERR_FOUND_DUPP_UNIQUE : fail(error);
  const std::string schema= schema_of(table, m_codec->history(), get_row_type());
  slc_index_change change{};
  change.table= m_share->table();
  change.drop= old_names.data();
  change.drop_count= static_cast<uint32_t>(old_names.size());
  change.add= builds.data();
  change.add_count= static_cast<uint32_t>(builds.size());
  change.order= names.data();
  change.order_count= static_cast<uint32_t>(names.size());
  change.change_buffering= change_buffering_of(table->s);
  change.schema= {reinterpret_cast<const uint8_t *>(schema.data()), schema.size()};
  /* A foreign key finds its index by the parts. The foreign keys stay as they are. */
  ForeignAlter keys;
  keys.put_into(&change, table, *m_codec);
  if (const slc_err error= slc_alter_indexes(engine, &change, 1))
    return fail(error);
  builds.clear();                       // they are the engine's now
  return 0;
}

bool ha_sluice::is_repaired_by_copy(const HA_CHECK_OPT *options) const
{
  return !m_codec->secondary_count() || (options->flags & T_EXTEND) || !m_codec->indexed_virtual_columns().empty();
}

/* A REPAIR asks first. If repair() asked for a copy, the server would tell of OPTIMIZE. */
int ha_sluice::check_for_upgrade(HA_CHECK_OPT *options)
{
  const bool copies= thd_sql_command(ha_thd()) == SQLCOM_REPAIR && !is_sequence() && is_repaired_by_copy(options);
  return copies ? HA_ADMIN_NEEDS_ALTER : HA_ADMIN_OK;
}

/* The server has locked out everybody else. */
int ha_sluice::repair(THD *thd, HA_CHECK_OPT *options)
{
  if (is_sequence())
    /* One row, no index; and the server cannot copy a sequence for a REPAIR. */
    return HA_ADMIN_NOT_IMPLEMENTED;
  /* The server has marked a partitioned table for a copy, and makes it if no partition is
     repaired. Asked for a copy, it would tell of OPTIMIZE. */
  if (is_repaired_by_copy(options))
    return table->part_info && !(options->sql_flags & TT_USEFRM) ? HA_ADMIN_NOT_IMPLEMENTED : HA_ADMIN_TRY_ALTER;
  int error= wait_until_decided(thd, m_share->name(), true);
  if (!error)
  {
    Connection *connection= connect(false);
    slc_waiter waiter= connection->waiter();
    slc_trx *trx= slc_trx_new(engine, &waiter, thd_get_thread_id(thd));
    slc_trx_start(trx, SLC_ISO_READ_UNCOMMITTED, lock_wait_timeout_ms(thd));
    slc_cursor *cursor= slc_cursor_new(m_share->table());
    std::vector<slc_build *> builds;
    error= rebuild_indexes(trx, cursor, builds);
    slc_cursor_free(cursor);
    slc_trx_free(trx);
    for (slc_build *build : builds)
      slc_index_build_abort(build);
  }
  if (!error)
    return HA_ADMIN_OK;
  print_error(error, MYF(0));
  return error == HA_ERR_CRASHED ? HA_ADMIN_CORRUPT : HA_ADMIN_FAILED;
}

/* ---- the rest ---- */

int ha_sluice::analyze(THD *, HA_CHECK_OPT *)
{
  if (slc_statistics_compute(m_share->table(), true))
    return HA_ADMIN_FAILED;
#ifdef SLUICE_STAND_IN
  wait_for_statistics_tables(m_share->name());
#endif
  return info(HA_STATUS_CONST | HA_STATUS_VARIABLE) ? HA_ADMIN_FAILED : HA_ADMIN_OK;
}

#ifdef SLUICE_STAND_IN
static uint8_t is_killed(void *thd) { return thd_kill_level(static_cast<THD *>(thd)) != THD_IS_NOT_KILLED; }
#endif

/* The server rebuilds the table and analyzes it. With innodb_defragment pages are merged in place:
   the table stays as it is, and no statement waits. */
int ha_sluice::optimize([[maybe_unused]] THD *thd, HA_CHECK_OPT *)
{
#ifdef SLUICE_STAND_IN
  if (defragments())
  {
    const slc_err error= slc_table_defragment(m_share->table(), is_killed, thd);
    if (!error)
      return HA_ADMIN_OK;
    print_error(fail(error), MYF(0));
    return HA_ADMIN_FAILED;
  }
#endif
  return HA_ADMIN_TRY_ALTER;
}

#ifdef SLUICE_STAND_IN
/* Tables are not moved as files; of a temporary table InnoDB says so, too. */
int ha_sluice::discard_or_import_tablespace(my_bool)
{
  if (table->s->tmp_table == NO_TMP_TABLE)
    return HA_ERR_WRONG_COMMAND;
  my_error(ER_CANNOT_DISCARD_TEMPORARY_TABLE, MYF(0));
  return HA_ERR_TABLE_NEEDS_UPGRADE;
}
#endif

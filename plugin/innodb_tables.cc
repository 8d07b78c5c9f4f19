/* InnoDB's tables of INFORMATION_SCHEMA about the catalog, files and metrics, and those that are
   always empty. INNODB_TRX, _LOCKS and _LOCK_WAITS are in lock_tables.cc, INNODB_BUFFER_POOL_STATS
   in buffer_pool_stats.cc, INNODB_SYS_FOREIGN and _FOREIGN_COLS in foreign_table.cc. A column whose
   value the engine does not have is NULL, or 0 if it must not be NULL. Shown to users with the
   privilege PROCESS. Of the columns of tables the catalog has notes (column_notes.cc). Compiled only
   for a plugin with InnoDB's name.
   Called by: the server. */
#include "column_notes.h"
#include "engine.h"
#include "errors.h"
#include "information_schema.h"
#include "innodb_columns.h"
#include "innodb_names.h"
#include "row_history.h"
#include "settings.h"
#include <map>
#include <vector>

#ifdef SLUICE_STAND_IN

namespace sluice {

namespace {

/* In InnoDB's form: "schema/table", each as the server names files. */
std::string short_name(slc_bytes table)
{
  const std::string name= string_of(table);
  return name.compare(0, 2, "./") ? name : name.substr(2);
}

/* Stores the columns of a row by their names. */
class NamedRow
{
public:
  NamedRow(THD *thd, TABLE *table) : m_thd(thd), m_table(table) {}

  void begin()
  {
    restore_record(m_table, s->default_values);
    for (Field **field= m_table->field; *field; field++)
      (*field)->maybe_null() ? (*field)->set_null() : void();
  }
  NamedRow &number(const char *name, uint64_t number)
  {
    Field *field= column_of(m_table, name);
    field->set_notnull();
    field->store(static_cast<longlong>(number), true);
    return *this;
  }
  NamedRow &text(const char *name, const std::string &text)
  {
    Field *field= column_of(m_table, name);
    field->set_notnull();
    field->store(text.data(), text.size(), system_charset_info);
    return *this;
  }
  NamedRow &fraction(const char *name, double number)
  {
    Field *field= column_of(m_table, name);
    field->set_notnull();
    field->store(number);
    return *this;
  }
  NamedRow &text(const char *name, slc_bytes bytes) { return text(name, string_of(bytes)); }
  void end() { m_failed|= schema_table_store_record(m_thd, m_table); }
  bool failed() const { return m_failed; }

private:
  THD *const m_thd;
  TABLE *const m_table;
  bool m_failed= false;
};

/* ---- tables ---- */

/* The tables, from two lists of the engine: InnoDB shows columns of both in one table. */
struct Dictionary
{
  struct Table
  {
    std::string name;
    slc_table_info info;
    uint64_t rows= 0, clustered_pages= 0, other_pages= 0, changes= 0;
    bool has_statistics= false;
    std::string schema;
  };
  std::map<uint32_t, Table> tables;     // by id
  std::map<std::string, uint32_t> ids;  // by the engine's name
};

void add_table(void *ctx, const slc_table_info *info)
{
  if (info->temporary)
    return;
  Dictionary &all= *static_cast<Dictionary *>(ctx);
  Dictionary::Table &table= all.tables[info->id];
  table.name= short_name(info->name);
  table.info= *info;
  all.ids[string_of(info->name)]= info->id;
}

void add_statistics(void *ctx, const slc_statistics_row *row)
{
  Dictionary &all= *static_cast<Dictionary *>(ctx);
  const auto id= all.ids.find(string_of(row->table));
  if (row->index.len || id == all.ids.end())
    return;
  Dictionary::Table &table= all.tables[id->second];
  table.has_statistics= row->computed != 0;
  table.rows= row->rows;
  table.clustered_pages= row->pages;
  table.other_pages= row->leaf_pages;
  table.changes= row->changes;
  table.schema= string_of(row->schema);
}

/* Nothing without an engine, and for a user without the privilege PROCESS. */
bool get_dictionary(THD *thd, Dictionary *to)
{
  if (!engine || is_hidden_from(thd))
    return true;
  return !slc_table_info_list(engine, add_table, to) && !slc_statistics_list(engine, add_statistics, to);
}

/* In the order of InnoDB's own table, which is by name. */
std::map<std::string, uint32_t> by_name(const Dictionary &all)
{
  std::map<std::string, uint32_t> ids;
  for (const auto &[id, table] : all.tables)
    ids[table.name]= id;
  return ids;
}

/* InnoDB counts its three hidden columns, too, and no virtual ones. */
uint64_t columns_of(const std::string &schema)
{
  uint64_t count= 3;
  for (const ColumnNote &column : column_notes(schema))
    count+= !column.is_virtual();
  return count;
}

int fill_tables(THD *thd, TABLE_LIST *tables, COND *)
{
  Dictionary all;
  if (!get_dictionary(thd, &all))
    return 1;
  NamedRow row(thd, tables->table);
  /* The bits of a table with InnoDB's format DYNAMIC. */
  constexpr uint64_t DYNAMIC_FLAG= 33;
  for (const auto &[name, id] : by_name(all))
  {
    const Dictionary::Table &table= all.tables[id];
    row.begin();
    row.number("TABLE_ID", id).text("NAME", table.name).number("FLAG", DYNAMIC_FLAG).number("N_COLS", columns_of(table.schema));
    row.number("SPACE", id).text("ROW_FORMAT", std::string("Dynamic")).number("ZIP_PAGE_SIZE", 0).text("SPACE_TYPE", std::string("Single"));
    row.end();
  }
  return row.failed();
}

int fill_tablestats(THD *thd, TABLE_LIST *tables, COND *)
{
  Dictionary all;
  if (!get_dictionary(thd, &all))
    return 1;
  NamedRow row(thd, tables->table);
  for (const auto &[name, id] : by_name(all))
  {
    const Dictionary::Table &table= all.tables[id];
    row.begin();
    row.number("TABLE_ID", id).text("NAME", table.name).number("STATS_INITIALIZED", table.has_statistics);
    row.number("NUM_ROWS", table.info.rows < 0 ? table.rows : table.info.rows).number("CLUST_INDEX_SIZE", table.clustered_pages);
    row.number("OTHER_INDEX_SIZE", table.other_pages).number("MODIFIED_COUNTER", table.changes);
    row.number("AUTOINC", MY_MAX(table.info.autoinc, 0)).number("REF_COUNT", table.info.handles);
    row.end();
  }
  return row.failed();
}

int fill_columns(THD *thd, TABLE_LIST *tables, COND *)
{
  Dictionary all;
  if (!get_dictionary(thd, &all))
    return 1;
  NamedRow row(thd, tables->table);
  for (const auto &[id, table] : all.tables)
    for (const ColumnNote &column : column_notes(table.schema))
    {
      row.begin();
      row.number("TABLE_ID", id).text("NAME", column.name).number("POS", column.position).number("MTYPE", column.type);
      row.number("PRTYPE", column.properties).number("LEN", column.length);
      row.end();
    }
  return row.failed();
}

/* ---- indexes ---- */

struct IndexFill
{
  NamedRow row;
  Dictionary all;
};

void add_index(void *ctx, const slc_index_info *index)
{
  /* InnoDB's numbers: 1 clustered, 2 unique, 3 both. */
  static const uint64_t types[]= {0, 1, 2, 3};
  constexpr uint64_t MERGE_THRESHOLD= 50;
  IndexFill &fill= *static_cast<IndexFill *>(ctx);
  if (!fill.all.tables.count(index->table))
    return;
  NamedRow &row= fill.row;
  row.begin();
  row.number("INDEX_ID", index->id).text("NAME", index->name).number("TABLE_ID", index->table).number("TYPE", types[index->kind & 3]);
  row.number("N_FIELDS", MY_MAX(index->parts, 0)).number("PAGE_NO", index->root).number("SPACE", index->table);
  row.number("MERGE_THRESHOLD", MERGE_THRESHOLD);
  row.end();
}

/* The columns of a key, as the note in the engine's catalog has them (schema_of in ddl.cc). */
void add_fields(void *ctx, const slc_index_info *index)
{
  IndexFill &fill= *static_cast<IndexFill *>(ctx);
  const auto table= fill.all.tables.find(index->table);
  if (table == fill.all.tables.end())
    return;
  const std::string &schema= table->second.schema, begin= "\nkey " + string_of(index->name) + " ";
  size_t from= schema.find(begin);
  if (from == std::string::npos)
    return;
  from+= begin.size();
  const size_t end= MY_MIN(schema.find('\n', from), schema.size());
  for (uint64_t position= 0; from < end; position++)
  {
    const size_t next= MY_MIN(schema.find(' ', from), end);
    fill.row.begin();
    fill.row.number("INDEX_ID", index->id).text("NAME", schema.substr(from, MY_MIN(schema.find(':', from), next) - from)).number("POS", position);
    fill.row.end();
    from= next + 1;
  }
}

int fill_by_index(THD *thd, TABLE_LIST *tables, slc_index_info_cb add)
{
  if (!engine || is_hidden_from(thd))
    return 0;
  IndexFill fill= {NamedRow(thd, tables->table), {}};
  return !get_dictionary(thd, &fill.all) || slc_index_info_list(engine, add, &fill) || fill.row.failed();
}

int fill_indexes(THD *thd, TABLE_LIST *tables, COND *) { return fill_by_index(thd, tables, add_index); }
int fill_fields(THD *thd, TABLE_LIST *tables, COND *) { return fill_by_index(thd, tables, add_fields); }

/* ---- files ---- */

int add_file(void *ctx, const slc_file_info *file)
{
  constexpr uint64_t PAGE_BYTES= 16384, BLOCK_BYTES= 4096, FULL_CRC32_FLAG= 21;
  static const char *const names[]= {"innodb_system", "innodb_undo001"};
  if (file->id < 0 || (file->kind != SLC_FILE_TABLE && file->kind > SLC_FILE_UNDO))
    return 0;
  NamedRow &row= *static_cast<NamedRow *>(ctx);
  row.begin();
  row.number("SPACE", file->id).text("NAME", file->owner.len ? short_name(file->owner) : std::string(names[file->kind & 1]));
  row.number("FLAG", FULL_CRC32_FLAG).text("ROW_FORMAT", std::string(file->owner.len ? "Dynamic" : "")).number("PAGE_SIZE", PAGE_BYTES);
  row.text("FILENAME", std::string(settings.directory) + "/" + string_of(file->name)).number("FS_BLOCK_SIZE", BLOCK_BYTES);
  row.number("FILE_SIZE", file->bytes).number("ALLOCATED_SIZE", file->allocated);
  row.end();
  return row.failed() || thd_kill_level(current_thd) != THD_IS_NOT_KILLED;
}

int fill_files(THD *thd, TABLE_LIST *tables, COND *)
{
  if (!engine || is_hidden_from(thd))
    return 0;
  NamedRow row(thd, tables->table);
  return report_error(slc_file_info_list(engine, add_file, &row)) || row.failed();
}

/* ---- metrics ---- */

void store_metric(NamedRow &row, const slc_metric &metric, const InnodbMetric &shown, const std::string &comment)
{
  row.begin();
  row.text("NAME", std::string(shown.name)).text("SUBSYSTEM", std::string(shown.subsystem));
  row.number("COUNT", metric.value / shown.divisor).number("COUNT_RESET", metric.value / shown.divisor);
  row.number("TIME_ELAPSED", metric.elapsed_s).number("ENABLED", 1);
  if (metric.kind == SLC_METRIC_TOTAL)
  {
    const double per_second= metric.per_second / static_cast<double>(shown.divisor);
    row.fraction("AVG_COUNT", per_second).fraction("AVG_COUNT_RESET", per_second);
  }
  if (metric.kind == SLC_METRIC_MAXIMUM)
    row.number("MAX_COUNT", metric.value / shown.divisor).number("MAX_COUNT_RESET", metric.value / shown.divisor);
  row.text("TYPE", std::string(shown.type));
  constexpr size_t COMMENT_CHARS= 193;
  row.text("COMMENT", comment.substr(0, COMMENT_CHARS));
  row.end();
}

struct Metrics
{
  NamedRow row;
  uint64_t elapsed_s= 0;
};

/* Stores a counter under InnoDB's names, and under its own if that is not one of them. */
void add_metric(void *ctx, const slc_metric *metric)
{
  Metrics &all= *static_cast<Metrics *>(ctx);
  all.elapsed_s= metric->elapsed_s;
  const std::string ours= string_of(metric->name), subsystem= string_of(metric->subsystem), comment= string_of(metric->comment);
  bool stored= false;
  for (const InnodbMetric *shown= innodb_metrics; shown->name; shown++)
    if (ours == shown->counter)
    {
      store_metric(all.row, *metric, *shown, comment);
      stored|= ours == shown->name;
    }
  const char *const type= metric->kind == SLC_METRIC_TOTAL ? "counter" : "value";
  if (!stored)
    store_metric(all.row, *metric, {ours.c_str(), subsystem.c_str(), type, "", 1}, comment);
}

/* Stores the metrics whose values are status variables. */
void add_metrics_of_status(Metrics &all)
{
  std::map<std::string, uint64_t> numbers;
  for (const auto &[name, value] : status_numbers())
    numbers[name]= value;
  for (const InnodbMetric *shown= innodb_metrics_of_status; shown->name; shown++)
  {
    slc_metric metric{};
    metric.value= numbers[shown->counter];
    metric.elapsed_s= all.elapsed_s;
    metric.kind= strcmp(shown->type, "value") ? SLC_METRIC_TOTAL : SLC_METRIC_GAUGE;
    metric.per_second= all.elapsed_s ? static_cast<double>(metric.value) / static_cast<double>(all.elapsed_s) : 0;
    store_metric(all.row, metric, *shown, *shown->counter ? std::string("The status variable Innodb_") + shown->counter : "Always 0");
  }
}

int fill_metrics(THD *thd, TABLE_LIST *tables, COND *)
{
  if (!engine || is_hidden_from(thd))
    return 0;
  Metrics all= {NamedRow(thd, tables->table)};
  if (slc_metric_list(engine, add_metric, &all))
    return 1;
  add_metrics_of_status(all);
  return all.row.failed();
}

/* ---- compressed pages ---- */

/* There are none: a row of zeros for each size that InnoDB has. */
int fill_page_sizes(THD *thd, TABLE_LIST *tables, COND *)
{
  if (is_hidden_from(thd))
    return 0;
  constexpr uint64_t SMALLEST_BYTES= 1024, LARGEST_BYTES= 16384;
  NamedRow row(thd, tables->table);
  for (uint64_t bytes= SMALLEST_BYTES; bytes <= LARGEST_BYTES; bytes*= 2)
  {
    row.begin();
    row.number("page_size", bytes);
    row.end();
  }
  return row.failed();
}

/* ---- the server's calls ---- */

int fill_nothing(THD *thd, TABLE_LIST *, COND *)
{
  (void) is_hidden_from(thd);           // also of an empty table a user without the privilege gets the error
  return 0;
}

int fill_nothing_for_all(THD *, TABLE_LIST *, COND *) { return 0; }

/* As in InnoDB, every user may read one of them. */
auto fill_of_empty(const char *name) { return strcmp(name, "ft_default_stopword") ? fill_nothing : fill_nothing_for_all; }

int set_up(void *schema, ST_FIELD_INFO *columns, int (*fill_table)(THD *, TABLE_LIST *, COND *))
{
  ST_SCHEMA_TABLE *table= static_cast<ST_SCHEMA_TABLE *>(schema);
  table->fields_info= columns;
  table->fill_table= fill_table;
  return 0;
}

} // namespace

#define EMPTY_TABLE(NAME, SHOWN)                                                                                       \
  int innodb_##NAME##_init(void *schema) { return set_up(schema, innodb_##NAME##_columns, fill_of_empty(#NAME)); }
INNODB_EMPTY_TABLES(EMPTY_TABLE)

int innodb_cmp_init(void *schema) { return set_up(schema, innodb_cmp_columns, fill_page_sizes); }
int innodb_cmp_reset_init(void *schema) { return set_up(schema, innodb_cmp_reset_columns, fill_page_sizes); }
int innodb_cmpmem_init(void *schema) { return set_up(schema, innodb_cmpmem_columns, fill_page_sizes); }
int innodb_cmpmem_reset_init(void *schema) { return set_up(schema, innodb_cmpmem_reset_columns, fill_page_sizes); }
int innodb_metrics_init(void *schema) { return set_up(schema, innodb_metrics_columns, fill_metrics); }
int innodb_sys_columns_init(void *schema) { return set_up(schema, innodb_sys_columns_columns, fill_columns); }
int innodb_sys_fields_init(void *schema) { return set_up(schema, innodb_sys_fields_columns, fill_fields); }
int innodb_sys_indexes_init(void *schema) { return set_up(schema, innodb_sys_indexes_columns, fill_indexes); }
int innodb_sys_tables_init(void *schema) { return set_up(schema, innodb_sys_tables_columns, fill_tables); }
int innodb_sys_tablespaces_init(void *schema) { return set_up(schema, innodb_sys_tablespaces_columns, fill_files); }
int innodb_sys_tablestats_init(void *schema) { return set_up(schema, innodb_sys_tablestats_columns, fill_tablestats); }

} // namespace sluice

#endif

/* INFORMATION_SCHEMA.SLUICE_TABLE_STATS and SLUICE_INDEX_STATS: the statistics that the optimizer
   is given, with the columns of mysql.innodb_table_stats and innodb_index_stats. Declared in
   hton.cc. Shown to users with the privilege PROCESS.
   Called by: the server. */
#include "engine.h"
#include "information_schema.h"
#include "statistics_rows.h"
#include "table_path.h"
#include <algorithm>
#include <vector>

namespace sluice {

namespace {

/* table#P#partition.subpartition */
constexpr uint TABLE_NAME_CHARS= 3 * NAME_CHAR_LEN + 4;

ST_FIELD_INFO table_columns[]= {
  Show::Column("DATABASE_NAME", Show::Varchar(NAME_CHAR_LEN), NOT_NULL),
  Show::Column("TABLE_NAME", Show::Varchar(TABLE_NAME_CHARS), NOT_NULL),
  Show::Column("LAST_UPDATE", Show::Datetime(0), NULLABLE),
  Show::Column("N_ROWS", Show::ULonglong(), NOT_NULL),
  Show::Column("CLUSTERED_INDEX_SIZE", Show::ULonglong(), NOT_NULL),
  Show::Column("SUM_OF_OTHER_INDEX_SIZES", Show::ULonglong(), NOT_NULL),
  Show::Column("CHANGES", Show::ULonglong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO index_columns[]= {
  Show::Column("DATABASE_NAME", Show::Varchar(NAME_CHAR_LEN), NOT_NULL),
  Show::Column("TABLE_NAME", Show::Varchar(TABLE_NAME_CHARS), NOT_NULL),
  Show::Column("INDEX_NAME", Show::Varchar(NAME_CHAR_LEN), NOT_NULL),
  Show::Column("LAST_UPDATE", Show::Datetime(0), NULLABLE),
  Show::Column("STAT_NAME", Show::Varchar(NAME_CHAR_LEN), NOT_NULL),
  Show::Column("STAT_VALUE", Show::ULonglong(), NOT_NULL),
  Show::Column("SAMPLE_SIZE", Show::ULonglong(), NULLABLE),
  Show::Column("STAT_DESCRIPTION", Show::Varchar(1024), NOT_NULL),
  Show::CEnd()};

struct Fill
{
  THD *thd;
  TABLE *table;
  bool failed;
};

std::string text_of(slc_bytes text) { return std::string(reinterpret_cast<const char *>(text.ptr), text.len); }
void store(Field *field, const std::string &text) { field->store(text.data(), text.size(), system_charset_info); }
void store(Field *field, uint64_t number) { field->store(static_cast<longlong>(number), true); }

void store_time(THD *thd, Field *field, int64_t seconds)
{
  field->set_null();
  if (!seconds)
    return;
  MYSQL_TIME time;
  thd->variables.time_zone->gmt_sec_to_TIME(&time, static_cast<my_time_t>(seconds));
  field->set_notnull();
  field->store_time(&time);
}

void store_names(Field **fields, const slc_statistics_row *row)
{
  const TablePath path(text_of(row->table));
  store(fields[0], path.schema);
  store(fields[1], path.partition.empty() ? path.table : path.table + "#P#" + path.partition);
}

void add_table(void *ctx, const slc_statistics_row *row)
{
  Fill *fill= static_cast<Fill *>(ctx);
  if (fill->failed || row->index.len)
    return;
  Field **fields= fill->table->field;
  restore_record(fill->table, s->default_values);
  store_names(fields, row);
  store_time(fill->thd, fields[2], row->computed);
  store(fields[3], row->rows);
  store(fields[4], row->pages);
  store(fields[5], row->leaf_pages);
  store(fields[6], row->changes);
  fill->failed= schema_table_store_record(fill->thd, fill->table);
}

/* The columns of a key, as the note in the engine's catalog has them (schema_of in ddl.cc): "key
   NAME column:collation ...". */
std::vector<std::string> columns_of_key(const std::string &schema, const std::string &index)
{
  std::vector<std::string> columns;
  const size_t at= schema.find("\nkey " + index + " ");
  if (at == std::string::npos)
    return columns;
  size_t from= at + strlen("\nkey ") + index.size() + 1;
  const size_t end= std::min(schema.find('\n', from), schema.size());
  while (from < end)
  {
    const size_t next= std::min(schema.find(' ', from), end);
    columns.push_back(schema.substr(from, schema.find(':', from) - from));
    from= next + 1;
  }
  return columns;
}

void add_index(void *ctx, const slc_statistics_row *row)
{
  Fill *fill= static_cast<Fill *>(ctx);
  if (fill->failed || !row->index.len)
    return;
  for (const Statistic &statistic : statistics_of_index(row))
  {
    Field **fields= fill->table->field;
    restore_record(fill->table, s->default_values);
    store_names(fields, row);
    store(fields[2], text_of(row->index));
    store_time(fill->thd, fields[3], row->computed);
    store(fields[4], statistic.name);
    store(fields[5], statistic.value);
    fields[6]->set_null();
    if (statistic.sample)
    {
      fields[6]->set_notnull();
      store(fields[6], statistic.sample);
    }
    store(fields[7], statistic.description);
    fill->failed|= schema_table_store_record(fill->thd, fill->table);
  }
}

int fill_by(THD *thd, TABLE_LIST *tables, slc_statistics_cb add)
{
  if (!engine || check_global_access(thd, PROCESS_ACL, true))
    return 0;
  Fill fill= {thd, tables->table, false};
  const slc_err error= slc_statistics_list(engine, add, &fill);
  return fill.failed || error ? 1 : 0;
}

int fill_tables(THD *thd, TABLE_LIST *tables, COND *) { return fill_by(thd, tables, add_table); }
int fill_indexes(THD *thd, TABLE_LIST *tables, COND *) { return fill_by(thd, tables, add_index); }

} // namespace

std::vector<Statistic> statistics_of_index(const slc_statistics_row *row)
{
#ifdef SLUICE_STAND_IN
  static const char HIDDEN_COLUMN[]= "DB_ROW_ID";
#else
  static const char HIDDEN_COLUMN[]= "(hidden row number)";
#endif
  const std::string schema= text_of(row->schema), index= text_of(row->index);
  std::vector<std::string> columns= columns_of_key(schema, index);
  if (index != "PRIMARY")
  {
    const std::vector<std::string> primary= columns_of_key(schema, "PRIMARY");
    columns.insert(columns.end(), primary.begin(), primary.end());
  }
  std::vector<Statistic> statistics;
  std::string description;
  for (uint32_t i= 0; i < row->distinct_count; i++)
  {
    description+= (i ? "," : "") + (i < columns.size() ? columns[i] : std::string(HIDDEN_COLUMN));
    char name[16];
    my_snprintf(name, sizeof name, "n_diff_pfx%02u", i + 1);
    statistics.push_back({name, row->distinct[i], row->pages_read, description});
  }
  statistics.push_back({"n_leaf_pages", row->leaf_pages, 0, "Number of leaf pages in the index"});
  statistics.push_back({"size", row->pages, 0, "Number of pages in the index"});
  return statistics;
}

int table_stats_init(void *schema)
{
  ST_SCHEMA_TABLE *table= static_cast<ST_SCHEMA_TABLE *>(schema);
  table->fields_info= table_columns;
  table->fill_table= fill_tables;
  return 0;
}

int index_stats_init(void *schema)
{
  ST_SCHEMA_TABLE *table= static_cast<ST_SCHEMA_TABLE *>(schema);
  table->fields_info= index_columns;
  table->fill_table= fill_indexes;
  return 0;
}

} // namespace sluice

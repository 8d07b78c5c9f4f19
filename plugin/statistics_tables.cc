/* INFORMATION_SCHEMA.SLUICE_TABLE_STATS and SLUICE_INDEX_STATS: the statistics that the optimizer
   is given, with the columns of mysql.innodb_table_stats and innodb_index_stats. Declared in
   hton.cc. Shown to users with the privilege PROCESS.
   Called by: the server. */
#include "engine.h"
#include "errors.h"
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

void store_names(SchemaRow &row, const slc_statistics_row *of)
{
  const TablePath path(string_of(of->table));
  row.text(path.schema);
  row.text(path.partition.empty() ? path.table : path.table + "#P#" + path.partition);
}

void add_table(void *ctx, const slc_statistics_row *table)
{
  SchemaRow &row= *static_cast<SchemaRow *>(ctx);
  if (row.failed() || table->index.len || !table->computed)
    return;
  row.begin();
  store_names(row, table);
  row.time(table->computed);
  row.number(table->rows);
  row.number(table->pages);
  row.number(table->leaf_pages);
  row.number(table->changes);
  row.end();
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

void add_statistic(SchemaRow &row, const slc_statistics_row *of, const std::string &name, uint64_t value, uint64_t sample,
                   const std::string &description)
{
  row.begin();
  store_names(row, of);
  row.text(of->index);
  row.time(of->computed);
  row.text(name);
  row.number(value);
  row.number_or_null(sample > 0, sample);
  row.text(description);
  row.end();
}

void add_index(void *ctx, const slc_statistics_row *of)
{
  SchemaRow &row= *static_cast<SchemaRow *>(ctx);
  if (row.failed() || !of->index.len)
    return;
  for (const Statistic &statistic : statistics_of_index(of))
    add_statistic(row, of, statistic.name, statistic.value, statistic.sample, statistic.description);
}

int fill_by(THD *thd, TABLE_LIST *tables, slc_statistics_cb add)
{
  if (!engine || is_hidden_from(thd))
    return 0;
  SchemaRow row(thd, tables->table);
  return report_error(slc_statistics_list(engine, add, &row)) || row.failed() ? 1 : 0;
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
  const std::string schema= string_of(row->schema), index= string_of(row->index);
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

int table_stats_init(void *schema) { return set_up_schema_table(schema, table_columns, fill_tables); }
int index_stats_init(void *schema) { return set_up_schema_table(schema, index_columns, fill_indexes); }

} // namespace sluice

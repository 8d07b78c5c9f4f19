/* INFORMATION_SCHEMA.SLUICE_TABLES, SLUICE_INDEXES, SLUICE_TABLESPACES and SLUICE_METRICS: what
   there is, which file is whose, and every counter with its meaning. The columns have the names of
   InnoDB's tables where they mean the same. Declared in hton.cc. Shown to users with the privilege
   PROCESS.
   Called by: the server. */
#include "engine.h"
#include "errors.h"
#include "information_schema.h"
#include "settings.h"
#include "table_path.h"

namespace sluice {

namespace {

/* schema/table#P#partition.subpartition */
constexpr uint TABLE_NAME_CHARS= 4 * NAME_CHAR_LEN + 5;
constexpr uint FILE_NAME_CHARS= 512;
constexpr uint PAGE_BYTES= 16384;

ST_FIELD_INFO table_columns[]= {
  Show::Column("TABLE_ID", Show::ULonglong(), NOT_NULL),
  Show::Column("NAME", Show::Varchar(TABLE_NAME_CHARS), NOT_NULL),
  Show::Column("SPACE", Show::ULonglong(), NOT_NULL),
  Show::Column("SPACE_TYPE", Show::Varchar(10), NOT_NULL),
  Show::Column("N_INDEXES", Show::ULonglong(), NOT_NULL),
  Show::Column("NUM_ROWS", Show::ULonglong(), NULLABLE),
  Show::Column("MODIFIED_COUNTER", Show::ULonglong(), NOT_NULL),
  Show::Column("AUTOINC", Show::ULonglong(), NULLABLE),
  Show::Column("REF_COUNT", Show::ULonglong(), NOT_NULL),
  Show::Column("CREATE_TIME", Show::Datetime(0), NULLABLE),
  Show::Column("STATE", Show::Varchar(FILE_NAME_CHARS), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO index_columns[]= {
  Show::Column("INDEX_ID", Show::ULonglong(), NOT_NULL),
  Show::Column("NAME", Show::Varchar(NAME_CHAR_LEN), NOT_NULL),
  Show::Column("TABLE_ID", Show::ULonglong(), NOT_NULL),
  Show::Column("TYPE", Show::ULonglong(), NOT_NULL),
  Show::Column("N_FIELDS", Show::ULonglong(), NULLABLE),
  Show::Column("PAGE_NO", Show::ULonglong(), NOT_NULL),
  Show::Column("SPACE", Show::ULonglong(), NOT_NULL),
  Show::Column("CHANGE_BUFFER_PAGE_NO", Show::ULonglong(), NULLABLE),
  Show::Column("NODE_SIZE", Show::ULonglong(), NOT_NULL),
  Show::Column("STATE", Show::Varchar(11), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO file_columns[]= {
  Show::Column("SPACE", Show::ULonglong(), NULLABLE),
  Show::Column("NAME", Show::Varchar(TABLE_NAME_CHARS), NOT_NULL),
  Show::Column("FILE_TYPE", Show::Varchar(11), NOT_NULL),
  Show::Column("FILENAME", Show::Varchar(FILE_NAME_CHARS), NOT_NULL),
  Show::Column("PAGE_SIZE", Show::ULonglong(), NULLABLE),
  Show::Column("FILE_SIZE", Show::ULonglong(), NOT_NULL),
  Show::Column("ALLOCATED_SIZE", Show::ULonglong(), NOT_NULL),
  Show::Column("PAGES", Show::ULonglong(), NULLABLE),
  Show::Column("PAGES_USED", Show::ULonglong(), NULLABLE),
  Show::CEnd()};

ST_FIELD_INFO metric_columns[]= {
  Show::Column("NAME", Show::Varchar(NAME_CHAR_LEN), NOT_NULL),
  Show::Column("SUBSYSTEM", Show::Varchar(NAME_CHAR_LEN), NOT_NULL),
  Show::Column("COUNT", Show::ULonglong(), NOT_NULL),
  Show::Column("AVG_COUNT", Show::Double(MY_INT64_NUM_DECIMAL_DIGITS + 2 * 100 + 2), NULLABLE),
  Show::Column("TIME_ELAPSED", Show::ULonglong(), NOT_NULL),
  Show::Column("ENABLED", Show::ULonglong(), NOT_NULL),
  Show::Column("TYPE", Show::Varchar(NAME_CHAR_LEN), NOT_NULL),
  Show::Column("COMMENT", Show::Varchar(FILE_NAME_CHARS), NOT_NULL),
  Show::CEnd()};

std::string short_name(slc_bytes table)
{
  const TablePath path(string_of(table));
  const std::string name= path.schema + "/" + path.table;
  return path.partition.empty() ? name : name + "#P#" + path.partition;
}

/* ---- rows ---- */

void add_table(void *ctx, const slc_table_info *table)
{
  SchemaRow &row= *static_cast<SchemaRow *>(ctx);
  row.begin();
  row.number(table->id);
  row.text(short_name(table->name));
  row.number(table->id);
  row.text(std::string(table->temporary ? "Temporary" : "Single"));
  row.number(table->indexes);
  row.number_or_null(table->rows);
  row.number(table->changes);
  row.number_or_null(table->autoinc_known, table->autoinc);
  row.number(table->handles);
  row.time(table->created);
  row.text(table->broken.len ? string_of(table->broken) : std::string("OK"));
  row.end();
}

void add_index(void *ctx, const slc_index_info *index)
{
  constexpr uint WIDE_NODE_PAGES= 4;
  SchemaRow &row= *static_cast<SchemaRow *>(ctx);
  row.begin();
  row.number(index->id);
  row.text(index->name);
  row.number(index->table);
  row.number(index->kind);
  row.number_or_null(index->parts);
  row.number(index->root);
  row.number(index->table);
  row.number_or_null(index->delta_root);
  row.number(PAGE_BYTES * (index->wide ? WIDE_NODE_PAGES : 1));
  row.text(std::string(index->quarantined ? "Quarantined" : "OK"));
  row.end();
}

/* A page of each file may have to be read, so KILL is looked for. */
int add_file(void *ctx, const slc_file_info *file)
{
  static const char *const types[]= {"System", "Undo", "Table", "Temporary", "Redo log", "Doublewrite", "Unnamed"};
  static const char *const names[]= {"sluice_system", "sluice_undo", "", "sluice_temporary", "sluice_redo_log", "sluice_doublewrite",
                                     "sluice_unnamed"};
  SchemaRow &row= *static_cast<SchemaRow *>(ctx);
  row.begin();
  row.number_or_null(file->id);
  row.text(file->owner.len ? short_name(file->owner) : std::string(names[file->kind]));
  row.text(std::string(types[file->kind]));
  row.text(std::string(settings.directory) + "/" + string_of(file->name));
  row.number_or_null(file->id < 0 ? -1 : static_cast<int64_t>(PAGE_BYTES));
  row.number(file->bytes);
  row.number(file->allocated);
  row.number_or_null(file->pages);
  row.number_or_null(file->pages_used);
  row.end();
  return row.is_to_end();
}

void add_metric(void *ctx, const slc_metric *metric)
{
  static const char *const types[]= {"counter", "value", "maximum"};
  SchemaRow &row= *static_cast<SchemaRow *>(ctx);
  row.begin();
  row.text(metric->name);
  row.text(metric->subsystem);
  row.number(metric->value);
  row.fraction_or_null(metric->kind == SLC_METRIC_TOTAL, metric->per_second);
  row.number(metric->elapsed_s);
  row.number(1);
  row.text(std::string(types[metric->kind]));
  row.text(metric->comment);
  row.end();
}

template <typename Add> int fill(THD *thd, TABLE_LIST *tables, slc_err (*list)(slc_engine *, Add, void *), Add add)
{
  if (!engine || is_hidden_from(thd))
    return 0;
  SchemaRow row(thd, tables->table);
  const slc_err error= list(engine, add, &row);
  if (row.failed())
    return 1;
  if (error != SLC_INTERRUPTED)
    return report_error(error);
  thd->send_kill_message();
  return 1;
}

int fill_tables(THD *thd, TABLE_LIST *tables, COND *) { return fill<slc_table_info_cb>(thd, tables, slc_table_info_list, add_table); }
int fill_indexes(THD *thd, TABLE_LIST *tables, COND *) { return fill<slc_index_info_cb>(thd, tables, slc_index_info_list, add_index); }
int fill_files(THD *thd, TABLE_LIST *tables, COND *) { return fill<slc_file_info_cb>(thd, tables, slc_file_info_list, add_file); }
int fill_metrics(THD *thd, TABLE_LIST *tables, COND *) { return fill<slc_metric_cb>(thd, tables, slc_metric_list, add_metric); }

} // namespace

int tables_table_init(void *schema) { return set_up_schema_table(schema, table_columns, fill_tables); }
int indexes_table_init(void *schema) { return set_up_schema_table(schema, index_columns, fill_indexes); }
int tablespaces_table_init(void *schema) { return set_up_schema_table(schema, file_columns, fill_files); }
int metrics_table_init(void *schema) { return set_up_schema_table(schema, metric_columns, fill_metrics); }

} // namespace sluice

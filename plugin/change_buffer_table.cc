/* INFORMATION_SCHEMA.SLUICE_CHANGE_BUFFER: what is buffered, index by index. A plugin of its own in
   this library, as the server wants it; declared in hton.cc, next to the engine. Shown to users
   with the privilege PROCESS. Called by: the server. */
#include "engine.h"
#include "errors.h"
#include "information_schema.h"
#include "table_path.h"

namespace sluice {

namespace {

ST_FIELD_INFO columns[]= {
  Show::Column("TABLE_SCHEMA", Show::Varchar(NAME_CHAR_LEN), NOT_NULL),
  Show::Column("TABLE_NAME", Show::Varchar(NAME_CHAR_LEN), NOT_NULL),
  Show::Column("PARTITION_NAME", Show::Varchar(2 * NAME_CHAR_LEN + 1), NULLABLE),
  Show::Column("INDEX_NAME", Show::Varchar(NAME_CHAR_LEN), NOT_NULL),
  Show::Column("CHANGE_BUFFERING", Show::Varchar(8), NOT_NULL),
  Show::Column("FROM_TABLE_OPTION", Show::Varchar(3), NOT_NULL),
  Show::Column("ENTRIES", Show::ULonglong(), NOT_NULL),
  Show::Column("BYTES", Show::ULonglong(), NOT_NULL),
  Show::Column("PAGES", Show::ULonglong(), NOT_NULL),
  Show::Column("DELTA_PARTITIONS", Show::ULonglong(), NOT_NULL),
  Show::Column("OLDEST_AGE", Show::ULonglong(), NOT_NULL),
  Show::Column("MERGED_ENTRIES", Show::ULonglong(), NOT_NULL),
  Show::Column("COUNTED", Show::Varchar(3), NOT_NULL),
  Show::CEnd()};

void add_row(void *ctx, const slc_index_changes *changes)
{
  SchemaRow &row= *static_cast<SchemaRow *>(ctx);
  if (row.failed())
    return;
  const TablePath path(string_of(changes->table));
  row.begin();
  row.text(path.schema);
  row.text(path.table);
  row.text_or_null(path.partition);
  row.text(changes->index);
  row.text(changes->buffering);
  row.yes_or_no(changes->own);
  row.number(changes->entries);
  row.number(changes->bytes);
  row.number(changes->pages);
  row.number(changes->partitions);
  row.number(changes->age_s);
  row.number(changes->merged);
  row.yes_or_no(changes->counted);
  row.end();
}

int fill_table(THD *thd, TABLE_LIST *tables, COND *)
{
  if (!engine || is_hidden_from(thd))
    return 0;
  SchemaRow row(thd, tables->table);
  return report_error(slc_change_buffer_list(engine, add_row, &row)) || row.failed() ? 1 : 0;
}

} // namespace

int change_buffer_table_init(void *schema) { return set_up_schema_table(schema, columns, fill_table); }

struct st_mysql_information_schema information_schema= {MYSQL_INFORMATION_SCHEMA_INTERFACE_VERSION};

} // namespace sluice

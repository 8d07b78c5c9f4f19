/* INFORMATION_SCHEMA.SLUICE_CHANGE_BUFFER: what is buffered, index by index. A plugin of its own in
   this library, as the server wants it; declared in hton.cc, next to the engine. Shown to users
   with the privilege PROCESS. Called by: the server. */
#include "engine.h"
#include "errors.h"
#include "information_schema.h"
#include "table_path.h"

namespace sluice {

namespace {

namespace Column_of
{
enum { SCHEMA, TABLE, PARTITION, INDEX, BUFFERING, OWN, ENTRIES, BYTES, PAGES, DELTA_PARTITIONS, AGE, MERGED, COUNTED };
}

ST_FIELD_INFO columns[]= {
  Show::Column("TABLE_SCHEMA", Show::Varchar(NAME_CHAR_LEN), NOT_NULL),
  Show::Column("TABLE_NAME", Show::Varchar(NAME_CHAR_LEN), NOT_NULL),
  Show::Column("PARTITION_NAME", Show::Varchar(2 * NAME_CHAR_LEN + 1), NULLABLE),
  Show::Column("INDEX_NAME", Show::Varchar(NAME_CHAR_LEN), NOT_NULL),
  Show::Column("CHANGE_BUFFERING", Show::Varchar(8), NOT_NULL),
  Show::Column("OF_TABLE", Show::Varchar(3), NOT_NULL),
  Show::Column("ENTRIES", Show::ULonglong(), NOT_NULL),
  Show::Column("BYTES", Show::ULonglong(), NOT_NULL),
  Show::Column("PAGES", Show::ULonglong(), NOT_NULL),
  Show::Column("DELTA_PARTITIONS", Show::ULonglong(), NOT_NULL),
  Show::Column("OLDEST_AGE", Show::ULonglong(), NOT_NULL),
  Show::Column("MERGED_ENTRIES", Show::ULonglong(), NOT_NULL),
  Show::Column("COUNTED", Show::Varchar(3), NOT_NULL),
  Show::CEnd()};

struct Fill
{
  THD *thd;
  TABLE *table;
  bool failed;
};

void store(Field *field, const std::string &text) { field->store(text.data(), text.size(), system_charset_info); }
void store(Field *field, slc_bytes text) { store(field, std::string(reinterpret_cast<const char *>(text.ptr), text.len)); }
void store(Field *field, uint64_t number) { field->store(static_cast<longlong>(number), true); }
void store_yes(Field *field, bool yes) { store(field, std::string(yes ? "YES" : "NO")); }

void store_name(Field **fields, slc_bytes name)
{
  const TablePath path(std::string(reinterpret_cast<const char *>(name.ptr), name.len));
  store(fields[Column_of::SCHEMA], path.schema);
  store(fields[Column_of::TABLE], path.table);
  fields[Column_of::PARTITION]->set_null();
  if (!path.partition.empty())
  {
    fields[Column_of::PARTITION]->set_notnull();
    store(fields[Column_of::PARTITION], path.partition);
  }
}

void add_row(void *ctx, const slc_index_changes *changes)
{
  Fill *fill= static_cast<Fill *>(ctx);
  if (fill->failed)
    return;
  Field **fields= fill->table->field;
  restore_record(fill->table, s->default_values);
  store_name(fields, changes->table);
  store(fields[Column_of::INDEX], changes->index);
  store(fields[Column_of::BUFFERING], changes->buffering);
  store_yes(fields[Column_of::OWN], changes->own);
  store(fields[Column_of::ENTRIES], changes->entries);
  store(fields[Column_of::BYTES], changes->bytes);
  store(fields[Column_of::PAGES], changes->pages);
  store(fields[Column_of::DELTA_PARTITIONS], changes->partitions);
  store(fields[Column_of::AGE], changes->age_s);
  store(fields[Column_of::MERGED], changes->merged);
  store_yes(fields[Column_of::COUNTED], changes->counted);
  fill->failed= schema_table_store_record(fill->thd, fill->table);
}

int fill_table(THD *thd, TABLE_LIST *tables, COND *)
{
  if (!engine || check_global_access(thd, PROCESS_ACL, true))
    return 0;
  Fill fill= {thd, tables->table, false};
  return told_error(slc_change_buffer_list(engine, add_row, &fill)) || fill.failed ? 1 : 0;
}

} // namespace

int change_buffer_table_init(void *schema)
{
  ST_SCHEMA_TABLE *table= static_cast<ST_SCHEMA_TABLE *>(schema);
  table->fields_info= columns;
  table->fill_table= fill_table;
  return 0;
}

struct st_mysql_information_schema information_schema= {MYSQL_INFORMATION_SCHEMA_INTERFACE_VERSION};

} // namespace sluice

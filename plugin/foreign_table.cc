/* What people see of foreign keys: INFORMATION_SCHEMA.SLUICE_FOREIGN and SLUICE_FOREIGN_COLS, with
   the columns of INNODB_SYS_FOREIGN and _COLS, and the last refused row in SHOW ENGINE SLUICE
   STATUS. The tables are shown to users with the privilege PROCESS.
   Called by: the server, errors (a row was refused), hton (the status). */
#include "engine.h"
#include "foreign.h"
#include "information_schema.h"
#include "table_path.h"
#include <mutex>

namespace sluice {

namespace {

ST_FIELD_INFO key_columns[]= {
  Show::Column("ID", Show::Varchar(3 * NAME_CHAR_LEN + 1), NOT_NULL),
  Show::Column("FOR_NAME", Show::Varchar(3 * NAME_CHAR_LEN + 1), NOT_NULL),
  Show::Column("REF_NAME", Show::Varchar(3 * NAME_CHAR_LEN + 1), NOT_NULL),
  Show::Column("N_COLS", Show::ULong(), NOT_NULL),
  Show::Column("TYPE", Show::ULong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO column_columns[]= {
  Show::Column("ID", Show::Varchar(3 * NAME_CHAR_LEN + 1), NOT_NULL),
  Show::Column("FOR_COL_NAME", Show::Varchar(NAME_CHAR_LEN), NOT_NULL),
  Show::Column("REF_COL_NAME", Show::Varchar(NAME_CHAR_LEN), NOT_NULL),
  Show::Column("POS", Show::ULong(), NOT_NULL),
  Show::CEnd()};

/* As in INNODB_SYS_FOREIGN. */
enum { DELETE_CASCADE= 1, DELETE_SET_NULL= 2, UPDATE_CASCADE= 4, UPDATE_SET_NULL= 8, DELETE_NO_ACTION= 16, UPDATE_NO_ACTION= 32 };

uint type_of(const ForeignKey &key)
{
  static const uint of_delete[]= {DELETE_NO_ACTION, 0, DELETE_CASCADE, DELETE_SET_NULL};
  static const uint of_update[]= {UPDATE_NO_ACTION, 0, UPDATE_CASCADE, UPDATE_SET_NULL};
  return of_delete[key.on_delete] | of_update[key.on_update];
}

void store(Field *field, const std::string &text) { field->store(text.data(), text.size(), system_charset_info); }

std::string short_name(const std::string &path)
{
  const TablePath names(path);
  return names.schema + "/" + names.table;
}

std::string id_of(const ForeignKey &key) { return TablePath(key.child).schema + "/" + key.constraint(); }

/* add(key): true = it has failed. */
template <typename Add> int fill(THD *thd, const Add &add)
{
  if (!engine || check_global_access(thd, PROCESS_ACL, true))
    return 0;
  for (const ForeignKey &key : foreign_keys_by_name(SLC_FOREIGN_ALL, nullptr))
    if (add(key))
      return 1;
  return 0;
}

int fill_keys(THD *thd, TABLE_LIST *tables, COND *)
{
  TABLE *const table= tables->table;
  return fill(thd, [&](const ForeignKey &key) {
    restore_record(table, s->default_values);
    store(table->field[0], id_of(key));
    store(table->field[1], short_name(key.child));
    store(table->field[2], short_name(key.parent));
    table->field[3]->store(static_cast<longlong>(key.columns.size()), true);
    table->field[4]->store(type_of(key), true);
    return schema_table_store_record(thd, table);
  });
}

int fill_columns(THD *thd, TABLE_LIST *tables, COND *)
{
  TABLE *const table= tables->table;
  return fill(thd, [&](const ForeignKey &key) {
    for (size_t i= 0; i < key.columns.size(); i++)
    {
      restore_record(table, s->default_values);
      store(table->field[0], id_of(key));
      store(table->field[1], key.columns[i]);
      store(table->field[2], key.parent_columns[i]);
      table->field[3]->store(static_cast<longlong>(i + 1), true);
      if (schema_table_store_record(thd, table))
        return true;
    }
    return false;
  });
}

/* ---- the last refused row ---- */

constexpr size_t STATEMENT_BYTES_MAX= 1024;
std::mutex latest_mutex;
std::string latest;

} // namespace

void keep_latest_foreign_error(THD *thd, const char *what)
{
  String fault;
  append_foreign_fault(thd, &fault);
  MYSQL_TIME now;
  char time[MAX_DATE_STRING_REP_LENGTH];
  thd->variables.time_zone->gmt_sec_to_TIME(&now, my_time(0));
  my_datetime_to_str(&now, time, 0);
  const size_t length= MY_MIN(thd->query_length(), STATEMENT_BYTES_MAX);
  const std::string text= std::string(time) + " connection " + std::to_string(thd_get_thread_id(thd)) + ": " + what + "\n" + fault.c_ptr_safe() +
                          "\nstatement: " + (length ? std::string(thd->query(), length) : "") + "\n";
  const std::lock_guard<std::mutex> guard(latest_mutex);
  latest= text;
}

std::string latest_foreign_error()
{
  const std::lock_guard<std::mutex> guard(latest_mutex);
  return latest;
}

int foreign_init(void *schema)
{
  ST_SCHEMA_TABLE *table= static_cast<ST_SCHEMA_TABLE *>(schema);
  table->fields_info= key_columns;
  table->fill_table= fill_keys;
  return 0;
}

int foreign_columns_init(void *schema)
{
  ST_SCHEMA_TABLE *table= static_cast<ST_SCHEMA_TABLE *>(schema);
  table->fields_info= column_columns;
  table->fill_table= fill_columns;
  return 0;
}

} // namespace sluice

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

#ifdef SLUICE_STAND_IN
/* As the server names files, like all of InnoDB's tables. */
std::string short_name(const std::string &path) { return path.compare(0, 2, "./") ? path : path.substr(2); }
std::string id_of(const ForeignKey &key) { return key.name; }
#else
/* As people write names, like SLUICE_TABLES. */
std::string short_name(const std::string &path)
{
  const TablePath names(path);
  return names.schema + "/" + names.table;
}

std::string id_of(const ForeignKey &key) { return TablePath(key.child).schema + "/" + key.constraint(); }
#endif

/* add(row, key) stores the rows of one foreign key. */
template <typename Add> int fill(THD *thd, TABLE_LIST *tables, const Add &add)
{
  if (!engine || is_hidden_from(thd))
    return 0;
  SchemaRow row(thd, tables->table);
  for (const ForeignKey &key : foreign_keys_by_name(SLC_FOREIGN_ALL, nullptr))
  {
    add(row, key);
    if (row.failed())
      return 1;
  }
  return 0;
}

void add_key(SchemaRow &row, const ForeignKey &key)
{
  row.begin();
  row.text(id_of(key));
  row.text(short_name(key.child));
  row.text(short_name(key.parent));
  row.number(key.columns.size());
  row.number(type_of(key));
  row.end();
}

void add_columns(SchemaRow &row, const ForeignKey &key)
{
  for (size_t i= 0; i < key.columns.size() && !row.failed(); i++)
  {
    row.begin();
    row.text(id_of(key));
    row.text(key.columns[i]);
    row.text(key.parent_columns[i]);
    row.number(i);
    row.end();
  }
}

int fill_keys(THD *thd, TABLE_LIST *tables, COND *) { return fill(thd, tables, add_key); }
int fill_columns(THD *thd, TABLE_LIST *tables, COND *) { return fill(thd, tables, add_columns); }

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

int foreign_init(void *schema) { return set_up_schema_table(schema, key_columns, fill_keys); }
int foreign_columns_init(void *schema) { return set_up_schema_table(schema, column_columns, fill_columns); }

} // namespace sluice

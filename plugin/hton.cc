/* The storage engine as the server knows it: starting and stopping, the callbacks of transactions
   (each hands over to the Connection), and the plugin's declaration. Called by: the server. */
#include "asleep.h"
#include "cluster.h"
#include "commit_turn.h"
#include "connection.h"
#include "ddl.h"
#include "engine.h"
#include "errors.h"
#include "foreign.h"
#include "ha_sluice.h"
#include "information_schema.h"
#include "innodb_monitor.h"
#include "huge_pages.h"
#include "innodb_stats_tables.h"
#include "instruments.h"
#include "key_text.h"
#include "log_note.h"
#include "settings.h"
#include "table_options.h"
#include "table_path.h"
#include "tc_log.h"
#include "update_times.h"
#include "vector_graph.h"
#include "xa.h"

namespace sluice {

slc_engine *engine= nullptr;
handlerton *hton= nullptr;
bool in_ddl_recovery= true;

namespace {

/* ---- transactions ---- */

int commit(SLUICE_HTON_ARG THD *thd, bool all)
{
  Connection *connection= Connection::existing(thd);
  return connection ? connection->commit(all) : 0;
}

int rollback(SLUICE_HTON_ARG THD *thd, bool all)
{
  Connection *connection= Connection::existing(thd);
  return connection ? connection->rollback(all) : 0;
}

int prepare(SLUICE_HTON_ARG THD *thd, bool all)
{
  Connection *connection= Connection::existing(thd);
  return connection ? connection->prepare(all) : 0;
}

void commit_ordered(SLUICE_HTON_ARG THD *thd, bool all)
{
  if (Connection *connection= Connection::existing(thd))
    connection->commit_ordered(all);
}

int savepoint_set(SLUICE_HTON_ARG THD *thd, void *savepoint)
{
  const Connection::Savepoint made= Connection::of(thd)->savepoint();
  memcpy(savepoint, &made, sizeof made);
  commit_before_graph_cache(thd);       // the savepoint remembers the list
  return 0;
}

int savepoint_rollback(SLUICE_HTON_ARG THD *thd, void *savepoint)
{
  Connection::Savepoint made;
  memcpy(&made, savepoint, sizeof made);
  return Connection::of(thd)->rollback_to(made);
}

int savepoint_release(SLUICE_HTON_ARG THD *, void *) { return 0; }

/* Row and range locks survive a rollback to a savepoint, and they rely on the table's metadata
   lock. */
bool savepoint_rollback_can_release_mdl(SLUICE_HTON_ARG THD *thd)
{
  Connection *connection= Connection::existing(thd);
  return !connection || !connection->is_started() || !slc_trx_has_locks(connection->trx());
}

int start_consistent_snapshot(SLUICE_HTON_ARG THD *thd) { return Connection::of(thd)->start_snapshot(); }

int close_connection(SLUICE_HTON_ARG THD *thd)
{
  Connection *connection= Connection::existing(thd);
  thd_set_ha_data(thd, hton, nullptr);  // kill_query() of another thread must not find it any more
  delete connection;
  return 0;
}

void kill_query(handlerton *, THD *thd, enum thd_kill_levels)
{
  if (Connection *connection= Connection::existing(thd))
    connection->cancel_wait();
}

/* ---- the engine as a whole ---- */

handler *create_handler(handlerton *hton_arg, TABLE_SHARE *share, MEM_ROOT *mem_root)
{
  return new (mem_root) ha_sluice(hton_arg, share);
}

bool file_exists(const std::string &path) { return access(path.c_str(), F_OK) == 0; }

/* After a crash in the CREATE of a partitioned table the server asks the partitions' engine to drop
   the whole table. Then it removes the .frm, but not the list of partitions (.par). It asks the
   same when the partitioned table is the new one, which must stay. So the list is kept until it is
   known whether the .frm goes. */
std::vector<std::string> tables_asked_for;

slc_err drop_all_parts(const std::string &path)
{
  const std::vector<std::string> parts= tables_with_prefix(path + "#P#");
  for (const std::string &part : parts)
    if (const slc_err error= slc_table_drop(engine, part.c_str(), nullptr))
      return error;
  if (file_exists(path + ".par"))
    my_delete((path + ".par").c_str(), MYF(0));
  return parts.empty() ? SLC_NO_TABLE : SLC_OK;
}

int drop_table(handlerton *, const char *path)
{
  if (const int error= current_thd ? wait_until_decided(current_thd, path, false) : 0)
    return error;
#ifdef SLUICE_STAND_IN
  if (current_thd && !remove_statistics(current_thd, path, nullptr))
    return HA_ERR_LOCK_WAIT_TIMEOUT;
#endif
  const Orphans orphans(current_thd, path);
  slc_err error= slc_table_drop(engine, path, orphans.prefix());
#ifdef SLUICE_STAND_IN
  forget_update_time(path);
#endif
  if (error == SLC_NO_TABLE && in_ddl_recovery)
    tables_asked_for.push_back(path);
  else if (error == SLC_NO_TABLE && !file_exists(std::string(path) + ".frm"))
    error= drop_all_parts(path);
  return error == SLC_NO_TABLE ? ENOENT : server_error(error, current_thd, path);
}

/* Lists of partitions (.par) that the server forgets when it dies in an ALTER TABLE: the folder
   could not be removed. */
void drop_forgotten_lists(const std::string &folder)
{
  MY_DIR *files= my_dir(folder.c_str(), MYF(0));
  if (!files)
    return;
  for (size_t i= 0; i < files->number_of_files; i++)
  {
    const std::string name= files->dir_entry[i].name;
    const size_t base= name.rfind(".par");
    if (!name.compare(0, 5, "#sql-") && base != std::string::npos && base + 4 == name.size() &&
        !file_exists(folder + name.substr(0, base) + ".frm"))
      my_delete((folder + name).c_str(), MYF(0));
  }
  my_dirend(files);
}

/* The server has dropped the tables that it knows; `path` is the folder and ends with a '/'. Other
   tables of the engine have no .frm, which was removed by hand, and their names would stay taken
   for ever. */
void drop_tables_below(const char *path)
{
  for (const std::string &name : tables_with_prefix(path))
    if (!slc_table_drop(engine, name.c_str(), path))
      sql_print_warning(SLUICE_ENGINE_NAME ": DROP DATABASE removed table %s, which had no .frm file", shown_table(name).c_str());
  drop_forgotten_lists(path);
}

/* The server's version chooses one. */
[[maybe_unused]] void drop_database(handlerton *, char *path) { drop_tables_below(path); }
[[maybe_unused]] void drop_database(char *path) { drop_tables_below(path); }

bool flush_logs(handlerton *) { return slc_engine_flush_log(engine) != SLC_OK; }

/* The binlog asks when everything committed so far is safe without it. */
void commit_checkpoint_request(void *cookie)
{
  if (slc_engine_flush_log(engine) == SLC_OK)
    commit_checkpoint_notify_ha(cookie);
}

/* After a crash: has the in-place ALTER TABLE that makes this definition come to its end in the
   engine? 0: yes. The server's other number is none for a partitioned table. */
int check_version(handlerton *, const char *path, const LEX_CUSTRING *definition, ulonglong)
{
  std::string name= path;
  if (!slc_table_exists(engine, path))
  {
    const std::vector<std::string> parts= tables_with_prefix(name + "#P#");
    if (parts.empty())
      return 2;
    name= parts.front();                // they are altered together
  }
  slc_table *table;
  if (slc_table_open(engine, name.c_str(), &table))
    return 2;
  const bool altered= schema_is_of(slc_table_schema(table), *definition);
  slc_table_close(table);
  return altered ? 0 : 1;
}

/* A DROP of a partitioned table takes the list of the partitions (.par) first and the .frm last.
   After a crash in between the server cannot find the partitions any more; it removes the .frm, and
   their names would stay taken. So partitions that have a .frm and no list are noted at start, and
   dropped if the server has removed the .frm. (Not if there was none before: then somebody lost it,
   and may bring it back.) */
std::vector<std::string> partitions_without_list;

std::string path_of_table(const std::string &name)
{
  const size_t graph_at= graph_suffix_at(name);
  return name.substr(0, graph_at != std::string::npos ? graph_at : name.find("#P#", name.rfind('/')));
}

void note_partitions_without_list()
{
  partitions_without_list.clear();
  for (const std::string &name : tables_with_prefix("./"))
  {
    const std::string path= path_of_table(name);
    if (path != name && !is_graph_path(name) && file_exists(path + ".frm") && !file_exists(path + ".par"))
      partitions_without_list.push_back(name);
  }
}

/* The server drops a graph before its main table, and recovery finishes that by the .frm file. If
   that was lost too, the graph's name would stay taken. */
void drop_graphs_without_table()
{
  for (const std::string &name : tables_with_prefix("./"))
    if (is_graph_path(name) && !slc_table_exists(engine, path_of_table(name).c_str()) && !slc_table_drop(engine, name.c_str(), ""))
      sql_print_information(SLUICE_ENGINE_NAME ": removed %s, the graph of a VECTOR index whose table is gone", shown_table(name).c_str());
}

void drop_forgotten_tables()
{
  for (const std::string &path : tables_asked_for)
    if (!file_exists(path + ".frm") && !drop_all_parts(path))
      sql_print_information(SLUICE_ENGINE_NAME ": removed the partitions of %s, whose CREATE was cut short", shown_table(path).c_str());
  tables_asked_for.clear();
  std::vector<std::string> names;
  names.swap(partitions_without_list);
  for (const std::string &name : tables_with_prefix("./"))
    if (!name.compare(name.rfind('/') + 1, 5, "#sql-"))
      names.push_back(name);
  for (const std::string &name : names)
    if (!file_exists(path_of_table(name) + ".frm") && !slc_table_drop(engine, name.c_str(), ""))
      sql_print_information(SLUICE_ENGINE_NAME ": removed table %s of a statement that was cut short", shown_table(name).c_str());
  drop_graphs_without_table();
}

int signal_ddl_recovery_done(handlerton *)
{
  in_ddl_recovery= false;
  drop_forgotten_tables();
  start_keeping_huge_pages();
  slc_engine_start_background(engine);
#ifdef SLUICE_STAND_IN
  start_statistics_writer();
#endif
  return 0;
}

/* ---- backup ---- */

constexpr uint32 PHASE_LOG= 2;

/* BACKUP STAGE START. A backup that does not know this engine leaves its tables out, without an
   error of its own: so the statement fails. The session's stage has begun nevertheless, and ends
   with the connection. */
void prepare_for_backup()
{
  THD *thd= current_thd;
  if (!engine || !thd || backup_stage(thd) || slc_backup_phase(engine) == PHASE_LOG || tables_with_prefix("./").empty())
    return;
  my_printf_error(ER_UNKNOWN_ERROR,
                  "this backup would lack the tables of " SLUICE_ENGINE_NAME ": use sluice-backup, which runs mariadb-backup for the other "
                  "engines. If the backup copies %s by itself, as a snapshot of the file system does: SET SESSION %s = ON",
                  MYF(ME_ERROR_LOG), settings.directory, variable_name("backup_stage").c_str());
}

/* The position of the binary log: file, space, offset. Empty: there is no binary log. */
std::string binary_log_position()
{
  if (!mysql_bin_log.is_open())
    return "";
  LOG_INFO info;
  mysql_bin_log.get_current_log(&info);
  const char *name= strrchr(info.log_file_name, FN_LIBCHAR);
  return std::string(name ? name + 1 : info.log_file_name) + " " + std::to_string(static_cast<ulonglong>(info.pos));
}

/* BACKUP STAGE END, or the end of its connection. The locks of the stage are still held. If they
   block commits, the running backup gets its point here. */
void end_backup()
{
  THD *thd= current_thd;
  if (!engine || !thd || backup_stage(thd) || !slc_backup_phase(engine) ||
      !thd->mdl_context.is_lock_owner(MDL_key::BACKUP, "", "", MDL_BACKUP_WAIT_COMMIT))
    return;
  const std::string position= binary_log_position();
  const slc_bytes about= {reinterpret_cast<const uint8_t *>(position.data()), position.size()};
  if (slc_backup_fix_point(engine, about))
  {
    char text[512];
    slc_error_text(text, sizeof text);
    sql_print_error(SLUICE_ENGINE_NAME ": %s", text);
  }
}

struct StatusText
{
  std::string text;
};

void append_status(void *ctx, const char *text, size_t length) { static_cast<StatusText *>(ctx)->text.append(text, length); }

struct MutexRows
{
  THD *thd;
  stat_print_fn *print;
  const LEX_CSTRING *engine;
  bool failed;
};

/* As InnoDB, a family that no thread has waited for is not shown. */
void print_mutex(void *ctx, const slc_mutex_info *mutex)
{
  MutexRows *rows= static_cast<MutexRows *>(ctx);
  if (rows->failed || !mutex->waits)
    return;
  const std::string waits= "waits=" + std::to_string(mutex->waits);
  rows->failed= rows->print(rows->thd, rows->engine->str, rows->engine->length, reinterpret_cast<const char *>(mutex->name.ptr),
                            mutex->name.len, waits.data(), waits.size());
}

bool show_status(handlerton *hton_arg, THD *thd, stat_print_fn *print, enum ha_stat_type type)
{
  if (type == HA_ENGINE_MUTEX)
  {
    MutexRows rows= {thd, print, hton_name(hton_arg), false};
    slc_mutex_list(print_mutex, &rows);
    return rows.failed;
  }
  if (type != HA_ENGINE_STATUS)
    return false;
  StatusText status;
  const std::string foreign_error= latest_foreign_error();
  slc_engine_status_text(engine, {reinterpret_cast<const uint8_t *>(foreign_error.data()), foreign_error.size()}, append_status, &status);
  const LEX_CSTRING *name= hton_name(hton_arg);
#ifdef SLUICE_STAND_IN
  status.text= monitor_text(status.text);
#endif
  return print(thd, name->str, name->length, "", 0, status.text.data(), status.text.size());
}

size_t table_text(slc_bytes name, char *to, size_t size)
{
  const std::string text= shown_table(std::string(reinterpret_cast<const char *>(name.ptr), name.len));
  const size_t length= MY_MIN(text.size(), size);
  memcpy(to, text.data(), length);
  return length;
}

/* A directory below the data directory would be shown as a database. One elsewhere is none, and
   must not hide the database of its name. */
void hide_directory()
{
  std::string path= settings.directory;
  if (!path.compare(0, strlen(mysql_real_data_home), mysql_real_data_home))
    path.erase(0, strlen(mysql_real_data_home));
  while (!path.compare(0, 2, "./"))
    path.erase(0, 2);
  path.resize(MY_MIN(path.find('/'), path.size()));
  if (!path.empty())
    ignore_db_dirs_append(path.c_str());
}

/* Clients are gone, and the binary log is about to be closed in order: the next start would not
   look into it, and leave what an engine that has stopped could not commit prepared for ever. So
   the server ends as in a crash, which InnoDB does at once when its log fails. */
void pre_shutdown()
{
#ifdef SLUICE_STAND_IN
  stop_statistics_writer();
#endif
  if (engine)
    end_in_cluster();
  /* A flush that fails stops the engine, too: the second one tells. */
  if (!engine || slc_engine_flush_log(engine) == SLC_OK || slc_engine_flush_log(engine) != SLC_POISONED)
    return;
  sql_print_error(SLUICE_ENGINE_NAME ": the engine has stopped, so the server ends as in a crash: the next start recovers, with the "
                  "binary log if there is one");
  fflush(stderr);
  _exit(1);
}

void set_callbacks()
{
  hton->create= create_handler;
  hton->flags= HTON_SUPPORTS_EXTENDED_KEYS | HTON_REQUIRES_CLOSE_AFTER_TRUNCATE | HTON_TRUNCATE_REQUIRES_EXCLUSIVE_USE;
  static const char *no_extensions[]= {nullptr};
  hton->tablefile_extensions= no_extensions;
  hton->table_options= table_options;
  hton->savepoint_offset= sizeof(Connection::Savepoint);
  hton->savepoint_set= savepoint_set;
  hton->savepoint_rollback= savepoint_rollback;
  hton->savepoint_release= savepoint_release;
  hton->savepoint_rollback_can_release_mdl= savepoint_rollback_can_release_mdl;
  hton->close_connection= close_connection;
  hton->kill_query= kill_query;
  hton->commit= commit;
  hton->rollback= rollback;
  hton->prepare= prepare;
  hton->commit_ordered= commit_ordered;
  set_xa_callbacks(hton);
  set_cluster_callbacks(hton);
  hton->commit_checkpoint_request= commit_checkpoint_request;
  hton->start_consistent_snapshot= start_consistent_snapshot;
  hton->flush_logs= flush_logs;
  hton->prepare_for_backup= prepare_for_backup;
  hton->end_backup= end_backup;
  hton->pre_shutdown= pre_shutdown;
  hton->show_status= show_status;
  hton->drop_table= drop_table;
  hton->drop_database= drop_database;
  hton->check_version= check_version;
  hton->signal_ddl_recovery_done= signal_ddl_recovery_done;
}

int init(void *plugin)
{
  hton= static_cast<handlerton *>(plugin);
  hide_directory();
  set_up_instruments();
  if (const char *why= refused_state_transfer())
  {
    sql_print_error(SLUICE_ENGINE_NAME ": Galera: %s", why);
    return 1;
  }
  slc_config config{};
#ifdef SLUICE_STAND_IN
  take_innodb_options();
#endif
  fill_config(&config);
  config.log= log_note;
  config.key_text= KeyTexts::text_for_engine;
  config.table_text= table_text;
  if (const slc_err error= slc_engine_open(&config, &engine))
  {
    char text[512];
    slc_error_text(text, sizeof text);
    sql_print_error(SLUICE_ENGINE_NAME ": cannot open %s: %s (error %d)", settings.directory, text, error);
    engine= nullptr;
    keep_what_tc_log_decided();
    return 1;
  }
  apply_settings();
  in_ddl_recovery= true;
  note_partitions_without_list();
  set_callbacks();
  constexpr ulonglong MIB= 1 << 20;
  sql_print_information(SLUICE_ENGINE_NAME ": %s is open: buffer pool %llu MiB, redo log %llu MiB, LSN %llu",
                        settings.directory, settings.buffer_pool_size / MIB, settings.redo_log_capacity / MIB,
                        static_cast<ulonglong>(slc_engine_lsn(engine)));
  keep_what_tc_log_decided();
  begin_in_cluster();
  return 0;
}

int deinit(void *)
{
  stop_keeping_huge_pages();
#ifdef SLUICE_STAND_IN
  stop_statistics_writer();
#endif
  end_turns();
  if (engine)
  {
    sql_print_information(SLUICE_ENGINE_NAME ": shutting down (fast_shutdown=%u), LSN %llu", settings.fast_shutdown,
                          static_cast<ulonglong>(slc_engine_lsn(engine)));
    /* An error is in the log already. */
    if (settings.buffer_pool_dump_at_shutdown && settings.fast_shutdown != 2)
      slc_page_list_dump(engine, settings.buffer_pool_filename, settings.buffer_pool_dump_pct, 1);
    slc_engine_close(engine, settings.fast_shutdown);
  }
  engine= nullptr;
  return 0;
}

struct st_mysql_storage_engine storage_engine= {MYSQL_HANDLERTON_INTERFACE_VERSION};

} // namespace
} // namespace sluice

/* Names of InnoDB's tables. From MariaDB 11.8 on, a server without its InnoDB keeps them, and they
   are empty. Two tables of a name cannot be. */
#if defined SLUICE_STAND_IN && MYSQL_VERSION_ID >= 110800
#define SLUICE_SHARED_PREFIX "SLUICE"
#else
#define SLUICE_SHARED_PREFIX SLUICE_TABLE_PREFIX
#endif
#define NAMED_TABLE(name, text, init)                                                                                  \
  {                                                                                                                    \
    MYSQL_INFORMATION_SCHEMA_PLUGIN, &sluice::information_schema, name, "Sluice contributors", text,                   \
    PLUGIN_LICENSE_GPL, sluice::init, nullptr, 0x0001, nullptr, nullptr, "0.1",                                        \
    MariaDB_PLUGIN_MATURITY_EXPERIMENTAL                                                                               \
  }
#define INFORMATION_SCHEMA_TABLE(name, text, init) NAMED_TABLE(SLUICE_TABLE_PREFIX name, text, init)
#define SHARED_TABLE(name, text, init) NAMED_TABLE(SLUICE_SHARED_PREFIX name, text, init)

maria_declare_plugin(sluice)
{
  MYSQL_STORAGE_ENGINE_PLUGIN,
  &sluice::storage_engine,
  SLUICE_ENGINE_NAME,
  "Sluice contributors",
  "Transactions, row versions and row locks over B+trees; for tables larger than memory that are written hard",
  PLUGIN_LICENSE_GPL,
  sluice::init,
  sluice::deinit,
  0x0001,
  sluice::SLUICE_STATUS,
  sluice::SLUICE_VARIABLES,
  "0.1",
  MariaDB_PLUGIN_MATURITY_EXPERIMENTAL
},
SHARED_TABLE("_BUFFER_POOL_STATS", "The buffer pool: its pages, and what was read and written", buffer_pool_stats_init),
INFORMATION_SCHEMA_TABLE("_CHANGE_BUFFER", "Changes of secondary indexes that wait to be merged, index by index", change_buffer_table_init),
SHARED_TABLE("_TRX", "Transactions, what they do and what they wait for", trx_table_init),
SHARED_TABLE("_LOCKS", "Locks that are held or waited for", locks_table_init),
SHARED_TABLE("_LOCK_WAITS", "Which lock is waited for, and which one is in its way", lock_waits_table_init),
INFORMATION_SCHEMA_TABLE("_TABLE_STATS", "Statistics for the optimizer, table by table", table_stats_init),
INFORMATION_SCHEMA_TABLE("_INDEX_STATS", "Statistics for the optimizer, prefix by prefix of each index", index_stats_init),
INFORMATION_SCHEMA_TABLE("_TABLES", "Tables, their files and sizes", tables_table_init),
INFORMATION_SCHEMA_TABLE("_INDEXES", "Indexes of all tables", indexes_table_init),
INFORMATION_SCHEMA_TABLE("_TABLESPACES", "Files of the engine's directory, and which table has which", tablespaces_table_init),
#ifdef SLUICE_STAND_IN
#if MYSQL_VERSION_ID < 110800
#define EMPTY_TABLE(NAME, SHOWN) SHARED_TABLE("_" #SHOWN, "As InnoDB's; always empty", innodb_##NAME##_init),
INNODB_EMPTY_TABLES(EMPTY_TABLE)
SHARED_TABLE("_CMP", "Compressed pages: none", innodb_cmp_init),
SHARED_TABLE("_CMP_RESET", "Compressed pages: none", innodb_cmp_reset_init),
SHARED_TABLE("_CMPMEM", "Compressed pages in the buffer pool: none", innodb_cmpmem_init),
SHARED_TABLE("_CMPMEM_RESET", "Compressed pages in the buffer pool: none", innodb_cmpmem_reset_init),
#endif
SHARED_TABLE("_METRICS", "Every counter, with what it means", innodb_metrics_init),
SHARED_TABLE("_SYS_TABLES", "Tables", innodb_sys_tables_init),
SHARED_TABLE("_SYS_TABLESTATS", "What is in memory of each table", innodb_sys_tablestats_init),
SHARED_TABLE("_SYS_INDEXES", "Indexes of all tables", innodb_sys_indexes_init),
SHARED_TABLE("_SYS_COLUMNS", "The columns of tables", innodb_sys_columns_init),
SHARED_TABLE("_SYS_FIELDS", "The columns of indexes", innodb_sys_fields_init),
SHARED_TABLE("_SYS_TABLESPACES", "Data files", innodb_sys_tablespaces_init),
SHARED_TABLE("_SYS_FOREIGN", "Foreign keys of all tables", foreign_init),
SHARED_TABLE("_SYS_FOREIGN_COLS", "The columns of foreign keys", foreign_columns_init)
#else
INFORMATION_SCHEMA_TABLE("_METRICS", "Every counter, with what it means", metrics_table_init),
INFORMATION_SCHEMA_TABLE("_FOREIGN", "Foreign keys of all tables", foreign_init),
INFORMATION_SCHEMA_TABLE("_FOREIGN_COLS", "The columns of foreign keys", foreign_columns_init)
#endif
maria_declare_plugin_end;

/* The system variables. Sizes are bytes unless the help text says otherwise. Those that the engine can change while it
   runs go through slc_engine_set() under their own name. */
#include "engine.h"
#include "settings.h"
#include <algorithm>
#include <cctype>
#include <string>

namespace sluice {

Settings settings;

namespace {

/* As users write it. */
std::string full_name(const char *name)
{
  std::string full= SLUICE_ENGINE_NAME "_";
  std::transform(full.begin(), full.end(), full.begin(), [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return full + name;
}

void set_in_engine(const char *name, ulonglong value)
{
  if (!engine)
    return;
  const slc_err error= slc_engine_set(engine, name, value);
  if (error == SLC_OK)
    return;
  char text[256];
  slc_error_text(text, sizeof text);
  my_printf_error(ER_UNKNOWN_ERROR, "%s: %s", MYF(ME_WARNING), full_name(name).c_str(), text);
}

#define UPDATE_FUNCTION(NAME, TYPE)                                                                                    \
  void update_##NAME(THD *, st_mysql_sys_var *, void *to, const void *from)                                            \
  {                                                                                                                    \
    *static_cast<TYPE *>(to)= *static_cast<const TYPE *>(from);                                                        \
    set_in_engine(#NAME, settings.NAME);                                                                               \
  }
UPDATE_FUNCTION(redo_log_capacity, ulonglong)
UPDATE_FUNCTION(flush_log_at_trx_commit, ulong)
UPDATE_FUNCTION(verify, my_bool)
UPDATE_FUNCTION(sort_buffer_size, ulonglong)
UPDATE_FUNCTION(print_all_deadlocks, my_bool)
UPDATE_FUNCTION(purge_lag_warning, ulonglong)
UPDATE_FUNCTION(stats_sample_pages, uint)
UPDATE_FUNCTION(stats_persistent, my_bool)
UPDATE_FUNCTION(stats_auto_recalc, my_bool)
UPDATE_FUNCTION(change_buffering, ulong)
UPDATE_FUNCTION(change_buffer_max_size, uint)
UPDATE_FUNCTION(change_buffer_max_disk_size, ulonglong)
UPDATE_FUNCTION(change_buffer_max_age, uint)
UPDATE_FUNCTION(change_buffer_test_mode, uint)

/* io_capacity is never above io_capacity_max: the one that was not set follows. */
constexpr uint IO_CAPACITY_LIMIT= 10000000;

uint max_that_fits(uint io_capacity)
{
  return MY_MIN(2 * io_capacity, IO_CAPACITY_LIMIT);
}

void warn_of_change(const char *name, uint value)
{
  my_printf_error(ER_WRONG_ARGUMENTS, "%s is %u now: %s must not be above %s", MYF(ME_WARNING), full_name(name).c_str(), value,
                  full_name("io_capacity").c_str(), full_name("io_capacity_max").c_str());
}

void update_io_capacity(THD *, st_mysql_sys_var *, void *, const void *from)
{
  settings.io_capacity= *static_cast<const uint *>(from);
  if (settings.io_capacity > settings.io_capacity_max)
  {
    settings.io_capacity_max= max_that_fits(settings.io_capacity);
    set_in_engine("io_capacity_max", settings.io_capacity_max);
    warn_of_change("io_capacity_max", settings.io_capacity_max);
  }
  set_in_engine("io_capacity", settings.io_capacity);
}

void update_io_capacity_max(THD *, st_mysql_sys_var *, void *, const void *from)
{
  settings.io_capacity_max= *static_cast<const uint *>(from);
  if (settings.io_capacity > settings.io_capacity_max)
  {
    settings.io_capacity= settings.io_capacity_max;
    set_in_engine("io_capacity", settings.io_capacity);
    warn_of_change("io_capacity", settings.io_capacity);
  }
  set_in_engine("io_capacity_max", settings.io_capacity_max);
}

void update_change_buffer_drain(THD *, st_mysql_sys_var *, void *, const void *from)
{
  set_in_engine("change_buffer_drain", *static_cast<const my_bool *>(from));
}

/* Turning the log on writes all pages: others read and set variables meanwhile. Unlike the other settings this one fails
   with an error, and then keeps its value. Who turns it off is warned: he seldom reads the error log, which says it, too. */
void update_redo_log(THD *, st_mysql_sys_var *, void *to, const void *from)
{
  const my_bool wanted= *static_cast<const my_bool *>(from);
  mysql_mutex_unlock(&LOCK_global_system_variables);
  const slc_err error= engine ? slc_engine_set(engine, "redo_log", wanted) : SLC_OK;
  char text[256];
  if (error)
  {
    slc_error_text(text, sizeof text);
    my_printf_error(ER_UNKNOWN_ERROR, "%s: %s", MYF(0), full_name("redo_log").c_str(), text);
  }
  else if (!wanted)
    my_printf_error(ER_UNKNOWN_ERROR, "%s is OFF: a crash from now on costs ALL tables of " SLUICE_ENGINE_NAME ", which must then be restored or "
                    "loaded again. After the load: SET GLOBAL %s = ON, which returns when everything is durable", MYF(ME_WARNING),
                    full_name("redo_log").c_str(), full_name("redo_log").c_str());
  mysql_mutex_lock(&LOCK_global_system_variables);
  if (!error)
    *static_cast<my_bool *>(to)= wanted;
}

const char *flush_commit_names[]= {"0", "1", "2", nullptr};
TYPELIB flush_commit_typelib= {3, "", flush_commit_names, nullptr};
const char *change_buffering_names[]= {"none", "inserts", "deletes", "changes", "purges", "all", nullptr};
TYPELIB change_buffering_typelib= {6, "", change_buffering_names, nullptr};
const char *flush_method_names[]= {"O_DIRECT", "buffered", nullptr};
TYPELIB flush_method_typelib= {2, "", flush_method_names, nullptr};

MYSQL_THDVAR_UINT(lock_wait_timeout, PLUGIN_VAR_RQCMDARG,
  "Seconds a statement waits for a row lock before it gives up with error 1205 (0 = does not wait)",
  nullptr, nullptr, 50, 0, 100000000, 0);
MYSQL_THDVAR_BOOL(snapshot_isolation, PLUGIN_VAR_OPCMDARG,
  "At REPEATABLE READ, locking or changing a row that was changed since the transaction's snapshot is a conflict (error 1020). OFF: "
  "the newest committed version is taken, as InnoDB does with innodb_snapshot_isolation=OFF. Holds from the next transaction on",
  nullptr, nullptr, SLUICE_SNAPSHOT_ISOLATION_DEFAULT);

MYSQL_SYSVAR_STR(directory, settings.directory, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Directory of the engine's files; a relative one is below the data directory", nullptr, nullptr, "./#sluice");
MYSQL_SYSVAR_ULONGLONG(buffer_pool_size, settings.buffer_pool_size, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Memory for cached pages, in bytes", nullptr, nullptr, 128ULL << 20, 2ULL << 20, 1ULL << 46, 1 << 20);
MYSQL_SYSVAR_ULONGLONG(redo_log_capacity, settings.redo_log_capacity, PLUGIN_VAR_RQCMDARG,
  "Room on disk for redo that has not been checkpointed, in bytes", nullptr, update_redo_log_capacity,
  96ULL << 20, 4ULL << 20, 1ULL << 42, 1 << 20);
MYSQL_SYSVAR_ULONGLONG(redo_log_buffer_size, settings.redo_log_buffer_size, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Memory for redo that has not been written yet, in bytes", nullptr, nullptr, 16ULL << 20, 1ULL << 20, 1ULL << 32, 1 << 12);
MYSQL_SYSVAR_ULONGLONG(sort_buffer_size, settings.sort_buffer_size, PLUGIN_VAR_RQCMDARG,
  "Memory for sorting the entries of one index that is being built, in bytes; more is spilled to files",
  nullptr, update_sort_buffer_size, 16ULL << 20, 64ULL << 10, 1ULL << 32, 1 << 12);
MYSQL_SYSVAR_ENUM(flush_log_at_trx_commit, settings.flush_log_at_trx_commit, PLUGIN_VAR_OPCMDARG,
  "1: a commit is durable when it returns; 2: written at commit, synced every second; 0: written and synced every second",
  nullptr, update_flush_log_at_trx_commit, 1, &flush_commit_typelib);
MYSQL_SYSVAR_ENUM(flush_method, settings.flush_method, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "O_DIRECT: data files bypass the file system's cache; buffered: they use it", nullptr, nullptr,
  FLUSH_METHOD_DIRECT, &flush_method_typelib);
MYSQL_SYSVAR_UINT(io_capacity, settings.io_capacity, PLUGIN_VAR_RQCMDARG,
  "Pages a second that the page cleaner may write, and as many that merging of buffered changes may visit, a read and a write each", nullptr,
  update_io_capacity, 1000, 10, IO_CAPACITY_LIMIT, 0);
MYSQL_SYSVAR_UINT(io_capacity_max, settings.io_capacity_max, PLUGIN_VAR_RQCMDARG,
  "As io_capacity, when background work falls behind; it goes beyond that where writers would have to wait: as the log, or "
  "what may be buffered, is three quarters full", nullptr, update_io_capacity_max, 4000, 10, IO_CAPACITY_LIMIT, 0);
MYSQL_SYSVAR_UINT(read_io_threads, settings.read_io_threads, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Threads that serve asynchronous reads and writes", nullptr, nullptr, 4, 1, 64, 0);
MYSQL_SYSVAR_UINT(purge_threads, settings.purge_threads, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Threads that remove row versions nobody can see any more", nullptr, nullptr, 1, 1, 32, 0);
MYSQL_SYSVAR_UINT(open_files, settings.open_files, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Data files that are kept open, at most half of open_files_limit; more tables than that can be in use, their files are opened and "
  "closed in turn", nullptr,
  nullptr, 2000, 10, 1000000, 0);
MYSQL_SYSVAR_UINT(stats_sample_pages, settings.stats_sample_pages, PLUGIN_VAR_RQCMDARG,
  "Leaf pages of each index, and of each prefix of it, that are read to estimate how many different values it has. A table's "
  "STATS_SAMPLE_PAGES overrides it", nullptr, update_stats_sample_pages, 20, 1, 100000, 0);
MYSQL_SYSVAR_BOOL(stats_persistent, settings.stats_persistent, PLUGIN_VAR_OPCMDARG,
  "Statistics for the optimizer are kept over a restart. A table's STATS_PERSISTENT overrides it", nullptr,
  update_stats_persistent, true);
MYSQL_SYSVAR_BOOL(stats_auto_recalc, settings.stats_auto_recalc, PLUGIN_VAR_OPCMDARG,
  "Statistics for the optimizer are computed again in the background when a tenth of a table's rows has changed. A table's "
  "STATS_AUTO_RECALC overrides it", nullptr, update_stats_auto_recalc, true);
MYSQL_SYSVAR_UINT(fast_shutdown, settings.fast_shutdown, PLUGIN_VAR_OPCMDARG,
  "Shutdown: 0 purges and merges everything and flushes all pages, 1 flushes all pages, 2 flushes only the redo log",
  nullptr, nullptr, 1, 0, 2, 0);
MYSQL_SYSVAR_ENUM(autoinc_lock_mode, settings.autoinc_lock_mode, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "AUTO_INCREMENT: 0 every INSERT keeps others out until its statement ends; 1 only inserts of unknown length do; "
  "2 none does, values of concurrent statements interleave", nullptr, nullptr, 1, &flush_commit_typelib);
MYSQL_SYSVAR_BOOL(doublewrite, settings.doublewrite, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
  "Write pages twice, so that a page torn by a power failure can be restored", nullptr, nullptr, true);
MYSQL_SYSVAR_BOOL(read_only, settings.read_only, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
  "Statements that change tables of the engine are refused, and redo_log=OFF. The engine itself recovers, merges and writes "
  "checkpoints as ever: its files change", nullptr, nullptr, false);
MYSQL_SYSVAR_BOOL(verify, settings.verify, PLUGIN_VAR_OPCMDARG,
  "Costly checks of the engine's own structures while it runs; for tests", nullptr, update_verify, false);
MYSQL_SYSVAR_BOOL(rollback_on_timeout, settings.rollback_on_timeout, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
  "A lock wait timeout rolls the transaction back, not only the statement", nullptr, nullptr, false);
MYSQL_SYSVAR_ULONGLONG(purge_lag_warning, settings.purge_lag_warning, PLUGIN_VAR_RQCMDARG,
  "Ended transactions whose old row versions are not purged yet (Sluice_history_list_length), from which on the error log warns, once in ten "
  "minutes, and names the connection that holds purge back; 0: never", nullptr, update_purge_lag_warning, 1000000, 0, ULONGLONG_MAX, 0);
MYSQL_SYSVAR_BOOL(print_all_deadlocks, settings.print_all_deadlocks, PLUGIN_VAR_OPCMDARG,
  "Write every deadlock to the error log: statements, locks, who was rolled back. The latest are in SHOW ENGINE SLUICE STATUS anyway",
  nullptr, update_print_all_deadlocks, false);
MYSQL_SYSVAR_ENUM(change_buffering, settings.change_buffering, PLUGIN_VAR_RQCMDARG,
  "Changes of secondary indexes that are buffered when their page is not in memory: none, inserts, deletes (delete marks), "
  "changes (both), purges (delete marks and removals), all. A table's own CHANGE_BUFFERING goes before", nullptr, update_change_buffering, CHANGE_BUFFERING_DEFAULT,
  &change_buffering_typelib);
MYSQL_SYSVAR_UINT(change_buffer_max_size, settings.change_buffer_max_size, PLUGIN_VAR_RQCMDARG,
  "Share of the buffer pool, in percent, that newly buffered changes may take; for those on disk see change_buffer_max_disk_size", nullptr,
  update_change_buffer_max_size, 25, 0, 50, 0);
MYSQL_SYSVAR_ULONGLONG(change_buffer_max_disk_size, settings.change_buffer_max_disk_size, PLUGIN_VAR_RQCMDARG,
  "Bytes that buffered changes may take in all, on disk (Sluice_change_buffer_bytes_max), at least what change_buffer_max_size grants in memory "
  "and at most ten times that; as they come near it, writers merge some of them; 0: ten times", nullptr, update_change_buffer_max_disk_size, 0, 0, ULONGLONG_MAX, 0);
MYSQL_SYSVAR_BOOL(change_buffer_drain, settings.change_buffer_drain, PLUGIN_VAR_RQCMDARG,
  "SET GLOBAL ... = ON: everything that is buffered is merged in the background, at io_capacity_max; OFF ends that, and the usual merging goes on; as an option: once, at the "
  "start. It reads OFF all the while: Sluice_change_buffer_draining is 1 until the drain ends; how far it is say Sluice_change_buffer_entries, ..._drain_eta, the error log", nullptr, update_change_buffer_drain, false);
MYSQL_SYSVAR_UINT(change_buffer_max_age, settings.change_buffer_max_age, PLUGIN_VAR_RQCMDARG,
  "Seconds after which buffered changes are merged though the server is busy; 0: only when it is idle, when they are many, or on demand",
  nullptr, update_change_buffer_max_age, 600, 0, 100000000, 0);
MYSQL_SYSVAR_UINT(change_buffer_test_mode, settings.change_buffer_test_mode, PLUGIN_VAR_RQCMDARG,
  "For tests: 1 buffers every change that may be buffered, 2 every other key's, and merges come at random moments, too; 3 is as 1, and nothing "
  "is merged but on demand; 4 is as 1, and merges come for the usual reasons only", nullptr, update_change_buffer_test_mode, 0, 0, 4, 0);
MYSQL_SYSVAR_BOOL(redo_log, settings.redo_log, PLUGIN_VAR_OPCMDARG,
  "OFF: changes are not logged, for a load that can be begun again: a crash then costs ALL tables of the engine, and the next start "
  "refuses its files. ON: returns when everything is durable. A shutdown turns it on. Sluice_redo_log_enabled tells",
  nullptr, update_redo_log, true);

} // namespace

struct st_mysql_sys_var *system_variables[]= {
  MYSQL_SYSVAR(directory),
  MYSQL_SYSVAR(buffer_pool_size),
  MYSQL_SYSVAR(redo_log_capacity),
  MYSQL_SYSVAR(redo_log_buffer_size),
  MYSQL_SYSVAR(sort_buffer_size),
  MYSQL_SYSVAR(flush_log_at_trx_commit),
  MYSQL_SYSVAR(flush_method),
  MYSQL_SYSVAR(io_capacity),
  MYSQL_SYSVAR(io_capacity_max),
  MYSQL_SYSVAR(read_io_threads),
  MYSQL_SYSVAR(purge_threads),
  MYSQL_SYSVAR(open_files),
  MYSQL_SYSVAR(stats_sample_pages),
  MYSQL_SYSVAR(stats_persistent),
  MYSQL_SYSVAR(stats_auto_recalc),
  MYSQL_SYSVAR(fast_shutdown),
  MYSQL_SYSVAR(autoinc_lock_mode),
  MYSQL_SYSVAR(doublewrite),
  MYSQL_SYSVAR(read_only),
  MYSQL_SYSVAR(verify),
  MYSQL_SYSVAR(rollback_on_timeout),
  MYSQL_SYSVAR(snapshot_isolation),
  MYSQL_SYSVAR(purge_lag_warning),
  MYSQL_SYSVAR(print_all_deadlocks),
  MYSQL_SYSVAR(change_buffering),
  MYSQL_SYSVAR(change_buffer_max_size),
  MYSQL_SYSVAR(change_buffer_max_disk_size),
  MYSQL_SYSVAR(change_buffer_drain),
  MYSQL_SYSVAR(change_buffer_max_age),
  MYSQL_SYSVAR(change_buffer_test_mode),
  MYSQL_SYSVAR(redo_log),
  MYSQL_SYSVAR(lock_wait_timeout),
  nullptr
};

/* Whether the statement that is running has set the variable for itself (SET STATEMENT ... FOR). */
static bool is_set_by_statement(const THD *thd, const char *variable)
{
  List_iterator_fast<set_var_base> saved(thd->lex->old_var_list);
  while (const set_var_base *const value= saved++)
    if (!strcmp(static_cast<const set_var *>(value)->var->name.str, variable))
      return true;
  return false;
}

bool snapshot_isolation(THD *thd) { return THDVAR(thd, snapshot_isolation); }

uint32 lock_wait_timeout_ms(THD *thd)
{
  const ulonglong of_session= THDVAR(thd, lock_wait_timeout);
  const ulonglong of_server= thd->variables.lock_wait_timeout;
  const bool of_statement= !thd->lex->old_var_list.is_empty() && is_set_by_statement(thd, "lock_wait_timeout") &&
                           !is_set_by_statement(thd, full_name("lock_wait_timeout").c_str());
  const ulonglong seconds= of_statement ? of_server : MY_MIN(of_session, of_server);
  return static_cast<uint32>(MY_MIN(seconds * 1000, UINT_MAX32));
}

void fill_config(slc_config *config)
{
  if (settings.io_capacity > settings.io_capacity_max)
  {
    settings.io_capacity_max= max_that_fits(settings.io_capacity);
    sql_print_warning(SLUICE_ENGINE_NAME ": %s is %u: the %u of %s must not be above it", full_name("io_capacity_max").c_str(),
                      settings.io_capacity_max, settings.io_capacity, full_name("io_capacity").c_str());
  }
  config->dir= settings.directory;
  config->buffer_pool_size= settings.buffer_pool_size;
  config->redo_log_capacity= settings.redo_log_capacity;
  config->redo_log_buffer_size= settings.redo_log_buffer_size;
  config->flush_log_at_trx_commit= static_cast<uint32_t>(settings.flush_log_at_trx_commit);
  config->io_capacity= settings.io_capacity;
  config->io_capacity_max= settings.io_capacity_max;
  config->read_io_threads= settings.read_io_threads;
  config->purge_threads= settings.purge_threads;
  /* The other half of the descriptors is for the server. */
  config->open_files= MY_MIN(settings.open_files, static_cast<uint>(open_files_limit / 2));
  config->doublewrite= settings.doublewrite;
  config->direct_io= settings.flush_method == FLUSH_METHOD_DIRECT;
  config->read_only= settings.read_only;
  config->verify= settings.verify;
  config->sort_buffer_size= settings.sort_buffer_size;
}

void apply_settings()
{
  set_in_engine("purge_lag_warning", settings.purge_lag_warning);
  set_in_engine("stats_sample_pages", settings.stats_sample_pages);
  set_in_engine("stats_persistent", settings.stats_persistent);
  set_in_engine("stats_auto_recalc", settings.stats_auto_recalc);
  set_in_engine("print_all_deadlocks", settings.print_all_deadlocks);
  set_in_engine("change_buffering", settings.change_buffering);
  set_in_engine("change_buffer_max_size", settings.change_buffer_max_size);
  set_in_engine("change_buffer_max_disk_size", settings.change_buffer_max_disk_size);
  set_in_engine("change_buffer_max_age", settings.change_buffer_max_age);
  set_in_engine("change_buffer_test_mode", settings.change_buffer_test_mode);
  set_in_engine("redo_log", settings.redo_log);
  if (settings.change_buffer_drain)
  {
    /* Of the options: once, and it reads OFF like any other. */
    set_in_engine("change_buffer_drain", true);
    settings.change_buffer_drain= false;
  }
}

} // namespace sluice

/* The system variables. Their names, ranges, defaults and help texts are in settings_table.inc,
   which comes from the engine's table of settings (engine/src/engine/config.rs). Variables that the
   engine can change while it runs go through slc_engine_set() under their own name. */
#include "engine.h"
#include "settings.h"
#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

namespace sluice {

Settings settings;

std::string variable_name(const char *name)
{
  std::string full= SLUICE_ENGINE_NAME "_";
  std::transform(full.begin(), full.end(), full.begin(), [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
#ifdef SLUICE_STAND_IN
  return full + innodb_name_of(name);
#else
  return full + name;
#endif
}

namespace {

void set_in_engine(const char *name, ulonglong value)
{
  if (!engine)
    return;
  const slc_err error= slc_engine_set(engine, name, value);
  if (error == SLC_OK)
    return;
  char text[256];
  slc_error_text(text, sizeof text);
  my_printf_error(ER_UNKNOWN_ERROR, "%s: %s", MYF(ME_WARNING), variable_name(name).c_str(), text);
}

/* Update functions of the variables that the engine takes as they are. */
#define UPDATE_AT_START(NAME, TYPE)
#define UPDATE_AT_USE(NAME, TYPE)
#define UPDATE_BY_OWN_CODE(NAME, TYPE)
#define UPDATE_THROUGH_ENGINE(NAME, TYPE)                                                                              \
  void update_##NAME(THD *, st_mysql_sys_var *, void *to, const void *from)                                            \
  {                                                                                                                    \
    *static_cast<TYPE *>(to)= *static_cast<const TYPE *>(from);                                                        \
    set_in_engine(#NAME, settings.NAME);                                                                               \
  }
#define SLUICE_LONG(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, MIN, MAX, BLOCK, HELP) UPDATE_##CHANGE(NAME, ulonglong)
#define SLUICE_INT(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, MIN, MAX, HELP) UPDATE_##CHANGE(NAME, uint)
#define SLUICE_FLAG(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, HELP) UPDATE_##CHANGE(NAME, my_bool)
#define SLUICE_CHOICE(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, HELP, ...) UPDATE_##CHANGE(NAME, ulong)
#define SLUICE_TEXT(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, HELP)
#include "settings_table.inc"

/* The upper limits of their ranges. */
#define SLUICE_INT(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, MIN, MAX, HELP) constexpr uint limit_of_##NAME= MAX;
#include "settings_table.inc"

/* Update functions of the others: those that do more. */

/* io_capacity is never above io_capacity_max: the one that was not set follows. */
uint max_that_fits(uint io_capacity) { return MY_MIN(2 * io_capacity, limit_of_io_capacity_max); }

void warn_of_change(const char *name, uint value)
{
  my_printf_error(ER_WRONG_ARGUMENTS, "%s is %u now: %s must not be above %s", MYF(ME_WARNING), variable_name(name).c_str(), value,
                  variable_name("io_capacity").c_str(), variable_name("io_capacity_max").c_str());
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

/* Turning the log on writes all pages; other connections read and set variables meanwhile. Unlike
   the other settings this one fails with an error, and then keeps its value. Turning it off gives a
   warning to the client, which seldom sees the same text in the error log. */
void update_redo_log(THD *, st_mysql_sys_var *, void *to, const void *from)
{
  const my_bool wanted= *static_cast<const my_bool *>(from);
  mysql_mutex_unlock(&LOCK_global_system_variables);
  const slc_err error= engine ? slc_engine_set(engine, "redo_log", wanted) : SLC_OK;
  char text[256];
  if (error)
  {
    slc_error_text(text, sizeof text);
    my_printf_error(ER_UNKNOWN_ERROR, "%s: %s", MYF(0), variable_name("redo_log").c_str(), text);
  }
  else if (!wanted)
    my_printf_error(ER_UNKNOWN_ERROR, "%s is OFF: a crash from now on costs ALL tables of " SLUICE_ENGINE_NAME ", which must then be restored or "
                    "loaded again. After the load: SET GLOBAL %s = ON, which returns when everything is durable", MYF(ME_WARNING),
                    variable_name("redo_log").c_str(), variable_name("redo_log").c_str());
  mysql_mutex_lock(&LOCK_global_system_variables);
  if (!error)
    *static_cast<my_bool *>(to)= wanted;
}

uint8_t is_killed(void *thd) { return thd_kill_level(static_cast<THD *>(thd)) != THD_IS_NOT_KILLED; }

void complain(const char *name)
{
  char text[512];
  slc_error_text(text, sizeof text);
  my_printf_error(ER_UNKNOWN_ERROR, "%s: %s", MYF(0), variable_name(name).c_str(), text);
}

/* Only this statement waits for a shrink. After an error the variable has its old value, as the
   pool has its old size. */
void update_buffer_pool_size(THD *thd, st_mysql_sys_var *, void *to, const void *from)
{
  const ulonglong wanted= *static_cast<const ulonglong *>(from);
  mysql_mutex_unlock(&LOCK_global_system_variables);
  const slc_err error= engine ? slc_pool_resize(engine, wanted, is_killed, thd) : SLC_OK;
  if (error)
    complain("buffer_pool_size");
  mysql_mutex_lock(&LOCK_global_system_variables);
  if (!error)
    *static_cast<ulonglong *>(to)= wanted;
}

void update_buffer_pool_dump_now(THD *, st_mysql_sys_var *, void *, const void *from)
{
  if (!*static_cast<const my_bool *>(from) || !engine)
    return;
  /* The list is synced to disk: other connections need not wait for that. */
  const uint percent= settings.buffer_pool_dump_pct;
  mysql_mutex_unlock(&LOCK_global_system_variables);
  if (slc_page_list_dump(engine, settings.buffer_pool_filename, percent, 0))
    complain("buffer_pool_dump_now");
  mysql_mutex_lock(&LOCK_global_system_variables);
}

void update_buffer_pool_load_now(THD *, st_mysql_sys_var *, void *, const void *from)
{
  if (*static_cast<const my_bool *>(from) && engine && slc_page_list_load(engine, settings.buffer_pool_filename, 0))
    complain("buffer_pool_load_now");
}

void update_buffer_pool_load_abort(THD *, st_mysql_sys_var *, void *, const void *from)
{
  if (*static_cast<const my_bool *>(from) && engine)
    slc_page_list_abort(engine);
}

/* A backup begins, or ends early. Other connections read and set variables meanwhile. */
void update_backup_to(THD *, st_mysql_sys_var *, void *, const void *from)
{
  const char *pipe= *static_cast<const char *const *>(from);
  const std::string path= pipe ? pipe : "";
  if (!engine)
    return;
  mysql_mutex_unlock(&LOCK_global_system_variables);
  if (path.empty())
    slc_backup_cancel(engine);
  else if (slc_backup_start(engine, path.c_str()))
    complain("backup_to");
  mysql_mutex_lock(&LOCK_global_system_variables);
}

/* The variables. */
#define FLAGS_AT_START PLUGIN_VAR_READONLY
#define FLAGS_AT_USE 0
#define FLAGS_BY_OWN_CODE 0
#define FLAGS_THROUGH_ENGINE 0
#define FUNCTION_AT_START(NAME) nullptr
#define FUNCTION_AT_USE(NAME) nullptr
#define FUNCTION_BY_OWN_CODE(NAME) update_##NAME
#define FUNCTION_THROUGH_ENGINE(NAME) update_##NAME
#define SLUICE_LONG(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, MIN, MAX, BLOCK, HELP)                                     \
  MYSQL_SYSVAR_ULONGLONG(NAME, settings.NAME, ARGUMENT | FLAGS_##CHANGE, HELP, nullptr, FUNCTION_##CHANGE(NAME),       \
                         DEFAULT, MIN, MAX, BLOCK);
#define SLUICE_INT(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, MIN, MAX, HELP)                                             \
  MYSQL_SYSVAR_UINT(NAME, settings.NAME, ARGUMENT | FLAGS_##CHANGE, HELP, nullptr, FUNCTION_##CHANGE(NAME), DEFAULT,   \
                    MIN, MAX, 0);
#define SLUICE_FLAG(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, HELP)                                                      \
  MYSQL_SYSVAR_BOOL(NAME, settings.NAME, ARGUMENT | FLAGS_##CHANGE, HELP, nullptr, FUNCTION_##CHANGE(NAME), DEFAULT);
#define SLUICE_CHOICE(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, HELP, ...)                                               \
  const char *NAME##_words[]= {__VA_ARGS__, nullptr};                                                                  \
  TYPELIB NAME##_typelib= {array_elements(NAME##_words) - 1, "", NAME##_words, nullptr};                               \
  MYSQL_SYSVAR_ENUM(NAME, settings.NAME, ARGUMENT | FLAGS_##CHANGE, HELP, nullptr, FUNCTION_##CHANGE(NAME), DEFAULT,   \
                    &NAME##_typelib);
#define SLUICE_TEXT(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, HELP)                                                      \
  MYSQL_SYSVAR_STR(NAME, settings.NAME, ARGUMENT | FLAGS_##CHANGE, HELP, nullptr, FUNCTION_##CHANGE(NAME), DEFAULT);
#define SLUICE_SESSION_INT(NAME, ARGUMENT, DEFAULT, MIN, MAX, HELP)                                                    \
  MYSQL_THDVAR_UINT(NAME, ARGUMENT, HELP, nullptr, nullptr, DEFAULT, MIN, MAX, 0);
#define SLUICE_SESSION_FLAG(NAME, ARGUMENT, DEFAULT, HELP)                                                             \
  MYSQL_THDVAR_BOOL(NAME, ARGUMENT, HELP, nullptr, nullptr, DEFAULT);
#include "settings_table.inc"

} // namespace

struct st_mysql_sys_var *system_variables[]= {
#define SLUICE_LONG(NAME, ...) MYSQL_SYSVAR(NAME),
#define SLUICE_INT(NAME, ...) MYSQL_SYSVAR(NAME),
#define SLUICE_FLAG(NAME, ...) MYSQL_SYSVAR(NAME),
#define SLUICE_CHOICE(NAME, ...) MYSQL_SYSVAR(NAME),
#define SLUICE_TEXT(NAME, ...) MYSQL_SYSVAR(NAME),
#define SLUICE_SESSION_INT(NAME, ...) MYSQL_SYSVAR(NAME),
#define SLUICE_SESSION_FLAG(NAME, ...) MYSQL_SYSVAR(NAME),
#include "settings_table.inc"
  nullptr
};

#ifdef SLUICE_STAND_IN

/* Of those that InnoDB has under another name, or with other values. */
template <typename T> ulonglong number_of(const void *value) { return static_cast<ulonglong>(*static_cast<const T *>(value)); }
template <typename T> void put_number(void *value, ulonglong number) { *static_cast<T *>(value)= static_cast<T>(number); }

template <typename T>
static OwnSetting own_setting(const char *name, T *value, mysql_var_update_func update, bool at_start, ulonglong min, ulonglong max)
{
  return {name, value, update, at_start, min, max, number_of<T>, put_number<T>};
}

#define IS_AT_START_AT_START true
#define IS_AT_START_AT_USE false
#define IS_AT_START_BY_OWN_CODE false
#define IS_AT_START_THROUGH_ENGINE false

const OwnSetting *find_own_setting(const char *name)
{
  static const OwnSetting all[]= {
#define SLUICE_LONG(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, MIN, MAX, BLOCK, HELP)                                     \
  own_setting(#NAME, &settings.NAME, FUNCTION_##CHANGE(NAME), IS_AT_START_##CHANGE, MIN, MAX),
#define SLUICE_INT(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, MIN, MAX, HELP)                                             \
  own_setting(#NAME, &settings.NAME, FUNCTION_##CHANGE(NAME), IS_AT_START_##CHANGE, MIN, MAX),
#define SLUICE_CHOICE(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, HELP, ...)                                               \
  own_setting(#NAME, &settings.NAME, FUNCTION_##CHANGE(NAME), IS_AT_START_##CHANGE, 0, NAME##_typelib.count - 1),
#include "settings_table.inc"
  };
  for (const OwnSetting &setting : all)
    if (!strcmp(setting.name, name))
      return &setting;
  return nullptr;
}

void OwnSetting::start(ulonglong number) const { put(value, in_range(number)); }

void OwnSetting::change(THD *thd, ulonglong number) const
{
  ulonglong copy= 0;
  put(&copy, in_range(number));
  if (update)
    update(thd, nullptr, value, &copy);
  else
    put(value, in_range(number));
}

#endif

/* Whether the statement that is running has set the variable for itself (SET STATEMENT ... FOR). */
static bool is_set_by_statement(const THD *thd, const char *variable)
{
  List_iterator_fast<set_var_base> saved(thd->lex->old_var_list);
  while (const set_var_base *const value= saved++)
    if (!strcmp(static_cast<const set_var *>(value)->var->name.str, variable))
      return true;
  return false;
}

bool strict_mode(THD *thd) { return THDVAR(thd, strict_mode); }
bool backup_stage(THD *thd) { return THDVAR(thd, backup_stage); }
bool snapshot_isolation(THD *thd) { return THDVAR(thd, snapshot_isolation); }

uint32 lock_wait_timeout_ms(THD *thd)
{
  const ulonglong of_session= THDVAR(thd, lock_wait_timeout);
  const ulonglong of_server= thd->variables.lock_wait_timeout;
  const bool of_statement= !thd->lex->old_var_list.is_empty() && is_set_by_statement(thd, "lock_wait_timeout") &&
                           !is_set_by_statement(thd, variable_name("lock_wait_timeout").c_str());
  const ulonglong seconds= of_statement ? of_server : MY_MIN(of_session, of_server);
  return static_cast<uint32>(MY_MIN(seconds * 1000, UINT_MAX32));
}

void fill_config(slc_config *config)
{
  if (settings.io_capacity > settings.io_capacity_max)
  {
    settings.io_capacity_max= max_that_fits(settings.io_capacity);
    sql_print_warning(SLUICE_ENGINE_NAME ": %s is %u: the %u of %s must not be above it", variable_name("io_capacity_max").c_str(),
                      settings.io_capacity_max, settings.io_capacity, variable_name("io_capacity").c_str());
  }
  config->dir= settings.directory;
  config->read_only= settings.read_only;
#define GIVEN_ENGINE(NAME) {#NAME, static_cast<uint64_t>(settings.NAME)},
#define GIVEN_ACTION(NAME)
#define GIVEN_SERVER(NAME)
#define SLUICE_LONG(NAME, OWNER, ...) GIVEN_##OWNER(NAME)
#define SLUICE_INT(NAME, OWNER, ...) GIVEN_##OWNER(NAME)
#define SLUICE_FLAG(NAME, OWNER, ...) GIVEN_##OWNER(NAME)
#define SLUICE_CHOICE(NAME, OWNER, ...) GIVEN_##OWNER(NAME)
  static std::vector<slc_setting> given;
  given= {
#include "settings_table.inc"
    /* The other half of the descriptors is for the server. */
    {"open_files", MY_MIN(settings.open_files, static_cast<uint>(open_files_limit / 2))},
  };
  config->settings= given.data();
  config->setting_count= static_cast<uint32_t>(given.size());
}

void apply_settings()
{
  set_in_engine("redo_log", settings.redo_log);
  if (settings.buffer_pool_load_at_startup && slc_page_list_load(engine, settings.buffer_pool_filename, 1))
  {
    char text[512];
    slc_error_text(text, sizeof text);
    sql_print_warning(SLUICE_ENGINE_NAME ": the page list of the buffer pool is not used: %s", text);
  }
  if (settings.change_buffer_drain)
  {
    /* The option starts one drain. The variable reads OFF, as after SET GLOBAL. */
    set_in_engine("change_buffer_drain", true);
    settings.change_buffer_drain= false;
  }
}

} // namespace sluice

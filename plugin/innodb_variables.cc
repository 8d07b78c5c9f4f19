/* The variables of the stand-in: those of InnoDB, as innodb_variables.inc lists them. A variable
   that stands for a setting of Sluice gives its value to the setting. A variable without an effect
   makes one note in the error log, when it gets a value that is not its default. Compiled only for
   a plugin with InnoDB's name. Called by: hton (at the start), the server. */
#include "column_notes.h"
#include "engine.h"
#include "errors.h"
#include "settings.h"
#include "strfunc.h"
#include <algorithm>
#include <string>
#include <vector>

#ifdef SLUICE_STAND_IN

namespace sluice {

namespace {

/* ---- conversions: InnoDB's number to the setting's ---- */

ulonglong as_is(ulonglong number) { return number; }
/* InnoDB's 3 syncs the log twice for a commit with a binary log. Here 1 is as safe. */
ulonglong commit_flush(ulonglong number) { return number == 3 ? 1 : number; }
/* InnoDB's 3 leaves open transactions to the next start, as 1 does here. */
ulonglong shutdown_kind(ulonglong number) { return number == 3 ? 1 : number; }
/* The setting counts in whole MiB. */
ulonglong whole_mib(ulonglong number) { return number >> 20 << 20; }
ulonglong whole_pages(ulonglong number) { return number >> 12 << 12; }
/* fsync, O_DSYNC, littlesync and nosync go through the file system's cache. All of them are synced
   here. */
ulonglong method_of_files(ulonglong number)
{
  constexpr ulonglong O_DIRECT_OF_INNODB= 4;
  return number >= O_DIRECT_OF_INNODB ? 0 : 1;
}
/* As InnoDB, an option that is not given means twice io_capacity and at least 2000. */
ulonglong max_of_io(ulonglong number)
{
  return number == UINT_MAX32 ? MY_MAX(2 * static_cast<ulonglong>(settings.io_capacity), 2000) : number;
}
/* 0: as many as the default of our setting. */
ulonglong files_to_open(ulonglong number) { return number ? number : 2000; }

struct Conversion
{
  ulonglong (*to_setting)(ulonglong);
  /* The variable then shows the value of the setting. */
  bool is_shown;
};
constexpr Conversion AS_IS= {as_is, true}, MIB= {whole_mib, true}, PAGES4K= {whole_pages, true}, IO_MAX= {max_of_io, true},
                     OPEN_FILES= {files_to_open, true}, COMMIT_FLUSH= {commit_flush, false}, SHUTDOWN= {shutdown_kind, false},
                     FLUSH_METHOD= {method_of_files, false};

/* ---- a row of innodb_variables.inc ---- */

struct What
{
  const char *setting;                  /* nullptr: it is not a setting of Sluice */
  Conversion conversion;
  const char *why;                      /* it does nothing; nullptr: it does something */
};

struct Variable
{
  const char *name;
  What what;
  bool (*is_default)();
  ulonglong (*get)();
  void (*put)(ulonglong);
  bool noted= false;
};

extern Variable variables[];
extern const size_t variable_count;

Variable &variable(const char *name)
{
  return *std::find_if(variables, variables + variable_count, [name](const Variable &v) { return !strcmp(v.name, name); });
}

void note_no_effect(const char *name)
{
  Variable &ignored= variable(name);
  if (ignored.noted)
    return;
  ignored.noted= true;
  const std::string text= std::string(SLUICE_ENGINE_NAME ": ") + variable_name(name) + " has no effect: " + ignored.what.why;
  /* The user wants encryption, and data are not encrypted: a warning. */
  if (strstr(name, "encrypt"))
    sql_print_warning("%s", text.c_str());
  else
    sql_print_information("%s", text.c_str());
}

/* A change of one setting may change others: sets all variables to their settings' values. */
void show_settings()
{
  for (size_t i= 0; i < variable_count; i++)
    if (const char *name= variables[i].what.setting)
      if (variables[i].what.conversion.is_shown)
        variables[i].put(find_own_setting(name)->number());
}

uint64_t counter(const char *name)
{
  std::vector<uint64_t> values(slc_counter_count());
  slc_counter_values(engine, values.data());
  for (uint32_t i= 0; i < values.size(); i++)
    if (!strcmp(slc_counter_name(i), name))
      return values[i];
  return 0;
}

/* SET GLOBAL innodb_log_checkpoint_now, or a smaller innodb_max_dirty_pages_pct. Other connections
   read and set variables meanwhile. */
void write_dirty_pages()
{
  if (!engine || settings.read_only)
    return;
  mysql_mutex_unlock(&LOCK_global_system_variables);
  (void) report_error(slc_engine_checkpoint(engine));
  mysql_mutex_lock(&LOCK_global_system_variables);
}

uint64_t percent_of_dirty_pages()
{
  const uint64_t total= counter("buffer_pool_pages_total");
  return total ? 100 * counter("buffer_pool_pages_dirty") / total : 0;
}

/* SET GLOBAL innodb_max_purge_lag_wait. The server holds its mutex of all variables. KILL ends the
   wait. */
void wait_for_purge(THD *thd, ulonglong length)
{
  constexpr ulong PAUSE_US= 10000;
  if (settings.read_only)
    return;
  mysql_mutex_unlock(&LOCK_global_system_variables);
  while (counter("history_list_length") > length && thd_kill_level(thd) == THD_IS_NOT_KILLED)
    my_sleep(PAUSE_US);
  mysql_mutex_lock(&LOCK_global_system_variables);
}

/* In InnoDB's words: programs look for them. */
void note_size_of_log(ulonglong bytes)
{
  constexpr double MIB_BYTES= 1 << 20;
  sql_print_information(SLUICE_ENGINE_NAME ": Resized log to %.3fMiB", static_cast<double>(bytes) / MIB_BYTES);
}

void changed(THD *thd, const char *name)
{
  Variable &set= variable(name);
  if (!strcmp(name, "max_purge_lag_wait"))
  {
    wait_for_purge(thd, set.get());
    return set.put(UINT_MAX32);         // as in InnoDB, the value is of the statement alone
  }
  if (!strcmp(name, "log_checkpoint_now"))
  {
    const bool wanted= set.get();
    set.put(false);
    return wanted ? write_dirty_pages() : void();
  }
  if (!strcmp(name, "max_dirty_pages_pct"))
    return percent_of_dirty_pages() >= set.get() ? write_dirty_pages() : void();
  if (!set.what.setting)
    return set.is_default() || !set.what.why ? void() : note_no_effect(name);
  const OwnSetting &setting= *find_own_setting(set.what.setting);
  const ulonglong wanted= set.what.conversion.to_setting(set.get());
  if (!setting.at_start)
  {
    setting.change(thd, wanted);
    if (!strcmp(name, "log_file_size"))
      note_size_of_log(setting.number());
  }
  else if (setting.in_range(wanted) != setting.number())
    my_printf_error(ER_UNKNOWN_ERROR, "%s takes effect only at a start of the server: set it as an option", MYF(ME_WARNING | ME_ERROR_LOG),
                    variable_name(name).c_str());
  show_settings();
}

/* ---- the values, and what the server calls ---- */

/* Variables that are not options keep the initial value. */
struct Values
{
#define INNODB_FLAG(NAME, OPTIONS, DEFAULT, WHAT) my_bool NAME= DEFAULT;
#define INNODB_INT(NAME, OPTIONS, DEFAULT, ...) uint NAME= DEFAULT;
#define INNODB_LONG(NAME, OPTIONS, DEFAULT, ...) ulong NAME= DEFAULT;
#define INNODB_SIGNED(NAME, OPTIONS, DEFAULT, ...) long NAME= DEFAULT;
#define INNODB_REAL(NAME, OPTIONS, DEFAULT, ...) double NAME= DEFAULT;
#define INNODB_CHOICE(NAME, OPTIONS, DEFAULT, ...) ulong NAME= DEFAULT;
#define INNODB_TEXT(NAME, ...) char *NAME= nullptr;
#include "innodb_variables.inc"
} values;

#define UPDATE(NAME, TYPE)                                                                                             \
  void update_##NAME(THD *thd, st_mysql_sys_var *, void *to, const void *from)                                         \
  {                                                                                                                    \
    *static_cast<TYPE *>(to)= *static_cast<const TYPE *>(from);                                                        \
    changed(thd, #NAME);                                                                                               \
  }
/* Of a session: the value is for one connection. */
#define UPDATE_OF_SESSION(NAME, TYPE, DEFAULT)                                                                         \
  void update_##NAME(THD *, st_mysql_sys_var *, void *to, const void *from)                                            \
  {                                                                                                                    \
    *static_cast<TYPE *>(to)= *static_cast<const TYPE *>(from);                                                        \
    if (*static_cast<const TYPE *>(from) != static_cast<TYPE>(DEFAULT))                                                \
      note_no_effect(#NAME);                                                                                           \
  }
/* Texts are kept by the server (PLUGIN_VAR_MEMALLOC). */
#define CHECK(NAME, DEFAULT)                                                                                           \
  int check_##NAME(THD *thd, st_mysql_sys_var *, void *save, st_mysql_value *value)                                    \
  {                                                                                                                    \
    return check_text(thd, #NAME, DEFAULT, save, value);                                                               \
  }

/* Whether it names a table of stopwords, as InnoDB wants it: "database/table" as files are named,
   with a VARCHAR column `value`. */
bool is_table_of_stopwords(const std::string &name)
{
  static const uint64_t VARCHAR_OF_LATIN1= 1, VARCHAR= 12; // InnoDB's numbers of types
  slc_table *table;
  if (!engine || slc_table_open(engine, ("./" + name).c_str(), &table))
  {
    sql_print_error(SLUICE_ENGINE_NAME ": User stopword table %s does not exist.", name.c_str());
    return false;
  }
  const std::vector<ColumnNote> columns= column_notes(string_of(slc_table_schema(table)));
  slc_table_close(table);
  const bool fits= !columns.empty() && columns[0].name == "value" && (columns[0].type == VARCHAR_OF_LATIN1 || columns[0].type == VARCHAR);
  if (!fits)
    sql_print_error(SLUICE_ENGINE_NAME ": Invalid column name or type for stopword table %s. Its first column must be named as 'value'.",
                    name.c_str());
  return fits;
}

bool is_accepted(const char *name, const char *text)
{
  const bool names_stopwords= !strcmp(name, "ft_server_stopword_table") || !strcmp(name, "ft_user_stopword_table");
  return !names_stopwords || !text || !*text || is_table_of_stopwords(text);
}

/* Rows are compressed by zlib alone. But as in InnoDB, an algorithm is refused only if the server
   does not have it. */
bool is_accepted(THD *thd, const char *name, const char *word, ulong number)
{
  if (strcmp(name, "compression_algorithm") || !strcmp(word, "none") || !strcmp(word, "zlib"))
    return true;
  const std::string provider= std::string("provider_") + word;
  const LEX_CSTRING plugin= {provider.data(), provider.size()};
  if (plugin_is_ready(&plugin, MYSQL_ANY_PLUGIN))
    return true;
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_UNSUPPORTED,
                      SLUICE_ENGINE_NAME ": compression algorithm %s (%lu) is not available. Please, load the corresponding provider plugin.",
                      word, number);
  return false;
}

/* As the server does it without a function of the plugin's. */
int check_choice(THD *thd, const char *name, TYPELIB *words, void *save, st_mysql_value *value)
{
  longlong number;
  if (value->value_type(value) == MYSQL_VALUE_TYPE_STRING)
  {
    char buffer[STRING_BUFFER_USUAL_SIZE];
    int length= sizeof buffer;
    const char *text= value->val_str(value, buffer, &length);
    number= text ? find_type(words, text, static_cast<size_t>(length), false) - 1 : -1;
  }
  else if (value->val_int(value, &number))
    return 1;
  if (number < 0 || number >= static_cast<longlong>(words->count) ||
      !is_accepted(thd, name, words->type_names[number], static_cast<ulong>(number)))
    return 1;
  *static_cast<long *>(save)= static_cast<long>(number);
  return 0;
}

int check_text(THD *thd, const char *name, const char *by_default, void *save, st_mysql_value *value)
{
  char buffer[STRING_BUFFER_USUAL_SIZE];
  int length= sizeof buffer;
  const char *text= value->val_str(value, buffer, &length);
  if (text)
    text= thd_strmake(thd, text, length);
  if (!is_accepted(name, text))
    return 1;
  *static_cast<const char **>(save)= text;
  if (text && strcmp(text, by_default))
    note_no_effect(name);
  return 0;
}

#define INNODB_FLAG(NAME, OPTIONS, DEFAULT, WHAT) UPDATE(NAME, my_bool)
#define INNODB_INT(NAME, ...) UPDATE(NAME, uint)
#define INNODB_LONG(NAME, ...) UPDATE(NAME, ulong)
#define INNODB_SIGNED(NAME, ...) UPDATE(NAME, long)
#define INNODB_REAL(NAME, ...) UPDATE(NAME, double)
#define INNODB_CHOICE(NAME, ...) UPDATE(NAME, ulong)
#define INNODB_TEXT(NAME, OPTIONS, DEFAULT, WHAT) CHECK(NAME, DEFAULT)
#define INNODB_SESSION_FLAG(NAME, OPTIONS, DEFAULT, WHAT) UPDATE_OF_SESSION(NAME, my_bool, DEFAULT)
#define INNODB_SESSION_INT(NAME, OPTIONS, DEFAULT, MIN, MAX, BLOCK, WHAT) UPDATE_OF_SESSION(NAME, uint, DEFAULT)
#define INNODB_SESSION_TEXT(NAME, OPTIONS, DEFAULT, WHAT) CHECK(NAME, DEFAULT)
#include "innodb_variables.inc"

#define MAPPED(SETTING, CONVERSION) "The setting " #SETTING " of Sluice"
#define NO_EFFECT(WHY) "Has no effect: " WHY
#define OBEYED(WHAT) "As in InnoDB: " WHAT
#define INNODB_FLAG(NAME, OPTIONS, DEFAULT, WHAT) MYSQL_SYSVAR_BOOL(NAME, values.NAME, OPTIONS, WHAT, nullptr, update_##NAME, DEFAULT);
#define INNODB_INT(NAME, OPTIONS, DEFAULT, MIN, MAX, BLOCK, WHAT)                                                      \
  MYSQL_SYSVAR_UINT(NAME, values.NAME, OPTIONS, WHAT, nullptr, update_##NAME, DEFAULT, MIN, MAX, BLOCK);
#define INNODB_LONG(NAME, OPTIONS, DEFAULT, MIN, MAX, BLOCK, WHAT)                                                     \
  MYSQL_SYSVAR_ULONG(NAME, values.NAME, OPTIONS, WHAT, nullptr, update_##NAME, DEFAULT, MIN, MAX, BLOCK);
#define INNODB_SIGNED(NAME, OPTIONS, DEFAULT, MIN, MAX, BLOCK, WHAT)                                                   \
  MYSQL_SYSVAR_LONG(NAME, values.NAME, OPTIONS, WHAT, nullptr, update_##NAME, DEFAULT, MIN, MAX, BLOCK);
#define INNODB_REAL(NAME, OPTIONS, DEFAULT, MIN, MAX, WHAT)                                                            \
  MYSQL_SYSVAR_DOUBLE(NAME, values.NAME, OPTIONS, WHAT, nullptr, update_##NAME, DEFAULT, MIN, MAX, 0);
#define INNODB_CHOICE(NAME, OPTIONS, DEFAULT, WHAT, ...)                                                               \
  const char *NAME##_words[]= {__VA_ARGS__, nullptr};                                                                  \
  TYPELIB NAME##_typelib= {array_elements(NAME##_words) - 1, "", NAME##_words, nullptr};                               \
  int check_##NAME(THD *thd, st_mysql_sys_var *, void *save, st_mysql_value *value)                                    \
  {                                                                                                                    \
    return check_choice(thd, #NAME, &NAME##_typelib, save, value);                                                     \
  }                                                                                                                    \
  MYSQL_SYSVAR_ENUM(NAME, values.NAME, OPTIONS, WHAT, check_##NAME, update_##NAME, DEFAULT, &NAME##_typelib);
/* InnoDB's text variables are NULL, not empty. */
#define NULL_IF_EMPTY(TEXT) (sizeof(TEXT) == 1 ? nullptr : (TEXT))
#define INNODB_TEXT(NAME, OPTIONS, DEFAULT, WHAT)                                                                      \
  MYSQL_SYSVAR_STR(NAME, values.NAME, (OPTIONS) | PLUGIN_VAR_MEMALLOC, WHAT, check_##NAME, nullptr, NULL_IF_EMPTY(DEFAULT));
#define INNODB_SESSION_FLAG(NAME, OPTIONS, DEFAULT, WHAT) MYSQL_THDVAR_BOOL(NAME, OPTIONS, WHAT, nullptr, update_##NAME, DEFAULT);
#define INNODB_SESSION_INT(NAME, OPTIONS, DEFAULT, MIN, MAX, BLOCK, WHAT)                                              \
  MYSQL_THDVAR_UINT(NAME, OPTIONS, WHAT, nullptr, update_##NAME, DEFAULT, MIN, MAX, BLOCK);
#define INNODB_SESSION_TEXT(NAME, OPTIONS, DEFAULT, WHAT)                                                              \
  MYSQL_THDVAR_STR(NAME, (OPTIONS) | PLUGIN_VAR_MEMALLOC, WHAT, check_##NAME, nullptr, NULL_IF_EMPTY(DEFAULT));
#include "innodb_variables.inc"
#undef MAPPED
#undef NO_EFFECT
#undef OBEYED

/* ---- the table of all variables ---- */

bool is_text(const char *text, const char *by_default) { return !strcmp(text ? text : "", by_default); }

#define MAPPED(SETTING, CONVERSION) {#SETTING, CONVERSION, nullptr}
#define NO_EFFECT(WHY) {nullptr, AS_IS, WHY}
#define OBEYED(WHAT) {nullptr, AS_IS, nullptr}
#define NUMBER(NAME, TYPE, DEFAULT, ...)                                                                               \
  {#NAME, __VA_ARGS__, [] { return values.NAME == static_cast<TYPE>(DEFAULT); }, [] { return static_cast<ulonglong>(values.NAME); }, \
   [](ulonglong number) { values.NAME= static_cast<TYPE>(number); }},
#define INNODB_FLAG(NAME, OPTIONS, DEFAULT, WHAT) NUMBER(NAME, my_bool, DEFAULT, WHAT)
#define INNODB_INT(NAME, OPTIONS, DEFAULT, MIN, MAX, BLOCK, WHAT) NUMBER(NAME, uint, DEFAULT, WHAT)
#define INNODB_LONG(NAME, OPTIONS, DEFAULT, MIN, MAX, BLOCK, WHAT) NUMBER(NAME, ulong, DEFAULT, WHAT)
#define INNODB_SIGNED(NAME, OPTIONS, DEFAULT, MIN, MAX, BLOCK, WHAT) NUMBER(NAME, long, DEFAULT, WHAT)
#define INNODB_REAL(NAME, OPTIONS, DEFAULT, MIN, MAX, WHAT) NUMBER(NAME, double, DEFAULT, WHAT)
#define INNODB_CHOICE(NAME, OPTIONS, DEFAULT, WHAT, ...) NUMBER(NAME, ulong, DEFAULT, WHAT)
#define INNODB_TEXT(NAME, OPTIONS, DEFAULT, WHAT) {#NAME, WHAT, [] { return is_text(values.NAME, DEFAULT); }, nullptr, nullptr},
#define INNODB_SESSION_FLAG(NAME, OPTIONS, DEFAULT, WHAT)                                                              \
  {#NAME, WHAT, [] { return THDVAR(nullptr, NAME) == static_cast<my_bool>(DEFAULT); }, nullptr, nullptr},
#define INNODB_SESSION_INT(NAME, OPTIONS, DEFAULT, MIN, MAX, BLOCK, WHAT)                                              \
  {#NAME, WHAT, [] { return THDVAR(nullptr, NAME) == DEFAULT; }, nullptr, nullptr},
#define INNODB_SESSION_TEXT(NAME, OPTIONS, DEFAULT, WHAT)                                                              \
  {#NAME, WHAT, [] { return is_text(THDVAR(nullptr, NAME), DEFAULT); }, nullptr, nullptr},
Variable variables[]= {
#include "innodb_variables.inc"
};
#undef MAPPED
#undef NO_EFFECT
#undef OBEYED
const size_t variable_count= array_elements(variables);

st_mysql_sys_var *const innodb_variables[]= {
#define INNODB_FLAG(NAME, ...) MYSQL_SYSVAR(NAME),
#define INNODB_INT(NAME, ...) MYSQL_SYSVAR(NAME),
#define INNODB_LONG(NAME, ...) MYSQL_SYSVAR(NAME),
#define INNODB_SIGNED(NAME, ...) MYSQL_SYSVAR(NAME),
#define INNODB_REAL(NAME, ...) MYSQL_SYSVAR(NAME),
#define INNODB_CHOICE(NAME, ...) MYSQL_SYSVAR(NAME),
#define INNODB_TEXT(NAME, ...) MYSQL_SYSVAR(NAME),
#define INNODB_SESSION_FLAG(NAME, ...) MYSQL_SYSVAR(NAME),
#define INNODB_SESSION_INT(NAME, ...) MYSQL_SYSVAR(NAME),
#define INNODB_SESSION_TEXT(NAME, ...) MYSQL_SYSVAR(NAME),
#include "innodb_variables.inc"
};

constexpr size_t VARIABLES_MAX= 300;

/* True: InnoDB has a variable for this setting, so the setting gets no second one. */
bool is_taken(const char *setting)
{
  return std::any_of(variables, variables + variable_count, [setting](const Variable &v) {
    return !strcmp(v.name, setting) || (v.what.setting && !strcmp(v.what.setting, setting));
  });
}

/* The first members of each variable. The server's own struct for them is in no header. */
struct Header
{
  MYSQL_PLUGIN_VAR_HEADER;
};

/* When the plugin is loaded, before the server reads the list. */
struct List
{
  List()
  {
    size_t count= 0;
    for (st_mysql_sys_var *const variable : innodb_variables)
      stand_in_variables[count++]= variable;
    for (st_mysql_sys_var **own= system_variables; *own && count + 1 < VARIABLES_MAX; own++)
      if (!is_taken(reinterpret_cast<const Header *>(*own)->name))
        stand_in_variables[count++]= *own;
    stand_in_variables[count]= nullptr;
  }
};

} // namespace

struct st_mysql_sys_var *stand_in_variables[VARIABLES_MAX];

namespace {
const List list;
}

bool requires_primary_key() { return values.force_primary_key; }
enum row_type default_row_format()
{
  static const enum row_type formats[]= {ROW_TYPE_REDUNDANT, ROW_TYPE_COMPACT, ROW_TYPE_DYNAMIC};
  return formats[values.default_row_format];
}
int compression_level() { return static_cast<int>(values.compression_level); }
bool defragments() { return values.defragment; }
bool refuses_compressed_tables() { return values.read_only_compressed; }
uint instant_columns_allowed() { return static_cast<uint>(values.instant_alter_column_allowed); }
const char *instant_columns_word() { return instant_alter_column_allowed_words[instant_columns_allowed()]; }

std::string innodb_name_of(const std::string &setting)
{
  for (size_t i= 0; i < variable_count; i++)
    if (variables[i].what.setting && setting == variables[i].what.setting)
      return variables[i].name;
  return setting;
}

/* The engine's own texts name variables with the prefix sluice_, and counters with Sluice_. */
std::string in_names_of_innodb(const std::string &text)
{
  static const std::string VARIABLE= "sluice_", COUNTER= "Sluice_";
  std::string out;
  for (size_t at= 0; at < text.size();)
    if (!text.compare(at, VARIABLE.size(), VARIABLE))
    {
      at+= VARIABLE.size();
      const size_t end= MY_MIN(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", at), text.size());
      out+= "innodb_" + innodb_name_of(text.substr(at, end - at));
      at= end;
    }
    else if (!text.compare(at, COUNTER.size(), COUNTER))
    {
      out+= "Innodb_";
      at+= COUNTER.size();
    }
    else
      out+= text[at++];
  return out;
}

void take_innodb_options()
{
  if (values.open_files > open_files_limit)
    sql_print_warning(SLUICE_ENGINE_NAME ": innodb_open_files %lu should not be greater than the open_files_limit %lu", values.open_files,
                      static_cast<ulong>(open_files_limit));
  for (size_t i= 0; i < variable_count; i++)
    if (const char *name= variables[i].what.setting)
      find_own_setting(name)->start(variables[i].what.conversion.to_setting(variables[i].get()));
    else if (!variables[i].is_default() && variables[i].what.why)
      note_no_effect(variables[i].name);
  show_settings();
}

} // namespace sluice

#endif

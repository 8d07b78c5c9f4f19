/* The values of the system variables sluice_*, and what start-up makes of them. Defined in
   sysvars.cc.
   Read by: errors, connection, the handler files, hton. */
#ifndef SLUICE_SETTINGS_H
#define SLUICE_SETTINGS_H
#include "compat.h"
#include "sluice_abi.h"
#include <string>

namespace sluice {

/* A member for each variable that has no session value. */
struct Settings
{
#define SLUICE_LONG(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, MIN, MAX, BLOCK, HELP) unsigned long long NAME;
#define SLUICE_INT(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, MIN, MAX, HELP) unsigned int NAME;
#define SLUICE_FLAG(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, HELP) my_bool NAME;
#define SLUICE_CHOICE(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, HELP, ...) unsigned long NAME;
#define SLUICE_TEXT(NAME, OWNER, CHANGE, ARGUMENT, DEFAULT, HELP) char *NAME;
#include "settings_table.inc"
};

extern Settings settings;
extern struct st_mysql_sys_var *system_variables[];
extern struct st_mysql_show_var status_variables[];

#ifdef SLUICE_STAND_IN
/* A setting that InnoDB has with another name, type or default: its variable is InnoDB's. */
struct OwnSetting
{
  const char *name;
  void *value;                          /* in `settings` */
  mysql_var_update_func update;         /* may be nullptr */
  bool at_start;                        /* the engine asks for it at the start only */
  ulonglong min, max;
  ulonglong (*get)(const void *value);
  void (*put)(void *value, ulonglong number);

  ulonglong in_range(ulonglong number) const { return number < min ? min : number > max ? max : number; }
  ulonglong number() const { return get(value); }
  /* Before the engine is opened, and as SET GLOBAL does. */
  void start(ulonglong number) const;
  void change(THD *thd, ulonglong number) const;
};
const OwnSetting *find_own_setting(const char *name);

/* InnoDB's variables (innodb_variables.cc), and those of ours that InnoDB does not have. */
extern struct st_mysql_sys_var *stand_in_variables[];
/* Gives the values of the options to the settings, and notes options that do nothing. */
void take_innodb_options();
/* innodb_force_primary_key. */
bool requires_primary_key();
/* innodb_default_row_format. */
enum row_type default_row_format();
int compression_level();
/* innodb_defragment. */
bool defragments();
/* innodb_read_only_compressed. */
bool refuses_compressed_tables();
/* innodb_instant_alter_column_allowed, and its words. */
enum { INSTANT_NEVER, INSTANT_ADD_LAST, INSTANT_ALL };
uint instant_columns_allowed();
const char *instant_columns_word();
/* Of a setting: its variable's name without the prefix. */
std::string innodb_name_of(const std::string &setting);
/* A text of the engine, with the names of the variables and counters that there are. */
std::string in_names_of_innodb(const std::string &text);
#define SLUICE_VARIABLES stand_in_variables
/* Innodb_* (innodb_status.cc). */
extern struct st_mysql_show_var stand_in_status[];
#define SLUICE_STATUS stand_in_status
#else
#define SLUICE_VARIABLES system_variables
#define SLUICE_STATUS status_variables
#endif

/* How long a statement of this connection waits for a row lock. SELECT ... NOWAIT and WAIT n set
   the server's lock_wait_timeout (and InnoDB's, by name), each for its statement alone: then that
   is it. Else the smaller one of sluice_lock_wait_timeout and the server's. */
uint32 lock_wait_timeout_ms(THD *thd);
/* Of the session; a transaction keeps what held at its beginning. */
bool snapshot_isolation(THD *thd);
/* Of the session: options of a definition that the engine does not have are errors. */
bool strict_mode(THD *thd);
/* The session's sluice_backup_stage: its backup copies the engine's directory by itself. */
bool backup_stage(THD *thd);
/* As users write it: with the prefix. */
std::string variable_name(const char *name);
/* The settings that the engine is opened with; the caller fills in the callbacks. */
void fill_config(slc_config *config);
/* Settings that are actions of an open engine. */
void apply_settings();

} // namespace sluice
#endif

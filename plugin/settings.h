/* The values of the system variables sluice_*, and what start-up makes of them. Defined in sysvars.cc.
   Read by: errors, connection, the handler files, hton. */
#ifndef SLUICE_SETTINGS_H
#define SLUICE_SETTINGS_H
#include "compat.h"
#include "sluice_abi.h"

namespace sluice {

struct Settings
{
  char *directory;
  unsigned long long buffer_pool_size;
  unsigned long long redo_log_capacity;
  unsigned long long redo_log_buffer_size;
  unsigned long long sort_buffer_size;
  unsigned int io_capacity;
  unsigned int io_capacity_max;
  unsigned int read_io_threads;
  unsigned int purge_threads;
  unsigned int open_files;
  unsigned int stats_sample_pages;
  my_bool stats_persistent;
  my_bool stats_auto_recalc;
  unsigned int fast_shutdown;
  unsigned long flush_log_at_trx_commit;
  unsigned long flush_method;
  unsigned long autoinc_lock_mode;
  my_bool doublewrite;
  my_bool read_only;
  my_bool verify;
  my_bool rollback_on_timeout;
  ulonglong purge_lag_warning;
  my_bool print_all_deadlocks;
  ulong change_buffering;
  uint change_buffer_max_size;
  ulonglong change_buffer_max_disk_size;
  my_bool change_buffer_drain;
  uint change_buffer_max_age;
  uint change_buffer_test_mode;
  my_bool redo_log;
};

extern Settings settings;
extern struct st_mysql_sys_var *system_variables[];
extern struct st_mysql_show_var status_variables[];

enum { FLUSH_METHOD_DIRECT= 0, FLUSH_METHOD_BUFFERED= 1 };
enum { CHANGE_BUFFERING_NONE= 0, CHANGE_BUFFERING_ALL= 5, CHANGE_BUFFERING_DEFAULT= CHANGE_BUFFERING_ALL };

/* How long a statement of this connection waits for a row lock. SELECT ... NOWAIT and WAIT n set the server's lock_wait_timeout (and InnoDB's,
   by name), each for its statement alone: then that is it. Else the smaller one of sluice_lock_wait_timeout and the server's. */
uint32 lock_wait_timeout_ms(THD *thd);
/* Of the session; a transaction keeps what held at its beginning. */
bool snapshot_isolation(THD *thd);
/* slc_config from the settings; the caller fills in the log callback. */
void fill_config(slc_config *config);
/* Those that slc_config has no place for; the engine is open. */
void apply_settings();

} // namespace sluice
#endif

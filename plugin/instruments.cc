/* See instruments.h. The engine knows nothing of performance_schema: it calls an observer
   (slc_observer), which this file is.

   An instrument that is off costs what the server's own cost: a call that finds it off. Without
   performance_schema, which is the server's default, there is no observer at all.

   Mutexes are instrumented by rank, one instance each, and only waits are events: a lock that was
   free is none. A batch of reads or writes is one event for each of its files. */
#include "instruments.h"
#include "connection.h"
#include "engine.h"
#include "mysql/psi/psi.h"
#include "mysql/psi/psi_memory.h"
#include <string>
#include <vector>

namespace sluice {

namespace {

constexpr uint RANKS_MAX= 256;
const char *const category= "sluice";

/* ---- threads ---- */

/* The engine's names, and the server's. */
struct NamedThread
{
  const char *engine_name, *name;
};
const NamedThread named_threads[]= {
  {"sluice-cleaner", "page_cleaner"}, {"sluice-checkpt", "checkpointer"}, {"sluice-logsync", "log_syncer"},
  {"sluice-purge", "purge"},          {"sluice-undo", "undo_truncate"},   {"sluice-stats", "statistics"},
  {"sluice-change", "change_buffer"}, {"sluice-rollback", "rollback"},    {"sluice-read", "read_ahead"},
  {"sluice-pages", "page_list"}};
constexpr size_t THREADS= sizeof named_threads / sizeof *named_threads;
PSI_thread_key thread_keys[THREADS];

void register_threads()
{
  PSI_thread_info infos[THREADS]= {};
  for (size_t i= 0; i < THREADS; i++)
    infos[i]= {&thread_keys[i], named_threads[i].name, 0};
  PSI_server->register_thread(category, infos, THREADS);
}

PSI_thread_key key_of_thread(slc_bytes name)
{
  for (size_t i= 0; i < THREADS; i++)
    if (strlen(named_threads[i].engine_name) == name.len && !memcmp(named_threads[i].engine_name, name.ptr, name.len))
      return thread_keys[i];
  return 0;
}

void run_thread(slc_bytes name, slc_run run, void *arg)
{
  if (PSI_thread *thread= PSI_server->new_thread(key_of_thread(name), nullptr, 0))
  {
    PSI_server->set_thread_os_id(thread);
    PSI_server->set_thread(thread);
  }
  run(arg);
  PSI_server->delete_current_thread();
}

/* ---- mutexes ---- */

PSI_mutex *mutexes[RANKS_MAX];

/* "LockShard": lock_shard. */
std::string instrument_name(const std::string &name)
{
  std::string out;
  for (const char letter : name)
  {
    if (my_isupper(system_charset_info, letter) && !out.empty())
      out+= '_';
    out+= static_cast<char>(my_tolower(system_charset_info, letter));
  }
  return out;
}

void register_mutex(void *, const slc_mutex_info *mutex)
{
  const std::string name= instrument_name(std::string(reinterpret_cast<const char *>(mutex->name.ptr), mutex->name.len));
  PSI_mutex_key key= 0;
  PSI_mutex_info info= {&key, name.c_str(), 0};
  PSI_server->register_mutex(category, &info, 1);
  if (key && mutex->rank < RANKS_MAX)
    mutexes[mutex->rank]= PSI_server->init_mutex(key, &mutexes[mutex->rank]);
}

void mutex_wait(uint32_t rank, slc_run run, void *arg)
{
  PSI_mutex *const mutex= rank < RANKS_MAX ? mutexes[rank] : nullptr;
  PSI_mutex_locker_state state;
  PSI_mutex_locker *const locker= mutex ? PSI_server->start_mutex_wait(&state, mutex, PSI_MUTEX_LOCK, __FILE__, __LINE__) : nullptr;
  run(arg);
  if (locker)
    PSI_server->end_mutex_wait(locker, 0);
}

/* ---- files ---- */

enum FileKind { FOR_DATA, FOR_LOG, FOR_DOUBLEWRITE, FOR_TEMPORARY, FOR_KINDS };
PSI_file_key file_keys[FOR_KINDS];

void register_files()
{
  PSI_file_info infos[]= {{&file_keys[FOR_DATA], "data_file", 0},
                          {&file_keys[FOR_LOG], "log_file", 0},
                          {&file_keys[FOR_DOUBLEWRITE], "doublewrite_file", 0},
                          {&file_keys[FOR_TEMPORARY], "temporary_file", 0}};
  PSI_server->register_file(category, infos, FOR_KINDS);
}

PSI_file_key key_of_file(const char *path)
{
  const char *const slash= strrchr(path, '/');
  const char *const name= slash ? slash + 1 : path;
  if (!strncmp(name, "redo_", 5))
    return file_keys[FOR_LOG];
  if (!strncmp(name, "tmp_", 4))
    return file_keys[FOR_TEMPORARY];
  return file_keys[strcmp(name, "doublewrite") ? FOR_DATA : FOR_DOUBLEWRITE];
}

void file_open(const char *path, int creates, slc_open_run open, void *arg)
{
  PSI_file_locker_state state;
  PSI_file_locker *const locker=
    PSI_server->get_thread_file_name_locker(&state, key_of_file(path), creates ? PSI_FILE_CREATE : PSI_FILE_OPEN, path, path);
  if (locker)
    PSI_server->start_file_open_wait(locker, __FILE__, __LINE__);
  const int fd= open(arg);
  if (locker)
    PSI_server->end_file_open_wait_and_bind_to_descriptor(locker, fd);
}

PSI_file_operation operation_of(uint32_t call)
{
  switch (call)
  {
  case SLC_FILE_READ: return PSI_FILE_READ;
  case SLC_FILE_WRITE: return PSI_FILE_WRITE;
  case SLC_FILE_SYNC: return PSI_FILE_SYNC;
  default: return PSI_FILE_CHSIZE;
  }
}

/* Of a batch with more files, the rest is not counted. */
constexpr uint FILES_COUNTED_MAX= 32;

void file_call(uint32_t call, const slc_file_part *parts, uint32_t count, slc_run run, void *arg)
{
  PSI_file_locker_state states[FILES_COUNTED_MAX];
  PSI_file_locker *lockers[FILES_COUNTED_MAX];
  const uint counted= MY_MIN(count, FILES_COUNTED_MAX);
  for (uint i= 0; i < counted; i++)
  {
    lockers[i]= PSI_server->get_thread_file_descriptor_locker(&states[i], parts[i].fd, operation_of(call));
    if (lockers[i])
      PSI_server->start_file_wait(lockers[i], parts[i].bytes, __FILE__, __LINE__);
  }
  run(arg);
  for (uint i= counted; i-- > 0;)
    if (lockers[i])
      PSI_server->end_file_wait(lockers[i], parts[i].bytes);
}

void file_close(int fd)
{
  PSI_file_locker_state state;
  if (PSI_file_locker *const locker= PSI_server->get_thread_file_descriptor_locker(&state, fd, PSI_FILE_CLOSE))
  {
    PSI_server->start_file_close_wait(locker, __FILE__, __LINE__);
    PSI_server->end_file_close_wait(locker, 0);
  }
}

void file_removed(const char *path)
{
  PSI_file_locker_state state;
  if (PSI_file_locker *const locker= PSI_server->get_thread_file_name_locker(&state, key_of_file(path), PSI_FILE_DELETE, path, path))
  {
    PSI_server->start_file_close_wait(locker, __FILE__, __LINE__);
    PSI_server->end_file_close_wait(locker, 0);
  }
}

/* ---- memory ---- */

PSI_memory_key pool_key;

void register_memory()
{
  PSI_memory_info info= {&pool_key, "buffer_pool", PSI_FLAG_GLOBAL};
  PSI_server->register_memory(category, &info, 1);
}

void memory(uint32_t what, int64_t bytes)
{
  if (what != SLC_MEMORY_BUFFER_POOL)
    return;
  PSI_thread *owner= nullptr;
  if (bytes > 0)
    PSI_server->memory_alloc(pool_key, static_cast<size_t>(bytes), &owner);
  else
    PSI_server->memory_free(pool_key, static_cast<size_t>(-bytes), nullptr);
}

/* ---- stages ---- */

PSI_stage_info drain_stage= {0, "change buffer drain", PSI_FLAG_STAGE_PROGRESS};
PSI_stage_info rollback_stage= {0, "rollback of recovered transactions", PSI_FLAG_STAGE_PROGRESS};
PSI_stage_info alter_stages[]= {{0, "alter table (read rows)", PSI_FLAG_STAGE_PROGRESS},
                                {0, "alter table (build indexes)", PSI_FLAG_STAGE_PROGRESS},
                                {0, "alter table (rebuild rows)", PSI_FLAG_STAGE_PROGRESS}};

/* By default the server's own stages leave room for two others
   (performance_schema_max_stage_classes). So the more useful ones come first. */
void register_stages()
{
  PSI_stage_info *infos[]= {&alter_stages[0], &alter_stages[2], &alter_stages[1], &drain_stage, &rollback_stage};
  PSI_server->register_stage(category, infos, sizeof infos / sizeof *infos);
}

/* The stage of this thread, which is one of the engine's. */
thread_local PSI_stage_progress *own_progress= nullptr;
thread_local bool in_stage= false;

void progress(uint32_t stage, uint64_t done, uint64_t total)
{
  if (done >= total)
  {
    if (in_stage)
      PSI_server->end_stage();
    in_stage= false;
    own_progress= nullptr;
    return;
  }
  if (!in_stage)
    own_progress= PSI_server->start_stage((stage == SLC_STAGE_DRAIN ? drain_stage : rollback_stage).m_key, __FILE__, __LINE__);
  in_stage= true;
  if (own_progress)
  {
    own_progress->m_work_completed= done;
    own_progress->m_work_estimated= total;
  }
}

} // namespace

void set_up_instruments()
{
  register_threads();
  register_files();
  slc_mutex_list(register_mutex, nullptr);
  register_memory();
  register_stages();
  /* performance_schema gives no keys when it is off. */
  if (!thread_keys[0])
    return;
  const slc_observer observer= {mutex_wait, file_open, file_call, file_close, file_removed, run_thread, progress, memory};
  slc_observe(&observer);
}

AlterProgress::AlterProgress(THD *thd, AlterStage stage) : m_thd(thd)
{
  if (const PSI_stage_key key= alter_stages[static_cast<uint>(stage)].m_key)
    m_progress= PSI_server->start_stage(key, __FILE__, __LINE__);
}

AlterProgress::AlterProgress(THD *thd, AlterStage stage, slc_table *table) : AlterProgress(thd, stage)
{
  slc_table_stats stats{};
  if (!slc_table_get_stats(table, &stats))
    m_rows= stats.rows;
  /* SHOW PROCESSLIST has a stage once there is something to count. */
  report();
}

/* The number of rows may be an estimate. */
void AlterProgress::report()
{
  const uint64_t rows= std::max(std::max<uint64_t>(m_rows, m_done), uint64_t{1});
  Connection::progress(Connection::of(m_thd), m_done, rows);
  if (!m_progress)
    return;
  m_progress->m_work_completed= m_done;
  m_progress->m_work_estimated= rows;
}

} // namespace sluice

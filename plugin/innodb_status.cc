/* Status variables of the stand-in, Innodb_*: first InnoDB's, then the engine's other counters. A
   variable of InnoDB that the engine does not count is 0, because tools compute with it. Compiled
   only for a plugin with InnoDB's name.
   Called by: the server (SHOW STATUS), innodb_tables. */
#include "engine.h"
#include "innodb_names.h"
#include "instant_alter.h"
#include "settings.h"
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#ifdef SLUICE_STAND_IN

namespace sluice {

const InnodbMetric innodb_metrics[]= {
  {"lock_deadlocks", "lock", "value", "deadlocks", 1},
  {"lock_timeouts", "lock", "value", "lock_wait_timeouts", 1},
  {"lock_row_lock_current_waits", "lock", "value", "row_lock_current_waits", 1},
  {"lock_row_lock_time", "lock", "status_counter", "row_lock_time_us", 1000},
  {"lock_row_lock_time_max", "lock", "value", "row_lock_time_max_us", 1000},
  {"lock_row_lock_waits", "lock", "status_counter", "row_lock_waits", 1},
  {"buffer_pool_pages_read", "buffer", "counter", "buffer_pool_reads", 1},
  {"buffer_pool_pages_written", "buffer", "counter", "buffer_pool_pages_flushed", 1},
  {"buffer_pages_created", "buffer", "status_counter", "pages_created", 1},
  {"buffer_pages_read", "buffer", "status_counter", "buffer_pool_reads", 1},
  {"buffer_pages_written", "buffer", "status_counter", "buffer_pool_pages_flushed", 1},
  {"buffer_data_reads", "buffer", "status_counter", "data_read", 1},
  {"buffer_data_written", "buffer", "status_counter", "data_written", 1},
  {"os_data_reads", "os", "status_counter", "data_reads", 1},
  {"os_data_writes", "os", "status_counter", "data_writes", 1},
  {"os_data_fsyncs", "os", "status_counter", "data_fsyncs", 1},
  {"os_log_bytes_written", "os", "status_counter", "redo_log_written", 1},
  {"log_lsn_current", "recovery", "value", "redo_log_lsn", 1},
  {"log_lsn_last_flush", "recovery", "value", "redo_log_lsn_flushed", 1},
  {"log_lsn_last_checkpoint", "recovery", "value", "redo_log_checkpoint_lsn", 1},
  {"log_lsn_checkpoint_age", "recovery", "value", "redo_log_checkpoint_age", 1},
  {"log_max_modified_age_async", "recovery", "value", "redo_log_capacity", 1},
  {"log_waits", "recovery", "status_counter", "redo_log_buffer_waits", 1},
  {"log_write_requests", "recovery", "status_counter", "redo_log_groups", 1},
  {"log_writes", "recovery", "status_counter", "redo_log_writes", 1},
  {"trx_rw_commits", "transaction", "counter", "commits", 1},
  {"trx_rollbacks", "transaction", "counter", "rollbacks", 1},
  {"trx_rollbacks_savepoint", "transaction", "counter", "partial_rollbacks", 1},
  {"trx_active_transactions", "transaction", "value", "active_transactions", 1},
  {"trx_rseg_history_len", "transaction", "value", "history_list_length", 1},
  {"purge_undo_log_pages", "purge", "counter", "undo_pages", 1},
  {"dml_reads", "dml", "counter", "rows_read", 1},
  {"dml_inserts", "dml", "counter", "rows_inserted", 1},
  {"dml_deletes", "dml", "counter", "rows_deleted", 1},
  {"dml_updates", "dml", "counter", "rows_updated", 1},
  {"index_page_splits", "index", "status_counter", "page_splits", 1},
  {"index_page_merge_successful", "index", "counter", "page_merges", 1},
  {"ibuf_merges", "change_buffer", "status_counter", "change_buffer_merges", 1},
  {"ibuf_merges_insert", "change_buffer", "status_counter", "change_buffer_merged_inserts", 1},
  {"ibuf_merges_delete_mark", "change_buffer", "status_counter", "change_buffer_merged_delete_marks", 1},
  {"ibuf_merges_delete", "change_buffer", "status_counter", "change_buffer_merged_deletes", 1},
  {"buffer_pool_reads", "buffer", "status_counter", "buffer_pool_reads", 1},
  {"buffer_pool_read_requests", "buffer", "status_counter", "buffer_pool_read_requests", 1},
  {"buffer_pool_wait_free", "buffer", "status_counter", "buffer_pool_wait_free", 1},
  {"buffer_pool_read_ahead", "buffer", "status_counter", "buffer_pool_read_ahead", 1},
  {"buffer_pool_pages_total", "buffer", "value", "buffer_pool_pages_total", 1},
  {"buffer_pool_pages_dirty", "buffer", "value", "buffer_pool_pages_dirty", 1},
  {"buffer_pool_pages_free", "buffer", "value", "buffer_pool_pages_free", 1},
  {nullptr, nullptr, nullptr, nullptr, 0},
};

const InnodbMetric innodb_metrics_of_status[]= {
  {"lock_row_lock_time_avg", "lock", "value", "row_lock_time_avg", 1},
  {"buffer_pool_size", "server", "value", "buffer_pool_pages_total", 1},
  {"buffer_pool_write_requests", "buffer", "status_counter", "buffer_pool_write_requests", 1},
  {"buffer_pool_read_ahead_evicted", "buffer", "status_counter", "buffer_pool_read_ahead_evicted", 1},
  {"buffer_pool_pages_misc", "buffer", "value", "buffer_pool_pages_misc", 1},
  {"buffer_pool_pages_data", "buffer", "value", "buffer_pool_pages_data", 1},
  {"buffer_pool_bytes_data", "buffer", "value", "buffer_pool_bytes_data", 1},
  {"buffer_pool_bytes_dirty", "buffer", "value", "buffer_pool_bytes_dirty", 1},
  {"buffer_LRU_batch_flush_total_pages", "buffer", "status_counter", "buffer_pool_pages_LRU_flushed", 1},
  {"buffer_LRU_batch_evict_total_pages", "buffer", "status_counter", "buffer_pool_pages_LRU_freed", 1},
  {"os_pending_reads", "os", "counter", "data_pending_reads", 1},
  {"os_pending_writes", "os", "counter", "data_pending_writes", 1},
  {"trx_undo_slots_cached", "transaction", "value", "", 1},
  {"adaptive_hash_searches", "adaptive_hash_index", "status_counter", "adaptive_hash_hash_searches", 1},
  {"adaptive_hash_searches_btree", "adaptive_hash_index", "status_counter", "adaptive_hash_non_hash_searches", 1},
  {"file_num_open_files", "file_system", "value", "num_open_files", 1},
  {"ibuf_merges_discard_insert", "change_buffer", "status_counter", "ibuf_discarded_inserts", 1},
  {"ibuf_merges_discard_delete_mark", "change_buffer", "status_counter", "ibuf_discarded_delete_marks", 1},
  {"ibuf_merges_discard_delete", "change_buffer", "status_counter", "ibuf_discarded_deletes", 1},
  {"ibuf_size", "change_buffer", "status_counter", "ibuf_size", 1},
  {"innodb_activity_count", "server", "status_counter", "", 1},
  {"innodb_dblwr_writes", "server", "status_counter", "dblwr_writes", 1},
  {"innodb_dblwr_pages_written", "server", "status_counter", "dblwr_pages_written", 1},
  {"innodb_page_size", "server", "value", "page_size", 1},
  {nullptr, nullptr, nullptr, nullptr, 0},
};

namespace {

constexpr uint64_t PAGE_BYTES= 16384;

/* What the plugin counts itself. */
const char INSTANT_ALTERS[]= "instant_alters";

/* The value is counter * factor / divisor + more. An empty name of a counter counts as 0. */
struct Status
{
  const char *name, *counter;
  uint64_t factor= 1, divisor= 1;
  const char *more= "";
};

/* In the order of InnoDB's list. Missing are those whose name is also the name of a counter of the
   engine. */
const Status innodb_status[]= {
  {"adaptive_hash_hash_searches", ""},
  {"adaptive_hash_non_hash_searches", ""},
  {"background_log_sync", ""},
  {"buffer_pool_load_incomplete", ""},
  {"buffer_pool_bytes_dirty", "buffer_pool_pages_dirty", PAGE_BYTES},
  {"buffer_pool_pages_made_not_young", ""},
  {"buffer_pool_pages_made_young", ""},
  {"buffer_pool_pages_misc", ""},
  {"buffer_pool_pages_old", ""},
  {"buffer_pool_pages_LRU_flushed", ""},
  {"buffer_pool_pages_LRU_freed", "buffer_pool_pages_evicted"},
  {"buffer_pool_pages_split", "page_splits"},
  {"buffer_pool_read_ahead_evicted", ""},
  {"buffer_pool_read_ahead_rnd", ""},
  {"buffer_pool_write_requests", "redo_log_groups"},
  {"checkpoint_age", "redo_log_checkpoint_age"},
  {"checkpoint_max_age", "redo_log_capacity"},
  {"data_pending_fsyncs", ""},
  {"data_pending_reads", ""},
  {"data_pending_writes", ""},
  {"ibuf_discarded_delete_marks", ""},
  {"ibuf_discarded_deletes", ""},
  {"ibuf_discarded_inserts", "change_buffer_discarded"},
  {"ibuf_free_list", ""},
  {"ibuf_merged_delete_marks", "change_buffer_merged_delete_marks"},
  {"ibuf_merged_deletes", "change_buffer_merged_deletes"},
  {"ibuf_merged_inserts", "change_buffer_merged_inserts"},
  {"ibuf_merges", "change_buffer_merges"},
  {"ibuf_segment_size", "change_buffer_bytes", 1, PAGE_BYTES},
  {"ibuf_size", "change_buffer_bytes", 1, PAGE_BYTES},
  {"log_waits", "redo_log_buffer_waits"},
  {"log_write_requests", "redo_log_groups"},
  {"log_writes", "redo_log_writes"},
  {"lsn_current", "redo_log_lsn"},
  {"lsn_flushed", "redo_log_lsn_flushed"},
  {"lsn_last_checkpoint", "redo_log_checkpoint_lsn"},
  {"master_thread_active_loops", ""},
  {"master_thread_idle_loops", ""},
  {"mem_adaptive_hash", ""},
  {"mem_dictionary", ""},
  {"num_open_files", ""},
  {"os_log_written", "redo_log_written"},
  {"pages_read", "buffer_pool_reads", 1, 1, "buffer_pool_read_ahead"},
  {"pages_written", "buffer_pool_pages_flushed"},
  {"row_lock_time", "row_lock_time_us", 1, 1000},
  {"row_lock_time_max", "row_lock_time_max_us", 1, 1000},
  {"truncated_status_writes", ""},
  {"available_undo_logs", ""},
  {"undo_truncations", ""},
  {"page_compression_saved", ""},
  {"num_pages_page_compressed", ""},
  {"num_page_compressed_trim_op", ""},
  {"num_pages_page_decompressed", ""},
  {"num_pages_page_compression_error", ""},
  {"num_pages_encrypted", ""},
  {"num_pages_decrypted", ""},
  {"defragment_compression_failures", ""},
  {"defragment_failures", ""},
  {"defragment_count", ""},
  {"instant_alter_column", INSTANT_ALTERS},
  {"onlineddl_rowlog_rows", ""},
  {"onlineddl_rowlog_pct_used", ""},
  {"onlineddl_pct_progress", ""},
  {"encryption_rotation_pages_read_from_cache", ""},
  {"encryption_rotation_pages_read_from_disk", ""},
  {"encryption_rotation_pages_modified", ""},
  {"encryption_rotation_pages_flushed", ""},
  {"encryption_rotation_estimated_iops", ""},
  {"encryption_n_merge_blocks_encrypted", ""},
  {"encryption_n_merge_blocks_decrypted", ""},
  {"encryption_n_rowlog_blocks_encrypted", ""},
  {"encryption_n_rowlog_blocks_decrypted", ""},
  {"encryption_n_temp_blocks_encrypted", ""},
  {"encryption_n_temp_blocks_decrypted", ""},
  {"encryption_num_key_requests", ""},
  {"bulk_operations", ""},
};

/* Features that a server's InnoDB may have or lack: shown as OFF. */
const char *const absent[]= {"have_lz4", "have_lzo", "have_lzma", "have_bzip2", "have_snappy", "have_punch_hole"};

/* Variables that are texts, by their number in slc_pool_status_text(). */
const char *const texts[]= {"buffer_pool_resize_status", "buffer_pool_dump_status", "buffer_pool_load_status"};

/* The list of one SHOW STATUS, in the memory of the statement. */
class List
{
public:
  explicit List(THD *thd) : m_thd(thd) {}

  void add(const char *name, uint64_t value, enum_mysql_show_type type)
  {
    uint64_t *const kept= static_cast<uint64_t *>(thd_alloc(m_thd, sizeof value));
    if (!kept)
      return;
    *kept= value;
    add(name, kept, type);
  }
  void add_text(const char *name, const char *text) { add(name, const_cast<char *>(text), SHOW_CHAR); }
  SHOW_VAR *end()
  {
    const size_t count= m_rows.size();
    SHOW_VAR *const rows= static_cast<SHOW_VAR *>(thd_alloc(m_thd, (count + 1) * sizeof(SHOW_VAR)));
    if (!rows)
      return nullptr;
    for (size_t i= 0; i < count; i++)
      rows[i]= m_rows[i];
    rows[count]= {nullptr, nullptr, SHOW_LONG};
    return rows;
  }

private:
  void add(const char *name, void *value, enum_mysql_show_type type)
  {
    SHOW_VAR row{};
    row.name= name;
    row.value= value;
    row.type= type;
    m_rows.push_back(row);
  }

  THD *const m_thd;
  std::vector<SHOW_VAR> m_rows;
};

/* The engine's texts have times as "2026-11-29 06:48:52", InnoDB's as "261129  6:48:52". */
std::string with_time_of_innodb(std::string text)
{
  static const char FORM[]= "2026-11-29 06:48:52";
  constexpr size_t FORM_LENGTH= sizeof FORM - 1;
  const auto is_time= [&](size_t at) {
    for (size_t i= 0; i < FORM_LENGTH; i++)
      if (isdigit(FORM[i]) ? !isdigit(static_cast<uchar>(text[at + i])) : FORM[i] != text[at + i])
        return false;
    return true;
  };
  for (size_t at= 0; at + FORM_LENGTH <= text.size(); at++)
    if (is_time(at))
    {
      const std::string hour= text.substr(at + 11, 2);
      text.replace(at, 13, text.substr(at + 2, 2) + text.substr(at + 5, 2) + text.substr(at + 8, 2) + " " +
                             (hour[0] == '0' ? " " + hour.substr(1) : hour));
    }
  return text;
}

struct Copy
{
  THD *thd;
  const char *text;
};

void copy_text(void *ctx, const char *text, size_t length)
{
  Copy *const copy= static_cast<Copy *>(ctx);
  const std::string shown= with_time_of_innodb(std::string(text, length));
  copy->text= thd_strmake(copy->thd, shown.data(), shown.size());
}

int show_innodb(THD *thd, SHOW_VAR *var, void *, system_status_var *, enum_var_type)
{
  static SHOW_VAR nothing[]= {{nullptr, nullptr, SHOW_LONG}};
  List list(thd);
  for (const auto &[name, value] : status_numbers())
    list.add(name, value, strcmp(name, "redo_log_enabled") ? SHOW_LONGLONG : SHOW_BOOL);
  for (const char *const name : absent)
    list.add_text(name, "OFF");
  for (uint i= 0; i < array_elements(texts); i++)
  {
    Copy copy= {thd, nullptr};
    if (engine)
      slc_pool_status_text(engine, i, copy_text, &copy);
    list.add_text(texts[i], copy.text ? copy.text : "");
  }
  SHOW_VAR *const rows= list.end();
  var->type= SHOW_ARRAY;
  var->value= rows ? rows : nothing;
  return 0;
}

} // namespace

StatusNumbers status_numbers()
{
  const uint32_t count= slc_counter_count();
  std::vector<uint64_t> values(count);
  slc_counter_values(engine, values.data());
  std::unordered_map<std::string, uint64_t> counters;
  for (uint32_t i= 0; i < count; i++)
    counters[slc_counter_name(i)]= values[i];
  counters[INSTANT_ALTERS]= instant_alters;
  const auto counter= [&counters](const char *name) -> uint64_t {
    const auto found= counters.find(name);
    return found == counters.end() ? 0 : found->second;
  };

  StatusNumbers all;
  std::unordered_set<std::string> names;
  const auto add= [&](const char *name, uint64_t value) {
    if (names.insert(name).second)
      all.emplace_back(name, value);
  };
  for (const Status &status : innodb_status)
    add(status.name, counter(status.counter) * status.factor / status.divisor + counter(status.more));
  const uint64_t total= counter("buffer_pool_pages_total"), free= counter("buffer_pool_pages_free");
  const uint64_t data= total > free ? total - free : 0;
  add("buffer_pool_pages_data", data);
  add("buffer_pool_bytes_data", data * PAGE_BYTES);
  add("page_size", PAGE_BYTES);
  const uint64_t waits= counter("row_lock_waits");
  add("row_lock_time_avg", waits ? counter("row_lock_time_us") / 1000 / waits : 0);
  for (uint32_t i= 0; i < count; i++)
    add(slc_counter_name(i), values[i]);
  return all;
}

struct st_mysql_show_var stand_in_status[]= {
  SHOW_FUNC_ENTRY("Innodb", &show_innodb),
  {nullptr, nullptr, SHOW_LONG}
};

} // namespace sluice

#endif

/* ha_sluice: the handler, which the server has for each table that a statement opens. The methods
   are short: Codec encodes rows and keys, Connection has the transaction, Share has what all
   handlers of a table share, and the engine does the work.

   The calls of a statement:

   - SELECT by key: store_lock, external_lock (Connection::use), index_init, index_read_map. The
     last one calls seek (key image, bounds, slc_cursor_seek) and deliver (condition, row). Then
     index_next_same for each further row, and index_end.
   - INSERT: external_lock, write_row (autoinc.cc gives a value, codec.cc makes the clustered key,
     the row and the entries), slc_row_insert.
   - UPDATE: as SELECT, then update_row (compares old and new entries), slc_row_update or
     slc_row_move.

   Files: ha_sluice.cc (open, flags), ha_lock.cc, ha_read.cc, ha_write.cc, virtual_columns.cc,
   autoinc.cc, sequence.cc, load.cc, bulk.cc, statistics.cc, ddl.cc, inplace.cc, inplace_check.cc,
   admin.cc, foreign.cc, foreign_rows.cc, certify.cc, vector_graph.cc.
   Called by: the server. */
#ifndef SLUICE_HA_SLUICE_H
#define SLUICE_HA_SLUICE_H
#include "compat.h"
#include "buffer.h"
#include "codec.h"
#include "connection.h"
#include "online_alter.h"
#include "scan_state.h"
#include "share.h"
#include <memory>

namespace sluice {

class OnlineRebuild;

/* Whether the server checks UNIQUE indexes of its own (over hashes, WITHOUT OVERLAPS) before it
   writes a row, below SERIALIZABLE. Elsewhere it checks after the write, which locks no gap. */
bool checks_unique_first(const THD *thd, const TABLE_SHARE *share);

} // namespace sluice


class ha_sluice final : public handler
{
public:
  ha_sluice(handlerton *hton, TABLE_SHARE *table_share);
  ~ha_sluice() override;

  /* What it can do */
  Table_flags table_flags() const override;
  ulong index_flags(uint index, uint part, bool all_parts) const override;
  const char *index_type(uint) override { return "BTREE"; }
  uint max_supported_keys() const override { return MAX_KEY; }
  uint max_supported_key_length() const override { return KEY_BYTES_MAX; }
  uint max_supported_key_part_length() const override { return KEY_BYTES_MAX; }
  const key_map *keys_to_use_for_scanning() override { return &key_map_full; }
#ifdef SLUICE_STAND_IN
  enum row_type get_row_type() const override;
#else
  enum row_type get_row_type() const override { return ROW_TYPE_DYNAMIC; }
#endif
  uint8 table_cache_type() override { return HA_CACHE_TBL_NOCACHE; }
  my_bool register_query_cache_table(THD *, const char *, uint, qc_engine_callback *callback, ulonglong *) override
  {
    *callback= nullptr;
    /* Never: a cached result could be older than the transaction may see. */
    return FALSE;
  }

  /* Life */
  int open(const char *name, int mode, uint test_if_locked) override;
  int close() override;
  handler *clone(const char *name, MEM_ROOT *mem_root) override;
  void change_table_ptr(TABLE *table, TABLE_SHARE *share) override;
  int reset() override;
  int extra(enum ha_extra_function operation) override;
  void print_error(int error, myf flags) override;
  bool get_error_message(int error, String *text) override;

  /* Locks and transactions */
  uint lock_count() const override { return 0; }
  THR_LOCK_DATA **store_lock(THD *thd, THR_LOCK_DATA **to, enum thr_lock_type type) override;
  int external_lock(THD *thd, int type) override;
  int start_stmt(THD *thd, thr_lock_type type) override;
  void unlock_row() override;
  bool was_semi_consistent_read() override;
  void try_semi_consistent_read(bool on) override;

  /* Reads */
  int rnd_init(bool scan) override;
  int rnd_end() override;
  int rnd_next(uchar *record) override;
  int rnd_pos(uchar *record, uchar *position) override;
  void position(const uchar *record) override;
  int cmp_ref(const uchar *left, const uchar *right) override;
  int index_init(uint index, bool sorted) override;
  int index_end() override;
  int index_read_map(uchar *record, const uchar *key, key_part_map parts, enum ha_rkey_function mode) override;
  int index_read_last_map(uchar *record, const uchar *key, key_part_map parts) override;
  int index_next(uchar *record) override;
  int index_prev(uchar *record) override;
  int index_first(uchar *record) override;
  int index_last(uchar *record) override;
  int index_next_same(uchar *record, const uchar *key, uint key_length) override;
  int read_range_first(const key_range *start, const key_range *end, bool equal, bool sorted) override;
  int read_range_next() override;
  Item *idx_cond_push(uint index, Item *condition) override;
  bool rowid_filter_push(Rowid_filter *filter) override;

  /* Multi-range read, done by the server's implementation over this handler */
  int multi_range_read_init(RANGE_SEQ_IF *seq, void *init, uint ranges, uint mode, HANDLER_BUFFER *buffer) override;
  int multi_range_read_next(range_id_t *range) override;
  SLUICE_MRR_INFO_CONST_DECLARATION
  ha_rows multi_range_read_info(uint index, uint ranges, uint keys, uint key_parts, uint *buffer_size, uint *flags,
                                Cost_estimate *cost) override;
  int multi_range_read_explain_info(uint mode, char *text, size_t size) override;

  /* Writes */
  int write_row(const uchar *record) override;
  int update_row(const uchar *old_record, const uchar *new_record) override;
  int delete_row(const uchar *record) override;
  int truncate() override;
  void start_bulk_insert(ha_rows rows, uint flags) override;
  int end_bulk_insert() override;
  void get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                          ulonglong *reserved) override;
  int reset_auto_increment(ulonglong value) override;
  void update_create_info(HA_CREATE_INFO *info) override;
  bool autoinc_lock_mode_stmt_unsafe() const override;

  /* For the optimizer */
  int info(uint flags) override;
  void fill_rec_per_key();
  ha_rows records_in_range(uint index, const key_range *low, const key_range *high, page_range *pages) override;
  ha_rows estimate_rows_upper_bound() override;
  SLUICE_COST_DECLARATIONS

  /* Definitions */
  int create(const char *name, TABLE *form, HA_CREATE_INFO *info) override;
  int rename_table(const char *from, const char *to) override;
  int delete_table(const char *name) override;
  int check(THD *thd, HA_CHECK_OPT *options) override;
  int analyze(THD *thd, HA_CHECK_OPT *options) override;
  int optimize(THD *thd, HA_CHECK_OPT *options) override;
  int repair(THD *thd, HA_CHECK_OPT *options) override;
  int check_for_upgrade(HA_CHECK_OPT *options) override;
#ifdef SLUICE_STAND_IN
  int discard_or_import_tablespace(my_bool discard) override;
#endif
  enum_alter_inplace_result check_if_supported_inplace_alter(TABLE *altered, Alter_inplace_info *info) override;
  bool prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info) override;
  bool inplace_alter_table(TABLE *altered, Alter_inplace_info *info) override;
  bool commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit) override;
  bool check_if_incompatible_data(HA_CREATE_INFO *info, uint changes) override;
  bool can_convert_nocopy(const Field &field, const Column_definition &type) const override;
  Compare_keys compare_key_parts(const Field &field, const Column_definition &type, const KEY_PART_INFO &part,
                                 const KEY_PART_INFO &new_part) const override;

  /* Foreign keys */
  char *get_foreign_key_create_info() override;
  void free_foreign_key_create_info(char *text) override;
  int get_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) override;
  int get_parent_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) override;
  bool referenced_by_foreign_key() const noexcept override;
  bool can_switch_engines() override;
  bool get_foreign_dup_key(char *child, uint child_size, char *key, uint key_size) override;
  bool is_fk_defined_on_table_or_index(uint index) override;

  /* Rows of cascades; foreign_rows.cc. A record is nullptr if the row is not one of this table. */
  TABLE *get_table() const { return table; }
  uchar *foreign_record(sluice::Buffer &to, slc_bytes clustered, slc_bytes row);
  const uchar *foreign_values(sluice::Buffer &to, slc_bytes clustered, slc_bytes row, const std::vector<Field *> &fields);
  void compute_indexed_virtual_columns(uchar *record);
  /* The same for a row that becomes another one. False: sql_mode allows no such value, and the
     error is raised. */
  bool compute_changed_virtual_columns(uchar *record);
  void put_made(slc_row_sink *to, const uchar *record, slc_bytes old_clustered);
  /* Of a table with system versioning. */
  bool marks_past() const { return m_codec->marks_past(); }
  void begin_foreign_record(uchar *record);
  int end_foreign_record(uchar *record);
  void put_made_past(slc_row_sink *to, const uchar *record);
  bool put_reference(sluice::Buffer &row_buffer, sluice::Buffer &to, const std::vector<Field *> &fields, slc_bytes clustered, slc_bytes row,
                     slc_value_sink *sink);

  /* Galera; certify.cc. HA_ERR_ code, reported. */
  int certify(THD *thd, const uchar *old_record, const uchar *new_record);

  static constexpr uint KEY_BYTES_MAX= 3072;

private:
  enum Direction { FORWARD, BACKWARD };
  enum Semi { SEMI_OFF, SEMI_TRY, SEMI_DID };

  sluice::Share *get_share(const char *name);
  const char *name() const { return m_share ? m_share->name() : table_share->table_name.str; }
  /* For messages: as a statement names the table. */
  std::string shown_name() const;
  int fail(slc_err error);
  /* The connection, with a transaction started; every access begins with it. */
  sluice::Connection *connect(bool writes);
  /* connect(), before a change. HA_ERR_ code, reported: a cluster refuses the change. */
  int connect_to_write();
  slc_trx *trx() const { return unlikely(m_own_trx != nullptr) ? m_own_trx : m_connection->trx(); }

  /* sequence.cc */
  bool is_sequence() const { return table_share->table_type == TABLE_TYPE_SEQUENCE; }
  void own_begin();
  int own_commit(int error);
  void own_end();

  /* ha_read.cc */
  int scan_set_up();
  int seek(uchar *record, uint mode, slc_bytes key, Direction direction);
  int deliver(uchar *record, slc_err error, Direction direction);
  check_result_t check_conditions();
  int check_entry(uchar *record);
  bool wants_point_read(uint index, key_part_map parts) const;
  int point_read(uchar *record);
  int read_row(uchar *record, slc_bytes clustered, slc_bytes row);
  bool entry_lacks_column() const;
  bool index_covers();
  void keep_blobs();
  int step(uchar *record, Direction direction);
  int step_from_place(uchar *record, Direction direction);
  bool rereads_locked(uchar *record, int *result);
  void set_bounds(slc_bytes low, slc_bound high);
  void lift_lookup_bounds();
  bool is_exact_end(const key_range &end) const;
  slc_bound range_end();
  const MY_BITMAP *columns_read() const;
  const sluice::DecodePlan *plan();
  const sluice::DecodePlan *plan_of_whole_rows();
  bool wants_entry() { return m_keyread ? !m_scan.keyread_needs_row : index_covers(); }
  bool reads_entries() { return wants_entry() || pushed_idx_cond_here() || filter_here(); }
  bool pushed_idx_cond_here() const { return pushed_idx_cond && pushed_idx_cond_keyno == active_index; }
  /* A filter looks at the row's position, which the entry must be able to give; without it only
     more rows are read. */
  bool filter_here() const
  {
    return pushed_rowid_filter && rowid_filter_is_active && m_codec->key(active_index).has_position;
  }
  /* What a locking scan does about another transaction that gives a row a key which the scan has
     passed. IGNORED: the scan misses the row. FOLLOWED: it hands the row out at the old key.
     LOCKS_GAPS: it locks the gaps that it passes, so the other transaction waits. */
  enum KeyChangePolicy { KEY_CHANGE_IGNORED, KEY_CHANGE_FOLLOWED, KEY_CHANGE_LOCKS_GAPS };
  KeyChangePolicy key_change_policy(THD *thd) const;
  uint lock_of_reads() const;
  int before_copy();
  static slc_bytes key_of_moved(void *ctx, slc_bytes clustered, slc_bytes row);
  bool ref_is_image() const;
  void put_ref(uchar *to, slc_bytes clustered) const;
  void put_clustered(sluice::Buffer &to, const uchar *ref_bytes) const;
  /* Of a pushed condition or filter: this entry is not wanted. */
  static constexpr int NO_MATCH= -1;

  /* The server is built without exceptions: memory that a long row does not get must fail the
     statement, not end the server. */
  template <typename Body> static int guarded(const Body &body)
  {
    try
    {
      return body();
    }
    catch (const std::bad_alloc &)
    {
      return HA_ERR_OUT_OF_MEM;
    }
  }

  /* ha_write.cc */
  void note_change(int error);
  int insert(const uchar *record);
  int insert_numbered(const uchar *record);
  int update(const uchar *old_record, const uchar *new_record);
  int update_numbered(const uchar *old_record, const uchar *new_record);
  int remove(const uchar *record);
  slc_bytes clustered_of(sluice::Buffer &to, const uchar *record) const;
  bool rewrites_primary_key(const uchar *old_record, const uchar *new_record) const;
  uint32_t update_flags(const uchar *old_record, const uchar *new_record) const;
  void put_entries(const uchar *record, slc_bytes clustered, std::vector<sluice::EntryImage> &images);
  int duplicate(slc_err error);
  int update_in_place(const uchar *old_record, const uchar *new_record, slc_bytes clustered);
  int update_moving(const uchar *old_record, const uchar *new_record, slc_bytes old_clustered, slc_bytes new_clustered);

  /* certify.cc */
  struct CertifiedKey
  {
    uint index, parts;                  // of the server's keys
    uint32 id;
    bool only_referenced= false;        // no unique key: children name it
  };
  struct CertifiedParent
  {
    CertifiedKey key;                   // of this table
    std::string table;
  };
  struct CertifiedKeys
  {
    std::string table;
    bool is_parent;
    std::vector<CertifiedKey> own;
    std::vector<CertifiedParent> parents;
    sluice::Buffer before, after;
  };
  int append_certified(THD *thd, const std::string &cache_key, uint32 id, slc_bytes image, int kind);
  void collect_certified();
  bool put_certified(sluice::Buffer &to, const CertifiedKey &key, const uchar *record) const;
  int certify_new_table(THD *thd);

  void put_statement_time(uchar *record, Field *field);

  /* vector_graph.cc: of a main table, */
  int lock_graph();
  int lock_graph_of_search();
  int found_by_graph(uchar *record);
  int read_found_by_graph(uchar *record);
  int read_as_graph_does();
  int check_graph(uint32_t level, std::string *finding);
  /* Rows without a node; nodes of rows that are gone; nodes with another vector than their row. */
  struct GraphFindings { uint64_t without, stale, differ; };
  int compare_with_graph(slc_trx *trx, slc_cursor *rows, slc_cursor *nodes, GraphFindings *findings);
  /* and of a graph table */
  bool is_graph() const { return m_share && m_share->is_graph(); }
  void begin_graph_read();
  void renew_graph_view();
  int read_node(uchar *record);
  template <typename Body> int change_graph(const Body &body);
  int insert_node(const uchar *record);
  int update_node(const uchar *old_record, const uchar *new_record);

  void close_for_truncation();
  slc_err open_after_truncation();
  void set_ref_length(const sluice::Codec &codec, const TABLE *form);

  /* virtual_columns.cc */
  template <typename Wanted> void compute_virtual_columns(uchar *record, const Wanted &wanted);
  bool compute_columns(uchar *record, const uint16 *numbers, size_t count, bool of_changed_row= false);
  bool wants_virtual_columns(const uchar *record) const;
  void add_virtual_columns(uchar *record, slc_bytes clustered, slc_bytes row);
  void compute_virtual_column(uchar *record, uint16 number);
  void keep_virtual_blobs();
  /* Those of indexes that the server has not computed, of a record with all other columns: of a row
     to be written (is_new), or that was read. */
  void complete_virtual_columns(const uchar *record, bool is_new);

  /* load.cc */
  void begin_load();
  int finish_load();
  int end_copy();
  void end_load();
  int duplicate_in_load(slc_err error);

  /* bulk.cc */
  bool may_fill_table() const;
  void begin_bulk();
  void end_bulk();
  int duplicate_in_bulk(slc_err error);

  /* inplace.cc */
  int feed_builds(slc_trx *trx, slc_cursor *cursor, const sluice::OnlineAlter::Builds &to);
  bool fill_inplace(TABLE *altered, void *inplace_context);
  bool tell_inplace(slc_err error);
  void report_build_error(slc_err build_error, slc_trx *view, TABLE *altered, const sluice::OnlineAlter::Builds &builds, uint index);
  bool report_follow_error(slc_err error, TABLE *altered, void *inplace_context);
  bool end_online(TABLE *altered, void *inplace_context);
  bool report_rebuild_error(slc_err error, TABLE *altered, const sluice::OnlineRebuild &rebuild);
  bool publish_rebuilt(TABLE *altered, Alter_inplace_info *info);
  bool publish_indexes(TABLE *altered, Alter_inplace_info *info);

  /* admin.cc */
  bool is_repaired_by_copy(const HA_CHECK_OPT *options) const;
  int rebuild_indexes(slc_trx *trx, slc_cursor *cursor, std::vector<slc_build *> &builds);
  slc_err check_by_engine(THD *thd, slc_trx *reader, uint32_t level);
  static void entries_to_check(void *ctx, slc_bytes clustered, slc_bytes row, slc_check_sink *to);
  static void report_orphans(void *ctx, const slc_orphans *orphans);
  std::string shown_values(const std::vector<std::string> &columns);

  /* autoinc.cc */
  int set_auto_increment_at_least(ulonglong value);
  int greatest_auto_increment(ulonglong *greatest);
  struct AutoincRaise
  {
    ulonglong to, before;               // 0, 0: the counter was not raised
  };
  AutoincRaise autoinc_note(const uchar *record);
  void autoinc_settle(const uchar *record, const AutoincRaise &raise, int error);
  bool autoinc_takes_table_lock() const;
  ulonglong autoinc_value(const uchar *record) const;
  ulonglong autoinc_after(ulonglong value) const;

  sluice::Share *m_share= nullptr;
  std::unique_ptr<sluice::Codec> m_codec;
  bool m_unique_in_order= true;         // the engine checks UNIQUE indexes in the server's order
  slc_cursor *m_cursor= nullptr;
#ifdef SLUICE_STAND_IN
  bool m_change_noted= false;           // of this statement
#endif
  sluice::Connection *m_connection= nullptr;
  /* Of a compressed table: the rows that records point into. */
  sluice::Buffer m_plain_row, m_plain_moved, m_plain_foreign, m_plain_parent;
  slc_load *m_load= nullptr;             // while a new table is being filled
  slc_trx *m_own_trx= nullptr;           // of a sequence, while it is read or changed; of a read graph

  /* Of the statement */
  uint m_lock= SLC_LOCK_NONE;
  uint m_stored_lock= SLC_LOCK_NONE;
  bool m_select_throughout= false;
  /* The server checks UNIQUE indexes of its own before it writes. */
  bool m_checks_unique_first= false;
  uint m_policy= SLC_WAIT;
  KeyChangePolicy m_key_change_policy= KEY_CHANGE_IGNORED;
  bool m_keyread= false;
  bool m_exclusive_on_duplicate= false;
  bool m_ignores_duplicates= false;
  bool m_bulk_begins= false;             // with the next row
  bool m_passes_over= false;             // rows that a search in a graph has found
  slc_bulk *m_bulk= nullptr;             // while an empty table is being filled
  Semi m_semi= SEMI_OFF;

  std::unique_ptr<CertifiedKeys> m_certified; // of a statement in a cluster

  sluice::ScanState m_scan;
  sluice::CoveredColumns m_covered;
  sluice::RowImages m_write;
  const sluice::DecodePlan *m_plan= nullptr;
  uint64_t m_statistics_version= 0;     // of which rec_per_key was made
  DsMrr_impl m_ds_mrr;
  bool m_ranges_begun= false;            // in m_ds_mrr
  sluice::Buffer m_range_buffer;         // of m_ds_mrr, in a partition

  sluice::Buffer m_moved_record, m_moved_key;
  sluice::Buffer m_low, m_high, m_clustered, m_kept_blobs, m_kept_virtual_blobs;
  std::vector<my_bitmap_map> m_saved_set;
  int m_autoinc_error= 0;                // why get_auto_increment() gave no value
  slc_autoinc_series m_autoinc_series= {0, 1, 0};  // of the values that it gave last
  std::vector<uint16> m_wanted_virtual; // while they are computed
  ulonglong m_autoinc_rows= 0;          // of the statement, that may still take values; 0: unknown
};

#endif

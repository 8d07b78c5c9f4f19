/* The columns of InnoDB's tables of INFORMATION_SCHEMA, for the stand-in: names, order and types
   are those of MariaDB 10.11. Used by: innodb_tables.cc, lock_tables.cc, buffer_pool_stats.cc. */
#include "innodb_columns.h"
#include "information_schema.h"
#include <initializer_list>

#ifdef SLUICE_STAND_IN

namespace sluice {

namespace {

/* The values of an ENUM. */
class Words: public Typelib
{
public:
  Words(std::initializer_list<const char *> texts) : Typelib(static_cast<uint>(texts.size()), m_texts, m_lengths)
  {
    DBUG_ASSERT(texts.size() < WORDS_MAX);
    size_t i= 0;
    for (const char *text : texts)
    {
      m_texts[i]= text;
      m_lengths[i++]= static_cast<uint>(strlen(text));
    }
    m_texts[i]= nullptr;
    m_lengths[i]= 0;
  }

private:
  static constexpr size_t WORDS_MAX= 12;
  const char *m_texts[WORDS_MAX];
  uint m_lengths[WORDS_MAX];
};

const Words page_state_words{"NOT_USED", "MEMORY", "REMOVE_HASH", "FILE_PAGE"};
const Words io_fix_words{"IO_NONE", "IO_READ", "IO_WRITE"};
const Words lock_mode_words{"S", "S,GAP", "X", "X,GAP", "IS", "IS,GAP", "IX", "IX,GAP", "AUTO_INC"};
const Words lock_type_words{"RECORD", "TABLE"};
const Words metric_type_words{"value", "status_counter", "set_owner", "set_member", "counter"};
const Words row_format_words{"Redundant", "Compact", "Compressed", "Dynamic"};
const Words space_type_words{"Single", "System"};
const Words isolation_words{"READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"};

} // namespace

ST_FIELD_INFO innodb_buffer_page_columns[]= {
  Show::Column("POOL_ID", Show::ULong(), NOT_NULL),
  Show::Column("BLOCK_ID", Show::ULonglong(), NOT_NULL),
  Show::Column("SPACE", Show::ULong(), NOT_NULL),
  Show::Column("PAGE_NUMBER", Show::ULong(), NOT_NULL),
  Show::Column("PAGE_TYPE", Show::Varchar(64), NULLABLE),
  Show::Column("FLUSH_TYPE", Show::ULong(), NOT_NULL),
  Show::Column("FIX_COUNT", Show::ULong(), NOT_NULL),
  Show::Column("IS_HASHED", Show::SLong(1), NOT_NULL),
  Show::Column("NEWEST_MODIFICATION", Show::ULonglong(), NOT_NULL),
  Show::Column("OLDEST_MODIFICATION", Show::ULonglong(), NOT_NULL),
  Show::Column("ACCESS_TIME", Show::ULonglong(), NOT_NULL),
  Show::Column("TABLE_NAME", Show::Varchar(1024), NULLABLE),
  Show::Column("INDEX_NAME", Show::Varchar(64), NULLABLE),
  Show::Column("NUMBER_RECORDS", Show::ULonglong(), NOT_NULL),
  Show::Column("DATA_SIZE", Show::ULonglong(), NOT_NULL),
  Show::Column("COMPRESSED_SIZE", Show::ULonglong(), NOT_NULL),
  Show::Column("PAGE_STATE", Show::Enum(&page_state_words), NOT_NULL),
  Show::Column("IO_FIX", Show::Enum(&io_fix_words), NOT_NULL),
  Show::Column("IS_OLD", Show::SLong(1), NOT_NULL),
  Show::Column("FREE_PAGE_CLOCK", Show::ULonglong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_buffer_page_lru_columns[]= {
  Show::Column("POOL_ID", Show::ULong(), NOT_NULL),
  Show::Column("LRU_POSITION", Show::ULonglong(), NOT_NULL),
  Show::Column("SPACE", Show::ULong(), NOT_NULL),
  Show::Column("PAGE_NUMBER", Show::ULong(), NOT_NULL),
  Show::Column("PAGE_TYPE", Show::Varchar(64), NULLABLE),
  Show::Column("FLUSH_TYPE", Show::ULong(), NOT_NULL),
  Show::Column("FIX_COUNT", Show::ULong(), NOT_NULL),
  Show::Column("IS_HASHED", Show::SLong(1), NOT_NULL),
  Show::Column("NEWEST_MODIFICATION", Show::ULonglong(), NOT_NULL),
  Show::Column("OLDEST_MODIFICATION", Show::ULonglong(), NOT_NULL),
  Show::Column("ACCESS_TIME", Show::ULonglong(), NOT_NULL),
  Show::Column("TABLE_NAME", Show::Varchar(1024), NULLABLE),
  Show::Column("INDEX_NAME", Show::Varchar(64), NULLABLE),
  Show::Column("NUMBER_RECORDS", Show::ULonglong(), NOT_NULL),
  Show::Column("DATA_SIZE", Show::ULonglong(), NOT_NULL),
  Show::Column("COMPRESSED_SIZE", Show::ULonglong(), NOT_NULL),
  Show::Column("COMPRESSED", Show::SLong(1), NOT_NULL),
  Show::Column("IO_FIX", Show::Enum(&io_fix_words), NOT_NULL),
  Show::Column("IS_OLD", Show::SLong(1), NULLABLE),
  Show::Column("FREE_PAGE_CLOCK", Show::ULonglong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_buffer_pool_stats_columns[]= {
  Show::Column("POOL_ID", Show::ULong(), NOT_NULL),
  Show::Column("POOL_SIZE", Show::ULonglong(), NOT_NULL),
  Show::Column("FREE_BUFFERS", Show::ULonglong(), NOT_NULL),
  Show::Column("DATABASE_PAGES", Show::ULonglong(), NOT_NULL),
  Show::Column("OLD_DATABASE_PAGES", Show::ULonglong(), NOT_NULL),
  Show::Column("MODIFIED_DATABASE_PAGES", Show::ULonglong(), NOT_NULL),
  Show::Column("PENDING_DECOMPRESS", Show::ULonglong(), NOT_NULL),
  Show::Column("PENDING_READS", Show::ULonglong(), NOT_NULL),
  Show::Column("PENDING_FLUSH_LRU", Show::ULonglong(), NOT_NULL),
  Show::Column("PENDING_FLUSH_LIST", Show::ULonglong(), NOT_NULL),
  Show::Column("PAGES_MADE_YOUNG", Show::ULonglong(), NOT_NULL),
  Show::Column("PAGES_NOT_MADE_YOUNG", Show::ULonglong(), NOT_NULL),
  Show::Column("PAGES_MADE_YOUNG_RATE", Show::Float(MAX_FLOAT_STR_LENGTH), NOT_NULL),
  Show::Column("PAGES_MADE_NOT_YOUNG_RATE", Show::Float(MAX_FLOAT_STR_LENGTH), NOT_NULL),
  Show::Column("NUMBER_PAGES_READ", Show::ULonglong(), NOT_NULL),
  Show::Column("NUMBER_PAGES_CREATED", Show::ULonglong(), NOT_NULL),
  Show::Column("NUMBER_PAGES_WRITTEN", Show::ULonglong(), NOT_NULL),
  Show::Column("PAGES_READ_RATE", Show::Float(MAX_FLOAT_STR_LENGTH), NOT_NULL),
  Show::Column("PAGES_CREATE_RATE", Show::Float(MAX_FLOAT_STR_LENGTH), NOT_NULL),
  Show::Column("PAGES_WRITTEN_RATE", Show::Float(MAX_FLOAT_STR_LENGTH), NOT_NULL),
  Show::Column("NUMBER_PAGES_GET", Show::ULonglong(), NOT_NULL),
  Show::Column("HIT_RATE", Show::ULonglong(), NOT_NULL),
  Show::Column("YOUNG_MAKE_PER_THOUSAND_GETS", Show::ULonglong(), NOT_NULL),
  Show::Column("NOT_YOUNG_MAKE_PER_THOUSAND_GETS", Show::ULonglong(), NOT_NULL),
  Show::Column("NUMBER_PAGES_READ_AHEAD", Show::ULonglong(), NOT_NULL),
  Show::Column("NUMBER_READ_AHEAD_EVICTED", Show::ULonglong(), NOT_NULL),
  Show::Column("READ_AHEAD_RATE", Show::Float(MAX_FLOAT_STR_LENGTH), NOT_NULL),
  Show::Column("READ_AHEAD_EVICTED_RATE", Show::Float(MAX_FLOAT_STR_LENGTH), NOT_NULL),
  Show::Column("LRU_IO_TOTAL", Show::ULonglong(), NOT_NULL),
  Show::Column("LRU_IO_CURRENT", Show::ULonglong(), NOT_NULL),
  Show::Column("UNCOMPRESS_TOTAL", Show::ULonglong(), NOT_NULL),
  Show::Column("UNCOMPRESS_CURRENT", Show::ULonglong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_cmp_columns[]= {
  Show::Column("page_size", Show::SLong(5), NOT_NULL),
  Show::Column("compress_ops", Show::SLong(), NOT_NULL),
  Show::Column("compress_ops_ok", Show::SLong(), NOT_NULL),
  Show::Column("compress_time", Show::SLong(), NOT_NULL),
  Show::Column("uncompress_ops", Show::SLong(), NOT_NULL),
  Show::Column("uncompress_time", Show::SLong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_cmp_per_index_columns[]= {
  Show::Column("database_name", Show::Varchar(64), NOT_NULL),
  Show::Column("table_name", Show::Varchar(64), NOT_NULL),
  Show::Column("index_name", Show::Varchar(64), NOT_NULL),
  Show::Column("compress_ops", Show::SLong(), NOT_NULL),
  Show::Column("compress_ops_ok", Show::SLong(), NOT_NULL),
  Show::Column("compress_time", Show::SLong(), NOT_NULL),
  Show::Column("uncompress_ops", Show::SLong(), NOT_NULL),
  Show::Column("uncompress_time", Show::SLong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_cmp_per_index_reset_columns[]= {
  Show::Column("database_name", Show::Varchar(64), NOT_NULL),
  Show::Column("table_name", Show::Varchar(64), NOT_NULL),
  Show::Column("index_name", Show::Varchar(64), NOT_NULL),
  Show::Column("compress_ops", Show::SLong(), NOT_NULL),
  Show::Column("compress_ops_ok", Show::SLong(), NOT_NULL),
  Show::Column("compress_time", Show::SLong(), NOT_NULL),
  Show::Column("uncompress_ops", Show::SLong(), NOT_NULL),
  Show::Column("uncompress_time", Show::SLong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_cmp_reset_columns[]= {
  Show::Column("page_size", Show::SLong(5), NOT_NULL),
  Show::Column("compress_ops", Show::SLong(), NOT_NULL),
  Show::Column("compress_ops_ok", Show::SLong(), NOT_NULL),
  Show::Column("compress_time", Show::SLong(), NOT_NULL),
  Show::Column("uncompress_ops", Show::SLong(), NOT_NULL),
  Show::Column("uncompress_time", Show::SLong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_cmpmem_columns[]= {
  Show::Column("page_size", Show::SLong(5), NOT_NULL),
  Show::Column("buffer_pool_instance", Show::SLong(), NOT_NULL),
  Show::Column("pages_used", Show::SLong(), NOT_NULL),
  Show::Column("pages_free", Show::SLong(), NOT_NULL),
  Show::Column("relocation_ops", Show::SLonglong(), NOT_NULL),
  Show::Column("relocation_time", Show::SLong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_cmpmem_reset_columns[]= {
  Show::Column("page_size", Show::SLong(5), NOT_NULL),
  Show::Column("buffer_pool_instance", Show::SLong(), NOT_NULL),
  Show::Column("pages_used", Show::SLong(), NOT_NULL),
  Show::Column("pages_free", Show::SLong(), NOT_NULL),
  Show::Column("relocation_ops", Show::SLonglong(), NOT_NULL),
  Show::Column("relocation_time", Show::SLong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_ft_being_deleted_columns[]= {
  Show::Column("DOC_ID", Show::ULonglong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_ft_config_columns[]= {
  Show::Column("KEY", Show::Varchar(193), NOT_NULL),
  Show::Column("VALUE", Show::Varchar(193), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_ft_default_stopword_columns[]= {
  Show::Column("value", Show::Varchar(18), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_ft_deleted_columns[]= {
  Show::Column("DOC_ID", Show::ULonglong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_ft_index_cache_columns[]= {
  Show::Column("WORD", Show::Varchar(337), NOT_NULL),
  Show::Column("FIRST_DOC_ID", Show::ULonglong(), NOT_NULL),
  Show::Column("LAST_DOC_ID", Show::ULonglong(), NOT_NULL),
  Show::Column("DOC_COUNT", Show::ULonglong(), NOT_NULL),
  Show::Column("DOC_ID", Show::ULonglong(), NOT_NULL),
  Show::Column("POSITION", Show::ULonglong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_ft_index_table_columns[]= {
  Show::Column("WORD", Show::Varchar(337), NOT_NULL),
  Show::Column("FIRST_DOC_ID", Show::ULonglong(), NOT_NULL),
  Show::Column("LAST_DOC_ID", Show::ULonglong(), NOT_NULL),
  Show::Column("DOC_COUNT", Show::ULonglong(), NOT_NULL),
  Show::Column("DOC_ID", Show::ULonglong(), NOT_NULL),
  Show::Column("POSITION", Show::ULonglong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_lock_waits_columns[]= {
  Show::Column("requesting_trx_id", Show::ULonglong(), NOT_NULL),
  Show::Column("requested_lock_id", Show::Varchar(81), NOT_NULL),
  Show::Column("blocking_trx_id", Show::ULonglong(), NOT_NULL),
  Show::Column("blocking_lock_id", Show::Varchar(81), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_locks_columns[]= {
  Show::Column("lock_id", Show::Varchar(81), NOT_NULL),
  Show::Column("lock_trx_id", Show::ULonglong(), NOT_NULL),
  Show::Column("lock_mode", Show::Enum(&lock_mode_words), NOT_NULL),
  Show::Column("lock_type", Show::Enum(&lock_type_words), NOT_NULL),
  Show::Column("lock_table", Show::Varchar(1024), NOT_NULL),
  Show::Column("lock_index", Show::Varchar(1024), NULLABLE),
  Show::Column("lock_space", Show::ULong(), NULLABLE),
  Show::Column("lock_page", Show::ULong(), NULLABLE),
  Show::Column("lock_rec", Show::ULong(), NULLABLE),
  Show::Column("lock_data", Show::Varchar(8192), NULLABLE),
  Show::CEnd()};

ST_FIELD_INFO innodb_metrics_columns[]= {
  Show::Column("NAME", Show::Varchar(193), NOT_NULL),
  Show::Column("SUBSYSTEM", Show::Varchar(193), NOT_NULL),
  Show::Column("COUNT", Show::SLonglong(), NOT_NULL),
  Show::Column("MAX_COUNT", Show::SLonglong(), NULLABLE),
  Show::Column("MIN_COUNT", Show::SLonglong(), NULLABLE),
  Show::Column("AVG_COUNT", Show::Float(MAX_FLOAT_STR_LENGTH), NULLABLE),
  Show::Column("COUNT_RESET", Show::SLonglong(), NOT_NULL),
  Show::Column("MAX_COUNT_RESET", Show::SLonglong(), NULLABLE),
  Show::Column("MIN_COUNT_RESET", Show::SLonglong(), NULLABLE),
  Show::Column("AVG_COUNT_RESET", Show::Float(MAX_FLOAT_STR_LENGTH), NULLABLE),
  Show::Column("TIME_ENABLED", Show::Datetime(0), NULLABLE),
  Show::Column("TIME_DISABLED", Show::Datetime(0), NULLABLE),
  Show::Column("TIME_ELAPSED", Show::SLonglong(), NULLABLE),
  Show::Column("TIME_RESET", Show::Datetime(0), NULLABLE),
  Show::Column("ENABLED", Show::SLong(1), NOT_NULL),
  Show::Column("TYPE", Show::Enum(&metric_type_words), NOT_NULL),
  Show::Column("COMMENT", Show::Varchar(193), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_sys_columns_columns[]= {
  Show::Column("TABLE_ID", Show::ULonglong(), NOT_NULL),
  Show::Column("NAME", Show::Varchar(64), NOT_NULL),
  Show::Column("POS", Show::ULonglong(), NOT_NULL),
  Show::Column("MTYPE", Show::SLong(), NOT_NULL),
  Show::Column("PRTYPE", Show::SLong(), NOT_NULL),
  Show::Column("LEN", Show::SLong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_sys_fields_columns[]= {
  Show::Column("INDEX_ID", Show::ULonglong(), NOT_NULL),
  Show::Column("NAME", Show::Varchar(64), NOT_NULL),
  Show::Column("POS", Show::ULong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_sys_foreign_columns[]= {
  Show::Column("ID", Show::Varchar(193), NOT_NULL),
  Show::Column("FOR_NAME", Show::Varchar(193), NOT_NULL),
  Show::Column("REF_NAME", Show::Varchar(193), NOT_NULL),
  Show::Column("N_COLS", Show::ULong(), NOT_NULL),
  Show::Column("TYPE", Show::ULong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_sys_foreign_cols_columns[]= {
  Show::Column("ID", Show::Varchar(193), NOT_NULL),
  Show::Column("FOR_COL_NAME", Show::Varchar(64), NOT_NULL),
  Show::Column("REF_COL_NAME", Show::Varchar(64), NOT_NULL),
  Show::Column("POS", Show::ULong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_sys_indexes_columns[]= {
  Show::Column("INDEX_ID", Show::ULonglong(), NOT_NULL),
  Show::Column("NAME", Show::Varchar(64), NOT_NULL),
  Show::Column("TABLE_ID", Show::ULonglong(), NOT_NULL),
  Show::Column("TYPE", Show::SLong(), NOT_NULL),
  Show::Column("N_FIELDS", Show::SLong(), NOT_NULL),
  Show::Column("PAGE_NO", Show::SLong(), NULLABLE),
  Show::Column("SPACE", Show::SLong(), NULLABLE),
  Show::Column("MERGE_THRESHOLD", Show::SLong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_sys_tables_columns[]= {
  Show::Column("TABLE_ID", Show::ULonglong(), NOT_NULL),
  Show::Column("NAME", Show::Varchar(655), NOT_NULL),
  Show::Column("FLAG", Show::SLong(), NOT_NULL),
  Show::Column("N_COLS", Show::ULong(), NOT_NULL),
  Show::Column("SPACE", Show::ULong(), NOT_NULL),
  Show::Column("ROW_FORMAT", Show::Enum(&row_format_words), NULLABLE),
  Show::Column("ZIP_PAGE_SIZE", Show::ULong(), NOT_NULL),
  Show::Column("SPACE_TYPE", Show::Enum(&space_type_words), NULLABLE),
  Show::CEnd()};

ST_FIELD_INFO innodb_sys_tablespaces_columns[]= {
  Show::Column("SPACE", Show::ULong(), NOT_NULL),
  Show::Column("NAME", Show::Varchar(655), NOT_NULL),
  Show::Column("FLAG", Show::ULong(), NOT_NULL),
  Show::Column("ROW_FORMAT", Show::Varchar(22), NULLABLE),
  Show::Column("PAGE_SIZE", Show::ULong(), NOT_NULL),
  Show::Column("FILENAME", Show::Varchar(512), NOT_NULL),
  Show::Column("FS_BLOCK_SIZE", Show::ULong(), NOT_NULL),
  Show::Column("FILE_SIZE", Show::ULonglong(), NOT_NULL),
  Show::Column("ALLOCATED_SIZE", Show::ULonglong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_sys_tablestats_columns[]= {
  Show::Column("TABLE_ID", Show::ULonglong(), NOT_NULL),
  Show::Column("NAME", Show::Varchar(64), NOT_NULL),
  Show::Column("STATS_INITIALIZED", Show::SLong(1), NOT_NULL),
  Show::Column("NUM_ROWS", Show::ULonglong(), NOT_NULL),
  Show::Column("CLUST_INDEX_SIZE", Show::ULonglong(), NOT_NULL),
  Show::Column("OTHER_INDEX_SIZE", Show::ULonglong(), NOT_NULL),
  Show::Column("MODIFIED_COUNTER", Show::ULonglong(), NOT_NULL),
  Show::Column("AUTOINC", Show::ULonglong(), NOT_NULL),
  Show::Column("REF_COUNT", Show::SLong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_sys_virtual_columns[]= {
  Show::Column("TABLE_ID", Show::ULonglong(), NOT_NULL),
  Show::Column("POS", Show::ULong(), NOT_NULL),
  Show::Column("BASE_POS", Show::ULong(), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_tablespaces_encryption_columns[]= {
  Show::Column("SPACE", Show::ULong(), NOT_NULL),
  Show::Column("NAME", Show::Varchar(655), NULLABLE),
  Show::Column("ENCRYPTION_SCHEME", Show::ULong(), NOT_NULL),
  Show::Column("KEYSERVER_REQUESTS", Show::ULong(), NOT_NULL),
  Show::Column("MIN_KEY_VERSION", Show::ULong(), NOT_NULL),
  Show::Column("CURRENT_KEY_VERSION", Show::ULong(), NOT_NULL),
  Show::Column("KEY_ROTATION_PAGE_NUMBER", Show::ULonglong(), NULLABLE),
  Show::Column("KEY_ROTATION_MAX_PAGE_NUMBER", Show::ULonglong(), NULLABLE),
  Show::Column("CURRENT_KEY_ID", Show::ULong(), NOT_NULL),
  Show::Column("ROTATING_OR_FLUSHING", Show::SLong(1), NOT_NULL),
  Show::CEnd()};

ST_FIELD_INFO innodb_trx_columns[]= {
  Show::Column("trx_id", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_state", Show::Varchar(13), NOT_NULL),
  Show::Column("trx_started", Show::Datetime(0), NOT_NULL),
  Show::Column("trx_requested_lock_id", Show::Varchar(81), NULLABLE),
  Show::Column("trx_wait_started", Show::Datetime(0), NULLABLE),
  Show::Column("trx_weight", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_mysql_thread_id", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_query", Show::Varchar(1024), NULLABLE),
  Show::Column("trx_operation_state", Show::Varchar(64), NULLABLE),
  Show::Column("trx_tables_in_use", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_tables_locked", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_lock_structs", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_lock_memory_bytes", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_rows_locked", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_rows_modified", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_concurrency_tickets", Show::ULonglong(), NOT_NULL),
  Show::Column("trx_isolation_level", Show::Enum(&isolation_words), NOT_NULL),
  Show::Column("trx_unique_checks", Show::SLong(1), NOT_NULL),
  Show::Column("trx_foreign_key_checks", Show::SLong(1), NOT_NULL),
  Show::Column("trx_last_foreign_key_error", Show::Varchar(256), NULLABLE),
  Show::Column("trx_is_read_only", Show::SLong(1), NOT_NULL),
  Show::Column("trx_autocommit_non_locking", Show::SLong(1), NOT_NULL),
  Show::CEnd()};

} // namespace sluice

#endif

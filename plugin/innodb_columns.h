/* The columns of InnoDB's tables of INFORMATION_SCHEMA, which the stand-in has. Defined in
   innodb_columns.cc. Used by: innodb_tables, lock_tables, buffer_pool_stats. */
#ifndef SLUICE_INNODB_COLUMNS_H
#define SLUICE_INNODB_COLUMNS_H
#include "compat.h"

#ifdef SLUICE_STAND_IN
#include "sql_i_s.h"

namespace sluice {

extern ST_FIELD_INFO innodb_buffer_page_columns[];
extern ST_FIELD_INFO innodb_buffer_page_lru_columns[];
extern ST_FIELD_INFO innodb_buffer_pool_stats_columns[];
extern ST_FIELD_INFO innodb_cmp_columns[];
extern ST_FIELD_INFO innodb_cmp_per_index_columns[];
extern ST_FIELD_INFO innodb_cmp_per_index_reset_columns[];
extern ST_FIELD_INFO innodb_cmp_reset_columns[];
extern ST_FIELD_INFO innodb_cmpmem_columns[];
extern ST_FIELD_INFO innodb_cmpmem_reset_columns[];
extern ST_FIELD_INFO innodb_ft_being_deleted_columns[];
extern ST_FIELD_INFO innodb_ft_config_columns[];
extern ST_FIELD_INFO innodb_ft_default_stopword_columns[];
extern ST_FIELD_INFO innodb_ft_deleted_columns[];
extern ST_FIELD_INFO innodb_ft_index_cache_columns[];
extern ST_FIELD_INFO innodb_ft_index_table_columns[];
extern ST_FIELD_INFO innodb_lock_waits_columns[];
extern ST_FIELD_INFO innodb_locks_columns[];
extern ST_FIELD_INFO innodb_metrics_columns[];
extern ST_FIELD_INFO innodb_sys_columns_columns[];
extern ST_FIELD_INFO innodb_sys_fields_columns[];
extern ST_FIELD_INFO innodb_sys_foreign_columns[];
extern ST_FIELD_INFO innodb_sys_foreign_cols_columns[];
extern ST_FIELD_INFO innodb_sys_indexes_columns[];
extern ST_FIELD_INFO innodb_sys_tables_columns[];
extern ST_FIELD_INFO innodb_sys_tablespaces_columns[];
extern ST_FIELD_INFO innodb_sys_tablestats_columns[];
extern ST_FIELD_INFO innodb_sys_virtual_columns[];
extern ST_FIELD_INFO innodb_tablespaces_encryption_columns[];
extern ST_FIELD_INFO innodb_trx_columns[];

} // namespace sluice
#endif
#endif

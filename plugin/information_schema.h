/* The engine's tables of INFORMATION_SCHEMA, as hton.cc declares them. */
#ifndef SLUICE_INFORMATION_SCHEMA_H
#define SLUICE_INFORMATION_SCHEMA_H
#include "compat.h"
#include "sql_i_s.h"
#include "sql_acl.h"
#include "sql_show.h"
#include "tztime.h"
#include <string>

namespace sluice {

extern struct st_mysql_information_schema information_schema;
/* The field of a column. nullptr: the table has none of that name. A column that only InnoDB's
   table of that kind has exists in the stand-in alone. */
inline Field *column_of(const TABLE *table, const char *name)
{
  for (Field **field= table->field; *field; field++)
    if (!strcmp((*field)->field_name.str, name))
      return *field;
  return nullptr;
}
int buffer_pool_stats_init(void *schema);
int change_buffer_table_init(void *schema);
int trx_table_init(void *schema);
int locks_table_init(void *schema);
int lock_waits_table_init(void *schema);
int table_stats_init(void *schema);
int index_stats_init(void *schema);
int tables_table_init(void *schema);
int indexes_table_init(void *schema);
int tablespaces_table_init(void *schema);
int metrics_table_init(void *schema);
int foreign_init(void *schema);
int foreign_columns_init(void *schema);
#ifdef SLUICE_STAND_IN
/* InnoDB's other tables; an empty one has the columns and no rows. */
#define INNODB_EMPTY_TABLES(TABLE)                                                                                     \
  TABLE(buffer_page, BUFFER_PAGE) TABLE(buffer_page_lru, BUFFER_PAGE_LRU) TABLE(cmp, CMP)                              \
  TABLE(cmp_per_index, CMP_PER_INDEX) TABLE(cmp_per_index_reset, CMP_PER_INDEX_RESET)                                  \
  TABLE(cmp_reset, CMP_RESET) TABLE(cmpmem, CMPMEM) TABLE(cmpmem_reset, CMPMEM_RESET)                                  \
  TABLE(ft_being_deleted, FT_BEING_DELETED) TABLE(ft_config, FT_CONFIG)                                                \
  TABLE(ft_default_stopword, FT_DEFAULT_STOPWORD) TABLE(ft_deleted, FT_DELETED)                                        \
  TABLE(ft_index_cache, FT_INDEX_CACHE) TABLE(ft_index_table, FT_INDEX_TABLE)                                          \
  TABLE(sys_virtual, SYS_VIRTUAL) TABLE(tablespaces_encryption, TABLESPACES_ENCRYPTION)
#define DECLARE_INIT(NAME, SHOWN) int innodb_##NAME##_init(void *schema);
INNODB_EMPTY_TABLES(DECLARE_INIT)
#undef DECLARE_INIT
int innodb_metrics_init(void *schema);
int innodb_sys_columns_init(void *schema);
int innodb_sys_fields_init(void *schema);
int innodb_sys_indexes_init(void *schema);
int innodb_sys_tables_init(void *schema);
int innodb_sys_tablespaces_init(void *schema);
int innodb_sys_tablestats_init(void *schema);
#endif

} // namespace sluice
#endif

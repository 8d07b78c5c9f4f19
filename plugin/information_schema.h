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

} // namespace sluice
#endif

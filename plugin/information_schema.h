/* The engine's tables of INFORMATION_SCHEMA, as hton.cc declares them, and what fills their
   rows. */
#ifndef SLUICE_INFORMATION_SCHEMA_H
#define SLUICE_INFORMATION_SCHEMA_H
#include "compat.h"
#include "engine.h"
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
/* The tables are for users with the privilege PROCESS. For others they are empty. As in InnoDB, the
   stand-in's tables also make the statement fail. */
inline bool is_hidden_from(THD *thd)
{
#ifdef SLUICE_STAND_IN
  constexpr bool IS_SILENT= false;
#else
  constexpr bool IS_SILENT= true;
#endif
  return check_global_access(thd, PROCESS_ACL, IS_SILENT);
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
  TABLE(buffer_page, BUFFER_PAGE) TABLE(buffer_page_lru, BUFFER_PAGE_LRU)                                              \
  TABLE(cmp_per_index, CMP_PER_INDEX) TABLE(cmp_per_index_reset, CMP_PER_INDEX_RESET)                                  \
  TABLE(ft_being_deleted, FT_BEING_DELETED) TABLE(ft_config, FT_CONFIG)                                                \
  TABLE(ft_default_stopword, FT_DEFAULT_STOPWORD) TABLE(ft_deleted, FT_DELETED)                                        \
  TABLE(ft_index_cache, FT_INDEX_CACHE) TABLE(ft_index_table, FT_INDEX_TABLE)                                          \
  TABLE(sys_virtual, SYS_VIRTUAL) TABLE(tablespaces_encryption, TABLESPACES_ENCRYPTION)
#define DECLARE_INIT(NAME, SHOWN) int innodb_##NAME##_init(void *schema);
INNODB_EMPTY_TABLES(DECLARE_INIT)
#undef DECLARE_INIT
int innodb_cmp_init(void *schema);
int innodb_cmp_reset_init(void *schema);
int innodb_cmpmem_init(void *schema);
int innodb_cmpmem_reset_init(void *schema);
int innodb_metrics_init(void *schema);
int innodb_sys_columns_init(void *schema);
int innodb_sys_fields_init(void *schema);
int innodb_sys_indexes_init(void *schema);
int innodb_sys_tables_init(void *schema);
int innodb_sys_tablespaces_init(void *schema);
int innodb_sys_tablestats_init(void *schema);
#endif

/* Fills a table: the columns of a row are stored one after the other, from the first on. */
class SchemaRow
{
public:
  SchemaRow(THD *thd, TABLE *table) : m_thd(thd), m_table(table) {}

  void begin()
  {
    restore_record(m_table, s->default_values);
    m_next= m_table->field;
  }
  void text(const std::string &text) { (*m_next++)->store(text.data(), text.size(), system_charset_info); }
  void text(const char *text) { this->text(std::string(text)); }
  void text(slc_bytes text) { this->text(string_of(text)); }
  void yes_or_no(bool yes) { text(yes ? "YES" : "NO"); }
  void text_or_null(const std::string &text)
  {
    if (!null_if(text.empty()))
      this->text(text);
  }
  void number(uint64_t number) { (*m_next++)->store(static_cast<longlong>(number), true); }
  void number_or_null(bool is_known, uint64_t number)
  {
    if (!null_if(!is_known))
      this->number(number);
  }
  /* Below 0: NULL. */
  void number_or_null(int64_t number) { number_or_null(number >= 0, static_cast<uint64_t>(number)); }
  void fraction(double number) { (*m_next++)->store(number); }
  void fraction_or_null(bool is_known, double number)
  {
    if (!null_if(!is_known))
      fraction(number);
  }
  /* Seconds since the epoch; 0: NULL. */
  void time(int64_t seconds)
  {
    if (null_if(!seconds))
      return;
    MYSQL_TIME time;
    m_thd->variables.time_zone->gmt_sec_to_TIME(&time, static_cast<my_time_t>(seconds));
    (*m_next++)->store_time(&time);
  }
  void end() { m_failed|= schema_table_store_record(m_thd, m_table); }
  bool failed() const { return m_failed; }
  bool is_to_end() const { return m_failed || thd_kill_level(m_thd) != THD_IS_NOT_KILLED; }

private:
  bool null_if(bool is_null)
  {
    if (is_null)
      (*m_next++)->set_null();
    else
      (*m_next)->set_notnull();
    return is_null;
  }

  THD *const m_thd;
  TABLE *const m_table;
  Field **m_next= nullptr;
  bool m_failed= false;
};

inline int set_up_schema_table(void *schema, ST_FIELD_INFO *columns, int (*fill_table)(THD *, TABLE_LIST *, COND *))
{
  ST_SCHEMA_TABLE *table= static_cast<ST_SCHEMA_TABLE *>(schema);
  table->fields_info= columns;
  table->fill_table= fill_table;
  return 0;
}

} // namespace sluice
#endif

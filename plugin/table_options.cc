/* The list of the options, which of them the engine does not have, and how SHOW CREATE TABLE shows
   them. */
#include "table_options.h"
#include "create_options.h"
#include "settings.h"
#include "sys_vars_shared.h"
#include <string>
#include <vector>

namespace sluice {

ha_create_table_option table_options[]= {
  HA_TOPTION_ENUM("CHANGE_BUFFERING", change_buffering, "default,none,inserts,deletes,changes,purges,all", 0),
  HA_TOPTION_ENUM("ENCRYPTED", encrypted, "DEFAULT,YES,NO", 0),
  HA_TOPTION_NUMBER("ENCRYPTION_KEY_ID", encryption_key_id, 0, 0, UINT_MAX32, 1),
  HA_TOPTION_BOOL("PAGE_COMPRESSED", page_compressed, false),
  HA_TOPTION_NUMBER("PAGE_COMPRESSION_LEVEL", page_compression_level, 0, 0, 9, 1),
  HA_TOPTION_END};

namespace {

enum { ENCRYPTED_YES= 1, ENCRYPTED_NO= 2 };     // their numbers in the list above

bool needs_quotes(const LEX_CSTRING &value)
{
  for (size_t i= 0; i < value.length; i++)
    if (!isalnum(static_cast<uchar>(value.str[i])) && value.str[i] != '_')
      return true;
  return !value.length || is_keyword(value.str, static_cast<uint>(value.length));
}

/* ---- what the engine does not have ---- */

const char *const NOT_ENCRYPTED= "data files are not encrypted";
const char *const NOT_COMPRESSED= "pages are not compressed";
const char *const ONE_ROW_FORMAT= "rows have one form, that of DYNAMIC";
const char *const ONE_DIRECTORY= "all data files are in one directory";
const char *const NO_OTHER_ROWS= "a table has its own rows only";

struct Unsupported
{
  const char *name;
  const char *why;
  bool always_refused;
};

/* COMPACT and REDUNDANT name older forms of DYNAMIC, with tighter limits: nothing that works with
   them fails here. */
Unsupported unsupported_row_format(enum row_type type)
{
  switch (type)
  {
#ifndef SLUICE_STAND_IN
  case ROW_TYPE_COMPRESSED: return {"ROW_FORMAT=COMPRESSED", NOT_COMPRESSED, false};
#endif
  case ROW_TYPE_FIXED: return {"ROW_FORMAT=FIXED", ONE_ROW_FORMAT, false};
  case ROW_TYPE_PAGE: return {"ROW_FORMAT=PAGE", ONE_ROW_FORMAT, false};
  default: return {nullptr, nullptr, false};
  }
}

/* A key's number alone, or a level, also asks for what does not exist. A stolen disk must not show
   that an option had no effect: what promises encryption is never dropped. */
void add_engine_options(std::vector<Unsupported> &found, const ha_table_option_struct &asked, const ha_table_option_struct &had)
{
  if (asked.encrypted == ENCRYPTED_YES)
    found.push_back({"ENCRYPTED", NOT_ENCRYPTED, true});
  if (asked.encryption_key_id)
    found.push_back({"ENCRYPTION_KEY_ID", NOT_ENCRYPTED, true});
#ifndef SLUICE_STAND_IN
  if (asked.page_compressed && !had.page_compressed)
    found.push_back({"PAGE_COMPRESSED", NOT_COMPRESSED, false});
  if (asked.page_compression_level && had.page_compression_level != asked.page_compression_level)
    found.push_back({"PAGE_COMPRESSION_LEVEL", NOT_COMPRESSED, false});
#endif
}

/* TRANSACTIONAL=0 is taken: it asks for less than every table here has, and mysql.gtid_slave_pos
   comes with it. With an ALTER that changes the engine come the options that the table had: they
   count as if asked for, because SHOW CREATE TABLE will show them. Options of a partition are in
   `made`. */
std::vector<Unsupported> unsupported_options(const TABLE_SHARE *made, const HA_CREATE_INFO *info, const TABLE_SHARE *had)
{
  static const ha_table_option_struct nothing{};
  std::vector<Unsupported> found;
  const Unsupported row_format= unsupported_row_format(info->row_type);
  if (row_format.name && !(had && had->row_type == info->row_type))
    found.push_back(row_format);
#ifndef SLUICE_STAND_IN
  if (info->key_block_size && !(had && had->key_block_size == info->key_block_size))
    found.push_back({"KEY_BLOCK_SIZE", NOT_COMPRESSED, false});
#endif
  if (made->option_struct)
    add_engine_options(found, *made->option_struct, had && had->option_struct ? *had->option_struct : nothing);
  if (info->data_file_name)
    found.push_back({"DATA DIRECTORY", ONE_DIRECTORY, false});
  if (info->index_file_name)
    found.push_back({"INDEX DIRECTORY", ONE_DIRECTORY, false});
  if ((info->used_fields & HA_CREATE_USED_CONNECTION) && info->connect_string.length)
    found.push_back({"CONNECTION", NO_OTHER_ROWS, false});
  if (info->used_fields & HA_CREATE_USED_UNION)
    found.push_back({"UNION", NO_OTHER_ROWS, false});
  if (info->used_fields & HA_CREATE_USED_INSERT_METHOD)
    found.push_back({"INSERT_METHOD", NO_OTHER_ROWS, false});
  return found;
}

std::string strict_warning(const Unsupported &option)
{
  return std::string(SLUICE_ENGINE_NAME ": ") + option.name + ": " + option.why + ". Leave it out, or SET SESSION " +
         variable_name("strict_mode") + "=OFF: the table is then made without it, and a warning says so";
}

std::string lax_warning(const Unsupported &option)
{
#ifdef SLUICE_STAND_IN
  if (option.why == ONE_ROW_FORMAT)
    return SLUICE_ENGINE_NAME ": assuming ROW_FORMAT=DYNAMIC.";
#endif
  return std::string(SLUICE_ENGINE_NAME ": ") + option.name + " is ignored: " + option.why;
}

#ifndef SLUICE_STAND_IN
/* InnoDB would encrypt a table that does not ask for it. */
bool innodb_encrypts_tables(THD *thd)
{
  static const char NAME[]= "innodb_encrypt_tables";
  sys_var *const variable= intern_find_sys_var(NAME, sizeof NAME - 1);
  StringBuffer<16> buffer;
  const String *const value= variable ? variable->val_str(&buffer, thd, OPT_GLOBAL, &null_clex_str) : nullptr;
  const String off(STRING_WITH_LEN("OFF"), system_charset_info);
  return value && !value->eq(&off, system_charset_info);
}
#endif

/* Partitions are asked for one by one. */
void warn_once(THD *thd, const std::string &text)
{
  Diagnostics_area::Sql_condition_iterator given= thd->get_stmt_da()->sql_conditions();
  while (const Sql_condition *condition= given++)
    if (text == condition->get_message_text())
      return;
  push_warning(thd, Sql_condition::WARN_LEVEL_WARN, ER_ILLEGAL_HA_CREATE_OPTION, text.c_str());
}

#ifdef SLUICE_STAND_IN
bool is_compressed_page_table(const HA_CREATE_INFO *info) { return info->row_type == ROW_TYPE_COMPRESSED || info->key_block_size; }

const char *why_pages_do_not_fit(const ha_table_option_struct *options, const HA_CREATE_INFO *info)
{
  if (!options)
    return nullptr;
  if (!options->page_compressed)
    return options->page_compression_level ? "PAGE_COMPRESSION_LEVEL requires PAGE_COMPRESSED" : nullptr;
  if (is_compressed_page_table(info))
    return "PAGE_COMPRESSED table can't have ROW_TYPE=COMPRESSED";
  const enum row_type format= info->row_type == ROW_TYPE_DEFAULT ? default_row_format() : info->row_type;
  return format == ROW_TYPE_REDUNDANT ? "PAGE_COMPRESSED table can't have ROW_TYPE=REDUNDANT" : nullptr;
}

/* InnoDB's rules on options of compression that do not fit each other. The server tells of an error
   without a message. */
int check_compression(THD *thd, const TABLE_SHARE *made, const HA_CREATE_INFO *info)
{
  const bool strict= strict_mode(thd);
  const ulong size= info->key_block_size;
  const std::string engine_name= SLUICE_ENGINE_NAME ": ", shown_size= std::to_string(size);
  const bool is_size= !size || size == 1 || size == 2 || size == 4 || size == 8 || size == 16;
  if (!is_size)
  {
    warn_once(thd, engine_name + (strict ? "invalid KEY_BLOCK_SIZE = " + shown_size + ". Valid values are [1, 2, 4, 8, 16]"
                                         : "ignoring KEY_BLOCK_SIZE=" + shown_size + "."));
    return strict ? refuse_option("KEY_BLOCK_SIZE") : 0;
  }
  const char *const format= info->row_type == ROW_TYPE_DYNAMIC     ? "DYNAMIC"
                            : info->row_type == ROW_TYPE_COMPACT   ? "COMPACT"
                            : info->row_type == ROW_TYPE_REDUNDANT ? "REDUNDANT"
                                                                   : nullptr;
  if (size && format)
  {
    warn_once(thd, engine_name + (strict ? std::string("cannot specify ROW_FORMAT = ") + format + " with KEY_BLOCK_SIZE."
                                         : "ignoring KEY_BLOCK_SIZE=" + shown_size + " unless ROW_FORMAT=COMPRESSED."));
    return strict ? refuse_option("KEY_BLOCK_SIZE") : 0;
  }
  const char *const why= why_pages_do_not_fit(made->option_struct, info);
  if (!why)
    return 0;
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, HA_WRONG_CREATE_OPTION, SLUICE_ENGINE_NAME ": %s", why);
  return HA_WRONG_CREATE_OPTION;
}

/* InnoDB's own: programs must not come to rely on them. */
int refuse_reserved_names(THD *thd, const TABLE_SHARE *made)
{
  static const char *const columns[]= {"DB_ROW_ID", "DB_TRX_ID", "DB_ROLL_PTR"};
  static const char CLUSTERED[]= "GEN_CLUST_INDEX";
  for (uint i= 0; i < made->fields; i++)
    for (const char *const reserved : columns)
      if (same_name(made->field[i]->field_name, std::string(reserved)))
      {
        my_error(ER_WRONG_COLUMN_NAME, MYF(0), made->field[i]->field_name.str);
        return HA_WRONG_CREATE_OPTION;
      }
  for (uint i= 0; i < made->keys; i++)
    if (same_name(made->key_info[i].name, std::string(CLUSTERED)))
    {
      push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_WRONG_NAME_FOR_INDEX,
                          "Cannot Create Index with name '%s'. The name is reserved for the system default primary index.", CLUSTERED);
      my_error(ER_WRONG_NAME_FOR_INDEX, MYF(0), CLUSTERED);
      return HA_ERR_WRONG_INDEX;
    }
  return 0;
}
#endif

} // namespace

int refuse_option(const char *what)
{
  my_error(ER_ILLEGAL_HA_CREATE_OPTION, MYF(0), SLUICE_ENGINE_NAME, what);
  return HA_WRONG_CREATE_OPTION;
}

int check_options(THD *thd, const TABLE_SHARE *made, const HA_CREATE_INFO *info, const TABLE_SHARE *had)
{
#ifdef SLUICE_STAND_IN
  if (const int error= refuse_reserved_names(thd, made))
    return error;
#endif
  const std::vector<Unsupported> found= unsupported_options(made, info, had);
  for (const Unsupported &option : found)
    if (option.always_refused)
      return refuse_option((std::string(option.name) + " (leave it out, or give DEFAULT)").c_str());
  const bool strict= strict_mode(thd);
#ifdef SLUICE_STAND_IN
  if (const int error= check_compression(thd, made, info))
    return error;
  if (strict && is_compressed_page_table(info) && (info->tmp_table() || refuses_compressed_tables()))
  {
    my_error(ER_UNSUPPORTED_COMPRESSED_TABLE, MYF(0));
    return HA_WRONG_CREATE_OPTION;
  }
#endif
  for (const Unsupported &option : found)
    warn_once(thd, strict ? strict_warning(option) : lax_warning(option));
#ifndef SLUICE_STAND_IN
  if (!had && !info->tmp_table() && made->option_struct && made->option_struct->encrypted != ENCRYPTED_NO && innodb_encrypts_tables(thd))
    warn_once(thd, SLUICE_ENGINE_NAME ": innodb_encrypt_tables has no effect on this table: " + std::string(NOT_ENCRYPTED));
#endif
  return strict && !found.empty() ? refuse_option(found.front().name) : 0;
}

#ifdef SLUICE_STAND_IN
bool asks_for_compression(const TABLE_SHARE *share)
{
  return share->row_type == ROW_TYPE_COMPRESSED || (share->key_block_size && share->row_type == ROW_TYPE_DEFAULT) ||
         (share->option_struct && share->option_struct->page_compressed);
}
#endif

void quote_keywords(TABLE_SHARE *share)
{
  for (engine_option_value *option= share->option_list; option; option= option->next)
    if (!option->quoted_value && option->value.str && needs_quotes(option->value))
    {
      mysql_mutex_lock(&share->LOCK_ha_data);
      option->quoted_value= true;
      mysql_mutex_unlock(&share->LOCK_ha_data);
    }
}

} // namespace sluice

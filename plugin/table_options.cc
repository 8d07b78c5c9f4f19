/* The list of the options, which of their values are refused, and how SHOW CREATE TABLE shows
   them. */
#include "table_options.h"
#include "create_options.h"

namespace sluice {

ha_create_table_option table_options[]= {
  HA_TOPTION_ENUM("CHANGE_BUFFERING", change_buffering, "default,none,inserts,deletes,changes,purges,all", 0),
  HA_TOPTION_ENUM("ENCRYPTED", encrypted, "DEFAULT,YES,NO", 0),
  HA_TOPTION_NUMBER("ENCRYPTION_KEY_ID", encryption_key_id, 0, 0, UINT_MAX32, 1),
  HA_TOPTION_BOOL("PAGE_COMPRESSED", page_compressed, false),
  HA_TOPTION_NUMBER("PAGE_COMPRESSION_LEVEL", page_compression_level, 0, 0, 9, 1),
  HA_TOPTION_END};

namespace {

enum { ENCRYPTED_YES= 1 };              // its number in the list above

bool needs_quotes(const LEX_CSTRING &value)
{
  for (size_t i= 0; i < value.length; i++)
    if (!isalnum(static_cast<uchar>(value.str[i])) && value.str[i] != '_')
      return true;
  return !value.length || is_keyword(value.str, static_cast<uint>(value.length));
}

} // namespace

/* An ALTER that changes a table of InnoDB into one of this engine brings its options along, and
   they count: a stolen disk must not show that an option had no effect. A key's number alone, or a
   level, also asks for what does not exist. */
const char *unsupported_engine_option(const ha_table_option_struct *options)
{
  if (!options)
    return nullptr;
  if (options->encrypted == ENCRYPTED_YES)
    return "ENCRYPTED (leave it out, or give DEFAULT)";
  if (options->encryption_key_id)
    return "ENCRYPTION_KEY_ID (leave it out, or give DEFAULT)";
  if (options->page_compressed)
    return "PAGE_COMPRESSED (leave it out, or give DEFAULT)";
  if (options->page_compression_level)
    return "PAGE_COMPRESSION_LEVEL (leave it out, or give DEFAULT)";
  return nullptr;
}

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

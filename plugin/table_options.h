/* The options that CREATE TABLE takes for this engine, by the name that the server wants for their
   struct. SHOW CREATE TABLE shows what was given; the server keeps it in the .frm. Used by: hton
   (the list), ddl, inplace, ha_sluice. */
#ifndef SLUICE_TABLE_OPTIONS_H
#define SLUICE_TABLE_OPTIONS_H
#include "compat.h"

struct ha_table_option_struct
{
  /* 0 = as sluice_change_buffering says, else the number of its value + 1. */
  uint change_buffering;
  /* InnoDB's. They are known so that they can be refused by name: the server calls what it does not
     know a wrong option. */
  uint encrypted;
  ulonglong encryption_key_id;
  bool page_compressed;
  ulonglong page_compression_level;
};

namespace sluice {

extern ha_create_table_option table_options[];

/* The first of the options that asks for what the engine does not have, with the way out; null if
   none does. */
const char *unsupported_engine_option(const ha_table_option_struct *options);
/* SHOW CREATE TABLE quotes no value that was given as an identifier (`all`), and cannot be read
   again if that is a keyword. Such values of the table count as quoted from here on. */
void quote_keywords(TABLE_SHARE *share);

/* As slc_table_def has it. */
inline uint32 change_buffering_of(const TABLE_SHARE *share)
{
  return share->option_struct ? share->option_struct->change_buffering : 0;
}

} // namespace sluice
#endif

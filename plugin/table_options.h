/* The options of CREATE and ALTER TABLE: the engine's own, and which options of the server or of
   InnoDB the engine does not have. The server wants this name for the struct of the engine's own. SHOW CREATE
   TABLE shows what was given; the server keeps it in the .frm. Used by: hton (the list), ddl,
   inplace, ha_sluice. */
#ifndef SLUICE_TABLE_OPTIONS_H
#define SLUICE_TABLE_OPTIONS_H
#include "compat.h"

struct ha_table_option_struct
{
  /* 0 = as sluice_change_buffering says, else the number of its value + 1. */
  uint change_buffering;
  /* InnoDB's. They are known so that check_options() can name them: the server calls what it does
     not know a wrong option. */
  uint encrypted;
  ulonglong encryption_key_id;
  bool page_compressed;
  ulonglong page_compression_level;
};

namespace sluice {

extern ha_create_table_option table_options[];

/* The error that names what a definition asks for and the engine does not have. */
int refuse_option(const char *what);
/* Asked for each table, or partition, that a statement makes or changes. Each option that the
   engine does not have gives a warning. With sluice_strict_mode=ON the first one is also the error of the
   statement (HA_WRONG_CREATE_OPTION; 0: none). Options that promise encryption are errors in any
   case. `made`: the new definition; `had`: the definition that an ALTER TABLE starts from, null if
   the table is new to this engine. What `had` has too was decided when it was given. */
int check_options(THD *thd, const TABLE_SHARE *made, const HA_CREATE_INFO *info, const TABLE_SHARE *had);
/* SHOW CREATE TABLE quotes no value that was given as an identifier (`all`), and cannot be read
   again if that is a keyword. Such values of the table count as quoted from here on. */
void quote_keywords(TABLE_SHARE *share);

#ifdef SLUICE_STAND_IN
/* ROW_FORMAT=COMPRESSED, or KEY_BLOCK_SIZE alone, or PAGE_COMPRESSED: rows are compressed. */
bool asks_for_compression(const TABLE_SHARE *share);
#endif

/* As slc_table_def has it. */
inline uint32 change_buffering_of(const TABLE_SHARE *share)
{
  return share->option_struct ? share->option_struct->change_buffering : 0;
}

} // namespace sluice
#endif

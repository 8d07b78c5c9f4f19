/* The options that CREATE TABLE takes for this engine, by the name that the server wants for their struct. SHOW CREATE TABLE shows
   what was given; the server keeps it in the .frm. Used by: hton (the list), ddl, inplace, ha_sluice. */
#ifndef SLUICE_TABLE_OPTIONS_H
#define SLUICE_TABLE_OPTIONS_H
#include "compat.h"

struct ha_table_option_struct
{
  uint change_buffering;                /* 0 = as sluice_change_buffering says, else the number of its value + 1 */
};

namespace sluice {

extern ha_create_table_option table_options[];

/* As slc_table_def has it. */
inline uint32 change_buffering_of(const TABLE_SHARE *share)
{
  return share->option_struct ? share->option_struct->change_buffering : 0;
}

} // namespace sluice
#endif

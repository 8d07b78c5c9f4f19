/* KeyTexts: the engine's keys as people write them, for the tables of INFORMATION_SCHEMA. The
   columns of a table's keys are noted when the table is first opened, and forgotten with its Share.
   Before the first open since the server's start a key is shown in hexadecimal digits. So is a key
   that does not have the form of the table's keys.

   Of a string the key holds what its collation compares, not the characters. Where each printable
   ASCII character has bytes of its own there, they are turned back (into one of the characters that
   compare equal: lower case, no accents).
   Latches: one mutex of its own, a leaf. Called by: ha_sluice (open), Share, lock_tables. */
#ifndef SLUICE_KEY_TEXT_H
#define SLUICE_KEY_TEXT_H
#include "codec.h"
#include <string>

namespace sluice {

class KeyTexts
{
public:
  /* Once for each Share; `owner` is the Share, and says when the table's fields go. */
  static void remember(const void *owner, const char *table_name, const TABLE_SHARE *share, const Codec &codec);
  static void forget(const void *owner, const char *table_name);
  /* index as the engine counts: 0 = clustered. The key may end early. */
  static std::string text(const std::string &table_name, uint index, slc_bytes key);
  /* Of a range that the engine has from one key on, up to below another one (either empty: no
     bound), as an interval of what people write: [15, 20) with 15 and without 20. */
  static std::string range_text(const std::string &table_name, uint index, slc_bytes from, slc_bytes to);
  /* The same for the engine; nothing if it does not fit. */
  static size_t text_for_engine(slc_bytes table_name, uint32_t index, slc_bytes key, char *to, size_t size);
};

} // namespace sluice
#endif

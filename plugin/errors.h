/* From the engine's errors to the server's. An engine's error becomes the HA_ERR_ code by which the
   server chooses its message. The transaction is marked where the server must roll back more than
   the statement.
   Called by: every file that calls the engine. */
#ifndef SLUICE_ERRORS_H
#define SLUICE_ERRORS_H
#include "compat.h"
#include "sluice_abi.h"

namespace sluice {

/* Codes of our own, printed with the engine's text by ha_sluice::print_error() and
   get_error_message(). */
enum
{
  SLUICE_ERR_FIRST= HA_ERR_LAST + 100,
  SLUICE_ERR_IO= SLUICE_ERR_FIRST,
  SLUICE_ERR_POISONED,
  SLUICE_ERR_UNSUPPORTED,
  SLUICE_ERR_ALREADY_REPORTED,          // the message has been sent
  SLUICE_ERR_ONLINE_ALTER_FULL,         // has a number of the server's
  SLUICE_ERR_BAD_ROW
};

/* The code says all: there is no text, and nothing to name. These come from many calls, not from
   failures alone. */
inline bool needs_no_text(slc_err error)
{
  return error == SLC_OK || error == SLC_NOT_FOUND || error == SLC_END || error == SLC_DUPLICATE;
}
/* The HA_ERR_ code of an engine error. Reports damage to the error log, naming `object`; thd may be
   NULL. */
int server_error(slc_err error, THD *thd, const char *object);
/* Of a statement without a handler: sends the engine's text as its error. 0 = SLC_OK, else 1. */
int report_error(slc_err error);
/* The text of one of our own codes, from the last server_error() of this thread. */
const char *error_text(int error);
/* An entry or a row whose bytes are not of the table's form. `definition`: the number of the row's
   definition, if the table has none of that number, else 0. */
int bad_row(const char *object, uint definition= 0);

} // namespace sluice
#endif

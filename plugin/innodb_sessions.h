/* The transactions of the server's sessions, as SHOW ENGINE INNODB STATUS lists them.
   Used by: innodb_monitor. */
#ifndef SLUICE_INNODB_SESSIONS_H
#define SLUICE_INNODB_SESSIONS_H
#include "compat.h"

#ifdef SLUICE_STAND_IN
#include <string>

namespace sluice {

std::string transactions_of_sessions();

} // namespace sluice
#endif
#endif

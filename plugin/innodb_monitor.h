/* SHOW ENGINE INNODB STATUS of the stand-in. Used by: hton. */
#ifndef SLUICE_INNODB_MONITOR_H
#define SLUICE_INNODB_MONITOR_H
#include "compat.h"
#include <string>

#ifdef SLUICE_STAND_IN

namespace sluice {

/* The engine's text (slc_engine_status_text) in InnoDB's words. */
std::string monitor_text(const std::string &text);

} // namespace sluice
#endif
#endif

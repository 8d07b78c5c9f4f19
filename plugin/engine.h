/* The one engine of this process and its handlerton; both are set between plugin start and stop
   (hton.cc).
   Used by: every file that calls the engine. */
#ifndef SLUICE_ENGINE_H
#define SLUICE_ENGINE_H
#include "compat.h"
#include "sluice_abi.h"
#include <string>

namespace sluice {

extern slc_engine *engine;
extern handlerton *hton;
/* From the start until the server has finished or undone the statements that a crash cut short. */
extern bool in_ddl_recovery;

inline std::string string_of(slc_bytes text) { return std::string(reinterpret_cast<const char *>(text.ptr), text.len); }

} // namespace sluice
#endif

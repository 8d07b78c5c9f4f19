/* The one engine of this process and its handlerton; both are set between plugin start and stop
   (hton.cc).
   Used by: every file that calls the engine. */
#ifndef SLUICE_ENGINE_H
#define SLUICE_ENGINE_H
#include "compat.h"
#include "sluice_abi.h"

namespace sluice {

extern slc_engine *engine;
extern handlerton *hton;


} // namespace sluice
#endif

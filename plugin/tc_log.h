#ifndef SLUICE_TC_LOG_H
#define SLUICE_TC_LOG_H

namespace sluice {

/* At the server's start, before it recovers by its own log; with the engine open, or if it could
   not be opened. */
void keep_what_tc_log_decided();

} // namespace sluice
#endif

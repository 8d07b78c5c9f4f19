/* Prepared transactions that their own connections do not end: verdicts by XID, and what is found prepared at start.
   Called by: hton.cc. */
#ifndef SLUICE_XA_H
#define SLUICE_XA_H
#include "compat.h"
#include "sluice_abi.h"

namespace sluice {

slc_xid engine_xid(const XID &xid);

void set_xa_callbacks(handlerton *hton);

/* At the server's start, when the engine is open: before the server recovers by its own log. */
bool keep_what_tc_log_decided();

} // namespace sluice
#endif

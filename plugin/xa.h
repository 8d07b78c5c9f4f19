/* Prepared transactions that their own connections do not end: commit and rollback by XID, and what
   is found prepared at start.
   Called by: hton.cc. */
#ifndef SLUICE_XA_H
#define SLUICE_XA_H
#include "compat.h"
#include "sluice_abi.h"
#include <vector>

namespace sluice {

slc_xid engine_xid(const XID &xid);

void set_xa_callbacks(handlerton *hton);

/* As the XA specification numbers them. */
enum { XA_OK= 0, XAER_RMERR= -3, XAER_NOTA= -4 };

/* Found at start and not decided yet. */
std::vector<XID> prepared_xids();

} // namespace sluice
#endif

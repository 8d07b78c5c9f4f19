/* Commit and rollback of prepared transactions by XID: from other connections, and from the binary
   log's recovery. */
#include "xa.h"
#include "asleep.h"
#include "cluster.h"
#include "engine.h"
#include "errors.h"
#include <vector>

namespace sluice {

slc_xid engine_xid(const XID &xid)
{
  slc_xid result{};
  result.format_id= xid.formatID;
  result.gtrid_len= static_cast<uint32_t>(xid.gtrid_length);
  result.bqual_len= static_cast<uint32_t>(xid.bqual_length);
  memcpy(result.data, xid.data, xid.gtrid_length + xid.bqual_length);
  return result;
}

namespace {

void set_xid(XID *to, const slc_xid &from)
{
  const char *data= reinterpret_cast<const char *>(from.data);
  to->set(from.format_id, data, from.gtrid_len, data + from.gtrid_len, from.bqual_len);
}

std::vector<slc_xid> found_prepared(uint max)
{
  std::vector<slc_xid> found(max);
  found.resize(slc_recovered_prepared(engine, found.data(), max));
  return found;
}

int recover(SLUICE_HTON_ARG XID *list, uint length)
{
  if (!length || !list)
    return 1;
  const std::vector<slc_xid> found= found_prepared(length);
  for (size_t i= 0; i < found.size(); i++)
    set_xid(list + i, found[i]);
  return static_cast<int>(found.size());
}

/* The server asks every engine and looks at no answer: only an error that is raised keeps it from
   forgetting the XID, and from answering that all is well. */
int xa_result(slc_err error)
{
  if (!error)
    return XA_OK;
  if (error == SLC_NOT_FOUND)
    return XAER_NOTA;
  THD *thd= current_thd;
  server_error(error, thd, "(prepared transaction)");
  if (thd)
    my_error(ER_XAER_RMERR, MYF(0));
  return XAER_RMERR;
}

int commit_by_xid(SLUICE_HTON_ARG XID *xid)
{
  const slc_xid wanted= engine_xid(*xid);
  const Asleep asleep(current_thd, THD_WAIT_GROUP_COMMIT);
  const ClusterPosition position= position_of(*xid);
  return xa_result(slc_commit_by_xid(engine, &wanted, position.bytes, position.length));
}

int rollback_by_xid(SLUICE_HTON_ARG XID *xid)
{
  const slc_xid wanted= engine_xid(*xid);
  const Asleep asleep(current_thd, THD_WAIT_GROUP_COMMIT);
  return xa_result(slc_rollback_by_xid(engine, &wanted));
}

} // namespace

std::vector<XID> prepared_xids()
{
  std::vector<XID> names;
  XID name;
  for (const slc_xid &prepared : found_prepared(UINT_MAX16))
  {
    set_xid(&name, prepared);
    names.push_back(name);
  }
  return names;
}

void set_xa_callbacks(handlerton *hton_arg)
{
  hton_arg->recover= recover;
  hton_arg->commit_by_xid= commit_by_xid;
  hton_arg->rollback_by_xid= rollback_by_xid;
}

} // namespace sluice

/* Verdicts by XID: from other connections, from the binlog's recovery, and from tc.log. */
#include "xa.h"
#include "asleep.h"
#include "engine.h"
#include "errors.h"
#include <fstream>
#include <iterator>
#include <set>
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

std::vector<slc_xid> prepared_xids(uint max)
{
  std::vector<slc_xid> found(max);
  found.resize(slc_recovered_prepared(engine, found.data(), max));
  return found;
}

int recover(SLUICE_HTON_ARG XID *list, uint length)
{
  if (!length || !list)
    return 1;
  const std::vector<slc_xid> found= prepared_xids(length);
  for (size_t i= 0; i < found.size(); i++)
    set_xid(list + i, found[i]);
  return static_cast<int>(found.size());
}

/* As the XA specification numbers them. */
enum { XA_OK= 0, XAER_RMERR= -3, XAER_NOTA= -4 };

/* The server asks every engine and looks at no answer: only an error that is raised keeps it from forgetting the XID, and from answering
   that all is well. */
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
  return xa_result(slc_commit_by_xid(engine, &wanted));
}

int rollback_by_xid(SLUICE_HTON_ARG XID *xid)
{
  const slc_xid wanted= engine_xid(*xid);
  const Asleep asleep(current_thd, THD_WAIT_GROUP_COMMIT);
  return xa_result(slc_rollback_by_xid(engine, &wanted));
}

/* ---- tc.log ----

   Without a binlog, the server writes the numbers of transactions over several engines that are to be committed into tc.log, and its engines
   need not sync their commits. At the next start (10.11.18 and 11.8.6: xarecover_handlerton() in handler.cc) it reads the numbers, and rolls
   back everything that is prepared, these transactions too: a COMMIT that was answered is lost, or one engine's half of it. So they are
   committed here, in every engine that is there, before the server recovers. Where the server knows better, nothing is left for it to do. */

constexpr unsigned char TC_LOG_MAGIC[]= {254, 0x23, 0x05, 0x74};
constexpr size_t TC_LOG_HEADER= sizeof TC_LOG_MAGIC + 1;

/* The numbers stand back to back at the end of the first page, whose head they do not reach, and in all the others. */
std::set<my_xid> decided_by_tc_log(const char *path)
{
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::set<my_xid> found;
  if (bytes.size() < TC_LOG_HEADER || memcmp(bytes.data(), TC_LOG_MAGIC, sizeof TC_LOG_MAGIC))
    return found;                       // none, or the server refuses it
  const size_t first= TC_LOG_HEADER + (my_getpagesize() - TC_LOG_HEADER) % sizeof(my_xid);
  for (size_t at= first; at + sizeof(my_xid) <= bytes.size(); at+= sizeof(my_xid))
  {
    my_xid number;
    memcpy(&number, bytes.data() + at, sizeof number);
    if (number)
      found.insert(number);
  }
  return found;
}

/* A transaction that tc.log has as committed. */
struct Verdict
{
  XID xid;
  bool is_prepared_here;
  bool was_prepared;
  bool failed;
};

my_bool commit_in_engine(THD *, plugin_ref plugin, void *verdict)
{
  handlerton *other= plugin_hton(plugin);
  Verdict *of= static_cast<Verdict *>(verdict);
  if (other == hton || !other->recover || !other->commit_by_xid)
    return false;
  const int result= SLUICE_COMMIT_BY_XID(other, &of->xid);
  of->was_prepared|= result == XA_OK;
  if (result == XA_OK || result == XAER_NOTA)
    return false;
  of->failed= true;
  if (of->is_prepared_here)
    sql_print_error(SLUICE_ENGINE_NAME ": engine %s could not commit a prepared transaction that tc.log has as committed: XA error %d",
                    hton_name(other)->str, result);
  return false;
}

/* In Sluice too, which is not on the server's list before it is open. False: it is half done, or might be. (What an engine says of a transaction
   that has no part here is between it and the server.) */
bool commit_everywhere(Verdict &verdict)
{
  plugin_foreach(nullptr, commit_in_engine, MYSQL_STORAGE_ENGINE_PLUGIN, &verdict);
  if (!verdict.is_prepared_here)
    return true;
  if (verdict.failed)
    return false;
  const slc_xid wanted= engine_xid(verdict.xid);
  verdict.was_prepared= true;
  return xa_result(slc_commit_by_xid(engine, &wanted)) == XA_OK;
}

/* Most are prepared in Sluice, and known there by the name that they were given; a name has the server's id in it, which may have been changed
   since. Those that are not get the name that this server would give them. */
std::vector<Verdict> verdicts_on(std::set<my_xid> numbers)
{
  std::vector<Verdict> verdicts;
  if (numbers.empty())
    return verdicts;
  XID name;
  for (const slc_xid &prepared : prepared_xids(UINT_MAX16))
  {
    set_xid(&name, prepared);
    if (numbers.erase(name.get_my_xid()))
      verdicts.push_back({name, true, false, false});
  }
  for (const my_xid number : numbers)
  {
    name.set(number);
    verdicts.push_back({name, false, false, false});
  }
  return verdicts;
}

} // namespace

bool keep_what_tc_log_decided()
{
  /* A server that runs already (INSTALL SONAME) has its tc.log in use; with a binlog, or when a user decides, what stands there is of old. */
  if (tc_log || opt_bin_log || tc_heuristic_recover || !opt_tc_log_file)
    return true;
  char path[FN_REFLEN];
  fn_format(path, opt_tc_log_file, mysql_data_home, "", MY_UNPACK_FILENAME);
  uint count= 0;
  bool done= true;
  for (Verdict &verdict : verdicts_on(decided_by_tc_log(path)))
  {
    done&= commit_everywhere(verdict);
    count+= verdict.was_prepared;
  }
  done&= !count || !slc_engine_flush_log(engine);
  if (!done)
    sql_print_error(SLUICE_ENGINE_NAME ": a transaction that %s has as committed could not be committed in every engine that prepared it (see above). "
                    "Sluice stays closed, so that the file is kept: mend that, and start again", path);
  else if (count)
    sql_print_information(SLUICE_ENGINE_NAME ": committed %u prepared transaction%s that %s has as committed", count, count == 1 ? "" : "s", path);
  return done;
}

void set_xa_callbacks(handlerton *hton_arg)
{
  hton_arg->recover= recover;
  hton_arg->commit_by_xid= commit_by_xid;
  hton_arg->rollback_by_xid= rollback_by_xid;
}

} // namespace sluice

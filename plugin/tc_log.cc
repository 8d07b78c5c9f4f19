/* What the server's tc.log decided.

   Without a binlog, the server writes the numbers of transactions over several engines that are to be committed into tc.log, and its engines
   need not sync their commits. At the next start (10.11.18 and 11.8.6: xarecover_handlerton() in handler.cc) it reads the numbers, and rolls
   back everything that is prepared, these transactions too: a COMMIT that was answered is lost, or one engine's half of it. So they are
   committed here, in every engine that is there, before the server recovers. Where the server knows better, nothing is left for it to do.

   Then the server empties the file (11.8.6 also if an engine is missing). So what Sluice could not commit, because it cannot be opened or has
   failed, is kept in a file beside it, for Sluice alone: nothing is prepared in it until it has been opened again. */
#include "tc_log.h"
#include "engine.h"
#include "xa.h"
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace sluice {

namespace {

using Numbers= std::set<my_xid>;

constexpr unsigned char TC_LOG_MAGIC[]= {254, 0x23, 0x05, 0x74};
constexpr size_t TC_LOG_HEADER= sizeof TC_LOG_MAGIC + 1;

/* The numbers stand back to back at the end of the first page, whose head they do not reach, and in all the others. */
Numbers decided_by_tc_log(const char *path)
{
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  Numbers found;
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

/* ---- the file beside it: a line that says what it is, then a number in each ---- */

constexpr const char *KEPT_HEADER= "Sluice: transactions that tc.log had as committed, version 1";

Numbers kept_in(const std::string &path)
{
  Numbers found;
  std::ifstream file(path);
  std::string header;
  if (!std::getline(file, header))
    return found;
  if (header != KEPT_HEADER)
  {
    sql_print_error(SLUICE_ENGINE_NAME ": %s is not a list of this version; what it says is left undone", path.c_str());
    return found;
  }
  for (my_xid number; file >> number;)
    found.insert(number);
  return found;
}

/* Durable when it returns. */
bool keep(const std::string &path, const Numbers &numbers)
{
  std::ostringstream text;
  text << KEPT_HEADER << '\n';
  for (const my_xid number : numbers)
    text << number << '\n';
  const std::string bytes= text.str(), draft= path + ".new";
  const File file= my_open(draft.c_str(), O_CREAT | O_TRUNC | O_WRONLY, MYF(MY_WME));
  if (file < 0)
    return false;
  bool done= !my_write(file, reinterpret_cast<const uchar *>(bytes.data()), bytes.size(), MYF(MY_WME | MY_NABP));
  done&= !my_sync(file, MYF(MY_WME));
  done&= !my_close(file, MYF(MY_WME));
  return done && !my_rename(draft.c_str(), path.c_str(), MYF(MY_WME | MY_SYNC_DIR));
}

/* ---- carrying out ---- */

struct Verdict
{
  XID xid;
  bool found;
};

/* RocksDB has an answer of its own for what it does not know, above 0; the numbers of XA are below. */
my_bool commit_in_engine(THD *, plugin_ref plugin, void *verdict)
{
  handlerton *other= plugin_hton(plugin);
  Verdict *of= static_cast<Verdict *>(verdict);
  if (other == hton || !other->recover || !other->commit_by_xid)
    return false;
  const int result= SLUICE_COMMIT_BY_XID(other, &of->xid);
  of->found|= result == XA_OK;
  if (result < XA_OK && result != XAER_NOTA)
    sql_print_error(SLUICE_ENGINE_NAME ": engine %s could not commit a prepared transaction that tc.log has as committed: XA error %d",
                    hton_name(other)->str, result);
  return false;
}

/* A name has the server's id in it, which may have been changed since: so it is that of what is prepared in Sluice, if anything is. */
uint commit_in_other_engines(const Numbers &numbers, std::vector<XID> &prepared_here)
{
  uint count= 0;
  for (const my_xid number : numbers)
  {
    Verdict verdict{XID(), false};
    verdict.xid.set(number);
    for (XID &name : prepared_here)
      if (name.get_my_xid() == number)
        verdict.xid= name;
    plugin_foreach(nullptr, commit_in_engine, MYSQL_STORAGE_ENGINE_PLUGIN, &verdict);
    count+= verdict.found;
  }
  return count;
}

/* Takes away what is done, or was never prepared here. */
uint commit_here(Numbers *numbers, std::vector<XID> &prepared_here)
{
  Numbers left;
  uint count= 0;
  for (XID &name : prepared_here)
  {
    const my_xid number= name.get_my_xid();
    if (!numbers->count(number))
      continue;
    const slc_xid wanted= engine_xid(name);
    if (slc_commit_by_xid(engine, &wanted))
      left.insert(number);
    else
      count++;
  }
  if (count && slc_engine_flush_log(engine))
    return 0;                           // the engine has stopped: nobody knows which are there at the next start
  *numbers= left;
  return count;
}

} // namespace

void keep_what_tc_log_decided()
{
  char path[FN_REFLEN];
  fn_format(path, opt_tc_log_file ? opt_tc_log_file : "tc.log", mysql_data_home, "", MY_UNPACK_FILENAME);
  const std::string kept_path= std::string(path) + ".sluice";
  /* A server that runs already (INSTALL SONAME) has its tc.log in use; with a binlog, or when a user decides, what stands there is of old. */
  const bool is_asked= !tc_log && !opt_bin_log && !tc_heuristic_recover && opt_tc_log_file;
  const Numbers decided= is_asked ? decided_by_tc_log(path) : Numbers(), kept= kept_in(kept_path);
  std::vector<XID> prepared_here= engine ? prepared_xids() : std::vector<XID>();
  uint count= commit_in_other_engines(decided, prepared_here);
  Numbers undone= decided;
  undone.insert(kept.begin(), kept.end());
  if (undone.empty())
    return;
  if (engine)
    count+= commit_here(&undone, prepared_here);
  if (count)
    sql_print_information(SLUICE_ENGINE_NAME ": committed prepared transactions that %s has as committed: %u, counted in each engine", path, count);
  if (undone.empty())
    my_delete(kept_path.c_str(), MYF(0));
  else if (undone != kept && !keep(kept_path, undone))
    sql_print_error(SLUICE_ENGINE_NAME ": cannot write %s: keep a copy of %s until Sluice is open again, and give it that at its next start",
                    kept_path.c_str(), path);
  else
    sql_print_warning(SLUICE_ENGINE_NAME ": %s has as committed what may be prepared in Sluice: that is kept in %s until Sluice can carry it out",
                      path, kept_path.c_str());
}

} // namespace sluice

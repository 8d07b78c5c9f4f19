/* What the server's tc.log decided.

   Without a binlog, the server writes into tc.log the numbers of transactions over several engines
   that are to be committed, and its engines need not sync their commits. At the next start
   (10.11.18 and 11.8.6: xarecover_handlerton() in sql/handler.cc) it reads the numbers. But it rolls
   back everything that is prepared, these transactions too: a COMMIT that was answered is lost, or
   one engine's part of it. So they are committed here, in every engine that is there, before the
   server recovers. A server that does it right finds nothing left to do.

   Then the server empties the file (11.8.6 also if an engine is missing). So when Sluice cannot be
   opened, the decisions are kept for it in a file next to tc.log. Nothing is prepared in Sluice
   until it has been opened again. But the server's numbers begin anew at each start. So the first
   such start writes that file, even if it is empty, and later ones leave it. When a decision cannot
   be carried out otherwise, by another engine or by Sluice when it is open, the server does not
   start: then tc.log stays as it is. */
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

/* The numbers stand back to back at the end of the first page, whose head they do not reach, and in
   all the others. */
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

/* What is to be done cannot be done. A server that runs already (INSTALL SONAME) goes on: what it
   found prepared waits for its next start. */
void give_up(const char *why, const char *path)
{
  if (tc_log)
    return sql_print_error(SLUICE_ENGINE_NAME ": %s (%s): prepared transactions wait for the server's next start", why, path);
  sql_print_error(SLUICE_ENGINE_NAME ": the server does not start: %s (%s). Transactions over several engines are to be committed, and would be half "
                  "there. Mend what stands above and start again. An engine that is read only, or in forced recovery, can commit none: for that, "
                  "start without Sluice", why, path);
  fflush(stderr);
  _exit(1);
}

bool read_kept(const std::string &path, Numbers *numbers)
{
  std::ifstream file(path);
  std::string header;
  if (!std::getline(file, header) || header != KEPT_HEADER)
    return false;
  for (my_xid number; file >> number;)
    numbers->insert(number);
  return file.eof();
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

struct Decision
{
  XID xid;
  bool found;
  bool failed;
};

/* RocksDB has an answer of its own for what it does not know, above 0; the numbers of XA are
   below. */
my_bool commit_in_engine(THD *, plugin_ref plugin, void *decision)
{
  handlerton *other= plugin_hton(plugin);
  Decision *of= static_cast<Decision *>(decision);
  if (other == hton || !other->recover || !other->commit_by_xid)
    return false;
  const int result= SLUICE_COMMIT_BY_XID(other, &of->xid);
  of->found|= result == XA_OK;
  if (result >= XA_OK || result == XAER_NOTA)
    return false;
  of->failed= true;
  sql_print_error(SLUICE_ENGINE_NAME ": engine %s could not commit a prepared transaction that tc.log has as committed: XA error %d",
                    hton_name(other)->str, result);
  return false;
}

/* A name has the server's id in it, which may have been changed since: so it is that of what is
   prepared in Sluice, if anything is. */
bool commit_in_other_engines(const Numbers &numbers, std::vector<XID> &prepared_here, uint *count)
{
  bool done= true;
  for (const my_xid number : numbers)
  {
    Decision decision{XID(), false, false};
    decision.xid.set(number);
    for (XID &name : prepared_here)
      if (name.get_my_xid() == number)
        decision.xid= name;
    plugin_foreach(nullptr, commit_in_engine, MYSQL_STORAGE_ENGINE_PLUGIN, &decision);
    *count+= decision.found;
    done&= !decision.failed;
  }
  return done;
}

bool commit_here(const Numbers &numbers, std::vector<XID> &prepared_here, uint *count)
{
  bool done= true;
  uint here= 0;
  for (XID &name : prepared_here)
  {
    if (!numbers.count(name.get_my_xid()))
      continue;
    const slc_xid wanted= engine_xid(name);
    if (slc_commit_by_xid(engine, &wanted, nullptr, 0))
      done= false;
    else
      here++;
  }
  *count+= here;
  return done && (!here || !slc_engine_flush_log(engine));
}

} // namespace

void keep_what_tc_log_decided()
{
  char path[FN_REFLEN];
  fn_format(path, opt_tc_log_file ? opt_tc_log_file : "tc.log", mysql_data_home, "", MY_UNPACK_FILENAME);
  const std::string kept_path= std::string(path) + ".sluice";
  /* A server that runs already (INSTALL SONAME) has its tc.log in use. With a binlog, or when a
     user decides, the contents are old. */
  const bool is_asked= !tc_log && !opt_bin_log && !tc_heuristic_recover && opt_tc_log_file;
  const Numbers decided= is_asked ? decided_by_tc_log(path) : Numbers();
  const bool is_kept= !my_access(kept_path.c_str(), F_OK);
  Numbers kept;
  if (is_kept && !read_kept(kept_path, &kept))
    return give_up("it is broken, or of another version", kept_path.c_str());
  std::vector<XID> prepared_here= engine ? prepared_xids() : std::vector<XID>();
  uint count= 0;
  if (!commit_in_other_engines(decided, prepared_here, &count))
    return give_up("another engine could not commit", path);
  if (engine)
  {
    if (!commit_here(is_kept ? kept : decided, prepared_here, &count))
      return give_up("Sluice could not commit", is_kept ? kept_path.c_str() : path);
    if (is_kept && my_delete(kept_path.c_str(), MYF(MY_WME | MY_SYNC_DIR)))
      return give_up("it is done with, and cannot be removed", kept_path.c_str());
  }
  else if (is_asked && !is_kept)
  {
    if (!keep(kept_path, decided))
      return give_up("it cannot be written", kept_path.c_str());
    if (!decided.empty())
      sql_print_warning(SLUICE_ENGINE_NAME ": %s has as committed what may be prepared in Sluice: that is kept in %s until Sluice is open again",
                        path, kept_path.c_str());
  }
  if (count)
    sql_print_information(SLUICE_ENGINE_NAME ": committed prepared transactions that %s has as committed: %u, counted in each engine", path, count);
}

} // namespace sluice

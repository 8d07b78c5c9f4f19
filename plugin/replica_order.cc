/* The order of commits where the server keeps none; see replica_order.h. */
#include "replica_order.h"
#include "engine.h"
#include "mutant.h"
#include <atomic>

namespace sluice {

bool lacks_order(THD *thd)
{
  return unlikely(thd->rgi_slave != nullptr) && tc_log == &mysql_bin_log && !(thd->variables.option_bits & OPTION_BIN_LOG) && !WSREP(thd) &&
         !planted(Mutant::ReplicaUnordered);
}

int wait_for_commit_before(THD *thd) { return thd->wait_for_prior_commit(); }

bool other_engine_follows(THD *thd, bool all)
{
  for (const Ha_trx_info *part= thd->ha_data[hton->slot].ha_info[all].next(); part; part= part->next())
    if (part->ht()->recover && part->is_trx_read_write())
      return true;
  return false;
}

void warn_of_two_engines()
{
  static std::atomic<bool> has_warned{false};
  if (!has_warned.exchange(true))
    sql_print_warning(SLUICE_ENGINE_NAME ": a replicated transaction writes tables of " SLUICE_ENGINE_NAME " and of another engine, which may be the GTID "
                      "position. The binary log does not record it, so after a crash one engine may have it, and not the other. Set "
                      "log_slave_updates=ON, or gtid_pos_auto_engines=" SLUICE_ENGINE_NAME);
}

} // namespace sluice

/* ADD INDEX while writers go on, of one table or one partition. The engine notes which rows are
   changed. After the build these rows are brought up to date in rounds, and in a last round under
   the exclusive metadata lock. Design: docs/decisions/2026-11-28-online-alter.md.
   Called by: inplace.cc. */
#ifndef SLUICE_ONLINE_ALTER_H
#define SLUICE_ONLINE_ALTER_H
#include "compat.h"
#include "altered_row.h"
#include "codec.h"
#include "sluice_abi.h"
#include <vector>

namespace sluice {

class OnlineAlter
{
public:
  OnlineAlter()= default;
  OnlineAlter(const OnlineAlter &)= delete;
  ~OnlineAlter() { end(); }

  /* Under the exclusive lock, when no transaction has changes in the table. The waiter lives as
     long as this object. */
  slc_err begin(const slc_waiter &waiter, THD *thd, slc_table *table);
  /* Reads the rows as of begin, or of the last round. */
  slc_trx *view() const { return m_view; }
  /* The finished builds of these indexes, to the state of a newer snapshot. `codec` writes entries
     of the new definition and decodes rows to `record`. */
  struct Builds
  {
    Codec *codec;
    uchar *record;
    VirtualValues *values;
    const std::vector<uint> *indexes;
    const std::vector<slc_build *> *builds;
  };
  slc_err round(const Builds &builds, slc_online_report *report);
  /* The same with a callback of the caller. If the callback fails, its error in *kept is returned.
     SLC_ROW_NOT_MADE in *kept: the server has the error already. */
  slc_err round_with(slc_online_cb each, void *ctx, const slc_err *kept, slc_online_report *report);
  /* Rounds until the last one will be short. */
  template <typename Round> slc_err rounds(const Round &round)
  {
    uint64_t before= UINT64_MAX;
    for (uint i= 0; i < ROUNDS_MAX; i++)
    {
      slc_online_report report{};
      if (const slc_err error= round(&report))
        return error;
      if (is_enough(report.keys, before, i))
        break;
      before= report.keys;
    }
    return SLC_OK;
  }
  slc_err follow(const Builds &builds);
  void end();

private:
  /* Where rows are changed faster than they are followed, rounds do not get shorter. */
  static constexpr uint ROUNDS_MAX= 30;
  /* No further round before the last one. before: keys of the round before. */
  static bool is_enough(uint64_t keys, uint64_t before, uint rounds);
  slc_trx *new_view() const;

  THD *m_thd= nullptr;
  slc_waiter m_waiter{};
  slc_online *m_online= nullptr;
  slc_trx *m_view= nullptr;
};

} // namespace sluice
#endif

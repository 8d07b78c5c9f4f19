/* See online_alter.h. */
#include "online_alter.h"
#include "connection.h"
#include "engine.h"
#include "errors.h"
#include "settings.h"
#include <algorithm>

namespace sluice {

namespace {

/* A round of so few rows takes some milliseconds, which is short enough under the exclusive
   lock. */
constexpr uint64_t KEYS_OF_LAST_ROUND= 200;

struct Follow
{
  const OnlineAlter::Builds &builds;
  const DecodePlan *plan;
  Buffer entries;
  slc_err error= SLC_OK;
};

/* One row's entries, taken out of the builds or put into them. */
slc_err edit(Follow *follow, slc_bytes pk, slc_bytes row, bool put)
{
  const OnlineAlter::Builds &to= follow->builds;
  if (!to.codec->get_row(follow->plan, to.record, pk, row))
    return SLC_CORRUPT;
  if (const slc_err error= to.values->compute())
    return error;
  for (size_t i= 0; i < to.builds->size(); i++)
  {
    follow->entries.clear();
    const EntryImage image= to.codec->put_entry(follow->entries, (*to.indexes)[i], to.record, pk);
    const slc_bytes key= follow->entries.bytes(image.key, image.key_length);
    const slc_err error= put ? slc_index_build_put((*to.builds)[i], key, image.user_key_length, image.unique_check,
                                                   follow->entries.bytes(image.value, image.value_length))
                             : slc_index_build_remove((*to.builds)[i], key);
    if (error)
      return error;
  }
  return SLC_OK;
}

int follow_row(void *ctx, slc_online_change *change)
{
  Follow *follow= static_cast<Follow *>(ctx);
  if (change->was.ptr)
    follow->error= edit(follow, change->pk, change->was, false);
  if (change->is.ptr && !follow->error)
    follow->error= edit(follow, change->pk, change->is, true);
  return follow->error;
}

} // namespace

slc_trx *OnlineAlter::new_view() const
{
  slc_trx *view= slc_trx_new(engine, &m_waiter, thd_get_thread_id(m_thd));
  slc_trx_start(view, SLC_ISO_REPEATABLE_READ, lock_wait_timeout_ms(m_thd));
  /* The load checks no foreign keys: the old table's rows satisfy them. */
  slc_trx_foreign_key_checks(view, 0);
  return view;
}

slc_err OnlineAlter::begin(const slc_waiter &waiter, THD *thd, slc_table *table)
{
  m_thd= thd;
  m_waiter= waiter;
  m_view= new_view();
  return slc_online_begin(table, m_view, &m_online);
}

slc_err OnlineAlter::round_with(slc_online_cb each, void *ctx, const slc_err *kept, slc_online_report *report)
{
  slc_trx *newer= new_view();
  const slc_err error= slc_online_round(m_online, m_view, newer, each, ctx, report);
  slc_trx_free(m_view);
  m_view= newer;
  return error == SLC_ROW_NOT_MADE && *kept ? *kept : error;
}

slc_err OnlineAlter::round(const Builds &builds, slc_online_report *report)
{
  Follow follow= {builds, builds.codec->plan(builds.codec->stored()), {}, SLC_OK};
  return round_with(follow_row, &follow, &follow.error, report);
}

bool OnlineAlter::is_enough(uint64_t keys, uint64_t before, uint rounds)
{
  return keys <= KEYS_OF_LAST_ROUND || (keys >= before - before / 8 && rounds > 4);
}

slc_err OnlineAlter::follow(const Builds &builds)
{
  return rounds([&](slc_online_report *report) { return round(builds, report); });
}

void OnlineAlter::end()
{
  slc_online_end(m_online);
  m_online= nullptr;
  if (m_view)
    slc_trx_free(m_view);
  m_view= nullptr;
}

} // namespace sluice

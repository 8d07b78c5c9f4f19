/* See online_alter.h. */
#include "online_alter.h"
#include "engine.h"
#include "errors.h"
#include "settings.h"

namespace sluice {

namespace {

/* A round of so few rows takes some milliseconds: it is short enough for the exclusive lock. */
constexpr uint64_t KEYS_OF_LAST_ROUND= 200;
/* Where rows are changed faster than they are followed, rounds do not get shorter. */
constexpr uint ROUNDS_MAX= 30;

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

int follow_row(void *ctx, slc_bytes pk, slc_bytes was, slc_bytes is)
{
  Follow *follow= static_cast<Follow *>(ctx);
  if (was.ptr)
    follow->error= edit(follow, pk, was, false);
  if (is.ptr && !follow->error)
    follow->error= edit(follow, pk, is, true);
  return follow->error;
}

} // namespace

slc_trx *OnlineAlter::new_view() const
{
  slc_trx *view= slc_trx_new(engine, &m_waiter, thd_get_thread_id(m_thd));
  slc_trx_start(view, SLC_ISO_REPEATABLE_READ, lock_wait_timeout_ms(m_thd));
  return view;
}

slc_err OnlineAlter::begin(const slc_waiter &waiter, THD *thd, slc_table *table)
{
  m_thd= thd;
  m_waiter= waiter;
  m_view= new_view();
  return slc_online_begin(table, m_view, &m_online);
}

slc_err OnlineAlter::round(const Builds &builds, slc_online_report *report)
{
  Follow follow= {builds, builds.codec->plan(builds.codec->stored()), {}, SLC_OK};
  slc_trx *newer= new_view();
  const slc_err error= slc_online_round(m_online, m_view, newer, follow_row, &follow, report);
  slc_trx_free(m_view);
  m_view= newer;
  return error == SLC_ROW_NOT_MADE && follow.error ? follow.error : error;
}

slc_err OnlineAlter::follow(const Builds &builds)
{
  slc_online_report report{};
  uint64_t before= UINT64_MAX;
  for (uint rounds= 0; rounds < ROUNDS_MAX; rounds++)
  {
    if (const slc_err error= round(builds, &report))
      return error;
    const bool shrinks= report.keys < before - before / 8;
    if (report.keys <= KEYS_OF_LAST_ROUND || (!shrinks && rounds > 4))
      break;
    before= report.keys;
  }
  return SLC_OK;
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

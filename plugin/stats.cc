/* What the optimizer asks: how many rows and bytes, how many rows share a key, how many lie in a range, what it costs.

   Rows per key come from samples: the engine hands out keys of adjacent entries from random leaves. With N pairs of
   neighbours of which c differ in their first k parts, about rows * c / N distinct values of these parts are estimated;
   at least as many as were seen. Made at the first open, by ANALYZE TABLE, and again when the table has changed
   by a tenth. Called by: the server. */
#include "ha_sluice.h"
#include "engine.h"
#include "errors.h"
#include "settings.h"
#include <set>
#include <string>

using namespace sluice;

namespace {

/* Counts, for one index, how often neighbours differ within their first k parts. */
struct Sample
{
  const KeyLayout *layout;
  std::string last;
  bool has_last= false;
  ulonglong pairs= 0, keys= 0;
  std::vector<ulonglong> changes;
  std::vector<std::set<std::string>> leaf_values;   // of the first key of each leaf

  explicit Sample(const KeyLayout *layout_arg)
    : layout(layout_arg), changes(layout_arg->parts.size()), leaf_values(layout_arg->parts.size())
  {}

  /* Where each part of the key ends. */
  void ends_of(const char *key, size_t length, std::vector<size_t> &ends) const
  {
    const uchar *begin= reinterpret_cast<const uchar *>(key), *from= begin, *end= begin + length;
    ends.clear();
    for (const KeyPart &part : layout->parts)
    {
      from= from ? Codec::skip_part(part, from, end) : nullptr;
      ends.push_back(from ? from - begin : length);
    }
  }

  void add(const char *key, size_t length)
  {
    if (!length)
    {
      has_last= false;
      return;
    }
    keys++;
    std::vector<size_t> ends;
    ends_of(key, length, ends);
    for (size_t i= 0; i < ends.size(); i++)
    {
      if (!has_last)
        leaf_values[i].insert(std::string(key, ends[i]));
      else if (last.size() < ends[i] || memcmp(last.data(), key, ends[i]))
        changes[i]++;
    }
    pairs+= has_last;
    last.assign(key, length);
    has_last= true;
  }

  double rows_per_key(size_t part, ulonglong rows) const
  {
    const double seen= static_cast<double>(MY_MAX(leaf_values[part].size(), 1));
    double distinct= seen + changes[part];
    if (keys < rows && pairs)
      distinct= MY_MAX(seen, static_cast<double>(changes[part]) / pairs * rows);
    return MY_MAX(rows / distinct, 1.0);
  }
};

void add_to_sample(void *ctx, const char *text, size_t length) { static_cast<Sample *>(ctx)->add(text, length); }

} // namespace

bool Share::refresh_statistics(const Codec &codec, ulonglong rows, bool force)
{
  mysql_mutex_lock(&m_stats_mutex);
  const ulonglong moved= rows > m_rows_sampled ? rows - m_rows_sampled : m_rows_sampled - rows;
  bool ok= true;
  if (force || !m_has_statistics || moved > MY_MAX(m_rows_sampled / 10, 100ULL))
  {
    const uint indexes= codec.secondary_count() + codec.has_primary_key();
    std::vector<std::vector<double>> result(indexes);
    for (uint i= 0; i < indexes && ok; i++)
    {
      Sample sample(&codec.key(i));
      ok= slc_index_sample(m_table, codec.engine_index(i), settings.stats_sample_pages, add_to_sample, &sample) == SLC_OK;
      for (size_t part= 0; part < sample.changes.size(); part++)
        result[i].push_back(sample.rows_per_key(part, rows));
    }
    if (ok)
    {
      m_rows_per_key= std::move(result);
      m_rows_sampled= rows;
      m_has_statistics= true;
    }
  }
  mysql_mutex_unlock(&m_stats_mutex);
  return ok;
}

double Share::rows_per_key(uint index, uint part)
{
  mysql_mutex_lock(&m_stats_mutex);
  double result= 0;
  if (index < m_rows_per_key.size() && part < m_rows_per_key[index].size())
    result= m_rows_per_key[index][part];
  mysql_mutex_unlock(&m_stats_mutex);
  return result;
}

int ha_sluice::info(uint flags)
{
  if (flags & (HA_STATUS_VARIABLE | HA_STATUS_CONST | HA_STATUS_TIME))
  {
    slc_table_stats found{};
    if (const slc_err error= slc_table_get_stats(m_share->table(), &found))
      return fail(error);
    stats.records= found.rows;
    /* An estimate of 0 would make the optimizer sure of an empty table. */
    if (!stats.records && !(flags & (HA_STATUS_TIME | HA_STATUS_OPEN)))
      stats.records= 1;
    stats.data_file_length= found.data_bytes;
    stats.index_file_length= found.index_bytes;
    stats.delete_length= found.free_bytes;
    stats.mean_rec_length= found.rows ? static_cast<ulong>(found.data_bytes / found.rows) : 0;
    stats.mrr_length_per_rec= ref_length + 8;
    stats.create_time= static_cast<time_t>(found.create_time);
    stats.update_time= static_cast<time_t>(found.update_time);
    if (flags & HA_STATUS_CONST)
    {
      stats.max_data_file_length= 1ULL << 46;
      stats.block_size= 16384;
      m_share->refresh_statistics(*m_codec, found.rows, false);
      for (uint i= 0; i < table->s->keys; i++)
        for (uint part= 0; part < table->key_info[i].ext_key_parts; part++)
        {
          KEY &key= table->key_info[i];
          const double rows= part < key.user_defined_key_parts ? m_share->rows_per_key(i, part) : 1;
          key.rec_per_key[part]= rows < 1 ? 0 : static_cast<ulong>(rows + 0.5);
        }
    }
  }
  if (flags & HA_STATUS_ERRKEY)
    errkey= Connection::of(ha_thd())->duplicate_key();
  if ((flags & HA_STATUS_AUTO) && table->found_next_number_field)
    stats.auto_increment_value= MY_MAX(m_share->autoinc_next(), 1ULL);
  return 0;
}

ha_rows ha_sluice::estimate_rows_upper_bound() { return stats.records * 2 + EXTRA_RECORDS; }

/* The image where a bound of the server's range lies: above (`after`) or below the keys that begin with it. */
static slc_bytes range_bound(const Codec &codec, const TABLE *table, uint index, const key_range *range, bool after,
                             Buffer &to)
{
  if (!range)
    return {nullptr, 0};
  codec.put_search_key(to, index, range->key,
                       calculate_key_len(const_cast<TABLE *>(table), index, range->key, range->keypart_map));
  if (!after)
    return to.bytes();
  size_t length= to.length();
  while (length && to.data()[length - 1] == 0xFF)
    length--;
  if (length)
    to.data()[length - 1]++;
  return {to.data(), length};
}

ha_rows ha_sluice::records_in_range(uint index, const key_range *low, const key_range *high, page_range *)
{
  const bool whole= low && high && low->flag == HA_READ_KEY_EXACT && index == m_codec->primary() &&
                    low->keypart_map >= (key_part_map(1) << m_codec->key(index).parts.size()) - 1 &&
                    low->length == high->length && !memcmp(low->key, high->key, low->length);
  if (whole)
    return 1;
  Buffer low_image, high_image;
  const slc_bytes from= range_bound(*m_codec, table, index, low, low && low->flag == HA_READ_AFTER_KEY, low_image);
  const slc_bytes to= range_bound(*m_codec, table, index, high, high && high->flag == HA_READ_AFTER_KEY, high_image);
  uint64_t rows= 0;
  if (slc_records_in_range(m_share->table(), m_codec->engine_index(index), from, to, &rows))
    return HA_POS_ERROR;
  return MY_MAX(rows, 1);               // 0 would mean "certainly none"
}

#ifdef SLUICE_COSTS_ARE_DOUBLES
double ha_sluice::scan_time()
{
  return static_cast<double>(MY_MAX(stats.data_file_length / stats.block_size, 1));
}

/* Rows by the clustered key are next to each other: a share of a scan, and a descent for each range. */
double ha_sluice::read_time(uint index, uint ranges, ha_rows rows)
{
  if (index != table->s->primary_key)
    return handler::read_time(index, ranges, rows);
  const double all= static_cast<double>(MY_MAX(stats.records, 1)), wanted= static_cast<double>(rows);
  return wanted >= all ? scan_time() : ranges + wanted / all * scan_time();
}
#else
IO_AND_CPU_COST ha_sluice::scan_time() { return handler::scan_time(); }
#endif

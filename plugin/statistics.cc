/* What the optimizer asks: how many rows and bytes, how many rows share a key, how many lie in a
   range, what it costs.

   The engine estimates how many values the first k parts of a key have
   (engine/src/table/statistics). It keeps the estimate over a restart, and computes it anew as
   tables change. The server's rec_per_key is made of it here.
   Called by: the server. */
#include "ha_sluice.h"
#include "ddl.h"
#include "engine.h"
#include "errors.h"
#include "innodb_stats_tables.h"
#include "key_parts.h"
#include "settings.h"
#include "update_times.h"
#ifdef WITH_PARTITION_STORAGE_ENGINE
#include "partition_info.h"
#endif
#include <cmath>

using namespace sluice;

/* ---- what the keys are made of ---- */

static uint8_t choice_of(uint options, uint on, uint off) { return options & on ? 2 : options & off ? 1 : 0; }

static uint8_t auto_recalc_of(const TABLE_SHARE *share)
{
  switch (share->stats_auto_recalc)
  {
  case HA_STATS_AUTO_RECALC_ON: return 2;
  case HA_STATS_AUTO_RECALC_OFF: return 1;
  default: return 0;
  }
}

static void describe(slc_table *table, const TABLE_SHARE *share, const Codec &codec)
{
  std::vector<std::vector<slc_key_part>> parts(1 + codec.secondary_count());
  for (uint i= 0; i < parts.size(); i++)
    if (i || codec.has_primary_key())
      for (const KeyPart &part : codec.key(i ? codec.server_index(i) : codec.primary()).parts)
        parts[i].push_back(part_shape(part));
  if (!codec.has_primary_key())
  {
    parts[0].emplace_back();
    parts[0][0].fixed= HIDDEN_KEY_LENGTH;
  }
  std::vector<slc_key_shape> shapes;
  for (const std::vector<slc_key_part> &of : parts)
    shapes.push_back({static_cast<uint32_t>(of.size()), of.data()});
  const slc_statistics_options options= {
    static_cast<uint32_t>(shapes.size()), shapes.data(),
    choice_of(share->db_create_options, HA_OPTION_STATS_PERSISTENT, HA_OPTION_NO_STATS_PERSISTENT), auto_recalc_of(share),
    share->stats_sample_pages};
  slc_statistics_describe(table, &options);
}

void Share::describe_statistics(const TABLE_SHARE *share, const Codec &codec)
{
  if (m_statistics_described.exchange(true, std::memory_order_relaxed))
    return;
  describe(m_table, share, codec);
#ifdef SLUICE_STAND_IN
  const uint8_t recalculates= auto_recalc_of(share);
  statistics_opened(name(), recalculates ? recalculates == 2 : settings.stats_auto_recalc);
#endif
}

#ifdef SLUICE_STAND_IN
/* An error is for the statement that needs the table's pages. */
void sluice::compute_statistics_of_new(const char *name, TABLE *form)
{
  slc_table *made;
  if (slc_table_open(engine, name, &made))
    return;
  describe(made, form->s, *Codec::build(form));
  (void) slc_statistics_compute(made, true);
  slc_table_close(made);
}
#endif

/* ---- how many rows share a key ---- */

/* Each partition of a partitioned table has statistics of its own; the server takes those of the
   largest one for all. So the rows that a value has in all partitions are given to it. If the
   prefix holds every column that the table is partitioned by, each value lies in one partition.
   Else a value's rows are taken to be distributed at random. */
static double values_of_all_partitions(double rows, double distinct, double partitions)
{
  double low= distinct, high= distinct * partitions;
  for (int i= 0; i < 40; i++)
  {
    const double all= (low + high) / 2, rows_per_value= rows * partitions / all;
    (all * (1 - std::pow(1 - 1 / partitions, rows_per_value)) < distinct ? low : high)= all;
  }
  return low;
}

static double rows_per_value(const TABLE *table, const KEY &key, uint part, double rows, double distinct)
{
#ifdef WITH_PARTITION_STORAGE_ENGINE
  partition_info *partitions= table->part_info;
  if (partitions && partitions->get_tot_partitions() > 1)
  {
    const double count= partitions->get_tot_partitions();
    MY_BITMAP own;
    my_bitmap_map words[bitmap_buffer_size(MAX_FIELDS) / sizeof(my_bitmap_map)];
    my_bitmap_init(&own, words, table->s->fields);
    for (uint i= 0; i <= part; i++)
      bitmap_set_bit(&own, key.key_part[i].fieldnr - 1);
    const bool apart= bitmap_is_subset(&partitions->full_part_field_set, &own);
    return rows * count / (apart ? distinct * count : values_of_all_partitions(rows, distinct, count));
  }
#endif
  return rows / distinct;
}

/* Which number of the engine's belongs to the server's key part. After an index's own parts the
   server has the columns of the primary key that the index lacks, the engine all of them. */
static uint engine_prefix(const KEY &key, uint part)
{
  if (part < key.user_defined_key_parts)
    return part;
  uint left= part - key.user_defined_key_parts;
  for (uint of_primary= 0; of_primary < MAX_REF_PARTS; of_primary++)
    if (key.ext_key_part_map >> of_primary & 1 && !left--)
      return key.user_defined_key_parts + of_primary;
  return UINT_MAX;
}

/* The server gets fewer rows for each value than there are, so that it prefers an index: its cost
   of a row found by an index is too high. InnoDB gives half of the rows. With the true numbers 7 of
   TPC-H's 22 queries had another plan than InnoDB's, and two of these took 1.2 and 1.3 times its
   time. With a divisor of 1.5 these 7 had InnoDB's plans
   (docs/decisions/2026-11-28-statistics.md). */
static constexpr double INDEX_PREFERENCE= 1.5;

void ha_sluice::fill_rec_per_key()
{
  const uint64_t version= slc_statistics_version(m_share->table());
  if (version == m_statistics_version)
    return;
  m_statistics_version= version;
  for (uint i= 0; i < table->s->keys; i++)
  {
    KEY &key= table->key_info[i];
    uint64_t rows= 0, distinct[2 * MAX_REF_PARTS];
    const uint count= slc_statistics_get(m_share->table(), m_codec->engine_index(i), &rows, distinct, 2 * MAX_REF_PARTS);
    for (uint part= 0; part < key.ext_key_parts; part++)
    {
      const uint prefix= engine_prefix(key, part);
      double shared= 0;                 // 0 = unknown
      if (prefix < count && distinct[prefix] && rows)
        shared= rows_per_value(table, key, part, static_cast<double>(rows), static_cast<double>(distinct[prefix]));
#ifdef SLUICE_STAND_IN
      /* InnoDB's CARDINALITY of an empty table is 0, not unknown. */
      if (prefix < count && !rows)
        shared= 1;
#endif
      key.rec_per_key[part]= static_cast<ulong>(std::ceil(shared / INDEX_PREFERENCE));
    }
  }
}

/* Statements that look for rows wait for statistics that are far off; those that add rows leave
   that to the background. */
static bool reads(THD *thd)
{
  switch (thd_sql_command(thd))
  {
  case SQLCOM_INSERT:
  case SQLCOM_REPLACE:
  case SQLCOM_LOAD:
    return false;
  default:
    return true;
  }
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
#ifdef SLUICE_STAND_IN
    stats.index_file_length-= found.empty_buffer_bytes; // InnoDB's change buffer is in no table's file
#endif
    stats.delete_length= found.free_bytes;
    stats.mean_rec_length= found.rows ? static_cast<ulong>(found.data_bytes / found.rows) : 0;
    stats.mrr_length_per_rec= ref_length + 8;
    stats.create_time= static_cast<time_t>(found.create_time);
#ifdef SLUICE_STAND_IN
    if (flags & HA_STATUS_TIME)
      stats.update_time= update_time_of(m_share->name());
#else
    stats.update_time= static_cast<time_t>(found.update_time);
#endif
    if (flags & HA_STATUS_CONST)
    {
      stats.block_size= 16384;
      m_statistics_version= 0;          // the server may have put numbers of its own there
    }
    if (flags & (HA_STATUS_CONST | HA_STATUS_VARIABLE))
    {
      /* Bad pages are for the statement that reads them to tell of. */
      if (reads(ha_thd()))
        (void) slc_statistics_compute(m_share->table(), false);
      fill_rec_per_key();
    }
  }
  if (flags & HA_STATUS_ERRKEY)
    errkey= Connection::of(ha_thd())->duplicate_key();
  if ((flags & HA_STATUS_AUTO) && table->found_next_number_field)
    stats.auto_increment_value= MY_MAX(m_share->autoinc_next(), 1ULL);
  return 0;
}

ha_rows ha_sluice::estimate_rows_upper_bound() { return stats.records * 2 + EXTRA_RECORDS; }

/* Where a bound of the server's range lies; its key is in `to`. */
static slc_bound range_bound(const Codec &codec, const TABLE *table, uint index, const key_range *range, Buffer &to)
{
  if (!range)
    return {{nullptr, 0}, 0};
  codec.put_search_key(to, index, range->key,
                       calculate_key_len(const_cast<TABLE *>(table), index, range->key, range->keypart_map));
  return {to.bytes(), range->flag == HA_READ_AFTER_KEY};
}

ha_rows ha_sluice::records_in_range(uint index, const key_range *low, const key_range *high, page_range *)
{
  const bool whole= low && high && low->flag == HA_READ_KEY_EXACT && index == m_codec->primary() &&
                    low->keypart_map >= (key_part_map(1) << m_codec->key(index).parts.size()) - 1 &&
                    low->length == high->length && !memcmp(low->key, high->key, low->length);
  if (whole)
    return 1;
  Buffer low_image, high_image;
  const slc_bound from= range_bound(*m_codec, table, index, low, low_image);
  const slc_bound to= range_bound(*m_codec, table, index, high, high_image);
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

/* Rows by the clustered key are next to each other: a share of a scan, and a descent for each
   range. */
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

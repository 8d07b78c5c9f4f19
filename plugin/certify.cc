/* Galera: the certification keys of a row, by which the nodes agree on which transactions conflict.

   G1 Every change of a row gives a key for each of its unique keys without NULL, of the row before
      and after; in a table without a primary key one of the whole row, never of its hidden number.
      UPDATE says that the key stays; all other changes are EXCLUSIVE.
   G2 A child row that comes, goes, or changes its parent gives a REFERENCE key of each parent row.
      It is the key that the parent row gives itself.
   G3 A row that a cascade changes gives its keys as if a statement changed it.
      A row of the past is neither a parent nor a child. One that becomes such a row has gone.
   G4 Equal values give equal bytes on every node: the image that the indexes compare, without what
      a definition adds (null bytes, DESC). Long images are hashed: an equal hash of other values
      costs an abort, and never a conflict that is not seen.

   A key has three parts: schema, table, and row. The last one is a number made of the names of the
   key's columns, and the image. So a parent and its children, and nodes whose indexes stand in
   another order, name the same key.
   Called by: ha_write.cc, foreign_rows.cc, ha_sluice.cc. */
#include "cluster.h"
#include "engine.h"
#include "errors.h"
#include "foreign.h"
#include "ha_sluice.h"
#include "table_path.h"
#include "wsrep_mysqld.h"
#include <algorithm>
#include <mysql/service_md5.h>
#include <mysql/service_wsrep.h>

using namespace sluice;

namespace {

constexpr size_t ID_BYTES= 4, IMAGE_BYTES_MAX= 128;
constexpr uint WHOLE_ROW= MAX_KEY;
/* From this protocol on keys of the kinds REFERENCE and UPDATE are known. */
constexpr long FINER_KINDS= 4;

Wsrep_service_key_type kind_of_reference() { return wsrep_protocol_version < FINER_KINDS ? WSREP_SERVICE_KEY_SHARED : WSREP_SERVICE_KEY_REFERENCE; }
Wsrep_service_key_type kind_of_update() { return wsrep_protocol_version < FINER_KINDS ? WSREP_SERVICE_KEY_EXCLUSIVE : WSREP_SERVICE_KEY_UPDATE; }

/* A hash of the names of a key's columns (FNV-1a). Two keys of a table with equal hashes cause
   false conflicts, and no other harm. */
class KeyId
{
public:
  void add(const LEX_CSTRING &column)
  {
    for (const char letter : in_small_letters(column))
      add_byte(static_cast<uchar>(letter));
    add_byte(0);
  }
  uint32 value() const { return m_hash; }

private:
  void add_byte(uchar byte) { m_hash= (m_hash ^ byte) * 16777619U; }
  uint32 m_hash= 2166136261U;
};

uint32 id_of(const std::vector<std::string> &columns)
{
  KeyId id;
  for (const std::string &column : columns)
    id.add({column.c_str(), column.size()});
  return id.value();
}

/* A unique key of the server. WITHOUT OVERLAPS compares periods by their overlap. So the period,
   its last two parts, is left out: more conflicts, and none that is not seen. */
uint parts_of(const KEY &key) { return key.user_defined_key_parts - (key.without_overlaps ? 2 : 0); }

uint32 id_of(const KEY &key)
{
  KeyId id;
  for (uint i= 0; i < parts_of(key); i++)
    id.add(key.key_part[i].field->field_name);
  return id.value();
}

} // namespace

/* Appends the key of one row. cache_key: schema and table as in TABLE_SHARE::table_cache_key.
   HA_ERR_ code. */
int ha_sluice::append_certified(THD *thd, const std::string &cache_key, uint32 id, slc_bytes image, int kind)
{
  uchar row[ID_BYTES + IMAGE_BYTES_MAX];
  int4store(row, id);
  size_t length= image.len;
  if (length <= IMAGE_BYTES_MAX)
    memcpy(row + ID_BYTES, image.ptr, length);
  else
  {
    my_md5(row + ID_BYTES, reinterpret_cast<const char *>(image.ptr), image.len);
    length= MY_MD5_HASH_SIZE;
  }
  wsrep_buf_t parts[3];
  size_t count= array_elements(parts);
  const bool made= wsrep_prepare_key_for_innodb(thd, reinterpret_cast<const uchar *>(cache_key.data()), cache_key.size(), row, ID_BYTES + length, parts,
                                                &count);
  const wsrep_key_t key= {parts, count};
  if (made && !wsrep_thd_append_key(thd, &key, 1, static_cast<Wsrep_service_key_type>(kind)))
    return 0;
  my_printf_error(ER_UNKNOWN_ERROR, SLUICE_ENGINE_NAME ": Galera took no certification key of table %s", MYF(0), shown_name().c_str());
  return SLUICE_ERR_ALREADY_REPORTED;
}

/* The table_cache_key that a TABLE_SHARE of this path has. */
static std::string cache_key_of(const std::string &path)
{
  const TablePath names(path);
  return names.schema + '\0' + names.table + '\0';
}

/* Once for a statement: other statements may have changed the foreign keys since. */
void ha_sluice::collect_certified()
{
  m_certified= std::make_unique<CertifiedKeys>();
  CertifiedKeys &all= *m_certified;
  all.table= cache_key_of(m_share->name());
  const bool has_foreign= slc_table_foreign(m_share->table()) != 0;
  all.is_parent= (slc_table_foreign(m_share->table()) & 2) != 0;
  for (uint i= 0; i < table->s->keys; i++)
    if (table->key_info[i].flags & HA_NOSAME || i == m_codec->primary())
      all.own.push_back({i, parts_of(table->key_info[i]), id_of(table->key_info[i])});
  if (!m_codec->has_primary_key())
    all.own.push_back({WHOLE_ROW, 0, 0});
  if (!has_foreign)
    return;
  const auto index_of= [&](const std::string &name) {
    for (uint i= 0; i < table->s->keys; i++)
      if (same_name(table->key_info[i].name, name))
        return i;
    return static_cast<uint>(WHOLE_ROW);
  };
  for (const ForeignKey &foreign : foreign_keys(SLC_FOREIGN_OF_PARENT, m_share->name()))
  {
    /* Children may name columns that are no whole unique key. */
    const CertifiedKey key= {index_of(foreign.parent_index), static_cast<uint>(foreign.columns.size()), id_of(foreign.parent_columns), true};
    const bool is_there= std::any_of(all.own.begin(), all.own.end(), [&](const CertifiedKey &own) { return own.id == key.id; });
    if (key.index != WHOLE_ROW && !is_there)
      all.own.push_back(key);
  }
  for (const ForeignKey &foreign : foreign_keys(SLC_FOREIGN_OF_CHILD, m_share->name()))
    all.parents.push_back({{index_of(foreign.child_index), static_cast<uint>(foreign.columns.size()), id_of(foreign.parent_columns)},
                           cache_key_of(foreign.parent)});
}

/* False: the key has a NULL. */
bool ha_sluice::put_certified(Buffer &to, const CertifiedKey &key, const uchar *record) const
{
  to.clear();
  if (key.index != WHOLE_ROW)
    return m_codec->put_certified(to, key.index, key.parts, record);
  m_codec->put_columns(to, record);
  return true;
}

static bool same_image(const Buffer &a, const Buffer &b) { return a.length() == b.length() && !memcmp(a.data(), b.data(), a.length()); }

/* Of a row that is inserted (no `old_record`), deleted (no `new_record`) or changed. */
int ha_sluice::certify(THD *thd, const uchar *old_record, const uchar *new_record)
{
  if (likely(!is_local_to_cluster(thd)) || table->s->tmp_table != NO_TMP_TABLE)
    return 0;
  /* CREATE TABLE ... SELECT: one key of the whole table, at its end. The table is still private. */
  if (thd_sql_command(thd) == SQLCOM_CREATE_TABLE || wsrep_consistency_check(thd))
    return 0;
  if (!m_certified)
    collect_certified();
  Buffer &before= m_certified->before, &after= m_certified->after;
  const bool was_past= old_record && m_codec->is_past(old_record), is_past= new_record && m_codec->is_past(new_record);
  const uchar *const old_present= was_past ? nullptr : old_record, *const new_present= is_past ? nullptr : new_record;
  for (const CertifiedKey &key : m_certified->own)
  {
    const uchar *const was= key.only_referenced ? old_present : old_record, *const is= key.only_referenced ? new_present : new_record;
    const bool had= was && put_certified(before, key, was), has= is && put_certified(after, key, is);
    const bool stays= had && has && was_past == is_past && same_image(before, after);
    if (stays && key.index != m_codec->primary() && !m_certified->is_parent)
      continue;
    const int kind= stays ? kind_of_update() : WSREP_SERVICE_KEY_EXCLUSIVE;
    if (had)
      if (const int error= append_certified(thd, m_certified->table, key.id, before.bytes(), kind))
        return error;
    if (has && !stays)
      if (const int error= append_certified(thd, m_certified->table, key.id, after.bytes(), kind))
        return error;
  }
  for (const CertifiedParent &parent : m_certified->parents)
  {
    if (parent.key.index == WHOLE_ROW)
      continue;
    const bool had= old_present && put_certified(before, parent.key, old_present),
               has= new_present && put_certified(after, parent.key, new_present);
    if (had && has && same_image(before, after))
      continue;
    if (had)
      if (const int error= append_certified(thd, parent.table, parent.key.id, before.bytes(), kind_of_reference()))
        return error;
    if (has)
      if (const int error= append_certified(thd, parent.table, parent.key.id, after.bytes(), kind_of_reference()))
        return error;
  }
  return 0;
}

/* CREATE TABLE ... SELECT has all its rows. The server does this for tables of InnoDB alone. */
int ha_sluice::certify_new_table(THD *thd)
{
  if (thd_sql_command(thd) != SQLCOM_CREATE_TABLE || table->s->tmp_table != NO_TMP_TABLE || !is_local_to_cluster(thd) ||
      !thd->wsrep_trx().active())
    return 0;
  if (!wsrep_thd_append_table_key(thd, table->s->db.str, table->s->table_name.str, WSREP_SERVICE_KEY_EXCLUSIVE))
    return 0;
  my_printf_error(ER_UNKNOWN_ERROR, SLUICE_ENGINE_NAME ": Galera took no certification key of table %s", MYF(0), shown_name().c_str());
  return SLUICE_ERR_ALREADY_REPORTED;
}

/* Making the rows of a cascade: decode the child's row, copy the parent's values, encode. The
   records are buffers of our own, never those of the statement. */
#include "foreign_rows.h"
#include "connection.h"
#include "engine.h"
#include "errors.h"
#include "ha_sluice.h"
#include "key_parts.h"
#include "settings.h"
#include "sql_base.h"
#include "table_cache.h"
#include "table_path.h"
#include <algorithm>

namespace sluice {

namespace {

bool is_table(const TABLE *table, const std::string &path)
{
  return table->file->ht == hton && path == table->s->normalized_path.str;
}

/* Opened for the changes of cascades, and for this statement: the list that pos_in_table_list
   points into may be gone else. */
bool is_for_cascades(const TABLE *table)
{
  const TABLE_LIST *const list= table->query_id ? table->pos_in_table_list : nullptr;
  return list && list->prelocking_placeholder == TABLE_LIST::PRELOCK_FK && list->lock_type >= TL_FIRST_WRITE;
}

Field *field_of(const TABLE *table, const std::string &name)
{
  for (Field **field= table->field; *field; field++)
    if (same_name((*field)->field_name, name))
      return *field;
  return nullptr;
}

bool same_bytes(const TABLE *table, const Field *field, const uchar *a, const uchar *b)
{
  const Column column= column_of(table, field);
  if (column.is_null(a) || column.is_null(b))
    return column.is_null(a) == column.is_null(b);
  const slc_bytes of_a= column.value(a), of_b= column.value(b);
  return of_a.len == of_b.len && !memcmp(of_a.ptr, of_b.ptr, of_a.len);
}

} // namespace

/* ---- what has changed ---- */

bool keeps_unindexed(const std::vector<ForeignKey> &keys, const TABLE *table, const uchar *before, const uchar *after, bool are_whole)
{
  const auto keeps= [&](const std::string &name) {
    const Field *const field= field_of(table, name);
    if (!field || !field->stored_in_db())
      return false;
    if (!are_whole && !bitmap_is_set(table->write_set, field->field_index))
      return true;
    return (are_whole || bitmap_is_set(table->read_set, field->field_index)) && same_bytes(table, field, before, after);
  };
  for (const ForeignKey &key : keys)
    if (key.child_index.empty() && !std::all_of(key.columns.begin(), key.columns.end(), keeps))
      return false;
  return true;
}

/* The engine sees that an entry of the parent's index gets other bytes, not which columns do. */
bool ForeignRows::keeps(const std::string &parent, const std::vector<Field *> &columns) const
{
  const auto made= m_made.find(parent);
  const bool is_updated= m_update.table && is_table(m_update.table, parent);
  if (made == m_made.end() && !is_updated)
    return false;
  return std::all_of(columns.begin(), columns.end(), [&](const Field *column) {
    if (!column->stored_in_db())
      return false;
    if (made != m_made.end())
      return std::find(made->second.begin(), made->second.end(), column->field_index) == made->second.end();
    return same_bytes(m_update.table, m_update.table->field[column->field_index], m_update.before, m_update.after);
  });
}

void ForeignRows::note_made(const std::string &table, const TABLE *form, const std::vector<Field *> &columns, const uchar *before,
                            const uchar *after)
{
  std::vector<uint16> &changed= m_made[table];
  changed.clear();
  for (const Field *column : columns)
    if (!same_bytes(form, column, before, after))
      changed.push_back(column->field_index);
}

/* ---- tables ---- */

ha_sluice *ForeignRows::opened_here(const std::string &path)
{
  for (TABLE *table : m_opened)
    if (is_table(table, path))
      return static_cast<ha_sluice *>(table->file);
  TABLE *const table= open(path);
  return table ? static_cast<ha_sluice *>(table->file) : nullptr;
}

ha_sluice *ForeignRows::child(const std::string &path)
{
  for (TABLE *table= m_thd->open_tables; table; table= table->next)
    if (is_table(table, path) && is_for_cascades(table))
      return static_cast<ha_sluice *>(table->file);
  return opened_here(path);
}

/* A child whose row is about to change. */
ha_sluice *ForeignRows::changed_child(const std::string &path)
{
  ha_sluice *const handler= child(path);
#ifdef SLUICE_STAND_IN
  if (handler)
    Connection::of(m_thd)->note_change(path.c_str());
#endif
  return handler;
}

ha_sluice *ForeignRows::parent(const std::string &path)
{
  for (TABLE *table= m_thd->open_tables; table; table= table->next)
    if (is_table(table, path))
      return static_cast<ha_sluice *>(table->file);
  return opened_here(path);
}

/* The lock keeps ALTER TABLE from copying rows that this transaction has changed. */
TABLE *ForeignRows::open(const std::string &path)
{
  const TablePath names(path);
  const LEX_CSTRING db= {names.schema.data(), names.schema.size()}, name= {names.table.data(), names.table.size()};
  m_error= SLUICE_ERR_ALREADY_REPORTED;
  TABLE_LIST list;
  list.init_one_table(&db, &name, nullptr, TL_WRITE);
  MDL_REQUEST_INIT(&list.mdl_request, MDL_key::TABLE, db.str, name.str, MDL_SHARED_WRITE, MDL_TRANSACTION);
  if (m_thd->mdl_context.acquire_lock(&list.mdl_request, static_cast<double>(m_thd->variables.lock_wait_timeout)))
    return nullptr;
  TABLE_SHARE *const share= tdc_acquire_share(m_thd, &list, GTS_TABLE);
  if (!share)
    return nullptr;
  TABLE *const table= static_cast<TABLE *>(my_malloc(PSI_INSTRUMENT_ME, sizeof(TABLE), MYF(MY_WME)));
  if (!table || open_table_from_share(m_thd, share, &share->table_name, HA_OPEN_KEYFILE | HA_TRY_READ_ONLY, EXTRA_RECORD,
                                      m_thd->open_options, table, false))
  {
    my_free(table);
    tdc_release_share(share);
    return nullptr;
  }
  m_opened.push_back(table);
  m_error= 0;
  return table;
}

void ForeignRows::end_statement()
{
  m_keys.clear();
  for (TABLE *table : m_opened)
  {
    TABLE_SHARE *const share= table->s;
    closefrm(table);
    my_free(table);
    tdc_release_share(share);
  }
  m_opened.clear();
}

const ForeignKey *ForeignRows::key_of(const std::string &child, uint32_t ordinal)
{
  const auto found= m_keys.find(child);
  const std::vector<ForeignKey> &keys=
    found != m_keys.end() ? found->second : m_keys.emplace(child, foreign_keys(SLC_FOREIGN_OF_CHILD, child.c_str())).first->second;
  return ordinal < keys.size() ? &keys[ordinal] : nullptr;
}

/* ---- callbacks ---- */

/* The engine's code is no place for exceptions. */
template <typename Body> int ForeignRows::guarded(const Body &body)
{
  try
  {
    m_error= 0;
    const int error= body();
    if (error && !m_error)
      m_error= error;
  }
  catch (const std::bad_alloc &)
  {
    m_error= HA_ERR_OUT_OF_MEM;
  }
  return m_error;
}

int ForeignRows::entries(void *ctx, const slc_row_of *child, slc_row_sink *to)
{
  ForeignRows *const self= static_cast<ForeignRows *>(ctx);
  return self->guarded([&] {
    ha_sluice *const handler= self->changed_child(string_of(child->table));
    if (!handler)
      return self->m_error;
    const uchar *const record= handler->foreign_record(self->m_record, child->pk, child->row);
    if (!record)
      return bad_row(string_of(child->table).c_str());
    handler->put_made(to, record, child->pk);
    return handler->certify(self->m_thd, record, nullptr);
  });
}

int ForeignRows::changed(void *ctx, const slc_row_of *child, uint32_t foreign, const slc_row_of *parent, slc_row_sink *before,
                         slc_row_sink *after, slc_row_sink *past)
{
  ForeignRows *const self= static_cast<ForeignRows *>(ctx);
  return self->guarded([&] { return self->change(*child, foreign, parent, before, after, past); });
}

int ForeignRows::ended(void *ctx, const slc_row_of *child, slc_row_sink *before, slc_row_sink *after)
{
  ForeignRows *const self= static_cast<ForeignRows *>(ctx);
  return self->guarded([&] { return self->end(*child, before, after); });
}

/* As TABLE::delete_row() of the server does it. */
int ForeignRows::end(const slc_row_of &child, slc_row_sink *before, slc_row_sink *after)
{
  const std::string table= string_of(child.table);
  ha_sluice *const handler= changed_child(table);
  if (!handler)
    return m_error;
  uchar *const record= handler->foreign_record(m_record, child.pk, child.row);
  if (!record)
    return bad_row(table.c_str());
  handler->put_made(before, record, child.pk);
  const size_t length= handler->get_table()->s->reclength;
  uchar *const old_record= static_cast<uchar *>(memcpy(m_old_record.reserve(length), record, length));
  if (handler->end_foreign_record(record) < 0)
    return handler->certify(m_thd, old_record, nullptr);
  handler->put_made(after, record, child.pk);
  return handler->certify(m_thd, old_record, record);
}

int ForeignRows::reference(void *ctx, const slc_row_of *child, uint32_t foreign, slc_value_sink *to)
{
  ForeignRows *const self= static_cast<ForeignRows *>(ctx);
  return self->guarded([&] { return self->put_reference(*child, foreign, to); });
}

int ForeignRows::put_reference(const slc_row_of &of, uint32_t foreign, slc_value_sink *to)
{
  const std::string table= string_of(of.table);
  ha_sluice *const handler= child(table);
  const ForeignKey *const key= handler ? key_of(table, foreign) : nullptr;
  if (!key)
    return handler ? HA_ERR_TABLE_DEF_CHANGED : m_error;
  std::vector<Field *> fields;
  for (const std::string &name : key->columns)
  {
    fields.push_back(field_of(handler->get_table(), name));
    if (!fields.back())
      return HA_ERR_TABLE_DEF_CHANGED;
  }
  return handler->put_reference(m_record, m_reference, fields, of.pk, of.row, to) ? 0 : bad_row(table.c_str());
}

/* The old form of a row that gets another one, as a row of the past; and the beginning of the new
   one. As for an UPDATE, there is no such row if the old form has not been there for any time. */
int ForeignRows::put_past(ha_sluice *handler, const uchar *old_record, uchar *record, slc_row_sink *to)
{
  const size_t length= handler->get_table()->s->reclength;
  uchar *const past= static_cast<uchar *>(memcpy(m_past_record.reserve(length), old_record, length));
  handler->begin_foreign_record(record);
  if (handler->end_foreign_record(past) <= 0)
    return 0;
  handler->put_made_past(to, past);
  return handler->certify(m_thd, nullptr, past);
}

/* `of_parent` null: the columns become NULL. */
int ForeignRows::change(const slc_row_of &child, uint32_t foreign, const slc_row_of *of_parent, slc_row_sink *before, slc_row_sink *after,
                        slc_row_sink *past)
{
  const std::string table= string_of(child.table), parent_path= of_parent ? string_of(of_parent->table) : "";
  const slc_bytes pk= child.pk;
  ha_sluice *const handler= changed_child(table);
  if (!handler)
    return m_error;
  ha_sluice *const from= of_parent ? parent(parent_path) : nullptr;
  if (!from && of_parent)
    return m_error;
  const ForeignKey *const key= key_of(table, foreign);
  if (!key)
    return HA_ERR_TABLE_DEF_CHANGED;
  std::vector<Field *> to_fields, from_fields;
  for (size_t i= 0; i < key->columns.size(); i++)
  {
    to_fields.push_back(field_of(handler->get_table(), key->columns[i]));
    from_fields.push_back(from ? field_of(from->get_table(), key->parent_columns[i]) : nullptr);
    if (!to_fields.back() || (from && !from_fields.back()))
      return HA_ERR_TABLE_DEF_CHANGED;
  }
  uchar *const record= handler->foreign_record(m_record, pk, child.row);
  if (!record)
    return bad_row(table.c_str());
  handler->put_made(before, record, pk);
  if (from && keeps(parent_path, from_fields))
  {
    handler->put_made(after, record, pk);
    slc_row_sink_keeps_unindexed(after);
    return 0;
  }
  const uchar *const values= from ? from->foreign_values(m_parent_record, of_parent->pk, of_parent->row, from_fields) : nullptr;
  if (from && !values)
    return bad_row(parent_path.c_str());
  const size_t length= handler->get_table()->s->reclength;
  uchar *const old_record= static_cast<uchar *>(memcpy(m_old_record.reserve(length), record, length));
  if (const int error= handler->certify(m_thd, record, nullptr))
    return error;
  for (size_t i= 0; i < to_fields.size(); i++)
  {
    /* As in InnoDB: the child's spelling of a column stays if the parent's column does. */
    if (from && keeps(parent_path, {from_fields[i]}))
      continue;
    const Column to= column_of(handler->get_table(), to_fields[i]);
    const bool copied= from ? copy_value(column_of(from->get_table(), from_fields[i]), values, to, record) : set_to_null(to, record);
    if (!copied)
    {
      note_foreign_fault(key->child, key->name);
      return HA_ERR_ROW_IS_REFERENCED;
    }
  }
  note_made(table, handler->get_table(), to_fields, old_record, record);
  const std::vector<uint16> &made= m_made[table];
  const auto is_kept_up= [&](uint16 number) { return !handler->get_table()->field[number]->vers_update_unversioned(); };
  if (handler->marks_past() && std::any_of(made.begin(), made.end(), is_kept_up))
  {
    if (const int error= put_past(handler, old_record, record, past))
      return error;
    const Field *const begin= handler->get_table()->vers_start_field();
    if (!same_bytes(handler->get_table(), begin, old_record, record))
      m_made[table].push_back(begin->field_index);
  }
  if (!handler->compute_changed_virtual_columns(record))
    return HA_ERR_GENERIC;              // the error is raised
  handler->put_made(after, record, pk);
  if (keeps_unindexed(m_keys[table], handler->get_table(), old_record, record, true))
    slc_row_sink_keeps_unindexed(after);
  return handler->certify(m_thd, nullptr, record);
}

} // namespace sluice

using namespace sluice;

/* ---- records ---- */

/* The row with all columns that the table's indexes need. */
uchar *ha_sluice::foreign_record(Buffer &to, slc_bytes clustered, slc_bytes stored)
{
  const slc_bytes row= Codec::plain_row(stored, m_plain_foreign);
  const size_t length= table->s->reclength;
  uchar *const record= to.reserve(length);
  memcpy(record, table->s->default_values, length);
  if (!m_codec->get_row(plan_of_whole_rows(), record, clustered, row))
    return nullptr;
  compute_indexed_virtual_columns(record);
  return record;
}

/* A row of the statement's time begins. */
void ha_sluice::begin_foreign_record(uchar *record) { put_statement_time(record, table->vers_start_field()); }

/* The row becomes one of the past. < 0, 0, > 0: it began after that, at the same time, before. */
int ha_sluice::end_foreign_record(uchar *record)
{
  const Field *const start= table->vers_start_field(), *const end= table->vers_end_field();
  put_statement_time(record, table->vers_end_field());
  compute_indexed_virtual_columns(record);
  return end->cmp(record + (end->ptr - table->record[0]), record + (start->ptr - table->record[0]));
}

void ha_sluice::put_statement_time(uchar *record, Field *field)
{
  MY_BITMAP *const set= dbug_tmp_use_all_columns(table, &table->write_set);
  const my_ptrdiff_t offset= record - table->record[0];
  field->move_field_offset(offset);
  field->store_timestamp(table->in_use->query_start(), table->in_use->query_start_sec_part());
  field->move_field_offset(-offset);
  dbug_tmp_restore_column_map(&table->write_set, set);
}

/* False: the bytes are no row. */
bool ha_sluice::put_reference(Buffer &row_buffer, Buffer &to, const std::vector<Field *> &fields, slc_bytes clustered, slc_bytes row,
                              slc_value_sink *sink)
{
  const uchar *const record= foreign_values(row_buffer, clustered, row, fields);
  if (!record)
    return false;
  for (const Field *field : fields)
  {
    const KeyPart part= Codec::whole_part(table, field);
    const std::string domain= domain_of(table, *m_codec, part);
    const bool is_null= part.column.is_null(record);
    to.clear();
    if (!is_null)
      m_codec->put_image(to, part, record);
    slc_value_sink_put(sink, {reinterpret_cast<const uchar *>(domain.data()), domain.size()}, is_null, to.bytes());
  }
  return true;
}

/* The row with these columns, of a table that the statement may be using. */
const uchar *ha_sluice::foreign_values(Buffer &to, slc_bytes clustered, slc_bytes stored, const std::vector<Field *> &fields)
{
  const slc_bytes row= Codec::plain_row(stored, m_plain_parent);
  const size_t length= table->s->reclength;
  uchar *const record= to.reserve(length);
  memcpy(record, table->s->default_values, length);
  if (!m_codec->get_row(plan_of_whole_rows(), record, clustered, row))
    return nullptr;
  for (const Field *field : fields)
    if (!field->stored_in_db())
      compute_virtual_column(record, field->field_index);
  return record;
}

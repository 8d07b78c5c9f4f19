/* What a handler does for vector indexes; see vector_graph.h. The main table's handler takes the
   graph's lock, and looks at the rows that a search has found. The graph table's handler chooses
   which versions of nodes it reads. */
#include "vector_graph.h"
#include "asleep.h"
#include "cluster.h"
#include "ddl.h"
#include "engine.h"
#include "errors.h"
#include "foreign.h"
#include "ha_sluice.h"
#include "mutant.h"
#include "settings.h"
#include <algorithm>
#include <cmath>

namespace sluice {

/* Moves the cache's entry after this engine's. Not this engine's before the cache's: a savepoint
   remembers the first participant of its time, and what came before that is rolled back as a
   whole. */
static void put_after_engine(THD_TRANS *trans, const void *cache)
{
  std::vector<Ha_trx_info *> order;
  size_t cache_at= SIZE_MAX, engine_at= SIZE_MAX;
  for (Ha_trx_info *info= trans->ha_list; info; info= info->next())
  {
    if (info->ht() == cache)
      cache_at= order.size();
    if (info->ht() == hton)
      engine_at= order.size();
    order.push_back(info);
  }
  if (cache_at == SIZE_MAX || engine_at == SIZE_MAX || cache_at > engine_at)
    return;
  std::rotate(order.begin() + cache_at, order.begin() + cache_at + 1, order.begin() + engine_at + 1);
  trans->ha_list= nullptr;
  for (size_t i= order.size(); i--;)
  {
    Ha_trx_info *const info= order[i];
    auto *const participant= info->ht();
    const bool writes= info->is_trx_read_write(), stays= info->is_trx_no_rollback();
    info->reset();
    info->register_ha(trans, participant);
    if (writes)
      info->set_trx_read_write();
    if (stays)
      info->set_trx_no_rollback();
  }
}

void commit_before_graph_cache(THD *thd)
{
  const void *const cache= graph_cache_in_transactions();
  if (!cache || planted(Mutant::GraphCacheFirst))
    return;
  put_after_engine(&thd->transaction->stmt, cache);
  put_after_engine(&thd->transaction->all, cache);
}

std::vector<std::string> columns_of_graph(const TABLE *table)
{
  std::vector<std::string> columns;
  const auto add= [&](const KEY &key) {
    for (uint i= 0; i < key.user_defined_key_parts; i++)
      columns.push_back(table->field[key.key_part[i].fieldnr - 1]->field_name.str);
  };
  if (const KEY *const key= vector_index(table))
    add(*key);
  if (table->s->primary_key != MAX_KEY)
    add(table->key_info[table->s->primary_key]);
  return columns;
}

const char *why_no_cascade(const TABLE *form, const ForeignKey &key)
{
  if (!vector_index(form) || planted(Mutant::CascadeOverGraph))
    return nullptr;
  const bool deletes= key.on_delete == SLC_FOREIGN_CASCADE, follows= key.on_update == SLC_FOREIGN_CASCADE;
  if (deletes)
    return "ON DELETE CASCADE would delete rows of a table with a VECTOR index behind the server's back: use RESTRICT";
  const bool changes= follows || key.on_delete == SLC_FOREIGN_SET_NULL || key.on_update == SLC_FOREIGN_SET_NULL;
  if (changes && form->versioned())
    return "a cascade would add rows to a versioned table with a VECTOR index behind the server's back: use RESTRICT";
  if (!follows || form->s->primary_key == MAX_KEY)
    return nullptr;
  const KEY &primary= form->key_info[form->s->primary_key];
  for (uint i= 0; i < primary.user_defined_key_parts; i++)
    for (const std::string &column : key.columns)
      if (same_name(form->field[primary.key_part[i].fieldnr - 1]->field_name, column))
        return "ON UPDATE CASCADE would change the primary key of a table with a VECTOR index behind the server's back: use RESTRICT";
  return nullptr;
}

} // namespace sluice

using namespace sluice;

static ha_sluice *graph_handler(const TABLE *table) { return static_cast<ha_sluice *>(graph_of(table)->file); }

/* ---- the main table ---- */

/* V2. The server has the graph table open and in use in every statement that changes rows; else it
   changes no node. */
int ha_sluice::lock_graph()
{
  TABLE *const graph= graph_of(table);
  if (likely(!graph) || !graph->in_use)
    return 0;
  THD *const thd= ha_thd();
  if (const int error= refuse_vector_index(thd, table_share))
    return error;
  Share *const share= graph_handler(table)->m_share;
  connect(false);
  if (m_connection->holds_graph(share->name()))
    return 0;
  const slc_err locked= planted(Mutant::GraphNotLocked) ? SLC_OK : slc_table_autoinc_lock(share->table(), m_connection->trx());
  if (locked)
    return fail(locked);
  /* A transaction that a crash cut short holds no lock while it is rolled back, and its nodes are
     the newest (V3). */
  const int undecided= planted(Mutant::CrashedWriterNotAwaited) ? 0 : wait_until_decided(thd, share->name(), true);
  if (undecided)
    return undecided;
  m_connection->note_graph(share->name());
  return 0;
}

/* At SERIALIZABLE a search keeps others from adding what it would find. The server begins it with
   rnd_init(), before it has the shared cache's lock (V4). */
int ha_sluice::lock_graph_of_search()
{
  const bool locks= graph_of(table) && m_connection->isolation() == SLC_ISO_SERIALIZABLE && m_connection->in_long_transaction();
  return locks ? lock_graph() : 0;
}

/* The row as it is now, to the start of m_moved_record. */
int ha_sluice::read_as_graph_does()
{
  ha_sluice *const graph= graph_handler(table);
  graph->renew_graph_view();
  slc_found now;
  if (const slc_err error= slc_row_get(m_cursor, graph->trx(), m_clustered.bytes(), graph->lock_of_reads(), SLC_WAIT, &now))
    return fail(error);
  uchar *const record= m_moved_record.reserve(2 * table->s->reclength);
  const slc_bytes row= Codec::plain_row(now.row, m_plain_moved);
  return m_codec->get_row(plan_of_whole_rows(), record, m_clustered.bytes(), row) ? 0 : bad_row(shown_name().c_str(), m_codec->unknown_definition(row));
}

/* The row whose clustered key is in m_clustered, which a search has found. HA_ERR_KEY_NOT_FOUND: it
   is not to be shown (V6). */
int ha_sluice::read_found_by_graph(uchar *record)
{
  const bool compares= (m_lock == SLC_LOCK_NONE || m_lock == SLC_LOCK_NONE_STATEMENT_VIEW) && graph_handler(table)->trx();
  int error= compares ? read_as_graph_does() : 0;
  /* Deleted after the search had found it: there is nothing to compare. */
  const bool is_gone= error == HA_ERR_KEY_NOT_FOUND;
  if (!error || is_gone)
    error= point_read(record);
  if (error)
    return error == HA_ERR_END_OF_FILE ? HA_ERR_KEY_NOT_FOUND : error;
  if (!compares || is_gone || planted(Mutant::ChangedVectorShown))
    return 0;
  const Field *const field= vector_index(table)->key_part->field;
  const uchar *const now= m_moved_record.data(), *seen= record;
  if (!bitmap_is_set(columns_read(), field->field_index))
  {
    uchar *const whole= m_moved_record.data() + table->s->reclength;
    if (!m_codec->get_row(plan_of_whole_rows(), whole, m_clustered.bytes(), m_scan.row_bytes))
      return bad_row(shown_name().c_str());
    seen= whole;
  }
  const uint at= static_cast<uint>(field->ptr - table->record[0]);
  return memcmp(seen + at, now + at, field->pack_length()) ? HA_ERR_KEY_NOT_FOUND : 0;
}

/* To the server a row that is not there is the end of the search. So the search goes on from here:
   the server's function for the next row comes back to this one. Not in a statement that changes
   the rows: it also asks for rows by reference that it found before. */
int ha_sluice::found_by_graph(uchar *record)
{
  constexpr int PASS_OVER= SLUICE_ERR_FIRST - 1; // no error of the server, nor of this engine
  int error= read_found_by_graph(record);
  if (error != HA_ERR_KEY_NOT_FOUND || (m_lock == SLC_LOCK_EXCLUSIVE && thd_sql_command(ha_thd()) != SQLCOM_SELECT))
    return error;
  if (planted(Mutant::UnseenRowEndsSearch))
    return HA_ERR_KEY_NOT_FOUND;
  if (m_passes_over)
    return PASS_OVER;
  m_passes_over= true;
  do
    error= thd_kill_level(ha_thd()) == THD_IS_NOT_KILLED ? next_of_graph_search(table) : HA_ERR_ABORTED_BY_USER;
  while (error == PASS_OVER);
  m_passes_over= false;
  return error;
}

/* ---- the graph table ---- */

/* V3. The holder's transaction reads its own nodes; another reader has a transaction of its own,
   which ends with the scan. */
void ha_sluice::begin_graph_read()
{
  const bool holds= m_connection->holds_graph(m_share->name()) && !planted(Mutant::HolderReadsCommitted);
  if (holds || planted(Mutant::NodesOfSnapshot) || planted(Mutant::UncommittedNodesRead))
    own_end();
  else
    own_begin();
}

void ha_sluice::renew_graph_view()
{
  if (m_own_trx)
    slc_trx_close_snapshot(m_own_trx);
}

/* Nodes refer to one another, so each is there. */
int ha_sluice::read_node(uchar *record)
{
  renew_graph_view();
  const int error= point_read(record);
  if (error != HA_ERR_KEY_NOT_FOUND && error != HA_ERR_END_OF_FILE)
    return error;
  sql_print_error(SLUICE_ENGINE_NAME ": table %s: a node that others refer to is missing; ALTER TABLE ... FORCE makes the graph anew",
                  shown_name().c_str());
  return HA_ERR_CRASHED;
}

/* V2 decides what is changed, and not the transaction's snapshot: nodes are no data of the user. */
template <typename Body> int ha_sluice::change_graph(const Body &body)
{
  own_end();
  connect(true);
  DBUG_ASSERT(m_connection->holds_graph(m_share->name()));
  commit_before_graph_cache(m_connection->thd());
  if (planted(Mutant::NodeOfOwnTransaction))
  {
    own_begin();
    return own_commit(body());
  }
  slc_trx_snapshot_isolation(m_connection->trx(), false);
  const int error= body();
  slc_trx_snapshot_isolation(m_connection->trx(), m_connection->has_snapshot_isolation());
  return error;
}

int ha_sluice::insert_node(const uchar *record)
{
  return change_graph([&] { return insert_numbered(record); });
}

int ha_sluice::update_node(const uchar *old_record, const uchar *new_record)
{
  if (m_codec->same_row(old_record, new_record))
    return HA_ERR_RECORD_IS_THE_SAME;
  return change_graph([&] { return update_numbered(old_record, new_record); });
}

/* ---- CHECK ---- */

/* As the server writes the key (tref) for a search. */
static void put_reference_key(Buffer &to, const uchar *reference, uint length)
{
  uchar head[3]= {0, 0, 0};
  int2store(head + 1, length);
  to.clear();
  to.append(head, sizeof head);
  to.append(reference, length);
}

static bool is_near(double a, double b) { return std::abs(a - b) <= 1e-3 * std::abs(b); }

/* Whether a node has the row's vector: a scale, and numbers of 16 bits of which the largest is
   32767. Where distances are cosines, the scale is that of the direction. A node of another form is
   not judged. */
static bool has_vector(const String &node, const String &vector)
{
  constexpr double LARGEST= 32767;
  const size_t count= vector.length() / sizeof(float);
  if (node.length() != sizeof(float) + count * sizeof(int16_t))
    return true;
  const auto value= [&](size_t i) {
    float number;
    memcpy(&number, vector.ptr() + i * sizeof number, sizeof number);
    return static_cast<double>(number);
  };
  double largest= 0, square= 0;
  for (size_t i= 0; i < count; i++)
  {
    largest= std::max(largest, std::abs(value(i)));
    square+= value(i) * value(i);
  }
  const double scale= largest > 0 ? largest / LARGEST : 1;
  for (size_t i= 0; i < count; i++)
  {
    int16_t rounded;
    memcpy(&rounded, node.ptr() + sizeof(float) + i * sizeof rounded, sizeof rounded);
    if (std::abs(value(i) / scale - rounded) > 1)
      return false;
  }
  float stored;
  memcpy(&stored, node.ptr(), sizeof stored);
  return is_near(stored, scale) || (square > 0 && is_near(stored, scale / std::sqrt(square)));
}

/* Compares rows and nodes by one snapshot: each row has a node with its vector, and no other node
   refers to a row. */
int ha_sluice::compare_with_graph(slc_trx *trx, slc_cursor *rows, slc_cursor *nodes, GraphFindings *findings)
{
  constexpr uint VECTOR_OF_NODE= 2;
  constexpr uint BY_REFERENCE= 0;
  ha_sluice *const graph= graph_handler(table);
  const uint index= graph->m_codec->engine_index(BY_REFERENCE);
  Field *const vector_of_row= vector_index(table)->key_part->field, *const vector_of_node= graph->table->field[VECTOR_OF_NODE];
  Buffer key, image;
  String of_row, of_node;
  slc_found found, node;
  uint64_t all= 0;
  slc_err error= slc_cursor_begin(rows, trx, 0, SLC_LOCK_NONE, SLC_WAIT, 0);
  if (!error)
    error= slc_cursor_begin(nodes, trx, index, SLC_LOCK_NONE, SLC_WAIT, 0);
  if (!error)
    error= slc_cursor_seek(rows, SLC_SEEK_FIRST, {nullptr, 0}, &found);
  for (; !error; error= slc_cursor_next(rows, &found), all++)
  {
    m_clustered.clear();
    m_clustered.append(found.pk);
    const slc_bytes row= Codec::plain_row(found.row, m_plain_row);
    if (!m_codec->get_row(plan_of_whole_rows(), table->record[0], found.pk, row))
      return bad_row(shown_name().c_str(), m_codec->unknown_definition(row));
    position(table->record[0]);
    put_reference_key(key, ref, ref_length);
    image.clear();
    graph->m_codec->put_search_key(image, BY_REFERENCE, key.data(), static_cast<uint>(key.length()));
    slc_cursor_bounds(nodes, image.bytes(), {image.bytes(), 1});
    const slc_err missing= slc_cursor_seek(nodes, SLC_SEEK_GE, image.bytes(), &node);
    if (missing && missing != SLC_END)
      return fail(missing);
    findings->without+= missing == SLC_END;
    if (missing)
      continue;
    const slc_bytes plain= Codec::plain_row(node.row, graph->m_plain_row);
    if (!graph->m_codec->get_row(graph->plan_of_whole_rows(), graph->table->record[0], node.pk, plain))
      return bad_row(shown_name().c_str(), graph->m_codec->unknown_definition(plain));
    findings->differ+= !has_vector(*vector_of_node->val_str(&of_node), *vector_of_row->val_str(&of_row));
  }
  if (error != SLC_END)
    return fail(error);
  /* NULL comes first. */
  const uchar no_reference= 1;
  image.clear();
  graph->m_codec->put_search_key(image, BY_REFERENCE, &no_reference, 1);
  slc_cursor_bounds(nodes, {nullptr, 0}, {{nullptr, 0}, 0});
  uint64_t with_reference= 0;
  for (error= slc_cursor_seek(nodes, SLC_SEEK_AFTER_PREFIX, image.bytes(), &node); !error; error= slc_cursor_next(nodes, &node))
    with_reference++;
  findings->stale= with_reference - (all - findings->without);
  return error == SLC_END ? 0 : fail(error);
}

/* The graph table as any other, and then with the rows. `finding` is empty if all is well. */
int ha_sluice::check_graph(uint32_t level, std::string *finding)
{
  static const std::string WAY_OUT= ": ALTER TABLE ... FORCE makes it anew";
  const std::string name= "the graph of VECTOR index " + std::string(vector_index(table)->name.str);
  if (!open_graph(table))
  {
    *finding= name + " cannot be opened" + WAY_OUT;
    return 0;
  }
  ha_sluice *const graph= graph_handler(table);
  const slc_err checked= graph->check_by_engine(ha_thd(), trx(), level);
  if (checked == SLC_CORRUPT)
    *finding= name + " is damaged" + WAY_OUT;
  if (checked || level == SLC_CHECK_QUICK)
    return !checked || checked == SLC_CORRUPT ? 0 : fail(checked);
  const slc_waiter waiter= m_connection->waiter();
  slc_trx *const reader= slc_trx_new(engine, &waiter, thd_get_thread_id(ha_thd()));
  slc_trx_start(reader, SLC_ISO_REPEATABLE_READ, lock_wait_timeout_ms(ha_thd()));
  slc_cursor *const rows= slc_cursor_new(m_share->table()), *const nodes= slc_cursor_new(graph->m_share->table());
  GraphFindings findings= {0, 0, 0};
  const int error= guarded([&] { return compare_with_graph(reader, rows, nodes, &findings); });
  slc_cursor_free(rows);
  slc_cursor_free(nodes);
  slc_trx_free(reader);
  if (!error && (findings.without || findings.stale || findings.differ))
    *finding= name + " lacks " + std::to_string(findings.without) + " rows, has " + std::to_string(findings.stale) +
              " nodes of rows that are gone, and " + std::to_string(findings.differ) + " nodes with another vector" + WAY_OUT;
  return error;
}

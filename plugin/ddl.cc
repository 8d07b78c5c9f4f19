/* CREATE, RENAME, DROP, TRUNCATE. Each step is one call to the engine, which makes it atomic and
   durable. What a definition asks for and Sluice does not have is named, in an error or a warning,
   never dropped silently. */
#include "ddl.h"
#include "asleep.h"
#include "cluster.h"
#include "column_notes.h"
#include "engine.h"
#include "errors.h"
#include "ha_sluice.h"
#include "innodb_limits.h"
#include "innodb_stats_tables.h"
#include "settings.h"
#include "table_options.h"
#include "table_path.h"
#include "update_times.h"
#include "vector_graph.h"

using namespace sluice;

static std::string definition_line(const LEX_CUSTRING &definition)
{
  std::string line= "\ndefinition ";
  for (size_t i= 0; i < definition.length; i++)
  {
    line+= _dig_vec_lower[definition.str[i] >> 4];
    line+= _dig_vec_lower[definition.str[i] & 15];
  }
  return line + "\n";
}

static bool has_counted_spaces(const TABLE *form)
{
  bool counts_spaces= false;
  for (uint i= 0; i < form->s->keys; i++)
    for (uint part= 0; part < form->key_info[i].user_defined_key_parts; part++)
    {
      const Field *field= form->field[form->key_info[i].key_part[part].fieldnr - 1];
      counts_spaces|= dynamic_cast<const Field_string *>(field) && StringImage::counts_spaces(field->charset());
    }
  return counts_spaces;
}

std::string sluice::schema_of(const TABLE *form, const RowHistory &history, [[maybe_unused]] enum row_type format)
{
  std::string text= "sluice 1" + definition_line(form->s->tabledef_version) + "row " + std::to_string(history.current()) + "\n";
  if (has_counted_spaces(form))
    text+= "spaces 1\n";
  history.print(text);
  for (uint i= 0; i < form->s->keys; i++)
  {
    const KEY &key= form->key_info[i];
    text+= "key " + std::string(key.name.str, key.name.length);
    for (uint part= 0; part < key.user_defined_key_parts; part++)
    {
      const KEY_PART_INFO &info= key.key_part[part];
      const Field *field= form->field[info.fieldnr - 1];
      text+= " " + std::string(field->field_name.str, field->field_name.length) + ":" +
             std::to_string(field->charset()->number);
      if (info.key_part_flag & HA_REVERSE_SORT)
        text+= ":desc";
    }
    text+= "\n";
  }
#ifdef SLUICE_STAND_IN
  text+= lines_of_columns(form);
  if (form->s->row_type == ROW_TYPE_DEFAULT)
    text+= line_of_format(format == ROW_TYPE_NOT_USED ? default_row_format() : format);
#endif
  return text;
}

bool sluice::schema_has_images_of(slc_bytes schema, const TABLE *form)
{
  static const std::string SPACES= "\nspaces 1\n";
  const std::string text(reinterpret_cast<const char *>(schema.ptr), schema.len);
  const size_t row= text.find("\nrow ");
  return !has_counted_spaces(form) ||
         (row != std::string::npos && !text.compare(text.find('\n', row + 1), SPACES.size(), SPACES));
}

bool sluice::schema_is_of(slc_bytes schema, const LEX_CUSTRING &definition)
{
  const std::string text(reinterpret_cast<const char *>(schema.ptr), schema.len);
  return definition.length && text.find(definition_line(definition)) != std::string::npos;
}

Definition::Definition(TABLE *form, bool temporary, ForeignDefinition &foreign) : schema(schema_of(form))
{
  const std::unique_ptr<Codec> codec= Codec::build(form);
  codec->set_marks_past(form->versioned() && !temporary);
  if (codec->marks_past())
    def.flags|= SLC_TABLE_MARKS_PAST;
  parts.reset(new IndexParts(form, *codec));
  if (temporary)
    def.flags|= SLC_TABLE_TEMPORARY;
  if (!codec->has_primary_key())
    def.flags|= SLC_TABLE_HIDDEN_PK;
  else if (codec->is_wide(codec->primary()))
    def.flags|= SLC_TABLE_WIDE_PK;
  def.pk_fixed_len= codec->clustered_key_length_fixed();
  for (uint i= 0; i < codec->secondary_count(); i++)
  {
    const uint index= codec->server_index(i + 1);
    const std::vector<slc_index_part> &of_index= parts->of(i + 1);
    indexes.push_back({form->key_info[index].name.str, codec->index_flags(index), static_cast<uint32_t>(of_index.size()), of_index.data()});
  }
  def.part_count= static_cast<uint32_t>(parts->of(0).size());
  def.parts= parts->of(0).data();
  def.foreign_count= foreign.count();
  def.foreign= foreign.defs();
  def.foreign_kept= foreign.kept();
  def.replaces= foreign.replaces();
  if (!checks_foreign_keys(current_thd))
    def.flags|= SLC_TABLE_FOREIGN_UNCHECKED;
  def.index_count= static_cast<uint32_t>(indexes.size());
  def.indexes= indexes.data();
  def.change_buffering= change_buffering_of(form->s);
  def.schema= {reinterpret_cast<const uint8_t *>(schema.data()), schema.size()};
}

int sluice::wait_until_decided(THD *thd, const char *name, bool builds)
{
  constexpr ulonglong POLL_US= 20000;
  const ulonglong until= my_interval_timer() + lock_wait_timeout_ms(thd) * 1000000ULL;
  const char *const state= thd->proc_info;
  bool waits= false;
  uint64_t by= 0;
  slc_err error;
  while ((error= slc_table_check_decided(engine, name, builds, &by)) == SLC_LOCKED)
  {
    if (thd_kill_level(thd) != THD_IS_NOT_KILLED || my_interval_timer() >= until)
      break;
    if (!waits)
      thd_proc_info(thd, "Waiting for a transaction in doubt");
    waits= true;
    const Asleep asleep(thd, THD_WAIT_META_DATA_LOCK);
    my_sleep(POLL_US);
  }
  if (waits)
    thd_proc_info(thd, state);
  if (error != SLC_LOCKED)
    return server_error(error, thd, name);
  if (thd_kill_level(thd) != THD_IS_NOT_KILLED)
    return HA_ERR_ABORTED_BY_USER;
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_NOTE, ER_UNKNOWN_ERROR,
                      SLUICE_ENGINE_NAME ": transaction %llu, which is prepared (see XA RECOVER) or not rolled back yet, has changed the table, or may have",
                      static_cast<ulonglong>(by));
  return server_error(error, thd, name);
}

/* ---- what is refused ---- */

/* The definition that an ALTER TABLE by copy starts from, if the table is of this engine. */
static const TABLE_SHARE *altered_share(THD *thd)
{
  switch (thd_sql_command(thd))
  {
  case SQLCOM_ALTER_TABLE:
  case SQLCOM_CREATE_INDEX:
  case SQLCOM_DROP_INDEX:
  case SQLCOM_OPTIMIZE:
  case SQLCOM_REPAIR:
    break;
  default:
    return nullptr;
  }
  for (const TABLE_LIST *named= thd->lex->query_tables; named; named= named->next_global)
    if (named->table)                   // of OPTIMIZE's tables one is open at a time
      return named->table->file->partition_ht() == hton ? named->table->s : nullptr;
  return nullptr;
}

static int check_definition(THD *thd, TABLE *form, HA_CREATE_INFO *info)
{
  if (const int error= check_options(thd, form->s, info, altered_share(thd)))
    return error;
  /* A partition has none of its own: ALTER TABLE would not know of it. */
  if (info->option_struct && info->option_struct->change_buffering != change_buffering_of(form->s))
    return refuse_option("CHANGE_BUFFERING of a partition");
  /* The server lets partitioned tables through, and cannot open them afterwards. */
  if (form->versioned(VERS_TRX_ID))
    return refuse_option("system versioning by transaction number (give the columns the type TIMESTAMP(6))");
  for (uint i= 0; i < form->s->keys; i++)
  {
    if (const char *kind= special_index(form->key_info[i]))
      return refuse_option(kind);
  }
#ifdef SLUICE_STAND_IN
  return check_innodb_limits(thd, form, info, LIMITS_OF_CREATE);
#else
  return 0;
#endif
}

/* As the server does it, which would leave a main table without a definition. */
static int refuse_long_reference(uint length)
{
  constexpr uint LENGTH_MAX= 256;
  if (length <= LENGTH_MAX)
    return 0;
  my_printf_error(ER_TOO_LONG_KEY, "Primary key was too long for vector indexes, max length is %u bytes", MYF(0), LENGTH_MAX);
  return HA_WRONG_CREATE_OPTION;
}

/* ---- the statements ---- */

int ha_sluice::create(const char *name, TABLE *form, HA_CREATE_INFO *info)
{
  /* The server has made the definition of a graph, and the statement's options are not for it. */
  const bool is_graph= is_graph_path(name);
  int refused= is_graph ? 0 : check_definition(ha_thd(), form, info);
  if (!refused && vector_index(form))
    refused= refuse_vector_index(ha_thd(), form->s);
  /* Not form->s->tmp_table: while a table is created its TABLE_SHARE always calls itself
     temporary. */
  ForeignDefinition foreign;
  if (!refused && !is_graph)
    refused= foreign.of_create(ha_thd(), name, form, info);
  if (refused)
    return refused;
  if (vector_index(form))
  {
    /* To define the graph the server asks for it before it opens the table. */
    set_ref_length(*Codec::build(form), form);
    if (const int error= refuse_long_reference(ref_length))
      return error;
  }
  const Definition definition(form, info->tmp_table(), foreign);
  slc_err error= slc_table_create(engine, name, &definition.def);
  if (error == SLC_OK && info->auto_increment_value > 1)
  {
    slc_table *created;
    if (!(error= slc_table_open(engine, name, &created)))
    {
      error= slc_table_autoinc_reset(created, info->auto_increment_value);
      slc_table_close(created);
    }
    if (error)
      slc_table_drop(engine, name, nullptr);
  }
  if (error == SLC_OK && !info->tmp_table() && !is_graph)
    warn_of_misfits(ha_thd(), name);
#ifdef SLUICE_STAND_IN
  if (error == SLC_OK && !info->tmp_table())
  {
    compute_statistics_of_new(name, form);
    write_statistics_again(name);
  }
#endif
  /* If the graph cannot be made, the server forgets the main table. */
  if (error && is_graph)
    slc_table_drop(engine, std::string(name).substr(0, graph_suffix_at(name)).c_str(), nullptr);
  const int server= server_error(error, ha_thd(), name);
  if (error == SLC_FOREIGN_UNFIT && foreign.replaces())
    /* As InnoDB says it, which notices when the copy takes the table's place. */
    my_error(ER_ERROR_ON_RENAME, MYF(0), name, foreign.replaces(), server);
  return server;
}

std::vector<std::string> sluice::tables_with_prefix(const std::string &prefix)
{
  struct Search
  {
    const std::string &prefix;
    std::vector<std::string> found;
  } search= {prefix, {}};
  const auto see= [](void *ctx, const char *name, size_t length) {
    Search *wanted= static_cast<Search *>(ctx);
    if (length > wanted->prefix.size() && !memcmp(name, wanted->prefix.data(), wanted->prefix.size()))
      wanted->found.emplace_back(name, length);
  };
  slc_table_list(engine, see, &search);
  return search.found;
}

/* After a crash the server finishes an ALTER TABLE that copied a partitioned table. It asks the
   engine of the partitions to rename the whole table, and forgets the .par file. It may ask again
   after another crash; partitions that are renamed are then not found again. */
static slc_err rename_all_parts(const char *from, const char *to)
{
  const std::string prefix= std::string(from) + "#P#";
  const slc_rename mode{};
  for (const std::string &part : tables_with_prefix(prefix))
    if (const slc_err error= slc_table_rename(engine, part.c_str(), (to + part.substr(strlen(from))).c_str(), &mode))
      return error;
  const std::string file= std::string(from) + ".par";
  if (access(file.c_str(), F_OK))
    return SLC_NO_TABLE;
  return my_rename(file.c_str(), (std::string(to) + ".par").c_str(), MYF(MY_WME)) ? SLC_IO : SLC_OK;
}

/* The server renames a graph after its main table. If the graph is missing, the rename goes on:
   ALTER TABLE ... FORCE, which makes it anew, renames the old table, too. */
static int rename_graph(THD *thd, const char *from, const char *to)
{
  const slc_rename mode{};
  const slc_err error= slc_table_rename(engine, from, to, &mode);
  if (error != SLC_NO_TABLE)
    return server_error(error, thd, from);
  if (!in_ddl_recovery)
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_NO_SUCH_TABLE,
                        "%s, the graph of a VECTOR index, is missing. ALTER TABLE ... FORCE makes it anew", shown_table(from).c_str());
  return 0;
}

int ha_sluice::rename_table(const char *from, const char *to)
{
  if (const int error= wait_until_decided(ha_thd(), from, false))
    return error;
  if (is_graph_path(from))
    return rename_graph(ha_thd(), from, to);
  const ForeignRename foreign(ha_thd(), from, to);
  if (const int error= foreign.check_names(ha_thd()))
    return error;
  slc_err error= slc_table_rename(engine, from, to, &foreign.mode());
  if (error == SLC_NO_TABLE)
    error= rename_all_parts(from, to);
#ifdef SLUICE_STAND_IN
  if (!error)
  {
    rename_update_time(from, to);
    statistics_renamed(from, to);
  }
#endif
  return server_error(error, ha_thd(), from);
}

int ha_sluice::delete_table(const char *name)
{
  if (const int error= wait_until_decided(ha_thd(), name, false))
    return error;
#ifdef SLUICE_STAND_IN
  if (!remove_statistics(ha_thd(), name, nullptr))
    return HA_ERR_LOCK_WAIT_TIMEOUT;
#endif
  const Orphans orphans(ha_thd(), name);
  const slc_err error= slc_table_drop(engine, name, orphans.prefix());
#ifdef SLUICE_STAND_IN
  forget_update_time(name);
#endif
  return error == SLC_NO_TABLE ? ENOENT : server_error(error, ha_thd(), name);
}

void ha_sluice::close_for_truncation()
{
  slc_cursor_free(m_cursor);
  m_cursor= nullptr;
  m_share->close();
}

slc_err ha_sluice::open_after_truncation()
{
  const slc_err error= m_share->open();
  if (m_share->table())
    m_cursor= slc_cursor_new(m_share->table());
  return error;
}

int ha_sluice::truncate()
{
  const std::string table_name= m_share->name();
  if (const int error= wait_until_decided(ha_thd(), table_name.c_str(), false))
    return error;
  /* The server has the graph truncated afterwards, once more: a crash in between would leave one
     without the other. */
  const std::string graph= vector_index(table) ? graph_path(table_name, table->s->keys) : "";
  ha_sluice *const graph_handler= graph_of(table) ? static_cast<ha_sluice *>(graph_of(table)->file) : nullptr;
  const bool has_graph= !graph.empty() && slc_table_exists(engine, graph.c_str());
  if (graph_handler)
    graph_handler->close_for_truncation();
  close_for_truncation();
  const Orphans orphans(ha_thd(), table_name.c_str());
  slc_err error= slc_table_truncate(engine, table_name.c_str(), has_graph ? graph.c_str() : nullptr, orphans.prefix());
  const slc_err open_error= open_after_truncation();
  if (!error)
    error= open_error;
  const slc_err graph_error= graph_handler ? graph_handler->open_after_truncation() : SLC_OK;
  if (!error)
    error= graph_error;
#ifdef SLUICE_STAND_IN
  if (m_share->table() && !table->s->tmp_table)
    (void) slc_statistics_compute(m_share->table(), true);
  HA_CREATE_INFO definition;
  definition.init();
  definition.row_type= get_row_type();
  definition.key_block_size= table->s->key_block_size;
  (void) check_innodb_limits(ha_thd(), table, &definition, LIMITS_AS_WARNINGS);
#endif
  if (!error && !m_codec->history().is_empty())
  {
    const std::string schema= schema_of(table, m_codec->history().without_past(), get_row_type());
    error= slc_table_set_schema(engine, table_name.c_str(), {reinterpret_cast<const uint8_t *>(schema.data()), schema.size()});
  }
  return fail(error);
}

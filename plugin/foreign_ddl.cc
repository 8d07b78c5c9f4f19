/* What CREATE, ALTER, RENAME, DROP and TRUNCATE mean to foreign keys. The engine checks
   definitions. What only the server knows is refused here, by name. Names of constraints are made
   as InnoDB makes them. */
#include "foreign.h"
#include "connection.h"
#include "engine.h"
#include "errors.h"
#include "key_parts.h"
#include "settings.h"
#include "sql_base.h"
#include "table_path.h"
#include "vector_graph.h"
#include <algorithm>

namespace sluice {

namespace {

/* ---- names ---- */

std::string path_of(const LEX_CSTRING &db, const LEX_CSTRING &table)
{
  const auto written= [](const LEX_CSTRING &name) { return lower_case_table_names ? in_small_letters(name) : std::string(name.str); };
  char path[FN_REFLEN + 1];
  const size_t length= build_table_filename(path, sizeof path - 1, written(db).c_str(), written(table).c_str(), "", 0);
  return std::string(path, length);
}

std::string last_part(const std::string &path) { return path.substr(path.rfind('/') + 1); }

/* "database/" of "./database/table". */
std::string database_of(const std::string &path)
{
  const size_t end= path.rfind('/') + 1, begin= path.rfind('/', end - 2);
  return path.substr(begin == std::string::npos ? 0 : begin + 1, end - (begin == std::string::npos ? 0 : begin + 1));
}

bool begins_with(const std::string &text, const std::string &prefix) { return !text.compare(0, prefix.size(), prefix); }

const char GENERATED[]= "_ibfk_";

/* The greatest N of the constraints that are called TABLE_ibfk_N. */
ulong highest_number(const std::vector<ForeignKey> &keys, const std::string &table)
{
  ulong highest= 0;
  for (const ForeignKey &key : keys)
  {
    const std::string name= key.constraint(), prefix= table + GENERATED;
    if (!begins_with(name, prefix) || name[prefix.size()] == '0')
      continue;
    char *end;
    const ulong number= strtoul(name.c_str() + prefix.size(), &end, 10);
    if (!*end)
      highest= std::max(highest, number);
  }
  return highest;
}

const LEX_CSTRING &given_name(const Foreign_key &key) { return key.constraint_name.str ? key.constraint_name : key.name; }

/* ---- what is refused ---- */

int refuse(THD *thd, const std::string &constraint, const std::string &why)
{
  warn_of_foreign_key(thd, HA_ERR_CANNOT_ADD_FOREIGN, ("foreign key " + constraint + ": " + why).c_str());
  return HA_ERR_CANNOT_ADD_FOREIGN;
}

/* An ALTER in place takes RESTRICT for NO ACTION, which means the same: as in InnoDB, whose SHOW
   CREATE TABLE shows it. */
uint8_t action_of(enum_fk_option option, bool in_place)
{
  switch (option)
  {
  case FK_OPTION_RESTRICT: return in_place ? SLC_FOREIGN_NO_ACTION : SLC_FOREIGN_RESTRICT;
  case FK_OPTION_CASCADE: return SLC_FOREIGN_CASCADE;
  case FK_OPTION_SET_NULL: return SLC_FOREIGN_SET_NULL;
  case FK_OPTION_NO_ACTION: return SLC_FOREIGN_NO_ACTION;
  default: return SLC_FOREIGN_RESTRICT;
  }
}

/* Why a table that the engine does not have cannot be a parent; empty: there is none. */
std::string why_no_parent(THD *thd, const LEX_CSTRING &db, const LEX_CSTRING &table)
{
  const handlerton *const found= engine_of_table(thd, db, table);
  if (!found)
    return "";
  const std::string parent= "the parent table `" + std::string(db.str) + "`.`" + table.str + "` is ";
  if (found == view_pseudo_hton)
    return parent + "a view";
#ifdef WITH_PARTITION_STORAGE_ENGINE
  if (found == partition_hton)
    return parent + "partitioned";
#endif
  return found == hton ? "" : parent + "one of the engine " + hton_name(found)->str;
}

bool has_column(Field *const *fields, const std::string &name)
{
  for (; *fields; fields++)
    if (same_name((*fields)->field_name, name))
      return true;
  return false;
}

/* The definition that the thread gives to the engine. */
thread_local const ForeignDefinition *at_work;

/* The column as the table writes it. */
std::string as_written(const TABLE *form, const LEX_CSTRING &name)
{
  for (Field **field= form->field; *field; field++)
    if (same_name((*field)->field_name, name))
      return (*field)->field_name.str;
  return name.str;
}

int check_statement(THD *thd, const TABLE *form, const HA_CREATE_INFO *info, const std::string &constraint,
                    const Foreign_key &key)
{
  if (info->tmp_table())
    return refuse(thd, constraint, "a temporary table cannot have one");
  if (key.delete_opt == FK_OPTION_SET_DEFAULT || key.update_opt == FK_OPTION_SET_DEFAULT)
  {
#ifndef SLUICE_STAND_IN
    if (strict_mode(thd))
      return refuse(thd, constraint, "SET DEFAULT is not supported. Use RESTRICT, or SET SESSION " + variable_name("strict_mode") +
                                       "=OFF: SET DEFAULT then means RESTRICT");
#endif
    push_warning(thd, Sql_condition::WARN_LEVEL_WARN, ER_ILLEGAL_HA_CREATE_OPTION,
                 (SLUICE_ENGINE_NAME ": foreign key " + constraint + ": SET DEFAULT means RESTRICT").c_str());
  }
  return 0;
}

} // namespace

#ifdef SLUICE_STAND_IN
static std::string in_backticks(const std::vector<std::string> &columns)
{
  std::string text= "(";
  for (const std::string &column : columns)
    text+= (text.size() > 1 ? ", `" : "`") + column + "`";
  return text + ")";
}

static std::string in_parentheses(const std::vector<std::string> &columns)
{
  std::string text= "(";
  for (const std::string &column : columns)
    text+= (text.size() > 1 ? "," : "") + column;
  return text + ")";
}

static StatedForeignKey stated_key(const ForeignKey &key, bool is_named)
{
  const TablePath child(key.child), parent(key.parent);
  const std::string database= child.schema == parent.schema ? "" : "`" + parent.schema + "`.";
  return {key.constraint(), is_named, in_parentheses(key.columns),
          "FOREIGN KEY " + in_backticks(key.columns) + " REFERENCES " + database + "`" + parent.table + "` " + in_backticks(key.parent_columns)};
}

static std::string shown_name_of(const TABLE_SHARE *share)
{
  return std::string("`") + share->db.str + "`.`" + share->table_name.str + "`";
}
#endif

/* ---- CREATE, ALTER ---- */

/* named: the table in names of constraints. */
int ForeignDefinition::add_new(THD *thd, const char *name, const std::string &named, const TABLE *form, const Alter_info *alter)
{
  ulong number= highest_number(m_keys, named);
  List_iterator_fast<Key> all(const_cast<Alter_info *>(alter)->key_list);
  while (const Key *each= all++)
  {
    if (each->type != Key::FOREIGN_KEY || each->old)
      continue;
    const Foreign_key &key= static_cast<const Foreign_key &>(*each);
    const LEX_CSTRING &given= given_name(key);
    const std::string constraint= given.str ? given.str : named + GENERATED + std::to_string(++number);
    if (system_charset_info->numchars(constraint.data(), constraint.data() + constraint.size()) > NAME_CHAR_LEN)
    {
      my_error(ER_TOO_LONG_IDENT, MYF(0), constraint.c_str());
      return HA_WRONG_CREATE_OPTION;
    }
    const LEX_CSTRING &db= key.ref_db.str ? key.ref_db : form->s->db;
    ForeignKey made{};
    made.name= database_of(name) + constraint;
    made.child= name;
    made.parent= path_of(db, key.ref_table);
    List_iterator_fast<Key_part_spec> columns(const_cast<Foreign_key &>(key).columns), referenced(const_cast<Foreign_key &>(key).ref_columns);
    while (const Key_part_spec *column= columns++)
      made.columns.push_back(as_written(form, column->field_name));
    while (const Key_part_spec *column= referenced++)
      made.parent_columns.push_back(made.parent == name ? as_written(form, column->field_name) : column->field_name.str);
    made.on_delete= action_of(key.delete_opt, m_in_place);
    made.on_update= action_of(key.update_opt, m_in_place);
    m_keys.push_back(made);
#ifdef SLUICE_STAND_IN
    if (m_statement)
      m_statement->add(stated_key(made, given.str != nullptr));
#endif
    const bool is_other= made.parent != name && made.parent != m_replaces;
    if (!is_other || !checks_foreign_keys(thd) || slc_table_exists(engine, made.parent.c_str()))
      continue;
    const std::string why= why_no_parent(thd, db, key.ref_table);
    if (!why.empty())
      return refuse(thd, constraint, why);
  }
  return 0;
}

std::string ForeignDefinition::name_given_twice() const
{
  for (size_t i= 0; i < m_keys.size(); i++)
    for (size_t j= 0; j < i; j++)
      if (same_name(m_keys[i].name, m_keys[j].name))
        return m_keys[i].name;
  return "";
}

/* Two of one table; the engine compares those of different tables. As in InnoDB, the error is
   another one if both are new. */
int ForeignDefinition::check_names(THD *thd, size_t old_count) const
{
  for (size_t i= 0; i < m_keys.size(); i++)
    for (size_t j= 0; j < i; j++)
    {
      if (!same_name(m_keys[i].name, m_keys[j].name))
        continue;
      const std::string constraint= m_keys[i].constraint(), why= "the table has another one of this name";
      if (j >= old_count)
        return refuse(thd, constraint, why);
      warn_of_foreign_key(thd, HA_ERR_FOUND_DUPP_KEY, ("foreign key " + constraint + ": " + why).c_str());
      Connection::of(thd)->set_duplicate_key(MAX_KEY);
      return HA_ERR_FOUND_DUPP_KEY;
    }
  return 0;
}

/* From the old ones to those that are there afterwards. Also a number of one that goes is not given
   again. */
int ForeignDefinition::replace_by_new(THD *thd, const char *name, const std::string &named, const TABLE *form, const Alter_info *alter)
{
  const std::vector<ForeignKey> old= m_keys;
  m_form= form;
  at_work= this;
  if (const int error= add_new(thd, name, named, form, alter))
    return error;
  const std::vector<ForeignKey> added(m_keys.begin() + old.size(), m_keys.end());
  m_keys.clear();
  for (const ForeignKey &key : old)
    if (!drops_foreign_key(alter, key.constraint()))
      m_keys.push_back(key);
  m_kept= count();
  m_keys.insert(m_keys.end(), added.begin(), added.end());
  for (const ForeignKey &key : m_keys)
    if (const char *const why= why_no_cascade(form, key))
      return refuse(thd, key.constraint(), why);
  return check_names(thd, m_kept);
}

static int check_statements(THD *thd, const TABLE *form, const HA_CREATE_INFO *info)
{
  List_iterator_fast<Key> all(info->alter_info->key_list);
  while (const Key *each= all++)
    if (each->type == Key::FOREIGN_KEY && !each->old)
    {
      const Foreign_key &key= static_cast<const Foreign_key &>(*each);
      const LEX_CSTRING &given= given_name(key);
      if (const int error= check_statement(thd, form, info, given.str ? given.str : "without a name", key))
        return error;
    }
  return 0;
}

int ForeignDefinition::of_create(THD *thd, const char *name, const TABLE *form, const HA_CREATE_INFO *info)
{
  const Alter_info *const alter= info->alter_info;
  if (!alter || form->part_info)
    return 0;
  const TABLE *const original= info->options & HA_CREATE_TMP_ALTER ? alter->original_table : nullptr;
#ifdef SLUICE_STAND_IN
  m_statement.reset(new ForeignStatement(original ? shown_name_of(original->s) : shown_name_of(form->s), original));
#endif
  if (const int error= check_statements(thd, form, info))
    return error;
  std::string named= form->s->table_name.str;
  if (original && original->s->tmp_table == NO_TMP_TABLE)
  {
    m_replaces= original->s->normalized_path.str;
    named= original->s->table_name.str;
    if (original->file->ht == hton)
      m_keys= foreign_keys(SLC_FOREIGN_OF_CHILD, m_replaces.c_str());
    Connection::of(thd)->note_copy(name, m_replaces);
  }
  return replace_by_new(thd, name, named, form, alter);
}

int ForeignDefinition::of_alter(THD *thd, const char *name, const TABLE *altered, const HA_CREATE_INFO *info, const Alter_info *alter,
                                const std::vector<std::string> &renamed)
{
  m_in_place= true;
  m_keys= foreign_keys(SLC_FOREIGN_OF_CHILD, name);
#ifdef SLUICE_STAND_IN
  m_statement.reset(new ForeignStatement(TablePath(name).quoted(), true));
#endif
  const auto rename= [&](std::vector<std::string> &columns) {
    for (std::string &column : columns)
      for (size_t i= 0; i < renamed.size(); i+= 2)
        if (same_name(column, renamed[i]))
        {
          column= renamed[i + 1];
          break;
        }
  };
  for (ForeignKey &key : m_keys)
  {
    rename(key.columns);
    if (key.parent == name)
      rename(key.parent_columns);
  }
  if (const int error= check_statements(thd, altered, info))
    return error;
  return replace_by_new(thd, name, TablePath(name).table, altered, alter);
}

const slc_foreign_def *ForeignDefinition::defs()
{
  m_defs.clear();
  m_columns.clear();
  m_columns.reserve(2 * m_keys.size());
  const auto pointers= [this](const std::vector<std::string> &columns) {
    m_columns.emplace_back();
    for (const std::string &column : columns)
      m_columns.back().push_back(column.c_str());
    return m_columns.back().data();
  };
  for (const ForeignKey &key : m_keys)
    m_defs.push_back({key.name.c_str(), key.parent.c_str(), static_cast<uint32_t>(key.columns.size()), pointers(key.columns),
                      pointers(key.parent_columns), key.on_delete, key.on_update});
  return m_defs.data();
}

const ForeignKey *ForeignDefinition::named(const std::string &name) const
{
  const auto is_it= [&](const ForeignKey &key) { return key.name == name; };
  const auto found= std::find_if(m_keys.begin(), m_keys.end(), is_it);
  return found == m_keys.end() ? nullptr : &*found;
}

ForeignDefinition::~ForeignDefinition()
{
  if (at_work == this)
    at_work= nullptr;
}

static std::string first_lacking(Field *const *fields, const std::vector<std::string> &columns)
{
  for (const std::string &column : columns)
    if (!has_column(fields, column))
      return column;
  return "";
}

/* The parent's definition is read from the .frm without a lock, and is not kept: only a message
   needs it. */
static std::string lacking_column_of_parent(THD *thd, const ForeignKey &key)
{
  const TablePath parent(key.parent);
  TABLE_LIST list;
  const LEX_CSTRING db= {parent.schema.data(), parent.schema.size()}, table= {parent.table.data(), parent.table.size()};
  list.init_one_table(&db, &table, nullptr, TL_READ);
  const char *cache_key;
  const uint cache_key_length= get_table_def_key(&list, &cache_key);
  TABLE_SHARE *const share= alloc_table_share(db.str, table.str, cache_key, cache_key_length);
  if (!share)
    return "";
  std::string lacking;
  Dummy_error_handler no_errors;
  thd->push_internal_handler(&no_errors);
  if (open_table_def(thd, share, GTS_TABLE) == OPEN_FRM_OK)
    lacking= first_lacking(share->field, key.parent_columns);
  free_table_share(share);
  thd->pop_internal_handler();
  return lacking;
}

std::string ForeignDefinition::missing_parent_column(THD *thd, const std::string &name)
{
  const ForeignKey *const key= at_work ? at_work->named(name) : nullptr;
  if (!key)
    return "";
  const bool is_own= key->parent == key->child || key->parent == at_work->m_replaces;
  const std::string lacking= is_own ? first_lacking(at_work->m_form->field, key->parent_columns) : lacking_column_of_parent(thd, *key);
  return lacking.empty() ? ""
                         : "foreign key " + key->constraint() + ": the parent table " + TablePath(key->parent).quoted() +
                             " has no column " + lacking;
}

/* ---- ALTER in place ---- */

ForeignAlter::ForeignAlter()= default;
ForeignAlter::~ForeignAlter()= default;

std::vector<std::string> renamed_columns(const Alter_inplace_info *info)
{
  std::vector<std::string> renamed;
  List_iterator_fast<Create_field> columns(info->alter_info->create_list);
  while (const Create_field *column= columns++)
    if (column->field && strcmp(column->field->field_name.str, column->field_name.str))
    {
      renamed.push_back(column->field->field_name.str);
      renamed.push_back(column->field_name.str);
    }
  return renamed;
}

int ForeignAlter::prepare(THD *thd, const char *table, const TABLE *altered, const Alter_inplace_info *info)
{
  m_renamed= renamed_columns(info);
  m_is_unchecked= !checks_foreign_keys(thd);
  m_sets_foreign= (info->handler_flags & (ALTER_ADD_FOREIGN_KEY | ALTER_DROP_FOREIGN_KEY)) || !m_renamed.empty();
  if (!m_sets_foreign || altered->part_info)
    return 0;
  const int error= m_foreign.of_alter(thd, table, altered, info->create_info, info->alter_info, m_renamed);
  if (error != HA_ERR_FOUND_DUPP_KEY)
    return error;
  my_error(ER_DUP_CONSTRAINT_NAME, MYF(0), "FOREIGN KEY", m_foreign.name_given_twice().c_str());
  return SLUICE_ERR_ALREADY_REPORTED;
}

void ForeignAlter::put_into(slc_index_change *change, const TABLE *altered, const Codec &codec)
{
  m_parts.reset(new IndexParts(altered, codec));
  m_keys.clear();
  for (uint i= 0; i <= codec.secondary_count(); i++)
  {
    const std::vector<slc_index_part> &parts= m_parts->of(i);
    const char *const name= i ? altered->key_info[codec.server_index(i)].name.str : "PRIMARY";
    m_keys.push_back({name, i ? codec.index_flags(codec.server_index(i)) : 0, static_cast<uint32_t>(parts.size()), parts.data()});
  }
  change->keys= m_keys.data();
  change->key_count= static_cast<uint32_t>(m_keys.size());
  change->sets_foreign= m_sets_foreign;
  change->foreign_unchecked= m_is_unchecked;
  change->foreign= m_foreign.defs();
  change->foreign_count= m_foreign.count();
  change->foreign_kept= m_foreign.kept();
  m_renamed_names.clear();
  for (const std::string &name : m_renamed)
    m_renamed_names.push_back(name.c_str());
  change->renamed_columns= m_renamed_names.data();
  change->renamed_column_count= static_cast<uint32_t>(m_renamed_names.size() / 2);
}

/* The statement gives the new foreign key this name. */
static bool is_given(const Alter_info *alter, const std::string &constraint)
{
  List_iterator_fast<Key> all(const_cast<Alter_info *>(alter)->key_list);
  while (const Key *each= all++)
  {
    const LEX_CSTRING *const given= each->type == Key::FOREIGN_KEY && !each->old ? &given_name(static_cast<const Foreign_key &>(*each)) : nullptr;
    if (given && given->str && same_name(given->str, constraint))
      return true;
  }
  return false;
}

static const char *dropped_index_of_fault(const Alter_inplace_info *info)
{
  const std::unique_ptr<ForeignKey> key= noted_foreign_key();
  for (uint i= 0; i < info->index_drop_count; i++)
  {
    const char *const name= info->index_drop_buffer[i]->name.str;
    if (key && (key->child_index == name || key->parent_index == name))
      return name;
  }
  return info->index_drop_count ? info->index_drop_buffer[0]->name.str : "";
}

bool tell_foreign_error(slc_err error, const ForeignDefinition &foreign, const TABLE *table, const Alter_inplace_info *info)
{
  if (error == SLC_FOREIGN_NEEDS_INDEX)
  {
    my_error(ER_DROP_INDEX_FK, MYF(0), dropped_index_of_fault(info));
    return true;
  }
  const slc_bytes name= slc_foreign_name();
  if (error == SLC_FOREIGN_NAME_TAKEN)
  {
    my_error(ER_FK_FAIL_ADD_SYSTEM, MYF(0), string_of(name).c_str());
    return true;
  }
  if (error != SLC_FOREIGN_NO_PARENT_INDEX && error != SLC_FOREIGN_NOT_NULL)
    return false;
  const ForeignKey *const key= foreign.named(std::string(reinterpret_cast<const char *>(name.ptr), name.len));
  if (!key)
    return false;
  const std::string constraint= key->constraint();
  const bool given= is_given(info->alter_info, constraint);
  if (error == SLC_FOREIGN_NO_PARENT_INDEX)
    my_error(ER_FK_NO_INDEX_PARENT, MYF(0), given ? constraint.c_str() : "", TablePath(key->parent).table.c_str());
  else
    my_error(ER_FK_INCORRECT_OPTION, MYF(0), table->s->table_name.str, given ? key->name.c_str() : nullptr);
  return true;
}

bool ForeignAlter::tell(slc_err error, const TABLE *table, const Alter_inplace_info *info) const
{
  return tell_foreign_error(error, m_foreign, table, info);
}

/* ---- RENAME ---- */

/* ALTER TABLE by copy moves the old table to #sql-backup..., then #sql-alter... into its place.
   When the latter fails, and after a crash, it moves the old one back. */
ForeignRename::ForeignRename(THD *thd, const char *from, const char *to) : m_from(from)
{
  if (begins_with(last_part(to), "#sql-"))
  {
    m_mode.kind= SLC_RENAME_OUT_OF_PLACE;
    return;
  }
  const bool from_work= begins_with(last_part(from), "#sql-"), from_backup= begins_with(last_part(from), "#sql-backup-");
  m_mode.kind= from_work ? SLC_RENAME_INTO_PLACE : SLC_RENAME;
  m_mode.unchecked= in_ddl_recovery || from_backup || !checks_foreign_keys(thd);
  if (!from_work)
    rename_keys(from, to);
  else if (!from_backup)
  {
    m_replaces= replaced_by(thd, from);
    if (m_replaces.empty() || m_replaces == to)
      return;
    m_mode.replaces= m_replaces.c_str();
    rename_keys(m_replaces.c_str(), to);
  }
}

/* The table that the copy `name` replaces. After a crash no connection knows it. */
std::string ForeignRename::replaced_by(THD *thd, const char *name)
{
  std::string replaced= Connection::existing(thd) ? Connection::existing(thd)->replaced_by_copy(name) : "";
  const auto keep= [](void *ctx, const char *text, size_t length) { static_cast<std::string *>(ctx)->assign(text, length); };
  if (replaced.empty())
    slc_table_replaces(engine, name, keep, &replaced);
  return replaced;
}

/* `from`: the name of the table that is in the constraints' names. */
void ForeignRename::rename_keys(const char *from, const char *to)
{
  const std::string old_prefix= TablePath(from).table + GENERATED, new_prefix= TablePath(to).table + GENERATED;
  bool any= false;
  for (const ForeignKey &key : foreign_keys(SLC_FOREIGN_OF_CHILD, m_from.c_str()))
  {
    const std::string old= key.constraint();
    m_new_names.push_back(database_of(to) + (begins_with(old, old_prefix) ? new_prefix + old.substr(old_prefix.size()) : old));
    any|= m_new_names.back() != key.name;
  }
  if (!any)
    return;
  for (const std::string &name : m_new_names)
    m_names.push_back(name.c_str());
  m_mode.foreign_count= static_cast<uint32_t>(m_names.size());
  m_mode.foreign_names= m_names.data();
}

int ForeignRename::check_names(THD *thd) const
{
  if (m_names.empty())
    return 0;
  for (const ForeignKey &other : foreign_keys(SLC_FOREIGN_ALL, nullptr))
    for (const std::string &name : m_new_names)
      if (other.child != m_from && other.child != m_replaces && same_name(other.name, name))
      {
        warn_of_foreign_key(thd, HA_ERR_FOUND_DUPP_KEY,
                            ("the foreign key would be called " + other.constraint() + ", as one of table " + shown_table(other.child) + " is").c_str());
        Connection::of(thd)->set_duplicate_key(MAX_KEY);
        return HA_ERR_FOUND_DUPP_KEY;
      }
  return 0;
}

/* ---- DROP, TRUNCATE ---- */

Orphans::Orphans(const THD *thd, const char *table)
{
  const bool of_database= thd && thd_sql_command(thd) == SQLCOM_DROP_DB;
  m_any= in_ddl_recovery || of_database || (thd && !checks_foreign_keys(thd));
  if (of_database && checks_foreign_keys(thd))
    m_prefix= std::string(table, strrchr(table, '/') ? strrchr(table, '/') + 1 - table : 0);
}

} // namespace sluice

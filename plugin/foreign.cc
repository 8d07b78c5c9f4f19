/* Foreign keys as the engine has them: the lists that the server asks a handler for, SHOW CREATE
   TABLE's text, and the messages of refused rows. */
#include "foreign.h"
#include "connection.h"
#include "engine.h"
#include "ha_sluice.h"
#include "innodb_foreign.h"
#include "sql_show.h"
#include "table_path.h"
#include <algorithm>

namespace sluice {

namespace {

struct Fault
{
  std::string child, name;
  uint32_t duplicate_index;             // of the child
};
thread_local Fault fault;


std::vector<std::string> texts_of(const slc_bytes *from, uint32_t count)
{
  std::vector<std::string> texts;
  for (uint32_t i= 0; i < count; i++)
    texts.push_back(string_of(from[i]));
  return texts;
}

void append_columns(THD *thd, String *to, const std::vector<std::string> &columns)
{
  to->append(STRING_WITH_LEN(" ("));
  for (size_t i= 0; i < columns.size(); i++)
  {
    if (i)
      to->append(STRING_WITH_LEN(", "));
    append_identifier(thd, to, columns[i].data(), columns[i].size());
  }
  to->append(')');
}

void append_action(String *to, const char *event, uint8_t action)
{
  const char *const texts[]= {"NO ACTION", nullptr, "CASCADE", "SET NULL"};
  if (!texts[action])
    return;
  to->append(event, strlen(event));
  to->append(texts[action], strlen(texts[action]));
}

enum_fk_option option_of(uint8_t action)
{
  static const enum_fk_option options[]= {FK_OPTION_NO_ACTION, FK_OPTION_RESTRICT, FK_OPTION_CASCADE, FK_OPTION_SET_NULL};
  return options[action];
}

LEX_CSTRING *kept(THD *thd, const std::string &text)
{
  return thd->make_clex_string(text.data(), text.size());
}

/* What users call the clustered index of a table: it may be a UNIQUE key. It is the first key of
   the note in the catalog (schema_of in ddl.cc). */
std::string clustered_name(const std::string &path)
{
  slc_table *table;
  if (slc_table_open(engine, path.c_str(), &table))
    return "PRIMARY";
  const std::string schema= string_of(slc_table_schema(table)), key= "\nkey ";
  slc_table_close(table);
  const size_t at= schema.find(key), from= at == std::string::npos ? 0 : at + key.size(), end= schema.find(' ', from);
  return from && end != std::string::npos ? schema.substr(from, end - from) : "PRIMARY";
}

std::string shown_index(const std::string &path, const std::string &index)
{
  return index == "PRIMARY" ? clustered_name(path) : index;
}

FOREIGN_KEY_INFO *info_of(THD *thd, const ForeignKey &key)
{
  FOREIGN_KEY_INFO *info= new (thd_alloc(thd, sizeof(FOREIGN_KEY_INFO))) FOREIGN_KEY_INFO();
  const TablePath child(key.child), parent(key.parent);
  info->foreign_id= kept(thd, key.constraint());
  info->foreign_db= kept(thd, child.schema);
  info->foreign_table= kept(thd, child.table);
  info->referenced_db= kept(thd, parent.schema);
  info->referenced_table= kept(thd, parent.table);
  info->update_method= option_of(key.on_update);
  info->delete_method= option_of(key.on_delete);
  info->referenced_key_name= key.parent_index.empty() ? nullptr : kept(thd, shown_index(key.parent, key.parent_index));
  const uint columns= static_cast<uint>(key.columns.size());
  for (uint i= 0; i < columns; i++)
  {
    info->foreign_fields.push_back(kept(thd, key.columns[i]), thd->mem_root);
    info->referenced_fields.push_back(kept(thd, key.parent_columns[i]), thd->mem_root);
    /* As InnoDB, which lets a parent's column become NULL then. */
    if (key.child_nullable[i] || key.child_index.empty())
      info->set_nullable(thd, false, i, columns);
    if (key.parent_nullable[i])
      info->set_nullable(thd, true, i, columns);
  }
  return info;
}

} // namespace

bool is_work_table(const std::string &path) { return !path.compare(path.rfind('/') + 1, 4, tmp_file_prefix); }

std::vector<ForeignKey> foreign_keys(uint32_t which, const char *table)
{
  std::vector<ForeignKey> keys;
  const auto add= [](void *ctx, const slc_foreign_info *info) {
    const uint32_t count= info->column_count;
    static_cast<std::vector<ForeignKey> *>(ctx)->push_back(
      {string_of(info->name), string_of(info->child), string_of(info->parent), texts_of(info->columns, count),
       texts_of(info->parent_columns, count), std::vector<uint8_t>(info->child_nullable, info->child_nullable + count),
       std::vector<uint8_t>(info->parent_nullable, info->parent_nullable + count), string_of(info->child_index),
       string_of(info->parent_index), string_of(info->misfit), info->on_delete, info->on_update});
  };
  slc_foreign_list(engine, which, table, add, &keys);
  return keys;
}

std::vector<ForeignKey> foreign_keys_by_name(uint32_t which, const char *table)
{
  std::vector<ForeignKey> keys= foreign_keys(which, table);
  std::sort(keys.begin(), keys.end(), [](const ForeignKey &a, const ForeignKey &b) { return a.name < b.name; });
  return keys;
}

void append_foreign_key(THD *thd, String *to, const ForeignKey &key)
{
  const std::string constraint= key.constraint();
  const TablePath child(key.child), parent(key.parent);
  to->append(STRING_WITH_LEN("CONSTRAINT "));
  append_identifier(thd, to, constraint.data(), constraint.size());
  to->append(STRING_WITH_LEN(" FOREIGN KEY"));
  append_columns(thd, to, key.columns);
  to->append(STRING_WITH_LEN(" REFERENCES "));
  if (child.schema != parent.schema)
  {
    append_identifier(thd, to, parent.schema.data(), parent.schema.size());
    to->append('.');
  }
  append_identifier(thd, to, parent.table.data(), parent.table.size());
  append_columns(thd, to, key.parent_columns);
  append_action(to, " ON DELETE ", key.on_delete);
  append_action(to, " ON UPDATE ", key.on_update);
}

void note_foreign_fault() { fault= {string_of(slc_foreign_child()), string_of(slc_foreign_name()), slc_duplicate_index()}; }

void note_foreign_fault(const std::string &child, const std::string &name) { fault= {child, name, 0}; }

std::unique_ptr<ForeignKey> noted_foreign_key()
{
  for (const ForeignKey &key : foreign_keys(SLC_FOREIGN_OF_CHILD, fault.child.c_str()))
    if (key.name == fault.name)
      return std::unique_ptr<ForeignKey>(new ForeignKey(key));
  return nullptr;
}

bool foreign_duplicate(std::string *child, std::string *index)
{
  slc_table *table;
  if (fault.child.empty() || slc_table_open(engine, fault.child.c_str(), &table))
    return false;
  *child= fault.child;
  *index= clustered_name(fault.child);
  if (fault.duplicate_index && fault.duplicate_index <= slc_table_index_count(table))
    *index= slc_table_index_name(table, fault.duplicate_index - 1);
  slc_table_close(table);
  return true;
}

void append_foreign_fault(THD *thd, String *to)
{
  if (fault.child.empty())
    return;
  /* The copy that an ALTER TABLE makes is called as the table that is altered. */
  const Connection *const connection= Connection::existing(thd);
  const std::string altered= connection ? connection->replaced_by_copy(fault.child) : "";
  const std::string table= TablePath(altered.empty() ? fault.child : altered).quoted();
  to->append(table.data(), table.size());
  to->append(STRING_WITH_LEN(", "));
  if (const std::unique_ptr<ForeignKey> key= noted_foreign_key())
  {
    append_foreign_key(thd, to, *key);
    return;
  }
  /* Its definition has gone meanwhile. */
  to->append(STRING_WITH_LEN("CONSTRAINT "));
  const size_t slash= fault.name.find('/');
  append_identifier(thd, to, fault.name.data() + slash + 1, fault.name.size() - slash - 1);
}

void warn_of_foreign_key(THD *thd, int code, const char *why)
{
  /* In strict mode a warning may be made the statement's error. */
  const bool aborts= thd->abort_on_warning;
  thd->abort_on_warning= false;
#ifdef SLUICE_STAND_IN
  const std::string text= innodb_foreign_text(why);
  if (!text.empty())
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, code, "%s", text.c_str());
#else
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, code, SLUICE_ENGINE_NAME ": %s", why);
#endif
  thd->abort_on_warning= aborts;
}

void warn_of_misfits(THD *thd, const char *parent)
{
  if (checks_foreign_keys(thd))
    return;                             // it would have been refused
  for (const ForeignKey &key : foreign_keys(SLC_FOREIGN_OF_PARENT, parent))
    if (!key.misfit.empty())
      warn_of_foreign_key(thd, HA_ERR_CANNOT_ADD_FOREIGN,
                          ("constraint " + key.constraint() + " of table " + TablePath(key.child).quoted() + " is not in force: " + key.misfit).c_str());
}

bool checks_foreign_keys(const THD *thd) { return !thd_test_options(thd, OPTION_NO_FOREIGN_KEY_CHECKS); }

} // namespace sluice

using namespace sluice;

/* ---- what the server asks a handler for ---- */

char *ha_sluice::get_foreign_key_create_info()
{
  if (!(slc_table_foreign(m_share->table()) & 1))
    return nullptr;
  String text;
  for (const ForeignKey &key : foreign_keys_by_name(SLC_FOREIGN_OF_CHILD, m_share->name()))
  {
    text.append(STRING_WITH_LEN(",\n  "));
    append_foreign_key(ha_thd(), &text, key);
  }
  return my_strndup(PSI_INSTRUMENT_ME, text.ptr(), text.length(), MYF(0));
}

void ha_sluice::free_foreign_key_create_info(char *text) { my_free(text); }

int ha_sluice::get_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list)
{
  if (!(slc_table_foreign(m_share->table()) & 1))
    return 0;
  for (const ForeignKey &key : foreign_keys_by_name(SLC_FOREIGN_OF_CHILD, m_share->name()))
    list->push_back(info_of(thd, key), thd->mem_root);
  return 0;
}

int ha_sluice::get_parent_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list)
{
  if (!referenced_by_foreign_key())
    return 0;
  for (const ForeignKey &key : foreign_keys_by_name(SLC_FOREIGN_OF_PARENT, m_share->name()))
    if (!is_work_table(key.child))
      list->push_back(info_of(thd, key), thd->mem_root);
  return 0;
}

bool ha_sluice::referenced_by_foreign_key() const noexcept { return slc_table_foreign(m_share->table()) & 2; }

bool ha_sluice::can_switch_engines() { return !slc_table_foreign(m_share->table()); }

/* After HA_ERR_FOREIGN_DUPLICATE_KEY. */
bool ha_sluice::get_foreign_dup_key(char *child, uint child_size, char *key, uint key_size)
{
  std::string path, index;
  if (!foreign_duplicate(&path, &index))
    return false;
  strmake(child, TablePath(path).table.c_str(), child_size - 1);
  strmake(key, index.c_str(), key_size - 1);
  return true;
}

bool ha_sluice::is_fk_defined_on_table_or_index(uint index)
{
  if (index == MAX_KEY)
    return !can_switch_engines();
  const std::string name= index == m_codec->primary() ? "PRIMARY" : table->key_info[index].name.str;
  const auto by_child= [&](const ForeignKey &key) { return key.child_index == name; };
  const auto by_parent= [&](const ForeignKey &key) { return key.parent_index == name; };
  const std::vector<ForeignKey> own= foreign_keys(SLC_FOREIGN_OF_CHILD, m_share->name());
  const std::vector<ForeignKey> others= foreign_keys(SLC_FOREIGN_OF_PARENT, m_share->name());
  return std::any_of(own.begin(), own.end(), by_child) || std::any_of(others.begin(), others.end(), by_parent);
}

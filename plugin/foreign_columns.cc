/* What an ALTER TABLE does to the columns of foreign keys. Some changes are refused, whether checks
   are on or off, as in InnoDB and in the server, which looks at foreign keys while it copies. */
#include "foreign.h"
#include "engine.h"
#include "table_path.h"

namespace sluice {

namespace {

/* Why a column of the table's own foreign keys must not become NOT NULL: the foreign key. */
std::unique_ptr<ForeignKey> needs_null(const std::vector<ForeignKey> &keys, const Alter_info *alter, const char *column, bool strict)
{
  for (const ForeignKey &key : keys)
    for (size_t i= 0; i < key.columns.size(); i++)
    {
      if (!same_name(key.columns[i], column) || drops_foreign_key(alter, key.constraint()))
        continue;
      const bool sets_null= key.on_delete == SLC_FOREIGN_SET_NULL || key.on_update == SLC_FOREIGN_SET_NULL;
      if (sets_null || (strict && key.on_update == SLC_FOREIGN_CASCADE && key.parent_nullable[i]))
        return std::unique_ptr<ForeignKey>(new ForeignKey(key));
    }
  return nullptr;
}

/* As the server compares the types of a column of foreign keys, which may become AUTO_INCREMENT. */
bool has_other_type(Create_field &column)
{
  const auto flags= column.flags;
  column.flags&= ~AUTO_INCREMENT_FLAG;
  const bool is_equal= column.field->is_equal(column);
  column.flags= flags;
  return !is_equal;
}

bool is_longer_string(const Create_field &column)
{
  const Field &field= *column.field;
  return field.real_type() == MYSQL_TYPE_VARCHAR && column.real_field_type() == MYSQL_TYPE_VARCHAR && column.charset == field.charset() &&
         column.length >= field.field_length;
}

} // namespace

bool drops_foreign_key(const Alter_info *alter, const std::string &constraint)
{
  List_iterator_fast<Alter_drop> drops(const_cast<Alter_info *>(alter)->drop_list);
  while (const Alter_drop *drop= drops++)
    if (drop->type == Alter_drop::FOREIGN_KEY && same_name(drop->name, constraint))
      return true;
  return false;
}

std::vector<std::string> foreign_columns(const TABLE *table, const Alter_info *alter, bool with_unbound)
{
  const char *const name= table->s->normalized_path.str;
  std::vector<std::string> columns;
  const auto stays= [&](const ForeignKey &key) { return key.child != name || !drops_foreign_key(alter, key.constraint()); };
  for (const ForeignKey &key : foreign_keys(SLC_FOREIGN_OF_CHILD, name))
    if (stays(key) && (with_unbound || !key.child_index.empty()))
      columns.insert(columns.end(), key.columns.begin(), key.columns.end());
  for (const ForeignKey &key : foreign_keys(SLC_FOREIGN_OF_PARENT, name))
    if (stays(key) && (with_unbound || !key.parent_index.empty()))
      columns.insert(columns.end(), key.parent_columns.begin(), key.parent_columns.end());
  return columns;
}

bool refuse_not_null(THD *thd, const char *table, const Alter_inplace_info *info)
{
  const std::vector<ForeignKey> keys= foreign_keys_by_name(SLC_FOREIGN_OF_CHILD, table);
  List_iterator<Create_field> columns(info->alter_info->create_list);
  while (const Create_field *column= columns++)
  {
    if (!column->field || (column->field->flags & NOT_NULL_FLAG) || !(column->flags & NOT_NULL_FLAG))
      continue;
    const char *const name= column->field->field_name.str;
    if (const std::unique_ptr<ForeignKey> key= needs_null(keys, info->alter_info, name, thd->is_strict_mode()))
    {
      my_error(ER_FK_COLUMN_NOT_NULL, MYF(0), name, key->constraint().c_str());
      return true;
    }
  }
  return false;
}

bool refuse_nullable(THD *thd, const char *table, const Alter_inplace_info *info)
{
  if (!thd->is_strict_mode())
    return false;
  const std::vector<ForeignKey> keys= foreign_keys_by_name(SLC_FOREIGN_OF_PARENT, table);
  List_iterator<Create_field> columns(info->alter_info->create_list);
  while (const Create_field *column= columns++)
  {
    if (!column->field || !(column->field->flags & NOT_NULL_FLAG) || (column->flags & NOT_NULL_FLAG))
      continue;
    for (const ForeignKey &key : keys)
      for (size_t i= 0; i < key.parent_columns.size(); i++)
        if (key.on_update == SLC_FOREIGN_CASCADE && !key.child_index.empty() && !key.child_nullable[i] &&
            same_name(key.parent_columns[i], column->field->field_name.str))
        {
          const TablePath child(key.child);
          my_error(ER_FK_COLUMN_CANNOT_CHANGE_CHILD, MYF(0), column->field->field_name.str, key.constraint().c_str(),
                   (child.schema + "." + child.table).c_str());
          return true;
        }
  }
  return false;
}

bool refuse_other_type(const char *table, const Alter_inplace_info *info, bool renamed_alone)
{
  const std::vector<ForeignKey> own= foreign_keys_by_name(SLC_FOREIGN_OF_CHILD, table);
  const std::vector<ForeignKey> others= foreign_keys_by_name(SLC_FOREIGN_OF_PARENT, table);
  const auto stays= [info](const ForeignKey &key, bool is_own) {
    return !is_work_table(key.child) && !(is_own && drops_foreign_key(info->alter_info, key.constraint()));
  };
  /* As in InnoDB, a string may get longer while the foreign key has no index. */
  const auto first_with= [&](const std::vector<ForeignKey> &keys, const char *column, bool as_parent, bool is_longer) -> const ForeignKey * {
    for (const ForeignKey &key : keys)
      if (!((as_parent ? key.parent_index : key.child_index).empty() && is_longer) && stays(key, key.child == table))
        for (const std::string &named : as_parent ? key.parent_columns : key.columns)
          if (same_name(named, column))
            return &key;
    return nullptr;
  };
  List_iterator<Create_field> columns(info->alter_info->create_list);
  while (Create_field *column= columns++)
  {
    if (!column->field || !has_other_type(*column) || (renamed_alone && same_name(column->field->field_name, column->field_name)))
      continue;
    const char *const name= column->field->field_name.str;
    const bool is_longer= is_longer_string(*column);
    if (const ForeignKey *key= first_with(own, name, false, is_longer))
    {
      my_error(ER_FK_COLUMN_CANNOT_CHANGE, MYF(0), name, key->constraint().c_str());
      return true;
    }
    if (const ForeignKey *key= first_with(others, name, true, is_longer))
    {
      const TablePath child(key->child);
      my_error(ER_FK_COLUMN_CANNOT_CHANGE_CHILD, MYF(0), name, key->constraint().c_str(), (child.schema + "." + child.table).c_str());
      return true;
    }
  }
  return false;
}

bool refuse_dropped(const char *table, const Alter_inplace_info *info)
{
  const auto goes= [&](const std::string &column) {
    List_iterator_fast<Create_field> columns(info->alter_info->create_list);
    while (const Create_field *each= columns++)
      if (each->field && same_name(each->field->field_name, column))
        return false;
    return true;
  };
  for (const ForeignKey &key : foreign_keys_by_name(SLC_FOREIGN_OF_PARENT, table))
    for (const std::string &column : key.parent_columns)
      if (!is_work_table(key.child) && goes(column))
      {
        const bool is_own= key.child == table && drops_foreign_key(info->alter_info, key.constraint());
        if (is_own)
          continue;
        my_error(ER_FK_COLUMN_CANNOT_DROP_CHILD, MYF(0), column.c_str(), key.constraint().c_str(), TablePath(key.child).quoted().c_str());
        return true;
      }
  for (const ForeignKey &key : foreign_keys_by_name(SLC_FOREIGN_OF_CHILD, table))
    for (const std::string &column : key.columns)
      if (!drops_foreign_key(info->alter_info, key.constraint()) && goes(column))
      {
        my_error(ER_FK_COLUMN_CANNOT_DROP, MYF(0), column.c_str(), key.constraint().c_str());
        return true;
      }
  return false;
}

} // namespace sluice

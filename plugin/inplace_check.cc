/* Which ALTER TABLEs need no copy of the table, and why the others do: the server says it where
   ALGORITHM or LOCK asks for less. */
#include "inplace.h"
#include "ddl.h"
#include "engine.h"
#include "ha_sluice.h"
#include "innodb_limits.h"
#include "online_rebuild.h"
#include "settings.h"
#include "vector_graph.h"

using namespace sluice;

static const alter_table_operations DEFINITION_ONLY=
  ALTER_COLUMN_DEFAULT | ALTER_COLUMN_NAME | ALTER_RENAME_COLUMN | ALTER_CHANGE_INDEX_COMMENT | ALTER_RENAME |
  ALTER_ADD_CHECK_CONSTRAINT | ALTER_DROP_CHECK_CONSTRAINT | ALTER_COLUMN_OPTION | ALTER_COLUMN_COLUMN_FORMAT |
  ALTER_OPTIONS | ALTER_INDEX_IGNORABILITY | ALTER_PARTITIONED |
  /* Said of any change of a column beside a generated one. Where values do change, the type or the
     expression does, which have flags of their own. */
  ALTER_COLUMN_VCOL;
static const alter_table_operations INDEX_CATALOG=
  ALTER_DROP_NON_UNIQUE_NON_PRIM_INDEX | ALTER_DROP_UNIQUE_INDEX | ALTER_RENAME_INDEX | ALTER_INDEX_ORDER;
/* Columns that the table has get another type, or go. */
static const alter_table_operations OLD_COLUMNS= ALTER_COLUMN_TYPE_CHANGE_BY_ENGINE | ALTER_COLUMN_NULLABLE | ALTER_COLUMN_INDEX_LENGTH |
                                                 ALTER_DROP_STORED_COLUMN | ALTER_DROP_VIRTUAL_COLUMN;
/* Rows are stored anew. */
static const alter_table_operations REBUILD= ALTER_RECREATE_TABLE | ALTER_ADD_PK_INDEX | ALTER_DROP_PK_INDEX | ALTER_COLUMN_NOT_NULLABLE;
static const alter_table_operations FOREIGN_KEYS= ALTER_ADD_FOREIGN_KEY | ALTER_DROP_FOREIGN_KEY;
static const alter_table_operations EXPRESSIONS= ALTER_VIRTUAL_GCOL_EXPR | ALTER_STORED_GCOL_EXPR;
static const alter_table_operations VERSIONING= ALTER_ADD_SYSTEM_VERSIONING | ALTER_DROP_SYSTEM_VERSIONING | ALTER_COLUMN_UNVERSIONED;

bool sluice::same_columns(const TABLE *table, const TABLE *altered)
{
  if (table->s->fields != altered->s->fields || table->s->null_bytes != altered->s->null_bytes)
    return false;
  for (uint i= 0; i < table->s->fields; i++)
  {
    const Field *field= table->field[i], *other= altered->field[i];
    const Column column= column_of(table, field), other_column= column_of(altered, other);
    if (column.kind != other_column.kind || column.offset != other_column.offset ||
        column.length != other_column.length || column.null_bit != other_column.null_bit ||
        column.null_offset != other_column.null_offset || column.charset != other_column.charset ||
        field->stored_in_db() != other->stored_in_db())
      return false;
  }
  return true;
}

#ifdef SLUICE_STAND_IN
/* innodb_instant_alter_column_allowed asks for a rebuild where one is not needed. */
static bool is_not_allowed_instantly(const Alter_inplace_info *info)
{
  const alter_table_operations moved= ALTER_DROP_STORED_COLUMN | ALTER_STORED_COLUMN_ORDER;
  const alter_table_operations asked= info->handler_flags & (moved | ALTER_ADD_STORED_BASE_COLUMN);
  return asked && (instant_columns_allowed() == INSTANT_NEVER || (instant_columns_allowed() == INSTANT_ADD_LAST && asked & moved));
}

/* InnoDB's rows have room for so many columns, those that are gone included. */
static bool has_too_many_columns(const ColumnChange &change, const Alter_inplace_info *info)
{
  constexpr uint32 COLUMNS_EVER_MAX= 1017;
  if (!(info->handler_flags & (ALTER_ADD_STORED_BASE_COLUMN | ALTER_DROP_STORED_COLUMN)))
    return false;
  const std::shared_ptr<const RowHistory> history= change.history();
  if (!history)
    return false;
  const bool adds= info->handler_flags & ALTER_ADD_STORED_BASE_COLUMN;
  return (adds && history->columns_ever() > COLUMNS_EVER_MAX) ||
         (history->gone_bytes() && is_too_long_with(change.altered(), info->create_info->row_type, history->gone_bytes()));
}
#else
static bool is_not_allowed_instantly(const Alter_inplace_info *) { return false; }
static bool has_too_many_columns(const ColumnChange &, const Alter_inplace_info *) { return false; }
#endif

/* Also where a column gets a form that the rows or keys that are there do not have. */
bool sluice::is_rebuilt(const ColumnChange &change, const Alter_inplace_info *info)
{
  return info->handler_flags & REBUILD || (change.changes_columns() && change.why_copied()) || change.changes_compression() ||
         is_not_allowed_instantly(info) || has_too_many_columns(change, info);
}

/* Why a change that is none of the catalog alone is not instant. */
static const char *why_rebuilt(THD *thd, const ColumnChange &change, const Alter_inplace_info *info)
{
  const char *const why= change.changes_columns() ? change.why_copied() : nullptr;
  if (why)
    return why;
#ifdef SLUICE_STAND_IN
  if (!(info->handler_flags & REBUILD) && is_not_allowed_instantly(info))
    return thd_strdup(thd, (variable_name("instant_alter_column_allowed") + "=" + instant_columns_word()).c_str());
  if (!(info->handler_flags & REBUILD) && has_too_many_columns(change, info))
    return nullptr;
#endif
  return "rows are rebuilt";
}

namespace {

/* The server has rows checked for these while it copies: one index over hashes, or of periods. To
   the server a key over hashes is a new one in each ALTER TABLE, because it adds the hidden column
   of the hashes anew. */
const char *adds_checked_key(const TABLE *table, const TABLE *altered, const Alter_inplace_info *info)
{
  const auto why= [table](const KEY &key) -> const char * {
    if (key.algorithm == HA_KEY_ALG_LONG_HASH)
      return table->s->long_unique_table
               ? "the server makes a UNIQUE key over hashes (of a BLOB, TEXT or long string) anew in each ALTER TABLE"
               : "rows have to be checked against a new UNIQUE key over hashes (of a BLOB, TEXT or long string)";
    return key.without_overlaps ? "rows have to be checked against a new key WITHOUT OVERLAPS" : nullptr;
  };
  for (uint i= 0; i < info->index_add_count; i++)
    if (const char *found= why(altered->key_info[info->index_add_buffer[i]]))
      return found;
  return nullptr;
}

/* The server checks rows against constraints that are new to them while it copies, and at no other
   time. */
bool adds_check(THD *thd, const ColumnChange &change, const TABLE *altered, const Alter_inplace_info *info)
{
  if (thd_test_options(thd, OPTION_NO_CHECK_CONSTRAINT_CHECKS))
    return false;
  bool adds= (info->handler_flags & ALTER_ADD_CHECK_CONSTRAINT) != 0;
  for (uint i= 0; i < altered->s->fields; i++)
    if (Virtual_column_info *check= altered->field[i]->check_constraint)
    {
      if (!change.old_field(i) && change.holds_for_added(check))
        continue;
      const Field *field= change.old_field(i);
      Virtual_column_info *old= field ? field->check_constraint : nullptr;
      StringBuffer<MAX_FIELD_WIDTH> text, old_text;
      check->print(&text);
      if (old)
        old->print(&old_text);
      adds|= text.length() != old_text.length() || memcmp(text.ptr(), old_text.ptr(), text.length());
    }
  return adds;
}

/* Options that may change how rows are stored. Those that are only words in the .frm are left to
   check_options(). */
bool changes_option_of_rows(const Alter_inplace_info *info)
{
  constexpr ulong HARMLESS= HA_CREATE_USED_AUTO | HA_CREATE_USED_COMMENT | HA_CREATE_USED_DEFAULT_CHARSET |
                            HA_CREATE_USED_CHARSET | HA_CREATE_USED_MIN_ROWS | HA_CREATE_USED_MAX_ROWS |
                            HA_CREATE_USED_AVG_ROW_LENGTH | HA_CREATE_USED_STATS_PERSISTENT |
                            HA_CREATE_USED_STATS_AUTO_RECALC | HA_CREATE_USED_STATS_SAMPLE_PAGES | HA_CREATE_USED_ENGINE |
                            HA_CREATE_USED_ROW_FORMAT | HA_CREATE_USED_KEY_BLOCK_SIZE | HA_CREATE_USED_CHECKSUM |
                            HA_CREATE_USED_DELAY_KEY_WRITE | HA_CREATE_USED_PACK_KEYS | HA_CREATE_USED_TRANSACTIONAL |
                            HA_CREATE_USED_PAGE_CHECKSUM | HA_CREATE_USED_UNION | HA_CREATE_USED_INSERT_METHOD |
                            HA_CREATE_USED_CONNECTION | HA_CREATE_USED_PASSWORD | HA_CREATE_USED_DATADIR | HA_CREATE_USED_INDEXDIR;
  return (info->handler_flags & ALTER_OPTIONS) && (info->create_info->used_fields & ~HARMLESS);
}

/* A copy gives NULL a value in such columns, in strict mode too: the time, or the next number. */
bool fills_null(const ColumnChange &change, const TABLE *altered)
{
  for (uint i= 0; i < altered->s->fields; i++)
  {
    const Field *const from= change.old_field(i), *const to= altered->field[i];
    const bool is_filled= to->type() == MYSQL_TYPE_TIMESTAMP || (to->flags & AUTO_INCREMENT_FLAG);
    if (is_filled && from && from->maybe_null() && !to->maybe_null())
      return true;
  }
  return false;
}

/* The DEFAULT of a new column is computed now, and is cut to the column's type. While it copies,
   the server tells, or refuses the ALTER in strict mode. */
bool cuts_default(const ColumnChange &change, const TABLE *altered)
{
  constexpr int TIME_IS_CUT= 3;         // a DATETIME becomes a DATE or TIME, with a note
  for (uint i= 0; i < altered->s->fields; i++)
  {
    Field *const field= altered->field[i];
    const bool is_computed= field->default_value && field->default_value->flags & (VCOL_SESSION_FUNC | VCOL_TIME_FUNC);
    if (change.old_field(i) || !field->stored_in_db() || !is_computed)
      continue;
    const int result= field->set_default();
    if (result && result != TIME_IS_CUT)
      return true;
  }
  return false;
}

const char FOREIGN_COLUMNS_CHANGE[]= "columns of foreign keys change";

/* Why the server has to copy the table; null: it has not. */
const char *why_copied(THD *thd, const ColumnChange &change, const TABLE *table, const TABLE *altered, const Alter_inplace_info *info,
                       slc_table *engine_table)
{
  if (info->ignore)
    return "IGNORE";
  if (vector_index(table) && (is_rebuilt(change, info) || change.changes_one_of(columns_of_graph(table))))
    return "a VECTOR index refers to the rows, which change";
  if (info->handler_flags & (ALTER_STORED_COLUMN_TYPE | ALTER_VIRTUAL_COLUMN_TYPE))
    return ER_THD(thd, ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_COLUMN_TYPE);
  if (info->handler_flags & EXPRESSIONS && changes_kept_values(change))
    return "the expression of a generated column changes";
  if (const alter_table_operations others= info->handler_flags & ~(DEFINITION_ONLY | INDEX_CATALOG | INDEX_ADD | COLUMN_CHANGES | REBUILD |
                                                                   FOREIGN_KEYS | EXPRESSIONS))
    return others & VERSIONING                         ? "system versioning changes"
           : others & ALTER_ADD_STORED_GENERATED_COLUMN ? "each row needs a value of a new STORED column"
                                                        : "the server reports a change that is not known to leave rows as they are";
  if (info->handler_flags & ALTER_COLUMN_NOT_NULLABLE && !thd->is_strict_mode())
    return "NULL becomes another value where a column becomes NOT NULL and sql_mode is not strict";
  if (info->handler_flags & ALTER_COLUMN_NOT_NULLABLE && fills_null(change, altered))
    return "NULL becomes another value where a TIMESTAMP or AUTO_INCREMENT column becomes NOT NULL";
  if (changes_option_of_rows(info))
    return "an option that may change how rows are stored";
  if (info->handler_flags & ALTER_ADD_STORED_BASE_COLUMN && cuts_default(change, altered))
    return "the DEFAULT of a new column does not fit it";
  if (adds_check(thd, change, altered, info))
    return "rows have to be checked against a new CHECK";
  if (const char *why= adds_checked_key(table, altered, info))
    return why;
  /* While it copies, the server looks at the columns of foreign keys. */
  if (info->handler_flags & OLD_COLUMNS && slc_table_foreign(engine_table) &&
      (change.changes_one_of(foreign_columns(table, info->alter_info, false)) ||
       change.drops_one_of(foreign_columns(table, info->alter_info, true))))
    return FOREIGN_COLUMNS_CHANGE;
  /* To its handler the server does not hand the steps of an ALTER in place. */
  if (table->s->sequence && change.changes_columns())
    return "the row of a sequence changes its form";
  if (is_rebuilt(change, info))
    return why_not_rebuilt(change, table, altered, info);
  if (change.changes_columns())
    return nullptr;
  return same_columns(table, altered) && table->s->primary_key == altered->s->primary_key ? nullptr : "the form of rows";
}

} // namespace

enum_alter_inplace_result ha_sluice::check_if_supported_inplace_alter(TABLE *altered, Alter_inplace_info *info)
{
  /* While it copies the table, the server has each row checked. */
  if ((info->handler_flags & ALTER_ADD_FOREIGN_KEY) && checks_foreign_keys(ha_thd()))
  {
    info->unsupported_reason= ER_THD(ha_thd(), ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_FK_CHECK);
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  }
  const auto algorithm= info->alter_info->algorithm(ha_thd());
  const bool may_rebuild= algorithm == Alter_info::ALTER_TABLE_ALGORITHM_DEFAULT || algorithm == Alter_info::ALTER_TABLE_ALGORITHM_INPLACE;
  if ((info->handler_flags & ALTER_COLUMN_NOT_NULLABLE) && may_rebuild && refuse_not_null(ha_thd(), m_share->name(), info))
    return HA_ALTER_ERROR;
  if ((info->handler_flags & ALTER_COLUMN_NULLABLE) && refuse_nullable(ha_thd(), m_share->name(), info))
    return HA_ALTER_ERROR;
  const std::unique_ptr<Codec> codec= Codec::build(altered);
  const ColumnChange change(table, *m_codec, altered, *codec, info);
  info->unsupported_reason= why_copied(ha_thd(), change, table, altered, info, m_share->table());
  /* A copy that comes next has the server's own error. If a column gets a new name, too, that error
     would advise the other way. */
  const bool is_copied= algorithm == Alter_info::ALTER_TABLE_ALGORITHM_DEFAULT && info->unsupported_reason &&
                        info->unsupported_reason != FOREIGN_COLUMNS_CHANGE;
  if (slc_table_foreign(m_share->table()) && refuse_other_type(m_share->name(), info, is_copied))
    return HA_ALTER_ERROR;
  /* A copy would end with this error, too. */
  const bool may_copy= algorithm == Alter_info::ALTER_TABLE_ALGORITHM_DEFAULT && info->alter_info->requested_lock != Alter_info::ALTER_TABLE_LOCK_NONE;
  if (info->unsupported_reason == FOREIGN_COLUMNS_CHANGE && !may_copy &&
      refuse_dropped(m_share->name(), info))
    return HA_ALTER_ERROR;
  if (info->unsupported_reason)
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  if (is_rebuilt(change, info))
  {
    /* As in InnoDB: while rows get their numbers no statement writes. */
    if (change.added_number())
    {
      info->unsupported_reason= ER_THD(ha_thd(), ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_AUTOINC);
      return HA_ALTER_INPLACE_COPY_LOCK;
    }
    info->unsupported_reason= why_rebuilt(ha_thd(), change, info);
    return HA_ALTER_INPLACE_COPY_NO_LOCK;
  }
  if (!(info->handler_flags & INDEX_ADD))
    return HA_ALTER_INPLACE_INSTANT;
#ifdef SLUICE_STAND_IN
  info->unsupported_reason= "ADD INDEX";
#else
  info->unsupported_reason= "an index is built";
#endif
  return HA_ALTER_INPLACE_NOCOPY_NO_LOCK;
}

bool ha_sluice::can_convert_nocopy(const Field &field, const Column_definition &type) const { return grows_into(field, type); }

Compare_keys ha_sluice::compare_key_parts(const Field &field, const Column_definition &type, const KEY_PART_INFO &part,
                                          const KEY_PART_INFO &new_part) const
{
  const Compare_keys result= handler::compare_key_parts(field, type, part, new_part);
  const bool stays= (type.flags & NOT_NULL_FLAG) == (field.flags & NOT_NULL_FLAG);
  return result == Compare_keys::NotEqual ? compare_grown_part(field, type, part, new_part) : stays ? result : Compare_keys::NotEqual;
}

/* Of two tables with the same keys, which the server has in different order, another UNIQUE key may
   serve as the primary one: then rows are kept by another key. */
static bool same_primary_key(THD *thd, const TABLE *table, const TABLE *other)
{
  if (table->s->primary_key == MAX_KEY || other->s->primary_key == MAX_KEY)
    return true;                        // the server compares the keys themselves
  const LEX_CSTRING &name= table->key_info[table->s->primary_key].name;
  const LEX_CSTRING &other_name= other->key_info[other->s->primary_key].name;
  if (same_name(name, other_name))
    return true;
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_UNSUPPORTED,
                      SLUICE_ENGINE_NAME ": the key %s serves as the primary key of one table, %s as that of the other.", name.str,
                      other_name.str);
  return false;
}

/* Whether rows of this table would be right under that definition. EXCHANGE PARTITION and CONVERT
   TABLE ask this of the table that is not partitioned, with the options of the partitioned one,
   which comes first in the statement. The server does not see that a column is generated in one of
   them. */
bool ha_sluice::check_if_incompatible_data(HA_CREATE_INFO *info, uint table_changes)
{
  const TABLE_LIST *first= ha_thd()->lex->query_tables;
  const TABLE *other= first ? first->table : nullptr;
  const bool other_rows= table_changes != IS_EQUAL_YES ||
                         (info->used_fields & (HA_CREATE_USED_ROW_FORMAT | HA_CREATE_USED_KEY_BLOCK_SIZE)) ||
                         (other && (!same_primary_key(ha_thd(), table, other) || !same_columns(table, other)));
  return other_rows ? COMPATIBLE_DATA_NO : COMPATIBLE_DATA_YES;
}


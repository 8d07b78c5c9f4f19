/* ALTER TABLE that gives generated columns other expressions. The server compares expressions that
   it has only parsed, and so reports a change also where MODIFY repeats the old one. Called by:
   inplace_check. */
#include "inplace.h"

namespace sluice {

namespace {

/* Columns of the altered table. */
class Columns
{
public:
  explicit Columns(const TABLE *table) : m_words(table->s->fields / (8 * sizeof(my_bitmap_map)) + 1)
  {
    my_bitmap_init(&m_map, m_words.data(), table->s->fields);
  }
  Columns(const Columns &)= delete;
  void add_used(Virtual_column_info *expression) { expression->expr->walk(&Item::register_field_in_bitmap, true, &m_map); }
  bool add(const Field *field) { return !bitmap_fast_test_and_set(&m_map, field->field_index); }
  bool has(const Field *field) const { return bitmap_is_set(&m_map, field->field_index); }
  bool is_empty() const { return bitmap_is_clear_all(&m_map); }
  bool overlaps(const Columns &other) const { return bitmap_is_overlapping(&m_map, &other.m_map); }

private:
  std::vector<my_bitmap_map> m_words;
  MY_BITMAP m_map;
};

bool uses_one_of(const TABLE *altered, Virtual_column_info *expression, const Columns &columns)
{
  Columns used(altered);
  used.add_used(expression);
  return used.overlaps(columns);
}

/* Every column that the expression uses has its old name: the same words mean the same columns. */
bool uses_old_names(const ColumnChange &change, Virtual_column_info *expression)
{
  const TABLE *const altered= change.altered();
  Columns used(altered);
  used.add_used(expression);
  for (uint i= 0; i < altered->s->fields; i++)
  {
    const Field *const old= change.old_field(i);
    if (used.has(altered->field[i]) && (!old || !same_name(old->field_name, altered->field[i]->field_name)))
      return false;
  }
  return true;
}

/* DEFAULT(column) has another value if the column has another default. */
bool is_same_expression(const ColumnChange &change, Virtual_column_info *old, Virtual_column_info *now)
{
  StringBuffer<MAX_FIELD_WIDTH> old_text, text;
  old->print(&old_text);
  now->print(&text);
  return text.length() == old_text.length() && !memcmp(text.ptr(), old_text.ptr(), text.length()) && uses_old_names(change, now) &&
         !now->expr->walk(&Item::check_func_default_processor, false, nullptr);
}

bool is_checked(const TABLE *altered, const Columns &changed)
{
  for (Virtual_column_info **check= altered->check_constraints; check && *check; check++)
    if (uses_one_of(altered, *check, changed))
      return true;
  return false;
}

} // namespace

bool changes_kept_values(const ColumnChange &change)
{
  const TABLE *const altered= change.altered();
  Columns changed(altered);
  for (uint i= 0; i < altered->s->fields; i++)
  {
    Field *const field= altered->field[i];
    const Field *const old= change.old_field(i);
    if (field->vcol_info && old && old->vcol_info && !is_same_expression(change, old->vcol_info, field->vcol_info))
      changed.add(field);
  }
  if (changed.is_empty())
    return false;
  for (bool is_added= true; is_added;)
  {
    is_added= false;
    for (uint i= 0; i < altered->s->fields; i++)
      if (altered->field[i]->vcol_info && uses_one_of(altered, altered->field[i]->vcol_info, changed))
        is_added|= changed.add(altered->field[i]);
  }
  for (uint i= 0; i < altered->s->fields; i++)
  {
    const Field *const field= altered->field[i];
    if (changed.has(field) && (field->stored_in_db() || field->flags & (PART_KEY_FLAG | FIELD_IN_PART_FUNC_FLAG)))
      return true;
  }
  return is_checked(altered, changed);
}

} // namespace sluice

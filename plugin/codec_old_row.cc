/* Rows of other definitions than the one that counts (row_history.h), into records of the present
   table. A plan is made for each definition of which a row is met, and for each read_set. A column
   is known by its number: where the row has it, its value is taken, and made longer if the column
   is longer now. Where the row is older than the column, the column has the value that it was added
   with. */
#include "codec.h"
#include "column_value.h"
#include "mutant.h"

namespace sluice {

namespace {

constexpr size_t OLD_ROW_PLANS_MAX= 256; // of one read_set

} // namespace

struct OldRowPlan
{
  /* A column of the row. */
  struct Part
  {
    ColumnForm form;
    uint32 from;                        // of fixed ones: place in the row
    uint32 null_offset;                 // in the row's null bytes
    uchar null_mask;                    // 0: never NULL
    bool wanted;
    Column to;
    bool is_null(const uchar *nulls) const { return nulls[null_offset] & null_mask; }
  };
  struct NullBit
  {
    uint32 from, to;
    uchar from_mask, to_mask;
  };
  struct Added
  {
    Column to;
    const AddedValue *value;
  };
  uint32 fixed_end;
  std::vector<uchar> nulls;             // the record's null bytes, but for the row's own bits
  std::vector<NullBit> null_bits;
  std::vector<Part> fixed, sized, blobs;
  std::vector<Added> added;
};

DecodePlan::DecodePlan()= default;
DecodePlan::~DecodePlan()= default;

namespace {

/* Whether a value of the old form is one of the column. */
bool fits(const ColumnForm &from, const Column &to)
{
  if (from.kind != to.kind || (from.nullable && !to.null_bit))
    return false;
  switch (to.kind)
  {
  case Kind::UNSIGNED:
  case Kind::SIGNED:
  case Kind::VARCHARS:
    return from.length <= to.length;
  case Kind::BLOBS:
    return from.length_bytes <= to.length_bytes;
  default:
    return from.length == to.length;
  }
}

void put_added(const OldRowPlan::Added &column, uchar *record)
{
  if (column.value->is_null || planted(Mutant::AddedValueForgotten))
    put_null(column.to, record);
  else
    put_grown_value(column.to, record, reinterpret_cast<const uchar *>(column.value->bytes.data()), column.value->bytes.size());
}

/* Walks over a column with a length before it; null: the row ends in it. */
const uchar *take_part(const OldRowPlan::Part &part, const uchar *nulls, uchar *record, const uchar *at, const uchar *end)
{
  if (part.is_null(nulls))
  {
    if (part.wanted)
      put_null(part.to, record);
    return at;
  }
  const bool is_blob= part.form.kind == Kind::BLOBS;
  const uint bytes= is_blob ? part.form.length_bytes : length_bytes_for(part.form.length);
  if (static_cast<size_t>(end - at) < bytes)
    return nullptr;
  const size_t length= load_length(at, bytes);
  at+= bytes;
  const bool is_fixed= part.form.kind <= Kind::SORTED;
  if (static_cast<size_t>(end - at) < length || (!is_blob && length > part.form.length) || (is_fixed && length != part.form.length))
    return nullptr;
  if (part.wanted)
    put_grown_value(part.to, record, at, length);
  return at + length;
}

} // namespace

void Codec::set_history(std::shared_ptr<const RowHistory> history)
{
  m_history= std::move(history);
  m_row_definition= m_history->current();
  m_plans.clear();
}

uint16 Codec::unknown_definition(slc_bytes row) const
{
  const uint16 number= row.len < 2 ? m_row_definition : uint2korr(row.ptr) & INT_MAX16 & ~m_past_bit;
  return number == m_row_definition || m_history->find(number) ? 0 : number;
}

std::vector<ColumnForm> Codec::forms() const
{
  std::vector<ColumnForm> forms;
  for (uint i= 0; i < m_table->s->fields; i++)
  {
    const Column column= column_of(m_table, m_table->field[i]);
    ColumnForm form{};
    form.nullable= column.null_bit != 0;
    form.place= bitmap_is_set(&m_stored, i) ? ColumnForm::IN_ROW : ColumnForm::NOWHERE;
    for (const KeyedColumn &keyed : m_keyed)
      if (keyed.part->column.field == i)
        form.place= ColumnForm::IN_KEY;
    if (form.place != ColumnForm::NOWHERE)
    {
      form.kind= column.kind;
      form.length= column.kind == Kind::BLOBS ? 0 : column.length;
      form.length_bytes= column.kind == Kind::BLOBS ? column.length_bytes : 0;
    }
    forms.push_back(form);
  }
  return forms;
}

namespace {

/* By number, the table's columns that have one. */
std::map<uint32, const Field *> columns_by_number(const TABLE *table, const RowHistory &history)
{
  std::map<uint32, const Field *> columns;
  const RowDefinition *now= history.find(history.current());
  for (size_t i= 0; i < now->forms.size(); i++)
    if (const uint32 id= history.form(now->forms[i]).id)
      columns[id]= table->field[i];
  return columns;
}

void set_null_bit(std::vector<uchar> &nulls, const Column &column, bool is_null)
{
  if (is_null)
    nulls[column.null_offset]|= column.null_bit;
  else
    nulls[column.null_offset]&= ~column.null_bit;
}

/* Parts after the last wanted column are left out. */
void stop_at_last_wanted(std::vector<OldRowPlan::Part> &parts)
{
  while (!parts.empty() && !parts.back().wanted)
    parts.pop_back();
}

} // namespace

/* Null: a column of it is not of a form that the table's column has grown from. */
std::unique_ptr<OldRowPlan> Codec::make_old_row_plan(const DecodePlan *plan, const RowDefinition &from) const
{
  auto old= std::make_unique<OldRowPlan>();
  old->nulls.assign(m_table->s->default_values, m_table->s->default_values + m_null_bytes);
  std::map<uint32, const Field *> columns= columns_by_number(m_table, *m_history);
  uint32 offset= 2 + from.null_bytes, bit= from.first_null_bit;
  for (const uint32 number : from.forms)
  {
    OldRowPlan::Part part{m_history->form(number), 0, 0, 0, false, {}};
    if (part.form.nullable)
    {
      if (planted(Mutant::OldNullBitMisplaced) && bit % 8 == 7)
        bit++;
      part.null_offset= bit / 8;
      part.null_mask= static_cast<uchar>(1 << bit % 8);
      bit++;
    }
    const auto column= columns.find(part.form.id);
    if (column != columns.end())
    {
      part.to= column_of(m_table, column->second);
      part.wanted= plan->reads(part.to.field);
      columns.erase(column);
      if (!fits(part.form, part.to))
        return nullptr;
      if (part.form.nullable)
        old->null_bits.push_back({part.null_offset, part.to.null_offset, part.null_mask, part.to.null_bit});
      else if (part.to.null_bit)
        set_null_bit(old->nulls, part.to, false);
    }
    if (part.form.place != ColumnForm::IN_ROW)
      continue;
    part.from= offset;
    if (part.form.kind == Kind::BLOBS)
      old->blobs.push_back(part);
    else if (is_sized(part.form.kind, part.form.nullable, part.form.length))
      old->sized.push_back(part);
    else
    {
      offset+= part.form.length;
      if (part.wanted)
        old->fixed.push_back(part);
    }
  }
  old->fixed_end= offset;
  stop_at_last_wanted(old->blobs);
  if (old->blobs.empty())
    stop_at_last_wanted(old->sized);
  /* Those that are left are younger than the row. */
  for (const auto &[id, field] : columns)
  {
    const AddedValue *value= m_history->added(id);
    const Column to= column_of(m_table, field);
    if (!value || !fits(m_history->form(value->form), to))
      return nullptr;
    if (to.null_bit)
      set_null_bit(old->nulls, to, value->is_null);
    if (plan->reads(to.field))
      old->added.push_back({to, value});
  }
  return old;
}

const OldRowPlan *Codec::old_row_plan(const DecodePlan *plan, uint16 number) const
{
  const auto found= plan->of_old_rows.find(number);
  if (likely(found != plan->of_old_rows.end()))
    return found->second.get();
  const RowDefinition *from= m_history->find(number);
  if (!from)
    return nullptr;
  if (plan->of_old_rows.size() >= OLD_ROW_PLANS_MAX)
    plan->of_old_rows.clear();
  return (plan->of_old_rows[number]= make_old_row_plan(plan, *from)).get();
}

bool Codec::get_old_row(const DecodePlan *plan, uchar *record, slc_bytes clustered, slc_bytes row) const
{
  if (row.len < 2 || (m_clustered_fixed && clustered.len != m_clustered_fixed))
    return false;
  const uint16 number= uint2korr(row.ptr) & ~m_past_bit;
  const OldRowPlan *old= number == m_row_definition ? nullptr : old_row_plan(plan, number);
  if (!old || row.len < old->fixed_end)
    return false;
  const uchar *const nulls= row.ptr + 2, *at= row.ptr + old->fixed_end, *end= row.ptr + row.len;
  memcpy(record, old->nulls.data(), m_null_bytes);
  for (const OldRowPlan::NullBit &bit : old->null_bits)
    if (nulls[bit.from] & bit.from_mask)
      record[bit.to]|= bit.to_mask;
    else
      record[bit.to]&= ~bit.to_mask;
  get_clustered(record, clustered, plan->keyed);
  for (const OldRowPlan::Part &part : old->fixed)
    if (part.is_null(nulls))
      put_null(part.to, record);
    else
      put_grown_value(part.to, record, row.ptr + part.from, part.form.length);
  for (const OldRowPlan::Part &part : old->sized)
    if (!(at= take_part(part, nulls, record, at, end)))
      return false;
  for (const OldRowPlan::Part &part : old->blobs)
    if (!(at= take_part(part, nulls, record, at, end)))
      return false;
  for (const OldRowPlan::Added &column : old->added)
    put_added(column, record);
  put_unread_nulls(plan, record);
  return true;
}

} // namespace sluice

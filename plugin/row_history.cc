/* The list of a table's row definitions: its text, and what an ALTER TABLE adds to it. Format:
   row_history.h. */
#include "row_history.h"
#include <algorithm>

namespace sluice {

namespace {

/* The highest bit marks a compressed row, the next one a row of the past (codec_row.cc). Versions
   that knew no such rows gave all numbers. */
constexpr ulong NUMBER_MAX= INT_MAX16, NEW_NUMBER_MAX= 0x3fff;

std::string in_hex(const std::string &bytes)
{
  std::string text;
  for (const char c : bytes)
  {
    text+= _dig_vec_lower[static_cast<uchar>(c) >> 4];
    text+= _dig_vec_lower[static_cast<uchar>(c) & 15];
  }
  return text;
}

int digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

bool from_hex(const char *text, std::string *bytes)
{
  for (; *text; text+= 2)
  {
    const int high= digit(text[0]), low= high < 0 ? -1 : digit(text[1]);
    if (low < 0)
      return false;
    *bytes+= static_cast<char>(high << 4 | low);
  }
  return true;
}

/* Words of a line, one after the other. */
class Words
{
public:
  explicit Words(const char *line) : m_at(line) {}
  /* The next one is a number, at most `max`. */
  template <typename Number> bool number(Number *to, ulong max)
  {
    char *end;
    if (*m_at < '0' || *m_at > '9')
      return false;
    errno= 0;
    const ulong value= strtoul(m_at, &end, 10);
    if (errno || value > max || (*end && *end != ' '))
      return false;
    *to= static_cast<Number>(value);
    m_at= *end ? end + 1 : end;
    return true;
  }
  const char *rest() const { return m_at; }

private:
  const char *m_at;
};

/* "3-5,9" of 3, 4, 5, 9 */
std::string in_ranges(const std::vector<uint32> &numbers)
{
  std::string text;
  for (size_t i= 0; i < numbers.size();)
  {
    size_t end= i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1)
      end++;
    text+= (text.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (end - i > 1)
      text+= "-" + std::to_string(numbers[end - 1]);
    i= end;
  }
  return text;
}

bool from_ranges(const char *text, size_t count, std::vector<uint32> *numbers)
{
  while (*text)
  {
    char *end;
    const ulong first= strtoul(text, &end, 10);
    ulong last= first;
    if (end == text || first >= count)
      return false;
    if (*end == '-')
    {
      text= end + 1;
      last= strtoul(text, &end, 10);
      if (end == text || last < first || last >= count)
        return false;
    }
    for (ulong number= first; number <= last; number++)
      numbers->push_back(static_cast<uint32>(number));
    if (*end && *end != ',')
      return false;
    text= *end ? end + 1 : end;
  }
  return true;
}

} // namespace

const RowDefinition *RowHistory::find(uint16 number) const
{
  const auto found= m_definitions.find(number);
  return found == m_definitions.end() ? nullptr : &found->second;
}

const AddedValue *RowHistory::added(uint32 id) const
{
  const auto found= m_added.find(id);
  return found == m_added.end() ? nullptr : &found->second;
}

uint32 RowHistory::number_of_form(const ColumnForm &form)
{
  const auto found= std::find(m_forms.begin(), m_forms.end(), form);
  const uint32 number= static_cast<uint32>(found - m_forms.begin());
  if (found == m_forms.end())
    m_forms.push_back(form);
  return number;
}

void RowHistory::begin(const std::vector<ColumnForm> &columns, uint32 null_bytes, uint32 first_null_bit)
{
  RowDefinition definition= {FIRST_NUMBER, null_bytes, first_null_bit, {}};
  for (ColumnForm form : columns)
  {
    form.id= form.place == ColumnForm::NOWHERE ? 0 : m_next_id++;
    definition.forms.push_back(number_of_form(form));
  }
  m_definitions.emplace(FIRST_NUMBER, definition);
}

uint32 RowHistory::add_column(ColumnForm form, bool is_null, std::string value)
{
  form.id= m_next_id++;
  m_added[form.id]= {number_of_form(form), is_null, std::move(value)};
  return form.id;
}

/* An ALTER TABLE that takes another one back needs no number of its own. */
bool RowHistory::change(const std::vector<ColumnForm> &columns, uint32 null_bytes, uint32 first_null_bit)
{
  RowDefinition definition= {0, null_bytes, first_null_bit, {}};
  for (const ColumnForm &form : columns)
    definition.forms.push_back(number_of_form(form));
  for (const auto &[number, old] : m_definitions)
    if (old == definition)
    {
      m_current= number;
      return true;
    }
  const ulong last= m_definitions.empty() ? 0 : m_definitions.rbegin()->first;
  if (last >= NEW_NUMBER_MAX)
    return false;
  m_current= definition.number= static_cast<uint16>(last + 1);
  m_definitions.emplace(m_current, definition);
  return true;
}

size_t RowHistory::gone_bytes() const
{
  std::map<uint32, size_t> gone;
  for (const ColumnForm &form : m_forms)
    gone[form.id]= form.nullable ? 0 : form.length;
  const auto now= m_definitions.find(m_current);
  if (now != m_definitions.end())
    for (const uint32 form : now->second.forms)
      gone.erase(m_forms[form].id);
  size_t bytes= 0;
  for (const auto &[id, length] : gone)
    bytes+= length;
  return bytes;
}

RowHistory RowHistory::without_past() const
{
  RowHistory history;
  if (is_empty())
    return history;
  RowDefinition definition= m_definitions.at(m_current);
  for (uint32 &form : definition.forms)
    form= history.number_of_form(m_forms[form]);
  history.m_current= m_current;
  history.m_next_id= m_next_id;
  history.m_definitions.emplace(m_current, definition);
  return history;
}

void RowHistory::print(std::string &to) const
{
  for (const ColumnForm &form : m_forms)
    to+= "form " + std::to_string(form.id) + " " + std::to_string(form.place) + " " +
         std::to_string(static_cast<uint>(form.kind)) + " " + std::to_string(form.length) + " " +
         std::to_string(form.length_bytes) + (form.nullable ? " 1\n" : " 0\n");
  for (const auto &[id, value] : m_added)
    to+= "added " + std::to_string(id) + " " + std::to_string(value.form) + " " +
         (value.is_null ? "null" : "=" + in_hex(value.bytes)) + "\n";
  for (const auto &[number, definition] : m_definitions)
    to+= "rows " + std::to_string(number) + " " + std::to_string(definition.null_bytes) + " " +
         std::to_string(definition.first_null_bit) + " " + in_ranges(definition.forms) + "\n";
}

bool RowHistory::parse_form(const char *line)
{
  ColumnForm form{};
  Words words(line);
  const bool is_form= words.number(&form.id, UINT_MAX32 - 1) && words.number(&form.place, ColumnForm::NOWHERE) &&
                      words.number(&form.kind, static_cast<ulong>(Kind::BLOBS)) && words.number(&form.length, UINT_MAX32) &&
                      words.number(&form.length_bytes, 4) && words.number(&form.nullable, 1);
  if (!is_form || (form.id == 0) != (form.place == ColumnForm::NOWHERE))
    return false;
  m_next_id= std::max(m_next_id, form.id + 1);
  m_forms.push_back(form);
  return true;
}

bool RowHistory::parse_added(const char *line)
{
  uint32 id;
  AddedValue value{};
  Words words(line);
  if (!words.number(&id, UINT_MAX32) || !words.number(&value.form, UINT_MAX32) || value.form >= m_forms.size())
    return false;
  value.is_null= !strcmp(words.rest(), "null");
  if (!value.is_null && (*words.rest() != '=' || !from_hex(words.rest() + 1, &value.bytes)))
    return false;
  return m_added.emplace(id, std::move(value)).second;
}

bool RowHistory::parse_definition(const char *line)
{
  RowDefinition definition{};
  Words words(line);
  return words.number(&definition.number, NUMBER_MAX) && words.number(&definition.null_bytes, UINT_MAX16) &&
         words.number(&definition.first_null_bit, 7) && from_ranges(words.rest(), m_forms.size(), &definition.forms) &&
         m_definitions.emplace(definition.number, definition).second;
}

/* Each definition has room for its null bits, and each value that was added the size of its
   form. */
bool RowHistory::is_sound() const
{
  for (const auto &[number, definition] : m_definitions)
  {
    uint32 bits= definition.first_null_bit;
    for (const uint32 form : definition.forms)
      bits+= m_forms[form].nullable;
    if (bits > definition.null_bytes * 8)
      return false;
  }
  for (const auto &[id, value] : m_added)
  {
    const ColumnForm &form= m_forms[value.form];
    const bool is_fixed= form.kind <= Kind::SORTED;
    if (form.id != id || (value.is_null ? !form.nullable : is_fixed && value.bytes.size() != form.length) ||
        (!is_fixed && form.kind != Kind::BLOBS && value.bytes.size() > form.length))
      return false;
  }
  return is_empty() ? m_current == FIRST_NUMBER : find(m_current) != nullptr;
}

/* Names follow these lines, in the lines of the keys. */
bool RowHistory::parse(slc_bytes note)
{
  const std::string text(reinterpret_cast<const char *>(note.ptr), note.len);
  bool has_number= false;
  for (size_t from= 0; from < text.size();)
  {
    const size_t end= std::min(text.find('\n', from), text.size());
    const std::string line= text.substr(from, end - from);
    from= end + 1;
    const auto begins= [&](const char *word) { return !line.compare(0, strlen(word), word); };
    bool good= true;
    if (begins("key "))
      break;
    if (begins("row ") && !has_number)
      good= has_number= Words(line.c_str() + 4).number(&m_current, NUMBER_MAX);
    else if (begins("form "))
      good= parse_form(line.c_str() + 5);
    else if (begins("added "))
      good= parse_added(line.c_str() + 6);
    else if (begins("rows "))
      good= parse_definition(line.c_str() + 5);
    if (!good)
      return false;
  }
  return is_sound();
}

} // namespace sluice

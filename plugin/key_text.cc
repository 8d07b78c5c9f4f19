/* Keys and ranges of keys back into text; see key_text.h. */
#include "key_text.h"
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

namespace sluice {

namespace {

std::string in_digits(const uchar *from, const uchar *end)
{
  std::string text= "0x";
  for (; from < end; from++)
  {
    text+= _dig_vec_upper[*from >> 4];
    text+= _dig_vec_upper[*from & 15];
  }
  return text;
}

std::string quoted(const std::string &text)
{
  std::string result= "'";
  for (char c : text)
    result.append(c == '\'' ? 2 : 1, c);
  return result + "'";
}

constexpr size_t CHAR_LENGTH_MAX= 255;   // characters of a CHAR

/* The map from the weights of a collation back to printable characters. */
class Alphabet
{
public:
  explicit Alphabet(const StringImage &of_column)
  {
    const StringImage image= of_column.of_bare_strings();
    m_end= encoded(image, "");
    for (char c : std::string("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"))
      learn(image, "", std::string(1, c), "");
    /* Spaces are counted, up to the next character; those at the end are not there, or not
       shown. */
    for (const char *spaces : {" ", "  ", "   ", "    "})
      learn(image, "a", spaces, "a");
    for (size_t count= 1; of_column.counts_spaces() && count <= CHAR_LENGTH_MAX; count++)
      learn(image, "a", std::string(count, ' '), "", "");
  }
  /* False: the image holds something else. */
  bool turn_back(const std::string &image, std::string &text) const
  {
    if (image.size() < m_end.size() || image.compare(image.size() - m_end.size(), m_end.size(), m_end))
      return false;
    for (size_t at= 0; at < image.size() - m_end.size();)
    {
      size_t length= std::min(m_longest, image.size() - m_end.size() - at);
      auto found= m_characters.end();
      while (length && (found= m_characters.find(image.substr(at, length))) == m_characters.end())
        length--;
      if (!length)
        return false;
      text+= found->second;
      at+= length;
    }
    return true;
  }

private:
  static std::string encoded(const StringImage &image, const std::string &text)
  {
    std::string result(image.length_max(text.size()) + 16, 0);
    uchar *to= reinterpret_cast<uchar *>(&result[0]);
    result.resize(image.encode(to, reinterpret_cast<const uchar *>(text.data()), text.size()) - to);
    return result;
  }
  void learn(const StringImage &image, const std::string &before, const std::string &text, const std::string &after)
  {
    learn(image, before, text, after, text);
  }
  void learn(const StringImage &image, const std::string &before, const std::string &text, const std::string &after,
             const std::string &shown)
  {
    const std::string all= encoded(image, before + text + after);
    const size_t head= encoded(image, before).size() - m_end.size();
    const size_t tail= encoded(image, after).size();
    if (all.size() <= head + tail)
      return;
    const std::string own= all.substr(head, all.size() - head - tail);
    m_characters.emplace(own, shown);
    m_longest= std::max(m_longest, own.size());
  }

  std::string m_end;
  std::map<std::string, std::string> m_characters;
  size_t m_longest= 0;
};

struct PartText
{
  KeyPart part;
  const Field *field;                   // of the TABLE_SHARE
  std::unique_ptr<Alphabet> alphabet;   // of strings; made when first asked for
};

using Indexes= std::vector<std::vector<PartText>>;

struct TableKeys
{
  const void *owner;
  Indexes indexes;                      // as the engine counts them
};

std::mutex mutex;
std::map<std::string, TableKeys> tables;

/* The bytes, as in a record, of a value at `from`, of a part that the codec can decode. */
std::vector<uchar> value_at(const PartText &known, const uchar *from)
{
  const Column &column= known.part.column;
  const uchar mask= known.part.descending ? 0xFF : 0;
  std::vector<uchar> value(column.length);
  for (uint i= 0; i < column.length; i++)
    value[column.kind == Kind::BYTES ? i : column.length - 1 - i]= from[i] ^ mask;
  if (column.kind == Kind::SIGNED)
    value[column.length - 1]^= 0x80;
  return value;
}

/* False: a group of its digits was counted up to one digit more than it has. */
bool is_decimal(const Field *field, const std::vector<uchar> &value)
{
  my_decimal number;
  return !binary2my_decimal(0, value.data(), &number, static_cast<const Field_new_decimal *>(field)->precision, field->decimals());
}

/* A field that has the value, for `use`. The share's field belongs to everybody: a copy gets it. */
template <typename Use> auto with_value(const PartText &known, std::vector<uchar> &value, Use use)
{
  std::vector<uint64> place(known.field->size_of() / sizeof(uint64) + 1);
  memcpy(static_cast<void *>(place.data()), static_cast<const void *>(known.field), known.field->size_of());
  Field *copy= reinterpret_cast<Field *>(place.data());
  copy->table= nullptr;
  copy->move_field(value.data(), nullptr, 0);
  return use(copy);
}

std::string value_text(const PartText &known, const uchar *from)
{
  std::vector<uchar> value= value_at(known, from);
  const Type_handler *type= known.field->type_handler();
  /* BIT, BINARY, and what the server would warn of. */
  if (type == &type_handler_bit || type == &type_handler_string || (type == &type_handler_newdecimal && !is_decimal(known.field, value)))
    return in_digits(value.data(), value.data() + value.size());
  return with_value(known, value, [&value](Field *field)
  {
    StringBuffer<256> buffer(system_charset_info);
    String *shown= field->val_str(&buffer);
    if (!shown)
      return in_digits(value.data(), value.data() + value.size());
    const std::string text(shown->ptr(), shown->length());
    return field->cmp_type() == INT_RESULT || field->cmp_type() == DECIMAL_RESULT ? text : quoted(text);
  });
}

std::string part_text(PartText &known, const uchar *from, const uchar *next)
{
  const KeyPart &part= known.part;
  if (part.nullable && next == from + 1)
    return "NULL";
  from+= part.nullable;
  if (part.decodable)
    return value_text(known, from);
  if (part.column.is_fixed())
    return in_digits(from, next);
  std::string image(reinterpret_cast<const char *>(from), next - from), text;
  if (part.descending)
    for (char &c : image)
      c= static_cast<char>(~c);
  if (!known.alphabet)
    known.alphabet.reset(new Alphabet(part.string));
  return known.alphabet->turn_back(image, text) ? quoted(text) : in_digits(from, next);
}

/* A key in its columns. */
struct Columns
{
  std::vector<std::string> values;
  const uchar *rest;                    // after them
  bool is_whole= false;                 // all of the index, and of the primary key after them
  /* The part of the last value, and where that begins; none of a hidden key. */
  const PartText *last= nullptr;
  const uchar *last_from= nullptr;
};

/* The parts that are there; false: one of them is not whole. */
bool add_parts(Columns &to, std::vector<PartText> &parts, const uchar *end)
{
  for (PartText &known : parts)
  {
    if (to.rest == end)
      break;
    const uchar *next= Codec::skip_part(known.part, to.rest, end);
    if (!next)
      return false;
    to.values.push_back(part_text(known, to.rest, next));
    to.last= &known;
    to.last_from= to.rest;
    to.rest= next;
  }
  return true;
}

/* False: the bytes do not divide into the columns that the key should have. */
bool divide(Columns &to, Indexes &indexes, uint index, slc_bytes key)
{
  const uchar *end= key.ptr + key.len;
  size_t count= index ? indexes[index].size() : 0;
  to.rest= key.ptr;
  if (index && !add_parts(to, indexes[index], end))
    return false;
  if (!indexes[0].empty())
  {
    count+= indexes[0].size();
    if (!add_parts(to, indexes[0], end))
      return false;
  }
  else
  {
    count++;
    if (end - to.rest == HIDDEN_KEY_LENGTH)
    {
      to.values.push_back("row " + std::to_string(mi_uint6korr(to.rest)));
      to.last= nullptr;
      to.rest= end;
    }
  }
  to.is_whole= to.values.size() == count;
  return true;
}

std::string joined(const std::vector<std::string> &values)
{
  std::string text;
  for (const std::string &value : values)
    text+= (text.empty() ? "" : ", ") + value;
  return text;
}

slc_bytes bytes_of(const std::string &text) { return {reinterpret_cast<const uint8_t *>(text.data()), text.size()}; }

/* ---- ranges ----

   The engine has a range as bytes from and to. A bound of the statement has become one of these,
   which its form shows:

     a prefix              the least key above all below it: one column or more, whole
     a prefix, counted up  the least key above all that begin with the prefix; its last byte below FF is one more, and ends it
     a key, and 00         the least above that key

   Of a type of fixed length the second may be a value itself, the next one. Which of the two is
   shown changes nothing: no key lies between. */

struct Bound
{
  std::string text;
  bool is_after;                       // after all keys that begin so, not before them
};

/* Columns of a key in parentheses, as SQL has rows. A `*` stands for those that are left out. */
std::string point_text(const Columns &columns)
{
  const std::string text= joined(columns.values) + (columns.is_whole ? "" : ", *");
  return columns.values.size() > 1 || !columns.is_whole ? "(" + text + ")" : text;
}

/* Whether a date and a time, as shown, are in the calendar: what is counted up may be the 32nd. */
bool is_in_calendar(const std::string &shown)
{
  static const uint days[]= {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  uint year, month, day, hour= 0, minute= 0, second= 0;
  const char *text= shown.c_str() + 1;
  if (sscanf(text, "%u-%u-%u %u:%u:%u", &year, &month, &day, &hour, &minute, &second) < 3)
    return sscanf(text + (*text == '-'), "%u:%u:%u", &hour, &minute, &second) < 3 || (minute < 60 && second < 60);
  const bool is_leap= year % 4 == 0 && (year % 100 || year % 400 == 0);
  return month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1] && (month != 2 || day < 29 || is_leap) && hour < 24 &&
         minute < 60 && second < 60;
}

/* Whether the fraction of a second has so many decimals. A bound that is counted up may have a
   whole second, or end after the decimals. */
bool has_its_decimals(const PartText &known, std::vector<uchar> value)
{
  return with_value(known, value, [](Field *field)
  {
    MYSQL_TIME time;
    if (field->get_date(&time, date_mode_t(0)))
      return true;
    ulong unit= 1;
    for (uint decimals= field->decimals(); decimals < TIME_SECOND_PART_DIGITS; decimals++)
      unit*= 10;
    return time.second_part <= TIME_MAX_SECOND_PART && time.second_part % unit == 0;
  });
}

/* Whether the last value is one of its type; what is counted up may be none. */
bool is_likely(const Columns &columns)
{
  if (!columns.last || !columns.last->part.decodable || columns.values.back() == "NULL")
    return true;
  const Field *field= columns.last->field;
  const auto value= [&columns] { return value_at(*columns.last, columns.last_from + columns.last->part.nullable); };
  if (field->type_handler() == &type_handler_newdecimal)
    return is_decimal(field, value());
  return field->cmp_type() != TIME_RESULT || (is_in_calendar(columns.values.back()) && has_its_decimals(*columns.last, value()));
}

/* The prefix that was counted up; false: there is none. */
bool count_back(Columns &to, Indexes &indexes, uint index, std::string &key)
{
  constexpr size_t CUT_MAX= 32;         // bytes FF at its end
  if (!key.back())
    return false;
  key.back()--;
  for (size_t cut= 0; cut <= CUT_MAX; cut++, key+= '\xFF')
  {
    to= Columns();
    if (divide(to, indexes, index, bytes_of(key)) && to.rest == bytes_of(key).ptr + key.size())
      return true;
  }
  return false;
}

Bound bound_of(Indexes &indexes, uint index, slc_bytes key)
{
  const uchar *end= key.ptr + key.len;
  Columns columns, counted;
  const bool is_prefix= divide(columns, indexes, index, key) && columns.rest == end;
  if (is_prefix && is_likely(columns))
    return {point_text(columns), false};
  Columns before_zero;
  if (!is_prefix && !end[-1] && divide(before_zero, indexes, index, {key.ptr, key.len - 1}) && before_zero.rest == end - 1)
    /* Of a prefix: no key begins so and ends there. */
    return {point_text(before_zero), before_zero.is_whole};
  std::string below(reinterpret_cast<const char *>(key.ptr), key.len);
  if (count_back(counted, indexes, index, below))
    return {point_text(counted), true};
  return {is_prefix ? point_text(columns) : in_digits(key.ptr, end), false};
}

/* Whether the range is that of one prefix. */
bool is_counted_up(slc_bytes from, slc_bytes to)
{
  while (from.len && from.ptr[from.len - 1] == 0xFF)
    from.len--;
  return from.len && from.len == to.len && !memcmp(from.ptr, to.ptr, to.len - 1) && from.ptr[from.len - 1] + 1 == to.ptr[to.len - 1];
}

std::vector<PartText> parts_of(const TABLE_SHARE *share, const KeyLayout &layout)
{
  std::vector<PartText> parts;
  for (const KeyPart &part : layout.parts)
    parts.push_back({part, share->field[part.column.field], nullptr});
  return parts;
}

} // namespace

void KeyTexts::remember(const void *owner, const char *table_name, const TABLE_SHARE *share, const Codec &codec)
{
  const std::lock_guard<std::mutex> guard(mutex);
  TableKeys &keys= tables[table_name];
  if (keys.owner == owner)
    return;
  keys.owner= owner;
  keys.indexes.clear();
  keys.indexes.push_back(codec.has_primary_key() ? parts_of(share, codec.key(codec.primary())) : std::vector<PartText>());
  for (uint i= 0; i < codec.secondary_count(); i++)
    keys.indexes.push_back(parts_of(share, codec.key(codec.server_index(i + 1))));
}

void KeyTexts::forget(const void *owner, const char *table_name)
{
  const std::lock_guard<std::mutex> guard(mutex);
  const auto found= tables.find(table_name);
  if (found != tables.end() && found->second.owner == owner)
    tables.erase(found);
}

std::string KeyTexts::text(const std::string &table_name, uint index, slc_bytes key)
{
  const std::lock_guard<std::mutex> guard(mutex);
  const uchar *end= key.ptr + key.len;
  const auto found= tables.find(table_name);
  if (found == tables.end() || index >= found->second.indexes.size())
    return in_digits(key.ptr, end);
  Columns columns;
  if (!divide(columns, found->second.indexes, index, key))
    return in_digits(key.ptr, end);
  if (columns.rest < end)
    columns.values.push_back(in_digits(columns.rest, end));
  return joined(columns.values);
}

std::string KeyTexts::range_text(const std::string &table_name, uint index, slc_bytes from, slc_bytes to)
{
  const std::lock_guard<std::mutex> guard(mutex);
  const auto found= tables.find(table_name);
  const bool is_known= found != tables.end() && index < found->second.indexes.size();
  const auto bound= [&](slc_bytes key) -> Bound
  {
    return is_known ? bound_of(found->second.indexes, index, key) : Bound{in_digits(key.ptr, key.ptr + key.len), false};
  };
  /* One prefix, however unlikely its value is. */
  Columns one;
  if (is_known && to.len && is_counted_up(from, to) && divide(one, found->second.indexes, index, from) && one.rest == from.ptr + from.len)
    return "[" + point_text(one) + ", " + point_text(one) + "]";
  const Bound first= from.len ? bound(from) : Bound{"-infimum", true};
  const Bound last= to.len ? bound(to) : Bound{"+supremum", false};
  return (first.is_after ? "(" : "[") + first.text + ", " + last.text + (last.is_after ? "]" : ")");
}

size_t KeyTexts::text_for_engine(slc_bytes table_name, uint32_t index, slc_bytes key, char *to, size_t size)
{
  const std::string result= text(std::string(reinterpret_cast<const char *>(table_name.ptr), table_name.len), index, key);
  if (result.size() > size)
    return 0;
  memcpy(to, result.data(), result.size());
  return result.size();
}

} // namespace sluice

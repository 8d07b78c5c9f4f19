/* Keys back into text; see key_text.h. */
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

/* What a collation makes of the printable characters, turned around. */
class Alphabet
{
public:
  explicit Alphabet(const StringImage &of_column)
  {
    const StringImage image= of_column.of_bare_strings();
    m_end= encoded(image, "");
    for (char c : std::string("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"))
      learn(image, "", std::string(1, c), "");
    /* Spaces are counted, up to the next character; those at the end are not there, or not shown. */
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
  void learn(const StringImage &image, const std::string &before, const std::string &text, const std::string &behind)
  {
    learn(image, before, text, behind, text);
  }
  void learn(const StringImage &image, const std::string &before, const std::string &text, const std::string &behind,
             const std::string &shown)
  {
    const std::string all= encoded(image, before + text + behind);
    const size_t head= encoded(image, before).size() - m_end.size();
    const size_t tail= encoded(image, behind).size();
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

struct TableKeys
{
  const void *owner;
  std::vector<std::vector<PartText>> indexes;   // as the engine counts them
};

std::mutex mutex;
std::map<std::string, TableKeys> tables;

/* A value at `from`, of a part that the codec can decode. */
std::string value_text(const PartText &known, const uchar *from)
{
  const Column &column= known.part.column;
  const uchar mask= known.part.descending ? 0xFF : 0;
  std::vector<uchar> value(column.length);
  for (uint i= 0; i < column.length; i++)
    value[column.kind == Kind::BYTES ? i : column.length - 1 - i]= from[i] ^ mask;
  if (column.kind == Kind::SIGNED)
    value[column.length - 1]^= 0x80;
  const Type_handler *type= known.field->type_handler();
  if (type == &type_handler_bit || type == &type_handler_string)       // the latter: BINARY
    return in_digits(value.data(), value.data() + value.size());
  /* The share's field belongs to everybody: the copy gets the value. */
  std::vector<uint64> place(known.field->size_of() / sizeof(uint64) + 1);
  memcpy(static_cast<void *>(place.data()), static_cast<const void *>(known.field), known.field->size_of());
  Field *copy= reinterpret_cast<Field *>(place.data());
  copy->table= nullptr;
  copy->move_field(value.data(), nullptr, 0);
  StringBuffer<256> buffer(system_charset_info);
  String *shown= copy->val_str(&buffer);
  if (!shown)
    return in_digits(value.data(), value.data() + value.size());
  const std::string text(shown->ptr(), shown->length());
  return copy->cmp_type() == INT_RESULT || copy->cmp_type() == DECIMAL_RESULT ? text : quoted(text);
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

/* Appends the parts that are there, and moves `from` behind them; false: one of them is not whole. */
bool add_parts(std::string &text, std::vector<PartText> &parts, const uchar *&from, const uchar *end)
{
  for (PartText &known : parts)
  {
    if (from == end)
      break;
    const uchar *next= Codec::skip_part(known.part, from, end);
    if (!next)
      return false;
    text+= (text.empty() ? "" : ", ") + part_text(known, from, next);
    from= next;
  }
  return true;
}

/* False: the bytes do not divide into the columns that the key should have. */
bool key_text(std::string &text, std::vector<std::vector<PartText>> &indexes, uint index, slc_bytes key)
{
  const uchar *from= key.ptr, *end= key.ptr + key.len;
  if (index && !add_parts(text, indexes[index], from, end))
    return false;
  if (!indexes[0].empty())
  {
    if (!add_parts(text, indexes[0], from, end))
      return false;
  }
  else if (end - from == HIDDEN_KEY_LENGTH)
  {
    text+= (text.empty() ? "" : ", ") + std::string("row ") + std::to_string(mi_uint6korr(from));
    from= end;
  }
  if (from < end)
    text+= (text.empty() ? "" : ", ") + in_digits(from, end);
  return true;
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
  std::vector<std::vector<PartText>> &indexes= found->second.indexes;
  std::string text;
  if (key_text(text, indexes, index, key))
    return text;
  /* The end of a range is the least key above all that begin with a value: their last byte, and one. No string need be so. */
  std::string below(reinterpret_cast<const char *>(key.ptr), key.len);
  below.back()--;
  text.clear();
  if (key_text(text, indexes, index, {reinterpret_cast<const uchar *>(below.data()), below.size()}))
    return "behind " + text;
  return in_digits(key.ptr, end);
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

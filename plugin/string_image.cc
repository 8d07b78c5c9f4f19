/* Encoding and skipping of string images; the format is drawn in string_image.h. */
#include "string_image.h"
#include <algorithm>
#include <memory>

namespace sluice {

namespace {

constexpr uchar RUN_BELOW= 1, END= 2, RUN_ABOVE= 3;
constexpr uchar ZERO[4]= {0, 0, 0, 0};
constexpr size_t CHAR_BYTES_MAX= 255 * 4;    // a CHAR has 255 characters of at most 4 bytes

uchar *put_count(uchar *to, size_t count, uchar mask)
{
  if (count < 0xFF)
  {
    *to++= static_cast<uchar>(count) ^ mask;
    return to;
  }
  if (count > 0xFFFF)
    count= 0xFFFF;
  *to++= 0xFF ^ mask;
  *to++= static_cast<uchar>(count >> 8) ^ mask;
  *to++= static_cast<uchar>(count) ^ mask;
  return to;
}

/* The length of a run of spaces, without its first one; the unit after the run sorts below a space,
   or above. */
inline uchar *put_run(uchar *to, size_t spaces, bool below)
{
  *to++= below ? RUN_BELOW : RUN_ABOVE;
  return put_count(to, spaces - 1, below ? 0 : 0xFF);
}

template <uint UNIT>
uchar *encode_pad(uchar *to, const uchar *from, const uchar *end, const uchar *space)
{
  while (end > from && !memcmp(end - UNIT, space, UNIT))
    end-= UNIT;
  while (from < end)
  {
    memcpy(to, from, UNIT);
    to+= UNIT;
    if (likely(memcmp(from, space, UNIT) != 0))
    {
      from+= UNIT;
      continue;
    }
    const uchar *after= from + UNIT;
    while (!memcmp(after, space, UNIT))
      after+= UNIT;                     // ends: the last unit before `end` is no space
    to= put_run(to, (after - from) / UNIT, memcmp(after, space, UNIT) < 0);
    from= after;
  }
  memcpy(to, space, UNIT);
  to+= UNIT;
  *to++= END;
  return to;
}

template <uint UNIT>
uchar *encode_nopad(uchar *to, const uchar *from, const uchar *end)
{
  while (from < end)
  {
    memcpy(to, from, UNIT);
    to+= UNIT;
    if (unlikely(!memcmp(from, ZERO, UNIT)))
      *to++= 0xFF;
    from+= UNIT;
  }
  memcpy(to, ZERO, UNIT);
  to+= UNIT;
  *to++= 0;
  return to;
}

template <uint UNIT>
uchar *encode_filled(uchar *to, const uchar *from, const uchar *end, const uchar *space)
{
  while (from < end)
  {
    memcpy(to, from, UNIT);
    to+= UNIT;
    if (unlikely(!memcmp(from, ZERO, UNIT)))
      *to++= 0xFF;
    if (likely(memcmp(from, space, UNIT) != 0))
    {
      from+= UNIT;
      continue;
    }
    const uchar *after= from + UNIT;
    while (after < end && !memcmp(after, space, UNIT))
      after+= UNIT;
    to= put_run(to, (after - from) / UNIT, after == end || memcmp(after, space, UNIT) < 0);
    from= after;
  }
  memcpy(to, ZERO, UNIT);
  to+= UNIT;
  *to++= 0;
  return to;
}

template <uint UNIT>
uchar *encode_level(uchar *to, const uchar *from, const uchar *end, StringImage::Form form, const uchar *space)
{
  switch (form)
  {
  case StringImage::PADDED: return encode_pad<UNIT>(to, from, end, space);
  case StringImage::FILLED: return encode_filled<UNIT>(to, from, end, space);
  default: return encode_nopad<UNIT>(to, from, end);
  }
}

uchar *encode_level(uchar *to, const uchar *from, const uchar *end, uint unit, StringImage::Form form, const uchar *space)
{
  switch (unit)
  {
  case 1: return encode_level<1>(to, from, end, form, space);
  case 2: return encode_level<2>(to, from, end, form, space);
  case 3: return encode_level<3>(to, from, end, form, space);
  default: return encode_level<4>(to, from, end, form, space);
  }
}

/* What the comparison functions of big5 look at: a byte's place in the order, a character's code,
   and broken bytes after all. */
size_t code_weights(CHARSET_INFO *cs, uchar *to, const uchar *from, const uchar *end)
{
  const uchar *begin= to;
  while (from < end)
  {
    const bool is_pair=
      my_ismbchar(cs, reinterpret_cast<const char *>(from), reinterpret_cast<const char *>(end)) == 2;
    if (is_pair)
      *to++= *from++;
    else if (*from >= 0x80)
      *to++= 0xFF;
    *to++= is_pair || *from >= 0x80 ? *from : cs->sort_order[*from];
    from++;
  }
  return to - begin;
}

} // namespace

void StringImage::init(CHARSET_INFO *cs, uint chars)
{
  m_cs= cs;
  m_binary= cs == &my_charset_bin;
  const bool thai= is_thai(cs);
  m_fill= counts_spaces(cs) ? chars : 0;
  const bool pad= !m_binary && ((chars && !m_fill) || !(cs->state & MY_CS_NOPAD));
  m_trims= chars || (pad && !thai);
  m_to_zero= thai && (cs->state & MY_CS_NOPAD) && !chars;
  m_by_code= !strcmp(cs->cs_name.str, "big5") && !(cs->state & MY_CS_BINSORT);
  m_empty_length= 0;
  m_levels= 0;
  const bool several= cs->uca && (cs->levels_for_order & (cs->levels_for_order - 1));
  const bool passes= !cs->uca && cs->levels_for_order > 1;
  uchar space[16], weights[128];
  const size_t space_length= cs->wc_mb(' ', space, space + sizeof space);
  if (passes)
    m_empty_length= collation_weights(cs, m_empty, sizeof m_empty, space, 0, 0);
  for (uint i= 0; i < LEVELS_MAX && (several || i == 0); i++)
  {
    if (several && !(cs->levels_for_order & (1U << i)))
      continue;
    Level &level= m_level[m_levels++];
    level.flag= several ? MY_STRXFRM_LEVEL1 << i : 0;
    level.unit= 1;
    level.form= PLAIN;
    if (m_binary || passes)
      continue;
    const size_t length= collation_weights(cs, weights, sizeof weights, space, space_length, level.flag);
    if (length >= 1 && length <= sizeof level.space)
    {
      level.unit= static_cast<uint>(length);
      memcpy(level.space, weights, length);
      level.form= m_fill && cs->state & MY_CS_NOPAD ? FILLED : pad || m_levels > 1 ? PADDED : PLAIN;
    }                                   // else a space has no weight: trimming is all there is to padding
  }
}

StringImage StringImage::of_bare_strings() const
{
  StringImage bare= *this;
  bare.m_trims= m_trims && !m_fill;
  bare.m_fill= 0;
  return bare;
}

/* strnxfrmlen() takes bytes for characters of the greatest length; ours may all be of the least. */
size_t StringImage::weights_length_max(size_t bytes) const
{
  return m_cs->strnxfrmlen(bytes / m_cs->mbminlen * m_cs->mbmaxlen) + 4;
}

size_t StringImage::length_max(size_t bytes) const
{
  if (m_binary)
    return 2 * bytes + 2;
  const size_t weights= weights_length_max(bytes);
  size_t sum= 0;
  for (uint i= 0; i < m_levels; i++)
    sum+= weights + weights / m_level[i].unit + m_level[i].unit + 8;
  return sum;
}

size_t StringImage::length_usual(size_t bytes) const
{
  if (m_binary)
    return length_max(bytes);
  size_t sum= 0;
  for (uint i= 0; i < m_levels; i++)
  {
    const size_t unit= m_level[i].unit;
    const size_t weights= unit == 1 ? bytes : bytes / m_cs->mbmaxlen * unit;
    sum+= weights + weights / unit + unit + 8;
  }
  return std::min(sum, length_max(bytes));
}

size_t StringImage::weights(uchar *to, size_t to_size, const uchar *from, size_t bytes, uint flag) const
{
  if (m_by_code)
    return code_weights(m_cs, to, from, from + bytes);
  const size_t length= collation_weights(m_cs, to, to_size, from, bytes, flag);
  if (unlikely(m_to_zero))
    return strnlen(reinterpret_cast<const char *>(to), length);
  return length && length == m_empty_length && !memcmp(to, m_empty, length) ? 0 : length;
}

uchar *StringImage::encode(uchar *to, const uchar *from, size_t bytes) const
{
  if (m_binary)
    return encode_nopad<1>(to, from, from + bytes);
  if (m_trims)
    bytes= m_cs->lengthsp(reinterpret_cast<const char *>(from), bytes);
  return unlikely(m_fill) ? encode_with_spaces(to, from, bytes) : encode_levels(to, from, bytes);
}

/* The lower bound of LIKE 'prefix%': the server fills the key up, byte by byte, with the character
   that sorts first. So it has more characters than the column (with UCS2 and UTF32 as many). A
   value may end in characters without weight there, and so come before that key. Therefore the
   range begins with the prefix alone. Returns its length; `bytes` if this is no such key. */
size_t StringImage::without_filling(const uchar *from, size_t bytes) const
{
  uchar first[8];
  if (likely(!m_fill) || m_cs->numchars(reinterpret_cast<const char *>(from), reinterpret_cast<const char *>(from) + bytes) <= m_fill)
    return bytes;
  const int length= m_cs->cset->wc_mb(m_cs, m_cs->min_sort_char, first, first + sizeof first);
  if (length <= 0)
    return bytes;
  while (bytes >= static_cast<size_t>(length) && !memcmp(from + bytes - length, first, length))
    bytes-= length;
  return bytes;
}

/* A trimmed value, with the spaces that it has in its column. Broken characters must not make it
   longer than the column. */
uchar *StringImage::encode_with_spaces(uchar *to, const uchar *from, size_t bytes) const
{
  uchar on_stack[CHAR_BYTES_MAX];
  const size_t chars= m_cs->numchars(reinterpret_cast<const char *>(from), reinterpret_cast<const char *>(from) + bytes);
  const size_t wanted= bytes + (chars < m_fill ? (m_fill - chars) * m_cs->mbminlen : 0);
  const size_t length= std::max(bytes, std::min<size_t>(wanted, m_fill * m_cs->mbmaxlen));
  if (unlikely(length > sizeof on_stack))
    return encode_levels(to, from, bytes);   // cannot be: no CHAR is so long
  memcpy(on_stack, from, bytes);
  m_cs->fill(reinterpret_cast<char *>(on_stack) + bytes, length - bytes, ' ');
  return encode_levels(to, on_stack, length);
}

uchar *StringImage::encode_levels(uchar *to, const uchar *from, size_t bytes) const
{
  uchar on_stack[2048];
  std::unique_ptr<uchar[]> on_heap;
  uchar *weights= on_stack;
  const size_t size= weights_length_max(bytes);
  if (size > sizeof on_stack)
  {
    on_heap.reset(new uchar[size]);
    weights= on_heap.get();
  }
  for (uint i= 0; i < m_levels; i++)
  {
    const Level &level= m_level[i];
    size_t length= bytes ? this->weights(weights, size, from, bytes, level.flag) : 0;
    /* Cannot be: weights are whole units; keep the image whole if it is. */
    while (length % level.unit)
      length--;
    to= encode_level(to, weights, weights + length, level.unit, level.form, level.space);
  }
  return to;
}

/* The bytes after the mark of a run: its length. NULL: it does not end before `end`. */
static const uchar *skip_count(const uchar *from, const uchar *end, uchar mask)
{
  if (from == end)
    return nullptr;
  const size_t more= (*from++ ^ mask) == 0xFF ? 2 : 0;
  return static_cast<size_t>(end - from) < more ? nullptr : from + more;
}

const uchar *StringImage::Level::skip(const uchar *from, const uchar *end, uchar mask) const
{
  for (;;)
  {
    if (static_cast<size_t>(end - from) < unit)
      return nullptr;
    uchar weight[4];
    for (uint b= 0; b < unit; b++)
      weight[b]= from[b] ^ mask;
    from+= unit;
    const bool is_zero= form != PADDED && !memcmp(weight, ZERO, unit);
    const bool is_space= form != PLAIN && !memcmp(weight, space, unit);
    if (!is_zero && !is_space)
      continue;
    if (from == end)
      return nullptr;
    const uchar mark= *from++ ^ mask;
    if (mark == (is_zero ? 0 : END))
      return from;
    if (is_space && !(from= skip_count(from, end, mark == RUN_ABOVE ? static_cast<uchar>(mask ^ 0xFF) : mask)))
      return nullptr;
  }
}

uint StringImage::levels(slc_string_level *to) const
{
  static_assert(LEVELS_MAX == SLC_STRING_LEVELS_MAX);
  static_assert(int(PLAIN) == SLC_LEVEL_PLAIN && int(PADDED) == SLC_LEVEL_PADDED && int(FILLED) == SLC_LEVEL_FILLED);
  for (uint i= 0; i < m_levels; i++)
  {
    to[i]= {m_level[i].form, static_cast<uint8_t>(m_level[i].unit), {}};
    memcpy(to[i].space, m_level[i].space, sizeof to[i].space);
  }
  return m_levels;
}

const uchar *StringImage::skip(const uchar *from, const uchar *end, uchar mask) const
{
  for (uint i= 0; i < m_levels && from; i++)
    from= m_level[i].skip(from, end, mask);
  return from;
}

} // namespace sluice

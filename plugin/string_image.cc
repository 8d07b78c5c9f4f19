/* Encoding and skipping of string images; the format is drawn in string_image.h. */
#include "string_image.h"
#include <memory>

namespace sluice {

namespace {

constexpr uchar RUN_BELOW= 1, END= 2, RUN_ABOVE= 3;

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
    const size_t count= (after - from) / UNIT - 1;
    const bool below= memcmp(after, space, UNIT) < 0;
    *to++= below ? RUN_BELOW : RUN_ABOVE;
    to= put_count(to, count, below ? 0 : 0xFF);
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
  static const uchar zero[4]= {0, 0, 0, 0};
  while (from < end)
  {
    memcpy(to, from, UNIT);
    to+= UNIT;
    if (unlikely(!memcmp(from, zero, UNIT)))
      *to++= 0xFF;
    from+= UNIT;
  }
  memcpy(to, zero, UNIT);
  to+= UNIT;
  *to++= 0;
  return to;
}

uchar *encode_level(uchar *to, const uchar *from, const uchar *end, uint unit, const uchar *space, bool pad)
{
  switch (unit)
  {
  case 1: return pad ? encode_pad<1>(to, from, end, space) : encode_nopad<1>(to, from, end);
  case 2: return pad ? encode_pad<2>(to, from, end, space) : encode_nopad<2>(to, from, end);
  case 3: return pad ? encode_pad<3>(to, from, end, space) : encode_nopad<3>(to, from, end);
  default: return pad ? encode_pad<4>(to, from, end, space) : encode_nopad<4>(to, from, end);
  }
}

/* What the comparison functions of big5 look at: a byte's place in the order, a character's code, and broken bytes behind all. */
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

void StringImage::init(CHARSET_INFO *cs, bool trims)
{
  m_cs= cs;
  m_binary= cs == &my_charset_bin;
  const bool pad= !m_binary && (trims || !(cs->state & MY_CS_NOPAD));
  const bool thai= !strcmp(cs->cs_name.str, "tis620") && !(cs->state & MY_CS_BINSORT);
  m_trims= pad && (trims || !thai);
  m_to_zero= thai && (cs->state & MY_CS_NOPAD);
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
    level.pad= false;
    if (m_binary || passes)
      continue;
    const size_t length= collation_weights(cs, weights, sizeof weights, space, space_length, level.flag);
    if (length >= 1 && length <= sizeof level.space)
    {
      level.unit= static_cast<uint>(length);
      memcpy(level.space, weights, length);
      level.pad= pad || m_levels > 1;
    }                                   // else a space has no weight: trimming is all there is to padding
  }
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
    while (length % level.unit)         // cannot be: weights are whole units; keep the image whole if it is
      length--;
    to= encode_level(to, weights, weights + length, level.unit, level.space, level.pad);
  }
  return to;
}

const uchar *StringImage::skip(const uchar *from, const uchar *end, uchar mask) const
{
  for (uint i= 0; i < m_levels; i++)
  {
    const Level &level= m_level[i];
    const uint unit= level.unit;
    for (;;)
    {
      if (static_cast<size_t>(end - from) < unit)
        return nullptr;
      bool special= true;
      for (uint b= 0; b < unit && special; b++)
        special= (from[b] ^ mask) == (level.pad ? level.space[b] : 0);
      from+= unit;
      if (!special)
        continue;
      if (from == end)
        return nullptr;
      const uchar mark= *from++ ^ mask;
      if (mark == (level.pad ? END : 0))
        break;
      if (!level.pad)
        continue;
      if (from == end)
        return nullptr;
      const uchar count_mask= mark == RUN_ABOVE ? static_cast<uchar>(mask ^ 0xFF) : mask;
      const bool longer= (*from++ ^ count_mask) == 0xFF;
      if (longer)
      {
        if (end - from < 2)
          return nullptr;
        from+= 2;
      }
    }
  }
  return from;
}

} // namespace sluice

/* StringImage: how a string under one collation becomes bytes that compare with memcmp.

   Two images are equal exactly when the collation says the strings are equal, they sort in the collation's order,
   and no image is a prefix of another one (so that key parts can simply be concatenated). An image is the
   collation's weight string, level by level, each level closed in one of two ways. `unit` is the length of the
   weight of a space on that level (1, 2 or 3 bytes; a weight string is a whole number of units).

   PAD SPACE (strings compare as if followed by endless spaces). Trailing space units are dropped, then
     unit other than space   as it is
     run of k spaces + u     space, then 01 count      when u sorts below a space (longer runs sort higher), or
                             space, then 03 ~count     when u sorts above a space (longer runs sort lower)
     end                     space, then 02
   `count` is k-1 in one byte, or FF and two bytes from 255 on.

   NO PAD (of which the server compares only the first level so), and binary strings: a unit of zeros is followed by FF, the end is a unit of zeros followed by 00.

   The weights of big5_chinese_ci and its NO PAD sister are strokes, the same for thousands of characters, but the server compares by
   code: for these two the image is made of codes.

   Collations whose weight strings carry several passes in one (the Czech ones) take the second form over the trimmed string. Their
   passes have marks even where there is nothing to compare: what weighs as the empty string does (latin2_czech_cs: a TAB) has its image.

   Thai tone marks move behind their consonant before strings are compared, a space if need be: under tis620_thai_ci only the moved
   string is trimmed. And its NO PAD sister compares only up to the first NUL. Checked against the comparison functions of all 1243
   collations of 10.11.

   Of a CHAR under NO PAD, the server compares the trimmed value in WHERE and the padded one in ORDER BY and in the ranges of an index.
   Equality is WHERE's here, order ORDER BY's. Called by: codec (key images), stats (to find where a part ends). */
#ifndef SLUICE_STRING_IMAGE_H
#define SLUICE_STRING_IMAGE_H
#include "compat.h"

namespace sluice {

class StringImage
{
public:
  /* trims: the column itself is padded with spaces, whatever the collation says (CHAR). */
  void init(CHARSET_INFO *cs, bool trims);
  /* Bytes that encode() may write for a string of up to `bytes` bytes. */
  size_t length_max(size_t bytes) const;
  uchar *encode(uchar *to, const uchar *from, size_t bytes) const;
  /* End of the image that starts at `from`; every byte is XORed with `mask` first. NULL: it does not end before `end`. */
  const uchar *skip(const uchar *from, const uchar *end, uchar mask) const;

private:
  size_t weights_length_max(size_t bytes) const;
  size_t weights(uchar *to, size_t to_size, const uchar *from, size_t bytes, uint flag) const;
  static constexpr uint LEVELS_MAX= 6;
  struct Level
  {
    uint flag;                          // MY_STRXFRM_LEVELn, or 0 for the whole weight string
    uint unit;
    bool pad;
    uchar space[4];
  };
  CHARSET_INFO *m_cs= nullptr;
  bool m_binary= false;
  bool m_trims= false;
  bool m_by_code= false;
  bool m_to_zero= false;                // only what is before the first zero of the weights counts
  uchar m_empty[16];                    // weights of the empty string, where it has some
  size_t m_empty_length= 0;
  uint m_levels= 1;
  Level m_level[LEVELS_MAX];
};

} // namespace sluice
#endif

/* StringImage: how a string under one collation becomes bytes that compare with memcmp.

   Two images are equal exactly when the collation says that the strings are equal. Images sort in
   the collation's order. No image is a prefix of another one, so key parts are simply concatenated.
   An image is the collation's weight string, level by level. Each level is closed in one of three
   ways. `unit` is the length of the weight of a space on that level: 1, 2 or 3 bytes. A weight
   string is a whole number of units.

   PAD SPACE (strings compare as if followed by endless spaces). Trailing space units are dropped,
   then
     unit other than space   as it is
     run of k spaces + u     space, then 01 count      when u sorts below a space (longer runs sort higher), or
                             space, then 03 ~count     when u sorts above a space (longer runs sort lower)
     end                     space, then 02
   `count` is k-1 in one byte, or FF and two bytes from 255 on.

   NO PAD (of which the server compares only the first level so), and binary strings: a unit of
   zeros is followed by FF, the end is a unit of zeros followed by 00.

   A CHAR of N characters where spaces at the end decide. The server compares rows, and rows with
   the ends of a range, with N characters each, their spaces among them, and only WHERE compares
   without. That makes no difference under PAD SPACE, nor where each character has one weight. Where
   characters expand or are ignored (NO PAD by Unicode's rules), 'Masse' has N weights and 'Maße',
   equal in WHERE, N+1: such images are made of the value with its spaces, so that an index has the
   order of rows. All levels are then NO PAD, and
     unit of zeros           as it is, then FF
     run of k spaces + u     as under PAD SPACE; the end is below a space
     end                     a unit of zeros, then 00
   A search for one of two values that are equal in WHERE only finds that one, as in InnoDB.

   The weights of big5_chinese_ci and its NO PAD sister are strokes, the same for thousands of
   characters, but the server compares by code: for these two the image is made of codes.

   Collations whose weight strings carry several passes in one (the Czech ones) take the second form
   over the trimmed string. Their passes have marks even where there is nothing to compare: what
   weighs as the empty string does (latin2_czech_cs: a TAB) has its image.

   Thai tone marks move after their consonant, which may be a space, before strings are compared.
   Under tis620_thai_ci only the moved string is trimmed, and a CHAR is moved with its spaces. The
   NO PAD sister compares only up to the first NUL, but not of a CHAR. Checked against the
   comparison functions of all 1243 collations of 10.11, that of rows for CHAR (strnncollsp_nchars).
   Called by: codec (key images), statistics (to describe where a part ends), key_text. */
#ifndef SLUICE_STRING_IMAGE_H
#define SLUICE_STRING_IMAGE_H
#include "compat.h"
#include "sluice_abi.h"

namespace sluice {

class StringImage
{
public:
  enum Form : uchar { PLAIN, PADDED, FILLED };   // NO PAD, PAD SPACE, a CHAR with its spaces

  /* chars: of a CHAR, as many of its characters as are in the key; otherwise 0. */
  void init(CHARSET_INFO *cs, uint chars);
  /* The same for strings that are not in a column: what they weigh, with no spaces added or left
     out. */
  StringImage of_bare_strings() const;
  /* Whether the spaces at the end of a CHAR are part of its image. */
  static bool counts_spaces(const CHARSET_INFO *cs) { return is_thai(cs) || (cs->uca && cs->state & MY_CS_NOPAD); }
  bool counts_spaces() const { return m_fill; }
  /* Bytes that encode() may write for a string of up to `bytes` bytes. */
  size_t length_max(size_t bytes) const;
  /* The same as long as no character has more than one weight on a level. */
  size_t length_usual(size_t bytes) const;
  uchar *encode(uchar *to, const uchar *from, size_t bytes) const;
  /* The same of a search key without the characters that LIKE fills it up with: its
     `without_filling()` first bytes, with no spaces added. */
  uchar *encode_bare(uchar *to, const uchar *from, size_t bytes) const { return encode_levels(to, from, bytes); }
  size_t without_filling(const uchar *from, size_t bytes) const;
  /* End of the image that starts at `from`; every byte is XORed with `mask` first. NULL: it does
     not end before `end`. */
  const uchar *skip(const uchar *from, const uchar *end, uchar mask) const;
  /* What `skip` goes by; returns the number of levels. */
  uint levels(slc_string_level *to) const;

private:
  static bool is_thai(const CHARSET_INFO *cs) { return !strcmp(cs->cs_name.str, "tis620") && !(cs->state & MY_CS_BINSORT); }
  size_t weights_length_max(size_t bytes) const;
  size_t weights(uchar *to, size_t to_size, const uchar *from, size_t bytes, uint flag) const;
  uchar *encode_with_spaces(uchar *to, const uchar *from, size_t bytes) const;
  uchar *encode_levels(uchar *to, const uchar *from, size_t bytes) const;
  static constexpr uint LEVELS_MAX= 6;
  struct Level
  {
    uint flag= 0;                       // MY_STRXFRM_LEVELn, or 0 for the whole weight string
    uint unit= 1;
    Form form= PLAIN;
    uchar space[4]= {};
    const uchar *skip(const uchar *from, const uchar *end, uchar mask) const;
  };
  CHARSET_INFO *m_cs= nullptr;
  bool m_binary= false;
  bool m_trims= false;
  uint m_fill= 0;                       // > 0: a CHAR of so many characters, its spaces among them
  bool m_by_code= false;
  bool m_to_zero= false;                // only what is before the first zero of the weights counts
  uchar m_empty[16];                    // weights of the empty string, where it has some
  size_t m_empty_length= 0;
  uint m_levels= 1;
  Level m_level[LEVELS_MAX];
};

} // namespace sluice
#endif

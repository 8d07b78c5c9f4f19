/* One column's value between a row and a record. Used by: codec_row.cc, codec_old_row.cc,
   altered_row.cc. */
#ifndef SLUICE_COLUMN_VALUE_H
#define SLUICE_COLUMN_VALUE_H
#include "codec.h"
#include "mutant.h"

namespace sluice {

inline uint32 load_length(const uchar *from, uint bytes)
{
  switch (bytes)
  {
  case 1: return *from;
  case 2: return uint2korr(from);
  case 3: return uint3korr(from);
  default: return uint4korr(from);
  }
}

inline void put_sized(const Column &column, uchar *record, const uchar *from, size_t length)
{
  uchar *to= record + column.offset;
  if (column.kind == Kind::VARCHARS)
  {
    *to++= static_cast<uchar>(length);
    if (column.length_bytes == 2)
      *to++= static_cast<uchar>(length >> 8);
  }
  memcpy(to, from, length);
  if (column.kind != Kind::CHARS)
    return;
  if (column.charset->mbminlen == 1)
    memset(to + length, ' ', column.length - length);
  else
    column.charset->fill(reinterpret_cast<char *>(to) + length, column.length - length, ' ');
}

/* The value of a NULL, as Field::reset() leaves it: the server compares it when it checks whether a
   row has changed. */
inline void put_nothing(const Column &column, uchar *record)
{
  if (column.is_fixed())
    memset(record + column.offset, 0, column.length);
  else
    put_sized(column, record, record, 0);
}

/* The data stays where it is. */
inline void put_blob(const Column &column, uchar *record, const uchar *data, size_t length)
{
  uchar *to= record + column.offset;
  for (uint i= 0; i < column.length_bytes; i++)
    *to++= static_cast<uchar>(length >> (8 * i));
  memcpy(to, &data, sizeof data);
}

/* As put_nothing(), of any column. */
inline void put_null(const Column &column, uchar *record)
{
  if (column.kind == Kind::BLOBS)
    put_blob(column, record, nullptr, 0);
  else
    put_nothing(column, record);
}

/* A value of a column from which this one may have grown. An integer may have fewer bytes than the
   column: the sign fills the others. */
inline void put_grown_value(const Column &column, uchar *record, const uchar *from, size_t length)
{
  if (column.kind == Kind::BLOBS)
  {
    put_blob(column, record, from, length);
    return;
  }
  put_sized(column, record, from, length);
  if (column.is_fixed() && length < column.length)
  {
    const bool negative= column.kind == Kind::SIGNED && from[length - 1] & 0x80 && !planted(Mutant::GrownSignForgotten);
    memset(record + column.offset + length, negative ? 0xFF : 0, column.length - length);
  }
}

} // namespace sluice
#endif

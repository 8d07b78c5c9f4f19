/* Codec: between the server's records and the engine's bytes. One per open handler, built at open
   from its TABLE and the order of the engine's indexes. It is not changed afterwards, except that
   decode plans are added to a cache. The three formats:

   Key image    for each part: if the column may be NULL one byte (00 = NULL and nothing follows, 01
                = a value), then the value: integers big-endian with the sign bit flipped, temporal
                and decimal bytes as the server stores them (they sort), strings as string_image.h
                draws them. All bytes of a DESC part are inverted. No image is a prefix of another
                one. The clustered key is the image of the primary key, or, in a table without one,
                6 bytes big-endian of the row's hidden number.
   Index entry  key = image of the index's parts + clustered key; value = raw bytes of those columns
                of the index and of the primary key that their image cannot give back (strings under
                a collation, floats), each only if not NULL: fixed ones as in the record, CHAR and
                VARCHAR as length (u8, or u16 if longer than 255) + bytes.
   Row          u16 number of the row's definition (row_history.h; 1 = as the table was made) | the
                record's null bytes | fixed columns | CHAR without pad, VARCHAR, rarely set wide
                columns: length + bytes (nothing when NULL) | BLOBs: length as in the record +
                bytes. Columns that a clustered key image of fixed offsets gives back are not stored
                again; VIRTUAL columns are not stored. In a table that marks rows of the past
                (SLC_TABLE_MARKS_PAST) the number of such a row has the bit 0x4000. A compressed row (codec_row.cc): u16 number
                with its highest bit set | u32 length | the row as zlib compresses it. Only the
                stand-in writes such rows.

   All reading and writing of records is by offset from the record's start, so that any of the
   server's record buffers will do. Called by: the handler files, ddl, inplace, statistics. */
#ifndef SLUICE_CODEC_H
#define SLUICE_CODEC_H
#include "compat.h"
#include "buffer.h"
#include "row_history.h"
#include "sluice_abi.h"
#include "string_image.h"
#include <map>
#include <memory>
#include <vector>

namespace sluice {

constexpr uint HIDDEN_KEY_LENGTH= 6;

/* Where a column lives in a record. */
struct Column
{
  Kind kind;
  uchar length_bytes;                   // VARCHAR, BLOB: size of the length in the record
  uchar null_bit;                       // 0 = never NULL
  uint16 field;
  uint32 null_offset;
  uint32 offset;
  uint32 length;                        // bytes in the record; of the data for VARCHAR
  CHARSET_INFO *charset;

  bool is_null(const uchar *record) const { return null_bit && (record[null_offset] & null_bit); }
  bool is_fixed() const { return kind <= Kind::SORTED; }
  /* The value's bytes in a record: pointer and length (CHAR without trailing pad). */
  slc_bytes value(const uchar *record) const;
};

struct KeyPart
{
  Column column;
  bool nullable;
  bool descending;
  bool decodable;
  uint32 length;                        // as KEY_PART_INFO::length
  uint32 store_length;                  // in the server's key tuple
  /* > 0: only so many characters (bytes, if binary) are part of the key. */
  uint32 prefix_chars;
  uint32 image_length_max;
  StringImage string;
};

struct KeyLayout
{
  std::vector<KeyPart> parts;
  std::vector<Column> raw;              // columns kept in the value, in order
  /* Columns of the index and of the primary key of which an entry has only a prefix. */
  std::vector<uint16> cut;
  bool has_position= true;              // the primary key's columns are all whole
  bool unique= false;
  bool fixed= false;                    // no part is nullable or of varying length
  uint32 image_length_max= 0;
  uint32 image_length_usual= 0;         // as StringImage::length_usual
  uint32 value_length_max= 0;
};

/* A primary key column that a clustered key gives back, at a constant place. */
struct KeyedColumn
{
  uint32 image_offset;
  const KeyPart *part;
};

struct OldRowPlan;

/* Which steps give a record the columns of one read_set. */
struct DecodePlan
{
  DecodePlan();
  ~DecodePlan();
  struct Copy { uint32 from, to, length; };
  struct NullBits { uint32 offset; uchar mask, bits; };
  std::vector<my_bitmap_map> read_set;
  std::vector<Copy> fixed;
  std::vector<uchar> sized_wanted;      // by ordinal; stops at the last wanted one
  std::vector<uchar> blob_wanted;
  std::vector<KeyedColumn> keyed;
  /* Of generated columns that are not read, as the default record has them. */
  std::vector<NullBits> unread_nulls;
  /* The same of rows of other definitions, by number; each made when the first such row is read. */
  mutable std::map<uint16, std::unique_ptr<OldRowPlan>> of_old_rows;

  bool reads(uint field) const
  {
    constexpr uint BITS= 8 * sizeof(my_bitmap_map);
    return read_set[field / BITS] >> field % BITS & 1;
  }
};

/* The bytes of one index entry inside a Buffer that may still move. */
struct EntryImage
{
  uint32 key, key_length, user_key_length, value, value_length;
  bool unique_check;
};

class Codec
{
public:
  static std::unique_ptr<Codec> build(TABLE *table);

  bool has_primary_key() const { return m_primary != MAX_KEY; }
  uint primary() const { return m_primary; }
  bool has_blobs() const { return !m_blobs.empty(); }
  /* > 0: every clustered key has this length */
  uint clustered_key_length_fixed() const { return m_clustered_fixed; }
  uint clustered_key_length_max() const { return m_clustered_max; }
  const KeyLayout &key(uint index) const { return m_keys[index]; }
  /* Keys of its entries may be too long for a node of one page (SLC_INDEX_WIDE). */
  bool is_wide(uint index) const;
  /* SLC_INDEX_* of a secondary index. */
  uint32_t index_flags(uint index) const;
  /* The engine counts the clustered index as 0, then the secondary ones: as the server does, until
     the codec gets another order. */
  uint engine_index(uint index) const { return m_engine_indexes[index]; }
  uint server_index(uint engine_index) const { return m_server_indexes[engine_index]; }
  uint secondary_count() const { return static_cast<uint>(m_keys.size()) - has_primary_key(); }
  /* The server's indexes in the engine's order, all secondary ones. */
  void set_order(const std::vector<uint> &indexes);

  /* The record's field objects belong to this TABLE now (handler::change_table_ptr). */
  void set_table(TABLE *table) { m_table= table; }

  /* The part that an ascending index on the whole column would have. Not of a BLOB. */
  static KeyPart whole_part(const TABLE *table, const Field *field);
  /* Appends the image of such a part's value, without a null byte. */
  void put_image(Buffer &to, KeyPart part, const uchar *record) const;
  /* Appends the key image of a record; true when a part is NULL. */
  bool put_key(Buffer &to, uint index, const uchar *record) const;
  /* Appends the image of the key's first `count` parts as a cluster's nodes compare it, in parent
     and child alike: without null bytes, all ascending. False: a part is NULL, and no row is
     equal. */
  bool put_certified(Buffer &to, uint index, uint count, const uchar *record) const;
  /* Appends all stored columns, each with its length. */
  void put_columns(Buffer &to, const uchar *record) const;
  void put_search_key(Buffer &to, uint index, const uchar *tuple, uint tuple_length) const;
  void put_value(Buffer &to, uint index, const uchar *record) const;
  void put_row(Buffer &to, const uchar *record) const;
  EntryImage put_entry(Buffer &to, uint index, const uchar *record, slc_bytes clustered) const;
  /* Whether two records are the same row, to the byte of every stored column. */
  bool same_row(const uchar *left, const uchar *right) const;
  /* Whether an update of these columns can change an entry of the index. */
  bool touches(uint index, const MY_BITMAP *write_set) const;

  const DecodePlan *plan(const MY_BITMAP *read_set);
  /* Rows are written compressed: the table has ROW_FORMAT=COMPRESSED, or PAGE_COMPRESSED. */
  bool compresses() const { return m_compresses; }
  /* The row as put_row() found it, in `to` if it is compressed. Empty: it cannot be read. */
  static slc_bytes plain_row(slc_bytes row, Buffer &to);
  /* False: the bytes do not have the form that this table's rows have. A compressed row is kept
     until the codec reads the next one. */
  bool get_row(const DecodePlan *plan, uchar *record, slc_bytes clustered, slc_bytes row) const;
  bool get_entry(uint index, uchar *record, slc_bytes key, slc_bytes clustered, slc_bytes value) const;
  /* End of the part's image in a key, or NULL. */
  static const uchar *skip_part(const KeyPart &part, const uchar *from, const uchar *end);
  /* Columns that are in the row or come back from the clustered key. */
  const MY_BITMAP *stored() const { return &m_stored; }
  const std::vector<Column> &blobs() const { return m_blobs; }
  /* The form of each of the table's columns, without numbers. */
  std::vector<ColumnForm> forms() const;
  /* Rows are written in the definition that counts, and read in each that there was. The columns of
     the former are the table's. */
  void set_history(std::shared_ptr<const RowHistory> history);
  const RowHistory &history() const { return *m_history; }
  /* The table's row_end tells rows of the past, and its rows say so in their numbers. */
  void set_marks_past(bool marks);
  bool marks_past() const { return m_past_bit != 0; }
  bool is_past(const uchar *record) const { return m_past_bit && memcmp(record + m_row_end, m_row_end_max.data(), m_row_end_max.size()); }
  /* The number of the row's definition, if there is none of that number; else 0. */
  uint16 unknown_definition(slc_bytes row) const;
  const std::vector<uint16> &indexed_virtual_columns() const { return m_indexed_virtual; }
  /* Some of them are computed from other virtual columns. */
  bool has_nested_virtual() const { return m_has_nested_virtual; }

  Codec(const Codec &)= delete;
  ~Codec();

private:
  bool m_compresses= false;
  mutable Buffer m_plain_row;
  static void put_unread_nulls(const DecodePlan *plan, uchar *record);
  bool get_old_row(const DecodePlan *plan, uchar *record, slc_bytes clustered, slc_bytes row) const;
  const OldRowPlan *old_row_plan(const DecodePlan *plan, uint16 number) const;
  std::unique_ptr<OldRowPlan> make_old_row_plan(const DecodePlan *plan, const RowDefinition &from) const;
  static void get_clustered(uchar *record, slc_bytes clustered, const std::vector<KeyedColumn> &columns);
  explicit Codec(TABLE *table);
  void build_key(uint index);
  static KeyPart part_of(const TABLE *table, const Field *field, uint length);
  void build_raw(uint index);
  void build_row();
  uchar *put_part(uchar *to, const KeyPart &part, const uchar *record) const;
  uchar *put_part_tuple(uchar *to, const KeyPart &part, const uchar *tuple) const;
  uchar *put_fixed(uchar *to, const KeyPart &part, const uchar *value) const;

  TABLE *m_table;
  uint m_primary;
  uint m_clustered_fixed= 0, m_clustered_max= 0;
  std::vector<KeyLayout> m_keys;
  std::vector<uint> m_engine_indexes;   // by the server's
  std::vector<uint> m_server_indexes;   // by the engine's
  std::vector<KeyedColumn> m_keyed;     // columns that the clustered key gives back
  std::shared_ptr<const RowHistory> m_history;
  uint16 m_row_definition;              // number of the one that rows are written in
  uint16 m_past_bit= 0;                 // in the numbers of rows of the past
  uint32 m_row_end= 0;                  // offset in the record, if there is such a bit
  std::string m_row_end_max;            // of rows of the present
  uint32 m_null_bytes;
  std::vector<DecodePlan::Copy> m_fixed; // from = offset in the row
  std::vector<std::pair<Column, uint32>> m_fixed_columns; // with the offset in the row
  std::vector<Column> m_sized;
  std::vector<Column> m_blobs;
  std::vector<Column> m_stored_columns;
  std::vector<uint16> m_indexed_virtual;
  bool m_has_nested_virtual= false;
  uint32 m_fixed_end= 0;                // where the sized columns begin in a row
  uint32 m_sized_max= 0;
  MY_BITMAP m_stored;
  std::vector<my_bitmap_map> m_stored_map;
  std::vector<std::unique_ptr<DecodePlan>> m_plans;
};

Column column_of(const TABLE *table, const Field *field);
/* Of columns with the same domain (key_parts.cc), between records of two tables. False: the value
   does not fit. */
bool copy_value(const Column &from, const uchar *from_record, const Column &to, uchar *to_record);
/* False: the column cannot be NULL. */
bool set_to_null(const Column &column, uchar *record);
uint length_bytes_for(uint32 length_max);

} // namespace sluice
#endif

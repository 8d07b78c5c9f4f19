/* ALTER TABLE that changes columns and leaves rows and indexes as they are: which changes those
   are, and the definition of rows that comes of one (row_history.h). The old rows are read by
   codec_old_row.cc. Called by: inplace, ha_sluice. */
#ifndef SLUICE_INSTANT_ALTER_H
#define SLUICE_INSTANT_ALTER_H
#include "compat.h"
#include "codec.h"
#include <atomic>
#include <string>
#include <vector>

namespace sluice {

/* Statements since the start that added, dropped or moved columns and left the rows as they
   were. */
extern std::atomic<uint64_t> instant_alters;

/* Changes that may be such ones. */
constexpr alter_table_operations COLUMN_CHANGES=
  ALTER_ADD_VIRTUAL_COLUMN | ALTER_ADD_STORED_BASE_COLUMN | ALTER_DROP_VIRTUAL_COLUMN | ALTER_DROP_STORED_COLUMN |
  ALTER_STORED_COLUMN_ORDER | ALTER_VIRTUAL_COLUMN_ORDER | ALTER_COLUMN_NULLABLE | ALTER_COLUMN_TYPE_CHANGE_BY_ENGINE |
  ALTER_COLUMN_INDEX_LENGTH;

/* Rows are read and written with this list of definitions. False: its last one is not that of the
   table's columns, or there is no list. */
bool use_history(Codec &codec, const TABLE *table, const std::shared_ptr<const RowHistory> &history);

/* Whether a value of the column is one of the new type, as it is or made longer. */
bool grows_into(const Field &field, const Column_definition &type);
/* As handler::compare_key_parts(): NotEqual, and the server has the index built anew, where its
   entries would have another form. */
Compare_keys compare_grown_part(const Field &field, const Column_definition &type, const KEY_PART_INFO &part,
                                const KEY_PART_INFO &new_part);

/* What a key that stays is called afterwards: by its new name, or as the new definition writes the
   old one. */
const char *new_name_of(const KEY *key, const TABLE *altered, const Alter_inplace_info *info);

/* One ALTER TABLE of a table or partition. The altered table's record has the default values. */
class ColumnChange
{
public:
  ColumnChange(const TABLE *table, const Codec &codec, const TABLE *altered, const Codec &altered_codec,
               const Alter_inplace_info *info);
  bool changes_columns() const { return m_info->handler_flags & COLUMN_CHANGES || m_moves_null_bits; }
  const TABLE *altered() const { return m_altered; }
  /* Rows become compressed, or are no longer. */
  bool changes_compression() const { return m_codec.compresses() != m_altered_codec.compresses(); }
  /* Why the table has to be copied; null: it need not be. Valid as long as the statement. */
  const char *why_copied() const;
  /* Why new rows cannot be made of the old ones while writers go on; null: they can. */
  const char *why_columns_are_copied() const;
  /* Null: there are too many definitions. */
  std::shared_ptr<const RowHistory> history() const;
  /* One of these columns of the table gets another form, becomes NOT NULL, or goes. */
  bool changes_one_of(const std::vector<std::string> &columns) const;
  bool drops_one_of(const std::vector<std::string> &columns) const;
  /* The CHECK depends on added columns only, and their values in the rows that are there pass
     it. */
  bool holds_for_added(Virtual_column_info *check) const;
  /* The new AUTO_INCREMENT column; null: there is none. */
  Field *added_number() const;
  /* What the altered table's column was; null: it is new. */
  const Field *old_field(uint column) const;

private:
  static constexpr uint NEW_COLUMN= UINT_MAX;
  const char *why_column_is_copied(const Field *old, const Field *field) const;
  const char *why_added_column_is_copied(const Field *field) const;
  bool indexes_stay() const;
  bool is_same_part(const KeyPart &old, const KeyPart &part) const;
  bool is_same_key(const KeyLayout &old, const KeyLayout &key) const;
  bool is_same_column(const Column &old, const Column &column) const;

  const TABLE *const m_table;
  const Codec &m_codec;
  const TABLE *const m_altered;
  const Codec &m_altered_codec;
  const Alter_inplace_info *const m_info;
  /* By the altered table's columns. Empty: the server's list has other columns. */
  std::vector<uint> m_old;
  /* ROW_FORMAT decides where the null bits begin, if all columns have a fixed length. */
  const bool m_moves_null_bits;
};

} // namespace sluice
#endif

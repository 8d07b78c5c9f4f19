/* InnoDB's limits on rows and on columns of keys, which Sluice does not need: the stand-in refuses
   the definitions that InnoDB refuses, in its words. So a definition that the stand-in takes is one
   that InnoDB takes. A row must fit twice into a page, except for the long columns whose values
   InnoDB stores elsewhere. The formats COMPACT and REDUNDANT keep more of such a value in the row,
   and have shorter columns in keys. Compiled only for a plugin with InnoDB's name.
   Called by: ddl, inplace. */
#include "innodb_limits.h"
#include "settings.h"
#include <set>
#include <string>
#include <vector>

#ifdef SLUICE_STAND_IN

namespace sluice {

namespace {

/* Of pages of 16 KiB: half of what an empty page has for rows. */
constexpr size_t ROW_BYTES_MAX= 8126, ROW_BYTES_MAX_REDUNDANT= 8123;
constexpr size_t KEY_COLUMN_BYTES_MAX= 767;
/* What stays in the row of a value that is stored elsewhere. */
constexpr size_t LOCAL_BYTES= 40, LOCAL_BYTES_OLD= 788;
constexpr size_t ROW_ID_BYTES= 6, TRX_ID_BYTES= 6, ROLL_PTR_BYTES= 7;
constexpr size_t UNLIMITED= UINT_MAX32, FIXED_BYTES_MAX= 768;

struct Format
{
  bool is_redundant, is_old;            // COMPACT is old, too
  size_t page_bytes;                    // of a compressed page; 0: pages are not
  size_t row_bytes_max() const { return is_redundant ? ROW_BYTES_MAX_REDUNDANT : ROW_BYTES_MAX; }
  size_t local_bytes() const { return is_old ? LOCAL_BYTES_OLD : LOCAL_BYTES; }
  /* Of an index with so many columns. A compressed page has less room. */
  size_t room_of_row(size_t columns) const;
  size_t room_of_key(size_t columns) const { return page_bytes ? room_of_row(columns) / 2 : row_bytes_max(); }
};

/* The page's header, and what one record needs beside its columns; what zlib may add to a
   description of the columns, two bytes for each. */
size_t Format::room_of_row(size_t columns) const
{
  constexpr size_t HEADER_BYTES= 94, RECORD_BYTES= 12, BYTES_OF_ZLIB= 13;
  const size_t taken= HEADER_BYTES + RECORD_BYTES + 2 * (columns + 1) + BYTES_OF_ZLIB;
  return !page_bytes ? row_bytes_max() : page_bytes > taken ? page_bytes - taken - 1 : 0;
}

Format format_of(enum row_type asked, ulong key_block_size)
{
  constexpr size_t KIB= 1024, USUAL_PAGE_KIB= 8, PAGE_KIB= 16;
  const bool is_compressed= asked == ROW_TYPE_COMPRESSED || (asked == ROW_TYPE_DEFAULT && key_block_size);
  const size_t page_kib= key_block_size ? key_block_size : USUAL_PAGE_KIB;
  const enum row_type format= asked == ROW_TYPE_DEFAULT && !is_compressed ? default_row_format() : asked;
  return {format == ROW_TYPE_REDUNDANT, format == ROW_TYPE_REDUNDANT || format == ROW_TYPE_COMPACT,
          is_compressed && page_kib < PAGE_KIB ? page_kib * KIB : 0};
}

struct Part
{
  const Field *field;                   // nullptr: one of InnoDB's own columns
  size_t prefix;                        // 0: the whole column
  size_t own_bytes;
};

bool is_long(const Field *field) { return field->flags & BLOB_FLAG; }

size_t most_bytes(const Field *field)
{
  if (is_long(field))
    return UNLIMITED;
  return field->type() == MYSQL_TYPE_VARCHAR ? field->pack_length() - static_cast<const Field_varstring *>(field)->length_bytes : field->pack_length();
}

/* A CHAR whose characters have different lengths is stored without its padding, except in
   REDUNDANT. A longer column counts as one of varying length. */
bool has_fixed_length(const Field *field, const Format &format)
{
  if (is_long(field) || field->type() == MYSQL_TYPE_VARCHAR || field->pack_length() > FIXED_BYTES_MAX)
    return false;
  const bool is_char= field->real_type() == MYSQL_TYPE_STRING;
  return !is_char || format.is_redundant || field->charset()->mbminlen == field->charset()->mbmaxlen;
}

/* The longest row with the parts up to the one at which it is too long. */
struct Overrun
{
  size_t part, bytes;
};

/* key_parts: those that the index's tree has in its inner pages. */
bool find_overrun(const std::vector<Part> &parts, const Format &format, bool is_clustered, size_t key_parts, Overrun *found)
{
  constexpr size_t CHILD_BYTES= 4;
  const size_t room= format.room_of_row(parts.size()), room_of_key= format.room_of_key(parts.size());
  size_t nullable= 0;
  for (const Part &part : parts)
    nullable+= part.field && part.field->real_maybe_null();
  size_t bytes= format.is_redundant ? 6 + 2 * parts.size() : (format.page_bytes ? 2 : 5) + (nullable + 7) / 8;
  for (size_t i= 0; i < parts.size(); i++)
  {
    const Part &part= parts[i];
    if (!part.field)
      bytes+= part.own_bytes;
    else if (has_fixed_length(part.field, format))
      bytes+= part.prefix ? part.prefix : most_bytes(part.field);
    else
    {
      size_t most= most_bytes(part.field);
      if (part.prefix)
        most= MY_MIN(most, part.prefix);
      const size_t length_bytes= format.is_redundant ? 0 : most < 256 ? 1 : 2;
      if (!part.prefix && is_clustered && i >= key_parts && most > format.local_bytes())
        most= format.local_bytes();
      bytes+= length_bytes + most;
    }
    if (bytes >= room || (i + 1 == key_parts && bytes + CHILD_BYTES >= room_of_key))
    {
      *found= {i, bytes};
      return true;
    }
  }
  return false;
}

void add_parts(std::vector<Part> &to, const TABLE *form, const KEY &key, std::set<uint> &known)
{
  for (uint i= 0; i < key.user_defined_key_parts; i++)
  {
    const KEY_PART_INFO &part= key.key_part[i];
    const Field *const field= form->field[part.fieldnr - 1];
    const bool is_prefix= is_long(field) || part.length < most_bytes(field);
    to.push_back({field, is_prefix ? part.length : 0U, 0});
    if (!is_prefix)
      known.insert(part.fieldnr - 1);
  }
}

const KEY *primary_of(const TABLE *form)
{
  return form->s->primary_key < MAX_KEY ? &form->key_info[form->s->primary_key] : nullptr;
}

std::vector<Part> clustered_parts(const TABLE *form, size_t *key_parts)
{
  std::vector<Part> parts;
  std::set<uint> known;
  if (const KEY *primary= primary_of(form))
    add_parts(parts, form, *primary, known);
  else
    parts.push_back({nullptr, 0, ROW_ID_BYTES});
  *key_parts= parts.size();
  parts.push_back({nullptr, 0, TRX_ID_BYTES});
  parts.push_back({nullptr, 0, ROLL_PTR_BYTES});
  for (uint i= 0; i < form->s->fields; i++)
    if (form->field[i]->stored_in_db() && !known.count(i))
      parts.push_back({form->field[i], 0, 0});
  return parts;
}

std::vector<Part> secondary_parts(const TABLE *form, const KEY &key)
{
  std::vector<Part> parts, primary_parts;
  std::set<uint> known, in_primary;
  add_parts(parts, form, key, known);
  if (const KEY *primary= primary_of(form))
    add_parts(primary_parts, form, *primary, in_primary);
  else
    parts.push_back({nullptr, 0, ROW_ID_BYTES});
  for (const Part &part : primary_parts)
    if (!known.count(part.field->field_index))
      parts.push_back(part);
  return parts;
}

bool is_of_server(const TABLE *form)
{
  return is_infoschema_db(&form->s->db) || is_perfschema_db(&form->s->db) || !strcmp(form->s->db.str, "mysql");
}

std::string row_text(const Format &format)
{
  return "Row size too large (> " + std::to_string(format.row_bytes_max()) + "). Changing some columns to TEXT or BLOB " +
         (format.is_old ? "or using ROW_FORMAT=DYNAMIC or ROW_FORMAT=COMPRESSED " : "") + "may help. In current row format, BLOB prefix of " +
         (format.is_old ? "768" : "0") + " bytes is stored inline.";
}

/* The error log tells which column it is. */
void note_overrun(THD *thd, const TABLE *form, const Field *field, size_t bytes, const Format &format, bool is_error)
{
  constexpr uint WARNINGS_OF_ALL= 2;
  if (!is_error && global_system_variables.log_warnings <= WARNINGS_OF_ALL)
    return;
  const std::string column= field ? field->field_name.str : "DB_ROW_ID";
  const std::string text= SLUICE_ENGINE_NAME ": Cannot add field `" + column + "` in table `" + form->s->db.str + "`.`" +
                          form->s->table_name.str + "` because after adding it, the row size is " + std::to_string(bytes) +
                          " which is greater than maximum allowed size (" + std::to_string(format.row_bytes_max()) +
                          " bytes) for a record on index leaf page.";
  is_error ? sql_print_error("%s", text.c_str()) : sql_print_warning("%s", text.c_str());
}

} // namespace

int check_key_limits(const KEY &key, enum row_type asked)
{
  for (uint part= 0; format_of(asked, 0).is_old && part < key.user_defined_key_parts; part++)
    if (key.key_part[part].length > KEY_COLUMN_BYTES_MAX)
    {
      my_error(ER_INDEX_COLUMN_TOO_LONG, MYF(0), static_cast<uint>(KEY_COLUMN_BYTES_MAX));
      return HA_WRONG_CREATE_OPTION;
    }
  return 0;
}

bool is_too_long_with(const TABLE *form, enum row_type asked, size_t gone_bytes)
{
  size_t key_parts= 0;
  std::vector<Part> parts= clustered_parts(form, &key_parts);
  parts.push_back({nullptr, 0, gone_bytes});
  Overrun overrun;
  return find_overrun(parts, format_of(asked, 0), true, key_parts, &overrun);
}

int check_innodb_limits(THD *thd, const TABLE *form, const HA_CREATE_INFO *info, Limits limits)
{
  const enum row_type asked= info->row_type;
  if (is_of_server(form))
    return 0;
  const Format format= format_of(asked, info->key_block_size);
  for (uint i= 0; i < form->s->keys; i++)
    if (const int error= check_key_limits(form->key_info[i], asked))
      return error;
  const bool strict= limits != LIMITS_AS_WARNINGS && strict_mode(thd);
  for (uint i= 0; i <= form->s->keys; i++)
  {
    const bool is_clustered= i == form->s->keys;
    if (i == form->s->primary_key)
      continue;
    size_t key_parts= 0;
    const std::vector<Part> parts= is_clustered ? clustered_parts(form, &key_parts) : secondary_parts(form, form->key_info[i]);
    if (!is_clustered)
      key_parts= parts.size();
    Overrun overrun;
    if (!find_overrun(parts, format, is_clustered, key_parts, &overrun))
      continue;
    note_overrun(thd, form, parts[overrun.part].field, overrun.bytes, format, strict);
    if (!strict)
    {
      push_warning(thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_TO_BIG_ROW, row_text(format).c_str());
      continue;
    }
    if (limits == LIMITS_IN_PLACE)
      my_error(ER_TOO_BIG_ROWSIZE, MYF(0), static_cast<long>(format.row_bytes_max()));
    else
      my_printf_error(ER_TOO_BIG_ROWSIZE, "%s", MYF(0), row_text(format).c_str());
    return HA_WRONG_CREATE_OPTION;
  }
  return 0;
}

} // namespace sluice

#endif

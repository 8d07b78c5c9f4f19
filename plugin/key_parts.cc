/* Shapes and domains of the parts of keys.

   A domain says what a column's values are. Equal values of two columns with the same domain and
   shape have the same image, and unequal values have different ones. So a type's length is part of
   it where the image depends on the length, and nothing else is. The engine knows the domains of
   BINARY and VARBINARY, which it compares with each other (byte_strings.rs). */
#include "key_parts.h"

namespace sluice {

slc_key_part part_shape(const KeyPart &part)
{
  slc_key_part shape{};
  shape.nullable= part.nullable;
  shape.inverted= part.descending;
  if (part.column.is_fixed())
    shape.fixed= part.image_length_max - part.nullable;
  else
    shape.level_count= static_cast<uint8_t>(part.string.levels(shape.levels));
  return shape;
}

static std::string with_number(const char *name, uint number) { return std::string(name) + "(" + std::to_string(number) + ")"; }

/* A CHAR is compared as a VARCHAR is under a PAD SPACE collation alone (string_image.h). */
static std::string domain_of_string(const KeyPart &part)
{
  const CHARSET_INFO *const cs= part.column.charset;
  const std::string collation= std::string("string ") + cs->coll_name.str;
  if (part.column.kind != Kind::CHARS)
    return collation;
  if (part.string.counts_spaces())
    return collation + " " + with_number("char", part.column.length / cs->mbmaxlen);
  return cs->state & MY_CS_NOPAD ? collation + " char" : collation;
}

static std::string domain_of_fixed(const Field *field, uint length)
{
  switch (field->real_type())
  {
  case MYSQL_TYPE_TINY:
  case MYSQL_TYPE_SHORT:
  case MYSQL_TYPE_INT24:
  case MYSQL_TYPE_LONG:
  case MYSQL_TYPE_LONGLONG:
    return std::string(field->flags & UNSIGNED_FLAG ? "unsigned integer" : "integer") + " of " + std::to_string(length) +
           (length == 1 ? " byte" : " bytes");
  case MYSQL_TYPE_YEAR: return "year";
  case MYSQL_TYPE_NEWDATE: return "date";
  /* As in InnoDB: by the number of the member. */
  case MYSQL_TYPE_ENUM: return with_number("enum", length);
  case MYSQL_TYPE_SET: return with_number("set", length);
  case MYSQL_TYPE_NEWDECIMAL:
  {
    const Field_new_decimal *const decimal= static_cast<const Field_new_decimal *>(field);
    return "decimal(" + std::to_string(decimal->precision) + "," + std::to_string(decimal->dec) + ")";
  }
  case MYSQL_TYPE_TIMESTAMP2: return with_number("timestamp", field->decimals());
  case MYSQL_TYPE_TIME2: return with_number("time", field->decimals());
  case MYSQL_TYPE_DATETIME2: return with_number("datetime", field->decimals());
  case MYSQL_TYPE_BIT: return with_number("bit", field->field_length);
  default: break;
  }
  /* BINARY, INET6, UUID, floats; times as old servers stored them. */
  const Name name= field->type_handler()->name();
  const std::string text= dynamic_cast<const Field_string *>(field) ? "binary" : std::string(name.ptr(), name.length());
  return with_number(text.c_str(), length);
}

/* The past versions of a row share its key with it. If the table's rows do not tell them, no key of
   it can be one end of a foreign key. */
std::string domain_of(const TABLE *table, const Codec &codec, const KeyPart &part)
{
  const std::string domain= part.column.is_fixed() ? domain_of_fixed(table->field[part.column.field], part.column.length)
                                                   : domain_of_string(part);
  return table->versioned() && !codec.marks_past() ? domain + ", with system versioning" : domain;
}

IndexParts::IndexParts(const TABLE *table, const Codec &codec)
  : m_parts(1 + codec.secondary_count()), m_domains(m_parts.size())
{
  for (uint i= 0; i < m_parts.size(); i++)
  {
    if (!i && !codec.has_primary_key())
      continue;
    const std::vector<KeyPart> &parts= codec.key(i ? codec.server_index(i) : codec.primary()).parts;
    for (const KeyPart &part : parts)
      m_domains[i].push_back(domain_of(table, codec, part));
    for (uint p= 0; p < parts.size(); p++)
    {
      const Field *const field= table->field[parts[p].column.field];
      const bool whole= parts[p].column.kind != Kind::BLOBS && parts[p].length >= field->key_length();
      m_parts[i].push_back({field->field_name.str, m_domains[i][p].c_str(), whole, part_shape(parts[p])});
    }
  }
}

} // namespace sluice

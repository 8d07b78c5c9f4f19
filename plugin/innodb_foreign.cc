/* Why a foreign key is refused, in InnoDB's words; see innodb_foreign.h. Compiled only for a plugin
   with InnoDB's name. */
#include "innodb_foreign.h"
#include "settings.h"

#ifdef SLUICE_STAND_IN

namespace sluice {

namespace {

thread_local const ForeignStatement *at_work;

/* What is between two texts; empty: they are not both there. */
std::string between(const std::string &text, const std::string &before, const std::string &after)
{
  const size_t at= text.find(before);
  if (at == std::string::npos)
    return "";
  const size_t from= at + before.size(), end= after.empty() ? text.size() : text.find(after, from);
  return end == std::string::npos ? "" : text.substr(from, end - from);
}

bool has(const std::string &text, const char *part) { return text.find(part) != std::string::npos; }

const char NOT_FOUND[]= " was not found.";

/* The reason, from the engine's; empty: InnoDB has none like it. */
std::string reason_for(const std::string &why)
{
  if (has(why, "a temporary table cannot have one"))
    return "Temporary tables can't have foreign key constraints.";
  const std::string missing= between(why, "the parent table ", " does not exist");
  if (!missing.empty())
    return "Referenced table " + missing + " not found in the data dictionary.";
  const std::string lacking= between(why, " has no column ", "");
  if (!lacking.empty())
    return "Column " + lacking + NOT_FOUND;
  if (has(why, " has no index whose first columns are "))
    return "There is no index in the referenced table where the referenced columns appear as the first columns.";
  const std::string not_null= between(why, "SET NULL is not possible, because column ", " is NOT NULL");
  if (!not_null.empty())
    return "You have defined a SET NULL condition but column '" + not_null + "' is defined as NOT NULL.";
  const std::string column= between(why, "column ", " ("), parent_column= between(why, " has another type than column ", " (");
  if (!column.empty() && !parent_column.empty())
    return "Field type or character set for column '" + column + "' does not match referenced column '" + parent_column + "'.";
  return "";
}

} // namespace

ForeignStatement::ForeignStatement(const std::string &table, bool alters) : m_table(table), m_alters(alters) { at_work= this; }
ForeignStatement::~ForeignStatement() { at_work= nullptr; }

/* "foreign key `a` ", or "foreign key (a) " of one without a name. */
std::string ForeignStatement::subject_of(const std::string &constraint) const
{
  for (const StatedForeignKey &key : m_keys)
    if (key.constraint == constraint)
      return key.is_named ? "foreign key `" + constraint + "` " : "foreign key " + key.columns + " ";
  return "foreign key ";
}

std::string ForeignStatement::text_for(const std::string &text) const
{
  const std::string taken= between(text, "a foreign key named ", " exists");
  if (!taken.empty())
    for (const StatedForeignKey &key : m_keys)
      if (key.constraint == taken.substr(taken.find('/') + 1))
        return "CREATE or ALTER TABLE " + m_table + " failed: duplicate name, CONSTRAINT `" + key.constraint + "` " + key.definition;
  const std::string constraint= between(text, "foreign key ", ": ");
  if (constraint.empty())
    return text;
  const std::string why= between(text, constraint + ": ", "");
  if (has(why, "the table has another one of this name"))
    return "";
  const std::string reason= reason_for(why);
  const char *const with= has(reason, NOT_FOUND) ? " " : " with ";
  return reason.empty() ? text
                        : std::string(m_alters ? "Alter" : "Create") + "  table " + m_table + with + subject_of(constraint) +
                            "constraint failed. " + reason;
}

std::string innodb_foreign_text(const std::string &text)
{
  const std::string unchanged= SLUICE_ENGINE_NAME ": " + text;
  if (!at_work)
    return unchanged;
  const std::string words= at_work->text_for(text);
  return words == text ? unchanged : words;
}

} // namespace sluice

#endif

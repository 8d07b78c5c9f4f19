/* Why a foreign key is refused, in InnoDB's words: programs and people look for them.
   Used by: foreign (the warning), foreign_ddl (the statement at work). */
#ifndef SLUICE_INNODB_FOREIGN_H
#define SLUICE_INNODB_FOREIGN_H
#include "compat.h"

#ifdef SLUICE_STAND_IN
#include <string>
#include <vector>

namespace sluice {

/* A foreign key of the statement that is at work. */
struct StatedForeignKey
{
  std::string constraint;
  bool is_named;
  std::string columns, definition;      /* "(`a`)", "FOREIGN KEY (`a`) REFERENCES `t` (`b`)" */
};

/* The CREATE or ALTER TABLE that this thread carries out, until the object goes. */
class ForeignStatement
{
public:
  ForeignStatement(const std::string &table, bool alters);
  ~ForeignStatement();
  ForeignStatement(const ForeignStatement &)= delete;
  void add(StatedForeignKey key) { m_keys.push_back(std::move(key)); }
  /* InnoDB's text for that of a warning; empty: InnoDB gives none. */
  std::string text_for(const std::string &text) const;

private:
  std::string subject_of(const std::string &constraint) const;
  const std::string m_table;
  const bool m_alters;
  std::vector<StatedForeignKey> m_keys;
};

/* As text_for(), with the text itself where there is no statement. */
std::string innodb_foreign_text(const std::string &text);

} // namespace sluice
#endif
#endif

/* The engine's name of a table ("./schema/table", "./schema/table#P#partition",
   "./schema/table#P#partition#SP#subpartition"), taken apart into the names that people know. Used
   by: the tables of INFORMATION_SCHEMA, and messages. */
#ifndef SLUICE_TABLE_PATH_H
#define SLUICE_TABLE_PATH_H
#include "compat.h"
#include <string>

namespace sluice {

struct TablePath
{
  /* Partition: empty if there is none; "p.s" of a subpartition. */
  std::string schema, table, partition;

  explicit TablePath(const std::string &path)
  {
    const size_t slash= path.rfind('/');
    const size_t before= slash == std::string::npos || !slash ? std::string::npos : path.rfind('/', slash - 1);
    const size_t from= before == std::string::npos ? 0 : before + 1;
    if (slash != std::string::npos)
      schema= shown(path.substr(from, slash - from));
    table= slash == std::string::npos ? path : path.substr(slash + 1);
    const size_t at= table.find("#P#");
    if (at != std::string::npos)
    {
      const std::string text= table.substr(at + 3);
      const size_t sub= text.find("#SP#");
      partition= sub == std::string::npos ? shown(text) : shown(text.substr(0, sub)) + "." + shown(text.substr(sub + 4));
      table.resize(at);
    }
    table= shown(table);
  }

  /* As in a statement. */
  std::string quoted() const
  {
    const std::string name= in_backticks(schema) + "." + in_backticks(table);
    return partition.empty() ? name : name + " /* Partition " + in_backticks(partition) + " */";
  }

private:
  static std::string in_backticks(const std::string &name)
  {
    std::string text= "`";
    for (const char c : name)
      text+= c == '`' ? std::string("``") : std::string(1, c);
    return text + "`";
  }
  static std::string shown(const std::string &part)
  {
    char name[NAME_LEN * 2 + 1];
    return std::string(name, filename_to_tablename(part.c_str(), name, sizeof name, true));
  }
};

/* For messages. What is no path below the data directory (a temporary table's name, a word in
   parentheses) as it is. */
inline std::string shown_table(const std::string &path)
{
  return path.compare(0, 2, "./") ? path : TablePath(path).quoted();
}

} // namespace sluice
#endif

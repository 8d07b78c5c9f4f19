/* The engine's name of a table ("./schema/table", "./schema/table#P#partition",
   "./schema/table#P#partition#SP#subpartition", "./schema/table#i#NN" of a vector index's graph),
   taken apart into the names that people know. Used by: the tables of INFORMATION_SCHEMA, messages,
   and statements about tables with a graph. */
#ifndef SLUICE_TABLE_PATH_H
#define SLUICE_TABLE_PATH_H
#include "compat.h"
#include <string>

namespace sluice {

/* Where the end of a graph's name begins; npos: the table is no graph. A '#' of a user's name is
   written in another way in paths. */
inline size_t graph_suffix_at(const std::string &path)
{
  constexpr size_t LENGTH= 5;           // "#i#NN"
  const size_t at= path.size() < LENGTH ? std::string::npos : path.size() - LENGTH;
  return at != std::string::npos && !path.compare(at, 3, "#i#") ? at : std::string::npos;
}

inline bool is_graph_path(const std::string &path) { return graph_suffix_at(path) != std::string::npos; }

/* The graph of the vector index that has this number in the server. */
inline std::string graph_path(const std::string &table, uint index)
{
  return table + "#i#" + static_cast<char>('0' + index / 10 % 10) + static_cast<char>('0' + index % 10);
}

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
    const size_t graph_at= graph_suffix_at(table);
    table= graph_at == std::string::npos ? shown(table) : shown(table.substr(0, graph_at)) + table.substr(graph_at);
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

/* SHOW ENGINE INNODB STATUS of the stand-in: the engine's text in InnoDB's words, so that programs
   that parse it find what they look for. Sections keep their order. What the engine has besides
   stays, in its own words, after InnoDB's lines. Compiled only for a plugin with InnoDB's name.
   Called by: hton. */
#include "innodb_monitor.h"
#include "engine.h"
#include "innodb_sessions.h"
#include <vector>

#ifdef SLUICE_STAND_IN

namespace sluice {

namespace {

bool begins(const std::string &line, const char *with) { return !line.compare(0, strlen(with), with); }

std::string underlined(const std::string &title, char with)
{
  const std::string line(title.size(), with);
  return line + "\n" + title + "\n" + line + "\n";
}

std::vector<std::string> lines_of(const std::string &text)
{
  std::vector<std::string> lines;
  for (size_t from= 0; from < text.size();)
  {
    const size_t end= MY_MIN(text.find('\n', from), text.size());
    lines.push_back(text.substr(from, end - from));
    from= end + 1;
  }
  return lines;
}

/* The numbers of a line, in their order. */
std::vector<std::string> numbers_of(const std::string &line)
{
  std::vector<std::string> numbers;
  for (size_t from= 0; from < line.size();)
  {
    const size_t begin= line.find_first_of("0123456789", from);
    if (begin == std::string::npos)
      break;
    const size_t end= MY_MIN(line.find_first_not_of("0123456789.", begin), line.size());
    numbers.push_back(line.substr(begin, end - begin));
    from= end;
  }
  return numbers;
}

std::string sum(const std::string &a, const std::string &b) { return std::to_string(std::stoull(a) + std::stoull(b)); }

/* InnoDB's lines for a line of the engine; empty: the line is shown unchanged. */
std::string innodb_lines_for(const std::string &line)
{
  const std::vector<std::string> n= numbers_of(line);
  if (begins(line, "Averages per second and hit rates") && n.size() == 1)
    return "Per second averages calculated from the last " + std::to_string(static_cast<ulonglong>(std::stod(n[0]) + 0.5)) + " seconds";
  if (begins(line, "History list length ") && n.size() == 2)
    return "History list length " + n[0] + "\nBytes of undo " + n[1];
  if (line.find(" fsyncs of data files; ") != std::string::npos && n.size() == 5)
    return n[0] + " OS file reads, " + sum(n[1], n[3]) + " OS file writes, " + sum(n[2], n[4]) + " OS fsyncs\nOf them " + n[3] +
           " log writes, " + n[4] + " log fsyncs";
  if (begins(line, "Mutex waits ") && n.size() == 2)
    return "Mutex waits " + n[0] + ", now " + n[1] + " (SHOW ENGINE INNODB MUTEX has them by mutex)";
  if (begins(line, "Change buffer: size "))
    return "Ibuf" + line.substr(strlen("Change buffer"));
  /* The engine does not count the kinds of discarded changes separately. */
  if (begins(line, "discarded operations: ") && n.size() == 1)
    return "discarded operations:\n insert " + n[0] + ", delete mark 0, delete 0";
  if (begins(line, "Last checkpoint at ") && n.size() == 1)
    return "Pages flushed up to " + n[0] + "\nLast checkpoint at  " + n[0];
  if (begins(line, "Log flushed up to ") && n.size() == 1)
    return "Log flushed up to   " + n[0];
  if (begins(line, "Percent of dirty pages: "))
    return "Percent of dirty pages(LRU & free pages): " + line.substr(strlen("Percent of dirty pages: "));
  if (begins(line, "Buffer pool no requests"))
    return "No buffer pool page gets since the last printout";
  if (line.find(" read views open; ") != std::string::npos && n.size() == 2)
    return n[0] + " read views open inside InnoDB\n" + n[1] + " transactions that have written";
  return "";
}

} // namespace

std::string monitor_text(const std::string &text)
{
  static const char TITLE[]= "SLUICE STATUS", CHANGES[]= "INSERT BUFFER (CHANGE BUFFER)", FILES[]= "FILE I/O";
  std::string out= "\n", buffered;
  const std::vector<std::string> lines= lines_of(text);
  for (size_t i= 0; i < lines.size(); i++)
  {
    const std::string &line= lines[i], next= i + 1 < lines.size() ? lines[i + 1] : "";
    const size_t title= next.find(TITLE);
    if (title != std::string::npos && !line.empty() && line[0] == '=')
    {
      out+= underlined(next.substr(0, title) + "INNODB MONITOR OUTPUT", '=');
      i+= 2;
    }
    else if (next == CHANGES && !line.empty() && line[0] == '-')
    {
      out+= underlined("INSERT BUFFER AND ADAPTIVE HASH INDEX", '-');
      i+= 2;
    }
    else if (next == FILES && !line.empty() && line[0] == '-')
      out+= transactions_of_sessions() + line + "\n";
    else if (line == "buffered operations:")
    {
      /* InnoDB has no such lines: they are shown after its own lines about the change buffer. */
      buffered= line + next + "\n";
      i++;
    }
    else
    {
      const std::string shown= innodb_lines_for(line);
      out+= (shown.empty() ? line : shown) + "\n";
      if (begins(line, "discarded operations"))
        out+= buffered;
    }
  }
  return out + "----------------------------\nEND OF INNODB MONITOR OUTPUT\n============================\n";
}

} // namespace sluice

#endif

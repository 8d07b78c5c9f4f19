/* An entry of the server's error log is at most 1,023 bytes. sql_print_information() and its
   sisters put it together in a buffer of 1,024 (sql/log.cc), and cut what does not fit without a
   note. A note of the engine may be longer, mostly the account of a deadlock with its statements.
   It then comes in several entries, each with a heading:

     SLUICE: deadlock found (1/2):
     ...
     SLUICE: deadlock found, continued (2/2):
     ...

   The title is the note's first line if that ends with a colon. An entry ends before a line that is
   not indented, if that leaves it half full. Else it ends at the end of a line, if it can, and
   never within a character. Entries of two notes do not mix. Entries of other parts of the server
   may come between, hence the headings.
   Latches: one mutex of its own, over the server's for the log. Called by: the engine, from any
   thread. */
#include "log_note.h"
#include "compat.h"
#include "engine.h"
#include "settings.h"
#include <mutex>
#include <string>
#include <vector>

namespace sluice {

namespace {

constexpr size_t ENTRY_BYTES_MAX= 1023;
constexpr size_t TITLE_BYTES_MAX= 100;
/* After the title of each entry. */
constexpr size_t HEADING_BYTES_MAX= sizeof(", continued (100/100):\n");

void log_entry(char level, const std::string &text)
{
  switch (level)
  {
  case 'E': sql_print_error("%s", text.c_str()); break;
  case 'W': sql_print_warning("%s", text.c_str()); break;
  default: sql_print_information("%s", text.c_str()); break;
  }
}

bool is_inside_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/* Where an entry of at most `room` bytes that begins at `from` ends. */
size_t end_of_entry(const std::string &text, size_t from, size_t room)
{
  if (text.size() - from <= room)
    return text.size();
  const size_t line_end= text.rfind('\n', from + room);
  size_t block_end= line_end;
  while (block_end != std::string::npos && block_end > from + room / 2 && text[block_end + 1] == ' ')
    block_end= text.rfind('\n', block_end - 1);
  if (block_end != std::string::npos && block_end > from + room / 2)
    return block_end;
  if (line_end != std::string::npos && line_end > from)
    return line_end;
  size_t to= from + room;
  while (to > from + 1 && is_inside_character(text[to]))
    to--;
  return to;
}

std::vector<std::string> entries_of(const std::string &text, size_t room)
{
  std::vector<std::string> entries;
  for (size_t from= 0; from < text.size();)
  {
    const size_t to= end_of_entry(text, from, room);
    entries.push_back(text.substr(from, to - from));
    from= to + (text[to] == '\n');
  }
  return entries;
}

} // namespace

void log_note(void *, const char *text, size_t length)
{
  static std::mutex mutex;
  const std::lock_guard<std::mutex> alone(mutex);
  const std::string name= SLUICE_ENGINE_NAME ": ";
  const char level= text[0];
  std::string body(text + 1, length - 1);
#ifdef SLUICE_STAND_IN
  /* One with more lines has statements of users. */
  if (body.find('\n') == std::string::npos)
    body= in_names_of_innodb(body);
#endif
  if (name.size() + body.size() <= ENTRY_BYTES_MAX)
    return log_entry(level, name + body);
  std::string title;
  const size_t line_end= body.find('\n');
  if (line_end != std::string::npos && line_end > 0 && line_end <= TITLE_BYTES_MAX && body[line_end - 1] == ':')
  {
    title= body.substr(0, line_end - 1);
    body.erase(0, line_end + 1);
  }
  const std::vector<std::string> entries= entries_of(body, ENTRY_BYTES_MAX - name.size() - title.size() - HEADING_BYTES_MAX);
  for (size_t i= 0; i < entries.size(); i++)
  {
    const std::string place= "(" + std::to_string(i + 1) + "/" + std::to_string(entries.size()) + ")";
    const std::string heading= title.empty() ? (i ? "continued " : "") + place + ": " : title + (i ? ", continued " : " ") + place + ":\n";
    log_entry(level, name + heading + entries[i]);
  }
}

} // namespace sluice

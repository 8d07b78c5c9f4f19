/* Notes for the server's error log that may be longer than one entry of it. */
#ifndef SLUICE_LOG_NOTE_H
#define SLUICE_LOG_NOTE_H
#include <stddef.h>

namespace sluice {

/* As slc_config::log: the first character is the level. */
void log_note(void *, const char *text, size_t length);

} // namespace sluice
#endif

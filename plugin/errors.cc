/* One table of errors; what else an error entails is below it. */
#include "errors.h"
#include "connection.h"
#include "engine.h"
#include "foreign.h"
#include "mutant.h"
#include "settings.h"
#include "table_path.h"
#include <string>

namespace sluice {

namespace {

struct Translation
{
  slc_err from;
  int to;
  bool damage;                          // belongs into the error log
};

const Translation translations[]= {
  {SLC_OK, 0, false},
  {SLC_NOT_FOUND, HA_ERR_KEY_NOT_FOUND, false},
  {SLC_END, HA_ERR_END_OF_FILE, false},
  {SLC_DUPLICATE, HA_ERR_FOUND_DUPP_KEY, false},
  {SLC_LOCK_WAIT_TIMEOUT, HA_ERR_LOCK_WAIT_TIMEOUT, false},
  {SLC_DEADLOCK, HA_ERR_LOCK_DEADLOCK, false},
  {SLC_INTERRUPTED, HA_ERR_ABORTED_BY_USER, false},
  {SLC_CONFLICT, HA_ERR_RECORD_CHANGED, false},
  {SLC_FULL, HA_ERR_RECORD_FILE_FULL, true},
  {SLC_CORRUPT, HA_ERR_CRASHED, true},
  {SLC_IO, SLUICE_ERR_IO, true},
  {SLC_POISONED, SLUICE_ERR_POISONED, false},
  {SLC_UNSUPPORTED, SLUICE_ERR_UNSUPPORTED, false},
  {SLC_EXISTS, HA_ERR_TABLE_EXIST, false},
  {SLC_NO_TABLE, HA_ERR_NO_SUCH_TABLE, false},
  {SLC_TOO_BIG, HA_ERR_TO_BIG_ROW, false},
  {SLC_READ_ONLY, HA_ERR_TABLE_READONLY, false},
  {SLC_TABLE_CHANGED, HA_ERR_TABLE_DEF_CHANGED, false},
  {SLC_LOCKED, HA_ERR_LOCK_WAIT_TIMEOUT, false},
  {SLC_ONLINE_ALTER_FULL, SLUICE_ERR_ONLINE_ALTER_FULL, false},
  {SLC_NO_REFERENCED_ROW, HA_ERR_NO_REFERENCED_ROW, false},
  {SLC_ROW_IS_REFERENCED, HA_ERR_ROW_IS_REFERENCED, false},
  {SLC_FOREIGN_DUPLICATE, HA_ERR_FOREIGN_DUPLICATE_KEY, false},
  {SLC_FOREIGN_NEEDS_INDEX, HA_ERR_DROP_INDEX_FK, false},
  {SLC_TABLE_IS_REFERENCED, HA_ERR_ROW_IS_REFERENCED, false},
  {SLC_FOREIGN_DEPTH, HA_ERR_FK_DEPTH_EXCEEDED, false},
  {SLC_FOREIGN_DEFINITION, HA_ERR_CANNOT_ADD_FOREIGN, false},
  {SLC_FOREIGN_UNFIT, HA_ERR_CANNOT_ADD_FOREIGN, false},
  {SLC_FOREIGN_NO_PARENT_INDEX, HA_ERR_CANNOT_ADD_FOREIGN, false},
  {SLC_FOREIGN_NOT_NULL, HA_ERR_CANNOT_ADD_FOREIGN, false},
  {SLC_FOREIGN_NAME_TAKEN, HA_ERR_FOUND_DUPP_KEY, false},
  {SLC_ROW_NOT_MADE, SLUICE_ERR_ALREADY_REPORTED, false},
};

thread_local char last_text[1024];

/* What stands before the error's text: whose it is, unless the text says so itself. */
std::string whose(const char *object)
{
  const std::string name= *object == '(' ? object : "table " + shown_table(object);
  return strstr(last_text, name.c_str()) ? "" : name + ": ";
}

void note_foreign_error(slc_err error, THD *thd)
{
  switch (error)
  {
  case SLC_NO_REFERENCED_ROW:
  case SLC_ROW_IS_REFERENCED:
  case SLC_FOREIGN_DUPLICATE:
    note_foreign_fault();
    if (thd)
      keep_latest_foreign_error(thd, last_text);
    break;
  case SLC_FOREIGN_DEPTH:
    note_foreign_fault();
    if (thd)
      warn_of_foreign_key(thd, HA_ERR_ROW_IS_REFERENCED, last_text);
    break;
  case SLC_FOREIGN_NEEDS_INDEX:
  case SLC_TABLE_IS_REFERENCED:
    note_foreign_fault();
    break;
  case SLC_FOREIGN_NO_PARENT_INDEX:
    if (thd)
    {
      const std::string lacking= ForeignDefinition::missing_parent_column(thd, string_of(slc_foreign_name()));
      warn_of_foreign_key(thd, HA_ERR_CANNOT_ADD_FOREIGN, lacking.empty() ? last_text : lacking.c_str());
    }
    break;
  case SLC_FOREIGN_DEFINITION:
  case SLC_FOREIGN_UNFIT:
  case SLC_FOREIGN_NOT_NULL:
    if (thd)
      warn_of_foreign_key(thd, HA_ERR_CANNOT_ADD_FOREIGN, last_text);
    break;
  case SLC_FOREIGN_NAME_TAKEN:
    if (thd)
    {
      warn_of_foreign_key(thd, HA_ERR_FOUND_DUPP_KEY, last_text);
      Connection::of(thd)->set_duplicate_key(MAX_KEY);
    }
    break;
  default:
    break;
  }
}

/* The server has no message for an interrupted statement that is not killed: it would answer OK. So
   the transaction is rolled back as the victim of a deadlock. No thread may end a wait so. */
slc_err unless_killed(slc_err error, const THD *thd)
{
  if (likely(error != SLC_INTERRUPTED) || !thd || thd->killed != NOT_KILLED || planted(Mutant::WaitOfNextStatementEnded))
    return error;
  sql_print_error(SLUICE_ENGINE_NAME ": connection %llu: a wait was ended, though nothing had killed its statement; its transaction is rolled back",
                  static_cast<ulonglong>(thd->thread_id));
  return SLC_DEADLOCK;
}

} // namespace

int server_error(slc_err error, THD *thd, const char *object)
{
  if (likely(error == SLC_OK))
    return 0;
  error= unless_killed(error, thd);
  const Translation *found= nullptr;
  for (const Translation &translation : translations)
    if (translation.from == error)
      found= &translation;
  if (needs_no_text(error))
    return found->to;
  if (!slc_error_text(last_text, sizeof last_text))
    snprintf(last_text, sizeof last_text, "the engine refused (%d)", error);
  if (!found)
  {
    sql_print_error(SLUICE_ENGINE_NAME ": %sunknown engine error %d: %s", whose(object).c_str(), error, last_text);
    return HA_ERR_GENERIC;
  }
  if (error == SLC_POISONED && thd)
    /* Of a COMMIT that failed so only the next start can tell what became of it. */
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_NOTE, ER_UNKNOWN_ERROR, SLUICE_ENGINE_NAME ": %s", last_text);
  if (error == SLC_TOO_BIG && thd)
    /* The server's text names neither the index nor the lengths. */
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_NOTE, ER_UNKNOWN_ERROR, SLUICE_ENGINE_NAME ": %s%s", whose(object).c_str(), last_text);
  note_foreign_error(error, thd);
  if (found->damage)
  {
    sql_print_error(SLUICE_ENGINE_NAME ": %s%s", whose(object).c_str(), last_text);
    if (thd)
      /* A note: strict mode would make the statement's error of a warning. */
      push_warning_printf(thd, Sql_condition::WARN_LEVEL_NOTE, ER_UNKNOWN_ERROR, SLUICE_ENGINE_NAME ": %s%s", whose(object).c_str(),
                          last_text);
  }
  if (thd)
  {
    if (error == SLC_CONFLICT)
      slc_engine_count_conflict(engine);
    if (error == SLC_DEADLOCK || error == SLC_CONFLICT)
      thd->mark_transaction_to_rollback(true);
    else if (error == SLC_LOCK_WAIT_TIMEOUT)
      thd->mark_transaction_to_rollback(settings.rollback_on_timeout);
  }
  return error == SLC_ROW_NOT_MADE && thd ? Connection::of(thd)->foreign_rows().error() : found->to;
}

int report_error(slc_err error)
{
  if (likely(error == SLC_OK))
    return 0;
  char text[sizeof last_text];
  slc_error_text(text, sizeof text);
  my_printf_error(ER_UNKNOWN_ERROR, SLUICE_ENGINE_NAME ": %s", MYF(0), text);
  return 1;
}

const char *error_text(int error)
{
  /* The server knows the others, or prints what handler::get_error_message() says instead. */
  if (error < SLUICE_ERR_FIRST)
    return "";
  return last_text;
}

int bad_row(const char *object, uint definition)
{
  if (definition)
    snprintf(last_text, sizeof last_text, "a stored row is of definition %u, which the table's list of row definitions does not have", definition);
  else
    snprintf(last_text, sizeof last_text, "a stored row or index entry does not have the form of the table's definition");
  sql_print_error(SLUICE_ENGINE_NAME ": %s%s", whose(object).c_str(), last_text);
  return SLUICE_ERR_BAD_ROW;
}

} // namespace sluice

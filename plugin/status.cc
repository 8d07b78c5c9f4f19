/* Sluice_* status variables: whatever counters the engine has, under their own names. The list is made anew each time
   SHOW STATUS asks, from the engine's fixed list. */
#include "engine.h"
#include "settings.h"

namespace sluice {

namespace {

constexpr uint COUNTERS_MAX= 512;
SHOW_VAR counter_vars[COUNTERS_MAX + 1];
ulonglong counter_values[COUNTERS_MAX];

/* Shown as ON or OFF. (Its first byte is all that SHOW_BOOL looks at.) */
bool is_switch(const char *name) { return !strcmp(name, "redo_log_enabled"); }

int show_counters(THD *, SHOW_VAR *var, void *, system_status_var *, enum_var_type)
{
  const uint count= MY_MIN(slc_counter_count(), COUNTERS_MAX);
  for (uint i= 0; i < count; i++)
  {
    counter_values[i]= slc_counter_value(engine, i);
    counter_vars[i].name= slc_counter_name(i);
    counter_vars[i].value= &counter_values[i];
    counter_vars[i].type= is_switch(counter_vars[i].name) ? SHOW_BOOL : SHOW_LONGLONG;
  }
  counter_vars[count]= {nullptr, nullptr, SHOW_LONG};
  var->type= SHOW_ARRAY;
  var->value= counter_vars;
  return 0;
}

} // namespace

struct st_mysql_show_var status_variables[]= {
  SHOW_FUNC_ENTRY("Sluice", &show_counters),
  {nullptr, nullptr, SHOW_LONG}
};

} // namespace sluice

/* Sluice_* status variables: whatever counters the engine has, under their own names. The list is
   made anew each time SHOW STATUS asks, from the engine's fixed list. */
#include "engine.h"
#include "settings.h"

namespace sluice {

namespace {

/* Shown as ON or OFF. (Its first byte is all that SHOW_BOOL looks at.) */
bool is_switch(const char *name) { return !strcmp(name, "redo_log_enabled"); }

/* Variables that are texts, by their number in slc_pool_status_text(). */
const char *const texts[]= {"buffer_pool_resize_status", "buffer_pool_dump_status", "buffer_pool_load_status"};

struct Copy
{
  THD *thd;
  char *text;
};

void copy_text(void *ctx, const char *text, size_t length)
{
  Copy *const copy= static_cast<Copy *>(ctx);
  copy->text= static_cast<char *>(thd_alloc(copy->thd, length + 1));
  if (!copy->text)
    return;
  memcpy(copy->text, text, length);
  copy->text[length]= 0;
}

/* The list is the statement's own: connections ask at the same time. */
int show_counters(THD *thd, SHOW_VAR *var, void *, system_status_var *, enum_var_type)
{
  static SHOW_VAR nothing[]= {{nullptr, nullptr, SHOW_LONG}};
  const uint count= slc_counter_count();
  SHOW_VAR *vars= static_cast<SHOW_VAR *>(thd_alloc(thd, (count + array_elements(texts) + 1) * sizeof(SHOW_VAR)));
  uint64_t *values= static_cast<uint64_t *>(thd_alloc(thd, count * sizeof(uint64_t)));
  var->type= SHOW_ARRAY;
  var->value= nothing;
  if (!vars || !values)
    return 0;
  slc_counter_values(engine, values);
  for (uint i= 0; i < count; i++)
  {
    vars[i].name= slc_counter_name(i);
    vars[i].value= &values[i];
    vars[i].type= is_switch(vars[i].name) ? SHOW_BOOL : SHOW_LONGLONG;
  }
  SHOW_VAR *next= vars + count;
  static char none[]= "";
  for (uint i= 0; i < array_elements(texts); i++, next++)
  {
    Copy copy= {thd, nullptr};
    if (engine)
      slc_pool_status_text(engine, i, copy_text, &copy);
    next->name= texts[i];
    next->value= copy.text ? copy.text : none;
    next->type= SHOW_CHAR;
  }
  *next= nothing[0];
  var->value= vars;
  return 0;
}

} // namespace

struct st_mysql_show_var status_variables[]= {
  SHOW_FUNC_ENTRY("Sluice", &show_counters),
  {nullptr, nullptr, SHOW_LONG}
};

} // namespace sluice

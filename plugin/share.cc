/* Opening and closing the engine's table for all handlers of a table; the rest of Share is in
   autoinc.cc and statistics.cc. */
#include "share.h"
#include "engine.h"
#include "key_text.h"
#include "table_path.h"

namespace sluice {

Share::Share(const char *name) : m_name(name), m_is_graph(is_graph_path(m_name)) {}

Share::~Share()
{
  KeyTexts::forget(this, m_name.c_str());
  close();
}

void Share::describe_keys(const TABLE_SHARE *share, const Codec &codec)
{
  if (!m_keys_described.exchange(true, std::memory_order_relaxed))
    KeyTexts::remember(this, name(), share, codec);
}

slc_err Share::open()
{
  if (m_table)
    return SLC_OK;
  const slc_err error= slc_table_open(engine, m_name.c_str(), &m_table);
  auto history= std::make_shared<RowHistory>();
  m_history= !error && history->parse(slc_table_schema(m_table)) ? history : nullptr;
  return error;
}

/* A statement may outlive a table that it has filled: CREATE TABLE ... SELECT that fails, a stored
   function that drops its temporary table. It is one of this thread: others have the table no
   longer. */
void Share::close()
{
  if (Connection *owner= m_autoinc_owner)
    owner->give_back_autoinc_lock(this);
  if (m_table)
    slc_table_close(m_table);
  m_table= nullptr;
}

} // namespace sluice

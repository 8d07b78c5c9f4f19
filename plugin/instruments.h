/* The engine's instruments of performance_schema: threads, files, mutexes, memory and stages.
   Latches: none.
   Called by: hton (at the start), inplace and online_rebuild (stages). */
#ifndef SLUICE_INSTRUMENTS_H
#define SLUICE_INSTRUMENTS_H
#include "compat.h"
#include "sluice_abi.h"

namespace sluice {

/* Registers the instruments, and has the engine observed if performance_schema is on. Before
   slc_engine_open(). */
void set_up_instruments();

enum class AlterStage { READ_ROWS, BUILD_INDEXES, REBUILD_ROWS };

/* A stage of an ALTER TABLE, for performance_schema. If the statement has begun a progress report,
   SHOW PROCESSLIST shows the counted rows, too. */
class AlterProgress
{
public:
  /* A stage that counts nothing. */
  AlterProgress(THD *thd, AlterStage stage);
  /* It counts this table's rows. */
  AlterProgress(THD *thd, AlterStage stage, slc_table *table);
  AlterProgress(const AlterProgress &)= delete;
  AlterProgress &operator=(const AlterProgress &)= delete;

  /* One more row is done. */
  void step()
  {
    constexpr uint64_t ROWS_A_REPORT= 1024;
    if (!(++m_done % ROWS_A_REPORT))
      report();
  }

private:
  void report();

  THD *const m_thd;
  uint64_t m_rows= 0;
  uint64_t m_done= 0;
  PSI_stage_progress *m_progress= nullptr;
};

} // namespace sluice
#endif

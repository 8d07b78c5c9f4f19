/* A hot backup, as the engine runs it. */
#ifndef SLUICE_ABI_BACKUP_H
#define SLUICE_ABI_BACKUP_H
#include "base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Begins a backup, which a thread writes to the named pipe; returns when it has begun. */
slc_err slc_backup_start(slc_engine *, const char *pipe);
/* ends the backup that is under way, if there is one */
void    slc_backup_cancel(slc_engine *);
/* 0 none is under way, 1 data files are read, 2 the log is followed until the point, 3 the end */
uint32_t slc_backup_phase(slc_engine *);
/* The backup has what is committed now; the caller blocks commits. `about` is a line of text that
   goes into the backup. Nothing happens if none is under way; SLC_UNSUPPORTED, and the backup
   fails, if data files are still being read. */
slc_err slc_backup_fix_point(slc_engine *, slc_bytes about);

#ifdef __cplusplus
}
#endif
#endif

/* A hot backup, as the engine runs it. */
#ifndef SLUICE_ABI_BACKUP_H
#define SLUICE_ABI_BACKUP_H
#include "base.h"
#ifdef __cplusplus
extern "C" {
#endif

/* Begins a backup, and returns. A thread of the engine writes the backup to the named pipe. */
slc_err slc_backup_start(slc_engine *, const char *pipe);
/* Ends the running backup, if there is one. */
void    slc_backup_cancel(slc_engine *);
/* 0 = no backup runs, 1 = data files are read, 2 = they have been read, and the log is copied as it
   grows, 3 = the log has been copied up to the point */
uint32_t slc_backup_phase(slc_engine *);
/* Fixes the point of the running backup at the present end of the log. The caller blocks commits.
   `about` is a line of text that goes into the backup. Without a running backup, the call does
   nothing. While data files are being read, it returns SLC_UNSUPPORTED, and the backup fails. */
slc_err slc_backup_fix_point(slc_engine *, slc_bytes about);

#ifdef __cplusplus
}
#endif
#endif

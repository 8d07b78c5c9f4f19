/* Transparent huge pages for the buffer pool.

   The server turns them off for its whole process after its plugins have started, so that its other
   allocations do not grow. The pool requests them (madvise), but most of its memory is used only
   after that. From Linux 6.18 on a process can turn huge pages off except for memory that requests
   them. This module does so after the server's own call. An older kernel refuses, and the pool has
   ordinary pages.

   Latches: none.
   Called by: hton. */
#ifndef SLUICE_HUGE_PAGES_H
#define SLUICE_HUGE_PAGES_H

namespace sluice {

/* Starts a thread that waits for the server's call. Does nothing if huge pages are off already:
   then an administrator has turned them off. */
void start_keeping_huge_pages();
/* Ends that thread. */
void stop_keeping_huge_pages();

} // namespace sluice
#endif

/* Transparent huge pages for the buffer pool.
   The server turns them off for the whole process once its plugins have started, so that its other
   allocations do not grow. The pool asks for them, and most of its memory is touched later.
   From Linux 6.18 on a process can turn them off but for memory that asks: this module does that
   after the server's own call. An older kernel refuses, and the pool has ordinary pages.
   Latches: none.
   Called by: hton. */
#ifndef SLUICE_HUGE_PAGES_H
#define SLUICE_HUGE_PAGES_H

namespace sluice {

/* Waits in a thread of its own for the server's call. Does nothing if huge pages are off already:
   then an administrator wants it so. */
void keep_huge_pages();
/* Ends that thread. */
void forget_huge_pages();

} // namespace sluice
#endif

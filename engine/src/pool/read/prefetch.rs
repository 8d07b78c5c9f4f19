//! Read-ahead: a bounded queue of wanted pages and a few named threads that bring them in, in batches.
//!
//! A request is a hint: it is dropped when the queue is full, the page is resident, or no clean frame is at hand. A page on
//! its way in is published with its X latch held, so who wants it meanwhile just waits for the latch. Latches of one
//! batch are held together, in no order: harmless, because a worker waits for nothing but I/O while it holds them.
//! Workers hold the pool weakly between batches: the last owner's drop ends them, `shutdown` does so at once.
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Error, FileId, PageId, Result};
use crate::io::files::OpenFile;
use crate::io::ReadOp;
use crate::pool::frames::frame::PageWrite;
use crate::pool::page::PAGE_SIZE;
use crate::pool::Pool;
use parking_lot::Condvar;
use std::collections::VecDeque;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

/// Requests kept; newer ones are dropped.
const QUEUE_MAX: usize = 1024;
const BATCH_MAX: usize = 32;

#[derive(Default)]
struct Wanted {
    pages: VecDeque<PageId>,
    stop: bool,
}

pub(in crate::pool) struct Prefetch {
    wanted: RankedMutex<Wanted>,
    wake: Condvar,
    workers: RankedMutex<Vec<JoinHandle<()>>>,
}

impl Prefetch {
    pub fn new() -> Prefetch {
        Prefetch {
            wanted: RankedMutex::new(Rank::Leaf, Wanted::default()),
            wake: Condvar::new(),
            workers: RankedMutex::new(Rank::Leaf, Vec::new()),
        }
    }
    /// Blocks; None: stop.
    fn next_batch(&self) -> Option<Vec<PageId>> {
        let mut wanted = self.wanted.lock();
        while wanted.pages.is_empty() && !wanted.stop {
            self.wake.wait(wanted.raw());
        }
        if wanted.stop {
            return None;
        }
        let n = wanted.pages.len().min(BATCH_MAX);
        Some(wanted.pages.drain(..n).collect())
    }
    pub fn stop(&self) {
        self.wanted.lock().stop = true;
        self.wake.notify_all();
    }
    pub fn forget_file(&self, file: FileId) {
        self.wanted.lock().pages.retain(|id| id.file != file);
    }
}

/// Body of one worker thread.
fn work(queue: Arc<Prefetch>, pool: Weak<Pool>) {
    while let Some(batch) = queue.next_batch() {
        let Some(pool) = pool.upgrade() else { return };
        if catch_unwind(AssertUnwindSafe(|| pool.read_ahead(batch))).is_err() {
            pool.poison("reading ahead: a bug was caught");
            return;
        }
    }
}

/// A page on its way in. If it does not arrive, verified, it leaves the page table again, whatever happens: its frame holds the bytes of another.
struct Loading<'p> {
    pool: &'p Pool,
    id: PageId,
    file: OpenFile,
    /// None: it has arrived.
    page: Option<PageWrite<'p>>,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        if let Some(page) = self.page.take() {
            self.pool.unpublish(page);
        }
    }
}

impl Pool {
    pub(in crate::pool) fn start_workers(self: &Arc<Pool>) -> Result<()> {
        for number in 0..self.config.read_io_threads {
            let queue = Arc::clone(&self.prefetch);
            let pool = Arc::downgrade(self);
            let thread = thread::Builder::new()
                .name(format!("sluice-read-{number}"))
                .spawn(move || work(queue, pool))
                .map_err(|e| Error::Full(format!("cannot start a read-ahead thread: {e}")))?;
            self.prefetch.workers.lock().push(thread);
        }
        Ok(())
    }
    /// Stops prefetch threads.
    pub fn shutdown(&self) {
        self.prefetch.stop();
        let workers = std::mem::take(&mut *self.prefetch.workers.lock());
        for worker in workers {
            // A worker that held the last reference runs this itself.
            if worker.thread().id() != thread::current().id() {
                // A panic in it has poisoned the pool already.
                let _ = worker.join();
            }
        }
    }
    /// Asks background readers to bring pages in; returns at once, may do nothing.
    pub fn prefetch(&self, ids: &[PageId]) {
        if self.config.read_io_threads == 0 || self.is_poisoned() {
            return;
        }
        let absent = ids
            .iter()
            .filter(|id| self.table.guess(&self.frames, id.as_u64()).is_none());
        let mut added = false;
        let mut wanted = self.prefetch.wanted.lock();
        for id in absent {
            if wanted.pages.len() >= QUEUE_MAX {
                break;
            }
            wanted.pages.push_back(*id);
            added = true;
        }
        drop(wanted);
        if added {
            self.prefetch.wake.notify_one();
        }
    }
    /// Brings in what is absent, as far as clean frames are at hand.
    pub(in crate::pool) fn read_ahead(&self, mut ids: Vec<PageId>) {
        ids.sort_unstable();
        ids.dedup();
        let mut loading: Vec<Loading<'_>> = Vec::with_capacity(ids.len());
        for id in ids {
            if self.is_resident(id) {
                continue;
            }
            let Ok(file) = self.files.get(id.file) else { continue };
            let Some(frame) = self.take_clean_frame() else { break };
            if let Some(page) = self.publish(frame, id, &file) {
                page.frame().set_refs(0);
                loading.push(Loading {
                    pool: self,
                    id,
                    file,
                    page: Some(page),
                });
            }
        }
        let mut ops: Vec<ReadOp<'_>> = loading
            .iter_mut()
            .filter_map(|Loading { id, file, page, .. }| {
                Some(ReadOp {
                    file: &*file.file,
                    offset: id.no as u64 * PAGE_SIZE as u64,
                    data: page.as_mut()?.bytes_mut(),
                })
            })
            .collect();
        let results = self.disk.read_many(&mut ops);
        for (page, result) in loading.into_iter().zip(results) {
            self.end_read_ahead(page, result);
        }
    }
    /// A failure is told to whoever really needs the page, when it reads it.
    fn end_read_ahead(&self, mut loading: Loading<'_>, result: Result<()>) {
        let Some(page) = &loading.page else { return };
        if result
            .and_then(|()| self.verify_read(page.bytes(), loading.id, &loading.file))
            .is_ok()
        {
            page.note_base();
            self.counters.buffer_pool_read_ahead.inc();
            self.counters.data_reads.inc();
            self.counters.data_read.add(PAGE_SIZE as u64);
            drop(loading.page.take());
        }
    }
}

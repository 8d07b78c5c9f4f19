//! Read-ahead: a bounded queue of wanted pages, and a few named threads that bring them in, in
//! batches.
//!
//! A request is a hint. It is dropped when the queue is full, the page is resident, or no clean
//! frame is there. A page on its way in is published with its X latch held, so a thread that wants
//! it meanwhile just waits for the latch. Latches of one batch are held together, in no order. That
//! is harmless: a worker waits for nothing but I/O while it holds them.
//!
//! Locks: two of rank `Leaf`.
//! Called by: the pool, which starts the threads and stops them; recovery, which reads its batches
//! itself.
use super::fetch::Reader;
use crate::base::observer::run_thread;
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Error, FileId, PageId, Result};
use crate::io::files::OpenFile;
use crate::io::ReadOp;
use crate::pool::frames::frame::PageWrite;
use crate::pool::frames::store::FrameStore;
use crate::pool::page::PAGE_SIZE;
use parking_lot::Condvar;
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// Requests kept; newer ones are dropped.
const QUEUE_MAX: usize = 1024;
const BATCH_MAX: usize = 32;
const THREAD_NAME: &str = "sluice-read";

#[derive(Default)]
struct Wanted {
    pages: VecDeque<PageId>,
    stop: bool,
}

/// The wanted pages, and the threads that bring them in.
pub(in crate::pool) struct PrefetchQueue {
    wanted: RankedMutex<Wanted>,
    wake: Condvar,
    workers: RankedMutex<Vec<JoinHandle<()>>>,
}

impl PrefetchQueue {
    pub fn new() -> PrefetchQueue {
        PrefetchQueue {
            wanted: RankedMutex::new(Rank::Leaf, Wanted::default()),
            wake: Condvar::new(),
            workers: RankedMutex::new(Rank::Leaf, Vec::new()),
        }
    }
    /// Starts `threads` workers. Each calls `bring_in` with a batch of wanted pages, until that
    /// returns false or [`PrefetchQueue::stop`] is called. `Error::Full` if a thread cannot be
    /// started.
    pub fn start<F>(self: &Arc<Self>, threads: u32, bring_in: F) -> Result<()>
    where
        F: Fn(Vec<PageId>) -> bool + Clone + Send + 'static,
    {
        for number in 0..threads {
            let queue = Arc::clone(self);
            let bring_in = bring_in.clone();
            let work = move || run_thread(THREAD_NAME, || while queue.next_batch().is_some_and(&bring_in) {});
            let thread = thread::Builder::new()
                .name(format!("{THREAD_NAME}-{number}"))
                .spawn(work)
                .map_err(|e| Error::Full(format!("cannot start a read-ahead thread: {e}")))?;
            self.workers.lock().push(thread);
        }
        Ok(())
    }
    /// Waits for requests. None: stop.
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
    /// Ends the workers, and waits until they have ended.
    pub fn stop(&self) {
        self.wanted.lock().stop = true;
        self.wake.notify_all();
        let workers = std::mem::take(&mut *self.workers.lock());
        for worker in workers {
            // A worker that held the last reference to the pool runs this itself.
            if worker.thread().id() != thread::current().id() {
                // A panic in it has poisoned the pool already.
                let _ = worker.join();
            }
        }
    }
    pub fn forget_file(&self, file: FileId) {
        self.wanted.lock().pages.retain(|id| id.file != file);
    }
    /// Requests those of `ids` that seem to be absent. Returns at once, and may do nothing.
    pub fn request(&self, ids: &[PageId], store: &FrameStore) {
        let absent = (ids.iter()).filter(|id| store.table.guess(&store.frames, id.as_u64()).is_none());
        let mut added = false;
        let mut wanted = self.wanted.lock();
        for id in absent {
            if wanted.pages.len() >= QUEUE_MAX {
                break;
            }
            wanted.pages.push_back(*id);
            added = true;
        }
        debug_assert!(wanted.pages.len() <= QUEUE_MAX, "the queue is bounded");
        drop(wanted);
        if added {
            self.wake.notify_one();
        }
    }
}

/// A page on its way in. If it does not arrive, verified, it leaves the page table again, even
/// after a panic: its frame holds the bytes of another page.
struct Loading<'p> {
    store: &'p FrameStore,
    id: PageId,
    file: OpenFile,
    /// None: it has arrived.
    page: Option<PageWrite<'p>>,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        if let Some(page) = self.page.take() {
            self.store.unpublish(page);
        }
    }
}

impl Reader {
    /// Brings in those of `ids` that are absent, as far as clean frames are there.
    pub fn read_ahead(&self, mut ids: Vec<PageId>) {
        ids.sort_unstable();
        ids.dedup();
        let store = self.store();
        let mut loading: Vec<Loading<'_>> = Vec::with_capacity(ids.len());
        for id in ids {
            if store.is_resident(id) {
                continue;
            }
            let Ok(file) = self.files().get(id.file) else { continue };
            let Some(frame) = store.take_clean_frame() else { break };
            if let Some(page) = store.publish(frame, id, file.logged) {
                page.frame().set_ahead();
                loading.push(Loading {
                    store,
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
        let results = self.disk().read_many(&mut ops);
        assert_eq!(results.len(), loading.len(), "each read has a result");
        for (page, result) in loading.into_iter().zip(results) {
            self.end_read_ahead(page, result);
        }
    }
    /// A failure is no error here: the thread that needs the page meets it when it reads the page.
    fn end_read_ahead(&self, mut loading: Loading<'_>, result: Result<()>) {
        let Some(page) = &loading.page else { return };
        if result
            .and_then(|()| self.verify_read(page.bytes(), loading.id, &loading.file))
            .is_ok()
        {
            page.note_base();
            self.counters().buffer_pool_read_ahead.inc();
            self.note_data_read();
            drop(loading.page.take());
        }
    }
}

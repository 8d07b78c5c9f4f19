//! The buffer pool: its parts, put together, and what most callers ask of it.
//!
//! Each part owns the part below it: the reader owns the flusher, which owns the batch writer,
//! which owns the frames. So all of them lie in one struct, and a hit follows no more pointers than
//! with one type. What few callers need is asked of the parts: `flusher`, `recovery`, `loads`,
//! `absence_filters`.
//!
//! Takes no latch of its own.
//! Called by: every layer above.
use super::config::PoolConfig;
use super::frames::absence_filter::AbsenceFilters;
use super::frames::frame::PageRead;
use super::frames::geometry::{GeometryObserver, GeometryObservers, PoolGeometry};
use super::frames::store::{FrameStore, PoolHeat, Presence};
use super::read::fetch::Reader;
use super::read::prefetch::PrefetchQueue;
use super::recovery::state::{Recovery, RecoveryState};
use super::write::batch::BatchWriter;
use super::write::flush::Flusher;
use super::write::loads::Loads;
use super::write::pace::Pace;
use super::write::resize::Resize;
use crate::base::sync::holds_no_latch;
use crate::base::{Counters, FileId, Lsn, PageId, Result};
use crate::io::{Disk, Files};
use crate::redo::{FlushMode, Redo};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

pub struct Pool {
    reader: Reader,
    prefetch: Arc<PrefetchQueue>,
    /// Read-ahead threads; recovery applies the log with as many.
    read_io_threads: u32,
    recovery: RecoveryState,
    loads: Loads,
    observers: GeometryObservers,
    resize: Resize,
    /// The last version given to a changed page of an unlogged file.
    unlogged_version: AtomicU64,
    /// The number of the database, which every data file has in its header. 0: the database was
    /// made before there were such numbers.
    database: AtomicU64,
}

impl Pool {
    /// `Error::Full` if there is no memory of that size, no room for the doublewrite file, or no
    /// thread.
    pub fn new(
        config: PoolConfig,
        disk: Arc<dyn Disk>,
        files: Arc<Files>,
        redo: Arc<Redo>,
        counters: Arc<Counters>,
    ) -> Result<Arc<Pool>> {
        let geometry = PoolGeometry::for_size(config.size).growing_to(config.size_max);
        let store = FrameStore::new(geometry, counters.clone(), redo.poison_state().clone())?;
        let writer = BatchWriter::new(store, disk, files, redo, counters);
        let flusher = Flusher::new(writer, Pace::new(config.io_capacity, config.io_capacity_max));
        let pool = Arc::new(Pool {
            reader: Reader::new(flusher, config.check_body),
            prefetch: Arc::new(PrefetchQueue::new()),
            read_io_threads: config.read_io_threads,
            recovery: RecoveryState::new(),
            loads: Loads::new(),
            observers: GeometryObservers::new(),
            resize: Resize::new(),
            unlogged_version: AtomicU64::new(0),
            database: AtomicU64::new(0),
        });
        pool.flusher().set_doublewrite(config.doublewrite)?;
        let weak = Arc::downgrade(&pool);
        pool.prefetch
            .start(config.read_io_threads, move |batch| read_ahead(&weak, batch))?;
        Ok(pool)
    }
    pub fn database(&self) -> u64 {
        self.database.load(Ordering::Relaxed)
    }
    pub fn set_database(&self, number: u64) {
        self.database.store(number, Ordering::Relaxed);
    }
    #[inline]
    pub(in crate::pool) fn reader(&self) -> &Reader {
        &self.reader
    }
    #[inline]
    pub(in crate::pool) fn writer(&self) -> &BatchWriter {
        self.reader.writer()
    }
    #[inline]
    pub(in crate::pool) fn store(&self) -> &FrameStore {
        self.reader.store()
    }
    /// Writing pages back: the page cleaner's work, and its settings.
    pub fn flusher(&self) -> &Flusher {
        self.reader.flusher()
    }
    /// Recovery of pages after a crash.
    pub fn recovery(&self) -> Recovery<'_> {
        Recovery::new(&self.reader, &self.recovery, self.read_io_threads as usize)
    }
    /// Which files have loads, which write past the pool.
    pub fn loads(&self) -> &Loads {
        &self.loads
    }
    /// What pages that have left the pool do not hold.
    pub fn absence_filters(&self) -> &AbsenceFilters {
        &self.store().absence_filters
    }
    /// The S-latched page. If it is absent it is read from disk and verified (checksum, file, page
    /// number).
    pub fn read(&self, id: PageId) -> Result<PageRead<'_>> {
        self.reader.read(id)
    }
    /// The same, only if the page is resident (no I/O). Waits for the latch.
    pub fn read_resident(&self, id: PageId) -> Option<PageRead<'_>> {
        self.reader.read_resident(id)
    }
    /// The same for a page that the caller latches again: this counts as no new use. So a scan that
    /// latches each page several times does not make its pages look hot.
    pub fn read_again(&self, id: PageId) -> Option<PageRead<'_>> {
        self.reader.read_again(id)
    }
    pub fn is_resident(&self, id: PageId) -> bool {
        self.store().is_resident(id)
    }
    /// What a change of the page would cost now. A guess, without a lock.
    pub fn presence(&self, id: PageId) -> Presence {
        self.store().presence(id)
    }
    /// Asks the read-ahead threads to bring pages in. Returns at once, and may do nothing.
    pub fn prefetch(&self, ids: &[PageId]) {
        if self.read_io_threads > 0 && !self.store().poison.is_set() {
            self.prefetch.request(ids, self.store());
        }
    }
    /// Forgets all pages of a file without writing them (drop, truncate). No thread but a reader
    /// ahead pins or latches one. The file is not in the file table any more, or no caller asks for
    /// its pages.
    pub fn discard_file(&self, file: FileId) {
        debug_assert!(holds_no_latch(), "I5: every page of the file is latched in turn");
        self.prefetch.forget_file(file);
        self.store().discard_file(file);
    }
    /// Writes everything dirty at the time of the call. When a file cannot be opened: everything
    /// else that is not latched right then, and that error.
    pub fn flush_all(&self) -> Result<()> {
        self.flusher().flush_all()
    }
    /// A bound: every change below it is durable in place.
    pub fn checkpoint_lsn(&self) -> Lsn {
        self.writer().checkpoint_lsn()
    }
    /// How much memory the pool has.
    pub fn geometry(&self) -> PoolGeometry {
        self.store().frames.geometry()
    }
    /// Changes the pool's size to about `bytes`. A shrink calls `watch` now and then, and ends with
    /// its error. After an error the pool has its old size. The caller holds no latch.
    pub fn resize(&self, bytes: u64, watch: &dyn Fn() -> Result<()>) -> Result<()> {
        debug_assert!(holds_no_latch(), "I5: a resize waits for the users of frames");
        self.resize.run(self.writer(), bytes, watch)?;
        self.observers.notify(&self.geometry());
        Ok(())
    }
    /// A text about the present or the latest resize.
    pub fn resize_status(&self) -> String {
        self.resize.status()
    }
    /// Counts the pages by their use. Looks at each frame.
    pub fn heat(&self) -> PoolHeat {
        self.store().heat()
    }
    /// Bytes of pages that the pool holds.
    pub fn size(&self) -> u64 {
        self.geometry().bytes()
    }
    /// Notifies the observer of the geometry now, and whenever it changes. The pool does not keep
    /// the observer alive.
    pub fn observe_geometry<O: GeometryObserver + 'static>(&self, observer: &Arc<O>) {
        let observer: Weak<dyn GeometryObserver> = Arc::<O>::downgrade(observer);
        self.observers.register(observer, &self.geometry());
    }
    /// Makes the log durable up to `lsn`: a crash loses no change below it.
    pub fn sync_log(&self, lsn: Lsn) -> Result<()> {
        self.redo().flush(lsn, FlushMode::Sync)
    }
    pub fn redo(&self) -> &Arc<Redo> {
        &self.writer().redo
    }
    pub fn files(&self) -> &Arc<Files> {
        &self.writer().files
    }
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.writer().disk
    }
    pub fn counters(&self) -> &Arc<Counters> {
        &self.writer().counters
    }
    /// I6: refuses all further work. Every layer that meets a failed write or a broken invariant
    /// calls this. The first reason is kept.
    pub fn poison(&self, why: &str) {
        self.writer().poison(why);
    }
    /// `Err(Poisoned)` after [`Pool::poison`].
    #[inline]
    pub fn check_alive(&self) -> Result<()> {
        self.writer().check_alive()
    }
    pub(in crate::pool) fn next_unlogged_version(&self) -> Lsn {
        self.unlogged_version.fetch_add(1, Ordering::Relaxed) + 1
    }
    /// Brings the pool's gauges, and the striped request count, into [`crate::base::Counters`].
    pub fn update_gauges(&self) {
        let (counters, store) = (self.counters(), self.store());
        counters.buffer_pool_read_requests.set(self.reader.request_count());
        counters.buffer_pool_pages_total.set(store.frames.len() as u64);
        counters.buffer_pool_pages_free.set(store.clock.free_count() as u64);
        counters.buffer_pool_pages_dirty.set(store.dirty.count() as u64);
        counters.buffer_pool_absence_filters.set(store.absence_filters.count());
    }
    /// Tests: evicts every clean page that no thread uses.
    #[cfg(test)]
    pub(crate) fn evict_clean(&self) {
        self.store().evict_clean();
    }
    /// Stops the read-ahead threads.
    pub fn shutdown(&self) {
        self.prefetch.stop();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// One batch of a read-ahead thread, which holds the pool weakly between batches: the last owner's
/// drop ends it. False: the thread ends.
fn read_ahead(pool: &Weak<Pool>, batch: Vec<PageId>) -> bool {
    let Some(pool) = pool.upgrade() else { return false };
    let done = catch_unwind(AssertUnwindSafe(|| pool.reader.read_ahead(batch)));
    if done.is_err() {
        pool.poison("reading ahead: a bug was caught");
    }
    done.is_ok()
}

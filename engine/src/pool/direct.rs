//! Pages written past the pool and past the log: what a load builds, in pieces as large as an
//! extent, once.
//!
//! The rules of unlogged pages (`docs/decisions/2026-11-21-unlogged-loads.md`):
//! 1. A logged Mtr gives the pages to the load with a GIVEN record, which is durable before the
//!    first of them is written. Their LSN is that group's end: so I1 holds for them as for all
//!    pages, and recovery applies nothing older to them.
//! 2. Nothing refers to the pages until they are *forced*: written and synced. Only then may an Mtr
//!    link them ([`Direct::force`] is the only way to a [`Forced`]). A crash before that leaves
//!    pages to which nothing refers; the list of the load's extents gives them back.
//! 3. The pool holds none of the pages while they are written, nor an older copy afterwards.
//! 4. What is thrown away for that is known to be free, but the disk may not have it as free yet.
//!    Some pages may be asked for by number again after a crash: the head of a chain, a root, a
//!    list of extents. The disk must have these as free before they are given
//!    ([`Flusher::write_freed`]), for the load may never write them, or too late.
//!
//! While a backup runs, the content is logged as well (`Loads::set_logged`).
//!
//! No doublewrite: until the pages are linked no reader needs them, and after that they are whole.
//! Holds no latch.
//! Called by: `btree::sorted`.
//!
//! [`Flusher::write_freed`]: super::write::flush::Flusher::write_freed
use super::buffer_pool::Pool;
use super::page::{page_id, seal, set_page_lsn, PAGE_SIZE};
use crate::base::sync::holds_no_latch;
use crate::base::{planted, FileId, Lsn, Mutant, PageId, PageNo, Result};
use crate::io::files::OpenFile;
use crate::redo::{FlushMode, RecordSink};
use std::sync::Arc;

/// Memory that [`Direct::write`] takes.
pub use crate::io::AlignedBuf as PageBuffer;

/// One load: pages of one file on their way past the pool.
pub struct Direct {
    pool: Arc<Pool>,
    open: OpenFile,
    given: Vec<(PageNo, u32)>,
}

/// All pages written are durable: they may be linked now.
pub struct Forced(());

impl Direct {
    /// Waits while the file is walked ([`Loads::keep_off`]).
    ///
    /// [`Loads::keep_off`]: super::write::loads::Loads::keep_off
    pub fn begin(pool: &Arc<Pool>, file: FileId) -> Result<Direct> {
        debug_assert!(holds_no_latch(), "I5: a load waits for walks of its file");
        let open = pool.files().get(file)?;
        pool.loads().begin(file);
        Ok(Direct {
            pool: pool.clone(),
            open,
            given: Vec::new(),
        })
    }
    /// The group that gave `count` pages from `first` on to this load ends at `lsn`.
    pub fn given(&mut self, first: PageNo, count: u32, lsn: Lsn) -> Result<()> {
        debug_assert!(
            (first..first + count).all(|no| !self.has(no)),
            "a page is given to a load once"
        );
        self.pool.redo().flush(lsn, FlushMode::Sync)?;
        self.given.push((first, count));
        self.pool.loads().note_given();
        self.forget(first, count);
        Ok(())
    }
    /// Was the page given to this load? The newest gifts are looked at first.
    fn has(&self, no: PageNo) -> bool {
        self.given
            .iter()
            .rev()
            .any(|(first, count)| no >= *first && no - first < *count)
    }
    /// The pool lets go of the pages.
    fn forget(&self, first: PageNo, count: u32) {
        for no in first..first + count {
            self.pool.store().forget(PageId::new(self.open.id, no));
        }
    }
    /// Seals and writes pages that were given before, from `first` on. `lsn`: the end of the group
    /// that gave them.
    pub fn write(&self, first: PageNo, pages: &mut [u8], lsn: Lsn) -> Result<()> {
        self.pool.check_alive()?;
        assert!(
            self.pool.redo().durable_lsn() >= lsn || self.pool.redo().is_off(),
            "I1: no page before its redo is durable"
        );
        debug_assert!(
            (first..)
                .zip(pages.chunks_exact(PAGE_SIZE))
                .all(|(no, page)| page_id(page) == PageId::new(self.open.id, no)),
            "a page is written to the place that it names"
        );
        for page in pages.chunks_exact_mut(PAGE_SIZE) {
            set_page_lsn(page, lsn);
            seal(page);
        }
        let count = pages.len() / PAGE_SIZE;
        debug_assert_eq!(count * PAGE_SIZE, pages.len(), "whole pages are written");
        debug_assert!(
            (first..first + count as u32).all(|no| self.has(no)),
            "a load writes only pages that were given to it"
        );
        let logged = self.pool.loads().logged();
        if *logged && self.open.logged {
            self.log_images(first, pages)?;
        }
        let writer = self.pool.writer();
        let written = self.open.file.write_at(pages, first as u64 * PAGE_SIZE as u64);
        writer.poison_if_failed(written)?;
        // Not before the write: a reader with an old page number may read the page's past, and
        // would take it for a lost write.
        let ids = (first..).map(|no| (PageId::new(self.open.id, no), lsn));
        writer.written.note(ids.take(count));
        writer.counters.data_writes.inc();
        writer.counters.data_written.add(pages.len() as u64);
        writer.counters.bulk_pages_written.add(count as u64);
        Ok(())
    }
    /// Logs images of the pages. A backup may have read these pages before, so it needs them in its
    /// log (B4). A recovery applies the images, too, and then the later changes.
    fn log_images(&self, first: PageNo, pages: &[u8]) -> Result<()> {
        let redo = self.pool.redo();
        for (no, page) in (first..).zip(pages.chunks_exact(PAGE_SIZE)) {
            redo.reserve_wait()?;
            let mut image = RecordSink::default();
            image.image(PageId::new(self.open.id, no), page, PAGE_SIZE, PAGE_SIZE);
            redo.append(image.as_bytes());
        }
        Ok(())
    }
    /// Makes all that was written durable. The pool forgets what readers with an old page number
    /// may have brought in meanwhile.
    pub fn force(self) -> Result<Forced> {
        let writer = self.pool.writer();
        if !planted(Mutant::LoadNotForced) {
            writer.poison_if_failed(self.open.file.sync())?;
        }
        writer.counters.data_fsyncs.inc();
        for (first, count) in &self.given {
            self.forget(*first, *count);
        }
        Ok(Forced(()))
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        self.pool.loads().end(self.open.id);
    }
}

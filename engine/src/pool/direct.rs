//! Pages written past the pool and past the log: what a load builds, in pieces as large as an extent, once.
//!
//! The rules of unlogged pages (`docs/decisions/2026-11-21-unlogged-loads.md`):
//! 1. They are given to the load by a logged Mtr with a GIVEN record, and that is durable before the first of them is written. Their
//!    LSN is that group's end: so I1 holds for them as for all pages, and recovery applies nothing older to them.
//! 2. Nothing refers to them until they are *forced*: written and synced. Only then may an Mtr link them ([`Direct::force`] is the
//!    only way to a [`Forced`]). A crash before leaves pages that nothing refers to; the list of the load's extents gives them back.
//! 3. The pool holds none of them while they are written, nor an older copy afterwards.
//!
//! No doublewrite: until they are linked nobody reads them, and after that they are whole. Called by `btree::bulk`; holds no latch.
use super::page::{seal, set_page_lsn, PAGE_SIZE};
use super::Pool;
use crate::base::{planted, FileId, Lsn, Mutant, PageId, PageNo, Result};
use crate::io::files::OpenFile;
use crate::redo::FlushMode;
use std::sync::Arc;

/// Memory that [`Direct::write`] takes.
pub use crate::io::AlignedBuf as PageBuffer;

/// Pages of one file on their way past the pool.
pub struct Direct {
    pool: Arc<Pool>,
    open: OpenFile,
    given: Vec<(PageNo, u32)>,
}

/// All pages written are durable: they may be linked now.
pub struct Forced(());

impl Direct {
    pub fn begin(pool: &Arc<Pool>, file: FileId) -> Result<Direct> {
        Ok(Direct {
            pool: pool.clone(),
            open: pool.files().get(file)?,
            given: Vec::new(),
        })
    }
    /// The group that gave `count` pages from `first` on to this load ends at `lsn`.
    pub fn given(&mut self, first: PageNo, count: u32, lsn: Lsn) -> Result<()> {
        self.pool.redo.flush(lsn, FlushMode::Sync)?;
        self.given.push((first, count));
        for no in first..first + count {
            self.pool.forget(PageId::new(self.open.id, no));
        }
        Ok(())
    }
    /// Seals and writes pages given before, `first` and those behind it. `lsn`: of the group that gave them.
    pub fn write(&self, first: PageNo, pages: &mut [u8], lsn: Lsn) -> Result<()> {
        self.pool.check_alive()?;
        assert!(
            self.pool.redo.durable_lsn() >= lsn || self.pool.redo.is_off(),
            "I1: no page before its redo is durable"
        );
        for page in pages.chunks_exact_mut(PAGE_SIZE) {
            set_page_lsn(page, lsn);
            seal(page);
        }
        let ids = (first..).map(|no| (PageId::new(self.open.id, no), lsn));
        self.pool.written.note(ids.take(pages.len() / PAGE_SIZE));
        let written = self.open.file.write_at(pages, first as u64 * PAGE_SIZE as u64);
        self.pool.synced(written)?;
        self.pool.counters.data_writes.inc();
        self.pool.counters.data_written.add(pages.len() as u64);
        self.pool
            .counters
            .bulk_pages_written
            .add((pages.len() / PAGE_SIZE) as u64);
        Ok(())
    }
    /// Makes all that was written durable, and forgets what readers with an old page number may have brought in meanwhile.
    pub fn force(self) -> Result<Forced> {
        if !planted(Mutant::LoadNotForced) {
            self.pool.synced(self.open.file.sync())?;
        }
        self.pool.counters.data_fsyncs.inc();
        for (first, count) in &self.given {
            for no in *first..first + count {
                self.pool.forget(PageId::new(self.open.id, no));
            }
        }
        Ok(Forced(()))
    }
}

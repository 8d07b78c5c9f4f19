//! The doublewrite file: every batch of pages is durable here before any of it is written in place, so that a page torn
//! by a crash can be restored.
//!
//! ```text
//! page 0         "SLUICEDW", u32 format, u32 page size, u32 slots, u32 pages per slot; rest zero
//! page 1 ...     slot 0: up to PAGES_PER_SLOT sealed pages, each naming itself; then slot 1, ...
//! ```
//! A slot is used by one batch at a time, and again only when that batch is durable in place. Old copies stay behind in
//! it, so restoring goes by LSN: a page that was torn in place was on its way there at the crash, hence it was dirty, hence
//! its LSN is not below the checkpoint. A copy at or above the checkpoint LSN may be put in place of a broken page, even
//! if it is not the newest: redo from the checkpoint brings it up. An older copy must not: what happened since is lost
//! from the log, and a broken page is better than a page of the past. It still tells what must be in place by now (`written`).
use super::page::{check, page_id, page_lsn, PAGE_SIZE};
use super::{Pool, Void};
use crate::base::bytes::{get_u32, put_u32};
use crate::base::{Counters, Error, Lsn, PageId, Result};
use crate::io::{AlignedBuf, Caching, Disk, File, Mode};
use std::collections::BTreeMap;
use std::sync::Arc;

const NAME: &str = "doublewrite";
const MAGIC: &[u8; 8] = b"SLUICEDW";
const FORMAT: u32 = 1;
pub(super) const SLOTS: usize = 3;
pub(super) const PAGES_PER_SLOT: usize = 128;

pub(super) struct Doublewrite {
    file: Arc<dyn File>,
}

impl Doublewrite {
    /// Opens the file; makes it if there is none or an older making of it was cut short.
    pub fn open(disk: &dyn Disk) -> Result<Doublewrite> {
        let len = ((1 + SLOTS * PAGES_PER_SLOT) * PAGE_SIZE) as u64;
        if disk.exists(NAME)? {
            let file = disk.open(NAME, Mode::Open, Caching::Direct)?;
            if file.len()? >= len && check_header(&*file)? {
                return Ok(Doublewrite { file });
            }
            drop(file);
            disk.remove(NAME)?;
        }
        let file = disk.open(NAME, Mode::Create, Caching::Direct)?;
        let made = file
            .set_len(len)
            .and_then(|()| file.write_at(&header(), 0))
            .and_then(|()| file.sync());
        if let Err(error) = made {
            drop(file);
            // The first error is the one to tell.
            let _ = disk.remove(NAME);
            return Err(error);
        }
        Ok(Doublewrite { file })
    }
    /// Writes those of a batch's pages that are `exposed` to tearing, each to its place in the slot. Durable on return.
    pub fn write(&self, slot: usize, pages: &[u8], exposed: &[bool], counters: &Counters) -> Result<()> {
        assert!(slot < SLOTS && exposed.len() <= PAGES_PER_SLOT);
        let base = (1 + slot * PAGES_PER_SLOT) * PAGE_SIZE;
        let (mut at, mut written) = (0, 0);
        for run in exposed.chunk_by(|a, b| a == b) {
            let bytes = at * PAGE_SIZE..(at + run.len()) * PAGE_SIZE;
            at += run.len();
            if run[0] {
                self.file.write_at(&pages[bytes.clone()], (base + bytes.start) as u64)?;
                counters.data_writes.inc();
                written += run.len();
            }
        }
        if written == 0 {
            return Ok(());
        }
        self.file.sync()?;
        counters.data_written.add((written * PAGE_SIZE) as u64);
        counters.data_fsyncs.inc();
        counters.dblwr_writes.inc();
        counters.dblwr_pages_written.add(written as u64);
        Ok(())
    }
    /// The newest whole copy of each page.
    fn copies(&self) -> Result<BTreeMap<PageId, (Lsn, AlignedBuf)>> {
        let mut found: BTreeMap<PageId, (Lsn, AlignedBuf)> = BTreeMap::new();
        let mut slot = AlignedBuf::new(PAGES_PER_SLOT * PAGE_SIZE);
        for number in 0..SLOTS {
            self.file
                .read_at(&mut slot, ((1 + number * PAGES_PER_SLOT) * PAGE_SIZE) as u64)?;
            for page in slot.chunks_exact(PAGE_SIZE) {
                let id = page_id(page);
                if check(page, id).is_err() {
                    continue;
                }
                let lsn = page_lsn(page);
                if found.get(&id).is_none_or(|(other, _)| *other < lsn) {
                    found.insert(id, (lsn, AlignedBuf::from_slice(page)));
                }
            }
        }
        Ok(found)
    }
}

fn header() -> AlignedBuf {
    let mut b = AlignedBuf::new(PAGE_SIZE);
    b[..8].copy_from_slice(MAGIC);
    put_u32(&mut b, 8, FORMAT);
    put_u32(&mut b, 12, PAGE_SIZE as u32);
    put_u32(&mut b, 16, SLOTS as u32);
    put_u32(&mut b, 20, PAGES_PER_SLOT as u32);
    b
}

/// False: not yet a doublewrite file (its making was cut short, so it never protected anything).
fn check_header(file: &dyn File) -> Result<bool> {
    let mut b = AlignedBuf::new(PAGE_SIZE);
    file.read_at(&mut b, 0)?;
    if &b[..8] != MAGIC {
        return Ok(false);
    }
    if b[..24] != header()[..24] {
        return Err(Error::Unsupported(format!(
            "{}: format {} with pages of {} bytes; this build writes format {FORMAT} with pages of {PAGE_SIZE}",
            file.path(),
            get_u32(&b, 8),
            get_u32(&b, 12),
        )));
    }
    Ok(true)
}

impl Pool {
    /// Restores torn pages from the doublewrite file; before redo is applied and before anything is flushed. Data files are
    /// open. A copy that is older than what the log says of its page (`void`) is none of the page any more. Returns the number restored.
    pub fn recover_doublewrite(&self, void: &Void) -> Result<usize> {
        if !self.disk.exists(NAME)? {
            return Ok(0);
        }
        let checkpoint = self.redo.checkpoint_lsn();
        let mut restored = 0;
        let mut in_place = AlignedBuf::new(PAGE_SIZE);
        for (id, (lsn, copy)) in Doublewrite::open(&*self.disk)?.copies()? {
            if !self.files.contains(id.file) {
                continue;
            }
            if lsn <= checkpoint {
                // It was durable in place before the checkpoint passed it: an older page there is a lost write.
                self.written.note(std::iter::once((id, lsn)));
            }
            if lsn < checkpoint || void.holds(id, lsn) {
                continue;
            }
            let file = self.files.get(id.file)?.file;
            let offset = id.no as u64 * PAGE_SIZE as u64;
            let whole = offset + PAGE_SIZE as u64 <= file.len()?
                && file.read_at(&mut in_place, offset).is_ok()
                && check(&in_place, id).is_ok();
            if !whole {
                grow_to_hold(&*file, id)?;
                file.write_at(&copy, offset)?;
                file.sync()?;
                restored += 1;
            }
        }
        Ok(restored)
    }
}

/// A file may be shorter than its redo says: its growth was not durable yet at the crash.
pub(super) fn grow_to_hold(file: &dyn File, id: PageId) -> Result<()> {
    let need = (id.no as u64 + 1) * PAGE_SIZE as u64;
    if file.len()? < need {
        file.set_len(need)?;
    }
    Ok(())
}

//! The doublewrite file: what makes the pages of a batch whole again if a crash tears their writes.
//!
//! It is durable here before any page of the batch is written in place. It is a copy of the page,
//! or a line in the list of the batch if the log can mend the page (`recovery::torn`).
//!
//! ```text
//! page 0         "SLUICEDW", u32 format, u32 page size, u32 slots, u32 pages per slot; rest zero
//! page 1 ...     slot 0: up to PAGES_PER_SLOT sealed pages, each naming itself; then slot 1, ...
//! after them     a list of 4096 bytes for each slot:
//!     0 checksum  u32  CRC-32C of what follows
//!     4 count     u32
//!     8 entries   28 bytes each: file u32, page u32, base LSN u64, LSN u64, page checksum u32
//! ```
//! Format 1 has no lists; a file of it is brought up when it is opened.
//!
//! One batch at a time uses a slot, and the next one only when that batch is durable in place. Old
//! copies stay in the slot, so restoring goes by LSN. A page that was torn in place was on its way
//! there at the crash. Hence it was dirty, and its LSN is not below the checkpoint.
//!
//! A copy at or above the checkpoint LSN may replace a broken page, even if it is not the newest.
//! Redo from the checkpoint brings it up. An older copy must not: the log has lost what happened
//! since, and a broken page is better than a page of the past. An older copy still shows which
//! version must be in place by now (`written`).
//!
//! Takes no lock.
//! Called by: `batch` (writes), `recovery::torn` (reads).
use crate::base::bytes::{get_u32, get_u64, put_u32, put_u64};
use crate::base::{planted, Counters, Error, Lsn, Mutant, PageId, Result};
use crate::io::{AlignedBuf, Caching, Disk, File, Mode, IO_ALIGN};
use crate::pool::page::{check, page_id, page_lsn, PAGE_SIZE};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(in crate::pool) const NAME: &str = "doublewrite";
const MAGIC: &[u8; 8] = b"SLUICEDW";
const FORMAT: u32 = 2;
const FORMAT_WITHOUT_LISTS: u32 = 1;
pub(in crate::pool) const SLOTS: usize = 3;
pub(in crate::pool) const PAGES_PER_SLOT: usize = 128;

pub(in crate::pool) const LISTS_AT: usize = (1 + SLOTS * PAGES_PER_SLOT) * PAGE_SIZE;
const LIST: usize = IO_ALIGN;
const LIST_HEADER: usize = 8;
const ENTRY: usize = 28;
const FILE_LEN: u64 = (LISTS_AT + SLOTS * LIST) as u64;
const _: () = assert!(LIST_HEADER + PAGES_PER_SLOT * ENTRY <= LIST);
// The file is written past the system's cache.
const _: () = assert!(PAGE_SIZE % IO_ALIGN == 0 && LISTS_AT % IO_ALIGN == 0);

pub(in crate::pool) struct Doublewrite {
    file: Arc<dyn File>,
    /// False: there was no room for lists, so all pages are copied.
    has_lists: bool,
}

/// What makes a page of a batch whole again, should its write be torn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pool) enum RepairSource {
    /// An image of the page in the log.
    Image,
    /// The page's copy in the doublewrite file.
    Copy,
    /// The log, on top of what is in place. `base`: the LSN of the version in place.
    Log { base: Lsn },
}

/// A page that is about to be written without a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pool) struct ListEntry {
    pub page: PageId,
    /// Of the version in place.
    pub base: Lsn,
    /// Of the version to be written.
    pub lsn: Lsn,
    /// Of the version to be written.
    pub checksum: u32,
}

impl ListEntry {
    /// `bytes`: the sealed page. `base`: the LSN of the version in place.
    pub fn of(bytes: &[u8], base: Lsn) -> ListEntry {
        debug_assert!(
            base <= page_lsn(bytes),
            "the version in place is older than the one to be written"
        );
        ListEntry {
            page: page_id(bytes),
            base,
            lsn: page_lsn(bytes),
            checksum: get_u32(bytes, 0),
        }
    }
}

impl Doublewrite {
    /// Opens the file. Makes it if there is none, or if a crash interrupted the making of it.
    pub fn open(disk: &dyn Disk) -> Result<Doublewrite> {
        if disk.exists(NAME)? {
            let file = disk.open(NAME, Mode::Open, Caching::Direct)?;
            if let Some(format) = format_of(&*file)? {
                let has_lists = format == FORMAT || bring_up(&*file)?;
                return Ok(Doublewrite { file, has_lists });
            }
            drop(file);
            disk.remove(NAME)?;
        }
        let file = disk.open(NAME, Mode::Create, Caching::Direct)?;
        let made = file
            .set_len(FILE_LEN)
            .and_then(|()| file.write_at(&header(FORMAT), 0))
            .and_then(|()| file.sync());
        if let Err(error) = made {
            drop(file);
            // The first error is the one to report.
            let _ = disk.remove(NAME);
            return Err(error);
        }
        let has_lists = true;
        Ok(Doublewrite { file, has_lists })
    }
    /// Writes what the sealed `pages` of a batch need: copies, each to its place in the slot, and
    /// the list. Durable on return.
    pub fn write(&self, slot: usize, pages: &[u8], sources: &[RepairSource], counters: &Counters) -> Result<()> {
        assert!(
            slot < SLOTS && sources.len() <= PAGES_PER_SLOT,
            "a batch fits in its slot"
        );
        debug_assert!(
            pages.len() >= sources.len() * PAGE_SIZE,
            "every page has a source of its repair"
        );
        let copies_at = (1 + slot * PAGES_PER_SLOT) * PAGE_SIZE;
        let needs_copy = |source: &RepairSource| match source {
            RepairSource::Image => false,
            RepairSource::Copy => true,
            RepairSource::Log { .. } => !self.has_lists,
        };
        let (mut at, mut copied) = (0, 0);
        for run in sources.chunk_by(|a, b| needs_copy(a) == needs_copy(b)) {
            let bytes = at * PAGE_SIZE..(at + run.len()) * PAGE_SIZE;
            at += run.len();
            if needs_copy(&run[0]) {
                self.file
                    .write_at(&pages[bytes.clone()], (copies_at + bytes.start) as u64)?;
                counters.data_writes.inc();
                copied += run.len();
            }
        }
        let listed = sources.iter().zip(pages.chunks_exact(PAGE_SIZE));
        let entries: Vec<ListEntry> = listed
            .filter_map(|(source, page)| match source {
                RepairSource::Log { base } if self.has_lists => Some(ListEntry::of(page, *base)),
                _ => None,
            })
            .collect();
        let imaged = sources.iter().filter(|source| **source == RepairSource::Image).count();
        debug_assert_eq!(
            copied + entries.len() + imaged,
            sources.len(),
            "a torn page has a copy, an entry in the list, or an image in the log"
        );
        if !entries.is_empty() && !planted(Mutant::ListForgotten) {
            self.file.write_at(&list(&entries), (LISTS_AT + slot * LIST) as u64)?;
            counters.data_writes.inc();
            counters.data_written.add(LIST as u64);
        }
        if copied == 0 && entries.is_empty() {
            return Ok(());
        }
        self.file.sync()?;
        counters.data_written.add((copied * PAGE_SIZE) as u64);
        counters.data_fsyncs.inc();
        counters.dblwr_writes.inc();
        counters.dblwr_pages_written.add(copied as u64);
        Ok(())
    }
    /// The entries of all lists. Of a list that was not written whole there is none: no page of it
    /// was written.
    pub fn entries(&self) -> Result<Vec<ListEntry>> {
        if !self.has_lists {
            return Ok(Vec::new());
        }
        let mut lists = AlignedBuf::new(SLOTS * LIST);
        self.file.read_at(&mut lists, LISTS_AT as u64)?;
        Ok(lists.chunks_exact(LIST).flat_map(entries_of).collect())
    }
    /// The newest whole copy of each page.
    pub fn copies(&self) -> Result<BTreeMap<PageId, (Lsn, AlignedBuf)>> {
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

/// Gives a file of format 1 its lists. False: the disk is full, and the file stays as it is till
/// the next opening.
fn bring_up(file: &dyn File) -> Result<bool> {
    match file.set_len(FILE_LEN) {
        Err(Error::Full(_)) => return Ok(false),
        done => done?,
    }
    // In this order: a file of format 2 that is too short is made anew, and loses its copies.
    file.sync()?;
    file.write_at(&header(FORMAT), 0)?;
    file.sync()?;
    Ok(true)
}

fn list(entries: &[ListEntry]) -> AlignedBuf {
    debug_assert!(entries.len() <= PAGES_PER_SLOT, "a list has room for a batch");
    let mut b = AlignedBuf::new(LIST);
    put_u32(&mut b, 4, entries.len() as u32);
    for (entry, b) in entries.iter().zip(b[LIST_HEADER..].chunks_exact_mut(ENTRY)) {
        put_u32(b, 0, entry.page.file);
        put_u32(b, 4, entry.page.no);
        put_u64(b, 8, entry.base);
        put_u64(b, 16, entry.lsn);
        put_u32(b, 24, entry.checksum);
    }
    let crc = crc32c::crc32c(&b[4..]);
    put_u32(&mut b, 0, crc);
    b
}

fn entries_of(b: &[u8]) -> Vec<ListEntry> {
    let count = get_u32(b, 4) as usize;
    if get_u32(b, 0) != crc32c::crc32c(&b[4..]) || count > PAGES_PER_SLOT {
        return Vec::new();
    }
    let entries = b[LIST_HEADER..].chunks_exact(ENTRY).take(count);
    entries
        .map(|b| ListEntry {
            page: PageId::new(get_u32(b, 0), get_u32(b, 4)),
            base: get_u64(b, 8),
            lsn: get_u64(b, 16),
            checksum: get_u32(b, 24),
        })
        .collect()
}

fn header(format: u32) -> AlignedBuf {
    let mut b = AlignedBuf::new(PAGE_SIZE);
    b[..8].copy_from_slice(MAGIC);
    put_u32(&mut b, 8, format);
    put_u32(&mut b, 12, PAGE_SIZE as u32);
    put_u32(&mut b, 16, SLOTS as u32);
    put_u32(&mut b, 20, PAGES_PER_SLOT as u32);
    b
}

/// None: a crash interrupted the making of the file, so it never protected a page.
fn format_of(file: &dyn File) -> Result<Option<u32>> {
    let len = file.len()?;
    if len < LISTS_AT as u64 {
        return Ok(None);
    }
    let mut b = AlignedBuf::new(PAGE_SIZE);
    file.read_at(&mut b, 0)?;
    if &b[..8] != MAGIC {
        return Ok(None);
    }
    let format = get_u32(&b, 8);
    if !(FORMAT_WITHOUT_LISTS..=FORMAT).contains(&format) || b[..24] != header(format)[..24] {
        return Err(Error::Unsupported(format!(
            "{}: format {format} with pages of {} bytes; this build reads formats {FORMAT_WITHOUT_LISTS} to {FORMAT} with pages of {PAGE_SIZE}",
            file.path(),
            get_u32(&b, 12),
        )));
    }
    Ok(Some(format).filter(|format| *format < FORMAT || len >= FILE_LEN))
}

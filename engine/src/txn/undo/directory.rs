//! The transaction system page and the stream directory: what must survive outside the streams.
//! This file owns both formats.
//!
//! The system page (type System, file [`UNDO_FILE`], its number in the file header's first root):
//! ```text
//! 32  magic          8 bytes "SLUICETX"
//! 40  format         u32   1, or 2 from the first undo record of a load on: versions that do not
//!                          know such records refuse by name
//! 44  pages          u32   directory pages in use
//! 48  number_bound   u64   no transaction id or commit number at or above was ever given
//! 56  position_no    u64   commit number of the position below (0 = none)
//! 64  position_len   u16
//! 66  position       160 bytes: newest replication position of a purged transaction
//! 256 directory      u32 x 64: the directory pages
//! ```
//! A directory page (type System) is an array of slots from byte 32 on, one per stream:
//! ```text
//! 0 head   u32 page + u16 offset   where purge goes on (page 0: the stream does not exist)
//! 6 skip   u32 page + u16 offset   records before this one were undone (page 0: none)
//! ```
//! The head is moved when purge leaves a page, and by a slow shutdown, not for each record. After a
//! crash up to a page of records per stream is handed to purge once more.
//!
//! Latches: undo pages, directory page, system page, space pages. Called by `streams.rs`,
//! `purge.rs`, `truncate.rs`.
use super::format::{DATA, POSITION_MAX};
use super::stream::{encode_ptr, format_page, StreamTail};
use crate::base::bytes::{get_u16, get_u32, get_u64};
use crate::base::ids::UNDO_FILE;
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Error, PageId, PageNo, Result, UndoPtr};
use crate::pool::{Mtr, PageHandle, PageType, Pool, PAGE_BODY, PAGE_SIZE};
use crate::space;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

const MAGIC: &[u8; 8] = b"SLUICETX";
const FORMAT: u32 = 1;
const FORMAT_WITH_LOADS: u32 = 2;
const FORMAT_AT: usize = 40;
const PAGES_AT: usize = 44;
const BOUND_AT: usize = 48;
const POSITION_NO_AT: usize = 56;
const POSITION_LEN_AT: usize = 64;
const POSITION_AT: usize = 66;
const DIRECTORY_AT: usize = 256;
const DIRECTORY_PAGES_MAX: usize = 64;
const SLOT: usize = 12;
const SLOTS_PER_PAGE: usize = (PAGE_SIZE - PAGE_BODY) / SLOT;
/// Ids and commit numbers are reserved in steps of this.
const NUMBERS_STEP: u64 = 65_536;
const _: () = assert!(
    POSITION_AT + POSITION_MAX <= DIRECTORY_AT,
    "the position has its place in the page"
);
const _: () = assert!(
    DIRECTORY_AT + 4 * DIRECTORY_PAGES_MAX <= PAGE_SIZE,
    "the directory has its place in the page"
);

/// A replication position, and the number of the commit that carried it (0 = none).
pub(in crate::txn) type Position = (u64, Vec<u8>);

/// What a stream's slot says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) struct Slot {
    pub head: UndoPtr,
    pub skip_until: UndoPtr,
}

pub(in crate::txn) struct Directory {
    system: PageNo,
    pages: RankedMutex<Vec<PageNo>>,
    /// The format in the system page is [`FORMAT_WITH_LOADS`].
    has_loads: AtomicBool,
}

/// What the system page says.
pub(in crate::txn) struct SystemPage {
    pub number_bound: u64,
    pub position: Position,
}

/// Creates the undo file and formats the system page.
pub(in crate::txn) fn create(pool: &Pool) -> Result<()> {
    space::create_file(pool, UNDO_FILE, false)?;
    let mut mtr = pool.begin();
    let no = space::allocate(&mut mtr, UNDO_FILE, 0)?;
    let page = mtr.create(PageId::new(UNDO_FILE, no), 0, PageType::System, 0)?;
    mtr.edit(page, PAGE_BODY, MAGIC);
    mtr.edit_u32(page, FORMAT_AT, FORMAT);
    // Number 0 means none.
    mtr.edit_u64(page, BOUND_AT, 1);
    let header = space::header(&mut mtr, UNDO_FILE)?;
    mtr.edit_u32(header, space::ROOTS_OFFSET, no);
    mtr.commit();
    Ok(())
}

impl Directory {
    pub fn open(pool: &Pool) -> Result<(Directory, SystemPage)> {
        let header = pool.read(PageId::new(UNDO_FILE, space::HEADER_PAGE))?;
        let system = get_u32(&header, space::ROOTS_OFFSET);
        drop(header);
        let page = pool.read(PageId::new(UNDO_FILE, system))?;
        let count = get_u32(&page, PAGES_AT) as usize;
        let position_len = get_u16(&page, POSITION_LEN_AT) as usize;
        if &page[PAGE_BODY..PAGE_BODY + 8] != MAGIC || count > DIRECTORY_PAGES_MAX || position_len > POSITION_MAX {
            return Err(Error::corrupt(format!(
                "file {UNDO_FILE} page {system} is not a transaction system page; restore the engine's directory from a backup"
            )));
        }
        let format = get_u32(&page, FORMAT_AT);
        if !(FORMAT..=FORMAT_WITH_LOADS).contains(&format) {
            return Err(Error::Unsupported(format!(
                "the transaction system page has format {format}, this version reads {FORMAT} to {FORMAT_WITH_LOADS}"
            )));
        }
        let pages = (0..count).map(|i| get_u32(&page, DIRECTORY_AT + 4 * i)).collect();
        let directory = Directory {
            system,
            pages: RankedMutex::new(Rank::Leaf, pages),
            has_loads: AtomicBool::new(format == FORMAT_WITH_LOADS),
        };
        let system_page = SystemPage {
            number_bound: get_u64(&page, BOUND_AT),
            position: (
                get_u64(&page, POSITION_NO_AT),
                page[POSITION_AT..POSITION_AT + position_len].to_vec(),
            ),
        };
        Ok((directory, system_page))
    }

    fn system_id(&self) -> PageId {
        PageId::new(UNDO_FILE, self.system)
    }

    /// Reserves numbers above `next` and returns the new bound: durable before anything that
    /// carries one of them, by the order of the log.
    pub fn reserve_numbers(&self, pool: &Pool, next: u64) -> Result<u64> {
        pool.redo().reserve_wait()?;
        let mut mtr = pool.begin();
        let page = mtr.write(self.system_id())?;
        let bound = get_u64(mtr.bytes(page), BOUND_AT);
        if bound > next + NUMBERS_STEP / 2 {
            // Another thread was here before.
            return Ok(bound);
        }
        let bound = bound.max(next) + NUMBERS_STEP;
        debug_assert!(bound > next, "I10: a number is given once, and only below the bound");
        mtr.edit_u64(page, BOUND_AT, bound);
        mtr.commit();
        Ok(bound)
    }

    /// Undo records of a load may follow: the mark is durable before them, by the order of the log.
    pub fn note_loads(&self, pool: &Pool) -> Result<()> {
        if self.has_loads.load(Ordering::Acquire) {
            return Ok(());
        }
        pool.redo().reserve_wait()?;
        let mut mtr = pool.begin();
        let page = mtr.write(self.system_id())?;
        mtr.edit_u32(page, FORMAT_AT, FORMAT_WITH_LOADS);
        mtr.commit();
        self.has_loads.store(true, Ordering::Release);
        Ok(())
    }

    /// Notes the position of a commit if it is newer than the one stored.
    pub fn save_position(&self, mtr: &mut Mtr<'_>, (number, position): &Position) -> Result<()> {
        let page = mtr.write(self.system_id())?;
        if get_u64(mtr.bytes(page), POSITION_NO_AT) < *number {
            debug_assert!(
                position.len() <= POSITION_MAX,
                "the end that carried the position had room for no more"
            );
            mtr.edit_u64(page, POSITION_NO_AT, *number);
            mtr.edit_u16(page, POSITION_LEN_AT, position.len() as u16);
            mtr.edit(page, POSITION_AT, position);
        }
        Ok(())
    }

    /// Makes the stream `number` (its slot is vacant): one page, empty.
    pub fn add_stream(&self, pool: &Pool, number: u32) -> Result<StreamTail> {
        pool.redo().reserve_wait()?;
        self.add_page_for(pool, number)?;
        let mut mtr = pool.begin();
        let slot = self.slot_page(&mut mtr, number)?;
        let no = space::allocate(&mut mtr, UNDO_FILE, space::LOWEST)?;
        format_page(&mut mtr, no, number)?;
        let head = UndoPtr {
            page: no,
            offset: DATA as u16,
        };
        write_slot(
            &mut mtr,
            slot,
            number,
            Slot {
                head,
                skip_until: UndoPtr::NONE,
            },
        );
        mtr.commit();
        Ok(StreamTail::at(number, head, VecDeque::new()))
    }

    /// Gives an empty stream a low page in place of those it has. Of these only `position` may
    /// still be needed: the newest commit's. Errors come before any change.
    pub fn move_stream(&self, pool: &Pool, tail: &StreamTail, position: Position) -> Result<StreamTail> {
        pool.redo().reserve_wait()?;
        let left = tail.pages();
        let mut mtr = pool.begin();
        self.latch_slot(&mut mtr, tail.number)?;
        space::prepare_free(&mut mtr, &left)?;
        let no = space::allocate(&mut mtr, UNDO_FILE, space::LOWEST)?;
        format_page(&mut mtr, no, tail.number)?;
        space::free(&mut mtr, &left)?;
        let head = UndoPtr {
            page: no,
            offset: DATA as u16,
        };
        let skip_until = UndoPtr::NONE;
        self.set_slot(&mut mtr, tail.number, Slot { head, skip_until })?;
        self.save_position(&mut mtr, &position)?;
        mtr.commit();
        Ok(StreamTail::at(tail.number, head, VecDeque::new()))
    }

    /// Adds the directory page that holds the slot, if it is missing.
    fn add_page_for(&self, pool: &Pool, number: u32) -> Result<()> {
        let wanted = number as usize / SLOTS_PER_PAGE;
        assert!(wanted < DIRECTORY_PAGES_MAX);
        while self.pages.lock().len() <= wanted {
            let mut mtr = pool.begin();
            let system = mtr.write(self.system_id())?;
            let count = get_u32(mtr.bytes(system), PAGES_AT) as usize;
            if count > wanted {
                // Another thread added it while this one waited for the latch.
                continue;
            }
            let no = space::allocate(&mut mtr, UNDO_FILE, space::LOWEST)?;
            mtr.create(PageId::new(UNDO_FILE, no), 0, PageType::System, 0)?;
            mtr.edit_u32(system, DIRECTORY_AT + 4 * count, no);
            mtr.edit_u32(system, PAGES_AT, count as u32 + 1);
            self.pages.lock().push(no);
            mtr.commit();
        }
        Ok(())
    }

    fn slot_page(&self, mtr: &mut Mtr<'_>, number: u32) -> Result<PageHandle> {
        let no = self.pages.lock()[number as usize / SLOTS_PER_PAGE];
        mtr.write(PageId::new(UNDO_FILE, no))
    }

    /// Latches what `set_slot` and `save_position` change, in the order of latches.
    pub fn latch_slot(&self, mtr: &mut Mtr<'_>, number: u32) -> Result<()> {
        self.slot_page(mtr, number)?;
        mtr.write(self.system_id())?;
        Ok(())
    }

    /// Moves a stream's head.
    pub fn set_slot(&self, mtr: &mut Mtr<'_>, number: u32, slot: Slot) -> Result<()> {
        let page = self.slot_page(mtr, number)?;
        write_slot(mtr, page, number, slot);
        Ok(())
    }

    /// All slots, vacant ones as None.
    pub fn slots(&self, pool: &Pool) -> Result<Vec<Option<Slot>>> {
        let pages = self.pages.lock().clone();
        let mut slots = Vec::new();
        for no in pages {
            let page = pool.read(PageId::new(UNDO_FILE, no))?;
            let ptr = |at: usize| UndoPtr {
                page: get_u32(&page, at),
                offset: get_u16(&page, at + 4),
            };
            for i in 0..SLOTS_PER_PAGE {
                let at = PAGE_BODY + i * SLOT;
                let head = ptr(at);
                let skip_until = ptr(at + 6);
                slots.push((!head.is_none()).then_some(Slot { head, skip_until }));
            }
        }
        Ok(slots)
    }
}

fn write_slot(mtr: &mut Mtr<'_>, page: PageHandle, number: u32, slot: Slot) {
    debug_assert!(
        !slot.head.is_none(),
        "a slot with no head would be taken for one without a stream"
    );
    debug_assert!(
        (DATA..=PAGE_SIZE).contains(&(slot.head.offset as usize)),
        "a stream begins in the data of a page"
    );
    let mut bytes = [0u8; SLOT];
    bytes[..6].copy_from_slice(&encode_ptr(slot.head));
    bytes[6..].copy_from_slice(&encode_ptr(slot.skip_until));
    mtr.edit(page, PAGE_BODY + number as usize % SLOTS_PER_PAGE * SLOT, &bytes);
}

//! [`ExtentList`]: the extents of an unfinished load, listed on pages of their own. Whatever ends
//! the load early, the list gives the extents back.
//!
//! The first page is an index build's root, or an undo record names it. The load's last step turns
//! the list pages into something else in the Mtr that links the loaded nodes. From then on the tree
//! says which pages are in use.
//!
//! ```text
//!  0 page header (pool/page.rs): type Extents, index id
//! 32 next      u32  page number of the next list page, 0 = last
//! 36 ranges    u32  how many
//! 40 owner     u64  the load's transaction (I10: shows whether the page was given away since);
//!                   0 = an index build
//! 48 ranges         8 bytes each: first page u32, extents u32
//! ```
//! The first page is filled last: a full one is copied to a new page, which follows it in the list.
//! Latches: list pages, then space pages (I5). Called by: `load`, `free_tree`, and `table`, which
//! creates a load's list and frees it on rollback.
use crate::base::bytes::{get_u32, get_u64, put_u32, put_u64};
use crate::base::{FileId, IndexId, PageId, PageNo, Result, TrxId};
use crate::btree::pages::{begin, mark_free_named};
use crate::pool::page::{page_index, page_type};
use crate::pool::{Mtr, PageHandle, PageType, Pool, PAGE_BODY, PAGE_SIZE};
use crate::space::{self, EXTENT_PAGES};

const AT_TYPE: usize = 24;
const AT_NEXT: usize = PAGE_BODY;
const AT_COUNT: usize = PAGE_BODY + 4;
const AT_OWNER: usize = PAGE_BODY + 8;
const AT_RANGES: usize = PAGE_BODY + 16;
const RANGE: usize = 8;
const RANGES_MAX: usize = (PAGE_SIZE - AT_RANGES) / RANGE;
/// Extents freed in one Mtr.
const BATCH: u32 = 16;

/// Plain data: copies are the same list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentList {
    pub file: FileId,
    pub page: PageNo,
    pub index: IndexId,
    pub owner: TrxId,
}

/// The owner that a list page names: the load's transaction, 0 for an index build. None: the page
/// is no list page.
pub fn owner_of_list(bytes: &[u8]) -> Option<TrxId> {
    (page_type(bytes) == PageType::Extents as u8).then(|| get_u64(bytes, AT_OWNER))
}
/// The pages in the extents that a list page names; empty for any other page.
pub fn listed(bytes: &[u8]) -> impl Iterator<Item = std::ops::Range<PageNo>> + '_ {
    let is_list = page_type(bytes) == PageType::Extents as u8;
    let count = if is_list { get_u32(bytes, AT_COUNT) as usize } else { 0 };
    (0..count.min(RANGES_MAX)).map(move |i| {
        let at = AT_RANGES + i * RANGE;
        let first = get_u32(bytes, at);
        first..first + get_u32(bytes, at + 4) * EXTENT_PAGES
    })
}

/// A page of the list of an index build.
pub fn is_list_of(bytes: &[u8], index: IndexId) -> bool {
    let is_list = page_type(bytes) == PageType::Extents as u8;
    is_list && page_index(bytes) == index && get_u64(bytes, AT_OWNER) == 0
}

impl ExtentList {
    /// Creates a list on a new page.
    pub fn create(mtr: &mut Mtr<'_>, file: FileId, index: IndexId, owner: TrxId) -> Result<ExtentList> {
        Ok(ExtentList::create_many(mtr, file, &[index], owner)?[0])
    }
    /// Creates one list for each index: all of them, or (`Error::Full`) nothing is changed.
    pub fn create_many(mtr: &mut Mtr<'_>, file: FileId, indexes: &[IndexId], owner: TrxId) -> Result<Vec<ExtentList>> {
        let pages = space::allocate_many(mtr, file, 0, indexes.len())?;
        let make = |(page, index): (&PageNo, &IndexId)| {
            let (page, index) = (*page, *index);
            let list = ExtentList {
                file,
                page,
                index,
                owner,
            };
            let handle = mtr.create(list.id(page), index, PageType::Extents, 0)?;
            list.format(mtr, handle);
            Ok(list)
        };
        pages.iter().zip(indexes).map(make).collect()
    }
    /// Frees lists that this same `mtr` created, as `overflow::take_back` does.
    pub fn take_back(mtr: &mut Mtr<'_>, lists: &[ExtentList]) -> Result<()> {
        for list in lists {
            let page = mtr.write(list.id(list.page))?;
            debug_assert!(
                list.is_on(mtr.bytes(page)),
                "what is taken back is a list that this Mtr made"
            );
            space::free(mtr, &[list.id(list.page)])?;
            mark_free_named(mtr, page);
        }
        Ok(())
    }
    /// Creates a list on a page that is in use: the root of an index build.
    pub fn over(mtr: &mut Mtr<'_>, list: ExtentList) -> Result<()> {
        let handle = mtr.write(list.id(list.page))?;
        list.format(mtr, handle);
        Ok(())
    }
    fn id(&self, page: PageNo) -> PageId {
        PageId::new(self.file, page)
    }
    fn format(&self, mtr: &mut Mtr<'_>, page: PageHandle) {
        let owner = self.owner;
        mtr.rewrite(page, &mut |bytes| {
            bytes[AT_TYPE..].fill(0);
            bytes[AT_TYPE] = PageType::Extents as u8;
            put_u64(bytes, AT_OWNER, owner);
            (AT_RANGES, PAGE_SIZE)
        });
    }
    /// The page is still the first page of this list.
    fn is_on(&self, bytes: &[u8]) -> bool {
        page_type(bytes) == PageType::Extents as u8
            && page_index(bytes) == self.index
            && get_u64(bytes, AT_OWNER) == self.owner
    }

    /// Gives the load another extent. Returns its first page, and the LSN of the redo group.
    pub fn allocate(&self, pool: &Pool) -> Result<(PageNo, u64)> {
        self.make_room(pool)?;
        loop {
            let mut unwritten = None;
            if let Some(given) = self.try_allocate(pool, &mut unwritten)? {
                return Ok(given);
            }
            if let Some(first) = unwritten {
                pool.flusher().write_freed(self.id(first), EXTENT_PAGES)?;
            }
        }
    }
    /// None: on disk, pages of the extent `unwritten` may still look like pages of another tree.
    fn try_allocate(&self, pool: &Pool, unwritten: &mut Option<PageNo>) -> Result<Option<(PageNo, u64)>> {
        let mut mtr = begin(pool)?;
        let page = mtr.write(self.id(self.page))?;
        assert!(
            self.is_on(mtr.bytes(page)),
            "the list belongs to the load until the load ends"
        );
        let may_take = &mut |first| {
            let may_take = pool.flusher().is_past_written(self.id(first), EXTENT_PAGES);
            *unwritten = (!may_take).then_some(first);
            may_take
        };
        let Some(first) = space::allocate_extent(&mut mtr, self.file, may_take)? else {
            return Ok(None);
        };
        let count = get_u32(mtr.bytes(page), AT_COUNT) as usize;
        debug_assert!(count < RANGES_MAX, "room for a range was made");
        let last = AT_RANGES + count.saturating_sub(1) * RANGE;
        let (start, extents) = (get_u32(mtr.bytes(page), last), get_u32(mtr.bytes(page), last + 4));
        if count > 0 && start + extents * EXTENT_PAGES == first {
            mtr.edit_u32(page, last + 4, extents + 1);
        } else {
            let mut range = [0; RANGE];
            put_u32(&mut range, 0, first);
            put_u32(&mut range, 4, 1);
            mtr.edit(page, AT_RANGES + count * RANGE, &range);
            mtr.edit_u32(page, AT_COUNT, count as u32 + 1);
        }
        mtr.log_given(self.id(first), EXTENT_PAGES);
        Ok(Some((first, mtr.commit())))
    }
    /// Makes room for another range on the first page.
    fn make_room(&self, pool: &Pool) -> Result<()> {
        let full = get_u32(&pool.read(self.id(self.page))?, AT_COUNT) as usize >= RANGES_MAX;
        if !full {
            return Ok(());
        }
        let mut mtr = begin(pool)?;
        let page = mtr.write(self.id(self.page))?;
        let no = space::allocate(&mut mtr, self.file, 0)?;
        let copy = mtr.bytes(page).to_vec();
        let next_page = mtr.create(self.id(no), self.index, PageType::Extents, 0)?;
        mtr.rewrite(next_page, &mut |bytes| {
            bytes[AT_TYPE..].copy_from_slice(&copy[AT_TYPE..]);
            (PAGE_SIZE, PAGE_SIZE)
        });
        mtr.edit_u32(page, AT_NEXT, no);
        mtr.edit_u32(page, AT_COUNT, 0);
        mtr.commit();
        Ok(())
    }

    /// Frees every extent and the list itself, in bounded Mtrs (I7). Does nothing when the list is
    /// not there any more.
    pub fn free_all(&self, pool: &Pool) -> Result<()> {
        loop {
            let mut mtr = begin(pool)?;
            let page = mtr.write(self.id(self.page))?;
            if !self.is_on(mtr.bytes(page)) {
                return Ok(());
            }
            let done = self.free_some(&mut mtr, page)?;
            mtr.commit();
            if done {
                return Ok(());
            }
        }
    }
    /// Frees some extents or one list page. True: the list is gone.
    fn free_some(&self, mtr: &mut Mtr<'_>, page: PageHandle) -> Result<bool> {
        let count = get_u32(mtr.bytes(page), AT_COUNT) as usize;
        let next = get_u32(mtr.bytes(page), AT_NEXT);
        if count == 0 && next == 0 {
            space::free(mtr, &[self.id(self.page)])?;
            mark_free_named(mtr, page);
            return Ok(true);
        }
        if count == 0 {
            let next_page = mtr.write(self.id(next))?;
            let copy = mtr.bytes(next_page).to_vec();
            space::free(mtr, &[self.id(next)])?;
            mark_free_named(mtr, next_page);
            mtr.rewrite(page, &mut |bytes| {
                bytes[AT_TYPE..].copy_from_slice(&copy[AT_TYPE..]);
                (PAGE_SIZE, PAGE_SIZE)
            });
            return Ok(false);
        }
        let last = AT_RANGES + (count - 1) * RANGE;
        let (start, extents) = (get_u32(mtr.bytes(page), last), get_u32(mtr.bytes(page), last + 4));
        let kept = extents.saturating_sub(BATCH);
        let firsts = || (kept..extents).map(|extent| start + extent * EXTENT_PAGES);
        for first in firsts() {
            space::check_used_in_extent(mtr, self.file, first, 0)?;
        }
        for first in firsts() {
            space::free_in_extent(mtr, self.file, first, 0)?;
        }
        mtr.edit_u32(page, last + 4, kept);
        if kept == 0 {
            mtr.edit_u32(page, AT_COUNT, count as u32 - 1);
        }
        Ok(false)
    }

    /// Part of the load's last Mtr: frees the list's pages (if `keep_first`, all but the first),
    /// and the unused ends of extents. `unused`: (first page of the extent, pages used).
    pub(super) fn dissolve(&self, mtr: &mut Mtr<'_>, unused: &[(PageNo, u32)], keep_first: bool) -> Result<()> {
        debug_assert!(
            unused.iter().all(|(_, used)| *used <= EXTENT_PAGES),
            "no more pages are used than an extent has"
        );
        let mut pages = vec![mtr.write(self.id(self.page))?];
        assert!(
            self.is_on(mtr.bytes(pages[0])),
            "the list belongs to the load until the load ends"
        );
        loop {
            let next = get_u32(mtr.bytes(pages[pages.len() - 1]), AT_NEXT);
            if next == 0 {
                break;
            }
            pages.push(mtr.write(self.id(next))?);
        }
        let freed = pages.split_off(keep_first as usize);
        let freed_ids: Vec<PageId> = freed.iter().map(|page| mtr.id(*page)).collect();
        let unused = || unused.iter().filter(|(_, used)| *used < EXTENT_PAGES);
        // Everything that can fail comes before any change.
        space::prepare_free(mtr, &freed_ids)?;
        for (first, used) in unused() {
            space::check_used_in_extent(mtr, self.file, *first, *used)?;
        }
        space::free(mtr, &freed_ids)?;
        freed.into_iter().for_each(|page| mark_free_named(mtr, page));
        for (first, used) in unused() {
            space::free_in_extent(mtr, self.file, *first, *used)?;
        }
        Ok(())
    }
}

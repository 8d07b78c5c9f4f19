//! Overflow chains: values too long for a leaf, in a list of pages of the same file.
//!
//! The table layer keeps the first page's number in the row. A chain is written front to back, and
//! freed from its second page on, one page in one Mtr (I7). So at any moment the chain is whole and
//! can be freed. The first page names its *owner*, the transaction that made the chain (I10). After
//! a crash the chain is freed again. Such a free must not touch a page that was given away since.
//!
//! Latches: the chain's pages, first page first, then space pages (I5). Called by: `table`.
//!
//! ```text
//!  0 page header (pool/page.rs): type Overflow, index id
//! 32 next      u32  page number, 0 = last
//! 36 len       u16  bytes of data in this page
//! 38 first     u16  1 = a chain begins here; 2 = the chain is condemned: no row names it any more,
//!                   and it is being freed
//! 40 owner     u64
//! 48 data
//! ```
use super::pages::{begin, mark_free, mark_free_named};
use crate::base::bytes::{get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use crate::base::{Error, FileId, IndexId, Lsn, PageId, PageNo, Result, TrxId};
use crate::pool::page::{page_index, page_type};
use crate::pool::{Mtr, PageHandle, PageType, Pool, PAGE_BODY, PAGE_SIZE};
use crate::space;

const AT_NEXT: usize = PAGE_BODY;
const AT_LEN: usize = PAGE_BODY + 4;
const AT_FIRST: usize = PAGE_BODY + 6;
const AT_OWNER: usize = PAGE_BODY + 8;
const AT_DATA: usize = PAGE_BODY + 16;
const FIRST: u16 = 1;
const CONDEMNED: u16 = 2;
/// Bytes of data in one page.
pub const CHUNK: usize = PAGE_SIZE - AT_DATA;

/// Allocates the first page, empty. The caller logs the undo record that names it in the same Mtr.
pub fn create(mtr: &mut Mtr<'_>, file: FileId, index: IndexId, owner: TrxId) -> Result<PageNo> {
    let no = space::allocate(mtr, file, 0)?;
    let page = mtr.create(PageId::new(file, no), index, PageType::Overflow, 0)?;
    let mut header = [0u8; 10];
    put_u16(&mut header, 0, FIRST);
    put_u64(&mut header, 2, owner);
    mtr.edit(page, AT_FIRST, &header);
    Ok(no)
}
/// Frees a chain that this same `mtr` created and whose undo record could not be written. Its pages
/// are latched already: nothing can fail half way.
pub fn take_back(mtr: &mut Mtr<'_>, file: FileId, first: PageNo) -> Result<()> {
    let page = mtr.write(PageId::new(file, first))?;
    debug_assert!(
        is_overflow(mtr.bytes(page)),
        "what is taken back is a chain that this Mtr made"
    );
    space::free(mtr, &[PageId::new(file, first)])?;
    mark_free_named(mtr, page);
    Ok(())
}
/// Fills a chain just created, in bounded Mtrs of its own (I7). Returns the LSN of the last one. On
/// error the chain is shorter, but whole.
pub fn fill(pool: &Pool, file: FileId, first: PageNo, data: &[u8]) -> Result<Lsn> {
    debug_assert_ne!(first, 0, "page 0 is a file's header");
    let mut no = first;
    let mut rest = data;
    loop {
        let mut mtr = begin(pool)?;
        let page = mtr.write(PageId::new(file, no))?;
        let chunk = &rest[..rest.len().min(CHUNK)];
        rest = &rest[chunk.len()..];
        let next = if rest.is_empty() {
            0
        } else {
            let next = space::allocate(&mut mtr, file, no)?;
            let index = page_index(mtr.bytes(page));
            mtr.create(PageId::new(file, next), index, PageType::Overflow, 0)?;
            next
        };
        write_page(&mut mtr, page, next, chunk);
        let lsn = mtr.commit();
        if next == 0 {
            return Ok(lsn);
        }
        no = next;
    }
}
/// Appends the chain's bytes to `out`.
pub fn read(pool: &Pool, file: FileId, first: PageNo, out: &mut Vec<u8>) -> Result<()> {
    let mut no = first;
    while no != 0 {
        let page = pool.read(PageId::new(file, no))?;
        let len = get_u16(&page, AT_LEN) as usize;
        let in_place = (get_u16(&page, AT_FIRST) == FIRST) == (no == first);
        if !is_overflow(&page) || !in_place || len > CHUNK || out.len() > u32::MAX as usize {
            return Err(broken(file, no));
        }
        out.extend_from_slice(&page[AT_DATA..AT_DATA + len]);
        no = get_u32(&page, AT_NEXT);
    }
    Ok(())
}
/// Condemns the chain, in the Mtr that removes the last reference to it. Errors come before any
/// change.
pub fn condemn(mtr: &mut Mtr<'_>, file: FileId, first: PageNo, owner: TrxId) -> Result<()> {
    let head = mtr.write(PageId::new(file, first))?;
    if begins(mtr.bytes(head), owner) {
        mtr.edit(head, AT_FIRST, &CONDEMNED.to_le_bytes());
    }
    Ok(())
}
/// Frees the chain, in bounded Mtrs (I7), its first page last. Does nothing when `first` is no
/// longer the first page of a chain of `owner`.
pub fn free(pool: &Pool, file: FileId, first: PageNo, owner: TrxId) -> Result<()> {
    free_if(pool, PageId::new(file, first), &|head| begins(head, owner))
}
/// As [`free`], if the chain was [condemned](condemn). Otherwise a row may still need it.
pub fn free_condemned(pool: &Pool, file: FileId, first: PageNo, owner: TrxId) -> Result<()> {
    let wanted = |head: &[u8]| begins(head, owner) && get_u16(head, AT_FIRST) == CONDEMNED;
    free_if(pool, PageId::new(file, first), &wanted)
}
fn free_if(pool: &Pool, first: PageId, wanted: &dyn Fn(&[u8]) -> bool) -> Result<()> {
    let file = first.file;
    loop {
        let mut mtr = begin(pool)?;
        let head = match mtr.write(first) {
            Err(e) if e.is_corrupt() && is_past(pool, first)? => return Ok(()),
            head => head?,
        };
        let bytes = mtr.bytes(head);
        if !wanted(bytes) {
            return Ok(());
        }
        let second = get_u32(bytes, AT_NEXT);
        if second == 0 {
            space::free(&mut mtr, &[first])?;
            mark_free_named(&mut mtr, head);
            mtr.commit();
            return Ok(());
        }
        let page = mtr.write(PageId::new(file, second))?;
        if !is_overflow(mtr.bytes(page)) {
            return Err(broken(file, second));
        }
        let third = get_u32(mtr.bytes(page), AT_NEXT);
        space::free(&mut mtr, &[PageId::new(file, second)])?;
        mark_free(&mut mtr, page);
        mtr.edit_u32(head, AT_NEXT, third);
        mtr.commit();
    }
}
/// For a page whose checksum is wrong. True: that is no damage, because the page's old content is
/// out of use. The page was freed, or a crash cut short the write of a load that got it. A free
/// that is repeated after the crash, or at a later start, has nothing left to do.
pub fn is_past(pool: &Pool, page: PageId) -> Result<bool> {
    Ok(pool.recovery().was_given(page) || !space::is_used(pool, page)?)
}
/// The pages of a chain that a row named a moment ago, for CHECK TABLE. Empty if the chain was
/// condemned meanwhile.
pub fn pages_of(pool: &Pool, file: FileId, first: PageNo, owner: TrxId) -> Result<Vec<PageNo>> {
    let head = || -> Result<Option<Lsn>> {
        let page = pool.read(PageId::new(file, first))?;
        let still = begins(&page, owner) && get_u16(&page, AT_FIRST) == FIRST;
        Ok(still.then(|| page.version()))
    };
    let Some(before) = head()? else {
        return Ok(Vec::new());
    };
    let found = pages(pool, file, first);
    // A chain is condemned by a change of its first page.
    match found {
        Err(_) if head()? != Some(before) => Ok(Vec::new()),
        found => found,
    }
}
/// The pages of a chain, first page first. Err: a page is broken, or the chain is a circle.
pub fn pages(pool: &Pool, file: FileId, first: PageNo) -> Result<Vec<PageNo>> {
    let mut out = Vec::new();
    let mut no = first;
    while no != 0 {
        let page = pool.read(PageId::new(file, no))?;
        if !is_overflow(&page) || out.contains(&no) {
            return Err(broken(file, no));
        }
        out.push(no);
        no = get_u32(&page, AT_NEXT);
    }
    Ok(out)
}

/// A chain of `owner` begins here, condemned or not.
fn begins(page: &[u8], owner: TrxId) -> bool {
    is_overflow(page) && get_u16(page, AT_FIRST) != 0 && get_u64(page, AT_OWNER) == owner
}
fn is_overflow(page: &[u8]) -> bool {
    page_type(page) == PageType::Overflow as u8
}
/// Writes next, length and data; first and owner stay.
fn write_page(mtr: &mut Mtr<'_>, page: PageHandle, next: PageNo, data: &[u8]) {
    debug_assert!(data.len() <= CHUNK, "a page's share");
    debug_assert!(next == 0 || data.len() == CHUNK, "only the last page is not full");
    mtr.rewrite(page, &mut |bytes| {
        put_u32(bytes, AT_NEXT, next);
        put_u16(bytes, AT_LEN, data.len() as u16);
        bytes[AT_DATA..].fill(0);
        bytes[AT_DATA..AT_DATA + data.len()].copy_from_slice(data);
        (AT_DATA + data.len(), PAGE_SIZE)
    });
}
fn broken(file: FileId, no: PageNo) -> Error {
    let what = format!(
        "file {file}, page {no}: a chain of overflow pages is broken here; the row that it belongs to cannot be read"
    );
    Error::corrupt_page(file, no, what)
}

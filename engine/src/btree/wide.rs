//! Wide trees: nodes of four pages, for keys that are too long for a node of one page.
//!
//! Which trees are wide says the index number ([`WIDE_BIT`]). A wide node is four pages that follow
//! each other in the file; to `node.rs` its bytes are those of the first page, and behind them the
//! bodies of the others (`pool/joined.rs`). The node format is the same: offsets of 16 bits reach
//! over all four. The first page is what parents, neighbours and the catalog name, and it has the
//! type, level and version; the others have type TreeRest, and are read and changed under the latch
//! of the first. Bulk loads past the pool and delta trees are never wide.
use super::node::{Node, NODE_HEADER};
use super::{Tree, ENTRY_MAX, KEY_MAX};
use crate::base::{IndexId, PageId, PageNo, Result};
use crate::pool::page::{page_index, page_type};
use crate::pool::{joined_len, Mtr, PageHandle, PageRead, PageType, Pool};
use crate::space;

/// Set in the number of an index whose tree is wide.
pub const WIDE_BIT: IndexId = 1 << 30;
/// Pages of a wide node, behind the first.
const REST: u32 = 3;
/// Bytes of a wide node.
const WIDE: usize = joined_len(REST as usize);
/// Longest key of a wide tree, and longest key + value: chosen as [`KEY_MAX`] and [`ENTRY_MAX`]
/// are.
pub const WIDE_KEY_MAX: usize = if WIDE >= 64_000 { 14_000 } else { WIDE / 8 };
pub const WIDE_ENTRY_MAX: usize = {
    let third = WIDE / 3 - 64;
    let split = WIDE / 2 - WIDE_KEY_MAX - 64;
    if third < split {
        third
    } else {
        split
    }
};
/// Two fences and two separators, so that an inner node that is split leaves two children on both
/// sides.
const _: () = assert!(4 * (WIDE_KEY_MAX + 16) <= WIDE - NODE_HEADER && WIDE < u16::MAX as usize);

impl Tree {
    pub fn is_wide(&self) -> bool {
        self.index & WIDE_BIT != 0
    }
    /// Longest key.
    pub fn key_max(&self) -> usize {
        match self.is_wide() {
            false => KEY_MAX,
            true => WIDE_KEY_MAX,
        }
    }
    /// Longest key + value.
    pub fn entry_max(&self) -> usize {
        match self.is_wide() {
            false => ENTRY_MAX,
            true => WIDE_ENTRY_MAX,
        }
    }
    /// Pages of a node.
    pub fn node_pages(&self) -> u32 {
        match self.is_wide() {
            false => 1,
            true => 1 + REST,
        }
    }
    /// The pages of the node that begins in page `no`.
    pub fn pages_of(&self, no: PageNo) -> impl Iterator<Item = PageId> {
        let file = self.file;
        (no..no + self.node_pages()).map(move |no| PageId::new(file, no))
    }
    /// The first pages of `n` new nodes: all, or (`Error::Full`) nothing is changed.
    pub(super) fn allocate(&self, mtr: &mut Mtr<'_>, near: PageNo, n: usize) -> Result<Vec<PageNo>> {
        match self.is_wide() {
            false => space::allocate_many(mtr, self.file, near, n),
            true => space::allocate_runs(mtr, self.file, near, n, 1 + REST),
        }
    }
    /// A node in pages that `allocate` gave, to be written.
    pub(super) fn create_node(&self, mtr: &mut Mtr<'_>, no: PageNo, level: u8) -> Result<PageHandle> {
        let page = mtr.create(self.page_id(no), self.index, PageType::Tree, level)?;
        if self.is_wide() {
            for id in self.pages_of(no).skip(1) {
                mtr.create(id, self.index, PageType::TreeRest, 0)?;
            }
            mtr.join(page, REST)?;
        }
        Ok(page)
    }
    /// The rest of the node whose first page is S-latched. A page that is none of this tree stays
    /// as it is: whoever asked finds that out.
    pub(super) fn join_read(&self, pool: &Pool, page: &mut PageRead<'_>) -> Result<()> {
        if !self.is_wide() || !Node::new(page).belongs_to(self.index) {
            return Ok(());
        }
        let no = page.id().no;
        let mut bytes = Vec::with_capacity(WIDE);
        bytes.extend_from_slice(page);
        for id in self.pages_of(no).skip(1) {
            let rest = pool.read(id).map_err(|e| e.in_index(self.file, self.index))?;
            self.check_rest(&rest, id.no)?;
            bytes.extend_from_slice(&rest[crate::pool::PAGE_BODY..]);
        }
        self.check_joined(&bytes, no)?;
        page.join(bytes.into_boxed_slice());
        Ok(())
    }
    /// The same of one that is X-latched.
    pub(super) fn join_write(&self, mtr: &mut Mtr<'_>, page: PageHandle) -> Result<()> {
        if !self.is_wide() || !Node::new(mtr.bytes(page)).belongs_to(self.index) {
            return Ok(());
        }
        let no = mtr.id(page).no;
        let is_new = mtr.bytes(page).len() < WIDE;
        mtr.join(page, REST).map_err(|e| e.in_index(self.file, self.index))?;
        if is_new {
            for id in self.pages_of(no).skip(1) {
                let rest = mtr.find(id).expect("it was joined");
                self.check_rest(mtr.bytes(rest), id.no)?;
            }
            self.check_joined(mtr.bytes(page), no)?;
        }
        Ok(())
    }
    fn check_rest(&self, page: &[u8], no: PageNo) -> Result<()> {
        match page_type(page) == PageType::TreeRest as u8 && page_index(page) == self.index {
            true => Ok(()),
            false => Err(self.corrupt(no, "it is not the rest of the node that begins before it")),
        }
    }
    fn check_joined(&self, bytes: &[u8], no: PageNo) -> Result<()> {
        (Node::new(bytes).check_bounds()).map_err(|what| self.corrupt(no, &what))
    }
}

//! [`Nodes`]: how the nodes of one tree lie in pages, and the latches of those pages.
//!
//! A node is one page. In a wide tree, for keys too long for a page, a node is four pages. They
//! follow each other in the file. `node` sees one run of bytes: the first page and, after it, the
//! bodies of the others (`pool/joined.rs`). The node format is the same: 16-bit offsets reach over
//! all four. Parents, neighbours and the catalog name the first page, which has the type, the level
//! and the version. The others have type TreeRest. They are read and changed under the latch of the
//! first. Loads past the pool and delta trees are never wide.
//!
//! Called by: every room of `btree`.
use super::limits::{ENTRY_MAX, KEY_MAX, WIDE, WIDE_BIT, WIDE_ENTRY_MAX, WIDE_KEY_MAX, WIDE_REST};
use super::node::{write_node, NewNode, Node};
use crate::base::{Error, FileId, IndexId, PageId, PageNo, Result};
use crate::pool::page::{page_index, page_type};
use crate::pool::{Mtr, PageHandle, PageRead, PageType, Pool, PAGE_BODY};
use crate::space;

/// The nodes of one tree, named by their first pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nodes {
    pub file: FileId,
    pub index: IndexId,
}

impl Nodes {
    #[inline]
    pub fn page_id(&self, no: PageNo) -> PageId {
        PageId::new(self.file, no)
    }
    #[inline]
    pub fn are_wide(&self) -> bool {
        self.index & WIDE_BIT != 0
    }
    /// Longest key, in bytes.
    #[inline]
    pub fn key_max(&self) -> usize {
        match self.are_wide() {
            false => KEY_MAX,
            true => WIDE_KEY_MAX,
        }
    }
    /// Longest key + value, in bytes.
    #[inline]
    pub fn entry_max(&self) -> usize {
        match self.are_wide() {
            false => ENTRY_MAX,
            true => WIDE_ENTRY_MAX,
        }
    }
    /// Pages of a node.
    pub fn pages_each(&self) -> u32 {
        match self.are_wide() {
            false => 1,
            true => 1 + WIDE_REST,
        }
    }
    /// The pages of the node that begins in page `no`.
    pub fn pages_of(&self, no: PageNo) -> impl Iterator<Item = PageId> {
        let file = self.file;
        (no..no + self.pages_each()).map(move |no| PageId::new(file, no))
    }

    /// S-latches a node. An unreadable page does not say which index it belongs to: the error names
    /// the index.
    #[inline]
    pub fn read<'p>(&self, pool: &'p Pool, no: PageNo) -> Result<PageRead<'p>> {
        let mut page = pool
            .read(self.page_id(no))
            .map_err(|e| e.in_index(self.file, self.index))?;
        if self.are_wide() {
            self.join_read(pool, &mut page)?;
        }
        Ok(page)
    }
    /// X-latches a node.
    #[inline]
    pub fn latch(&self, mtr: &mut Mtr<'_>, no: PageNo) -> Result<PageHandle> {
        let page = mtr
            .write(self.page_id(no))
            .map_err(|e| e.in_index(self.file, self.index))?;
        if self.are_wide() {
            self.join_write(mtr, page)?;
        }
        Ok(page)
    }
    /// X-latches a node unless that means waiting. None: it does.
    pub fn try_latch(&self, mtr: &mut Mtr<'_>, no: PageNo) -> Result<Option<PageHandle>> {
        let page = mtr
            .try_write(self.page_id(no))
            .map_err(|e| e.in_index(self.file, self.index))?;
        if let Some(page) = page {
            self.join_write(mtr, page)?;
        }
        Ok(page)
    }
    /// Reads the rest of a node whose first page is S-latched. A page of another tree stays as it
    /// is: the caller's own check finds that out.
    pub fn join_read(&self, pool: &Pool, page: &mut PageRead<'_>) -> Result<()> {
        if !self.are_wide() || !Node::new(page).belongs_to(self.index) {
            return Ok(());
        }
        let no = page.id().no;
        let mut bytes = Vec::with_capacity(WIDE);
        bytes.extend_from_slice(page);
        for id in self.pages_of(no).skip(1) {
            let rest = pool.read(id).map_err(|e| e.in_index(self.file, self.index))?;
            self.check_rest(&rest, id.no)?;
            bytes.extend_from_slice(&rest[PAGE_BODY..]);
        }
        debug_assert_eq!(bytes.len(), WIDE, "four pages, with one header");
        self.check_joined(&bytes, no)?;
        page.join(bytes.into_boxed_slice());
        Ok(())
    }
    /// The same for a node whose first page is X-latched.
    pub fn join_write(&self, mtr: &mut Mtr<'_>, page: PageHandle) -> Result<()> {
        if !self.are_wide() || !Node::new(mtr.bytes(page)).belongs_to(self.index) {
            return Ok(());
        }
        let no = mtr.id(page).no;
        let is_new = mtr.bytes(page).len() < WIDE;
        mtr.join(page, WIDE_REST)
            .map_err(|e| e.in_index(self.file, self.index))?;
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

    /// The first pages of `n` new nodes: all, or (`Error::Full`) nothing is changed.
    pub fn allocate(&self, mtr: &mut Mtr<'_>, near: PageNo, n: usize) -> Result<Vec<PageNo>> {
        let pages = match self.are_wide() {
            false => space::allocate_many(mtr, self.file, near, n)?,
            true => space::allocate_runs(mtr, self.file, near, n, 1 + WIDE_REST)?,
        };
        debug_assert_eq!(pages.len(), n, "all nodes have pages, or none");
        Ok(pages)
    }
    /// Writes a new node into pages that `allocate` returned.
    pub fn create_with(&self, mtr: &mut Mtr<'_>, no: PageNo, new: &NewNode<'_>) -> Result<()> {
        debug_assert_ne!(no, 0, "page 0 is a file's header");
        debug_assert!(new.items.is_sorted_by(|a, b| a.0 < b.0), "a node's keys ascend");
        let page = mtr.create(self.page_id(no), self.index, PageType::Tree, new.level)?;
        if self.are_wide() {
            for id in self.pages_of(no).skip(1) {
                mtr.create(id, self.index, PageType::TreeRest, 0)?;
            }
            mtr.join(page, WIDE_REST)?;
        }
        mtr.rewrite(page, &mut |bytes| write_node(bytes, new));
        Ok(())
    }

    #[cold]
    pub fn corrupt(&self, no: PageNo, what: &str) -> Error {
        let what = format!("index {} in file {}, page {no}: {what}", self.index, self.file);
        Error::corrupt_page(self.file, no, what).in_index(self.file, self.index)
    }
}

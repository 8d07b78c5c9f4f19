//! [`TreeRemover`]: frees all pages of a tree that is no longer in use.
//!
//! The steps are bounded and restartable (I7). A sound tree is freed from its right end, the root
//! last: each step leaves a tree without its rightmost pages. A tree that cannot be walked is freed
//! by a scan of the file. Latches: tree pages from the root down, then space pages. Called by:
//! `table`, for dropped indexes and builds that failed.
use super::node::edit::{self, MtrPage};
use super::node::Node;
use super::pages::{begin, mark_free_named};
use super::sorted::extents::{is_list_of, listed, ExtentList};
use super::tree::Tree;
use crate::base::sync::holds_no_latch;
use crate::base::{PageId, PageNo, Result};
use crate::pool::page::{page_index, page_type};
use crate::pool::{Mtr, PageType, Pool};
use crate::space;
use std::collections::BTreeMap;

/// Leaves freed in one Mtr.
const BATCH: usize = 32;

/// Pages given to loads: first page of a range, and the first page after it.
#[derive(Default)]
struct PagesOfLoads(BTreeMap<PageNo, PageNo>);

impl PagesOfLoads {
    fn has(&self, no: PageNo) -> bool {
        self.0.range(..=no).next_back().is_some_and(|(_, end)| no < *end)
    }
}

/// Frees the pages of one tree.
pub struct TreeRemover<'p> {
    pool: &'p Pool,
    tree: Tree,
}

impl<'p> TreeRemover<'p> {
    /// No thread uses the tree any more.
    pub fn new(pool: &'p Pool, tree: &Tree) -> TreeRemover<'p> {
        TreeRemover { pool, tree: *tree }
    }
    /// Frees all pages, in bounded Mtrs, the root last. May be repeated: a root that is no longer a
    /// page of this index means that all is done (index numbers are never reused, I10).
    pub fn remove(&self) -> Result<()> {
        let pool = self.pool;
        // The root of an unfinished load is the list of the load's extents, and is freed with them.
        let list = ExtentList {
            file: self.tree.file,
            page: self.tree.root,
            index: self.tree.index,
            owner: 0,
        };
        list.free_all(pool)?;
        loop {
            let mut mtr = begin(pool)?;
            let done = self.remove_some(&mut mtr)?;
            mtr.commit();
            if done {
                return Ok(());
            }
        }
    }
    /// Frees all pages of a tree that cannot be walked: reads every page of the file and frees
    /// those of this tree. Returns the number of unreadable pages that belong to no known tree.
    /// None: try later, a load or another such scan is going on in the file.
    pub fn remove_scattered(&self) -> Result<Option<usize>> {
        debug_assert!(holds_no_latch(), "I7: every page is freed in an Mtr of its own");
        let pool = self.pool;
        // A page of a load that is not written yet still holds its old content. That may be a page
        // of this tree which was freed since.
        let Some(_loads_off) = pool.loads().keep_off(self.tree.file) else {
            return Ok(None);
        };
        let loaded = self.pages_of_loads()?;
        self.free_broken_children(&loaded)?;
        let mut unread = 0;
        for no in 1..space::usage(self.pool, self.tree.file)?.pages {
            if no != self.tree.root && !loaded.has(no) {
                unread += self.free_own(no, |_, _| Ok(()))? as usize;
            }
        }
        // The root is freed last: a root of another index means that all is done. A root that is a
        // load's page by now means the same. The list of trees to be freed does not know of the
        // load.
        if !loaded.has(self.tree.root) {
            // A broken root is known to belong to this tree.
            self.free_own(self.tree.root, |mtr, id| space::free(mtr, &[id]))?;
        }
        Ok(Some(unread))
    }
    /// Frees the page if its header names this tree. True: the page is broken, and `broken` decided
    /// what to do with it.
    fn free_own(&self, no: PageNo, broken: impl FnOnce(&mut Mtr<'_>, PageId) -> Result<()>) -> Result<bool> {
        debug_assert_ne!(no, 0, "page 0 is a file's header");
        let pool = self.pool;
        let id = self.tree.page_id(no);
        if !space::is_used(pool, id)? {
            return Ok(false);
        }
        let mut mtr = begin(pool)?;
        let mut is_broken = false;
        match mtr.write(id) {
            Ok(page) if self.owns(mtr.bytes(page)) => {
                space::free(&mut mtr, &[id])?;
                mark_free_named(&mut mtr, page);
            }
            Ok(_) => {}
            Err(e) if e.is_corrupt() => {
                is_broken = true;
                broken(&mut mtr, id)?;
            }
            Err(e) => return Err(e),
        }
        mtr.commit();
        Ok(is_broken)
    }
    /// The page is a node of the tree, a part of one, or a list page of the tree's unfinished load.
    fn owns(&self, page: &[u8]) -> bool {
        let is_rest = page_type(page) == PageType::TreeRest as u8 && page_index(page) == self.tree.index;
        is_rest || Node::new(page).belongs_to(self.tree.index) || is_list_of(page, self.tree.index)
    }
    /// The pages of other trees' loads that are unfinished or not linked yet.
    fn pages_of_loads(&self) -> Result<PagesOfLoads> {
        let pool = self.pool;
        let mut loaded = PagesOfLoads::default();
        for no in 1..space::usage(self.pool, self.tree.file)?.pages {
            let id = self.tree.page_id(no);
            if !space::is_used(pool, id)? {
                continue;
            }
            match pool.read(id) {
                Ok(page) if is_list_of(&page, self.tree.index) => {}
                Ok(page) => loaded.0.extend(listed(&page).map(|range| (range.start, range.end))),
                Err(e) if e.is_corrupt() => {}
                Err(e) => return Err(e),
            }
        }
        Ok(loaded)
    }
    /// Frees unreadable children first: such a page does not name its tree, but its parent does.
    fn free_broken_children(&self, loaded: &PagesOfLoads) -> Result<()> {
        let pool = self.pool;
        for no in (1..space::usage(pool, self.tree.file)?.pages).filter(|no| !loaded.has(*no)) {
            for child in self.children_of(no)? {
                if !loaded.has(child.no) && space::is_used(pool, child)? && is_broken(pool, child)? {
                    let mut mtr = begin(pool)?;
                    space::free(&mut mtr, &[child])?;
                    mtr.commit();
                }
            }
        }
        Ok(())
    }
    /// Empty if the page is no inner page of this tree.
    fn children_of(&self, no: PageNo) -> Result<Vec<PageId>> {
        let pool = self.pool;
        let id = self.tree.page_id(no);
        if !space::is_used(pool, id)? || is_broken(pool, id)? {
            return Ok(Vec::new());
        }
        let mut page = pool.read(id)?;
        match self.tree.nodes().join_read(pool, &mut page) {
            // Its list of children cannot be read.
            Err(e) if e.is_corrupt() => return Ok(Vec::new()),
            joined => joined?,
        }
        let node = Node::new(&page);
        if !node.belongs_to(self.tree.index) || node.level() == 0 {
            return Ok(Vec::new());
        }
        Ok((0..node.len())
            .map(|slot| self.tree.page_id(node.child(slot)))
            .collect())
    }
    /// Frees some pages at the right end. True: the tree is gone.
    fn remove_some(&self, mtr: &mut Mtr<'_>) -> Result<bool> {
        let tree = &self.tree;
        let mut page = tree.nodes().latch(mtr, tree.root)?;
        if !Node::new(mtr.bytes(page)).belongs_to(tree.index) {
            return Ok(true);
        }
        let mut parent = None;
        loop {
            let node = Node::new(mtr.bytes(page));
            let n = node.len();
            if node.level() == 0 || n == 0 {
                // An inner page without children, or a root that is a leaf.
                let id = mtr.id(page);
                debug_assert_eq!(
                    parent.is_none(),
                    id.no == tree.root,
                    "the root is freed last: it says whether all is done"
                );
                let pages: Vec<PageId> = tree.pages_of(id.no).collect();
                space::free(mtr, &pages)?;
                mark_free_named(mtr, page);
                if let Some(parent) = parent {
                    let mut parent = MtrPage { mtr, page: parent };
                    let last = edit::PageEdit::node(&parent).len() - 1;
                    edit::truncate(&mut parent, last);
                }
                return Ok(id.no == tree.root);
            }
            if node.level() == 1 {
                let keep = n.saturating_sub(BATCH);
                let leaves: Vec<_> = (keep..n).flat_map(|slot| tree.pages_of(node.child(slot))).collect();
                space::free(mtr, &leaves)?;
                edit::truncate(&mut MtrPage { mtr, page }, keep);
                return Ok(false);
            }
            let last = node.child(n - 1);
            parent = Some(page);
            page = tree.nodes().latch(mtr, last)?;
            if !Node::new(mtr.bytes(page)).belongs_to(tree.index) {
                return Err(tree.nodes().corrupt(last, "it is not a page of this index"));
            }
        }
    }
}

fn is_broken(pool: &Pool, page: PageId) -> Result<bool> {
    match pool.read(page) {
        Ok(_) => Ok(false),
        Err(e) if e.is_corrupt() => Ok(true),
        Err(e) => Err(e),
    }
}

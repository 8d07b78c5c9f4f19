//! Giving back a whole tree, in bounded steps from its right end. Nobody else uses the tree any more.
use super::edit::{self, MtrPage};
use super::extents::{is_list_of, listed, ExtentList};
use super::node::Node;
use super::shrink::mark_free_named;
use super::{begin, Tree};
use crate::base::{PageId, PageNo, Result};
use crate::pool::page::{page_index, page_type};
use crate::pool::{Mtr, PageType, Pool};
use crate::space;
use std::collections::BTreeMap;

/// Leaves given back in one Mtr.
const BATCH: usize = 32;

/// Pages given to loads: first page of a range, and the one behind it.
#[derive(Default)]
struct Loaded(BTreeMap<PageNo, PageNo>);

impl Loaded {
    fn has(&self, no: PageNo) -> bool {
        self.0.range(..=no).next_back().is_some_and(|(_, end)| no < *end)
    }
}

impl Tree {
    /// Frees all pages, in bounded Mtrs; the root last. Restartable: each step leaves a tree without its rightmost pages, and a
    /// root that is no longer this index's page (index numbers are never reused, I10) means that all is done.
    pub fn free_all(&self, pool: &Pool) -> Result<()> {
        // A load that was not finished: its root is the list of its extents, and goes with it.
        let list = ExtentList {
            file: self.file,
            page: self.root,
            index: self.index,
            owner: 0,
        };
        list.free_all(pool)?;
        loop {
            let mut mtr = begin(pool)?;
            let done = self.free_some(&mut mtr)?;
            mtr.commit();
            if done {
                return Ok(());
            }
        }
    }
    /// Frees all pages of a tree that cannot be walked: every page of the file is asked whose it is. Number of those that could not be read
    /// and that nobody knows. None: not now, a load, or another such walk, is going on in the file.
    pub fn free_scattered(&self, pool: &Pool) -> Result<Option<usize>> {
        // A page of a load that is not written yet says what it was before: one of this tree that was freed since, perhaps.
        let Some(_loads_off) = pool.loads().keep_off(self.file) else {
            return Ok(None);
        };
        let loaded = self.pages_of_loads(pool)?;
        self.free_broken_children(pool, &loaded)?;
        let mut unread = 0;
        for no in 1..space::usage(pool, self.file)?.pages {
            if no != self.root && !loaded.has(no) {
                unread += self.free_own(pool, no, |_, _| Ok(()))? as usize;
            }
        }
        // Last, because a root that is not this index's any more says that all is done: also one that is a load's now, which the list of what
        // is to be freed does not know.
        if !loaded.has(self.root) {
            // Broken, and known to be ours.
            self.free_own(pool, self.root, |mtr, id| space::free(mtr, &[id]))?;
        }
        Ok(Some(unread))
    }
    /// Frees the page if it says that it is this tree's. True: it is broken; then `broken` was asked what to do.
    fn free_own(
        &self,
        pool: &Pool,
        no: PageNo,
        broken: impl FnOnce(&mut Mtr<'_>, PageId) -> Result<()>,
    ) -> Result<bool> {
        let id = self.page_id(no);
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
    /// A page of the tree, or of the list of a build that came to no end.
    fn owns(&self, page: &[u8]) -> bool {
        let is_rest = page_type(page) == PageType::TreeRest as u8 && page_index(page) == self.index;
        is_rest || Node::new(page).belongs_to(self.index) || is_list_of(page, self.index)
    }
    /// Of others' loads that came to no end, or have ended and are not linked yet.
    fn pages_of_loads(&self, pool: &Pool) -> Result<Loaded> {
        let mut loaded = Loaded::default();
        for no in 1..space::usage(pool, self.file)?.pages {
            let id = self.page_id(no);
            if !space::is_used(pool, id)? {
                continue;
            }
            match pool.read(id) {
                Ok(page) if is_list_of(&page, self.index) => {}
                Ok(page) => loaded.0.extend(listed(&page).map(|range| (range.start, range.end))),
                Err(e) if e.is_corrupt() => {}
                Err(e) => return Err(e),
            }
        }
        Ok(loaded)
    }
    /// A page that cannot be read does not say whose it is, but its parent does; so these go first.
    fn free_broken_children(&self, pool: &Pool, loaded: &Loaded) -> Result<()> {
        for no in (1..space::usage(pool, self.file)?.pages).filter(|no| !loaded.has(*no)) {
            for child in self.children_of(pool, no)? {
                if !loaded.has(child.no) && space::is_used(pool, child)? && is_broken(pool, child)? {
                    let mut mtr = begin(pool)?;
                    space::free(&mut mtr, &[child])?;
                    mtr.commit();
                }
            }
        }
        Ok(())
    }
    /// None, if the page is no inner page of this tree.
    fn children_of(&self, pool: &Pool, no: PageNo) -> Result<Vec<PageId>> {
        let id = self.page_id(no);
        if !space::is_used(pool, id)? || is_broken(pool, id)? {
            return Ok(Vec::new());
        }
        let mut page = pool.read(id)?;
        match self.join_read(pool, &mut page) {
            // What it says of its children cannot be read.
            Err(e) if e.is_corrupt() => return Ok(Vec::new()),
            joined => joined?,
        }
        let node = Node::new(&page);
        if !node.belongs_to(self.index) || node.level() == 0 {
            return Ok(Vec::new());
        }
        Ok((0..node.len()).map(|slot| self.page_id(node.child(slot))).collect())
    }
    fn free_some(&self, mtr: &mut Mtr<'_>) -> Result<bool> {
        let mut page = self.latch(mtr, self.root)?;
        if !Node::new(mtr.bytes(page)).belongs_to(self.index) {
            return Ok(true);
        }
        let mut parent = None;
        loop {
            let node = Node::new(mtr.bytes(page));
            let n = node.len();
            if node.level() == 0 || n == 0 {
                // An inner page without children, or a root that is a leaf.
                let id = mtr.id(page);
                let pages: Vec<PageId> = self.pages_of(id.no).collect();
                space::free(mtr, &pages)?;
                mark_free_named(mtr, page);
                if let Some(parent) = parent {
                    let mut parent = MtrPage { mtr, page: parent };
                    let last = edit::PageEdit::node(&parent).len() - 1;
                    edit::truncate(&mut parent, last);
                }
                return Ok(id.no == self.root);
            }
            if node.level() == 1 {
                let keep = n.saturating_sub(BATCH);
                let leaves: Vec<_> = (keep..n).flat_map(|slot| self.pages_of(node.child(slot))).collect();
                space::free(mtr, &leaves)?;
                edit::truncate(&mut MtrPage { mtr, page }, keep);
                return Ok(false);
            }
            let last = self.page_id(node.child(n - 1));
            parent = Some(page);
            page = self.latch(mtr, last.no)?;
            if !Node::new(mtr.bytes(page)).belongs_to(self.index) {
                return Err(self.corrupt(last.no, "it is not a page of this index"));
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

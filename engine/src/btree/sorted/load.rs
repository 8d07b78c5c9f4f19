//! [`Loader`]: loads an empty tree from ascending entries, past the pool and the log.
//!
//! Each page is written once, in large pieces. Nothing refers to the pages until one last Mtr
//! rewrites the root. `pool/direct.rs` has the rules. If that Mtr never comes, `extents` gives the
//! pages back.
//!
//! Nodes of every level are gathered, and written when they are full. A node gets its page number
//! when its left neighbour is written, because that one links to it. Leaves fill extents, which are
//! written whole. Inner nodes, one in hundreds, are written one by one into extents of their own.
//! The topmost node has no page: it becomes the root's content. Memory: two extents, and one node
//! for each level.
//!
//! Called by: `table`, for CREATE INDEX and for inserts into empty tables. Holds no latch between
//! calls.
use super::extents::ExtentList;
use crate::base::bytes::{common_prefix, get_u32};
use crate::base::{Lsn, PageNo, Result};
use crate::btree::limits::{ENTRY_MAX, KEY_MAX};
use crate::btree::node::{item_size, write_node, NewNode, Node, AT_TYPE, CAPACITY, NO_SLOT};
use crate::btree::tree::Tree;
use crate::pool::direct::{Direct, Forced, PageBuffer};
use crate::pool::page::init_page;
use crate::pool::{Mtr, PageType, Pool, PAGE_SIZE};
use crate::space::EXTENT_PAGES;
use std::sync::Arc;

/// A page number, and the LSN of the redo group that gave the page to the load.
type Place = (PageNo, Lsn);

/// A node being gathered.
#[derive(Default)]
struct Level {
    /// Lower fence.
    lower: Vec<u8>,
    bytes: Vec<u8>,
    /// Ends of key and value of each item in `bytes`.
    ends: Vec<(usize, usize)>,
    /// Bytes of a node that the items take.
    size: usize,
    /// Known once the left neighbour is written.
    place: Option<Place>,
}

/// An extent being filled.
#[derive(Clone, Copy)]
struct Filling {
    first: PageNo,
    given: u32,
    lsn: Lsn,
}

pub struct Loader {
    pool: Arc<Pool>,
    tree: Tree,
    list: ExtentList,
    direct: Direct,
    /// Bytes of [`CAPACITY`] to fill.
    fill: usize,
    levels: Vec<Level>,
    /// Numbers of leaves come from here.
    leaves: Option<Filling>,
    /// The extent whose leaves are in `buffer`, `buffered` of them.
    writing: Option<Filling>,
    buffer: PageBuffer,
    buffered: u32,
    inner: Option<Filling>,
    entries: u64,
}

/// A load whose pages are all durable. [`Loaded::link`] makes them the tree's.
pub struct Loaded {
    tree: Tree,
    list: ExtentList,
    /// Level and content of the root; None: there was no entry.
    root: Option<(u8, Level)>,
    unused: Vec<(PageNo, u32)>,
    pub entries: u64,
    _forced: Forced,
}

impl Level {
    fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
        self.size += item_size(key.len(), value.len());
    }
    fn pop(&mut self) -> (Vec<u8>, Vec<u8>) {
        let (key_end, end) = self.ends.pop().expect("one item and two fences fit in a page");
        debug_assert_eq!(end, self.bytes.len(), "the last item lies at the end");
        let start = self.ends.last().map_or(0, |(_, end)| *end);
        let item = (self.bytes[start..key_end].to_vec(), self.bytes[key_end..end].to_vec());
        self.bytes.truncate(start);
        self.size -= item_size(item.0.len(), item.1.len());
        item
    }
    fn last_key(&self) -> &[u8] {
        let start = match self.ends.len() {
            0 | 1 => 0,
            n => self.ends[n - 2].1,
        };
        &self.bytes[start..self.ends[self.ends.len() - 1].0]
    }
    fn items(&self) -> Vec<(&[u8], &[u8])> {
        let mut start = 0;
        let item = |(key_end, end): &(usize, usize)| {
            let item = (&self.bytes[start..*key_end], &self.bytes[*key_end..*end]);
            start = *end;
            item
        };
        self.ends.iter().map(item).collect()
    }
    fn write(&self, page: &mut [u8], level: u8, upper: Option<&[u8]>, right: PageNo) -> (usize, usize) {
        let items = self.items();
        let new = NewNode {
            level,
            lower: &self.lower,
            upper,
            right,
            items: &items,
            last: NO_SLOT,
        };
        write_node(page, &new)
    }
    /// Empties the level for the right neighbour.
    fn restart(&mut self, lower: Vec<u8>) {
        self.lower = lower;
        self.bytes.clear();
        self.ends.clear();
        self.size = 0;
    }
}

impl Loader {
    /// `tree` is empty, and no other thread writes to it. `list` holds no extent yet.
    /// `fill_percent`: of each node, 50 to 100.
    pub fn new(pool: &Arc<Pool>, tree: Tree, list: ExtentList, fill_percent: u32) -> Result<Loader> {
        assert!(!tree.is_wide(), "wide trees are built through the pool");
        Ok(Loader {
            pool: pool.clone(),
            tree,
            list,
            direct: Direct::begin(pool, tree.file)?,
            fill: CAPACITY * fill_percent.clamp(50, 100) as usize / 100,
            levels: vec![Level::default()],
            leaves: None,
            writing: None,
            buffer: PageBuffer::new(EXTENT_PAGES as usize * PAGE_SIZE),
            buffered: 0,
            inner: None,
            entries: 0,
        })
    }
    pub fn entries(&self) -> u64 {
        self.entries
    }
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        assert!(
            key.len() <= KEY_MAX && key.len() + value.len() <= ENTRY_MAX,
            "the table layer keeps entries small enough"
        );
        let leaf = &self.levels[0];
        assert!(
            leaf.ends.is_empty() || leaf.last_key() < key,
            "a load takes ascending keys"
        );
        let size = item_size(key.len(), value.len());
        if !leaf.ends.is_empty() {
            let fence = common_prefix(leaf.last_key(), key) + 1;
            let full = leaf.lower.len() + leaf.size + size;
            if full > self.fill || full + fence > CAPACITY {
                self.end_leaf(key)?;
            }
        }
        self.levels[0].push(key, value);
        self.entries += 1;
        Ok(())
    }
    /// `next`: the first key after the leaf. Entries that leave no room for the fence go to the
    /// next leaf.
    fn end_leaf(&mut self, next: &[u8]) -> Result<()> {
        let leaf = &mut self.levels[0];
        let mut moved = Vec::new();
        let mut next = next.to_vec();
        let fence = loop {
            let shared = common_prefix(leaf.last_key(), &next);
            if leaf.lower.len() + leaf.size + shared < CAPACITY {
                break next[..shared + 1].to_vec();
            }
            let item = leaf.pop();
            next.clone_from(&item.0);
            moved.push(item);
        };
        self.end_node(0, Some(fence))?;
        for (key, value) in moved.into_iter().rev() {
            self.levels[0].push(&key, &value);
        }
        Ok(())
    }
    /// Writes the node gathered at `level`, and adds it to the level above. `upper` None: the node
    /// is the last one of its level.
    fn end_node(&mut self, level: usize, upper: Option<Vec<u8>>) -> Result<()> {
        debug_assert!(!self.levels[level].ends.is_empty(), "a node that is written has items");
        debug_assert!(
            upper.as_ref().is_none_or(|upper| self.levels[level].lower < *upper),
            "the ranges of a level ascend"
        );
        let place = match self.levels[level].place.take() {
            Some(place) => place,
            None => self.next_place(level)?,
        };
        let right = match &upper {
            Some(_) => Some(self.next_place(level)?),
            None => None,
        };
        self.write_page(level, place, upper.as_deref(), right.map_or(0, |(no, _)| no))?;
        let lower = std::mem::take(&mut self.levels[level].lower);
        self.levels[level].place = right;
        self.levels[level].restart(upper.unwrap_or_default());
        self.add_child(level + 1, &lower, place.0)
    }
    fn add_child(&mut self, level: usize, lower: &[u8], child: PageNo) -> Result<()> {
        debug_assert_ne!(child, 0, "page 0 is a file's header");
        if level == self.levels.len() {
            self.levels.push(Level::default());
        }
        let child = child.to_le_bytes();
        let node = &self.levels[level];
        let full = node.lower.len() + node.size + item_size(lower.len(), 4);
        if !node.ends.is_empty() && (full > self.fill || full + lower.len() > CAPACITY) {
            self.end_inner(level, lower)?;
        }
        // A node's first child stands under the empty key.
        let node = &mut self.levels[level];
        let key = if node.ends.is_empty() { &[][..] } else { lower };
        node.push(key, &child);
        Ok(())
    }
    /// `next`: lower fence of the first child after the node. Children that leave no room for
    /// `next` as a fence go to the next node.
    fn end_inner(&mut self, level: usize, next: &[u8]) -> Result<()> {
        let node = &mut self.levels[level];
        let mut moved: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut fence = next.to_vec();
        while node.lower.len() + node.size + fence.len() > CAPACITY {
            let item = node.pop();
            fence.clone_from(&item.0);
            moved.push(item);
        }
        self.end_node(level, Some(fence))?;
        for (key, value) in moved.into_iter().rev() {
            let node = &mut self.levels[level];
            let key = if node.ends.is_empty() { &[][..] } else { &key[..] };
            node.push(key, &value);
        }
        Ok(())
    }

    /// The next page for a node of `level`.
    fn next_place(&mut self, level: usize) -> Result<Place> {
        let filling = if level == 0 { self.leaves } else { self.inner };
        let mut filling = match filling {
            Some(filling) if filling.given < EXTENT_PAGES => filling,
            _ => {
                let (first, lsn) = self.list.allocate(&self.pool)?;
                self.direct.given(first, EXTENT_PAGES, lsn)?;
                Filling { first, given: 0, lsn }
            }
        };
        let place = (filling.first + filling.given, filling.lsn);
        filling.given += 1;
        debug_assert!(filling.given <= EXTENT_PAGES, "an extent gives the pages that it has");
        match level {
            0 => self.leaves = Some(filling),
            _ => self.inner = Some(filling),
        }
        if level == 0 && self.writing.is_none() {
            self.writing = self.leaves;
        }
        Ok(place)
    }
    fn write_page(&mut self, level: usize, place: Place, upper: Option<&[u8]>, right: PageNo) -> Result<()> {
        let id = self.tree.page_id(place.0);
        if level > 0 {
            let mut page = PageBuffer::new(PAGE_SIZE);
            init_page(&mut page, id, self.tree.index, PageType::Tree, level as u8);
            self.levels[level].write(&mut page, level as u8, upper, right);
            return self.direct.write(place.0, &mut page, place.1);
        }
        let writing = self.writing.expect("set with the first leaf's place");
        assert_eq!(
            place.0,
            writing.first + self.buffered,
            "leaves come in the order of their pages"
        );
        let page = &mut self.buffer[self.buffered as usize * PAGE_SIZE..][..PAGE_SIZE];
        init_page(page, id, self.tree.index, PageType::Tree, 0);
        self.levels[0].write(page, 0, upper, right);
        self.buffered += 1;
        if self.buffered == EXTENT_PAGES {
            self.write_leaves()?;
            self.writing = self.leaves.filter(|leaves| leaves.first != writing.first);
        }
        Ok(())
    }
    fn write_leaves(&mut self) -> Result<()> {
        let n = std::mem::take(&mut self.buffered) as usize;
        debug_assert!(
            n <= EXTENT_PAGES as usize,
            "the leaves of one extent are written at once"
        );
        match self.writing {
            Some(writing) if n > 0 => self
                .direct
                .write(writing.first, &mut self.buffer[..n * PAGE_SIZE], writing.lsn),
            _ => Ok(()),
        }
    }

    /// Writes the remaining nodes and forces all pages. Nothing refers to them yet.
    pub fn finish(mut self) -> Result<Loaded> {
        let mut level = 0;
        while level + 1 < self.levels.len() {
            self.end_node(level, None)?;
            level += 1;
        }
        self.write_leaves()?;
        let top = self.levels.pop().expect("there is always a level");
        let ends = [self.leaves, self.inner];
        Ok(Loaded {
            tree: self.tree,
            list: self.list,
            root: (!top.ends.is_empty()).then_some((level as u8, top)),
            unused: ends.iter().flatten().map(|f| (f.first, f.given)).collect(),
            entries: self.entries,
            _forced: self.direct.force()?,
        })
    }
}

impl Loaded {
    /// The value of a loaded entry, also before the load is linked: forced pages can be read.
    pub fn find(&self, pool: &Pool, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some((level, top)) = &self.root else {
            return Ok(None);
        };
        let items = top.items();
        let at = items.partition_point(|(k, _)| *k <= key);
        let Some((found, value)) = at.checked_sub(1).map(|at| items[at]) else {
            return Ok(None);
        };
        if *level == 0 {
            return Ok((found == key).then(|| value.to_vec()));
        }
        let below = Tree {
            root: get_u32(value, 0),
            ..self.tree
        };
        Ok(below.get(pool, key)?.map(|leaf| leaf.value().to_vec()))
    }

    /// Makes the loaded entries the tree's content. False: the tree is not empty any more, and
    /// nothing was changed.
    pub fn link(&self, mtr: &mut Mtr<'_>) -> Result<bool> {
        self.link_if(mtr, &mut || true)
    }
    /// The same if `allowed` returns true once the root is latched.
    pub fn link_if(&self, mtr: &mut Mtr<'_>, allowed: &mut dyn FnMut() -> bool) -> Result<bool> {
        let root = mtr.write(self.tree.page_id(self.tree.root))?;
        if !allowed() {
            mtr.release(root);
            return Ok(false);
        }
        let list_is_root = self.list.page == self.tree.root;
        if !list_is_root {
            let node = Node::new(mtr.bytes(root));
            if node.level() > 0 || !node.is_empty() {
                mtr.release(root);
                return Ok(false);
            }
        }
        self.list.dissolve(mtr, &self.unused, list_is_root)?;
        let (level, content) = match &self.root {
            Some((level, content)) => (*level, content),
            None => (0, &Level::default()),
        };
        mtr.rewrite(root, &mut |page| {
            page[AT_TYPE] = PageType::Tree as u8;
            page[26..32].fill(0);
            content.write(page, level, None, 0)
        });
        Ok(true)
    }
}

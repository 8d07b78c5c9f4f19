//! [`Builder`]: builds a tree from ascending entries, leaf by leaf, through the pool and the log.
//!
//! Each full leaf is appended at the right end of the tree in a bounded Mtr of its own (I7). So the
//! tree is sound at any moment: a crash leaves a shorter tree, and `TreeRemover` frees every page
//! of it. Pages are allocated one after the other. Called by: `table`, for small CREATE INDEX and
//! small inserts into empty tables, and for wide trees.
use crate::base::bytes::common_prefix;
use crate::base::Result;
use crate::btree::node::edit::{self, MtrPage};
use crate::btree::node::{item_size, write_node, NewNode, Node, NODE_HEADER, NO_SLOT};
use crate::btree::pages::begin;
use crate::btree::tree::Tree;
use crate::btree::write::split::{write_root_over, Item, SplitPlan};
use crate::pool::{joined_len, Mtr, PageHandle, Pool};

/// Takes entries in strictly ascending key order.
pub struct Builder<'p> {
    pool: &'p Pool,
    tree: Tree,
    /// Bytes of a node for slots, entries and fences.
    capacity: usize,
    /// Bytes of the capacity to fill.
    fill: usize,
    bytes: Vec<u8>,
    /// Ends of key and value of each entry in `bytes`.
    ends: Vec<(usize, usize)>,
    /// Bytes of a leaf that the gathered entries take.
    size: usize,
    /// Lower fence of the gathered leaf.
    lower: Vec<u8>,
    entries: u64,
}

impl<'p> Builder<'p> {
    /// `tree` is empty, and no other thread writes to it. `fill_percent`: of each leaf, 50 to 100.
    pub fn new(pool: &'p Pool, tree: Tree, fill_percent: u32) -> Builder<'p> {
        let capacity = joined_len(tree.node_pages() as usize - 1) - NODE_HEADER;
        let fill = capacity * fill_percent.clamp(50, 100) as usize / 100;
        debug_assert!(tree.entry_max() <= fill, "an entry fits a leaf that is half full");
        Builder {
            capacity,
            pool,
            tree,
            fill,
            bytes: Vec::new(),
            ends: Vec::new(),
            size: 0,
            lower: Vec::new(),
            entries: 0,
        }
    }
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        assert!(
            key.len() <= self.tree.key_max() && key.len() + value.len() <= self.tree.entry_max(),
            "the table layer keeps entries small enough"
        );
        assert!(
            self.ends.is_empty() || self.last_key() < key,
            "a build takes ascending keys"
        );
        let size = item_size(key.len(), value.len());
        if !self.ends.is_empty() {
            let fence = common_prefix(self.last_key(), key) + 1;
            if self.lower.len() + self.size + size > self.fill || self.overfull(size, fence) {
                self.finish_leaf(key)?;
            }
        }
        self.gather(key, value);
        Ok(())
    }
    /// One more entry of `size` bytes, and an upper fence of `fence` bytes, would exceed the leaf.
    fn overfull(&self, size: usize, fence: usize) -> bool {
        self.lower.len() + self.size + size + fence > self.capacity
    }
    fn gather(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
        self.size += item_size(key.len(), value.len());
        self.entries += 1;
    }
    fn last_key(&self) -> &[u8] {
        let start = if self.ends.len() > 1 {
            self.ends[self.ends.len() - 2].1
        } else {
            0
        };
        &self.bytes[start..self.ends[self.ends.len() - 1].0]
    }
    fn items(&self) -> Vec<(&[u8], &[u8])> {
        let mut start = 0;
        let mut items = Vec::with_capacity(self.ends.len());
        for (key_end, end) in &self.ends {
            items.push((&self.bytes[start..*key_end], &self.bytes[*key_end..*end]));
            start = *end;
        }
        items
    }
    /// Appends the gathered leaf. `next`: the first key after it. Entries that leave no room for
    /// the fence go to the next leaf.
    fn finish_leaf(&mut self, next: &[u8]) -> Result<()> {
        let mut moved: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        let mut next = next.to_vec();
        let fence = loop {
            let shared = common_prefix(self.last_key(), &next);
            let fence = &next[..shared + 1];
            if self.lower.len() + self.size + fence.len() <= self.capacity {
                break fence.to_vec();
            }
            let (key, value) = *self.items().last().expect("one entry and two fences fit in a page");
            let entry = (key.to_vec(), value.to_vec());
            self.bytes.truncate(self.bytes.len() - entry.0.len() - entry.1.len());
            self.ends.pop();
            self.size -= item_size(entry.0.len(), entry.1.len());
            self.entries -= 1;
            next.clone_from(&entry.0);
            moved.push(entry);
        };
        self.append()?;
        self.bytes.clear();
        self.ends.clear();
        self.size = 0;
        debug_assert!(self.lower < fence, "the leaves' ranges ascend");
        self.lower = fence;
        for (key, value) in moved.into_iter().rev() {
            self.gather(&key, &value);
        }
        Ok(())
    }
    fn append(&mut self) -> Result<()> {
        debug_assert!(!self.ends.is_empty(), "a leaf that is appended has entries");
        debug_assert!(
            self.lower.len() + self.size <= self.capacity,
            "a leaf is never over-full"
        );
        let mut mtr = begin(self.pool)?;
        append_leaf(&self.tree, &mut mtr, &self.lower, &self.items())?;
        mtr.commit();
        Ok(())
    }
    /// Appends the last leaf. Returns the number of entries.
    pub fn finish(mut self) -> Result<u64> {
        if !self.ends.is_empty() {
            self.append()?;
        }
        Ok(self.entries)
    }
}

/// Adds a leaf at the right end. `lower` is above the last key there, and the last leaf has room
/// for it as its upper fence.
fn append_leaf(tree: &Tree, mtr: &mut Mtr<'_>, lower: &[u8], items: &[(&[u8], &[u8])]) -> Result<()> {
    let (last, path) = rightmost_path(tree, mtr, lower)?;
    let mut new = NewNode {
        level: 0,
        lower,
        upper: None,
        right: 0,
        items,
        last: NO_SLOT,
    };
    if Node::new(mtr.bytes(last)).is_empty() {
        assert!(path.is_empty() && lower.is_empty(), "a build begins with an empty tree");
        mtr.rewrite(last, &mut |page| write_node(page, &new));
        return Ok(());
    }
    debug_assert!(
        {
            let node = Node::new(mtr.bytes(last));
            node.upper_fence().is_none() && node.key(node.len() - 1) < lower
        },
        "a build appends at the right end"
    );
    let Some(parent) = path.last().copied() else {
        return append_to_root(tree, mtr, last, &new);
    };
    let near = mtr.id(last).no;
    let node = Node::new(mtr.bytes(parent));
    let slot = node.len();
    if node.has_room(lower.len(), 4) {
        let no = tree.nodes().allocate(mtr, near, 1)?[0];
        link_right(tree, mtr, last, lower, no, &new)?;
        let mut parent = MtrPage { mtr, page: parent };
        edit::insert(&mut parent, slot, lower, &no.to_le_bytes());
        return Ok(());
    }
    let (value, replace) = (&[0u8; 4], false);
    let above = &path[..path.len() - 1];
    let item = Item {
        slot,
        key: lower,
        value,
        replace,
    };
    let plan = SplitPlan::new(*tree, mtr, parent, above, item);
    let n = plan.pages_needed(mtr);
    let pages = tree.nodes().allocate(mtr, near, n + 1)?;
    new.right = 0;
    link_right(tree, mtr, last, lower, pages[0], &new)?;
    plan.carry_out(mtr, &pages[1..], &pages[0].to_le_bytes())
}

/// The X-latched last leaf, and its ancestors up to one with room for a separator.
fn rightmost_path(tree: &Tree, mtr: &mut Mtr<'_>, key: &[u8]) -> Result<(PageHandle, Vec<PageHandle>)> {
    tree.descend_path(mtr, key, |node, _| node.level() > 0 && node.has_room(tree.key_max(), 4))
}

/// Adds the second leaf: the root's content moves down beside it.
fn append_to_root(tree: &Tree, mtr: &mut Mtr<'_>, root: PageHandle, new: &NewNode<'_>) -> Result<()> {
    let pages = tree.nodes().allocate(mtr, tree.root, 2)?;
    let copy = mtr.bytes(root).to_vec();
    let node = Node::new(&copy);
    let items: Vec<_> = (0..node.len()).map(|slot| node.entry(slot)).collect();
    let first = NewNode {
        level: 0,
        lower: &[],
        upper: Some(new.lower),
        right: pages[1],
        items: &items,
        last: NO_SLOT,
    };
    tree.nodes().create_with(mtr, pages[0], &first)?;
    tree.nodes().create_with(mtr, pages[1], new)?;
    write_root_over(mtr, root, 1, pages[0], new.lower, pages[1]);
    Ok(())
}

fn link_right(
    tree: &Tree,
    mtr: &mut Mtr<'_>,
    last: PageHandle,
    fence: &[u8],
    no: u32,
    new: &NewNode<'_>,
) -> Result<()> {
    tree.nodes().create_with(mtr, no, new)?;
    let mut last = MtrPage { mtr, page: last };
    edit::set_upper(&mut last, fence);
    edit::set_right(&mut last, no);
    Ok(())
}

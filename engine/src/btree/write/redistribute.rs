//! [`Siblings`]: neighbouring leaves of one parent, written anew together.
//!
//! Their entries and the new ones are distributed evenly over as few pages as hold them. For merges
//! of the change buffer, which bring a few entries to every leaf of a range. There, a split of each
//! leaf would double the pages; redistribution adds one page in eight, and the leaves stay full.
//!
//! Latches: the parent (X, under its parent's S), then the leaves (X) from left to right (I5).
//! Pages are allocated when all is planned. A parent without room for the separators is left to the
//! ordinary split: nothing is changed then. Called by: `change::merge`.
use super::split::separator;
use crate::base::{PageNo, Result};
use crate::btree::node::edit::{self, MtrPage};
use crate::btree::node::{item_size, write_node, NewNode, Node, CAPACITY, NO_SLOT};
use crate::btree::read::descent::To;
use crate::btree::tree::Tree;
use crate::pool::{Mtr, PageHandle};
use crate::space;

/// Bytes of [`CAPACITY`] to fill. The rest takes the entries that come before the next time.
const FILL: usize = CAPACITY / 16 * 15;

/// X-latched leaves that are neighbours, and their X-latched parent.
pub struct Siblings {
    tree: Tree,
    parent: PageHandle,
    /// Slot of the first leaf in the parent.
    slot: usize,
    leaves: Vec<PageHandle>,
}

/// Copies of their pages.
pub struct Contents(Vec<Vec<u8>>);

impl Contents {
    /// (key, value), in key order.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().flat_map(|page| {
            let node = Node::new(page);
            (0..node.len()).map(move |slot| node.entry(slot))
        })
    }
}

impl Siblings {
    /// X-latches the leaf that owns `key` and up to `leaves_max` - 1 leaves to its right, as far as
    /// one parent knows them. None: the root is a leaf.
    pub fn latch(tree: &Tree, mtr: &mut Mtr<'_>, key: &[u8], leaves_max: usize) -> Result<Option<Siblings>> {
        debug_assert!(leaves_max > 0, "a stretch has a leaf at least");
        let Some(parent) = leaf_parent(tree, mtr, key)? else {
            return Ok(None);
        };
        let node = Node::new(mtr.bytes(parent));
        let slot = tree.nodes().route(node, mtr.id(parent).no, To::Key(key))?;
        let numbers: Vec<PageNo> = (slot..node.len())
            .take(leaves_max)
            .map(|slot| node.child(slot))
            .collect();
        let mut leaves = Vec::with_capacity(numbers.len());
        for no in numbers {
            let leaf = mtr.write(tree.page_id(no))?;
            tree.nodes().check_arrival(Node::new(mtr.bytes(leaf)), no, Some(0))?;
            leaves.push(leaf);
        }
        Ok(Some(Siblings {
            tree: *tree,
            parent,
            slot,
            leaves,
        }))
    }
    /// The number of leaves.
    pub fn count(&self) -> usize {
        self.leaves.len()
    }
    pub fn lower<'m>(&self, mtr: &'m Mtr<'_>) -> &'m [u8] {
        Node::new(mtr.bytes(self.leaves[0])).lower_fence()
    }
    pub fn upper<'m>(&self, mtr: &'m Mtr<'_>) -> Option<&'m [u8]> {
        Node::new(mtr.bytes(self.leaves[self.count() - 1])).upper_fence()
    }
    pub fn contents(&self, mtr: &Mtr<'_>) -> Contents {
        Contents(self.leaves.iter().map(|page| mtr.bytes(*page).to_vec()).collect())
    }
    /// Replaces the leaves' entries by `items`: all entries between the outer fences, in key order.
    /// False: nothing was changed, and an ordinary split must do. Afterwards the Mtr holds space
    /// latches, as after a split.
    pub fn redistribute(&self, mtr: &mut Mtr<'_>, items: &[(&[u8], &[u8])]) -> Result<bool> {
        let Some(parts) = plan(mtr, self, items) else {
            return Ok(false);
        };
        let node = Node::new(mtr.bytes(self.parent));
        let gone: usize = (self.slot + 1..self.slot + self.count())
            .map(|slot| item_size(node.key(slot).len(), 4))
            .sum();
        let come: usize = parts[1..].iter().map(|part| item_size(part.lower.len(), 4)).sum();
        if come > node.free() + gone {
            return Ok(false);
        }
        let last = self.leaves[self.count() - 1];
        let right = Node::new(mtr.bytes(last)).right().unwrap_or(0);
        debug_assert!(parts.len() >= self.count(), "every leaf keeps a part");
        let mut numbers: Vec<PageNo> = self.leaves.iter().map(|page| mtr.id(*page).no).collect();
        let more = parts.len() - self.count();
        if more > 0 {
            numbers.extend(space::allocate_many(mtr, self.tree.file, mtr.id(last).no, more)?);
        }
        mtr.pool().counters().page_splits.add(more as u64);
        for (i, part) in parts.iter().enumerate() {
            let new = NewNode {
                level: 0,
                lower: &part.lower,
                upper: part.upper.as_deref(),
                right: numbers.get(i + 1).copied().unwrap_or(right),
                items: &items[part.from..part.to],
                last: NO_SLOT,
            };
            match self.leaves.get(i) {
                Some(page) => mtr.rewrite(*page, &mut |page| write_node(page, &new)),
                None => self.tree.nodes().create_with(mtr, numbers[i], &new)?,
            }
        }
        let page = self.parent;
        for slot in (self.slot + 1..self.slot + self.count()).rev() {
            edit::remove(&mut MtrPage { mtr, page }, slot);
        }
        for (i, part) in parts.iter().enumerate().skip(1) {
            let child = numbers[i].to_le_bytes();
            edit::insert(&mut MtrPage { mtr, page }, self.slot + i, &part.lower, &child);
        }
        debug_assert!(
            Node::new(mtr.bytes(page)).validate().is_ok(),
            "a redistribution leaves a sound parent"
        );
        Ok(true)
    }
}

/// A run of items between two fences: one leaf to be written.
struct Part {
    from: usize,
    to: usize,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

/// X-latches the node above the leaf that owns `key`. None: the root is a leaf.
fn leaf_parent(tree: &Tree, mtr: &mut Mtr<'_>, key: &[u8]) -> Result<Option<PageHandle>> {
    assert!(!tree.is_wide(), "nothing is pending for wide trees");
    let mut page = mtr.read(tree.page_id(tree.root))?;
    tree.nodes().check_arrival(Node::new(&page), tree.root, None)?;
    if Node::new(&page).level() < 2 {
        // A latch is never upgraded: S is released, X is taken, and the level is read again.
        drop(page);
        let root = mtr.write(tree.page_id(tree.root))?;
        return Ok((Node::new(mtr.bytes(root)).level() == 1).then_some(root));
    }
    loop {
        let node = Node::new(&page);
        let (level, no) = (
            node.level(),
            node.child(tree.nodes().route(node, page.id().no, To::Key(key))?),
        );
        if level == 2 {
            let parent = mtr.write(tree.page_id(no))?;
            tree.nodes().check_arrival(Node::new(mtr.bytes(parent)), no, Some(1))?;
            return Ok(Some(parent));
        }
        let child = mtr.read(tree.page_id(no))?;
        tree.nodes().check_arrival(Node::new(&child), no, Some(level - 1))?;
        page = child;
    }
}

/// Cuts the items into at least as many parts as there are leaves. None: too few items for that, or
/// too uneven ones.
fn plan(mtr: &Mtr<'_>, over: &Siblings, items: &[(&[u8], &[u8])]) -> Option<Vec<Part>> {
    let size = |item: &(&[u8], &[u8])| item_size(item.0.len(), item.1.len());
    let total: usize = items.iter().map(size).sum();
    let pages = over.count().max(total.div_ceil(FILL));
    if items.len() < 2 * pages {
        return None;
    }
    let mut parts = Vec::with_capacity(pages);
    let mut lower = over.lower(mtr).to_vec();
    let (mut from, mut done) = (0, 0);
    for part in 1..=pages {
        let start = done;
        let mut to = from;
        // Each later part keeps at least one item.
        while to < items.len() - (pages - part) && (part == pages || done < total * part / pages || to == from) {
            done += size(&items[to]);
            to += 1;
        }
        let upper = match part == pages {
            true => over.upper(mtr).map(<[u8]>::to_vec),
            false => Some(separator(items, to, 0).to_vec()),
        };
        if done - start + lower.len() + upper.as_ref().map_or(0, Vec::len) > CAPACITY {
            return None;
        }
        let next = upper.clone().unwrap_or_default();
        parts.push(Part { from, to, lower, upper });
        (lower, from) = (next, to);
    }
    debug_assert_eq!(from, items.len(), "every item is in one part");
    Some(parts)
}

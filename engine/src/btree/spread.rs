//! Neighbouring leaves of one parent written anew together: what is in them, and what shall be, is spread evenly over as few pages as
//! take it. For merges of the change buffer, which bring every leaf of a stretch a little: where each leaf by itself would be split in two
//! halves, one page in eight is added, and the leaves stay full.
//!
//! Latches: the parent (X, under its parent's S), then the leaves (X) from left to right; pages are allocated when all is planned. A
//! parent without room for the separators is a case for the ordinary split: nothing is changed then. Called by `change::merge`.
use super::descend::To;
use super::edit::{self, MtrPage};
use super::node::{item_size, write_node, NewNode, Node, CAPACITY, NO_SLOT};
use super::split::separator;
use super::Tree;
use crate::base::{PageNo, Result};
use crate::pool::{Mtr, PageHandle};
use crate::space;

/// Bytes of [`CAPACITY`] to fill: what comes before the next time goes into the rest.
const FILL: usize = CAPACITY / 16 * 15;

/// X-latched neighbours, and their parent.
pub struct Siblings {
    parent: PageHandle,
    /// Slot of the first in the parent.
    slot: usize,
    leaves: Vec<PageHandle>,
}

/// What was in them.
pub struct Contents(Vec<Vec<u8>>);

impl Contents {
    /// In key order.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().flat_map(|page| {
            let node = Node::new(page);
            (0..node.len()).map(move |slot| node.entry(slot))
        })
    }
}

impl Siblings {
    /// Leaves.
    pub fn len(&self) -> usize {
        self.leaves.len()
    }
    pub fn lower<'m>(&self, mtr: &'m Mtr<'_>) -> &'m [u8] {
        Node::new(mtr.bytes(self.leaves[0])).lower_fence()
    }
    pub fn upper<'m>(&self, mtr: &'m Mtr<'_>) -> Option<&'m [u8]> {
        Node::new(mtr.bytes(self.leaves[self.len() - 1])).upper_fence()
    }
    pub fn contents(&self, mtr: &Mtr<'_>) -> Contents {
        Contents(self.leaves.iter().map(|page| mtr.bytes(*page).to_vec()).collect())
    }
}

/// A stretch of items between two fences.
struct Part {
    from: usize,
    to: usize,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

impl Tree {
    /// The leaf that owns `key` and up to `leaves_max` - 1 to its right, as far as one parent knows them. None: there is no parent.
    pub fn siblings_for_write(&self, mtr: &mut Mtr<'_>, key: &[u8], leaves_max: usize) -> Result<Option<Siblings>> {
        let Some(parent) = self.leaf_parent(mtr, key)? else {
            return Ok(None);
        };
        let node = Node::new(mtr.bytes(parent));
        let slot = self.route(node, mtr.id(parent).no, To::Key(key))?;
        let numbers: Vec<PageNo> = (slot..node.len())
            .take(leaves_max)
            .map(|slot| node.child(slot))
            .collect();
        let mut leaves = Vec::with_capacity(numbers.len());
        for no in numbers {
            let leaf = mtr.write(self.page_id(no))?;
            self.check_arrival(Node::new(mtr.bytes(leaf)), no, Some(0))?;
            leaves.push(leaf);
        }
        Ok(Some(Siblings { parent, slot, leaves }))
    }
    /// X-latches the node above the leaf that owns `key`.
    fn leaf_parent(&self, mtr: &mut Mtr<'_>, key: &[u8]) -> Result<Option<PageHandle>> {
        assert!(!self.is_wide(), "nothing is pending for wide trees");
        let mut page = mtr.read(self.page_id(self.root))?;
        self.check_arrival(Node::new(&page), self.root, None)?;
        if Node::new(&page).level() < 2 {
            // A latch is never upgraded: let go, take X, and look again.
            drop(page);
            let root = mtr.write(self.page_id(self.root))?;
            return Ok((Node::new(mtr.bytes(root)).level() == 1).then_some(root));
        }
        loop {
            let node = Node::new(&page);
            let (level, no) = (node.level(), node.child(self.route(node, page.id().no, To::Key(key))?));
            if level == 2 {
                let parent = mtr.write(self.page_id(no))?;
                self.check_arrival(Node::new(mtr.bytes(parent)), no, Some(1))?;
                return Ok(Some(parent));
            }
            let child = mtr.read(self.page_id(no))?;
            self.check_arrival(Node::new(&child), no, Some(level - 1))?;
            page = child;
        }
    }
    /// Puts `items` (all that shall be between the outer fences, in key order) in the place of what is there. False: this is not the
    /// way to do it; nothing was changed. Afterwards the Mtr holds space latches, as after a split.
    pub fn spread(&self, mtr: &mut Mtr<'_>, over: &Siblings, items: &[(&[u8], &[u8])]) -> Result<bool> {
        let Some(parts) = plan(mtr, over, items) else {
            return Ok(false);
        };
        let node = Node::new(mtr.bytes(over.parent));
        let gone: usize = (over.slot + 1..over.slot + over.len())
            .map(|slot| item_size(node.key(slot).len(), 4))
            .sum();
        let come: usize = parts[1..].iter().map(|part| item_size(part.lower.len(), 4)).sum();
        if come > node.free() + gone {
            return Ok(false);
        }
        let last = over.leaves[over.len() - 1];
        let right = Node::new(mtr.bytes(last)).right().unwrap_or(0);
        let mut numbers: Vec<PageNo> = over.leaves.iter().map(|page| mtr.id(*page).no).collect();
        let more = parts.len() - over.len();
        if more > 0 {
            numbers.extend(space::allocate_many(mtr, self.file, mtr.id(last).no, more)?);
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
            match over.leaves.get(i) {
                Some(page) => mtr.rewrite(*page, &mut |page| write_node(page, &new)),
                None => self.write_new(mtr, numbers[i], &new)?,
            }
        }
        let page = over.parent;
        for slot in (over.slot + 1..over.slot + over.len()).rev() {
            edit::remove(&mut MtrPage { mtr, page }, slot);
        }
        for (i, part) in parts.iter().enumerate().skip(1) {
            let child = numbers[i].to_le_bytes();
            edit::insert(&mut MtrPage { mtr, page }, over.slot + i, &part.lower, &child);
        }
        debug_assert!(Node::new(mtr.bytes(page)).validate().is_ok());
        Ok(true)
    }
}

/// At least as many parts as there are leaves. None: too few items for that, or too uneven ones.
fn plan(mtr: &Mtr<'_>, over: &Siblings, items: &[(&[u8], &[u8])]) -> Option<Vec<Part>> {
    let size = |item: &(&[u8], &[u8])| item_size(item.0.len(), item.1.len());
    let total: usize = items.iter().map(size).sum();
    let pages = over.len().max(total.div_ceil(FILL));
    if items.len() < 2 * pages {
        return None;
    }
    let mut parts = Vec::with_capacity(pages);
    let mut lower = over.lower(mtr).to_vec();
    let (mut from, mut done) = (0, 0);
    for part in 1..=pages {
        let start = done;
        let mut to = from;
        // Leaves enough items for the parts to come.
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
    Some(parts)
}

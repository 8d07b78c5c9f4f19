//! Takes a load back: removes entries from many leaves, a leaf at a time, and merges the empty
//! leaves.
//!
//! The tree is in use meanwhile: each step leaves a sound tree, and other entries stay where they
//! are. A leaf that loses all its entries is logged as one small edit, and a merge of two empty
//! leaves costs little more. So the log does not grow with the number of entries. Latches: as
//! `latch` under `Intent::Leaf`. Called by: `table`, when a bulk insert is rolled back.
use super::leaf::Intent;
use crate::base::Result;
use crate::btree::node::edit::{self, MtrPage};
use crate::btree::node::Node;
use crate::btree::pages::begin;
use crate::btree::tree::Tree;
use crate::pool::Pool;

/// Decides whether an entry (key, value) is removed.
pub type Doomed<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<bool>;

/// What one leaf came to.
struct Leaf {
    removed: usize,
    /// No entry is left in it.
    is_empty: bool,
    /// Where the next leaf begins; None: it was the last.
    next: Option<Vec<u8>>,
}

/// Removes the entries for which `doomed` returns true, from at most `leaves` leaves, beginning
/// with the leaf that owns `from`. Advances `from` and counts `leaves` down. `doomed` runs under
/// the leaf's latch. Returns the number of entries removed, and whether the end of the tree was
/// reached.
///
/// An empty leaf is merged with the leaf before it only if that is empty too. A merge with a full
/// leaf would log all entries of that leaf.
pub fn remove_loaded(
    pool: &Pool,
    tree: &Tree,
    from: &mut Vec<u8>,
    leaves: &mut usize,
    doomed: Doomed<'_>,
) -> Result<(usize, bool)> {
    let mut removed = 0;
    let mut empty_before: Option<Vec<u8>> = None;
    while *leaves > 0 {
        *leaves -= 1;
        let leaf = empty_leaf(pool, tree, from, doomed)?;
        removed += leaf.removed;
        empty_before = match empty_before {
            _ if !leaf.is_empty => None,
            Some(key) if tree.merge_nodes(pool, &key)? => Some(key),
            _ => Some(from.clone()),
        };
        match leaf.next {
            Some(next) => {
                debug_assert!(next > *from, "I7: a step goes to the right");
                *from = next;
            }
            None => {
                // Leaves that are still empty: the first leaf takes in its neighbours, until the
                // root is the only page.
                while tree.merge_nodes(pool, &[])? {}
                return Ok((removed, true));
            }
        }
    }
    Ok((removed, false))
}

/// Removes the entries from the leaf that owns `from`, in an Mtr of its own.
fn empty_leaf(pool: &Pool, tree: &Tree, from: &[u8], doomed: Doomed<'_>) -> Result<Leaf> {
    let mut mtr = begin(pool)?;
    let at = tree.leaf_for_write(&mut mtr, from, Intent::Leaf, None)?;
    let node = Node::new(mtr.bytes(at.page));
    // Runs of slots [from, to), from the left.
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for slot in 0..node.len() {
        let (key, value) = node.entry(slot);
        if !doomed(key, value)? {
            continue;
        }
        match runs.last_mut() {
            Some((_, to)) if *to == slot => *to += 1,
            _ => runs.push((slot, slot + 1)),
        }
    }
    let removed = runs.iter().map(|(from, to)| to - from).sum();
    let leaf = Leaf {
        removed,
        is_empty: removed == node.len(),
        next: node.upper_fence().map(<[u8]>::to_vec),
    };
    let page = at.page;
    for (from, to) in runs.into_iter().rev() {
        edit::remove_run(&mut MtrPage { mtr: &mut mtr, page }, from, to);
    }
    mtr.commit();
    Ok(leaf)
}

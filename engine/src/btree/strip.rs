//! Taking a load back: entries of many leaves removed, a leaf at a time, and the empty leaves merged.
//!
//! The tree is in use meanwhile: each step leaves a whole one, and entries of others stay where they are. A leaf that loses all its
//! entries is logged as one small edit, and two empty leaves cost little more to merge; so what is logged does not grow with the entries.
//! Latches: as `write.rs` under `Intent::Leaf`. Called by the table layer.
use super::descend::To;
use super::edit::{self, MtrPage};
use super::node::Node;
use super::{begin, Intent, Tree};
use crate::base::Result;
use crate::pool::Pool;

/// Whether an entry goes: (key, value).
pub type Doomed<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<bool>;

/// What came of one leaf.
struct Stripped {
    removed: usize,
    /// Nothing is left in it.
    is_empty: bool,
    /// Where the next leaf begins; None: it was the last.
    next: Option<Vec<u8>>,
}

impl Tree {
    /// The tree is a root without entries.
    pub fn is_bare(&self, pool: &Pool) -> Result<bool> {
        let root = self.descend(pool, To::First, u8::MAX)?;
        let node = Node::new(&root);
        Ok(node.level() == 0 && node.is_empty())
    }
    /// Removes the entries that `doomed` says, of at most `leaves` leaves from the one that owns `from` on; moves both on. `doomed` is
    /// asked under the leaf's latch. (Entries removed, whether the end was reached.)
    ///
    /// An empty leaf is merged with the one before it if that is empty too: merging it with a full one would log all that is in that.
    pub fn strip(
        &self,
        pool: &Pool,
        from: &mut Vec<u8>,
        leaves: &mut usize,
        doomed: Doomed<'_>,
    ) -> Result<(usize, bool)> {
        let mut removed = 0;
        let mut empty_before: Option<Vec<u8>> = None;
        while *leaves > 0 {
            *leaves -= 1;
            let leaf = self.strip_leaf(pool, from, doomed)?;
            removed += leaf.removed;
            empty_before = match empty_before {
                _ if !leaf.is_empty => None,
                Some(key) if self.shrink(pool, &key)? => Some(key),
                _ => Some(from.clone()),
            };
            match leaf.next {
                Some(next) => *from = next,
                None => {
                    // What is empty still: the first leaf takes in its neighbours, until the root is the only page.
                    while self.shrink(pool, &[])? {}
                    return Ok((removed, true));
                }
            }
        }
        Ok((removed, false))
    }
    /// The leaf that owns `from`, in an Mtr of its own.
    fn strip_leaf(&self, pool: &Pool, from: &[u8], doomed: Doomed<'_>) -> Result<Stripped> {
        let mut mtr = begin(pool)?;
        let at = self.leaf_for_write(&mut mtr, from, Intent::Leaf, None)?;
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
        let stripped = Stripped {
            removed,
            is_empty: removed == node.len(),
            next: node.upper_fence().map(<[u8]>::to_vec),
        };
        let page = at.page;
        for (from, to) in runs.into_iter().rev() {
            edit::remove_run(&mut MtrPage { mtr: &mut mtr, page }, from, to);
        }
        mtr.commit();
        Ok(stripped)
    }
}

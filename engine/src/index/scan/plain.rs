//! The plain way of a scan, while nothing is pending in its index (I3).
//!
//! One S latch at a time; a step to the next leaf latches as `btree` says. Called by: `scan`.
use super::batch::{Direction, Fill, Place};
use super::position::{At, Position};
use crate::base::Result;
use crate::btree::{LeafRead, Seek, Tree};
use crate::pool::Pool;
use Direction::{Backward, Forward};

pub(super) struct PlainWay<'s> {
    pub tree: &'s Tree,
    pub position: &'s mut Position,
}

impl PlainWay<'_> {
    pub fn fill(&mut self, pool: &Pool, fill: &mut Fill<'_>) -> Result<()> {
        let direction = fill.direction;
        let Some(mut leaf) = self.resume(pool, direction)? else {
            return Ok(());
        };
        loop {
            if !self.copy(&mut leaf, fill) {
                break;
            }
            self.position.cross_border();
            if let Some(leaves) = self.position.leaves_ahead() {
                let before_unlatch = (leaf.page_no(), leaf.version());
                leaf = match self.read_ahead(pool, leaf, fill, leaves)? {
                    Some(leaf) => leaf,
                    None => break,
                };
                if (leaf.page_no(), leaf.version()) != before_unlatch {
                    // The leaf changed while no latch was held: entries after the last key may be
                    // in this leaf now.
                    continue;
                }
            }
            let next = match direction {
                Forward => self.tree.next_leaf(pool, leaf)?,
                Backward => self.tree.prev_leaf(pool, leaf)?,
            };
            match next {
                Some(next) => leaf = start_in(next, direction),
                None => {
                    self.position.end(direction);
                    break;
                }
            }
        }
        Ok(())
    }
    /// The leaf to continue with. Its slot is the position between the entries that were returned
    /// and the remaining ones (see `At::Leaf`).
    fn resume<'p>(&mut self, pool: &'p Pool, direction: Direction) -> Result<Option<LeafRead<'p>>> {
        let Position { at, lo, hi, last, .. } = &*self.position;
        let (seek, key): (Seek, &[u8]) = match (*at, direction) {
            (At::End { direction: before, .. }, _) if before == direction => return Ok(None),
            (
                At::Leaf {
                    place,
                    direction: before,
                },
                _,
            ) if before == direction => {
                if let Some(leaf) = self.tree.revisit(pool, place.page, place.version, place.slot) {
                    return Ok(Some(leaf));
                }
                match direction {
                    Forward => (Seek::Gt, last),
                    Backward => (Seek::Lt, last),
                }
            }
            (At::Start | At::End { reported: true, .. }, Forward) => (Seek::Ge, lo),
            (At::Start | At::End { reported: true, .. }, Backward) => match hi {
                Some(hi) => (Seek::Lt, hi),
                None => (Seek::Last, &[]),
            },
            (At::Key { inclusive: true }, Forward) => (Seek::Ge, last),
            (At::Key { inclusive: true }, Backward) => (Seek::Le, last),
            (_, Forward) => (Seek::Gt, last),
            (_, Backward) => (Seek::Lt, last),
        };
        let found = self.tree.seek(pool, seek, key)?;
        self.position.note_turn(direction);
        Ok(found.map(|leaf| start_in(leaf, direction)))
    }
    /// Copies the entries of `leaf` that fit, and remembers the place. True: the leaf is done and
    /// the scan continues in the next one.
    fn copy(&mut self, leaf: &mut LeafRead<'_>, fill: &mut Fill<'_>) -> bool {
        let direction = fill.direction;
        fill.batch.begin_leaf(leaf.page_no(), leaf.version());
        let mut slot = leaf.slot();
        let (bound, range_ends) = self.bound_in(leaf, direction);
        debug_assert!(
            slot <= leaf.len() && bound <= leaf.len(),
            "borders of this leaf's entries"
        );
        match direction {
            Forward => {
                while slot < bound && fill.has_room() {
                    fill.batch.push_whole(leaf.bytes_at(slot), slot);
                    slot += 1;
                }
            }
            Backward => {
                while slot > bound && fill.has_room() {
                    slot -= 1;
                    fill.batch.push_whole(leaf.bytes_at(slot), slot);
                }
            }
        }
        leaf.set_slot(slot);
        let (page, version) = (leaf.page_no(), leaf.version());
        let place = Place { page, version, slot };
        self.position.at = At::Leaf { place, direction };
        let more_in_leaf = match direction {
            Forward => slot < bound,
            Backward => slot > bound,
        };
        if more_in_leaf {
            return false;
        }
        if range_ends {
            self.position.end(direction);
        }
        !range_ends && fill.has_room()
    }
    /// The slot where the range ends (backward: begins) in this leaf, and whether it does. Most
    /// leaves lie inside the range with both fences: none of their keys is compared with a bound.
    fn bound_in(&self, leaf: &LeafRead<'_>, direction: Direction) -> (usize, bool) {
        let Position { lo, hi, .. } = &*self.position;
        match (direction, hi) {
            (Forward, None) => (leaf.len(), false),
            (Forward, Some(hi)) if leaf.upper_fence().is_some_and(|upper| upper < &hi[..]) => (leaf.len(), false),
            (Forward, Some(hi)) => (leaf.search(hi).0.max(leaf.slot()), true),
            (Backward, _) if lo[..] < *leaf.lower_fence() => (0, false),
            (Backward, _) => (leaf.search(lo).0.min(leaf.slot()), true),
        }
    }
    /// Asks the pool for the next leaves. That takes a descent, so the leaf is released and found
    /// again. None: the leaf had changed, and nothing follows (the place is kept).
    fn read_ahead<'p>(
        &mut self,
        pool: &'p Pool,
        leaf: LeafRead<'p>,
        fill: &Fill<'_>,
        leaves: usize,
    ) -> Result<Option<LeafRead<'p>>> {
        drop(leaf);
        let position = &mut *self.position;
        position.keep_last(fill.batch);
        let asked = (self.tree).read_ahead(pool, Some(&position.last), fill.is_backward(), leaves)?;
        position.asked_ahead(asked);
        let leaf = self.resume(pool, fill.direction)?;
        if leaf.is_none() {
            self.position.end(fill.direction);
        }
        Ok(leaf)
    }
}

/// `Tree::seek` stops at an entry. Backward, the slot is the position above that entry.
fn start_in(mut leaf: LeafRead<'_>, direction: Direction) -> LeafRead<'_> {
    debug_assert!(leaf.slot() < leaf.len(), "a seek stands on an entry");
    if direction == Backward {
        leaf.set_slot(leaf.slot() + 1);
    }
    leaf
}

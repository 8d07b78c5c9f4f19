//! The merged way of a scan, while changes are pending in its index (I3).
//!
//! It goes leaf by leaf through the rest of the range, [from, to). It takes the base leaf that
//! *owns* the near end: an entry may be pending where the base has none, so no empty leaf is
//! skipped. It collects the pending changes for the leaf's part of the range, and copies both as
//! one run. It collects no more than the batch may take: pending changes are looked up in every
//! partition. Only the near end of [from, to) moves.
//!
//! A leaf with many pending entries is merged after all latches are released: the next reader finds
//! nothing pending in it. Called by: `scan`.
use super::batch::{Direction, Fill, Place};
use super::position::{set, set_bound, At, Position};
use crate::base::Result;
use crate::btree::LeafRead;
use crate::change::{IndexTrees, Merging, Run};
use crate::pool::Pool;
use Direction::{Backward, Forward};

/// A leaf with this many pending entries is merged by its reader.
const DENSE: usize = 16;

/// Kept from fill to fill: buffers, and the rest of the range.
#[derive(Default)]
pub(super) struct Merge {
    merging: Merging,
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    /// A key of a leaf that is to be merged.
    pub dense: Option<Vec<u8>>,
}

impl Merge {
    fn is_over(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }
    /// The part of a leaf that ends at `key` is done.
    fn cut_at(&mut self, key: &[u8], direction: Direction) {
        debug_assert!(
            match direction {
                Forward => key >= &self.from[..],
                Backward => self.to.as_ref().is_none_or(|to| key <= &to[..]),
            },
            "the near end of the range moves towards the far one"
        );
        match direction {
            Forward => set(&mut self.from, key),
            Backward => set(self.to.get_or_insert_with(Vec::new), key),
        }
    }
    /// `leaf` is done. False: nothing of the range is left.
    fn pass(&mut self, leaf: &LeafRead<'_>, direction: Direction) -> bool {
        let fence = match direction {
            Forward => leaf.upper_fence(),
            Backward => Some(leaf.lower_fence()).filter(|lower| !lower.is_empty()),
        };
        let Some(fence) = fence else { return false };
        self.cut_at(fence, direction);
        !self.is_over()
    }
    /// The leaf owns the near end of the rest of the range.
    fn is_owned_by(&self, leaf: &LeafRead<'_>, direction: Direction) -> bool {
        let (lower, upper) = (leaf.lower_fence(), leaf.upper_fence());
        match (direction, &self.to) {
            (Forward, _) => *lower <= self.from[..] && upper.is_none_or(|upper| self.from[..] < *upper),
            (Backward, Some(to)) => *lower < to[..] && upper.is_none_or(|upper| to[..] <= *upper),
            (Backward, None) => upper.is_none(),
        }
    }
}

pub(super) struct MergedWay<'s> {
    pub trees: &'s IndexTrees,
    pub position: &'s mut Position,
    pub merge: &'s mut Merge,
}

impl MergedWay<'_> {
    pub fn fill(&mut self, pool: &Pool, fill: &mut Fill<'_>) -> Result<()> {
        self.merge.dense = None;
        match self.find_rest(fill.direction) {
            true => self.fill_rest(pool, fill),
            false => Ok(()),
        }
    }
    /// Works out the rest of the range. False: nothing.
    fn find_rest(&mut self, direction: Direction) -> bool {
        let near = match self.position.at {
            At::End { direction: before, .. } if before == direction => return false,
            At::Start | At::End { reported: true, .. } => None,
            At::Key { inclusive } => Some(inclusive),
            At::Leaf { .. } | At::End { .. } => Some(false),
        };
        let Merge { from, to, .. } = &mut *self.merge;
        set(from, &self.position.lo);
        set_bound(to, self.position.hi.as_deref());
        if let Some(inclusive) = near {
            let near = match direction {
                Forward => from,
                Backward => to.get_or_insert_with(Vec::new),
            };
            set(near, &self.position.last);
            if inclusive != (direction == Forward) {
                // The first key that is greater.
                near.push(0);
            }
        }
        self.position.note_turn(direction);
        !self.merge.is_over()
    }
    fn fill_rest(&mut self, pool: &Pool, fill: &mut Fill<'_>) -> Result<()> {
        let direction = fill.direction;
        let delta = self.trees.delta.as_deref().expect("changes are pending in it");
        let mut leaf = self.first_leaf(pool, direction)?;
        loop {
            debug_assert!(self.merge.is_owned_by(&leaf, direction), "the leaf owns the near end");
            debug_assert!(fill.has_room(), "a full batch ends the fill");
            let merge = &mut *self.merge;
            let run = Run {
                lo: &merge.from,
                hi: merge.to.as_deref(),
                backward: fill.is_backward(),
            };
            let most = fill.limit.entries - fill.batch.len();
            let pending = merge.merging.start_some(pool, delta, &leaf, run, most)?;
            if pending >= DENSE && merge.dense.is_none() && delta.merge_yield.is_turn_to_merge() {
                merge.dense = merge.merging.first_pending_key().map(<[u8]>::to_vec);
            }
            if !self.copy(&leaf, fill)? {
                return Ok(());
            }
            if let Some(cut) = self.merge.merging.cut() {
                self.merge.cut_at(leaf.key_at(cut), direction);
                continue;
            }
            if !self.merge.pass(&leaf, direction) {
                self.position.end(direction);
                return Ok(());
            }
            self.position.cross_border();
            leaf = self.step(pool, leaf, direction)?;
        }
    }
    /// The leaf that owns the near end of the rest: the remembered one, if it is unchanged.
    fn first_leaf<'p>(&self, pool: &'p Pool, direction: Direction) -> Result<LeafRead<'p>> {
        if let At::Leaf {
            place: Place { page, version, slot },
            direction: before,
        } = self.position.at
        {
            let leaf = self.trees.tree.revisit(pool, page, version, slot);
            if let Some(leaf) = leaf.filter(|leaf| before == direction && self.merge.is_owned_by(leaf, direction)) {
                return Ok(leaf);
            }
        }
        self.owner(pool, direction)
    }
    fn owner<'p>(&self, pool: &'p Pool, direction: Direction) -> Result<LeafRead<'p>> {
        debug_assert!(
            !self.merge.is_over(),
            "a leaf is looked for while some of the range is left"
        );
        match direction {
            Forward => self.trees.tree.leaf_owning(pool, &self.merge.from),
            Backward => self.trees.tree.leaf_before(pool, self.merge.to.as_deref()),
        }
    }
    /// The next leaf. A step to the left and a read-ahead take a descent with no latch held. The
    /// descent goes by the rest of the range: changes of the leaf in between do not matter.
    fn step<'p>(&mut self, pool: &'p Pool, leaf: LeafRead<'p>, direction: Direction) -> Result<LeafRead<'p>> {
        let tree = &self.trees.tree;
        if let Some(leaves) = self.position.leaves_ahead() {
            drop(leaf);
            let near = if direction == Forward {
                Some(&self.merge.from)
            } else {
                self.merge.to.as_ref()
            };
            let asked = tree.read_ahead(pool, near.map(Vec::as_slice), direction == Backward, leaves)?;
            self.position.asked_ahead(asked);
        } else if direction == Forward {
            if let Some(right) = tree.step_right(pool, leaf)? {
                return Ok(right);
            }
        } else {
            drop(leaf);
        }
        self.owner(pool, direction)
    }
    /// Copies the entries that fit. False: the batch is full, and the place is remembered.
    fn copy(&mut self, leaf: &LeafRead<'_>, fill: &mut Fill<'_>) -> Result<bool> {
        let (page, version) = (leaf.page_no(), leaf.version());
        let merging = &mut self.merge.merging;
        let before = fill.batch.len();
        while fill.has_room() {
            let Some(entry) = merging.next(leaf, fill.is_backward())? else {
                return Ok(true);
            };
            if fill.batch.len() == before {
                fill.batch.begin_leaf(page, version);
            }
            fill.batch.push(entry.key, entry.value, entry.slot);
        }
        let slot = merging.border(fill.is_backward());
        debug_assert!(slot <= leaf.len(), "the border lies in the leaf");
        let place = Place { page, version, slot };
        let direction = fill.direction;
        self.position.at = At::Leaf { place, direction };
        Ok(false)
    }
}

//! The merged way of a scan, while something is pending in its index.
//!
//! It goes leaf by leaf through what is left of the range, [from, to): takes the base leaf that *owns* the position (an entry may be
//! pending where the base has none, so no leaf is skipped for being empty), collects what is pending for the leaf's part, and copies
//! both as one run; of a leaf no more than the batch may take, for what is pending is looked for in every partition. Only the near end of [from, to) moves. A scan may change its way between any two fills: what one remembers
//! (`At`, `last`) serves the other.
//!
//! A leaf with many pending entries is merged after everything was let go: the next reader finds it plain.
use super::{in_use, At, Backward, Batch, Direction, Forward, Limit, Place, Scan, NO_SLOT};
use crate::base::Result;
use crate::btree::LeafRead;
use crate::change::{Index, Merging, Run};
use crate::pool::Pool;

/// From so many pending entries in a leaf on, its reader merges it.
const DENSE: usize = 16;
const LEAST_BATCH: usize = 16;

/// Kept from fill to fill: buffers, and what is left of the range.
#[derive(Default)]
pub(super) struct Merge {
    merging: Merging,
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    /// A key of a leaf that is to be merged.
    dense: Option<Vec<u8>>,
}

impl Merge {
    fn is_over(&self) -> bool {
        self.to.as_ref().is_some_and(|to| *to <= self.from)
    }
    /// What is left once the part of a leaf that ends at `key` is done.
    fn cut_at(&mut self, key: &[u8], direction: Direction) {
        match direction {
            Forward => set(&mut self.from, key),
            Backward => set(self.to.get_or_insert_with(Vec::new), key),
        }
    }
    /// What is left once `leaf` is done. False: nothing.
    fn pass(&mut self, leaf: &LeafRead<'_>, direction: Direction) -> bool {
        let fence = match direction {
            Forward => leaf.upper_fence(),
            Backward => Some(leaf.lower_fence()).filter(|lower| !lower.is_empty()),
        };
        let Some(fence) = fence else { return false };
        self.cut_at(fence, direction);
        !self.is_over()
    }
}

pub(super) fn set_bound(to: &mut Option<Vec<u8>>, from: Option<&[u8]>) {
    match (from, &mut *to) {
        (Some(from), Some(to)) => set(to, from),
        (from, _) => *to = from.map(<[u8]>::to_vec),
    }
}
fn set(to: &mut Vec<u8>, from: &[u8]) {
    to.clear();
    to.extend_from_slice(from);
}

impl Scan {
    pub(super) fn fill_merged(
        &mut self,
        pool: &Pool,
        batch: &mut Batch,
        direction: Direction,
        limit: Limit,
    ) -> Result<()> {
        let mut merge = self.merge.take().unwrap_or_default();
        merge.dense = None;
        let filled = match self.leave(&mut merge, direction) {
            true => self.fill_rest(pool, &mut merge, batch, direction, limit),
            false => Ok(()),
        };
        self.merge = Some(merge);
        filled
    }
    /// How many entries a batch should take at least, if it may: on the merged way a batch costs a look into every partition, whatever
    /// it takes.
    #[inline]
    pub fn least_batch(&self) -> usize {
        match in_use(&self.index) {
            Some(_) => LEAST_BATCH,
            None => 1,
        }
    }
    pub fn index(&self) -> &Index {
        &self.index
    }
    /// A key of a leaf that the last `fill` met with much pending: whoever reads may have it merged, with no latch held.
    pub fn take_dense(&mut self) -> Option<Vec<u8>> {
        self.merge.as_mut()?.dense.take()
    }
    /// Works out what is left of the range. False: nothing.
    fn leave(&mut self, merge: &mut Merge, direction: Direction) -> bool {
        let near = match self.at {
            At::End { direction: before, .. } if before == direction => return false,
            At::Start | At::End { told: true, .. } => None,
            At::Key { inclusive } => Some(inclusive),
            At::Leaf { .. } | At::End { .. } => Some(false),
        };
        let Merge { from, to, .. } = merge;
        set(from, &self.lo);
        set_bound(to, self.hi.as_deref());
        if let Some(inclusive) = near {
            let near = match direction {
                Forward => from,
                Backward => to.get_or_insert_with(Vec::new),
            };
            set(near, &self.last);
            if inclusive != (direction == Forward) {
                // The first key that is greater.
                near.push(0);
            }
        }
        self.note_turn(direction);
        !merge.is_over()
    }
    fn fill_rest(
        &mut self,
        pool: &Pool,
        merge: &mut Merge,
        batch: &mut Batch,
        direction: Direction,
        limit: Limit,
    ) -> Result<()> {
        let delta = self.index.delta.clone().expect("something is pending in it");
        let mut leaf = self.first_leaf(pool, merge, direction)?;
        loop {
            let run = Run {
                lo: &merge.from,
                hi: merge.to.as_deref(),
                backward: direction == Backward,
            };
            let most = limit.entries - batch.len();
            let pending = merge.merging.start_some(pool, &delta, &leaf, run, most)?;
            if pending >= DENSE && merge.dense.is_none() && delta.merge_yield.is_turn_to_merge() {
                merge.dense = merge.merging.first_pending_key().map(<[u8]>::to_vec);
            }
            if !self.copy_merged(&leaf, &mut merge.merging, batch, direction, limit)? {
                return Ok(());
            }
            if let Some(cut) = merge.merging.cut() {
                merge.cut_at(leaf.key_at(cut), direction);
                continue;
            }
            if !merge.pass(&leaf, direction) {
                self.end(direction);
                return Ok(());
            }
            self.crossed += 1;
            leaf = self.step(pool, merge, leaf, direction)?;
        }
    }
    /// The leaf that owns the near end of what is left: the remembered one, if it is unchanged.
    fn first_leaf<'p>(&self, pool: &'p Pool, merge: &Merge, direction: Direction) -> Result<LeafRead<'p>> {
        if let At::Leaf {
            place: Place { page, version, slot },
            direction: before,
        } = self.at
        {
            let leaf = self.index.tree.revisit(pool, page, version, slot);
            if let Some(leaf) = leaf.filter(|leaf| before == direction && owns(leaf, merge, direction)) {
                return Ok(leaf);
            }
        }
        self.owner(pool, merge, direction)
    }
    fn owner<'p>(&self, pool: &'p Pool, merge: &Merge, direction: Direction) -> Result<LeafRead<'p>> {
        match direction {
            Forward => self.index.tree.leaf_owning(pool, &merge.from),
            Backward => self.index.tree.leaf_before(pool, merge.to.as_deref()),
        }
    }
    /// The next leaf. Going left, or asking for leaves to come, takes a descent with nothing held: by what is left of the range, so it does
    /// not matter what has become of the leaf meanwhile.
    fn step<'p>(
        &mut self,
        pool: &'p Pool,
        merge: &Merge,
        leaf: LeafRead<'p>,
        direction: Direction,
    ) -> Result<LeafRead<'p>> {
        if self.crossed >= self.ahead_at {
            drop(leaf);
            let near = if direction == Forward {
                Some(&merge.from)
            } else {
                merge.to.as_ref()
            };
            let asked =
                (self.index.tree).read_ahead(pool, near.map(Vec::as_slice), direction == Backward, self.ahead)?;
            self.asked_ahead(asked);
        } else if direction == Forward {
            if let Some(right) = self.index.tree.step_right(pool, leaf)? {
                return Ok(right);
            }
        } else {
            drop(leaf);
        }
        self.owner(pool, merge, direction)
    }
    /// Copies what fits. False: the batch is full, and the place is remembered.
    fn copy_merged(
        &mut self,
        leaf: &LeafRead<'_>,
        merging: &mut Merging,
        batch: &mut Batch,
        direction: Direction,
        limit: Limit,
    ) -> Result<bool> {
        let (page, version) = (leaf.page_no(), leaf.version());
        let before = batch.len();
        while batch.has_room(limit) {
            let Some(entry) = merging.next(leaf, direction == Backward)? else {
                return Ok(true);
            };
            if batch.len() == before {
                batch.leaves.push((page, version));
            }
            batch.push(entry.key, entry.value, entry.slot.map_or(NO_SLOT, |slot| slot as u16));
        }
        let slot = merging.border(direction == Backward);
        let place = Place { page, version, slot };
        self.at = At::Leaf { place, direction };
        Ok(false)
    }
}

fn owns(leaf: &LeafRead<'_>, merge: &Merge, direction: Direction) -> bool {
    let (lower, upper) = (leaf.lower_fence(), leaf.upper_fence());
    match (direction, &merge.to) {
        (Forward, _) => *lower <= merge.from[..] && upper.is_none_or(|upper| merge.from[..] < *upper),
        (Backward, Some(to)) => *lower < to[..] && upper.is_none_or(|upper| to[..] <= *upper),
        (Backward, None) => upper.is_none(),
    }
}

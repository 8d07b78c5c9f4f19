//! [`Scan`]: batches of entries in key order, both directions, for the table layer's cursors.
//!
//! A scan holds no latch between calls. It remembers leaf, version and slot. If the leaf has
//! changed since, the scan finds its place again by the last key that it returned. One `fill`
//! copies entries out of a leaf under one hold of its S latch. The caller may then wait for locks,
//! read undo or call the server, with no latch held (I5).
//!
//! While changes are pending in the index a `fill` goes the way of `merged`, else that of `plain`
//! (I3). The choice costs one load. Order of the files, top to bottom: `scan`, then `merged` and
//! `plain`, which use nothing of each other, `position`, `batch`.
mod batch;
mod merged;
#[cfg(test)]
mod merged_tests;
mod plain;
mod position;
#[cfg(test)]
mod tests;

pub use batch::{Batch, Direction, Limit, Place};

use crate::base::sync::holds_no_latch;
use crate::base::Result;
use crate::btree::Tree;
use crate::change::in_use;
use crate::index::Index;
use crate::pool::Pool;
use batch::Fill;
use merged::{Merge, MergedWay};
use plain::PlainWay;
use position::{At, Position};

/// Entries that a batch takes at least on the merged way, if the caller may take so many.
const LEAST_BATCH: usize = 16;

/// A resumable scan of the keys in [lo, hi).
pub struct Scan {
    index: Index,
    position: Position,
    /// Buffers of the merged way, once the scan has gone it.
    merge: Option<Box<Merge>>,
}

impl Scan {
    /// `hi` None: no bound.
    pub fn new(index: &Index, lo: &[u8], hi: Option<&[u8]>) -> Scan {
        Scan {
            index: index.clone(),
            position: Position::new(lo, hi),
            merge: None,
        }
    }
    /// A new range in the same index; buffers are kept.
    pub fn restart(&mut self, lo: &[u8], hi: Option<&[u8]>) {
        self.position.restart(lo, hi);
    }
    /// The next `fill` continues at `key` (with it if `inclusive`), in either direction. For a
    /// batch of which only a part was used.
    pub fn go_on_from(&mut self, key: &[u8], inclusive: bool) {
        self.position.go_on_from(key, inclusive);
    }
    pub fn index(&self) -> &Index {
        &self.index
    }
    pub fn tree(&self) -> &Tree {
        &self.index.tree
    }

    /// Replaces the batch by the next entries. Returns their number; 0: the range ends here. A new
    /// direction turns the scan at the last key that it returned. A caller that did not use all of
    /// that batch calls `go_on_from` first.
    pub fn fill(&mut self, pool: &Pool, batch: &mut Batch, direction: Direction, limit: Limit) -> Result<usize> {
        assert!(limit.entries > 0 && limit.bytes > 0, "a batch takes something");
        batch.clear();
        let (trees, position) = (&self.index.trees, &mut self.position);
        let mut fill = Fill {
            batch: &mut *batch,
            direction,
            limit,
        };
        if in_use(trees).is_some() {
            let merge = &mut **self.merge.get_or_insert_with(Box::default);
            MergedWay { trees, position, merge }.fill(pool, &mut fill)?;
        } else {
            let tree = &trees.tree;
            PlainWay { tree, position }.fill(pool, &mut fill)?;
        }
        if batch.is_empty() {
            let reported = true;
            self.position.at = At::End { direction, reported };
        }
        debug_assert!(batch.len() <= limit.entries, "a batch is no longer than its limit");
        debug_assert!(
            self.position.may_give(batch, direction),
            "a scan goes on in key order, within its range"
        );
        debug_assert!(holds_no_latch(), "I5: a scan holds no latch between calls");
        self.position.keep_last(batch);
        Ok(batch.len())
    }
    /// Entries that a batch should take at least, if the caller may take so many. On the merged way
    /// every batch costs a lookup in every partition, whatever its size.
    #[inline]
    pub fn least_batch(&self) -> usize {
        match in_use(&self.index) {
            Some(_) => LEAST_BATCH,
            None => 1,
        }
    }
    /// A key of a leaf where the last `fill` met many pending entries. The caller may have that
    /// leaf merged, with no latch held.
    pub fn take_dense(&mut self) -> Option<Vec<u8>> {
        self.merge.as_mut()?.dense.take()
    }
    /// Entry `i` of the batch, copied by this scan, is still as it was copied. False: it may have
    /// changed.
    pub fn is_unchanged(&self, pool: &Pool, batch: &Batch, i: usize) -> bool {
        debug_assert!(i < batch.len(), "an entry of the batch");
        let Some(place) = batch.place(i) else {
            return false;
        };
        let Some(_latched) = self.index.tree.revisit(pool, place.page, place.version, place.slot) else {
            return false;
        };
        // Asked under the latch: between the two questions no merge can take a change out of the
        // delta.
        in_use(&self.index).is_none_or(|delta| !delta.maybe_pending(batch.key(i)))
    }
}

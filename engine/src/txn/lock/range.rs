//! Key ranges locked against inserts, per index and owner.
//!
//! Locking reads lock gaps; a load into an empty table locks whole indexes.
//!
//! Ranges never conflict with each other, only with another transaction's insert into one. So
//! nothing hangs on successor records, and nothing is inherited. A load counts as an insert of any
//! key.
//!
//! An owner's ranges of one index are kept disjoint: overlapping and touching ones are joined. So
//! the check of a key is one descent per owner. An index without ranges costs an insert one atomic
//! load. Locks: one mutex per group of indexes, [`Rank::LockShard`], never together with a row lock
//! shard's but in reports. Called by `sys.rs`.
use super::wait_flag::{mark_granted, WakeList};
use crate::base::sync::{Rank, RankedMutex};
use crate::base::IndexId;
use crate::txn::lock::held::WaitPlace;
use crate::txn::shared::TrxShared;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

const SHARDS: usize = 16;
const COUNTS: usize = 256;

/// Disjoint ranges: lower bound -> upper bound (None: to the end).
#[derive(Default)]
struct RangeSet(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

impl RangeSet {
    fn contains(&self, key: &[u8]) -> bool {
        self.around(key).is_some()
    }
    /// The range that holds the key.
    fn around(&self, key: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
        let below = self.0.range::<[u8], _>((Bound::Unbounded, Bound::Included(key)));
        let (lo, hi) = below.last()?;
        let holds = hi.as_deref().is_none_or(|hi| key < hi);
        holds.then_some((lo.as_slice(), hi.as_deref()))
    }
    fn all(&self, owner: &Arc<TrxShared>, index: IndexId) -> Vec<HeldRange> {
        let ranges = self.0.iter();
        ranges.map(|(lo, hi)| held(owner, index, lo, hi.as_deref())).collect()
    }
    /// Adds a range, joined with those that it touches.
    fn add(&mut self, lo: &[u8], hi: Option<&[u8]>) {
        if hi.is_some_and(|hi| hi <= lo) {
            return;
        }
        let mut lo = lo.to_vec();
        let mut hi = hi.map(<[u8]>::to_vec);
        // From the right. A range becomes part of the new one if it starts at or before the new
        // end, and ends at or after the new start.
        loop {
            let touching = match &hi {
                Some(hi) => self.0.range(..=hi.clone()).next_back(),
                None => self.0.iter().next_back(),
            };
            let Some((other_lo, other_hi)) = touching else { break };
            if other_hi.as_ref().is_some_and(|other_hi| *other_hi < lo) {
                break;
            }
            let other_lo = other_lo.clone();
            let other_hi = self.0.remove(&other_lo).expect("it was found above");
            lo = lo.min(other_lo);
            hi = match (hi, other_hi) {
                (Some(a), Some(b)) => Some(a.max(b)),
                _ => None,
            };
        }
        debug_assert!(
            self.is_apart(&lo, hi.as_deref()),
            "what touches the range was joined with it"
        );
        debug_assert!(hi.as_ref().is_none_or(|hi| lo < *hi), "a range is not empty");
        self.0.insert(lo, hi);
    }
    /// No range touches [lo, hi). For asserts.
    fn is_apart(&self, lo: &[u8], hi: Option<&[u8]>) -> bool {
        let before = self
            .0
            .range::<[u8], _>((Bound::Unbounded, Bound::Excluded(lo)))
            .next_back();
        let after = self.0.range::<[u8], _>((Bound::Included(lo), Bound::Unbounded)).next();
        before.is_none_or(|(_, end)| end.as_ref().is_some_and(|end| end[..] < *lo))
            && after.is_none_or(|(start, _)| hi.is_some_and(|hi| *hi < start[..]))
    }
}

#[derive(Default)]
pub(super) struct IndexRanges {
    owners: Vec<(Arc<TrxShared>, RangeSet)>,
    /// Inserts that wait, in no order: giving a range back wakes all inserts that it alone stopped.
    /// None: a load.
    waiting: Vec<(Arc<TrxShared>, Option<Vec<u8>>)>,
}

impl IndexRanges {
    /// The owners that an insert of `key` (None: of any key) by `but` has to wait for.
    fn owners_of<'a>(
        &'a self,
        key: Option<&'a [u8]>,
        but: &'a Arc<TrxShared>,
    ) -> impl Iterator<Item = &'a Arc<TrxShared>> + 'a {
        let others = self.owners.iter().filter(move |(trx, _)| !Arc::ptr_eq(trx, but));
        let in_way = move |set: &RangeSet| key.is_none_or(|key| set.contains(key));
        others.filter(move |(_, set)| in_way(set)).map(|(trx, _)| trx)
    }
    /// The waiting inserts of other transactions that a new range of `trx` stops, and that no range
    /// of `trx` stopped before. `of_trx`: place of `trx` among the owners.
    fn stopped_by(&self, trx: &Arc<TrxShared>, of_trx: Option<usize>, lo: &[u8], hi: Option<&[u8]>) -> WakeList {
        let has = of_trx.map(|at| &self.owners[at].1);
        let is_new =
            |key: &[u8]| lo <= key && hi.is_none_or(|hi| key < hi) && !has.is_some_and(|set| set.contains(key));
        let others = self.waiting.iter().filter(|(waiter, _)| !Arc::ptr_eq(waiter, trx));
        others
            .filter(|(_, key)| key.as_deref().map_or(has.is_none(), is_new))
            .map(|(waiter, _)| waiter.clone())
            .collect()
    }
}

/// A range as reports show it.
pub(super) struct HeldRange {
    pub owner: Arc<TrxShared>,
    pub index: IndexId,
    pub lo: Vec<u8>,
    pub hi: Option<Vec<u8>>,
}

impl IndexRanges {
    /// The insert of `trx` that waits: its key (empty: any), and the ranges in its way.
    pub fn wait_of(&self, trx: &Arc<TrxShared>, index: IndexId) -> Option<(Vec<u8>, Vec<HeldRange>)> {
        let (_, key) = self.waiting.iter().find(|(waiter, _)| Arc::ptr_eq(waiter, trx))?;
        let others = self.owners.iter().filter(|(owner, _)| !Arc::ptr_eq(owner, trx));
        let in_the_way = others.flat_map(|(owner, set)| -> Vec<HeldRange> {
            match key {
                Some(key) => (set.around(key).into_iter())
                    .map(|(lo, hi)| held(owner, index, lo, hi))
                    .collect(),
                None => set.all(owner, index),
            }
        });
        let in_the_way = in_the_way.collect();
        Some((key.clone().unwrap_or_default(), in_the_way))
    }
    pub fn owners(&self) -> impl Iterator<Item = &Arc<TrxShared>> + '_ {
        self.owners.iter().map(|(owner, _)| owner)
    }
    pub fn all(&self, index: IndexId) -> impl Iterator<Item = HeldRange> + '_ {
        self.owners.iter().flat_map(move |(owner, set)| set.all(owner, index))
    }
}

fn held(owner: &Arc<TrxShared>, index: IndexId, lo: &[u8], hi: Option<&[u8]>) -> HeldRange {
    HeldRange {
        owner: owner.clone(),
        index,
        lo: lo.to_vec(),
        hi: hi.map(<[u8]>::to_vec),
    }
}

pub(super) type Shard = HashMap<IndexId, IndexRanges>;

pub(super) struct RangeLocks {
    pub shards: [RankedMutex<Shard>; SHARDS],
    /// Owners of ranges, by index number modulo.
    counts: [AtomicU32; COUNTS],
}

impl Default for RangeLocks {
    fn default() -> Self {
        RangeLocks {
            shards: std::array::from_fn(|_| RankedMutex::new(Rank::LockShard, Shard::new())),
            counts: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }
}

impl RangeLocks {
    pub fn shard_of(index: IndexId) -> usize {
        index as usize % SHARDS
    }
    fn shard(&self, index: IndexId) -> &RankedMutex<Shard> {
        &self.shards[RangeLocks::shard_of(index)]
    }
    fn count(&self, index: IndexId) -> &AtomicU32 {
        &self.counts[index as usize % COUNTS]
    }
    /// False: no transaction has a range in this index.
    pub fn any(&self, index: IndexId) -> bool {
        self.count(index).load(Ordering::Acquire) != 0
    }
    /// True if the range is the owner's first in this index. The inserts in the list wait for
    /// others, and from now on for this owner too: they are to look again.
    pub fn add(&self, trx: &Arc<TrxShared>, index: IndexId, lo: &[u8], hi: Option<&[u8]>) -> (bool, WakeList) {
        let mut shard = self.shard(index).lock();
        let ranges = shard.entry(index).or_default();
        let of_trx = ranges.owners.iter().position(|(owner, _)| Arc::ptr_eq(owner, trx));
        let newly_blocked = ranges.stopped_by(trx, of_trx, lo, hi);
        debug_assert_eq!(
            of_trx.is_none(),
            !trx.locks.lock().ranges.contains(&index),
            "an owner remembers the indexes of its ranges, to give them back"
        );
        if let Some(at) = of_trx {
            add_counted(trx, &mut ranges.owners[at].1, lo, hi);
            return (false, newly_blocked);
        }
        let mut set = RangeSet::default();
        add_counted(trx, &mut set, lo, hi);
        ranges.owners.push((trx.clone(), set));
        self.count(index).fetch_add(1, Ordering::AcqRel);
        (true, newly_blocked)
    }
    /// `key` None: of every range.
    pub fn is_free(&self, trx: &Arc<TrxShared>, index: IndexId, key: Option<&[u8]>) -> bool {
        if !self.any(index) {
            return true;
        }
        let shard = self.shard(index).lock();
        let free = shard.get(&index).is_none_or(|r| r.owners_of(key, trx).next().is_none());
        free
    }
    /// None: the key is free. Else the insert is queued, `begin` called under the mutex, and the
    /// owners are returned.
    pub fn enqueue(
        &self,
        trx: &Arc<TrxShared>,
        index: IndexId,
        key: Option<&[u8]>,
        begin: impl FnOnce(),
    ) -> Option<Vec<Arc<TrxShared>>> {
        let mut shard = self.shard(index).lock();
        let ranges = shard.get_mut(&index)?;
        let owners: Vec<Arc<TrxShared>> = ranges.owners_of(key, trx).cloned().collect();
        if owners.is_empty() {
            return None;
        }
        debug_assert!(
            !ranges.waiting.iter().any(|(t, _)| Arc::ptr_eq(t, trx)),
            "one insert of a transaction waits"
        );
        ranges.waiting.push((trx.clone(), key.map(<[u8]>::to_vec)));
        begin();
        debug_assert_eq!(
            trx.wait_place(),
            Some(WaitPlace::Range(index)),
            "who stands in a queue says in which, for the deadlock search"
        );
        Some(owners)
    }
    /// Ends the caller's wait; true if it was still queued.
    pub fn leave(&self, trx: &Arc<TrxShared>, index: IndexId) -> bool {
        let mut shard = self.shard(index).lock();
        let Some(ranges) = shard.get_mut(&index) else {
            return false;
        };
        let Some(at) = ranges.waiting.iter().position(|(t, _)| Arc::ptr_eq(t, trx)) else {
            return false;
        };
        ranges.waiting.swap_remove(at);
        drop_if_unused(&mut shard, index);
        true
    }
    /// Does `what` under the mutex if an insert of `trx` is queued, and returns its result.
    pub fn while_queued(&self, trx: &Arc<TrxShared>, index: IndexId, what: impl FnOnce() -> bool) -> bool {
        let shard = self.shard(index).lock();
        let is_queued = |ranges: &IndexRanges| ranges.waiting.iter().any(|(t, _)| Arc::ptr_eq(t, trx));
        shard.get(&index).is_some_and(is_queued) && what()
    }
    /// The owners that a queued insert waits for, and its key (empty: any).
    pub fn blockers(&self, trx: &Arc<TrxShared>, index: IndexId) -> Option<(Vec<u8>, Vec<Arc<TrxShared>>)> {
        let shard = self.shard(index).lock();
        let ranges = shard.get(&index)?;
        let (_, key) = ranges.waiting.iter().find(|(t, _)| Arc::ptr_eq(t, trx))?;
        let owners = ranges.owners_of(key.as_deref(), trx).cloned().collect();
        Some((key.clone().unwrap_or_default(), owners))
    }
    /// Gives back all ranges of `trx` in the index. The inserts that nothing stops any more are to
    /// be woken.
    pub fn release(&self, trx: &Arc<TrxShared>, index: IndexId) -> WakeList {
        let mut wake = WakeList::new();
        let mut shard = self.shard(index).lock();
        let Some(ranges) = shard.get_mut(&index) else {
            return wake;
        };
        if let Some(at) = ranges.owners.iter().position(|(owner, _)| Arc::ptr_eq(owner, trx)) {
            let (_, set) = ranges.owners.remove(at);
            debug_assert!(
                trx.range_count.load(Ordering::Relaxed) >= set.0.len() as u64,
                "the count is of all indexes: it never falls below this one's"
            );
            let left = trx.range_count.load(Ordering::Relaxed) - set.0.len() as u64;
            trx.range_count.store(left, Ordering::Relaxed);
            let counted = self.count(index).fetch_sub(1, Ordering::AcqRel);
            debug_assert!(counted > 0, "an owner of ranges is counted under its index");
            debug_assert!(
                !ranges.owners.iter().any(|(owner, _)| Arc::ptr_eq(owner, trx)),
                "an owner of ranges is listed once"
            );
        }
        let waiting = std::mem::take(&mut ranges.waiting);
        for (waiter, key) in waiting {
            if ranges.owners_of(key.as_deref(), &waiter).next().is_some() {
                ranges.waiting.push((waiter, key));
            } else {
                wake.push(waiter);
            }
        }
        mark_granted(&wake);
        drop_if_unused(&mut shard, index);
        wake
    }
}

/// Adds a range, and keeps the owner's count: a range may be joined with others, and leave fewer.
fn add_counted(owner: &TrxShared, set: &mut RangeSet, lo: &[u8], hi: Option<&[u8]>) {
    let before = set.0.len() as u64;
    debug_assert!(
        owner.range_count.load(Ordering::Relaxed) >= before,
        "the count is of all indexes: it never falls below this one's"
    );
    set.add(lo, hi);
    // The count is of all indexes: it never falls below this one's.
    let now = owner.range_count.load(Ordering::Relaxed) - before + set.0.len() as u64;
    owner.range_count.store(now, Ordering::Relaxed);
}

fn drop_if_unused(shard: &mut Shard, index: IndexId) {
    if shard
        .get(&index)
        .is_some_and(|r| r.owners.is_empty() && r.waiting.is_empty())
    {
        shard.remove(&index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_ranges_hold_what_was_put_in() {
        let mut random = 11u64;
        let mut next = |below: u64| {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (random >> 33) % below
        };
        for _ in 0..300 {
            let owner = TrxShared::new(Arc::new(crate::txn::ThreadWaiter::new()), 1);
            let mut set = RangeSet::default();
            let mut model = [false; 200];
            for _ in 0..next(12) {
                let lo = next(200) as usize;
                let hi = (lo + next(40) as usize).min(199);
                let open = next(20) == 0;
                add_counted(&owner, &mut set, &[lo as u8], (!open).then_some(&[hi as u8][..]));
                model[lo..if open { 200 } else { hi }].fill(true);
                for (key, expected) in model.iter().enumerate() {
                    assert_eq!(set.contains(&[key as u8]), *expected, "key {key}");
                }
            }
            let bounds: Vec<_> = set.0.iter().collect();
            assert_eq!(owner.range_count.load(Ordering::Relaxed), bounds.len() as u64);
            for pair in bounds.windows(2) {
                assert!(pair[0].1.as_ref().unwrap() < pair[1].0, "disjoint and not touching");
            }
        }
    }
}

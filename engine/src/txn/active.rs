//! The active writers by id. Row reads ask often, and mostly about transactions that ended long
//! ago.
//!
//! Three steps, cheapest first: below the oldest active id (one atomic load): no. An array of
//! counters by id modulo (one more load) that is zero: no. Else the shard's map, under its short
//! mutex. An id is added before any row can carry it, and removed after the end marker is in the
//! log. Shard mutexes are leaves. Called by `visibility.rs`.
use super::shared::TrxShared;
use crate::base::sync::{Rank, RankedMutex};
use crate::base::TrxId;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

const SHARDS: usize = 64;
const COUNTS: usize = 1024;

type Shard = Vec<(TrxId, Arc<TrxShared>)>;

pub(super) struct ActiveSet {
    /// No transaction with a lower id is active. Only grows. Moved under the mutex of
    /// `visibility.rs`.
    pub low: AtomicU64,
    counts: Box<[AtomicU32]>,
    shards: Box<[RankedMutex<Shard>]>,
}

impl ActiveSet {
    pub fn new(low: TrxId) -> ActiveSet {
        ActiveSet {
            low: AtomicU64::new(low),
            counts: (0..COUNTS).map(|_| AtomicU32::new(0)).collect(),
            shards: (0..SHARDS).map(|_| RankedMutex::new(Rank::Leaf, Vec::new())).collect(),
        }
    }
    fn shard(&self, id: TrxId) -> &RankedMutex<Shard> {
        &self.shards[id as usize % SHARDS]
    }
    fn count(&self, id: TrxId) -> &AtomicU32 {
        &self.counts[id as usize % COUNTS]
    }
    pub fn add(&self, id: TrxId, trx: &Arc<TrxShared>) {
        debug_assert!(
            id >= self.low.load(Ordering::Acquire),
            "no active transaction is below the oldest active id, else it would be taken for ended"
        );
        debug_assert!(!self.contains(id), "an id is given once");
        self.count(id).fetch_add(1, Ordering::AcqRel);
        self.shard(id).lock().push((id, trx.clone()));
    }
    pub fn remove(&self, id: TrxId) {
        let mut shard = self.shard(id).lock();
        let at = shard.iter().position(|(other, _)| *other == id);
        shard.swap_remove(at.expect("an active transaction is in the active set"));
        drop(shard);
        let before = self.count(id).fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "an active transaction is counted under its id");
    }
    /// False for sure, or perhaps.
    fn may_hold(&self, id: TrxId) -> bool {
        id >= self.low.load(Ordering::Acquire) && self.count(id).load(Ordering::Acquire) != 0
    }
    pub fn contains(&self, id: TrxId) -> bool {
        self.may_hold(id) && self.shard(id).lock().iter().any(|(other, _)| *other == id)
    }
    pub fn get(&self, id: TrxId) -> Option<Arc<TrxShared>> {
        if !self.may_hold(id) {
            return None;
        }
        let shard = self.shard(id).lock();
        let found = shard.iter().find(|(other, _)| *other == id);
        debug_assert!(
            found.is_none_or(|(_, trx)| [0, id].contains(&trx.id())),
            "a transaction leaves the active set before its object serves another one"
        );
        found.map(|(_, trx)| trx.clone())
    }
}

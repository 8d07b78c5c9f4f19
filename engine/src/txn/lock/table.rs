//! All queues of the engine: rows in shards, key ranges; and what a waiting transaction waits for.
//!
//! Locks: shard mutexes ([`Rank::LockShard`]), one at a time. Called by `sys.rs`, `sleep.rs`,
//! `deadlock.rs` and `report.rs`.
use super::held::{LockMode, LockRef, WaitPlace};
use super::range::RangeLocks;
use super::shard::{Request, Shard};
use super::wait_flag::is_decided;
use crate::base::sync::{Rank, RankedMutex};
use crate::txn::info::{BlockerInfo, HeldInfo, TrxInfo, WaitInfo};
use crate::txn::shared::TrxShared;
use std::sync::Arc;

pub(super) const SHARDS: usize = 64;

pub(in crate::txn) struct LockTable {
    pub(super) shards: Box<[RankedMutex<Shard>]>,
    pub(super) ranges: RangeLocks,
}

/// A wait as read from its queue.
#[derive(Default)]
pub(super) struct Edges {
    pub blockers: Vec<Arc<TrxShared>>,
    /// Every request before the waiting one in its queue blocks it.
    pub whole_queue: bool,
}

impl LockTable {
    pub fn new() -> LockTable {
        let shards = (0..SHARDS).map(|_| RankedMutex::new(Rank::LockShard, Shard::default()));
        LockTable {
            shards: shards.collect(),
            ranges: RangeLocks::default(),
        }
    }

    /// The queue of a row wait, under its mutex.
    fn with_queue<R>(&self, at: LockRef, look: impl FnOnce(&mut Shard, u32) -> R) -> R {
        look(&mut self.shards[at.shard as usize].lock(), at.slot)
    }

    /// Row locks held and waited for, in the whole engine.
    pub fn names_in_use(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// The transactions that `trx` waits for, in the order of the queue; none if its wait has been
    /// decided.
    pub(super) fn blockers(&self, trx: &Arc<TrxShared>, place: WaitPlace) -> Vec<Arc<TrxShared>> {
        self.edges(trx, place).blockers
    }

    /// The wait of `trx` as it is now.
    pub(super) fn edges(&self, trx: &Arc<TrxShared>, place: WaitPlace) -> Edges {
        if is_decided(trx) {
            return Edges::default();
        }
        match place {
            WaitPlace::Row(at) => self.with_queue(at, |shard, slot| {
                let Some(entry) = shard.get(slot) else {
                    return Edges::default();
                };
                let Some(request) = entry.waiting_request(trx) else {
                    return Edges::default();
                };
                Edges {
                    whole_queue: request.mode == LockMode::Exclusive
                        && !entry.granted().iter().any(|r| Arc::ptr_eq(&r.trx, trx)),
                    blockers: entry.blockers(trx).cloned().collect(),
                }
            }),
            WaitPlace::Range(index) => Edges {
                blockers: self
                    .ranges
                    .blockers(trx, index)
                    .map_or(Vec::new(), |(_, owners)| owners),
                whole_queue: false,
            },
        }
    }

    /// Does `what` if a request of `trx` is queued, under the queue's mutex, so that no new wait of
    /// `trx` can begin meanwhile. Returns what `what` returned; false: nothing is queued.
    pub(super) fn while_queued(&self, trx: &Arc<TrxShared>, what: impl FnOnce() -> bool) -> bool {
        match trx.wait_place() {
            Some(WaitPlace::Row(at)) => self.with_queue(at, |shard, slot| {
                shard.get(slot).is_some_and(|e| e.waiting_request(trx).is_some()) && what()
            }),
            Some(WaitPlace::Range(index)) => self.ranges.while_queued(trx, index, what),
            None => false,
        }
    }

    /// The lock of `holder` that `waiting` waits for.
    pub(super) fn held_against(&self, waiting: &Arc<TrxShared>, holder: &Arc<TrxShared>) -> Option<HeldInfo> {
        match waiting.wait_place()? {
            WaitPlace::Row(at) => self.with_queue(at, |shard, slot| {
                let entry = shard.get(slot)?;
                let of = |requests: &[Request]| requests.iter().find(|r| Arc::ptr_eq(&r.trx, holder)).map(|r| r.mode);
                let granted = of(entry.granted());
                Some(HeldInfo {
                    index: entry.index,
                    key: entry.key.to_vec(),
                    mode: Some(granted.or(of(entry.waiting()))?),
                    granted: granted.is_some(),
                })
            }),
            WaitPlace::Range(index) => Some(HeldInfo {
                index,
                key: self.ranges.blockers(waiting, index)?.0,
                mode: None,
                granted: true,
            }),
        }
    }

    /// What the transaction waits for now.
    fn wait_of(&self, trx: &Arc<TrxShared>) -> Option<WaitInfo> {
        match trx.wait_place()? {
            WaitPlace::Row(at) => self.with_queue(at, |shard, slot| {
                let entry = shard.get(slot)?;
                let request = entry.waiting_request(trx)?;
                Some(WaitInfo {
                    index: entry.index,
                    key: entry.key.to_vec(),
                    mode: Some(request.mode),
                    blockers: distinct(entry.blockers(trx)),
                })
            }),
            WaitPlace::Range(index) => {
                let (key, owners) = self.ranges.blockers(trx, index)?;
                Some(WaitInfo {
                    index,
                    key,
                    mode: None,
                    blockers: distinct(owners.iter()),
                })
            }
        }
    }

    /// The transaction and its wait.
    pub fn info(&self, trx: &Arc<TrxShared>, now_us: u64) -> TrxInfo {
        TrxInfo {
            wait: self.wait_of(trx),
            ..TrxInfo::without_wait(trx, now_us)
        }
    }
}

/// Each transaction once: one may hold a lock of a row and wait for a stronger one.
fn distinct<'a>(blockers: impl Iterator<Item = &'a Arc<TrxShared>>) -> Vec<BlockerInfo> {
    let mut all = Vec::new();
    for trx in blockers {
        let blocker = BlockerInfo {
            id: trx.id(),
            connection: trx.connection(),
            xid: trx.xid.lock().clone(),
        };
        if !all.contains(&blocker) {
            all.push(blocker);
        }
    }
    all
}

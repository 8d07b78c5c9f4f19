//! The lock table as INFORMATION_SCHEMA shows it: transactions, locks, and which lock waits for
//! which.
//!
//! A report takes two looks:
//! - The first holds the mutexes of all shards at once, and copies the queues with waiting
//!   requests. So the transactions and waits of a report are those of one moment. The cost depends
//!   on the number of waiters, not of locks.
//! - The second, for reports of the other locks too ([`LockDetail`]), goes through one shard after
//!   the other. So no transaction waits for a copy of the whole table. It leaves out the locks that
//!   the first look has shown, and those of transactions that have begun since. So no lock is shown
//!   twice, and every lock belongs to a transaction of the report.
//!
//! A row that a transaction has changed is locked by the change alone, without an entry here, until
//! another transaction asks for it. Called by `txn/report.rs`, with no latch held.
use super::held::{LockMode, WaitPlace};
use super::range::{HeldRange, RangeLocks};
use super::shard::{conflict, hash_name, Entry, Request};
use super::table::LockTable;
use crate::base::IndexId;
use crate::txn::info::TrxInfo;
use crate::txn::shared::TrxShared;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// What a report says of the locks that no transaction waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockDetail {
    Nothing,
    /// Which transaction has any lock in which index: no lock is copied.
    Indexes,
    Locks,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LockKind {
    Row,
    /// From the key on, up to `to` (None: to the end). Keeps other transactions from inserting.
    Range {
        to: Option<Vec<u8>>,
    },
    /// An insert that waits for a range to be given back.
    Insert,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockInfo {
    /// Place of its transaction in the report.
    pub trx: usize,
    pub index: IndexId,
    pub kind: LockKind,
    pub mode: LockMode,
    pub key: Vec<u8>,
    pub granted: bool,
}

#[derive(Default, Debug)]
pub struct LockReport {
    pub transactions: Vec<TrxInfo>,
    pub locks: Vec<LockInfo>,
    /// Of [`LockDetail::Indexes`]: transactions by place, and indexes in which they have locks that
    /// are not among `locks`.
    pub indexes: HashSet<(usize, IndexId)>,
    /// Places of locks: one that is waited for, and one that is in its way.
    pub waits: Vec<(usize, usize)>,
    /// By transaction: the lock that it waits for.
    pub requested: Vec<Option<usize>>,
}

impl LockReport {
    /// A name of the lock: the same for the same lock of the same transaction, in every report.
    pub fn lock_id(&self, at: usize) -> String {
        let lock = &self.locks[at];
        let kind = match (&lock.kind, lock.mode) {
            (LockKind::Range { .. }, _) => 'G',
            (LockKind::Insert, _) => 'I',
            (LockKind::Row, LockMode::Shared) => 'S',
            (LockKind::Row, LockMode::Exclusive) => 'X',
        };
        let number = self.transactions[lock.trx].number();
        format!(
            "{number}:{}:{:016x}:{kind}",
            lock.index,
            hash_name(lock.index, &lock.key)
        )
    }
}

/// A queue as copied under its mutex.
struct Queue {
    index: IndexId,
    key: Vec<u8>,
    /// Transaction, mode, granted.
    requests: Vec<(Arc<TrxShared>, LockMode, bool)>,
}

struct InsertWait {
    trx: Arc<TrxShared>,
    index: IndexId,
    key: Vec<u8>,
    in_the_way: Vec<HeldRange>,
}

/// What the first look copies.
#[derive(Default)]
struct FirstLook {
    transactions: Vec<(Arc<TrxShared>, TrxInfo)>,
    queues: Vec<Queue>,
    inserts: Vec<InsertWait>,
    /// Names of the queues, by hash.
    seen: HashSet<(u64, IndexId)>,
}

/// A report in the making.
#[derive(Default)]
struct Builder {
    report: LockReport,
    /// By address: place in the report, and the clock of the start.
    known: HashMap<*const TrxShared, (usize, u64)>,
    ranges: HashMap<(usize, IndexId, Vec<u8>), usize>,
}

impl LockTable {
    pub(in crate::txn) fn report(&self, everyone: Vec<Arc<TrxShared>>, now_us: u64, detail: LockDetail) -> LockReport {
        let look = self.look_at_waits(everyone, now_us);
        let mut builder = Builder::default();
        for (trx, info) in look.transactions {
            builder.add_transaction(&trx, info);
        }
        for queue in &look.queues {
            builder.add_queue(queue, now_us);
        }
        for insert in look.inserts {
            builder.add_insert(insert, now_us);
        }
        match detail {
            LockDetail::Nothing => {}
            LockDetail::Indexes => self.look_for_indexes(&mut builder),
            LockDetail::Locks => self.look_at_the_rest(&mut builder, &look.seen),
        }
        builder.report
    }

    /// The first look.
    fn look_at_waits(&self, everyone: Vec<Arc<TrxShared>>, now_us: u64) -> FirstLook {
        let mut look = FirstLook::default();
        let rows: Vec<_> = self.shards.iter().map(|shard| shard.lock_next()).collect();
        let ranges: Vec<_> = self.ranges.shards.iter().map(|shard| shard.lock_next()).collect();
        for trx in everyone {
            match trx.wait_place() {
                Some(WaitPlace::Row(at)) => {
                    let entry = rows[at.shard as usize].get(at.slot);
                    if let Some(entry) = entry.filter(|entry| entry.waiting_request(&trx).is_some()) {
                        if look.seen.insert((entry.hash, entry.index)) {
                            look.queues.push(Queue::of(entry));
                        }
                    }
                }
                Some(WaitPlace::Range(index)) => {
                    let found = ranges[RangeLocks::shard_of(index)].get(&index);
                    if let Some((key, in_the_way)) = found.and_then(|found| found.wait_of(&trx, index)) {
                        let trx = trx.clone();
                        look.inserts.push(InsertWait {
                            trx,
                            index,
                            key,
                            in_the_way,
                        });
                    }
                }
                None if !trx.is_active() => continue,
                None => {}
            }
            let info = TrxInfo::without_wait(&trx, now_us);
            look.transactions.push((trx, info));
        }
        look
    }

    /// The second look, at indexes only.
    fn look_for_indexes(&self, builder: &mut Builder) {
        for shard in &self.shards {
            for entry in shard.lock().entries() {
                for request in entry.granted() {
                    builder.add_index(&request.trx, entry.index);
                }
            }
        }
        for shard in &self.ranges.shards {
            for (index, ranges) in shard.lock().iter() {
                for owner in ranges.owners() {
                    builder.add_index(owner, *index);
                }
            }
        }
    }

    /// The second look.
    fn look_at_the_rest(&self, builder: &mut Builder, seen: &HashSet<(u64, IndexId)>) {
        for shard in &self.shards {
            let shard = shard.lock();
            for entry in shard
                .entries()
                .filter(|entry| !seen.contains(&(entry.hash, entry.index)))
            {
                entry
                    .granted()
                    .iter()
                    .for_each(|request| builder.add_held(entry, request));
            }
        }
        for shard in &self.ranges.shards {
            let found: Vec<HeldRange> = {
                let shard = shard.lock();
                shard.iter().flat_map(|(index, ranges)| ranges.all(*index)).collect()
            };
            for range in found {
                if let Some(trx) = builder.find(&range.owner) {
                    builder.add_range(trx, range);
                }
            }
        }
    }
}

impl Queue {
    fn of(entry: &Entry) -> Queue {
        let requests = |list: &[Request], granted: bool| -> Vec<(Arc<TrxShared>, LockMode, bool)> {
            list.iter().map(|r| (r.trx.clone(), r.mode, granted)).collect()
        };
        let mut all = requests(entry.granted(), true);
        all.extend(requests(entry.waiting(), false));
        Queue {
            index: entry.index,
            key: entry.key.to_vec(),
            requests: all,
        }
    }
}

impl Builder {
    fn add_transaction(&mut self, trx: &Arc<TrxShared>, info: TrxInfo) -> usize {
        let at = self.report.transactions.len();
        self.known.insert(Arc::as_ptr(trx), (at, trx.started_us.load(Relaxed)));
        self.report.transactions.push(info);
        self.report.requested.push(None);
        at
    }
    /// Place of a transaction that was copied with a queue; it may have begun just before the look.
    fn place(&mut self, trx: &Arc<TrxShared>, now_us: u64) -> usize {
        match self.known.get(&Arc::as_ptr(trx)) {
            Some((at, _)) => *at,
            None => self.add_transaction(trx, TrxInfo::without_wait(trx, now_us)),
        }
    }
    /// Place of a transaction if it is still the one that the first look saw.
    fn find(&self, trx: &Arc<TrxShared>) -> Option<usize> {
        let (at, started_us) = self.known.get(&Arc::as_ptr(trx))?;
        (*started_us == trx.started_us.load(Relaxed)).then_some(*at)
    }
    fn add_index(&mut self, trx: &Arc<TrxShared>, index: IndexId) {
        if let Some(at) = self.find(trx) {
            self.report.indexes.insert((at, index));
        }
    }
    fn push(&mut self, lock: LockInfo) -> usize {
        let at = self.report.locks.len();
        if !lock.granted {
            self.report.requested[lock.trx] = Some(at);
        }
        self.report.locks.push(lock);
        at
    }
    fn add_queue(&mut self, queue: &Queue, now_us: u64) {
        let first = self.report.locks.len();
        for (i, (trx, mode, granted)) in queue.requests.iter().enumerate() {
            let at = self.place(trx, now_us);
            let lock = self.push(LockInfo {
                trx: at,
                index: queue.index,
                kind: LockKind::Row,
                mode: *mode,
                key: queue.key.clone(),
                granted: *granted,
            });
            if *granted {
                continue;
            }
            for (j, (other, other_mode, _)) in queue.requests[..i].iter().enumerate() {
                if conflict(*mode, *other_mode) && !Arc::ptr_eq(trx, other) {
                    self.report.waits.push((lock, first + j));
                }
            }
        }
    }
    fn add_insert(&mut self, insert: InsertWait, now_us: u64) {
        let trx = self.place(&insert.trx, now_us);
        let lock = self.push(LockInfo {
            trx,
            index: insert.index,
            kind: LockKind::Insert,
            mode: LockMode::Exclusive,
            key: insert.key,
            granted: false,
        });
        for range in insert.in_the_way {
            let owner = self.place(&range.owner, now_us);
            let range = self.add_range(owner, range);
            self.report.waits.push((lock, range));
        }
    }
    /// Several inserts may wait for one range.
    fn add_range(&mut self, trx: usize, range: HeldRange) -> usize {
        let name = (trx, range.index, range.lo.clone());
        if let Some(at) = self.ranges.get(&name) {
            return *at;
        }
        let at = self.push(LockInfo {
            trx,
            index: range.index,
            kind: LockKind::Range { to: range.hi },
            mode: LockMode::Shared,
            key: range.lo,
            granted: true,
        });
        self.ranges.insert(name, at);
        at
    }
    fn add_held(&mut self, entry: &Entry, request: &Request) {
        let Some(trx) = self.find(&request.trx) else { return };
        self.push(LockInfo {
            trx,
            index: entry.index,
            kind: LockKind::Row,
            mode: request.mode,
            key: entry.key.to_vec(),
            granted: true,
        });
    }
}

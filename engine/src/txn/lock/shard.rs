//! One shard of the lock table: (index, key) -> queue of requests. Memory and queue rules only;
//! `sys.rs` waits and keeps the transactions' own lists. Called under the shard's mutex.
//!
//! Entries live in a slab with their own hash chains. So a transaction remembers a lock by its
//! place (release hashes nothing), and a lock on a quiet row allocates nothing. In each queue the
//! granted requests stand first, then the waiting ones in their order. A transaction has at most
//! one granted request in a queue, and at most one waiting.
//!
//! A request waits if it conflicts with another's granted request. It also waits if it conflicts
//! with a waiting request before it, so that none starves. The holder of a shared lock that wants
//! the exclusive one waits for the other holders only, ahead of the queue. At the end of the queue
//! it would wait for those that its own shared lock blocks.
//!
//! C1 A transaction with a place in a cluster's order (`TrxShared::place`) passes the waiting
//! requests that come after it in that order. Those without a place come last.
use super::held::LockMode;
use super::wait_flag::WakeList;
use crate::base::bytes::get_u64;
use crate::base::{planted, IndexId, Mutant};
use crate::txn::shared::TrxShared;
use smallvec::SmallVec;
use std::sync::Arc;

const NIL: u32 = u32::MAX;
/// A shard that has become empty gives its memory back if it is larger than this.
const ENTRIES_KEPT_MAX: usize = 1024;
/// Requests of a queue that an assert compares with each other.
const CHECKED_MAX: usize = 16;

pub(super) struct Request {
    pub trx: Arc<TrxShared>,
    pub mode: LockMode,
    /// The transaction has asked for the lock again since, and relies on it: several cursors of a
    /// statement may stand on the row.
    again: bool,
}

impl Request {
    fn new(trx: &Arc<TrxShared>, mode: LockMode) -> Request {
        Request {
            trx: trx.clone(),
            mode,
            again: false,
        }
    }
}

/// One lock name with its queue.
pub(super) struct Entry {
    pub hash: u64,
    next: u32,
    pub index: IndexId,
    /// How many requests, from the first on, are granted.
    granted: u32,
    pub key: SmallVec<[u8; 24]>,
    requests: SmallVec<[Request; 1]>,
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Admitted {
    New,
    Held,
    /// The shared lock has become the exclusive one: `readers_waiting` wait for it too now.
    Upgraded,
    /// The lock was granted ahead of requests that wait for it too now ([`Entry::passed`]).
    GrantedAheadOfWaiters,
    /// Nothing was queued: the caller decides whether to wait.
    MustWait,
}

pub(super) fn conflict(a: LockMode, b: LockMode) -> bool {
    a == LockMode::Exclusive || b == LockMode::Exclusive
}

fn same(a: &Arc<TrxShared>, b: &Arc<TrxShared>) -> bool {
    Arc::ptr_eq(a, b)
}

impl Entry {
    pub fn granted(&self) -> &[Request] {
        &self.requests[..self.granted as usize]
    }
    pub fn waiting(&self) -> &[Request] {
        &self.requests[self.granted as usize..]
    }
    /// The rules of a queue. For asserts: long queues are not looked at.
    fn is_sound(&self) -> bool {
        let is_once = |requests: &[Request]| {
            let again = |(i, r): (usize, &Request)| requests[..i].iter().any(|before| same(&before.trx, &r.trx));
            requests.len() > CHECKED_MAX || !requests.iter().enumerate().any(again)
        };
        self.granted as usize <= self.requests.len() && is_once(self.granted()) && is_once(self.waiting())
    }
    pub fn is_unused(&self) -> bool {
        self.requests.is_empty()
    }
    fn holder(&self, trx: &Arc<TrxShared>) -> Option<usize> {
        self.granted().iter().position(|r| same(&r.trx, trx))
    }
    /// Grants the request at once if the rules allow it.
    pub fn admit(&mut self, trx: &Arc<TrxShared>, mode: LockMode) -> Admitted {
        if self.requests.is_empty() {
            self.add_granted(trx, mode);
            return Admitted::New;
        }
        if let Some(at) = self.holder(trx) {
            let held = &mut self.requests[at];
            if held.mode < mode {
                if self.granted > 1 {
                    return Admitted::MustWait;
                }
                (held.mode, held.again) = (mode, true);
                return Admitted::Upgraded;
            }
            held.again = true;
            return Admitted::Held;
        }
        let in_the_way = |r: &Request| conflict(r.mode, mode);
        let place = self.place_in_queue(trx);
        if self.requests[..place].iter().any(in_the_way) {
            return Admitted::MustWait;
        }
        let passes = self.requests[place..].iter().any(in_the_way);
        self.add_granted(trx, mode);
        match passes {
            true => Admitted::GrantedAheadOfWaiters,
            false => Admitted::New,
        }
    }
    /// Where a new waiting request of `trx` belongs (C1): at the end of the queue, but for waiting
    /// requests of transactions that come after it.
    fn place_in_queue(&self, trx: &TrxShared) -> usize {
        let passes = |r: &Request| trx.goes_ahead_of(&r.trx) && !planted(Mutant::NoPassingInQueue);
        let passed = self.waiting().iter().rev().take_while(|r| passes(r)).count();
        self.requests.len() - passed
    }
    /// Transactions whose waiting requests `trx` has passed and now blocks. `trx` may be granted or
    /// waiting. They did not wait for it before.
    pub fn passed(&self, trx: &Arc<TrxShared>, mode: LockMode) -> WakeList {
        let at = self.waiting_at(trx).map_or(self.granted as usize, |at| at + 1);
        let newly_blocked = self.requests[at..]
            .iter()
            .filter(|r| conflict(r.mode, mode) && trx.goes_ahead_of(&r.trx));
        newly_blocked.map(|r| r.trx.clone()).collect()
    }
    /// `trx` has asked for its lock more than once.
    pub fn was_asked_again(&self, trx: &Arc<TrxShared>) -> bool {
        self.holder(trx).is_some_and(|at| self.requests[at].again)
    }
    /// True if a request of `trx` would be granted now. Takes nothing.
    pub fn would_admit(&self, trx: &Arc<TrxShared>, mode: LockMode) -> bool {
        match self.holder(trx) {
            Some(at) => self.requests[at].mode >= mode || self.granted == 1,
            None => !self.requests.iter().any(|r| conflict(r.mode, mode)),
        }
    }
    fn add_granted(&mut self, trx: &Arc<TrxShared>, mode: LockMode) {
        let request = Request::new(trx, mode);
        if self.granted as usize == self.requests.len() {
            self.requests.push(request);
        } else {
            self.requests.insert(self.granted as usize, request);
        }
        self.granted += 1;
        debug_assert!(self.is_sound(), "a transaction is granted a lock once");
    }
    /// Queues a request that `admit` refused.
    pub fn enqueue(&mut self, trx: &Arc<TrxShared>, mode: LockMode) {
        debug_assert!(
            !self.requests.is_empty(),
            "a request that waits has another one before it, which will wake it"
        );
        let request = Request::new(trx, mode);
        if self.holder(trx).is_some() {
            self.requests.insert(self.granted as usize, request);
        } else {
            let at = self.place_in_queue(trx);
            self.requests.insert(at, request);
        }
        debug_assert!(self.is_sound(), "a transaction waits once");
    }
    /// Records that `trx` holds the row exclusively by having changed it: a fact, whatever else the
    /// queue holds. True if `trx` had no lock here.
    pub fn add_implicit(&mut self, trx: &Arc<TrxShared>) -> bool {
        if let Some(at) = self.holder(trx) {
            self.requests[at].mode = LockMode::Exclusive;
            return false;
        }
        // A waiting request of `trx` itself waits only for the other holders from now on, as an
        // upgrade. In its old place it would wait for requests that wait for it.
        let own = self.waiting().iter().position(|r| same(&r.trx, trx));
        let own = own.map(|at| self.requests.remove(self.granted as usize + at));
        self.add_granted(trx, LockMode::Exclusive);
        if let Some(own) = own {
            self.requests.insert(self.granted as usize, own);
        }
        debug_assert!(self.is_sound(), "the maker holds its row once");
        true
    }
    /// Removes the granted request of `trx`.
    pub fn remove_granted(&mut self, trx: &Arc<TrxShared>) -> bool {
        let Some(at) = self.holder(trx) else { return false };
        self.requests.remove(at);
        self.granted -= 1;
        true
    }
    /// Removes the waiting request of `trx`.
    pub fn remove_waiting(&mut self, trx: &Arc<TrxShared>) -> bool {
        let Some(at) = self.waiting_at(trx) else { return false };
        self.requests.remove(at);
        true
    }
    fn waiting_at(&self, trx: &Arc<TrxShared>) -> Option<usize> {
        let at = self.waiting().iter().position(|r| same(&r.trx, trx))?;
        Some(at + self.granted as usize)
    }
    pub fn waiting_request(&self, trx: &Arc<TrxShared>) -> Option<&Request> {
        self.waiting_at(trx).map(|at| &self.requests[at])
    }
    /// The transactions that wait for the shared lock. The holder of a shared lock did not stop
    /// them, until it has or wants the exclusive one. (A transaction that waits for the exclusive
    /// lock has waited for that holder from the beginning.)
    pub fn readers_waiting(&self) -> WakeList {
        let readers = self.waiting().iter().filter(|r| r.mode == LockMode::Shared);
        readers.map(|r| r.trx.clone()).collect()
    }
    /// The transactions that the waiting request of `trx` waits for: all before it with which it
    /// conflicts.
    pub fn blockers<'a>(&'a self, trx: &'a Arc<TrxShared>) -> impl Iterator<Item = &'a Arc<TrxShared>> + 'a {
        let at = self.waiting_at(trx).unwrap_or(0);
        let mode = self.requests.get(at).map_or(LockMode::Shared, |r| r.mode);
        let ahead = self.requests[..at].iter();
        ahead
            .filter(move |r| conflict(r.mode, mode) && !same(&r.trx, trx))
            .map(|r| &r.trx)
    }
    /// Grants the waiting requests that now can be granted, in order, up to the first that cannot.
    /// With two modes every request after a blocked one is blocked as well.
    pub fn grant(&mut self, wake: &mut WakeList) {
        while let Some(first) = self.waiting().first() {
            let (trx, mode) = (first.trx.clone(), first.mode);
            if self
                .granted()
                .iter()
                .any(|r| conflict(r.mode, mode) && !same(&r.trx, &trx))
            {
                return;
            }
            let at = self.granted as usize;
            match self.holder(&trx) {
                Some(held) => {
                    let request = &mut self.requests[held];
                    (request.mode, request.again) = (request.mode.max(mode), true);
                    self.requests.remove(at);
                }
                None => self.granted += 1,
            }
            wake.push(trx);
            debug_assert!(self.is_sound(), "an upgrade leaves one granted request");
        }
    }
}

#[derive(Default)]
pub(super) struct Shard {
    /// Power of two of chain heads; slab slots, NIL = empty.
    buckets: Vec<u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
}

impl Shard {
    pub fn entry(&mut self, slot: u32) -> &mut Entry {
        &mut self.entries[slot as usize]
    }
    /// None: the shard has been emptied since the slot was noted.
    pub fn get(&self, slot: u32) -> Option<&Entry> {
        self.entries.get(slot as usize)
    }
    /// Every lock name in use.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| !entry.is_unused())
    }
    fn bucket(&self, hash: u64) -> usize {
        // The low bits choose the shard.
        (hash >> 32) as usize & (self.buckets.len() - 1)
    }
    pub fn find(&self, hash: u64, index: IndexId, key: &[u8]) -> Option<u32> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut at = self.buckets[self.bucket(hash)];
        while at != NIL {
            let entry = &self.entries[at as usize];
            if entry.hash == hash && entry.index == index && entry.key.as_slice() == key {
                return Some(at);
            }
            at = entry.next;
        }
        None
    }
    pub fn find_or_add(&mut self, hash: u64, index: IndexId, key: &[u8]) -> u32 {
        if let Some(at) = self.find(hash, index, key) {
            return at;
        }
        if self.entries.len() - self.free.len() >= self.buckets.len() {
            self.grow();
        }
        let bucket = self.bucket(hash);
        debug_assert!(
            self.buckets.len() > self.len(),
            "a shard has a bucket for each of its names"
        );
        let entry = Entry {
            hash,
            next: self.buckets[bucket],
            index,
            granted: 0,
            key: SmallVec::from_slice(key),
            requests: SmallVec::new(),
        };
        let at = match self.free.pop() {
            Some(at) => {
                debug_assert!(self.entries[at as usize].is_unused(), "a free slot");
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.buckets[bucket] = at;
        at
    }
    fn grow(&mut self) {
        let wanted = (self.buckets.len() * 2).max(16);
        debug_assert!(wanted.is_power_of_two(), "a mask chooses the bucket");
        self.buckets.clear();
        self.buckets.resize(wanted, NIL);
        for at in 0..self.entries.len() {
            if self.entries[at].is_unused() {
                continue;
            }
            let bucket = self.bucket(self.entries[at].hash);
            self.entries[at].next = self.buckets[bucket];
            self.buckets[bucket] = at as u32;
        }
    }
    /// Gives the slot back if no request is left.
    pub fn free_if_unused(&mut self, slot: u32) {
        if !self.entries[slot as usize].is_unused() {
            return;
        }
        debug_assert_eq!(self.entries[slot as usize].granted, 0, "no request is left");
        let bucket = self.bucket(self.entries[slot as usize].hash);
        let next = self.entries[slot as usize].next;
        if self.buckets[bucket] == slot {
            self.buckets[bucket] = next;
        } else {
            let mut at = self.buckets[bucket];
            assert_ne!(at, NIL, "an entry is in the chain of its bucket");
            while self.entries[at as usize].next != slot {
                at = self.entries[at as usize].next;
            }
            self.entries[at as usize].next = next;
        }
        self.free.push(slot);
        debug_assert!(self.free.len() <= self.entries.len(), "a slot is freed once");
        if self.free.len() == self.entries.len() && self.entries.len() > ENTRIES_KEPT_MAX {
            *self = Shard::default();
        }
    }
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

/// Mixes the name into 64 bits: eight bytes at a time, a multiplication folded onto itself.
pub(super) fn hash_name(index: IndexId, key: &[u8]) -> u64 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |h: u64, word: u64| {
        let product = ((h ^ word) as u128).wrapping_mul(K as u128);
        (product as u64) ^ ((product >> 64) as u64)
    };
    let mut hash = fold(K ^ key.len() as u64, index as u64 + 1);
    let mut words = key.chunks_exact(8);
    for word in &mut words {
        hash = fold(hash.rotate_left(23), get_u64(word, 0));
    }
    let mut last = [0u8; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    hash = fold(hash.rotate_left(23), u64::from_le_bytes(last));
    fold(hash, hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::txn::ThreadWaiter;
    use std::collections::HashSet;

    fn trx(connection: u64) -> Arc<TrxShared> {
        TrxShared::new(Arc::new(ThreadWaiter::new()), connection)
    }
    const S: LockMode = LockMode::Shared;
    const X: LockMode = LockMode::Exclusive;

    /// The connections that get the lock when that holder gives it up.
    fn given_up(entry: &mut Entry, holder: &Arc<TrxShared>) -> Vec<u64> {
        let mut wake = WakeList::new();
        assert!(entry.remove_granted(holder));
        entry.grant(&mut wake);
        wake.iter().map(|t| t.connection).collect()
    }

    #[test]
    fn queue_rules() {
        let mut shard = Shard::default();
        let (a, b, c) = (trx(1), trx(2), trx(3));
        let slot = shard.find_or_add(5, 1, b"k");
        let q = shard.entry(slot);
        assert_eq!(q.admit(&a, S), Admitted::New);
        assert_eq!(q.admit(&b, S), Admitted::New);
        assert_eq!(q.admit(&c, X), Admitted::MustWait);
        q.enqueue(&c, X);
        assert_eq!(q.blockers(&c).count(), 2);
        // The upgrade of a holder goes ahead of the waiter it blocks.
        assert_eq!(q.admit(&a, X), Admitted::MustWait);
        q.enqueue(&a, X);
        let blocking: Vec<u64> = q.blockers(&a).map(|t| t.connection).collect();
        assert_eq!(blocking, [2]);
        assert_eq!(given_up(q, &b), [1]);
        assert_eq!((q.granted().len(), q.waiting().len()), (1, 1));
        assert_eq!(q.granted()[0].mode, X);
        // A shared request does not overtake the waiting exclusive one.
        assert_eq!(q.admit(&b, S), Admitted::MustWait);
        q.enqueue(&b, S);
        assert_eq!(given_up(q, &a), [3]);
        assert_eq!(given_up(q, &c), [2]);
        assert!(q.remove_granted(&b));
        shard.free_if_unused(slot);
        assert_eq!(shard.len(), 0);
    }

    /// The request waited after others that waited for it; and the lock was made a shared one.
    #[test]
    fn who_holds_a_row_by_having_changed_it_waits_as_an_upgrade() {
        let mut shard = Shard::default();
        let (passer, waiter, owner) = (trx(1), trx(2), trx(3));
        let slot = shard.find_or_add(5, 1, b"k");
        let q = shard.entry(slot);
        assert_eq!(q.admit(&passer, X), Admitted::New);
        q.enqueue(&waiter, X);
        q.enqueue(&owner, S);
        assert!(q.add_implicit(&owner));
        assert!(q.blockers(&owner).map(|t| t.connection).eq([1]));
        assert_eq!(given_up(q, &passer), [3]);
        assert!(q.blockers(&waiter).map(|t| t.connection).eq([3]));
        assert_eq!((q.granted().len(), q.granted()[0].mode), (1, X));
    }

    #[test]
    fn the_slab_finds_what_it_holds() {
        let mut shard = Shard::default();
        let holder = trx(1);
        let mut model: HashSet<u32> = HashSet::new();
        let mut random = 1u64;
        for _ in 0..20_000 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let n = (random >> 33) as u32 % 3_000;
            let key = n.to_be_bytes();
            // Few distinct hashes, so that chains are long.
            let hash = (hash_name(7, &key) % 97) << 32;
            if model.remove(&n) {
                let slot = shard.find(hash, 7, &key).expect("it is held");
                shard.entry(slot).remove_granted(&holder);
                shard.free_if_unused(slot);
            } else {
                assert!(shard.find(hash, 7, &key).is_none());
                let slot = shard.find_or_add(hash, 7, &key);
                assert_eq!(shard.entry(slot).admit(&holder, X), Admitted::New);
                model.insert(n);
            }
            assert_eq!(shard.len(), model.len());
        }
    }

    #[test]
    fn hashes_of_neighbours_differ_in_shard_and_bucket_bits() {
        let hashes: HashSet<u64> = (0..10_000u64).map(|n| hash_name(3, &n.to_be_bytes())).collect();
        assert_eq!(hashes.len(), 10_000);
        let mut shards = [0u32; 64];
        let mut buckets = [0u32; 64];
        for h in &hashes {
            shards[(h & 63) as usize] += 1;
            buckets[((h >> 32) & 63) as usize] += 1;
        }
        assert!(shards.iter().chain(&buckets).all(|n| (90..240).contains(n)));
    }
}

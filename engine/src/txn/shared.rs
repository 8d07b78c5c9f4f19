//! The half of a transaction that other threads may touch.
//!
//! The owner's half is `Trx` (`trx.rs`). Fields are atomics, or mutexes of rank [`Rank::Leaf`], so
//! that reports, the deadlock search and KILL read them without the owner. One object serves one
//! transaction after another: [`TrxShared::clear`] ends one.
use super::isolation::Isolation;
use super::lock::held::{LockList, WaitPlace};
use super::lock::wait::Waiter;
use super::xid::Xid;
use crate::base::sync::{Rank, RankedMutex};
use crate::base::TrxId;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicU8, Ordering};
use std::sync::Arc;

/// What other threads see of a transaction. `id` is 0 until the first write.
pub struct TrxShared {
    pub id: AtomicU64,
    /// Decision of this transaction's lock wait (`lock::wait_flag`); 0: none yet.
    pub wait_flag: AtomicU32,
    pub waiter: Arc<dyn Waiter>,
    /// Connection for which the object was made: see [`TrxShared::connection`].
    pub(crate) connection: u64,
    /// The connection has gone, or does something else: any connection may decide the transaction.
    pub(crate) detached: AtomicBool,
    /// XA: the user's name of the transaction. Set and taken away by the owner
    /// ([`super::Trx::name`]).
    pub(crate) xid: RankedMutex<Option<Xid>>,
    /// Clock of the start, microseconds; 0 = not started.
    pub started_us: AtomicU64,
    /// The transaction is prepared. For reports, as the other fields up to `statement`.
    pub prepared: AtomicBool,
    pub rolling_back: AtomicBool,
    /// Number of the [`Isolation`].
    pub isolation: AtomicU8,
    /// Clock of the snapshot that the transaction holds, to the second; 0 = none.
    pub snapshot_us: AtomicU64,
    /// Clock of the beginning of the latest lock wait.
    pub wait_started_us: AtomicU64,
    /// Bytes of the undo records that are not undone.
    pub undo_bytes: AtomicU64,
    /// Changes of secondary indexes that went to the change buffer.
    pub buffered_changes: AtomicU64,
    /// The statement at work, while the transaction waits and other transactions may wait for it.
    pub statement: RankedMutex<String>,
    /// Undo records that are not undone, and rows loaded: the cost of a rollback. The choice of the
    /// deadlock victim uses it.
    pub undo_records: AtomicU64,
    /// Row locks held.
    pub lock_count: AtomicU64,
    /// Key ranges held, joined as they are. Written by the owner's thread.
    pub range_count: AtomicU64,
    /// The queue in which this transaction waits ([`WaitPlace`]), 0 = none. Written by the owner's
    /// thread.
    pub(crate) waiting_on: AtomicU64,
    /// Grows with each wait, so that the deadlock search can tell two waits apart.
    pub(crate) wait_no: AtomicU64,
    /// The transaction's place in an order that a cluster has decided (C1); 0 = none. Set by the
    /// owner's thread.
    pub(in crate::txn) place: AtomicU64,
    /// The transaction has changed what a rollback leaves changed (tables of another engine without
    /// transactions). Set by the owner's thread.
    pub(in crate::txn) changes_stay: AtomicBool,
    /// Locks to be given back at the end. Other transactions add to the list when they make an
    /// implicit lock explicit.
    pub(in crate::txn) locks: RankedMutex<LockList>,
}

impl TrxShared {
    pub(crate) fn new(waiter: Arc<dyn Waiter>, connection: u64) -> Arc<TrxShared> {
        Arc::new(TrxShared {
            id: AtomicU64::new(0),
            wait_flag: AtomicU32::new(0),
            waiter,
            connection,
            detached: AtomicBool::new(false),
            xid: RankedMutex::new(Rank::Leaf, None),
            started_us: AtomicU64::new(0),
            prepared: AtomicBool::new(false),
            rolling_back: AtomicBool::new(false),
            isolation: AtomicU8::new(Isolation::RepeatableRead as u8),
            snapshot_us: AtomicU64::new(0),
            wait_started_us: AtomicU64::new(0),
            undo_bytes: AtomicU64::new(0),
            buffered_changes: AtomicU64::new(0),
            statement: RankedMutex::new(Rank::Leaf, String::new()),
            undo_records: AtomicU64::new(0),
            lock_count: AtomicU64::new(0),
            range_count: AtomicU64::new(0),
            waiting_on: AtomicU64::new(0),
            wait_no: AtomicU64::new(0),
            place: AtomicU64::new(0),
            changes_stay: AtomicBool::new(false),
            locks: RankedMutex::new(Rank::Leaf, LockList::default()),
        })
    }
    pub fn id(&self) -> TrxId {
        self.id.load(Ordering::Acquire)
    }
    /// The number of the transaction's connection; 0: it has none (any more).
    pub fn connection(&self) -> u64 {
        let has_one = self.waiter.context() != 0 && !self.detached.load(Ordering::Relaxed);
        if has_one {
            self.connection
        } else {
            0
        }
    }
    /// The connection leaves the transaction in doubt: it is prepared, and any connection may
    /// decide it.
    pub fn detach(&self) {
        self.detached.store(true, Ordering::Relaxed);
    }
    /// The transaction has begun and not ended: reports show it. One found at open has no clock,
    /// but an id.
    pub(crate) fn is_active(&self) -> bool {
        self.started_us.load(Ordering::Relaxed) != 0 || self.id() != 0
    }
    /// Other transactions may wait for what this one holds, or has changed: its own wait can be
    /// part of a circle.
    pub fn may_be_waited_for(&self) -> bool {
        self.id() != 0 || self.holds_locks()
    }
    /// No transaction can be waiting for one that holds no lock: such a wait closes no circle. (A
    /// transaction that meets an implicit lock makes it explicit before it waits, and searches
    /// itself.)
    pub(crate) fn holds_locks(&self) -> bool {
        !self.locks.lock().is_empty()
    }
    /// In the cluster's order this transaction comes first (C1).
    pub(in crate::txn) fn goes_ahead_of(&self, other: &TrxShared) -> bool {
        let (mine, theirs) = (self.place.load(Ordering::Relaxed), other.place.load(Ordering::Relaxed));
        mine != 0 && (theirs == 0 || mine < theirs)
    }
    /// The queue in which the transaction waits.
    pub(in crate::txn) fn wait_place(&self) -> Option<WaitPlace> {
        WaitPlace::unpack(self.waiting_on.load(Ordering::Acquire))
    }
    /// The transaction has ended and has no locks: nothing of it is left. Every field is named
    /// here, so that a new one cannot be forgotten.
    pub(in crate::txn) fn clear(&self) {
        let TrxShared {
            id,
            started_us,
            prepared,
            rolling_back,
            undo_bytes,
            undo_records,
            buffered_changes,
            // The owner takes the name away, if it gave one.
            xid: _,
            // Of the object, and of the session.
            waiter: _,
            connection: _,
            detached: _,
            isolation: _,
            place,
            changes_stay,
            // Of locks and views, which have been given back.
            lock_count,
            range_count: _,
            locks: _,
            snapshot_us: _,
            // Of waits, which have ended.
            wait_flag: _,
            wait_started_us: _,
            waiting_on,
            wait_no: _,
            statement: _,
        } = self;
        debug_assert_eq!(lock_count.load(Ordering::Relaxed), 0, "locks are given back before");
        debug_assert_eq!(
            waiting_on.load(Ordering::Relaxed),
            0,
            "a transaction that ends does not wait"
        );
        id.store(0, Ordering::Release);
        undo_records.store(0, Ordering::Relaxed);
        undo_bytes.store(0, Ordering::Relaxed);
        buffered_changes.store(0, Ordering::Relaxed);
        started_us.store(0, Ordering::Relaxed);
        place.store(0, Ordering::Relaxed);
        changes_stay.store(false, Ordering::Relaxed);
        prepared.store(false, Ordering::Relaxed);
        rolling_back.store(false, Ordering::Relaxed);
    }
}

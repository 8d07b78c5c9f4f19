//! The check of a unique index, and the put that follows. Both are one step under a guard mutex,
//! chosen by hash of index and value. The mutex is never held while a row lock is waited for.
//!
//! An entry with the value prevents the put if it is unmarked, or if the transaction that marked it
//! is active and may roll back. Locking the entry's row decides which. The result holds as long as
//! the row's lock is held, so all these locks are held until the put. A lock is waited for only
//! while no other is held. The others are released first, and their results are forgotten.
//!
//! Called by `secondary`, with no latch held.
use crate::base::sync::{holds, Rank, RankedMutex};
use crate::base::{sync_point, Error, Result, SyncPoint, TrxId};
use crate::change::{self, Op};
use crate::index::RowHeader;
use crate::pool::Pool;
use crate::table::catalog::index_quarantine::check_not_quarantined;
use crate::table::catalog::layout::{Layout, Secondary};
use crate::table::row::entry::{count, decode_entry, NewEntry};
use crate::table::row::row_lock::{Locked, RowLocks};
use crate::txn::{Granted, LockMode, LockPolicy, Trx, TrxSys};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// An entry of another row with the same unique value.
struct Rival {
    pk: Vec<u8>,
    stamp: TrxId,
    marked: bool,
    own: bool,
}

/// An entry as it was met: its clustered key and stamp.
type Met = (Vec<u8>, TrxId);

/// The results for the rivals' rows so far.
#[derive(Default)]
struct Learned {
    /// Rows that are locked.
    locked: Vec<(Vec<u8>, Granted)>,
    /// Marked entries whose rows are locked and have a newest version of another maker than the
    /// mark. The mark's maker has rolled back, and cannot mark again.
    harmless: Vec<Met>,
    /// Entries whose rows were gone. No lock prevents their return: they are checked again under
    /// the guard, which is also held for the put.
    gone: Vec<Met>,
}

impl Learned {
    fn has_locked(&self, pk: &[u8]) -> bool {
        self.locked.iter().any(|(p, _)| p == pk)
    }
}

fn has(met: &[Met], pk: &[u8], stamp: TrxId) -> bool {
    met.iter().any(|(p, s)| p == pk && *s == stamp)
}

/// Check-then-insert of unique values is serialised by as many mutexes (by hash of index and
/// value).
const UNIQUE_GUARDS: usize = 64;

/// An entry to be put into a unique index.
pub(in crate::table) struct UniquePut<'a> {
    pub layout: &'a Layout,
    pub secondary: &'a Secondary,
    pub new: &'a NewEntry<'a>,
    /// Of the entry.
    pub value: &'a [u8],
    /// How the row in the way is locked before `Duplicate`.
    pub mode: LockMode,
}

impl UniquePut<'_> {
    /// The value that must be unique.
    fn user_key(&self) -> &[u8] {
        &self.new.key[..self.new.user_key_len]
    }
}

/// Keeps unique values unique.
pub(in crate::table) struct UniqueIndexes {
    pool: Arc<Pool>,
    trx_sys: Arc<TrxSys>,
    locks: RowLocks,
    guards: Vec<RankedMutex<()>>,
    /// Costly checks.
    verify: Arc<AtomicBool>,
}

impl UniqueIndexes {
    pub fn new(pool: Arc<Pool>, trx_sys: Arc<TrxSys>, locks: RowLocks, verify: Arc<AtomicBool>) -> UniqueIndexes {
        let guard = |_| RankedMutex::new(Rank::UniqueGuard, ());
        UniqueIndexes {
            pool,
            trx_sys,
            locks,
            guards: (0..UNIQUE_GUARDS).map(guard).collect(),
            verify,
        }
    }

    /// Puts the entry, or fails with `Duplicate`: then the existing row is locked.
    pub fn put(&self, trx: &mut Trx, put: &UniquePut<'_>) -> Result<()> {
        debug_assert!(
            put.secondary.index.unique && put.new.unique_check,
            "only values that must be unique are checked"
        );
        debug_assert!(!put.secondary.quarantined, "what a quarantined index has is not known");
        let guard = &self.guards[guard_of(put.secondary.index.id, put.user_key(), self.guards.len())];
        let mut learned = Learned::default();
        let mut first = true;
        let done = loop {
            let rival = {
                let _guard = guard.lock();
                if std::mem::take(&mut first) && self.put_unseen(trx, put)? {
                    return Ok(());
                }
                self.put_if_free(trx, put, &learned)
            };
            let rival = match rival {
                Ok(Some(rival)) => rival,
                done => break done.map(|_| ()),
            };
            if !rival.marked && (rival.own || learned.has_locked(&rival.pk)) {
                // Its lock is kept: the next try finds the row as it was reported.
                learned.locked.retain(|(pk, _)| *pk != rival.pk);
                let index = put.new.index + 1;
                break Err(Error::Duplicate { index, pk: rival.pk });
            }
            if let Err(e) = self.learn(trx, put, rival, &mut learned) {
                break Err(e);
            }
        };
        self.forget(trx, put.layout, &mut learned);
        done
    }

    /// Puts the entry, or returns the rival in its way. The caller holds the value's guard.
    fn put_if_free(&self, trx: &Trx, put: &UniquePut<'_>, learned: &Learned) -> Result<Option<Rival>> {
        debug_assert!(holds(Rank::UniqueGuard), "the value is checked and put in one step");
        let rival = self.find_rival(trx, put, learned)?;
        // Checked last: a rollback that skips a quarantined index has left marks there.
        check_not_quarantined(&put.secondary.index)?;
        if rival.is_none() {
            let op = Op::Put {
                key: put.new.key,
                value: put.value,
            };
            count(trx, change::submit_checked(&self.pool, &put.secondary.index, op)?);
        }
        Ok(rival)
    }

    fn learn(&self, trx: &mut Trx, put: &UniquePut<'_>, rival: Rival, learned: &mut Learned) -> Result<()> {
        let (layout, mode) = (put.layout, put.mode);
        debug_assert!(!holds(Rank::UniqueGuard), "no row lock is waited for with a guard held");
        let policy = match learned.locked.is_empty() {
            true => LockPolicy::Wait,
            false => LockPolicy::NoWait,
        };
        let locked = match self.locks.lock_row(trx, layout, &rival.pk, mode, policy, &mut |_| ()) {
            Err(Error::Locked) => {
                self.forget(trx, layout, learned);
                self.locks
                    .lock_row(trx, layout, &rival.pk, mode, LockPolicy::Wait, &mut |_| ())?
            }
            locked => locked?,
        };
        let Rival { pk, stamp, marked, .. } = rival;
        match locked {
            Locked::Row(header, granted) => {
                if marked && header.trx != stamp {
                    learned.harmless.push((pk.clone(), stamp));
                }
                learned.locked.push((pk, granted));
            }
            Locked::Gone(_) => learned.gone.push((pk, stamp)),
        }
        sync_point(SyncPoint::RivalLocked);
        Ok(())
    }

    fn forget(&self, trx: &mut Trx, layout: &Layout, learned: &mut Learned) {
        for (pk, granted) in learned.locked.drain(..) {
            self.locks.unlock_if_new(trx, layout, &pk, granted);
        }
        *learned = Learned::default();
    }

    /// True: the index is known to lack the value, and the entry is put without reading its leaf.
    /// The caller holds the value's guard.
    fn put_unseen(&self, trx: &Trx, put: &UniquePut<'_>) -> Result<bool> {
        debug_assert!(
            holds(Rank::UniqueGuard),
            "the filter is asked and the value put in one step"
        );
        let (index, new) = (&put.secondary.index, put.new);
        if !change::lacks_value(&self.pool, index, new.key, new.user_key_len)? {
            return Ok(false);
        }
        // Only half the keys are checked: the check reads the leaf, and later puts there are not
        // unseen any more.
        if self.verify.load(Ordering::Relaxed) && crc32c::crc32c(new.key) & 1 == 0 {
            let user_key = put.user_key();
            change::visit_prefix(&self.pool, index, user_key, &mut |key, value| {
                let its_value_len = key.len() - decode_entry(put.layout, value)?.pk_len;
                assert_ne!(
                    its_value_len,
                    user_key.len(),
                    "U1: a value that is there was said to be lacking"
                );
                Ok(true)
            })?;
        }
        let is_put = change::put_unseen(&self.pool, index, new.key, put.value)?;
        count(trx, is_put);
        Ok(is_put)
    }

    /// The first entry with the same unique value that is in the way. It is unmarked, or stamped by
    /// another active transaction, whose end may bring it back.
    fn find_rival(&self, trx: &Trx, put: &UniquePut<'_>, learned: &Learned) -> Result<Option<Rival>> {
        let (layout, new, user_key) = (put.layout, put.new, put.user_key());
        let mut ended: Vec<TrxId> = Vec::new();
        let mut still_gone: Vec<Met> = Vec::new();
        loop {
            let oldest_active = self.trx_sys.oldest_active();
            let (mut rival, mut doubtful) = (None, Vec::new());
            change::visit_value(&self.pool, &put.secondary.index, user_key, &mut |key, value| {
                let found = decode_entry(layout, value)?;
                if key == new.key || key.len() != user_key.len() + found.pk_len {
                    return Ok(true);
                }
                sync_point(SyncPoint::RivalMet);
                let own = found.stamp == trx.id();
                let may_come_back = !own && self.trx_sys.is_active(found.stamp);
                if found.marked && !may_come_back {
                    // Its maker has ended by now. But buffered changes were collected before, and a
                    // rollback in between removed the mark.
                    if !own && found.stamp >= oldest_active && !ended.contains(&found.stamp) {
                        doubtful.push(found.stamp);
                    }
                    return Ok(true);
                }
                let pk = &key[user_key.len()..];
                let harmless = found.marked && has(&learned.harmless, pk, found.stamp);
                if harmless || has(&still_gone, pk, found.stamp) {
                    return Ok(true);
                }
                rival = Some(Rival {
                    pk: pk.to_vec(),
                    stamp: found.stamp,
                    marked: found.marked,
                    own,
                });
                Ok(false)
            })?;
            match rival {
                Some(Rival { pk, stamp, .. })
                    if has(&learned.gone, &pk, stamp) && self.is_gone(trx, layout, &pk)? =>
                {
                    still_gone.push((pk, stamp));
                }
                None if !doubtful.is_empty() => ended.append(&mut doubtful),
                rival => return Ok(rival),
            }
        }
    }

    /// There is no such row, or its deletion cannot be rolled back.
    fn is_gone(&self, trx: &Trx, layout: &Layout, pk: &[u8]) -> Result<bool> {
        let leaf = layout.clustered.tree.get(&self.pool, pk)?;
        Ok(leaf.is_none_or(|leaf| {
            let header = RowHeader::read(leaf.value());
            header.marked() && !self.locks.made_by_other_active(trx, &header)
        }))
    }
}

fn guard_of(index: u32, user_key: &[u8], guards: usize) -> usize {
    crc32c::crc32c_append(index, user_key) as usize % guards
}

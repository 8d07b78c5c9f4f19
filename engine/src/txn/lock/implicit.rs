//! Implicit locks made explicit.
//!
//! A row whose newest version an active transaction has made is locked by it without an entry in
//! the lock table. A transaction that meets the row writes that entry in the owner's name, under
//! the latch of the leaf that shows the version. Then it waits for the entry (`sys.rs`).
//!
//! The entry goes before the requests that wait in the queue already. From now on these wait for
//! the owner too, but do not know it. Their waiters have not been asked: a replica would stand
//! still if the owner waits in the server for one of them to commit. And the search for deadlocks
//! has not seen the new edges. [`LockSys::search_after_explicit`] makes up for both once the latch
//! is gone.
use super::held::LockRef;
use super::shard::hash_name;
use super::sys::LockSys;
use super::table::SHARDS;
use super::wait_flag::{ask_to_recheck_blockers, WakeList};
use crate::base::{IndexId, TrxId};
use crate::txn::lock::held::LockMode;
use crate::txn::shared::TrxShared;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

/// Other transactions waited in the queue of the lock that was made explicit.
#[must_use]
pub struct MadeExplicit {
    owner: Arc<TrxShared>,
    waiting: WakeList,
}

impl LockSys {
    /// Makes the implicit lock of `owner` explicit (X), if the owner is still active. Called under
    /// the latch of the leaf with the owner's version. Some: `search_after_explicit` must follow,
    /// once the latch is gone.
    pub fn make_explicit(
        &self,
        owner: &Arc<TrxShared>,
        owner_id: TrxId,
        index: IndexId,
        key: &[u8],
    ) -> Option<MadeExplicit> {
        let hash = hash_name(index, key);
        let shard_no = hash as usize % SHARDS;
        let mut shard = self.table.shards[shard_no].lock();
        let slot = shard.find_or_add(hash, index, key);
        let at = LockRef {
            shard: shard_no as u32,
            slot,
        };
        {
            // The list's mutex decides between this and the owner's `release_all`.
            let mut list = owner.locks.lock();
            if owner_id == 0 || list.implicit_of != owner_id {
                drop(list);
                shard.free_if_unused(slot);
                return None;
            }
            if shard.entry(slot).add_implicit(owner) {
                list.rows.push(at);
                owner.lock_count.fetch_add(1, Relaxed);
            }
        }
        debug_assert!(
            (shard.entry(slot).granted().iter())
                .any(|request| Arc::ptr_eq(&request.trx, owner) && request.mode == LockMode::Exclusive),
            "the maker of a row holds it exclusively"
        );
        let waiting: WakeList = (shard.entry(slot).waiting().iter())
            .map(|request| request.trx.clone())
            .collect();
        (!waiting.is_empty()).then(|| MadeExplicit {
            owner: owner.clone(),
            waiting,
        })
    }

    /// The transactions in the queue of a lock made explicit tell their waiters that they wait for
    /// its owner too. Each does so by its own thread, since only that thread knows that the wait
    /// goes on. If the owner waits itself, that may close a circle which no later wait would search
    /// for. Called with no latch held: wakes the sleepers, or a victim.
    pub fn search_after_explicit(&self, made: MadeExplicit) {
        ask_to_recheck_blockers(&made.waiting);
        if made.owner.wait_place().is_some() {
            self.waits.find_deadlock(&self.table, &made.owner);
        }
    }
}

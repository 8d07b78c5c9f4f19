//! Locking one row, by (clustered index, clustered key). An active transaction has an implicit lock
//! on each row that it has made, without an entry in the lock table. Another transaction that finds
//! such a row makes the entry for the maker, and waits for it.
//!
//! No latch is held on entry; none is held while waiting (I5). Called by row changes and scans.
use crate::base::sync::holds_no_latch;
use crate::base::{Error, FileId, IndexId, Result};
use crate::index::RowHeader;
use crate::pool::Pool;
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::txn::{Granted, LockMode, LockPolicy, MadeExplicit, Trx, TrxSys};
use std::sync::Arc;

/// What was found with the lock held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::table) enum Locked {
    /// The row exists and is locked.
    Row(RowHeader, Granted),
    /// No such entry, or (with its header) one that is delete-marked for good. No lock is kept.
    Gone(Option<RowHeader>),
}

/// Index number in the names of AUTO_INCREMENT locks. No index has it: the numbers count up from 1.
pub const AUTOINC_LOCKS: IndexId = IndexId::MAX;

/// Locks rows.
#[derive(Clone)]
pub struct RowLocks {
    pool: Arc<Pool>,
    trx_sys: Arc<TrxSys>,
}

impl RowLocks {
    pub fn new(pool: Arc<Pool>, trx_sys: Arc<TrxSys>) -> RowLocks {
        RowLocks { pool, trx_sys }
    }

    /// The lock that keeps other transactions from taking AUTO_INCREMENT values until a statement
    /// ends. It is a row lock with a name that no row has. So its waiters take part in the search
    /// for deadlocks.
    pub fn lock_autoinc(&self, trx: &mut Trx, table: &Table) -> Result<()> {
        debug_assert!(
            holds_no_latch(),
            "I5: AUTO_INCREMENT values are waited for with no latch held"
        );
        let name = table.layout().id.to_be_bytes();
        let locks = self.trx_sys.locks();
        locks.lock(trx, AUTOINC_LOCKS, &name, LockMode::Exclusive, LockPolicy::Wait)?;
        Ok(())
    }
    pub fn unlock_autoinc(&self, trx: &mut Trx, table: &Table) {
        let name = table.layout().id.to_be_bytes();
        self.trx_sys.locks().unlock(trx, AUTOINC_LOCKS, &name);
    }

    /// Locks the row of `pk` and reads its newest version, whose value `see` may copy out of the
    /// leaf.
    pub(in crate::table) fn lock_row(
        &self,
        trx: &mut Trx,
        layout: &Layout,
        pk: &[u8],
        mode: LockMode,
        policy: LockPolicy,
        see: &mut dyn FnMut(&[u8]),
    ) -> Result<Locked> {
        let index = &layout.clustered;
        debug_assert!(
            holds_no_latch(),
            "I5: the lock of a row is asked for with no latch held"
        );
        loop {
            let granted = self.lock_name_of(trx, layout, pk, mode, policy)?;
            let seen = index.tree.get(&self.pool, pk)?;
            let Some(leaf) = seen else {
                self.unlock_if_new(trx, layout, pk, granted);
                return Ok(Locked::Gone(None));
            };
            let header = RowHeader::read(leaf.value());
            if self.made_by_other_active(trx, &header) {
                // The row was made after our lock was granted, or its maker holds it by its id
                // alone: our lock is void.
                let made = self.make_explicit(layout, pk, &header);
                drop(leaf);
                self.trx_sys.locks().unlock(trx, index.id, pk);
                if let Some(made) = made {
                    self.trx_sys.locks().search_after_explicit(made);
                }
                continue;
            }
            self.trx_sys.visibility.note_newest(trx, header.trx);
            if !header.marked() {
                see(leaf.value());
            }
            let leaf_no = leaf.page_no();
            drop(leaf);
            if header.marked() {
                self.unlock_if_new(trx, layout, pk, granted);
                return Ok(Locked::Gone(Some(header)));
            }
            debug_assert!(
                !self.made_by_other_active(trx, &header),
                "under the lock of a row nobody else makes a version of it"
            );
            if mode == LockMode::Exclusive {
                trx.cache_leaf_of_locked_row(index.id, pk, leaf_no);
            }
            return Ok(Locked::Row(header, granted));
        }
    }

    /// As `lock_row` with a wait, of a row in a table that the statement need not hold. The table's
    /// gate is held while pages are touched, and never during the wait. None: the table has ended,
    /// or its number is not `id` any more.
    pub(in crate::table) fn lock_row_of(
        &self,
        trx: &mut Trx,
        table: &Table,
        id: FileId,
        (pk, mode): (&[u8], LockMode),
        see: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Locked>> {
        let mut waited: Option<Granted> = None;
        loop {
            let index = {
                let _gate = table.gate.read();
                let layout = table.layout();
                if table.is_dropped() || layout.id != id {
                    return Ok(None);
                }
                match self.lock_row(trx, layout, pk, mode, LockPolicy::NoWait, see) {
                    Err(Error::Locked) => layout.clustered.id,
                    Ok(Locked::Row(header, granted)) => {
                        return Ok(Some(Locked::Row(header, waited.unwrap_or(granted))));
                    }
                    Ok(gone) => {
                        waited
                            .into_iter()
                            .for_each(|granted| self.unlock_if_new(trx, layout, pk, granted));
                        return Ok(Some(gone));
                    }
                    Err(e) => return Err(e),
                }
            };
            let locks = self.trx_sys.locks();
            waited = Some(locks.lock(trx, index, pk, mode, LockPolicy::Wait)?);
        }
    }

    /// Locks the name of a row. A transaction that has changed the row is not refused for one that
    /// came to the name and has not read the row yet.
    pub(in crate::table) fn lock_name_of(
        &self,
        trx: &mut Trx,
        layout: &Layout,
        pk: &[u8],
        mode: LockMode,
        policy: LockPolicy,
    ) -> Result<Granted> {
        let (index, locks) = (&layout.clustered, self.trx_sys.locks());
        debug_assert!(
            holds_no_latch(),
            "I5: the lock of a row is asked for with no latch held"
        );
        let done = locks.lock(trx, index.id, pk, mode, policy);
        let refused_at_once = match &done {
            Err(Error::Locked) => true,
            Err(Error::LockWaitTimeout) => trx.lock_wait_timeout_ms == 0,
            _ => false,
        };
        if trx.id() == 0 || !refused_at_once {
            return done;
        }
        let Some(leaf) = index.tree.get(&self.pool, pk)? else {
            return done;
        };
        let header = RowHeader::read(leaf.value());
        if header.trx != trx.id() {
            return done;
        }
        let made = self.make_explicit(layout, pk, &header);
        drop(leaf);
        if let Some(made) = made {
            locks.search_after_explicit(made);
        }
        locks.lock(trx, index.id, pk, mode, policy)
    }

    /// Makes the implicit lock of the row's maker explicit, so that other transactions can wait for
    /// it. Under the leaf's latch, so that the maker cannot have rolled the row back. Some:
    /// `search_after_explicit` is due.
    fn make_explicit(&self, layout: &Layout, pk: &[u8], header: &RowHeader) -> Option<MadeExplicit> {
        debug_assert!(
            !holds_no_latch(),
            "under its leaf's latch the maker cannot roll the row back"
        );
        let owner = self.trx_sys.active(header.trx)?;
        let locks = self.trx_sys.locks();
        locks.make_explicit(&owner, header.trx, layout.clustered.id, pk)
    }

    pub(in crate::table) fn unlock_if_new(&self, trx: &mut Trx, layout: &Layout, pk: &[u8], granted: Granted) {
        if granted == Granted::New {
            self.trx_sys.locks().unlock(trx, layout.clustered.id, pk);
        }
    }

    /// Made by another transaction that has not ended.
    pub(in crate::table) fn made_by_other_active(&self, trx: &Trx, header: &RowHeader) -> bool {
        header.trx != trx.id() && self.trx_sys.is_active(header.trx)
    }
}

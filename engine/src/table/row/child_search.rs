//! [`ChildSearch`]: finds the child rows of a parent row that is deleted, or gets another key. The
//! parent row is changed already, under its EXCLUSIVE lock (K2): no child can be added meanwhile.
//!
//! `foreign_entries` says which entries are found. An active transaction may still roll back what
//! it did to an entry. So the row of each entry is locked, which waits for that transaction, and
//! the entry is read again. A caller that asks only whether there is a child needs no
//! lock for a certain entry. A row of the past is no child, and is not locked.
//!
//! Called by row changes, with no latch held.
use crate::base::{Error, Result};
use crate::index::{OVERFLOW_REF, ROW_HEADER, ROW_OVERFLOW};
use crate::pool::Pool;
use crate::table::catalog::dictionary::Catalog;
use crate::table::catalog::foreign_key::ForeignEnd;
use crate::table::catalog::table::Table;
use crate::table::row::foreign_entries::{Candidate, ForeignEntries, Learned};
use crate::table::row::overflow_row::LongRows;
use crate::table::row::past::value_is_past;
use crate::table::row::row_lock::{Locked, RowLocks};
use crate::table::row::snapshot::check_conflict;
use crate::txn::{Isolation, LockMode, Trx, TrxSys};
use std::sync::Arc;

/// Child rows that are found at a time.
const BATCH: usize = 100;

/// Finds child rows.
pub(in crate::table) struct ChildSearch {
    pool: Arc<Pool>,
    trx_sys: Arc<TrxSys>,
    catalog: Arc<Catalog>,
    locks: RowLocks,
    long_rows: LongRows,
}

/// A search for the children of one key, in the order of their entries.
pub(in crate::table) struct Children {
    pub table: Arc<Table>,
    end: ForeignEnd,
    /// What their entries begin with.
    prefix: Vec<u8>,
    /// Where the next read begins.
    from: Vec<u8>,
    /// In reverse.
    batch: Vec<Candidate>,
    learned: Learned,
}

impl Children {
    /// An entry of the row that is changed does not count.
    pub fn ignore(&mut self, key: &[u8]) {
        self.learned = Learned::ignoring(Some(key));
    }
}

/// The result of a step.
pub(in crate::table) enum Next<T> {
    Child(T),
    None,
    /// The table or the index was dropped: the foreign key must be bound anew.
    Unbound,
}

/// A child row, locked EXCLUSIVE.
pub(in crate::table) struct Child {
    pub pk: Vec<u8>,
    pub row: Vec<u8>,
}

enum LockedChild {
    /// As stored in the leaf.
    Value(Vec<u8>),
    NoChild,
    Unbound,
}

impl ChildSearch {
    pub fn new(
        pool: Arc<Pool>,
        trx_sys: Arc<TrxSys>,
        catalog: Arc<Catalog>,
        locks: RowLocks,
        long_rows: LongRows,
    ) -> ChildSearch {
        ChildSearch {
            pool,
            trx_sys,
            catalog,
            locks,
            long_rows,
        }
    }

    /// None: the table was dropped.
    pub fn table_of(&self, end: &ForeignEnd) -> Option<Arc<Table>> {
        self.catalog.by_id(end.table)
    }
    /// None: the table was dropped. `prefix`: the parts of the foreign key in the child's key.
    pub fn begin(&self, end: &ForeignEnd, prefix: Vec<u8>) -> Option<Children> {
        Some(Children {
            table: self.table_of(end)?,
            end: end.clone(),
            from: prefix.clone(),
            prefix,
            batch: Vec::new(),
            learned: Learned::default(),
        })
    }

    /// Whether there is a child. As in InnoDB, a transaction that only locks it, or changes other
    /// columns of it, is not waited for. At SERIALIZABLE the child is locked, so that the answer
    /// stays true.
    pub fn any(&self, trx: &mut Trx, children: &mut Children) -> Result<Next<()>> {
        debug_assert!(children.batch.is_empty(), "a search for any child keeps no batch");
        loop {
            let from = std::mem::take(&mut children.from);
            let found = self.look(trx, children, &from, 1);
            children.from = from;
            let Some(mut found) = found? else {
                return Ok(Next::Unbound);
            };
            let Some(candidate) = found.pop() else {
                return Ok(Next::None);
            };
            if candidate.is_certain && trx.isolation != Isolation::Serializable {
                return Ok(Next::Child(()));
            }
            match self.lock_child(trx, children, candidate, LockMode::Shared)? {
                LockedChild::Value(_) => return Ok(Next::Child(())),
                LockedChild::NoChild => {}
                LockedChild::Unbound => return Ok(Next::Unbound),
            }
        }
    }

    /// The next child. A row that has changed since the snapshot is a conflict (K4).
    pub fn next(&self, trx: &mut Trx, children: &mut Children) -> Result<Next<Child>> {
        loop {
            if trx.shared.waiter.killed() {
                return Err(Error::Interrupted);
            }
            let Some(candidate) = children.batch.pop() else {
                let from = std::mem::take(&mut children.from);
                let Some(mut found) = self.look(trx, children, &from, BATCH)? else {
                    return Ok(Next::Unbound);
                };
                let Some(last) = found.last() else {
                    return Ok(Next::None);
                };
                children.from = [&last.key[..], &[0]].concat();
                debug_assert!(
                    children.from > from,
                    "a search goes on behind the children that it found"
                );
                found.reverse();
                children.batch = found;
                continue;
            };
            let pk = candidate.pk.clone();
            match self.lock_child(trx, children, candidate, LockMode::Exclusive)? {
                LockedChild::Value(value) => {
                    let row = self.row_of(children, &value)?;
                    return Ok(row.map_or(Next::Unbound, |row| Next::Child(Child { pk, row })));
                }
                LockedChild::NoChild => {}
                LockedChild::Unbound => return Ok(Next::Unbound),
            }
        }
    }

    /// Starts again from the first entry.
    pub fn begin_again(&self, children: &mut Children) {
        children.from.clone_from(&children.prefix);
        children.batch.clear();
    }

    fn look(&self, trx: &Trx, children: &mut Children, from: &[u8], most: usize) -> Result<Option<Vec<Candidate>>> {
        let entries = ForeignEntries {
            pool: &self.pool,
            trx_sys: &self.trx_sys,
            table: &children.table,
            end: &children.end,
        };
        entries.candidates(trx, (&children.prefix, from), most, &mut children.learned)
    }

    fn lock_child(
        &self,
        trx: &mut Trx,
        children: &mut Children,
        candidate: Candidate,
        mode: LockMode,
    ) -> Result<LockedChild> {
        let (table, end) = (&children.table, &children.end);
        let (mut value, asked) = (Vec::new(), (&candidate.pk[..], mode));
        let locked = self.locks.lock_row_of(trx, table, end.table, asked, &mut |seen| {
            value.clear();
            value.extend_from_slice(seen);
        })?;
        let (header, granted) = match locked {
            None => return Ok(LockedChild::Unbound),
            Some(Locked::Gone(_)) => {
                children.learned.note_gone(candidate);
                return Ok(LockedChild::NoChild);
            }
            Some(Locked::Row(header, granted)) => (header, granted),
        };
        if value_is_past(table.layout(), &value) {
            // The next look passes it over.
            self.locks.unlock_if_new(trx, table.layout(), &candidate.pk, granted);
            return Ok(LockedChild::NoChild);
        }
        let entries = ForeignEntries {
            pool: &self.pool,
            trx_sys: &self.trx_sys,
            table,
            end,
        };
        match entries.is_there(&candidate.key)? {
            Some(true) if mode == LockMode::Exclusive => {
                check_conflict(trx, header.trx)?;
                Ok(LockedChild::Value(value))
            }
            Some(true) => Ok(LockedChild::Value(value)),
            there => {
                self.locks.unlock_if_new(trx, table.layout(), &candidate.pk, granted);
                if there.is_none() {
                    return Ok(LockedChild::Unbound);
                }
                if candidate.marked {
                    children.learned.note_harmless(candidate);
                }
                Ok(LockedChild::NoChild)
            }
        }
    }

    /// The row of a clustered entry's value. None: the table was dropped.
    fn row_of(&self, children: &Children, value: &[u8]) -> Result<Option<Vec<u8>>> {
        if value[0] & ROW_OVERFLOW == 0 {
            return Ok(Some(value[ROW_HEADER..].to_vec()));
        }
        debug_assert!(
            value.len() >= ROW_HEADER + OVERFLOW_REF,
            "a long row names its overflow pages"
        );
        let _gate = children.table.gate.read();
        let layout = children.table.layout();
        if children.table.is_dropped() || layout.id != children.end.table {
            return Ok(None);
        }
        let mut row = Vec::new();
        self.long_rows.read_long_row(layout, &value[ROW_HEADER..], &mut row)?;
        Ok(Some(row))
    }
}

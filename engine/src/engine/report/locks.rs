//! Locks by name: the tables and indexes that the numbers in a [`LockReport`] stand for.
//!
//! Called by `ffi` for INFORMATION_SCHEMA and SHOW ENGINE STATUS.
use crate::base::{FileId, IndexId};
use crate::engine::instance::Engine;
use crate::table::AUTOINC_LOCKS;
use crate::txn::{LockDetail, LockInfo, LockReport};
use std::collections::{HashMap, HashSet};

/// The table and index of a lock. All fields are empty for an index that is dropped.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct LockedIndex {
    pub table: String,
    /// None: the table's AUTO_INCREMENT counter.
    pub index: Option<String>,
    /// 0 = clustered, i + 1 = secondary i.
    pub ordinal: u32,
}

/// A report with its names.
pub struct NamedLocks {
    pub report: LockReport,
    /// By place of the lock.
    names: HashMap<IndexId, LockedIndex>,
    counters: HashMap<FileId, LockedIndex>,
}

impl Engine {
    /// Transactions, locks and waits.
    pub fn named_locks(&self, detail: LockDetail) -> NamedLocks {
        let report = self.store.trx_sys.lock_report(detail);
        debug_assert!(
            report.locks.iter().all(|lock| lock.trx < report.transactions.len()),
            "a lock's transaction is in its report"
        );
        debug_assert!(
            report.indexes.iter().all(|(trx, _)| *trx < report.transactions.len()),
            "an index's transaction is in its report"
        );
        let locked = report.locks.iter().map(|lock| lock.index);
        let wanted: HashSet<IndexId> = locked.chain(report.indexes.iter().map(|(_, index)| *index)).collect();
        let (mut names, mut counters) = (HashMap::new(), HashMap::new());
        for table in self.store.catalog.tables().iter().filter(|_| !wanted.is_empty()) {
            let (layout, name) = (table.layout(), table.name());
            let named = |index: Option<&str>, ordinal: u32| LockedIndex {
                table: name.clone(),
                index: index.map(str::to_string),
                ordinal,
            };
            if wanted.contains(&AUTOINC_LOCKS) {
                counters.insert(layout.id, named(None, 0));
            }
            if wanted.contains(&layout.clustered.id) {
                let clustered = if layout.hidden_pk { "GEN_CLUST_INDEX" } else { "PRIMARY" };
                names.insert(layout.clustered.id, named(Some(clustered), 0));
            }
            for (ordinal, secondary) in (1..).zip(&layout.secondary) {
                if wanted.contains(&secondary.index.id) {
                    names.insert(secondary.index.id, named(Some(&secondary.index.name), ordinal));
                }
            }
        }
        NamedLocks {
            report,
            names,
            counters,
        }
    }
}

impl NamedLocks {
    pub fn name(&self, lock: &LockInfo) -> LockedIndex {
        let found = match <[u8; 4]>::try_from(lock.key.as_slice()) {
            Ok(table) if lock.index == AUTOINC_LOCKS => self.counters.get(&FileId::from_be_bytes(table)),
            _ => self.names.get(&lock.index),
        };
        found.cloned().unwrap_or_default()
    }
    /// Number of tables in which each transaction has locks, by place of the transaction in the
    /// report.
    pub fn tables_locked(&self) -> Vec<u64> {
        let mut tables: Vec<HashSet<&str>> = vec![HashSet::new(); self.report.transactions.len()];
        for (trx, index) in self.held() {
            if let Some(named) = self.names.get(&index) {
                tables[trx].insert(&named.table);
            }
        }
        tables.iter().map(|tables| tables.len() as u64).collect()
    }
    /// By transaction: in how many indexes it holds locks.
    pub fn indexes_locked(&self) -> Vec<u64> {
        let mut indexes = vec![HashSet::new(); self.report.transactions.len()];
        self.held().for_each(|(trx, index)| {
            indexes[trx].insert(index);
        });
        indexes.iter().map(|indexes| indexes.len() as u64).collect()
    }
    /// Transactions by place, and indexes in which they hold locks.
    fn held(&self) -> impl Iterator<Item = (usize, IndexId)> + '_ {
        let granted = self.report.locks.iter().filter(|lock| lock.granted);
        let held = granted.map(|lock| (lock.trx, lock.index));
        held.chain(self.report.indexes.iter().copied())
    }
}

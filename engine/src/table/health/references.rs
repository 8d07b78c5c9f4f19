//! CHECK TABLE ... EXTENDED: finds rows whose parent row is missing.
//!
//! Such a row is no damage, because `foreign_key_checks = 0` lets users make it. So it has a report
//! of its own (`Checker::orphans`), and the table counts as sound.
//!
//! A row and its parent are read under one view. The child's maker held a lock on the parent when
//! it committed (K1). So a view that sees the child sees the parent, whatever writers do meanwhile.
//!
//! The statement has no metadata lock on the parent's table. So each search holds the table's gate,
//! and finds the index by its number.
//!
//! Latches: one page at a time. Called by `check`.
use crate::base::{Error, Result};
use crate::btree::Seek;
use crate::table::catalog::dictionary::Catalog;
use crate::table::catalog::foreign_key::{foreign_prefix, ForeignEnd, ForeignKey};
use crate::table::health::check::Check;
use crate::table::health::orphans::{OrphanKind, Orphans};
use crate::table::row::parent_check::parent_key;
use crate::table::row::past::is_past;
use crate::table::scan::cursor::Cursor;
use crate::table::scan::lock_choice::LockChoice;
use crate::txn::Trx;

/// Different keys of which the first row is reported.
const NAMED_MAX: usize = 5;
/// A comparison begins again when a definition has changed.
const ATTEMPTS: u32 = 5;

/// The last key of the child's index, and whether its parent is missing.
struct Last {
    prefix: Vec<u8>,
    is_orphan: bool,
}

/// Looks for parent rows.
struct Parents<'a> {
    end: &'a ForeignEnd,
    cursor: Cursor,
}

impl Check<'_> {
    pub(super) fn references(&mut self, catalog: &Catalog) -> Result<()> {
        let count = self.table.foreign_keys().map_or(0, |keys| keys.references.len());
        for at in 0..count {
            self.next_stage(self.table.statistics.counts.rows());
            let Some(orphans) = self.orphans_of(catalog, at)? else {
                continue;
            };
            if orphans.rows > 0 || matches!(orphans.kind, OrphanKind::NotCompared | OrphanKind::NoChildIndex) {
                self.checker.orphans(&orphans);
            }
        }
        Ok(())
    }

    fn orphans_of(&mut self, catalog: &Catalog, at: usize) -> Result<Option<Orphans>> {
        let mut name = String::new();
        for _ in 0..ATTEMPTS {
            let keys = self.table.foreign_keys();
            let Some(key) = keys.and_then(|keys| keys.references.get(at).cloned()) else {
                return Ok(None);
            };
            name.clone_from(&key.spec.name);
            if key.lacks_index() {
                return Ok(Some(not_compared(OrphanKind::NoChildIndex, at as u32, name)));
            }
            let mut trx = self.reader.trx_sys.new_trx(self.waiter.clone(), 0);
            self.begin_view(&mut trx);
            let scanned = self.scan_references(&mut trx, catalog, &key);
            self.reader.trx_sys.commit(&mut trx);
            match scanned {
                Ok(None) | Err(Error::TableChanged) => continue,
                scanned => return scanned,
            }
        }
        Ok(Some(not_compared(OrphanKind::NotCompared, at as u32, name)))
    }

    /// None: the table or an index has gone.
    fn scan_references(&mut self, trx: &mut Trx, catalog: &Catalog, key: &ForeignKey) -> Result<Option<Orphans>> {
        let Some(index) = self.table.layout().ordinal_of(key.child.index) else {
            return Ok(None);
        };
        let mut parents = match &key.parent {
            None => None,
            Some(end) => match catalog.by_id(end.table) {
                None => return Ok(None),
                Some(table) => Some(Parents {
                    end,
                    cursor: Cursor::new(self.reader.clone(), table),
                }),
            },
        };
        let mut orphans = Orphans {
            kind: match parents {
                Some(_) => OrphanKind::NoParentRow,
                None => OrphanKind::NoParentTable,
            },
            foreign: key.ordinal,
            name: key.spec.name.clone(),
            rows: 0,
            first: Vec::new(),
        };
        let mut scan = Cursor::new(self.reader.clone(), self.table.clone());
        let mut rows = Cursor::new(self.reader.clone(), self.table.clone());
        let mut last: Option<Last> = None;
        let marks_past = self.table.layout().marks_past;
        scan.begin(trx, index, LockChoice::default(), !marks_past)?;
        let mut more = scan.seek(trx, Seek::First, &[])?;
        while more {
            self.step()?;
            let found = scan.found();
            if let Some(found) = found.filter(|found| !marks_past || !is_past(self.table.layout(), found.row)) {
                let prefix = foreign_prefix(&key.child.shape, found.key);
                let known = last.as_ref().filter(|last| Some(&last.prefix[..]) == prefix);
                let is_known = known.is_some();
                let is_orphan = match known {
                    Some(known) => known.is_orphan,
                    None => match is_orphan(trx, key, found.key, &mut parents)? {
                        Some(is_orphan) => is_orphan,
                        None => return Ok(None),
                    },
                };
                orphans.rows += is_orphan as u64;
                if is_orphan && !is_known && orphans.first.len() < NAMED_MAX {
                    let there = rows.get(trx, found.pk, LockChoice::default())?;
                    let row = rows.found().filter(|_| there);
                    orphans.first.extend(row.map(|row| (row.pk.to_vec(), row.row.to_vec())));
                }
                if !is_known {
                    last = prefix.map(|prefix| Last {
                        prefix: prefix.to_vec(),
                        is_orphan,
                    });
                }
            }
            // What was seen under a view says nothing of the next one.
            if self.renew_view(trx) {
                last = None;
            }
            more = scan.next(trx)?;
        }
        debug_assert!(
            orphans.first.len() as u64 <= orphans.rows && orphans.first.len() <= NAMED_MAX,
            "each orphan that is named is counted"
        );
        Ok(Some(orphans))
    }
}

fn not_compared(kind: OrphanKind, foreign: u32, name: String) -> Orphans {
    Orphans {
        kind,
        foreign,
        name,
        rows: 0,
        first: Vec::new(),
    }
}

/// `child`: a key of the child's index. None: the parent's table or index has gone.
fn is_orphan(trx: &mut Trx, key: &ForeignKey, child: &[u8], parents: &mut Option<Parents<'_>>) -> Result<Option<bool>> {
    match (parent_key(key, child)?, parents) {
        (None, _) => Ok(Some(false)),
        (Some(Some(parent)), Some(parents)) => Ok(parents.has(trx, &parent)?.map(|has| !has)),
        _ => Ok(Some(true)),
    }
}

impl Parents<'_> {
    /// None: the table or the index has gone.
    fn has(&mut self, trx: &mut Trx, key: &[u8]) -> Result<Option<bool>> {
        let table = self.cursor.table().clone();
        let _gate = table.gate.read();
        let layout = table.layout();
        if table.is_dropped() || layout.id != self.end.table {
            return Ok(None);
        }
        let Some(index) = layout.ordinal_of(self.end.index) else {
            return Ok(None);
        };
        self.cursor
            .begin(trx, index, LockChoice::default(), !layout.marks_past)?;
        self.cursor.set_bounds_to_prefix(key, key);
        self.cursor.expect(1);
        let mut there = self.cursor.seek(trx, Seek::Ge, key)?;
        loop {
            let found = self.cursor.found().filter(|found| there && found.key.starts_with(key));
            let Some(found) = found else {
                return Ok(Some(false));
            };
            if !layout.marks_past || !is_past(layout, found.row) {
                return Ok(Some(true));
            }
            there = self.cursor.next(trx)?;
        }
    }
}

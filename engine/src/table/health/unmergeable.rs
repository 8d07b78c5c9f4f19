//! Buffered changes that cannot be merged, because a page cannot be read: they are logged once, and
//! their amount stays bounded.
//!
//! A sweep passes over such a leaf, and the index serves on. A statement that needs the page gets
//! an error; others get answers. But changes for the leaf are still appended, and would in the end
//! fill the buffer that all indexes share. Before that the index is quarantined, and its pending
//! changes are discarded. An index that has to be rebuilt anyway is the cheapest to lose.
//!
//! Takes the DDL mutex and a table's gate, one after the other, with no latch held. Called by each
//! round of the change worker, and by drains.
use crate::base::{Error, FileId, IndexId, Result};
use crate::change::{self, ChangeBuffer, Delta};
use crate::pool::Pool;
use crate::table::catalog::damage_log::DamageLog;
use crate::table::catalog::ddl::Tables;
use crate::table::catalog::dictionary::Catalog;
use crate::table::catalog::table::Table;
use std::sync::Arc;

/// An index is quarantined when so large a part (1/n) of all that may be pending waits for broken
/// pages.
const BROKEN_SHARE: u64 = 8;
/// The same for changes that wait for pages that the disk fails to read again and again. Such
/// failures may pass.
const FAILED_SHARE: u64 = 2;

/// An index of which something cannot be merged.
struct Candidate {
    table: Arc<Table>,
    index: IndexId,
    /// A `Corrupt`.
    why: Error,
    /// It may pass: only the disk failed.
    may_pass: bool,
    bytes: u64,
}

/// All that cannot be merged.
#[derive(Default)]
struct AllUnmergeable {
    worst: Option<Candidate>,
    broken_bytes: u64,
    bytes: u64,
}

impl AllUnmergeable {
    fn add(&mut self, one: Candidate) {
        self.bytes += one.bytes;
        if !one.may_pass {
            self.broken_bytes += one.bytes;
        }
        debug_assert!(
            self.broken_bytes <= self.bytes,
            "broken pages hold back a part of all that waits"
        );
        let is_worse = |worst: &Candidate| (!one.may_pass, one.bytes) > (!worst.may_pass, worst.bytes);
        if self.worst.as_ref().is_none_or(is_worse) {
            self.worst = Some(one);
        }
    }
    /// The index to be quarantined, if too much is pending.
    fn too_much(self, buffer: &ChangeBuffer) -> Option<Candidate> {
        debug_assert!(
            self.worst.is_some() || self.bytes == 0,
            "where changes wait, an index is the worst"
        );
        let max = buffer.bytes_max();
        let is_much = self.broken_bytes >= max / BROKEN_SHARE || self.bytes >= max / FAILED_SHARE;
        self.worst.filter(|_| is_much)
    }
}

/// Looks after changes that cannot be merged.
pub(in crate::table) struct Unmergeable {
    pub pool: Arc<Pool>,
    pub change: Arc<ChangeBuffer>,
    pub catalog: Arc<Catalog>,
    pub tables: Arc<Tables>,
    pub log: DamageLog,
}

impl Unmergeable {
    pub fn look_after(&self) -> Result<()> {
        if !self.change.has_unmergeable() {
            return Ok(());
        }
        let Some(worst) = self.all_unmergeable().too_much(&self.change) else {
            return Ok(());
        };
        match self.tables.quarantine_index(&worst.table, worst.index, &worst.why) {
            Err(e @ Error::Poisoned(_)) => Err(e),
            // There may be no room in the catalog: the next round tries again.
            _ => Ok(()),
        }
    }
    /// Also logs those that are not logged yet.
    fn all_unmergeable(&self) -> AllUnmergeable {
        let mut all = AllUnmergeable::default();
        let now_us = self.pool.disk().now_us();
        let is_full = self.change.fill() >= 1000;
        for table in self.catalog.tables() {
            let _gate = table.gate.read();
            if table.is_gone() {
                continue;
            }
            for (index, delta) in table.layout().buffered() {
                for one in delta.unmergeable(now_us) {
                    // One failure of the disk is no reason yet.
                    if one.is_lasting || is_full {
                        all.add(self.candidate(&table, index.id, delta, one));
                    }
                }
            }
        }
        all
    }
    fn candidate(&self, table: &Arc<Table>, index: IndexId, delta: &Delta, one: change::Unmergeable) -> Candidate {
        debug_assert!(
            table.gate.is_locked(),
            "the table is not dropped while its indexes are judged"
        );
        let change::Unmergeable { why, bytes, .. } = one;
        let may_pass = !why.is_corrupt();
        let why = about(why, table.layout().id, index);
        if !may_pass && !delta.progress.is_unmergeable_logged() {
            let named = self.log.name_damage(why.clone());
            self.log.error(&format!(
                "buffered changes cannot be merged: {named}; until then they wait"
            ));
        }
        debug_assert!(
            why.is_corrupt(),
            "the log says how an index is repaired: as for a broken page"
        );
        Candidate {
            table: table.clone(),
            index,
            why,
            may_pass,
            bytes,
        }
    }
}

/// An error of the disk names no index. The log must say whose changes wait, and what helps once
/// they have to go.
fn about(why: Error, table: FileId, index: IndexId) -> Error {
    match why {
        why @ Error::Corrupt(_) => why,
        why => Error::corrupt(why.to_string()),
    }
    .in_index(table, index)
}

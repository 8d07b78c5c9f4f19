//! Buffered changes that cannot be merged, because a page cannot be read: people are told once, and the debt stays bounded.
//!
//! A sweep passes over such a leaf, and the index serves on: who needs the page gets an error, who does not gets an answer. But changes for
//! the leaf go on being appended, unseen, and what waits for it would in the end fill the buffer that all indexes share. Before that the
//! index is set aside (`damage.rs`), and what is pending for it with it: an index that is to be rebuilt anyway is the cheapest to lose.
//!
//! Who calls: each round of the change worker, and whoever drains. Takes the DDL mutex and a table's gate, one after the other; with no
//! latch held.
use crate::base::{Error, FileId, IndexId, Result};
use crate::change::{self, ChangeBuffer, Delta};
use crate::pool::Pool;
use crate::table::catalog::damage_log::DamageLog;
use crate::table::catalog::ddl::Tables;
use crate::table::catalog::dictionary::Catalog;
use crate::table::catalog::table::Table;
use std::sync::Arc;

/// An index is set aside when so large a part (1/n) of all that may be pending waits for pages that are broken.
const BROKEN_SHARE: u64 = 8;
/// The same, with what waits for pages that the disk failed to read, again and again: that may be over some time.
const FAILED_SHARE: u64 = 2;

/// An index of which something cannot be merged.
struct Candidate {
    table: Arc<Table>,
    index: IndexId,
    /// A `Corrupt`.
    why: Error,
    /// It may be over the next time: only the disk failed.
    may_pass: bool,
    bytes: u64,
}

/// All that cannot be merged.
#[derive(Default)]
struct AllUnmerged {
    worst: Option<Candidate>,
    broken_bytes: u64,
    bytes: u64,
}

impl AllUnmerged {
    fn add(&mut self, one: Candidate) {
        self.bytes += one.bytes;
        if !one.may_pass {
            self.broken_bytes += one.bytes;
        }
        let is_worse = |worst: &Candidate| (!one.may_pass, one.bytes) > (!worst.may_pass, worst.bytes);
        if self.worst.as_ref().is_none_or(is_worse) {
            self.worst = Some(one);
        }
    }
    /// The index to be set aside, if it is too much.
    fn too_much(self, buffer: &ChangeBuffer) -> Option<Candidate> {
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
        let Some(worst) = self.all_unmerged().too_much(&self.change) else {
            return Ok(());
        };
        match self.tables.quarantine_index(&worst.table, worst.index, &worst.why) {
            Err(e @ Error::Poisoned(_)) => Err(e),
            // No room in the catalog, say: the next round tries it again.
            _ => Ok(()),
        }
    }
    /// On the way people are told of those they do not know of yet.
    fn all_unmerged(&self) -> AllUnmerged {
        let mut all = AllUnmerged::default();
        let now_us = self.pool.disk().now_us();
        let is_full = self.change.fill() >= 1000;
        for table in self.catalog.tables() {
            let _gate = table.gate.read();
            if table.is_gone() {
                continue;
            }
            for (index, delta) in table.layout().buffered() {
                for unmerged in delta.unmergeable(now_us) {
                    // One failure of the disk is no reason yet.
                    if unmerged.is_lasting || is_full {
                        all.add(self.candidate(&table, index.id, delta, unmerged));
                    }
                }
            }
        }
        all
    }
    fn candidate(&self, table: &Arc<Table>, index: IndexId, delta: &Delta, unmerged: change::Unmergeable) -> Candidate {
        let change::Unmergeable { why, bytes, .. } = unmerged;
        let may_pass = !why.is_corrupt();
        let why = about(why, table.layout().id, index);
        if !may_pass && !delta.progress.is_unmergeable_logged() {
            let named = self.log.name_damage(why.clone());
            self.log.error(&format!(
                "buffered changes cannot be merged: {named}; until then they wait"
            ));
        }
        Candidate {
            table: table.clone(),
            index,
            why,
            may_pass,
            bytes,
        }
    }
}

/// An error of the disk names nobody: whose changes wait has to be known, and what helps once they have to go.
fn about(why: Error, table: FileId, index: IndexId) -> Error {
    match why {
        why @ Error::Corrupt(_) => why,
        why => Error::corrupt(why.to_string()),
    }
    .in_index(table, index)
}

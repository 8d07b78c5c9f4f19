//! Buffered changes that cannot be merged, because a page cannot be read: people are told once, and the debt stays bounded.
//!
//! A sweep passes over such a leaf, and the index serves on: who needs the page gets an error, who does not gets an answer. But changes for
//! the leaf go on being appended, unseen, and what waits for it would in the end fill the buffer that all indexes share. Before that the
//! index is set aside (`damage.rs`), and what is pending for it with it: an index that is to be rebuilt anyway is the cheapest to lose.
//!
//! Who calls: each round of the change worker, and whoever drains. Takes the DDL mutex and a table's gate, one after the other; with no
//! latch held.
use super::buffered::buffered;
use super::def::Table;
use super::store::Store;
use crate::base::{Error, FileId, IndexId, Result};
use crate::change::ChangeBuffer;
use std::sync::Arc;

/// An index is set aside when so large a part (1/n) of all that may be pending waits in it and cannot be merged.
const BOUND_SHARE: u64 = 8;

/// An index of which something cannot be merged.
struct Unmerged {
    table: Arc<Table>,
    index: IndexId,
    /// A `Corrupt`.
    why: Error,
    /// It may be over the next time: only the disk failed.
    may_pass: bool,
    bytes: u64,
}

impl Unmerged {
    fn is_too_much(&self, buffer: &ChangeBuffer) -> bool {
        let is_much = !self.may_pass && self.bytes >= buffer.bytes_max() / BOUND_SHARE;
        // At the bound itself the share of one does not matter: there may be many.
        is_much || (self.bytes > 0 && buffer.fill() >= 1000)
    }
}

impl Store {
    pub(super) fn look_after_unmerged(&self) -> Result<()> {
        if !self.change.has_unmerged() {
            return Ok(());
        }
        let Some(worst) = self.worst_unmerged().filter(|worst| worst.is_too_much(&self.change)) else {
            return Ok(());
        };
        match self.set_index_aside(&worst.table, worst.index, &worst.why) {
            Err(e @ Error::Poisoned(_)) => Err(e),
            // No room in the catalog, say: the next round tries it again.
            _ => Ok(()),
        }
    }
    /// The index with most of it; on the way people are told of those they do not know of yet.
    fn worst_unmerged(&self) -> Option<Unmerged> {
        let mut worst: Option<Unmerged> = None;
        for table in self.catalog.tables() {
            let _gate = table.gate.read();
            if table.is_gone() {
                continue;
            }
            for (index, delta) in buffered(table.layout()) {
                let Some((why, bytes)) = delta.unmerged() else { continue };
                let may_pass = !why.is_corrupt();
                let why = about(why, table.layout().id, index.id);
                if !may_pass && !delta.told_of_unmerged() {
                    let named = self.name_damage(why.clone());
                    self.tell(&format!(
                        "buffered changes cannot be merged: {named}; until then they wait"
                    ));
                }
                let is_worse = |worst: &Unmerged| (!may_pass, bytes) > (!worst.may_pass, worst.bytes);
                if worst.as_ref().is_none_or(is_worse) {
                    let (table, index) = (table.clone(), index.id);
                    worst = Some(Unmerged {
                        table,
                        index,
                        why,
                        may_pass,
                        bytes,
                    });
                }
            }
        }
        worst
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

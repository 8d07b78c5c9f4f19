//! What becomes of broken pages: errors get the names of table and index and the way out, and what can go on without the page goes on.
//!
//! | who meets it | what happens |
//! |---|---|
//! | a statement | it fails; other tables serve on, and so does what it did not read |
//! | a rollback, in a secondary index | the index is *set aside* until it is rebuilt: the catalog says so, nobody reads it or keeps it up. A page that fails to be read is waited for before |
//! | a rollback, anywhere else | the transaction is *set aside*: it stays active, nobody sees its changes, and is rolled back once possible |
//! | purge | passes over the record: an entry that nobody sees stays in the broken index. So it does for a page that fails to be read for long |
//! | a merge of buffered changes | passes over the leaf: what is pending stays pending; too much of it: the index is set aside (`unmerged.rs`) |
//!
//! A page that fails to be read may be readable the next time: what waits for it is tried again each second, as for a table to be dropped.
//!
//! A transaction is set aside for want of space as well. Its statement ends, and so do the user's locks on its tables: who builds an index asks
//! for it (`engine/in_doubt.rs`), for it would be built of rows that are taken back. Takes the DDL mutex; called with no latch held.
use super::def::Table;
use super::store::Store;
use crate::base::ids::{FIRST_TABLE_FILE, UNDO_FILE};
use crate::base::{Damage, Error, FileId, IndexId, Level, Result, TrxId, UndoPtr};
use crate::change::DELTA_BIT;
use crate::index::Index;
use crate::txn::Trx;
use std::collections::VecDeque;
use std::sync::Arc;

/// Transactions whose rollback waits.
#[derive(Default)]
pub(super) struct Aside {
    /// The next to be tried again first.
    waiting: VecDeque<Trx>,
    /// The one at which this is being done, as it was before.
    tried: Option<(TrxId, UndoPtr)>,
}

impl Store {
    /// A `Corrupt`, or an `Io` of a page, with the names that the catalog knows, and the way out. Others pass unchanged.
    pub fn name_damage(&self, error: Error) -> Error {
        let named = |damage: Box<Damage>, then| {
            let what = self.describe(&damage, then);
            Box::new(Damage { what, ..*damage })
        };
        match error {
            Error::Corrupt(damage) => Error::Corrupt(named(damage, "; ")),
            Error::Io(damage) => Error::Io(named(damage, "; if that lasts: ")),
            error => error,
        }
    }

    fn describe(&self, damage: &Damage, then: &str) -> String {
        let what = &damage.what;
        if damage.file != 0 && damage.file < FIRST_TABLE_FILE {
            let (whose, saved) = match damage.file {
                UNDO_FILE => ("undo", ", or save the rows with sluice-check --dump"),
                _ => (
                    "the catalog",
                    ", or save the rows with mariadb-dump before the next start, which needs it",
                ),
            };
            return format!("{whose}: {what}{then}restore the engine's directory from a backup{saved}");
        }
        let Some(table) = self.catalog.by_id(damage.file) else {
            return what.clone();
        };
        let (layout, name) = (table.layout(), self.catalog.shown(&table));
        let copy = "ALTER TABLE ... FORCE copies the rows into a new file if they can all be read";
        let restore = "restore the table from a backup; sluice-check --dump saves the rows that can be read";
        match layout.secondary_by_id(damage.index & !DELTA_BIT) {
            Some(s) => format!(
                "table {name}, {}index {}: {what}{then}REPAIR TABLE rebuilds the index",
                if damage.index & DELTA_BIT != 0 {
                    "buffered changes of "
                } else {
                    ""
                },
                s.index.name
            ),
            None if damage.index == layout.clustered.id => {
                format!("table {name}, clustered index: {what}{then}{restore}")
            }
            None => format!("table {name}: {what}{then}{copy}, else {restore}"),
        }
    }

    /// The error of who needs an index that is set aside.
    pub(super) fn is_aside(&self, table: FileId, index: &Index) -> Error {
        let what = format!("index {} is set aside, because a page of it cannot be read", index.name);
        Error::corrupt(what).in_index(table, index.id)
    }

    /// A statement may have begun with an index before it was set aside. Asked after the look at what a rollback may have left in it: that
    /// goes aside first, and then restores its rows and ends.
    pub(super) fn check_not_aside(&self, index: &Index) -> Result<()> {
        match index.is_abandoned() {
            true => Err(self.is_aside(index.tree.file, index)),
            false => Ok(()),
        }
    }

    /// The secondary index, not set aside yet, that keeps `record` from being undone: a page of it is broken, or could not be read for long.
    pub(super) fn broken_secondary(&self, error: &Error, record: UndoPtr) -> Option<(Arc<Table>, IndexId)> {
        let (Error::Corrupt(damage) | Error::Io(damage)) = error else {
            return None;
        };
        let table = self.catalog.by_id(damage.file)?;
        let found = table.layout().secondary_by_id(damage.index & !DELTA_BIT)?;
        let id = found.index.id;
        if found.aside || !self.can_wait(error) {
            return None;
        }
        let is_broken = error.is_corrupt() || {
            let now_us = self.pool.disk().now_us();
            self.rollback_tries.failed((damage.file, id), record, now_us)
        };
        is_broken.then_some((table, id))
    }

    /// From here on nobody reads the index, nobody keeps it up, and what is pending for it is nobody's debt. Durable on return: what is left
    /// out must never be missed by a reader.
    pub(super) fn set_index_aside(&self, table: &Arc<Table>, index: IndexId, why: &Error) -> Result<()> {
        let named = self.name_damage(why.clone().lasting());
        {
            let _ddl = self.start_ddl()?;
            let mut new = table.layout().clone();
            let Some(found) = new.secondary.iter_mut().find(|s| s.index.id == index && !s.aside) else {
                return Ok(());
            };
            found.aside = true;
            let aside = found.clone();
            self.record(&new, &[], |mtr| self.catalog.put(mtr, &table.name(), &new))?;
            // For statements that go on with the layout they began with.
            aside.index.abandon();
            table.publish(new);
            // Nobody merges it any more: as a debt it would keep the others from buffering.
            aside.index.delta.iter().for_each(|delta| self.discard_delta(delta));
        }
        self.tell(&format!("{named}; the index is set aside until then"));
        Ok(())
    }

    /// Of a table that was broken when the engine was opened nothing can be done now, but it may come back: what it still needs has to wait.
    pub(super) fn check_whole(&self, table: &Table) -> Result<()> {
        let Some(why) = table.broken() else { return Ok(()) };
        Err(Error::corrupt(format!(
            "table {} cannot be used: {why}; restore it from a backup, or drop it",
            self.catalog.shown(table)
        )))
    }

    /// Purge leaves a record out.
    pub(super) fn pass_over(&self, table: &Table, why: Error) {
        self.counters.purge_passed_over.inc();
        if !table.told_of_damage() {
            self.tell(&format!(
                "purge passes over what it cannot reach: {}",
                self.name_damage(why)
            ));
        }
    }

    // ---- transactions ----

    /// Can a rollback that failed so be finished later? (Else the engine is poisoned.) `Io` is a read, a file that could not be opened or
    /// made longer, as long as the engine lives: a failed write or sync ends it (I6), and so does an Mtr that is abandoned behind its first change.
    pub fn can_wait(&self, error: &Error) -> bool {
        matches!(error, Error::Corrupt(_) | Error::Full(_) | Error::Io(_)) && self.pool.check_alive().is_ok()
    }

    /// Keeps a transaction whose rollback cannot be finished now; `trx` is a fresh one afterwards.
    pub fn set_trx_aside(&self, trx: &mut Trx, why: &Error) {
        self.trx_sys.visibility.close_view(trx);
        let (waiter, connection) = (trx.shared.waiter.clone(), trx.shared.connection);
        let stuck = std::mem::replace(trx, self.trx_sys.new_trx(waiter, connection));
        self.tell_rollback_waits(stuck.id(), why);
        self.aside.lock().waiting.push_back(stuck);
    }

    pub fn tell_rollback_finished(&self, id: TrxId) {
        (self.log)(Level::Info, &format!("the rollback of transaction {id} is finished"));
    }

    pub fn tell_rollback_waits(&self, id: TrxId, why: &Error) {
        self.tell(&format!(
            "the rollback of transaction {id} waits: {}; nobody sees its changes, and its rows stay locked",
            self.name_damage(why.clone())
        ));
    }

    /// One bounded piece (I7) of the rollbacks that wait. False: there is none, or the next one still cannot go on.
    pub fn retry_rollback(&self, records_max: usize) -> Result<bool> {
        let Some(mut trx) = self.take_aside() else {
            return Ok(false);
        };
        let id = trx.id();
        let step = self.rollback_step(&mut trx, records_max);
        let step = step.and_then(|undone| {
            if undone {
                self.trx_sys.end_rollback(&mut trx).map(|()| true)
            } else {
                Ok(false)
            }
        });
        let mut aside = self.aside.lock();
        aside.tried = None;
        match step {
            Ok(true) => {
                drop(aside);
                self.tell_rollback_finished(id);
                Ok(true)
            }
            Ok(false) => {
                aside.waiting.push_front(trx);
                Ok(true)
            }
            Err(e) => {
                aside.waiting.push_back(trx);
                drop(aside);
                match self.can_wait(&e) {
                    true => Ok(false),
                    false => Err(e),
                }
            }
        }
    }

    fn take_aside(&self) -> Option<Trx> {
        let mut aside = self.aside.lock();
        if aside.tried.is_some() {
            return None; // Another thread is at it.
        }
        let trx = aside.waiting.pop_front()?;
        aside.tried = Some((trx.id(), trx.undo_top()));
        Some(trx)
    }

    /// Transactions whose rollback waits.
    pub fn rollbacks_waiting(&self) -> usize {
        self.aside.lock().waiting.len()
    }
    /// They, and the one that is being tried again; with the newest record each that may not be undone yet.
    pub(crate) fn rollbacks_set_aside(&self) -> Vec<(TrxId, UndoPtr)> {
        let aside = self.aside.lock();
        let waiting = aside.waiting.iter().map(|trx| (trx.id(), trx.undo_top()));
        waiting.chain(aside.tried).collect()
    }
}

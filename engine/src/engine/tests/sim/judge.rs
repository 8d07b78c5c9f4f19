//! Reading everything, and judging: is what was found, or the error that came instead, what the
//! twin allows?
use super::online::is_work_name;
use super::table::Handle;
use super::twin::{Kind, RowChanges, State, Twin};
use super::world::{Step, World};
use crate::base::{Error, Result};
use crate::table::Table;
use crate::txn::{Isolation, ThreadWaiter, Trx};
use std::sync::Arc;

/// A look at everything ends in one of these.
pub enum Finding {
    Wrong(String),
    Refused(Error),
}

impl From<Error> for Finding {
    fn from(e: Error) -> Finding {
        Finding::Refused(e)
    }
}

impl World {
    /// What a new view sees, and what is prepared.
    pub fn read_state(&self) -> Result<State> {
        let mut state = State::default();
        let store = self.store();
        for name in store.catalog.names().into_iter().filter(|name| !is_work_name(name)) {
            let table = store.tables().open_table(&name)?;
            let kinds: Vec<Kind> = (table.layout().secondary.iter())
                .filter_map(|s| Kind::of_name(&s.index.name))
                .collect();
            let handle = self.handle(table, &kinds);
            let rows = self.with_view(|trx| handle.scan(trx, 0, false, false))?;
            let rows = rows.iter().map(|seen| seen.row()).collect();
            let twin = Twin {
                kinds,
                rows,
                version: 0,
            };
            state.tables.insert(name, twin);
        }
        for xid in self.engine().in_doubt.prepared() {
            state.prepared.insert(super::xid_number(&xid), RowChanges::new());
        }
        Ok(state)
    }

    /// Every index, both ways, against the twin.
    pub fn compare_all(&self) -> std::result::Result<(), Finding> {
        let store = self.store();
        for (name, twin) in &self.history.current().tables {
            let table = store.tables().open_table(name)?;
            let handle = self.handle(table, &twin.kinds);
            for index in 0..=twin.kinds.len() as u32 {
                for (backward, covering) in [(false, false), (true, index > 0)] {
                    let compared = self.with_view(|trx| handle.compare(trx, twin, index, backward, covering))?;
                    compared.map_err(|what| Finding::Wrong(format!("table {name}, {what}")))?;
                }
            }
        }
        Ok(())
    }

    pub fn handle<'a>(&'a self, table: Arc<Table>, kinds: &'a [Kind]) -> Handle<'a> {
        Handle {
            engine: self.engine(),
            table,
            kinds,
        }
    }
    pub fn with_view<T>(&self, read: impl FnOnce(&mut Trx) -> Result<T>) -> Result<T> {
        let engine = self.engine();
        let mut trx = engine.new_trx(Arc::new(ThreadWaiter::new()), 99);
        engine.start(&mut trx, Isolation::RepeatableRead, 0);
        let read = read(&mut trx);
        engine.commit(&mut trx, false)?;
        read
    }

    // ---- judging ----

    /// An error that needs bad luck as its reason.
    pub fn judge(&mut self, what: &str, e: &Error) -> Step {
        let excused = match e {
            Error::Io(_) | Error::Full(_) | Error::Poisoned(_) => self.bad_luck(),
            Error::Corrupt(_) => self.lied,
            _ => false,
        };
        if !excused {
            return Err(format!("{what}: {e}"));
        }
        if self.lied && !self.disk.is_dead() {
            self.over = true;
            if let Error::Corrupt(text) = e {
                let names_place = [".slu", "file", "page"].iter().any(|word| text.contains(word));
                return match names_place {
                    true => Ok(()),
                    false => Err(format!("{what}: damage is reported without its place: {text}")),
                };
            }
        }
        Ok(())
    }
    pub fn judge_result<T>(&mut self, what: &str, done: Result<T>) -> Step {
        match done {
            Ok(_) => Ok(()),
            Err(e) => self.judge(what, &e),
        }
    }
    /// A rollback that waits leaves rows locked, of which the twin knows nothing: the engine ends
    /// here, and the next start finishes it.
    pub fn end_if_undo_waits(&self, doomed: bool) {
        let store = self.store();
        if doomed
            || store.rollbacks().rollbacks_waiting() > 0
            || self.trxs.iter().flatten().any(|open| open.trx.is_doomed())
        {
            store.pool.poison("a rollback waits");
        }
    }
    /// An end of a transaction, or of a part of it, succeeds or ends the engine.
    pub fn judge_end(&mut self, what: &str, done: Result<()>) -> Step {
        self.end_if_undo_waits(false);
        if done.is_err() && !self.is_gone() {
            return Err(format!("{what} failed, and the engine lives on: {done:?}"));
        }
        self.judge_result(what, done)
    }
}

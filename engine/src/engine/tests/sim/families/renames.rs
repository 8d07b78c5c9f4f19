//! A table is rebuilt, and its two columns get each other's names: the end of an ALTER TABLE, when
//! no statement uses the table. The foreign keys of the table and of its children follow.
use super::shapes::{names, shapes};
use super::twin::{State, TABLES};
use super::Life;
use crate::engine::tests::foreign::family::Family;
use crate::engine::tests::sim::world::Step;

impl Life {
    pub(super) fn family_of(&self, state: &State) -> Family {
        let shapes = shapes(&self.actions, &self.past, &state.lost, &state.renamed);
        Family::of(self.family.engine.clone(), &shapes)
    }

    /// What a crash has cut short is undone before: the rows are committed ones.
    pub(super) fn rebuild(&mut self, table: usize) -> Step {
        self.finish_losers()?;
        if self.is_gone() {
            return Ok(());
        }
        let mut next = self.now.clone();
        next.renamed[table] ^= true;
        let rows = match self.committed_rows(TABLES[table]) {
            Err(_) if self.is_gone() => return Ok(()),
            read => read.map_err(|e| format!("the rows of {}: {e}", TABLES[table]))?,
        };
        let (old, new) = (names(table, &self.now.renamed), names(table, &next.renamed));
        let renamed = [(old[0], new[0]), (old[1], new[1])];
        let to = &self.family_of(&next).shapes[TABLES[table]];
        let done = self.family.rebuild(to, &renamed, &rows, false);
        self.seen.rebuilt += done.is_ok() as u64;
        self.defined("a rebuild", done, next)
    }
}

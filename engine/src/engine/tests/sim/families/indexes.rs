//! DROP INDEX and ADD INDEX of the indexes that foreign keys need, with checks off (K6).
//!
//! As in the server, the statement has its table to itself: transactions that used the table end
//! before it. It is passed over while a prepared transaction has changed the table. It is all or
//! nothing, and durable on return.
use super::twin::{Key, State, PARENT, TABLES};
use super::{Life, SLOTS};
use crate::base::{Error, Result};
use crate::engine::tests::sim::world::Step;
use crate::table::ForeignKeySpec;
use crate::txn::Isolation;
use std::collections::BTreeSet;

/// Of 100 statements, how many a crash ends, if they change the disk often enough.
const CRASH_PERCENT: u64 = 25;
/// Changes of the disk that such a crash waits for, at most.
const CHANGES_MAX: u64 = 12;
/// Of 100 statements, how many rebuild the table.
const REBUILD_PERCENT: u64 = 30;
/// Of 100 moments to drop an index, how many are used: most of the time a table has its index.
const LOSE_PERCENT: u64 = 40;
/// Of 100 statements that drop an index, how many have checks on, and must be refused.
const CHECKED_PERCENT: u64 = 15;

impl Life {
    pub(super) fn definition(&mut self) -> Step {
        let table = match self.parent_too {
            true => self.random.below(TABLES.len() as u64) as usize,
            false => 1 + self.random.below(TABLES.len() as u64 - 1) as usize,
        };
        let (is_lost, rebuilds) = (self.now.lost[table], self.random.chance(REBUILD_PERCENT));
        if self.is_prepared(table) || !is_lost && !rebuilds && !self.random.chance(LOSE_PERCENT) {
            return Ok(());
        }
        self.end_users_of(table)?;
        if self.is_gone() {
            return Ok(());
        }
        self.make_room()?;
        if self.random.chance(CRASH_PERCENT) {
            let after = 1 + self.random.below(CHANGES_MAX);
            self.disk.crash_at(self.disk.changes() + after);
        }
        match is_lost {
            _ if rebuilds => self.rebuild(table)?,
            true => self.add_index(table)?,
            false => self.lose(table)?,
        }
        self.seen.cut_short += self.is_gone() as u64;
        Ok(())
    }

    fn is_prepared(&self, table: usize) -> bool {
        let mut prepared = self.now.prepared.values().flatten();
        prepared.any(|((changed, _), _)| *changed == table)
    }
    fn end_users_of(&mut self, table: usize) -> Step {
        for slot in 0..SLOTS as usize {
            if !self.is_gone() && self.trxs[slot].as_ref().is_some_and(|open| open.used[table]) {
                match self.random.chance(50) {
                    true => self.commit(slot)?,
                    false => self.rollback(slot)?,
                }
            }
        }
        Ok(())
    }

    /// Takes so long that columns of another table may get new names meanwhile.
    fn add_index(&mut self, table: usize) -> Step {
        let kept = self.family.foreign_of(TABLES[table]);
        let other = self.random.below(TABLES.len() as u64) as usize;
        if other != table && !self.is_prepared(other) {
            self.end_users_of(other)?;
            if !self.is_gone() {
                self.rebuild(other)?;
            }
        }
        match self.is_gone() {
            true => Ok(()),
            false => self.regain(table, kept),
        }
    }

    fn lose(&mut self, table: usize) -> Step {
        let unchecked = !self.random.chance(CHECKED_PERCENT);
        let dropped = self.family.drop_last_index(TABLES[table], unchecked);
        if !unchecked {
            return match dropped {
                Err(Error::ForeignNeedsIndex(_)) => Ok(()),
                Err(_) if self.is_gone() => Ok(()),
                other => Err(format!("DROP INDEX of {} with checks: {other:?}", TABLES[table])),
            };
        }
        self.orphans |= table == PARENT;
        self.seen.lost += dropped.is_ok() as u64;
        let next = self.with(table, true);
        self.defined("DROP INDEX", dropped, next)
    }

    /// What a crash has cut short is undone before: an index is built of committed rows.
    /// `kept`: its foreign keys as the statement read them when it began.
    pub(super) fn regain(&mut self, table: usize, kept: Vec<ForeignKeySpec>) -> Step {
        self.finish_losers()?;
        if self.is_gone() {
            return Ok(());
        }
        self.family.store().indexes().resume_freeing();
        let next = self.with(table, false);
        let with = self.family_of(&next);
        let own = self.now.rows.iter().filter(|(key, _)| key.0 == table);
        let values: BTreeSet<Option<u64>> = own.clone().map(|(_, second)| *second).collect();
        let has_duplicates = table == PARENT && values.len() < own.clone().count();
        // The twin does not know rows of the past, and the index has them.
        let rows: Result<Vec<String>> = match self.past[table] {
            true => self.committed_rows(TABLES[table]),
            false => Ok(own.map(|(key, second)| self.text(*key, *second)).collect()),
        };
        let rows = match rows {
            Err(_) if self.is_gone() => return Ok(()),
            read => read.map_err(|e| format!("the rows of {}: {e}", TABLES[table]))?,
        };
        let added = with.add_index_keeping(TABLES[table], &rows, kept);
        match &added {
            Err(Error::Duplicate { .. }) if has_duplicates => return Ok(()),
            Ok(()) if has_duplicates => return Err("a unique index was built over duplicates".into()),
            _ => {}
        }
        self.seen.regained += added.is_ok() as u64;
        self.defined("ADD INDEX", added, next)
    }

    pub(super) fn committed_rows(&self, table: &str) -> Result<Vec<String>> {
        let mut trx = self.family.begin_at(Isolation::RepeatableRead);
        let rows = self.family.rows_seen(&mut trx, table)?;
        self.family.engine.commit(&mut trx, true)?;
        Ok(rows)
    }

    fn with(&self, table: usize, is_lost: bool) -> State {
        let mut next = self.now.clone();
        next.lost[table] = is_lost;
        next
    }

    /// `next`: what the twin is after the statement.
    pub(super) fn defined(&mut self, what: &str, done: Result<()>, next: State) -> Step {
        self.ended(what, done, next)?;
        self.family = self.family_of(&self.now);
        match self.is_gone() {
            true => Ok(()),
            false => self.family.misnamed().map_or(Ok(()), Err),
        }
    }

    /// CHECK TABLE ... EXTENDED of all tables: it reports the twin's orphans, and no others.
    pub(super) fn check(&mut self) -> Step {
        for (n, table) in TABLES.iter().enumerate() {
            let found = self.family.orphans_of(table, &mut |_| ());
            let found = Vec::from_iter(found.iter().filter_map(|line| Some(line.split_once(':')?.0)));
            let expected = self.orphans_expected(n);
            self.seen.with_orphans += expected.iter().any(|line| line.contains("NoParent")) as u64;
            if found != expected {
                return Err(format!("CHECK TABLE of {table}: {found:?}, expected {expected:?}"));
            }
        }
        self.no_orphan()
    }

    fn orphans_expected(&self, table: usize) -> Vec<String> {
        let twin = self.twin_of(self.now.rows.clone());
        let is_orphan =
            |(key, second): &(&Key, &Option<u64>)| key.0 == table && twin.has_parent(table, **second).is_err();
        let rows = self.now.rows.iter().filter(is_orphan).count();
        let (kind, rows) = match table {
            _ if self.now.lost[table] => ("NoChildIndex", 0),
            _ if rows == 0 => return Vec::new(),
            1 if self.now.lost[PARENT] => ("NoParentTable", rows),
            _ => ("NoParentRow", rows),
        };
        match table {
            PARENT => Vec::new(),
            _ => vec![format!("db/{} {kind} {rows}", ["f", "g", "s"][table - 1])],
        }
    }
}

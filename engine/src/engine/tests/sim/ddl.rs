//! DDL of the simulation. As in the server, a statement has its table to itself: it is passed over
//! while a transaction that used the table is under way. It is all or nothing, and durable on
//! return.
use super::op::Op;
use super::table::spec;
use super::twin::{Change, Kind, KINDS};
use super::world::{Step, World};
use crate::base::{Error, Result};
use crate::engine::tests::fixture::change_of;
use crate::table::{IndexChange, Store};
use std::sync::Arc;

const TABLES_MAX: usize = 4;

impl World {
    pub fn ddl(&mut self, op: Op) -> Step {
        let table = match op {
            Op::Create { kinds } => return self.create(kinds),
            Op::Drop { table }
            | Op::Rename { table }
            | Op::Truncate { table }
            | Op::AddIndex { table, .. }
            | Op::DropIndex { table, .. } => table,
            _ => unreachable!("not DDL"),
        };
        let Some(name) = self.table_name(table).filter(|name| !self.is_used(name)) else {
            self.passed_over += 1;
            return Ok(());
        };
        if matches!(op, Op::AddIndex { .. }) {
            self.finish_losers()?;
            if self.over || self.is_gone() {
                return Ok(());
            }
        }
        let kinds = self.history.current().tables[&name].kinds.clone();
        match op {
            Op::Drop { .. } => self.decide_ddl(Change::Drop(name.clone()), |s| s.tables().drop_table(&name)),
            Op::Truncate { .. } => {
                self.decide_ddl(Change::Truncate(name.clone()), |s| s.tables().truncate_table(&name))
            }
            Op::Rename { .. } => {
                let to = self.new_name();
                let change = Change::Rename(name.clone(), to.clone());
                self.decide_ddl(change, |s| s.tables().rename_table(&name, &to))
            }
            Op::AddIndex { kind, .. } => {
                let kind = KINDS[kind as usize % KINDS.len()];
                if kinds.contains(&kind) {
                    self.passed_over += 1;
                    return Ok(());
                }
                self.add_index(&name, &kinds, kind)
            }
            Op::DropIndex { which, .. } if !kinds.is_empty() => {
                let gone = kinds[which as usize % kinds.len()];
                self.drop_index(&name, &kinds, gone)
            }
            _ => {
                self.passed_over += 1;
                Ok(())
            }
        }
    }

    /// A transaction that is under way, or prepared, has used the table, or an ALTER TABLE has it.
    pub fn is_used(&self, name: &str) -> bool {
        self.is_used_by_trx(name) || self.online.as_ref().is_some_and(|online| online.name == name)
    }
    pub fn is_used_by_trx(&self, name: &str) -> bool {
        let prepared = self.history.current().prepared.values().flatten();
        self.trxs.iter().flatten().any(|o| o.tables.contains(name))
            || prepared.into_iter().any(|((table, _), _)| table == name)
    }

    fn create(&mut self, kinds: u64) -> Step {
        if self.history.current().tables.len() >= TABLES_MAX {
            return Ok(());
        }
        let name = self.new_name();
        let chosen = |(i, kind): (usize, Kind)| (kinds >> i & 1 != 0).then_some(kind);
        let kinds: Vec<Kind> = KINDS.into_iter().enumerate().filter_map(chosen).collect();
        let change = Change::Create(name.clone(), kinds.clone());
        self.decide_ddl(change, |s| s.tables().create_table(&name, &spec(&kinds)))
    }

    fn drop_index(&mut self, name: &str, kinds: &[Kind], gone: Kind) -> Step {
        let left: Vec<Kind> = kinds.iter().copied().filter(|k| *k != gone).collect();
        let change = Change::Indexes(name.to_string(), left.clone());
        let order: Vec<&str> = left.iter().map(|k| k.name()).collect();
        self.decide_ddl(change, |s| {
            let table = s.tables().open_table(name)?;
            s.indexes().alter_indexes(&[IndexChange {
                drop: vec![gone.name()],
                order,
                ..change_of(&table)
            }])
        })
    }

    /// As CREATE INDEX in the server: the rows are scanned, sorted, loaded; then the index is
    /// published.
    fn add_index(&mut self, name: &str, kinds: &[Kind], kind: Kind) -> Step {
        let mut after = kinds.to_vec();
        after.push(kind);
        let change = Change::Indexes(name.to_string(), after.clone());
        let order: Vec<&str> = after.iter().map(|k| k.name()).collect();
        let rows = self.read_rows(name);
        let mut tags: Vec<u16> = (self.history.current().tables[name].rows.values())
            .filter_map(|r| r.tag)
            .collect();
        let count = tags.len();
        tags.sort_unstable();
        tags.dedup();
        let has_duplicates = kind == Kind::Tag && tags.len() < count;
        let engine = self.engine().clone();
        self.decide_ddl(change, |store| {
            let table = store.tables().open_table(name)?;
            let mut build = store.indexes().begin_build(&table, &kind.spec())?;
            let mut trx = engine.new_trx(Arc::new(crate::txn::ThreadWaiter::new()), 98);
            let built = rows.and_then(|rows| {
                for (pk, row) in &rows {
                    let user_key = kind.user_key(row);
                    let key = [&user_key[..], pk].concat();
                    build.add(&key, user_key.len(), kind.is_checked(row), &kind.raw(row))?;
                }
                build.finish(&trx)
            });
            engine.commit(&mut trx, false)?;
            if let Err(e) = built {
                let duplicate = matches!(e, Error::Duplicate { .. });
                assert!(!duplicate || has_duplicates, "duplicates where the twin has none: {e}");
                // The build's error is the one to tell, unless giving up failed too.
                return build.abort().and(Err(e));
            }
            assert!(!has_duplicates, "a unique index was built over duplicates");
            store.indexes().alter_indexes(&[IndexChange {
                add: vec![&build],
                order,
                ..change_of(&table)
            }])
        })
    }

    fn read_rows(&self, name: &str) -> Result<Vec<(Vec<u8>, crate::engine::tests::fixture::Row)>> {
        let table = self.store().tables().open_table(name)?;
        let handle = self.handle(table, &[]);
        let seen = self.with_view(|trx| handle.scan(trx, 0, false, false))?;
        Ok(seen.iter().map(|s| s.row()).collect())
    }

    pub fn decide_ddl(&mut self, change: Change, run: impl FnOnce(&Arc<Store>) -> Result<()>) -> Step {
        let what = format!("{change:?}");
        let done = run(&self.store());
        match &done {
            Ok(()) => {
                let lsn = self.engine().lsn();
                self.history.add(change, lsn);
                self.history.all_durable();
                return Ok(());
            }
            Err(Error::Duplicate { .. }) => return Ok(()),
            Err(_) => self.history.doubt(change),
        }
        self.judge_result(&what, done)?;
        if self.over || self.disk.is_dead() || self.store().pool.check_alive().is_err() {
            return Ok(());
        }
        // The engine lives: it happened or it did not. Each try may meet one of the failures that
        // are still to come.
        for _ in 0..3 + self.disk.reads_to_fail() {
            let lsn = self.engine().lsn();
            match self.read_state() {
                Ok(found) => return self.history.resolve(&found, lsn),
                Err(e) => self.judge("reading after failed DDL", &e)?,
            }
            if self.disk.is_dead() || self.store().pool.check_alive().is_err() {
                return Ok(());
            }
        }
        Err("everything fails to be read".into())
    }
}

//! Row statements of the simulation: what they do, and what the twin says about the answer.
//!
//! A statement may be refused for a lock: another transaction is active in the table. It may be
//! refused for a duplicate: the twin has the row, or the unique value. It may be refused for a
//! conflict: snapshot isolation, and the row changed since. A statement that succeeds must have had
//! no such reason against it.
use super::op::Op;
use super::transactions::Open;
use super::twin::{Kind, Rows, Twin};
use super::world::{row_of, Step, World};
use crate::base::{Error, Result};
use crate::engine::tests::fixture::{pk, Row};

/// Different clustered keys.
const KEYS: u64 = 64;
/// From this number on each is a key of its own: for workloads with many rows.
pub const APART: u64 = 1000;
/// Of each key; not every table knows that.
pub const KEY_LEN: usize = 6;
/// Rows that one transaction changes, at most: undoing them must fit into the log.
const OWN_MAX: usize = 100;

fn key(n: u64) -> Vec<u8> {
    let n = if n < APART { n % KEYS } else { n };
    let mut key = pk(n as u32);
    key.resize(KEY_LEN, 0);
    key
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    Insert,
    Update,
    Delete,
    Move,
}

/// One row statement, with everything it needs.
struct Statement {
    what: What,
    pk: Vec<u8>,
    /// Of `Move`; else the same.
    to: Vec<u8>,
    row: Row,
}

impl Open {
    /// The rows that this transaction's reads show.
    fn view<'t>(&'t self, current: &'t Twin, name: &str) -> Rows {
        let base = match &self.snapshot {
            Some(snapshot) => &snapshot.tables[name].rows,
            None => &current.rows,
        };
        self.over(base, name)
    }
    /// The newest rows, its own changes included: what its statements act on.
    fn latest(&self, current: &Twin, name: &str) -> Rows {
        self.over(&current.rows, name)
    }
    fn over(&self, base: &Rows, name: &str) -> Rows {
        let mut rows = base.clone();
        for ((table, pk), row) in self.own.iter().filter(|((table, _), _)| table == name) {
            debug_assert_eq!(table, name);
            match row {
                Some(row) => rows.insert(pk.clone(), row.clone()),
                None => rows.remove(pk),
            };
        }
        rows
    }
}

impl World {
    pub fn table_name(&self, n: u64) -> Option<String> {
        let tables = &self.history.current().tables;
        tables.keys().nth(n as usize % tables.len().max(1)).cloned()
    }

    pub fn statement(&mut self, op: Op) -> Step {
        let (slot, table) = match op {
            Op::Insert { trx, table, .. }
            | Op::Update { trx, table, .. }
            | Op::Delete { trx, table, .. }
            | Op::Move { trx, table, .. }
            | Op::Fill { trx, table, .. }
            | Op::Load { trx, table, .. }
            | Op::Clear { trx, table, .. }
            | Op::Look { trx, table, .. } => (trx, table),
            _ => unreachable!("not a statement"),
        };
        let Some(name) = self.table_name(table) else {
            return Ok(());
        };
        self.begin(slot, false);
        let mut open = self.trxs[slot as usize].take().expect("just begun");
        let current = self.history.current().tables[&name].clone();
        let known = open.snapshot.as_ref().map(|s| s.tables.get(&name).map(|t| t.version));
        if known.is_some_and(|version| version != Some(current.version)) {
            // Its view is older than the table: nothing can be said.
            self.trxs[slot as usize] = Some(open);
            return Ok(());
        }
        open.tables.insert(name.clone());
        let done = self.run(op, &mut open, &name, &current);
        self.trxs[slot as usize] = Some(open);
        match done {
            // The whole transaction has to go.
            Ok(Err(Error::Deadlock)) => self.rollback(slot),
            Ok(_) => Ok(()),
            Err(what) => Err(format!("{op:?}: {what}")),
        }
    }

    fn run(&mut self, op: Op, open: &mut Open, name: &str, current: &Twin) -> std::result::Result<Result<()>, String> {
        let one = |what, k: u64, to: u64, row: Row| Statement {
            what,
            pk: key(k),
            to: key(to),
            row,
        };
        match op {
            Op::Insert { key, row, .. } => {
                let statement = one(What::Insert, key, key, row_of(row));
                self.change(open, name, current, statement)
            }
            Op::Update { key, row, .. } => {
                let statement = one(What::Update, key, key, row_of(row));
                self.change(open, name, current, statement)
            }
            Op::Delete { key, .. } => {
                let statement = one(What::Delete, key, key, row_of(0));
                self.change(open, name, current, statement)
            }
            Op::Move { key, to, row, .. } => {
                let statement = one(What::Move, key, to, row_of(row));
                self.change(open, name, current, statement)
            }
            Op::Fill { key, rows, len, .. } => {
                for k in key..key + rows {
                    let mut row = row_of(k);
                    // Every other row has a value of its own; neighbours' are far apart.
                    let tag = match k < APART {
                        true => 2000 + k * 37 % KEYS,
                        false => 4000 + k * 37 % 256,
                    };
                    row.tag = (k % 2 == 1).then_some(tag as u16);
                    row.body = vec![k as u8; len as usize];
                    let done = self.change(open, name, current, one(What::Insert, k, k, row))?;
                    if done.is_err() {
                        return Ok(done);
                    }
                }
                Ok(Ok(()))
            }
            Op::Load { key, rows, len, .. } => self.load(open, name, current, (key, rows, len)),
            Op::Clear { key, rows, .. } => {
                for k in key..key + rows {
                    let done = self.change(open, name, current, one(What::Delete, k, k, row_of(0)))?;
                    if done.is_err() {
                        return Ok(done);
                    }
                }
                Ok(Ok(()))
            }
            Op::Look { key: k, way, .. } => self.look(open, name, current, &key(k), way),
            _ => unreachable!("not a statement"),
        }
    }

    /// All rows or none of them.
    fn load(
        &mut self,
        open: &mut Open,
        name: &str,
        current: &Twin,
        (first, rows, len): (u64, u64, u64),
    ) -> std::result::Result<Result<()>, String> {
        self.make_room(75)?;
        if open.own.len() > OWN_MAX {
            return Ok(Ok(()));
        }
        let one = |k: u64| {
            let mut row = row_of(k);
            row.tag = Some(1000 + (k % KEYS) as u16);
            row.body = vec![k as u8; len as usize];
            let (pk, to) = (key(k), key(k));
            let what = What::Insert;
            Statement { what, pk, to, row }
        };
        let statements: Vec<Statement> = (first..first + rows.min(KEYS)).map(one).collect();
        let store = self.store();
        let table = match store.tables().open_table(name) {
            Ok(table) => table,
            Err(e) => return self.judge("load", &e).map(|()| Err(e)),
        };
        let latest = open.latest(current, name);
        let savepoint = store.rollbacks().savepoint(&open.trx);
        let done = match store.loads().begin_bulk_insert(&table) {
            Ok(None) => {
                for s in statements {
                    let done = self.change(open, name, current, s)?;
                    if done.is_err() {
                        return Ok(done);
                    }
                }
                return Ok(Ok(()));
            }
            Ok(Some(_)) if !latest.is_empty() => return Err("a table with rows was found empty".into()),
            Ok(Some(bulk)) => {
                let handle = self.handle(table, &current.kinds);
                let rows = statements.iter().map(|s| (&s.pk[..], &s.row));
                let done = handle.load(bulk, &mut open.trx, rows);
                done.or_else(|e| store.rollbacks().rollback_to(&mut open.trx, savepoint).and(Err(e)))
            }
            Err(e) => Err(e),
        };
        if let Err(e) = &done {
            self.end_if_undo_waits(open.trx.is_doomed());
            self.judge("load", e)?;
            return Ok(done);
        }
        for s in statements {
            self.was_free(open, name, current, &latest, &s, None)?;
            open.own.insert((name.to_string(), s.pk), Some(s.row));
        }
        Ok(done)
    }

    fn change(
        &mut self,
        open: &mut Open,
        name: &str,
        current: &Twin,
        s: Statement,
    ) -> std::result::Result<Result<()>, String> {
        self.make_room(50)?;
        let old = open.view(current, name).get(&s.pk).cloned();
        if open.own.len() > OWN_MAX || (old.is_none() && s.what != What::Insert) {
            return Ok(Ok(()));
        }
        let done = match self.store().tables().open_table(name) {
            Err(e) => Err(e),
            Ok(table) => {
                let handle = self.handle(table, &current.kinds);
                let trx = &mut open.trx;
                match (s.what, &old) {
                    (What::Update, Some(old)) => handle.update(trx, &s.pk, old, &s.row),
                    (What::Delete, Some(old)) => handle.delete(trx, &s.pk, old),
                    (What::Move, Some(old)) => handle.move_row(trx, (&s.pk, old), (&s.to, &s.row)),
                    _ => handle.insert(trx, &s.pk, &s.row),
                }
            }
        };
        let latest = open.latest(current, name);
        match &done {
            Ok(()) => {
                self.was_free(open, name, current, &latest, &s, old)?;
                let row = (s.what != What::Delete).then_some(s.row);
                open.own.insert((name.to_string(), s.pk), None);
                open.own.insert((name.to_string(), s.to), row);
            }
            Err(e) => self.is_excused(e, open, current, &latest, &s, old)?,
        }
        Ok(done)
    }

    /// A statement that was done: nothing may have been in its way.
    fn was_free(
        &self,
        open: &Open,
        name: &str,
        current: &Twin,
        latest: &Rows,
        s: &Statement,
        old: Option<Row>,
    ) -> Step {
        let newest = latest.get(&s.pk).cloned();
        if s.what == What::Insert && newest.is_some() {
            return Err("a row was inserted over another".into());
        }
        if s.what != What::Insert && newest != old {
            return Err(format!(
                "changed a row that is not as the view shows it: {old:?}, now {newest:?}"
            ));
        }
        if s.to != s.pk && latest.contains_key(&s.to) {
            return Err("a row was moved onto another".into());
        }
        let others = self.trxs.iter().flatten().flat_map(|o| &o.own);
        let prepared = self.history.current().prepared.values().flatten();
        for ((table, pk), row) in others.chain(prepared).filter(|((table, _), _)| table == name) {
            if *pk == s.pk || *pk == s.to {
                return Err(format!(
                    "table {table}: a row that another transaction changed was not locked"
                ));
            }
            let same_tag = current.kinds.contains(&Kind::Tag) && s.row.tag.is_some();
            if same_tag && s.what != What::Delete && row.as_ref().is_some_and(|r| r.tag == s.row.tag) {
                return Err("a unique value that another transaction has just put was given again".into());
            }
        }
        if tag_rival(current, latest, s).is_some() {
            return Err("a unique value was given twice".into());
        }
        debug_assert!(open.snapshot.is_none() || newest == old);
        Ok(())
    }

    fn is_excused(
        &mut self,
        e: &Error,
        open: &Open,
        current: &Twin,
        latest: &Rows,
        s: &Statement,
        old: Option<Row>,
    ) -> Step {
        self.end_if_undo_waits(open.trx.is_doomed());
        let others = self.losers_left
            || !self.history.current().prepared.is_empty()
            || self.trxs.iter().flatten().any(|o| !o.tables.is_empty());
        let excused = match e {
            Error::LockWaitTimeout | Error::Deadlock => others,
            Error::Conflict => open.snapshot.is_some(),
            Error::NotFound => latest.get(&s.pk) != old.as_ref(),
            Error::Duplicate { index: 0, pk } => latest.contains_key(pk) && (*pk == s.pk || *pk == s.to),
            Error::Duplicate { index, pk } => {
                current.kinds.get(*index as usize - 1) == Some(&Kind::Tag)
                    && tag_rival(current, latest, s).as_ref() == Some(pk)
            }
            _ => return self.judge("statement", e),
        };
        match excused {
            true => Ok(()),
            false => Err(format!("refused without reason: {e}")),
        }
    }

    fn look(
        &mut self,
        open: &mut Open,
        name: &str,
        current: &Twin,
        pk: &[u8],
        way: u64,
    ) -> std::result::Result<Result<()>, String> {
        let expected = Twin {
            kinds: current.kinds.clone(),
            rows: open.view(current, name),
            version: 0,
        };
        let store = self.store();
        if open.snapshot.is_none() {
            // READ COMMITTED: a view of its own for each look.
            store.trx_sys.visibility.close_view(&mut open.trx);
        }
        let index = (way % (current.kinds.len() as u64 + 1)) as u32;
        let (backward, covering) = (way & 16 != 0, way & 32 != 0 && index > 0);
        let read = store.tables().open_table(name).and_then(|table| {
            let handle = self.handle(table, &current.kinds);
            let row = handle.get(&mut open.trx, pk)?;
            let compared = handle.compare(&mut open.trx, &expected, index, backward, covering)?;
            Ok((row, compared))
        });
        if open.snapshot.is_none() {
            store.trx_sys.visibility.close_view(&mut open.trx);
        }
        match read {
            Err(e) => {
                self.judge("look", &e)?;
                Ok(Err(e))
            }
            Ok((row, compared)) => {
                compared.map_err(|what| format!("table {name}, {what}"))?;
                if row.as_ref() != expected.rows.get(pk) {
                    return Err(format!("table {name}: one row read by its key is wrong"));
                }
                Ok(Ok(()))
            }
        }
    }
}

/// The row that has the unique value.
fn tag_rival(current: &Twin, latest: &Rows, s: &Statement) -> Option<Vec<u8>> {
    if !current.kinds.contains(&Kind::Tag) || s.what == What::Delete {
        return None;
    }
    let tag = s.row.tag?;
    let rival = |(pk, row): &(&Vec<u8>, &Row)| row.tag == Some(tag) && **pk != s.pk;
    latest.iter().find(rival).map(|(pk, _)| pk.clone())
}

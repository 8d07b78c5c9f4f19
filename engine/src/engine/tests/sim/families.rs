//! Random lives of parents and children: tables that refer to each other and to themselves, changed
//! by several transactions, with crashes. The twin knows what cascades do.
//!
//! p (id, a), c (id, ref -> p.a), g (id, ref -> c.id), s (id, ref -> s.id); the actions come from
//! the seed. So does which tables have a past: the twin knows their rows of the present alone. Each
//! answer of the engine must be the twin's. The rows after a start must be the twin's, too, and no
//! row may be an orphan.
//!
//! Some inserts have company: once the parent was looked for, another transaction tries to delete
//! it.
use super::family_twin::{Actions, Key, Refusal, Rows, Statement, Twin};
use super::run::caught;
use super::setup::Setup;
use super::world::Step;
use crate::base::sync_point::at_each;
use crate::base::{Error, Result, SyncPoint};
use crate::change;
use crate::engine::steps::LoserRollback;
use crate::engine::tests::fixture::{seeds, Random};
use crate::engine::tests::foreign::family::{Cascade, Family, Restrict, SetNull, Shape, NEVER, NOW};
use crate::engine::Engine;
use crate::io::sim::SimDisk;
use crate::table::Savepoint;
use crate::txn::{Isolation, Trx};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

const USUAL: u64 = if cfg!(feature = "tiny-pages") { 400 } else { 30 };
const OPS: u64 = 150;
const SLOTS: u64 = 3;
/// Different clustered keys of a table, and values of p.a.
const IDS: u64 = 6;
const TABLES: [&str; 4] = ["p", "c", "g", "s"];

/// What a transaction has changed; None: the row is gone.
type Own = BTreeMap<Key, Option<Option<u64>>>;
/// Rows, and the changes of prepared transactions.
type State = (Rows, BTreeMap<u32, Own>);

struct Open {
    trx: Trx,
    own: Own,
    savepoint: Option<(Savepoint, Own)>,
}

struct Life {
    setup: Setup,
    random: Random,
    disk: Arc<SimDisk>,
    shapes: Vec<Shape>,
    actions: Actions,
    /// Of each table, whether it has a past.
    past: [bool; TABLES.len()],
    clock: u32,
    family: Family,
    losers: LoserRollback,
    losers_left: bool,
    trxs: Vec<Option<Open>>,
    now: State,
    /// What a crash may have left instead.
    doubt: Option<State>,
    next_xid: u32,
}

/// The columns, the clustered key, and the index of a table.
fn shape(name: &str, second: &str, has_past: bool) -> Shape {
    let indexed = |shape: Shape, columns: &str| match name {
        "p" => shape.unique(columns),
        _ => shape.index(columns),
    };
    match has_past {
        false => indexed(
            Shape::new(name, &format!("id {second}"), "id"),
            second.trim_end_matches('?'),
        ),
        true => {
            let columns = match name {
                "p" => format!("{second} end"),
                _ => second.trim_end_matches('?').to_string(),
            };
            indexed(
                Shape::new(name, &format!("id {second} end"), "id end").with_past(),
                &columns,
            )
        }
    }
}

fn apply(rows: &mut Rows, own: &Own) {
    for (key, second) in own {
        match second {
            Some(second) => rows.insert(*key, *second),
            None => rows.remove(key),
        };
    }
}

fn open(disk: &Arc<SimDisk>, setup: &Setup) -> Result<Arc<Engine>> {
    let engine = Engine::open_still(disk.clone(), setup.config())?;
    setup.set_memory(&engine);
    Ok(engine)
}

impl Life {
    fn begin(seed: u64) -> Life {
        let (setup, mut random) = (Setup::draw(seed), Random(seed.wrapping_mul(31)));
        let mut action = || [Restrict, Cascade, Cascade, SetNull][random.below(4) as usize];
        let actions = [(action(), action()), (action(), action()), (action(), action())];
        let past = TABLES.map(|_| random.chance(30));
        let c = shape("c", "ref?", past[1]);
        let g = shape("g", "ref?", past[2]);
        let s = shape("s", "ref?", past[3]);
        let shapes = vec![
            shape("p", "a", past[0]),
            c.foreign("f", "ref", "p a", actions[0].0, actions[0].1),
            g.foreign("g", "ref", "c id", actions[1].0, actions[1].1),
            s.foreign("s", "ref", "s id", actions[2].0, actions[2].1),
        ];
        let disk = SimDisk::new(seed);
        disk.set_sector(setup.sector);
        let engine = open(&disk, &setup).expect("a fresh disk");
        Life {
            setup,
            random,
            family: Family::create_in(engine, &shapes),
            disk,
            shapes,
            actions,
            past,
            clock: 1000,
            losers: LoserRollback::new(Vec::new()),
            losers_left: false,
            trxs: (0..SLOTS).map(|_| None).collect(),
            now: State::default(),
            doubt: None,
            next_xid: 0,
        }
    }

    fn text(&self, (table, id): Key, second: Option<u64>) -> String {
        let row = second.map_or(format!("{id} -"), |second| format!("{id} {second}"));
        match self.past[table] {
            true => format!("{row} {NEVER}"),
            false => row,
        }
    }
    /// The row of the past that a row becomes when it is deleted.
    fn ended_text(&self, key: Key, second: Option<u64>) -> Option<String> {
        let row = self.text(key, second);
        let kept = row.strip_suffix(NEVER).filter(|_| self.past[key.0])?;
        Some(format!("{kept}{}", NOW.get()))
    }

    fn is_gone(&self) -> bool {
        self.disk.is_dead() || self.family.store().pool.check_alive().is_err()
    }
    fn judge(&self, what: &str, done: Result<()>) -> Step {
        match done {
            Err(e) if !self.is_gone() => Err(format!("{what}: {e}")),
            _ => Ok(()),
        }
    }
    fn make_room(&self) -> Step {
        let redo = &self.family.store().redo;
        match redo.room() < redo.capacity() * 60 / 100 {
            true => self.judge("checkpoint", self.family.engine.checkpoint()),
            false => Ok(()),
        }
    }

    /// Power goes off, and on again.
    fn restart(&mut self) -> Step {
        let after = self.disk.crash(self.random.below(u32::MAX as u64));
        self.trxs.iter_mut().for_each(|trx| *trx = None);
        self.losers = LoserRollback::new(Vec::new());
        self.disk = after;
        let engine = open(&self.disk, &self.setup).map_err(|e| format!("the engine does not start: {e}"))?;
        self.losers = LoserRollback::new(engine.in_doubt.take_losers());
        self.losers_left = true;
        self.family = Family::of(engine, &self.shapes);
        let found = self.read()?;
        let prepared = self.family.engine.in_doubt.prepared();
        let prepared: Vec<u32> = prepared.iter().map(super::xid_number).collect();
        let is_it = |state: &State| {
            let mut known: Vec<u32> = state.1.keys().copied().collect();
            known.sort();
            let mut prepared = prepared.clone();
            prepared.sort();
            state.0 == found && known == prepared
        };
        match self.doubt.take() {
            _ if is_it(&self.now) => {}
            Some(other) if is_it(&other) => self.now = other,
            _ => return Err(format!("after a crash: {found:?}, expected {:?}", self.now)),
        }
        self.no_orphan()
    }
    fn read(&self) -> std::result::Result<Rows, String> {
        let mut rows = Rows::new();
        for (n, table) in TABLES.iter().enumerate() {
            for row in self.family.rows(table) {
                let fields: Vec<Option<u64>> = row.split(' ').map(|field| field.parse().ok()).collect();
                if self.past[n] && !row.ends_with(&format!(" {NEVER}")) {
                    continue;
                }
                rows.insert((n, fields[0].ok_or("a row without a key")?), fields[1]);
            }
        }
        Ok(rows)
    }
    fn no_orphan(&self) -> Step {
        self.family.orphan().map_or(Ok(()), Err)
    }

    fn op(&mut self) -> Step {
        self.make_room()?;
        let slot = self.random.below(SLOTS) as usize;
        match self.random.below(100) {
            0..=59 => self.statement(slot)?,
            60..=69 => self.commit(slot)?,
            70..=73 => self.rollback(slot)?,
            74..=76 => {
                let rollbacks = self.family.store().clone();
                if let Some(open) = &mut self.trxs[slot] {
                    open.savepoint = Some((rollbacks.rollbacks().savepoint(&open.trx), open.own.clone()));
                }
            }
            77..=79 => self.rollback_to(slot)?,
            80..=81 => self.prepare(slot)?,
            82..=84 => self.decide()?,
            85..=94 => self.background()?,
            95..=96 => {
                let after = 1 + self.random.below(30);
                self.disk.crash_at(self.disk.changes() + after);
            }
            _ => {
                let done = self.losers.step(self.family.store(), 1 + self.random.below(5) as usize);
                self.losers_left = *done.as_ref().unwrap_or(&true);
                self.judge("losers", done.map(|_| ()))?;
            }
        }
        match self.is_gone() {
            true => self.restart(),
            false => Ok(()),
        }
    }

    fn choose(&mut self, latest: &Rows) -> Statement {
        let table = self.random.below(TABLES.len() as u64) as usize;
        let key = (table, self.random.below(IDS));
        let second = match table {
            0 => Some(self.random.below(IDS)),
            _ => (!self.random.chance(20)).then(|| self.random.below(IDS)),
        };
        if !latest.contains_key(&key) {
            return Statement::Insert(key, second);
        }
        match self.random.below(4) {
            0 => Statement::Insert(key, second),
            1 => Statement::Delete(key),
            2 => Statement::Update(key, second),
            _ => Statement::Move(key, self.random.below(IDS)),
        }
    }

    fn statement(&mut self, slot: usize) -> Step {
        let mut open = self.trxs[slot].take().unwrap_or_else(|| Open {
            trx: self.family.begin_at(Isolation::ReadCommitted),
            own: Own::new(),
            savepoint: None,
        });
        let mut latest = self.now.0.clone();
        apply(&mut latest, &open.own);
        let statement = self.choose(&latest);
        self.clock += 1;
        NOW.set(self.clock);
        let company = match statement {
            Statement::Insert((1, _), Some(second)) if self.random.chance(30) => self.company(second),
            _ => None,
        };
        let done = self.run(&mut open.trx, statement, &latest);
        at_each(None);
        if let Some(key) = company.and_then(|company| company.take()) {
            // The other transaction has committed.
            let mut rows = std::mem::take(&mut self.now.0);
            rows.remove(&key);
            self.now.0 = rows;
            latest = self.now.0.clone();
            apply(&mut latest, &open.own);
        }
        let mut twin = Twin {
            rows: latest.clone(),
            actions: self.actions,
        };
        let expected = twin.run(statement);
        let others = self.losers_left
            || !self.now.1.is_empty()
            || self
                .trxs
                .iter()
                .enumerate()
                .any(|(n, other)| n != slot && other.is_some());
        let agrees = match (&done, expected) {
            (Ok(()), Ok(())) => true,
            (Err(Error::LockWaitTimeout), _) => others,
            (Err(Error::Duplicate { .. }), Err(refusal)) => refusal == Refusal::Duplicate,
            (Err(e), Err(refusal)) if e.foreign_fault().is_some() => refusal == Refusal::Foreign,
            (Err(_), _) => self.is_gone(),
            _ => false,
        };
        if done.is_ok() {
            let keys: Vec<Key> = latest.keys().chain(twin.rows.keys()).copied().collect();
            for key in keys.into_iter().filter(|key| latest.get(key) != twin.rows.get(key)) {
                open.own.insert(key, twin.rows.get(&key).copied());
            }
        }
        self.trxs[slot] = Some(open);
        match agrees {
            true => Ok(()),
            false => Err(format!(
                "{statement:?}: {done:?}, the twin says {expected:?}, of {latest:?}, {:?}",
                self.actions
            )),
        }
    }

    /// At the next moment between a check and its change, another transaction deletes the parent,
    /// if it can. What it has deleted is in the result then.
    fn company(&self, second: u64) -> Option<Rc<Cell<Option<Key>>>> {
        let key = *self.now.0.iter().find(|(key, a)| key.0 == 0 && **a == Some(second))?.0;
        let (row, ended) = (self.text(key, Some(second)), self.ended_text(key, Some(second)));
        let (family, deleted, begun) = (self.family.clone(), Rc::new(Cell::new(None)), Cell::new(false));
        let result = deleted.clone();
        at_each(Some(Rc::new(move |point| {
            if point != SyncPoint::ParentLookedFor || begun.replace(true) {
                return;
            }
            let mut trx = family.begin();
            // A cascade would make a larger change than is looked for.
            trx.row_maker = None;
            let done = match &ended {
                Some(ended) => family.update(&mut trx, "p", &row, ended),
                None => family.delete(&mut trx, "p", &row),
            };
            let ended = match done {
                Ok(()) => family.engine.commit(&mut trx, true),
                Err(_) => family.engine.rollback(&mut trx),
            };
            if done.is_ok() && ended.is_ok() {
                result.set(Some(key));
            }
        })));
        Some(deleted)
    }

    fn run(&self, trx: &mut Trx, statement: Statement, latest: &Rows) -> Result<()> {
        let old = |key: Key| self.text(key, latest[&key]);
        match statement {
            Statement::Insert(key, second) => self.family.insert(trx, TABLES[key.0], &self.text(key, second)),
            Statement::Delete(key) => match self.ended_text(key, latest[&key]) {
                Some(ended) => self.family.update(trx, TABLES[key.0], &old(key), &ended),
                None => self.family.delete(trx, TABLES[key.0], &old(key)),
            },
            Statement::Update(key, second) => {
                self.family
                    .update(trx, TABLES[key.0], &old(key), &self.text(key, second))
            }
            Statement::Move(key, to) => {
                let moved = self.text((key.0, to), latest[&key]);
                self.family.update(trx, TABLES[key.0], &old(key), &moved)
            }
        }
    }

    fn commit(&mut self, slot: usize) -> Step {
        let Some(mut open) = self.trxs[slot].take() else {
            return Ok(());
        };
        let done = self.family.engine.commit(&mut open.trx, true);
        let mut next = self.now.clone();
        apply(&mut next.0, &open.own);
        self.ended("commit", done, next)
    }
    /// `next`: what the twin is then. An end that fails may have come or not.
    fn ended(&mut self, what: &str, done: Result<()>, next: State) -> Step {
        match done {
            Ok(()) => self.now = next,
            Err(_) => self.doubt = Some(next),
        }
        self.judge(what, done)
    }
    fn rollback(&mut self, slot: usize) -> Step {
        let Some(mut open) = self.trxs[slot].take() else {
            return Ok(());
        };
        self.judge("rollback", self.family.engine.rollback(&mut open.trx))
    }
    fn rollback_to(&mut self, slot: usize) -> Step {
        let store = self.family.store().clone();
        let Some(open) = &mut self.trxs[slot] else {
            return Ok(());
        };
        let Some((at, own)) = open.savepoint.take() else {
            return Ok(());
        };
        open.own = own;
        let done = store.rollbacks().rollback_to(&mut open.trx, at);
        self.judge("rollback to a savepoint", done)
    }
    fn prepare(&mut self, slot: usize) -> Step {
        let Some(mut open) = self.trxs[slot].take_if(|open| !open.own.is_empty()) else {
            return Ok(());
        };
        self.next_xid += 1;
        let xid = super::xid(self.next_xid);
        let done = self.family.engine.prepare(&mut open.trx, &xid);
        let mut next = self.now.clone();
        next.1.insert(self.next_xid, open.own);
        if done.is_ok() {
            self.family.engine.in_doubt.keep(xid, open.trx);
        }
        self.ended("prepare", done, next)
    }
    fn decide(&mut self) -> Step {
        let Some((number, own)) = self.now.1.first_key_value().map(|(number, own)| (*number, own.clone())) else {
            return Ok(());
        };
        let commit = self.random.chance(50);
        let done = self.family.engine.decide(&super::xid(number), commit);
        let mut next = self.now.clone();
        next.1.remove(&number);
        if commit {
            apply(&mut next.0, &own);
        }
        self.ended("decide", done, next)
    }

    fn background(&mut self) -> Step {
        let store = self.family.store().clone();
        let pages = 1 + self.random.below(30);
        let done = match self.random.below(5) {
            0 => store.purger().purge_step(pages as usize).map(|_| ()),
            1 => {
                let flushed = store.pool.flusher().step(pages as usize);
                store.pool.evict_clean();
                flushed.map(|_| ())
            }
            2 => self.family.engine.checkpoint(),
            n => {
                let table = self
                    .family
                    .table(TABLES[self.random.below(TABLES.len() as u64) as usize]);
                let mut merged = Ok(());
                for s in &table.layout().secondary {
                    match &s.index.delta {
                        Some(delta) if n == 3 => delta.begin_partition(),
                        _ => merged = merged.and(change::sweep_step(&store.pool, &s.index, 2).map(|_| ())),
                    }
                }
                merged
            }
        };
        self.judge("background work", done)
    }

    fn end(&mut self) -> Step {
        for _ in 0..2 {
            for slot in 0..SLOTS as usize {
                self.rollback(slot)?;
            }
            while self.losers_left && !self.is_gone() {
                self.make_room()?;
                let done = self.losers.step(self.family.store(), 8);
                self.losers_left = *done.as_ref().unwrap_or(&true);
                self.judge("losers", done.map(|_| ()))?;
            }
            // An armed crash may come as late as here.
            if self.is_gone() {
                self.restart()?;
            }
        }
        while !self.now.1.is_empty() {
            self.decide()?;
        }
        let found = self.read()?;
        if found != self.now.0 {
            return Err(format!("at the end: {found:?}, expected {:?}", self.now.0));
        }
        self.family.check();
        while self.family.store().purger().purge_step(50).map_err(|e| e.to_string())? {
            self.make_room()?;
        }
        self.family.check();
        Ok(())
    }
}

fn live(seed: u64) -> Step {
    let mut life = Life::begin(seed);
    for n in 0..OPS {
        life.op().map_err(|what| format!("op {n}: {what}"))?;
    }
    life.disk.heal();
    life.end()
}

#[test]
fn random_families_have_no_orphans() {
    for seed in seeds(USUAL) {
        if let Some(finding) = caught(|| live(seed)) {
            panic!("seed {seed}: {finding}");
        }
    }
}

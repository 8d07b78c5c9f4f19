//! The sessions of a history and whose turn it is; what runs beside them. The rows: lists and registers in the rig's table, a row's value
//! written last as its tag, and its group among those of its slot changing with every write; so its entries move in both indexes.
use super::super::rig::*;
use crate::base::Error;
use crate::engine::Engine;
use crate::io::sim::SimDisk;
use crate::table::{Cursor, LockChoice, Savepoint};
use crate::txn::{Isolation, LockMode, ThreadWaiter, Trx};
use isolation_judge::{End, Form, History, Item, Level, Lock, Op, Seen, Time, Transaction, Value};
use std::collections::HashMap;
use std::sync::Arc;

pub(super) const SESSIONS: usize = 6;
/// Lists that are appended to at a time; each goes on under a new key when it is long.
pub(super) const SLOTS: u32 = 5;
pub(super) const LIST_MAX: u32 = 8;
pub(super) const REGISTERS: u32 = 4;
pub(super) const FIRST_REGISTER: u32 = 1_000_000;
/// Groups of one slot: a row's place among them changes with every write. The registers are the slot behind the lists.
pub(super) const BAND: u64 = 40;
pub(super) const TRIES_MAX: u32 = 6;

/// What a read wants.
#[derive(Clone, Copy)]
pub(super) enum Aim {
    /// One row by its key.
    Key(u32),
    /// The lists of these slots by their places.
    Slots(u32, u32),
    /// All registers by their places.
    Registers,
    /// Every row's last value, by the covering index of values.
    All,
}

#[derive(Clone, Copy)]
pub(super) enum Step {
    Read(Aim, Lock),
    /// Locked, and then written: the server's UPDATE.
    Append(u32),
    /// Read, and written back at a later turn.
    ReadForWriteBack(u32),
    WriteBack(u32),
    SetRegister(u32),
    RemoveRegister(u32),
    /// Rows found by their places are locked, and then written: the slot's list, or all registers.
    WriteFound(Aim),
    /// A row that is not there yet, and one that may be: then neither is.
    InsertTwo(u32),
    Savepoint,
    RollbackTo,
}

/// A scan under way.
pub(super) struct Scan {
    pub(super) cursor: Cursor,
    pub(super) covering: bool,
    pub(super) backward: bool,
    pub(super) begun: bool,
    pub(super) found: Vec<(u32, Seen)>,
}

#[derive(Default)]
pub(super) struct Session {
    pub(super) trx: Option<Trx>,
    pub(super) steps: Vec<Step>,
    pub(super) at: usize,
    pub(super) tries: u32,
    pub(super) scan: Option<Scan>,
    pub(super) savepoint: Option<Savepoint>,
    /// Of the list to be written back: what was read, and as which row.
    pub(super) read: Option<(Row, Vec<Value>)>,
    pub(super) ops: Vec<Op>,
    /// Turns: of the first statement or the snapshot, of the statement, of this part of it.
    pub(super) begun: Option<Time>,
    pub(super) sent: Time,
    pub(super) now: Time,
}

pub(super) struct World {
    pub(super) disk: Arc<SimDisk>,
    pub(super) rig: Rig,
    pub(super) random: Random,
    /// How the engine runs.
    pub(super) level: Level,
    pub(super) sessions: Vec<Session>,
    pub(super) appends: HashMap<u32, u32>,
    pub(super) values: Value,
    pub(super) turns: Time,
    pub(super) history: History,
}

pub(super) fn key_bytes(key: u32) -> Vec<u8> {
    key.to_be_bytes().to_vec()
}
pub(super) fn key_of(pk: &[u8]) -> u32 {
    u32::from_be_bytes(pk.try_into().expect("four bytes"))
}
pub(super) fn item(key: u32) -> Item {
    match key.checked_sub(FIRST_REGISTER) {
        Some(register) => Item::Register(register),
        None => Item::List(key),
    }
}
pub(super) fn list_of(row: &Row) -> Vec<Value> {
    let values = row.body.chunks_exact(4);
    values
        .map(|b| u32::from_le_bytes(b.try_into().expect("four")))
        .collect()
}
pub(super) fn seen(key: u32, row: &Row) -> Seen {
    match (item(key), row.tag) {
        (Item::List(_), _) => Seen::List(list_of(row)),
        (Item::Register(_), None) => Seen::Initial,
        (Item::Register(_), Some(value)) => Seen::Last(value as Value),
    }
}

impl World {
    pub(super) fn new(seed: u64, level: Level) -> World {
        let disk = SimDisk::new(seed);
        let engine = Engine::open_still(disk.clone(), config()).expect("fresh engine");
        let mut world = World {
            rig: Rig::with(engine),
            disk,
            random: Random(seed),
            level,
            sessions: (0..SESSIONS).map(|_| Session::default()).collect(),
            appends: HashMap::new(),
            values: 0,
            turns: 0,
            history: History::default(),
        };
        world.settings();
        let mut trx = world.rig.begin(Isolation::ReadCommitted);
        for n in 0..REGISTERS {
            let row = world.row(SLOTS, None, &[]);
            let key = key_bytes(FIRST_REGISTER + n);
            world.rig.insert(&mut trx, &key, &row).expect("inserted");
        }
        world.rig.engine.commit(&mut trx, true).expect("committed");
        world
    }
    pub(super) fn settings(&self) {
        let loose = self.level == Level::LooseRepeatableRead;
        let engine = &self.rig.engine;
        engine.set("snapshot_isolation", !loose as u64).expect("set");
        engine.set("flush_log_at_trx_commit", 1).expect("set");
    }
    pub(super) fn isolation(&self) -> Isolation {
        match self.level {
            Level::ReadUncommitted => Isolation::ReadUncommitted,
            Level::ReadCommitted => Isolation::ReadCommitted,
            Level::LooseRepeatableRead | Level::RepeatableRead => Isolation::RepeatableRead,
            Level::Serializable => Isolation::Serializable,
        }
    }
    pub(super) fn value(&mut self) -> Value {
        self.values += 1;
        assert!(self.values < 60_000, "a value is a tag");
        self.values
    }
    pub(super) fn row(&mut self, slot: u32, tag: Option<u16>, list: &[Value]) -> Row {
        Row {
            group: (slot as u64 * BAND + self.random.below(BAND)) as u8,
            shade: self.random.below(3) as u8,
            tag,
            body: list.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }
    /// The key that the slot's appends go to now.
    pub(super) fn key(&self, slot: u32) -> u32 {
        slot + SLOTS * (self.appends.get(&slot).copied().unwrap_or(0) / LIST_MAX)
    }

    pub(super) fn plan(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        let wanted = 1 + self.random.below(4);
        let savepoint = (self.random.below(8) == 0).then(|| self.random.below(wanted));
        for n in 0..wanted {
            if savepoint == Some(n) && n > 0 {
                steps.push(Step::Savepoint);
                self.plan_one(&mut steps);
                steps.push(Step::RollbackTo);
            }
            self.plan_one(&mut steps);
        }
        steps
    }
    pub(super) fn plan_one(&mut self, steps: &mut Vec<Step>) {
        let slot = self.random.below(SLOTS as u64) as u32;
        let lock = [Lock::None, Lock::None, Lock::None, Lock::Share, Lock::Update][self.random.below(5) as usize];
        match self.random.below(100) {
            0..=21 => steps.push(Step::Append(slot)),
            22..=33 => steps.extend([Step::ReadForWriteBack(slot), Step::WriteBack(slot)]),
            34..=44 => steps.push(Step::SetRegister(self.random.below(REGISTERS as u64) as u32)),
            45..=47 => steps.push(Step::RemoveRegister(self.random.below(REGISTERS as u64) as u32)),
            48..=53 => steps.push(Step::WriteFound(match self.random.below(3) {
                0 => Aim::Registers,
                _ => Aim::Slots(slot, slot),
            })),
            54..=57 => steps.push(Step::InsertTwo(slot)),
            58..=69 => steps.push(Step::Read(Aim::Key(self.key(slot)), lock)),
            70..=84 => {
                let to = (slot + self.random.below(3) as u32).min(SLOTS - 1);
                steps.push(Step::Read(Aim::Slots(slot, to), lock));
            }
            85..=92 => steps.push(Step::Read(Aim::Registers, lock)),
            _ => steps.push(Step::Read(Aim::All, Lock::None)),
        }
    }

    /// A lock for reads that are written back, where a level without one would lose updates and promises no better.
    pub(super) fn lock_before_write(&self) -> Lock {
        match self.level {
            Level::ReadUncommitted | Level::ReadCommitted => Lock::Update,
            _ => Lock::None,
        }
    }
    pub(super) fn choice(&self, lock: Lock) -> LockChoice {
        let mode = match lock {
            Lock::None if self.level == Level::Serializable => Some(LockMode::Shared),
            Lock::None => None,
            Lock::Share => Some(LockMode::Shared),
            Lock::Update => Some(LockMode::Exclusive),
        };
        LockChoice {
            mode,
            ..LockChoice::default()
        }
    }

    // ---- turns ----

    pub(super) fn turn(&mut self) {
        let n = self.random.below(SESSIONS as u64) as usize;
        let mut session = std::mem::take(&mut self.sessions[n]);
        self.turns += 1;
        session.now = self.turns;
        if session.trx.is_none() {
            self.begin(&mut session, n);
        } else if session.at == session.steps.len() {
            let commit = self.random.chance(92);
            self.end(&mut session, n, commit);
        } else {
            self.step(&mut session, n);
        }
        self.sessions[n] = session;
    }
    pub(super) fn begin(&mut self, session: &mut Session, n: usize) {
        let engine = &self.rig.engine;
        let mut trx = engine.new_trx(Arc::new(ThreadWaiter::new()), n as u64);
        // Nobody else runs, so waiting for a lock is over at once.
        engine.start(&mut trx, self.isolation(), 0);
        trx.snapshot_by_locking = true;
        let with_snapshot = self.isolation() == Isolation::RepeatableRead && self.random.below(8) == 0;
        if with_snapshot {
            self.rig.store().trx_sys.open_view(&mut trx);
        }
        *session = Session {
            trx: Some(trx),
            steps: self.plan(),
            begun: with_snapshot.then_some(self.turns),
            ..Session::default()
        };
    }
    pub(super) fn end(&mut self, session: &mut Session, n: usize, commit: bool) {
        let mut trx = session.trx.take().expect("begun");
        session.scan = None;
        let end = match commit {
            true => self.rig.engine.commit(&mut trx, true).map(|()| End::Committed),
            false => self.rig.engine.rollback(&mut trx).map(|()| End::RolledBack),
        };
        self.record(session, n, end.expect("nothing fails here"));
    }
    fn record(&mut self, session: &mut Session, n: usize, end: End) {
        self.history.transactions.push(Transaction {
            session: n as u32,
            form: Form::Begin,
            end,
            ops: std::mem::take(&mut session.ops),
            begun: session.begun.unwrap_or(self.turns),
            commit_sent: self.turns,
            committed: (end == End::Committed).then_some(self.turns),
        });
    }
    pub(super) fn step(&mut self, session: &mut Session, n: usize) {
        let step = session.steps[session.at];
        if session.scan.is_none() {
            session.sent = session.now;
        }
        if !matches!(step, Step::Savepoint | Step::RollbackTo) {
            session.begun.get_or_insert(session.now);
        }
        let trx = session.trx.as_mut().expect("begun");
        if session.scan.is_none() && self.isolation() <= Isolation::ReadCommitted {
            self.rig.store().trx_sys.close_view(trx);
        }
        let before = self.rig.store().savepoint(trx);
        let known = session.ops.len();
        match self.perform(session, step) {
            Ok(true) => (session.at, session.tries) = (session.at + 1, 0),
            Ok(false) => {}
            Err(Error::LockWaitTimeout) if session.tries < TRIES_MAX => {
                session.tries += 1;
                session.ops.truncate(known);
                session.scan = None;
                let trx = session.trx.as_mut().expect("begun");
                self.rig.store().rollback_to(trx, before).expect("undone");
            }
            Err(Error::LockWaitTimeout | Error::Deadlock | Error::Conflict | Error::Duplicate { .. }) => {
                self.end(session, n, false);
            }
            Err(e) => panic!("{e}"),
        }
    }

    // ---- the background, and the end ----

    pub(super) fn background(&mut self) {
        let store = self.rig.store().clone();
        match self.random.below(100) {
            0..=39 => drop(store.purge_step(1 + self.random.below(30) as usize).expect("purge")),
            40..=69 => self.rig.merge_some(&mut self.random).expect("merge"),
            70..=89 => drop(
                store
                    .pool
                    .flush_step(1 + self.random.below(20) as usize)
                    .expect("flush"),
            ),
            // Both take their time.
            90 => self.rig.engine.checkpoint().expect("checkpoint"),
            91 => self.crash(),
            _ => {}
        }
    }
    /// What is committed is durable; the others are gone.
    pub(super) fn crash(&mut self) {
        for n in 0..SESSIONS {
            let mut session = std::mem::take(&mut self.sessions[n]);
            if session.trx.is_some() {
                self.record(&mut session, n, End::RolledBack);
            }
            // Its transaction is the dead engine's.
            session.scan = None;
            std::mem::forget(session.trx.take());
        }
        self.disk = self.disk.crash(self.random.below(1 << 30));
        let engine = Engine::open_still(self.disk.clone(), config()).expect("recovery");
        let mut losers = crate::engine::steps::LoserRollback::new(std::mem::take(&mut *engine.losers.lock()));
        while losers.step(engine.store(), 10).expect("rollback") {}
        let table = engine.store().open_table("t").expect("open");
        self.rig = Rig { engine, table };
        self.settings();
    }
    pub(super) fn finish(mut self) -> History {
        for n in 0..SESSIONS {
            let mut session = std::mem::take(&mut self.sessions[n]);
            if session.trx.is_some() {
                self.end(&mut session, n, false);
            }
        }
        let mut trx = self.rig.begin(Isolation::RepeatableRead);
        let rows = self.rig.scan(&mut trx, 0, false, false, None).expect("scan");
        self.rig.engine.commit(&mut trx, false).expect("commit");
        let each = |f: &Scanned| (item(key_of(&f.pk)), seen(key_of(&f.pk), &Row::decode(&f.row)));
        let left = rows.iter().map(each).filter(|(_, seen)| *seen != Seen::Nothing);
        self.history.left = Some(left.collect());
        self.rig.check_table();
        self.history
    }
}

//! The sessions of a history and whose turn it is; what runs beside them. The rows are lists and
//! registers in the fixture's table. A row's tag is the value written last. Its group is one of
//! those of its slot and changes with every write, so its entries move in both indexes.
use super::super::fixture::*;
use crate::base::{Error, SyncPoint};
use crate::engine::Engine;
use crate::io::sim::SimDisk;
use crate::table::{Cursor, LockChoice, Savepoint};
use crate::txn::{Isolation, LockMode, ThreadWaiter, Trx};
use isolation_judge::{End, Form, History, Item, Level, Lock, Op, Seen, Time, Transaction, Value};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

pub(super) const SESSIONS: usize = 6;
/// Lists that are appended to at a time; each goes on under a new key when it is long.
pub(super) const SLOTS: u32 = 5;
pub(super) const LIST_MAX: u32 = 8;
pub(super) const REGISTERS: u32 = 4;
pub(super) const FIRST_REGISTER: u32 = 1_000_000;
/// Groups of one slot: a row's place among them changes with every write. The registers are the
/// slot after the lists.
pub(super) const BAND: u64 = 40;
pub(super) const TRIES_MAX: u32 = 6;
/// How often other sessions have turns in the middle of a statement, at each possible moment. How
/// many turns they have at most. How deep turns are nested: in the middle of theirs, too.
const MEANWHILE_PERCENT: u64 = 3;
const MEANWHILE_TURNS: u64 = 8;
const DEPTH_MAX: u32 = 2;

/// What a read wants.
#[derive(Clone, Copy)]
pub(super) enum Aim {
    /// One row by its key.
    Key(u32),
    /// The lists of these slots by their places.
    Slots(u32, u32),
    /// All registers by their places.
    Registers,
    /// All registers by their keys, as an UPDATE at READ COMMITTED looks at them first: what is
    /// locked as it was committed.
    RegistersByKey,
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
    /// Turns: of the first statement or the snapshot, of the statement.
    pub(super) begun: Option<Time>,
    pub(super) sent: Time,
}

pub(super) struct World {
    disk: RefCell<Arc<SimDisk>>,
    fixture: RefCell<Rc<TableFixture>>,
    random: RefCell<Random>,
    /// How the engine runs.
    pub(super) level: Level,
    /// None: it is in the middle of a statement, and the others have turns meanwhile.
    sessions: RefCell<Vec<Option<Session>>>,
    appends: RefCell<HashMap<u32, u32>>,
    values: Cell<Value>,
    turns: Cell<Time>,
    /// Statements that others are in the middle of.
    depth: Cell<u32>,
    /// How often others had turns in the middle of a statement.
    pub(super) meanwhiles: Cell<u64>,
    pub(super) history: RefCell<History>,
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
        let world = World {
            fixture: RefCell::new(Rc::new(TableFixture::with(engine))),
            disk: RefCell::new(disk),
            random: RefCell::new(Random(seed)),
            level,
            sessions: RefCell::new((0..SESSIONS).map(|_| Some(Session::default())).collect()),
            appends: RefCell::default(),
            values: Cell::new(0),
            turns: Cell::new(0),
            depth: Cell::new(0),
            meanwhiles: Cell::new(0),
            history: RefCell::default(),
        };
        world.settings();
        let fixture = world.fixture();
        let mut trx = fixture.begin(Isolation::ReadCommitted);
        for n in 0..REGISTERS {
            let row = world.row(SLOTS, None, &[]);
            let key = key_bytes(FIRST_REGISTER + n);
            fixture.insert(&mut trx, &key, &row).expect("inserted");
        }
        fixture.engine.commit(&mut trx, true).expect("committed");
        world
    }
    pub(super) fn fixture(&self) -> Rc<TableFixture> {
        self.fixture.borrow().clone()
    }
    pub(super) fn below(&self, n: u64) -> u64 {
        self.random.borrow_mut().below(n)
    }
    fn chance(&self, percent: u64) -> bool {
        self.random.borrow_mut().chance(percent)
    }
    pub(super) fn now(&self) -> Time {
        self.turns.get()
    }
    pub(super) fn appended(&self, slot: u32) {
        *self.appends.borrow_mut().entry(slot).or_default() += 1;
    }
    pub(super) fn settings(&self) {
        let loose = self.level == Level::LooseRepeatableRead;
        let fixture = self.fixture();
        let engine = &fixture.engine;
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
    pub(super) fn value(&self) -> Value {
        self.values.set(self.values.get() + 1);
        assert!(self.values.get() < 60_000, "a value is a tag");
        self.values.get()
    }
    pub(super) fn row(&self, slot: u32, tag: Option<u16>, list: &[Value]) -> Row {
        Row {
            group: (slot as u64 * BAND + self.below(BAND)) as u8,
            shade: self.below(3) as u8,
            tag,
            body: list.iter().flat_map(|v| v.to_le_bytes()).collect(),
        }
    }
    /// The key that the slot's appends go to now.
    pub(super) fn key(&self, slot: u32) -> u32 {
        slot + SLOTS * (self.appends.borrow().get(&slot).copied().unwrap_or(0) / LIST_MAX)
    }

    pub(super) fn plan(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let wanted = 1 + self.below(4);
        let savepoint = (self.below(8) == 0).then(|| self.below(wanted));
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
    pub(super) fn plan_one(&self, steps: &mut Vec<Step>) {
        let slot = self.below(SLOTS as u64) as u32;
        let lock = [Lock::None, Lock::None, Lock::None, Lock::Share, Lock::Update][self.below(5) as usize];
        match self.below(100) {
            0..=21 => steps.push(Step::Append(slot)),
            22..=33 => steps.extend([Step::ReadForWriteBack(slot), Step::WriteBack(slot)]),
            34..=44 => steps.push(Step::SetRegister(self.below(REGISTERS as u64) as u32)),
            45..=47 => steps.push(Step::RemoveRegister(self.below(REGISTERS as u64) as u32)),
            48..=53 => steps.push(Step::WriteFound(match self.below(6) {
                0 => Aim::Registers,
                1..=3 => Aim::RegistersByKey,
                _ => Aim::Slots(slot, slot),
            })),
            54..=57 => steps.push(Step::InsertTwo(slot)),
            58..=69 => steps.push(Step::Read(Aim::Key(self.key(slot)), lock)),
            70..=84 => {
                let to = (slot + self.below(3) as u32).min(SLOTS - 1);
                steps.push(Step::Read(Aim::Slots(slot, to), lock));
            }
            85..=92 => steps.push(Step::Read(Aim::Registers, lock)),
            _ => steps.push(Step::Read(Aim::All, Lock::None)),
        }
    }

    /// A lock for reads that are written back, where a level without one would lose updates and
    /// promises no better.
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

    pub(super) fn turn(&self) {
        let n = self.below(SESSIONS as u64) as usize;
        let Some(mut session) = self.sessions.borrow_mut()[n].take() else {
            return;
        };
        self.turns.set(self.turns.get() + 1);
        let turn = self.now();
        if session.trx.is_none() {
            self.begin(&mut session, n);
        } else if session.at == session.steps.len() {
            let commit = self.chance(92);
            self.end(&mut session, n, commit);
        } else {
            self.step(&mut session, n, turn);
        }
        self.sessions.borrow_mut()[n] = Some(session);
    }
    /// In the middle of a statement, where it holds no latch: now and then others have turns.
    pub(super) fn meanwhile(&self, now: SyncPoint) {
        let is_free = matches!(
            now,
            SyncPoint::EntryCopied
                | SyncPoint::VersionCopied
                | SyncPoint::SteppedBack
                | SyncPoint::CommittedVersionFound
                | SyncPoint::RowOfEntryCopied
                | SyncPoint::EndSeen
        );
        if !is_free || self.depth.get() == DEPTH_MAX || !self.chance(MEANWHILE_PERCENT) {
            return;
        }
        self.depth.set(self.depth.get() + 1);
        self.meanwhiles.set(self.meanwhiles.get() + 1);
        for _ in 0..1 + self.below(MEANWHILE_TURNS) {
            self.turn();
            if self.below(10) == 0 {
                self.beside();
            }
        }
        // What comes of the statement comes later.
        self.turns.set(self.turns.get() + 1);
        self.depth.set(self.depth.get() - 1);
    }
    pub(super) fn begin(&self, session: &mut Session, n: usize) {
        let fixture = self.fixture();
        let engine = &fixture.engine;
        let mut trx = engine.new_trx(Arc::new(ThreadWaiter::new()), n as u64);
        // No other thread runs, so waiting for a lock is over at once.
        engine.start(&mut trx, self.isolation(), 0);
        trx.snapshot_by_locking = true;
        let with_snapshot = self.isolation() == Isolation::RepeatableRead && self.below(8) == 0;
        if with_snapshot {
            fixture.store().trx_sys.visibility.open_view(&mut trx);
        }
        *session = Session {
            trx: Some(trx),
            steps: self.plan(),
            begun: with_snapshot.then_some(self.now()),
            ..Session::default()
        };
    }
    pub(super) fn end(&self, session: &mut Session, n: usize, commit: bool) {
        let mut trx = session.trx.take().expect("begun");
        session.scan = None;
        let (fixture, sent) = (self.fixture(), self.now());
        let end = match commit {
            true => fixture.engine.commit(&mut trx, true).map(|()| End::Committed),
            false => fixture.engine.rollback(&mut trx).map(|()| End::RolledBack),
        };
        self.record(session, n, end.expect("nothing fails here"), sent);
    }
    fn record(&self, session: &mut Session, n: usize, end: End, sent: Time) {
        self.history.borrow_mut().transactions.push(Transaction {
            session: n as u32,
            node: 0,
            form: Form::Begin,
            end,
            ops: std::mem::take(&mut session.ops),
            begun: session.begun.unwrap_or(sent),
            commit_sent: sent,
            committed: (end == End::Committed).then_some(self.now()),
        });
    }
    pub(super) fn step(&self, session: &mut Session, n: usize, turn: Time) {
        let (step, fixture) = (session.steps[session.at], self.fixture());
        if session.scan.is_none() {
            session.sent = turn;
        }
        if !matches!(step, Step::Savepoint | Step::RollbackTo) {
            session.begun.get_or_insert(turn);
        }
        let trx = session.trx.as_mut().expect("begun");
        if session.scan.is_none() && self.isolation() <= Isolation::ReadCommitted {
            fixture.store().trx_sys.visibility.close_view(trx);
        }
        let before = fixture.store().rollbacks().savepoint(trx);
        let known = session.ops.len();
        match self.perform(session, step) {
            Ok(true) => (session.at, session.tries) = (session.at + 1, 0),
            Ok(false) => {}
            Err(Error::LockWaitTimeout) if session.tries < TRIES_MAX => {
                session.tries += 1;
                session.ops.truncate(known);
                session.scan = None;
                let trx = session.trx.as_mut().expect("begun");
                fixture.store().rollbacks().rollback_to(trx, before).expect("undone");
            }
            Err(Error::LockWaitTimeout | Error::Deadlock | Error::Conflict | Error::Duplicate { .. }) => {
                self.end(session, n, false);
            }
            Err(e) => panic!("{e}"),
        }
    }

    // ---- the background, and the end ----

    pub(super) fn background(&self) {
        match self.below(100) {
            // Both take their time.
            0 => self.fixture().engine.checkpoint().expect("checkpoint"),
            1 => self.crash(),
            2..=10 => {}
            _ => self.beside(),
        }
    }
    fn beside(&self) {
        let fixture = self.fixture();
        let store = fixture.store();
        match self.below(10) {
            0..=3 => drop(store.purger().purge_step(1 + self.below(30) as usize).expect("purge")),
            4..=6 => fixture.merge_some(&mut self.random.borrow_mut()).expect("merge"),
            _ => {
                let pages = 1 + self.below(20) as usize;
                store.pool.flusher().step(pages).expect("flush");
            }
        }
    }
    /// What is committed is durable; the others are gone.
    pub(super) fn crash(&self) {
        // No session has a turn while the engine is opened.
        self.depth.set(DEPTH_MAX);
        for n in 0..SESSIONS {
            let session = self.sessions.borrow_mut()[n].replace(Session::default());
            let mut session = session.expect("no session is in the middle of a statement");
            if session.trx.is_some() {
                self.record(&mut session, n, End::RolledBack, self.now());
            }
            // Its transaction is the dead engine's.
            session.scan = None;
            std::mem::forget(session.trx.take());
        }
        let disk = self.disk.borrow().crash(self.below(1 << 30));
        let engine = Engine::open_still(disk.clone(), config()).expect("recovery");
        *self.disk.borrow_mut() = disk;
        let mut losers = crate::engine::steps::LoserRollback::new(engine.in_doubt.take_losers());
        while losers.step(engine.store(), 10).expect("rollback") {}
        let table = engine.store().tables().open_table("t").expect("open");
        *self.fixture.borrow_mut() = Rc::new(TableFixture { engine, table });
        self.settings();
        self.depth.set(0);
    }
    pub(super) fn finish(&self) -> History {
        for n in 0..SESSIONS {
            let session = self.sessions.borrow_mut()[n].take();
            let mut session = session.expect("no session is in the middle of a statement");
            if session.trx.is_some() {
                self.end(&mut session, n, false);
            }
        }
        let fixture = self.fixture();
        let mut trx = fixture.begin(Isolation::RepeatableRead);
        let rows = fixture.scan(&mut trx, 0, false, false, None).expect("scan");
        fixture.engine.commit(&mut trx, false).expect("commit");
        let each = |f: &Scanned| (item(key_of(&f.pk)), seen(key_of(&f.pk), &Row::decode(&f.row)));
        let left = rows.iter().map(each).filter(|(_, seen)| *seen != Seen::Nothing);
        let mut history = self.history.take();
        history.left = Some(left.collect());
        fixture.check_table();
        history
    }
}

//! One simulated life of an engine on a disk: applies ops, keeps the twin, and judges every answer.
//!
//! One thread, no clock but the disk's, nothing random but the seed: the same seed and ops give the same run, down to the last
//! call of the disk (`SimDisk::trace`). Every `Err(String)` is a finding. Errors of the engine are judged: without bad luck
//! it may refuse a statement only for a reason that the twin shows; after bad luck it may fail, and must then be right at
//! the next start.
use super::log_switch::LogState;
use super::op::{Op, SLOTS};
use super::table::Handle;
use super::twin::{Change, History, Kind, RowChanges, State, Twin};
use crate::base::{Error, Result};
use crate::change::{self, Buffering};
use crate::engine::steps::{self, Checkpointer, LoserRollback};
use crate::engine::tests::rig::{Random, Row};
use crate::engine::{Close, Config, Engine};
use crate::io::sim::{Damage, SimDisk};
use crate::pool::PAGE_SIZE;
use crate::table::{Savepoint, Store, StoreConfig, Table};
use crate::txn::{Isolation, ThreadWaiter, Trx};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

/// A finding, or nothing to say.
pub type Step = std::result::Result<(), String>;

/// Of the smallest log: an op must fit into half of it, whatever it splits.
pub const REDO_CAPACITY: u64 = 64 * PAGE_SIZE as u64;

/// What the seed decides beside the ops.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub seed: u64,
    /// Of the buffer pool.
    pub frames: u64,
    pub redo_capacity: u64,
    /// What the disk never tears.
    pub sector: usize,
    pub doublewrite: bool,
    pub direct_io: bool,
    /// Changes of secondary indexes: 0 none is buffered, 1 all are, 2 those of half the keys, 3 as it pays.
    pub buffer: u8,
    /// Index builds go past the pool and the log, however small.
    pub load_past: bool,
}

impl Setup {
    pub fn draw(seed: u64) -> Setup {
        let mut random = Random(seed ^ 0x5e7u64);
        // Without doublewrite a page must be written whole or not at all.
        let sector = [512, 512, 512, 4096, PAGE_SIZE][random.below(5) as usize];
        Setup {
            seed,
            frames: 24 + random.below(60),
            redo_capacity: REDO_CAPACITY << random.below(3),
            sector,
            doublewrite: sector < PAGE_SIZE || random.chance(50),
            direct_io: random.chance(50),
            buffer: [1, 1, 2, 3, 0][random.below(5) as usize],
            load_past: random.chance(50),
        }
    }
    fn config(&self) -> Config {
        let store = StoreConfig {
            bulk_load_min: if self.load_past { 0 } else { u64::MAX },
            ..StoreConfig::default()
        };
        Config {
            store,
            buffer_pool_size: self.frames * PAGE_SIZE as u64,
            redo_log_capacity: self.redo_capacity,
            redo_log_buffer_size: 128 << 10,
            read_io_threads: 0,
            open_files: 3,
            doublewrite: self.doublewrite,
            direct_io: self.direct_io,
            change_buffering: if self.buffer == 0 {
                Buffering::None
            } else {
                Buffering::All
            },
            change_buffer_test_mode: self.buffer % 3,
            ..Config::default()
        }
    }
}

/// A transaction under way.
pub struct Open {
    pub trx: Trx,
    /// What its view shows; None: READ COMMITTED.
    pub snapshot: Option<Rc<State>>,
    /// Its own changes.
    pub own: RowChanges,
    savepoints: Vec<(Savepoint, RowChanges)>,
    /// Tables that DDL must leave alone meanwhile (the server's metadata locks).
    pub tables: BTreeSet<String>,
}

pub struct World {
    pub setup: Setup,
    pub disk: Arc<SimDisk>,
    engine: Option<Arc<Engine>>,
    pub trxs: Vec<Option<Open>>,
    losers: LoserRollback,
    pub losers_left: bool,
    freed: bool,
    checkpointer: Checkpointer,
    pub history: History,
    pub log: LogState,
    pub random: Random,
    next_name: u32,
    next_xid: u32,
    /// `SimDisk::struck` when this engine started.
    struck: u64,
    space_limited: bool,
    /// The disk may have lied (rule S8).
    pub lied: bool,
    /// A write may have been lost: this run must notice, the next one need not (`pool/written.rs`).
    lost: bool,
    /// The damage was noticed: nothing more can be asked.
    pub over: bool,
}

impl World {
    pub fn new(setup: Setup) -> World {
        let disk = SimDisk::new(setup.seed);
        disk.set_sector(setup.sector);
        World {
            disk,
            engine: None,
            trxs: (0..SLOTS).map(|_| None).collect(),
            losers: LoserRollback::new(Vec::new()),
            losers_left: false,
            freed: true,
            checkpointer: Checkpointer::default(),
            history: History::default(),
            log: LogState::default(),
            random: Random(setup.seed.wrapping_mul(77)),
            next_name: 0,
            next_xid: 0,
            struck: 0,
            space_limited: false,
            lied: false,
            lost: false,
            over: false,
            setup,
        }
    }

    pub fn engine(&self) -> &Arc<Engine> {
        self.engine.as_ref().expect("an engine is open")
    }
    pub fn store(&self) -> Arc<Store> {
        self.engine().store().clone()
    }
    /// The engine cannot go on: it has to be started again.
    fn is_gone(&self) -> bool {
        self.disk.is_dead() || self.store().pool.check_alive().is_err()
    }
    /// Something of rules S4 to S6 or S8 happened to this engine.
    pub fn bad_luck(&self) -> bool {
        self.disk.is_dead() || self.disk.struck() > self.struck || self.space_limited || self.lied
    }

    // ---- starting ----

    /// Opens the engine on the disk as it is, and checks all it holds. False: bad luck, try again after a crash.
    pub fn start(&mut self) -> std::result::Result<bool, String> {
        self.struck = self.disk.struck();
        let opened = Engine::open_still(self.disk.clone(), self.setup.config());
        let refused = self.judge_log(&opened)?;
        let engine = match opened {
            _ if refused => return Ok(false),
            Ok(engine) => engine,
            Err(e) => {
                self.judge("open", &e)?;
                return Ok(false);
            }
        };
        self.losers = LoserRollback::new(std::mem::take(&mut *engine.losers.lock()));
        (self.losers_left, self.freed) = (true, false);
        self.engine = Some(engine);
        let found = match self.read_state() {
            Ok(found) => found,
            Err(e) => {
                self.judge("reading everything after a start", &e)?;
                return Ok(false);
            }
        };
        self.history.settle(&found)?;
        match self.compare_all() {
            Ok(()) => Ok(true),
            Err(Finding::Wrong(what)) => Err(format!("after a start: {what}")),
            Err(Finding::Refused(e)) => self.judge("comparing indexes after a start", &e).map(|()| false),
        }
    }

    /// The first start, on an empty disk.
    pub fn boot(&mut self) -> Step {
        match self.start()? {
            true => Ok(()),
            false => self.restart(0),
        }
    }

    /// Power goes off, and on again. Up to `again` starts are cut short first.
    pub fn restart(&mut self, again: u64) -> Step {
        self.over |= self.lost;
        if self.over {
            return Ok(());
        }
        for attempt in 0..=again {
            self.power_off();
            if attempt < again {
                self.disk.crash_at(1 + self.random.below(70));
                if let Ok(engine) = Engine::open_still(self.disk.clone(), self.setup.config()) {
                    let mut losers = LoserRollback::new(std::mem::take(&mut *engine.losers.lock()));
                    // What ends it is the crash, or that everything is done.
                    while losers.step(engine.store(), 2) == Ok(true) {}
                }
            }
        }
        for _ in 0..3 {
            if self.over || self.start()? {
                return Ok(());
            }
            self.power_off();
        }
        Err("the engine does not start on a healthy disk".into())
    }

    fn power_off(&mut self) {
        let after = self.disk.crash(self.random.below(u32::MAX as u64));
        self.forget_users();
        self.engine = None;
        self.disk = after;
        self.disk.set_space(None);
        self.space_limited = false;
    }
    fn forget_users(&mut self) {
        self.trxs.iter_mut().for_each(|t| *t = None);
        self.losers = LoserRollback::new(Vec::new());
    }

    // ---- ops ----

    pub fn apply(&mut self, op: Op) -> Step {
        if self.over {
            return Ok(());
        }
        // What ends a transaction may have much to undo.
        let much = matches!(
            op,
            Op::Rollback { .. } | Op::RollbackTo { .. } | Op::Decide { .. } | Op::Close { .. }
        );
        self.make_room(if much { 75 } else { 50 })?;
        if !self.is_gone() {
            self.perform(op)?;
        }
        if self.over {
            return Ok(());
        }
        if self.is_gone() {
            if !self.bad_luck() {
                let why = self.store().pool.check_alive();
                return Err(format!("the engine poisoned itself without bad luck: {why:?}"));
            }
            return self.restart(0);
        }
        let durable = self.engine().durable_lsn();
        self.history.durable_to(durable);
        Ok(())
    }

    /// Nobody else makes room in the log while an op waits for it.
    pub fn make_room(&mut self, percent: u64) -> Step {
        let redo = self.store().redo.clone();
        if redo.room() < redo.capacity() * percent / 100 {
            let done = self.engine().checkpoint();
            self.judge_result("checkpoint", done)?;
        }
        Ok(())
    }

    fn perform(&mut self, op: Op) -> Step {
        match op {
            Op::Begin { trx, snapshot } => {
                self.begin(trx, snapshot);
                Ok(())
            }
            Op::Insert { .. }
            | Op::Update { .. }
            | Op::Delete { .. }
            | Op::Move { .. }
            | Op::Fill { .. }
            | Op::Clear { .. }
            | Op::Look { .. } => self.statement(op),
            Op::Savepoint { trx } => {
                let store = self.store();
                if let Some(open) = &mut self.trxs[trx as usize] {
                    let at = (store.savepoint(&open.trx), open.own.clone());
                    open.savepoints.push(at);
                }
                Ok(())
            }
            Op::RollbackTo { trx } => self.rollback_to(trx),
            Op::Commit { trx, flush } => self.commit(trx, flush),
            Op::Rollback { trx } => self.rollback(trx),
            Op::Prepare { trx, flush } => self.prepare(trx, flush),
            Op::Decide { which, commit } => self.decide(which, commit),
            Op::Create { .. }
            | Op::Drop { .. }
            | Op::Rename { .. }
            | Op::Truncate { .. }
            | Op::AddIndex { .. }
            | Op::DropIndex { .. } => self.ddl(op),
            Op::Close { how } => self.close(how),
            Op::RedoLog { on } => self.switch_log(on),
            Op::ResizeLog { size } => {
                let capacity = REDO_CAPACITY << (size % 4);
                // As in the server's configuration, which nobody makes smaller than what a start may find: there is one thread here, and
                // nobody would make room while a rollback waits.
                self.setup.redo_capacity = self.setup.redo_capacity.max(capacity);
                let done = self.engine().set("redo_log_capacity", capacity);
                self.judge_result("resizing the log", done)
            }
            _ => self.background(op),
        }
    }

    fn background(&mut self, op: Op) -> Step {
        let store = self.store();
        let changes = self.disk.changes();
        let done = match op {
            Op::Purge { records } => store.purge_step(records as usize).map(|_| ()),
            Op::Clean => steps::clean(&store),
            Op::Merge { leaves, partition } => merge_some(&store, leaves as usize, partition),
            Op::Flush { pages } => store.pool.flush_step(pages as usize).map(|_| ()),
            Op::Checkpoint => self.checkpointer.step(&store),
            Op::SyncLog => steps::sync_log(&store),
            Op::Losers { records } => self.step_losers(records as usize),
            Op::Crash { after: 0, again } => return self.restart(again),
            Op::Crash { after, .. } => {
                self.disk.crash_at(changes + after);
                Ok(())
            }
            Op::Fail { after, fault } => {
                self.disk.fail_change(changes + after, fault);
                Ok(())
            }
            Op::FailRead { after } => {
                self.disk.fail_read(self.disk.reads() + after);
                Ok(())
            }
            Op::Lie { after, damage } => {
                self.lied = true;
                self.lost |= matches!(damage, Damage::Lost | Damage::Misplaced);
                self.disk.damage_write(changes + after, damage);
                Ok(())
            }
            Op::Space { kib } => {
                self.space_limited = kib > 0;
                let limit = (kib > 0).then(|| self.disk.used() + (kib << 10));
                self.disk.set_space(limit);
                Ok(())
            }
            Op::Wait { us } => {
                self.disk.advance_us(us);
                Ok(())
            }
            _ => unreachable!("{op:?} is performed elsewhere"),
        };
        self.judge_result(&format!("{op:?}"), done)
    }

    fn step_losers(&mut self, records: usize) -> Result<()> {
        let store = self.store();
        if !self.freed {
            store.resume_freeing()?;
            self.freed = true;
        }
        self.losers_left = self.losers.step(&store, records)?;
        Ok(())
    }
    pub fn finish_losers(&mut self) -> Step {
        while (self.losers_left || !self.freed) && !self.over {
            self.apply(Op::Losers { records: 8 })?;
        }
        Ok(())
    }

    fn close(&mut self, how: u64) -> Step {
        for trx in 0..SLOTS {
            self.rollback(trx)?;
            if self.is_gone() || self.over {
                return Ok(());
            }
        }
        let how = [Close::Slow, Close::Fast, Close::LogOnly][how as usize % 3];
        let closed = self.engine().close(how);
        self.log.closed(closed.is_ok());
        if closed.is_ok() {
            self.history.all_durable();
            self.forget_users();
            self.over |= self.lost;
            if self.over {
                return Ok(());
            }
            self.engine = None;
            if self.start()? {
                return Ok(());
            }
            return if self.over { Ok(()) } else { self.restart(0) };
        }
        self.judge_result("close", closed)
    }

    // ---- transactions ----

    pub fn begin(&mut self, slot: u64, snapshot: bool) {
        if self.trxs[slot as usize].is_some() {
            return;
        }
        let mut trx = self.engine().new_trx(Arc::new(ThreadWaiter::new()), slot);
        let isolation = match snapshot {
            true => Isolation::RepeatableRead,
            false => Isolation::ReadCommitted,
        };
        // Nobody else runs, so waiting for a lock is over at once.
        self.engine().start(&mut trx, isolation, 0);
        if snapshot {
            self.store().trx_sys.open_view(&mut trx);
        }
        self.trxs[slot as usize] = Some(Open {
            trx,
            snapshot: snapshot.then(|| self.history.current().clone()),
            own: RowChanges::new(),
            savepoints: Vec::new(),
            tables: BTreeSet::new(),
        });
    }

    fn rollback_to(&mut self, slot: u64) -> Step {
        let store = self.store();
        let Some(open) = &mut self.trxs[slot as usize] else {
            return Ok(());
        };
        let Some((at, own)) = open.savepoints.pop() else {
            return Ok(());
        };
        open.own = own;
        let done = store.rollback_to(&mut open.trx, at);
        self.judge_end("rollback to a savepoint", done)
    }

    fn commit(&mut self, slot: u64, flush: u64) -> Step {
        let Some(mut open) = self.trxs[slot as usize].take() else {
            return Ok(());
        };
        let engine = self.engine().clone();
        engine.set("flush_log_at_trx_commit", flush).expect("a known setting");
        let done = engine.commit(&mut open.trx, true);
        if open.own.is_empty() {
            return self.judge_end("commit", done);
        }
        let change = Change::Rows(open.own);
        match done {
            Ok(()) => self.history.add(change, engine.lsn()),
            Err(_) => self.history.doubt(change),
        }
        if done.is_ok() && flush == 1 {
            self.history.all_durable();
        }
        self.judge_end("commit", done)
    }

    pub fn rollback(&mut self, slot: u64) -> Step {
        let Some(mut open) = self.trxs[slot as usize].take() else {
            return Ok(());
        };
        let done = self.engine().rollback(&mut open.trx);
        self.judge_end("rollback", done)
    }

    fn prepare(&mut self, slot: u64, flush: u64) -> Step {
        let Some(mut open) = self.trxs[slot as usize].take_if(|o| !o.own.is_empty()) else {
            return Ok(());
        };
        self.next_xid += 1;
        let xid = super::xid(self.next_xid);
        let engine = self.engine().clone();
        engine.set("flush_log_at_trx_commit", flush).expect("a known setting");
        let done = engine.prepare(&mut open.trx, &xid);
        if done.is_err() && !self.is_gone() {
            self.trxs[slot as usize] = Some(open);
            return self.judge_result("prepare", done);
        }
        let change = Change::Prepare(self.next_xid, open.own);
        match done {
            Ok(()) => self.history.add(change, engine.lsn()),
            Err(_) => self.history.doubt(change),
        }
        if done.is_ok() {
            engine.park(xid, open.trx);
            if flush == 1 {
                self.history.all_durable();
            }
        }
        self.judge_end("prepare", done)
    }

    fn decide(&mut self, which: u64, commit: bool) -> Step {
        let prepared: Vec<u32> = self.history.current().prepared.keys().copied().collect();
        if prepared.is_empty() {
            return Ok(());
        }
        let number = prepared[which as usize % prepared.len()];
        let engine = self.engine().clone();
        engine.set("flush_log_at_trx_commit", 1).expect("a known setting");
        let done = engine.decide(&super::xid(number), commit);
        self.end_if_undo_waits(false);
        match done {
            Ok(()) => self.history.add(Change::Decide(number, commit), engine.lsn()),
            Err(_) if self.is_gone() => self.history.doubt(Change::Decide(number, commit)),
            Err(_) => {}
        }
        if done.is_ok() {
            self.history.all_durable();
        }
        self.judge_result("decide", done)
    }

    // ---- reading ----

    /// What a new view sees, and what is prepared.
    pub fn read_state(&self) -> Result<State> {
        let mut state = State::default();
        let store = self.store();
        for name in store.catalog.names() {
            let table = store.open_table(&name)?;
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
        for xid in self.engine().recovered_prepared() {
            state.prepared.insert(super::xid_number(&xid), RowChanges::new());
        }
        Ok(state)
    }

    /// Every index, both ways, against the twin.
    pub fn compare_all(&self) -> std::result::Result<(), Finding> {
        let store = self.store();
        for (name, twin) in &self.history.current().tables {
            let table = store.open_table(name)?;
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
    /// A rollback that waits leaves rows locked, of which the twin knows nothing: the engine ends here, and the next start finishes it.
    pub fn end_if_undo_waits(&self, doomed: bool) {
        let store = self.store();
        if doomed || store.rollbacks_waiting() > 0 || self.trxs.iter().flatten().any(|open| open.trx.is_doomed()) {
            store.pool.poison("a rollback waits");
        }
    }
    /// An end of a transaction, or of a part of it, succeeds or ends the engine.
    fn judge_end(&mut self, what: &str, done: Result<()>) -> Step {
        self.end_if_undo_waits(false);
        if done.is_err() && !self.is_gone() {
            return Err(format!("{what} failed, and the engine lives on: {done:?}"));
        }
        self.judge_result(what, done)
    }

    pub fn new_name(&mut self) -> String {
        self.next_name += 1;
        format!("t{}", self.next_name)
    }
}

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

/// A row made from its seed: mostly small, some that fill pages, a few longer than a page.
pub fn row_of(seed: u64) -> Row {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9));
    let len = match random.below(100) {
        0..=59 => random.below(60),
        60..=84 => random.below(600),
        85..=93 => random.below(1400),
        _ => random.below(9000),
    };
    let byte = random.below(256) as u8;
    Row {
        group: random.below(5) as u8,
        shade: random.below(3) as u8,
        tag: random.chance(60).then(|| random.below(300) as u16),
        body: vec![byte; len as usize],
    }
}

fn merge_some(store: &Store, leaves: usize, partition: bool) -> Result<()> {
    for table in store.catalog.tables() {
        for s in &table.layout().secondary {
            match &s.index.delta {
                Some(delta) if partition => delta.begin_partition(),
                _ => drop(change::sweep_step(&store.pool, &s.index, leaves)?),
            }
        }
    }
    Ok(())
}

//! One simulated life of an engine on a disk: applies ops, keeps the twin, and judges every answer.
//!
//! One thread, no clock but the disk's, nothing random but the seed. The same seed and ops give the
//! same run, down to the last call of the disk (`SimDisk::trace`). Every `Err(String)` is a
//! finding. Errors of the engine are judged. Without bad luck it may refuse a statement only for a
//! reason that the twin shows. After bad luck it may fail, and must then be right at the next
//! start.
use super::judge::Finding;
use super::log_switch::LogState;
use super::online::Online;
use super::op::{Op, SLOTS};
use super::setup::{Setup, REDO_CAPACITY};
use super::transactions::Open;
use super::twin::History;
use crate::base::Result;
use crate::change;
use crate::engine::steps::{self, Checkpointer, LoserRollback};
use crate::engine::tests::fixture::{Random, Row};
use crate::engine::{Close, Engine, PoolControl};
use crate::io::sim::{Damage, SimDisk};
use crate::table::Store;
use std::sync::Arc;

/// Merged with the space that one op needs, at most. With forty it was too little once in 60,000
/// schedules, and no other thread freed more.
const LEAVES_OF_ROOM: usize = 6;

/// A finding, or nothing to say.
pub type Step = std::result::Result<(), String>;

/// More than the losers of any schedule need, if nothing is in their way.
const LOSER_STEPS: u32 = 1000;
/// ... and so many of these on a full disk. A step that waits there for a segment of the log sleeps
/// for a second of real time.
const LOSER_STEPS_WHEN_FULL: u32 = 20;

pub struct World {
    pub setup: Setup,
    pub disk: Arc<SimDisk>,
    engine: Option<Arc<Engine>>,
    pub trxs: Vec<Option<Open>>,
    pub online: Option<Online>,
    losers: LoserRollback,
    pub losers_left: bool,
    freed: bool,
    checkpointer: Checkpointer,
    pub history: History,
    pub log: LogState,
    pub random: Random,
    next_name: u32,
    pub next_xid: u32,
    /// `SimDisk::struck` when this engine started.
    struck: u64,
    space_limited: bool,
    /// The disk may have lied (rule S8).
    pub lied: bool,
    /// A write may have been lost: this run must notice, the next one need not
    /// (`pool/write/written.rs`).
    lost: bool,
    /// The damage was noticed: nothing more can be asked.
    pub over: bool,
    /// Statements of DDL that made no sense where they stood.
    pub passed_over: u64,
    pub unseen: Unseen,
}

/// Unique values that were put without a look at their leaf.
#[derive(Clone, Copy, Default, Debug)]
pub struct Unseen {
    pub all: u64,
    /// And the power went off before the engine was closed.
    pub before_crashes: u64,
}

impl World {
    pub fn new(setup: Setup) -> World {
        let disk = SimDisk::new(setup.seed);
        disk.set_sector(setup.sector);
        World {
            disk,
            engine: None,
            trxs: (0..SLOTS).map(|_| None).collect(),
            online: None,
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
            passed_over: 0,
            unseen: Unseen::default(),
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
    pub fn is_gone(&self) -> bool {
        self.disk.is_dead() || self.store().pool.check_alive().is_err()
    }
    /// Something of rules S4 to S6 or S8 happened to this engine.
    pub fn bad_luck(&self) -> bool {
        self.disk.is_dead() || self.disk.struck() > self.struck || self.space_limited || self.lied
    }

    // ---- starting ----

    /// Opens the engine on the disk as it is, and checks all it holds. False: bad luck, try again
    /// after a crash.
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
        self.setup.set_memory(&engine);
        self.losers = LoserRollback::new(engine.in_doubt.take_losers());
        (self.losers_left, self.freed) = (true, false);
        self.engine = Some(engine);
        if !self.drop_what_was_rebuilt()? {
            return Ok(false);
        }
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
                    self.setup.set_memory(&engine);
                    let mut losers = LoserRollback::new(engine.in_doubt.take_losers());
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
        self.unseen.before_crashes += self.forget_engine();
        self.disk = after;
        self.disk.set_space(None);
        self.space_limited = false;
    }
    /// Number of unique values that it put unseen.
    fn forget_engine(&mut self) -> u64 {
        let unseen = self
            .engine
            .take()
            .map_or(0, |engine| engine.counters().change_buffer_unique_checks_spared.get());
        self.unseen.all += unseen;
        unseen
    }
    fn forget_users(&mut self) {
        self.online = None;
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

    /// No other thread frees space in the log while an op waits for it.
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
            | Op::Load { .. }
            | Op::Clear { .. }
            | Op::Look { .. } => self.statement(op),
            Op::Savepoint { trx } => {
                let store = self.store();
                if let Some(open) = &mut self.trxs[trx as usize] {
                    let at = (store.rollbacks().savepoint(&open.trx), open.own.clone());
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
            Op::OnlineBegin { table, kind } => self.online_begin(table, kind),
            Op::OnlineStep => self.online_step(),
            Op::OnlineEnd => self.online_end(),
            Op::Close { how } => self.close(how),
            Op::RedoLog { on } => self.switch_log(on),
            Op::ResizeLog { size } => {
                let capacity = REDO_CAPACITY << (size % 4);
                // As in the server's configuration, which no user makes smaller than what a start
                // may find. There is one thread here, and none would free space while a rollback
                // waits.
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
            Op::Purge { records } => store.purger().purge_step(records as usize).map(|_| ()),
            Op::Shrink => steps::truncate_undo(&store).map(|_| ()),
            Op::Clean => steps::clean(&store),
            Op::ResizePool { more } => {
                let bytes = (self.setup.frames + more) * crate::pool::PAGE_SIZE as u64;
                self.engine().set("buffer_pool_size", bytes)
            }
            Op::PageList { load: false } => PoolControl(self.engine()).dump("buffer_pool", 100, false),
            Op::PageList { load: true } => PoolControl(self.engine()).load("buffer_pool"),
            Op::Merge { leaves, partition } => return self.merge_some(leaves as usize, partition),
            Op::Analyze { table } => return self.analyze(table, &store),
            Op::CloseIdle => {
                for table in store.catalog.tables() {
                    let deltas = table.layout().secondary.iter().filter_map(|s| s.index.delta.as_ref());
                    deltas.for_each(|delta| delta.close_if_idle());
                }
                Ok(())
            }
            Op::Flush { pages } => {
                let flushed = store.pool.flusher().step(pages as usize);
                if pages % 2 == 1 {
                    store.pool.evict_clean();
                }
                flushed.map(|_| ())
            }
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

    /// ANALYZE TABLE, unless there is no such table.
    fn analyze(&mut self, table: u64, store: &Store) -> Step {
        let Some(name) = self.table_name(table) else {
            return Ok(());
        };
        let opened = store.tables().open_table(&name);
        let done = opened.and_then(|table| {
            store.statistics_keeper().compute_statistics(&table)?;
            store.tables().close_table(&table);
            Ok(())
        });
        self.judge_result("computing statistics", done)
    }

    fn merge_some(&mut self, leaves: usize, partition: bool) -> Step {
        let store = self.store();
        for table in store.catalog.tables() {
            for s in &table.layout().secondary {
                // A few leaves of one index are as much as the room for an op is made for.
                let mut left = leaves;
                while left > 0 {
                    self.make_room(50)?;
                    if self.over || self.is_gone() {
                        return Ok(());
                    }
                    if let Some(delta) = s.index.delta.as_ref().filter(|_| partition) {
                        delta.begin_partition();
                        break;
                    }
                    let some = left.min(LEAVES_OF_ROOM);
                    let done = change::sweep_step(&store.pool, &s.index, some);
                    let swept = done.as_ref().map_or(0, |swept| swept.leaves);
                    self.judge_result("merging", done)?;
                    left = if swept < some { 0 } else { left - some };
                }
            }
        }
        Ok(())
    }

    fn step_losers(&mut self, records: usize) -> Result<()> {
        let store = self.store();
        if !self.freed {
            store.indexes().resume_freeing();
            self.freed = true;
        }
        self.losers_left = self.losers.step(&store, records)?;
        Ok(())
    }
    /// On a full disk they may wait for space for ever: the op that needs them done frees it.
    pub fn finish_losers(&mut self) -> Step {
        let mut steps = 0;
        while (self.losers_left || !self.freed) && !self.over {
            steps += 1;
            if steps == LOSER_STEPS_WHEN_FULL && self.space_limited {
                self.apply(Op::Space { kib: 0 })?;
            }
            if steps > LOSER_STEPS_WHEN_FULL + LOSER_STEPS {
                return Err("the rollback of the losers never ends".into());
            }
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
        if let Some(online) = self.online.take() {
            self.give_up_online(online)?;
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
            self.forget_engine();
            if self.start()? {
                return Ok(());
            }
            return if self.over { Ok(()) } else { self.restart(0) };
        }
        self.judge_result("close", closed)
    }

    pub fn new_name(&mut self) -> String {
        self.next_name += 1;
        format!("t{}", self.next_name)
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

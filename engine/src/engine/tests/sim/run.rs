//! Runs a schedule to its end, and looks at everything there: what the run found, or nothing.
use super::judge::Finding;
use super::op::{Op, SLOTS};
use super::schedule::Schedule;
use super::setup::Setup;
use super::world::{Step, Unseen, World};
use crate::change::{CLOSED, HELPED, REDISTRIBUTED};
use crate::engine::Close;
use crate::table::CheckLevel;
use std::cell::RefCell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

/// What a run came to. `trace` is equal for equal runs.
#[derive(Debug)]
pub struct Outcome {
    pub finding: Option<String>,
    pub trace: u64,
    pub unseen: Unseen,
    /// Stretches of leaves that the change buffer spread over their neighbours, and their leaves.
    pub spread: (u64, u64),
    /// Leaves merged by appenders near the bound.
    pub helped: u64,
    /// Partitions closed because they were full, and because they were idle.
    pub closed: (u64, u64),
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics are findings: kept, and not printed for each step of a shrinking.
pub fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let caught = PANIC.with(|p| {
                let wanted = p.borrow().is_some();
                if wanted {
                    *p.borrow_mut() = Some(info.to_string());
                }
                wanted
            });
            if !caught {
                loud(info);
            }
        }));
    });
}

/// A run whose panics are findings.
pub fn caught(body: impl FnOnce() -> Step) -> Option<String> {
    quiet_panics();
    PANIC.with(|p| *p.borrow_mut() = Some(String::new()));
    let done = catch_unwind(AssertUnwindSafe(body));
    let panic = PANIC.with(|p| p.borrow_mut().take());
    match done {
        Ok(step) => step.err(),
        Err(_) => Some(panic.unwrap_or_default()),
    }
}

pub fn run(schedule: &Schedule) -> Outcome {
    let (mut trace, mut unseen) = (0, Unseen::default());
    let before = (REDISTRIBUTED.get(), HELPED.get(), CLOSED.get());
    let finding = caught(|| {
        let mut world = World::new(schedule.setup);
        let done = live(&mut world, &schedule.ops);
        trace = world.disk.trace();
        unseen = world.unseen;
        done
    });
    let since = |now: (u64, u64), before: (u64, u64)| (now.0 - before.0, now.1 - before.1);
    Outcome {
        finding,
        trace,
        unseen,
        spread: since(REDISTRIBUTED.get(), before.0),
        helped: HELPED.get() - before.1,
        closed: since(CLOSED.get(), before.2),
    }
}

/// Some ops with a crash at one change of the disk (0: none), counted from the empty disk on.
/// Without a crash all of their DDL happens.
pub fn run_with_crash(setup: Setup, ops: &[Op], crash_at: u64) -> (Option<String>, u64) {
    let mut changes = 0;
    let finding = caught(|| {
        let mut world = World::new(setup);
        if crash_at > 0 {
            world.disk.crash_at(crash_at);
        }
        let first = world.disk.clone();
        let done = live(&mut world, ops);
        changes = first.changes();
        if crash_at == 0 && world.passed_over > 0 {
            return Err(format!("{} statements of DDL were passed over", world.passed_over));
        }
        done
    });
    (finding, changes)
}

/// Without a crash; `look` sees the engine after each op.
#[cfg(feature = "tiny-pages")]
pub fn run_watched(setup: Setup, ops: &[Op], mut look: impl FnMut(&crate::engine::Engine)) -> Option<String> {
    caught(|| {
        let mut world = World::new(setup);
        world.boot()?;
        for op in ops {
            world.apply(*op)?;
            look(world.engine());
        }
        world.end()
    })
}

fn live(world: &mut World, ops: &[Op]) -> Step {
    world.boot()?;
    for op in ops {
        world.apply(*op)?;
    }
    world.end()
}

impl World {
    /// The end of every schedule: all that is under way ends, and everything is looked at, before
    /// and after a last restart.
    pub(super) fn end(&mut self) -> Step {
        self.disk.heal();
        self.apply(Op::Space { kib: 0 })?;
        for trx in 0..SLOTS {
            self.apply(Op::Rollback { trx })?;
        }
        if let Some(online) = self.online.take() {
            self.give_up_online(online)?;
            if !self.over && self.is_gone() {
                self.restart(0)?;
            }
        }
        self.finish_losers()?;
        self.look_at_all("at the end")?;
        if self.over {
            return Ok(());
        }
        // What was written, was written whole: a machine that dies now loses nothing.
        let flushed = self.engine().flush_log();
        self.judge_result("flush_log", flushed)?;
        self.history.all_durable();
        self.restart(0)?;
        self.finish_losers()?;
        self.purge_all()?;
        self.look_at_all("after the last start")?;
        self.nothing_is_left()?;
        if self.over {
            return Ok(());
        }
        let closed = self.engine().close(Close::Fast);
        self.judge_result("close", closed)
    }

    fn purge_all(&mut self) -> Step {
        if self.over {
            return Ok(());
        }
        let store = self.store();
        loop {
            match store.purger().purge_step(50) {
                Ok(true) => self.apply(Op::SyncLog)?,
                Ok(false) => return Ok(()),
                Err(e) => return self.judge("purge", &e),
            }
            if self.over {
                return Ok(());
            }
        }
    }

    fn look_at_all(&mut self, when: &str) -> Step {
        if self.over {
            return Ok(());
        }
        match self.compare_all() {
            Ok(()) => {}
            Err(Finding::Wrong(what)) => return Err(format!("{when}: {what}")),
            Err(Finding::Refused(e)) => return self.judge(when, &e),
        }
        let store = self.store();
        for table in store.catalog.tables() {
            let mut lines = Vec::new();
            let each = &mut |line: &str| lines.push(line.to_string());
            let sound = self.with_view(|trx| store.check_table(trx, &table, CheckLevel::Extended, each));
            match sound {
                Ok(true) => {}
                Ok(false) if self.lied => {
                    self.over = true;
                    return Ok(());
                }
                Ok(false) => return Err(format!("{when}: CHECK TABLE {}: {lines:#?}", table.name())),
                Err(e) => return self.judge(when, &e),
            }
        }
        // A file that could not be removed after a failed call stays until the next start.
        if self.bad_luck() {
            return Ok(());
        }
        self.files_agree(when)
    }
}

//! Histories of interleaved transactions, judged by `tools/judge` as those of a server are (`make
//! isolation`). One thread: a seed draws the sessions, their statements, and whose turn it is. A
//! turn may come in the middle of a scan, and in the middle of a statement where it holds no latch
//! (`SyncPoint`). So a seed gives the same history again. Purge, merges of buffered changes and
//! writing of pages come between the turns, and a crash now and then.
//!
//! A statement that would wait for a lock fails and is tried again at a later turn. After a few of
//! those the transaction gives up, which is also how deadlocks end: no session queues for a lock
//! and is woken here. Times are turns. `SLUICE_SEEDS=from-to` runs others.
//!
//! `sessions`: sessions, turns, the background, a crash; `statements`: what a step does, and what
//! it notes down.
mod statements;
mod sessions;

use super::fixture::*;
use crate::base::at_each;
use isolation_judge::{judge, Anomaly, End, Findings, History, Level, Transaction};
use sessions::World;
use std::rc::Rc;

/// The engine runs at one level, and is judged by another.
fn run(seed: u64, level: Level, judged: Level, turns: u64) -> (History, Findings) {
    let world = Rc::new(World::new(seed, level));
    let others = Rc::downgrade(&world);
    at_each(Some(Rc::new(move |now| {
        if let Some(others) = others.upgrade() {
            others.meanwhile(now);
        }
    })));
    for _ in 0..turns {
        world.turn();
        if world.below(10) == 0 {
            world.background();
        }
    }
    at_each(None);
    let history = world.finish();
    let findings = judge(&history, judged);
    (history, findings)
}

const LEVELS: [Level; 5] = [
    Level::ReadUncommitted,
    Level::ReadCommitted,
    Level::LooseRepeatableRead,
    Level::RepeatableRead,
    Level::Serializable,
];

#[test]
fn no_level_allows_what_it_forbids() {
    let mut committed = [0; 5];
    for seed in seeds(3) {
        for (n, level) in LEVELS.into_iter().enumerate() {
            let (history, findings) = run(seed, level, level, 3000);
            let forbidden = findings.forbidden(level);
            assert!(
                forbidden.is_empty(),
                "seed {seed}, {level:?}: {forbidden:?}\n{}",
                findings.report(&history, level)
            );
            let is_committed = |t: &&Transaction| t.end == End::Committed;
            committed[n] += history.transactions.iter().filter(is_committed).count();
        }
    }
    println!("committed transactions by level: {committed:?}");
    assert!(
        committed.iter().all(|n| *n > 100),
        "too few came to their end: {committed:?}"
    );
}

/// The same histories hold what weaker levels let happen, and the judge finds it.
#[test]
fn weaker_levels_show_their_anomalies() {
    let finds =
        |level, judged, anomaly: Anomaly| (1..40).any(|seed| run(seed, level, judged, 2000).1.count(anomaly) > 0);
    let (ru, rc) = (Level::ReadUncommitted, Level::ReadCommitted);
    assert!(
        finds(ru, rc, Anomaly::AbortedRead),
        "dirty reads of what was rolled back"
    );
    assert!(finds(rc, Level::RepeatableRead, Anomaly::ReadSkew), "read skew");
    assert!(
        finds(Level::RepeatableRead, rc, Anomaly::StaleRead),
        "a statement that reads an older snapshot than its own"
    );
    assert!(
        finds(Level::LooseRepeatableRead, Level::RepeatableRead, Anomaly::LostUpdate),
        "lost updates"
    );
    assert!(
        finds(Level::RepeatableRead, Level::Serializable, Anomaly::WriteSkew),
        "write skew"
    );
}

/// A seed is a history.
#[test]
fn a_seed_gives_the_same_history_again() {
    let once = |_| {
        let (history, _) = run(11, Level::RepeatableRead, Level::RepeatableRead, 1500);
        let each = |t: &Transaction| format!("{:?} {:?}", t.end, t.ops);
        history.transactions.iter().map(each).collect::<Vec<_>>()
    };
    assert_eq!(once(1), once(2));
}

//! Random schedules, many at a time. A finding is shrunk and printed with the command that plays it
//! again.
use super::run::{run, Outcome};
use super::schedule::Schedule;
use super::shrink::{keep, shrink};
use crate::engine::tests::fixture::seeds;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::Instant;

/// Small pages find more in less time: the ordinary test run, with large ones, takes a sample.
const USUAL: u64 = if cfg!(feature = "tiny-pages") { 4000 } else { 60 };
/// Seconds between two lines of progress.
const PROGRESS_S: u64 = 20;

/// Ops to keep, of SLUICE_KEEP="0,3,9".
fn kept() -> Option<Vec<usize>> {
    let text = std::env::var("SLUICE_KEEP").ok()?;
    Some(text.split(',').filter_map(|n| n.trim().parse().ok()).collect())
}

fn try_seed(seed: u64) -> Outcome {
    let schedule = Schedule::of_seed(seed);
    match kept() {
        Some(kept) => run(&keep(&schedule, &kept)),
        None => run(&schedule),
    }
}

fn tell(seed: u64, outcome: Outcome) -> String {
    let schedule = Schedule::of_seed(seed);
    let finding = outcome.finding.unwrap_or_default();
    if std::env::var("SLUICE_SHRINK").is_ok_and(|v| v == "0") {
        return format!("seed {seed}: {finding}");
    }
    let (kept, finding) = shrink(&schedule, finding);
    let list: Vec<String> = kept.iter().map(usize::to_string).collect();
    let ops: Vec<String> = kept
        .iter()
        .map(|i| format!("        Op::{:?},", schedule.ops[*i]))
        .collect();
    format!(
        "seed {seed}: {finding}\n    {:?}\n    {} of {} ops:\n{}\n    again: SLUICE_SEEDS={seed}-{seed} SLUICE_KEEP={} make sim",
        schedule.setup,
        kept.len(),
        schedule.ops.len(),
        ops.join("\n"),
        list.join(",")
    )
}

#[test]
fn random_schedules_find_nothing() {
    let range = seeds(USUAL);
    let (first, count) = (*range.start(), range.end() - range.start() + 1);
    let next = AtomicU64::new(first);
    let begun = Instant::now();
    let reported = AtomicU64::new(0);
    let findings = Mutex::new(Vec::new());
    let (unseen, before_crashes) = (AtomicU64::new(0), AtomicU64::new(0));
    let (stretches, leaves) = (AtomicU64::new(0), AtomicU64::new(0));
    let (helped, full, idle) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let work = || loop {
        let seed = next.fetch_add(1, Ordering::Relaxed);
        if seed >= first + count || !findings.lock().expect("no panic").is_empty() {
            return;
        }
        let outcome = try_seed(seed);
        unseen.fetch_add(outcome.unseen.all, Ordering::Relaxed);
        before_crashes.fetch_add(outcome.unseen.before_crashes, Ordering::Relaxed);
        stretches.fetch_add(outcome.spread.0, Ordering::Relaxed);
        leaves.fetch_add(outcome.spread.1, Ordering::Relaxed);
        helped.fetch_add(outcome.helped, Ordering::Relaxed);
        full.fetch_add(outcome.closed.0, Ordering::Relaxed);
        idle.fetch_add(outcome.closed.1, Ordering::Relaxed);
        if outcome.finding.is_some() {
            let text = tell(seed, outcome);
            findings.lock().expect("no panic").push(text);
        }
        let s = begun.elapsed().as_secs();
        if s / PROGRESS_S > reported.fetch_max(s / PROGRESS_S, Ordering::Relaxed) {
            let done = seed - first;
            println!("{done} of {count} schedules, {} a second", done / s);
        }
    };
    std::thread::scope(|scope| {
        (0..2).for_each(|_| drop(scope.spawn(work)));
    });
    let findings = findings.into_inner().expect("no panic");
    let s = begun.elapsed().as_secs_f64();
    assert!(findings.is_empty(), "after {s:.1} s: {}", findings.join("\n\n"));
    println!("{count} schedules from seed {first} on, in {s:.1} s, find nothing");
    let (unseen, before_crashes) = (unseen.into_inner(), before_crashes.into_inner());
    println!("unique values put unseen: {unseen}, and {before_crashes} of them in engines that then lost power");
    let (stretches, leaves) = (stretches.into_inner(), leaves.into_inner());
    println!("leaves spread over their neighbours: {leaves}, in {stretches} stretches");
    let (helped, full, idle) = (helped.into_inner(), full.into_inner(), idle.into_inner());
    println!("leaves merged by appenders: {helped}; partitions closed: {full} full, {idle} idle");
    if count >= 1000 && cfg!(feature = "tiny-pages") {
        assert!(
            unseen > count && before_crashes * 2 > count,
            "else the schedules would show nothing of them"
        );
        assert!(stretches * 10 > count && leaves > stretches * 3, "nor of these");
        assert!(helped > count && full > count && idle * 10 > count, "nor of the bound");
    }
}

/// Or no finding could be played again.
#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 1..=20 {
        let schedule = Schedule::of_seed(seed);
        assert_eq!(run(&schedule).trace, run(&schedule).trace, "seed {seed}");
    }
}

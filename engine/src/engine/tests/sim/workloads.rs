//! A crash at every change of the disk, in small workloads. To add one, add it to [`WORKLOADS`].
use super::online_workloads::{ONLINE_INDEX, ONLINE_REBUILD};
use super::op::Op;
use super::pool_sizes::POOL_SIZES;
use super::redistribution::{large, LARGE};
#[cfg(feature = "tiny-pages")]
use super::run::run_watched;
use super::run::run_with_crash;
use super::setup::{Setup, REDO_CAPACITY};
#[cfg(feature = "tiny-pages")]
use crate::base::ids::UNDO_FILE;
use crate::engine::tests::fixture::Random;
use crate::pool::PAGE_SIZE;
#[cfg(feature = "tiny-pages")]
use crate::space;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

/// Name and ops.
pub type Workload = (&'static str, &'static [Op]);

const KIND_GROUP: u64 = 1;
pub const KIND_TAG: u64 = 2;
const KIND_WIDE: u64 = 4;

pub const fn fill(key: u64, rows: u64, len: u64) -> Op {
    Op::Fill {
        trx: 0,
        table: 0,
        key,
        rows,
        len,
    }
}
const fn load(key: u64, rows: u64, len: u64) -> Op {
    Op::Load {
        trx: 0,
        table: 0,
        key,
        rows,
        len,
    }
}
pub const fn clear(key: u64, rows: u64) -> Op {
    Op::Clear {
        trx: 0,
        table: 0,
        key,
        rows,
    }
}
pub const fn insert(trx: u64, key: u64, row: u64) -> Op {
    let table = 0;
    Op::Insert { trx, table, key, row }
}
pub const fn update(trx: u64, key: u64, row: u64) -> Op {
    let table = 0;
    Op::Update { trx, table, key, row }
}
pub const fn delete(trx: u64, key: u64) -> Op {
    Op::Delete { trx, table: 0, key }
}
pub const fn commit(trx: u64, flush: u64) -> Op {
    Op::Commit { trx, flush }
}
const fn decide(commit: bool) -> Op {
    Op::Decide { which: 0, commit }
}
/// Several lists in one.
const fn joined<const N: usize>(parts: &[&[Op]]) -> [Op; N] {
    let (mut all, mut n, mut part) = ([COMMIT; N], 0, 0);
    while part < parts.len() {
        let mut i = 0;
        while i < parts[part].len() {
            all[n] = parts[part][i];
            n += 1;
            i += 1;
        }
        part += 1;
    }
    assert!(n == N, "as long as its parts");
    all
}
pub const COMMIT: Op = commit(0, 1);
pub const FLUSH: Op = Op::Flush { pages: 100 };
/// And all clean pages leave the pool.
pub const EVICT: Op = Op::Flush { pages: 101 };
const MERGE: Op = Op::Merge {
    leaves: 4,
    partition: false,
};
pub const PARTITION: Op = Op::Merge {
    leaves: 0,
    partition: true,
};
pub const PURGE: Op = Op::Purge { records: 100 };
/// One transaction at a time.
const PURGE_ONE: Op = Op::Purge { records: 2000 };
const LOOK: Op = Op::Look {
    trx: 0,
    table: 0,
    key: 3,
    way: 2,
};

pub const WORKLOADS: &[Workload] = &[
    ("create and drop tables", CREATE_AND_DROP),
    ("splits", SPLITS),
    ("merges and purge", MERGES_AND_PURGE),
    ("checkpoints between changes", CHECKPOINTS),
    ("index build", INDEX_BUILD),
    ("index build over pages of another tree", INDEX_REBUILD),
    ("index build beside writers", ONLINE_INDEX),
    ("rebuild beside writers", ONLINE_REBUILD),
    ("redo off", REDO_OFF),
    ("the log grows and shrinks", RESIZES),
    ("the pool grows and shrinks", POOL_SIZES),
    ("rollback", ROLLBACK),
    ("overflow rows", OVERFLOW_ROWS),
    ("group commit", GROUP_COMMIT),
    ("prepared transactions", PREPARED),
    ("eviction in a small pool", EVICTION),
    ("buffered changes and merges", BUFFERED),
    ("new unique values", UNSEEN),
    ("an empty table is filled", LOADED),
    ("an empty table is filled, and the log off", LOADED_LOG_OFF),
    ("undo is cut off", UNDO_CUT),
    ("an old reader beside purge", OLD_READER),
];

const fn look(trx: u64, way: u64) -> Op {
    let (table, key) = (0, 2);
    Op::Look { trx, table, key, way }
}
/// What was changed and deleted under a snapshot, and purge comes before it looks again.
const OLD_READER: &[Op] = &[
    Op::Create {
        kinds: KIND_GROUP | KIND_WIDE,
    },
    fill(0, 6, 60),
    COMMIT,
    Op::Begin { trx: 1, snapshot: true },
    look(1, 0),
    update(0, 2, 3),
    delete(0, 4),
    COMMIT,
    update(0, 2, 5),
    COMMIT,
    PURGE_ONE,
    PURGE_ONE,
    look(1, 0),
    look(1, 1),
    look(1, 2 | 16),
    commit(1, 1),
    PURGE,
    look(0, 1),
];
const CREATE_AND_DROP: &[Op] = &[
    Op::Create { kinds: 7 },
    Op::Create { kinds: 0 },
    fill(0, 3, 100),
    COMMIT,
    Op::Rename { table: 0 },
    Op::Drop { table: 1 },
    Op::Truncate { table: 0 },
];
const SPLITS: &[Op] = &[
    Op::Create { kinds: KIND_GROUP },
    fill(0, 24, 400),
    FLUSH,
    fill(24, 24, 400),
    COMMIT,
    FLUSH,
];
const MERGES_AND_PURGE: &[Op] = &[
    Op::Create { kinds: KIND_WIDE },
    fill(0, 40, 300),
    COMMIT,
    Op::Checkpoint,
    clear(3, 35),
    COMMIT,
    FLUSH,
    PURGE,
    FLUSH,
    PURGE,
    FLUSH,
];
const CHECKPOINTS: &[Op] = &[
    Op::Create {
        kinds: KIND_GROUP | KIND_TAG,
    },
    fill(0, 6, 100),
    FLUSH,
    Op::Checkpoint,
    COMMIT,
    update(0, 2, 77),
    Op::Checkpoint,
    FLUSH,
    COMMIT,
    Op::Checkpoint,
    delete(0, 4),
    Op::Close { how: 1 },
    insert(1, 9, 5),
    commit(1, 1),
    Op::Close { how: 2 },
    insert(1, 10, 6),
    commit(1, 1),
];
const INDEX_BUILD: &[Op] = &[
    Op::Create { kinds: 0 },
    fill(0, 40, 250),
    COMMIT,
    Op::AddIndex { table: 0, kind: 2 },
    Op::AddIndex { table: 0, kind: 0 },
    fill(40, 4, 250),
    COMMIT,
    Op::DropIndex { table: 0, which: 0 },
];
/// What the second load gets was the first one's, and was changed through the log meanwhile.
const INDEX_REBUILD: &[Op] = &[
    Op::Create { kinds: 0 },
    fill(0, 40, 250),
    COMMIT,
    Op::AddIndex { table: 0, kind: 2 },
    Op::Checkpoint,
    fill(40, 30, 250),
    clear(10, 20),
    COMMIT,
    FLUSH,
    Op::DropIndex { table: 0, which: 0 },
    Op::AddIndex { table: 0, kind: 2 },
    fill(80, 8, 250),
    COMMIT,
];
const REDO_OFF: &[Op] = &[
    Op::Create { kinds: 7 },
    fill(0, 12, 100),
    COMMIT,
    Op::RedoLog { on: false },
    fill(20, 20, 300),
    clear(3, 6),
    COMMIT,
    PARTITION,
    PURGE,
    MERGE,
    fill(50, 4, 60),
    FLUSH,
    Op::RedoLog { on: true },
    update(0, 20, 5),
    COMMIT,
    Op::RedoLog { on: false },
    fill(60, 3, 60),
    COMMIT,
    Op::DropIndex { table: 0, which: 0 },
    Op::AddIndex { table: 0, kind: 0 },
    Op::Close { how: 1 },
    insert(1, 9, 5),
    commit(1, 1),
];
const RESIZES: &[Op] = &[
    Op::Create { kinds: KIND_GROUP },
    fill(0, 8, 300),
    Op::ResizeLog { size: 3 },
    Op::Checkpoint,
    COMMIT,
    Op::Checkpoint,
    fill(8, 20, 300),
    FLUSH,
    Op::Checkpoint,
    COMMIT,
    Op::ResizeLog { size: 0 },
    insert(1, 40, 1),
    Op::Checkpoint,
    FLUSH,
    Op::Checkpoint,
    commit(1, 1),
    Op::Checkpoint,
    fill(50, 8, 300),
    COMMIT,
];
const ROLLBACK: &[Op] = &[
    Op::Create { kinds: 7 },
    fill(0, 12, 300),
    COMMIT,
    update(0, 3, 4),
    clear(5, 5),
    Op::Savepoint { trx: 0 },
    fill(20, 12, 300),
    FLUSH,
    Op::RollbackTo { trx: 0 },
    fill(30, 3, 100),
    FLUSH,
    Op::Rollback { trx: 0 },
    FLUSH,
];
const OVERFLOW_ROWS: &[Op] = &[
    Op::Create { kinds: KIND_GROUP },
    fill(0, 2, 9000),
    FLUSH,
    COMMIT,
    update(0, 0, 1),
    fill(2, 1, 20000),
    FLUSH,
    Op::Rollback { trx: 0 },
    update(0, 1, 1),
    COMMIT,
    FLUSH,
    PURGE,
    FLUSH,
];
const GROUP_COMMIT: &[Op] = &[
    Op::Create { kinds: KIND_TAG },
    insert(0, 1, 1),
    insert(1, 2, 2),
    insert(2, 3, 3),
    insert(3, 4, 4),
    commit(1, 2),
    commit(0, 0),
    commit(3, 2),
    Op::SyncLog,
    commit(2, 1),
    insert(1, 5, 5),
    commit(1, 0),
    insert(2, 6, 6),
    commit(2, 1),
];
const PREPARED: &[Op] = &[
    Op::Create { kinds: KIND_GROUP },
    fill(0, 6, 100),
    COMMIT,
    update(1, 1, 3),
    insert(1, 9, 3),
    Op::Prepare { trx: 1, flush: 1 },
    fill(10, 50, 100),
    delete(0, 3),
    Op::Prepare { trx: 0, flush: 1 },
    FLUSH,
    decide(true),
    // Cut short, the rollback must not leave half of the transaction prepared: that half would be
    // committed below. It is large, so that its log is many sectors, and a crash keeps some of
    // them.
    decide(false),
    FLUSH,
    decide(true),
    insert(1, 70, 3),
    Op::Prepare { trx: 1, flush: 1 },
    decide(false),
    FLUSH,
];
const LOADED: &[Op] = &[
    Op::Create { kinds: 7 },
    load(0, 40, 400),
    update(0, 3, 5),
    delete(0, 4),
    FLUSH,
    Op::Rollback { trx: 0 },
    FLUSH,
    PURGE,
    load(0, 30, 300),
    Op::Savepoint { trx: 0 },
    update(0, 3, 5),
    Op::RollbackTo { trx: 0 },
    insert(1, 50, 9),
    Op::Checkpoint,
    COMMIT,
    commit(1, 1),
    Op::Truncate { table: 0 },
    load(0, 3, 9000),
    Op::Prepare { trx: 0, flush: 1 },
    FLUSH,
    decide(false),
    load(0, 50, 200),
    Op::Prepare { trx: 0, flush: 1 },
    decide(true),
    LOOK,
];
const LOADED_LOG_OFF: &[Op] = &[
    Op::Create { kinds: 3 },
    Op::RedoLog { on: false },
    load(0, 30, 300),
    Op::RedoLog { on: true },
    FLUSH,
    COMMIT,
    Op::Truncate { table: 0 },
    load(0, 30, 300),
    Op::RedoLog { on: false },
    Op::Rollback { trx: 0 },
    Op::RedoLog { on: true },
    load(0, 5, 300),
    COMMIT,
];
const EVICTION: &[Op] = &[
    Op::Create { kinds: 7 },
    fill(0, 30, 1000),
    COMMIT,
    fill(30, 30, 1000),
    clear(10, 20),
    COMMIT,
    LOOK,
];

const BUFFERED: &[Op] = &[
    Op::Create { kinds: 7 },
    fill(0, 30, 60),
    COMMIT,
    PARTITION,
    clear(3, 12),
    update(0, 20, 9),
    COMMIT,
    MERGE,
    PURGE,
    PARTITION,
    fill(5, 6, 60),
    FLUSH,
    Op::CloseIdle,
    Op::CloseIdle,
    Op::Rollback { trx: 0 },
    MERGE,
    Op::Analyze { table: 0 },
    Op::DropIndex { table: 0, which: 0 },
    fill(40, 9, 60),
    COMMIT,
    Op::Close { how: 2 },
    MERGE,
    delete(0, 41),
    COMMIT,
    FLUSH,
    Op::Close { how: 0 },
];

/// Some undo for purge.
const UNDO: [Op; 4] = [fill(0, 120, 139), COMMIT, clear(0, 120), COMMIT];
const UNDO_IS_CUT: [Op; 18] = joined(&[&[PURGE_ONE; 10], &[Op::Shrink; 8]]);

/// Undo of two transactions at a time grows, is purged and cut off, grows into what was cut, and is
/// cut off again.
const UNDO_CUT: &[Op] = &joined::<69>(&[
    &[Op::Create { kinds: KIND_WIDE }, fill(0, 120, 139), insert(1, 130, 1)],
    &[COMMIT, clear(0, 120), COMMIT],
    &UNDO,
    &[fill(0, 120, 139), COMMIT, clear(0, 120), insert(2, 131, 1), COMMIT],
    // High pages are changed after the checkpoint, so recovery reads them.
    &[FLUSH, FLUSH, Op::Checkpoint, insert(2, 132, 1), update(1, 130, 2)],
    &[commit(2, 1), commit(1, 1)],
    &UNDO_IS_CUT,
    // It grows into what was cut.
    &UNDO,
    &[fill(0, 120, 139), COMMIT, clear(0, 120), insert(1, 133, 3), COMMIT],
    &[FLUSH, commit(1, 1)],
    &UNDO_IS_CUT,
]);

/// Else the workload would show nothing.
#[test]
#[cfg(feature = "tiny-pages")]
fn undo_is_cut_off_in_its_workload() {
    for setup in setups(7) {
        let (mut cut, mut sizes) = (0, Vec::new());
        let done = run_watched(setup, UNDO_CUT, |engine| {
            let usage = space::usage(&engine.store().pool, UNDO_FILE).expect("usage");
            sizes.push((usage.used, usage.pages));
            cut = engine.counters().undo_pages_cut.get();
        });
        assert_eq!(done, None);
        assert!(cut > 8, "{cut} pages were cut off; in use and in all: {sizes:?}");
    }
}

const UNSEEN: &[Op] = &[
    Op::Create { kinds: KIND_TAG },
    fill(0, 40, 250),
    COMMIT,
    Op::Merge {
        leaves: 40,
        partition: false,
    },
    EVICT,
    // Their leaves are not in the pool, and lack them.
    fill(40, 8, 250),
    COMMIT,
    PARTITION,
    EVICT,
    fill(48, 6, 250),
    Op::Rollback { trx: 0 },
    EVICT,
    MERGE,
    delete(0, 43),
    COMMIT,
    PURGE,
    EVICT,
    fill(43, 1, 250),
    COMMIT,
    LOOK,
];

#[test]
#[cfg(feature = "tiny-pages")]
fn new_values_are_put_unseen_in_their_workload() {
    for setup in setups(7).into_iter().filter(|setup| setup.buffer % 3 == 1) {
        let mut unseen = 0;
        let done = run_watched(setup, UNSEEN, |engine| {
            unseen = engine.counters().change_buffer_unique_checks_spared.get();
        });
        assert_eq!(done, None);
        assert!(unseen > 2, "{unseen}");
    }
}

/// Disks that a workload is tried on.
pub fn setups(seed: u64) -> Vec<Setup> {
    let small = Setup {
        seed,
        frames: 24,
        redo_capacity: REDO_CAPACITY,
        sector: 512,
        doublewrite: true,
        direct_io: true,
        buffer: if cfg!(feature = "tiny-pages") { 1 } else { 2 },
        buffer_memory: 0,
        load_past: true,
    };
    if cfg!(feature = "tiny-pages") {
        let whole_pages = Setup {
            sector: PAGE_SIZE,
            doublewrite: false,
            buffer: 0,
            ..small
        };
        let other_survivors = (1..7).map(|n| Setup {
            seed: seed + n,
            buffer: n as u8,
            buffer_memory: if n == 5 { 256 } else { 0 },
            load_past: n % 2 == 0,
            ..small
        });
        return [small, whole_pages].into_iter().chain(other_survivors).collect();
    }
    vec![Setup { sector: 4096, ..small }]
}

/// SLUICE_WORKLOAD: only those whose name has this in it.
fn is_chosen(name: &str) -> bool {
    std::env::var("SLUICE_WORKLOAD").map_or(true, |part| name.contains(&part))
}

/// Every crash point of every workload; in the ordinary test run, with large pages, every `STEP`th.
const STEP: u64 = if cfg!(feature = "tiny-pages") { 1 } else { 5 };

#[test]
fn a_crash_at_every_change_of_the_disk() {
    let mut points = Vec::new();
    let small = WORKLOADS.iter().map(|workload| (workload, setups(7)));
    let large = LARGE.iter().map(|workload| (workload, large(setups(7))));
    for ((name, ops), setups) in small.chain(large).filter(|((name, _), _)| is_chosen(name)) {
        for setup in setups {
            let (finding, changes) = run_with_crash(setup, ops, 0);
            assert_eq!(finding, None, "{name}, without a crash");
            assert!(changes > 20, "{name}: a workload changes the disk");
            points.extend((1..=changes).step_by(STEP as usize).map(|at| (*name, *ops, setup, at)));
        }
    }
    // In no order: a bug shows early, whichever workload meets it.
    let mut random = Random(7);
    points.sort_by_cached_key(|_| random.below(1 << 30));
    let next = AtomicU64::new(0);
    let findings = Mutex::new(Vec::new());
    let work = || {
        while let Some((name, ops, setup, at)) = points.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            if !findings.lock().expect("no panic").is_empty() {
                return;
            }
            // What survives differs from point to point.
            let setup = Setup {
                seed: setup.seed + at * 16,
                ..*setup
            };
            let (finding, _) = run_with_crash(setup, ops, *at);
            if let Some(what) = finding {
                let mut findings = findings.lock().expect("no panic");
                findings.push(format!("{name}, crash at change {at}, {setup:?}: {what}"));
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        (0..2).for_each(|_| drop(scope.spawn(work)));
    });
    let findings = findings.into_inner().expect("no panic");
    assert!(findings.is_empty(), "{}", findings.join("\n"));
    println!(
        "{} crash points of {} workloads",
        points.len(),
        WORKLOADS.len() + LARGE.len()
    );
}

//! Workloads in which the change buffer redistributes full leaves over their neighbours
//! (`change/merge/multi_leaf.rs`). It does so only where eight of them are a small part of the pool
//! and of the log. The resulting pages are written without a copy in the doublewrite file. A page
//! that a crash tears is made anew from the image in the log. And one workload of wide nodes, which
//! take four times the pages.
use super::op::Op;
#[cfg(feature = "tiny-pages")]
use super::run::run_watched;
use super::setup::{Setup, LARGE_FRAMES, LARGE_REDO_CAPACITY};
use super::statement::APART;
use super::workloads::*;
#[cfg(feature = "tiny-pages")]
use crate::change::REDISTRIBUTED;

pub const LARGE: &[Workload] = &[
    ("leaves spread over their neighbours", SPREADING),
    ("wide nodes", WIDE_NODES),
];

const KIND_HUGE: u64 = 8;
/// Splits and merges of nodes of four pages, their build, and what a rollback and purge do to them.
const WIDE_NODES: &[Op] = &[
    Op::Create { kinds: KIND_HUGE | 1 },
    fill(0, 30, 300),
    FLUSH,
    COMMIT,
    update(0, 3, 77),
    clear(5, 10),
    Op::Rollback { trx: 0 },
    FLUSH,
    Op::Checkpoint,
    clear(0, 20),
    COMMIT,
    PURGE,
    FLUSH,
    Op::DropIndex { table: 0, which: 1 },
    Op::AddIndex { table: 0, kind: 3 },
    fill(40, 12, 250),
    FLUSH,
    COMMIT,
    EVICT,
    update(0, 41, 5),
    COMMIT,
    FLUSH,
];

/// Those in which the test mode has changes buffered, with a large pool, and a log to match.
pub fn large(setups: Vec<Setup>) -> Vec<Setup> {
    let one = |setup| Setup {
        frames: LARGE_FRAMES,
        redo_capacity: LARGE_REDO_CAPACITY,
        buffer_memory: 0,
        ..setup
    };
    setups
        .into_iter()
        .filter(|setup| setup.buffer % 3 > 0)
        .map(one)
        .collect()
}

const MERGE_ALL: Op = Op::Merge {
    leaves: 40,
    partition: false,
};
const FIRST: u64 = APART;
const SPREADING: &[Op] = &[
    Op::Create { kinds: 0 },
    fill(FIRST, 90, 300),
    COMMIT,
    // A bulk build leaves them full.
    Op::AddIndex { table: 0, kind: 1 },
    Op::Checkpoint,
    fill(FIRST + 90, 60, 300),
    COMMIT,
    MERGE_ALL,
    FLUSH,
    // Written anew, then changed a little, and written again.
    update(0, FIRST + 7, 77),
    clear(FIRST, 60),
    COMMIT,
    PURGE,
    MERGE_ALL,
    FLUSH,
    Op::Checkpoint,
    // Some leaves are sparse now, and their neighbours are full.
    fill(FIRST, 30, 20),
    PARTITION,
    delete(0, FIRST + 90),
    fill(FIRST + 30, 30, 299),
    COMMIT,
    MERGE_ALL,
    EVICT,
    delete(0, FIRST + 91),
    COMMIT,
    PURGE,
    FLUSH,
];

/// Else the workload would show nothing.
#[test]
#[cfg(feature = "tiny-pages")]
fn leaves_are_spread_in_their_workload() {
    for setup in large(setups(7)) {
        let before = REDISTRIBUTED.get();
        let (mut written, mut copied) = (0, 0);
        let done = run_watched(setup, SPREADING, |engine| {
            let c = engine.counters();
            (written, copied) = (c.buffer_pool_pages_flushed.get(), c.dblwr_pages_written.get());
        });
        assert_eq!(done, None);
        let (stretches, leaves) = (REDISTRIBUTED.get().0 - before.0, REDISTRIBUTED.get().1 - before.1);
        println!("{stretches} stretches of {leaves} leaves; {written} pages written, and copies of {copied}");
        assert!(
            stretches > 2 && leaves > 3 * stretches,
            "{setup:?}: {stretches}, {leaves}"
        );
        assert!(copied + leaves <= written, "{setup:?}: {written}, {copied}");
    }
}

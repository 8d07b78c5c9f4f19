//! The undo file is truncated, and then the machine dies. Pool and log are so large that nothing is
//! written before it must be. The small ones of the crash set write everything soon, for reasons of
//! their own, and would not show what is missing.
use super::fixture::*;
use crate::base::ids::UNDO_FILE;
use crate::engine::steps::{self, LoserRollback};
use crate::engine::{Config, Engine};
use crate::io::sim::SimDisk;
use crate::pool::PAGE_SIZE;
use crate::space;
use crate::table::StoreConfig;
use crate::txn::{Isolation, Trx};
use std::sync::Arc;

const KEPT: u32 = 4;
/// A fifth of a page of undo for each change.
const BODY: usize = PAGE_SIZE / 5;

fn config_of(pool_pages: u64) -> Config {
    Config {
        buffer_pool_size: pool_pages * PAGE_SIZE as u64,
        redo_log_capacity: 8192 * PAGE_SIZE as u64,
        redo_log_buffer_size: 16 << 20,
        store: StoreConfig {
            undo_pages_kept: KEPT,
            ..StoreConfig::default()
        },
        ..config()
    }
}

struct Bed {
    fixture: TableFixture,
    disk: Arc<SimDisk>,
    rows: Model,
}

impl Bed {
    fn new(seed: u64) -> Bed {
        let disk = SimDisk::new(seed);
        let engine = Engine::open_still(disk.clone(), config_of(4096)).expect("engine");
        let (fixture, rows) = (TableFixture::with(engine), Model::new());
        let mut bed = Bed { fixture, disk, rows };
        let mut trx = bed.fixture.begin(Isolation::ReadCommitted);
        for n in 0..900u32 {
            let row = Row {
                group: n as u8 % 7,
                shade: n as u8 % 3,
                tag: Some(n as u16),
                body: vec![0; BODY],
            };
            bed.fixture.insert(&mut trx, &pk(n), &row).expect("insert");
            bed.rows.insert(pk(n), row);
        }
        bed.fixture.engine.commit(&mut trx, true).expect("commit");
        bed
    }
    /// A transaction that changes so many rows.
    fn changed(&self, rows: u32, byte: u8) -> (Trx, Model) {
        let mut trx = self.fixture.begin(Isolation::ReadCommitted);
        let mut changed = self.rows.clone();
        for n in 0..rows {
            let old = &self.rows[&pk(n)];
            let new = Row {
                body: vec![byte; BODY],
                ..old.clone()
            };
            self.fixture.update(&mut trx, &pk(n), old, &new).expect("update");
            changed.insert(pk(n), new);
        }
        (trx, changed)
    }
    fn change(&mut self, rows: u32, byte: u8) {
        let (mut trx, changed) = self.changed(rows, byte);
        self.fixture.engine.commit(&mut trx, true).expect("commit");
        self.rows = changed;
    }
    /// What purge frees, the engine would have cut off after half a minute.
    fn cut(&self) {
        while self.fixture.store().purger().purge_step(1000).expect("purge") {}
        for _ in 0..30 {
            while steps::truncate_undo(self.fixture.store()).expect("shrink") {}
        }
    }
    fn pages(&self) -> u32 {
        space::usage(&self.fixture.store().pool, UNDO_FILE)
            .expect("usage")
            .pages
    }
    /// Of the file, as the disk has it.
    fn len(&self) -> u32 {
        let bytes = self.disk.bytes("00000002.slu").expect("the undo file").len();
        (bytes / PAGE_SIZE) as u32
    }
    /// The machine dies, and starts again with a pool of that size: nothing is missing.
    fn crash(self, seed: u64, pool_pages: u64) -> Bed {
        let disk = self.disk.crash(seed);
        drop(self.fixture);
        let engine = Engine::open_still(disk.clone(), config_of(pool_pages)).expect("a start after the crash");
        let table = engine.store().tables().open_table("t").expect("open");
        let fixture = TableFixture { engine, table };
        let bed = Bed {
            fixture,
            disk,
            rows: self.rows,
        };
        assert_eq!(bed.len(), bed.pages(), "the start leaves no page past the end");
        let mut trx = bed.fixture.begin(Isolation::RepeatableRead);
        bed.fixture.check_view(&mut trx, &bed.rows, "after the crash");
        bed.fixture.engine.commit(&mut trx, false).expect("commit");
        let mut losers = LoserRollback::new(bed.fixture.engine.in_doubt.take_losers());
        while losers.step(bed.fixture.store(), 1000).expect("rollback") {}
        bed.fixture.check_table();
        bed
    }
}

/// Otherwise a start finds the old header on disk and no record of a truncation in the log. It then
/// looks for undo past the end of the file.
#[test]
fn the_log_says_what_was_cut_before_the_file_is_shorter() {
    for seed in 0..3 {
        let mut bed = Bed::new(seed);
        bed.change(900, 1);
        bed.fixture.engine.checkpoint().expect("checkpoint");
        let before = bed.pages();
        assert_eq!(bed.len(), before);
        // Nothing of what purge and the cut say is durable yet, unless the cut sees to it.
        bed.cut();
        assert!(bed.len() < before / 2, "{} of {before} pages are left", bed.len());
        bed.crash(seed, 4096);
    }
}

/// Pages that were changed, and then cut off, are never written: that would make the file long
/// again, whatever it holds by then.
#[test]
fn nothing_is_written_late_behind_the_end() {
    let mut bed = Bed::new(4);
    bed.change(900, 1);
    let before = bed.pages();
    bed.cut();
    let short = bed.pages();
    assert!(short < before / 2, "{short} of {before} pages are left");
    // It grows again, but not to where it was.
    bed.change(500, 2);
    let between = bed.pages();
    assert!(
        short < between && between < before,
        "{short}, {between}, {before} pages"
    );
    bed.fixture.engine.checkpoint().expect("checkpoint");
    assert_eq!(bed.len(), between);
    bed.crash(4, 4096);
}

/// All of it after one checkpoint, and an open transaction's undo lies where the file was truncated
/// twice. It is applied in one round, and by a pool so small that it takes many.
#[test]
fn cut_and_grown_and_cut_again_in_one_log() {
    for pool_pages in [4096, 64] {
        let mut bed = Bed::new(5);
        let checkpoint = bed.fixture.store().redo.checkpoint_lsn();
        let mut lengths = Vec::new();
        for (rows, byte) in [(900, 1), (400, 2), (800, 3)] {
            bed.change(rows, byte);
            lengths.push(bed.pages());
            bed.cut();
            lengths.push(bed.pages());
        }
        assert!(lengths.chunks(2).all(|of| of[1] < of[0]), "{lengths:?}");
        let (trx, _) = bed.changed(700, 4);
        assert!(bed.pages() > lengths[5], "it grew into what was cut");
        bed.fixture.engine.flush_log().expect("flush");
        assert_eq!(bed.fixture.store().redo.checkpoint_lsn(), checkpoint);
        std::mem::forget(trx);
        let mut bed = bed.crash(5, pool_pages);
        // And on it goes.
        bed.change(300, 5);
        bed.cut();
        bed.fixture.engine.flush_log().expect("flush");
        bed.crash(6, 4096);
    }
}

//! Tests of the whole transaction system: `model` (against a model, with restarts), `crash` (at
//! every write), `concurrent` (threads). Here is their fixture: a pool over a simulated disk.
//! Tests of locks and of undo are in their folders.
mod concurrent;
mod crash;
mod model;

use super::*;
use crate::base::ids::UNDO_FILE;
use crate::base::{Counters, Error, UndoPtr};
pub(in crate::txn) use crate::io::sim::Rng;
use crate::io::SimDisk;
use crate::pool::testing::PoolFixture;
use crate::redo::FlushMode;
use crate::space;
use std::sync::Arc;

const FRAMES: usize = 256;

pub(in crate::txn) struct Bed {
    pub(in crate::txn) fixture: PoolFixture,
    pub(in crate::txn) sys: Arc<TrxSys>,
    pub(in crate::txn) recovered: Vec<RecoveredTrx>,
}

impl Bed {
    pub(in crate::txn) fn create(seed: u64) -> Bed {
        let fixture = PoolFixture::create(seed, FRAMES);
        TrxSys::create(&fixture.pool).unwrap();
        let bed = Bed::open(fixture);
        bed.flush();
        bed
    }
    pub(in crate::txn) fn open(fixture: PoolFixture) -> Bed {
        let (sys, recovered) = TrxSys::open(fixture.pool.clone(), Arc::new(Counters::default())).unwrap();
        Bed {
            fixture,
            sys,
            recovered,
        }
    }
    /// Stops without a clean end and starts again.
    pub(in crate::txn) fn crash(self, seed: u64) -> Bed {
        Bed::after(self.fixture.disk.crash(seed))
    }
    pub(in crate::txn) fn after(disk: Arc<SimDisk>) -> Bed {
        Bed::open(PoolFixture::recover(disk, FRAMES, &mut |_, _| ()))
    }
    pub(in crate::txn) fn trx(&self) -> Trx {
        let mut trx = self.sys.new_trx(Arc::new(ThreadWaiter::new()), 1);
        self.sys.start(&mut trx, Isolation::RepeatableRead, 1000);
        trx
    }
    pub(in crate::txn) fn append(&self, trx: &mut Trx, payload: &[u8]) -> Result<UndoPtr, Error> {
        self.sys.ensure_id(trx)?;
        // Both ways to get room.
        if payload.len() % 2 == 0 {
            self.sys.reserve_undo(trx, payload.len())?;
        }
        let mut mtr = self.fixture.pool.begin();
        let at = self.sys.append_undo(trx, &mut mtr, payload)?;
        trx.note_lsn(mtr.commit());
        Ok(at)
    }
    pub(in crate::txn) fn flush(&self) {
        let redo = self.fixture.pool.redo();
        redo.flush(redo.lsn(), FlushMode::Sync).unwrap();
    }
    /// Every page of the undo file has an owner.
    pub(in crate::txn) fn check_pages(&self) {
        let used = space::usage(&self.fixture.pool, UNDO_FILE).unwrap().used;
        let undo = self.sys.undo.stream_pages.get();
        // Header, bitmap, system page; with the first stream a directory page.
        let others = if undo == 0 { 3 } else { 4 };
        assert_eq!(used as u64, undo + others);
    }
}

pub(in crate::txn) fn payload(rng: &mut Rng, max: u64) -> Vec<u8> {
    let len = rng.below(max + 1) as usize;
    let first = rng.next();
    (0..len).map(|i| (first as usize + i * 7) as u8).collect()
}

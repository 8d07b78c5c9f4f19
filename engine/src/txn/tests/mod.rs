//! Tests of transactions: `locks` (threads), `named` (whom waiters hear of), `lock_report` (as people see them), `undo` (streams and views), `model` (against a model, with restarts),
//! `crash` (at every write), `concurrent`, `shrink`; here the bed they lie in: a pool over a simulated disk, and dice.
mod concurrent;
mod crash;
mod lock_report;
mod locks;
mod model;
mod named;
mod shrink;
mod undo;

use super::wait::ThreadWaiter;
use super::*;
use crate::base::ids::UNDO_FILE;
use crate::base::{Counters, Error, UndoPtr};
pub(super) use crate::io::sim::Dice;
use crate::io::SimDisk;
use crate::pool::testing::PoolFixture;
use crate::redo::FlushMode;
use crate::space;
use std::sync::Arc;

const FRAMES: usize = 256;

pub(super) struct Bed {
    pub(super) rig: PoolFixture,
    pub(super) sys: Arc<TrxSys>,
    pub(super) recovered: Vec<RecoveredTrx>,
}

impl Bed {
    pub(super) fn create(seed: u64) -> Bed {
        let rig = PoolFixture::create(seed, FRAMES);
        TrxSys::create(&rig.pool).unwrap();
        let bed = Bed::open(rig);
        bed.flush();
        bed
    }
    pub(super) fn open(rig: PoolFixture) -> Bed {
        let (sys, recovered) = TrxSys::open(rig.pool.clone(), Arc::new(Counters::default())).unwrap();
        Bed { rig, sys, recovered }
    }
    /// Stops without a clean end and starts again.
    pub(super) fn crash(self, seed: u64) -> Bed {
        Bed::after(self.rig.disk.crash(seed))
    }
    pub(super) fn after(disk: Arc<SimDisk>) -> Bed {
        Bed::open(PoolFixture::recover(disk, FRAMES, &mut |_, _| ()))
    }
    pub(super) fn trx(&self) -> Trx {
        let mut trx = self.sys.new_trx(Arc::new(ThreadWaiter::new()), 1);
        self.sys.start(&mut trx, Isolation::RepeatableRead, 1000);
        trx
    }
    pub(super) fn append(&self, trx: &mut Trx, payload: &[u8]) -> Result<UndoPtr, Error> {
        self.sys.ensure_id(trx)?;
        // Both ways to get room.
        if payload.len() % 2 == 0 {
            self.sys.reserve_undo(trx, payload.len())?;
        }
        let mut mtr = self.rig.pool.begin();
        let at = self.sys.append_undo(trx, &mut mtr, payload)?;
        trx.last_lsn = mtr.commit();
        Ok(at)
    }
    pub(super) fn flush(&self) {
        let redo = self.rig.pool.redo();
        redo.flush(redo.lsn(), FlushMode::Sync).unwrap();
    }
    /// Every page of the undo file has an owner.
    pub(super) fn check_pages(&self) {
        let used = space::usage(&self.rig.pool, UNDO_FILE).unwrap().used;
        let undo = self.sys.stream_pages.get();
        // Header, bitmap, system page; with the first stream a directory page.
        let others = if undo == 0 { 3 } else { 4 };
        assert_eq!(used as u64, undo + others);
    }
}

pub(super) fn payload(dice: &mut Dice, max: u64) -> Vec<u8> {
    let len = dice.below(max + 1) as usize;
    let first = dice.next();
    (0..len).map(|i| (first as usize + i * 7) as u8).collect()
}

//! A round of group commit: the leader takes the log buffer, writes it, and syncs it while the next
//! round writes.
//!
//! The alternative is that a round syncs before the next one begins. Against it, 8 clients commit
//! up to a tenth more, and 50 clients up to a fifth more. The processors are not idle during a
//! sync. The device took some 40 us for each step, the machine had 2 cores (`make bench
//! BENCH='--commit --parts throughput'`). With direct I/O only: `BlockWriter::may_overlap` says
//! why. Other designs that were tried: `docs/decisions/2026-11-22-group-commit.md`.
//!
//! Keeps: syncs run one at a time and in the order of the log; after a failed sync no later one
//! moves `durable`. A round ends by waking its group, after a panic too; if the round failed, the
//! log was poisoned before. Takes `RedoWrite` > `RedoSync` > `RedoRing`, `RedoAppend` >
//! `RedoFlush`. Called by: `log.rs`.
use super::block_format as block;
use super::flush_mode::FlushMode;
use super::flush_queue::Group;
use super::log::{Leader, Redo};
use crate::base::sync::RankedGuard;
use crate::base::{planted, sync_point, Mutant, Result, SyncPoint};
use std::sync::atomic::Ordering;

impl Redo {
    /// One round of group commit. Ends by serving its group, whatever happens.
    pub(super) fn lead(&self, mode: FlushMode) {
        let mut round = Round::new(self);
        if let Err(e) = self.lead_round(&mut round, mode) {
            self.set_poison(&format!("writing the redo log failed: {e}"));
        }
    }
    fn lead_round<'r>(&'r self, round: &mut Round<'r>, mode: FlushMode) -> Result<()> {
        let mut leader = self.leader.lock();
        if self.state.is_off() || self.is_poisoned() {
            return Ok(());
        }
        let Leader { blocks, batch } = &mut *leader;
        debug_assert!(batch.is_empty(), "the batch of the round before is written");
        let groups = self.take_active(batch);
        let (served, mode) = self.queue.depart(mode);
        self.counters.redo_log_groups.add(groups);
        self.counters.redo_log_bytes.add(batch.len() as u64);
        let waiting = served.size();
        round.served = Some(served);
        blocks.set_durable(block::position_of(self.durable_lsn()));
        if !blocks.may_overlap(batch.len(), mode) {
            round.await_sync()?;
            blocks.set_durable(block::position_of(self.durable_lsn()));
        }
        if !batch.is_empty() {
            let start = self.disk.now_us();
            let written = blocks.write(batch, mode);
            self.counters.redo_log_write_time_us.add(self.disk.now_us() - start);
            batch.clear();
            written?;
        }
        debug_assert!(
            block::lsn_of(blocks.position()) >= self.written.load(Ordering::Acquire),
            "what was written stays written"
        );
        self.written.store(block::lsn_of(blocks.position()), Ordering::Release);
        if mode == FlushMode::Write {
            self.durable.store(block::lsn_of(blocks.durable()), Ordering::Release);
            return Ok(());
        }
        self.counters.redo_log_group_size_max.raise(waiting + 1);
        round.await_sync()?;
        let unsynced = blocks.take_unsynced();
        drop(leader);
        round.pass_on();
        sync_point(SyncPoint::LogToBeSynced);
        let start = self.disk.now_us();
        let durable = unsynced.sync(&self.counters)?;
        self.counters.redo_log_sync_time_us.add(self.disk.now_us() - start);
        debug_assert!(
            block::lsn_of(durable) >= self.durable_lsn(),
            "the durable LSN never goes back"
        );
        self.durable.store(block::lsn_of(durable), Ordering::Release);
        Ok(())
    }
    /// Swaps the active buffer for `batch`, which is empty. Returns the number of groups in it.
    fn take_active(&self, batch: &mut Vec<u8>) -> u64 {
        let mut active = self.active.lock();
        std::mem::swap(&mut active.bytes, batch);
        self.taken.store(block::lsn_of(active.end), Ordering::Release);
        std::mem::take(&mut active.groups)
    }
}

/// A leader's round. Its drop serves the waiting threads, after a panic too.
struct Round<'r> {
    redo: &'r Redo,
    leads: bool,
    /// The threads that the round serves. None: it has not departed.
    served: Option<Group>,
    /// Held when the rounds before have ended: no other round syncs.
    syncing: Option<RankedGuard<'r, ()>>,
}

impl<'r> Round<'r> {
    fn new(redo: &'r Redo) -> Round<'r> {
        Round {
            redo,
            leads: true,
            served: None,
            syncing: None,
        }
    }
    /// Waits for the end of the sync of the round before. An error: that sync failed. Its bytes may
    /// be lost for good, and a later sync that succeeds proves nothing.
    fn await_sync(&mut self) -> Result<()> {
        self.syncing.get_or_insert_with(|| {
            sync_point(SyncPoint::SyncAwaited);
            self.redo.syncing.lock()
        });
        match planted(Mutant::FailedSyncForgotten) {
            true => Ok(()),
            false => self.redo.check_alive(),
        }
    }
    fn pass_on(&mut self) {
        debug_assert!(
            self.leads && self.served.is_some(),
            "a round departs before it passes the lead on"
        );
        self.leads = false;
        let waiting = self.served.as_ref().map_or(0, Group::size);
        self.redo.queue.pass_on(waiting + 1);
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.redo.set_poison("the thread that wrote the redo log panicked");
        }
        if self.leads {
            self.syncing = None;
            return self.redo.queue.finish(self.served.take());
        }
        let next = self.redo.queue.end_sync();
        self.syncing = None;
        self.served.take().unwrap_or_default().wake();
        next.wake();
    }
}

//! What people are told of a rollback that takes long: a line in the engine's log every half a minute, and one at its end. How far it is at any
//! moment shows the transaction itself: its undo records count down.
//!
//! Called by `rollback.rs` for each record, with no latch held; the clock is asked seldom.
use super::store::Store;
use crate::base::{Level, UndoPtr};
use crate::txn::{RollbackProgress, Trx};
use std::sync::atomic::Ordering;

const TELL_EVERY_US: u64 = 30 * 1_000_000;
/// Steps between two looks at the clock.
const STEPS_A_LOOK: u32 = 16;

impl Store {
    /// A rollback begins, or goes on after a pause: then it is told as one.
    pub(super) fn rollback_goes_on(&self, trx: &mut Trx, to: UndoPtr) {
        trx.shared.rolling_back.store(true, Ordering::Relaxed);
        if trx.rollback.as_ref().is_some_and(|progress| progress.to == to) {
            return;
        }
        let now_us = self.pool.disk().now_us();
        trx.rollback = Some(RollbackProgress {
            to,
            records_at_first: trx.shared.undo_records.load(Ordering::Relaxed),
            began_us: now_us,
            told_us: now_us,
            steps: 0,
        });
    }

    pub(super) fn tell_rollback_progress(&self, trx: &mut Trx) {
        let left = trx.shared.undo_records.load(Ordering::Relaxed);
        let id = trx.id();
        let connection = trx.shared.connection();
        let Some(progress) = &mut trx.rollback else { return };
        progress.steps += 1;
        if progress.steps % STEPS_A_LOOK != 0 {
            return;
        }
        let now_us = self.pool.disk().now_us();
        if now_us < progress.told_us + TELL_EVERY_US {
            return;
        }
        progress.told_us = now_us;
        let all = progress.records_at_first;
        let undone = all.saturating_sub(left);
        let done = match progress.to.is_none() {
            true => format!(
                "{undone} of {all} undo records undone ({} %)",
                undone * 100 / all.max(1)
            ),
            false => format!("back to a savepoint, {undone} undo records undone; {left} are left in the transaction"),
        };
        let seconds = (now_us - progress.began_us) / 1_000_000;
        let who = of_connection(connection);
        (self.log)(
            Level::Info,
            &format!("rolling back transaction {id}{who}: {done} in {seconds} s"),
        );
    }

    /// It has come to its end, or fails.
    pub(super) fn rollback_ends(&self, trx: &mut Trx, done: bool) {
        let Some(progress) = trx.rollback.take() else { return };
        if !done || progress.told_us == progress.began_us {
            return;
        }
        let seconds = (self.pool.disk().now_us() - progress.began_us) / 1_000_000;
        let (id, who) = (trx.id(), of_connection(trx.shared.connection()));
        let left = trx.shared.undo_records.load(Ordering::Relaxed);
        let undone = progress.records_at_first.saturating_sub(left);
        let text = format!("rolled back transaction {id}{who}: {undone} undo records in {seconds} s");
        (self.log)(Level::Info, &text);
    }
}

fn of_connection(connection: u64) -> String {
    match connection {
        0 => String::new(),
        n => format!(" of connection {n}"),
    }
}

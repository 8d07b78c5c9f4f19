//! How far a rollback is, for the next start and for the user. The undo stream gets a note every
//! [`NOTE_EVERY`] records, from which the next start goes on. The engine's log gets a line every
//! half a minute, and one at the end. The transaction's count of undo records falls at any moment.
//!
//! Called by `rollback` for each record, with no latch held. The clock is read seldom.
use crate::base::{Result, UndoPtr};
use crate::pool::{Pool, PAGE_SIZE};
use crate::table::catalog::damage_log::DamageLog;
use crate::txn::{RollbackProgress, Trx, TrxSys};
use std::sync::atomic::Ordering;
use std::sync::Arc;

const TELL_EVERY_US: u64 = 30 * 1_000_000;
/// Steps between two looks at the clock.
const STEPS_A_LOOK: u32 = 16;
/// Steps between two notes in the undo stream: at most so many records are undone again after a
/// crash. Few where pages are tiny, for the simulation.
pub const NOTE_EVERY: u32 = if PAGE_SIZE >= 16 * 1024 { 256 } else { 3 };

/// Keeps note of how far rollbacks are.
pub(in crate::table) struct ProgressNotes {
    pub pool: Arc<Pool>,
    pub trx_sys: Arc<TrxSys>,
    pub log: DamageLog,
}

impl ProgressNotes {
    /// A rollback begins, or goes on after a pause: then both parts are reported as one.
    pub fn goes_on(&self, trx: &mut Trx, to: UndoPtr) {
        trx.shared.rolling_back.store(true, Ordering::Relaxed);
        if trx.rollback().is_some_and(|progress| progress.to == to) {
            return;
        }
        let now_us = self.pool.disk().now_us();
        debug_assert!(
            !trx.is_prepared(),
            "a prepared transaction is resumed before its rollback"
        );
        trx.set_rollback(RollbackProgress {
            to,
            records_at_first: trx.shared.undo_records.load(Ordering::Relaxed),
            began_us: now_us,
            logged_us: now_us,
            steps: 0,
            noted: UndoPtr::NONE,
        });
    }

    /// A step is done.
    pub fn progresses(&self, trx: &mut Trx) -> Result<()> {
        let top = trx.undo_top();
        let Some(progress) = trx.rollback() else {
            return Ok(());
        };
        progress.steps = progress.steps.wrapping_add(1);
        // The end of the rollback has a record of its own, or needs none.
        let is_due = progress.steps % NOTE_EVERY == 0 && top != progress.to && top != progress.noted;
        if is_due && !top.is_none() {
            progress.noted = top;
            self.trx_sys.note_undone(trx)?;
        }
        self.tell(trx);
        Ok(())
    }

    fn tell(&self, trx: &mut Trx) {
        let left = trx.shared.undo_records.load(Ordering::Relaxed);
        let id = trx.id();
        let connection = trx.shared.connection();
        let Some(progress) = trx.rollback() else { return };
        if progress.steps % STEPS_A_LOOK != 0 {
            return;
        }
        let now_us = self.pool.disk().now_us();
        if now_us < progress.logged_us + TELL_EVERY_US {
            return;
        }
        progress.logged_us = now_us;
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
        self.log
            .info(&format!("rolling back transaction {id}{who}: {done} in {seconds} s"));
    }

    /// The rollback has come to its end, or fails.
    pub fn ends(&self, trx: &mut Trx, done: bool) {
        let Some(progress) = trx.take_rollback() else { return };
        if !done || progress.logged_us == progress.began_us {
            return;
        }
        let seconds = (self.pool.disk().now_us() - progress.began_us) / 1_000_000;
        let (id, who) = (trx.id(), of_connection(trx.shared.connection()));
        let left = trx.shared.undo_records.load(Ordering::Relaxed);
        let undone = progress.records_at_first.saturating_sub(left);
        let text = format!("rolled back transaction {id}{who}: {undone} undo records in {seconds} s");
        self.log.info(&text);
    }
}

fn of_connection(connection: u64) -> String {
    match connection {
        0 => String::new(),
        n => format!(" of connection {n}"),
    }
}

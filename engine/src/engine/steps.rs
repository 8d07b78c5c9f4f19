//! The engine's background work as bounded steps (I7).
//!
//! The threads of `workers.rs` repeat them; the simulation calls them where its schedule says so. A
//! step holds no latch and no lock when it returns; ending between two steps loses nothing.
use super::start::checkpoint::write_checkpoint;
use crate::base::sync::holds_nothing;
use crate::base::{Error, Result, TrxId};
use crate::redo::FlushMode;
use crate::table::Store;
use crate::txn::{RecoveredTrx, Trx};

/// Undo records of one purge step.
pub(super) const PURGE_RECORDS: usize = 256;
/// A checkpoint that frees less than this share of the log's capacity (1/n) is put off.
const CHECKPOINT_SHARE: u64 = 32;
/// Steps after which a checkpoint is written, however little it frees.
const CHECKPOINT_LOOKS_MAX: u32 = 25;

/// Fills the free list, and writes as many dirty pages as the pace asks for just now.
pub(super) fn clean(store: &Store) -> Result<()> {
    let target = store.pool.flusher().target();
    if target > 0 || store.pool.flusher().is_short() {
        store.pool.flusher().step(target)?;
    }
    store
        .pool
        .flusher()
        .take_unopened_news()
        .iter()
        .for_each(|text| store.tell(text));
    debug_assert!(holds_nothing(), "I7: a step of the page cleaner leaves nothing held");
    Ok(())
}

/// Moves the checkpoint when that is worth a write, and brings the log's files to the size that is
/// set.
#[derive(Default)]
pub(super) struct Checkpointer {
    looks: u32,
}

impl Checkpointer {
    pub fn step(&mut self, store: &Store) -> Result<()> {
        self.looks += 1;
        let lsn = store.pool.checkpoint_lsn();
        let gain = lsn.saturating_sub(store.redo.checkpoint_lsn());
        debug_assert!(lsn <= store.redo.lsn(), "no checkpoint is ahead of the log");
        let worth_it = gain > store.redo.capacity() / CHECKPOINT_SHARE || self.looks >= CHECKPOINT_LOOKS_MAX;
        if gain > 0 && (worth_it || store.redo.wanted()) {
            write_checkpoint(&store.pool, lsn)?;
            debug_assert!(
                store.redo.checkpoint_lsn() >= lsn - gain,
                "a checkpoint never goes back"
            );
            self.looks = 0;
        } else if store.redo.wanted() {
            store.pool.flusher().wake_cleaner();
        }
        store.redo.adjust_segments()
    }
}

/// Makes durable the log that commits left written or buffered.
pub(super) fn sync_log(store: &Store) -> Result<()> {
    let lsn = store.redo.lsn();
    if store.redo.durable_lsn() < lsn {
        store.redo.flush(lsn, FlushMode::Sync)?;
        debug_assert!(
            store.redo.is_flushed(lsn, FlushMode::Sync),
            "the log is durable up to its end before"
        );
    }
    Ok(())
}

/// Removes a part of the undo file's free end, if the end is too long. True: there may be more.
pub(super) fn truncate_undo(store: &Store) -> Result<bool> {
    let truncated = store.trx_sys.truncate_undo(store.undo_pages_kept);
    debug_assert!(holds_nothing(), "I7: a step of the truncation leaves nothing held");
    match truncated {
        // A stream has no page to move to; the file will be looked at again.
        Err(Error::Full(_)) => Ok(false),
        done => done,
    }
}

/// The rollback of the transactions that a crash ended, one after the other. If this is dropped
/// early, the next open finds those that remain.
pub(super) struct LoserRollback {
    waiting: Vec<RecoveredTrx>,
    current: Option<Trx>,
    /// Losers whose rollback could not be begun.
    put_off: Vec<RecoveredTrx>,
    /// The error log has named all that were put off.
    reported: bool,
}

impl LoserRollback {
    pub fn new(losers: Vec<RecoveredTrx>) -> LoserRollback {
        debug_assert!(
            losers.iter().all(|loser| loser.xid.is_none()),
            "a transaction in doubt is not rolled back unasked"
        );
        LoserRollback {
            waiting: losers,
            current: None,
            put_off: Vec::new(),
            reported: false,
        }
    }
    /// Each loser is in one place. For asserts.
    fn is_sound(&self) -> bool {
        let mut ids: Vec<TrxId> = self.waiting.iter().chain(&self.put_off).map(|loser| loser.id).collect();
        ids.extend(self.current.as_ref().map(Trx::id));
        ids.sort_unstable();
        ids.windows(2).all(|pair| pair[0] < pair[1])
    }
    /// The rollback of the current transaction cannot continue: it is retried later
    /// (`table/undo/waiting.rs`). If it could not even begin, it is put off.
    pub fn put_off_current(&mut self, store: &Store, why: &Error) {
        if let Some(mut trx) = self.current.take() {
            return store.rollbacks().keep_waiting(&mut trx, why);
        }
        let Some(loser) = self.waiting.pop() else { return };
        if !self.reported {
            store.rollbacks().log_rollback_waits(loser.id, why);
        }
        self.put_off.push(loser);
        debug_assert!(self.is_sound(), "a loser that is put off waits in one list");
    }
    pub fn put_off(&self) -> usize {
        self.put_off.len()
    }
    /// Makes the losers that were put off the next ones.
    pub fn take_up_again(&mut self) {
        self.reported = true;
        self.waiting.append(&mut self.put_off);
        debug_assert!(self.is_sound(), "a loser is undone once");
    }
    /// Undoes up to `records_max` records. True: there is more to do. `Error::Full`: nothing is
    /// lost, try again later.
    pub fn step(&mut self, store: &Store, records_max: usize) -> Result<bool> {
        assert!(records_max > 0, "a step undoes something");
        if self.current.is_none() {
            let Some(next) = self.waiting.last() else {
                return Ok(false);
            };
            debug_assert!(next.xid.is_none(), "a transaction in doubt is not rolled back unasked");
            self.current = Some(store.trx_sys.adopt(next)?);
            self.waiting.pop();
            debug_assert!(self.is_sound(), "a loser that is taken up waits no more");
        }
        let trx = self.current.as_mut().ok_or(Error::NotFound)?;
        debug_assert!(
            !trx.is_prepared() && trx.id() != 0,
            "a loser has written and was not prepared"
        );
        if store.rollbacks().rollback_step(trx, records_max)? {
            let id = trx.id();
            store.trx_sys.end_rollback(trx)?;
            debug_assert!(
                !trx.is_started(),
                "the end of a rollback leaves nothing of the transaction"
            );
            self.current = None;
            if self.reported {
                store.rollbacks().log_rollback_finished(id);
            }
        }
        Ok(self.current.is_some() || !self.waiting.is_empty())
    }
}

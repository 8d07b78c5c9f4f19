//! Commits that everybody sees and a crash may still take back: from the end marker's append to the log until the log is as safe as
//! `flush_log_at_trx_commit` asks of a commit. What is past that is *settled*.
//!
//! A transaction that writes builds on them without care: its own end marker comes later in the log. But one that only reads would tell
//! its client what a crash then undoes, and another client, told "committed" by the next life of the server, would write over it: a lost
//! update. So a view knows what was settled when it was made, notes when it shows anything else ([`Unsettled`]), and a transaction
//! that wrote nothing waits at its end until all that such a view sees is settled. That is rare, for a row must be read within the
//! moment of its writer's sync, and it delays nobody else. A locking read shows the newest versions, not those of a view: if one of them
//! is not surely settled, the end of its transaction waits for all commits before that end.
//!
//! Nobody can note that a row is *not* there. So purge takes no records of a deletion that is not settled (`purge.rs`).
//!
//! What was prepared is settled: whether it is committed is on its coordinator's log, be that the binary log.
//! Lives inside the transaction system's mutex (`sys.rs`).
use super::sys::State;
use super::{ReadView, Trx, TrxSys};
use crate::base::{Lsn, Result, TrxId};
use crate::redo::FlushMode;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::Arc;

/// Who had ended at some moment, and how far the log has to be safe for all of them to be settled.
#[derive(Default, Debug)]
pub(super) struct Ended {
    low: TrxId,
    high: TrxId,
    active: Vec<TrxId>,
    /// As [`ReadView::commit_no`].
    pub commit_no: u64,
    lsn: Lsn,
}

impl Ended {
    fn has(&self, trx: TrxId) -> bool {
        trx < self.low || (trx < self.high && self.active.binary_search(&trx).is_err())
    }
}

/// A part of [`State`].
#[derive(Default)]
pub(super) struct Settling {
    pub settled: Arc<Ended>,
    /// Settled as soon as the log is safe up to its LSN.
    next: Arc<Ended>,
    /// End of the newest end marker of a commit.
    pub newest: Lsn,
}

/// Of a view that sees commits that were not settled when it was made.
#[derive(Clone, Debug)]
pub struct Unsettled {
    settled: Arc<Ended>,
    /// Up to here the log must be safe for all that the view sees to be settled.
    lsn: Lsn,
    /// The view has shown a version, or the end of one, that was not settled. Shared by the copies of a view.
    shown: Arc<AtomicBool>,
}

impl Unsettled {
    /// The view shows what `trx` did.
    pub fn note(&self, trx: TrxId) {
        if !self.settled.has(trx) {
            self.shown.store(true, Ordering::Relaxed);
        }
    }
}

/// How safe the log makes a commit; a setting of [`TrxSys`].
#[derive(Default)]
pub(super) struct Safety(AtomicU8);

impl Safety {
    fn get(&self) -> Option<FlushMode> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(FlushMode::Sync),
            _ => Some(FlushMode::Write),
        }
    }
}

impl State {
    fn ended_now(&self) -> Ended {
        Ended {
            low: self.active.first().copied().unwrap_or(self.next),
            high: self.next,
            active: self.active.clone(),
            commit_no: self.commit_no(),
            lsn: self.settling.newest,
        }
    }
    /// Nobody has begun or ended since: who began drew a number, and who ended is not among the active any more.
    fn is_now(&self, ended: &Ended) -> bool {
        ended.high == self.next && ended.active.len() == self.active.len()
    }
    fn settle(&mut self, is_safe: impl Fn(Lsn) -> bool) {
        if !is_safe(self.settling.next.lsn) {
            return;
        }
        if !self.is_now(&self.settling.next) {
            let now = Arc::new(self.ended_now());
            self.settling.settled = std::mem::replace(&mut self.settling.next, now);
            if !is_safe(self.settling.newest) {
                return;
            }
        }
        if !Arc::ptr_eq(&self.settling.settled, &self.settling.next) {
            self.settling.settled = self.settling.next.clone();
        }
    }
    /// For a view made now, behind [`State::settle`]. None: all that it sees is settled.
    pub fn unsettled(&self) -> Option<Unsettled> {
        let Settling { settled, newest, .. } = &self.settling;
        (!self.is_now(settled)).then(|| Unsettled {
            settled: settled.clone(),
            lsn: *newest,
            shown: Arc::default(),
        })
    }
}

impl TrxSys {
    /// A transaction that was told "committed" is as safe as this; None: nothing is written at commit. Until this is called: None.
    pub fn set_commit_safety(&self, mode: Option<FlushMode>) {
        let number = match mode {
            None => 0,
            Some(FlushMode::Sync) => 1,
            Some(FlushMode::Write) => 2,
        };
        self.safety.0.store(number, Ordering::Relaxed);
    }
    /// Moves on what is settled.
    pub(super) fn settle(&self, state: &mut State) {
        state.settle(|lsn| self.is_safe(lsn));
        self.settled_low.store(state.settling.settled.low, Ordering::Relaxed);
    }
    /// A locking read has met the newest version of a row, or an entry, which `maker` made.
    pub fn note_newest(&self, trx: &mut Trx, maker: TrxId) {
        trx.shows_newest |= maker >= self.settled_low.load(Ordering::Relaxed) && maker != trx.id();
    }
    fn is_safe(&self, lsn: Lsn) -> bool {
        self.safety
            .get()
            .is_none_or(|mode| self.pool.redo().is_flushed(lsn, mode))
    }
    /// Everything that has ended by now is settled on return.
    pub(super) fn settle_all(&self) -> Result<()> {
        let newest = self.state.lock().settling.newest;
        match self.safety.get() {
            Some(mode) if !self.is_safe(newest) => self.pool.redo().flush(newest, mode),
            _ => Ok(()),
        }
    }
    /// The view goes: what it has shown stays noted.
    pub(super) fn note_shown(&self, trx: &mut Trx) {
        let views = [&trx.view, &trx.statement_view].into_iter().flatten();
        let unsettled = views.filter_map(|view: &Arc<ReadView>| view.unsettled.as_ref());
        for unsettled in unsettled.filter(|u| u.shown.load(Ordering::Relaxed)) {
            trx.shown_lsn = trx.shown_lsn.max(unsettled.lsn);
        }
    }
    /// What the end of a transaction that wrote nothing must wait for; 0: nothing.
    pub(super) fn shown_lsn(&self, trx: &mut Trx) -> Lsn {
        self.note_shown(trx);
        let lsn = match trx.shows_newest {
            true => self.state.lock().settling.newest,
            false => trx.shown_lsn,
        };
        match self.is_safe(lsn) {
            true => 0,
            false => lsn,
        }
    }
}

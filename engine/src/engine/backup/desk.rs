//! What the engine knows of the backup that runs: whether there is one, how far it is, and where it
//! ends.
//!
//! The thread that copies asks here; the thread that blocks commits fixes the point. Lock: one of
//! rank `Leaf`. Called by: `source`, `ffi`, users of the crate.
use crate::base::sync::RankedMutex;
use crate::base::{Counters, Error, Lsn, Result};
use crate::redo::{FlushMode, Redo};
use std::sync::Arc;

/// How far a backup is. The numbers are those of the status variable `backup_phase`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Phase {
    /// There is none.
    #[default]
    None,
    /// Data files are read.
    Files,
    /// They have been read. The log is followed until the point is fixed.
    Log,
    /// The log is copied up to the point.
    End,
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// And what the one that fixed it says of it.
    point: Option<(Lsn, Vec<u8>)>,
    cancelled: Option<String>,
}

/// See the head of this file.
pub struct BackupDesk {
    redo: Arc<Redo>,
    counters: Arc<Counters>,
    state: RankedMutex<State>,
}

impl BackupDesk {
    pub(in crate::engine) fn new(redo: Arc<Redo>, counters: Arc<Counters>) -> BackupDesk {
        BackupDesk {
            redo,
            counters,
            state: RankedMutex::default(),
        }
    }
    pub fn phase(&self) -> Phase {
        self.state.lock().phase
    }
    pub(super) fn enter(&self, phase: Phase) {
        let mut state = self.state.lock();
        if matches!(phase, Phase::None | Phase::Files) {
            *state = State::default();
        }
        state.phase = phase;
        self.counters.backup_phase.set(phase as u64);
    }
    /// Fixes the point: the backup has what is in the log now, and no more is needed. The caller
    /// blocks commits, so that other engines and the binary log have the same point. `about` goes
    /// into the backup. True: done. False: there is no backup.
    ///
    /// `Error::Unsupported`: data files are still being read. The backup fails.
    pub fn fix_point(&self, about: &[u8]) -> Result<bool> {
        match self.phase() {
            Phase::None => return Ok(false),
            Phase::Files => {
                let why = "commits were blocked before all data files had been read";
                self.cancel(why);
                return Err(Error::Unsupported(format!("the backup has failed: {why}")));
            }
            Phase::Log | Phase::End => {}
        }
        let point = self.redo.lsn();
        self.redo.flush(point, FlushMode::Sync)?;
        let mut state = self.state.lock();
        if state.phase == Phase::Log {
            state.point.get_or_insert_with(|| (point, about.to_vec()));
        }
        Ok(state.phase == Phase::Log)
    }
    /// Ends the backup, if there is one, at its next step.
    pub fn cancel(&self, why: &str) {
        let mut state = self.state.lock();
        state.cancelled.get_or_insert_with(|| why.to_string());
    }
    pub(super) fn point(&self) -> Option<(Lsn, Vec<u8>)> {
        self.state.lock().point.clone()
    }
    /// `Error::Unsupported`: it was cancelled.
    pub fn check_wanted(&self) -> Result<()> {
        match &self.state.lock().cancelled {
            Some(why) => Err(Error::Unsupported(format!("the backup has failed: {why}"))),
            None => Ok(()),
        }
    }
}

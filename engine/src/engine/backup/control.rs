//! [`BackupControl`]: the state of the engine's backup. It says whether a backup runs, in which
//! phase it is, and at which LSN it ends (the *point*).
//!
//! Two threads share this state. One copies the files and the log. The other one blocks commits,
//! and fixes the point. Lock: one of rank `Leaf`. Called by: `source`, `ffi`, users of the crate.
use crate::base::sync::RankedMutex;
use crate::base::{Counters, Error, Lsn, Result};
use crate::redo::{FlushMode, Redo};
use std::sync::Arc;

/// The phase of a backup. The status variable `backup_phase` shows its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Phase {
    /// No backup runs.
    #[default]
    None,
    /// Data files are being read.
    Files,
    /// All data files have been read. The log is copied as it grows, until the point is fixed.
    Log,
    /// The log has been copied up to the point.
    End,
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// The point, and the text that came with it.
    point: Option<(Lsn, Vec<u8>)>,
    /// Why the backup was cancelled.
    cancelled: Option<String>,
}

/// See the head of this file.
pub struct BackupControl {
    redo: Arc<Redo>,
    counters: Arc<Counters>,
    state: RankedMutex<State>,
}

impl BackupControl {
    pub(in crate::engine) fn new(redo: Arc<Redo>, counters: Arc<Counters>) -> BackupControl {
        BackupControl {
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
        assert!(
            phase == Phase::None || phase as u8 == state.phase as u8 + 1,
            "one backup at a time, and its phases follow each other"
        );
        debug_assert!(
            phase != Phase::End || state.point.is_some(),
            "B3: a backup ends at its point"
        );
        if matches!(phase, Phase::None | Phase::Files) {
            *state = State::default();
        }
        state.phase = phase;
        self.counters.backup_phase.set(phase as u64);
    }
    /// Fixes the point at the current end of the log. The caller blocks commits, so that other
    /// engines and the binary log have the same point. `about` is a text that goes into the backup.
    /// False: no backup runs.
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
        assert!(
            self.redo.durable_lsn() >= point,
            "B3: the log is durable up to the point"
        );
        let mut state = self.state.lock();
        if state.phase == Phase::Log {
            state.point.get_or_insert_with(|| (point, about.to_vec()));
        }
        debug_assert!(
            state.point.as_ref().is_none_or(|(fixed, _)| *fixed <= point),
            "B3: the first point stays"
        );
        Ok(state.phase == Phase::Log)
    }
    /// Makes the next step of the backup fail, if a backup runs.
    pub fn cancel(&self, why: &str) {
        let mut state = self.state.lock();
        state.cancelled.get_or_insert_with(|| why.to_string());
    }
    pub(super) fn point(&self) -> Option<(Lsn, Vec<u8>)> {
        let state = self.state.lock();
        debug_assert!(
            state.point.is_none() || state.phase >= Phase::Log,
            "B3: the point is taken after the last page was read"
        );
        state.point.clone()
    }
    /// `Error::Unsupported`: the backup was cancelled.
    pub fn check_wanted(&self) -> Result<()> {
        match &self.state.lock().cancelled {
            Some(why) => Err(Error::Unsupported(format!("the backup has failed: {why}"))),
            None => Ok(()),
        }
    }
}

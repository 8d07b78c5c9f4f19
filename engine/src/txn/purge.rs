//! Purge, as the table layer calls it: which undo is old enough, and the newest position to be
//! saved.
//!
//! `undo/purge.rs` reads and frees the streams, and says why no reader needs what purge takes. This
//! file adds what only [`TrxSys`] knows: the horizon of views and durable ends. No latch is held.
use super::sys::TrxSys;
use super::undo::purge::PurgeJob;
use crate::base::{sync_point, Result, SyncPoint};

impl TrxSys {
    /// Next piece of purge work, at most `records_max` records; None: nothing is old enough.
    /// Several threads may hold jobs.
    pub fn next_purge(&self, records_max: usize) -> Result<Option<PurgeJob>> {
        let (horizon, durable) = self.visibility.horizons();
        sync_point(SyncPoint::HorizonLearned);
        let durable = match self.undo.has_work_from(durable, horizon) {
            false => durable,
            true => {
                self.visibility.make_durable()?;
                self.visibility.horizons().1
            }
        };
        self.undo.next_job(horizon.min(durable), records_max)
    }

    /// The job's records were applied.
    pub fn purged(&self, job: PurgeJob) -> Result<()> {
        self.undo.finish_job(job, &|| self.visibility.position())
    }

    /// The stream heads are made durable as they are, so that the next start hands no purged record
    /// out again.
    pub fn save_heads(&self) -> Result<()> {
        self.undo.save_heads(&self.visibility.position())
    }

    /// One step of giving the undo file's free end back; never makes the file smaller than `kept`
    /// pages. True: something was cut, and there may be more to cut now.
    pub fn truncate_undo(&self, kept: u32) -> Result<bool> {
        self.undo.truncate(kept, &|| self.visibility.position())
    }
}

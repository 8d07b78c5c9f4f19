//! Changes the number of frames. A pool grows in one step. It shrinks in rounds over the frames
//! that are to be withdrawn.
//!
//! The invariants W1 to W7 are in `docs/decisions/2026-11-28-buffer-pool-resize.md`. Each round
//! empties the frames that can be emptied now. Their pages move to other frames, or are evicted.
//! Dirty pages that are to be evicted are written first.
//!
//! Holds no latch while it waits, or writes. Called by: the pool, one thread at a time.
use super::batch::BatchWriter;
use crate::base::{Error, Result};
use crate::pool::frames::frame::{key_id, KEY_NONE};
use crate::pool::frames::resize::Withdrawal;
use crate::pool::page::PAGE_SIZE;

/// A shrink gives up after so long without progress. The number of waits has a bound, too, because
/// a simulated clock stands still.
const GIVES_UP_US: u64 = 10_000_000;
const WAITS_MAX: usize = if cfg!(test) { 100 } else { 5000 };
/// Frames between two calls of the watch.
const WATCH_EVERY: usize = 1024;

/// Gets the number of withdrawn frames, and of all that are to be withdrawn. `Err`: the shrink ends
/// with this error.
pub type ShrinkWatch<'a> = dyn Fn(usize, usize) -> Result<()> + 'a;

impl BatchWriter {
    /// Gets the memory of `count` frames. After an error (`Full`) nothing is changed.
    pub fn grow(&self, count: usize) -> Result<()> {
        self.store.grow(count)?;
        self.written.resize(count);
        Ok(())
    }
    /// Gives up all frames but `count`. After an error there are as many frames as before. The
    /// caller holds no latch.
    pub fn shrink(&self, count: usize, watch: &ShrinkWatch<'_>) -> Result<()> {
        debug_assert!(count < self.store.frames.len(), "a pool that shrinks gives frames up");
        self.store.begin_withdrawal(count);
        if let Err(error) = self.withdraw_all(count, watch) {
            self.store.cancel_withdrawal();
            return Err(error);
        }
        self.store.end_withdrawal();
        self.written.resize(count);
        Ok(())
    }
    fn withdraw_all(&self, count: usize, watch: &ShrinkWatch<'_>) -> Result<()> {
        let all = self.store.frames.mapped() - count;
        // More moves would only exchange pages between frames.
        let mut moves_left = count;
        let (mut waits, mut since_us) = (0, self.disk.now_us());
        let mut why = None;
        let mut before = usize::MAX;
        loop {
            self.check_alive()?;
            let left = self.withdraw_round(count, &mut moves_left, &mut why, &|left| watch(all - left, all))?;
            debug_assert!(left.len() <= all, "frames past the new end are left");
            let Some(busy) = left.last().copied() else {
                return Ok(());
            };
            // The pages that are left are in use all the time, so each of them may move.
            moves_left = moves_left.max(left.len());
            if left.len() < before {
                (before, waits, since_us) = (left.len(), 0, self.disk.now_us());
            } else if waits < WAITS_MAX && self.disk.now_us() < since_us + GIVES_UP_US {
                waits += self.store.clock.wait() as usize;
            } else {
                return Err(self.refusal(count, left.len(), busy, why));
            }
        }
    }
    /// Tries each frame. Returns those that are not withdrawn yet.
    fn withdraw_round(
        &self,
        count: usize,
        moves_left: &mut usize,
        why: &mut Option<Error>,
        watch: &dyn Fn(usize) -> Result<()>,
    ) -> Result<Vec<u32>> {
        let mapped = self.store.frames.mapped();
        let mut left = Vec::new();
        let mut dirty = Vec::new();
        for (done, index) in (count as u32..mapped as u32).enumerate() {
            match self.store.withdraw(index, moves_left) {
                Withdrawal::Done | Withdrawal::DoneBefore => {}
                Withdrawal::Busy => left.push(index),
                Withdrawal::Dirty => dirty.push(index),
            }
            if dirty.len() >= self.batch_max() {
                self.write_and_withdraw(&mut dirty, &mut left, why)?;
            }
            if done % WATCH_EVERY == 0 {
                watch(mapped - count - done - 1 + left.len() + dirty.len())?;
            }
        }
        self.write_and_withdraw(&mut dirty, &mut left, why)?;
        watch(left.len())?;
        Ok(left)
    }
    fn write_and_withdraw(&self, dirty: &mut Vec<u32>, left: &mut Vec<u32>, why: &mut Option<Error>) -> Result<()> {
        match self.write_wanted(dirty) {
            Ok(_) => {}
            Err(error @ Error::Poisoned(_)) => return Err(error),
            // A file cannot be opened. Its pages stay, and the shrink may have to give up.
            Err(error) => *why = Some(error),
        }
        for index in dirty.drain(..) {
            if !matches!(
                self.store.withdraw(index, &mut 0),
                Withdrawal::Done | Withdrawal::DoneBefore
            ) {
                left.push(index);
            }
        }
        Ok(())
    }
    fn refusal(&self, count: usize, left: usize, busy: u32, why: Option<Error>) -> Error {
        let key = self.store.frames.header(busy).key();
        let page = match key < KEY_NONE - 2 {
            true => format!("page {} of file {:08x}.slu", key_id(key).no, key_id(key).file),
            false => "a page that is just being read".into(),
        };
        let why = why.map_or("they are in use all the time".into(), |why| why.to_string());
        Error::Full(format!(
            "the buffer pool cannot shrink to {} bytes and keeps its size: {left} of its pages cannot leave, among them {page} ({why}); \
             set a larger sluice_buffer_pool_size, or try again later",
            count * PAGE_SIZE
        ))
    }
}

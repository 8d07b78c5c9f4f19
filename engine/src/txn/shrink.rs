//! The undo file gives its room back: `docs/decisions/2026-11-21-undo-shrinks.md`. A part of [`TrxSys`].
//!
//! [`TrxSys::shrink_undo`] is called about once a second, by one thread at a time: it notes how much undo is in use, moves idle streams
//! down and cuts off the file's free end, in bounded steps (I7). Everybody else only asks for the *ceiling*, one atomic: streams that
//! need a page do not take one from there on.
use super::TrxSys;
use crate::base::ids::UNDO_FILE;
use crate::base::{PageNo, Result};
use crate::pool::PAGE_SIZE;
use crate::space;
use std::sync::atomic::{AtomicU32, Ordering};

/// The file is cut when it has so many times what is kept, then down to that, and an extent more at most.
const EXCESS: u32 = 2;
/// Pages cut off in one step: who needs a page meanwhile waits for it.
const STEP_PAGES: u32 = 4096;
/// Streams moved in one step.
const STEP_STREAMS: usize = 64;

pub(super) struct Shrink {
    /// Pages in use, of late.
    peak: AtomicU32,
    /// The first page that is to become free.
    ceiling: AtomicU32,
}

impl Default for Shrink {
    fn default() -> Shrink {
        Shrink {
            peak: AtomicU32::new(0),
            ceiling: AtomicU32::new(PageNo::MAX),
        }
    }
}

impl TrxSys {
    pub(super) fn ceiling(&self) -> PageNo {
        self.shrink.ceiling()
    }

    /// One step; never makes the file smaller than `kept` pages. True: something was cut, and there may be more to cut now.
    pub fn shrink_undo(&self, kept: u32) -> Result<bool> {
        let usage = space::usage(&self.pool, UNDO_FILE)?;
        let Some(kept) = self.shrink.kept(kept, usage) else {
            return Ok(false);
        };
        self.move_streams(kept)?;
        let cut = space::truncate_free_end(&self.pool, UNDO_FILE, kept, STEP_PAGES)?;
        self.counters.undo_pages_cut.add(cut as u64);
        Ok(cut > 0)
    }

    /// For people: what the undo file has and what of it is in use, its own pages included, read under one latch. If it cannot be read, the
    /// numbers stay.
    pub fn publish_undo_gauges(&self) {
        if let Ok(usage) = space::usage(&self.pool, UNDO_FILE) {
            self.counters.undo_file_pages.set(usage.pages as u64);
            self.counters.undo_pages.set(usage.used as u64);
            self.counters.undo_bytes.set(usage.used as u64 * PAGE_SIZE as u64);
        }
    }

    /// Streams that nobody uses leave the pages behind the ceiling.
    fn move_streams(&self, ceiling: PageNo) -> Result<()> {
        for _ in 0..STEP_STREAMS {
            let Some(tail) = self.history.take_idle(ceiling) else {
                break;
            };
            let position = self.state.lock().position.clone();
            match self.directory.move_stream(&self.pool, &tail, position) {
                Ok(moved) => {
                    self.stream_pages.sub(tail.ahead.len() as u64);
                    self.history.give_moved(Box::new(moved));
                }
                Err(error) => {
                    self.history.give_moved(tail);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

impl Shrink {
    fn ceiling(&self) -> PageNo {
        self.ceiling.load(Ordering::Relaxed)
    }
    /// Pages to keep of a file that is too long; sets the ceiling there. None: it is not.
    fn kept(&self, least: u32, usage: space::Usage) -> Option<u32> {
        let before = self.peak.load(Ordering::Relaxed);
        let peak = usage.used.max(before - before.div_ceil(4));
        self.peak.store(peak, Ordering::Relaxed);
        let kept = least.max(peak.saturating_add(peak / 2));
        // A cut goes on while the peak fades: its first step keeps what was in use a moment ago.
        let is_under_way = self.ceiling() != PageNo::MAX;
        let most = match is_under_way {
            true => kept.saturating_add(space::EXTENT_PAGES),
            false => kept.saturating_mul(EXCESS),
        };
        let too_long = usage.pages > most;
        let ceiling = if too_long { kept } else { PageNo::MAX };
        self.ceiling.store(ceiling, Ordering::Relaxed);
        too_long.then_some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::{space::Usage, PageNo, Shrink};
    use crate::space::EXTENT_PAGES;

    /// It ended with its first step: after a long transaction the file stayed at anything up to twice what is kept.
    #[test]
    fn a_cut_goes_on_while_the_peak_fades() {
        let shrink = Shrink::default();
        let (least, mut pages) = (1000, 18_000);
        // Purge empties it faster than the peak fades.
        for used in [17_600, 12_000, 6_000, 900, 12, 12].into_iter().chain([12; 20]) {
            if let Some(kept) = shrink.kept(least, Usage { pages, used }) {
                assert!(kept >= least && kept >= used, "{kept} pages for {used}");
                pages = pages.min(kept.next_multiple_of(EXTENT_PAGES));
            }
        }
        assert!(pages <= least + EXTENT_PAGES, "{pages} pages are left");
        assert_eq!(shrink.ceiling(), PageNo::MAX);
        // What swings within a factor of three cuts nothing.
        let pages = 3000;
        for used in [2000, 700, 2000, 700].repeat(8) {
            assert_eq!(shrink.kept(least, Usage { pages, used }), None);
        }
    }
}

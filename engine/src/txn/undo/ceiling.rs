//! How long the undo file may be, and the page from which on it is to become free: the *ceiling*.
//!
//! Two atomics. `truncate.rs` sets the ceiling about once a second; `streams.rs` asks for it when a
//! stream needs a page.
use crate::base::PageNo;
use crate::space;
use std::sync::atomic::{AtomicU32, Ordering};

/// The file is cut when it has this many times the pages to keep; then down to these, and an extent
/// more at most.
const EXCESS: u32 = 2;

pub(super) struct Ceiling {
    /// Pages in use, of late.
    peak: AtomicU32,
    /// The first page that is to become free.
    ceiling: AtomicU32,
}

impl Default for Ceiling {
    fn default() -> Ceiling {
        Ceiling {
            peak: AtomicU32::new(0),
            ceiling: AtomicU32::new(PageNo::MAX),
        }
    }
}

impl Ceiling {
    pub(super) fn get(&self) -> PageNo {
        self.ceiling.load(Ordering::Relaxed)
    }
    /// Pages to keep of a file that is too long; sets the ceiling there. None: it is not.
    pub(super) fn kept(&self, least: u32, usage: space::Usage) -> Option<u32> {
        let before = self.peak.load(Ordering::Relaxed);
        let peak = usage.used.max(before - before.div_ceil(4));
        self.peak.store(peak, Ordering::Relaxed);
        let kept = least.max(peak.saturating_add(peak / 2));
        // A cut goes on while the peak fades: its first step keeps what was in use a moment ago.
        let is_under_way = self.get() != PageNo::MAX;
        let most = match is_under_way {
            true => kept.saturating_add(space::EXTENT_PAGES),
            false => kept.saturating_mul(EXCESS),
        };
        let too_long = usage.pages > most;
        debug_assert!(kept >= least, "the file keeps what the setting asks for");
        debug_assert!(most >= kept, "a file is cut down to less than what makes it be cut");
        let ceiling = if too_long { kept } else { PageNo::MAX };
        self.ceiling.store(ceiling, Ordering::Relaxed);
        too_long.then_some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::{space::Usage, Ceiling, PageNo};
    use crate::space::EXTENT_PAGES;

    /// A cut ended with its first step: after a long transaction the file stayed at up to twice
    /// what is kept.
    #[test]
    fn a_cut_goes_on_while_the_peak_fades() {
        let ceiling = Ceiling::default();
        let (least, mut pages) = (1000, 18_000);
        // Purge empties the file faster than the peak fades.
        for used in [17_600, 12_000, 6_000, 900, 12, 12].into_iter().chain([12; 20]) {
            if let Some(kept) = ceiling.kept(least, Usage { pages, used }) {
                assert!(kept >= least && kept >= used, "{kept} pages for {used}");
                pages = pages.min(kept.next_multiple_of(EXTENT_PAGES));
            }
        }
        assert!(pages <= least + EXTENT_PAGES, "{pages} pages are left");
        assert_eq!(ceiling.get(), PageNo::MAX);
        // Use that swings within a factor of three cuts nothing.
        let pages = 3000;
        for used in [2000, 700, 2000, 700].repeat(8) {
            assert_eq!(ceiling.kept(least, Usage { pages, used }), None);
        }
    }
}

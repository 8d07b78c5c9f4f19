//! Absence filters: what a page that has left the pool does *not* hold
//! (`docs/decisions/2026-11-21-unique-filter.md`).
//!
//! A page changes in the pool only. So a filter made at its eviction describes the page on disk
//! until the page is read, created anew, or written past the pool. A filter is a Bloom filter of
//! hashes. The [`PageHasher`] makes the hashes, because the pool does not know the contents of its
//! pages.
//!
//! **P1** While there is a filter of a page, the page is not in the pool or is just being read. The
//! filter holds every hash of the page. A filter is made when the frame leaves the page table and
//! dropped when a frame enters it, both under the shard's mutex.
//!
//! Bounded: two filters for each frame, each a 64th of a page. They are in sets by hash of the
//! page's number; in a full set a new filter replaces the oldest. A set allocates its memory with
//! its first filter. The number of sets follows the size of the pool. A resize makes the sets anew,
//! one section after the other, each under its mutex.
//!
//! Lock: one of rank `Leaf`, for each section of sets.
//! Called by: `evict` (makes), `store` (drops), `resize`, and `change`, which asks
//! [`AbsenceFilters::lacks`].
use super::geometry::PoolGeometry;
use crate::base::bytes::mixed;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::sync::{Arc, OnceLock, Rank, RankedMutex};
use crate::base::{planted, FileId, Mutant, PageId};
use crate::pool::page::PAGE_SIZE;

const WORDS: usize = PAGE_SIZE / 64 / 8;
const BITS: usize = WORDS * 64;
/// Bits set for a hash. Pages differ in the number of their entries; four is right for 5 to 8 bits
/// an entry.
const PROBES: u32 = 4;
/// Filters in a set.
const WAYS: usize = 8;
const FILTERS_PER_FRAME: usize = 2;
/// Sections of sets, at most.
const SECTIONS: usize = 64;
/// No page.
const NONE: u64 = u64::MAX;

/// Hashes the contents of a page. Called with the page latched and about to be evicted. It takes no
/// lock but one of rank `Leaf`. It must accept damaged pages: perhaps no other code has checked the
/// page yet.
pub trait PageHasher: Send + Sync {
    /// Calls `add` with the hash of everything that a caller may ask for. False: this page gets no
    /// filter.
    fn hash_page(&self, page: &[u8], add: &mut dyn FnMut(u32)) -> bool;
}

/// The filter of one page.
pub(in crate::pool) struct AbsenceFilter([u64; WORDS]);

impl AbsenceFilter {
    fn add(&mut self, hash: u32) {
        places(hash).for_each(|bit| self.0[bit / 64] |= 1 << (bit % 64));
    }
}

fn places(hash: u32) -> impl Iterator<Item = usize> {
    let h = mixed(hash);
    (0..PROBES).map(move |i| (h >> (16 * i)) as usize % BITS)
}

struct Set {
    pages: [u64; WAYS],
    /// The filter that is replaced next.
    next: usize,
    bits: Option<Box<[[u64; WORDS]; WAYS]>>,
}

impl Set {
    fn new() -> Set {
        Set {
            pages: [NONE; WAYS],
            next: 0,
            bits: None,
        }
    }
    fn find(&self, page: u64) -> Option<usize> {
        self.pages.iter().position(|p| *p == page)
    }
    /// False: another filter was replaced.
    fn keep(&mut self, page: u64, filter: [u64; WORDS]) -> bool {
        debug_assert_ne!(page, NONE, "P1: a filter is of a page");
        let free = self.find(page).or_else(|| self.find(NONE));
        let at = free.unwrap_or(self.next);
        if free.is_none() {
            self.next = (at + 1) % WAYS;
        }
        let is_one_more = self.pages[at] == NONE;
        self.pages[at] = page;
        self.bits.get_or_insert_with(|| Box::new([[0; WORDS]; WAYS]))[at] = filter;
        is_one_more
    }
}

/// Sets of filters under one mutex.
struct Section {
    sets: Vec<Set>,
    /// How many sections there are.
    of: usize,
}

impl Section {
    fn set(&mut self, page: u64) -> &mut Set {
        let at = hash_of(page) / self.of % self.sets.len();
        &mut self.sets[at]
    }
    /// Returns how many filters have gone.
    fn forget_if(&mut self, which: impl Fn(u64) -> bool) -> u64 {
        self.sets.iter_mut().map(|set| set.forget_if(&which)).sum()
    }
}

impl Set {
    fn forget_if(&mut self, which: impl Fn(u64) -> bool) -> u64 {
        let mut gone = 0;
        for page in self.pages.iter_mut().filter(|page| **page != NONE && which(**page)) {
            *page = NONE;
            gone += 1;
        }
        gone
    }
}

fn hash_of(page: u64) -> usize {
    (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

/// Sets for a pool of `frames`, in one of `sections`.
fn sets_for(frames: usize, sections: usize) -> usize {
    (frames * FILTERS_PER_FRAME / WAYS).max(1).div_ceil(sections)
}

/// The filters of all pages that have left the pool, as far as there is room.
pub struct AbsenceFilters {
    hasher: OnceLock<Arc<dyn PageHasher>>,
    sections: Box<[RankedMutex<Section>]>,
    count: AtomicU64,
}

impl AbsenceFilters {
    pub(super) fn new(geometry: &PoolGeometry) -> AbsenceFilters {
        let of = sets_for(geometry.frames(), 1).min(SECTIONS);
        let section = || Section {
            sets: (0..sets_for(geometry.frames(), of)).map(|_| Set::new()).collect(),
            of,
        };
        AbsenceFilters {
            hasher: OnceLock::new(),
            sections: (0..of).map(|_| RankedMutex::new(Rank::Leaf, section())).collect(),
            count: AtomicU64::new(0),
        }
    }
    /// The pool has so many frames now.
    pub(super) fn resize(&self, frames: usize) {
        let count = sets_for(frames, self.sections.len());
        for section in &self.sections {
            let new: Vec<Set> = (0..count).map(|_| Set::new()).collect();
            let mut section = section.lock();
            if section.sets.len() == count {
                continue;
            }
            let old = std::mem::replace(&mut section.sets, new);
            let (mut before, mut after) = (0, 0);
            for set in old {
                let Some(bits) = set.bits else { continue };
                let kept = set.pages.iter().zip(&*bits).filter(|(page, _)| **page != NONE);
                for (page, filter) in kept {
                    before += 1;
                    after += section.set(*page).keep(*page, *filter) as u64;
                }
            }
            debug_assert!(after <= before, "no filter is made by a resize");
            self.count.fetch_sub(before - after, Ordering::Relaxed);
        }
    }
    /// Filters are made from now on. The first hasher stays.
    pub fn set_hasher(&self, hasher: Arc<dyn PageHasher>) {
        let _ = self.hasher.set(hasher);
    }
    /// The number of filters.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
    /// True: the page is not in the pool, and holds nothing with this hash. By the time the caller
    /// knows, the page may have been read and changed.
    pub fn lacks(&self, id: PageId, hash: u32) -> bool {
        self.page_lacks(id.as_u64(), hash)
    }
    fn section(&self, page: u64) -> &RankedMutex<Section> {
        &self.sections[hash_of(page) % self.sections.len()]
    }
    /// The filter of a page that may be evicted next.
    pub(super) fn make(&self, bytes: &[u8]) -> Option<AbsenceFilter> {
        let hasher = self.hasher.get()?;
        let mut filter = AbsenceFilter([0; WORDS]);
        hasher.hash_page(bytes, &mut |hash| filter.add(hash)).then_some(filter)
    }
    /// The page leaves the pool. The caller holds its shard of the page table.
    pub(super) fn keep(&self, page: u64, filter: AbsenceFilter) {
        let mut section = self.section(page).lock();
        let is_one_more = section.set(page).keep(page, filter.0);
        // Under the mutex: the count is never less than what there is.
        self.count.fetch_add(is_one_more as u64, Ordering::Relaxed);
    }
    /// The page enters the pool, or gets new contents. The caller holds its shard of the page
    /// table, so it sees the count of every filter that was kept before.
    pub(super) fn forget(&self, page: u64) {
        if self.count.load(Ordering::Relaxed) == 0 || planted(Mutant::AbsenceFilterKept) {
            return;
        }
        let mut section = self.section(page).lock();
        let gone = section.set(page).forget_if(|p| p == page);
        if gone > 0 {
            let before = self.count.fetch_sub(gone, Ordering::Relaxed);
            debug_assert!(before >= gone, "the count is never less than what there is");
        }
    }
    /// Drops the filters of a file of which no page is in the pool, and none enters it any more.
    pub(super) fn forget_file(&self, file: FileId) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        for section in &self.sections {
            let mut section = section.lock();
            let gone = section.forget_if(|p| (p >> 32) as FileId == file);
            let before = self.count.fetch_sub(gone, Ordering::Relaxed);
            debug_assert!(before >= gone, "the count is never less than what there is");
        }
    }
    /// False: perhaps the page holds it.
    fn page_lacks(&self, page: u64, hash: u32) -> bool {
        let mut section = self.section(page).lock();
        let set = section.set(page);
        let (Some(at), Some(bits)) = (set.find(page), &set.bits) else {
            return false;
        };
        places(hash).any(|bit| bits[at][bit / 64] & 1 << (bit % 64) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn of(hashes: &[u32]) -> AbsenceFilter {
        let mut filter = AbsenceFilter([0; WORDS]);
        hashes.iter().for_each(|hash| filter.add(*hash));
        filter
    }

    #[derive(Clone, Debug)]
    enum Step {
        Keep(u64, Vec<u32>),
        Forget(u64),
        ForgetFile(u32),
        Resize(usize),
    }
    fn step() -> impl Strategy<Value = Step> {
        // Two files, pages enough to fill the sets several times.
        let page = || (1..3u64, 0..60u64).prop_map(|(file, no)| file << 32 | no);
        prop_oneof![
            6 => (page(), prop::collection::vec(0..500u32, 0..40)).prop_map(|(p, h)| Step::Keep(p, h)),
            3 => page().prop_map(Step::Forget),
            1 => (1..3u32).prop_map(Step::ForgetFile),
            1 => (1..40usize).prop_map(Step::Resize),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Against a map of what each page outside of the pool holds. No filter says that a page
        /// lacks what it holds, a page in the pool has no filter, and the bound on filters holds.
        #[test]
        fn a_filter_never_denies_what_its_page_holds(steps in prop::collection::vec(step(), 1..200)) {
            let filters = AbsenceFilters::new(&PoolGeometry::for_size(16 * PAGE_SIZE as u64));
            let mut out: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Keep(page, hashes) => {
                        filters.keep(page, of(&hashes));
                        prop_assert!(hashes.iter().all(|h| !filters.page_lacks(page, *h)));
                        out.insert(page, hashes);
                    }
                    Step::Forget(page) => {
                        filters.forget(page);
                        out.remove(&page);
                    }
                    Step::ForgetFile(file) => {
                        filters.forget_file(file);
                        out.retain(|page, _| (page >> 32) as u32 != file);
                    }
                    Step::Resize(frames) => filters.resize(frames),
                }
                let most = (filters.sections.iter().map(|s| s.lock().sets.len()).sum::<usize>() * WAYS) as u64;
                prop_assert!(filters.count.load(Ordering::Relaxed) <= most);
                for page in (1..3u64).flat_map(|file| (0..60).map(move |no| file << 32 | no)) {
                    match out.get(&page) {
                        Some(hashes) => prop_assert!(hashes.iter().all(|h| !filters.page_lacks(page, *h))),
                        None => prop_assert!((0..500).step_by(50).all(|h| !filters.page_lacks(page, h))),
                    }
                }
            }
            let pages = |s: &RankedMutex<Section>| s.lock().sets.iter().flat_map(|s| s.pages).filter(|p| *p != NONE).count();
            let held: usize = filters.sections.iter().map(pages).sum();
            prop_assert_eq!(held as u64, filters.count.load(Ordering::Relaxed));
        }
    }

    /// At 350 entries of a page of 16 KiB, about 5.9 bits each, one answer in sixteen is "perhaps"
    /// for a value that the page lacks.
    #[test]
    fn a_filter_denies_most_of_what_its_page_lacks() {
        let entries = (BITS as u32) * 10 / 58;
        let filters = AbsenceFilters::new(&PoolGeometry::for_size(16 * PAGE_SIZE as u64));
        filters.keep(
            7,
            of(&(0..entries)
                .map(|n| crc32c::crc32c(&n.to_le_bytes()))
                .collect::<Vec<_>>()),
        );
        let wrong = (1 << 20..(1 << 20) + 10_000u32)
            .filter(|n| !filters.page_lacks(7, crc32c::crc32c(&n.to_le_bytes())))
            .count();
        assert!((200..1200).contains(&wrong), "{wrong} of 10,000");
    }
}

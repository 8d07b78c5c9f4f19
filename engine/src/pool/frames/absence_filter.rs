//! Absence filters: what a page that has left the pool does *not* hold
//! (`docs/decisions/2026-11-21-unique-filter.md`).
//!
//! A page changes in the pool only. So a filter made at its eviction describes what is on disk
//! until the page comes back. The page comes back when it is read, made anew, or written past the
//! pool. A filter is a Bloom filter of hashes. The [`PageHasher`] says which ones, for the pool
//! does not know what its pages hold.
//!
//! **P1** While there is a filter of a page, the page is not in the pool or is just being read. The
//! filter holds every hash of the page. A filter is made when the frame leaves the page table and
//! dropped when a frame enters it, both under the shard's mutex.
//!
//! Bounded: two filters for each frame, each a 64th of a page. They live in sets by hash of the
//! page's number; in a full set the oldest gives way. A set takes its memory when it gets its first
//! filter.
//!
//! Lock: one of rank `Leaf`.
//! Called by: `evict` (makes), `store` (drops), and `change`, which asks [`AbsenceFilters::lacks`].
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
/// No page.
const NONE: u64 = u64::MAX;

/// Says what a page holds. Called with the page latched and about to be evicted. It takes no lock
/// but one of rank `Leaf`. It trusts nothing in the page, which perhaps no other code has checked
/// yet.
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
    /// The filter that gives way next.
    next: usize,
    bits: Option<Box<[[u64; WORDS]; WAYS]>>,
}

impl Set {
    fn find(&self, page: u64) -> Option<usize> {
        self.pages.iter().position(|p| *p == page)
    }
}

/// The filters of all pages that have left the pool, as far as there is room.
pub struct AbsenceFilters {
    hasher: OnceLock<Arc<dyn PageHasher>>,
    sets: Box<[RankedMutex<Set>]>,
    count: AtomicU64,
}

impl AbsenceFilters {
    pub(super) fn new(geometry: &PoolGeometry) -> AbsenceFilters {
        let set = || Set {
            pages: [NONE; WAYS],
            next: 0,
            bits: None,
        };
        let sets = (geometry.frames() * FILTERS_PER_FRAME / WAYS).max(1);
        AbsenceFilters {
            hasher: OnceLock::new(),
            sets: (0..sets).map(|_| RankedMutex::new(Rank::Leaf, set())).collect(),
            count: AtomicU64::new(0),
        }
    }
    /// Filters are made from now on. The first hasher stays.
    pub fn set_hasher(&self, hasher: Arc<dyn PageHasher>) {
        let _ = self.hasher.set(hasher);
    }
    /// Filters that there are.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
    /// True: the page is not in the pool, and holds nothing with this hash. It may have come and
    /// changed by the time the caller knows.
    pub fn lacks(&self, id: PageId, hash: u32) -> bool {
        self.page_lacks(id.as_u64(), hash)
    }
    fn set(&self, page: u64) -> &RankedMutex<Set> {
        &self.sets[(page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % self.sets.len()]
    }
    /// The filter of a page that may be about to leave.
    pub(super) fn make(&self, bytes: &[u8]) -> Option<AbsenceFilter> {
        let hasher = self.hasher.get()?;
        let mut filter = AbsenceFilter([0; WORDS]);
        hasher.hash_page(bytes, &mut |hash| filter.add(hash)).then_some(filter)
    }
    /// The page leaves. The caller holds its shard of the page table.
    pub(super) fn keep(&self, page: u64, filter: AbsenceFilter) {
        let mut set = self.set(page).lock();
        let free = set.find(page).or_else(|| set.find(NONE));
        let at = free.unwrap_or(set.next);
        if free.is_none() {
            set.next = (at + 1) % WAYS;
        }
        if set.pages[at] == NONE {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        set.pages[at] = page;
        set.bits.get_or_insert_with(|| Box::new([[0; WORDS]; WAYS]))[at] = filter.0;
    }
    /// The page comes, or becomes another. The caller holds its shard of the page table: so a
    /// filter kept before is counted here.
    pub(super) fn forget(&self, page: u64) {
        if self.count.load(Ordering::Relaxed) == 0 || planted(Mutant::AbsenceFilterKept) {
            return;
        }
        self.forget_if(self.set(page), |p| p == page);
    }
    /// No page of the file is in the pool, and none comes any more.
    pub(super) fn forget_file(&self, file: FileId) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        for set in &self.sets {
            self.forget_if(set, |p| p != NONE && (p >> 32) as FileId == file);
        }
    }
    fn forget_if(&self, set: &RankedMutex<Set>, which: impl Fn(u64) -> bool) {
        let mut set = set.lock();
        for page in set.pages.iter_mut().filter(|page| which(**page)) {
            *page = NONE;
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
    /// False: perhaps the page holds it.
    fn page_lacks(&self, page: u64, hash: u32) -> bool {
        let set = self.set(page).lock();
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
    }
    fn step() -> impl Strategy<Value = Step> {
        // Two files, pages enough to fill the sets several times.
        let page = || (1..3u64, 0..60u64).prop_map(|(file, no)| file << 32 | no);
        prop_oneof![
            6 => (page(), prop::collection::vec(0..500u32, 0..40)).prop_map(|(p, h)| Step::Keep(p, h)),
            3 => page().prop_map(Step::Forget),
            1 => (1..3u32).prop_map(Step::ForgetFile),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Against a map of what each page outside of the pool holds. No filter says that a page
        /// lacks what it holds, a page in the pool has no filter, and the bound on filters holds.
        #[test]
        fn a_filter_never_denies_what_its_page_holds(steps in prop::collection::vec(step(), 1..200)) {
            let filters = AbsenceFilters::new(&PoolGeometry::for_size(16 * PAGE_SIZE as u64));
            let most = (filters.sets.len() * WAYS) as u64;
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
                }
                prop_assert!(filters.count.load(Ordering::Relaxed) <= most);
                for page in (1..3u64).flat_map(|file| (0..60).map(move |no| file << 32 | no)) {
                    match out.get(&page) {
                        Some(hashes) => prop_assert!(hashes.iter().all(|h| !filters.page_lacks(page, *h))),
                        None => prop_assert!((0..500).step_by(50).all(|h| !filters.page_lacks(page, h))),
                    }
                }
            }
            let held: usize = filters.sets.iter().map(|s| s.lock().pages.iter().filter(|p| **p != NONE).count()).sum();
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

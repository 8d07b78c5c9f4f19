//! Imprints: what a page that has left the pool does *not* hold (`docs/decisions/2026-11-21-unique-filter.md`).
//!
//! A page changes in the pool only. So what is taken down as it is evicted holds for what is on disk until the page comes back, by whatever
//! way: it is read, made anew, or written past the pool. An imprint is a Bloom filter of hashes; which ones, says the [`Imprinter`], for the
//! pool does not know what its pages hold.
//!
//! **P1** While there is an imprint of a page, the page is not in the pool, or is just being read, and its imprint holds every hash of it.
//! Made when the frame leaves the page table and dropped when a frame enters it, both under the shard's mutex.
//!
//! Bounded: two imprints for each frame, each a 64th of a page. They live in sets by hash of the page's number; in a full set the oldest gives
//! way. Their memory is taken when a set gets its first. Locks: one of rank `Leaf`.
//! Called by `evict` (made), `fetch` (dropped) and, through [`Pool::lacks`], by `change`.
use super::page::PAGE_SIZE;
use super::Pool;
use crate::base::bytes::mixed;
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{planted, FileId, Mutant, PageId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

const WORDS: usize = PAGE_SIZE / 64 / 8;
const BITS: usize = WORDS * 64;
/// Bits set for a hash. Pages differ in the number of their entries; four is right for 5 to 8 bits an entry.
const PROBES: u32 = 4;
/// Imprints in a set.
const WAYS: usize = 8;
const IMPRINTS_PER_FRAME: usize = 2;
/// No page.
const NONE: u64 = u64::MAX;

/// Says what to take down of a page. Called with the page latched and about to be evicted: takes no lock but one of rank `Leaf`, and trusts
/// nothing in the page, for nobody may have looked at it before.
pub trait Imprinter: Send + Sync {
    /// Calls `add` with the hash of everything that somebody may ask for. False: no imprint of this page.
    fn imprint(&self, page: &[u8], add: &mut dyn FnMut(u32)) -> bool;
}

pub(super) struct Imprint([u64; WORDS]);

impl Imprint {
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
    /// The one that gives way next.
    next: usize,
    bits: Option<Box<[[u64; WORDS]; WAYS]>>,
}

impl Set {
    fn find(&self, page: u64) -> Option<usize> {
        self.pages.iter().position(|p| *p == page)
    }
}

pub(super) struct Imprints {
    imprinter: OnceLock<Arc<dyn Imprinter>>,
    sets: Box<[RankedMutex<Set>]>,
    /// Imprints there are.
    count: AtomicU64,
}

impl Imprints {
    pub fn new(frames: usize) -> Imprints {
        let set = || Set {
            pages: [NONE; WAYS],
            next: 0,
            bits: None,
        };
        let sets = (frames * IMPRINTS_PER_FRAME / WAYS).max(1);
        Imprints {
            imprinter: OnceLock::new(),
            sets: (0..sets).map(|_| RankedMutex::new(Rank::Leaf, set())).collect(),
            count: AtomicU64::new(0),
        }
    }
    fn set(&self, page: u64) -> &RankedMutex<Set> {
        &self.sets[(page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % self.sets.len()]
    }
    /// Of a page that may be about to leave.
    pub fn make(&self, bytes: &[u8]) -> Option<Imprint> {
        let imprinter = self.imprinter.get()?;
        let mut imprint = Imprint([0; WORDS]);
        imprinter
            .imprint(bytes, &mut |hash| imprint.add(hash))
            .then_some(imprint)
    }
    /// The page leaves. The caller holds its shard of the page table.
    pub fn keep(&self, page: u64, imprint: Imprint) {
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
        set.bits.get_or_insert_with(|| Box::new([[0; WORDS]; WAYS]))[at] = imprint.0;
    }
    /// The page comes, or is going to be another. The caller holds its shard: so an imprint kept before is counted here.
    pub fn forget(&self, page: u64) {
        if self.count.load(Ordering::Relaxed) == 0 || planted(Mutant::AbsenceFilterKept) {
            return;
        }
        self.forget_if(self.set(page), |p| p == page);
    }
    /// No page of it is in the pool, and none comes any more.
    pub fn forget_file(&self, file: FileId) {
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
    /// False: perhaps it holds it.
    fn lacks(&self, page: u64, hash: u32) -> bool {
        let set = self.set(page).lock();
        let (Some(at), Some(bits)) = (set.find(page), &set.bits) else {
            return false;
        };
        places(hash).any(|bit| bits[at][bit / 64] & 1 << (bit % 64) == 0)
    }
}

impl Pool {
    /// The first one stays.
    pub fn set_imprinter(&self, imprinter: Arc<dyn Imprinter>) {
        let _ = self.imprints.imprinter.set(imprinter);
    }
    /// True: the page is not in the pool, and holds nothing with this hash. (It may have come a moment later, and changed.)
    pub fn lacks(&self, id: PageId, hash: u32) -> bool {
        self.imprints.lacks(id.as_u64(), hash)
    }
    /// Pages of which there is an imprint.
    pub fn imprints(&self) -> u64 {
        self.imprints.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn of(hashes: &[u32]) -> Imprint {
        let mut imprint = Imprint([0; WORDS]);
        hashes.iter().for_each(|hash| imprint.add(*hash));
        imprint
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
        /// Against a map of what each page that is out holds: nothing that is there is said to be lacking, of a page that is in nothing is
        /// said, and there are never more imprints than there may be.
        #[test]
        fn what_is_said_to_be_lacking_is(steps in prop::collection::vec(step(), 1..200)) {
            let imprints = Imprints::new(16);
            let most = (imprints.sets.len() * WAYS) as u64;
            let mut out: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Keep(page, hashes) => {
                        imprints.keep(page, of(&hashes));
                        prop_assert!(hashes.iter().all(|h| !imprints.lacks(page, *h)));
                        out.insert(page, hashes);
                    }
                    Step::Forget(page) => {
                        imprints.forget(page);
                        out.remove(&page);
                    }
                    Step::ForgetFile(file) => {
                        imprints.forget_file(file);
                        out.retain(|page, _| (page >> 32) as u32 != file);
                    }
                }
                prop_assert!(imprints.count.load(Ordering::Relaxed) <= most);
                for page in (1..3u64).flat_map(|file| (0..60).map(move |no| file << 32 | no)) {
                    match out.get(&page) {
                        Some(hashes) => prop_assert!(hashes.iter().all(|h| !imprints.lacks(page, *h))),
                        None => prop_assert!((0..500).step_by(50).all(|h| !imprints.lacks(page, h))),
                    }
                }
            }
            let held: usize = imprints.sets.iter().map(|s| s.lock().pages.iter().filter(|p| **p != NONE).count()).sum();
            prop_assert_eq!(held as u64, imprints.count.load(Ordering::Relaxed));
        }
    }

    /// At 350 entries of a page of 16 KiB, about 5.9 bits each, one answer in some sixteen is "perhaps" without need.
    #[test]
    fn most_of_what_is_not_there_is_said_to_be_lacking() {
        let entries = (BITS as u32) * 10 / 58;
        let imprints = Imprints::new(16);
        imprints.keep(
            7,
            of(&(0..entries)
                .map(|n| crc32c::crc32c(&n.to_le_bytes()))
                .collect::<Vec<_>>()),
        );
        let wrong = (1 << 20..(1 << 20) + 10_000u32)
            .filter(|n| !imprints.lacks(7, crc32c::crc32c(&n.to_le_bytes())))
            .count();
        assert!((200..1200).contains(&wrong), "{wrong} of 10,000");
    }
}

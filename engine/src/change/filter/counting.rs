//! For which keys something may be pending: a counting filter of each index.
//!
//! **F1** It never says "nothing" wrongly: whoever appends counts up before he writes, whoever merges counts down after his mini-transaction
//! has ended. So a slot is never below the number of pending entries whose keys fall into it. One that has reached the top counts no more.
//!
//! It begins small, with the first key; when more is pending than suits it a larger one takes its place, and when nothing is pending any more
//! its memory is given back. All together have a bound; an index for which nothing is left has something pending for every key, perhaps.
//!
//! **F2** Who counts up or down holds the delta tree's gate shared, or counts after a restart; who puts another in the filter's place
//! (`grow`, `clear`) holds the gate alone, and does so only when everything is counted. So nobody counts in one that is being replaced, and
//! a merge between its mini-transaction and its count (which holds no gate) counts down later, in the one that is there then.
//! **F3** A larger filter is not counted anew from the tree, which would lack the entries of that merge: each of its slots begins with the
//! count of the slot that all its keys come from, and so is not below its own. What it has too much stays until the filter is cleared, but
//! few slots have: a filter grows while it has [`ROOM`] slots an entry. Where there is no memory then it may grow later, but not when it has
//! become too full ([`TOO_LATE`]): most slots of the larger one would be too high for good, and those of the small one come down as entries go.
//! **F4** It is cleared when nothing is counted (`entries` is 0): no append is writing, and no merge has anything to count down.
//! **F5** Who asks holds no lock. If what he has found is replaced before he has read it, it stays as it was then, and lives as long as he reads:
//! he gets the answer of the moment at which it was replaced, which is one of a moment within his question.
use crate::change::filter::memory::{Memory, Share};
use arc_swap::ArcSwapOption;
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

const STUCK: u16 = u16::MAX;
/// Slots of an index's first filter: 512 bytes, of which ten thousand indexes may have one in a pool of 320 MiB.
const FIRST: usize = 256;
/// The next has so many times as many. Each growth leaves 1/[`ROOM`] of the slots too high, so there are not to be many.
const STEP: usize = 16;
/// A filter has so many slots for each entry, until it is as large as it may be.
const ROOM: u64 = 64;
/// The same, of a filter that is followed by the largest. That takes a 128th of the pool or more, unless the pool is large, and there is memory for six
/// of such: an index is to have thousands of entries first. What the growth leaves too high, 1/16 of the slots, the largest soon reaches by itself.
const ROOM_BEFORE_LAST: u64 = 16;
/// A filter that has fewer slots than so many for each entry does not grow any more: at that point 2/5 of the slots are in use.
const TOO_LATE: u64 = 2;
/// Who got no larger filter asks again when a part (1/n) more is pending.
const ASK_AGAIN: u64 = 8;
/// A filter that need not grow, or cannot.
const NEVER: u64 = u64::MAX;

/// What the filters of all indexes share.
pub(in crate::change) struct Filters {
    /// Slots of the largest; a power of two.
    slots_max: AtomicUsize,
    memory: Arc<Memory>,
}

impl Filters {
    /// `pool_size` in bytes. They take a 16th of it together, as the filters of values do.
    pub fn new(pool_size: u64) -> Filters {
        Filters {
            slots_max: AtomicUsize::new(slots_max(pool_size)),
            memory: Memory::new(memory_max(pool_size)),
        }
    }
    /// The pool has another size. Filters that are larger than the new bound stay as they are.
    pub fn set_pool_size(&self, pool_size: u64) {
        self.slots_max.store(slots_max(pool_size), Ordering::Relaxed);
        self.memory.set_max(memory_max(pool_size));
    }
    fn slots_max(&self) -> usize {
        self.slots_max.load(Ordering::Relaxed)
    }
    /// Slots that suit so many entries.
    fn slots_for(&self, entries: u64) -> usize {
        let mut slots = FIRST;
        while slots < self.slots_max() && entries >= self.full_from(slots) {
            slots = (slots * STEP).min(self.slots_max());
        }
        slots
    }
    /// With so many entries a filter of so many slots is too small, and not the largest.
    fn full_from(&self, slots: usize) -> u64 {
        match slots * STEP < self.slots_max() {
            true => slots as u64 / ROOM,
            false => slots as u64 / ROOM_BEFORE_LAST,
        }
    }
    /// The size before that of so many slots; at least the first.
    fn before(&self, slots: usize) -> usize {
        let mut before = FIRST;
        while before * STEP < slots {
            before *= STEP;
        }
        before
    }
    /// What suits so many entries, or less, as far as there is memory, if that is more slots than `than`, which are the first's at least.
    fn take_larger(&self, entries: u64, than: usize) -> Option<Slots> {
        let mut slots = self.slots_for(entries);
        while slots > than {
            if let Some(share) = self.memory.take_more(bytes_of(slots)) {
                return Some(Slots::new(slots, share));
            }
            slots = self.before(slots);
        }
        None
    }
    /// For so many entries, or smaller if there is no memory for that.
    fn make_first(&self, entries: u64) -> Slots {
        if let Some(slots) = self.take_larger(entries, FIRST) {
            return slots;
        }
        match self.memory.take_first(bytes_of(FIRST)) {
            Some(share) => Slots::new(FIRST, share),
            None => Slots::default(),
        }
    }
    #[cfg(test)]
    pub fn taken(&self) -> u64 {
        self.memory.taken()
    }
}

/// Slots of the largest filter, for a pool of this size: a power of two.
fn slots_max(pool_size: u64) -> usize {
    (pool_size as usize / 256).clamp(1 << 16, 1 << 26).next_power_of_two()
}

/// Bytes of all filters, for a pool of this size.
fn memory_max(pool_size: u64) -> u64 {
    (pool_size / 16).max(1 << 20)
}

fn bytes_of(slots: usize) -> u64 {
    (slots * size_of::<AtomicU16>()) as u64
}

/// Counts of entries, by hash of their keys. None at all: there was no memory for them.
#[derive(Default)]
struct Slots {
    counts: Box<[AtomicU16]>,
    _share: Option<Share>,
}

impl Slots {
    fn new(slots: usize, share: Share) -> Slots {
        debug_assert!(slots.is_power_of_two());
        Slots {
            counts: (0..slots).map(|_| AtomicU16::new(0)).collect(),
            _share: Some(share),
        }
    }
    fn of(&self, key: &[u8]) -> Option<&AtomicU16> {
        // The length is a power of two, or 0.
        self.counts
            .get(crc32c::crc32c(key) as usize & self.counts.len().wrapping_sub(1))
    }
    fn up(&self, key: &[u8]) {
        let raise = |n: u16| n.checked_add(1);
        // Err: stuck already.
        let count = |slot: &AtomicU16| slot.fetch_update(Ordering::SeqCst, Ordering::Relaxed, raise).is_ok();
        self.of(key).map(count);
    }
    fn down(&self, key: &[u8]) {
        let lower = |n: u16| {
            debug_assert!(n > 0, "every key was counted up first");
            (n != STUCK).then(|| n.saturating_sub(1))
        };
        let count = |slot: &AtomicU16| slot.fetch_update(Ordering::SeqCst, Ordering::Relaxed, lower).is_ok();
        self.of(key).map(count);
    }
    fn may_have(&self, key: &[u8]) -> bool {
        self.of(key).is_none_or(|slot| slot.load(Ordering::SeqCst) != 0)
    }
    /// F3. `self` was just made; its length is a multiple of the other's.
    fn take_over(&self, small: &Slots) {
        for (i, count) in small.counts.iter().enumerate() {
            let count = count.load(Ordering::SeqCst);
            if count > 0 {
                let twins = self.counts[i..].iter().step_by(small.counts.len());
                twins.for_each(|slot| slot.store(count, Ordering::Relaxed));
            }
        }
    }
    /// With so many entries it is too small.
    fn grow_from(&self, filters: &Filters) -> u64 {
        match self.counts.len() {
            0 => NEVER,
            slots if slots >= filters.slots_max() => NEVER,
            slots => filters.full_from(slots),
        }
    }
}

/// See `grow`.
pub(in crate::change) struct Larger(Slots);

pub struct Filter {
    /// None: nothing is counted.
    slots: ArcSwapOption<Slots>,
    /// With so many entries somebody is to see whether there is memory for a larger one.
    grow_from: AtomicU64,
}

impl Default for Filter {
    fn default() -> Filter {
        Filter {
            slots: ArcSwapOption::empty(),
            grow_from: AtomicU64::new(NEVER),
        }
    }
}

impl Filter {
    /// So many entries are going to be counted, and none is yet. Otherwise it begins with the first, and small.
    pub(in crate::change) fn begin(&self, entries: u64, filters: &Filters) {
        let first = Arc::new(filters.make_first(entries));
        let grow_from = first.grow_from(filters);
        if self.slots.compare_and_swap(&None::<Arc<Slots>>, Some(first)).is_none() {
            self.grow_from.store(grow_from, Ordering::Relaxed);
        }
    }
    pub(in crate::change) fn up(&self, key: &[u8], filters: &Filters) {
        if let Some(slots) = &*self.slots.load() {
            return slots.up(key);
        }
        self.begin(0, filters);
        if let Some(slots) = &*self.slots.load() {
            slots.up(key);
        }
    }
    pub fn down(&self, key: &[u8]) {
        if let Some(slots) = &*self.slots.load() {
            slots.down(key);
        }
    }
    /// False: nothing is counted for this key.
    #[inline]
    pub fn may_have(&self, key: &[u8]) -> bool {
        self.slots.load().as_ref().is_some_and(|slots| slots.may_have(key))
    }
    /// So many entries are counted: a larger filter, if this one is too small, it is worth it, there is memory, and nobody else is about it. It is
    /// to be given to `grow`. Nothing need be held.
    pub(in crate::change) fn larger(&self, entries: u64, filters: &Filters) -> Option<Larger> {
        let due = self.grow_from.load(Ordering::Relaxed);
        if entries < due {
            return None;
        }
        let present = self.slots.load().as_ref().map_or(0, |slots| slots.counts.len());
        let last = present as u64 / TOO_LATE;
        if entries > last {
            return None;
        }
        // Who changes it is the one. If nothing comes of it somebody asks again when more is pending; at the end of what is worth it, if it falls
        // and comes back there.
        let next = (entries + (entries / ASK_AGAIN).max(1)).min(last);
        self.grow_from
            .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
            .ok()?;
        filters.take_larger(entries, present).map(Larger)
    }
    /// The caller keeps everybody from counting (F2), and everything is counted.
    pub(in crate::change) fn grow(&self, larger: Larger, filters: &Filters) {
        let Larger(larger) = larger;
        let old = self.slots.load_full();
        // It may have been cleared meanwhile, or somebody was faster.
        if let Some(old) = old.filter(|old| (1..larger.counts.len()).contains(&old.counts.len())) {
            larger.take_over(&old);
            self.grow_from.store(larger.grow_from(filters), Ordering::Relaxed);
            self.slots.store(Some(Arc::new(larger)));
        }
    }
    /// Nothing is counted any more (F4): its memory goes. The caller keeps everybody else from counting.
    pub fn clear(&self) {
        self.grow_from.store(NEVER, Ordering::Relaxed);
        self.slots.store(None);
    }
}

#[cfg(test)]
#[path = "counting_tests.rs"]
mod tests;

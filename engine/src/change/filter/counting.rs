//! For which keys something may be pending: a counting filter for each index.
//!
//! **F1** A filter never answers "nothing" wrongly. An append counts its key up before it writes
//! the entry. A merge counts its keys down after its mini-transaction has ended. So a slot is never
//! below the number of pending entries whose keys fall into it. A slot that has reached its top
//! value ([`STUCK`]) counts no more.
//!
//! A filter begins small, with the first key. A larger filter takes its place when the number of
//! pending entries asks for one. Its memory is returned when nothing is pending any more. All
//! filters together have a bound. An index that gets no memory answers "perhaps" for every key.
//!
//! **F2** A count up or down happens with the delta tree's gate held shared, or in the count after
//! a restart. A replacement of the filter (`grow`, `clear`) happens with the gate held exclusively,
//! and only once every entry is counted. So no count goes to a filter that is being replaced. A
//! merge between its mini-transaction and its count holds no gate. It counts down later, in the
//! filter that is there then.
//!
//! **F3** A larger filter is not counted anew from the tree. The tree lacks the entries of a merge
//! that has not counted down yet. Each slot of the larger filter begins with the count of the slot
//! that all its keys come from. So no slot is below its true count. The excess stays until the
//! filter is cleared. Few slots have any, because a filter grows while it has [`SLOTS_PER_ENTRY`]
//! slots for each entry. A filter that found no memory may grow later, until it has become too full
//! ([`TOO_LATE`]). From then on most slots of the larger filter would be too high for good. The
//! slots of the small one come down as entries are merged.
//!
//! **F4** A filter is cleared when nothing is counted: the tree's number of entries is 0. Then no
//! append is writing, and no merge has anything left to count down.
//!
//! **F5** A lookup takes no lock. If the filter is replaced during the lookup, the lookup goes on
//! with the old slots, which live as long as it reads. Its answer is then the one of the moment of
//! the replacement, and that moment lies within the lookup.
//!
//! Called by: `delta::summary`.
use super::memory::{MemoryBudget, Reservation};
use crate::base::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use crate::base::sync::{Arc, ArcSwapOption};

const STUCK: u16 = u16::MAX;
/// Slots of an index's first filter: 512 bytes. In a pool of 320 MiB ten thousand indexes may have
/// one.
const FIRST: usize = 256;
/// The next filter has this many times the slots. Each growth leaves 1/[`SLOTS_PER_ENTRY`] of the
/// slots too high, so there must be few growths.
const STEP: usize = 16;
/// Slots for each entry, until the filter has its largest size.
const SLOTS_PER_ENTRY: u64 = 64;
/// The same for the filter before the largest. The largest takes a 128th of the pool or more,
/// unless the pool is large, and the memory holds six of them. So an index must have thousands of
/// entries first. The growth leaves 1/16 of the slots too high, which the largest filter soon
/// reaches anyway.
const SLOTS_PER_ENTRY_BEFORE_LAST: u64 = 16;
/// A filter with fewer slots than this for each entry does not grow any more. At that point 2/5 of
/// the slots are in use.
const TOO_LATE: u64 = 2;
/// After a refusal the filter asks for memory again when another 1/n of the entries is pending.
const ASK_AGAIN: u64 = 8;
/// A filter that need not grow, or cannot.
const NEVER: u64 = u64::MAX;

/// Sizes and memory of all counting filters of an engine.
pub struct SlotBudget {
    /// Slots of the largest filter; a power of two.
    slots_max: AtomicUsize,
    memory: Arc<MemoryBudget>,
}

impl SlotBudget {
    /// `pool_size` in bytes. Counting filters take a 16th of it together, as Bloom filters do.
    pub fn new(pool_size: u64) -> SlotBudget {
        SlotBudget {
            slots_max: AtomicUsize::new(slots_max(pool_size)),
            memory: MemoryBudget::new(memory_max(pool_size)),
        }
    }
    /// Filters that exist keep their size.
    pub fn set_pool_size(&self, pool_size: u64) {
        self.slots_max.store(slots_max(pool_size), Ordering::Relaxed);
        self.memory.set_max(memory_max(pool_size));
    }
    fn slots_max(&self) -> usize {
        self.slots_max.load(Ordering::Relaxed)
    }
    /// Slots that suit this number of entries.
    fn slots_for(&self, entries: u64) -> usize {
        let mut slots = FIRST;
        while slots < self.slots_max() && entries >= self.full_from(slots) {
            slots = (slots * STEP).min(self.slots_max());
        }
        debug_assert!(
            slots.is_power_of_two(),
            "a key finds its slot by the low bits of its hash"
        );
        slots
    }
    /// The number of entries from which on a filter of `slots` slots, not the largest, is too
    /// small.
    fn full_from(&self, slots: usize) -> u64 {
        match slots * STEP < self.slots_max() {
            true => slots as u64 / SLOTS_PER_ENTRY,
            false => slots as u64 / SLOTS_PER_ENTRY_BEFORE_LAST,
        }
    }
    /// The size before `slots`; at least the first.
    fn before(&self, slots: usize) -> usize {
        let mut before = FIRST;
        while before * STEP < slots {
            before *= STEP;
        }
        debug_assert!(
            before < slots || before == FIRST,
            "the size before is smaller, or the first"
        );
        before
    }
    /// Slots that suit this number of entries, or fewer, as far as there is memory. None: there is
    /// none for more than `than` slots (at least those of a first filter).
    fn take_larger(&self, entries: u64, than: usize) -> Option<Slots> {
        let mut slots = self.slots_for(entries);
        while slots > than {
            if let Some(reservation) = self.memory.reserve_larger(bytes_of(slots)) {
                return Some(Slots::new(slots, reservation));
            }
            slots = self.before(slots);
        }
        None
    }
    /// Slots for this number of entries, or fewer if there is no memory for that.
    fn make_first(&self, entries: u64) -> Slots {
        if let Some(slots) = self.take_larger(entries, FIRST) {
            return slots;
        }
        match self.memory.reserve_first(bytes_of(FIRST)) {
            Some(reservation) => Slots::new(FIRST, reservation),
            None => Slots::default(),
        }
    }
    #[cfg(test)]
    pub fn taken(&self) -> u64 {
        self.memory.taken()
    }
}

/// Slots of the largest filter; a power of two.
fn slots_max(pool_size: u64) -> usize {
    (pool_size as usize / 256).clamp(1 << 16, 1 << 26).next_power_of_two()
}

/// Bytes of all counting filters.
fn memory_max(pool_size: u64) -> u64 {
    (pool_size / 16).max(1 << 20)
}

fn bytes_of(slots: usize) -> u64 {
    (slots * size_of::<AtomicU16>()) as u64
}

/// Counts of entries, by hash of their keys. Empty: there was no memory.
#[derive(Default)]
struct Slots {
    counts: Box<[AtomicU16]>,
    _reservation: Option<Reservation>,
}

impl Slots {
    fn new(slots: usize, reservation: Reservation) -> Slots {
        debug_assert!(slots.is_power_of_two());
        Slots {
            counts: (0..slots).map(|_| AtomicU16::new(0)).collect(),
            _reservation: Some(reservation),
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
            debug_assert!(n > 0, "F1: every key is counted up before it is counted down");
            (n != STUCK).then(|| n.saturating_sub(1))
        };
        let count = |slot: &AtomicU16| slot.fetch_update(Ordering::SeqCst, Ordering::Relaxed, lower).is_ok();
        self.of(key).map(count);
    }
    fn may_have(&self, key: &[u8]) -> bool {
        self.of(key).is_none_or(|slot| slot.load(Ordering::SeqCst) != 0)
    }
    /// F3. `self` was just made; its length is a multiple of that of `small`.
    fn take_over(&self, small: &Slots) {
        debug_assert_eq!(self.counts.len() % small.counts.len().max(1), 0, "F3");
        debug_assert!(self.counts.len() > small.counts.len(), "F3: a filter grows");
        for (i, count) in small.counts.iter().enumerate() {
            let count = count.load(Ordering::SeqCst);
            if count > 0 {
                let twins = self.counts[i..].iter().step_by(small.counts.len());
                twins.for_each(|slot| slot.store(count, Ordering::Relaxed));
            }
        }
    }
    /// The number of entries from which on these slots are too few.
    fn grow_from(&self, budget: &SlotBudget) -> u64 {
        match self.counts.len() {
            0 => NEVER,
            slots if slots >= budget.slots_max() => NEVER,
            slots => budget.full_from(slots),
        }
    }
}

/// Slots that [`CountingFilter::grow`] puts in place.
pub struct Larger(Slots);

/// The counting filter of one index.
pub struct CountingFilter {
    /// None: nothing is counted.
    slots: ArcSwapOption<Slots>,
    /// From this number of entries on one caller asks for memory for a larger filter.
    grow_from: AtomicU64,
}

impl Default for CountingFilter {
    fn default() -> CountingFilter {
        CountingFilter {
            slots: ArcSwapOption::empty(),
            grow_from: AtomicU64::new(NEVER),
        }
    }
}

impl CountingFilter {
    /// Makes room for `entries` entries before the first of them is counted. Without this call the
    /// filter begins small, with the first key.
    pub fn begin(&self, entries: u64, budget: &SlotBudget) {
        let first = Arc::new(budget.make_first(entries));
        let grow_from = first.grow_from(budget);
        if self.slots.compare_and_swap(&None::<Arc<Slots>>, Some(first)).is_none() {
            self.grow_from.store(grow_from, Ordering::Relaxed);
        }
    }
    pub fn up(&self, key: &[u8], budget: &SlotBudget) {
        if let Some(slots) = &*self.slots.load() {
            return slots.up(key);
        }
        self.begin(0, budget);
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
    /// Slots for [`CountingFilter::grow`], `entries` being the number counted. None: no
    /// growth is due, or another caller has it, or it would not pay any more (F3), or there is no
    /// memory. No lock need be held.
    pub fn larger(&self, entries: u64, budget: &SlotBudget) -> Option<Larger> {
        let due = self.grow_from.load(Ordering::Relaxed);
        if entries < due {
            return None;
        }
        let present = self.slots.load().as_ref().map_or(0, |slots| slots.counts.len());
        let last = present as u64 / TOO_LATE;
        if entries > last {
            return None;
        }
        // The caller that changes `grow_from` has this growth. If there is no memory the next
        // caller asks when more is pending, and once more at the last number for which a growth
        // pays.
        let next = (entries + (entries / ASK_AGAIN).max(1)).min(last);
        self.grow_from
            .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
            .ok()?;
        budget.take_larger(entries, present).map(Larger)
    }
    /// Puts larger slots in place. The caller holds the gate exclusively, and every entry is
    /// counted (F2).
    pub fn grow(&self, larger: Larger, budget: &SlotBudget) {
        let Larger(larger) = larger;
        let old = self.slots.load_full();
        // Since `larger` the filter may have been cleared, or have grown.
        if let Some(old) = old.filter(|old| (1..larger.counts.len()).contains(&old.counts.len())) {
            larger.take_over(&old);
            self.grow_from.store(larger.grow_from(budget), Ordering::Relaxed);
            self.slots.store(Some(Arc::new(larger)));
        }
    }
    /// Returns the memory: nothing is counted any more (F4). The caller holds the gate exclusively
    /// (F2).
    pub fn clear(&self) {
        self.grow_from.store(NEVER, Ordering::Relaxed);
        self.slots.store(None);
    }
}

#[cfg(test)]
#[path = "counting_tests.rs"]
mod tests;

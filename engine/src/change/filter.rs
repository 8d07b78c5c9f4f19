//! For which keys something may be pending: a counting filter, one byte a slot.
//!
//! It never says "nothing" wrongly: whoever appends counts up before he writes, whoever merges counts down after his
//! mini-transaction has ended. A slot that has reached 255 counts no more until the filter is emptied.
//!
//! The memory of an index that is no more is the next index's: a table keeps its old layouts, and so what belonged to them, as long as it
//! lives, and each TRUNCATE would leave another filter behind. Lock: `Spare`, of no rank, under which nothing is taken.
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, Weak};

const STUCK: u8 = u8::MAX;

/// Filters of one size, and the memory of those that nobody uses any more, while it is still there.
pub(super) struct Spare {
    slots: usize,
    memory: Mutex<Vec<Weak<[AtomicU8]>>>,
}

impl Spare {
    /// `slots`: of each filter; a power of two.
    pub fn new(slots: usize) -> Spare {
        debug_assert!(slots.is_power_of_two());
        Spare {
            slots,
            memory: Mutex::default(),
        }
    }
    fn give(&self, slots: &Arc<[AtomicU8]>) {
        let mut memory = self.memory.lock();
        memory.retain(|slots| slots.strong_count() > 0);
        memory.push(Arc::downgrade(slots));
    }
    fn take(&self) -> Arc<[AtomicU8]> {
        let spare = {
            let mut memory = self.memory.lock();
            std::iter::from_fn(|| memory.pop()).find_map(|slots| slots.upgrade())
        };
        match spare {
            Some(slots) => {
                empty(&slots);
                slots
            }
            None => (0..self.slots).map(|_| AtomicU8::new(0)).collect(),
        }
    }
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.memory.lock().len()
    }
}

fn empty(slots: &[AtomicU8]) {
    for slot in slots {
        slot.store(0, Ordering::Relaxed);
    }
}

/// Its memory is taken with the first key.
#[derive(Default)]
pub struct Filter {
    slots: OnceLock<Arc<[AtomicU8]>>,
}

impl Filter {
    fn slot(slots: &[AtomicU8], key: &[u8]) -> usize {
        // The length is a power of two.
        crc32c::crc32c(key) as usize & (slots.len() - 1)
    }
    /// `spare`: where the memory comes from, if this is the first key.
    pub(super) fn up(&self, key: &[u8], spare: &Spare) {
        let slots = self.slots.get_or_init(|| spare.take());
        let slot = &slots[Self::slot(slots, key)];
        let raise = |n: u8| n.checked_add(1);
        // Err: stuck already.
        let _ = slot.fetch_update(Ordering::SeqCst, Ordering::Relaxed, raise);
    }
    pub fn down(&self, key: &[u8]) {
        let Some(slots) = self.slots.get() else { return };
        let slot = &slots[Self::slot(slots, key)];
        let lower = |n: u8| {
            debug_assert!(n > 0, "every key was counted up first");
            (n != STUCK).then(|| n.saturating_sub(1))
        };
        let _ = slot.fetch_update(Ordering::SeqCst, Ordering::Relaxed, lower);
    }
    /// False: nothing is counted for this key.
    #[inline]
    pub fn may_have(&self, key: &[u8]) -> bool {
        match self.slots.get() {
            Some(slots) => slots[Self::slot(slots, key)].load(Ordering::SeqCst) != 0,
            None => false,
        }
    }
    /// Nothing is counted any more. The caller keeps everybody else from counting.
    pub fn clear(&self) {
        self.slots.get().into_iter().for_each(|slots| empty(slots));
    }
    /// Nobody counts or asks here any more, now or later: the memory may be another filter's.
    pub(super) fn give_up(&self, spare: &Spare) {
        self.slots.get().into_iter().for_each(|slots| spare.give(slots));
    }
}

#[cfg(test)]
mod tests {
    use super::{Filter, Spare};

    #[test]
    fn counts_up_and_down_and_sticks_at_the_top() {
        let (filter, spare) = (Filter::default(), Spare::new(1024));
        assert!(!filter.may_have(b"a"));
        filter.up(b"a", &spare);
        filter.up(b"a", &spare);
        filter.down(b"a");
        assert!(filter.may_have(b"a"));
        filter.down(b"a");
        assert!(!filter.may_have(b"a"));
        for _ in 0..300 {
            filter.up(b"b", &spare);
        }
        for _ in 0..300 {
            filter.down(b"b");
        }
        assert!(filter.may_have(b"b"), "a slot that lost count never says nothing");
        filter.clear();
        assert!(!filter.may_have(b"b"));
    }

    /// Twenty indexes one after the other, all of which their table remembers: of the memory for one.
    #[test]
    fn what_one_filter_gives_up_is_the_next_ones() {
        let spare = Spare::new(1024);
        let mut remembered = Vec::new();
        for n in 0..20 {
            let filter = Filter::default();
            filter.up(b"a", &spare);
            filter.down(b"a");
            assert!(!filter.may_have(b"a"), "filter {n} begins with nothing");
            filter.up(b"b", &spare);
            filter.give_up(&spare);
            remembered.push(filter);
            assert_eq!(spare.len(), 1);
        }
        // The table goes, and so does its memory.
        drop(remembered);
        let last = Filter::default();
        last.up(b"a", &spare);
        assert!(last.may_have(b"a") && !last.may_have(b"b"));
        assert_eq!(spare.len(), 0);
    }
}

//! For which keys something may be pending: a counting filter, one byte a slot.
//!
//! It never says "nothing" wrongly: whoever appends counts up before he writes, whoever merges counts down after his
//! mini-transaction has ended. A slot that has reached 255 counts no more until the filter is emptied.
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::OnceLock;

const STUCK: u8 = u8::MAX;

/// Its memory is taken with the first key.
#[derive(Default)]
pub struct Filter {
    slots: OnceLock<Box<[AtomicU8]>>,
}

impl Filter {
    fn slot(slots: &[AtomicU8], key: &[u8]) -> usize {
        // The length is a power of two.
        crc32c::crc32c(key) as usize & (slots.len() - 1)
    }
    /// `slots`: how many there shall be, if this is the first key.
    pub fn up(&self, key: &[u8], slots: usize) {
        let slots = self
            .slots
            .get_or_init(|| (0..slots.next_power_of_two()).map(|_| AtomicU8::new(0)).collect());
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
        for slot in self.slots.get().into_iter().flatten() {
            slot.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Filter;

    #[test]
    fn counts_up_and_down_and_sticks_at_the_top() {
        let filter = Filter::default();
        assert!(!filter.may_have(b"a"));
        filter.up(b"a", 1000);
        filter.up(b"a", 1000);
        filter.down(b"a");
        assert!(filter.may_have(b"a"));
        filter.down(b"a");
        assert!(!filter.may_have(b"a"));
        for _ in 0..300 {
            filter.up(b"b", 1000);
        }
        for _ in 0..300 {
            filter.down(b"b");
        }
        assert!(filter.may_have(b"b"), "a slot that lost count never says nothing");
        filter.clear();
        assert!(!filter.may_have(b"b"));
    }
}

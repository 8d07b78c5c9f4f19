//! The slots of the doublewrite file: each batch in progress has one, with a buffer for its pages.
//!
//! Waits for a slot; the threads that have one wait for no latch. Lock: one of rank `Leaf`.
//! Called by: `batch`.
use super::doublewrite::{PAGES_PER_SLOT, SLOTS};
use crate::base::sync::{Rank, RankedMutex};
use crate::io::AlignedBuf;
use crate::pool::page::PAGE_SIZE;
use parking_lot::Condvar;

/// One batch's place in the doublewrite file, and its buffer.
struct Slot {
    number: usize,
    /// Made at the first use.
    buffer: Option<AlignedBuf>,
}

pub(super) struct Slots {
    free: RankedMutex<Vec<Slot>>,
    freed: Condvar,
}

impl Slots {
    pub fn new() -> Slots {
        let slot = |number| Slot { number, buffer: None };
        Slots {
            free: RankedMutex::new(Rank::Leaf, (0..SLOTS).map(slot).collect()),
            freed: Condvar::new(),
        }
    }
    fn take(&self) -> Slot {
        let mut free = self.free.lock();
        loop {
            if let Some(slot) = free.pop() {
                return slot;
            }
            self.freed.wait(free.raw());
        }
    }
    /// Runs a batch with a slot's number and buffer, which has room for `PAGES_PER_SLOT` pages.
    ///
    /// If the batch panics, `poison` runs before another batch gets the slot: the copies in it may
    /// be the only whole ones.
    pub fn with<R>(&self, poison: &dyn Fn(), batch: impl FnOnce(usize, &mut [u8]) -> R) -> R {
        let mut slot = self.take();
        let number = slot.number;
        debug_assert!(number < SLOTS, "a place in the doublewrite file");
        let mut buffer = slot
            .buffer
            .take()
            .unwrap_or_else(|| AlignedBuf::new(PAGES_PER_SLOT * PAGE_SIZE));
        debug_assert_eq!(
            buffer.len(),
            PAGES_PER_SLOT * PAGE_SIZE,
            "a slot's buffer has room for a batch"
        );
        let mut in_use = SlotInUse {
            slots: self,
            slot: Some(slot),
            poison,
            is_done: false,
        };
        let result = batch(number, &mut buffer);
        in_use.is_done = true;
        if let Some(slot) = &mut in_use.slot {
            slot.buffer = Some(buffer);
        }
        result
    }
}

struct SlotInUse<'a> {
    slots: &'a Slots,
    slot: Option<Slot>,
    poison: &'a dyn Fn(),
    /// The batch has returned.
    is_done: bool,
}

impl Drop for SlotInUse<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            (self.poison)();
        }
        if let Some(slot) = self.slot.take() {
            let mut free = self.slots.free.lock();
            debug_assert!(
                free.iter().all(|other| other.number != slot.number),
                "a slot is given back once"
            );
            free.push(slot);
            drop(free);
            self.slots.freed.notify_one();
        }
    }
}

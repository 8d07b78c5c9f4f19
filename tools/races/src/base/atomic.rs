//! Stands in for `std::sync::atomic`: loom's numbers, but loom knows each access to one.
//!
//! Loom runs both orders of two accesses if they conflict. For the next access to a number it looks
//! at one earlier access, the last. So a thread that loads a number and then stores to it hides all
//! loads of other threads before its own. Loom then never runs the store before those loads.
//!
//! Here each access first adds 0 to a second number. All such additions conflict, so the last one
//! is enough for loom. They are `Relaxed` and order nothing between the threads.
use loom::sync::atomic;

pub use atomic::Ordering;

/// Loom's `$atomic` of `$value`, with the second number.
macro_rules! atomics {
    ($($atomic:ident $value:ty),*) => {$(
        #[derive(Debug)]
        pub struct $atomic {
            number: atomic::$atomic,
            accesses: atomic::AtomicU8,
        }

        impl $atomic {
            pub fn new(value: $value) -> $atomic {
                $atomic {
                    number: atomic::$atomic::new(value),
                    accesses: atomic::AtomicU8::new(0),
                }
            }
            /// The number, before an access to it.
            fn access(&self) -> &atomic::$atomic {
                self.accesses.fetch_add(0, Ordering::Relaxed);
                &self.number
            }
            pub fn load(&self, order: Ordering) -> $value {
                self.access().load(order)
            }
            pub fn store(&self, value: $value, order: Ordering) {
                self.access().store(value, order);
            }
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.access().swap(value, order)
            }
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.access().compare_exchange(current, new, success, failure)
            }
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                mut change: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut before = self.load(fetch);
                while let Some(after) = change(before) {
                    match self.compare_exchange(before, after, set, fetch) {
                        Ok(_) => return Ok(before),
                        Err(other) => before = other,
                    }
                }
                Err(before)
            }
        }

        impl Default for $atomic {
            fn default() -> $atomic {
                $atomic::new(Default::default())
            }
        }
    )*};
}

macro_rules! arithmetic {
    ($($atomic:ident $value:ty),*) => {$(
        impl $atomic {
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.access().fetch_add(value, order)
            }
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.access().fetch_sub(value, order)
            }
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.access().fetch_or(value, order)
            }
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                self.access().fetch_max(value, order)
            }
        }
    )*};
}

atomics!(AtomicBool bool, AtomicU16 u16, AtomicU32 u32, AtomicU64 u64, AtomicUsize usize);
arithmetic!(AtomicU16 u16, AtomicU32 u32, AtomicU64 u64, AtomicUsize usize);

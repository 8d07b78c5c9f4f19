//! The count of page requests, exact.
//!
//! Every hit adds to it, so one shared counter would be the busiest cache line of the engine. It is
//! striped over threads, and summed when its value is asked for. Takes no lock.
//! Called by: `fetch`.
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const STRIPES: usize = 16;

static NEXT_STRIPE: AtomicUsize = AtomicUsize::new(0);
thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
}

#[derive(Default)]
#[repr(align(64))]
struct Stripe(AtomicU64);

#[derive(Default)]
pub(in crate::pool) struct Requests([Stripe; STRIPES]);

impl Requests {
    #[inline]
    pub fn inc(&self) {
        let mut at = STRIPE.get();
        if at == usize::MAX {
            at = NEXT_STRIPE.fetch_add(1, Ordering::Relaxed) % STRIPES;
            STRIPE.set(at);
        }
        self.0[at].0.fetch_add(1, Ordering::Relaxed);
    }
    pub fn sum(&self) -> u64 {
        self.0.iter().map(|s| s.0.load(Ordering::Relaxed)).sum()
    }
}

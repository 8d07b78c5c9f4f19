//! Who waits for the log: one leader at a time, the others asleep, each woken once, when it is served or has to lead.
//!
//! A condition variable would wake everybody after every sync, those of the next round included; with many
//! committers that costs more than the commit. Takes `RedoFlush`; wakes outside it. Called by writer.rs.
use super::writer::FlushMode;
use crate::base::sync::{Rank, RankedMutex};
use crate::base::Lsn;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;
use std::thread::Thread;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The caller is the leader now, and must end with [`Queue::finish`].
    Lead,
    /// Somebody else did the work, or everything is over.
    Served,
}

const WAITING: u8 = 0;
const SERVED: u8 = 1;
const LEAD: u8 = 2;

/// A thread's place to sleep; one a thread, used again for each wait.
struct Bed {
    thread: Thread,
    state: AtomicU8,
}

thread_local! {
    static BED: Arc<Bed> = Arc::new(Bed { thread: std::thread::current(), state: AtomicU8::new(SERVED) });
}

impl Bed {
    fn wake(&self, state: u8) {
        self.state.store(state, Ordering::Release);
        self.thread.unpark();
    }
}

struct Waiter {
    lsn: Lsn,
    mode: FlushMode,
    bed: Arc<Bed>,
}

#[derive(Default)]
struct Waiters {
    leading: bool,
    list: Vec<Waiter>,
}

pub struct Queue {
    waiters: RankedMutex<Waiters>,
}

impl Queue {
    pub fn new() -> Queue {
        Queue {
            waiters: RankedMutex::new(Rank::RedoFlush, Waiters::default()),
        }
    }
    /// Returns at once with the lead if nobody has it; else sleeps. `done` is asked under the lock: whoever finished before
    /// could not have seen this waiter.
    pub fn wait_turn(&self, lsn: Lsn, mode: FlushMode, done: impl Fn() -> bool) -> Turn {
        let bed = BED.with(Arc::clone);
        {
            let mut waiters = self.waiters.lock();
            if done() {
                return Turn::Served;
            }
            if !waiters.leading {
                waiters.leading = true;
                return Turn::Lead;
            }
            bed.state.store(WAITING, Ordering::Relaxed);
            let bed = bed.clone();
            waiters.list.push(Waiter { lsn, mode, bed });
        }
        loop {
            match bed.state.load(Ordering::Acquire) {
                WAITING => std::thread::park(),
                LEAD => return Turn::Lead,
                _ => return Turn::Served,
            }
        }
    }
    /// Ends a round: wakes those who are served, and gives the lead to one of the others, if any.
    pub fn finish(&self, served: impl Fn(Lsn, FlushMode) -> bool) {
        let mut wake = Vec::new();
        let next = {
            let mut waiters = self.waiters.lock();
            debug_assert!(waiters.leading, "only a leader ends a round");
            waiters.list.retain(|w| {
                let done = served(w.lsn, w.mode);
                if done {
                    wake.push(w.bed.clone());
                }
                !done
            });
            // Whoever wants a sync leads a round that serves the others too.
            let sync = waiters.list.iter().position(|w| w.mode == FlushMode::Sync);
            let next = (!waiters.list.is_empty()).then(|| waiters.list.swap_remove(sync.unwrap_or(0)));
            waiters.leading = next.is_some();
            next
        };
        // The leader first: the device is free.
        if let Some(next) = next {
            next.bed.wake(LEAD);
        }
        wake.iter().for_each(|bed| bed.wake(SERVED));
    }
    /// Everything is over: wakes all; a round under way ends by itself.
    pub fn wake_all(&self) {
        let list = std::mem::take(&mut self.waiters.lock().list);
        list.iter().for_each(|w| w.bed.wake(SERVED));
    }
}

//! Who waits for the log: one leader at a time, the others asleep in the *group* that its round, or the next one, serves.
//!
//! ```text
//! elected    nobody leads: the caller does. At the end of a round: the first of those who came too late for it.
//! depart     the leader has taken the log buffer: all who wait by then are its group; who comes later forms the next one.
//! finish     the group is woken, by one system call; then the next leader. Of a group of `MANY` only half is woken before him.
//! ```
//! One call, because a waker that wakes one thread after the other is put aside for them, on busy processors in every other
//! call. The next leader last: those who were served then often have their next commit in the log when it takes the buffer.
//! On two busy processors this and the single call made groups half as large again. (Behind many he would come to the processor when
//! all the others wait for him again, and his sync would find nobody at work.) What is not done here is to let a leader
//! wait for company, be it by `sched_yield`: beside other work the processor comes back milliseconds later.
//!
//! Keeps: a group is only a place to sleep. Whoever wakes looks again whether his LSN is reached, and comes back if not.
//! Takes `RedoFlush`; wakes outside it. Called by writer.rs.
use super::writer::FlushMode;
use crate::base::sync::{Rank, RankedMutex};
use crate::io::futex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The caller is the leader now, and must end with [`Queue::finish`].
    Lead,
    /// A round has ended, or everything is over: look again.
    Look,
}

const ASLEEP: u32 = 0;
const LOOK: u32 = 1;
const LEAD: u32 = 2;

/// So many are served by one round that the next leader would wait long behind them.
const MANY: u64 = 12;

/// A place to sleep: a group's, or one thread's.
type Bed = Arc<AtomicU32>;

thread_local! {
    /// For when this thread is the first of a group.
    static BED: Bed = Bed::default();
}

/// Those who sleep till the same round is over.
#[derive(Default)]
struct Group {
    /// The first: it may have to lead, so it sleeps alone.
    first: Option<Bed>,
    others: Option<Bed>,
    size: u64,
    /// One of them wants a sync.
    sync: bool,
}

impl Group {
    fn join(&mut self, mode: FlushMode) -> Bed {
        self.size += 1;
        self.sync |= mode == FlushMode::Sync;
        if self.size == 1 {
            let bed = BED.with(Bed::clone);
            bed.store(ASLEEP, Ordering::Relaxed);
            self.first = Some(bed.clone());
            return bed;
        }
        self.others.get_or_insert_default().clone()
    }
    fn wake(self) {
        self.wake_beside(None);
    }
    /// Wakes all, and behind them, or in the midst of many, the next leader.
    fn wake_beside(self, next: Option<Bed>) {
        let before = match self.size {
            many if many >= MANY && next.is_some() => (many / 2) as u32,
            _ => futex::ALL,
        };
        if let Some(others) = &self.others {
            futex::set_and_wake_some(others, LOOK, before);
        }
        if let Some(first) = &self.first {
            futex::set_and_wake(first, LOOK);
        }
        if let Some(next) = &next {
            futex::set_and_wake(next, LEAD);
        }
        if let Some(others) = self.others.filter(|_| (before as u64) < self.size) {
            futex::wake(&others);
        }
    }
}

#[derive(Default)]
struct Waiters {
    leading: bool,
    /// The round under way has its group.
    departed: bool,
    /// Served by the round under way.
    served: Group,
    /// Came too late for it.
    forming: Group,
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
    pub fn wait_turn(&self, mode: FlushMode, done: impl Fn() -> bool) -> Turn {
        let bed = {
            let mut waiters = self.waiters.lock();
            if done() {
                return Turn::Look;
            }
            if !waiters.leading {
                waiters.leading = true;
                return Turn::Lead;
            }
            waiters.forming.join(mode)
        };
        futex::wait_while(&bed, ASLEEP);
        match bed.load(Ordering::Relaxed) {
            LEAD => Turn::Lead,
            _ => Turn::Look,
        }
    }
    /// The leader has taken what is to be written: who waits now is served by it. Returns how many they are, and what to do for them
    /// and for the leader, who wants `mode`.
    pub fn depart(&self, mode: FlushMode) -> (u64, FlushMode) {
        let mut waiters = self.waiters.lock();
        debug_assert!(waiters.leading && !waiters.departed, "one round at a time");
        waiters.departed = true;
        waiters.served = std::mem::take(&mut waiters.forming);
        let sync = waiters.served.sync || mode == FlushMode::Sync;
        let mode = if sync { FlushMode::Sync } else { FlushMode::Write };
        (waiters.served.size, mode)
    }
    /// Ends a round: wakes its group, and gives the lead to the first of the next, if there is one. A round that never departed
    /// (there was nothing to do any more) ends for all.
    pub fn finish(&self) {
        let (served, next) = {
            let mut waiters = self.waiters.lock();
            debug_assert!(waiters.leading, "only a leader ends a round");
            if !std::mem::take(&mut waiters.departed) {
                waiters.served = std::mem::take(&mut waiters.forming);
            }
            let next = waiters.forming.first.take();
            if next.is_some() {
                waiters.forming.size -= 1;
            }
            waiters.leading = next.is_some();
            (std::mem::take(&mut waiters.served), next)
        };
        served.wake_beside(next);
    }
    /// Everything is over: wakes all; a round under way ends by itself.
    pub fn wake_all(&self) {
        let (served, forming) = {
            let mut waiters = self.waiters.lock();
            let served = std::mem::take(&mut waiters.served);
            (served, std::mem::take(&mut waiters.forming))
        };
        served.wake();
        forming.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// What the log is to the queue: tickets, and how many of them are served.
    #[derive(Default)]
    struct Log {
        given: AtomicU64,
        served: AtomicU64,
        rounds: AtomicU64,
    }

    impl Log {
        fn wait(&self, queue: &Queue, idle: impl Fn() -> bool) {
            let ticket = self.given.fetch_add(1, Ordering::SeqCst) + 1;
            let done = || self.served.load(Ordering::SeqCst) >= ticket;
            while !done() {
                if queue.wait_turn(FlushMode::Sync, done) == Turn::Lead {
                    if !idle() {
                        let taken = self.given.load(Ordering::SeqCst);
                        queue.depart(FlushMode::Sync);
                        std::thread::yield_now();
                        self.served.store(taken, Ordering::SeqCst);
                        self.rounds.fetch_add(1, Ordering::SeqCst);
                    }
                    queue.finish();
                }
            }
        }
    }

    #[test]
    fn everybody_comes_back_and_few_lead() {
        let (queue, log) = (Queue::new(), Log::default());
        std::thread::scope(|s| {
            for _ in 0..16 {
                s.spawn(|| (0..3000).for_each(|_| log.wait(&queue, || false)));
            }
        });
        assert_eq!(log.served.load(Ordering::SeqCst), 16 * 3000);
        assert!(log.rounds.load(Ordering::SeqCst) < 16 * 3000);
    }

    /// A log that is turned off, or poisoned: a leader finds nothing to do and leaves at once.
    #[test]
    fn a_round_that_never_departs_leaves_nobody_asleep() {
        let (queue, log, leads) = (Queue::new(), Log::default(), AtomicU64::new(0));
        let idle = || leads.fetch_add(1, Ordering::SeqCst) % 3 == 0;
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| (0..2000).for_each(|_| log.wait(&queue, idle)));
            }
        });
        assert_eq!(log.served.load(Ordering::SeqCst), 8 * 2000);
    }

    #[test]
    fn a_leader_does_for_its_group_what_the_most_demanding_wants() {
        let queue = Queue::new();
        assert_eq!(queue.wait_turn(FlushMode::Write, || false), Turn::Lead);
        std::thread::scope(|s| {
            let waiter = s.spawn(|| queue.wait_turn(FlushMode::Sync, || false));
            while queue.waiters.lock().forming.size == 0 {
                std::thread::yield_now();
            }
            assert_eq!(queue.depart(FlushMode::Write), (1, FlushMode::Sync));
            queue.finish();
            assert_eq!(waiter.join().unwrap(), Turn::Look);
        });
    }
}

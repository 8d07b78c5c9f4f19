//! [`FlushQueue`]: the threads that wait for the log.
//!
//! One thread leads at a time. The others sleep in the *group* that the leader's round, or the next
//! round, serves.
//!
//! ```text
//! election   No thread leads, and no round syncs or enough threads wait: the caller leads.
//!            Otherwise the first of the threads that came too late for a round, when its leader
//!            passes the lead on.
//! depart     The leader has taken the log buffer: the threads that wait by then are its group;
//!            later ones form the next group.
//! pass_on    The round's bytes are written: the next leader writes during the sync, at once if
//!            enough threads wait, or as soon as enough do.
//! end_sync   The round's sync has returned: the group is woken, by one system call; then the next
//!            leader, if the threads were too few until now.
//! finish     End of a round that only writes, fails, or finds nothing to do: its group is woken,
//!            then the next leader.
//! ```
//! One system call wakes a group. A waker that wakes threads one by one loses the processor to
//! them, on busy processors in every other call. A leader does not wait for company, not even by
//! `sched_yield`. With other work on the machine the processor returns milliseconds later.
//!
//! *Enough* is the number of threads that a round serves on average. A round costs processors and
//! device the same for one thread or for ten. A thread that waits for the end of the sync joins a
//! larger group. Against a threshold of one, 8 clients commit 2 to 6 % more, 16 clients 5 %, and
//! 50 as much (`docs/decisions/2026-11-22-group-commit.md`). No thread waits for company longer
//! than for the sync that is under way anyway. An urgent thread, which wants the log buffer
//! emptied, is always enough.
//!
//! Keeps: a group is only a place to sleep; each woken thread checks again whether its LSN is
//! reached, and queues again if not. Only its round wakes a group whose round is under way, even
//! when the log is poisoned meanwhile. Takes `RedoFlush`; wakes outside it. Called by: `log.rs`,
//! `group_commit.rs`.
use super::flush_mode::FlushMode;
use crate::base::sync::atomic::{AtomicU32, Ordering};
use crate::base::sync::{thread_local, Arc, Rank, RankedMutex};
use crate::io::futex;

/// How a wait ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The caller is the leader now. It must end with [`FlushQueue::finish`], or with
    /// [`FlushQueue::pass_on`], [`FlushQueue::end_sync`] and its group's `wake`.
    Lead,
    /// A round has ended, or the log is poisoned: the caller checks again.
    Look,
}

const ASLEEP: u32 = 0;
const LOOK: u32 = 1;
const LEAD: u32 = 2;

/// The number on which a group, or one thread, sleeps.
type SleepFlag = Arc<AtomicU32>;

thread_local! {
    /// Used when this thread is the first of a group.
    static SLEEP_FLAG: SleepFlag = SleepFlag::default();
}

/// Threads that sleep until the same round is over.
#[derive(Default)]
pub struct Group {
    /// The first thread may have to lead, so it sleeps alone.
    first: Option<SleepFlag>,
    others: Option<SleepFlag>,
    size: u64,
    /// At least one thread wants a sync.
    sync: bool,
    /// At least one thread is urgent: it is enough for a round.
    urgent: bool,
}

impl Group {
    /// Number of threads.
    pub fn size(&self) -> u64 {
        self.size
    }
    fn join(&mut self, mode: FlushMode, urgent: bool) -> SleepFlag {
        self.size += 1;
        debug_assert_eq!(
            self.first.is_none() && self.others.is_none(),
            self.size == 1,
            "the first sleeps alone"
        );
        self.urgent |= urgent;
        self.sync |= mode == FlushMode::Sync;
        if self.size == 1 {
            let flag = SLEEP_FLAG.with(SleepFlag::clone);
            flag.store(ASLEEP, Ordering::Relaxed);
            self.first = Some(flag.clone());
            return flag;
        }
        self.others.get_or_insert_default().clone()
    }
    pub fn wake(self) {
        if let Some(others) = &self.others {
            futex::set_and_wake(others, LOOK);
        }
        if let Some(first) = &self.first {
            futex::set_and_wake(first, LOOK);
        }
    }
}

/// The thread that has the lead now, and still sleeps. None: no thread has it.
#[must_use]
pub struct NextLeader(Option<SleepFlag>);

impl NextLeader {
    pub fn wake(self) {
        if let Some(flag) = self.0 {
            futex::set_and_wake(&flag, LEAD);
        }
    }
}

#[derive(Default)]
struct Waiters {
    leading: bool,
    /// Rounds that have passed the lead on, and have not ended.
    syncing: u32,
    /// Average number of threads that a round serves, its leader included, in units of 1/[`ONE`]. A
    /// new round has a weight of a sixteenth.
    usual: u64,
    /// The threads that came too late for the rounds under way. The leader, or a round that syncs,
    /// will serve or elect them.
    forming: Group,
}

const ONE: u64 = 256;

impl Waiters {
    fn note_served(&mut self, threads: u64) {
        self.usual = (self.usual * 15 + threads * ONE) / 16;
    }
    /// So many threads are worth a round of their own while another round syncs.
    fn is_enough(&self, threads: u64) -> bool {
        threads * ONE + ONE / 2 > self.usual
    }
}

/// See the head of this file.
pub struct FlushQueue {
    waiters: RankedMutex<Waiters>,
}

impl FlushQueue {
    pub fn new() -> FlushQueue {
        FlushQueue {
            waiters: RankedMutex::new(Rank::RedoFlush, Waiters::default()),
        }
    }
    /// Returns at once with the lead if no thread has it, and no round syncs or enough threads
    /// wait. Otherwise sleeps. `done` is checked under the lock: a round that finished earlier
    /// could not have seen this thread. `urgent`: this thread is enough for a round.
    pub fn wait_turn(&self, mode: FlushMode, urgent: bool, done: impl Fn() -> bool) -> Turn {
        let flag = {
            let mut waiters = self.waiters.lock();
            if done() {
                return Turn::Look;
            }
            let is_enough = urgent || waiters.syncing == 0 || waiters.is_enough(waiters.forming.size + 1);
            if !waiters.leading && is_enough {
                waiters.leading = true;
                return Turn::Lead;
            }
            waiters.forming.join(mode, urgent)
        };
        futex::wait_while(&flag, ASLEEP);
        match flag.load(Ordering::Relaxed) {
            LEAD => Turn::Lead,
            _ => Turn::Look,
        }
    }
    /// The leader, which wants `mode`, has taken the log buffer: its round serves the threads that
    /// wait now. Returns them, and the mode that serves all.
    pub fn depart(&self, mode: FlushMode) -> (Group, FlushMode) {
        let mut waiters = self.waiters.lock();
        debug_assert!(waiters.leading, "only a leader departs");
        let group = std::mem::take(&mut waiters.forming);
        let sync = group.sync || mode == FlushMode::Sync;
        (group, if sync { FlushMode::Sync } else { FlushMode::Write })
    }
    /// The caller's round goes on without the lead. The first of the threads that came too late
    /// gets the lead now if they are enough; otherwise the thread that makes them enough.
    /// `threads`: number that the round serves, the caller included.
    pub fn pass_on(&self, threads: u64) {
        let next = {
            let mut waiters = self.waiters.lock();
            debug_assert!(waiters.leading, "the lead is passed on by the thread that has it");
            waiters.syncing += 1;
            waiters.note_served(threads);
            match waiters.forming.urgent || waiters.is_enough(waiters.forming.size) {
                true => self.next(&mut waiters),
                false => {
                    waiters.leading = false;
                    None
                }
            }
        };
        NextLeader(next).wake();
    }
    /// The sync of a round that has passed the lead on has returned. Called before another round
    /// may sync, so that no thread is held back for a sync that is over. The caller wakes the
    /// result after the round's own group.
    pub fn end_sync(&self) -> NextLeader {
        let mut waiters = self.waiters.lock();
        debug_assert!(waiters.syncing > 0, "a round ends its own sync");
        waiters.syncing -= 1;
        // Another round that syncs will serve or elect the waiting threads.
        if waiters.leading || waiters.syncing > 0 {
            return NextLeader(None);
        }
        waiters.leading = true;
        NextLeader(self.next(&mut waiters))
    }
    /// Ends a round that has the lead. A round that never departed, because there was nothing to
    /// do, wakes all waiting threads.
    pub fn finish(&self, served: Option<Group>) {
        let (served, next) = {
            let mut waiters = self.waiters.lock();
            let served = served.unwrap_or_else(|| std::mem::take(&mut waiters.forming));
            (served, self.next(&mut waiters))
        };
        served.wake();
        NextLeader(next).wake();
    }
    fn next(&self, waiters: &mut Waiters) -> Option<SleepFlag> {
        debug_assert!(waiters.leading, "only a leader passes the lead on");
        let next = waiters.forming.first.take();
        waiters.leading = next.is_some();
        waiters.forming.size -= next.is_some() as u64;
        debug_assert!(
            waiters.forming.others.is_none() || waiters.forming.size > 0,
            "a group that threads sleep on counts them"
        );
        next
    }
    /// After a poisoning: wakes all threads that no round serves. Rounds under way wake their own.
    pub fn wake_all(&self) {
        let forming = std::mem::take(&mut self.waiters.lock().forming);
        forming.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// The log as the queue sees it: tickets, and the number of them that are served.
    #[derive(Default)]
    struct Log {
        given: AtomicU64,
        served: AtomicU64,
        rounds: AtomicU64,
    }

    impl Log {
        /// `overlap`: every second round passes the lead on before it serves.
        fn wait(&self, queue: &FlushQueue, overlap: bool, idle: impl Fn() -> bool) {
            let ticket = self.given.fetch_add(1, Ordering::SeqCst) + 1;
            let done = || self.served.load(Ordering::SeqCst) >= ticket;
            while !done() {
                if queue.wait_turn(FlushMode::Sync, ticket % 7 == 0, done) == Turn::Lead {
                    let mut group = None;
                    if !idle() {
                        let taken = self.given.load(Ordering::SeqCst);
                        let served = queue.depart(FlushMode::Sync).0;
                        let round = self.rounds.fetch_add(1, Ordering::SeqCst);
                        if overlap && round % 2 == 0 {
                            queue.pass_on(served.size() + 1);
                            std::thread::yield_now();
                            self.served.fetch_max(taken, Ordering::SeqCst);
                            let next = queue.end_sync();
                            served.wake();
                            next.wake();
                            continue;
                        }
                        std::thread::yield_now();
                        self.served.fetch_max(taken, Ordering::SeqCst);
                        group = Some(served);
                    }
                    queue.finish(group);
                }
            }
        }
    }

    /// Returns the number of rounds.
    fn many_wait(overlap: bool) -> u64 {
        let (queue, log) = (FlushQueue::new(), Log::default());
        std::thread::scope(|s| {
            for _ in 0..16 {
                s.spawn(|| (0..3000).for_each(|_| log.wait(&queue, overlap, || false)));
            }
        });
        assert_eq!(log.served.into_inner(), 16 * 3000);
        log.rounds.into_inner()
    }

    #[test]
    fn all_waiters_return_and_few_lead() {
        assert!(many_wait(false) < 16 * 3000);
    }

    #[test]
    fn all_waiters_return_from_rounds_that_overlap() {
        many_wait(true);
    }

    /// A log that is turned off, or poisoned: a leader finds nothing to do and leaves at once.
    #[test]
    fn a_round_that_never_departs_wakes_all() {
        let (queue, log, leads) = (FlushQueue::new(), Log::default(), AtomicU64::new(0));
        let idle = || leads.fetch_add(1, Ordering::SeqCst) % 3 == 0;
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| (0..2000).for_each(|_| log.wait(&queue, true, idle)));
            }
        });
        assert_eq!(log.served.load(Ordering::SeqCst), 8 * 2000);
    }

    /// Rounds serve two threads on average. While one round syncs, the first new thread sleeps, and
    /// the second leads both.
    #[test]
    fn while_one_round_syncs_enough_make_the_next_one() {
        let (queue, led) = (FlushQueue::new(), AtomicU64::new(0));
        queue.waiters.lock().usual = 2 * ONE;
        let wait = |urgent: bool| match queue.wait_turn(FlushMode::Sync, urgent, || false) {
            Turn::Lead => led.fetch_add(1, Ordering::SeqCst),
            Turn::Look => 0,
        };
        let until = |size: u64| {
            while queue.waiters.lock().forming.size != size {
                std::thread::yield_now();
            }
        };
        // After each step, when no thread sleeps: the number of leads given, and whether a thread
        // leads.
        let mut seen = Vec::new();
        let mut look = || seen.push((led.load(Ordering::SeqCst), queue.waiters.lock().leading));
        std::thread::scope(|s| {
            wait(false);
            s.spawn(|| wait(false));
            until(1);
            queue.pass_on(2);
            look(); // One thread is not enough.
            wait(false);
            look(); // Two threads are.
            let (group, _) = queue.depart(FlushMode::Sync);
            queue.end_sync().wake();
            s.spawn(|| wait(false));
            until(1);
            queue.pass_on(2);
            look(); // One thread again, while the second round syncs.
            wait(true);
            look(); // An urgent thread is enough.
            let (other, _) = queue.depart(FlushMode::Sync);
            let late = s.spawn(|| wait(false));
            until(1);
            queue.end_sync().wake();
            queue.pass_on(2);
            look();
            queue.end_sync().wake();
            group.wake();
            other.wake();
            late.join().unwrap();
            look(); // No round syncs any more.
            queue.finish(None);
        });
        assert_eq!(
            seen,
            [(1, false), (2, true), (2, false), (3, true), (3, false), (4, true)]
        );
    }

    #[test]
    fn the_average_follows_the_rounds() {
        let mut waiters = Waiters::default();
        assert!(waiters.is_enough(1), "as long as nothing is known");
        (0..100).for_each(|_| waiters.note_served(8));
        assert!(waiters.is_enough(8) && !waiters.is_enough(7));
        (0..60).for_each(|_| waiters.note_served(1));
        assert!(waiters.is_enough(1), "a crowd that has gone is forgotten");
    }

    #[test]
    fn a_leader_does_for_its_group_what_the_most_demanding_wants() {
        let queue = FlushQueue::new();
        assert_eq!(queue.wait_turn(FlushMode::Write, true, || false), Turn::Lead);
        std::thread::scope(|s| {
            let waiter = s.spawn(|| queue.wait_turn(FlushMode::Sync, false, || false));
            while queue.waiters.lock().forming.size == 0 {
                std::thread::yield_now();
            }
            let (group, mode) = queue.depart(FlushMode::Write);
            assert_eq!((group.size(), mode), (1, FlushMode::Sync));
            queue.finish(Some(group));
            assert_eq!(waiter.join().unwrap(), Turn::Look);
        });
    }
}

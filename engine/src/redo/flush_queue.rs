//! Who waits for the log: one leader at a time, the others asleep in the *group* that its round, or the next one, serves.
//!
//! ```text
//! elected    nobody leads, and no round syncs or enough wait: the caller does. Else the first of those who came too late for a round, when
//!            its leader gives the lead on.
//! depart     the leader has taken the log buffer: all who wait by then are its group; who comes later forms the next one.
//! pass_on    its bytes are written: the next leader writes while it syncs, at once if enough wait, or as soon as enough do.
//! end_sync   its sync has returned: the group is woken, by one system call, then the next leader if they were not enough till now.
//! finish     the end of a round that only writes, fails, or finds nothing to do: its group is woken, then the next leader.
//! ```
//! One call, because a waker that wakes one thread after the other is put aside for them, on busy processors in every other
//! call. What is not done here is to let a leader wait for company, be it by `sched_yield`: beside other work the processor
//! comes back milliseconds later.
//!
//! Enough is as many as a round serves on average. A round costs the processors and the device the same for one or for ten, and who
//! is left for the sync's end is in a larger group: 8 clients commit 2 to 6 % more than if one who waits were enough, 16 of them 5 %, and 50 as
//! much (`docs/decisions/2026-11-22-group-commit.md`). Nobody waits for company longer than for the sync that is under way anyway, and one
//! who wants the log buffer emptied is always enough.
//!
//! Who is in a round under way is woken by that round alone, also when the log is poisoned meanwhile.
//!
//! Keeps: a group is only a place to sleep. Whoever wakes looks again whether his LSN is reached, and comes back if not.
//! Takes `RedoFlush`; wakes outside it. Called by writer.rs and round.rs.
use super::flush_mode::FlushMode;
use crate::base::sync::{Rank, RankedMutex};
use crate::io::futex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The caller is the leader now, and must end with [`FlushQueue::finish`], or with [`FlushQueue::pass_on`], [`FlushQueue::end_sync`] and its
    /// group's `wake`.
    Lead,
    /// A round has ended, or everything is over: look again.
    Look,
}

const ASLEEP: u32 = 0;
const LOOK: u32 = 1;
const LEAD: u32 = 2;

/// A place to sleep: a group's, or one thread's.
type SleepFlag = Arc<AtomicU32>;

thread_local! {
    /// For when this thread is the first of a group.
    static SLEEP_FLAG: SleepFlag = SleepFlag::default();
}

/// Those who sleep till the same round is over.
#[derive(Default)]
pub struct Group {
    /// The first: it may have to lead, so it sleeps alone.
    first: Option<SleepFlag>,
    others: Option<SleepFlag>,
    size: u64,
    /// One of them wants a sync.
    sync: bool,
    /// One of them is enough for a round.
    urgent: bool,
}

impl Group {
    pub fn size(&self) -> u64 {
        self.size
    }
    fn join(&mut self, mode: FlushMode, urgent: bool) -> SleepFlag {
        self.size += 1;
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

/// Whoever has the lead now, and sleeps.
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
    /// Rounds that have given the lead on, and have not ended.
    syncing: u32,
    /// Threads that such a round serves, its leader among them, in [`ONE`]s: an average in which each new one weighs a sixteenth.
    usual: u64,
    /// Came too late for the rounds under way. Whoever is in it is looked after by who leads, or by a round that syncs.
    forming: Group,
}

const ONE: u64 = 256;

impl Waiters {
    fn note_served(&mut self, threads: u64) {
        self.usual = (self.usual * 15 + threads * ONE) / 16;
    }
    /// So many are worth a round of their own while another one syncs.
    fn is_enough(&self, threads: u64) -> bool {
        threads * ONE + ONE / 2 > self.usual
    }
}

pub struct FlushQueue {
    waiters: RankedMutex<Waiters>,
}

impl FlushQueue {
    pub fn new() -> FlushQueue {
        FlushQueue {
            waiters: RankedMutex::new(Rank::RedoFlush, Waiters::default()),
        }
    }
    /// Returns at once with the lead if nobody has it, and no round syncs or enough wait; else sleeps. `done` is asked under the lock:
    /// whoever finished before could not have seen this waiter. `urgent`: he waits for no company.
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
    /// The leader has taken what is to be written: who waits now is served by it. Returns them, and what to do for them
    /// and for the leader, who wants `mode`.
    pub fn depart(&self, mode: FlushMode) -> (Group, FlushMode) {
        let mut waiters = self.waiters.lock();
        debug_assert!(waiters.leading, "only a leader departs");
        let group = std::mem::take(&mut waiters.forming);
        let sync = group.sync || mode == FlushMode::Sync;
        (group, if sync { FlushMode::Sync } else { FlushMode::Write })
    }
    /// The caller's round, which serves so many with the caller, goes on without the lead: the first of those who came too late has
    /// it now if they are enough, or whoever comes and makes them enough.
    pub fn pass_on(&self, threads: u64) {
        let next = {
            let mut waiters = self.waiters.lock();
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
    /// The sync of a round that has given the lead on has returned. Called before another round may sync, so that nobody is held back
    /// for one that is over. What is returned is woken after the round's own group.
    pub fn end_sync(&self) -> NextLeader {
        let mut waiters = self.waiters.lock();
        waiters.syncing -= 1;
        // If another one syncs, it looks after them.
        if waiters.leading || waiters.syncing > 0 {
            return NextLeader(None);
        }
        waiters.leading = true;
        NextLeader(self.next(&mut waiters))
    }
    /// Ends a round that has the lead. One that never departed (there was nothing to do any more) ends for all.
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
        debug_assert!(waiters.leading, "only a leader gives the lead on");
        let next = waiters.forming.first.take();
        waiters.leading = next.is_some();
        waiters.forming.size -= next.is_some() as u64;
        next
    }
    /// Everything is over: wakes all who are not in a round; those under way end by themselves.
    pub fn wake_all(&self) {
        let forming = std::mem::take(&mut self.waiters.lock().forming);
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
        /// `overlap`: every second round gives the lead on before it serves.
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
    fn everybody_comes_back_and_few_lead() {
        assert!(many_wait(false) < 16 * 3000);
    }

    #[test]
    fn everybody_comes_back_from_rounds_that_overlap() {
        many_wait(true);
    }

    /// A log that is turned off, or poisoned: a leader finds nothing to do and leaves at once.
    #[test]
    fn a_round_that_never_departs_leaves_nobody_asleep() {
        let (queue, log, leads) = (FlushQueue::new(), Log::default(), AtomicU64::new(0));
        let idle = || leads.fetch_add(1, Ordering::SeqCst) % 3 == 0;
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| (0..2000).for_each(|_| log.wait(&queue, true, idle)));
            }
        });
        assert_eq!(log.served.load(Ordering::SeqCst), 8 * 2000);
    }

    /// Rounds serve two on average: one who comes while one syncs sleeps, the second leads both.
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
        // What each step came to: the leads given, and whether somebody has it. Looked at when nobody sleeps any more.
        let mut seen = Vec::new();
        let mut look = || seen.push((led.load(Ordering::SeqCst), queue.waiters.lock().leading));
        std::thread::scope(|s| {
            wait(false);
            s.spawn(|| wait(false));
            until(1);
            queue.pass_on(2);
            look(); // One is not enough.
            wait(false);
            look(); // Two are.
            let (group, _) = queue.depart(FlushMode::Sync);
            queue.end_sync().wake();
            s.spawn(|| wait(false));
            until(1);
            queue.pass_on(2);
            look(); // One again, while the second round syncs.
            wait(true);
            look(); // An urgent one is enough.
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
            look(); // Nothing syncs any more.
            queue.finish(None);
        });
        assert_eq!(
            seen,
            [(1, false), (2, true), (2, false), (3, true), (3, false), (4, true)]
        );
    }

    #[test]
    fn what_is_usual_follows_the_rounds() {
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

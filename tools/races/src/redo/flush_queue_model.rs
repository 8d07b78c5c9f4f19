//! Models of `flush_queue`: each thread that waits for the log is woken.
use super::flush_mode::FlushMode;
use super::flush_queue::{FlushQueue, Turn};
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;
use std::sync::Arc;

/// The log as the queue sees it: tickets, and the number of them that are served.
struct Log {
    queue: FlushQueue,
    given: AtomicU64,
    served: AtomicU64,
    leads: AtomicBool,
}

impl Log {
    fn new() -> Arc<Log> {
        Arc::new(Log {
            queue: FlushQueue::new(),
            given: AtomicU64::new(0),
            served: AtomicU64::new(0),
            leads: AtomicBool::new(false),
        })
    }
    /// A round of so many threads, over before the model begins.
    fn with_usual_round(threads: u64) -> Arc<Log> {
        let log = Log::new();
        assert_eq!(log.queue.wait_turn(FlushMode::Sync, false, || false), Turn::Lead);
        let (group, _) = log.queue.depart(FlushMode::Sync);
        log.queue.pass_on(threads);
        log.queue.end_sync().wake();
        group.wake();
        log
    }
    fn begin_lead(&self) {
        assert!(!self.leads.swap(true, Ordering::Relaxed), "two threads lead");
    }
    fn end_lead(&self) {
        self.leads.store(false, Ordering::Relaxed);
    }
    /// One commit. `overlap`: a round passes the lead on before it serves.
    fn commit(&self, overlap: bool) {
        let ticket = self.given.fetch_add(1, Ordering::SeqCst) + 1;
        let done = || self.served.load(Ordering::SeqCst) >= ticket;
        while !done() {
            if self.queue.wait_turn(FlushMode::Sync, false, done) == Turn::Lead {
                self.begin_lead();
                let taken = self.given.load(Ordering::SeqCst);
                let (group, _) = self.queue.depart(FlushMode::Sync);
                self.end_lead();
                if overlap {
                    self.queue.pass_on(group.size() + 1);
                    self.served.fetch_max(taken, Ordering::SeqCst);
                    let next = self.queue.end_sync();
                    group.wake();
                    next.wake();
                } else {
                    self.served.fetch_max(taken, Ordering::SeqCst);
                    self.queue.finish(Some(group));
                }
            }
        }
    }
}

fn three_commit(new_log: impl Fn() -> Arc<Log> + Send + Sync + 'static, overlap: bool) {
    crate::check(2, move || {
        let log = new_log();
        let threads = [(); 2].map(|_| {
            let log = log.clone();
            thread::spawn(move || log.commit(overlap))
        });
        log.commit(overlap);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(log.served.load(Ordering::SeqCst), 3);
    });
}

/// Three threads commit: one leads at a time, and each returns when its commit is served.
pub fn model_rounds_wake_their_groups() {
    three_commit(Log::new, false);
}

/// As above, and each round passes the lead on before it serves.
pub fn model_rounds_that_overlap_wake_their_groups() {
    three_commit(Log::new, true);
}

/// As above. The rounds before served so many threads that two are not enough for a round of their
/// own. Threads that come during a sync sleep, and the end of the sync elects one of them.
pub fn model_end_of_a_sync_elects_the_late() {
    three_commit(|| Log::with_usual_round(48), true);
}

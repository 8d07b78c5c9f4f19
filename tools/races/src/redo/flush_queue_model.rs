//! Models of `flush_queue`: each thread that waits for the log is woken.
use super::flush_mode::FlushMode;
use super::flush_queue::{FlushQueue, Turn};
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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

fn three_commit(overlap: bool) {
    crate::check(Some(2), move || {
        let log = Log::new();
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
    three_commit(false);
}

/// As above, and each round passes the lead on before it serves.
pub fn model_rounds_that_overlap_wake_their_groups() {
    three_commit(true);
}

//! Models of `counting`: invariants F1, F4 and F5, with the gate of the delta tree as a lock.
use super::counting::{CountingFilter, SlotBudget};
use crate::base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::sync::RwLock;
use loom::thread;
use std::sync::Arc;

/// A delta tree: its filter, its gate, the number counted, and the entry of key [`A`].
struct Tree {
    filter: CountingFilter,
    budget: SlotBudget,
    gate: RwLock<()>,
    entries: AtomicU64,
    written: AtomicBool,
}

const A: &[u8] = b"a";
const B: &[u8] = b"b";

impl Tree {
    fn new() -> Arc<Tree> {
        Arc::new(Tree {
            filter: CountingFilter::default(),
            budget: SlotBudget::new(1 << 20),
            gate: RwLock::new(()),
            entries: AtomicU64::new(0),
            written: AtomicBool::new(false),
        })
    }
    fn count_up(&self, key: &[u8]) {
        self.filter.up(key, &self.budget);
        self.entries.fetch_add(1, Ordering::SeqCst);
    }
    fn append_a(&self) {
        let _gate = self.gate.read().unwrap();
        self.count_up(A);
        self.written.store(true, Ordering::Release);
    }
    /// After a merge took out an entry: as `Summary::count_merged` and `Summary::reclaim`.
    fn count_merged(&self, key: &[u8]) {
        let gate = self.gate.read().unwrap();
        self.filter.down(key);
        self.entries.fetch_sub(1, Ordering::SeqCst);
        drop(gate);
        if self.entries.load(Ordering::SeqCst) == 0 {
            let _gate = self.gate.write().unwrap();
            if self.entries.load(Ordering::SeqCst) == 0 {
                self.filter.clear();
            }
        }
    }
    /// A lookup of A: an entry that it could see is counted.
    fn look_up_a(&self) {
        if self.written.load(Ordering::Acquire) {
            assert!(self.filter.may_have(A), "F1: \"nothing\", and an entry is pending");
        }
    }
}

/// F1. Two threads count the first keys of an index at once, and each makes the first filter. One
/// filter stays, and both keys are counted in it.
pub fn model_first_keys_are_both_counted() {
    crate::check(3, || {
        let tree = Tree::new();
        let other = tree.clone();
        let appends = thread::spawn(move || other.append_a());
        tree.count_up(B);
        tree.look_up_a();
        appends.join().unwrap();
        assert!(tree.filter.may_have(A) && tree.filter.may_have(B));
    });
}

/// F1. One slot is counted up and down by two threads at once, and no count is lost: a pending key
/// keeps its slot above 0.
pub fn model_no_count_is_lost() {
    crate::check(3, || {
        let tree = Tree::new();
        tree.count_up(A);
        let other = tree.clone();
        let appends = thread::spawn(move || other.append_a());
        tree.count_merged(A);
        tree.look_up_a();
        appends.join().unwrap();
        assert!(tree.filter.may_have(A));
        tree.count_merged(A);
        assert!(!tree.filter.may_have(A));
    });
}

/// F1, F3. A larger filter takes the place of the first one while a key is counted up and lookups
/// run. They find each pending key in the filter that they get.
pub fn model_growth_keeps_pending_keys() {
    crate::check(3, || {
        let tree = Tree::new();
        (0..4).for_each(|_| tree.count_up(B));
        let appender = tree.clone();
        let appends = thread::spawn(move || appender.append_a());
        let grower = tree.clone();
        let grows = thread::spawn(move || {
            let larger = grower.filter.larger(4, &grower.budget).expect("it is due");
            let _gate = grower.gate.write().unwrap();
            grower.filter.grow(larger, &grower.budget);
        });
        assert!(tree.filter.may_have(B), "F1: \"nothing\", and an entry is pending");
        tree.look_up_a();
        grows.join().unwrap();
        appends.join().unwrap();
        assert!(tree.filter.may_have(A) && tree.filter.may_have(B));
    });
}

/// F4, F5. The last entry is merged and the filter cleared, while a key is counted up and a lookup
/// runs. The lookup finds an entry that it could see.
pub fn model_clearing_keeps_pending_keys() {
    crate::check(3, || {
        let tree = Tree::new();
        tree.count_up(B);
        let appender = tree.clone();
        let appends = thread::spawn(move || appender.append_a());
        let merger = tree.clone();
        let merges = thread::spawn(move || merger.count_merged(B));
        tree.look_up_a();
        merges.join().unwrap();
        appends.join().unwrap();
        assert!(tree.filter.may_have(A));
    });
}

//! Model of `bloom`: a filter of unique values never answers "nothing" wrongly.
use super::bloom::{BloomFilters, BloomLimits};
use super::memory::MemoryBudget;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::sync::Arc;

const PARTITION: u16 = 3;

struct Tree {
    values: BloomFilters,
    memory: Arc<MemoryBudget>,
    written: AtomicBool,
}

impl Tree {
    fn add(&self, key: &[u8; 5]) {
        let limits = BloomLimits {
            memory: &self.memory,
            partition_bytes: 0,
        };
        self.values.add(key, PARTITION, limits);
    }
}

/// Two threads add the first values of a partition at once. Each makes a filter, and one of the
/// filters stays. A lookup that could see an entry finds its value.
pub fn model_first_values_are_both_added() {
    crate::check(3, || {
        let tree = Arc::new(Tree {
            values: BloomFilters::default(),
            memory: MemoryBudget::new(1 << 20),
            written: AtomicBool::new(false),
        });
        tree.values.set(4);
        let other = tree.clone();
        let appends = thread::spawn(move || {
            other.add(b"apkpk");
            other.written.store(true, Ordering::Release);
        });
        tree.add(b"bpkpk");
        if tree.written.load(Ordering::Acquire) {
            assert!(tree.values.may_have(b"a", &[PARTITION]));
        }
        assert!(tree.values.may_have(b"b", &[PARTITION]));
        appends.join().unwrap();
        assert!(tree.values.may_have(b"a", &[PARTITION]) && tree.values.may_have(b"b", &[PARTITION]));
    });
}

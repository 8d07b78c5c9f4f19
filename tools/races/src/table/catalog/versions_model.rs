//! Model of `versions`: the layouts of a table, read without a lock.
use super::layout::Layout;
use super::versions::Layouts;
use loom::thread;
use std::sync::Arc;

/// A reader finds a layout that is complete, and none older than it has seen before. Meanwhile
/// another thread publishes two more, the second in a new segment.
pub fn model_last_layout_is_complete() {
    crate::check(3, || {
        let layouts = Arc::new(Layouts::new(Layout::new(1)));
        let publisher = layouts.clone();
        let publishes = thread::spawn(move || {
            publisher.publish(Layout::new(2));
            publisher.publish(Layout::new(3));
        });
        let first = layouts.last().no();
        let len = layouts.len();
        let second = layouts.last().no();
        assert!((1..=3).contains(&first) && first as usize <= len && len as u32 <= second);
        publishes.join().unwrap();
        assert_eq!((layouts.last().no(), layouts.len()), (3, 3));
    });
}

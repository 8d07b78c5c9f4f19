//! The layouts that a table has had, of which the last one counts.
//!
//! A reader of a layout takes neither a lock nor a reference count. So no layout may go while the
//! table has a user. Old layouts go at the next opening of a table that has no other user, which
//! its reference count shows. A table that is emptied every minute keeps a few.
//!
//! Layouts lie in segments, each twice as long as the one before. The number of layouts says where
//! the last one is. Called by `table`.
use crate::base::sync::atomic::{AtomicU32, Ordering};
use crate::base::sync::OnceLock;
use crate::table::catalog::layout::Layout;

type Segment = OnceLock<Box<[OnceLock<Layout>]>>;

pub(in crate::table) struct Layouts {
    len: AtomicU32,
    /// Segment n has 2^n places. The layout with number i (from 1) is in the segment of the highest
    /// bit of i.
    segments: [Segment; u32::BITS as usize],
}

impl Layouts {
    pub fn new(first: Layout) -> Layouts {
        let layouts = Layouts {
            len: AtomicU32::new(0),
            segments: Default::default(),
        };
        layouts.publish(first);
        layouts
    }
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire) as usize
    }
    pub fn last(&self) -> &Layout {
        let no = self.len.load(Ordering::Acquire);
        let segment = self.segments[no.ilog2() as usize].get();
        let place = segment.map(|places| &places[offset(no)]);
        place.and_then(OnceLock::get).expect("it was published")
    }
    /// One caller at a time.
    pub fn publish(&self, layout: Layout) {
        let no = self.len.load(Ordering::Relaxed) + 1;
        let places = self.segments[no.ilog2() as usize].get_or_init(|| {
            let len = 1 << no.ilog2();
            (0..len).map(|_| OnceLock::new()).collect()
        });
        let is_first = places[offset(no)].set(layout).is_ok();
        assert!(is_first, "layouts are published one at a time");
        debug_assert_eq!(
            self.len.load(Ordering::Relaxed) + 1,
            no,
            "layouts are published one at a time"
        );
        self.len.store(no, Ordering::Release);
    }
    /// Takes all but the last, which is the first then.
    pub fn take_old(&mut self) -> Vec<Layout> {
        let segments = std::mem::take(&mut self.segments).into_iter();
        let places = segments.filter_map(OnceLock::into_inner).flat_map(Vec::from);
        let mut all: Vec<Layout> = places.filter_map(OnceLock::into_inner).collect();
        *self = Layouts::new(all.pop().expect("there is one"));
        all
    }
}

fn offset(no: u32) -> usize {
    (no - (1 << no.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Index;

    fn layout(id: u32) -> Layout {
        let tree = crate::btree::Tree {
            file: id,
            root: 2,
            index: 7,
        };
        let clustered = Index::new("PRIMARY", true, tree, None);
        Layout {
            id,
            temporary: false,
            hidden_pk: false,
            pk_fixed_len: 4,
            marks_past: false,
            pk_parts: Vec::new(),
            foreign: Vec::new(),
            replaces: None,
            clustered,
            secondary: Vec::new(),
            change_buffering: None,
            schema: Vec::new(),
            created_s: 0,
            created: 0,
            freeing: Vec::new(),
        }
    }

    /// Layouts were a list that was dropped by recursion. DROP TABLE after some thousand TRUNCATEs
    /// ran out of the connection's stack.
    #[test]
    fn a_table_that_was_changed_a_hundred_thousand_times_can_go() {
        let layouts = Layouts::new(layout(1));
        for id in 2..=100_000 {
            layouts.publish(layout(id));
            assert_eq!(layouts.last().id, id);
        }
        assert_eq!(layouts.len(), 100_000);
        let small = std::thread::Builder::new().stack_size(64 << 10);
        let end = small.spawn(move || drop(layouts)).expect("a thread");
        end.join().expect("it had stack enough");
    }

    #[test]
    fn the_old_ones_go_and_the_last_one_stays() {
        for len in [1, 2, 3, 4, 100] {
            let mut layouts = Layouts::new(layout(1));
            (2..=len).for_each(|id| layouts.publish(layout(id)));
            let old: Vec<u32> = layouts.take_old().iter().map(|old| old.id).collect();
            assert_eq!(old, Vec::from_iter(1..len));
            assert_eq!((layouts.len(), layouts.last().id), (1, len));
            layouts.publish(layout(len + 1));
            assert_eq!((layouts.len(), layouts.last().id), (2, len + 1));
        }
    }
}

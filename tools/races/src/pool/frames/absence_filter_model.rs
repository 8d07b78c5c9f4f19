//! Model of `absence_filter`: invariant P1, with pages in different shards of the page table.
use super::absence_filter::{AbsenceFilters, PageHasher};
use super::geometry::PoolGeometry;
use crate::base::PageId;
use loom::sync::Mutex;
use loom::thread;
use std::sync::Arc;

struct EachByte;

impl PageHasher for EachByte {
    fn hash_page(&self, page: &[u8], add: &mut dyn FnMut(u32)) -> bool {
        page.iter().for_each(|byte| add(*byte as u32));
        true
    }
}

/// A page and its shard of the page table.
struct Page {
    id: PageId,
    in_pool: Mutex<bool>,
}

struct Fixture {
    filters: AbsenceFilters,
    pages: [Page; 2],
}

impl Fixture {
    /// Both pages are in the pool. Their filters lie in different sets.
    fn new() -> Arc<Fixture> {
        let filters = AbsenceFilters::new(&PoolGeometry);
        filters.set_hasher(Arc::new(EachByte));
        let page = |no| Page {
            id: PageId::new(1, no),
            in_pool: Mutex::new(true),
        };
        Arc::new(Fixture {
            filters,
            pages: [page(0), page(1)],
        })
    }
    /// As `evict`: the filter is made with the page latched, and kept under the shard's mutex.
    fn evict(&self, page: usize, bytes: &[u8]) {
        let page = &self.pages[page];
        let filter = self.filters.make(bytes).expect("there is a hasher");
        let mut in_pool = page.in_pool.lock().unwrap();
        self.filters.keep(page.id.as_u64(), filter);
        *in_pool = false;
    }
    /// As `store`: the filter goes under the shard's mutex. Then the page gets the value 9.
    fn read_and_change(&self, page: usize) {
        let page = &self.pages[page];
        let mut in_pool = page.in_pool.lock().unwrap();
        if !*in_pool {
            self.filters.forget(page.id.as_u64());
            *in_pool = true;
        }
        assert!(!self.filters.lacks(page.id, 9), "P1: a page in the pool has a filter");
    }
}

/// P1. Two pages leave the pool and come back, each under its own shard's mutex. Meanwhile the
/// number of filters goes from 0 to 2 and back. A reader that brings a page in counts the filter
/// kept before, and drops it: the relaxed load in `forget` never returns 0 then.
pub fn model_page_in_pool_has_no_filter() {
    crate::check(3, || {
        let fixture = Fixture::new();
        let other = fixture.clone();
        let evicts = thread::spawn(move || other.evict(0, &[1, 2]));
        let other = fixture.clone();
        let second = thread::spawn(move || {
            other.evict(1, &[3]);
            other.read_and_change(1);
        });
        fixture.read_and_change(0);
        evicts.join().unwrap();
        second.join().unwrap();
        fixture.read_and_change(0);
        assert_eq!(fixture.filters.count(), 0);
    });
}

//! Loads of the buffer pool's page list that several threads ask for.
use super::fixture::*;
use crate::base::PageId;
use crate::engine::PoolControl;
use crate::io::sim::SimDisk;
use crate::txn::Isolation;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const LIST: &str = "buffer_pool";
const ROWS: u32 = 400;
const LOADS: u32 = 200;
const LOADS_MAX: u32 = 20_000;

/// The worker took the request of a thread that loads a list itself. That thread then returned
/// before the pages were read.
#[test]
fn a_load_returns_when_the_pages_are_read_though_a_worker_loads_too() {
    let fixture = TableFixture::create(SimDisk::new(1));
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    for n in 0..ROWS {
        let row = Row {
            group: n as u8,
            shade: 0,
            tag: None,
            body: vec![1; 500],
        };
        fixture.insert(&mut trx, &pk(n), &row).expect("insert");
    }
    fixture.engine.commit(&mut trx, true).expect("commit");
    fixture.steady();
    let (engine, pool) = (&fixture.engine, &fixture.store().pool);
    pool.flush_all().expect("the disk works");
    let control = PoolControl(engine);
    control.dump(LIST, 100, false).expect("the disk works");
    let pages = (0..200).map(|no| PageId::new(fixture.table.layout().id, no));
    let of_table: Vec<PageId> = pages.filter(|id| pool.is_resident(*id)).collect();
    assert!(of_table.len() > 10, "{of_table:?}");

    let (ends, by_worker) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|s| {
        // The worker, without its pauses.
        s.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                let has_loaded = engine.page_lists.load_wanted(fixture.store(), &engine.log, &|_| true);
                by_worker.fetch_add(has_loaded.expect("the disk works") as u32, Ordering::Relaxed);
            }
        });
        // Until the worker was the faster one, too.
        for n in 0..LOADS_MAX {
            if n >= LOADS && by_worker.load(Ordering::Relaxed) > 0 {
                break;
            }
            pool.evict_clean();
            if n % 2 == 1 {
                control.request_load(LIST, false).expect("a plain name");
            }
            control.load(LIST).expect("the disk works");
            let absent: Vec<_> = of_table.iter().filter(|id| !pool.is_resident(**id)).collect();
            assert!(absent.is_empty(), "load {n} has not read {absent:?}");
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert!(by_worker.into_inner() > 0, "the worker loaded nothing");
    let status = &control.status_texts()[2];
    assert!(status.starts_with("Buffer pool(s) load completed"), "{status}");
}

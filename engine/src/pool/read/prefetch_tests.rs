//! Read-ahead: pages come in without being read by their user.
use crate::base::PageId;
use crate::pool::testing::{PoolFixture, FILE};

fn id(no: u32) -> PageId {
    PageId::new(FILE, no)
}

#[test]
fn read_ahead_brings_pages_in() {
    let fixture = PoolFixture::filled(64, 200, 2);
    fixture.pool.flush_all().unwrap();
    fixture.pool.discard_file(FILE);
    let wanted: Vec<PageId> = (40..60).map(id).collect();
    fixture.pool.prefetch(&wanted);
    // Reading at once joins in: each page is read from disk once, by the thread that came first.
    for no in 40..60 {
        assert_eq!(fixture.pool.read(id(no)).unwrap()[64], no as u8);
    }
    fixture.pool.prefetch(&(60..80).map(id).collect::<Vec<_>>());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while !(60..80).all(|no| fixture.pool.is_resident(id(no))) {
        assert!(std::time::Instant::now() < until, "read-ahead never came");
        std::thread::yield_now();
    }
    // A page that cannot be read stays absent and does no harm.
    fixture.pool.prefetch(&[id(150), PageId::new(99, 1), id(100_000)]);
    fixture.pool.shutdown();
    fixture.pool.check_alive().unwrap();
}

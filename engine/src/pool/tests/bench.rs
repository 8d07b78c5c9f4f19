//! What a hit and a mini-transaction cost in CPU time.
//!
//! `cargo test --release -p sluice pool::tests::bench -- --ignored --nocapture`
use crate::base::PageId;
use crate::pool::testing::{PoolFixture, FILE};
use crate::pool::PageType;

/// CPU time of this thread: other work on the machine does not count.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split(' ').next().unwrap().parse().unwrap()
}

fn ns(what: &str, rounds: u64, mut run: impl FnMut(u64)) {
    let start = cpu_ns();
    (0..rounds).for_each(&mut run);
    println!("{what}: {:.1} ns", (cpu_ns() - start) as f64 / rounds as f64);
}

#[test]
#[ignore = "a measurement"]
fn cost_of_hits_and_mini_transactions() {
    let pages = 20_000u64;
    let fixture = PoolFixture::create(1, pages as usize + 1000);
    fixture.add_file(FILE, pages as u32, true);
    let id = |i: u64| PageId::new(FILE, (i.wrapping_mul(0x9e3779b97f4a7c15) >> 20) as u32 % pages as u32);
    for no in 0..pages as u32 {
        let mut mtr = fixture.pool.begin();
        mtr.create(PageId::new(FILE, no), 0, PageType::System, 0).unwrap();
        mtr.commit();
    }
    fixture.pool.flush_all().unwrap();
    fixture.checkpoint();
    let one = id(1);
    ns("read, one page", 5_000_000, |_| {
        std::hint::black_box(fixture.pool.read(one).unwrap().len());
    });
    ns("read, random pages", 5_000_000, |i| {
        std::hint::black_box(fixture.pool.read(id(i)).unwrap()[64]);
    });
    ns("empty mini-transaction", 5_000_000, |_| {
        std::hint::black_box(fixture.pool.begin().commit());
    });
    ns("latch one page in a mini-transaction", 5_000_000, |_| {
        let mut mtr = fixture.pool.begin();
        std::hint::black_box(mtr.write(one).unwrap());
    });
    ns("edit and commit, one dirty page", 100_000, |i| {
        let mut mtr = fixture.pool.begin();
        let page = mtr.write(one).unwrap();
        mtr.edit_u64(page, 64, i);
        mtr.commit();
    });
    fixture.pool.flush_all().unwrap();
    fixture.checkpoint();
    ns("edit and commit, clean page each", 15_000, |i| {
        let mut mtr = fixture.pool.begin();
        let page = mtr.write(PageId::new(FILE, i as u32)).unwrap();
        mtr.edit_u64(page, 64, i + 1);
        mtr.commit();
    });
    fixture.pool.update_gauges();
    assert!(fixture.pool.counters().buffer_pool_read_requests.get() > 15_000_000);
}

//! Real threads on a tiny pool: counters in pages lose no increment, and no checkpoint bound passes
//! a change that is not in place.
use crate::base::bytes::get_u64;
use crate::base::{Lsn, PageId};
use crate::pool::testing::{PoolFixture, FILE};
use crate::pool::{PageType, Pool};
use crate::redo::FlushMode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;

const PAGES: u32 = 1000;
const AT: usize = 64;

fn id(no: u32) -> PageId {
    PageId::new(FILE, no)
}

pub(super) struct Rng(pub u64);
impl Rng {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

/// For each page: (end LSN, value) of its increments, as far as their threads have reported them.
type History = Vec<Mutex<Vec<(Lsn, u64)>>>;

/// Increments two pages in one Mtr, latched in page order.
fn increment(pool: &Pool, rng: &mut Rng, history: &History) -> Lsn {
    let a = rng.below(PAGES as u64) as u32;
    let b = rng.below(PAGES as u64) as u32;
    let mut mtr = pool.begin();
    let mut values = Vec::new();
    for no in [a.min(b), a.max(b)] {
        let page = mtr.write(id(no)).unwrap();
        let value = get_u64(mtr.bytes(page), AT) + 1;
        mtr.edit_u64(page, AT, value);
        values.push((no, value));
    }
    let end = mtr.commit();
    for (no, value) in values {
        history[no as usize].lock().unwrap().push((end, value));
    }
    end
}

/// Every change below the bound is in the data file.
fn check_bound(fixture: &PoolFixture, history: &History) {
    let bound = fixture.pool.checkpoint_lsn();
    let on_disk = fixture.disk.bytes("00000010.slu").unwrap();
    for (no, changes) in history.iter().enumerate() {
        let changes = changes.lock().unwrap();
        let needed = changes
            .iter()
            .filter(|(end, _)| *end <= bound)
            .map(|(_, v)| *v)
            .max()
            .unwrap_or(0);
        let found = get_u64(&on_disk, no * crate::pool::PAGE_SIZE + AT);
        assert!(
            found >= needed,
            "page {no}: {found} in place, but the bound {bound} promises {needed}"
        );
    }
}

pub(super) fn start(frames: usize) -> PoolFixture {
    let fixture = PoolFixture::create(11, frames);
    fixture.add_file(FILE, PAGES, true);
    for no in 0..PAGES {
        let mut mtr = fixture.pool.begin();
        mtr.create(id(no), 0, PageType::System, 0).unwrap();
        mtr.commit();
    }
    fixture.pool.flush_all().unwrap();
    fixture
}

/// Writers, as many as there are counts, increment so often. Meanwhile other threads read pages,
/// write them back, check the bound, and do what `beside` does until its flag is set. At the end no
/// increment is missing, and every page can be written.
pub(super) fn increment_beside(fixture: &PoolFixture, counts: &[usize], beside: impl FnOnce(&AtomicBool) + Send) {
    let history: History = (0..PAGES).map(|_| Mutex::new(Vec::new())).collect();
    let stop = AtomicBool::new(false);
    let pool = &fixture.pool;
    std::thread::scope(|s| {
        let (stop, history) = (&stop, &history);
        let write = |(n, count): (usize, &usize)| {
            let (mut rng, count) = (Rng(n as u64), *count);
            s.spawn(move || {
                for _ in 0..count {
                    increment(pool, &mut rng, history);
                }
            })
        };
        let writers: Vec<_> = counts.iter().enumerate().map(write).collect();
        s.spawn(move || {
            let mut rng = Rng(100);
            while !stop.load(Ordering::Relaxed) {
                let no = rng.below(PAGES as u64) as u32;
                assert_eq!(pool.read(id(no)).unwrap().id(), id(no));
            }
        });
        s.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                pool.flusher().step(8).unwrap();
                pool.flusher().wait_for_work(1);
            }
        });
        let others = [
            s.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    check_bound(fixture, history);
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            }),
            s.spawn(move || beside(stop)),
        ];
        let written: Vec<_> = writers.into_iter().map(|w| w.join()).collect();
        stop.store(true, Ordering::Relaxed);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(written.iter().all(|r| r.is_ok()));
    });
    let total: u64 = (0..PAGES).map(|no| get_u64(&pool.read(id(no)).unwrap(), AT)).sum();
    let reported: u64 = history.iter().map(|h| h.lock().unwrap().len() as u64).sum();
    assert_eq!(total, reported);
    pool.flush_all().unwrap();
    check_bound(fixture, &history);
    assert_eq!(pool.checkpoint_lsn(), pool.redo().lsn());
    pool.check_alive().unwrap();
}

#[test]
fn no_increment_is_lost_and_no_bound_lies() {
    increment_beside(&start(32), &[3000; 4], |_| {});
}

/// The same with checkpoints and a crash: what was durable in the log is there after recovery, to
/// the last increment.
#[test]
fn a_crash_under_load_loses_nothing_durable() {
    for round in 0..6 {
        let fixture = start(48);
        let history: History = (0..PAGES).map(|_| Mutex::new(Vec::new())).collect();
        let durable = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let pool = &fixture.pool;
        std::thread::scope(|s| {
            let writers: Vec<_> = (0..3)
                .map(|n| {
                    let (history, durable) = (&history, &durable);
                    s.spawn(move || {
                        let mut rng = Rng(1000 * round + n);
                        for i in 0..600 {
                            let end = increment(pool, &mut rng, history);
                            if i % 7 == 0 {
                                pool.redo().flush(end, FlushMode::Sync).unwrap();
                                durable.fetch_max(end, Ordering::SeqCst);
                            }
                        }
                    })
                })
                .collect();
            s.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    fixture.pool.flusher().step(16).unwrap();
                    fixture.checkpoint();
                }
            });
            writers.into_iter().for_each(|w| w.join().unwrap());
            stop.store(true, Ordering::Relaxed);
        });
        let durable = durable.load(Ordering::SeqCst);
        let disk = fixture.disk.crash(round);
        drop(fixture);
        let fixture = PoolFixture::recover(disk, 48, &mut |_, _| {});
        let end = fixture.recovered;
        assert!(end >= durable);
        for no in 0..PAGES {
            let found = get_u64(&fixture.pool.read(id(no)).unwrap(), AT);
            let changes = history[no as usize].lock().unwrap();
            let expected = changes
                .iter()
                .filter(|(lsn, _)| *lsn <= end)
                .map(|(_, v)| *v)
                .max()
                .unwrap_or(0);
            assert_eq!(found, expected, "page {no} after round {round}");
        }
    }
}

/// A page that is never without a writer does not hold the checkpoint back.
#[test]
fn a_busy_page_is_flushed_all_the_same() {
    let fixture = start(32);
    let pool = &fixture.pool;
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        for n in 0..3u64 {
            let stop = &stop;
            s.spawn(move || {
                let mut i = 0;
                while !stop.load(Ordering::Relaxed) {
                    let mut mtr = pool.begin();
                    let page = mtr.write(id(7)).unwrap();
                    i += 1;
                    mtr.edit_u64(page, AT + 8 + 8 * n as usize, i);
                    // Held for long, let go for moments.
                    std::thread::sleep(std::time::Duration::from_micros(300));
                    mtr.commit();
                }
            });
        }
        let in_time = |_| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            let lsn = pool.redo().lsn();
            for _ in 0..3 {
                pool.flusher().step(64).unwrap();
            }
            pool.checkpoint_lsn() >= lsn
        };
        let all = (0..20).all(in_time);
        stop.store(true, Ordering::Relaxed);
        assert!(all, "the checkpoint waits for a busy page");
    });
}

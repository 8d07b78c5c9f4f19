//! The pool over a real disk: direct I/O, io_uring batches, read-ahead threads, more pages than
//! frames.
use crate::base::bytes::get_u64;
use crate::base::{Counters, PageId};
use crate::io::{Caching, Files, RealDisk};
use crate::pool::{PageType, Pool, PoolConfig, PAGE_SIZE};
use crate::redo::{Redo, RedoConfig};
use crate::space;
use std::sync::Arc;

const FILE: u32 = 30;
const PAGES: u32 = 400;

fn open(disk: Arc<RealDisk>, frames: usize) -> Arc<Pool> {
    let counters = Arc::new(Counters::default());
    let config = RedoConfig {
        capacity: 16 << 20,
        buffer_size: 1 << 20,
        direct_io: true,
    };
    let redo = Redo::create(disk.clone(), config, counters.clone()).unwrap();
    let config = PoolConfig {
        size: (frames * PAGE_SIZE) as u64,
        size_max: 0,
        doublewrite: true,
        io_capacity: 1000,
        io_capacity_max: 2000,
        read_io_threads: 2,
        check_body: |_| Ok(()),
    };
    let files = Arc::new(Files::new(disk.clone(), Caching::Direct, 10));
    Pool::new(config, disk, files, Arc::new(redo), counters).unwrap()
}

#[test]
fn pages_come_back_from_a_real_disk() {
    let dir = std::env::temp_dir().join(format!("sluice-pool-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    {
        let pool = &open(RealDisk::open(&dir).unwrap(), 64);
        space::create_file(pool, FILE, false).unwrap();
        let mut mtr = pool.begin();
        let first = space::allocate(&mut mtr, FILE, 0).unwrap();
        mtr.commit();
        let pages: Vec<PageId> = (0..PAGES)
            .map(|n| {
                let mut mtr = pool.begin();
                let no = space::allocate(&mut mtr, FILE, first + n).unwrap();
                let id = PageId::new(FILE, no);
                let page = mtr.create(id, 0, PageType::Tree, 0).unwrap();
                mtr.edit_u64(page, 100, n as u64);
                mtr.commit();
                id
            })
            .collect();
        let pages = &pages;
        std::thread::scope(|s| {
            for t in 0..3u32 {
                s.spawn(move || {
                    for i in 0..1000u32 {
                        let n = (i * 7 + t * 131) % PAGES;
                        if i % 16 == 0 {
                            let ahead: Vec<PageId> = (n..PAGES.min(n + 16)).map(|n| pages[n as usize]).collect();
                            pool.prefetch(&ahead);
                        }
                        if i % 3 == 0 {
                            let mut mtr = pool.begin();
                            let page = mtr.write(pages[n as usize]).unwrap();
                            mtr.edit_u64(page, 200, i as u64);
                            mtr.commit();
                        }
                        assert_eq!(get_u64(&pool.read(pages[n as usize]).unwrap(), 100), n as u64);
                    }
                });
            }
            s.spawn(move || (0..20).all(|_| pool.flusher().step(64).is_ok()));
        });
        pool.flush_all().unwrap();
        pool.discard_file(FILE);
        for (n, id) in pages.iter().enumerate() {
            assert_eq!(get_u64(&pool.read(*id).unwrap(), 100), n as u64);
        }
        assert!(pool.counters().buffer_pool_read_ahead.get() > 0);
        pool.shutdown();
        space::remove_file(pool, FILE).unwrap();
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

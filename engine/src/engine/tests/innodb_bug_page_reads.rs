//! One of the reports of `innodb_bugs.rs`: every way in which a page comes to be read, while
//! changes are pending for it.
use super::change_buffer::*;
use super::fixture::*;
use super::innodb_bugs::*;
use crate::base::{Error, PageId};
use crate::btree::Seek;
use crate::change;
use crate::engine::{Config, Engine};
use crate::io::sim::SimDisk;
use crate::pool::PAGE_SIZE;
use crate::space;
use crate::table::LockChoice;
use crate::txn::Isolation::{ReadCommitted, RepeatableRead};
use std::time::{Duration, Instant};

/// A way to the pages of by_tag, where rows 4000 to 4299 are pending, and the removal of 1000 to
/// 1299.
type Way = fn(&TableFixture);

fn reads(fixture: &TableFixture, seek: Seek, tag: u16, rows: usize) {
    let mut trx = fixture.begin(RepeatableRead);
    let mut cursor = fixture.store().cursor(fixture.table.clone());
    let lock = LockChoice::default();
    cursor.begin(&mut trx, BY_TAG, lock, true).expect("begun");
    let backward = seek == Seek::Lt;
    let mut more = cursor.seek(&mut trx, seek, &tag_key(tag)).expect("sought");
    let mut expected: Box<dyn Iterator<Item = u16>> = match backward {
        true => Box::new((0..tag).rev()),
        false => Box::new(tag..4300),
    };
    for _ in 0..rows {
        let next = expected.find(|tag| !(1000..1300).contains(tag));
        assert_eq!(more.then(|| tag_at(&cursor)).flatten(), next, "{seek:?} {tag}");
        more = if backward {
            cursor.prev(&mut trx)
        } else {
            cursor.next(&mut trx)
        }
        .expect("moved");
    }
    drop(cursor);
    commit(fixture, trx);
}
/// The leaf of by_tag that a tag belongs to.
fn leaf(fixture: &TableFixture, tag: u16) -> PageId {
    let tree = fixture.table.layout().secondary[1].index.tree;
    let place = tree.leaf_place(&fixture.store().pool, &tag_key(tag)).expect("read");
    place.expect("several leaves").0
}
fn read_ahead(fixture: &TableFixture) {
    let (pool, file) = (&fixture.store().pool, fixture.table.layout().id);
    let before = pending(fixture);
    let arrived = || fixture.engine.counters().buffer_pool_read_ahead.get();
    for tag in [1000, 1150, 3999, 4200] {
        let (asked, first) = (Instant::now(), arrived());
        // Purge and merges, which go on meanwhile, may be there before; a page on its way is
        // counted when it has arrived.
        while arrived() == first || !pool.is_resident(leaf(fixture, tag)) {
            assert!(asked.elapsed() < Duration::from_secs(20), "no thread reads ahead");
            if arrived() == first {
                pool.evict_clean();
            }
            pool.prefetch(&[leaf(fixture, tag)]);
            std::thread::yield_now();
        }
        pool.evict_clean();
    }
    let all = 0..space::usage(pool, file).expect("usage").pages;
    pool.prefetch(&all.map(|no| PageId::new(file, no)).collect::<Vec<_>>());
    assert_eq!(pending(fixture), before, "a page that is read is not merged");
}
const WAYS: [(&str, Way); 8] = [
    ("read ahead", read_ahead),
    ("points", |fixture| {
        (990..1310).step_by(9).for_each(|tag| reads(fixture, Seek::Ge, tag, 1))
    }),
    ("ranges", |fixture| {
        [900, 1290, 3900, 4290]
            .into_iter()
            .for_each(|tag| reads(fixture, Seek::Ge, tag, 200))
    }),
    ("ranges backward", |fixture| {
        [1100, 1400, 4000, 4300]
            .into_iter()
            .for_each(|tag| reads(fixture, Seek::Lt, tag, 200))
    }),
    ("unique checks", |fixture| {
        let mut trx = fixture.begin(ReadCommitted);
        let rival = fixture.insert(&mut trx, b"other", &row_of(4100));
        assert!(matches!(rival, Err(Error::Duplicate { .. })), "{rival:?}");
        fixture.insert(&mut trx, b"other", &row_of(1100)).expect("it is free");
        fixture.engine.rollback(&mut trx).expect("rolled back");
    }),
    ("a sweep", |fixture| {
        for s in &fixture.table.layout().secondary {
            change::sweep_step(&fixture.store().pool, &s.index, 3).expect("swept");
        }
    }),
    ("CHECK TABLE", |fixture| fixture.check_table()),
    ("a walk", |fixture| {
        let tree = fixture.table.layout().secondary[1].index.tree;
        let sound = tree.verify(&fixture.store().pool, &mut |_, _| None).expect("read");
        assert!(sound.findings.is_empty());
    }),
];

/// MDEV-34879: a page that came into the pool by another way than the usual one missed its merge.
/// Here no way of reading a page merges anything, and readers combine page and pending changes. So
/// it does not matter how and when a page came, or whether it left in between. The pool is smaller
/// than the table, and none of its pages is there before.
#[test]
fn mdev_34879_no_way_to_a_page_misses_what_is_pending() {
    for (name, way) in WAYS {
        let small = Config {
            buffer_pool_size: 48 * PAGE_SIZE as u64,
            read_io_threads: 2,
            ..config()
        };
        let fixture = TableFixture::with(Engine::open(SimDisk::new(1), small).expect("fresh engine"));
        let mut model = Model::new();
        let long = |n: u32| Row {
            body: vec![1; 300],
            ..row_of(n)
        };
        insert_rows(&fixture, &mut model, (0..4000).map(|n| (n, long(n))));
        drain(&fixture);
        buffer(&fixture, true);
        insert_rows(&fixture, &mut model, (4000..4300).map(|n| (n, long(n))));
        delete(&fixture, &mut model, 1000..1300);
        let pool = &fixture.store().pool;
        let evict = || {
            let leaves = [1000, 1299, 4299].map(|tag| leaf(&fixture, tag));
            let asked = Instant::now();
            // A requested page may still come at any moment. A page on its way is not evicted, and
            // a waiting request comes after this.
            loop {
                pool.flush_all().expect("flushed");
                pool.evict_clean();
                if !leaves.iter().any(|leaf| pool.is_resident(*leaf)) {
                    break;
                }
                assert!(asked.elapsed() < Duration::from_secs(20), "{name}");
                std::thread::yield_now();
            }
        };
        evict();
        way(&fixture);
        check_now(&fixture, &model, name);
        assert!(
            fixture.engine.counters().buffer_pool_pages_evicted.get() > 100,
            "{name}"
        );
        evict();
        drain(&fixture);
        check_now(&fixture, &model, name);
    }
}

//! Loads past the pool and the log: the result is a sound tree. A full disk, or a crash at any
//! write, leaves the tree empty and gives every page back, also pages that held another tree
//! before.
use crate::base::{sync_point, Error, PageId, Result, SyncPoint};
use crate::btree::extents::{self, ExtentList};
use crate::btree::load::Loader;
use crate::btree::tests::fixture::*;
use crate::btree::{remove_loaded, Intent, Tree, TreeRemover, KEY_MAX};
use crate::pool::direct::Direct;
use crate::pool::testing::PoolFixture;
use crate::pool::Pool;
use crate::redo::FlushMode;
use crate::space;
use std::sync::Arc;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn list_of(pool: &Pool, tree: &Tree) -> ExtentList {
    let mut mtr = pool.begin();
    let list = ExtentList::create(&mut mtr, tree.file, tree.index, 77).unwrap();
    let lsn = mtr.commit();
    pool.redo().flush(lsn, FlushMode::Sync).unwrap();
    list
}
fn load(pool: &Arc<Pool>, tree: Tree, list: ExtentList, entries: &Entries) -> Result<u64> {
    let mut load = Loader::new(pool, tree, list, 94)?;
    for (key, value) in entries {
        load.push(key, value)?;
    }
    let loaded = load.finish()?;
    let mut mtr = pool.begin();
    assert!(loaded.link(&mut mtr)?);
    let lsn = mtr.commit();
    pool.redo().flush(lsn, FlushMode::Sync)?;
    Ok(loaded.entries)
}
fn entries(n: u64, key_len: usize, value_len: usize) -> Entries {
    let key = |i: u64| [&i.to_be_bytes()[..], &vec![b'k'; (i % 7) as usize * key_len / 7]].concat();
    (0..n).map(|i| (key(i * 3), vec![i as u8; value_len])).collect()
}
fn content(pool: &Pool, tree: &Tree) -> Entries {
    let mut out = Vec::new();
    let each = &mut |key: &[u8], value: &[u8]| {
        out.push((key.to_vec(), value.to_vec()));
        None
    };
    let report = tree.verify(pool, each).unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    out
}

#[test]
fn loads_of_every_size_are_sound() {
    for (n, key_len, value_len) in [
        (0, 0, 0),
        (1, 0, 10),
        (2, 0, 3000),
        (300, 0, 30),
        (60_000, 0, 30),
        (3000, 0, 2000),
        (3000, KEY_MAX - 8, 40),
        (9000, 1500, 0),
    ] {
        let (fixture, tree) = fixture_with_tree(n, 512);
        let list = list_of(&fixture.pool, &tree);
        let entries = entries(n, key_len, value_len);
        assert_eq!(load(&fixture.pool, tree, list, &entries).unwrap(), n);
        check(&fixture.pool, &tree, true);
        assert!(content(&fixture.pool, &tree) == entries, "{n} entries");
        list.free_all(&fixture.pool).unwrap();
        check(&fixture.pool, &tree, true);
        // The tree takes changes as any other tree does.
        let was_there = n > 1;
        assert_eq!(
            put(&fixture.pool, &tree, &3u64.to_be_bytes(), b"new"),
            !was_there || key_len > 0
        );
        put(&fixture.pool, &tree, b"\xff", b"behind all");
        check(&fixture.pool, &tree, true);
        TreeRemover::new(&fixture.pool, &tree).remove().unwrap();
        assert_eq!(space::usage(&fixture.pool, FILE).unwrap().used, 2);
    }
}

/// Loaded entries are removed in steps. No page is left, and little is logged. Entries that were
/// not loaded stay.
#[test]
fn loaded_entries_are_removed_and_others_stay() {
    for (n, key_len, value_len) in [
        (0, 0, 0),
        (300, 0, 30),
        (60_000, 0, 100),
        (3000, KEY_MAX - 8, 40),
        (9000, 1500, 0),
    ] {
        for others in [0, 40] {
            let (fixture, tree) = fixture_with_tree(n, 512);
            let before = space::usage(&fixture.pool, FILE).unwrap().used;
            let list = list_of(&fixture.pool, &tree);
            load(&fixture.pool, tree, list, &entries(n, key_len, value_len)).unwrap();
            let mut kept = Entries::new();
            for i in 0..others {
                let key = [&(i * n / 14 + 1).to_be_bytes()[..], b"other"].concat();
                put(&fixture.pool, &tree, &key, b"other");
                kept.push((key, b"other".to_vec()));
            }
            kept.sort();
            kept.dedup();
            let (mut from, mut removed) = (Vec::new(), 0);
            let logged = fixture.pool.counters().redo_log_bytes.get();
            loop {
                let doomed = &mut |_: &[u8], value: &[u8]| Ok(value != b"other");
                let (some, done) = remove_loaded(&fixture.pool, &tree, &mut from, &mut 7, doomed).unwrap();
                removed += some;
                check(&fixture.pool, &tree, false);
                if done {
                    break;
                }
            }
            let logged = fixture.pool.counters().redo_log_bytes.get() - logged;
            assert_eq!(removed as u64, n);
            assert!(content(&fixture.pool, &tree) == kept, "{n} entries, {others} others");
            let leaves = n * (value_len + key_len / 2 + 20) as u64 / (crate::pool::PAGE_SIZE as u64 / 2);
            if others == 0 {
                assert!(tree.is_empty(&fixture.pool).unwrap(), "{n} entries of {key_len}");
                assert_eq!(space::usage(&fixture.pool, FILE).unwrap().used, before);
                assert!(
                    logged < leaves * 1500 + 40_000,
                    "{logged} bytes logged for {leaves} leaves"
                );
            }
        }
    }
}

#[test]
fn pages_are_written_once_and_hardly_logged() {
    let (fixture, tree) = fixture_with_tree(1, 128);
    let list = list_of(&fixture.pool, &tree);
    let counters = fixture.pool.counters().clone();
    let before = (counters.data_written.get(), counters.redo_log_bytes.get());
    let entries = entries(60_000, 0, 100);
    load(&fixture.pool, tree, list, &entries).unwrap();
    let pages = check(&fixture.pool, &tree, true).pages.len() as u64;
    let written = counters.data_written.get() - before.0;
    let bytes = pages * crate::pool::PAGE_SIZE as u64;
    assert!(written <= bytes + (1 << 20), "{written} bytes written for {bytes}");
    let logged = counters.redo_log_bytes.get() - before.1;
    assert!(logged < bytes / 100 + 40_000, "{logged} bytes logged for {bytes}");
}

#[test]
fn a_full_disk_ends_the_load_and_gives_everything_back() {
    let (fixture, tree) = fixture_with_tree(2, 128);
    let list = list_of(&fixture.pool, &tree);
    leave_space(&fixture.disk, 6 << 20);
    let full = load(&fixture.pool, tree, list, &entries(60_000, 0, 500));
    assert!(matches!(full, Err(Error::Full(_))), "{full:?}");
    list.free_all(&fixture.pool).unwrap();
    assert!(content(&fixture.pool, &tree).is_empty());
    assert_eq!(space::usage(&fixture.pool, FILE).unwrap().used, 3);
    fixture.disk.set_space(None);
    let list = list_of(&fixture.pool, &tree);
    load(&fixture.pool, tree, list, &entries(5000, 0, 500)).unwrap();
    check(&fixture.pool, &tree, true);
}

/// The log has images of the pages' old content. The pool of recovery is so small that it must
/// evict pages. It wrote old content over the load's pages, before it reached the record that gave
/// those pages to the load.
#[test]
fn recovery_in_a_small_pool_does_not_overwrite_a_load() {
    let fixture = PoolFixture::create(1, 200);
    let tree = new_tree(&fixture.pool);
    checkpoint(&fixture.pool);
    let other = add_tree(&fixture.pool, 6);
    for (key, value) in entries(4500, 0, 500) {
        put(&fixture.pool, &other, &key, &value);
    }
    TreeRemover::new(&fixture.pool, &other).remove().unwrap();
    let list = list_of(&fixture.pool, &tree);
    let new = entries(4000, 0, 500);
    load(&fixture.pool, tree, list, &new).unwrap();
    let after = fixture.disk.crash(1);
    drop(fixture);
    let fixture = PoolFixture::recover(after, 24, &mut |_, _| ());
    assert!(content(&fixture.pool, &tree) == new);
}

/// The pages that the load gets held another tree. Its changes are in the log and in dirty frames:
/// none of them may come back.
#[test]
fn a_crash_at_any_write_leaves_all_or_nothing() {
    let old = entries(2500, 0, 500);
    let new = entries(4000, 0, 700);
    let (mut n, mut whole, mut none) = (1, 0, 0);
    loop {
        let fixture = PoolFixture::create(n, 96);
        let tree = new_tree(&fixture.pool);
        let other = add_tree(&fixture.pool, 6);
        for (key, value) in &old {
            put(&fixture.pool, &other, key, value);
        }
        // Some old pages are durable in place, and the log has later changes of them.
        checkpoint(&fixture.pool);
        for (key, _) in old.iter().step_by(3) {
            put(&fixture.pool, &other, key, b"shorter");
        }
        fixture.pool.flusher().step(20).unwrap();
        TreeRemover::new(&fixture.pool, &other).remove().unwrap();
        let list = list_of(&fixture.pool, &tree);
        let base = fixture.disk.changes();
        fixture.disk.crash_at(base + n);
        let done = load(&fixture.pool, tree, list, &new);
        let crashed = fixture.disk.is_dead();
        let after = fixture.disk.crash(n * 13);
        drop(fixture);
        let fixture = PoolFixture::recover(after, 96, &mut |_, _| ());
        list.free_all(&fixture.pool).unwrap();
        let found = content(&fixture.pool, &tree);
        assert!(found.is_empty() || found == new, "crash {n}: {} entries", found.len());
        assert!(done.is_err() || found == new, "crash {n}: the load was durable");
        check(&fixture.pool, &tree, true);
        whole += (found == new) as u32;
        none += found.is_empty() as u32;
        // Once more, over the pages of the first attempt.
        if found.is_empty() {
            let list = list_of(&fixture.pool, &tree);
            load(&fixture.pool, tree, list, &new).unwrap();
            checkpoint(&fixture.pool);
            let fixture = PoolFixture::recover(fixture.disk.crash(n), 96, &mut |_, _| ());
            assert!(content(&fixture.pool, &tree) == new);
        }
        if !crashed {
            break;
        }
        n += 1;
    }
    assert!(whole >= 1 && none >= 10, "{whole} whole, {none} empty");
}

/// A remembered leaf is merged away, and its page is given to a load just before `try_leaf`. Then
/// the page belongs to the load. Its content on disk may still be the old leaf, and a reader of all
/// pages may have read it into the pool.
#[test]
fn a_remembered_leaf_that_a_load_got_is_not_taken() {
    for (was_written, is_read) in [(false, false), (true, false), (true, true)] {
        let (fixture, tree) = fixture_with_tree(7, 1024);
        let pool = fixture.pool.clone();
        let other = add_tree(&pool, 9);
        let key = |n: u32| n.to_be_bytes();
        for n in 0..9000 {
            put(&pool, &tree, &key(n), &[7; 200]);
        }
        let no = tree.leaf_number(&pool, &key(6000)).unwrap();
        let remembered = tree.remember_leaf(&pool, &key(6000)).unwrap();
        if was_written {
            checkpoint(&pool);
        }
        for n in 0..9000 {
            delete(&pool, &tree, &key(n), Intent::Leaf);
        }
        while tree.merge_nodes(&pool, &[]).unwrap() {}
        assert!(!space::is_used(&pool, PageId::new(FILE, no)).unwrap());
        let list = list_of(&pool, &other);
        let his = pool.clone();
        sync_point::at(SyncPoint::LeafToBeTried, move || {
            let mut direct = Direct::begin(&his, FILE).unwrap();
            loop {
                let (first, lsn) = list.allocate(&his).unwrap();
                direct.given(first, 64, lsn).unwrap();
                if (first..first + 64).contains(&no) {
                    break;
                }
            }
            if is_read {
                assert!(his.read(PageId::new(FILE, no)).is_ok());
            }
        });
        let mut mtr = pool.begin();
        assert!(matches!(tree.try_leaf(&mut mtr, &key(6000), remembered), Ok(None)));
    }
}

/// The last step failed at the extent when it was half done, and that stopped the engine.
#[test]
fn a_load_that_meets_a_broken_map_at_its_end_fails_before_it_changes_anything() {
    let (fixture, tree) = fixture_with_tree(7, 1024);
    let pool = fixture.pool.clone();
    let list = list_of(&pool, &tree);
    let mut load = Loader::new(&pool, tree, list, 90).unwrap();
    for n in 0..9000u32 {
        load.push(&n.to_be_bytes(), &[7; 200]).unwrap();
    }
    let loaded = load.finish().unwrap();
    let listed: Vec<_> = extents::listed(&pool.read(PageId::new(FILE, list.page)).unwrap()).collect();
    for range in listed {
        let mut mtr = pool.begin();
        space::free(&mut mtr, &[PageId::new(FILE, range.end - 1)]).unwrap();
        mtr.commit();
    }
    let lsn = pool.redo().lsn();
    let mut mtr = pool.begin();
    assert!(matches!(loaded.link(&mut mtr), Err(Error::Corrupt(_))));
    drop(mtr);
    assert_eq!((pool.check_alive(), pool.redo().lsn()), (Ok(()), lsn));
}

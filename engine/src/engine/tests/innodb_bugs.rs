//! The change buffer that was taken out of another engine had a history of corruptions. One test for each kind, named after its report,
//! with why it cannot happen here. The root faults were: two copies of the truth (a bitmap beside the buffer), a key that is a page
//! number, space and latches of its own, no bound. Here a change belongs to an entry's key, its delta tree to its index, and both
//! change in ordinary mini-transactions.
use super::change_buffer::*;
use super::rig::*;
use crate::base::ids::SYSTEM_FILE;
use crate::base::{PageId, Result};
use crate::btree::{Seek, TreeStats};
use crate::index::Index;
use crate::io::sim::SimDisk;
use crate::space;
use crate::table::{Cursor, LockChoice};
use crate::txn::Isolation;
use std::sync::Arc;
use Isolation::{ReadCommitted, RepeatableRead};

fn row_of(n: u32) -> Row {
    Row {
        group: (n % 200) as u8,
        shade: (n % 3) as u8,
        tag: Some(n as u16),
        body: vec![1; 10],
    }
}
fn insert(rig: &Rig, model: &mut Model, keys: impl Iterator<Item = u32>) {
    try_insert(rig, model, keys).expect("inserted");
}
fn try_insert(rig: &Rig, model: &mut Model, keys: impl Iterator<Item = u32>) -> Result<()> {
    let mut trx = rig.begin(ReadCommitted);
    for n in keys {
        rig.insert(&mut trx, &pk(n), &row_of(n))?;
        model.insert(pk(n), row_of(n));
    }
    rig.engine.commit(&mut trx, true)
}
fn delete(rig: &Rig, model: &mut Model, keys: impl Iterator<Item = u32>) {
    let mut trx = rig.begin(ReadCommitted);
    for n in keys {
        rig.delete(&mut trx, &pk(n), &row_of(n)).expect("deleted");
        model.remove(&pk(n));
    }
    commit(rig, trx);
}
fn used_pages(rig: &Rig) -> u32 {
    space::usage(&rig.store().pool, rig.table.layout().id)
        .expect("usage")
        .used
}
fn leaves(rig: &Rig, index: u32) -> u64 {
    let layout = rig.table.layout();
    let tree = layout.index(index).expect("there").tree;
    tree.stats(&rig.store().pool).expect("read").leaf_pages
}

fn delta_stats(rig: &Rig, index: &Index) -> TreeStats {
    let delta = index.delta.as_ref().expect("buffered");
    delta.tree.stats(&rig.store().pool).expect("read")
}

/// MDEV-30009, MDEV-20934: a page was freed and used again while entries for its number were buffered; they were merged into what it
/// had become. Here no page number is in the buffer: most keys leave their leaves directly, so that leaves are freed while the others are
/// pending for their ranges, and the pages are used for other leaves at once.
#[test]
fn mdev_30009_a_page_used_again_gets_nothing_of_its_past() {
    let rig = Rig::create(SimDisk::new(1));
    let mut model = Model::new();
    insert(&rig, &mut model, 0..3000);
    drain(&rig);
    let before = leaves(&rig, BY_TAG);
    buffer(&rig, true);
    delete(&rig, &mut model, (100..2900).step_by(8));
    buffer(&rig, false);
    delete(&rig, &mut model, (100..2900).filter(|n| n % 8 != 4));
    rig.purge_all();
    assert!(pending(&rig) >= 350);
    assert!(leaves(&rig, BY_TAG) < before, "leaves were freed");
    insert(&rig, &mut model, 5000..6500);
    check_now(&rig, &model, "half pending");
    drain(&rig);
    check_now(&rig, &model, "merged");
}

/// MDEV-32132: entries of a dropped index stayed behind, and were applied to the next index on its pages. Here they are in a tree that
/// goes with the index: nothing is left to apply, and all its pages are free again.
#[test]
fn mdev_32132_a_new_index_gets_nothing_of_a_dropped_one() {
    let rig = Rig::create(SimDisk::new(1));
    buffer(&rig, true);
    let mut model = Model::new();
    insert(&rig, &mut model, 0..2000);
    delete(&rig, &mut model, 500..600);
    let (all, table) = (pending(&rig), rig.table.clone());
    rebuild_by_group(&rig, &table, &model);
    assert!(
        pending(&rig) <= all / 2,
        "what was pending for the dropped index is forgotten"
    );
    check_now(&rig, &model, "the new index");
    insert(&rig, &mut model, 3000..3100);
    drain(&rig);
    check_now(&rig, &model, "merged");
}

/// Bug#16183892: a crash between the merge of an entry and its removal from the buffer had it merged twice. Here both are one
/// mini-transaction: whatever disk access the crash comes at, every entry is there once.
#[test]
fn bug_16183892_a_crash_in_a_merge_merges_nothing_twice() {
    let mut at = 1;
    loop {
        let disk = SimDisk::new(at);
        let rig = Rig::create(disk.clone());
        buffer(&rig, true);
        let mut model = Model::new();
        insert(&rig, &mut model, 0..600);
        delete(&rig, &mut model, 0..50);
        rig.engine.commit(&mut rig.begin(ReadCommitted), true).expect("durable");
        insert(&rig, &mut model, 600..601);
        disk.crash_at(disk.changes() + at);
        let merged = rig.store().drain_changes().and_then(|()| rig.store().pool.flush_all());
        let died = disk.is_dead();
        assert_eq!(merged.is_err(), died);
        let after = disk.crash(at);
        std::mem::forget(rig);
        let rig = Rig::reopen(after).expect("recovered");
        check_now(&rig, &model, &format!("crash at {at}"));
        drain(&rig);
        check_now(&rig, &model, "merged");
        if !died {
            return;
        }
        at = at * 2 + 1;
    }
}

/// MySQL Bug#69122: a merge changed its page without a redo record. Here a merge is a mini-transaction like any other: the log alone
/// brings it back, no page having been written since.
#[test]
fn bug_69122_a_merge_is_in_the_log() {
    let disk = SimDisk::new(1);
    let rig = Rig::create(disk.clone());
    buffer(&rig, true);
    let mut model = Model::new();
    insert(&rig, &mut model, 0..300);
    drain(&rig);
    buffer(&rig, false);
    insert(&rig, &mut model, 300..301);
    let after = disk.crash(2);
    std::mem::forget(rig);
    let rig = Rig::reopen(after).expect("recovered");
    assert_eq!(rig.entries_in_tree(BY_TAG), 301);
    check_now(&rig, &model, "recovered");
}

/// MDEV-34879: a page that came into the pool by another way than the usual one missed its merge. Here no way of reading a page merges
/// anything; readers put both together, so that it does not matter how and when a page came, or whether it left in between.
#[test]
fn mdev_34879_no_way_to_a_page_misses_what_is_pending() {
    let rig = Rig::create(SimDisk::new(1));
    let mut model = Model::new();
    insert(&rig, &mut model, 0..4000);
    drain(&rig);
    buffer(&rig, true);
    insert(&rig, &mut model, 4000..4300);
    delete(&rig, &mut model, 1000..1300);
    let pool = &rig.store().pool;
    let all: Vec<PageId> = {
        let file = rig.table.layout().id;
        let pages = space::usage(pool, file).expect("usage").pages;
        (0..pages).map(|no| PageId::new(file, no)).collect()
    };
    for id in all.chunks(64) {
        pool.prefetch(id);
    }
    let before = pending(&rig);
    let tree = rig.table.layout().secondary[1].index.tree;
    tree.verify(pool, &mut |_, _| None).expect("read");
    pool.flush_all().expect("flushed");
    assert_eq!(pending(&rig), before, "no page read merges");
    check_now(&rig, &model, "read by all ways");
}

/// MDEV-35525, MDEV-35553: backward scans went down a wrong subtree while changes were buffered. Here both directions are one cursor over
/// base and pending: from any key, either way, they meet the same rows.
#[test]
fn mdev_35525_backward_scans_meet_what_forward_ones_meet() {
    let rig = Rig::create(SimDisk::new(1));
    let mut model = Model::new();
    insert(&rig, &mut model, (0..3000).step_by(2));
    drain(&rig);
    rig.engine.set("change_buffering", 5).expect("set");
    rig.engine.set("change_buffer_test_mode", 2).expect("set");
    insert(&rig, &mut model, (1..3000).step_by(4));
    delete(&rig, &mut model, (0..3000).step_by(10));
    let tags: Vec<u16> = {
        let mut tags: Vec<u16> = model.values().filter_map(|row| row.tag).collect();
        tags.sort();
        tags
    };
    let mut trx = rig.begin(RepeatableRead);
    let mut cursor = Cursor::new(rig.store().clone(), rig.table.clone());
    cursor
        .begin(&mut trx, BY_TAG, LockChoice::default(), true)
        .expect("begun");
    let tag_at = |cursor: &Cursor| cursor.found().map(|f| u16::from_be_bytes([f.key[1], f.key[2]]));
    for from in (0..3000u16).step_by(7) {
        let key = [1, (from >> 8) as u8, from as u8];
        let at = tags.partition_point(|tag| *tag < from);
        let mut more = cursor.seek(&mut trx, Seek::Lt, &key).expect("sought");
        for expected in tags[..at].iter().rev().take(30) {
            assert!(more);
            assert_eq!(tag_at(&cursor), Some(*expected), "backward from {from}");
            more = cursor.prev(&mut trx).expect("moved");
        }
        let mut more = cursor.seek(&mut trx, Seek::Ge, &key).expect("sought");
        for expected in tags[at..].iter().take(30) {
            assert!(more);
            assert_eq!(tag_at(&cursor), Some(*expected), "forward from {from}");
            more = cursor.next(&mut trx).expect("moved");
        }
    }
    drop(cursor);
    commit(&rig, trx);
}

/// MDEV-29930: the buffer's latch order crossed the pages'. Here delta pages are latched after base pages, never the other way round:
/// writers, readers, merges and purge together come to an end.
#[test]
fn mdev_29930_readers_writers_and_merges_do_not_wait_in_a_ring() {
    let rig = Rig::create(SimDisk::new(1));
    rig.engine.set("change_buffering", 5).expect("set");
    rig.engine.set("change_buffer_test_mode", 2).expect("set");
    std::thread::scope(|s| {
        let rig = &rig;
        let writers: Vec<_> = (0..2u32)
            .map(|writer| {
                s.spawn(move || {
                    let mut model = Model::new();
                    for round in 0..40 {
                        let keys = || (round * 20..round * 20 + 20).map(move |n| writer * 10_000 + n);
                        insert(rig, &mut model, keys());
                        delete(rig, &mut model, keys().step_by(3));
                    }
                    model
                })
            })
            .collect();
        while !writers.iter().all(|writer| writer.is_finished()) {
            let mut trx = rig.begin(RepeatableRead);
            let one = rig.scan(&mut trx, BY_TAG, true, true, None).expect("scan").len();
            let other = rig.scan(&mut trx, BY_GROUP, false, true, None).expect("scan").len();
            assert_eq!(one, other);
            commit(rig, trx);
            rig.purge_all();
            rig.store().drain_changes().expect("merged");
        }
        let mut model = Model::new();
        for writer in writers {
            model.append(&mut writer.join().expect("written"));
        }
        check_now(rig, &model, "all written");
    });
}

/// MDEV-32489: buffered records that spanned pages were not deleted with their index. MDEV-37121: pages that the buffer had freed never
/// came back. Here a delta tree's pages are its file's: emptied ones are free at once, and a dropped one's are freed like any tree's.
#[test]
fn mdev_32489_and_37121_pages_of_the_buffer_come_back() {
    let rig = Rig::create(SimDisk::new(1));
    let mut model = Model::new();
    let empty = used_pages(&rig);
    buffer(&rig, true);
    insert(&rig, &mut model, 0..3000);
    let grown = used_pages(&rig);
    let trees: Vec<_> = rig.table.layout().secondary.iter().map(|s| s.index.clone()).collect();
    for index in &trees {
        let stats = delta_stats(&rig, index);
        assert!(stats.leaf_pages > 3);
    }
    assert!(grown > empty + 8);
    drain(&rig);
    for index in &trees {
        let stats = delta_stats(&rig, index);
        assert_eq!((stats.leaf_pages, stats.inner_pages), (1, 0));
    }
    insert(&rig, &mut model, 3000..5000);
    let table = rig.table.clone();
    let of = |index: &Index| -> u32 {
        let stats = |tree: crate::btree::Tree| tree.stats(&rig.store().pool).expect("read");
        let (base, delta) = (stats(index.tree), stats(index.delta.as_ref().expect("buffered").tree));
        (base.leaf_pages + base.inner_pages + delta.leaf_pages + delta.inner_pages) as u32
    };
    let (before, old) = (used_pages(&rig), of(&table.layout().secondary[0].index));
    rebuild_by_group(&rig, &table, &model);
    let new = of(&table.layout().secondary[0].index);
    assert_eq!(
        used_pages(&rig),
        before - old + new,
        "every page of the dropped index is free"
    );
    check_now(&rig, &model, "after all");
}

/// MDEV-24449: the buffer lived in the system tablespace, and could corrupt any page of it. Here it is in the file of its table.
#[test]
fn mdev_24449_the_system_file_is_not_touched() {
    let rig = Rig::create(SimDisk::new(1));
    buffer(&rig, true);
    let used = || space::usage(&rig.store().pool, SYSTEM_FILE).expect("usage").used;
    let mut model = Model::new();
    insert(&rig, &mut model, 0..10);
    let before = used();
    insert(&rig, &mut model, 10..3000);
    assert_eq!(used(), before);
    for s in &rig.table.layout().secondary {
        let delta = s.index.delta.as_ref().expect("buffered");
        assert_eq!(delta.tree.file, rig.table.layout().id);
    }
    drain(&rig);
    assert_eq!(used(), before);
}

/// MDEV-26977: what was buffered was thought to fit the page, by an estimate kept elsewhere. Here a merge looks at the leaf it holds, and
/// splits it as often as it must.
#[test]
fn mdev_26977_a_merge_needs_no_estimate_of_free_space() {
    let rig = Rig::create(SimDisk::new(1));
    buffer(&rig, true);
    let mut model = Model::new();
    insert(&rig, &mut model, 0..4000);
    assert_eq!(leaves(&rig, BY_TAG), 1, "all of it is for one leaf");
    drain(&rig);
    assert!(leaves(&rig, BY_TAG) > 5);
    check_now(&rig, &model, "merged");
}

/// MDEV-19514, MDEV-21952: merged on demand only, the buffer grew without bound. Here from three quarters of the bound on who appends
/// helps to merge; nothing else merges in this test.
#[test]
fn mdev_19514_the_debt_is_bounded() {
    let rig = Rig::create(SimDisk::new(1));
    buffer(&rig, true);
    rig.engine.set("change_buffer_max_size", 0).expect("set");
    let change = Arc::clone(&rig.store().change);
    let bound = change.bytes_max();
    let mut model = Model::new();
    let mut most = 0;
    for round in 0..60 {
        insert(&rig, &mut model, round * 500..(round + 1) * 500);
        most = most.max(change.bytes());
    }
    assert!(most > bound / 2, "{most} of {bound}: the bound was not tried");
    assert!(most <= bound + (16 << 10), "{most} of {bound}");
    check_now(&rig, &model, "at the bound");
}

//! What users see of the change buffer, and how they steer it: figures, age, drain, a table's own
//! setting.
use super::change_buffer::*;
use super::fixture::*;
use crate::base::ids::FIRST_TABLE_FILE;
use crate::btree::Seek;
use crate::change::{self, Buffering, Op};
use crate::engine::{Close, Config, Engine};
use crate::io::sim::SimDisk;
use crate::io::Disk;
use crate::pool::{Presence, PAGE_SIZE};
use crate::space::file_name;
use crate::table::{ChangeReport, IndexChange, IndexChanges, LockChoice, Rounds};
use crate::txn::Isolation::{ReadCommitted, RepeatableRead};
use std::sync::{Arc, Mutex};

pub(super) fn rows(rig: &TableFixture, numbers: std::ops::Range<u16>) {
    let mut trx = rig.begin(ReadCommitted);
    for n in numbers {
        rig.insert(&mut trx, &n.to_be_bytes(), &row(n as u8, n))
            .expect("insert");
    }
    commit(rig, trx);
}
pub(super) fn report(rig: &TableFixture) -> ChangeReport {
    rig.store().merge_scheduler().change_report()
}
pub(super) fn of_index(rig: &TableFixture, name: &str) -> IndexChanges {
    let mut found = None;
    let all = rig.store().merge_scheduler().changes_by_index(&mut |index| {
        if index.index == name {
            found = Some(index);
        }
    });
    all.expect("listed");
    found.expect("an index of that name")
}
pub(super) fn rounds(rig: &TableFixture, n: usize) -> usize {
    let mut rounds = Rounds::default();
    (0..n)
        .map(|_| rig.store().merge_scheduler().merge_round(&mut rounds).expect("round"))
        .sum()
}
/// An entry of by_group that no row has, marked: a corrupt index.
fn corrupt(rig: &TableFixture) {
    let index = &rig.table.layout().secondary[0].index;
    let op = Op::Mark {
        key: &[b'g', 200, 1],
        stamp: 1,
    };
    change::submit(&rig.store().pool, index, op).expect("buffered");
}

#[test]
fn figures_follow_what_happens() {
    let rig = TableFixture::create(SimDisk::new(1));
    buffer(&rig, true);
    assert_eq!((report(&rig).entries, report(&rig).indexes), (0, 0));
    rows(&rig, 0..10);
    let c = rig.engine.counters().clone();
    let now = report(&rig);
    assert_eq!((now.entries, now.indexes, now.partitions, now.uncounted), (20, 2, 2, 0));
    assert!(now.bytes > 20 * 10 && now.bytes < now.bytes_max);
    let one = of_index(&rig, "by_tag");
    assert_eq!(
        (one.entries, one.partitions, one.pages, one.counted, one.merged),
        (10, 1, 1, true, 0)
    );
    assert_eq!((one.buffering, one.own), (Buffering::All, None));
    assert_eq!(c.change_buffer_buffered_inserts.get(), 20);
    // Marked while its put is pending: that joins it, and no leaf is looked at for it.
    let mut trx = rig.begin(ReadCommitted);
    rig.delete(&mut trx, &5u16.to_be_bytes(), &row(5, 5)).expect("delete");
    commit(&rig, trx);
    assert_eq!(c.change_buffer_buffered_delete_marks.get(), 2);
    assert_eq!(c.change_buffer_reads_avoided.get(), 2);
    drain(&rig);
    assert_eq!(c.change_buffer_merged_inserts.get(), 20);
    // One leaf each.
    assert_eq!(c.change_buffer_reads_avoided.get(), 2 + 9 + 9);
    rig.purge_all();
    assert_eq!(report(&rig).entries, 2);
    drain(&rig);
    assert_eq!(c.change_buffer_merged_deletes.get(), 2);
    assert_eq!(of_index(&rig, "by_tag").merged, 11);
    rows(&rig, 20..23);
    let text = rig.engine.status_text();
    assert!(
        text.contains("Change buffer: size 2, free list len 0, seg size 2, "),
        "{text}"
    );
    assert!(
        text.contains("merged operations:\n insert 20, delete mark 0, delete 2\n"),
        "{text}"
    );
    assert!(
        text.contains("Pending: 6 entries in 2 indexes (2 partitions)"),
        "{text}"
    );
    rig.store().tables().drop_table("t").expect("dropped");
    assert_eq!(c.change_buffer_discarded.get(), 6);
    assert_eq!(
        report(&rig),
        ChangeReport {
            bytes_max: now.bytes_max,
            ..ChangeReport::default()
        }
    );
}

/// An index that is written all the time always has pending entries. Its oldest entry seemed to
/// grow older and older, though sweeps had merged it long ago.
#[test]
fn the_oldest_is_as_old_as_the_last_pass() {
    let disk = SimDisk::new(1);
    let rig = TableFixture::create(disk.clone());
    buffer(&rig, true);
    rows(&rig, 0..10);
    disk.advance_us(50_000_000);
    assert_eq!(report(&rig).age_s, 50);
    rows(&rig, 10..20);
    // The pass begins now; what comes while it goes on stays pending.
    let (store, layout) = (rig.store().clone(), rig.table.layout());
    for s in &layout.secondary {
        change::sweep_step(&store.pool, &s.index, 1).expect("swept");
    }
    assert_eq!(report(&rig).age_s, 0);
    disk.advance_us(30_000_000);
    rows(&rig, 20..30);
    disk.advance_us(5_000_000);
    let age = report(&rig).age_s;
    assert!((5..=35).contains(&age), "{age}");
    drain(&rig);
    assert_eq!(report(&rig).age_s, 0);
}

/// A busy engine merges what is older than the limit, and nothing else.
#[test]
fn what_is_too_old_is_merged_however_busy_it_is() {
    let disk = SimDisk::new(1);
    let rig = TableFixture::create(disk.clone());
    buffer(&rig, true);
    rig.engine.set("change_buffer_max_age", 60).expect("set");
    rows(&rig, 0..10);
    let busy_round = |state: &mut Rounds, n: u16| {
        rows(&rig, 100 + n * 2..102 + n * 2);
        rig.store().merge_scheduler().merge_round(state).expect("round")
    };
    let mut state = Rounds::default();
    assert_eq!((0..15).map(|n| busy_round(&mut state, n)).sum::<usize>(), 0);
    disk.advance_us(61_000_000);
    // By those before, next to nothing was done in a minute.
    let mut state = Rounds::default();
    assert!((15..20).map(|n| busy_round(&mut state, n)).sum::<usize>() > 0);
    assert!(report(&rig).age_s < 60);
    rig.engine.set("change_buffer_max_age", 0).expect("set");
    disk.advance_us(1_000_000_000);
    let mut state = Rounds::default();
    assert_eq!((20..25).map(|n| busy_round(&mut state, n)).sum::<usize>(), 0);
    assert!(report(&rig).age_s >= 1000);
}

/// One query a second was enough to keep an engine with nothing to do from merging.
#[test]
fn next_to_nothing_to_do_is_idleness() {
    for (changes, merges) in [(0, true), (1, true), (2, false)] {
        let rig = TableFixture::create(SimDisk::new(1));
        buffer(&rig, true);
        rows(&rig, 0..10);
        let mut state = Rounds::default();
        let merged: usize = (0..60)
            .map(|n| {
                // A second has ten rounds. Each is a row, and its commit.
                (0..changes).for_each(|i| rows(&rig, 100 + n * 10 + i..101 + n * 10 + i));
                rig.store().merge_scheduler().merge_round(&mut state).expect("round")
            })
            .sum();
        assert_eq!(merged > 0, merges, "{changes} changes a round");
    }
}

/// A change that fits no entry stays for ever: the drain went on for ever too, and an idle engine
/// swept without an end.
#[test]
fn a_corrupt_index_ends_a_drain() {
    let rig = TableFixture::create(SimDisk::new(1));
    buffer(&rig, true);
    rows(&rig, 0..10);
    corrupt(&rig);
    rig.engine.set("change_buffer_drain", 1).expect("set");
    let mut state = Rounds::default();
    let mut n = 0;
    while report(&rig).draining {
        rig.store().merge_scheduler().merge_round(&mut state).expect("round");
        n += 1;
        assert!(n < 10, "{:?}", report(&rig));
    }
    assert_eq!(report(&rig).entries, 1);
    let merges = rig.engine.counters().change_buffer_merges.get();
    assert_eq!(rounds(&rig, 30), 0, "idle, and nothing to do");
    assert_eq!(rig.engine.counters().change_buffer_merges.get(), merges);
    // What comes later is merged all the same.
    rows(&rig, 10..20);
    assert!(rounds(&rig, 30) > 0);
    assert_eq!(report(&rig).entries, 1);
}

/// After a restart nothing seemed to be pending until it was counted, at a few pages a round:
/// meanwhile as much again could be appended.
#[test]
fn what_is_not_counted_yet_is_a_part_of_the_bound() {
    let disk = SimDisk::new(1);
    let rig = TableFixture::create(disk.clone());
    buffer(&rig, true);
    rig.engine.set("change_buffer_test_mode", 3).expect("set");
    (0..20).for_each(|n| rows(&rig, n * 1000..(n + 1) * 1000));
    let fill = |rig: &TableFixture| rig.store().change.fill();
    let (before, entries) = (fill(&rig), pending(&rig));
    assert!(entries > 20_000, "{entries}");
    rig.engine.close(Close::Fast).expect("closed");

    let rig = TableFixture::reopen(disk).expect("opened");
    buffer(&rig, true);
    rig.engine.set("change_buffer_test_mode", 3).expect("set");
    rig.engine.set("io_capacity", 10).expect("set");
    rig.engine.set("io_capacity_max", 10).expect("set");
    rounds(&rig, 2);
    assert_eq!(report(&rig).uncounted, 2, "looked into, one a round");
    let counted = pending(&rig);
    assert!(counted < entries * 3 / 4, "{counted} of {entries}");
    let now = fill(&rig);
    assert!((before * 3 / 4..=before * 5 / 4).contains(&now), "{now}, not {before}");
    // From here on as fast as the user allows at most.
    rig.engine.set("io_capacity_max", 2000).expect("set");
    rounds(&rig, 1);
    assert_eq!(
        (report(&rig).uncounted, pending(&rig), fill(&rig)),
        (0, entries, before)
    );
    drain(&rig);
    assert_eq!(fill(&rig), 0);
}

/// The checkpointer had ended before a slow close merged and purged: with more to do than the log
/// holds, it waited for ever.
#[test]
fn a_slow_close_may_write_more_than_the_log_holds() {
    let disk = SimDisk::new(1);
    let notes: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = notes.clone();
    let config = Config {
        redo_log_capacity: 2 << 20,
        redo_log_buffer_size: 512 << 10,
        log: Arc::new(move |_, text: &str| sink.lock().expect("notes").push(text.into())),
        ..config()
    };
    let engine = Engine::open(disk.clone(), config).expect("engine");
    engine.store().tables().create_table("t", &spec()).expect("create");
    let table = engine.store().tables().open_table("t").expect("open");
    let rig = TableFixture { engine, table };
    buffer(&rig, true);
    rig.engine.set("change_buffer_max_size", 50).expect("set");
    let long = |n: u16| Row {
        shade: 1,
        ..row(n as u8, n)
    };
    for batch in 0..20u16 {
        let mut trx = rig.begin(ReadCommitted);
        for n in batch * 1000..(batch + 1) * 1000 {
            rig.insert(&mut trx, &n.to_be_bytes(), &long(n)).expect("insert");
        }
        commit(&rig, trx);
        let mut trx = rig.begin(ReadCommitted);
        for n in batch * 1000..(batch + 1) * 1000 {
            rig.delete(&mut trx, &n.to_be_bytes(), &long(n)).expect("delete");
        }
        commit(&rig, trx);
    }
    let before = rig.engine.lsn();
    rig.engine.close(Close::Slow).expect("closed");
    assert!(
        rig.engine.lsn() - before > 2 << 20,
        "the log was not filled: {}",
        rig.engine.lsn() - before
    );
    drop(rig);
    let said = notes.lock().expect("notes").join("\n");
    assert!(
        said.contains("change buffer: draining begins") && said.contains("change buffer: drained"),
        "{said}"
    );
    let rig = TableFixture::reopen(disk).expect("opened");
    assert_eq!((rig.entries_in_tree(BY_GROUP), rig.entries_in_tree(BY_TAG)), (0, 0));
    rig.check_table();
}

fn alter<'a>(rig: &'a TableFixture, own: Option<Buffering>) -> IndexChange<'a> {
    IndexChange {
        table: &rig.table,
        drop: vec![],
        rename: vec![],
        add: vec![],
        order: vec!["by_group", "by_tag"],
        change_buffering: own,
        schema: b"",
        keys: Default::default(),
    }
}

/// The table's option overrides the engine's setting, survives TRUNCATE and a restart, and holds
/// for an index added later.
#[test]
fn a_table_says_itself_what_is_buffered() {
    let disk: Arc<dyn Disk> = SimDisk::new(1);
    let rig = TableFixture::create(disk.clone());
    buffer(&rig, true);
    rig.store()
        .indexes()
        .alter_indexes(&[alter(&rig, Some(Buffering::None))])
        .expect("altered");
    rows(&rig, 0..10);
    assert_eq!(report(&rig).entries, 0);
    rig.store().tables().truncate_table("t").expect("truncated");
    rebuild_by_group(&rig, &rig.table, &Model::new());
    let after_build = Some(Buffering::None);
    rig.store()
        .indexes()
        .alter_indexes(&[alter(&rig, after_build)])
        .expect("altered");
    rows(&rig, 0..10);
    assert_eq!(report(&rig).entries, 0);
    rig.engine.close(Close::Fast).expect("closed");
    let rig = TableFixture::reopen(disk).expect("opened");
    buffer(&rig, true);
    assert_eq!(of_index(&rig, "by_group").own, Some(Buffering::None));
    rows(&rig, 10..20);
    assert_eq!(report(&rig).entries, 0);
    rig.store()
        .indexes()
        .alter_indexes(&[alter(&rig, Some(Buffering::Inserts))])
        .expect("altered");
    rig.engine.set("change_buffering", 0).expect("set");
    rows(&rig, 20..30);
    assert_eq!(report(&rig).entries, 20);
    rig.store()
        .indexes()
        .alter_indexes(&[alter(&rig, None)])
        .expect("altered");
    rows(&rig, 30..40);
    assert_eq!(report(&rig).entries, 20);
    let mut trx = rig.begin(RepeatableRead);
    assert_eq!(rig.scan(&mut trx, BY_TAG, false, true, None).expect("scan").len(), 40);
    commit(&rig, trx);
    rig.check_table();
}

/// Each pending change was counted as one more entry of the range, marks and removals of entries
/// that are there too.
#[test]
fn estimates_count_an_entry_once() {
    let rig = TableFixture::create(SimDisk::new(1));
    buffer(&rig, true);
    rows(&rig, 0..100);
    let estimate = |rig: &TableFixture| {
        let all = rig
            .store()
            .statistics_keeper()
            .records_in_range(&rig.table, BY_TAG, None, None);
        all.expect("estimate")
    };
    assert_eq!(estimate(&rig), 100);
    drain(&rig);
    assert_eq!(estimate(&rig), 100);
    let mut trx = rig.begin(ReadCommitted);
    for n in 0..60u16 {
        rig.delete(&mut trx, &n.to_be_bytes(), &row(n as u8, n))
            .expect("delete");
    }
    commit(&rig, trx);
    // Marked entries count, as they do in the tree itself.
    assert_eq!(estimate(&rig), 100);
    rig.purge_all();
    assert_eq!(estimate(&rig), 40);
    drain(&rig);
    assert_eq!(estimate(&rig), 40);
}

/// Changes had been buffered for an index that later fitted in memory. They stayed pending while
/// the server was busy, and readers looked for them with every leaf. For an index that lives on
/// disk, buffering is what saves reads.
#[test]
fn what_is_pending_for_an_index_in_memory_is_merged_however_busy_it_is() {
    let rig = TableFixture::create(SimDisk::new(1));
    buffer(&rig, true);
    rows(&rig, 0..60);
    rig.engine.set("change_buffer_test_mode", 0).expect("set");
    let delta = |n: usize| rig.table.layout().secondary[n].index.delta.clone().expect("delta");
    let (near, far) = (delta(0), delta(1));
    near.was_found(Presence::Clean, 100);
    far.was_found(Presence::Absent, 100);
    let mut state = Rounds::default();
    for n in 0..15 {
        rows(&rig, 100 + n * 2..102 + n * 2);
        rig.store().merge_scheduler().merge_round(&mut state).expect("round");
    }
    assert_eq!(near.entries(), 0);
    assert!(far.entries() >= 60, "{}", far.entries());
}

/// Before each range query the optimizer's estimate looked into every partition, three descents
/// each. For a large range the result was the same, but for some per cent.
#[test]
fn the_size_of_a_large_range_is_estimated_without_the_few_that_are_pending() {
    let rig = TableFixture::create(SimDisk::new(1));
    buffer(&rig, false);
    rows(&rig, 0..2000);
    let asked = |from: u16| {
        let requests = || {
            rig.store().pool.update_gauges();
            rig.engine.counters().buffer_pool_read_requests.get()
        };
        let before = requests();
        let low = row(0, from).tag_key(&[]);
        let estimate = rig
            .store()
            .statistics_keeper()
            .records_in_range(&rig.table, BY_TAG, Some(&low), None);
        (estimate.expect("estimate"), requests() - before)
    };
    let (large, small) = (asked(100), asked(1990));
    buffer(&rig, true);
    rows(&rig, 3000..3020);
    assert_eq!(asked(100), large);
    let (estimate, requests) = asked(1990);
    assert!(estimate == small.0 + 20 && requests > small.1, "{estimate} {requests}");
}

/// A reader merged a leaf for which it met many pending changes, which left the leaf nearly empty.
/// Its right neighbour, with which it was to be merged, was broken. The read failed for a page that
/// it did not need.
#[test]
fn a_read_does_not_fail_for_what_its_merge_meets() {
    let disk = SimDisk::new(1);
    let rig = TableFixture::create(disk.clone());
    buffer(&rig, false);
    rows(&rig, 0..2000);
    let tree = rig.table.layout().secondary[1].index.tree;
    let pool = &rig.store().pool;
    let tag_key = |n: u16| row(n as u8, n).tag_key(&n.to_be_bytes());
    let leaf_no = |n: u16| tree.leaf_place(pool, &tag_key(n)).expect("found").expect("a leaf").0.no;
    let second = (0..2000).find(|n| leaf_no(*n) != leaf_no(0)).expect("two leaves");
    // One in sixteen stays.
    buffer(&rig, true);
    let mut trx = rig.begin(ReadCommitted);
    for n in (0..second).filter(|n| n % 16 != 0) {
        rig.delete(&mut trx, &n.to_be_bytes(), &row(n as u8, n))
            .expect("delete");
    }
    commit(&rig, trx);
    rig.purge_all();
    let place = leaf_no(second) as u64 * PAGE_SIZE as u64 + PAGE_SIZE as u64 / 2;
    rig.engine.checkpoint().expect("checkpoint");
    disk.flip(&file_name(FIRST_TABLE_FILE), place, 1);
    pool.discard_file(FIRST_TABLE_FILE);
    let before = pending(&rig);
    for _ in 0..2 * change::DENSE_READS_PER_MERGE {
        let mut trx = rig.begin(ReadCommitted);
        let mut cursor = rig.store().cursor(rig.table.clone());
        cursor
            .begin(&mut trx, BY_TAG, LockChoice::default(), true)
            .expect("begun");
        assert!(cursor
            .seek(&mut trx, Seek::First, &[])
            .expect("a read of the first leaf"));
        commit(&rig, trx);
    }
    assert!(pending(&rig) < before, "it was merged");
    let end = tree.leaf_place(pool, &tag_key(0)).expect("found").expect("a leaf").1;
    assert!(
        end.is_some_and(|end| end <= tag_key(second)),
        "and not put together with the next"
    );
}

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

pub(super) fn rows(fixture: &TableFixture, numbers: std::ops::Range<u16>) {
    let mut trx = fixture.begin(ReadCommitted);
    for n in numbers {
        fixture
            .insert(&mut trx, &n.to_be_bytes(), &row(n as u8, n))
            .expect("insert");
    }
    commit(fixture, trx);
}
pub(super) fn report(fixture: &TableFixture) -> ChangeReport {
    fixture.store().merge_scheduler().change_report()
}
pub(super) fn of_index(fixture: &TableFixture, name: &str) -> IndexChanges {
    let mut found = None;
    let all = fixture.store().merge_scheduler().changes_by_index(&mut |index| {
        if index.index == name {
            found = Some(index);
        }
    });
    all.expect("listed");
    found.expect("an index of that name")
}
pub(super) fn rounds(fixture: &TableFixture, n: usize) -> usize {
    let mut rounds = Rounds::default();
    (0..n)
        .map(|_| {
            fixture
                .store()
                .merge_scheduler()
                .merge_round(&mut rounds)
                .expect("round")
        })
        .sum()
}
/// An entry of by_group that no row has, marked: a corrupt index.
fn corrupt(fixture: &TableFixture) {
    let index = &fixture.table.layout().secondary[0].index;
    let op = Op::Mark {
        key: &[b'g', 200, 1],
        stamp: 1,
    };
    change::submit(&fixture.store().pool, index, op).expect("buffered");
}

#[test]
fn figures_follow_what_happens() {
    let fixture = TableFixture::create(SimDisk::new(1));
    buffer(&fixture, true);
    assert_eq!((report(&fixture).entries, report(&fixture).indexes), (0, 0));
    rows(&fixture, 0..10);
    let c = fixture.engine.counters().clone();
    let now = report(&fixture);
    assert_eq!((now.entries, now.indexes, now.partitions, now.uncounted), (20, 2, 2, 0));
    assert!(now.bytes > 20 * 10 && now.bytes < now.bytes_max);
    let one = of_index(&fixture, "by_tag");
    assert_eq!(
        (one.entries, one.partitions, one.pages, one.counted, one.merged),
        (10, 1, 1, true, 0)
    );
    assert_eq!((one.buffering, one.own), (Buffering::All, None));
    assert_eq!(c.change_buffer_buffered_inserts.get(), 20);
    // Marked while its put is pending: that joins it, and no leaf is looked at for it.
    let mut trx = fixture.begin(ReadCommitted);
    fixture
        .delete(&mut trx, &5u16.to_be_bytes(), &row(5, 5))
        .expect("delete");
    commit(&fixture, trx);
    assert_eq!(c.change_buffer_buffered_delete_marks.get(), 2);
    assert_eq!(c.change_buffer_reads_avoided.get(), 2);
    drain(&fixture);
    assert_eq!(c.change_buffer_merged_inserts.get(), 20);
    // One leaf each.
    assert_eq!(c.change_buffer_reads_avoided.get(), 2 + 9 + 9);
    fixture.purge_all();
    assert_eq!(report(&fixture).entries, 2);
    drain(&fixture);
    assert_eq!(c.change_buffer_merged_deletes.get(), 2);
    assert_eq!(of_index(&fixture, "by_tag").merged, 11);
    rows(&fixture, 20..23);
    let text = fixture.engine.status_text();
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
    fixture.store().tables().drop_table("t").expect("dropped");
    assert_eq!(c.change_buffer_discarded.get(), 6);
    assert_eq!(
        report(&fixture),
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
    let fixture = TableFixture::create(disk.clone());
    buffer(&fixture, true);
    rows(&fixture, 0..10);
    disk.advance_us(50_000_000);
    assert_eq!(report(&fixture).age_s, 50);
    rows(&fixture, 10..20);
    // The pass begins now; what comes while it goes on stays pending.
    let (store, layout) = (fixture.store().clone(), fixture.table.layout());
    for s in &layout.secondary {
        change::sweep_step(&store.pool, &s.index, 1).expect("swept");
    }
    assert_eq!(report(&fixture).age_s, 0);
    disk.advance_us(30_000_000);
    rows(&fixture, 20..30);
    disk.advance_us(5_000_000);
    let age = report(&fixture).age_s;
    assert!((5..=35).contains(&age), "{age}");
    drain(&fixture);
    assert_eq!(report(&fixture).age_s, 0);
}

/// A busy engine merges what is older than the limit, and nothing else.
#[test]
fn what_is_too_old_is_merged_however_busy_it_is() {
    let disk = SimDisk::new(1);
    let fixture = TableFixture::create(disk.clone());
    buffer(&fixture, true);
    fixture.engine.set("change_buffer_max_age", 60).expect("set");
    rows(&fixture, 0..10);
    let busy_round = |state: &mut Rounds, n: u16| {
        rows(&fixture, 100 + n * 2..102 + n * 2);
        fixture.store().merge_scheduler().merge_round(state).expect("round")
    };
    let mut state = Rounds::default();
    assert_eq!((0..15).map(|n| busy_round(&mut state, n)).sum::<usize>(), 0);
    disk.advance_us(61_000_000);
    // By those before, next to nothing was done in a minute.
    let mut state = Rounds::default();
    assert!((15..20).map(|n| busy_round(&mut state, n)).sum::<usize>() > 0);
    assert!(report(&fixture).age_s < 60);
    fixture.engine.set("change_buffer_max_age", 0).expect("set");
    disk.advance_us(1_000_000_000);
    let mut state = Rounds::default();
    assert_eq!((20..25).map(|n| busy_round(&mut state, n)).sum::<usize>(), 0);
    assert!(report(&fixture).age_s >= 1000);
}

/// One query a second was enough to keep an engine with nothing to do from merging.
#[test]
fn next_to_nothing_to_do_is_idleness() {
    for (changes, merges) in [(0, true), (1, true), (2, false)] {
        let fixture = TableFixture::create(SimDisk::new(1));
        buffer(&fixture, true);
        rows(&fixture, 0..10);
        let mut state = Rounds::default();
        let merged: usize = (0..60)
            .map(|n| {
                // A second has ten rounds. Each is a row, and its commit.
                (0..changes).for_each(|i| rows(&fixture, 100 + n * 10 + i..101 + n * 10 + i));
                fixture
                    .store()
                    .merge_scheduler()
                    .merge_round(&mut state)
                    .expect("round")
            })
            .sum();
        assert_eq!(merged > 0, merges, "{changes} changes a round");
    }
}

/// A change that fits no entry stays for ever: the drain went on for ever too, and an idle engine
/// swept without an end.
#[test]
fn a_corrupt_index_ends_a_drain() {
    let fixture = TableFixture::create(SimDisk::new(1));
    buffer(&fixture, true);
    rows(&fixture, 0..10);
    corrupt(&fixture);
    fixture.engine.set("change_buffer_drain", 1).expect("set");
    let mut state = Rounds::default();
    let mut n = 0;
    while report(&fixture).draining {
        fixture
            .store()
            .merge_scheduler()
            .merge_round(&mut state)
            .expect("round");
        n += 1;
        assert!(n < 10, "{:?}", report(&fixture));
    }
    assert_eq!(report(&fixture).entries, 1);
    let merges = fixture.engine.counters().change_buffer_merges.get();
    assert_eq!(rounds(&fixture, 30), 0, "idle, and nothing to do");
    assert_eq!(fixture.engine.counters().change_buffer_merges.get(), merges);
    // What comes later is merged all the same.
    rows(&fixture, 10..20);
    assert!(rounds(&fixture, 30) > 0);
    assert_eq!(report(&fixture).entries, 1);
}

/// After a restart nothing seemed to be pending until it was counted, at a few pages a round:
/// meanwhile as much again could be appended.
#[test]
fn what_is_not_counted_yet_is_a_part_of_the_bound() {
    let disk = SimDisk::new(1);
    let fixture = TableFixture::create(disk.clone());
    buffer(&fixture, true);
    fixture.engine.set("change_buffer_test_mode", 3).expect("set");
    (0..20).for_each(|n| rows(&fixture, n * 1000..(n + 1) * 1000));
    let fill = |fixture: &TableFixture| fixture.store().change.fill();
    let (before, entries) = (fill(&fixture), pending(&fixture));
    assert!(entries > 20_000, "{entries}");
    fixture.engine.close(Close::Fast).expect("closed");

    let fixture = TableFixture::reopen(disk).expect("opened");
    buffer(&fixture, true);
    fixture.engine.set("change_buffer_test_mode", 3).expect("set");
    fixture.engine.set("io_capacity", 10).expect("set");
    fixture.engine.set("io_capacity_max", 10).expect("set");
    rounds(&fixture, 2);
    assert_eq!(report(&fixture).uncounted, 2, "looked into, one a round");
    let counted = pending(&fixture);
    assert!(counted < entries * 3 / 4, "{counted} of {entries}");
    let now = fill(&fixture);
    assert!((before * 3 / 4..=before * 5 / 4).contains(&now), "{now}, not {before}");
    // From here on as fast as the user allows at most.
    fixture.engine.set("io_capacity_max", 2000).expect("set");
    rounds(&fixture, 1);
    assert_eq!(
        (report(&fixture).uncounted, pending(&fixture), fill(&fixture)),
        (0, entries, before)
    );
    drain(&fixture);
    assert_eq!(fill(&fixture), 0);
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
    let fixture = TableFixture { engine, table };
    buffer(&fixture, true);
    fixture.engine.set("change_buffer_max_size", 50).expect("set");
    let long = |n: u16| Row {
        shade: 1,
        ..row(n as u8, n)
    };
    for batch in 0..20u16 {
        let mut trx = fixture.begin(ReadCommitted);
        for n in batch * 1000..(batch + 1) * 1000 {
            fixture.insert(&mut trx, &n.to_be_bytes(), &long(n)).expect("insert");
        }
        commit(&fixture, trx);
        let mut trx = fixture.begin(ReadCommitted);
        for n in batch * 1000..(batch + 1) * 1000 {
            fixture.delete(&mut trx, &n.to_be_bytes(), &long(n)).expect("delete");
        }
        commit(&fixture, trx);
    }
    let before = fixture.engine.lsn();
    fixture.engine.close(Close::Slow).expect("closed");
    assert!(
        fixture.engine.lsn() - before > 2 << 20,
        "the log was not filled: {}",
        fixture.engine.lsn() - before
    );
    drop(fixture);
    let said = notes.lock().expect("notes").join("\n");
    assert!(
        said.contains("change buffer: draining begins") && said.contains("change buffer: drained"),
        "{said}"
    );
    let fixture = TableFixture::reopen(disk).expect("opened");
    assert_eq!(
        (fixture.entries_in_tree(BY_GROUP), fixture.entries_in_tree(BY_TAG)),
        (0, 0)
    );
    fixture.check_table();
}

fn alter<'a>(fixture: &'a TableFixture, own: Option<Buffering>) -> IndexChange<'a> {
    IndexChange {
        table: &fixture.table,
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
    let fixture = TableFixture::create(disk.clone());
    buffer(&fixture, true);
    fixture
        .store()
        .indexes()
        .alter_indexes(&[alter(&fixture, Some(Buffering::None))])
        .expect("altered");
    rows(&fixture, 0..10);
    assert_eq!(report(&fixture).entries, 0);
    fixture.store().tables().truncate_table("t").expect("truncated");
    rebuild_by_group(&fixture, &fixture.table, &Model::new());
    let after_build = Some(Buffering::None);
    fixture
        .store()
        .indexes()
        .alter_indexes(&[alter(&fixture, after_build)])
        .expect("altered");
    rows(&fixture, 0..10);
    assert_eq!(report(&fixture).entries, 0);
    fixture.engine.close(Close::Fast).expect("closed");
    let fixture = TableFixture::reopen(disk).expect("opened");
    buffer(&fixture, true);
    assert_eq!(of_index(&fixture, "by_group").own, Some(Buffering::None));
    rows(&fixture, 10..20);
    assert_eq!(report(&fixture).entries, 0);
    fixture
        .store()
        .indexes()
        .alter_indexes(&[alter(&fixture, Some(Buffering::Inserts))])
        .expect("altered");
    fixture.engine.set("change_buffering", 0).expect("set");
    rows(&fixture, 20..30);
    assert_eq!(report(&fixture).entries, 20);
    fixture
        .store()
        .indexes()
        .alter_indexes(&[alter(&fixture, None)])
        .expect("altered");
    rows(&fixture, 30..40);
    assert_eq!(report(&fixture).entries, 20);
    let mut trx = fixture.begin(RepeatableRead);
    assert_eq!(
        fixture.scan(&mut trx, BY_TAG, false, true, None).expect("scan").len(),
        40
    );
    commit(&fixture, trx);
    fixture.check_table();
}

/// Each pending change was counted as one more entry of the range, marks and removals of entries
/// that are there too.
#[test]
fn estimates_count_an_entry_once() {
    let fixture = TableFixture::create(SimDisk::new(1));
    buffer(&fixture, true);
    rows(&fixture, 0..100);
    let estimate = |fixture: &TableFixture| {
        let all = fixture
            .store()
            .statistics_keeper()
            .records_in_range(&fixture.table, BY_TAG, None, None);
        all.expect("estimate")
    };
    assert_eq!(estimate(&fixture), 100);
    drain(&fixture);
    assert_eq!(estimate(&fixture), 100);
    let mut trx = fixture.begin(ReadCommitted);
    for n in 0..60u16 {
        fixture
            .delete(&mut trx, &n.to_be_bytes(), &row(n as u8, n))
            .expect("delete");
    }
    commit(&fixture, trx);
    // Marked entries count, as they do in the tree itself.
    assert_eq!(estimate(&fixture), 100);
    fixture.purge_all();
    assert_eq!(estimate(&fixture), 40);
    drain(&fixture);
    assert_eq!(estimate(&fixture), 40);
}

/// Changes had been buffered for an index that later fitted in memory. They stayed pending while
/// the server was busy, and readers looked for them with every leaf. For an index that lives on
/// disk, buffering is what saves reads.
#[test]
fn what_is_pending_for_an_index_in_memory_is_merged_however_busy_it_is() {
    let fixture = TableFixture::create(SimDisk::new(1));
    buffer(&fixture, true);
    rows(&fixture, 0..60);
    fixture.engine.set("change_buffer_test_mode", 0).expect("set");
    let delta = |n: usize| fixture.table.layout().secondary[n].index.delta.clone().expect("delta");
    let (near, far) = (delta(0), delta(1));
    near.was_found(Presence::Clean, 100);
    far.was_found(Presence::Absent, 100);
    let mut state = Rounds::default();
    for n in 0..15 {
        rows(&fixture, 100 + n * 2..102 + n * 2);
        fixture
            .store()
            .merge_scheduler()
            .merge_round(&mut state)
            .expect("round");
    }
    assert_eq!(near.entries(), 0);
    assert!(far.entries() >= 60, "{}", far.entries());
}

/// Before each range query the optimizer's estimate looked into every partition, three descents
/// each. For a large range the result was the same, but for some per cent.
#[test]
fn the_size_of_a_large_range_is_estimated_without_the_few_that_are_pending() {
    let fixture = TableFixture::create(SimDisk::new(1));
    buffer(&fixture, false);
    rows(&fixture, 0..2000);
    let asked = |from: u16| {
        let requests = || {
            fixture.store().pool.update_gauges();
            fixture.engine.counters().buffer_pool_read_requests.get()
        };
        let before = requests();
        let low = row(0, from).tag_key(&[]);
        let estimate = fixture
            .store()
            .statistics_keeper()
            .records_in_range(&fixture.table, BY_TAG, Some(&low), None);
        (estimate.expect("estimate"), requests() - before)
    };
    let (large, small) = (asked(100), asked(1990));
    buffer(&fixture, true);
    rows(&fixture, 3000..3020);
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
    let fixture = TableFixture::create(disk.clone());
    buffer(&fixture, false);
    rows(&fixture, 0..2000);
    let tree = fixture.table.layout().secondary[1].index.tree;
    let pool = &fixture.store().pool;
    let tag_key = |n: u16| row(n as u8, n).tag_key(&n.to_be_bytes());
    let leaf_no = |n: u16| tree.leaf_place(pool, &tag_key(n)).expect("found").expect("a leaf").0.no;
    let second = (0..2000).find(|n| leaf_no(*n) != leaf_no(0)).expect("two leaves");
    // One in sixteen stays.
    buffer(&fixture, true);
    let mut trx = fixture.begin(ReadCommitted);
    for n in (0..second).filter(|n| n % 16 != 0) {
        fixture
            .delete(&mut trx, &n.to_be_bytes(), &row(n as u8, n))
            .expect("delete");
    }
    commit(&fixture, trx);
    fixture.purge_all();
    let place = leaf_no(second) as u64 * PAGE_SIZE as u64 + PAGE_SIZE as u64 / 2;
    fixture.engine.checkpoint().expect("checkpoint");
    disk.flip(&file_name(FIRST_TABLE_FILE), place, 1);
    pool.discard_file(FIRST_TABLE_FILE);
    let before = pending(&fixture);
    for _ in 0..2 * change::DENSE_READS_PER_MERGE {
        let mut trx = fixture.begin(ReadCommitted);
        let mut cursor = fixture.store().cursor(fixture.table.clone());
        cursor
            .begin(&mut trx, BY_TAG, LockChoice::default(), true)
            .expect("begun");
        assert!(cursor
            .seek(&mut trx, Seek::First, &[])
            .expect("a read of the first leaf"));
        commit(&fixture, trx);
    }
    assert!(pending(&fixture) < before, "it was merged");
    let end = tree.leaf_place(pool, &tag_key(0)).expect("found").expect("a leaf").1;
    assert!(
        end.is_some_and(|end| end <= tag_key(second)),
        "and not put together with the next"
    );
}

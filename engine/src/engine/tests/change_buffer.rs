//! The rules of stamps with buffered changes in between: whatever is pending, merged, or both,
//! every reader sees the same.
use super::fixture::*;
use crate::base::Error;
use crate::engine::{Close, Config, Engine};
use crate::io::sim::SimDisk;
use crate::table::{CheckLevel, Checker, Entry, IndexChange, IndexSpec, NewRow, Table, TableSpec};
use crate::txn::{Isolation, LockMode, ThreadWaiter, Trx};
use std::sync::Arc;
use Isolation::{ReadCommitted, RepeatableRead};

const X: Option<LockMode> = Some(LockMode::Exclusive);

pub fn row(group: u8, tag: u16) -> Row {
    Row {
        group,
        shade: 0,
        tag: Some(tag),
        body: vec![group; 20],
    }
}
pub fn commit(fixture: &TableFixture, mut trx: Trx) {
    fixture.engine.commit(&mut trx, false).expect("commit");
}
/// From now on every change of a secondary index is buffered (or none is that has nothing pending),
/// and merged when there is a reason.
pub fn buffer(fixture: &TableFixture, on: bool) {
    let mode = if on { 4 } else { 0 };
    fixture.engine.set("change_buffer_test_mode", mode).expect("set");
    fixture
        .engine
        .set("change_buffering", if on { 5 } else { 0 })
        .expect("set");
}
pub fn drain(fixture: &TableFixture) {
    fixture.store().merge_scheduler().drain_changes().expect("drain");
    assert_eq!(pending(fixture), 0);
}
pub fn pending(fixture: &TableFixture) -> u64 {
    fixture.store().change.entries()
}
/// Rows 1, 2, 3 of groups 1, 2, 3 with tags 10, 20, 30, nothing pending; what follows is buffered.
fn filled() -> (TableFixture, Model) {
    let fixture = TableFixture::create(SimDisk::new(1));
    let mut trx = fixture.begin(ReadCommitted);
    let mut model = Model::new();
    for n in 1..=3u8 {
        fixture.insert(&mut trx, &[n], &row(n, n as u16 * 10)).expect("insert");
        model.insert(vec![n], row(n, n as u16 * 10));
    }
    commit(&fixture, trx);
    drain(&fixture);
    buffer(&fixture, true);
    (fixture, model)
}
pub fn check_now(fixture: &TableFixture, model: &Model, what: &str) {
    let mut trx = fixture.begin(RepeatableRead);
    fixture.check_view(&mut trx, model, what);
    commit(fixture, trx);
    fixture.check_table();
}

#[test]
fn a_snapshot_older_than_what_is_pending_reads_past_it() {
    let (fixture, old_model) = filled();
    let mut old = fixture.begin(RepeatableRead);
    fixture.check_view(&mut old, &old_model, "before");
    let mut model = old_model.clone();
    let mut trx = fixture.begin(ReadCommitted);
    fixture
        .update(&mut trx, &[2], &row(2, 20), &row(9, 90))
        .expect("update");
    fixture.delete(&mut trx, &[3], &row(3, 30)).expect("delete");
    fixture.insert(&mut trx, &[4], &row(4, 40)).expect("insert");
    fixture.check_view(&mut old, &old_model, "made, not committed");
    commit(&fixture, trx);
    model.insert(vec![2], row(9, 90));
    model.insert(vec![4], row(4, 40));
    model.remove(&[3][..]);
    assert!(pending(&fixture) >= 6);
    for merged in [false, true] {
        if merged {
            drain(&fixture);
        }
        fixture.purge_all();
        fixture.check_view(&mut old, &old_model, "the old snapshot");
        check_now(&fixture, &model, "the new one");
    }
    commit(&fixture, old);
}

/// Half of what is undone is merged before it is undone.
#[test]
fn a_rollback_takes_back_what_is_pending_and_what_is_merged() {
    for merged in [false, true] {
        let (fixture, model) = filled();
        let mut old = fixture.begin(RepeatableRead);
        fixture.check_view(&mut old, &model, "before");
        let mut trx = fixture.begin(ReadCommitted);
        fixture.insert(&mut trx, &[4], &row(4, 40)).expect("insert");
        fixture
            .update(&mut trx, &[2], &row(2, 20), &row(9, 90))
            .expect("update");
        if merged {
            drain(&fixture);
        }
        // Back to the old key, and away from it again.
        fixture
            .update(&mut trx, &[2], &row(9, 90), &row(2, 20))
            .expect("update");
        fixture
            .update(&mut trx, &[2], &row(2, 20), &row(8, 80))
            .expect("update");
        fixture.delete(&mut trx, &[3], &row(3, 30)).expect("delete");
        fixture.delete(&mut trx, &[4], &row(4, 40)).expect("delete");
        fixture.engine.rollback(&mut trx).expect("rollback");
        assert!(pending(&fixture) > 0);
        fixture.check_view(&mut old, &model, "the old snapshot");
        check_now(&fixture, &model, "undone");
        commit(&fixture, old);
        fixture.purge_all();
        check_now(&fixture, &model, "purged");
        assert_eq!(fixture.entries_in_tree(BY_GROUP), 3);
        drain(&fixture);
        check_now(&fixture, &model, "merged");
        assert_eq!(fixture.entries_in_tree(BY_TAG), 3);
    }
}

#[test]
fn purge_removes_what_is_marked_wherever_the_mark_is() {
    for merged in [false, true] {
        let (fixture, mut model) = filled();
        let mut trx = fixture.begin(ReadCommitted);
        fixture
            .update(&mut trx, &[2], &row(2, 20), &row(9, 90))
            .expect("update");
        fixture.delete(&mut trx, &[1], &row(1, 10)).expect("delete");
        commit(&fixture, trx);
        if merged {
            drain(&fixture);
        }
        fixture.purge_all();
        model.insert(vec![2], row(9, 90));
        model.remove(&[1][..]);
        for index in [BY_GROUP, BY_TAG] {
            assert_eq!(fixture.entries_in_tree(index), 2, "merged {merged}");
        }
        // The freed keys are used again, with the removal still pending.
        let mut trx = fixture.begin(ReadCommitted);
        fixture.insert(&mut trx, &[1], &row(1, 20)).expect("the tag is free");
        commit(&fixture, trx);
        model.insert(vec![1], row(1, 20));
        check_now(&fixture, &model, "used again");
        drain(&fixture);
        check_now(&fixture, &model, "merged");
    }
}

/// A unique value is looked for among what is pending, too; and a pending removal frees it.
#[test]
fn a_pending_entry_is_a_rival() {
    let (fixture, _) = filled();
    let mut trx = fixture.begin(ReadCommitted);
    fixture.insert(&mut trx, &[4], &row(4, 40)).expect("insert");
    commit(&fixture, trx);
    let mut trx = fixture.begin(ReadCommitted);
    assert!(fixture.insert(&mut trx, &[5], &row(5, 40)).is_err());
    fixture.delete(&mut trx, &[4], &row(4, 40)).expect("delete");
    fixture.insert(&mut trx, &[5], &row(5, 40)).expect("free now");
    commit(&fixture, trx);
    let mut trx = fixture.begin(ReadCommitted);
    let found = fixture.scan(&mut trx, BY_TAG, false, false, X).expect("locked");
    assert_eq!(found.len(), 4);
    commit(&fixture, trx);
    fixture.check_table();
}

/// An entry changes between the look that a locking read takes at it and the one it takes when it
/// has the row's lock.
#[test]
fn a_locking_read_looks_at_what_has_become_pending_meanwhile() {
    let (fixture, _) = filled();
    let mut writer = fixture.begin(ReadCommitted);
    fixture
        .update(&mut writer, &[2], &row(2, 20), &row(2, 25))
        .expect("update");
    let found = std::thread::scope(|s| {
        let fixture = &fixture;
        let reader = s.spawn(move || {
            let mut trx = fixture.begin(ReadCommitted);
            let found = fixture.scan(&mut trx, BY_GROUP, false, false, X).expect("scan");
            commit(fixture, trx);
            found
        });
        while fixture.engine.counters().row_lock_current_waits.get() == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        fixture
            .update(&mut writer, &[2], &row(2, 25), &row(7, 25))
            .expect("update");
        commit(fixture, writer);
        reader.join().expect("reader")
    });
    let groups: Vec<u8> = found.iter().map(|f| f.key[1]).collect();
    assert!(groups == [1, 3, 7], "{groups:?}");
}

/// What the optimizer's estimates are for an index that is mostly buffered.
#[test]
fn estimates_count_what_is_pending() {
    let fixture = TableFixture::create(SimDisk::new(1));
    buffer(&fixture, true);
    let mut trx = fixture.begin(ReadCommitted);
    for n in 0..3000u32 {
        let row = Row {
            tag: None,
            ..row((n % 100) as u8, 0)
        };
        fixture.insert(&mut trx, &pk(n), &row).expect("insert");
    }
    commit(&fixture, trx);
    let store = fixture.store();
    let in_range = || {
        let range =
            store
                .statistics_keeper()
                .records_in_range(&fixture.table, BY_GROUP, Some(&[b'g', 10]), Some(&[b'g', 20]));
        range.expect("estimate")
    };
    let (buffered, pages) = (
        in_range(),
        store
            .statistics_keeper()
            .leaf_pages(&fixture.table, BY_GROUP)
            .expect("pages"),
    );
    assert!((200..400).contains(&buffered), "{buffered} of 300");
    assert!(pages > 5, "{pages} leaf pages");
    drain(&fixture);
    assert!((200..400).contains(&in_range()));
}

/// CHECK TABLE tells of a pending mark whose entry is missing.
#[test]
fn a_check_finds_a_pending_mark_without_its_entry() {
    let (fixture, _) = filled();
    let index = &fixture.table.layout().secondary[0].index;
    let op = crate::change::Op::Mark { key: b"gone", stamp: 5 };
    crate::change::submit(&fixture.store().pool, index, op).expect("blind");
    let mut trx = fixture.begin(RepeatableRead);
    let findings = fixture.findings(&mut trx, CheckLevel::Extended);
    assert!(
        findings[0].contains("by_group") && findings[0].contains("missing"),
        "{findings:?}"
    );
    commit(&fixture, trx);
}

/// Drops an index and makes one of the same name anew, from the rows of the model.
pub fn rebuild_by_group(fixture: &TableFixture, table: &Arc<Table>, model: &Model) {
    let change = |drop| IndexChange {
        drop,
        order: vec!["by_tag"],
        ..change_of(table)
    };
    fixture
        .store()
        .indexes()
        .alter_indexes(&[change(vec!["by_group"])])
        .expect("dropped");
    let spec = IndexSpec {
        name: "by_group".into(),
        unique: false,
        wide: false,
        ..IndexSpec::default()
    };
    let mut build = fixture.store().indexes().begin_build(table, &spec).expect("begun");
    for (pk, row) in model {
        build.add(&row.group_key(pk), 2, false, &[row.shade]).expect("added");
    }
    let trx = fixture.begin(ReadCommitted);
    build.finish(&trx).expect("finished");
    commit(fixture, trx);
    let mut change = change(vec![]);
    (change.add, change.order) = (vec![&build], vec!["by_group", "by_tag"]);
    fixture.store().indexes().alter_indexes(&[change]).expect("published");
}

#[test]
fn a_slow_close_leaves_nothing_pending() {
    let disk = SimDisk::new(1);
    let fixture = TableFixture::create(disk.clone());
    buffer(&fixture, true);
    let mut trx = fixture.begin(ReadCommitted);
    fixture.insert(&mut trx, &[4], &row(4, 40)).expect("insert");
    commit(&fixture, trx);
    assert!(pending(&fixture) > 0);
    fixture.engine.close(Close::Slow).expect("closed");
    drop(fixture);
    let fixture = TableFixture::reopen(disk).expect("opened");
    for s in &fixture.table.layout().secondary {
        let delta = s.index.delta.as_ref().expect("buffered");
        assert_eq!(
            s.index
                .tree
                .verify(&fixture.store().pool, &mut |_, _| None)
                .expect("read")
                .entries,
            1
        );
        assert_eq!(
            delta
                .tree
                .verify(&fixture.store().pool, &mut |_, _| None)
                .expect("read")
                .entries,
            0
        );
    }
    fixture.check_table();
}

/// The position of purge was once known for each page of undo only. The next start removed entries
/// again, by buffered changes, that the last run had removed.
#[test]
fn what_a_slow_close_has_purged_is_purged_once() {
    let disk = SimDisk::new(1);
    let fixture = TableFixture::create(disk.clone());
    buffer(&fixture, true);
    for n in 0..3 {
        let mut trx = fixture.begin(ReadCommitted);
        fixture.insert(&mut trx, &[n], &row(n, 40)).expect("insert");
        commit(&fixture, trx);
        let mut trx = fixture.begin(ReadCommitted);
        fixture.delete(&mut trx, &[n], &row(n, 40)).expect("delete");
        commit(&fixture, trx);
    }
    fixture.engine.close(Close::Slow).expect("closed");
    assert_eq!(fixture.store().trx_sys.undo.history_length(), 0);
    drop(fixture);
    let fixture = TableFixture::reopen(disk).expect("opened");
    assert_eq!(fixture.store().trx_sys.undo.history_length(), 0);
    assert!(!fixture.store().purger().purge_step(100).expect("purged"));
    assert_eq!(pending(&fixture), 0);
    fixture.check_table();
}

/// A slow close once merged after the page cleaner had ended: when the log was full it waited for
/// ever.
#[test]
fn a_slow_close_may_write_more_than_the_log_holds() {
    let small = Config {
        redo_log_capacity: 256 << 10,
        ..config()
    };
    let engine = Engine::open(SimDisk::new(1), small).expect("fresh engine");
    let fixture = TableFixture::with(engine);
    buffer(&fixture, true);
    let mut trx = fixture.begin(ReadCommitted);
    for n in 0..3000u32 {
        fixture
            .insert(&mut trx, &pk(n), &row(n as u8, n as u16))
            .expect("insert");
    }
    commit(&fixture, trx);
    assert!(pending(&fixture) > 4000);
    fixture.engine.close(Close::Slow).expect("closed");
    assert_eq!(pending(&fixture), 0);
}

/// Notes how far a check has come, and kills it when it has come so far.
struct Killer(Arc<ThreadWaiter>, u64, Vec<u64>);

impl Checker for Killer {
    fn finding(&mut self, line: &str) {
        panic!("{line}");
    }
    fn progress(&mut self, _stage: u32, _stages: u32, done: u64, total: u64) {
        assert!(done <= total, "{done} of {total}");
        self.2.push(done);
        if done > self.1 {
            self.0.kill();
        }
    }
}

/// Leaves of an index are read once more for pending changes, if there are any. Each of these
/// leaves is a step: a KILL ends the check there, too.
#[test]
fn a_check_of_what_is_pending_goes_step_by_step() {
    const ROWS: u32 = 1800;
    let fixture = TableFixture::create(SimDisk::new(1));
    let store = fixture.store();
    let spec = TableSpec {
        indexes: vec![IndexSpec {
            name: "wide".into(),
            unique: false,
            wide: false,
            ..IndexSpec::default()
        }],
        ..TableSpec::default()
    };
    store.tables().create_table("w", &spec).expect("create");
    let table = store.tables().open_table("w").expect("open");
    let insert = |n: u32| {
        let pk = n.to_be_bytes();
        // Five of them fill a page.
        let entry = Entry {
            index: 0,
            user_key_len: 4,
            has_null: false,
            key: &[pk, pk].concat(),
            value: &[7; 3000],
        };
        let mut trx = fixture.begin(ReadCommitted);
        store
            .rows()
            .insert(&mut trx, &table, &NewRow::new(&pk, b"row", &[entry]), false)
            .expect("insert");
        commit(&fixture, trx);
    };
    buffer(&fixture, false);
    (0..ROWS).for_each(insert);
    let check = |kill_behind: u64| {
        let waiter = Arc::new(ThreadWaiter::new());
        let mut trx = fixture.engine.new_trx(waiter.clone(), 0);
        let mut killer = Killer(waiter, kill_behind, Vec::new());
        let sound = store.check_table(&mut trx, &table, CheckLevel::Quick, &mut killer);
        (sound, killer.2)
    };
    let leaves = ROWS as u64 / 5;
    let (sound, seen) = check(u64::MAX);
    assert!(sound.expect("checked"));
    assert!(
        !seen.is_empty() && seen.iter().all(|done| *done <= leaves + leaves / 4),
        "once: {seen:?}"
    );
    buffer(&fixture, true);
    insert(ROWS);
    assert!(pending(&fixture) > 0);
    let (sound, seen) = check(u64::MAX);
    assert!(sound.expect("checked"));
    assert!(seen.iter().any(|done| *done > leaves + leaves / 4), "twice: {seen:?}");
    // In the first walk, at the last look of it: the next one is in the second.
    let (ended, seen) = check(leaves / 2);
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}, {seen:?}");
}

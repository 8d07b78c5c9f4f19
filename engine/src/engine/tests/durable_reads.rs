//! What a transaction saw before its acknowledged commit holds after a crash, also when it only
//! read.
use super::fixture::*;
use crate::engine::{CommitFlush, Engine};
use crate::io::sim::SimDisk;
use crate::txn::{Isolation, LockMode, Trx};
use std::sync::Arc;
use Isolation::{ReadCommitted, RepeatableRead, Serializable};

const S: Option<LockMode> = Some(LockMode::Shared);
const X: Option<LockMode> = Some(LockMode::Exclusive);

fn row(group: u8) -> Row {
    Row {
        group,
        shade: 0,
        tag: Some(group as u16),
        body: vec![group; 20],
    }
}

/// Rows 1, 2 and 3, durable.
fn filled(disk: &Arc<SimDisk>) -> TableFixture {
    // No other thread syncs the log.
    let fixture = TableFixture::with(Engine::open_still(disk.clone(), config()).expect("fresh engine"));
    let mut trx = fixture.begin(ReadCommitted);
    for n in 1..=3u8 {
        fixture.insert(&mut trx, &[n], &row(n)).expect("insert");
    }
    fixture.engine.commit(&mut trx, true).expect("commit");
    fixture
}

/// Row 1 is changed, row 2 deleted, row 4 inserted; everybody sees it, and the log is not safe yet.
fn half_committed(fixture: &TableFixture) -> Trx {
    let mut trx = fixture.begin(ReadCommitted);
    fixture.update(&mut trx, &[1], &row(1), &row(9)).expect("update");
    fixture.delete(&mut trx, &[2], &row(2)).expect("delete");
    fixture.insert(&mut trx, &[4], &row(4)).expect("insert");
    fixture.store().trx_sys.commit_ordered(&mut trx);
    trx
}

fn finish(fixture: &TableFixture, mut trx: Trx) {
    fixture.engine.commit(&mut trx, false).expect("commit");
}

fn groups(fixture: &TableFixture) -> Vec<u8> {
    let mut trx = fixture.begin(ReadCommitted);
    let found = fixture.scan(&mut trx, 0, false, false, None).expect("scan");
    fixture.engine.commit(&mut trx, true).expect("commit");
    found.iter().map(|f| Row::decode(&f.row).group).collect()
}

fn syncs(fixture: &TableFixture) -> u64 {
    fixture.store().counters.redo_log_fsyncs.get()
}

type Look = fn(&TableFixture, &mut Trx);

/// Each must bring the writer's commit to the disk. The commit may show by a version, the lack of
/// one, an entry of an index, or a lock.
const LOOKS: [(&str, Isolation, Look); 8] = [
    ("the changed row", RepeatableRead, |fixture, trx| {
        assert_eq!(fixture.get(trx, &[1], None), Ok(Some(row(9))));
    }),
    ("the deleted row", ReadCommitted, |fixture, trx| {
        assert_eq!(fixture.get(trx, &[2], None), Ok(None));
    }),
    ("the new row", RepeatableRead, |fixture, trx| {
        assert_eq!(fixture.get(trx, &[4], None), Ok(Some(row(4))));
    }),
    ("all by an index", RepeatableRead, |fixture, trx| {
        let found = fixture.scan(trx, BY_GROUP, false, false, None).expect("scan");
        assert_eq!(found.len(), 3);
    }),
    ("all by a covering read", ReadCommitted, |fixture, trx| {
        let found = fixture.scan(trx, BY_GROUP, false, true, None).expect("scan");
        assert_eq!(found.len(), 3);
    }),
    ("a snapshot that was closed since", ReadCommitted, |fixture, trx| {
        assert_eq!(fixture.get(trx, &[1], None), Ok(Some(row(9))));
        fixture.store().trx_sys.visibility.close_view(trx);
        assert_eq!(fixture.get(trx, &[3], None), Ok(Some(row(3))));
    }),
    ("the deleted row, locking", ReadCommitted, |fixture, trx| {
        assert_eq!(fixture.get(trx, &[2], X), Ok(None));
    }),
    ("the changed row, serializable", Serializable, |fixture, trx| {
        assert_eq!(fixture.get(trx, &[1], S), Ok(Some(row(9))));
    }),
];

/// Found by `make isolation` with kill -9 at REPEATABLE READ. One transaction read a value and
/// committed. The server was killed before the transaction that wrote the value was durable. After
/// the restart the earlier value was overwritten: a lost update.
#[test]
fn what_a_reader_was_shown_survives_its_commit() {
    for (purges, prepares) in [(false, false), (true, false), (false, true)] {
        for (seed, (what, isolation, look)) in LOOKS.into_iter().enumerate() {
            let disk = SimDisk::new(seed as u64);
            let fixture = filled(&disk);
            let writer = half_committed(&fixture);
            // Its lock on the row is held till the end; a locking read waits for that.
            let mut writer = Some(writer);
            if isolation == Serializable || what.ends_with("locking") {
                finish(&fixture, writer.take().expect("it is there"));
            }
            if purges {
                // The deleted row must not be gone without a trace of its deletion. The purge may
                // sync, too.
                fixture.purge_all();
            }
            let mut reader = fixture.begin(isolation);
            look(&fixture, &mut reader);
            match prepares {
                // Another engine's half of it may hold what it was shown.
                true => fixture.engine.prepare(&mut reader, &xid(&[1])).expect("prepare"),
                false => fixture.engine.commit(&mut reader, true).expect("commit"),
            }
            let disk = disk.crash(seed as u64);
            std::mem::forget((writer, reader));
            let fixture = TableFixture::reopen(disk).expect("opens");
            assert_eq!(groups(&fixture), [9, 3, 4], "{what}, purge {purges}");
        }
    }
}

/// Only transactions that saw it pay the price.
#[test]
fn a_reader_that_saw_nothing_of_it_waits_for_nothing() {
    let disk = SimDisk::new(1);
    let fixture = filled(&disk);
    let mut old = fixture.begin(RepeatableRead);
    assert_eq!(fixture.get(&mut old, &[1], None), Ok(Some(row(1))));
    let writer = half_committed(&fixture);
    let before = syncs(&fixture);
    let mut elsewhere = fixture.begin(RepeatableRead);
    assert_eq!(fixture.get(&mut elsewhere, &[3], None), Ok(Some(row(3))));
    assert_eq!(
        fixture.get(&mut old, &[1], None),
        Ok(Some(row(1))),
        "its snapshot is older"
    );
    // An UPDATE or DELETE that finds nothing, and one that changes nothing.
    let (mut nothing, mut unchanged) = (fixture.begin(ReadCommitted), fixture.begin(ReadCommitted));
    assert_eq!(fixture.get(&mut nothing, &[7], X), Ok(None));
    assert_eq!(fixture.get(&mut unchanged, &[3], X), Ok(Some(row(3))));
    for mut trx in [old, elsewhere, nothing, unchanged] {
        fixture.engine.commit(&mut trx, true).expect("commit");
    }
    let mut rolled_back = fixture.begin(RepeatableRead);
    assert_eq!(fixture.get(&mut rolled_back, &[1], None), Ok(Some(row(9))));
    fixture.engine.rollback(&mut rolled_back).expect("rollback");
    assert_eq!(syncs(&fixture), before);
    let mut reader = fixture.begin(RepeatableRead);
    assert_eq!(fixture.get(&mut reader, &[1], None), Ok(Some(row(9))));
    fixture.engine.commit(&mut reader, true).expect("commit");
    assert_eq!(syncs(&fixture), before + 1);
    finish(&fixture, writer);
    assert_eq!(groups(&fixture), [9, 3, 4]);
    assert_eq!(syncs(&fixture), before + 1, "it is durable now");
}

/// Where no commit is durable, no reader makes it so.
#[test]
fn readers_promise_no_more_than_commits() {
    let disk = SimDisk::new(1);
    let fixture = filled(&disk);
    for (setting, mode) in [(0, CommitFlush::Lazy), (2, CommitFlush::Write)] {
        assert_eq!(CommitFlush::from_number(setting), mode);
        fixture.engine.set("flush_log_at_trx_commit", setting).expect("set");
        let mut writer = fixture.begin(ReadCommitted);
        fixture.update(&mut writer, &[3], &row(3), &row(3)).expect("update");
        fixture.engine.commit(&mut writer, true).expect("commit");
        let before = (syncs(&fixture), disk.changes());
        assert_eq!(groups(&fixture), [1, 2, 3]);
        fixture.purge_all();
        assert_eq!(syncs(&fixture), before.0);
    }
}

//! The locking scan of a statement outside of a transaction, and rows that move during the scan:
//! `table/scan/relocated.rs`.
use super::fixture::*;
use super::isolation::*;
use crate::base::sync_point::{at, sync_point};
use crate::base::{Error, Result, SyncPoint};
use crate::btree::Seek;
use crate::table::{Cursor, LockChoice, OnLocked};
use crate::txn::Isolation::{ReadCommitted, RepeatableRead};
use crate::txn::Trx;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

fn following(fixture: &TableFixture, trx: &mut Trx, on_locked: OnLocked) -> Cursor {
    let mut cursor = locking(fixture, trx, on_locked, false);
    let key_of = |_: &[u8], row: &[u8], to: &mut Vec<u8>| {
        to.extend_from_slice(&[b'g', Row::decode(row).group]);
        Ok(())
    };
    cursor.follow_moved(trx, Box::new(key_of));
    cursor
}
fn locking(fixture: &TableFixture, trx: &mut Trx, on_locked: OnLocked, gaps: bool) -> Cursor {
    let mut cursor = fixture.store().cursor(fixture.table.clone());
    let lock = LockChoice {
        mode: X,
        on_locked,
        gaps,
        ..LockChoice::default()
    };
    cursor.begin(trx, BY_GROUP, lock, false).expect("begin");
    cursor
}
fn by_statement_view(fixture: &TableFixture, trx: &mut Trx) -> Cursor {
    let mut cursor = fixture.store().cursor(fixture.table.clone());
    let lock = LockChoice {
        by_statement_view: true,
        ..LockChoice::default()
    };
    cursor.begin(trx, 0, lock, false).expect("begin");
    cursor
}
fn found(cursor: &Cursor) -> (u8, u8) {
    let found = cursor.found().expect("handed out");
    (found.pk[0], Row::decode(found.row).group)
}
fn rest(cursor: &mut Cursor, trx: &mut Trx) -> Result<Vec<u8>> {
    let mut rows = Vec::new();
    while cursor.next(trx)? {
        rows.push(found(cursor).0);
    }
    Ok(rows)
}

/// Groups of the rows, and which rows have been outside of the scan's range.
struct World {
    fixture: Arc<TableFixture>,
    groups: BTreeMap<u8, u8>,
    left: BTreeSet<u8>,
    random: u64,
    moves: usize,
    /// They end what has been begun.
    later: Vec<JoinHandle<()>>,
}
const ROWS: u8 = 10;
/// Groups of the range: 3 to 7.
const LO: [u8; 2] = [b'g', 3];
const HI: [u8; 2] = [b'g', 8];

impl World {
    /// Rows of random groups in place of the fixture's.
    fn filled(fixture: &Arc<TableFixture>, seed: u64) -> World {
        let mut first = fixture.begin(ReadCommitted);
        for pk in 1..=3u8 {
            fixture
                .delete(&mut first, &[pk], &row(pk, pk as u16 * 10))
                .expect("delete");
        }
        let mut world = World {
            fixture: fixture.clone(),
            groups: BTreeMap::new(),
            left: BTreeSet::new(),
            random: seed,
            moves: 0,
            later: Vec::new(),
        };
        for pk in 1..=ROWS {
            let group = 2 + world.below(7) as u8;
            fixture
                .insert(&mut first, &[pk], &row(group, pk as u16))
                .expect("insert");
            world.groups.insert(pk, group);
            if !(3..8).contains(&group) {
                world.left.insert(pk);
            }
        }
        commit(fixture, first);
        world
    }
    fn below(&mut self, n: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.random >> 33) % n
    }
    /// Others move rows, some of them twice, and take some of it back, at once or a little later.
    /// What is locked stays where it is.
    fn stir(world: &Arc<Mutex<World>>) {
        let mut this = world.lock().expect("whole");
        let fixture = this.fixture.clone();
        for _ in 0..this.below(4) {
            let pk = 1 + this.below(ROWS as u64) as u8;
            let mut trx = fixture.begin(ReadCommitted);
            trx.lock_wait_timeout_ms = 0;
            let mut group = this.groups[&pk];
            for _ in 0..1 + this.below(2) {
                let is_near = this.below(4) > 0;
                let new = if is_near { 3 + this.below(5) } else { this.below(12) } as u8;
                match fixture.update(&mut trx, &[pk], &row(group, pk as u16), &row(new, pk as u16)) {
                    Ok(()) => group = new,
                    Err(Error::LockWaitTimeout) => break,
                    Err(e) => panic!("{e}"),
                }
            }
            let commits = this.below(3) > 0 && group != this.groups[&pk];
            if this.below(3) > 0 {
                this.end(trx, commits, pk, group);
                continue;
            }
            let later = world.clone();
            this.later.push(std::thread::spawn(move || {
                std::thread::sleep(Duration::from_micros(300));
                later.lock().expect("whole").end(trx, commits, pk, group);
            }));
        }
        if this.below(3) == 0 {
            fixture.purge_all();
        }
    }
    /// Now, and perhaps within the scan's next step.
    fn stir_within(world: &Arc<Mutex<World>>) {
        World::stir(world);
        for when in [SyncPoint::EntryCopied, SyncPoint::MovedRowFound] {
            let then = world.clone();
            if then.lock().expect("whole").below(2) == 0 {
                at(when, move || World::stir(&then));
            }
        }
    }
    fn end_all(world: &Arc<Mutex<World>>) {
        loop {
            let Some(later) = world.lock().expect("whole").later.pop() else {
                return;
            };
            later.join().expect("ended");
        }
    }
    fn end(&mut self, trx: Trx, commits: bool, pk: u8, group: u8) {
        if !commits {
            return rollback(&self.fixture, trx);
        }
        commit(&self.fixture, trx);
        self.groups.insert(pk, group);
        self.moves += 1;
        if !(3..8).contains(&group) {
            self.left.insert(pk);
        }
    }
}

/// Other transactions change rows between two steps and within one. A row that is in the range all
/// the time is handed out once. A row outside of the range is never handed out.
#[test]
fn a_row_that_stays_in_the_range_is_met_once() {
    // The last row of the range moves on within it, after the scan has learned that no row follows.
    for seed in (0..300u64).chain([13613]) {
        scanned(seed, false);
    }
}

/// The same in the index's order, by a scan that locks the gaps after its entries.
#[test]
fn no_row_moves_into_gaps_that_a_scan_has_locked() {
    let mut moved = 0;
    for seed in 0..300u64 {
        let (met, tried) = scanned(seed, true);
        moved += tried;
        let groups: Vec<u8> = met.iter().map(|(_, group)| *group).collect();
        let is_backward = groups.first() > groups.last();
        assert!(
            groups.is_sorted_by(|a, b| if is_backward { a >= b } else { a <= b }),
            "seed {seed}: {met:?}"
        );
    }
    assert!(moved > 300, "{moved} moves");
}

/// Rows and groups in the order in which a scan handed them out while other transactions moved
/// them, none missed. Also the number of moves that succeeded.
fn scanned(seed: u64, gaps: bool) -> (Vec<(u8, u8)>, usize) {
    let fixture = Arc::new(filled());
    fixture.buffer_by(seed % 3);
    let mut world = World::filled(&fixture, seed);
    let backward = world.below(2) == 0;
    let world = Arc::new(Mutex::new(world));
    let mut trx = fixture.begin(RepeatableRead);
    let mut cursor = match gaps {
        true => locking(&fixture, &mut trx, OnLocked::Wait, true),
        false => following(&fixture, &mut trx, OnLocked::Wait),
    };
    cursor.set_bounds(&LO, Some(&HI));
    let mut met = Vec::new();
    let mut more = match backward {
        true => cursor.seek(&mut trx, Seek::Lt, &HI),
        false => cursor.seek(&mut trx, Seek::Ge, &LO),
    };
    while more == Ok(true) {
        let (pk, group) = found(&cursor);
        let newest = world.lock().expect("whole").groups[&pk];
        assert_eq!(newest, group, "seed {seed}: row {pk} is not the newest");
        assert!((3..8).contains(&group), "seed {seed}: row {pk} of group {group}");
        met.push((pk, group));
        World::stir_within(&world);
        more = match backward {
            true => cursor.prev(&mut trx),
            false => cursor.next(&mut trx),
        };
    }
    World::end_all(&world);
    assert_eq!(more, Ok(false), "seed {seed}: {met:?}");
    let once: BTreeSet<u8> = met.iter().map(|(pk, _)| *pk).collect();
    assert_eq!(once.len(), met.len(), "seed {seed}: {met:?}");
    let left = world.lock().expect("whole").left.clone();
    for pk in (1..=ROWS).filter(|pk| !left.contains(pk)) {
        assert!(once.contains(&pk), "seed {seed}: row {pk} is missed: {met:?}");
    }
    drop(cursor);
    commit(&fixture, trx);
    // What was not come to is not for the next one.
    for _ in 0..ROWS {
        sync_point(SyncPoint::EntryCopied);
        sync_point(SyncPoint::MovedRowFound);
    }
    World::end_all(&world);
    fixture.check_table();
    let moves = world.lock().expect("whole").moves;
    (met, moves)
}

/// The row's group is changed after the first step of the scan, by a transaction that has not
/// ended.
fn moved_to(group: u8, on_locked: OnLocked) -> (TableFixture, Trx, Trx, Cursor) {
    let fixture = filled();
    let mut trx = fixture.begin(RepeatableRead);
    trx.lock_wait_timeout_ms = 0;
    let mut cursor = following(&fixture, &mut trx, on_locked);
    assert_eq!(cursor.seek(&mut trx, Seek::Ge, b"g\x01"), Ok(true));
    assert_eq!(found(&cursor).0, 1);
    let mut mover = fixture.begin(ReadCommitted);
    fixture
        .update(&mut mover, &[3], &row(3, 30), &row(group, 30))
        .expect("update");
    commit(&fixture, mover);
    let mut holder = fixture.begin(ReadCommitted);
    assert!(fixture.get(&mut holder, &[3], X).expect("lock").is_some());
    (fixture, trx, holder, cursor)
}

/// What another read of the statement has locked to share, the scan that changes rows has not met.
#[test]
fn a_moved_row_whose_lock_is_raised_is_handed_out() {
    let fixture = filled();
    let mut trx = fixture.begin(RepeatableRead);
    let mut cursor = following(&fixture, &mut trx, OnLocked::Wait);
    assert_eq!(cursor.seek(&mut trx, Seek::Ge, b"g\x00"), Ok(true));
    assert_eq!(found(&cursor).0, 1);
    let mut mover = fixture.begin(ReadCommitted);
    fixture
        .update(&mut mover, &[3], &row(3, 30), &row(0, 30))
        .expect("update");
    commit(&fixture, mover);
    assert!(fixture
        .get(&mut trx, &[3], Some(crate::txn::LockMode::Shared))
        .expect("lock")
        .is_some());
    assert_eq!(rest(&mut cursor, &mut trx), Ok(vec![2, 3]));
    drop(cursor);
    commit(&fixture, trx);
}

/// The worker of a queue is not stopped by transactions that hold rows which have left the queue.
#[test]
fn rows_that_have_left_the_range_are_not_waited_for() {
    let (fixture, mut trx, mut holder, mut cursor) = moved_to(0, OnLocked::Wait);
    fixture
        .update(&mut holder, &[3], &row(0, 30), &row(0, 40))
        .expect("update");
    assert_eq!(rest(&mut cursor, &mut trx), Ok(vec![2]));
    drop(cursor);
    commit(&fixture, holder);
    commit(&fixture, trx);
}

#[test]
fn a_moved_row_that_is_locked_is_waited_for_or_skipped_or_refused() {
    for (on_locked, expected) in [
        (OnLocked::Wait, Err(Error::LockWaitTimeout)),
        (OnLocked::Refuse, Err(Error::Locked)),
        (OnLocked::Skip, Ok(vec![2])),
    ] {
        let (fixture, mut trx, holder, mut cursor) = moved_to(1, on_locked);
        assert_eq!(rest(&mut cursor, &mut trx), expected);
        drop(cursor);
        commit(&fixture, holder);
        commit(&fixture, trx);
    }
}

/// Another transaction gives row `k` a new group.
fn commit_group(fixture: &TableFixture, k: u8, group: u8) {
    let mut trx = fixture.begin(ReadCommitted);
    fixture
        .update(
            &mut trx,
            &[k],
            &row(k, u16::from(k) * 10),
            &row(group, u16::from(k) * 10),
        )
        .expect("update");
    commit(fixture, trx);
}

/// What a source is read by judges nothing, and holds back purge until its transaction ends.
#[test]
fn a_statement_view_makes_no_conflict() {
    let fixture = filled();
    let mut trx = fixture.begin(RepeatableRead);
    let mut cursor = by_statement_view(&fixture, &mut trx);
    commit_group(&fixture, 3, 9);
    fixture.purge_all();
    assert_eq!(groups(&fixture, &mut trx, 0, X), Ok(vec![1, 2, 9]));
    fixture
        .update(&mut trx, &[3], &row(9, 30), &row(8, 30))
        .expect("no conflict");
    assert_eq!(cursor.seek(&mut trx, Seek::First, &[]), Ok(true));
    assert_eq!(rest(&mut cursor, &mut trx), Ok(vec![2, 3]));
    assert_eq!(fixture.store().trx_sys.visibility.oldest_view().1, 1);
    drop(cursor);
    commit(&fixture, trx);
    assert_eq!(fixture.store().trx_sys.visibility.oldest_view().1, 0);
}

/// A read in the middle of the statement needed a view for a moment, and took the statement's with
/// it.
#[test]
fn a_statement_view_stays_when_another_is_closed() {
    let fixture = filled();
    let mut trx = fixture.begin(ReadCommitted);
    let mut cursor = by_statement_view(&fixture, &mut trx);
    commit_group(&fixture, 3, 9);
    let mut holder = fixture.begin(ReadCommitted);
    fixture
        .update(&mut holder, &[1], &row(1, 10), &row(8, 10))
        .expect("update");
    assert_eq!(semi_consistent(&fixture, &mut trx), [(1, true), (2, false), (9, false)]);
    commit(&fixture, holder);
    fixture.purge_all();
    assert_eq!(cursor.seek(&mut trx, Seek::First, &[]), Ok(true));
    let mut groups = vec![found(&cursor).1];
    while cursor.next(&mut trx).expect("next") {
        groups.push(found(&cursor).1);
    }
    assert_eq!(groups, [1, 2, 3]);
    drop(cursor);
    commit(&fixture, trx);
    assert_eq!(fixture.store().trx_sys.visibility.oldest_view().1, 0);
}

/// The writer of a vector index's graph keeps other writers out. So the newest version is one that
/// is committed, or its own, whatever its snapshot sees. Such a read takes no lock and no snapshot.
#[test]
fn the_newest_version_is_read_whatever_the_snapshot_sees() {
    let fixture = filled();
    let newest = LockChoice {
        newest: true,
        ..LockChoice::default()
    };
    let mut trx = fixture.begin(RepeatableRead);
    assert_eq!(groups(&fixture, &mut trx, 0, None), Ok(vec![1, 2, 3]));
    let mut other = fixture.begin(ReadCommitted);
    fixture
        .update(&mut other, &[3], &row(3, 30), &row(9, 30))
        .expect("update");
    fixture.insert(&mut other, &[5], &row(5, 50)).expect("insert");
    commit(&fixture, other);
    let mut cursor = fixture.store().cursor(fixture.table.clone());
    assert_eq!(cursor.get(&mut trx, &[3], newest), Ok(true));
    assert_eq!(found(&cursor), (3, 9));
    assert_eq!(cursor.get(&mut trx, &[5], LockChoice::default()), Ok(false));
    assert_eq!(cursor.get(&mut trx, &[5], newest), Ok(true));
    fixture.insert(&mut trx, &[6], &row(6, 60)).expect("insert");
    cursor.begin(&mut trx, 0, newest, false).expect("begin");
    assert_eq!(cursor.seek(&mut trx, Seek::Last, &[]), Ok(true));
    assert_eq!(found(&cursor), (6, 6));
    drop(cursor);
    assert_eq!(groups(&fixture, &mut trx, 0, None), Ok(vec![1, 2, 3, 6]));
    commit(&fixture, trx);
    let mut reader = fixture.begin(RepeatableRead);
    let mut cursor = fixture.store().cursor(fixture.table.clone());
    assert_eq!(cursor.get(&mut reader, &[6], newest), Ok(true));
    assert_eq!(fixture.store().trx_sys.visibility.oldest_view().1, 0);
    drop(cursor);
    commit(&fixture, reader);
}

/// A scan that was begun before its transaction's first change, or before it ended.
#[test]
fn a_seek_reads_as_its_transaction_does_now() {
    let fixture = filled();
    let mut trx = fixture.begin(RepeatableRead);
    let mut cursor = fixture.store().cursor(fixture.table.clone());
    cursor.begin(&mut trx, 0, LockChoice::default(), false).expect("begin");
    assert_eq!(cursor.seek(&mut trx, Seek::Ge, &[5]), Ok(false));
    fixture.insert(&mut trx, &[5], &row(5, 50)).expect("insert");
    assert_eq!(cursor.seek(&mut trx, Seek::Ge, &[5]), Ok(true));
    fixture.engine.rollback(&mut trx).expect("rollback");
    fixture.engine.start(&mut trx, RepeatableRead, 1);
    commit_group(&fixture, 3, 9);
    fixture.purge_all();
    assert_eq!(cursor.seek(&mut trx, Seek::Ge, &[3]), Ok(true));
    assert_eq!(found(&cursor), (3, 9));
    drop(cursor);
    commit(&fixture, trx);
}

//! What the clock shows, and conflicts that appear only at COMMIT.
use super::*;

#[test]
fn stale_reads() {
    let story = |see: Op| {
        let story = Story::new().trx(&[append(1, 10)]).from(10, 11, 12);
        let story = story.trx(&[append(1, 11)]).from(20, 21, 30);
        story.trx(&[see]).left(&[(List(1), &[10, 11])])
    };
    // Begun before the answer to the second COMMIT arrived, and after.
    story(read(1, &[10])).from(29, 35, 36).holds(Level::Serializable, &[]);
    story(read(1, &[10])).from(31, 35, 36).holds(RC, &[Anomaly::StaleRead]);
    story(last(1, 10)).from(31, 35, 36).holds(SI, &[Anomaly::StaleRead]);
    story(read(1, &[])).from(31, 35, 36).holds(RC, &[Anomaly::StaleRead]);
    // The statement counts at READ COMMITTED and for what locks, a snapshot otherwise.
    story(at(31, 32, read(1, &[10])))
        .from(29, 35, 36)
        .holds(RC, &[Anomaly::StaleRead]);
    story(at(31, 32, read(1, &[10]))).from(29, 35, 36).holds(SI, &[]);
    let lock = |op| story(at(31, 32, locking(op))).from(29, 35, 36);
    lock(read(1, &[10])).holds(SI, &[Anomaly::StaleRead]);
    lock(read(1, &[10, 11])).holds(SI, &[]);
    // A scan that waits may miss a row that moves meanwhile.
    let mut scan = locking(read(1, &[]));
    scan.way.path = Path::Secondary;
    lock(scan).holds(RC, &[]);
}

/// A node shows a commit of another one later, and does not go back.
#[test]
fn nodes_of_a_cluster() {
    let left: [(Item, &[u32]); 1] = [(List(1), &[10])];
    let wrote = || Story::new().trx(&[append(1, 10)]).from(10, 11, 12).on(1);
    let late = |node| wrote().trx(&[read(1, &[])]).from(20, 21, 22).on(node).left(&left);
    late(1).holds(SI, &[Anomaly::StaleRead]);
    late(2).holds(SI, &[]);
    let shown = |node| {
        let story = wrote().trx(&[read(1, &[10])]).from(20, 21, 22).on(2);
        story.trx(&[read(1, &[])]).from(23, 24, 25).on(node).left(&left)
    };
    shown(2).holds(SI, &[Anomaly::StaleRead]);
    shown(0).holds(SI, &[]);
}

/// A finding names the transaction that proves it: one that was shown the version before, or had
/// overwritten it.
#[test]
fn what_proves_a_stale_read_is_named() {
    let text = |story: &Story| story.holds(SI, &[Anomaly::StaleRead]).report(&story.0, SI);
    let story = Story::new().trx(&[append(1, 10)]).from(10, 11, 12).on(1);
    let story = story.trx(&[read(1, &[10])]).from(20, 21, 22).on(2);
    let story = story.trx(&[read(1, &[])]).from(23, 24, 25).on(2);
    let report = text(&story.left(&[(List(1), &[10])]));
    assert!(
        report.contains("T0's write, which T1 shows to be committed at 21"),
        "{report}"
    );
    assert!(report.contains("\n  T1\n"), "it is shown, too: {report}");
    let story = Story::new().trx(&[get(1, 0), remove(1, 0, 5)]).from(10, 11, 12);
    let story = story.trx(&[no_row(1), bring_back(1, 6)]).from(20, 21, 22).on(1);
    let story = story.trx(&[get(1, 6), set(1, 6, 7)]).from(30, 31, 32).on(2);
    let story = story.trx(&[no_row(1)]).from(40, 41, 42).on(2);
    let report = text(&story.left(&[(Register(1), &[7])]));
    assert!(
        report.contains("brought back before 40; T2 shows that at 31"),
        "{report}"
    );
    assert!(report.contains("\n  T2\n"), "it is shown, too: {report}");
}

#[test]
fn a_connection_sees_its_own_commit() {
    let story = Story::new().trx(&[get(1, 0), set(1, 0, 5)]).from(10, 11, 12);
    let story = story.trx(&[get(1, 0)]).from(13, 14, 15);
    story.left(&[(Register(1), &[5])]).holds(RC, &[Anomaly::StaleRead]);
}

/// What is shown to a transaction that is rolled back in the end.
#[test]
fn reads_of_who_is_rolled_back() {
    let story = |end, ops: &[Op]| {
        let story = Story::new().trx(&[append(1, 10)]).from(10, 11, 12);
        let story = story.trx(&[append(2, 20)]).ended(end);
        let story = story.trx(ops).from(20, 30, 31).ended(End::RolledBack);
        story.left(&[(List(1), &[10])])
    };
    story(End::RolledBack, &[read(1, &[])]).holds(RC, &[Anomaly::StaleRead]);
    story(End::RolledBack, &[read(2, &[20])]).holds(RC, &[Anomaly::AbortedRead]);
    story(End::RolledBack, &[read(1, &[10]), read(1, &[])]).holds(SI, &[Anomaly::StaleRead, Anomaly::Internal]);
    // What an autocommit statement saw, in case it has committed.
    let mut lost = story(End::RolledBack, &[read(1, &[])]);
    let statement = lost.0.transactions.last_mut().expect("a transaction");
    (statement.form, statement.end) = (Form::Statement, End::Unknown);
    lost.holds(RC, &[]);
    // A crash took it back.
    story(End::Unknown, &[read(2, &[20])]).holds(SI, &[]);
}

/// What one reader has been shown is shown to all later ones, though the COMMIT is not answered
/// yet.
#[test]
fn reads_do_not_go_back() {
    let story = Story::new().trx(&[append(1, 10)]).from(10, 11, 90);
    let story = story.trx(&[read(1, &[10])]).from(20, 21, 22);
    let left: [(Item, &[u32]); 1] = [(List(1), &[10])];
    let story = story.trx(&[read(1, &[])]).from(23, 24, 25).left(&left);
    story.holds(RC, &[Anomaly::StaleRead]);
    // Nor one transaction itself, at READ COMMITTED.
    let story = Story::new().trx(&[append(1, 10)]).from(10, 11, 90);
    let again = [at(20, 21, read(1, &[10])), at(22, 23, read(1, &[]))];
    let story = story.trx(&again).from(20, 24, 25).left(&left);
    story.holds(RC, &[Anomaly::StaleRead, Anomaly::PhantomSkew]);
}

/// A snapshot with the later of two commits, and without the earlier. Nothing else connects them.
#[test]
fn a_snapshot_is_of_one_time() {
    let story = |then: Op| {
        let story = Story::new().trx(&[append(1, 10)]).from(10, 11, 12);
        let story = story.trx(&[append(2, 20)]).from(20, 21, 22);
        story.trx(&[read(2, &[20]), then]).from(5, 30, 31)
    };
    let left: [(Item, &[u32]); 2] = [(List(1), &[10]), (List(2), &[20])];
    story(read(1, &[])).left(&left).holds(SI, &[Anomaly::StaleRead]);
    story(read(1, &[])).left(&left).holds(RC, &[Anomaly::StaleRead]);
    // Two statements are two snapshots at READ COMMITTED.
    story(at(6, 7, read(1, &[]))).left(&left).holds(RC, &[]);
}

#[test]
fn a_write_before_one_that_was_acknowledged() {
    let story = Story::new().trx(&[append(1, 10)]).from(10, 11, 12);
    let story = story.trx(&[append(1, 11)]).from(20, 21, 22);
    story.left(&[(List(1), &[11, 10])]).holds(RC, &[Anomaly::StaleRead]);
}

#[test]
fn a_conflict_at_commit() {
    let mut story = Story::new().trx(&[append(1, 10)]).ended(End::RolledBack).left(&[]);
    story.0.refused.push((0, "1020".into()));
    story.holds(Level::ReadUncommitted, &[Anomaly::RefusedCommit]);
}

/// Where updates may be lost, a client that writes a list back explains a lost append. It explains
/// only an append that the client could have missed.
#[test]
fn lost_or_written_over() {
    let story = |begun, node| {
        let story = Story::new().trx(&[append(1, 10)]).from(10, 11, 12);
        let story = story.trx(&[append(1, 11)]).from(20, 21, 22);
        let mut back = append(1, 12);
        back.what = What::Write {
            value: 12,
            over: Some(Version::Value(10)),
            gone: false,
        };
        let story = story.trx(&[back]).from(begun, 40, 41).on(node);
        story.left(&[(List(1), &[10, 12])])
    };
    story(19, 0).holds(Level::LooseRepeatableRead, &[Anomaly::LostUpdate]);
    story(23, 0).holds(Level::LooseRepeatableRead, &[Anomaly::LostWrite]);
    // Another node may not have had the commit yet.
    story(23, 1).holds(Level::LooseRepeatableRead, &[Anomaly::LostUpdate]);
    story(23, 1).holds(SI, &[Anomaly::LostWrite]);
}

/// A row was absent in the snapshot, was inserted, and is gone again. A locking read still sees by
/// its snapshot.
#[test]
fn a_row_that_came_and_went_changes_nothing() {
    let story = |others: &[&[Op]], level: Level, expected: &[Anomaly]| {
        let story = Story::new().trx(&[at(10, 10, get(1, 0)), at(10, 10, remove(1, 0, 5))]);
        let mut story = story.from(10, 11, 12);
        for (ops, n) in others.iter().zip(2..) {
            story = story.trx(ops).from(10 * n, 10 * n + 5, 10 * n + 6);
        }
        let look = [
            at(15, 15, no_row(1)),
            at(50, 51, locking(no_row(1))),
            at(52, 53, read(2, &[])),
        ];
        let story = story.trx(&look).from(15, 60, 61);
        story.left(&[(List(2), &[20])]).holds(level, expected);
    };
    let came = [at(21, 21, bring_back(1, 6)), at(22, 22, append(2, 20))];
    // By one transaction: no other saw it. By two.
    let both = [came[0].clone(), at(22, 22, remove(1, 6, 7)), came[1].clone()];
    story(&[&both], SI, &[]);
    let went = [at(31, 31, get(1, 6)), at(32, 32, remove(1, 6, 7))];
    story(&[&came, &went], SI, &[]);
    // It is there: that is a conflict, not a row that no transaction sees.
    let story = Story::new().trx(&[at(10, 10, get(1, 0)), at(10, 10, remove(1, 0, 5))]);
    let story = story.from(10, 11, 12).trx(&came).from(20, 25, 26);
    let look = [at(15, 15, no_row(1)), at(50, 51, locking(no_row(1)))];
    let story = story.trx(&look).from(15, 60, 61);
    let left: [(Item, &[u32]); 2] = [(List(2), &[20]), (Register(1), &[6])];
    story.left(&left).holds(SI, &[Anomaly::StaleRead]);
    // It is there still, and locked by another transaction that will remove it.
    let goes = [at(44, 44, get(1, 6)), at(45, 45, remove(1, 6, 7))];
    let story = Story::new().trx(&[at(10, 10, get(1, 0)), at(10, 10, remove(1, 0, 5))]);
    let story = story.from(10, 11, 12).trx(&came).from(20, 25, 26);
    let story = story.trx(&goes).from(44, 80, 81).trx(&look).from(15, 60, 61);
    story.left(&left[..1]).holds(SI, &[Anomaly::StaleRead]);
}

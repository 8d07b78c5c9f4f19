//! Registers: chains of writes, rows that come and go, statements that fail.
use super::*;

#[test]
fn lost_write_of_a_register() {
    let story = || {
        Story::new()
            .trx(&[get(1, 0), set(1, 0, 5)])
            .trx(&[get(1, 5), set(1, 5, 6)])
    };
    story().left(&[(Register(1), &[6])]).holds(Level::Serializable, &[]);
    for left in [&[(Register(1), &[5][..])][..], &[(Register(1), &[])], &[]] {
        story().left(left).holds(Level::ReadUncommitted, &[Anomaly::LostWrite]);
    }
    // The value is gone, and overwritten since: both had locked what they read.
    let gone = Story::new()
        .trx(&[locking(get(1, 0)), set(1, 0, 5)])
        .trx(&[locking(get(1, 0)), set(1, 0, 6)]);
    gone.left(&[(Register(1), &[6])])
        .holds(Level::ReadUncommitted, &[Anomaly::LostWrite]);
    let inserted = || [locking(no_row(1)), bring_back(1, 6), append(2, 20)];
    let mut second = inserted();
    second[1] = bring_back(1, 7);
    second[2] = append(2, 21);
    let twice = Story::new().trx(&[remove(1, 0, 5)]).trx(&inserted()).trx(&second);
    twice
        .left(&[(Register(1), &[7]), (List(2), &[20, 21])])
        .holds(RC, &[Anomaly::LostUpdate]);
    // Over a version that no order reaches.
    let nowhere = Story::new()
        .trx(&[set(1, 0, 5)])
        .trx(&[set(1, 6, 7)])
        .trx(&[set(1, 7, 6)]);
    nowhere
        .left(&[(Register(1), &[5])])
        .holds(Level::ReadUncommitted, &[Anomaly::LostWrite]);
}

#[test]
fn a_rolled_back_write_stays() {
    let story = || {
        Story::new()
            .trx(&[get(1, 0), set(1, 0, 5), append(1, 10)])
            .ended(End::RolledBack)
    };
    story()
        .left(&[(Register(1), &[5])])
        .holds(Level::ReadUncommitted, &[Anomaly::KeptWrite]);
    story()
        .left(&[(Register(1), &[]), (List(1), &[10])])
        .holds(Level::ReadUncommitted, &[Anomaly::KeptWrite]);
}

/// A statement that failed is undone, for its own transaction too, which goes on.
#[test]
fn failed_statements() {
    let story = |then: Op| {
        Story::new()
            .trx(&[append(2, 20)])
            .trx(&[failed(append(1, 10)), failed(append(2, 21)), then])
    };
    let left: [(Item, &[u32]); 1] = [(List(2), &[20])];
    story(read(1, &[])).left(&left).holds(Level::Serializable, &[]);
    story(read(1, &[10])).left(&left).holds(RC, &[Anomaly::AbortedRead]);
    story(read(2, &[20, 21])).left(&left).holds(RC, &[Anomaly::AbortedRead]);
    story(append(3, 30))
        .left(&[(List(1), &[10]), (List(2), &[20]), (List(3), &[30])])
        .holds(RC, &[Anomaly::KeptWrite]);
}

/// An UPDATE misses a register that has no write yet. That is no read of the register's first
/// state.
#[test]
fn a_miss_is_not_the_beginning() {
    let mut miss = no_row(1);
    (miss.way.by_update, miss.way.path) = (true, Path::Secondary);
    Story::new().trx(&[get(1, 0), miss]).holds(SI, &[Anomaly::Internal]);
    Story::new().trx(&[no_row(1)]).holds(RC, &[Anomaly::Garbage]);
}

#[test]
fn a_register_comes_and_goes() {
    let story = |see: Op| {
        Story::new()
            .trx(&[get(1, 0), remove(1, 0, 5), no_row(1)])
            .from(10, 11, 12)
            .trx(&[no_row(1), bring_back(1, 6)])
            .from(20, 21, 22)
            .trx(&[get(1, 6), remove(1, 6, 7)])
            .from(30, 31, 32)
            .trx(&[see])
            .from(40, 41, 42)
            .trx(&[no_row(1), bring_back(1, 8), get(1, 8)])
            .from(50, 51, 52)
            .left(&[(Register(1), &[8])])
    };
    story(no_row(1)).holds(Level::Serializable, &[]);
    story(get(1, 6)).holds(RC, &[Anomaly::StaleRead]);
    let late = story(no_row(1)).trx(&[no_row(1)]).from(60, 61, 62);
    late.holds(RC, &[Anomaly::StaleRead]);
    let own = story(undone(remove(1, 6, 9)));
    let own = own
        .trx(&[undone(remove(1, 8, 10)), undone(no_row(1)), get(1, 8)])
        .from(60, 61, 62);
    own.holds(Level::Serializable, &[]);
    let early = Story::new().trx(&[no_row(1)]).from(1, 2, 3).trx(&[remove(1, 0, 5)]);
    early.from(10, 11, 12).left(&[]).holds(RC, &[Anomaly::Garbage]);
    // The last removal did not last.
    let lost = Story::new().trx(&[get(1, 0), remove(1, 0, 5)]);
    lost.left(&[(Register(1), &[])])
        .holds(Level::ReadUncommitted, &[Anomaly::LostWrite]);
}

/// The clock shows which removal was seen: the second, so the reader is after the transaction that
/// brought the row back.
#[test]
fn read_skew_by_a_removed_row() {
    let story = Story::new()
        .trx(&[get(1, 0), remove(1, 0, 5)])
        .from(10, 11, 12)
        .trx(&[no_row(1), bring_back(1, 6), append(1, 10)])
        .from(20, 21, 40)
        .trx(&[read(1, &[10]), no_row(1)])
        .from(15, 22, 23);
    story
        .left(&[(Register(1), &[6]), (List(1), &[10])])
        .holds(SI, &[Anomaly::PhantomSkew]);
}

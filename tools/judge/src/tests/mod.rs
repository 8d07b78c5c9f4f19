//! Histories made by hand: each holds one anomaly, which must be found by its name, and no other
//! that the level forbids.
mod registers;
mod times;

use crate::findings::{Anomaly, Findings, Level};
use crate::history::{End, Form, History, Item, Lock, Op, Path, Seen, Time, Transaction, Version, Way, What};
use crate::judge;
use Item::{List, Register};

/// One transaction after another; what they saw shows how they met.
struct Story(History);

impl Story {
    fn new() -> Story {
        Story(History::default())
    }
    fn trx(mut self, ops: &[Op]) -> Story {
        self.0.transactions.push(Transaction {
            session: 0,
            node: 0,
            form: Form::Begin,
            end: End::Committed,
            ops: ops.to_vec(),
            begun: 0,
            commit_sent: 0,
            committed: None,
        });
        self
    }
    /// When the last transaction began, sent its COMMIT, and had the answer. Its operations, unless
    /// they have a time of their own (`at`), were between.
    fn from(mut self, begun: Time, commit_sent: Time, committed: Time) -> Story {
        let trx = self.0.transactions.last_mut().expect("a transaction");
        (trx.begun, trx.commit_sent, trx.committed) = (begun, commit_sent, Some(committed));
        for op in trx.ops.iter_mut().filter(|op| op.done == 0) {
            (op.sent, op.done) = (begun, commit_sent);
        }
        self
    }
    /// The last transaction ran on this node of a cluster.
    fn on(mut self, node: u32) -> Story {
        self.0.transactions.last_mut().expect("a transaction").node = node;
        self
    }
    fn ended(mut self, end: End) -> Story {
        self.0.transactions.last_mut().expect("a transaction").end = end;
        self
    }
    fn left(mut self, left: &[(Item, &[u32])]) -> Story {
        let list = |(item, values): &(Item, &[u32])| match (item, values) {
            (List(_), _) => (*item, Seen::List(values.to_vec())),
            (Register(_), []) => (*item, Seen::Initial),
            (Register(_), _) => (*item, Seen::Last(values[0])),
        };
        self.0.left = Some(left.iter().map(list).collect());
        self
    }
    /// Exactly these anomalies.
    fn holds(&self, level: Level, expected: &[Anomaly]) -> Findings {
        let findings = judge(&self.0, level);
        let found: Vec<Anomaly> = Anomaly::ALL.into_iter().filter(|a| findings.count(*a) > 0).collect();
        assert_eq!(found, expected, "{}", findings.report(&self.0, level));
        findings
    }
}

fn op(item: Item, what: What) -> Op {
    Op {
        item,
        what,
        way: Way::default(),
        undone: false,
        sent: 0,
        done: 0,
    }
}
fn append(key: u32, value: u32) -> Op {
    let what = What::Write {
        value,
        over: None,
        gone: false,
    };
    op(List(key), what)
}
fn read(key: u32, list: &[u32]) -> Op {
    let seen = if list.is_empty() {
        Seen::Nothing
    } else {
        Seen::List(list.to_vec())
    };
    op(List(key), What::Read(seen))
}
fn last(key: u32, value: u32) -> Op {
    op(List(key), What::Read(Seen::Last(value)))
}
fn get(key: u32, value: u32) -> Op {
    let seen = if value == 0 { Seen::Initial } else { Seen::Last(value) };
    op(Register(key), What::Read(seen))
}
fn no_row(key: u32) -> Op {
    op(Register(key), What::Read(Seen::Nothing))
}
fn write(key: u32, over: Version, value: u32, gone: bool) -> Op {
    let over = Some(over);
    op(Register(key), What::Write { value, over, gone })
}
fn over(value: u32) -> Version {
    match value {
        0 => Version::Initial,
        value => Version::Value(value),
    }
}
fn set(key: u32, old: u32, value: u32) -> Op {
    write(key, over(old), value, false)
}
fn remove(key: u32, old: u32, value: u32) -> Op {
    write(key, over(old), value, true)
}
fn bring_back(key: u32, value: u32) -> Op {
    write(key, Version::Nothing, value, false)
}
fn undone(op: Op) -> Op {
    Op { undone: true, ..op }
}
fn failed(op: Op) -> Op {
    let way = Way { failed: true, ..op.way };
    undone(Op { way, ..op })
}
fn locking(op: Op) -> Op {
    let way = Way {
        lock: Lock::Update,
        ..op.way
    };
    Op { way, ..op }
}
fn at(sent: Time, done: Time, op: Op) -> Op {
    Op { sent, done, ..op }
}

const SI: Level = Level::RepeatableRead;
const RC: Level = Level::ReadCommitted;

#[test]
fn a_serial_history_holds_nothing() {
    Story::new()
        .trx(&[append(1, 10), append(2, 20), get(1, 0), set(1, 0, 5)])
        .trx(&[
            read(1, &[10]),
            append(1, 11),
            read(1, &[10, 11]),
            last(2, 20),
            get(1, 5),
            set(1, 5, 6),
        ])
        .trx(&[
            read(3, &[]),
            append(3, 30),
            undone(append(1, 12)),
            undone(read(1, &[10, 11, 12])),
            read(1, &[10, 11]),
        ])
        .trx(&[append(2, 21)])
        .ended(End::RolledBack)
        .left(&[
            (List(1), &[10, 11]),
            (List(2), &[20]),
            (List(3), &[30]),
            (Register(1), &[6]),
        ])
        .holds(Level::Serializable, &[]);
}

#[test]
fn dirty_write() {
    let story = Story::new()
        .trx(&[append(1, 10), append(2, 21)])
        .trx(&[append(1, 11), append(2, 20)]);
    let left = [(List(1), &[10, 11][..]), (List(2), &[20, 21][..])];
    let findings = story.left(&left).holds(Level::ReadUncommitted, &[Anomaly::DirtyWrite]);
    assert_eq!(findings.count(Anomaly::DirtyWrite), 1, "one cycle, however it is met");
}

#[test]
fn aborted_read() {
    for end in [End::RolledBack, End::Committed] {
        let mut write = append(1, 10);
        write.undone = end == End::Committed; // the whole transaction, or back to a savepoint
        Story::new()
            .trx(&[write])
            .ended(end)
            .trx(&[read(1, &[10])])
            .left(&[])
            .holds(RC, &[Anomaly::AbortedRead]);
    }
}

#[test]
fn intermediate_read() {
    let story = Story::new()
        .trx(&[append(1, 10), append(1, 11)])
        .trx(&[last(1, 10)])
        .left(&[(List(1), &[10, 11])]);
    // The reader comes after the writer's first write and before its second: that is a cycle too.
    story.holds(RC, &[Anomaly::IntermediateRead, Anomaly::ReadSkew]);
}

#[test]
fn circular_flow() {
    let story = Story::new()
        .trx(&[append(1, 10), read(2, &[20])])
        .trx(&[append(2, 20), read(1, &[10])]);
    story.holds(RC, &[Anomaly::CircularFlow]);
}

#[test]
fn incompatible_orders() {
    let story = Story::new()
        .trx(&[append(1, 10)])
        .trx(&[append(1, 11)])
        .trx(&[read(1, &[10, 11])])
        .trx(&[read(1, &[11])]);
    story.holds(RC, &[Anomaly::IncompatibleOrder]);
}

#[test]
fn garbage() {
    let story = Story::new().trx(&[append(1, 10)]);
    let story = story
        .trx(&[read(1, &[10, 10])])
        .trx(&[last(1, 99)])
        .left(&[(List(1), &[10])]);
    assert_eq!(
        story
            .holds(Level::ReadUncommitted, &[Anomaly::Garbage])
            .count(Anomaly::Garbage),
        2
    );
}

#[test]
fn internal_consistency() {
    let base = || Story::new().trx(&[append(1, 10)]).trx(&[append(1, 11)]);
    // Its own write is gone. Its own rolled-back write is still there. A row that existed is not
    // found any more.
    let unseen = base()
        .trx(&[append(1, 12), read(1, &[10, 11])])
        .left(&[(List(1), &[10, 11, 12])]);
    unseen.holds(RC, &[Anomaly::Internal]);
    let stays = base().trx(&[read(1, &[10, 11]), undone(append(1, 12)), read(1, &[10, 11, 12])]);
    stays
        .left(&[(List(1), &[10, 11])])
        .holds(SI, &[Anomaly::AbortedRead, Anomaly::Internal]);
    let changes = base()
        .trx(&[read(1, &[10]), read(1, &[10, 11])])
        .left(&[(List(1), &[10, 11])]);
    changes.holds(SI, &[Anomaly::Internal, Anomaly::ReadSkew]);
    changes.holds(RC, &[Anomaly::ReadSkew]);
}

#[test]
fn lost_update_written_back() {
    let story = Story::new()
        .trx(&[get(1, 0), set(1, 0, 5)])
        .trx(&[get(1, 0), set(1, 0, 6)]);
    story.holds(SI, &[Anomaly::LostUpdate]);
}

#[test]
fn lost_update_of_a_list() {
    let story = Story::new()
        .trx(&[append(1, 10)])
        .trx(&[read(1, &[10]), append(1, 11)])
        .trx(&[read(1, &[10]), append(1, 12)]);
    story
        .left(&[(List(1), &[10, 11, 12])])
        .holds(SI, &[Anomaly::LostUpdate]);
}

#[test]
fn lost_write() {
    let story = Story::new()
        .trx(&[append(1, 10)])
        .trx(&[append(1, 11)])
        .left(&[(List(1), &[10])]);
    story.holds(Level::ReadUncommitted, &[Anomaly::LostWrite]);
}

/// The server died under a COMMIT: all of the transaction is there, or nothing.
#[test]
fn unknown_ends() {
    let story = || Story::new().trx(&[append(1, 10), append(2, 20)]).ended(End::Unknown);
    story().left(&[]).holds(Level::Serializable, &[]);
    story()
        .left(&[(List(1), &[10]), (List(2), &[20])])
        .holds(Level::Serializable, &[]);
    story()
        .left(&[(List(1), &[10])])
        .holds(Level::ReadUncommitted, &[Anomaly::LostWrite]);
    // What a committed transaction saw has committed; and what that one saw, too.
    Story::new()
        .trx(&[get(1, 0), set(1, 0, 5)])
        .ended(End::Unknown)
        .trx(&[get(1, 5), set(1, 5, 6)])
        .ended(End::Unknown)
        .trx(&[get(1, 6)])
        .holds(Level::Serializable, &[]);
    let seen = story().trx(&[read(1, &[10])]).left(&[]);
    seen.holds(RC, &[Anomaly::LostWrite, Anomaly::IncompatibleOrder]);
    // At READ UNCOMMITTED only a locked row proves that.
    seen.holds(Level::ReadUncommitted, &[Anomaly::AbortedRead]);
    let locked = story().trx(&[locking(read(1, &[10]))]).left(&[]);
    locked.holds(
        Level::ReadUncommitted,
        &[Anomaly::LostWrite, Anomaly::IncompatibleOrder],
    );
}

#[test]
fn read_skew() {
    let story = Story::new()
        .trx(&[append(1, 10), append(2, 20)])
        .trx(&[append(1, 11), append(2, 21)]);
    let story = story
        .trx(&[read(1, &[10]), read(2, &[20, 21])])
        .left(&[(List(1), &[10, 11]), (List(2), &[20, 21])]);
    story.holds(SI, &[Anomaly::ReadSkew]);
    let registers = Story::new()
        .trx(&[get(1, 0), set(1, 0, 5), get(2, 0), set(2, 0, 6)])
        .trx(&[get(1, 0), get(2, 6)]);
    registers.holds(SI, &[Anomaly::ReadSkew]);
}

#[test]
fn read_skew_by_a_missing_row() {
    let story = Story::new()
        .trx(&[append(1, 10), append(2, 20)])
        .trx(&[read(1, &[]), read(2, &[20])]);
    story
        .left(&[(List(1), &[10]), (List(2), &[20])])
        .holds(SI, &[Anomaly::PhantomSkew]);
}

/// Two readers see two writes in opposite orders: what parallel snapshot isolation allows.
#[test]
fn long_fork() {
    let story = Story::new().trx(&[append(1, 10)]).trx(&[append(2, 20)]);
    let story = story
        .trx(&[get(9, 0), read(1, &[10]), read(2, &[])])
        .trx(&[read(2, &[20]), read(1, &[])]);
    story
        .left(&[(List(1), &[10]), (List(2), &[20])])
        .holds(SI, &[Anomaly::NonAdjacent]);
}

#[test]
fn write_skew() {
    let story = Story::new().trx(&[append(1, 10), append(2, 20)]);
    let story = story
        .trx(&[read(1, &[10]), append(2, 21)])
        .trx(&[read(2, &[20]), append(1, 11)]);
    let story = story.left(&[(List(1), &[10, 11]), (List(2), &[20, 21])]);
    let findings = story.holds(Level::Serializable, &[Anomaly::WriteSkew]);
    assert_eq!(findings.forbidden(Level::Serializable), [Anomaly::WriteSkew]);
    assert!(findings.forbidden(SI).is_empty(), "snapshot isolation allows it");
}

#[test]
fn phantom() {
    let story = Story::new().trx(&[read(1, &[]), read(2, &[]), append(1, 10)]).trx(&[
        read(1, &[]),
        read(2, &[]),
        append(2, 20),
    ]);
    story
        .left(&[(List(1), &[10]), (List(2), &[20])])
        .holds(Level::Serializable, &[Anomaly::Phantom]);
}

#[test]
fn the_shortest_cycle_is_the_example() {
    let mut story = Story::new()
        .trx(&[append(1, 10)])
        .trx(&[append(2, 20)])
        .trx(&[append(3, 30)]);
    story = story
        .trx(&[read(1, &[10]), append(2, 21)])
        .trx(&[read(2, &[20]), append(3, 31)])
        .trx(&[read(3, &[30]), append(1, 11)]);
    story = story
        .trx(&[append(5, 50), append(6, 60)])
        .trx(&[read(5, &[50]), append(6, 61)])
        .trx(&[read(6, &[60]), append(5, 51)]);
    let left: [(Item, &[u32]); 5] = [
        (List(1), &[10, 11]),
        (List(2), &[20, 21]),
        (List(3), &[30, 31]),
        (List(5), &[50, 51]),
        (List(6), &[60, 61]),
    ];
    let story = story.left(&left);
    let findings = story.holds(Level::Serializable, &[Anomaly::WriteSkew]);
    assert_eq!(findings.count(Anomaly::WriteSkew), 2);
    let report = findings.report(&story.0, Level::Serializable);
    assert!(
        report.contains("a cycle of 2") && report.contains("T7 -rw-> T8") && !report.contains("T4"),
        "{report}"
    );
}

//! The language of schedules: one [`Op`] is one step of a user, of the background, or of bad luck.
//!
//! Numbers in an op are choices, not names: a table is "the n-th of those there are", a row is made
//! from its seed. So a schedule from which ops were taken out still means something, which is what
//! shrinking lives on. An op that makes no sense where it stands (a commit of a transaction that
//! was never begun) does nothing.
use crate::io::sim::{Damage, Fault};

/// Transactions at a time.
pub const SLOTS: u64 = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    // ---- a user's transaction ----
    /// `snapshot`: snapshot isolation, its view made now; else READ COMMITTED. Changes in an empty
    /// slot begin one too.
    Begin {
        trx: u64,
        snapshot: bool,
    },
    Insert {
        trx: u64,
        table: u64,
        key: u64,
        row: u64,
    },
    Update {
        trx: u64,
        table: u64,
        key: u64,
        row: u64,
    },
    Delete {
        trx: u64,
        table: u64,
        key: u64,
    },
    /// The clustered key changes.
    Move {
        trx: u64,
        table: u64,
        key: u64,
        to: u64,
        row: u64,
    },
    /// Rows `key`, `key` + 1, ... are inserted, of this length.
    Fill {
        trx: u64,
        table: u64,
        key: u64,
        rows: u64,
        len: u64,
    },
    /// The same by one statement that fills an empty table (and is a `Fill` if it is not empty),
    /// with unique values.
    Load {
        trx: u64,
        table: u64,
        key: u64,
        rows: u64,
        len: u64,
    },
    /// Rows `key`, `key` + 1, ... are deleted.
    Clear {
        trx: u64,
        table: u64,
        key: u64,
        rows: u64,
    },
    /// Reads one row, and a table through one of its indexes.
    Look {
        trx: u64,
        table: u64,
        key: u64,
        way: u64,
    },
    Savepoint {
        trx: u64,
    },
    RollbackTo {
        trx: u64,
    },
    /// `flush`: 0, 1, 2 as in `flush_log_at_trx_commit`.
    Commit {
        trx: u64,
        flush: u64,
    },
    Rollback {
        trx: u64,
    },
    /// The first phase of XA.
    Prepare {
        trx: u64,
        flush: u64,
    },
    /// The second, for a transaction found prepared at open, or left by its connection.
    Decide {
        which: u64,
        commit: bool,
    },
    // ---- DDL ----
    Create {
        kinds: u64,
    },
    Drop {
        table: u64,
    },
    Rename {
        table: u64,
    },
    Truncate {
        table: u64,
    },
    AddIndex {
        table: u64,
        kind: u64,
    },
    DropIndex {
        table: u64,
        which: u64,
    },
    /// An ALTER TABLE begins that lets writers go on, if none is under way: the n-th kind of index,
    /// or a rebuild. It goes a step. It ends, if no transaction has used the table.
    OnlineBegin {
        table: u64,
        kind: u64,
    },
    OnlineStep,
    OnlineEnd,
    /// The log is turned off or on. A crash while it is off ends the schedule: the files must be
    /// refused.
    RedoLog {
        on: bool,
    },
    /// The log's capacity becomes the n-th.
    ResizeLog {
        size: u64,
    },
    // ---- the background ----
    Purge {
        records: u64,
    },
    /// Looks at the undo file, and cuts off a piece of its free end.
    Shrink,
    /// Merges buffered changes of every table, up to so many leaves of each index; or begins new
    /// partitions.
    Merge {
        leaves: u64,
        partition: bool,
    },
    /// Looks at each index as the worker does: partitions that were not written since the last such
    /// look may be closed.
    CloseIdle,
    /// ANALYZE TABLE: the table's statistics are computed and stored.
    Analyze {
        table: u64,
    },
    /// The buffer pool gets its frames of the start, and so many more.
    ResizePool {
        more: u64,
    },
    /// The list of the buffer pool's pages is written, or its pages are read.
    PageList {
        load: bool,
    },
    /// As the page cleaner does, at its own pace.
    Clean,
    /// Writes this many pages; an odd number: then all clean ones leave the pool.
    Flush {
        pages: u64,
    },
    Checkpoint,
    SyncLog,
    /// One step of the rollback of what a crash cut short.
    Losers {
        records: u64,
    },
    /// Microseconds.
    Wait {
        us: u64,
    },
    // ---- restarts and bad luck ----
    /// 0 slow, 1 fast, 2 log only.
    Close {
        how: u64,
    },
    /// Power off now, or at the given change of the disk from now; the start after it is cut short
    /// up to `again` times.
    Crash {
        after: u64,
        again: u64,
    },
    /// The given change of the disk from now fails.
    Fail {
        after: u64,
        fault: Fault,
    },
    FailRead {
        after: u64,
    },
    /// A write from now is reported done, and was not (rule S8). The schedule then goes on only as
    /// long as the engine does not notice.
    Lie {
        after: u64,
        damage: Damage,
    },
    /// The disk has this many KiB left; 0: no limit.
    Space {
        kib: u64,
    },
}

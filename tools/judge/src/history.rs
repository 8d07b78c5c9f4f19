//! What happened: every transaction with what it wrote and what it was shown. Recorded by
//! `lab/isolation` or by a test, judged by `versions` and `graph`.
//!
//! Every value is written once in the whole history. So a value identifies its writer.
pub type Value = u32;
pub type TrxNo = u32;

/// Microseconds, or turns, of the one clock of the recorder. A history without times has 0
/// everywhere.
pub type Time = u64;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Item {
    /// A row whose text is a list; a write appends to it. Absent before its first write.
    List(u32),
    /// A row with one value. Its writer knows what the value was before. It exists from the
    /// beginning. A write may remove it, and another bring it back.
    Register(u32),
}

/// A state of an item.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Version {
    /// No row.
    Nothing,
    /// The first value of a register.
    Initial,
    /// The state that this write left.
    Value(Value),
}

/// What a read was shown of an item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    Nothing,
    Initial,
    List(Vec<Value>),
    /// The value written last. A covering index of lists shows no more, and neither does a
    /// register.
    Last(Value),
}

impl Seen {
    pub fn version(&self) -> Version {
        match self {
            Seen::Nothing => Version::Nothing,
            Seen::Initial => Version::Initial,
            Seen::List(list) => list.last().map_or(Version::Nothing, |value| Version::Value(*value)),
            Seen::Last(value) => Version::Value(*value),
        }
    }
    pub fn values(&self) -> &[Value] {
        match self {
            Seen::Nothing | Seen::Initial => &[],
            Seen::List(list) => list,
            Seen::Last(value) => std::slice::from_ref(value),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    Read(Seen),
    Write {
        value: Value,
        /// Written over this version, which its transaction had read. None: the server appended it.
        over: Option<Version>,
        /// The row was removed. Readers see no value, only that there is no row.
        gone: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Path {
    #[default]
    Primary,
    Secondary,
    Covering,
    /// Some rows by one index, some by another, in one statement.
    Merged,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lock {
    #[default]
    None,
    Share,
    Update,
}

/// How the row was found; only for the examples that are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Way {
    pub path: Path,
    pub lock: Lock,
    /// First and last key of a range.
    pub range: Option<(u32, u32)>,
    /// What a statement that changes rows found: an UPDATE that met no row, an overwritten value.
    pub by_update: bool,
    /// From the last key to the first.
    pub backward: bool,
    /// The statement failed, and what it had done so far was undone.
    pub failed: bool,
}

impl Way {
    /// Shown by a statement that reads the newest rows and locks them.
    pub fn is_locking(&self) -> bool {
        self.lock != Lock::None || self.by_update
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Op {
    pub item: Item,
    pub what: What,
    pub way: Way,
    /// Between a savepoint and the rollback to it, or of a statement that failed.
    pub undone: bool,
    /// When the statement was sent, and when its answer arrived.
    pub sent: Time,
    pub done: Time,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Committed,
    RolledBack,
    /// The server died during the COMMIT.
    Unknown,
}

/// How a transaction was begun and ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Form {
    #[default]
    Begin,
    /// One statement in autocommit mode.
    Statement,
    /// Prepared, then committed.
    Xa,
}

#[derive(Clone, Debug)]
pub struct Transaction {
    pub session: u32,
    /// The node of a cluster that it ran on. A commit that one node shows may come later on another
    /// one. 0 without a cluster.
    pub node: u32,
    pub form: Form,
    pub end: End,
    pub ops: Vec<Op>,
    /// Before its snapshot, if it has one: when the first statement was sent that could take it.
    pub begun: Time,
    /// When COMMIT was sent, or the statement that committed by itself.
    pub commit_sent: Time,
    /// When the answer arrived that it has committed.
    pub committed: Option<Time>,
}

impl Transaction {
    /// Whether its reads are what the server answered. The answer of an autocommit statement may be
    /// lost. Then its reads are what it saw if it has committed.
    pub fn was_answered(&self) -> bool {
        self.form != Form::Statement || self.end != End::Unknown
    }
}

#[derive(Default)]
pub struct History {
    pub transactions: Vec<Transaction>,
    /// All rows at the end. None: the end was not read.
    pub left: Option<Vec<(Item, Seen)>>,
    /// Reports of sessions that need no graph: a row met twice, a row out of its range.
    pub misread: Vec<(TrxNo, String)>,
    /// Transactions that met a conflict only at their COMMIT.
    pub refused: Vec<(TrxNo, String)>,
}

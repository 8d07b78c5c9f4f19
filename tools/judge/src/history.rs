//! What happened: every transaction with what it wrote and what it was shown. Written by `workload` (or by hand, in the tests), judged by
//! `versions` and `graph`.
//!
//! Every value is written once in the whole history, so that who shows a value tells whose write he saw.
pub type Value = u32;
pub type TrxNo = u32;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Item {
    /// A row whose text is a list; a write appends to it. Not there before its first write.
    List(u32),
    /// A row with one value; who writes it has read it before. There from the beginning, with no value.
    Register(u32),
}

/// What a read was shown of an item.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// No row; of a register: the value that it began with.
    Nothing,
    List(Vec<Value>),
    /// The value written last: all that a covering index of lists and a register tell.
    Last(Value),
}

impl Seen {
    pub fn last(&self) -> Option<Value> {
        match self {
            Seen::Nothing => None,
            Seen::List(list) => list.last().copied(),
            Seen::Last(value) => Some(*value),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    Read(Seen),
    Write {
        value: Value,
        /// Written back by the client, over this value that it had read (None: over nothing). Else the server appended it.
        over: Option<Option<Value>>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Path {
    #[default]
    Primary,
    Secondary,
    Covering,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Lock {
    #[default]
    None,
    Share,
    Update,
}

/// How the row was come by; only for the examples that are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Way {
    pub path: Path,
    pub lock: Lock,
    /// First and last key of a range.
    pub range: Option<(u32, u32)>,
    /// An UPDATE that found no row.
    pub by_update: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Op {
    pub item: Item,
    pub what: What,
    pub way: Way,
    /// Between a savepoint and the return to it.
    pub undone: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    Committed,
    RolledBack,
    /// The server died under the COMMIT.
    Unknown,
}

#[derive(Clone, Debug)]
pub struct Transaction {
    pub session: u32,
    pub end: End,
    pub ops: Vec<Op>,
}

#[derive(Default)]
pub struct History {
    pub transactions: Vec<Transaction>,
    /// All lists that were there at the end, and all registers that had a value; None: nobody looked.
    pub left: Option<Vec<(Item, Seen)>>,
    /// Complaints of sessions that need no graph: a row met twice, a row out of its range.
    pub misread: Vec<(TrxNo, String)>,
}

/// One transaction as the statements that it sent, for people.
pub fn describe(transaction: &Transaction) -> Vec<String> {
    let mut lines = vec![format!("BEGIN;  -- session {}", transaction.session)];
    let mut undoing = false;
    for op in &transaction.ops {
        if op.undone != undoing {
            lines.push(if op.undone { "SAVEPOINT s;" } else { "ROLLBACK TO s;" }.into());
            undoing = op.undone;
        }
        lines.push(statement(op));
    }
    if undoing {
        lines.push("ROLLBACK TO s;".into());
    }
    lines.push(match transaction.end {
        End::Committed => "COMMIT;".into(),
        End::RolledBack => "ROLLBACK;".into(),
        End::Unknown => "COMMIT;  -- the connection was lost".into(),
    });
    lines
}

fn statement(op: &Op) -> String {
    let (table, column, key) = match op.item {
        Item::List(key) => ("lists", "list", key),
        Item::Register(key) => ("registers", "value", key),
    };
    let (index, condition) = match (op.way.path, op.way.range) {
        (Path::Primary, None) => ("", format!("id = {key}")),
        (Path::Primary, Some((from, to))) => ("", format!("id BETWEEN {from} AND {to}")),
        (path, range) => {
            let (from, to) = range.unwrap_or((key, key));
            let index = if path == Path::Covering {
                " FORCE INDEX (covering)"
            } else {
                " FORCE INDEX (place)"
            };
            (index, format!("place of {from}..{to}"))
        }
    };
    match &op.what {
        What::Read(seen) if op.way.by_update => {
            format!("UPDATE {table}{index} ... WHERE {condition};  -- {}", shown(key, seen))
        }
        What::Read(seen) => {
            let lock = match op.way.lock {
                Lock::None => "",
                Lock::Share => " LOCK IN SHARE MODE",
                Lock::Update => " FOR UPDATE",
            };
            let column = if op.way.path == Path::Covering { "last" } else { column };
            format!(
                "SELECT id, {column} FROM {table}{index} WHERE {condition}{lock};  -- {}",
                shown(key, seen)
            )
        }
        What::Write { value, over: None } => {
            format!("UPDATE {table}{index} SET {column} = CONCAT({column}, {value}) WHERE {condition};")
        }
        What::Write {
            value,
            over: Some(None),
        } => format!("INSERT or UPDATE {table} SET {column} = {value} WHERE id = {key};"),
        What::Write {
            value,
            over: Some(Some(over)),
        } => {
            format!("UPDATE {table} SET {column} = (what was read, up to {over}), {value} WHERE id = {key};")
        }
    }
}

fn shown(key: u32, seen: &Seen) -> String {
    match seen {
        Seen::Nothing => format!("{key}: nothing"),
        Seen::List(list) => format!("{key}: {list:?}"),
        Seen::Last(value) => format!("{key}: ... {value}"),
    }
}

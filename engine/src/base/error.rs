//! The error type: its variants say what the caller must do. Bugs are asserts, not errors.
//!
//! Called by: every layer.
use super::ids::{FileId, IndexId, PageNo};
use std::fmt;

pub type Result<T> = std::result::Result<T, Error>;

/// An error, by what the caller must do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Unique violation. `index`: 0 = clustered, i + 1 = secondary i; `pk`: clustered key of the
    /// row that has the value.
    #[error("duplicate key in index {index}")]
    Duplicate { index: u32, pk: Vec<u8> },
    #[error("not found")]
    NotFound,
    #[error("lock wait timeout exceeded")]
    LockWaitTimeout,
    /// The whole transaction must be rolled back by the caller.
    #[error("deadlock found; the transaction must be rolled back")]
    Deadlock,
    /// The connection was killed or timed out while it waited or scanned.
    #[error("interrupted")]
    Interrupted,
    /// The row is locked, and the caller asked not to wait.
    #[error("the row is locked")]
    Locked,
    /// Snapshot isolation: the row changed since the snapshot.
    #[error("the row has changed since the snapshot was taken")]
    Conflict,
    /// Disk full, file full, no undo slot: the statement fails, the engine lives.
    #[error("full: {0}")]
    Full(String),
    /// Broken media or a broken file. A layer that knows the catalog adds the names of table and
    /// index, and the way out.
    #[error("corrupt: {0}")]
    Corrupt(Box<Damage>),
    /// The disk or the operating system fails; the failure may pass. With a place: a page could
    /// not be read, and nothing was done.
    #[error("I/O error: {0}")]
    Io(Box<Damage>),
    /// The process, or the system, has no descriptor left for a file. Nothing was done, and the
    /// call can be retried.
    #[error("I/O error: {0}")]
    TooManyFiles(String),
    /// Invariant I6: after a failed write or sync, or a caught panic.
    #[error("the engine stopped writing: {0}; restart to recover")]
    Poisoned(String),
    /// The database was closed; other threads still hold it.
    #[error("the database is closed; open it again")]
    Closed,
    /// Another process has the directory open.
    #[error("in use: {0}")]
    InUse(String),
    #[error("not supported: {0}")]
    Unsupported(String),
    /// The caller gave what can never be right: a name, or an index entry that does not fit its
    /// table.
    #[error("not valid: {0}")]
    Invalid(String),
    #[error("already exists: {0}")]
    Exists(String),
    /// There is no such table or index, or it was dropped meanwhile.
    #[error("no such table: {0}")]
    NoSuchTable(String),
    /// A key, a row or a definition is longer than the engine takes.
    #[error("too big: {0}")]
    TooBig(String),
    #[error("read only: {0}")]
    ReadOnly(String),
    /// A child row refers to a parent row that does not exist.
    #[error("no parent row: foreign key {} of table {}", .0.constraint, .0.child)]
    NoReferencedRow(Box<ForeignFault>),
    /// A parent row has child rows, and must stay as it is.
    #[error("there are child rows: foreign key {} of table {}", .0.constraint, .0.child)]
    RowIsReferenced(Box<ForeignFault>),
    /// A cascade would give two child rows the same unique value.
    #[error("a cascade makes a duplicate key in table {}", .0.child)]
    ForeignDuplicate(Box<ForeignFault>),
    /// A cascade would make the chain longer than this number of rows.
    #[error("a chain of cascades has at most {} rows", .1)]
    ForeignDepth(Box<ForeignFault>, u32),
    /// A foreign key cannot be made, or is in the way of a change of definitions.
    #[error("{}", .0.why)]
    ForeignDefinition(Box<ForeignRefusal>),
    /// The table would not fit the foreign keys of the children that wait for it.
    #[error("{}", .0.why)]
    ForeignUnfit(Box<ForeignRefusal>),
    /// A foreign key of that name exists in the database.
    #[error("a foreign key named {0} exists")]
    ForeignNameTaken(String),
    /// A foreign key needs the index that is to be dropped.
    #[error("foreign key {} of table {} needs the index", .0.constraint, .0.child)]
    ForeignNeedsIndex(Box<ForeignFault>),
    /// The table is the parent of another one, and must stay.
    #[error("foreign key {} of table {} refers to the table", .0.constraint, .0.child)]
    TableIsReferenced(Box<ForeignFault>),
    /// Rows are changed faster than an ALTER TABLE that lets writers go on can follow.
    #[error("too many rows of table {0} were changed while it was altered; raise online_alter_log_max_size, or alter it when fewer rows change")]
    OnlineAlterFull(String),
    /// The session's row maker failed, and has said why.
    #[error("a row of a cascade could not be made")]
    RowNotMade,
    /// The snapshot is older than the table's definition.
    #[error("the table definition has changed since the snapshot")]
    TableChanged,
}

const _: () = assert!(size_of::<Error>() <= 32, "an error is small, for most calls return one");

/// The foreign key that an error is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignFault {
    /// Name of the child table.
    pub child: String,
    /// Name of the foreign key, with its database.
    pub constraint: String,
    /// Of `ForeignDuplicate`: the child's index that has the key, numbered as in `Duplicate`.
    pub index: u32,
}

/// A foreign key that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignRefusal {
    /// Its name, with its database.
    pub constraint: String,
    pub flaw: ForeignFlaw,
    /// For people: the foreign key and the reason.
    pub why: String,
}

/// What is wrong with a foreign key, as far as callers tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignFlaw {
    /// The parent has no index of its columns, or columns of other types.
    NoParentIndex,
    /// A column would become NULL, and is NOT NULL.
    NotNull,
    Other,
}

/// What is broken or fails, and where, as far as the finder knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// 0: not known, or not of a data file.
    pub file: FileId,
    /// None: more than a page.
    pub page: Option<PageNo>,
    /// The index that was being read; 0: none, or not known.
    pub index: IndexId,
    pub what: String,
}

impl Damage {
    pub fn contains(&self, text: &str) -> bool {
        self.what.contains(text)
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error {
    /// Damage without a place.
    fn damage(what: String) -> Box<Damage> {
        debug_assert!(!what.is_empty(), "an error says what is wrong");
        Box::new(Damage {
            what,
            ..Damage::default()
        })
    }
    pub fn corrupt(what: impl Into<String>) -> Error {
        Error::Corrupt(Error::damage(what.into()))
    }
    pub fn io(what: impl Into<String>) -> Error {
        Error::Io(Error::damage(what.into()))
    }
    /// Adds the page whose read failed to an I/O error. Other errors pass unchanged.
    pub fn reading(mut self, file: FileId, page: PageNo) -> Error {
        debug_assert_ne!(file, 0, "a page that is read belongs to a data file");
        if let Error::Io(damage) = &mut self {
            (damage.file, damage.page) = (file, Some(page));
        }
        self
    }
    /// Turns an I/O error that did not pass into damage: both are reported and answered alike.
    pub fn lasting(self) -> Error {
        match self {
            Error::Io(damage) => {
                debug_assert!(
                    damage.file != 0 || (damage.page.is_none() && damage.index == 0),
                    "a page, or an index, is of a data file"
                );
                Error::Corrupt(damage)
            }
            error => error,
        }
    }
    /// Damage in a page of a data file.
    pub fn corrupt_page(file: FileId, page: PageNo, what: impl Into<String>) -> Error {
        debug_assert_ne!(file, 0, "a page belongs to a data file");
        Error::Corrupt(Box::new(Damage {
            file,
            page: Some(page),
            index: 0,
            what: what.into(),
        }))
    }
    /// Adds the index through which the damage, or the unreadable page, was reached.
    pub fn in_index(mut self, file: FileId, index: IndexId) -> Error {
        debug_assert!(file != 0 && index != 0, "an index has a number, and is in a data file");
        match &mut self {
            Error::Corrupt(damage) if damage.index == 0 && (damage.file == 0 || damage.file == file) => {
                (damage.file, damage.index) = (file, index);
            }
            // An I/O error without a place may be the write of another page, made to free a frame.
            Error::Io(damage) if damage.index == 0 && damage.file == file => damage.index = index,
            _ => {}
        }
        self
    }
    /// Page 0 of a data file cannot be read; the others may be whole.
    pub fn is_lost_header(&self) -> bool {
        matches!(self, Error::Corrupt(damage) if damage.file != 0 && damage.page == Some(0))
    }
    /// The foreign key that the error is about.
    pub fn foreign_fault(&self) -> Option<&ForeignFault> {
        match self {
            Error::NoReferencedRow(fault)
            | Error::RowIsReferenced(fault)
            | Error::ForeignDuplicate(fault)
            | Error::ForeignDepth(fault, _)
            | Error::ForeignNeedsIndex(fault)
            | Error::TableIsReferenced(fault) => Some(fault),
            _ => None,
        }
    }
    pub fn is_corrupt(&self) -> bool {
        matches!(self, Error::Corrupt(_))
    }
}

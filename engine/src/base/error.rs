//! Errors, by what the caller must do. Bugs are asserts, not errors.
use super::ids::{FileId, IndexId, PageNo};
use std::fmt;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Unique violation. `index`: 0 = clustered, i + 1 = secondary i; `pk`: clustered key of the row in the way.
    Duplicate {
        index: u32,
        pk: Vec<u8>,
    },
    NotFound,
    LockWaitTimeout,
    /// The whole transaction must be rolled back by the caller.
    Deadlock,
    /// The connection was killed or timed out while it waited or scanned.
    Interrupted,
    /// Row is locked, and the caller asked not to wait.
    Locked,
    /// Snapshot isolation: the row changed since the snapshot.
    Conflict,
    /// Disk full, file full, no undo slot: the statement fails, the engine lives.
    Full(String),
    /// Broken media or a broken file. Whoever knows the catalog adds table and index by name, and the way out.
    Corrupt(Box<Damage>),
    /// The disk or the system fails; that may pass. With a place: a page could not be read, and nothing was done.
    Io(Box<Damage>),
    /// The process, or the system, has no descriptor left for a file that was to be opened: nothing was done, and it can be tried again.
    TooManyFiles(String),
    /// Invariant I6: after a failed write or sync, or a caught panic.
    Poisoned(String),
    /// The database was closed; others still hold it.
    Closed,
    /// Another process has the directory open.
    InUse(String),
    Unsupported(String),
    /// The caller gave what can never be right: a name, or an index entry that does not fit its
    /// table.
    Invalid(String),
    Exists(String),
    /// There is no such table or index, or it was dropped meanwhile.
    NoSuchTable(String),
    /// A key, a row or a definition is longer than the engine takes.
    TooBig(String),
    ReadOnly(String),
    /// The snapshot is older than the table's definition.
    TableChanged,
}

/// What is broken, or fails, and where, as far as the finder knows.
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
    pub fn corrupt(what: impl Into<String>) -> Error {
        Error::Corrupt(Box::new(Damage {
            what: what.into(),
            ..Damage::default()
        }))
    }
    pub fn io(what: impl Into<String>) -> Error {
        Error::Io(Box::new(Damage {
            what: what.into(),
            ..Damage::default()
        }))
    }
    /// An I/O error of reading that page. Others pass unchanged.
    pub fn reading(mut self, file: FileId, page: PageNo) -> Error {
        if let Error::Io(damage) = &mut self {
            (damage.file, damage.page) = (file, Some(page));
        }
        self
    }
    /// An I/O error that did not pass is told, and answered, as damage is.
    pub fn lasting(self) -> Error {
        match self {
            Error::Io(damage) => Error::Corrupt(damage),
            error => error,
        }
    }
    /// In a page of a data file.
    pub fn corrupt_page(file: FileId, page: PageNo, what: impl Into<String>) -> Error {
        Error::Corrupt(Box::new(Damage {
            file,
            page: Some(page),
            index: 0,
            what: what.into(),
        }))
    }
    /// The damage, or the page that could not be read, was met on the way through that index.
    pub fn in_index(mut self, file: FileId, index: IndexId) -> Error {
        match &mut self {
            Error::Corrupt(damage) if damage.index == 0 && (damage.file == 0 || damage.file == file) => {
                (damage.file, damage.index) = (file, index);
            }
            // Without a place it may be the write of another page, which was in the way.
            Error::Io(damage) if damage.index == 0 && damage.file == file => damage.index = index,
            _ => {}
        }
        self
    }
    /// Page 0 of a data file cannot be read; the others may be whole.
    pub fn is_lost_header(&self) -> bool {
        matches!(self, Error::Corrupt(damage) if damage.file != 0 && damage.page == Some(0))
    }
    pub fn is_corrupt(&self) -> bool {
        matches!(self, Error::Corrupt(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Duplicate { index, .. } => write!(f, "duplicate key in index {index}"),
            Error::NotFound => write!(f, "not found"),
            Error::LockWaitTimeout => write!(f, "lock wait timeout exceeded"),
            Error::Deadlock => write!(f, "deadlock found; the transaction must be rolled back"),
            Error::Interrupted => write!(f, "interrupted"),
            Error::Locked => write!(f, "the row is locked"),
            Error::Conflict => write!(f, "the row has changed since the snapshot was taken"),
            Error::Full(s) => write!(f, "full: {s}"),
            Error::Corrupt(damage) => write!(f, "corrupt: {}", damage.what),
            Error::Io(damage) => write!(f, "I/O error: {}", damage.what),
            Error::TooManyFiles(s) => write!(f, "I/O error: {s}"),
            Error::Poisoned(s) => write!(f, "the engine stopped writing: {s}; restart to recover"),
            Error::Closed => write!(f, "the database is closed; open it again"),
            Error::InUse(s) => write!(f, "in use: {s}"),
            Error::Invalid(s) => write!(f, "not valid: {s}"),
            Error::Unsupported(s) => write!(f, "not supported: {s}"),
            Error::Exists(s) => write!(f, "already exists: {s}"),
            Error::NoSuchTable(s) => write!(f, "no such table: {s}"),
            Error::TooBig(s) => write!(f, "too big: {s}"),
            Error::ReadOnly(s) => write!(f, "read only: {s}"),
            Error::TableChanged => write!(f, "the table definition has changed since the snapshot"),
        }
    }
}

impl std::error::Error for Error {}

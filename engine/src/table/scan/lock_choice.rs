//! How the caller of a cursor wants rows read: with which locks, and what to do with rows that
//! others have locked.
use crate::txn::{LockMode, LockPolicy};

/// What to do with a row that another transaction has locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnLocked {
    #[default]
    Wait,
    /// `Error::Locked`.
    Refuse,
    Skip,
}

/// How the rows of a scan are locked. `mode` None: consistent read by a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LockChoice {
    pub mode: Option<LockMode>,
    pub on_locked: OnLocked,
    /// A consistent read uses the statement's view, which raises no conflicts, instead of the
    /// transaction's.
    pub by_statement_view: bool,
    /// Without `mode`: the newest version of each row is read, of any transaction. The caller keeps
    /// other writers of the table out.
    pub newest: bool,
    /// The gaps between the rows are locked as well, whatever the isolation level
    /// (`Trx::locks_gaps`).
    pub gaps: bool,
}

impl LockChoice {
    pub fn policy(&self) -> LockPolicy {
        match self.on_locked {
            OnLocked::Wait => LockPolicy::Wait,
            OnLocked::Refuse | OnLocked::Skip => LockPolicy::NoWait,
        }
    }
}

//! One transaction: the owner's half ([`Trx`]) and the half that other threads may touch ([`TrxShared`]).
use super::{ReadView, Waiter};
use crate::base::{Lsn, TrxId, UndoPtr};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

/// XA transaction name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Xid {
    pub format_id: i64,
    pub gtrid_len: u32,
    pub bqual_len: u32,
    pub data: Vec<u8>,
}

/// What other threads see of a transaction. `id` is 0 until the first write. Owner: txn engineer may add fields.
pub struct TrxShared {
    pub id: AtomicU64,
    /// Set nonzero by whoever ends this transaction's lock wait.
    pub wait_flag: AtomicU32,
    pub waiter: Arc<dyn Waiter>,
    pub connection: u64,
}

/// The owner's half: one thread at a time. Reused for one transaction after another.
pub struct Trx {
    pub shared: Arc<TrxShared>,
    pub started: bool,
    pub isolation: Isolation,
    pub lock_wait_timeout_ms: u32,
    pub view: Option<Arc<ReadView>>,
    /// Newest undo record of this transaction that is still to be undone by a rollback (NONE: no changes).
    pub undo_top: UndoPtr,
    /// End LSN of this transaction's last group: commit makes it durable.
    pub last_lsn: Lsn,
    /// Opaque replication position, written with the commit record.
    pub position: Vec<u8>,
}

impl Trx {
    pub fn id(&self) -> TrxId {
        self.shared.id.load(std::sync::atomic::Ordering::Acquire)
    }
}

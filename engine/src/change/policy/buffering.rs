//! Which kinds of operations may be buffered: the setting for all tables, and the table option.
//!
//! Called by: `policy::change_buffer`, `delta::tree`.
use crate::change::op::Op;
use std::sync::atomic::{AtomicU8, Ordering};

/// Kinds of operations, as bits.
const INSERTS: u8 = 1;
const DELETES: u8 = 2;
const PURGES: u8 = 4;

/// Which operations are buffered; the names are InnoDB's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Buffering {
    #[default]
    None,
    Inserts,
    /// Delete marks.
    Deletes,
    /// Inserts and delete marks.
    Changes,
    /// Delete marks and removals.
    Purges,
    All,
}

impl Buffering {
    /// The value of the system variable with this number, in the order above; a larger number is
    /// `All`.
    pub fn from_number(n: u64) -> Buffering {
        use Buffering::*;
        [None, Inserts, Deletes, Changes, Purges, All][n.min(5) as usize]
    }
    pub fn number(self) -> u64 {
        self as u64
    }
    pub fn word(self) -> &'static str {
        ["none", "inserts", "deletes", "changes", "purges", "all"][self as usize]
    }
    pub(super) fn bits(self) -> u8 {
        match self {
            Buffering::None => 0,
            Buffering::Inserts => INSERTS,
            Buffering::Deletes => DELETES,
            Buffering::Changes => INSERTS | DELETES,
            Buffering::Purges => DELETES | PURGES,
            Buffering::All => INSERTS | DELETES | PURGES,
        }
    }
    pub(super) fn from_bits(bits: u8) -> Buffering {
        debug_assert!(bits <= (INSERTS | DELETES | PURGES), "bits of the three kinds");
        (0..=5)
            .map(Buffering::from_number)
            .find(|b| b.bits() == bits)
            .unwrap_or_default()
    }
}

/// The operation's bit. Rollback's operations count as their effects: marks and removals.
pub(super) fn kind(op: &Op<'_>) -> u8 {
    match op {
        Op::Put { .. } => INSERTS,
        Op::Mark { .. } | Op::MarkDead { .. } | Op::Unmark { .. } => DELETES,
        Op::Remove { .. } => PURGES,
    }
}

/// The table option `CHANGE_BUFFERING`, which overrides the setting for all tables. One byte: 0 =
/// not given, else the option's number + 1.
#[derive(Debug, Default)]
pub struct TableBuffering(AtomicU8);

impl TableBuffering {
    pub fn set(&self, buffering: Option<Buffering>) {
        let byte = buffering.map_or(0, |b| b.number() as u8 + 1);
        self.0.store(byte, Ordering::Relaxed);
    }
    pub fn get(&self) -> Option<Buffering> {
        let byte = self.0.load(Ordering::Relaxed);
        byte.checked_sub(1).map(|n| Buffering::from_number(n as u64))
    }
    /// May the operation be buffered by the table option? None: the option is not given.
    #[inline]
    pub fn allows(&self, op: &Op<'_>) -> Option<bool> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            byte => Some(Buffering::from_number(byte as u64 - 1).bits() & kind(op) != 0),
        }
    }
}

//! What a transaction holds and waits for: modes, places in the lock table, the list of locks to
//! give back. Plain data; `TrxShared` carries it, the files above work with it.
use crate::base::{IndexId, TrxId};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockMode {
    Shared,
    Exclusive,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockPolicy {
    Wait,
    /// `Error::Locked` instead of waiting. NOWAIT and SKIP LOCKED alike: the caller distinguishes
    /// them.
    NoWait,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Granted {
    /// This call took the lock: `unlock` may give it back.
    New,
    /// The transaction had this lock, or a stronger one, before.
    Held,
    /// The transaction had a weaker lock.
    Upgraded,
}

/// Place of a lock in the table: shard and slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::txn) struct LockRef {
    pub shard: u32,
    pub slot: u32,
}

/// Where a transaction waits. Packed with a tag bit into `TrxShared::waiting_on` (0 = not waiting).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) enum WaitPlace {
    Row(LockRef),
    /// An insert into a range of this index.
    Range(IndexId),
}

const ROW_TAG: u64 = 1 << 63;
const RANGE_TAG: u64 = 1 << 62;

impl WaitPlace {
    pub fn pack(self) -> u64 {
        if let WaitPlace::Row(at) = self {
            debug_assert!(
                (at.shard as u64) < RANGE_TAG >> 32,
                "the shard's bits leave room for the tags"
            );
        }
        match self {
            WaitPlace::Row(at) => ROW_TAG | (at.shard as u64) << 32 | at.slot as u64,
            WaitPlace::Range(index) => RANGE_TAG | index as u64,
        }
    }
    pub fn unpack(packed: u64) -> Option<WaitPlace> {
        if packed & ROW_TAG != 0 {
            let shard = (packed >> 32) as u32 & !((ROW_TAG | RANGE_TAG) >> 32) as u32;
            let slot = packed as u32;
            Some(WaitPlace::Row(LockRef { shard, slot }))
        } else if packed & RANGE_TAG != 0 {
            Some(WaitPlace::Range(packed as u32))
        } else {
            None
        }
    }
}

/// What a transaction must give back at its end.
#[derive(Default)]
pub(in crate::txn) struct LockList {
    pub rows: Vec<LockRef>,
    /// The locks from this place on were taken after the latest savepoint; perhaps not all of them.
    pub savepoint: usize,
    /// Indexes in which the transaction holds ranges.
    pub ranges: Vec<IndexId>,
    /// Implicit locks of this transaction id may still be made explicit. 0 = none: the transaction
    /// ended, or has not written.
    pub implicit_of: TrxId,
}

impl LockList {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_survives_packing() {
        for place in [
            WaitPlace::Row(LockRef {
                shard: 63,
                slot: u32::MAX,
            }),
            WaitPlace::Row(LockRef { shard: 0, slot: 0 }),
            WaitPlace::Range(0),
            WaitPlace::Range(u32::MAX),
        ] {
            assert_eq!(WaitPlace::unpack(place.pack()), Some(place));
        }
        assert_eq!(WaitPlace::unpack(0), None);
    }
}

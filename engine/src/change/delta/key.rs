//! Keys of a delta tree, and what an entry takes there.
//!
//! ```text
//! 0 partition  u16, big-endian
//! 2 key        of the index entry that the change is for
//! ```
//! The value is drawn in `delta::op_list`. The tree lies in the index's file, under an index number
//! of its own: the index's with [`DELTA_BIT`] set. So every page names its tree, and a descent that
//! strays from one of the two trees into the other is found at once.
//!
//! Called by: `delta`, `merge`, `estimate`.
use crate::base::{Error, IndexId, Result};
use crate::btree::ENTRY_OVERHEAD;
use smallvec::SmallVec;

/// Distinguishes a delta tree's pages from those of its index. IndexTrees numbers are given one by
/// one from 16 on; none gets here.
pub const DELTA_BIT: IndexId = 1 << 31;
/// Bytes of a partition number, before a key.
pub const PARTITION_NUMBER: usize = 2;

/// Key of the delta tree.
pub type DeltaKey = SmallVec<[u8; 96]>;

pub fn delta_key(partition: u16, key: &[u8]) -> DeltaKey {
    let mut out = DeltaKey::new();
    out.extend_from_slice(&partition.to_be_bytes());
    out.extend_from_slice(key);
    out
}
/// The end of a partition's part of the range that ends at `hi` (exclusive). None: no bound, the
/// last partition.
pub fn delta_end(partition: u16, hi: Option<&[u8]>) -> Option<DeltaKey> {
    match hi {
        Some(hi) => Some(delta_key(partition, hi)),
        None => partition.checked_add(1).map(|next| delta_key(next, &[])),
    }
}
/// Error (`Corrupt`): the key is too short for a partition number.
pub fn partition_of(key: &[u8]) -> Result<u16> {
    match key.first_chunk::<PARTITION_NUMBER>() {
        Some(bytes) => Ok(u16::from_be_bytes(*bytes)),
        None => Err(Error::corrupt("a delta tree holds a key without a partition number")),
    }
}
/// The key of the index entry. `key` has a partition number.
pub fn entry_key(key: &[u8]) -> &[u8] {
    &key[PARTITION_NUMBER..]
}

/// Bytes of pages that a delta entry takes, about. `key_and_value`: bytes of the index entry's key
/// and of the pending value.
///
/// Leaves that are filled in random order are full to ln 2 (Yao, "On random 2-3 trees", 1978). They
/// stay so while sweeps take out ranges.
pub fn entry_bytes(key_and_value: usize) -> usize {
    (PARTITION_NUMBER + key_and_value + ENTRY_OVERHEAD) * 10 / 7
}

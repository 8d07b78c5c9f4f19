//! The value of a secondary index entry: flags, stamp, clustered key length, raw bytes.
//!
//! ```text
//! 0 flags    u8    bit 0 = delete-marked, bit 1 = dead (with bit 0: its put was rolled back)
//! 1 stamp    u48   transaction that inserted or delete-marked it last
//! 7 pk_len   varint, only if the table's clustered keys vary in length
//!   raw      bytes of columns that cannot be decoded from the key, as many as there is room for
//!            (`fitting`)
//! ```
//! The entry's key is the index key and, after it, the clustered key. A leaf has no room for an
//! entry whose key image and raw bytes are both long. Such an entry stores the part of its raw
//! bytes that fits. Its size shows that ([`Entry::is_whole`]): columns are then read from the row.
//!
//! Pure: no latches. Called by: `change` for flags and stamp, and the row functions of `table`,
//! through `index`.
use crate::base::bytes::{get_u48, push_varint, put_u48, take_varint};
use crate::base::TrxId;

pub const DELETE_MARK: u8 = 1;
/// Beside the mark: the transaction that put the entry was rolled back. No version of the row has
/// this key because of that transaction.
pub const DEAD: u8 = 2;
pub const STAMP_OFFSET: usize = 1;
/// Bytes in front of the raw part, at most.
const HEAD_MAX: usize = 7 + 3;

/// Decoded view of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub marked: bool,
    pub dead: bool,
    pub stamp: TrxId,
    pub pk_len: usize,
    pub raw: &'a [u8],
}

impl Entry<'_> {
    /// False: the raw part may be cut short. `entry_max`: the longest entry of the index's tree.
    #[inline]
    pub fn is_whole(&self, entry_max: usize, key_len: usize) -> bool {
        HEAD_MAX + key_len + self.raw.len() < entry_max
    }
}
/// The beginning of the raw part for which an entry with such a key has room: these bytes are
/// stored. `entry_max`: the longest entry of the index's tree.
pub fn fitting(entry_max: usize, key_len: usize, raw: &[u8]) -> &[u8] {
    assert!(HEAD_MAX + key_len <= entry_max, "longer keys were refused");
    &raw[..raw.len().min(entry_max - HEAD_MAX - key_len)]
}

/// `pk_fixed_len` 0: the clustered key's length is stored in the entry. None: the value is broken.
pub fn decode(value: &[u8], pk_fixed_len: usize) -> Option<Entry<'_>> {
    if value.len() < 7 {
        return None;
    }
    let mut at = 7;
    let pk_len = if pk_fixed_len > 0 {
        pk_fixed_len
    } else {
        take_varint(value, &mut at)? as usize
    };
    Some(Entry {
        marked: value[0] & DELETE_MARK != 0,
        dead: value[0] & DEAD != 0,
        stamp: get_u48(value, STAMP_OFFSET),
        pk_len,
        raw: &value[at..],
    })
}

/// Writes an unmarked entry value. `raw`: as [`fitting`] returns it.
pub fn encode(out: &mut Vec<u8>, stamp: TrxId, pk_len: usize, pk_fixed_len: usize, raw: &[u8]) {
    debug_assert!(stamp >> 48 == 0, "the format has six bytes for a stamp");
    out.clear();
    out.resize(7, 0);
    put_u48(out, STAMP_OFFSET, stamp);
    if pk_fixed_len == 0 {
        push_varint(out, pk_len as u64);
    } else {
        debug_assert_eq!(pk_len, pk_fixed_len);
    }
    out.extend_from_slice(raw);
}

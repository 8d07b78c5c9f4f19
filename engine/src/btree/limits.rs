//! How long keys and entries may be, and which trees are wide.
//!
//! An index number with [`WIDE_BIT`] belongs to a wide tree: its nodes are four pages (`nodes.rs`).
//! Called by: every file that checks lengths, and the layers above.
use super::node::{NODE_HEADER, OVERHEAD};
use crate::base::IndexId;
use crate::pool::{joined_len, PAGE_SIZE};

/// Longest key; of wide trees [`WIDE_KEY_MAX`].
pub const KEY_MAX: usize = if PAGE_SIZE >= 16 * 1024 { 3500 } else { PAGE_SIZE / 8 };
/// Longest key + value that a leaf takes. One split always makes room: entry + key fit in half a
/// page. With the cut nearest to the middle each half has at most (capacity + entry) / 2 bytes.
/// Half an entry and a new fence come on top. Longer values go to overflow pages (table layer).
pub const ENTRY_MAX: usize = entry_max(PAGE_SIZE, KEY_MAX);

/// Bytes of a leaf that an entry takes beside key and value.
pub const ENTRY_OVERHEAD: usize = OVERHEAD;

/// Set in the number of an index whose tree is wide.
pub const WIDE_BIT: IndexId = 1 << 30;
/// Pages of a wide node after the first.
pub const WIDE_REST: u32 = 3;
/// Bytes of a wide node.
pub const WIDE: usize = joined_len(WIDE_REST as usize);
/// Longest key of a wide tree, chosen as [`KEY_MAX`] is.
pub const WIDE_KEY_MAX: usize = if WIDE >= 64_000 { 14_000 } else { WIDE / 8 };
/// Longest key + value of a wide tree, chosen as [`ENTRY_MAX`] is.
pub const WIDE_ENTRY_MAX: usize = entry_max(WIDE, WIDE_KEY_MAX);

/// Two fences and two separators fit: a split of an inner node leaves two children on both sides.
const _: () = assert!(4 * (WIDE_KEY_MAX + 16) <= WIDE - NODE_HEADER && WIDE < u16::MAX as usize);

/// One split makes room for any entry.
const _: () = assert!(ENTRY_MAX + KEY_MAX + OVERHEAD <= (PAGE_SIZE - NODE_HEADER) / 2 && KEY_MAX < ENTRY_MAX);
const _: () =
    assert!(WIDE_ENTRY_MAX + WIDE_KEY_MAX + OVERHEAD <= (WIDE - NODE_HEADER) / 2 && WIDE_KEY_MAX < WIDE_ENTRY_MAX);

const fn entry_max(node: usize, key_max: usize) -> usize {
    let third = node / 3 - 64;
    let split = node / 2 - key_max - 64;
    if third < split {
        third
    } else {
        split
    }
}

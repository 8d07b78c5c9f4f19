//! The format of a tree node.
//!
//! Leaves and inner nodes share it. The format's version is the file's (`space::FORMAT_VERSION`).
//!
//! ```text
//!  0 page header (pool/page.rs): type Tree, level 0 = leaf, index id
//! 32 slots      u16  entries
//! 34 heap       u16  lowest used byte of the heap
//! 36 last       u16  slot of the newest insert (a hint for splits; 0xFFFF = none)
//! 38 garbage    u16  dead bytes in the heap
//! 40 prefix     u16  bytes that all keys of the node share (never more than they share; less is
//!                    allowed)
//! 42 lower_at   u16  lower fence: offset and length of its bytes in the heap
//! 44 lower_len  u16
//! 46 upper_at   u16  upper fence
//! 48 upper_len  u16  0xFFFF = no bound
//! 50 reserved   u16  0
//! 52 right      u32  right neighbour on the level, 0 = none
//! 56 slots, 6 bytes each, growing up, in key order:
//!       head    u32  the 4 key bytes after the prefix, as a big-endian number (zero-padded)
//!       offset  u16  of the entry
//!    ...free...
//!    heap, growing down: entries (klen u16, vlen u16, key, value) and fences
//! ```
//! A node owns the keys in [lower, upper). In an inner node the value is the child's page number
//! (u32). Entry i's key is the lower fence of child i. Entry 0's key is empty: it stands for the
//! node's own lower fence. The heads decide nearly every step of a binary search inside the slot
//! array, without a visit to the heap.
//!
//! Pure. Called by: `view`, `check` and `edit`, and the files that write whole nodes.
use crate::base::bytes::{common_prefix, put_u16, put_u32};
use crate::base::PageNo;
use crate::pool::{PAGE_BODY, PAGE_SIZE};

/// The page type, in the page header.
pub const AT_TYPE: usize = 24;
/// The level, in the page header.
const AT_LEVEL: usize = 25;
pub const AT_SLOTS: usize = PAGE_BODY;
pub const AT_HEAP: usize = PAGE_BODY + 2;
pub const AT_LAST: usize = PAGE_BODY + 4;
pub const AT_GARBAGE: usize = PAGE_BODY + 6;
pub const AT_PREFIX: usize = PAGE_BODY + 8;
pub const AT_LOWER: usize = PAGE_BODY + 10;
pub const AT_UPPER: usize = PAGE_BODY + 14;
pub const AT_RIGHT: usize = PAGE_BODY + 20;
pub const NODE_HEADER: usize = PAGE_BODY + 24;
/// Bytes of a node for slots, entries and fences.
pub const CAPACITY: usize = PAGE_SIZE - NODE_HEADER;
pub const SLOT: usize = 6;
pub const ENTRY_HEADER: usize = 4;
/// What an entry costs beyond key and value.
pub const OVERHEAD: usize = SLOT + ENTRY_HEADER;
pub const NO_BOUND: u16 = 0xFFFF;
pub const NO_SLOT: u16 = 0xFFFF;

/// The 4 bytes a slot keeps of its key.
#[inline]
pub fn head_of(rest: &[u8]) -> u32 {
    if let Some(four) = rest.first_chunk::<4>() {
        return u32::from_be_bytes(*four);
    }
    let mut padded = [0u8; 4];
    padded[..rest.len()].copy_from_slice(rest);
    u32::from_be_bytes(padded)
}

/// A whole node to be written at once: by splits, merges, builds and loads.
#[derive(Clone, Copy, Debug)]
pub struct NewNode<'a> {
    pub level: u8,
    pub lower: &'a [u8],
    pub upper: Option<&'a [u8]>,
    pub right: PageNo,
    /// In key order; an inner node's first key is empty. Fits.
    pub items: &'a [(&'a [u8], &'a [u8])],
    /// See `last` in the format.
    pub last: u16,
}

impl NewNode<'static> {
    /// A leaf without entries, the only one of its tree.
    pub const EMPTY: NewNode<'static> = NewNode {
        level: 0,
        lower: &[],
        upper: None,
        right: 0,
        items: &[],
        last: NO_SLOT,
    };
}

/// Writes `new` over the page's body and level (the rest of its header stays). Returns the hole of
/// zeros between slots and heap, as `Mtr::rewrite` wants it.
pub fn write_node(page: &mut [u8], new: &NewNode<'_>) -> (usize, usize) {
    // A node that is about to get another upper fence has none of any length.
    debug_assert!(
        new.upper.is_none_or(|upper| upper.is_empty() || new.lower < upper),
        "a node owns the keys between its fences"
    );
    debug_assert!(
        new.level == 0 || new.items.first().is_none_or(|(key, _)| key.is_empty()),
        "an inner node's first key stands for its lower fence"
    );
    page[AT_LEVEL] = new.level;
    page[PAGE_BODY..].fill(0);
    let mut heap = page.len();
    let mut place = |page: &mut [u8], bytes: &[u8]| {
        heap -= bytes.len();
        page[heap..heap + bytes.len()].copy_from_slice(bytes);
        heap
    };
    let lower_at = place(page, new.lower);
    put_u16(page, AT_LOWER, lower_at as u16);
    put_u16(page, AT_LOWER + 2, new.lower.len() as u16);
    put_u16(page, AT_UPPER + 2, NO_BOUND);
    if let Some(upper) = new.upper {
        let upper_at = place(page, upper);
        put_u16(page, AT_UPPER, upper_at as u16);
        put_u16(page, AT_UPPER + 2, upper.len() as u16);
    }
    let searched = &new.items[(new.level > 0 && !new.items.is_empty()) as usize..];
    debug_assert!(searched.is_sorted_by(|a, b| a.0 < b.0), "a node's keys ascend");
    debug_assert!(
        searched.first().is_none_or(|(key, _)| new.lower <= *key),
        "no key lies before the lower fence"
    );
    debug_assert!(
        new.level == 0 || new.items.iter().all(|(_, child)| child.len() == 4),
        "the entry of an inner node names a child"
    );
    let prefix = match (searched.first(), searched.last()) {
        (Some(first), Some(last)) => common_prefix(first.0, last.0),
        _ => 0,
    };
    for (slot, (key, value)) in new.items.iter().enumerate() {
        place(page, value);
        place(page, key);
        let mut header = [0u8; ENTRY_HEADER];
        put_u16(&mut header, 0, key.len() as u16);
        put_u16(&mut header, 2, value.len() as u16);
        let at = place(page, &header);
        let slot_at = NODE_HEADER + slot * SLOT;
        put_u32(page, slot_at, head_of(key.get(prefix..).unwrap_or(&[])));
        put_u16(page, slot_at + 4, at as u16);
    }
    let slots_end = NODE_HEADER + new.items.len() * SLOT;
    assert!(slots_end <= heap, "a node is never written over-full");
    put_u16(page, AT_SLOTS, new.items.len() as u16);
    put_u16(page, AT_HEAP, heap as u16);
    put_u16(page, AT_LAST, new.last);
    put_u16(page, AT_PREFIX, prefix as u16);
    put_u32(page, AT_RIGHT, new.right);
    (slots_end, heap)
}

/// Bytes of [`CAPACITY`] that an item takes.
pub fn item_size(key_len: usize, value_len: usize) -> usize {
    OVERHEAD + key_len + value_len
}

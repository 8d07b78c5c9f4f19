//! The tree node: its bytes, and everything that can be read from them. Pure; edits are in `edit.rs`.
//!
//! Leaves and inner nodes share one format. A node is a page, or four (`wide.rs`). Called by every
//! other file of `btree`; takes no latches: whoever holds a
//! `Node` holds the latch of its page.
//!
//! ```text
//!  0 page header (pool/page.rs): type Tree, level 0 = leaf, index id
//! 32 slots      u16  entries
//! 34 heap       u16  lowest used byte of the heap
//! 36 last       u16  slot of the newest insert (a hint for splits; 0xFFFF = none)
//! 38 garbage    u16  dead bytes in the heap
//! 40 prefix     u16  bytes that all keys of the node share (never more than they do; less is allowed)
//! 42 lower_at   u16  lower fence: offset and length of its bytes in the heap
//! 44 lower_len  u16
//! 46 upper_at   u16  upper fence
//! 48 upper_len  u16  0xFFFF = no bound
//! 50 reserved   u16  0
//! 52 right      u32  right neighbour on the level, 0 = none
//! 56 slots, 6 bytes each, growing up, in key order:
//!       head    u32  the 4 key bytes behind the prefix, as a big-endian number (zero-padded)
//!       offset  u16  of the entry
//!    ...free...
//!    heap, growing down: entries (klen u16, vlen u16, key, value) and fences
//! ```
//! A node owns the keys in [lower, upper). In an inner node the value is the child's page number (u32), entry i's key is the
//! lower fence of child i, and entry 0's key is left empty: it stands for the node's own lower fence.
//! The heads settle nearly every step of a binary search inside the slot array, without a visit to the heap.
//! The format's version is the file's (`space::FORMAT_VERSION`).
use super::wide::WIDE_BIT;
use crate::base::bytes::{common_prefix, get_u16, get_u32, put_u16, put_u32};
use crate::base::{IndexId, PageNo};
use crate::pool::page::{page_index, page_level, page_type};
use crate::pool::{PageType, PAGE_BODY, PAGE_SIZE};

/// The page type, in the page header.
pub const AT_TYPE: usize = 24;
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

/// A node as read. Copy: it is a pointer to the page.
#[derive(Clone, Copy)]
pub struct Node<'a>(&'a [u8]);

impl<'a> Node<'a> {
    #[inline]
    pub fn new(page: &'a [u8]) -> Node<'a> {
        // Once, and not for each field of the header.
        assert!(page.len() >= PAGE_SIZE);
        Node(page)
    }
    /// Is this a node of `index` at all? Asked of every page a descent arrives at.
    pub fn belongs_to(&self, index: IndexId) -> bool {
        page_type(self.0) == PageType::Tree as u8 && page_index(self.0) == index
    }
    #[inline]
    pub fn level(&self) -> u8 {
        page_level(self.0)
    }
    #[inline]
    pub fn len(&self) -> usize {
        get_u16(self.0, AT_SLOTS) as usize
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn heap(&self) -> usize {
        get_u16(self.0, AT_HEAP) as usize
    }
    pub fn last_insert(&self) -> usize {
        get_u16(self.0, AT_LAST) as usize
    }
    pub fn garbage(&self) -> usize {
        get_u16(self.0, AT_GARBAGE) as usize
    }
    #[inline]
    pub fn prefix_len(&self) -> usize {
        get_u16(self.0, AT_PREFIX) as usize
    }
    pub fn right(&self) -> Option<PageNo> {
        Some(get_u32(self.0, AT_RIGHT)).filter(|no| *no != 0)
    }
    #[inline]
    pub fn lower_fence(&self) -> &'a [u8] {
        let at = get_u16(self.0, AT_LOWER) as usize;
        &self.0[at..at + get_u16(self.0, AT_LOWER + 2) as usize]
    }
    /// None: no bound.
    #[inline]
    pub fn upper_fence(&self) -> Option<&'a [u8]> {
        let len = get_u16(self.0, AT_UPPER + 2);
        if len == NO_BOUND {
            return None;
        }
        let at = get_u16(self.0, AT_UPPER) as usize;
        Some(&self.0[at..at + len as usize])
    }
    /// Is `key` in [lower, upper)?
    #[inline]
    pub fn owns(&self, key: &[u8]) -> bool {
        self.lower_fence() <= key && self.upper_fence().is_none_or(|upper| key < upper)
    }
    /// Is `key` in (lower, upper]: does this node own the keys just before it?
    pub fn owns_before(&self, key: &[u8]) -> bool {
        self.lower_fence() < key && self.upper_fence().is_none_or(|upper| key <= upper)
    }
    #[inline]
    pub fn entry_at(&self, slot: usize) -> usize {
        debug_assert!(slot < self.len());
        get_u16(self.0, NODE_HEADER + slot * SLOT + 4) as usize
    }
    #[inline]
    fn head_at(&self, slot: usize) -> u32 {
        get_u32(self.0, NODE_HEADER + slot * SLOT)
    }
    #[inline]
    pub fn key(&self, slot: usize) -> &'a [u8] {
        let at = self.entry_at(slot);
        let len = get_u16(self.0, at) as usize;
        &self.0[at + ENTRY_HEADER..at + ENTRY_HEADER + len]
    }
    #[inline]
    pub fn value(&self, slot: usize) -> &'a [u8] {
        let at = self.value_at(slot);
        &self.0[at..at + self.value_len(slot)]
    }
    /// Key and value in one go.
    #[inline]
    pub fn entry(&self, slot: usize) -> (&'a [u8], &'a [u8]) {
        let (bytes, key_len) = self.entry_bytes(slot);
        bytes.split_at(key_len)
    }
    /// Key and value as they lie, one behind the other, and the length of the key.
    #[inline]
    pub fn entry_bytes(&self, slot: usize) -> (&'a [u8], usize) {
        let at = self.entry_at(slot);
        let (key_len, value_len) = (get_u16(self.0, at) as usize, get_u16(self.0, at + 2) as usize);
        let from = at + ENTRY_HEADER;
        (&self.0[from..from + key_len + value_len], key_len)
    }
    /// Page offset of the value's first byte.
    pub fn value_at(&self, slot: usize) -> usize {
        let at = self.entry_at(slot);
        at + ENTRY_HEADER + get_u16(self.0, at) as usize
    }
    pub fn value_len(&self, slot: usize) -> usize {
        get_u16(self.0, self.entry_at(slot) + 2) as usize
    }
    /// Heap bytes of an entry.
    pub fn entry_size(&self, slot: usize) -> usize {
        let at = self.entry_at(slot);
        ENTRY_HEADER + get_u16(self.0, at) as usize + get_u16(self.0, at + 2) as usize
    }
    /// Child page of an inner entry.
    #[inline]
    pub fn child(&self, slot: usize) -> PageNo {
        get_u32(self.0, self.value_at(slot))
    }
    /// First slot whose key takes part in searches: an inner node's entry 0 has none.
    #[inline]
    pub fn first(&self) -> usize {
        (self.level() > 0 && !self.is_empty()) as usize
    }

    /// Free bytes between slots and heap.
    pub fn contiguous(&self) -> usize {
        self.heap() - NODE_HEADER - self.len() * SLOT
    }
    /// Free bytes, those inside the heap included (a compaction away).
    pub fn free(&self) -> usize {
        self.contiguous() + self.garbage()
    }
    /// Bytes for slots, entries and fences: [`CAPACITY`], but of a wide node.
    pub fn capacity(&self) -> usize {
        self.0.len() - NODE_HEADER
    }
    /// Bytes in use of its capacity.
    pub fn used(&self) -> usize {
        self.capacity() - self.free()
    }
    /// Would an entry of these lengths fit, after a compaction if need be?
    pub fn has_room(&self, key_len: usize, value_len: usize) -> bool {
        OVERHEAD + key_len + value_len <= self.free()
    }

    /// First slot whose key is >= `key`, and whether it is equal. `key` may be any key, also one outside the fences.
    #[inline]
    pub fn search(&self, key: &[u8]) -> (usize, bool) {
        let (n, first) = (self.len(), self.first());
        if first >= n {
            return (n, false);
        }
        let prefix = self.prefix_len();
        let (at, head) = match key.get(prefix..) {
            Some(rest) => {
                let head = head_of(rest);
                let (from, to) = self.bracket(first, n, head);
                let at = self.partition(from, to, |slot| self.head_at(slot) < head);
                if at < n && self.head_at(at) == head && self.key(at) == key {
                    return (at, true);
                }
                (at, head)
            }
            None => (first, 0),
        };
        // Not met at once: now it matters whether the key has the prefix at all. (A hit was spared this visit to the heap.)
        if prefix > 0 {
            let ours = &self.key(first)[..prefix];
            let theirs = &key[..prefix.min(key.len())];
            match theirs.cmp(ours) {
                std::cmp::Ordering::Less => return (first, false),
                std::cmp::Ordering::Greater => return (n, false),
                std::cmp::Ordering::Equal => {}
            }
        }
        if at == n || self.head_at(at) != head {
            return (at, false);
        }
        self.search_ties(at, n, head, prefix, &key[prefix..])
    }
    /// Slots [from, to) among which the first one of [first, n) with a head >= `head` is, or that is `to`. Keys are often numbers in even
    /// steps: there a guess by proportion is right, and looks at three cache lines where halving looks at one for each step. Where
    /// it is not, it costs those three.
    #[inline]
    fn bracket(&self, first: usize, n: usize, head: u32) -> (usize, usize) {
        const NEAR: usize = 4;
        let last = n - 1;
        if last - first < 4 * NEAR {
            return (first, n);
        }
        let (low, high) = (self.head_at(first), self.head_at(last));
        if head <= low {
            return (first, first);
        }
        if head > high {
            return (n, n);
        }
        // low < head <= high
        let guess = first + ((head - low) as u64 * (last - first) as u64 / (high - low) as u64) as usize;
        if self.head_at(guess) < head {
            let end = (guess + NEAR).min(last);
            if self.head_at(end) < head {
                (end + 1, last)
            } else {
                (guess + 1, end)
            }
        } else {
            let end = guess.saturating_sub(NEAR).max(first);
            if self.head_at(end) < head {
                (end + 1, guess)
            } else {
                (first, end)
            }
        }
    }
    /// Slots from `from` on have a head >= `head`; the first has it. Full comparison among the equal ones.
    fn search_ties(&self, from: usize, n: usize, head: u32, prefix: usize, rest: &[u8]) -> (usize, bool) {
        let at = self.partition(from, n, |slot| {
            self.head_at(slot) == head && &self.key(slot)[prefix..] < rest
        });
        (at, at < n && &self.key(at)[prefix..] == rest)
    }
    /// First slot in [from, to) for which `before` is false; it is true for a prefix of the slots.
    #[inline]
    fn partition(&self, mut from: usize, to: usize, before: impl Fn(usize) -> bool) -> usize {
        let mut size = to - from;
        while size > 0 {
            let half = size / 2;
            let mid = from + half;
            if before(mid) {
                from = mid + 1;
                size -= half + 1;
            } else {
                size = half;
            }
        }
        from
    }
    /// Inner node: slot of the child that owns `key`.
    #[inline]
    pub fn child_slot(&self, key: &[u8]) -> usize {
        let (at, found) = self.search(key);
        at - !found as usize
    }
    /// Inner node: slot of the child that owns the keys just before `key`.
    pub fn child_slot_before(&self, key: &[u8]) -> usize {
        self.search(key).0 - 1
    }
    /// As `entry`, of a page that nobody has looked at yet. None: the slot or what it points at is not in the page.
    fn entry_if_sound(&self, slot: usize) -> Option<(&'a [u8], &'a [u8])> {
        let place = NODE_HEADER + slot * SLOT + 4;
        let at = u16::from_le_bytes(self.0.get(place..place + 2)?.try_into().ok()?) as usize;
        let header = self.0.get(at..at + ENTRY_HEADER)?;
        let key_end = at + ENTRY_HEADER + get_u16(header, 0) as usize;
        let value_end = key_end + get_u16(header, 2) as usize;
        Some((self.0.get(at + ENTRY_HEADER..key_end)?, self.0.get(key_end..value_end)?))
    }
    /// Whatever it holds, reading it and searching in it stay within the page. Nothing is followed before it is known to lead there.
    pub fn check_bounds(&self) -> Result<(), String> {
        let n = self.len();
        let slots_end = NODE_HEADER + n * SLOT;
        if self.heap() > self.0.len() || slots_end > self.heap() {
            return Err(format!("{n} slots reach into the heap at {}", self.heap()));
        }
        if self.garbage() > self.0.len() - self.heap() {
            return Err(format!("{} dead bytes are more than the heap has", self.garbage()));
        }
        for slot in 0..n {
            let at = self.entry_at(slot);
            if at + ENTRY_HEADER > self.0.len() || at + self.entry_size(slot) > self.0.len() {
                return Err(format!("the entry of slot {slot} at {at} leaves the page"));
            }
            if self.level() > 0 && self.value_len(slot) != 4 {
                return Err(format!("the entry of slot {slot} names no child"));
            }
        }
        let fences = [AT_LOWER, AT_UPPER].map(|f| (get_u16(self.0, f) as usize, get_u16(self.0, f + 2)));
        let leaves = |(at, len): &(usize, u16)| at + *len as usize > self.0.len();
        if leaves(&fences[0]) || (fences[1].1 != NO_BOUND && leaves(&fences[1])) {
            return Err("a fence leaves the page".into());
        }
        let prefix = self.prefix_len();
        match (self.first()..n).all(|slot| self.key(slot).len() >= prefix) {
            true => Ok(()),
            false => Err(format!("a key is shorter than the prefix of {prefix}")),
        }
    }
    /// Slots of the heap pieces in use do not overlap, counts agree, keys are in order: Err says what is wrong. For `check.rs`.
    pub fn validate(&self) -> Result<(), String> {
        self.check_bounds()?;
        let mut pieces = pieces(*self);
        pieces.sort_unstable_by_key(|p| p.at);
        let mut at = self.heap();
        for p in &pieces {
            if p.at < at || p.at + p.len > self.0.len() {
                return Err(format!("the heap piece at {} overlaps or leaves the page", p.at));
            }
            at = p.at + p.len;
        }
        let live: usize = pieces.iter().map(|p| p.len).sum();
        if live + self.garbage() != self.0.len() - self.heap() {
            return Err(format!("{live} live and {} dead bytes do not add up", self.garbage()));
        }
        self.validate_order()
    }
    fn validate_order(&self) -> Result<(), String> {
        let prefix = self.prefix_len();
        for slot in self.first()..self.len() {
            let key = self.key(slot);
            if !self.owns(key) {
                return Err(format!("the key in slot {slot} is outside the fences"));
            }
            if key[..prefix] != self.key(self.first())[..prefix] {
                return Err(format!("the key in slot {slot} lacks the common prefix"));
            }
            if self.head_at(slot) != head_of(&key[prefix..]) {
                return Err(format!("the head in slot {slot} is not its key's"));
            }
            if slot > self.first() && self.key(slot - 1) >= key {
                return Err(format!("the keys in slots {} and {slot} are out of order", slot - 1));
            }
        }
        if self.level() > 0 && (self.is_empty() || !self.key(0).is_empty()) {
            return Err("an inner node needs a first child under the empty key".into());
        }
        Ok(())
    }
}

/// For a page just read ([`PoolConfig::check_body`](crate::pool::PoolConfig)): a node can be used. One that was allocated and not filled yet has
/// nothing in it.
pub fn check_body(page: &[u8]) -> Result<(), String> {
    let node = Node::new(page);
    let is_filled = page_type(page) == PageType::Tree as u8 && node.heap() != 0;
    // Of a wide node this is a part, looked at when all are there.
    match is_filled && page_index(page) & WIDE_BIT == 0 {
        true => node.check_bounds(),
        false => Ok(()),
    }
}

/// Shows the entries of a page, whatever it is, until `each` says false. True: it is a leaf, and that is all of them.
pub fn leaf_entries(page: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> bool {
    let node = Node::new(page);
    page_type(page) == PageType::Tree as u8
        && page_index(page) & WIDE_BIT == 0
        && node.level() == 0
        && (0..node.len()).all(|slot| node.entry_if_sound(slot).is_some_and(|(key, value)| each(key, value)))
}

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

/// Who a piece of the heap belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    Slot(usize),
    Lower,
    Upper,
}
/// A live piece of the heap.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub at: usize,
    pub len: usize,
    pub owner: Owner,
}

/// The live pieces of the heap, in no order.
pub fn pieces(node: Node<'_>) -> Vec<Piece> {
    let mut out = Vec::with_capacity(node.len() + 2);
    for slot in 0..node.len() {
        out.push(Piece {
            at: node.entry_at(slot),
            len: node.entry_size(slot),
            owner: Owner::Slot(slot),
        });
    }
    let fence = |at: usize, len: u16, owner| Piece {
        at: get_u16(node.0, at) as usize,
        len: if len == NO_BOUND { 0 } else { len as usize },
        owner,
    };
    out.push(fence(AT_LOWER, get_u16(node.0, AT_LOWER + 2), Owner::Lower));
    out.push(fence(AT_UPPER, get_u16(node.0, AT_UPPER + 2), Owner::Upper));
    out.retain(|p| p.len > 0);
    out
}

/// A whole node to be written at once: splits, merges, bulk builds.
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

/// Writes `new` over the page's body and level (the rest of its header stays). Returns the hole of zeros between slots and
/// heap, as `Mtr::rewrite` wants it.
pub fn write_node(page: &mut [u8], new: &NewNode<'_>) -> (usize, usize) {
    page[25] = new.level;
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

//! [`Node`]: reads a node's fields and entries, and searches among its keys.
//!
//! Called by: every room of `btree`. The caller holds the latch of the page.
use super::format::{
    head_of, AT_GARBAGE, AT_HEAP, AT_LAST, AT_LOWER, AT_PREFIX, AT_RIGHT, AT_SLOTS, AT_UPPER, ENTRY_HEADER,
    NODE_HEADER, NO_BOUND, OVERHEAD, SLOT,
};
use crate::base::bytes::{get_u16, get_u32};
use crate::base::{IndexId, PageNo};
use crate::pool::page::{page_index, page_level, page_type};
use crate::pool::{PageType, PAGE_SIZE};

/// A node as read. Copy: it is a pointer to the page.
#[derive(Clone, Copy)]
pub struct Node<'a>(pub(super) &'a [u8]);

impl<'a> Node<'a> {
    #[inline]
    pub fn new(page: &'a [u8]) -> Node<'a> {
        // One check here spares one for each field of the header.
        assert!(page.len() >= PAGE_SIZE, "a node has a page, or several");
        Node(page)
    }
    /// The page is a node of `index`. Every descent checks this on every page that it reaches.
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
    /// `key` is in [lower, upper).
    #[inline]
    pub fn owns(&self, key: &[u8]) -> bool {
        self.lower_fence() <= key && self.upper_fence().is_none_or(|upper| key < upper)
    }
    /// `key` is in (lower, upper]: the node owns the keys just before `key`.
    pub fn owns_before(&self, key: &[u8]) -> bool {
        self.lower_fence() < key && self.upper_fence().is_none_or(|upper| key <= upper)
    }
    #[inline]
    pub fn entry_at(&self, slot: usize) -> usize {
        debug_assert!(slot < self.len(), "a slot of the node");
        get_u16(self.0, NODE_HEADER + slot * SLOT + 4) as usize
    }
    #[inline]
    pub(super) fn head_at(&self, slot: usize) -> u32 {
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
    /// Key and value, cheaper than one after the other.
    #[inline]
    pub fn entry(&self, slot: usize) -> (&'a [u8], &'a [u8]) {
        let (bytes, key_len) = self.entry_bytes(slot);
        bytes.split_at(key_len)
    }
    /// Key and value as one slice, as they lie in the page, and the length of the key.
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
        debug_assert!(self.level() > 0, "a leaf names no children");
        get_u32(self.0, self.value_at(slot))
    }
    /// The key in `slot` lies between those of its neighbours. For asserts.
    pub(super) fn is_between(&self, slot: usize) -> bool {
        let after_left = slot <= self.first() || self.key(slot - 1) < self.key(slot);
        after_left && (slot + 1 >= self.len() || self.key(slot) < self.key(slot + 1))
    }
    /// First slot whose key takes part in searches: an inner node's entry 0 has no key.
    #[inline]
    pub fn first(&self) -> usize {
        (self.level() > 0 && !self.is_empty()) as usize
    }

    /// Free bytes between slots and heap.
    pub fn contiguous(&self) -> usize {
        self.heap() - NODE_HEADER - self.len() * SLOT
    }
    /// Free bytes, those inside the heap included: a compaction makes them usable.
    pub fn free(&self) -> usize {
        self.contiguous() + self.garbage()
    }
    /// Bytes for slots, entries and fences: [`CAPACITY`](super::CAPACITY), more in a wide node.
    pub fn capacity(&self) -> usize {
        self.0.len() - NODE_HEADER
    }
    /// Bytes of the capacity that are in use.
    pub fn used(&self) -> usize {
        self.capacity() - self.free()
    }
    /// An entry of these lengths fits, after a compaction if need be.
    pub fn has_room(&self, key_len: usize, value_len: usize) -> bool {
        OVERHEAD + key_len + value_len <= self.free()
    }

    /// First slot whose key is >= `key`, and whether it is equal. `key` may lie outside the fences.
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
                debug_assert!(from <= to && to <= n, "the search is narrowed to slots of the node");
                let at = self.partition(from, to, |slot| self.head_at(slot) < head);
                if at < n && self.head_at(at) == head && self.key(at) == key {
                    return (at, true);
                }
                (at, head)
            }
            None => (first, 0),
        };
        // Not found by the head alone. Only now is the key's prefix compared: a hit is spared this
        // visit to the heap.
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
    /// Narrows the search for the first slot of [first, n) with a head >= `head`: that slot is in
    /// [from, to), or it is `to`. Keys are often numbers in even steps. Then a guess by proportion
    /// is right and reads three cache lines, where halving reads one for each step. A wrong guess
    /// costs those three.
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
    /// The slots from `from` on have a head >= `head`, the first one an equal head. Whole keys are
    /// compared among the slots with an equal head.
    fn search_ties(&self, from: usize, n: usize, head: u32, prefix: usize, rest: &[u8]) -> (usize, bool) {
        let at = self.partition(from, n, |slot| {
            self.head_at(slot) == head && &self.key(slot)[prefix..] < rest
        });
        (at, at < n && &self.key(at)[prefix..] == rest)
    }
    /// First slot in [from, to) for which `before` is false. `before` is true for the slots in
    /// front of it only.
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

    /// The live pieces of the heap, in no order.
    pub fn pieces(&self) -> Vec<Piece> {
        let mut out = Vec::with_capacity(self.len() + 2);
        for slot in 0..self.len() {
            out.push(Piece {
                at: self.entry_at(slot),
                len: self.entry_size(slot),
                owner: Owner::Slot(slot),
            });
        }
        let fence = |at: usize, owner| {
            let len = get_u16(self.0, at + 2);
            Piece {
                at: get_u16(self.0, at) as usize,
                len: if len == NO_BOUND { 0 } else { len as usize },
                owner,
            }
        };
        out.push(fence(AT_LOWER, Owner::Lower));
        out.push(fence(AT_UPPER, Owner::Upper));
        out.retain(|piece| piece.len > 0);
        out
    }
}

/// What a piece of the heap holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// The entry of this slot.
    Slot(usize),
    /// The lower fence.
    Lower,
    /// The upper fence.
    Upper,
}
/// A live piece of the heap.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub at: usize,
    pub len: usize,
    pub owner: Owner,
}

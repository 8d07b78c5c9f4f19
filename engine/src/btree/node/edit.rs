//! Edits of one node, in few and small byte edits: an insert logs the entry, one move of slots, one
//! slot and six header bytes. Redo sees bytes only: recovery costs what an edit logs.
//!
//! Generic over [`PageEdit`]: an X-latched page of an Mtr ([`MtrPage`]), or plain memory in tests.
//! Takes no latches. Called by: `write`, `sorted::build` and `free_tree`.
use super::format::{
    head_of, write_node, NewNode, AT_GARBAGE, AT_HEAP, AT_LOWER, AT_PREFIX, AT_RIGHT, AT_SLOTS, AT_UPPER, ENTRY_HEADER,
    NODE_HEADER, SLOT,
};
use super::view::{Node, Owner};
use crate::base::bytes::{common_prefix, get_u16, put_u16, put_u32};
use crate::base::PageNo;
use crate::pool::{Mtr, PageHandle};

/// A page that may be edited.
pub trait PageEdit {
    fn bytes(&self) -> &[u8];
    fn edit(&mut self, offset: usize, data: &[u8]);
    fn move_within(&mut self, dst: usize, src: usize, len: usize);
    fn rewrite(&mut self, fill: &mut dyn FnMut(&mut [u8]) -> (usize, usize));
    fn node(&self) -> Node<'_> {
        Node::new(self.bytes())
    }
}

/// A page of a mini-transaction.
pub struct MtrPage<'a, 'p> {
    pub mtr: &'a mut Mtr<'p>,
    pub page: PageHandle,
}

impl PageEdit for MtrPage<'_, '_> {
    fn bytes(&self) -> &[u8] {
        self.mtr.bytes(self.page)
    }
    fn edit(&mut self, offset: usize, data: &[u8]) {
        self.mtr.edit(self.page, offset, data);
    }
    fn move_within(&mut self, dst: usize, src: usize, len: usize) {
        self.mtr.move_within(self.page, dst, src, len);
    }
    fn rewrite(&mut self, fill: &mut dyn FnMut(&mut [u8]) -> (usize, usize)) {
        self.mtr.rewrite(self.page, fill);
    }
}

/// Entries up to this many bytes are assembled on the stack.
const STACK_ENTRY: usize = 512;
/// A compaction logs moves while they are cheaper than an image; about the bytes of one move
/// record.
const MOVE_COST: usize = 9;

/// Inserts at `slot`; there is room (`Node::has_room`).
pub fn insert(p: &mut impl PageEdit, slot: usize, key: &[u8], value: &[u8]) {
    let size = ENTRY_HEADER + key.len() + value.len();
    if p.node().contiguous() < size + SLOT {
        compact(p);
    }
    let node = p.node();
    let (n, at) = (node.len(), node.heap() - size);
    assert!(slot <= n && node.contiguous() >= size + SLOT, "room was checked");
    let first = node.first();
    let searched = !(slot < first || (node.level() > 0 && n == 0));
    if searched {
        fit_prefix(p, key);
    }
    let rest = if searched { &key[p.node().prefix_len()..] } else { &[] };
    let mut slot_bytes = [0u8; SLOT];
    put_u32(&mut slot_bytes, 0, head_of(rest));
    put_u16(&mut slot_bytes, 4, at as u16);
    write_entry(p, at, key, value);
    let slot_at = NODE_HEADER + slot * SLOT;
    if slot < n {
        p.move_within(slot_at + SLOT, slot_at, (n - slot) * SLOT);
    }
    p.edit(slot_at, &slot_bytes);
    let mut header = [0u8; 6];
    put_u16(&mut header, 0, n as u16 + 1);
    put_u16(&mut header, 2, at as u16);
    put_u16(&mut header, 4, slot as u16);
    p.edit(AT_SLOTS, &header);
    debug_assert!(
        !searched || p.node().is_between(slot),
        "an entry stands between its neighbours in key order"
    );
    debug_assert!(p.node().entry(slot) == (key, value), "the entry stands in its slot");
}

/// Shortens the node's prefix to one that `key` shares too.
fn fit_prefix(p: &mut impl PageEdit, key: &[u8]) {
    let node = p.node();
    let (n, first, prefix) = (node.len(), node.first(), node.prefix_len());
    if first == n {
        return if prefix != key.len() {
            p.edit(AT_PREFIX, &(key.len() as u16).to_le_bytes())
        };
    }
    if prefix == 0 {
        return;
    }
    let shared = common_prefix(&node.key(first)[..prefix], key);
    if shared == prefix {
        return;
    }
    // Rare: at most once per byte of the prefix in a node's life.
    let mut slots = p.bytes()[NODE_HEADER + first * SLOT..NODE_HEADER + n * SLOT].to_vec();
    for slot in first..n {
        put_u32(&mut slots, (slot - first) * SLOT, head_of(&node.key(slot)[shared..]));
    }
    p.edit(NODE_HEADER + first * SLOT, &slots);
    p.edit(AT_PREFIX, &(shared as u16).to_le_bytes());
}

fn write_entry(p: &mut impl PageEdit, at: usize, key: &[u8], value: &[u8]) {
    let size = ENTRY_HEADER + key.len() + value.len();
    let fill = |out: &mut [u8]| {
        put_u16(out, 0, key.len() as u16);
        put_u16(out, 2, value.len() as u16);
        out[ENTRY_HEADER..ENTRY_HEADER + key.len()].copy_from_slice(key);
        out[ENTRY_HEADER + key.len()..].copy_from_slice(value);
    };
    if size <= STACK_ENTRY {
        let mut buffer = [0u8; STACK_ENTRY];
        fill(&mut buffer[..size]);
        p.edit(at, &buffer[..size]);
    } else {
        let mut buffer = vec![0u8; size];
        fill(&mut buffer);
        p.edit(at, &buffer);
    }
}

/// Slots, heap, last and garbage in one record.
fn edit_counts(p: &mut impl PageEdit, slots: usize, heap: usize, garbage: usize) {
    debug_assert!(
        NODE_HEADER + slots * SLOT <= heap && heap <= p.bytes().len(),
        "the slots and the heap do not meet"
    );
    let mut header = [0u8; 8];
    put_u16(&mut header, 0, slots as u16);
    put_u16(&mut header, 2, heap as u16);
    put_u16(&mut header, 4, p.node().last_insert() as u16);
    put_u16(&mut header, 6, garbage as u16);
    p.edit(AT_SLOTS, &header);
}

/// Removes the entry in `slot`.
pub fn remove(p: &mut impl PageEdit, slot: usize) {
    let node = p.node();
    let (n, at, size) = (node.len(), node.entry_at(slot), node.entry_size(slot));
    let free = node.free();
    let (mut heap, mut garbage) = (node.heap(), node.garbage());
    if at == heap {
        heap += size;
    } else {
        garbage += size;
    }
    let slot_at = NODE_HEADER + slot * SLOT;
    if slot + 1 < n {
        p.move_within(slot_at, slot_at + SLOT, (n - slot - 1) * SLOT);
    }
    edit_counts(p, n - 1, heap, garbage);
    debug_assert_eq!(p.node().free(), free + size + SLOT, "an entry and its slot become free");
}

/// Removes the entries in the slots [from, to): one move, one write.
pub fn remove_run(p: &mut impl PageEdit, from: usize, to: usize) {
    let node = p.node();
    let n = node.len();
    assert!(from < to && to <= n, "a run lies inside its node");
    let dropped: usize = (from..to).map(|slot| node.entry_size(slot)).sum();
    let free = node.free() + dropped + (to - from) * SLOT;
    let (heap, garbage) = (node.heap(), node.garbage() + dropped);
    let slot_at = NODE_HEADER + from * SLOT;
    if to < n {
        p.move_within(slot_at, NODE_HEADER + to * SLOT, (n - to) * SLOT);
    }
    edit_counts(p, n - (to - from), heap, garbage);
    debug_assert_eq!(p.node().free(), free, "the entries and their slots become free");
}

/// A new value of this length fits.
pub fn value_fits(node: Node<'_>, slot: usize, len: usize) -> bool {
    let old = node.value_len(slot);
    len <= old || node.free() + node.entry_size(slot) >= node.entry_size(slot) - old + len
}

/// New value for the entry in `slot`; it fits (`value_fits`).
pub fn set_value(p: &mut impl PageEdit, slot: usize, value: &[u8]) {
    debug_assert!(value_fits(p.node(), slot, value.len()), "room was checked");
    let node = p.node();
    let (entry_at, at, old_len) = (node.entry_at(slot), node.value_at(slot), node.value_len(slot));
    if value.len() > old_len {
        return grow_value(p, slot, value);
    }
    edit_difference(p, at, value);
    if value.len() < old_len {
        p.edit(entry_at + 2, &(value.len() as u16).to_le_bytes());
        let garbage = p.node().garbage() + old_len - value.len();
        p.edit(AT_GARBAGE, &(garbage as u16).to_le_bytes());
    }
}

fn grow_value(p: &mut impl PageEdit, slot: usize, value: &[u8]) {
    let node = p.node();
    let key = node.key(slot).to_vec();
    let old_size = node.entry_size(slot);
    let size = ENTRY_HEADER + key.len() + value.len();
    if node.contiguous() < size {
        remove(p, slot);
        return insert(p, slot, &key, value);
    }
    let (n, at, garbage) = (node.len(), node.heap() - size, node.garbage() + old_size);
    write_entry(p, at, &key, value);
    p.edit(NODE_HEADER + slot * SLOT + 4, &(at as u16).to_le_bytes());
    edit_counts(p, n, at, garbage);
    debug_assert!(p.node().entry(slot) == (&key[..], value), "the entry has its new value");
}

/// Writes `data` at `at`, logging only from the first to the last byte that differs.
pub fn edit_difference(p: &mut impl PageEdit, at: usize, data: &[u8]) {
    let old = &p.bytes()[at..at + data.len()];
    let start = common_prefix(old, data);
    if start == data.len() {
        return;
    }
    let same_end = old
        .iter()
        .rev()
        .zip(data.iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    p.edit(at + start, &data[start..data.len() - same_end]);
}

/// Gathers the free bytes between slots and heap.
pub fn compact(p: &mut impl PageEdit) {
    let node = p.node();
    if node.garbage() == 0 {
        return;
    }
    let n = node.len();
    let free = node.free();
    let mut pieces = node.pieces();
    pieces.sort_unstable_by_key(|piece| std::cmp::Reverse(piece.at));
    let used: usize = pieces.iter().map(|piece| piece.len).sum();
    // Neighbours that move by the same distance move together. The moves go from the top down: none
    // overwrites a piece that is still to be moved.
    let mut moves: Vec<(usize, usize, usize)> = Vec::new();
    let mut slots = p.bytes()[NODE_HEADER..NODE_HEADER + n * SLOT].to_vec();
    let mut fences = p.bytes()[AT_LOWER..AT_RIGHT].to_vec();
    let mut heap = p.bytes().len();
    for piece in &pieces {
        heap -= piece.len;
        match moves.last_mut() {
            Some((dst, src, len)) if *src == piece.at + piece.len => {
                (*dst, *src, *len) = (heap, piece.at, *len + piece.len)
            }
            _ => moves.push((heap, piece.at, piece.len)),
        }
        match piece.owner {
            Owner::Slot(slot) => put_u16(&mut slots, slot * SLOT + 4, heap as u16),
            Owner::Lower => put_u16(&mut fences, 0, heap as u16),
            Owner::Upper => put_u16(&mut fences, AT_UPPER - AT_LOWER, heap as u16),
        }
    }
    moves.retain(|(dst, src, _)| dst != src);
    if moves.len() * MOVE_COST > used {
        return rewrite_in_order(p);
    }
    for (dst, src, len) in moves {
        p.move_within(dst, src, len);
    }
    edit_difference(p, NODE_HEADER, &slots);
    edit_difference(p, AT_LOWER, &fences);
    edit_counts(p, n, heap, 0);
    debug_assert_eq!(
        p.node().contiguous(),
        free,
        "a compaction loses no byte, and wins none but the dead ones"
    );
}

/// Compaction by image.
fn rewrite_in_order(p: &mut impl PageEdit) {
    let copy = p.bytes().to_vec();
    let node = Node::new(&copy);
    let items: Vec<_> = (0..node.len()).map(|slot| node.entry(slot)).collect();
    let new = NewNode {
        level: node.level(),
        lower: node.lower_fence(),
        upper: node.upper_fence(),
        right: node.right().unwrap_or(0),
        items: &items,
        last: node.last_insert() as u16,
    };
    p.rewrite(&mut |page| write_node(page, &new));
}

/// Drops the entries from `keep` on.
pub fn truncate(p: &mut impl PageEdit, keep: usize) {
    debug_assert!(keep <= p.node().len(), "a node has the entries that it keeps");
    let node = p.node();
    let dropped: usize = (keep..node.len()).map(|slot| node.entry_size(slot)).sum();
    let (heap, garbage) = (node.heap(), node.garbage() + dropped);
    edit_counts(p, keep, heap, garbage);
}

/// New upper fence; there is room for it (counting the old one's bytes).
pub fn set_upper(p: &mut impl PageEdit, upper: &[u8]) {
    debug_assert!(
        p.node().lower_fence() < upper,
        "a node owns the keys between its fences"
    );
    let old_len = p.node().upper_fence().map_or(0, <[u8]>::len);
    let mut fence = [0u8; 4];
    if upper.len() <= old_len {
        let at = get_u16(p.bytes(), AT_UPPER);
        edit_difference(p, at as usize, upper);
        put_u16(&mut fence, 0, at);
    } else {
        // The old fence is dropped first, so that a compaction takes its bytes too.
        p.edit(AT_UPPER, &[0, 0, 0, 0]);
        let garbage = p.node().garbage() + old_len;
        p.edit(AT_GARBAGE, &(garbage as u16).to_le_bytes());
        if p.node().contiguous() < upper.len() {
            compact(p);
        }
        let at = p.node().heap() - upper.len();
        assert!(p.node().contiguous() >= upper.len(), "room was checked");
        p.edit(at, upper);
        p.edit(AT_HEAP, &(at as u16).to_le_bytes());
        put_u16(&mut fence, 0, at as u16);
    }
    put_u16(&mut fence, 2, upper.len() as u16);
    p.edit(AT_UPPER, &fence);
    if upper.len() < old_len {
        let garbage = p.node().garbage() + old_len - upper.len();
        p.edit(AT_GARBAGE, &(garbage as u16).to_le_bytes());
    }
    debug_assert!(p.node().upper_fence() == Some(upper), "the node has its new fence");
}

pub fn set_right(p: &mut impl PageEdit, right: PageNo) {
    debug_assert_ne!(right, 0, "page 0 is a file's header");
    p.edit(AT_RIGHT, &right.to_le_bytes());
}

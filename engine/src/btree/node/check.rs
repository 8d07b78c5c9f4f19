//! Checks of a node: bounds before a page is used, and its whole structure.
//!
//! Called by: the pool for every page that it reads (through `check_body`), `nodes.rs` for wide
//! nodes, CHECK TABLE, and debug asserts after edits.
use super::format::{head_of, AT_LOWER, AT_UPPER, ENTRY_HEADER, NODE_HEADER, NO_BOUND, SLOT};
use super::view::Node;
use crate::base::bytes::get_u16;
use crate::btree::limits::WIDE_BIT;
use crate::pool::page::{page_index, page_type};
use crate::pool::PageType;

impl<'a> Node<'a> {
    /// As `entry`, for a page that was not checked. None: the slot or the entry is not in the page.
    fn entry_if_sound(&self, slot: usize) -> Option<(&'a [u8], &'a [u8])> {
        let place = NODE_HEADER + slot * SLOT + 4;
        let at = u16::from_le_bytes(self.0.get(place..place + 2)?.try_into().ok()?) as usize;
        let header = self.0.get(at..at + ENTRY_HEADER)?;
        let key_end = at + ENTRY_HEADER + get_u16(header, 0) as usize;
        let value_end = key_end + get_u16(header, 2) as usize;
        Some((self.0.get(at + ENTRY_HEADER..key_end)?, self.0.get(key_end..value_end)?))
    }
    /// Err: reading the node or searching in it could leave the page. Each offset is checked before
    /// it is followed.
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
    /// Err: heap pieces overlap, counts disagree or keys are out of order. For CHECK TABLE and
    /// asserts.
    pub fn validate(&self) -> Result<(), String> {
        self.check_bounds()?;
        let mut pieces = self.pieces();
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

/// Checks a page just read ([`PoolConfig::check_body`](crate::pool::PoolConfig)). Err: the page is
/// a node that cannot be used. A node that was allocated and not written yet is empty, and passes.
pub fn check_body(page: &[u8]) -> Result<(), String> {
    let node = Node::new(page);
    let is_filled = page_type(page) == PageType::Tree as u8 && node.heap() != 0;
    // A page of a wide node is a part of it. `Nodes` checks the node once all parts are read.
    match is_filled && page_index(page) & WIDE_BIT == 0 {
        true => node.check_bounds(),
        false => Ok(()),
    }
}

/// Calls `each` with the entries of any page until `each` returns false. True: the page is a leaf,
/// and `each` saw all of its entries.
pub fn leaf_entries(page: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> bool {
    let node = Node::new(page);
    page_type(page) == PageType::Tree as u8
        && page_index(page) & WIDE_BIT == 0
        && node.level() == 0
        && (0..node.len()).all(|slot| node.entry_if_sound(slot).is_some_and(|(key, value)| each(key, value)))
}

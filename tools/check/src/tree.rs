//! One B+tree, from its root down. The node format is drawn in `engine/src/btree/node/format.rs`.
//! Checks each node by itself, the range that its parent routes to it, and the links along each
//! level. Gives every entry of the leaves in order. A node of a wide tree
//! (`engine/src/btree/nodes.rs`) is four pages that follow each other: the first, and then the
//! bodies of the others.
use crate::bytes::{u16_at, u32_at};
use crate::page::{self, BODY};
use crate::store::Store;
use std::collections::{BTreeMap, BTreeSet};

const SLOTS_AT: usize = BODY + 24;
const SLOT: usize = 6;
const NO_BOUND: u16 = 0xffff;

/// A node whose pieces all lie inside the page.
pub struct Node<'a> {
    page: &'a [u8],
    pub lower: &'a [u8],
    pub upper: Option<&'a [u8]>,
    pub right: u32,
    slots: usize,
}

impl<'a> Node<'a> {
    pub fn new(page: &'a [u8]) -> Result<Node<'a>, String> {
        let slots = u16_at(page, BODY) as usize;
        let heap = u16_at(page, BODY + 2) as usize;
        if heap > page.len() || SLOTS_AT + slots * SLOT > heap {
            return Err(format!("its {slots} slots reach into its heap at {heap}"));
        }
        let piece = |at: usize, len: usize| {
            page.get(at..at + len)
                .ok_or("a key or fence leaves the page".to_string())
        };
        let upper_len = u16_at(page, BODY + 16);
        let node = Node {
            page,
            lower: piece(u16_at(page, BODY + 10) as usize, u16_at(page, BODY + 12) as usize)?,
            upper: match upper_len {
                NO_BOUND => None,
                len => Some(piece(u16_at(page, BODY + 14) as usize, len as usize)?),
            },
            right: u32_at(page, BODY + 20),
            slots,
        };
        for slot in 0..slots {
            let at = node.place(slot);
            piece(at, 4 + u16_at(page, at) as usize + u16_at(page, at + 2) as usize)?;
        }
        node.check_bytes(heap)?;
        node.check_order()?;
        Ok(node)
    }
    fn place(&self, slot: usize) -> usize {
        u16_at(self.page, SLOTS_AT + slot * SLOT + 4) as usize
    }
    pub fn len(&self) -> usize {
        self.slots
    }
    pub fn key(&self, slot: usize) -> &'a [u8] {
        let at = self.place(slot);
        &self.page[at + 4..at + 4 + u16_at(self.page, at) as usize]
    }
    pub fn value(&self, slot: usize) -> &'a [u8] {
        let at = self.place(slot);
        let from = at + 4 + u16_at(self.page, at) as usize;
        &self.page[from..from + u16_at(self.page, at + 2) as usize]
    }
    /// Live pieces do not overlap, and with the dead bytes they make up the heap.
    fn check_bytes(&self, heap: usize) -> Result<(), String> {
        let mut pieces: Vec<(usize, usize)> = (0..self.slots)
            .map(|slot| (self.place(slot), 4 + self.key(slot).len() + self.value(slot).len()))
            .collect();
        pieces.push((u16_at(self.page, BODY + 10) as usize, self.lower.len()));
        pieces.push((u16_at(self.page, BODY + 14) as usize, self.upper.map_or(0, <[u8]>::len)));
        pieces.retain(|(_, len)| *len > 0);
        pieces.sort_unstable();
        let mut end = heap;
        let mut live = 0;
        for (at, len) in pieces {
            if at < end {
                return Err(format!("two pieces of its heap overlap at {at}"));
            }
            (end, live) = (at + len, live + len);
        }
        let dead = u16_at(self.page, BODY + 6) as usize;
        if live + dead != self.page.len() - heap {
            return Err(format!(
                "{live} live and {dead} dead bytes do not make up its heap of {}",
                self.page.len() - heap
            ));
        }
        Ok(())
    }
    fn check_order(&self) -> Result<(), String> {
        let inner = page::level(self.page) > 0;
        if inner && (self.slots == 0 || !self.key(0).is_empty()) {
            return Err("an inner node must begin with a child under the empty key".into());
        }
        let prefix = u16_at(self.page, BODY + 8) as usize;
        let first = inner as usize;
        for slot in first..self.slots {
            let key = self.key(slot);
            if key < self.lower || self.upper.is_some_and(|upper| key >= upper) {
                return Err(format!("the key in slot {slot} is outside its fences"));
            }
            if slot > first && self.key(slot - 1) >= key {
                return Err(format!("the keys in slots {} and {slot} are out of order", slot - 1));
            }
            if key.get(..prefix) != self.key(first).get(..prefix) {
                return Err(format!("the key in slot {slot} lacks the common prefix"));
            }
            let mut head = [0; 4];
            let rest = &key[prefix..];
            head[..rest.len().min(4)].copy_from_slice(&rest[..rest.len().min(4)]);
            if u32_at(self.page, SLOTS_AT + slot * SLOT) != u32::from_be_bytes(head) {
                return Err(format!("the head in slot {slot} is not its key's"));
            }
        }
        Ok(())
    }
}

/// Set in the number of an index whose nodes are of several pages.
const WIDE_BIT: u32 = 1 << 30;
const WIDE_PAGES: u32 = 4;

/// The pages of the node that begins in page `no`.
pub fn pages_of(index: u32, no: u32) -> std::ops::Range<u32> {
    no..no.saturating_add(if index & WIDE_BIT == 0 { 1 } else { WIDE_PAGES })
}

/// The whole node of which `page` is the first page.
pub fn join(store: &Store, file: u32, no: u32, page: Vec<u8>) -> Result<Vec<u8>, String> {
    let mut bytes = page;
    let index = page::index(&bytes);
    for no in pages_of(index, no).skip(1) {
        let rest = store.read(file, no).map_err(|what| format!("its page {no}: {what}"))?;
        if page::kind(&rest) != page::TREE_REST || page::index(&rest) != index {
            return Err(format!("page {no} is not the rest of it"));
        }
        bytes.extend_from_slice(&rest[BODY..]);
    }
    Ok(bytes)
}

/// What a walk found.
#[derive(Default)]
pub struct Walked {
    pub pages: BTreeSet<u32>,
    pub entries: u64,
    pub height: u32,
    pub findings: Vec<String>,
}

pub type EachEntry<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

struct Walk<'a> {
    store: &'a Store,
    file: u32,
    index: u32,
    each: EachEntry<'a>,
    found: Walked,
    /// The last page met on each level, and its right link.
    last: BTreeMap<u8, (u32, u32)>,
}

pub fn walk(store: &Store, file: u32, index: u32, root: u32, each: EachEntry<'_>) -> Walked {
    let mut walk = Walk {
        store,
        file,
        index,
        each,
        found: Walked::default(),
        last: BTreeMap::new(),
    };
    walk.visit(root, None, &[], None);
    let links: Vec<(u32, u32)> = walk.last.values().copied().filter(|(_, right)| *right != 0).collect();
    for (no, right) in links {
        walk.finding(no, &format!("it is the last of its level, and links to page {right}"));
    }
    walk.found
}

impl Walk<'_> {
    fn finding(&mut self, no: u32, what: &str) {
        let name = self.store.name_of(self.file);
        self.found.findings.push(format!("{name} page {no}: {what}"));
    }
    fn visit(&mut self, no: u32, level: Option<u8>, lower: &[u8], upper: Option<&[u8]>) {
        for part in pages_of(self.index, no) {
            if !self.found.pages.insert(part) {
                return self.finding(part, "it is in the tree twice");
            }
        }
        let page = match self.store.read(self.file, no) {
            Ok(page) => page,
            Err(what) => {
                // What links to it cannot be judged any more.
                self.last.clear();
                return self.finding(no, &what);
            }
        };
        if page::kind(&page) != page::TREE
            || page::index(&page) != self.index
            || level.is_some_and(|l| l != page::level(&page))
        {
            return self.finding(
                no,
                "its parent (or the catalog) points to it, but it is no page of this index and level",
            );
        }
        let page = match join(self.store, self.file, no, page) {
            Ok(page) => page,
            Err(what) => return self.finding(no, &what),
        };
        let node = match Node::new(&page) {
            Ok(node) => node,
            Err(what) => return self.finding(no, &what),
        };
        let level = page::level(&page);
        self.found.height = self.found.height.max(level as u32 + 1);
        if node.lower != lower || node.upper != upper {
            self.finding(no, "its fences are not its separators in the parent");
        }
        if let Some((left, right)) = self.last.insert(level, (no, node.right)) {
            if right != no {
                self.finding(
                    left,
                    &format!("its right link is page {right}, its neighbour is page {no}"),
                );
            }
        }
        if level == 0 {
            for slot in 0..node.len() {
                self.found.entries += 1;
                (self.each)(node.key(slot), node.value(slot));
            }
            return;
        }
        for slot in 0..node.len() {
            let lower = if slot == 0 { node.lower } else { node.key(slot) };
            let upper = if slot + 1 < node.len() {
                Some(node.key(slot + 1))
            } else {
                node.upper
            };
            self.visit(u32_at(node.value(slot), 0), Some(level - 1), lower, upper);
        }
    }
}

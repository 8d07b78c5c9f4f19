//! The open read views, oldest first: they bound purge, and name the connection that holds it back.
//!
//! Views are opened in the order of their `low` and `commit_no`, which only grow. So a list in the
//! order of opening has the oldest at its head. The list is doubly linked and lies in a slab: open
//! and close are a few stores, whatever the number of views.
//! Plain data under the mutex of [`Visibility`](crate::txn::visibility::Visibility).
use super::snapshot::ReadView;
use crate::base::TrxId;

const NIL: u32 = u32::MAX;

/// Names an open view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::txn) struct ViewSlot(u32);

#[derive(Clone, Copy, Debug)]
struct Node {
    prev: u32,
    next: u32,
    low: TrxId,
    commit_no: u64,
    connection: u64,
    opened_us: u64,
}

/// The view that holds purge back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OldestView {
    pub low: TrxId,
    pub commit_no: u64,
    pub connection: u64,
    /// Clock of the view's making, to the second.
    pub opened_us: u64,
}

pub(in crate::txn) struct ViewRegistry {
    nodes: Vec<Node>,
    free: Vec<u32>,
    head: u32,
    tail: u32,
}

impl Default for ViewRegistry {
    fn default() -> Self {
        ViewRegistry {
            nodes: Vec::new(),
            free: Vec::new(),
            head: NIL,
            tail: NIL,
        }
    }
}

impl ViewRegistry {
    pub fn open(&mut self, view: &ReadView, connection: u64, opened_us: u64) -> ViewSlot {
        let node = Node {
            prev: self.tail,
            next: NIL,
            low: view.low,
            commit_no: view.commit_no,
            connection,
            opened_us,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        match self.tail {
            NIL => self.head = at,
            tail => {
                let before = &mut self.nodes[tail as usize];
                debug_assert!(before.low <= node.low && before.commit_no <= node.commit_no);
                before.next = at;
            }
        }
        self.tail = at;
        ViewSlot(at)
    }
    /// True if it was the oldest: the horizon may have moved.
    pub fn close(&mut self, slot: ViewSlot) -> bool {
        let Node { prev, next, .. } = self.nodes[slot.0 as usize];
        debug_assert!(
            match prev {
                NIL => self.head == slot.0,
                prev => self.nodes[prev as usize].next == slot.0,
            },
            "a view is closed once, and its neighbours in the list know it"
        );
        debug_assert!(
            match next {
                NIL => self.tail == slot.0,
                next => self.nodes[next as usize].prev == slot.0,
            },
            "a view is closed once, and its neighbours in the list know it"
        );
        match prev {
            NIL => self.head = next,
            prev => self.nodes[prev as usize].next = next,
        }
        match next {
            NIL => self.tail = prev,
            next => self.nodes[next as usize].prev = prev,
        }
        self.free.push(slot.0);
        debug_assert_eq!(self.head == NIL, self.len() == 0, "the list holds what the slab does");
        prev == NIL
    }
    pub fn oldest(&self) -> Option<OldestView> {
        debug_assert_eq!(self.head == NIL, self.tail == NIL, "an empty list has neither end");
        let node = self.nodes.get(self.head as usize)?;
        debug_assert_eq!(node.prev, NIL, "no view is older than the first of the list");
        Some(OldestView {
            low: node.low,
            commit_no: node.commit_no,
            connection: node.connection,
            opened_us: node.opened_us,
        })
    }
    pub fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(n: u64) -> ReadView {
        ReadView {
            low: n,
            high: n,
            commit_no: n,
            ..ReadView::default()
        }
    }

    #[test]
    fn the_oldest_open_view_is_found_whatever_the_order_of_closing() {
        let mut registry = ViewRegistry::default();
        assert_eq!(registry.oldest(), None);
        let mut open: Vec<(u64, ViewSlot)> = Vec::new();
        let mut random = 7u64;
        for n in 1..2_000u64 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            if random >> 62 != 0 || open.is_empty() {
                open.push((n, registry.open(&view(n), n * 10, n * 100)));
            } else {
                let (closed, slot) = open.remove((random >> 8) as usize % open.len());
                let was_oldest = open.iter().all(|(other, _)| *other > closed);
                assert_eq!(registry.close(slot), was_oldest);
            }
            let oldest = open.iter().map(|(n, _)| *n).min();
            assert_eq!(registry.oldest().map(|o| o.commit_no), oldest);
            assert_eq!(registry.oldest().map(|o| o.connection), oldest.map(|n| n * 10));
            assert_eq!(registry.len(), open.len());
        }
    }
}

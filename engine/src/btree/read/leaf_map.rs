//! [`LeafMap`]: the key ranges of a tree's leaves, as the level above the leaves has them.
//!
//! Statistics choose from it the leaves that they read. In a large tree some nodes of that level
//! are read, evenly spaced: they stand for the others. Latches: S, one page at a time. The tree may
//! change meanwhile: a range is where a leaf was. Called by: the statistics of `table`.
use super::descent::To;
use crate::base::{PageNo, Result};
use crate::btree::node::Node;
use crate::btree::tree::Tree;
use crate::pool::Pool;

/// The ranges of consecutive leaves.
#[derive(Default, Debug)]
pub struct LeafRanges {
    /// Lower bounds, one after the other.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    pages: Vec<PageNo>,
    /// Where the last range ends; None: at the end of the tree.
    upper: Option<Vec<u8>>,
}

impl LeafRanges {
    pub fn len(&self) -> usize {
        self.pages.len()
    }
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }
    /// Lower bound of the leaf's keys.
    pub fn lower(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start..self.ends[i]]
    }
    /// Upper bound of the leaf's keys, not one of them itself. None: the leaf is the last one.
    pub fn upper(&self, i: usize) -> Option<&[u8]> {
        match i + 1 < self.len() {
            true => Some(self.lower(i + 1)),
            false => self.upper.as_deref(),
        }
    }
    pub fn page(&self, i: usize) -> PageNo {
        self.pages[i]
    }
    fn push(&mut self, lower: &[u8], page: PageNo) {
        self.bytes.extend_from_slice(lower);
        self.ends.push(self.bytes.len());
        self.pages.push(page);
        debug_assert_eq!(self.ends.len(), self.pages.len(), "a lower bound for each leaf");
    }
    /// The ranges of the leaves below the node above them that owns `bound`, of those that meet
    /// [lo, hi).
    fn of_node(tree: &Tree, pool: &Pool, bound: &[u8], lo: &[u8], hi: Option<&[u8]>) -> Result<LeafRanges> {
        let mut ranges = LeafRanges::default();
        let page = tree.descend(pool, To::Key(bound), 1)?;
        let node = Node::new(&page);
        if node.level() != 1 {
            return Ok(ranges); // The tree has become a single leaf.
        }
        let lower_of = |slot: usize| if slot == 0 { node.lower_fence() } else { node.key(slot) };
        ranges.upper = node.upper_fence().map(<[u8]>::to_vec);
        for slot in 0..node.len() {
            let ends_before = slot + 1 < node.len() && lower_of(slot + 1) <= lo;
            if ends_before {
                continue;
            }
            if hi.is_some_and(|hi| lower_of(slot) >= hi) {
                ranges.upper = Some(lower_of(slot).to_vec());
                break;
            }
            ranges.push(lower_of(slot), node.child(slot));
        }
        Ok(ranges)
    }
}

#[derive(Default, Debug)]
pub struct LeafMap {
    /// One for each node that was read.
    pub groups: Vec<LeafRanges>,
    /// Nodes of the level above the leaves that the groups stand for.
    pub nodes: usize,
}

impl LeafMap {
    /// How many nodes each group stands for.
    pub fn weight(&self) -> f64 {
        debug_assert!(
            self.groups.len() <= self.nodes,
            "a group stands for its own node at least"
        );
        self.nodes as f64 / self.groups.len().max(1) as f64
    }
    /// Leaves in all; estimated unless every node was read.
    pub fn leaves(&self) -> u64 {
        let read: usize = self.groups.iter().map(LeafRanges::len).sum();
        (read as f64 * self.weight()).round() as u64
    }
    /// The leaves of `tree` whose ranges meet [lo, hi). At most `nodes_max` nodes of the level
    /// above the leaves are read; `random` chooses where they begin.
    pub fn read(
        tree: &Tree,
        pool: &Pool,
        lo: &[u8],
        hi: Option<&[u8]>,
        nodes_max: usize,
        random: u64,
    ) -> Result<LeafMap> {
        let root = tree.read_root(pool)?;
        let height = Node::new(&root).level();
        drop(root);
        if height == 0 {
            let mut only = LeafRanges::default();
            only.push(&[], tree.root);
            return Ok(LeafMap {
                groups: vec![only],
                nodes: 1,
            });
        }
        let nodes = lower_bounds_above_leaves(tree, pool, lo, hi)?;
        let step = (nodes.len() as f64 / nodes_max.max(1) as f64).max(1.0);
        let first = random % (step as u64).max(1);
        let mut groups = Vec::new();
        let mut at = first as f64;
        while (at as usize) < nodes.len() && groups.len() < nodes_max.max(1) {
            let group = LeafRanges::of_node(tree, pool, &nodes[at as usize], lo, hi)?;
            if !group.is_empty() {
                groups.push(group);
            }
            at += step;
        }
        Ok(LeafMap {
            groups,
            nodes: nodes.len(),
        })
    }
}

/// Where the ranges of the nodes above the leaves begin, of those that meet [lo, hi).
fn lower_bounds_above_leaves(tree: &Tree, pool: &Pool, lo: &[u8], hi: Option<&[u8]>) -> Result<Vec<Vec<u8>>> {
    let mut bounds = Vec::new();
    let mut page = tree.descend(pool, To::Key(lo), 2)?;
    loop {
        let node = Node::new(&page);
        if node.level() < 2 {
            return Ok(vec![lo.to_vec()]); // The root is the only node above the leaves.
        }
        let first = if bounds.is_empty() {
            tree.nodes().route(node, page.id().no, To::Key(lo))?
        } else {
            0
        };
        for slot in first..node.len() {
            let lower = if slot == 0 { node.lower_fence() } else { node.key(slot) };
            if hi.is_some_and(|hi| lower >= hi) {
                return Ok(bounds);
            }
            bounds.push(lower.max(lo).to_vec());
        }
        let Some(right) = node.right() else { return Ok(bounds) };
        page = tree.nodes().read(pool, right)?;
        tree.nodes().check_arrival(Node::new(&page), right, Some(2))?;
    }
}

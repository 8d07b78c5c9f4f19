//! Sizes without a full scan: entries in a range, pages of a tree, a random leaf. For the optimizer's questions.
use super::descend::To;
use super::node::Node;
use super::{LeafRead, Seek, Tree, TreeStats};
use crate::base::Result;
use crate::pool::Pool;

/// One level of a path: the slot taken, of how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rung {
    slot: usize,
    len: usize,
}

/// Ranges that lie in at most this many leaves of one parent are counted, not estimated.
const COUNTED_LEAVES: usize = 5;

impl Tree {
    /// Exact: walks the level above the leaves and those over it (one page in some hundred of the tree). Callers that ask often
    /// keep the answer for a while.
    pub fn stats(&self, pool: &Pool) -> Result<TreeStats> {
        let mut stats = TreeStats::default();
        let root = self.descend(pool, To::First, u8::MAX)?;
        let height = Node::new(&root).level() as u32 + 1;
        drop(root);
        stats.height = height;
        if height == 1 {
            stats.leaf_pages = u64::from(self.node_pages());
            return Ok(stats);
        }
        for level in 1..height {
            let mut page = self.descend(pool, To::First, level as u8)?;
            loop {
                let node = Node::new(&page);
                stats.inner_pages += u64::from(self.node_pages());
                if level == 1 {
                    stats.leaf_pages += node.len() as u64 * u64::from(self.node_pages());
                }
                let Some(right) = node.right() else { break };
                page = self.read(pool, right)?;
            }
        }
        Ok(stats)
    }
    /// Estimated number of entries in [lo, hi); None = open. One descent, and exact, if the ends lie at most some leaves apart under one
    /// parent; else two more, and interpolation per level.
    pub fn estimate_range(&self, pool: &Pool, lo: Option<&[u8]>, hi: Option<&[u8]>) -> Result<u64> {
        if matches!((lo, hi), (Some(lo), Some(hi)) if lo >= hi) {
            return Ok(0);
        }
        if let Some(entries) = self.count_near(pool, lo, hi)? {
            return Ok(entries);
        }
        let from = self.rungs(pool, lo.map_or(To::First, To::Key))?;
        let to = self.rungs(pool, hi.map_or(To::Last, To::Key))?;
        if from.len() != to.len() {
            // The root was split or pulled up in between: ask again, the tree is small.
            return self.count(pool, lo, hi);
        }
        match from.iter().zip(&to).position(|(a, b)| a.slot != b.slot) {
            None => Ok(0),
            Some(fork) if fork + 1 == from.len() => Ok(to[fork].slot.saturating_sub(from[fork].slot) as u64),
            Some(fork) => Ok(interpolate(&from, &to, fork)),
        }
    }
    /// The number of entries in [lo, hi) where both ends lie in one leaf, or in two of one parent that are near each other. None: they do not.
    fn count_near(&self, pool: &Pool, lo: Option<&[u8]>, hi: Option<&[u8]>) -> Result<Option<u64>> {
        let (from, to) = (lo.map_or(To::First, To::Key), hi.map_or(To::Last, To::Key));
        let mut page = self.read(pool, self.root)?;
        self.check_arrival(Node::new(&page), self.root, None)?;
        let mut leaves = 1;
        loop {
            let (node, no) = (Node::new(&page), page.id().no);
            if node.level() == 0 {
                let slot = self.search_leaf(node, no, from)?.0;
                return Ok(Some(self.count_leaves(pool, LeafRead { page, slot }, hi, leaves)?));
            }
            let (first, last) = (self.route(node, no, from)?, self.route(node, no, to)?);
            leaves = last.saturating_sub(first) + 1;
            if leaves > 1 && (node.level() > 1 || leaves > COUNTED_LEAVES) {
                return Ok(None);
            }
            let no = node.child(first);
            let child = self.read(pool, no)?;
            self.check_arrival(Node::new(&child), no, Some(node.level() - 1))?;
            page = child;
        }
    }
    /// The path to a key: root first, the leaf's rung last (slot = entries before the key).
    fn rungs(&self, pool: &Pool, to: To<'_>) -> Result<Vec<Rung>> {
        let mut rungs = Vec::with_capacity(4);
        let mut page = self.read(pool, self.root)?;
        self.check_arrival(Node::new(&page), self.root, None)?;
        loop {
            let node = Node::new(&page);
            let len = node.len();
            if node.level() == 0 {
                let slot = self.search_leaf(node, page.id().no, to)?.0;
                rungs.push(Rung { slot, len });
                return Ok(rungs);
            }
            let slot = self.route(node, page.id().no, to)?;
            rungs.push(Rung { slot, len });
            let no = node.child(slot);
            let child = self.read(pool, no)?;
            self.check_arrival(Node::new(&child), no, Some(node.level() - 1))?;
            page = child;
        }
    }
    /// Counts the entries in [lo, hi), leaf by leaf.
    fn count(&self, pool: &Pool, lo: Option<&[u8]>, hi: Option<&[u8]>) -> Result<u64> {
        let leaf = match lo {
            Some(lo) => self.seek(pool, Seek::Ge, lo)?,
            None => self.seek(pool, Seek::First, &[])?,
        };
        leaf.map_or(Ok(0), |leaf| self.count_leaves(pool, leaf, hi, usize::MAX))
    }
    /// Counts the entries before `hi` from where `leaf` stands, in at most `leaves_max` leaves.
    fn count_leaves(&self, pool: &Pool, leaf: LeafRead<'_>, hi: Option<&[u8]>, leaves_max: usize) -> Result<u64> {
        let mut leaf = leaf;
        let mut n = 0;
        for left in (0..leaves_max).rev() {
            let inside = hi.is_none_or(|hi| leaf.upper_fence().is_some_and(|upper| upper < hi));
            let end = match hi.filter(|_| !inside) {
                Some(hi) => leaf.search(hi).0,
                None => leaf.len(),
            };
            n += end.saturating_sub(leaf.slot()) as u64;
            if !inside || left == 0 {
                break;
            }
            match self.step_right(pool, leaf)? {
                Some(next) => leaf = next,
                None => break,
            }
        }
        Ok(n)
    }
    /// A leaf reached by random child choices. None: it is empty.
    pub fn random_leaf<'p>(&self, pool: &'p Pool) -> Result<Option<LeafRead<'p>>> {
        let (leaf, _) = self.random_path(pool, pool.disk().random())?;
        Ok((!leaf.is_empty()).then_some(leaf))
    }
    /// Estimated sum, over all leaves, of what `each` says of one: (entries, bytes), say. So many random leaves are read, each of which stands for as many
    /// as its path has turnings: right on the average, whatever the shape of the tree. Those that cannot be read are taken to be as the others.
    /// Error: none can.
    pub fn estimate_sums(
        &self,
        pool: &Pool,
        leaves: u64,
        each: &dyn Fn(&LeafRead<'_>) -> (u64, u64),
    ) -> Result<(u64, u64)> {
        let mut dice = pool.disk().random();
        let mut sums = (0, 0);
        let (mut read, mut failed) = (0, None);
        for _ in 0..leaves {
            let path = self.random_path(pool, dice);
            dice = turned(dice.wrapping_add(1));
            let (leaf, stands_for) = match path {
                Ok(path) => path,
                Err(e) => {
                    failed = Some(e);
                    continue;
                }
            };
            read += 1;
            let of_leaf = each(&leaf);
            // No sum of a sound tree comes near the top.
            sums.0 = of_leaf.0.saturating_mul(stands_for).saturating_add(sums.0);
            sums.1 = of_leaf.1.saturating_mul(stands_for).saturating_add(sums.1);
        }
        match failed.filter(|_| read == 0) {
            Some(e) => Err(e),
            None => Ok((sums.0 / read.max(1), sums.1 / read.max(1))),
        }
    }
    /// And how many leaves there are if all paths have as many turnings.
    fn random_path<'p>(&self, pool: &'p Pool, mut dice: u64) -> Result<(LeafRead<'p>, u64)> {
        let mut page = self.read(pool, self.root)?;
        self.check_arrival(Node::new(&page), self.root, None)?;
        let mut leaves = 1;
        loop {
            let node = Node::new(&page);
            if node.level() == 0 {
                return Ok((LeafRead { page, slot: 0 }, leaves));
            }
            let slot = (dice % node.len() as u64) as usize;
            leaves = node.len() as u64 * leaves.min(u32::MAX as u64);
            dice = turned(dice);
            let no = node.child(slot);
            let child = self.read(pool, no)?;
            self.check_arrival(Node::new(&child), no, Some(node.level() - 1))?;
            page = child;
        }
    }
}

fn turned(dice: u64) -> u64 {
    dice.rotate_left(21).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Below the fork: what lies right of the lower path and left of the upper one. Whole subtrees count as the average of the two paths.
fn interpolate(from: &[Rung], to: &[Rung], fork: usize) -> u64 {
    let leaf = from.len() - 1;
    let mut entries = (from[leaf].len - from[leaf].slot + to[leaf].slot) as f64;
    let average = |i: usize| (from[i].len + to[i].len).max(1) as f64 / 2.0;
    let mut subtree = average(leaf);
    for i in (fork + 1..leaf).rev() {
        let whole = from[i].len - 1 - from[i].slot + to[i].slot;
        entries += whole as f64 * subtree;
        subtree *= average(i);
    }
    entries += to[fork].slot.saturating_sub(from[fork].slot + 1) as f64 * subtree;
    entries as u64
}

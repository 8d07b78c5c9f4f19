//! Sizes without a full scan: the entries in a range, the pages of a tree, a random leaf.
//!
//! Latches: S, coupled downwards and to the right. Called by: the optimizer's questions and the
//! statistics of `table`, and the change buffer for its delta trees.
use super::cursor::Seek;
use super::descent::To;
use super::leaf::LeafRead;
use crate::base::Result;
use crate::btree::node::Node;
use crate::btree::tree::Tree;
use crate::pool::Pool;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    pub leaf_pages: u64,
    pub inner_pages: u64,
    /// Levels, the leaves counted.
    pub height: u32,
}

/// One level of a path: the slot taken, out of how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rung {
    slot: usize,
    len: usize,
}

/// A range in at most this many leaves of one parent is counted, not estimated.
const COUNTED_LEAVES: usize = 5;

impl Tree {
    /// Exact: walks all levels above the leaves (one page in some hundred of the tree). Callers
    /// that ask often keep the answer for a while.
    pub fn stats(&self, pool: &Pool) -> Result<TreeStats> {
        let mut stats = TreeStats::default();
        let root = self.read_root(pool)?;
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
                page = self.nodes().read(pool, right)?;
            }
        }
        Ok(stats)
    }
    /// Estimated number of entries in [lo, hi); None = open. Exact after one descent if the ends
    /// lie at most some leaves apart under one parent. Else two more descents and an interpolation
    /// per level.
    pub fn estimate_range(&self, pool: &Pool, lo: Option<&[u8]>, hi: Option<&[u8]>) -> Result<u64> {
        if matches!((lo, hi), (Some(lo), Some(hi)) if lo >= hi) {
            return Ok(0);
        }
        RangeCount {
            tree: *self,
            pool,
            lo,
            hi,
        }
        .estimate()
    }
    /// A leaf reached by random choices of children. None: the leaf is empty.
    pub fn random_leaf<'p>(&self, pool: &'p Pool) -> Result<Option<LeafRead<'p>>> {
        let (leaf, _) = self.random_path(pool, pool.disk().random())?;
        Ok((!leaf.is_empty()).then_some(leaf))
    }
    /// Estimated sums, over all leaves, of the two numbers that `each` returns for a leaf, for
    /// example (entries, bytes). Reads `leaves` random leaves. Each stands for as many leaves as
    /// its path had choices: right on the average, whatever the shape of the tree. Unreadable
    /// leaves count as the others do. Err: none of them is readable.
    pub fn estimate_sums(
        &self,
        pool: &Pool,
        leaves: u64,
        each: &dyn Fn(&LeafRead<'_>) -> (u64, u64),
    ) -> Result<(u64, u64)> {
        let mut random = pool.disk().random();
        let mut sums = (0, 0);
        let (mut read, mut failed) = (0, None);
        for _ in 0..leaves {
            let path = self.random_path(pool, random);
            random = turned(random.wrapping_add(1));
            let (leaf, stands_for) = match path {
                Ok(path) => path,
                Err(e) => {
                    failed = Some(e);
                    continue;
                }
            };
            read += 1;
            let of_leaf = each(&leaf);
            // No sum over a sound tree comes near the largest u64.
            sums.0 = of_leaf.0.saturating_mul(stands_for).saturating_add(sums.0);
            sums.1 = of_leaf.1.saturating_mul(stands_for).saturating_add(sums.1);
        }
        match failed.filter(|_| read == 0) {
            Some(e) => Err(e),
            None => Ok((sums.0 / read.max(1), sums.1 / read.max(1))),
        }
    }
    /// A leaf at the end of a random path, and how many leaves the tree has if every path offers as
    /// many choices.
    fn random_path<'p>(&self, pool: &'p Pool, mut random: u64) -> Result<(LeafRead<'p>, u64)> {
        let mut page = self.read_root(pool)?;
        let mut leaves = 1;
        loop {
            let node = Node::new(&page);
            if node.level() == 0 {
                return Ok((LeafRead { page, slot: 0 }, leaves));
            }
            let slot = (random % node.len() as u64) as usize;
            leaves = node.len() as u64 * leaves.min(u32::MAX as u64);
            debug_assert!(leaves > 0, "a leaf stands for itself at least");
            random = turned(random);
            let child = self.nodes().read_child(pool, node, slot)?;
            page = child;
        }
    }
}

/// The next random number.
fn turned(random: u64) -> u64 {
    random.rotate_left(21).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The entries of a tree in [lo, hi), None = open: counted or estimated.
struct RangeCount<'a> {
    tree: Tree,
    pool: &'a Pool,
    lo: Option<&'a [u8]>,
    hi: Option<&'a [u8]>,
}

impl<'a> RangeCount<'a> {
    fn estimate(&self) -> Result<u64> {
        if let Some(entries) = self.count_near()? {
            return Ok(entries);
        }
        let from = self.rungs(self.from())?;
        let to = self.rungs(self.to())?;
        if from.len() != to.len() {
            // The root was split or merged away between the two descents. Such a tree is small.
            return self.count();
        }
        match from.iter().zip(&to).position(|(a, b)| a.slot != b.slot) {
            None => Ok(0),
            Some(fork) if fork + 1 == from.len() => Ok(to[fork].slot.saturating_sub(from[fork].slot) as u64),
            Some(fork) => Ok(interpolate(&from, &to, fork)),
        }
    }
    fn from(&self) -> To<'a> {
        self.lo.map_or(To::First, To::Key)
    }
    fn to(&self) -> To<'a> {
        self.hi.map_or(To::Last, To::Key)
    }
    /// The number of entries if both ends lie in one leaf, or in two leaves of one parent that are
    /// near each other. None: they do not.
    fn count_near(&self) -> Result<Option<u64>> {
        let nodes = self.tree.nodes();
        let (from, to) = (self.from(), self.to());
        let mut page = self.tree.read_root(self.pool)?;
        let mut leaves = 1;
        loop {
            let (node, no) = (Node::new(&page), page.id().no);
            if node.level() == 0 {
                let slot = nodes.search_leaf(node, no, from)?.0;
                return Ok(Some(self.count_leaves(LeafRead { page, slot }, leaves)?));
            }
            let (first, last) = (nodes.route(node, no, from)?, nodes.route(node, no, to)?);
            leaves = last.saturating_sub(first) + 1;
            if leaves > 1 && (node.level() > 1 || leaves > COUNTED_LEAVES) {
                return Ok(None);
            }
            let child = nodes.read_child(self.pool, node, first)?;
            page = child;
        }
    }
    /// The path to a key: the root first, the leaf's rung last (slot = entries before the key).
    fn rungs(&self, to: To<'_>) -> Result<Vec<Rung>> {
        let nodes = self.tree.nodes();
        let mut rungs = Vec::with_capacity(4);
        let mut page = self.tree.read_root(self.pool)?;
        loop {
            let node = Node::new(&page);
            let len = node.len();
            if node.level() == 0 {
                let slot = nodes.search_leaf(node, page.id().no, to)?.0;
                rungs.push(Rung { slot, len });
                return Ok(rungs);
            }
            let slot = nodes.route(node, page.id().no, to)?;
            rungs.push(Rung { slot, len });
            let child = nodes.read_child(self.pool, node, slot)?;
            page = child;
        }
    }
    /// Counts the entries leaf by leaf.
    fn count(&self) -> Result<u64> {
        let leaf = match self.lo {
            Some(lo) => self.tree.seek(self.pool, Seek::Ge, lo)?,
            None => self.tree.seek(self.pool, Seek::First, &[])?,
        };
        leaf.map_or(Ok(0), |leaf| self.count_leaves(leaf, usize::MAX))
    }
    /// Counts the entries before `hi` from the slot of `leaf` on, in at most `leaves_max` leaves.
    fn count_leaves(&self, leaf: LeafRead<'_>, leaves_max: usize) -> Result<u64> {
        let mut leaf = leaf;
        let mut n = 0;
        for left in (0..leaves_max).rev() {
            let inside = (self.hi).is_none_or(|hi| leaf.upper_fence().is_some_and(|upper| upper < hi));
            let end = match self.hi.filter(|_| !inside) {
                Some(hi) => leaf.search(hi).0,
                None => leaf.len(),
            };
            n += end.saturating_sub(leaf.slot()) as u64;
            if !inside || left == 0 {
                break;
            }
            match self.tree.step_right(self.pool, leaf)? {
                Some(next) => leaf = next,
                None => break,
            }
        }
        Ok(n)
    }
}

/// Entries below the fork: those right of the lower path and left of the upper one. Whole subtrees
/// count as the average of the two paths.
fn interpolate(from: &[Rung], to: &[Rung], fork: usize) -> u64 {
    let leaf = from.len() - 1;
    debug_assert!(
        fork < leaf && to.len() == from.len(),
        "the two paths part above the leaves"
    );
    debug_assert!(
        from.iter().chain(to).all(|rung| rung.slot <= rung.len),
        "a path takes slots of its nodes"
    );
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

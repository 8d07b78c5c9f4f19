//! Merges: an under-full node goes together with a neighbour of the same parent when both fit well in one page.
//!
//! The left page stays, the right one is freed, so nobody to the left has to be touched. The plan is made and every tree page
//! latched before the first page is freed: bitmap latches come after tree latches (I5). A left neighbour is only tried for, for it
//! lies against the order. A merge is an economy, never a need: whatever stands in its way calls it off.
use super::edit::{self, MtrPage};
use super::node::{write_node, NewNode, Node, AT_TYPE, NO_SLOT, SLOT};
use super::{begin, Intent, Tree};
use crate::base::{Error, PageId, Result};
use crate::pool::{Mtr, PageHandle, PageType, Pool};
use crate::space;

/// Below this many bytes of entries a node looks for a neighbour to merge with.
fn sparse(node: Node<'_>) -> usize {
    node.capacity() / 3
}
/// Two nodes are merged when the result leaves room for growth.
fn merged_max(node: Node<'_>) -> usize {
    node.capacity() / 4 * 3
}

/// How empty a node is, in steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sparse {
    No,
    Third,
    Sixth,
    Empty,
}

pub(super) fn sparseness(node: Node<'_>) -> Sparse {
    match live(node) {
        _ if node.is_empty() => Sparse::Empty,
        bytes if bytes < sparse(node) / 2 => Sparse::Sixth,
        bytes if bytes < sparse(node) => Sparse::Third,
        _ => Sparse::No,
    }
}

/// Bytes of the entries, fences not counted.
fn live(node: Node<'_>) -> usize {
    node.used() - node.lower_fence().len() - node.upper_fence().map_or(0, <[u8]>::len)
}

/// A removal below `child` of this node will not make it sparse: its ancestors need not be latched.
pub(super) fn is_safe(node: Node<'_>, child: usize, entry_max: usize) -> bool {
    if node.level() == 0 {
        return live(node) >= sparse(node) + entry_max;
    }
    let entry = |slot: usize| if slot < node.len() { node.entry_size(slot) } else { 0 };
    let lost = entry(child).max(entry(child + 1)) + SLOT;
    node.len() > 2 && live(node) >= sparse(node) + lost
}

/// One merge: `right` goes into `left`; the parent loses the entry in `slot`.
struct Merge {
    parent: PageHandle,
    left: PageHandle,
    right: PageHandle,
    slot: usize,
}

impl Tree {
    /// Merges the leaf that owns `key` with a neighbour if it is under-full, and if nothing, a neighbour that cannot be read for one, stands
    /// in the way. For those who have done what they were to do, and are not to fail for an economy: whoever needs that page meets the
    /// error himself.
    pub fn try_shrink(&self, pool: &Pool, key: &[u8]) -> Result<()> {
        match self.shrink(pool, key) {
            Err(e @ Error::Poisoned(_)) => Err(e),
            _ => Ok(()),
        }
    }
    /// Merges the leaf that owns `key` with a neighbour if it is under-full. An Mtr of its own. False: nothing was merged.
    pub fn shrink(&self, pool: &Pool, key: &[u8]) -> Result<bool> {
        let mut mtr = begin(pool)?;
        let at = self.leaf_for_write(&mut mtr, key, Intent::Shrink, None)?;
        let merged = self.merge_up(&mut mtr, &at.path, at.page)?;
        mtr.commit();
        Ok(merged)
    }
    /// Merges `leaf` if it is sparse, then whatever of `path` (root first) becomes sparse by that.
    pub(super) fn merge_up(&self, mtr: &mut Mtr<'_>, path: &[PageHandle], leaf: PageHandle) -> Result<bool> {
        let merges = self.plan_merges(mtr, path, leaf)?;
        let Some(top) = merges.last() else {
            return Ok(false);
        };
        let collapse = mtr.id(top.parent).no == self.root && Node::new(mtr.bytes(top.parent)).len() == 2;
        let nodes = merges
            .iter()
            .map(|merge| merge.right)
            .chain(collapse.then_some(top.left));
        let gone: Vec<PageId> = nodes.flat_map(|node| self.pages_of(mtr.id(node).no)).collect();
        space::free(mtr, &gone)?;
        for merge in &merges {
            self.merge(mtr, merge);
        }
        if collapse {
            self.pull_up(mtr, top.parent, top.left);
        }
        mtr.pool().counters().page_merges.add(merges.len() as u64);
        Ok(true)
    }
    fn plan_merges(&self, mtr: &mut Mtr<'_>, path: &[PageHandle], leaf: PageHandle) -> Result<Vec<Merge>> {
        let mut merges = Vec::new();
        let mut page = leaf;
        // What the merge below takes out of `page`: entries and bytes.
        let mut lost = (0, 0);
        for parent in path.iter().rev() {
            let node = Node::new(mtr.bytes(page));
            let sparse = live(node) < sparse(node) + lost.1 || (node.level() > 0 && node.len() - lost.0 < 2);
            if !sparse {
                break;
            }
            let Some(merge) = self.find_partner(mtr, *parent, page, lost)? else {
                // An only child has no neighbour until its parent has been merged with one.
                if merges.is_empty() && Node::new(mtr.bytes(*parent)).len() == 1 {
                    page = *parent;
                    continue;
                }
                break;
            };
            let node = Node::new(mtr.bytes(*parent));
            lost = (1, node.entry_size(merge.slot) + SLOT);
            merges.push(merge);
            page = *parent;
        }
        Ok(merges)
    }
    /// Latches a neighbour under the same parent with which `page` fits in one page: the right one, else the left one.
    fn find_partner(
        &self,
        mtr: &mut Mtr<'_>,
        parent: PageHandle,
        page: PageHandle,
        lost: (usize, usize),
    ) -> Result<Option<Merge>> {
        let above = Node::new(mtr.bytes(parent));
        let slot = above.child_slot(Node::new(mtr.bytes(page)).lower_fence());
        let right = (slot + 1 < above.len()).then(|| self.page_id(above.child(slot + 1)));
        let left = (slot > 0).then(|| self.page_id(above.child(slot - 1)));
        if let Some(id) = right.filter(|id| mtr.find(*id).is_none()) {
            let right = self.latch(mtr, id.no)?;
            if fit_together(mtr, page, right, lost) {
                let (left, slot) = (page, slot + 1);
                return Ok(Some(Merge {
                    parent,
                    left,
                    right,
                    slot,
                }));
            }
            mtr.release(right);
        }
        if let Some(id) = left.filter(|id| mtr.find(*id).is_none()) {
            if let Some(left) = mtr.try_write(id).map_err(|e| e.in_index(self.file, self.index))? {
                self.join_write(mtr, left)?;
                if fit_together(mtr, left, page, lost) {
                    let right = page;
                    return Ok(Some(Merge {
                        parent,
                        left,
                        right,
                        slot,
                    }));
                }
                mtr.release(left);
            }
        }
        Ok(None)
    }
    fn merge(&self, mtr: &mut Mtr<'_>, merge: &Merge) {
        let (left, right) = (mtr.bytes(merge.left).to_vec(), mtr.bytes(merge.right).to_vec());
        let (left, right) = (Node::new(&left), Node::new(&right));
        let mut items: Vec<_> = (0..left.len()).map(|slot| left.entry(slot)).collect();
        items.extend((0..right.len()).map(|slot| right.entry(slot)));
        if right.level() > 0 {
            items[left.len()].0 = right.lower_fence();
        }
        let new = NewNode {
            level: left.level(),
            lower: left.lower_fence(),
            upper: right.upper_fence(),
            right: right.right().unwrap_or(0),
            items: &items,
            last: NO_SLOT,
        };
        mtr.rewrite(merge.left, &mut |page| write_node(page, &new));
        mark_free(mtr, merge.right);
        let page = merge.parent;
        edit::remove(&mut MtrPage { mtr, page }, merge.slot);
    }
    /// The root has one child left: the child's content moves into it.
    fn pull_up(&self, mtr: &mut Mtr<'_>, root: PageHandle, child: PageHandle) {
        let copy = mtr.bytes(child).to_vec();
        let node = Node::new(&copy);
        let items: Vec<_> = (0..node.len()).map(|slot| node.entry(slot)).collect();
        let new = NewNode {
            level: node.level(),
            lower: &[],
            upper: None,
            right: 0,
            items: &items,
            last: NO_SLOT,
        };
        mtr.rewrite(root, &mut |page| write_node(page, &new));
        mark_free(mtr, child);
    }
}

/// The page's version changes with that, so no cursor comes back to it, and it is no tree page to whoever has its number.
pub(super) fn mark_free(mtr: &mut Mtr<'_>, page: PageHandle) {
    mtr.edit(page, AT_TYPE, &[PageType::Free as u8]);
}
/// As `mark_free`, of a page that a record, a list or the catalog names: freeing it is asked for again after a crash.
pub(super) fn mark_free_named(mtr: &mut Mtr<'_>, page: PageHandle) {
    mark_free(mtr, page);
    mtr.ends_named(page);
}

fn fit_together(mtr: &Mtr<'_>, left: PageHandle, right: PageHandle, lost: (usize, usize)) -> bool {
    let (left, right) = (Node::new(mtr.bytes(left)), Node::new(mtr.bytes(right)));
    let separator = if right.level() > 0 {
        right.lower_fence().len()
    } else {
        0
    };
    let fences = left.lower_fence().len() + right.upper_fence().map_or(0, <[u8]>::len);
    // `lost` is about one of the two, and only with inner nodes.
    let bytes = live(left) + live(right) + separator + fences - lost.1;
    let least = if left.level() > 0 { 1 } else { 0 };
    let tiny = left.len().min(right.len()) - lost.0.min(left.len().min(right.len())) <= least;
    bytes <= merged_max(left) || (tiny && bytes <= left.capacity())
}

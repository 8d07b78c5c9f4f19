//! Merges of nodes: a sparse node joins a neighbour of the same parent when both fit well into one
//! page.
//!
//! The left page stays and the right one is freed, so no page further left changes. The plan is
//! made and every tree page latched before the first page is freed: bitmap latches come after tree
//! latches (I5). A left neighbour lies against the latch order: it is only tried. A merge saves
//! space and is never needed: any obstacle cancels it. Called by: `leaf` and `latch`.
use crate::base::{PageId, PageNo, Result};
use crate::btree::node::edit::{self, MtrPage};
use crate::btree::node::{write_node, NewNode, Node, NO_SLOT, SLOT};
use crate::btree::pages::mark_free;
use crate::btree::tree::Tree;
use crate::pool::{Mtr, PageHandle};
use crate::space;

/// A node with fewer bytes of entries than this looks for a neighbour to merge with.
fn sparse(node: Node<'_>) -> usize {
    node.capacity() / 3
}
/// Two nodes are merged when the result leaves room for growth.
fn merged_max(node: Node<'_>) -> usize {
    node.capacity() / 4 * 3
}

/// How empty a node is, in steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sparse {
    No,
    Third,
    Sixth,
    Empty,
}

pub fn sparseness(node: Node<'_>) -> Sparse {
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

/// A removal below `child` of this node will not make the node sparse: its ancestors need no
/// latches.
pub fn is_safe(node: Node<'_>, child: usize, entry_max: usize) -> bool {
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

/// The merges for one sparse leaf, leaf first. All their nodes are X-latched.
struct MergePlan {
    tree: Tree,
    merges: Vec<Merge>,
}

/// Merges `leaf` if it is sparse, then each node of `path` (root first) that becomes sparse by
/// that. False: nothing was merged.
pub fn merge_up(tree: Tree, mtr: &mut Mtr<'_>, path: &[PageHandle], leaf: PageHandle) -> Result<bool> {
    let plan = MergePlan::new(tree, mtr, path, leaf)?;
    if plan.merges.is_empty() {
        return Ok(false);
    }
    plan.carry_out(mtr)?;
    Ok(true)
}

impl MergePlan {
    /// Plans the merge of `leaf` if it is sparse, then of each node of `path` (root first) that
    /// becomes sparse by that. Latches the neighbours.
    fn new(tree: Tree, mtr: &mut Mtr<'_>, path: &[PageHandle], leaf: PageHandle) -> Result<MergePlan> {
        let mut merges = Vec::new();
        let mut page = leaf;
        // Entries and bytes that the merge one level below takes out of `page`.
        let mut lost = (0, 0);
        for parent in path.iter().rev() {
            let node = Node::new(mtr.bytes(page));
            let sparse = live(node) < sparse(node) + lost.1 || (node.level() > 0 && node.len() - lost.0 < 2);
            if !sparse {
                break;
            }
            let Some(merge) = MergePlan::find_partner(&tree, mtr, *parent, page, lost)? else {
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
        Ok(MergePlan { tree, merges })
    }
    /// X-latches a neighbour under the same parent with which `page` fits into one node: the right
    /// one, else the left one.
    fn find_partner(
        tree: &Tree,
        mtr: &mut Mtr<'_>,
        parent: PageHandle,
        page: PageHandle,
        lost: (usize, usize),
    ) -> Result<Option<Merge>> {
        let above = Node::new(mtr.bytes(parent));
        let slot = above.child_slot(Node::new(mtr.bytes(page)).lower_fence());
        let right = (slot + 1 < above.len()).then(|| above.child(slot + 1));
        let left = (slot > 0).then(|| above.child(slot - 1));
        let is_held = |mtr: &Mtr<'_>, no: PageNo| mtr.find(tree.page_id(no)).is_some();
        if let Some(no) = right.filter(|no| !is_held(mtr, *no)) {
            let right = tree.nodes().latch(mtr, no)?;
            if adjoin(tree, mtr, page, right) && fit_together(mtr, page, right, lost) {
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
        if let Some(no) = left.filter(|no| !is_held(mtr, *no)) {
            if let Some(left) = tree.nodes().try_latch(mtr, no)? {
                if adjoin(tree, mtr, left, page) && fit_together(mtr, left, page, lost) {
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
    fn carry_out(&self, mtr: &mut Mtr<'_>) -> Result<()> {
        let top = self.merges.last().expect("there is something to merge");
        let collapse = mtr.id(top.parent).no == self.tree.root && Node::new(mtr.bytes(top.parent)).len() == 2;
        let gone = (self.merges.iter())
            .map(|merge| merge.right)
            .chain(collapse.then_some(top.left));
        let gone: Vec<PageId> = gone.flat_map(|node| self.tree.pages_of(mtr.id(node).no)).collect();
        debug_assert!(gone.iter().all(|id| id.no != self.tree.root), "the root keeps its page");
        space::free(mtr, &gone)?;
        for merge in &self.merges {
            merge.carry_out(mtr);
        }
        if collapse {
            pull_up(mtr, top.parent, top.left);
        }
        mtr.pool().counters().page_merges.add(self.merges.len() as u64);
        Ok(())
    }
}

impl Merge {
    fn carry_out(&self, mtr: &mut Mtr<'_>) {
        let (left, right) = (mtr.bytes(self.left).to_vec(), mtr.bytes(self.right).to_vec());
        let (left, right) = (Node::new(&left), Node::new(&right));
        debug_assert!(
            left.upper_fence() == Some(right.lower_fence()),
            "the two are neighbours: no key lies between them"
        );
        debug_assert_eq!(
            Node::new(mtr.bytes(self.parent)).child(self.slot),
            mtr.id(self.right).no,
            "the parent loses the entry of the node that goes"
        );
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
        mtr.rewrite(self.left, &mut |page| write_node(page, &new));
        mark_free(mtr, self.right);
        debug_assert!(
            Node::new(mtr.bytes(self.left)).validate().is_ok(),
            "a merge leaves a sound node"
        );
        let page = self.parent;
        edit::remove(&mut MtrPage { mtr, page }, self.slot);
    }
}

/// The root has one child left: the child's content moves into the root.
fn pull_up(mtr: &mut Mtr<'_>, root: PageHandle, child: PageHandle) {
    debug_assert_eq!(Node::new(mtr.bytes(root)).len(), 1, "the root takes in its only child");
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

/// Are the two neighbours, as their parent says? If a pointer of it is damaged, a merge with the
/// page at that pointer would take pages from another tree.
fn adjoin(tree: &Tree, mtr: &Mtr<'_>, left: PageHandle, right: PageHandle) -> bool {
    let (left, right) = (Node::new(mtr.bytes(left)), Node::new(mtr.bytes(right)));
    let are_nodes = left.belongs_to(tree.index) && right.belongs_to(tree.index);
    are_nodes && left.level() == right.level() && left.upper_fence() == Some(right.lower_fence())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btree::tests::fixture::{add_tree, delete, fixture_with_tree, put};
    use crate::btree::Intent;
    use crate::pool::PAGE_SIZE;

    /// A damaged pointer of the parent led to another tree: its entries were moved, and its page
    /// was freed.
    #[test]
    fn a_node_is_not_merged_with_one_that_is_no_neighbour() {
        let (fixture, tree) = fixture_with_tree(1, 256);
        let pool = &*fixture.pool;
        let other = add_tree(pool, 6);
        put(pool, &other, b"other", b"value");
        let keys: Vec<_> = (0..200u32).map(u32::to_be_bytes).collect();
        for key in &keys {
            put(pool, &tree, key, &[7; PAGE_SIZE / 20]);
        }
        let mut mtr = pool.begin();
        let root = mtr.write(tree.page_id(tree.root)).unwrap();
        let node = Node::new(mtr.bytes(root));
        let (second, place) = (node.child(1), node.value_at(1));
        let second = mtr.write(tree.page_id(second)).unwrap();
        let from = Node::new(mtr.bytes(second)).lower_fence().to_vec();
        mtr.edit_u32(root, place, other.root);
        mtr.commit();
        let of_first = keys.iter().filter(|key| key[..] < from[..]);
        let deleted = of_first.filter(|key| delete(pool, &tree, *key, Intent::Leaf)).count();
        assert!(deleted > 3, "{deleted} entries of the first leaf");
        let found = other.get(pool, b"other").unwrap().expect("it is where it was");
        assert_eq!(found.value(), b"value");
    }
}

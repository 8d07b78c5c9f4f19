//! [`SplitPlan`]: one change that has no room in its node, and the separators that follow it up the
//! tree.
//!
//! The plan is made first and changes nothing. Then all pages are allocated at once: `Error::Full`
//! comes before any change. Then the plan is carried out. The node and its unsafe ancestors are
//! X-latched; new pages are latched to the right of the pages that they come from (I5).
//!
//! Ascending and descending runs are cut at the run's end, so that the page on the other side stays
//! full. Else the cut is near the middle by bytes, where the separator is shortest. Called by:
//! `leaf` and `sorted::build`.
use crate::base::bytes::common_prefix;
use crate::base::{PageNo, Result};
use crate::btree::node::edit::{self, MtrPage, PageEdit};
use crate::btree::node::{item_size, write_node, NewNode, Node, NO_SLOT};
use crate::btree::tree::Tree;
use crate::pool::{Mtr, PageHandle};

/// The change that needs room: a new entry at `slot`, or (`replace`) a new value for the entry
/// there.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    pub slot: usize,
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub replace: bool,
}

/// One node's split. The entries before `cut` (counted with the change done) stay, the others go to
/// a new right neighbour.
struct Split {
    page: PageHandle,
    slot: usize,
    key: Vec<u8>,
    replace: bool,
    cut: usize,
    separator: Vec<u8>,
}

type Items<'a> = Vec<(&'a [u8], &'a [u8])>;

/// The node's entries with the change done.
fn items_with<'a>(node: Node<'a>, item: &Item<'a>) -> Items<'a> {
    let mut items: Items<'a> = (0..node.len()).map(|slot| node.entry(slot)).collect();
    if item.replace {
        items[item.slot].1 = item.value;
    } else {
        items.insert(item.slot, (item.key, item.value));
    }
    items
}

/// Key between the entries left and right of a cut. In a leaf it is as short as possible. In an
/// inner node it is the right entry's key, which moves up.
pub fn separator<'a>(items: &[(&'a [u8], &'a [u8])], cut: usize, level: u8) -> &'a [u8] {
    let right = items[cut].0;
    if level > 0 {
        return right;
    }
    &right[..common_prefix(items[cut - 1].0, right) + 1]
}

/// Where to cut, for a node that cannot hold `items`.
struct Cutter<'a> {
    level: u8,
    capacity: usize,
    lower: &'a [u8],
    upper: Option<&'a [u8]>,
    items: Items<'a>,
    /// sizes[i]: bytes of items[..i].
    sizes: Vec<usize>,
}

impl<'a> Cutter<'a> {
    fn new(node: Node<'a>, items: Items<'a>) -> Cutter<'a> {
        let mut sizes = vec![0];
        for (key, value) in &items {
            sizes.push(sizes[sizes.len() - 1] + item_size(key.len(), value.len()));
        }
        Cutter {
            level: node.level(),
            capacity: node.capacity(),
            lower: node.lower_fence(),
            upper: node.upper_fence(),
            items,
            sizes,
        }
    }
    /// Bytes left and right of the cut, the new fence not counted.
    fn halves(&self, cut: usize) -> (usize, usize) {
        let left = self.sizes[cut] + self.lower.len();
        let mut right = self.sizes[self.items.len()] - self.sizes[cut] + self.upper.map_or(0, <[u8]>::len);
        if self.level > 0 {
            right -= self.items[cut].0.len();
        }
        (left, right)
    }
    fn fits(&self, cut: usize) -> bool {
        let (left, right) = self.halves(cut);
        left.max(right) + separator(&self.items, cut, self.level).len() <= self.capacity
    }
    /// The cut for an insert at `slot` when the insert before it went to `last`. If the two look
    /// like a run, the cut is at the run's end. Entries before or after a run are cut off once.
    /// From then on the run has pages of its own, and fills them.
    fn choose_at_run(&self, slot: usize, last: usize) -> Option<usize> {
        const TRIES: usize = 4;
        let n = self.items.len();
        let at_right_end = slot + 1 == n && self.upper.is_none();
        let ascending = slot > 0 && (at_right_end || slot == last.wrapping_add(1));
        let at_left_end = slot == 0 && self.lower.is_empty() && self.level == 0;
        let descending = at_left_end || slot == last;
        if ascending && slot + 1 == n {
            return (1..=slot).rev().take(TRIES).find(|cut| self.fits(*cut));
        }
        let from = match (ascending, descending) {
            (true, _) => slot + 1,
            (_, true) => slot.max(1),
            _ => return None,
        };
        (from..n).take(TRIES).find(|cut| self.fits(*cut))
    }
    fn choose_middle(&self) -> usize {
        let slack = self.capacity / 16;
        let larger = |cut: usize| {
            let (left, right) = self.halves(cut);
            left.max(right)
        };
        let cuts = 1..self.items.len();
        let best = cuts
            .clone()
            .map(larger)
            .min()
            .expect("a node that splits has two items");
        cuts.filter(|cut| larger(*cut) <= best + slack && self.fits(*cut))
            .min_by_key(|cut| (separator(&self.items, *cut, self.level).len(), larger(*cut)))
            .expect("ENTRY_MAX is chosen so that the cut nearest to the middle fits")
    }
}

/// The splits for one change, leaf first. Made without a change; then carried out.
pub struct SplitPlan<'m> {
    tree: Tree,
    /// X-latched ancestors of the first node, root first.
    path: &'m [PageHandle],
    splits: Vec<Split>,
}

impl<'m> SplitPlan<'m> {
    /// Plans the splits from `page`, which has no room for `item`, up to the first ancestor with
    /// room or to the root. `path`: the X-latched ancestors, root first.
    pub fn new(tree: Tree, mtr: &Mtr<'_>, page: PageHandle, path: &'m [PageHandle], item: Item<'_>) -> SplitPlan<'m> {
        let mut splits: Vec<Split> = Vec::new();
        let mut ancestors = path.iter().rev();
        let mut page = page;
        let (mut slot, mut key, mut value) = (item.slot, item.key.to_vec(), item.value.to_vec());
        loop {
            let node = Node::new(mtr.bytes(page));
            if !splits.is_empty() && node.has_room(key.len(), value.len()) {
                return SplitPlan { tree, path, splits };
            }
            let replace = item.replace && splits.is_empty();
            let item = Item {
                slot,
                key: &key,
                value: &value,
                replace,
            };
            let cutter = Cutter::new(node, items_with(node, &item));
            let at_run = (!replace)
                .then(|| cutter.choose_at_run(slot, node.last_insert()))
                .flatten();
            let cut = at_run.unwrap_or_else(|| cutter.choose_middle());
            debug_assert!(
                cut > 0 && cut < cutter.items.len() && cutter.fits(cut),
                "both sides of a cut keep an entry, and fit a node"
            );
            let up = separator(&cutter.items, cut, node.level()).to_vec();
            drop(cutter);
            splits.push(Split {
                page,
                slot,
                key: std::mem::replace(&mut key, up.clone()),
                replace,
                cut,
                separator: up,
            });
            if mtr.id(page).no == tree.root {
                return SplitPlan { tree, path, splits };
            }
            value = vec![0; 4];
            page = *ancestors.next().expect("a node without room has its parent latched");
            slot = Node::new(mtr.bytes(page)).search(&key).0;
        }
    }
    /// New pages that the plan takes: one for each split, and one more to push the root's content
    /// down.
    pub fn pages_needed(&self, mtr: &Mtr<'_>) -> usize {
        let top = self.splits.last().expect("there is something to split").page;
        self.splits.len() + (mtr.id(top).no == self.tree.root) as usize
    }
    /// Makes the changes. `pages`: as many as `pages_needed`. `value`: the first item's value (a
    /// sorted build knows it only after the allocation).
    pub fn carry_out(&self, mtr: &mut Mtr<'_>, pages: &[PageNo], value: &[u8]) -> Result<()> {
        debug_assert_eq!(pages.len(), self.pages_needed(mtr), "each new node has its page");
        debug_assert!(
            pages.iter().all(|no| *no != self.tree.root),
            "the root keeps its page, and is no new one"
        );
        mtr.pool().counters().page_splits.add(self.splits.len() as u64);
        let mut value = value.to_vec();
        for (i, split) in self.splits.iter().enumerate() {
            if mtr.id(split.page).no == self.tree.root {
                return self.split_root(mtr, split, &value, pages[i], pages[i + 1]);
            }
            self.split_node(mtr, split, &value, pages[i])?;
            // A separator's value is the page made one level below.
            value = pages[i].to_le_bytes().to_vec();
        }
        debug_assert!(
            self.path.len() >= self.splits.len(),
            "the parent of the topmost split is latched"
        );
        let parent = self.path[self.path.len() - self.splits.len()];
        let key = &self.splits[self.splits.len() - 1].separator;
        let slot = Node::new(mtr.bytes(parent)).search(key).0;
        edit::insert(&mut MtrPage { mtr, page: parent }, slot, key, &value);
        Ok(())
    }
    /// Moves the right part to the new page `right`, and makes the change on the side that it is
    /// for.
    fn split_node(&self, mtr: &mut Mtr<'_>, split: &Split, value: &[u8], right: PageNo) -> Result<()> {
        let copy = mtr.bytes(split.page).to_vec();
        let node = Node::new(&copy);
        let item = split.item(value);
        let mut items = items_with(node, &item).split_off(split.cut);
        let on_left = split.slot < split.cut;
        let new = NewNode {
            level: node.level(),
            lower: &split.separator,
            upper: node.upper_fence(),
            right: node.right().unwrap_or(0),
            last: if on_left {
                NO_SLOT
            } else {
                (split.slot - split.cut) as u16
            },
            items: headless(node.level(), &mut items),
        };
        self.tree.nodes().create_with(mtr, right, &new)?;
        let mut left = MtrPage { mtr, page: split.page };
        edit::truncate(&mut left, split.cut - (on_left && !split.replace) as usize);
        edit::set_upper(&mut left, &split.separator);
        edit::set_right(&mut left, right);
        match (on_left, split.replace) {
            (true, true) => edit::set_value(&mut left, split.slot, value),
            (true, false) => edit::insert(&mut left, split.slot, &split.key, value),
            (false, _) => {}
        }
        debug_assert!(left.node().validate().is_ok(), "a split leaves a sound node");
        Ok(())
    }
    /// The root keeps its page number: its content goes down to two new pages.
    fn split_root(&self, mtr: &mut Mtr<'_>, split: &Split, value: &[u8], left: PageNo, right: PageNo) -> Result<()> {
        let copy = mtr.bytes(split.page).to_vec();
        let node = Node::new(&copy);
        let item = split.item(value);
        let mut items = items_with(node, &item);
        let mut right_items = items.split_off(split.cut);
        let on_left = split.slot < split.cut;
        let level = node.level();
        let left_node = NewNode {
            level,
            lower: &[],
            upper: Some(&split.separator),
            right,
            last: if on_left { split.slot as u16 } else { NO_SLOT },
            items: &items,
        };
        let right_node = NewNode {
            level,
            lower: &split.separator,
            upper: None,
            right: 0,
            last: if on_left {
                NO_SLOT
            } else {
                (split.slot - split.cut) as u16
            },
            items: headless(level, &mut right_items),
        };
        self.tree.nodes().create_with(mtr, left, &left_node)?;
        self.tree.nodes().create_with(mtr, right, &right_node)?;
        write_root_over(mtr, split.page, level + 1, left, &split.separator, right);
        Ok(())
    }
}

/// Makes the root a node with two children.
pub fn write_root_over(mtr: &mut Mtr<'_>, root: PageHandle, level: u8, left: PageNo, separator: &[u8], right: PageNo) {
    debug_assert!(
        level > 0 && left != right && !separator.is_empty(),
        "a root has two children, or none"
    );
    let (left, right) = (left.to_le_bytes(), right.to_le_bytes());
    let new = NewNode {
        level,
        lower: &[],
        upper: None,
        right: 0,
        items: &[(&[], &left), (separator, &right)],
        last: 1,
    };
    mtr.rewrite(root, &mut |page| write_node(page, &new));
}

impl Split {
    fn item<'a>(&'a self, value: &'a [u8]) -> Item<'a> {
        Item {
            slot: self.slot,
            key: &self.key,
            value,
            replace: self.replace,
        }
    }
}

/// An inner node's first key is empty: it stands for the lower fence.
fn headless<'a, 'b>(level: u8, items: &'b mut Items<'a>) -> &'b [(&'a [u8], &'a [u8])] {
    if level > 0 {
        items[0].0 = &[];
    }
    items
}

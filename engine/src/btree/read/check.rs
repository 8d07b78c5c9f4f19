//! CHECK TABLE for one tree: every node, every border between nodes, every page's mark in the
//! bitmap.
//!
//! The walk goes from one level-1 node to the next. A level-1 node stays S-latched while its leaves
//! are read one by one. Upper levels are checked on each way down. So the check runs beside
//! writers: a page that changed between two looks at it is no finding. Called by: `table`'s check,
//! the change buffer for its delta trees, and tests.
use super::descent::To;
use crate::base::{Damage, Error, Lsn, PageNo, Result};
use crate::btree::node::Node;
use crate::btree::tree::Tree;
use crate::pool::{PageRead, Pool};
use crate::space;
use std::collections::{BTreeSet, HashMap};

/// The result of a check. No findings: the tree is sound.
#[derive(Debug, Default)]
pub struct Report {
    pub findings: Vec<String>,
    /// Every page of the tree.
    pub pages: BTreeSet<PageNo>,
    pub entries: u64,
    pub leaf_pages: u64,
    pub inner_pages: u64,
    pub height: u32,
}

/// Looks at an entry (key, value). Some: what is wrong with it.
pub type EntryCheck<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Option<String>;

/// The walk ends after this many findings: the tree is broken.
const FINDINGS_MAX: usize = 100;

impl Tree {
    /// `each` sees every entry in order. The layers above check there what keys and values mean to
    /// them, and report a finding by the returned text.
    pub fn verify(&self, pool: &Pool, each: EntryCheck<'_>) -> Result<Report> {
        self.verify_with(pool, each, &mut || Ok(()))
    }
    /// The same; `step` is called for each leaf, and its error ends the check.
    pub fn verify_with(
        &self,
        pool: &Pool,
        each: EntryCheck<'_>,
        step: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Report> {
        let mut walk = Walk {
            tree: self,
            pool,
            each,
            step,
            report: Report::default(),
            versions: HashMap::new(),
            from: Vec::new(),
        };
        match walk.run() {
            // The way down is broken: the walk cannot reach what lies after it.
            Err(Error::Corrupt(damage)) => walk.broken(*damage),
            other => other?,
        }
        Ok(walk.report)
    }
}

struct Walk<'a> {
    tree: &'a Tree,
    pool: &'a Pool,
    each: EntryCheck<'a>,
    step: &'a mut dyn FnMut() -> Result<()>,
    report: Report,
    /// Each page's version when it was read. A page met again with the same version is in the tree
    /// twice; with another version, it moved.
    versions: HashMap<PageNo, Lsn>,
    /// Every key below this one is checked.
    from: Vec<u8>,
}

#[derive(PartialEq)]
enum Visit {
    First,
    Again,
    Moved,
}

/// The last leaf of the level-1 node before, to be compared with the first of the next.
struct Border {
    no: PageNo,
    version: Lsn,
    right: Option<PageNo>,
}

impl<'a> Walk<'a> {
    fn run(&mut self) -> Result<()> {
        let mut border: Option<Border> = None;
        loop {
            let page = self.descend()?;
            let node = Node::new(&page);
            if node.level() == 0 {
                return self.check_leaf(&page);
            }
            let upper = node.upper_fence().map(<[u8]>::to_vec);
            let first = node.child(node.child_slot(&self.from));
            let last = self.check_leaves(node)?;
            // Latches go left to right: the left leaf is read again after the right ones are
            // released.
            drop(page);
            if let Some(border) = border.take().filter(|b| b.right != Some(first)) {
                self.check_border(&border, first)?;
            }
            border = last;
            match upper {
                Some(upper) if upper > self.from && self.report.findings.len() < FINDINGS_MAX => self.from = upper,
                _ => return Ok(()),
            }
        }
    }
    /// S-latched level-1 node (or a root leaf) that owns `from`; checks what it passes.
    fn descend(&mut self) -> Result<PageRead<'a>> {
        let (tree, pool, from) = (self.tree, self.pool, self.from.clone());
        let to = To::Key(&from);
        let mut page = tree.nodes().read(pool, tree.root)?;
        let node = Node::new(&page);
        tree.nodes().check_arrival(node, tree.root, None)?;
        self.report.height = self.report.height.max(node.level() as u32 + 1);
        if !node.lower_fence().is_empty() || node.upper_fence().is_some() || node.right().is_some() {
            self.finding(tree.root, "the root has bounds or a neighbour");
        }
        while Node::new(&page).level() > 0 {
            self.check_inner(&page)?;
            let node = Node::new(&page);
            if node.level() == 1 {
                break;
            }
            let slot = to.child_slot(node);
            let no = node.child(slot);
            let child = tree.nodes().read(pool, no)?;
            tree.nodes()
                .check_arrival(Node::new(&child), no, Some(node.level() - 1))?;
            tree.nodes().check_fences(Node::new(&child), no, to)?;
            self.check_fences(node, slot, Node::new(&child));
            page = child;
        }
        Ok(page)
    }
    /// An unreadable page still belongs to the tree.
    fn broken(&mut self, damage: Damage) {
        self.report.pages.extend(damage.page);
        self.report.findings.push(damage.what);
    }
    fn enter(&mut self, page: &PageRead<'_>) -> Visit {
        let no = page.id().no;
        self.report.pages.extend(self.tree.pages_of(no).map(|page| page.no));
        match self.versions.insert(no, page.version()) {
            None => Visit::First,
            Some(version) if version == page.version() => Visit::Again,
            Some(_) => Visit::Moved,
        }
    }
    fn check_inner(&mut self, page: &PageRead<'_>) -> Result<()> {
        let (no, node) = (page.id().no, Node::new(page));
        match self.enter(page) {
            Visit::First => self.report.inner_pages += u64::from(self.tree.node_pages()),
            // The walk continues after the upper fence of the last level-1 node: it meets none of
            // them again.
            Visit::Again if node.level() == 1 => self.finding(no, "reached twice"),
            Visit::Again => return Ok(()),
            Visit::Moved => {}
        }
        if let Err(what) = node.validate() {
            self.finding(no, &what);
        }
        self.check_used(no)
    }
    /// Checks the leaves of a level-1 node from `from` on. Leaves before it are checked already,
    /// also if two nodes were merged. Returns the last leaf.
    fn check_leaves(&mut self, node: Node<'_>) -> Result<Option<Border>> {
        let (tree, pool) = (self.tree, self.pool);
        let mut last: Option<Border> = None;
        for slot in node.child_slot(&self.from)..node.len() {
            let no = node.child(slot);
            let before = last.take();
            let leaf = match tree.nodes().read(pool, no) {
                Ok(leaf) => leaf,
                Err(Error::Corrupt(damage)) => {
                    self.broken(*damage);
                    continue;
                }
                Err(e) => return Err(e),
            };
            let child = Node::new(&leaf);
            if !child.belongs_to(tree.index) || child.level() != 0 {
                self.finding(no, "its parent points to it, but it is not a leaf of this index");
                continue;
            }
            self.check_fences(node, slot, child);
            if let Some(wrong) = before.filter(|b| b.right != Some(no)) {
                self.finding(wrong.no, "its right link is not its neighbour");
            }
            self.check_leaf(&leaf)?;
            last = Some(Border {
                no,
                version: leaf.version(),
                right: child.right(),
            });
        }
        Ok(last)
    }
    fn check_leaf(&mut self, page: &PageRead<'_>) -> Result<()> {
        (self.step)()?;
        let (no, node) = (page.id().no, Node::new(page));
        match self.enter(page) {
            Visit::First => self.report.leaf_pages += u64::from(self.tree.node_pages()),
            Visit::Again => self.finding(no, "reached twice"),
            Visit::Moved => {}
        }
        if let Err(what) = node.validate() {
            self.finding(no, &what);
            return Ok(());
        }
        if node.upper_fence().is_none() && node.right().is_some() {
            self.finding(no, "the last leaf has a right link");
        }
        for slot in node.search(&self.from).0..node.len() {
            let (key, value) = node.entry(slot);
            self.report.entries += 1;
            if let Some(what) = (self.each)(key, value) {
                self.finding(no, &what);
            }
        }
        self.check_used(no)
    }
    /// The child's fences are its separators in the parent.
    fn check_fences(&mut self, parent: Node<'_>, slot: usize, child: Node<'_>) {
        let lower = if slot == 0 {
            parent.lower_fence()
        } else {
            parent.key(slot)
        };
        let upper = if slot + 1 < parent.len() {
            Some(parent.key(slot + 1))
        } else {
            parent.upper_fence()
        };
        if child.lower_fence() != lower || child.upper_fence() != upper {
            self.finding(parent.child(slot), "its fences are not its separators in the parent");
        }
    }
    fn check_used(&mut self, no: PageNo) -> Result<()> {
        for page in self.tree.pages_of(no) {
            if !space::is_used(self.pool, page)? {
                self.finding(page.no, "in the tree, but marked free");
            }
        }
        Ok(())
    }
    /// No latch is held. A left page with another version may have been split since: no finding.
    fn check_border(&mut self, left: &Border, right: PageNo) -> Result<()> {
        let page = self.tree.nodes().read(self.pool, left.no)?;
        if page.version() == left.version {
            self.finding(left.no, &format!("its right link is not its neighbour, page {right}"));
        }
        Ok(())
    }
    fn finding(&mut self, no: PageNo, what: &str) {
        let (index, file) = (self.tree.index, self.tree.file);
        self.report
            .findings
            .push(format!("index {index} in file {file}, page {no}: {what}"));
    }
}

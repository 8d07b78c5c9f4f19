//! CHECK TABLE for one tree: every node, every border between nodes, every page's mark in the bitmap.
//!
//! Walks one level-1 node after the other, S-latched while its leaves are read one by one; upper levels are checked on each way
//! down. So it runs beside writers; what it compares across two level-1 nodes counts only if the pages stood still meanwhile.
use super::descend::To;
use super::node::Node;
use super::Tree;
use crate::base::{Error, Lsn, PageNo, Result};
use crate::pool::{PageRead, Pool};
use crate::space;
use std::collections::BTreeSet;

/// What a check found. No findings: the tree is sound.
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

/// Looks at an entry; Some: what is wrong with it.
pub type EntryCheck<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Option<String>;

/// Findings are enough to say that a tree is broken long before this many.
const FINDINGS_MAX: usize = 100;

/// The last leaf of the level-1 node before, to be compared with the first of the next.
struct Border {
    no: PageNo,
    version: Lsn,
    right: Option<PageNo>,
}

impl Tree {
    /// `each` sees every entry in order: the layers above check what keys and values mean to them, and report by the returned text.
    pub fn verify(&self, pool: &Pool, each: EntryCheck<'_>) -> Result<Report> {
        let mut report = Report::default();
        let mut from = Vec::new();
        let mut border: Option<Border> = None;
        loop {
            let page = match self.descend_checking(pool, &from, &mut report) {
                Ok(page) => page,
                Err(Error::Corrupt(what)) => {
                    report.findings.push(what);
                    return Ok(report);
                }
                Err(e) => return Err(e),
            };
            let node = Node::new(&page);
            if node.level() == 0 {
                self.check_leaf(pool, &page, &mut report, each)?;
                return Ok(report);
            }
            let upper = node.upper_fence().map(<[u8]>::to_vec);
            let first = node.child(0);
            let last = self.check_leaves(pool, node, &mut report, each)?;
            drop(page);
            if let Some(border) = border.take().filter(|b| b.right != Some(first)) {
                self.check_border(pool, &border, first, &mut report)?;
            }
            border = last;
            match upper {
                None => return Ok(report),
                Some(upper) if upper > from && report.findings.len() < FINDINGS_MAX => from = upper,
                Some(_) => return Ok(report),
            }
        }
    }
    /// S-latched level-1 node (or a root leaf) that owns `key`; checks what it passes.
    fn descend_checking<'p>(&self, pool: &'p Pool, key: &[u8], report: &mut Report) -> Result<PageRead<'p>> {
        let to = To::Key(key);
        let mut page = pool.read(self.page_id(self.root))?;
        self.check_arrival(Node::new(&page), self.root, None, to)?;
        let node = Node::new(&page);
        report.height = report.height.max(node.level() as u32 + 1);
        if !node.lower_fence().is_empty() || node.upper_fence().is_some() || node.right().is_some() {
            report
                .findings
                .push(self.finding(self.root, "the root has bounds or a neighbour"));
        }
        if node.level() > 0 {
            self.check_inner(pool, &page, report)?;
        }
        while Node::new(&page).level() > 1 {
            let node = Node::new(&page);
            let slot = to.child_slot(node);
            let no = node.child(slot);
            let child = pool.read(self.page_id(no))?;
            self.check_arrival(Node::new(&child), no, Some(node.level() - 1), to)?;
            self.check_fences(node, slot, Node::new(&child), report);
            self.check_inner(pool, &child, report)?;
            page = child;
        }
        Ok(page)
    }
    fn check_inner(&self, pool: &Pool, page: &PageRead<'_>, report: &mut Report) -> Result<()> {
        let (no, node) = (page.id().no, Node::new(page));
        let fresh = report.pages.insert(no);
        if node.level() == 1 && !fresh && no != self.root {
            report.findings.push(self.finding(no, "reached twice"));
        }
        if !fresh {
            return Ok(());
        }
        report.inner_pages += 1;
        if let Err(what) = node.validate() {
            report.findings.push(self.finding(no, &what));
        }
        self.check_used(pool, no, report)
    }
    /// All leaves of a level-1 node. Returns the last.
    fn check_leaves(
        &self,
        pool: &Pool,
        node: Node<'_>,
        report: &mut Report,
        each: EntryCheck<'_>,
    ) -> Result<Option<Border>> {
        let mut last: Option<Border> = None;
        for slot in 0..node.len() {
            let no = node.child(slot);
            let leaf = match pool.read(self.page_id(no)) {
                Ok(leaf) => leaf,
                Err(Error::Corrupt(what)) => {
                    report.findings.push(what);
                    last = None;
                    continue;
                }
                Err(e) => return Err(e),
            };
            let child = Node::new(&leaf);
            if !child.belongs_to(self.index) || child.level() != 0 {
                report
                    .findings
                    .push(self.finding(no, "its parent points to it, but it is not a leaf of this index"));
                last = None;
                continue;
            }
            self.check_fences(node, slot, child, report);
            if let Some(wrong) = last.take().filter(|l| l.right != Some(no)) {
                report
                    .findings
                    .push(self.finding(wrong.no, "its right link is not its neighbour"));
            }
            self.check_leaf(pool, &leaf, report, each)?;
            last = Some(Border {
                no,
                version: leaf.version(),
                right: child.right(),
            });
        }
        Ok(last)
    }
    fn check_leaf(&self, pool: &Pool, page: &PageRead<'_>, report: &mut Report, each: EntryCheck<'_>) -> Result<()> {
        let (no, node) = (page.id().no, Node::new(page));
        if !report.pages.insert(no) {
            report.findings.push(self.finding(no, "reached twice"));
        }
        report.leaf_pages += 1;
        if let Err(what) = node.validate() {
            report.findings.push(self.finding(no, &what));
            return Ok(());
        }
        if node.upper_fence().is_none() && node.right().is_some() {
            report.findings.push(self.finding(no, "the last leaf has a right link"));
        }
        for slot in 0..node.len() {
            let (key, value) = node.entry(slot);
            report.entries += 1;
            if let Some(what) = each(key, value) {
                report.findings.push(self.finding(no, &what));
            }
        }
        self.check_used(pool, no, report)
    }
    /// The child's fences are its separators in the parent.
    fn check_fences(&self, parent: Node<'_>, slot: usize, child: Node<'_>, report: &mut Report) {
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
            let what = "its fences are not its separators in the parent";
            report.findings.push(self.finding(parent.child(slot), what));
        }
    }
    fn check_used(&self, pool: &Pool, no: PageNo, report: &mut Report) -> Result<()> {
        if !space::is_used(pool, self.page_id(no))? {
            report.findings.push(self.finding(no, "in the tree, but marked free"));
        }
        Ok(())
    }
    /// No latch is held: the left page may have been split since; then it proves nothing.
    fn check_border(&self, pool: &Pool, left: &Border, right: PageNo, report: &mut Report) -> Result<()> {
        let page = pool.read(self.page_id(left.no))?;
        if page.version() == left.version {
            let what = format!("its right link is not its neighbour, page {right}");
            report.findings.push(self.finding(left.no, &what));
        }
        Ok(())
    }
    fn finding(&self, no: PageNo, what: &str) -> String {
        format!("index {} in file {}, page {no}: {what}", self.index, self.file)
    }
}

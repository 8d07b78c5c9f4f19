//! [`ShapeChecker`]: CHECK TABLE of a family's table.
use super::family::{text, Shape};
use crate::table::{Checker, EntrySink, Orphans};

pub struct ShapeChecker<'a> {
    pub shape: &'a Shape,
    pub findings: Vec<String>,
    pub orphans: Vec<String>,
}

impl Checker for ShapeChecker<'_> {
    fn finding(&mut self, line: &str) {
        self.findings.push(line.to_string());
    }
    fn orphans(&mut self, orphans: &Orphans) {
        let first = orphans.first.iter().map(|(_, row)| text(&Shape::decode(row)));
        let first = Vec::from_iter(first).join(", ");
        let (kind, name, rows) = (orphans.kind, &orphans.name, orphans.rows);
        self.orphans.push(format!("{name} {kind:?} {rows}: {first}"));
    }
    fn knows_entries(&self) -> bool {
        true
    }
    fn entries(&mut self, pk: &[u8], row: &[u8], each: EntrySink<'_>) {
        let made = self.shape.made(&Shape::decode(row));
        assert_eq!(made.pk, pk);
        made.entries.iter().for_each(|of| each(of.index, &of.key, &of.value));
    }
}

/// Does something whenever the check reports its progress.
pub struct Meanwhile<'a> {
    pub shape: ShapeChecker<'a>,
    pub meanwhile: &'a mut dyn FnMut(u32),
}

impl Checker for Meanwhile<'_> {
    fn finding(&mut self, line: &str) {
        self.shape.finding(line);
    }
    fn orphans(&mut self, orphans: &Orphans) {
        self.shape.orphans(orphans);
    }
    fn knows_entries(&self) -> bool {
        true
    }
    fn entries(&mut self, pk: &[u8], row: &[u8], each: EntrySink<'_>) {
        self.shape.entries(pk, row, each);
    }
    fn progress(&mut self, stage: u32, stages: u32, _done: u64, _total: u64) {
        (self.meanwhile)(stages - stage);
    }
}

//! What a later part of the log makes void: changes that recovery passes over.
//!
//! Files dropped later are void. So is what pages held before they were given to a load (GIVEN) or
//! cut off with the end of their file (CUT). The first pass over the log finds all of it, before
//! anything is applied. Takes no lock.
//! Called by: the engine's recovery, `apply`, `torn`.
use crate::base::{planted, FileId, Lsn, Mutant, PageId, PageNo};
use crate::redo::record::Record;
use std::collections::{BTreeMap, BTreeSet};

/// See the module's head.
#[derive(Default)]
pub struct Void {
    dropped: BTreeSet<FileId>,
    /// By first page, what was given to loads: the number of pages, and the end of the newest group
    /// that gave them.
    given: BTreeMap<PageId, (u32, Lsn)>,
    /// Truncations of each file, in log order: the first page cut off, and the end of the group
    /// that says so. The first pages ascend: a later truncation at a lower page replaces those
    /// before it.
    truncations: BTreeMap<FileId, Vec<(PageNo, Lsn)>>,
}

impl Void {
    /// First pass, in log order: a record of the group that ends at `end`.
    pub fn learn(&mut self, record: &Record<'_>, end: Lsn) {
        match record {
            Record::FileDrop { file } => drop(self.dropped.insert(*file)),
            // Whole extents, so an extent that is given again replaces itself.
            Record::Given { first, count } => {
                let before = self.given.insert(*first, (*count, end));
                debug_assert!(
                    before.is_none_or(|(_, lsn)| lsn <= end),
                    "the log is read in its order: the newest gift counts"
                );
            }
            Record::Truncate { first } => {
                let truncations = self.truncations.entry(first.file).or_default();
                debug_assert!(
                    truncations.last().is_none_or(|(_, lsn)| *lsn <= end),
                    "the log is read in its order: truncations of a file follow each other"
                );
                truncations.retain(|(no, _)| *no < first.no);
                truncations.push((first.no, end));
            }
            _ => {}
        }
    }
    pub fn dropped(&self) -> &BTreeSet<FileId> {
        &self.dropped
    }
    /// The end of the newest group that gave the page to a load. None: no group did.
    pub(super) fn given(&self, id: PageId) -> Option<Lsn> {
        let (first, (count, lsn)) = self.given.range(..=id).next_back()?;
        (first.file == id.file && id.no - first.no < *count).then_some(*lsn)
    }
    /// Is void what the group that ends at `end` says about the page?
    pub(in crate::pool) fn holds(&self, id: PageId, end: Lsn) -> bool {
        let is_given = || self.given(id).is_some_and(|lsn| end < lsn);
        let cuts = |(first, lsn): &(PageNo, Lsn)| *first <= id.no && end < *lsn;
        let is_cut = || (self.truncations.get(&id.file)).is_some_and(|all| all.iter().any(cuts));
        self.dropped.contains(&id.file)
            || (!planted(Mutant::GivenForgotten) && is_given())
            || (!planted(Mutant::TruncateForgotten) && is_cut())
    }
}

//! CHECK TABLE: each tree by itself, the file's free space, and the secondary indexes against the
//! clustered one, both ways. Of a tree: order, fences, page marks, entry formats.
//!
//! | level | what is read |
//! |---|---|
//! | quick | every page of every tree, delta trees included |
//! | medium | also overflow pages, bitmaps, and every entry of every index once |
//! | extended | also, for each row, its entries and its parents; and for each entry, its row |
//!
//! A quick check reads the leaves of an index with pending changes twice. A medium check compares
//! the count and the sum of entries with those of the rows. An extended check names what is wrong.
//!
//! The comparison reads base and pending changes of a secondary index together, as every reader
//! does. It proves that both together are the clustered index, whatever is merged meanwhile. Only
//! the caller knows what entries a row must have ([`Checker::entries`]).
//!
//! All of it runs beside writers. The comparison uses a view of its own. A page that changed after
//! the check began is no evidence of a fault. Sums need one moment, so a view holds purge back
//! while they are made. An extended check whose caller knows the entries needs no such view. A row
//! and its entries must agree at any moment, so it goes on under a new view every second.
//!
//! Latches: one page at a time. Called by [`Store::check_table`](crate::table::Store::check_table).
use crate::base::{Error, Result};
use crate::btree::check::Report;
use crate::btree::{extents, overflow, Seek};
use crate::change::{self, DELTA_BIT};
use crate::index::secondary;
use crate::index::{ChainRef, RowHeader, ROW_HEADER, ROW_OVERFLOW};
use crate::pool::page::page_index;
use crate::space;
use crate::table::catalog::dictionary::Catalog;
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::health::orphans::Orphans;
use crate::table::scan::cursor::Cursor;
use crate::table::scan::lock_choice::LockChoice;
use crate::table::scan::reader::Reader;
use crate::txn::{Isolation, Trx};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CheckLevel {
    Quick,
    Medium,
    Extended,
}

/// Takes an entry: (secondary ordinal, key, raw part).
pub type EntrySink<'a> = &'a mut dyn FnMut(u32, &[u8], &[u8]);

/// The caller of a check.
pub trait Checker {
    fn finding(&mut self, line: &str);
    /// Does it know what entries a row must have? If not, numbers alone are compared.
    fn knows_entries(&self) -> bool {
        false
    }
    /// Gives every entry that the row must have.
    fn entries(&mut self, _pk: &[u8], _row: &[u8], _each: EntrySink<'_>) {}
    /// Rows that refer to no parent row: of an extended check of a sound table (`references`).
    fn orphans(&mut self, _orphans: &Orphans) {}
    /// Stage and stages count from 1; `done` of about `total` pages or rows.
    fn progress(&mut self, _stage: u32, _stages: u32, _done: u64, _total: u64) {}
}

/// A closure that takes findings is a checker that knows no entries.
impl<F: FnMut(&str)> Checker for F {
    fn finding(&mut self, line: &str) {
        self(line);
    }
}

/// Pages or rows between two notes of progress.
const PROGRESS_EVERY: u64 = 256;
/// Findings of one kind that are named.
const NAMED_MAX: u64 = 20;
/// A view is kept so long where any view will do.
const VIEW_US: u64 = 1_000_000;

/// Number and sum of entries, whatever their order.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Sum {
    count: u64,
    sum: u128,
}

impl Sum {
    fn add(&mut self, key: &[u8], raw: &[u8]) {
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, key, raw).hash(&mut hasher);
            hasher.finish() as u128
        };
        self.count += 1;
        self.sum = self.sum.wrapping_add(half(0) << 64 | half(1));
    }
}

pub(super) struct Check<'a> {
    pub(super) reader: &'a Arc<Reader>,
    pub(super) table: &'a Arc<Table>,
    level: CheckLevel,
    pub(super) checker: &'a mut dyn Checker,
    pub(super) waiter: Arc<dyn crate::txn::Waiter>,
    findings: u64,
    stage: u32,
    stages: u32,
    done: u64,
    total: u64,
    /// What is wrong with the free-space map: each index meets it.
    map_damage: Option<String>,
    /// When the view was made.
    view_us: u64,
}

/// True: the table is sound. `trx` is only asked whether it was killed (`Error::Interrupted`).
pub(in crate::table) fn check_table(
    (reader, catalog): (&Arc<Reader>, &Catalog),
    trx: &mut Trx,
    table: &Arc<Table>,
    level: CheckLevel,
    checker: &mut dyn Checker,
) -> Result<bool> {
    let indexes = table.layout().secondary.len() as u32;
    let references = table.foreign_keys().map_or(0, |keys| keys.references.len() as u32);
    let references = if level == CheckLevel::Extended { references } else { 0 };
    let mut check = Check {
        reader,
        table,
        level,
        checker,
        waiter: trx.shared.waiter.clone(),
        findings: 0,
        stage: 1,
        stages: 1 + references + if level > CheckLevel::Quick { 1 + indexes } else { 0 },
        done: 0,
        total: 0,
        map_damage: None,
        view_us: 0,
    };
    check.trees()?;
    // The comparison reads through the trees: it proves nothing when they are broken.
    if level > CheckLevel::Quick && check.findings == 0 {
        check.compare_under_view()?;
    }
    if level == CheckLevel::Extended && check.findings == 0 {
        let compared = check.references(catalog);
        check.or_finding(compared)?;
    }
    Ok(check.findings == 0)
}

impl Check<'_> {
    fn finding(&mut self, line: &str) {
        self.findings += 1;
        self.checker.finding(line);
    }
    /// One more page or row.
    pub(super) fn step(&mut self) -> Result<()> {
        self.done += 1;
        if self.done % PROGRESS_EVERY == 1 {
            if self.waiter.killed() {
                return Err(Error::Interrupted);
            }
            self.checker.progress(self.stage, self.stages, self.done, self.total);
        }
        Ok(())
    }
    pub(super) fn next_stage(&mut self, total: u64) {
        self.stage += 1;
        (self.done, self.total) = (0, total);
    }
    /// Damage met on the way is a finding.
    fn or_finding(&mut self, done: Result<()>) -> Result<()> {
        match done {
            Err(e @ Error::Corrupt(_)) => {
                let named = self.reader.log.name_damage(e);
                self.finding(&named.to_string());
                Ok(())
            }
            done => done,
        }
    }

    // ---- pages ----

    fn trees(&mut self) -> Result<()> {
        let table = self.table.clone();
        let _gate = table.gate.read();
        let layout = table.layout();
        let pool = self.reader.pool.clone();
        let loads = table.append_hint.loads_begun();
        let began = pool.redo().lsn();
        self.total = match space::usage(&pool, layout.id) {
            Ok(usage) => usage.used as u64,
            Err(e) => return self.or_finding(Err(e)),
        };
        let map = space::used_pages(&pool, layout.id).map(|_| ());
        if let Err(Error::Corrupt(damage)) = &map {
            self.map_damage = Some(damage.what.clone());
        }
        self.or_finding(map)?;
        let mut pages = BTreeSet::from([space::HEADER_PAGE]);
        let mut chains = Vec::new();
        let clustered = layout.clustered.tree;
        let report = clustered.verify_with(
            &pool,
            &mut |key, value| {
                chains.extend(ChainRef::of(value));
                check_row(layout, key, value)
            },
            &mut || self.step(),
        )?;
        let restore = "restore the table from a backup; sluice-check --dump saves the rows that can be read";
        self.take_report("clustered index", report, restore, &mut pages);
        for s in &layout.secondary {
            if s.quarantined {
                self.finding(&format!(
                    "index {} is quarantined, because a page of it could not be read; REPAIR TABLE rebuilds it",
                    s.index.name
                ));
                continue;
            }
            let each = &mut |key: &[u8], value: &[u8]| check_entry(layout, key, value);
            let report = s.index.tree.verify_with(&pool, each, &mut || self.step())?;
            let what = format!("index {}", s.index.name);
            let rebuild = "REPAIR TABLE rebuilds the index";
            if s.index.delta.as_ref().is_some_and(|delta| !delta.is_empty()) {
                // The leaves of an index with pending changes are read once more.
                self.total += report.leaf_pages;
            }
            self.take_report(&what, report, rebuild, &mut pages);
            let what = format!("buffered changes of index {}", s.index.name);
            let mut lines = Vec::new();
            let report = &mut |line: &str| lines.push(line.to_string());
            pages.extend(change::check(&pool, &s.index, &mut || self.step(), report)?);
            self.take_findings(&what, &lines, rebuild);
        }
        if self.level > CheckLevel::Quick {
            self.chains(layout, &chains, &mut pages)?;
            let found = self.free_space(layout, &pages, began)?;
            // Pages that a load has linked or given back meanwhile are no evidence.
            if loads == table.append_hint.loads_begun() {
                self.report_strays(found)?;
            }
        }
        Ok(())
    }

    fn take_report(&mut self, what: &str, report: Report, way_out: &str, pages: &mut BTreeSet<u32>) {
        pages.extend(report.pages);
        self.take_findings(what, &report.findings, way_out);
    }
    /// The first finding names the way out.
    fn take_findings(&mut self, what: &str, findings: &[String], way_out: &str) {
        let map_damage = self.map_damage.clone();
        let of_map = |finding: &String| map_damage.as_ref().is_some_and(|damage| finding.contains(damage));
        for (n, finding) in findings.iter().filter(|finding| !of_map(finding)).enumerate() {
            let way_out = if n == 0 { format!("; {way_out}") } else { String::new() };
            self.finding(&format!("{what}: {finding}{way_out}"));
        }
    }

    /// Overflow pages of the rows' newest versions.
    fn chains(&mut self, layout: &Layout, chains: &[ChainRef], pages: &mut BTreeSet<u32>) -> Result<()> {
        for chain in chains {
            self.step()?;
            match overflow::pages_of(&self.reader.pool, layout.id, chain.first, chain.owner) {
                Ok(of_chain) => pages.extend(of_chain),
                Err(e) => self.or_finding(Err(e))?,
            }
        }
        Ok(())
    }

    /// Checks that every page in use belongs to something, and that the file's count of them is
    /// right. Returns pages that do not, with the error where the page cannot be read.
    fn free_space(&mut self, layout: &Layout, known: &BTreeSet<u32>, began: u64) -> Result<Vec<(u32, Option<Error>)>> {
        let pool = self.reader.pool.clone();
        let mut found = Vec::new();
        if self.map_damage.is_some() {
            return Ok(found);
        }
        let used = match space::used_pages(&pool, layout.id) {
            Ok(used) => used,
            Err(e) => return self.or_finding(Err(e)).map(|()| found),
        };
        if used.counted as usize != used.pages.len() {
            let (counted, marked) = (used.counted, used.pages.len());
            self.finding(&format!(
                "page 0 counts {counted} pages in use, {marked} are marked so; ALTER TABLE ... FORCE copies the rows into a new file"
            ));
        }
        let mut lists = Vec::new();
        for no in used
            .pages
            .into_iter()
            .filter(|no| !known.contains(no) && !space::is_bitmap(*no))
        {
            self.step()?;
            let id = crate::base::PageId::new(layout.id, no);
            let page = match pool.read(id) {
                Ok(page) => page,
                // It may be a page of the quarantined index.
                Err(e) if e.is_corrupt() && layout.secondary.iter().any(|s| s.quarantined) => continue,
                Err(e) => {
                    found.push((no, Some(e)));
                    continue;
                }
            };
            if extents::owner_of_list(&page).is_some() {
                lists.push(id);
            }
            // A page that changed meanwhile is no evidence.
            let of_index = space::tree_of(&page).filter(|_| page.version() <= began);
            let own = |index: u32| {
                index == layout.clustered.id
                    || layout
                        .secondary_by_id(index & !DELTA_BIT)
                        .is_some_and(|s| !s.quarantined)
            };
            let stray = of_index.is_some_and(own);
            drop(page);
            if stray && space::is_used(&pool, id)? {
                found.push((no, None));
            }
        }
        // Lists of loads that have not ended, of transactions and of index builds: they may have
        // got more pages since. Pages that a load has not written may hold anything.
        let mut loading = BTreeSet::new();
        for list in lists {
            let page = pool.read(list)?;
            let (owner, index) = (extents::owner_of_list(&page), page_index(&page));
            let is_built = || self.table.layout().freeing.iter().any(|(id, _)| *id == index);
            if owner.is_some_and(|trx| trx != 0 || is_built()) {
                loading.extend(extents::listed(&page).flatten());
            }
        }
        found.retain(|(no, _)| !loading.contains(no));
        Ok(found)
    }

    fn report_strays(&mut self, found: Vec<(u32, Option<Error>)>) -> Result<()> {
        let mut strays = Vec::new();
        for (no, e) in found {
            match e {
                Some(e) => self.or_finding(Err(e))?,
                None => strays.push(no),
            }
        }
        if !strays.is_empty() {
            let (count, ranges) = (strays.len(), ranges(&strays));
            self.finding(&format!(
                "{count} pages are marked as in use and say that they belong to an index, whose tree does not reach them: {ranges}"
            ));
        }
        Ok(())
    }

    // ---- clustered against secondary ----

    /// Compares under a view of its own. So uncommitted changes of the user's transaction count on
    /// neither side, and the user's isolation level does not matter.
    fn compare_under_view(&mut self) -> Result<()> {
        let mut trx = self.reader.trx_sys.new_trx(self.waiter.clone(), 0);
        self.begin_view(&mut trx);
        let compared = self.compare(&mut trx);
        self.reader.trx_sys.commit(&mut trx);
        let compared = match compared {
            // An index was built or dropped since the view was made, and cannot be compared under
            // it.
            Err(Error::TableChanged) => Ok(()),
            compared => compared,
        };
        self.or_finding(compared)
    }
    pub(super) fn begin_view(&mut self, trx: &mut Trx) {
        debug_assert!(!trx.is_started(), "the view before is closed");
        self.view_us = self.reader.pool.disk().now_us();
        self.reader.trx_sys.start(trx, Isolation::RepeatableRead, 0);
        self.reader.trx_sys.visibility.open_view(trx);
    }
    /// A row or an entry is compared by itself; sums are of one view.
    fn is_one_by_one(&self) -> bool {
        self.level == CheckLevel::Extended && self.checker.knows_entries()
    }
    /// Called before the scan's next step, which goes on under the view that is open then. True:
    /// that is a new one.
    pub(super) fn renew_view(&mut self, trx: &mut Trx) -> bool {
        let kept = self.reader.pool.disk().now_us().saturating_sub(self.view_us);
        let is_due = self.is_one_by_one() && kept >= VIEW_US;
        if is_due {
            self.reader.trx_sys.commit(trx);
            self.begin_view(trx);
        }
        is_due
    }

    fn compare(&mut self, trx: &mut Trx) -> Result<()> {
        let rows_expected = self.table.statistics.counts.rows();
        let count = self.table.layout().secondary.len();
        let one_by_one = self.is_one_by_one();
        let mut expected = vec![Sum::default(); count];
        let mut rows = 0;
        self.next_stage(rows_expected);
        let mut scan = Cursor::new(self.reader.clone(), self.table.clone());
        let mut lookup = Cursor::new(self.reader.clone(), self.table.clone());
        let mut missing = vec![0u64; count];
        let mut entries: Vec<(u32, Vec<u8>, Vec<u8>)> = Vec::new();
        scan.begin(trx, 0, LockChoice::default(), false)?;
        let mut more = scan.seek(trx, Seek::First, &[])?;
        while more {
            self.step()?;
            rows += 1;
            entries.clear();
            if let Some(found) = scan.found() {
                self.checker.entries(
                    found.pk,
                    found.row,
                    &mut |index, key, raw| match expected.get_mut(index as usize) {
                        Some(_) if one_by_one => entries.push((index, key.to_vec(), raw.to_vec())),
                        Some(sum) => sum.add(key, raw),
                        None => {}
                    },
                );
            }
            for (index, key, raw) in &entries {
                if !has_entry(&mut lookup, trx, *index, key, raw)? {
                    self.name(&mut missing, *index, "lacks the entry of a row; its key is", key);
                }
            }
            self.renew_view(trx);
            more = scan.next(trx)?;
        }
        for index in 0..count as u32 {
            self.next_stage(rows);
            if !one_by_one {
                self.compare_sum(trx, index, rows, &expected[index as usize])?;
            }
            if self.level == CheckLevel::Extended {
                self.compare_entries(trx, index)?;
            }
        }
        Ok(())
    }

    /// Number and sum of an index's entries with those that the rows must have.
    fn compare_sum(&mut self, trx: &mut Trx, index: u32, rows: u64, expected: &Sum) -> Result<()> {
        let found = self.sum_of(trx, index)?;
        let name = self.index_name(index);
        if found.count != rows {
            let entries = found.count;
            self.finding(&format!(
                "index {name} has {entries} entries for {rows} rows; REPAIR TABLE rebuilds it"
            ));
        } else if self.checker.knows_entries() && found != *expected {
            self.finding(&format!(
                "the entries of index {name} are not those of the rows; REPAIR TABLE rebuilds it"
            ));
        }
        Ok(())
    }
    fn sum_of(&mut self, trx: &mut Trx, index: u32) -> Result<Sum> {
        let mut scan = Cursor::new(self.reader.clone(), self.table.clone());
        let (mut sum, mut raw) = (Sum::default(), Vec::new());
        scan.begin(trx, index + 1, LockChoice::default(), true)?;
        let mut more = scan.seek(trx, Seek::First, &[])?;
        while more {
            self.step()?;
            if let Some(found) = scan.found() {
                raw.clear();
                match found.covering {
                    true => raw.extend_from_slice(found.row),
                    // The view sees an older version than the entry's newest. The row was fetched,
                    // and its raw part comes from the row.
                    false => self.checker.entries(found.pk, found.row, &mut |of, its_key, its_raw| {
                        if of == index && its_key == found.key {
                            raw.extend_from_slice(its_raw);
                        }
                    }),
                }
                sum.add(found.key, &raw);
            }
            more = scan.next(trx)?;
        }
        Ok(sum)
    }

    /// Each entry of an index must be one of its row's. If the caller does not know the entries,
    /// the row must exist. (That each row has its entries is known.)
    fn compare_entries(&mut self, trx: &mut Trx, index: u32) -> Result<()> {
        let mut scan = Cursor::new(self.reader.clone(), self.table.clone());
        let mut lookup = Cursor::new(self.reader.clone(), self.table.clone());
        let (mut strays, mut others) = (vec![0; index as usize + 1], vec![0; index as usize + 1]);
        scan.begin(trx, index + 1, LockChoice::default(), true)?;
        let mut more = scan.seek(trx, Seek::First, &[])?;
        while more {
            self.step()?;
            if let Some(found) = scan.found() {
                let mut is_its = !self.checker.knows_entries();
                let there = lookup.get(trx, found.pk, LockChoice::default())?;
                if let Some(row) = lookup.found().filter(|_| there) {
                    self.checker.entries(row.pk, row.row, &mut |of, key, raw| {
                        // Not covering: the view sees an older version than the entry's newest.
                        let same_raw = !found.covering || raw == found.row;
                        is_its |= of == index && key == found.key && same_raw;
                    });
                }
                if !there {
                    let what = "has an entry whose row is not there; its key is";
                    self.name(&mut strays, index, what, found.key);
                } else if !is_its {
                    let what = "has an entry that is not its row's; its key is";
                    self.name(&mut others, index, what, found.key);
                }
            }
            self.renew_view(trx);
            more = scan.next(trx)?;
        }
        Ok(())
    }

    fn index_name(&self, index: u32) -> String {
        self.table.layout().secondary[index as usize].index.name.clone()
    }
    fn name(&mut self, counts: &mut [u64], index: u32, what: &str, key: &[u8]) {
        counts[index as usize] += 1;
        if counts[index as usize] <= NAMED_MAX {
            let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            let name = self.index_name(index);
            let way_out = match counts[index as usize] {
                1 => "; REPAIR TABLE rebuilds the index",
                _ => "",
            };
            self.finding(&format!("index {name} {what} {hex}{way_out}"));
        } else {
            self.findings += 1;
        }
    }
}

/// "4, 7-9": the first of them, of ascending page numbers.
fn ranges(pages: &[u32]) -> String {
    debug_assert!(pages.is_sorted(), "pages are named in the order of their numbers");
    let runs = pages.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    let mut named: Vec<String> = runs.take(NAMED_MAX as usize + 1).collect();
    if named.len() > NAMED_MAX as usize {
        named[NAMED_MAX as usize] = "...".into();
    }
    named.join(", ")
}

/// Does the transaction's view see that entry?
fn has_entry(lookup: &mut Cursor, trx: &mut Trx, index: u32, key: &[u8], raw: &[u8]) -> Result<bool> {
    lookup.begin(trx, index + 1, LockChoice::default(), true)?;
    if !lookup.seek(trx, Seek::Ge, key)? {
        return Ok(false);
    }
    Ok(lookup
        .found()
        .is_some_and(|found| found.key == key && (!found.covering || found.row == raw)))
}

fn check_row(layout: &Layout, key: &[u8], value: &[u8]) -> Option<String> {
    if layout.pk_fixed_len != 0 && key.len() != layout.pk_fixed_len {
        return Some(format!("a clustered key of {} bytes", key.len()));
    }
    if value.len() < ROW_HEADER {
        return Some(format!("a row of {} bytes", value.len()));
    }
    let header = RowHeader::read(value);
    if header.flags & ROW_OVERFLOW != 0 && ChainRef::of(value).is_none() {
        return Some("a long row without its overflow reference".into());
    }
    None
}

fn check_entry(layout: &Layout, key: &[u8], value: &[u8]) -> Option<String> {
    match secondary::decode(value, layout.pk_fixed_len) {
        Some(e) if e.pk_len <= key.len() => None,
        _ => Some("an entry that cannot be decoded".into()),
    }
}

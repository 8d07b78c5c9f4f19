//! One table: its trees, its long rows, its free space, and whether its secondary indexes have an
//! entry for each row and no others. Only the server can say whether an entry is the right one for
//! its row, because keys depend on column types and collations.
use crate::bytes::{hex, ranges, u32_at, u48_at, u64_at, Reader};
use crate::catalog::{Table, DELTA_BIT};
use crate::page::{self, BODY, PAGE};
use crate::pending::{live_key_len, Pending};
use crate::space::{self, Space};
use crate::store::Store;
use crate::tree;
use crate::undo::{version_before, Before};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

pub const ROW_HEADER: usize = 13;
pub const ROW_MARKED: u8 = 1;
const ROW_OVERFLOW: u8 = 2;
/// Of a row's second byte, in a table that marks rows of the past.
const PAST: u8 = 1 << 6;
/// Where a row's undo would be, if there is none.
const NO_UNDO: (u32, u16) = (0, 0);
const OVERFLOW_REF: usize = 18;

/// `value`: of a clustered entry in a table that marks rows of the past.
pub fn is_past(value: &[u8]) -> bool {
    let row_at = match value[0] & ROW_OVERFLOW {
        0 => ROW_HEADER,
        _ => ROW_HEADER + OVERFLOW_REF,
    };
    value.get(row_at + 1).is_some_and(|byte| byte & PAST != 0)
}
const CHAIN_DATA: usize = BODY + 16;

#[derive(Default)]
pub struct Report {
    pub rows: u64,
    pub marked: u64,
    pub long_rows: u64,
    pub pages: u64,
    pub free_pages: u64,
    pub old_chains: u64,
    /// Entries and pending entries of each secondary index.
    pub indexes: Vec<(String, u64, u64)>,
    pub findings: Vec<String>,
    pub notes: Vec<String>,
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// `quiet`: every transaction has ended, so rows and entries must agree. `unfinished`: those that
/// have not, as (id, prepared).
pub fn check(store: &Store, table: &Table, quiet: bool, unfinished: &[(u64, bool)]) -> Report {
    let mut report = Report::default();
    let space = space::check(store, table.file);
    report.findings.extend(space.findings.iter().cloned());
    let mut known = BTreeSet::from([0]);
    let mut rows = HashSet::new();
    let mut chains = Vec::new();
    let mut odd = 0;
    let walked = tree::walk(store, table.file, table.index, table.root, &mut |key, value| {
        if value.len() < ROW_HEADER || (table.key_len > 0 && key.len() != table.key_len) {
            odd += 1;
        } else if value[0] & ROW_MARKED != 0 {
            report.marked += 1;
        } else {
            report.rows += 1;
            rows.insert(hash(key));
        }
        if value.len() >= ROW_HEADER + OVERFLOW_REF && value[0] & ROW_OVERFLOW != 0 {
            chains.push((
                key.to_vec(),
                u32_at(value, ROW_HEADER + 8),
                u48_at(value, ROW_HEADER + 12),
            ));
        }
    });
    let clustered_sound = walked.findings.is_empty();
    report.findings.extend(
        walked
            .findings
            .into_iter()
            .map(|what| format!("clustered index: {what}")),
    );
    if odd > 0 {
        report
            .findings
            .push(format!("clustered index: {odd} entries that are no rows"));
    }
    known.extend(walked.pages);
    check_chains(store, table, chains, &mut known, &mut report);
    let read: Vec<Entries> = (table.secondary.iter())
        .map(|secondary| check_secondary(store, table, secondary, &rows, &mut known, &mut report))
        .collect();
    for (index, root) in &table.freeing {
        // Half freed: the pages that can still be reached, and those that an unfinished build has
        // listed. (A broken tree may still point to a page that is free already.)
        known.extend(listed(store, table.file, *root));
        let walked = tree::walk(store, table.file, *index, *root, &mut |_, _| ());
        known.extend(walked.pages.intersection(&space.used));
    }
    let loading = being_loaded(store, table, &space.used, &known, unfinished);
    known.extend(loading.pages);
    let cut_short = loading.cut_short || is_copy(table);
    if cut_short {
        report.notes.push(CUT_SHORT.into());
    }
    let compare = quiet && clustered_sound && !cut_short;
    for (secondary, entries) in table.secondary.iter().zip(&read) {
        judge_secondary(secondary, entries, compare, &mut report);
    }
    check_space(store, table, &space, &known, &mut report);
    report
}

/// The text for a table that no connection had opened when the server ended.
const CUT_SHORT: &str =
    "a load into it was cut short (ALTER TABLE that copies, or CREATE TABLE ... SELECT), and the server drops it when \
                         it starts again; its indexes are not compared with its rows";

/// By the name that the server gives to the copy until it takes the table's place. Between two of
/// its loads, no list identifies it.
pub fn is_copy(table: &Table) -> bool {
    table
        .name
        .rsplit('/')
        .next()
        .is_some_and(|name| name.starts_with("#sql-alter-"))
}

/// Loads that have not ended.
#[derive(Default)]
struct Loading {
    pages: BTreeSet<u32>,
    /// One of them belongs to no transaction, and loads a table that no connection had opened. It
    /// holds some of its rows and entries, or none.
    cut_short: bool,
}

/// Loads that are not linked: of transactions that have not ended, which roll them back, and of no
/// transaction.
fn being_loaded(
    store: &Store,
    table: &Table,
    used: &BTreeSet<u32>,
    known: &BTreeSet<u32>,
    unfinished: &[(u64, bool)],
) -> Loading {
    let mut loading = Loading::default();
    for no in used.difference(known) {
        let page = store.read(table.file, *no).unwrap_or_default();
        if page.is_empty() || page::kind(&page) != page::EXTENTS {
            continue;
        }
        let (index, owner) = (page::index(&page), u64_at(&page, BODY + 8));
        let is_ours = index == table.index || table.secondary.iter().any(|s| s.index == index);
        let by_nobody = owner == 0 && is_ours;
        if by_nobody || unfinished.iter().any(|(trx, _)| *trx == owner) {
            loading.cut_short |= by_nobody;
            loading.pages.extend(listed(store, table.file, *no));
        }
    }
    loading
}

/// What was read of a secondary index: entries that count, and those that have no row.
struct Entries {
    live: u64,
    strays: Vec<String>,
    /// Nothing is wrong with the index by itself.
    sound: bool,
}

fn judge_secondary(secondary: &crate::catalog::Secondary, entries: &Entries, compare: bool, report: &mut Report) {
    let name = &secondary.name;
    if secondary.quarantined {
        let what = format!("index {name}: the engine has quarantined it; REPAIR TABLE rebuilds it");
        return report.findings.push(what);
    }
    let before = report.findings.len();
    if compare && entries.sound {
        compare_counts(name, entries.live, &entries.strays, report);
    }
    if !entries.sound || report.findings.len() > before {
        report.notes.push(format!("index {name}: REPAIR TABLE rebuilds it"));
    }
}

fn check_secondary(
    store: &Store,
    table: &Table,
    secondary: &crate::catalog::Secondary,
    rows: &HashSet<u64>,
    known: &mut BTreeSet<u32>,
    report: &mut Report,
) -> Entries {
    let name = &secondary.name;
    let before = report.findings.len();
    let mut pending = Pending::default();
    let mut odd = 0u64;
    if secondary.delta_root != 0 {
        let delta = tree::walk(
            store,
            table.file,
            secondary.index | DELTA_BIT,
            secondary.delta_root,
            &mut |key, value| {
                odd += !pending.add(key, value) as u64;
            },
        );
        known.extend(delta.pages);
        report.findings.extend(
            delta
                .findings
                .into_iter()
                .map(|what| format!("buffered changes of index {name}: {what}")),
        );
    }
    let (mut live, mut strays) = (0u64, Vec::new());
    let mut misfits = Vec::new();
    let mut see = |key: &[u8], value: Result<Option<Vec<u8>>, String>| match value {
        Err(what) => misfits.push(what),
        Ok(None) => {}
        Ok(Some(value)) => {
            if let Some(len) = live_key_len(&value, table.key_len) {
                live += 1;
                if key.len() < len || !rows.contains(&hash(&key[key.len() - len..])) {
                    strays.push(hex(key));
                }
            }
        }
    };
    let walked = tree::walk(store, table.file, secondary.index, secondary.root, &mut |key, value| {
        see(key, pending.settle(key, Some(value)));
    });
    for key in pending.rest() {
        see(&key, pending.settle(&key, None));
    }
    known.extend(&walked.pages);
    report.indexes.push((name.clone(), walked.entries, pending.entries));
    report
        .findings
        .extend(walked.findings.into_iter().map(|what| format!("index {name}: {what}")));
    if odd > 0 || !misfits.is_empty() {
        let first = misfits.first().map_or(String::new(), |what| format!(" ({what})"));
        report.findings.push(format!(
            "index {name}: {} buffered changes do not fit{first}",
            odd + misfits.len() as u64
        ));
    }
    let sound = report.findings.len() == before;
    Entries { live, strays, sound }
}

fn compare_counts(name: &str, live: u64, strays: &[String], report: &mut Report) {
    if live != report.rows {
        let what = format!("index {name}: {live} entries for {} rows", report.rows);
        report.findings.push(what);
    }
    if let Some(first) = strays.first() {
        let what = format!(
            "index {name}: {} entries without a row, the first {first}",
            strays.len()
        );
        report.findings.push(what);
    }
}

/// The overflow pages of (key, first page, transaction that made them).
fn check_chains(
    store: &Store,
    table: &Table,
    chains: Vec<(Vec<u8>, u32, u64)>,
    known: &mut BTreeSet<u32>,
    report: &mut Report,
) {
    report.long_rows = chains.len() as u64;
    for (key, first, owner) in chains {
        match chain(store, table.file, first, Some(owner)) {
            Ok((pages, _)) => known.extend(pages),
            Err(what) => report.findings.push(format!("long row {}: {what}", hex(&key))),
        }
    }
}

/// Pages of a load that has not ended: those of its list (`engine/src/btree/sorted/extents.rs`),
/// and the list's own.
fn listed(store: &Store, file: u32, first: u32) -> BTreeSet<u32> {
    let mut pages = BTreeSet::new();
    let mut no = first;
    while let Some(page) = store
        .read(file, no)
        .ok()
        .filter(|page| page::kind(page) == page::EXTENTS)
    {
        if !pages.insert(no) {
            break;
        }
        for i in 0..(u32_at(&page, BODY + 4) as usize).min((PAGE - BODY - 16) / 8) {
            let at = BODY + 16 + 8 * i;
            let first = u32_at(&page, at);
            pages.extend(first..first.saturating_add(u32_at(&page, at + 4).min(1 << 20) * 64));
        }
        no = u32_at(&page, BODY);
    }
    pages
}

fn is_tree(page: &[u8]) -> bool {
    matches!(page::kind(page), page::TREE | page::TREE_REST)
}

/// Pages in use are somebody's, and pages that are somebody's are in use.
fn check_space(store: &Store, table: &Table, space: &Space, known: &BTreeSet<u32>, report: &mut Report) {
    let name = store.name_of(table.file);
    report.pages = space.used.len() as u64;
    report.free_pages = space.pages as u64 - (space.used.len() as u64).min(space.pages as u64);
    for no in known.difference(&space.used) {
        report
            .findings
            .push(format!("{name} page {no}: somebody's, but not marked as in use"));
    }
    let mut strays: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for no in space.used.difference(known).filter(|no| !space::is_bitmap(**no)) {
        match store.read(table.file, *no) {
            // Of older versions of rows, until purge comes to them.
            Ok(page) if page::kind(&page) == page::OVERFLOW => report.old_chains += 1,
            Ok(page) if is_tree(&page) && table.freeing.iter().any(|(index, _)| *index == page::index(&page)) => {}
            Ok(page) if is_tree(&page) => strays.entry(page::index(&page)).or_default().push(*no),
            Ok(_) => report
                .findings
                .push(format!("{name} page {no}: marked as in use, but nobody's")),
            Err(what) => report
                .findings
                .push(format!("{name} page {no}: marked as in use, nobody's, and {what}")),
        }
    }
    for (index, pages) in strays {
        report.findings.push(format!(
            "{name} pages {}: in use, and say that they belong to index {index}, whose tree does not reach them ({} pages)",
            ranges(&pages),
            pages.len()
        ));
    }
}

/// A chain of overflow pages: (pages, bytes).
pub fn chain(store: &Store, file: u32, first: u32, owner: Option<u64>) -> Result<(Vec<u32>, Vec<u8>), String> {
    let (mut pages, mut data) = (Vec::new(), Vec::new());
    let mut no = first;
    while no != 0 {
        if pages.contains(&no) {
            return Err(format!("page {no}: its chain of overflow pages comes back to it"));
        }
        let page = store.read(file, no).map_err(|what| format!("page {no}: {what}"))?;
        let begins = crate::bytes::u16_at(&page, BODY + 6) == 1;
        let len = crate::bytes::u16_at(&page, BODY + 4) as usize;
        if page::kind(&page) != page::OVERFLOW || begins != (no == first) || len > PAGE - CHAIN_DATA {
            return Err(format!("page {no}: it is not the overflow page that it should be"));
        }
        if begins && owner.is_some_and(|owner| owner != u64_at(&page, BODY + 8)) {
            return Err(format!(
                "page {no}: its chain of overflow pages was made by another transaction"
            ));
        }
        data.extend_from_slice(&page[CHAIN_DATA..CHAIN_DATA + len]);
        pages.push(no);
        no = u32_at(&page, BODY);
    }
    Ok((pages, data))
}

/// A row as it was committed last: versions of the transactions in `undone` are rolled back. None:
/// there is no such row.
pub fn committed_row(store: &Store, table: &Table, value: &[u8], undone: &[u64]) -> Result<Option<Vec<u8>>, String> {
    if value.len() < ROW_HEADER {
        return Err("it has no header".into());
    }
    let mut b = Reader::new(value);
    let (mut flags, mut trx) = (b.u8().unwrap_or(0), b.u48().unwrap_or(0));
    let mut undo = (u32_at(value, 7), crate::bytes::u16_at(value, 11));
    let mut stored = value[ROW_HEADER..].to_vec();
    while undone.contains(&trx) {
        if undo == NO_UNDO {
            // Loaded into an empty table: there was nothing before.
            return Ok(None);
        }
        match version_before(store, undo, &stored)? {
            Before::Nothing => return Ok(None),
            Before::Version {
                flags: f,
                trx: t,
                undo: u,
                stored: s,
            } => (flags, trx, undo, stored) = (f, t, u, s),
        }
    }
    if flags & ROW_MARKED != 0 {
        return Ok(None);
    }
    if flags & ROW_OVERFLOW == 0 {
        return Ok(Some(stored));
    }
    if stored.len() < OVERFLOW_REF {
        return Err("it lacks its overflow reference".into());
    }
    let (total, first) = (u64_at(&stored, 0) as usize, u32_at(&stored, 8));
    let mut row = stored[OVERFLOW_REF..].to_vec();
    row.extend(chain(store, table.file, first, None)?.1);
    match row.len() == total {
        true => Ok(Some(row)),
        false => Err(format!("it has {} bytes and should have {total}", row.len())),
    }
}

//! CHECK TABLE: each tree by itself (order, fences, page marks, entry formats), and the secondary indexes against the clustered one.
//!
//! Of a secondary index also its delta tree, and that what is pending there fits the entries it is for. The comparison reads base and
//! pending changes together, as every reader does: it proves that both together are the clustered index, whatever is merged meanwhile.
//!
//! The comparison runs under one read view, so it may run beside writers: each secondary index must show as many rows as the
//! clustered one, each of them once, and (extended) each of them must be there.
use super::cursor::{Cursor, LockChoice};
use super::def::{Layout, Table};
use super::store::Store;
use crate::base::{Error, Result};
use crate::btree::Seek;
use crate::change::{self, entry};
use crate::index::{ChainRef, RowHeader, ROW_HEADER, ROW_OVERFLOW};
use crate::txn::Trx;
use std::sync::Arc;

impl Store {
    /// Findings go to `each` as lines. True: the table is sound.
    pub fn check_table(
        self: &Arc<Store>,
        trx: &mut Trx,
        table: &Arc<Table>,
        extended: bool,
        each: &mut dyn FnMut(&str),
    ) -> Result<bool> {
        let mut findings = 0;
        let mut report = |line: &str| {
            findings += 1;
            each(line);
        };
        self.check_trees(table, &mut report)?;
        if findings > 0 {
            // The comparison reads through the trees: it is worth nothing when they are broken.
            return Ok(false);
        }
        let mut report = |line: &str| {
            findings += 1;
            each(line);
        };
        self.compare_indexes(trx, table, extended, &mut report)?;
        Ok(findings == 0)
    }

    fn check_trees(&self, table: &Arc<Table>, report: &mut dyn FnMut(&str)) -> Result<()> {
        let _gate = table.gate.read();
        let layout = table.layout();
        let clustered = layout
            .clustered
            .tree
            .verify(&self.pool, &mut |key, value| check_row(layout, key, value))?;
        for finding in clustered.findings {
            report(&format!("clustered index: {finding}"));
        }
        for s in &layout.secondary {
            let each = &mut |key: &[u8], value: &[u8]| check_entry(layout, key, value);
            for finding in s.index.tree.verify(&self.pool, each)?.findings {
                report(&format!("index {}: {finding}", s.index.name));
            }
            change::check(&self.pool, &s.index, &mut |finding| {
                report(&format!("buffered changes of index {}: {finding}", s.index.name));
            })?;
        }
        Ok(())
    }

    fn compare_indexes(
        self: &Arc<Store>,
        trx: &mut Trx,
        table: &Arc<Table>,
        extended: bool,
        report: &mut dyn FnMut(&str),
    ) -> Result<()> {
        self.trx_sys.open_view(trx);
        let rows = self.count_visible(trx, table, 0, None)?;
        let names: Vec<String> = (table.layout().secondary.iter())
            .map(|s| s.index.name.clone())
            .collect();
        for (i, name) in names.iter().enumerate() {
            let mut missing = 0;
            let mut lookup = extended.then(|| Cursor::new(self.clone(), table.clone()));
            let found = match self.count_visible(trx, table, i as u32 + 1, lookup.as_mut().map(|c| (c, &mut missing))) {
                // An index built after the transaction's view cannot be compared under it.
                Err(Error::TableChanged) => continue,
                found => found?,
            };
            if found != rows {
                report(&format!("index {name} has {found} entries for {rows} rows"));
            }
            if missing > 0 {
                report(&format!("index {name} has {missing} entries whose row is missing"));
            }
        }
        Ok(())
    }

    /// Rows that the view shows through an index; with `lookup`, counts those whose clustered key shows none.
    fn count_visible(
        self: &Arc<Store>,
        trx: &mut Trx,
        table: &Arc<Table>,
        ordinal: u32,
        mut lookup: Option<(&mut Cursor, &mut u64)>,
    ) -> Result<u64> {
        let mut cursor = Cursor::new(self.clone(), table.clone());
        cursor.begin(trx, ordinal, LockChoice::default(), true)?;
        let mut count = 0;
        let mut more = cursor.seek(trx, Seek::First, &[])?;
        while more {
            count += 1;
            if let (Some((rows, missing)), Some(found)) = (&mut lookup, cursor.found()) {
                if !rows.get(trx, found.pk, LockChoice::default())? {
                    **missing += 1;
                }
            }
            more = cursor.next(trx)?;
        }
        Ok(count)
    }
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
    match entry::decode(value, layout.pk_fixed_len) {
        Some(e) if e.pk_len <= key.len() => None,
        _ => Some("an entry that cannot be decoded".into()),
    }
}

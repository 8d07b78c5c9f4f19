//! [`ForeignEntries`]: the entries of one key at one end of a foreign key, as both searches read
//! them: `parent_check` and `child_search`.
//!
//! The statement may have no metadata lock on the other table. So that table's gate is held while
//! its pages are accessed, and the table and the index are looked up by their numbers each time. No
//! number is given twice (I10), so a dropped index is noticed.
//!
//! Latches: those of reading the index. No row lock is waited for here.
use crate::base::{planted, sync_point, Mutant, Result, SyncPoint, TrxId};
use crate::change::{self, IndexTrees};
use crate::index::{Index, RowHeader};
use crate::pool::Pool;
use crate::table::catalog::foreign_key::ForeignEnd;
use crate::table::catalog::index_quarantine::{check_not_quarantined, quarantined_error};
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::row::entry::decode_entry;
use crate::table::row::past::value_is_past;
use crate::txn::{Trx, TrxSys};
use std::sync::Arc;

/// Entries that are read at a time where rows of the past may be among them.
const AMONG_PAST: usize = 64;

/// The newest version of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Newest {
    Current,
    /// It is one of the past, and no rollback changes that.
    Past,
    /// It is gone, or one of the past by an active transaction.
    Unclear,
}

/// An entry as it was found: its key, its stamp, and whether it was marked.
type Met = (Vec<u8>, TrxId, bool);

/// An entry whose row exists, or may exist once an active transaction has ended.
pub(in crate::table) struct Candidate {
    pub key: Vec<u8>,
    /// Clustered key.
    pub pk: Vec<u8>,
    pub stamp: TrxId,
    pub marked: bool,
    /// Unmarked, and its maker had ended before the look began: no rollback takes it away. Nor is
    /// its row one of the past.
    pub is_certain: bool,
}

/// What earlier reads of the same search have shown.
#[derive(Default)]
pub(in crate::table) struct Learned {
    /// Entries without a row, whether their makers commit or roll back.
    harmless: Vec<Met>,
    /// Unmarked entries whose rows were gone. An entry can be seen so once, while its row is
    /// deleted.
    gone: Vec<Met>,
    /// Makers of marks that had ended before the latest read began.
    ended: Vec<TrxId>,
    /// Key of an entry of the row that is changed, which does not count.
    own: Option<Vec<u8>>,
}

impl Learned {
    /// The entry `own` does not count.
    pub fn ignoring(own: Option<&[u8]>) -> Learned {
        Learned {
            own: own.map(<[u8]>::to_vec),
            ..Learned::default()
        }
    }
    /// The row of the entry is locked, and its newest version does not have the entry.
    pub fn note_harmless(&mut self, of: Candidate) {
        self.harmless.push((of.key, of.stamp, of.marked));
    }
    /// The entry had no row.
    pub fn note_gone(&mut self, of: Candidate) {
        let met = (of.key, of.stamp, of.marked);
        match of.marked || self.gone.contains(&met) {
            true => self.harmless.push(met),
            false => self.gone.push(met),
        }
    }
    fn is_harmless(&self, key: &[u8], stamp: TrxId, marked: bool) -> bool {
        let same = |met: &Met| met.0 == key && met.1 == stamp && met.2 == marked;
        self.own.as_deref() == Some(key) || self.harmless.iter().any(same)
    }
}

/// The entries at one end of a foreign key.
pub(in crate::table) struct ForeignEntries<'a> {
    pub pool: &'a Pool,
    pub trx_sys: &'a TrxSys,
    pub table: &'a Arc<Table>,
    pub end: &'a ForeignEnd,
}

/// An entry under its latch.
struct Seen<'a> {
    key: &'a [u8],
    pk: &'a [u8],
    stamp: TrxId,
    marked: bool,
    /// Its row is one of the past. A secondary entry does not tell.
    is_past: bool,
}

impl ForeignEntries<'_> {
    /// The next entries with `prefix`, from `from` on, `most` at a time, without those of rows of
    /// the past. None: the table or the index was dropped.
    pub fn candidates(
        &self,
        trx: &Trx,
        (prefix, from): (&[u8], &[u8]),
        most: usize,
        learned: &mut Learned,
    ) -> Result<Option<Vec<Candidate>>> {
        let layout = self.table.layout();
        if !layout.marks_past || layout.clustered.id == self.end.index {
            return self.entries_from(trx, (prefix, from), most, learned);
        }
        let mut from = from.to_vec();
        loop {
            let Some(mut found) = self.entries_from(trx, (prefix, &from), most.max(AMONG_PAST), learned)? else {
                return Ok(None);
            };
            let Some(last) = found.last() else {
                return Ok(Some(found));
            };
            from = [&last.key[..], &[0]].concat();
            let mut current = Vec::new();
            for mut candidate in found.drain(..) {
                let Some(newest) = self.newest(trx, &candidate.pk)? else {
                    return Ok(None);
                };
                if newest != Newest::Past {
                    candidate.is_certain &= newest == Newest::Current;
                    current.push(candidate);
                }
            }
            debug_assert!(
                current.is_sorted_by(|before: &Candidate, after| before.key < after.key),
                "rows of the past are left out, and the others keep their order"
            );
            current.truncate(most);
            if !current.is_empty() {
                return Ok(Some(current));
            }
        }
    }

    /// None: the table was dropped.
    fn newest(&self, trx: &Trx, pk: &[u8]) -> Result<Option<Newest>> {
        let _gate = self.table.gate.read();
        let layout = self.table.layout();
        if self.table.is_dropped() || layout.id != self.end.table {
            return Ok(None);
        }
        debug_assert!(layout.marks_past, "no row of any other table is of the past");
        debug_assert_ne!(layout.clustered.id, self.end.index, "a clustered entry tells it itself");
        let leaf = layout.clustered.tree.get(self.pool, pk)?;
        let newest = leaf.map_or(Newest::Unclear, |leaf| {
            let header = RowHeader::read(leaf.value());
            let may_come_back = header.trx != trx.id() && self.trx_sys.is_active(header.trx);
            match value_is_past(layout, leaf.value()) {
                _ if header.marked() => Newest::Unclear,
                true if may_come_back => Newest::Unclear,
                true => Newest::Past,
                false => Newest::Current,
            }
        });
        Ok(Some(newest))
    }

    fn entries_from(
        &self,
        trx: &Trx,
        (prefix, from): (&[u8], &[u8]),
        most: usize,
        learned: &mut Learned,
    ) -> Result<Option<Vec<Candidate>>> {
        loop {
            let oldest_active = self.trx_sys.oldest_active();
            let (mut found, mut doubtful) = (Vec::new(), Vec::new());
            let known = self.visit(prefix, from, &mut |seen| {
                sync_point(SyncPoint::ForeignEntryMet);
                let own = seen.stamp == trx.id();
                let may_come_back = !own && self.trx_sys.is_active(seen.stamp);
                if seen.marked && !may_come_back {
                    // As in `unique.rs`: buffered changes were collected before the mark's maker
                    // ended, and its rollback may have removed the mark in between.
                    let is_new = |list: &Vec<TrxId>| !list.contains(&seen.stamp);
                    if !own && seen.stamp >= oldest_active && is_new(&learned.ended) && is_new(&doubtful) {
                        doubtful.push(seen.stamp);
                    }
                    return Ok(true);
                }
                let is_past = seen.is_past && !seen.marked;
                if is_past && !may_come_back || learned.is_harmless(seen.key, seen.stamp, seen.marked) {
                    return Ok(true);
                }
                found.push(Candidate {
                    key: seen.key.to_vec(),
                    pk: seen.pk.to_vec(),
                    stamp: seen.stamp,
                    marked: seen.marked,
                    is_certain: !seen.marked && !is_past && !own && seen.stamp < oldest_active,
                });
                Ok(found.len() < most)
            })?;
            if !known {
                return Ok(None);
            }
            debug_assert!(
                found.is_sorted_by(|before: &Candidate, after| before.key < after.key),
                "the entries of a key come in order, each once"
            );
            debug_assert!(found.len() <= most, "a look finds no more than was asked for");
            debug_assert!(
                found.iter().all(|of| of.key.starts_with(prefix) && of.key[..] >= *from),
                "the entries found begin with the key, and lie in what is left of the search"
            );
            if !found.is_empty() || doubtful.is_empty() {
                return Ok(Some(found));
            }
            learned.ended.append(&mut doubtful);
        }
    }

    /// Whether the entry `key` exists and is unmarked. The caller has its row locked. None: as in
    /// `candidates`.
    pub fn is_there(&self, key: &[u8]) -> Result<Option<bool>> {
        let mut there = false;
        let known = self.visit(key, key, &mut |seen| {
            there = seen.key == key && !seen.marked;
            Ok(false)
        })?;
        Ok(known.then_some(there))
    }

    /// False: the table or the index was dropped.
    fn visit(&self, prefix: &[u8], from: &[u8], each: &mut dyn FnMut(Seen<'_>) -> Result<bool>) -> Result<bool> {
        let _gate = self.table.gate.read();
        let layout = self.table.layout();
        if self.table.is_dropped() || layout.id != self.end.table {
            return Ok(false);
        }
        if layout.clustered.id == self.end.index {
            change::visit_prefix_from(self.pool, &layout.clustered, prefix, from, &mut |pk, value| {
                let header = RowHeader::read(value);
                each(Seen {
                    key: pk,
                    pk,
                    stamp: header.trx,
                    marked: header.marked(),
                    is_past: value_is_past(layout, value),
                })
            })?;
            return Ok(true);
        }
        let Some(secondary) = layout.secondary_by_id(self.end.index) else {
            return Ok(false);
        };
        if secondary.quarantined {
            return Err(quarantined_error(layout.id, &secondary.index));
        }
        let visited = self.visit_secondary(layout, &secondary.index, (prefix, from), each);
        // Checked last: a rollback that skips a quarantined index has left marks there.
        check_not_quarantined(&secondary.index)?;
        visited.map(|()| true)
    }

    fn visit_secondary(
        &self,
        layout: &Layout,
        index: &Index,
        (prefix, from): (&[u8], &[u8]),
        each: &mut dyn FnMut(Seen<'_>) -> Result<bool>,
    ) -> Result<()> {
        let without_buffer;
        let trees = match planted(Mutant::CascadeOverlooksBuffered) {
            true => {
                without_buffer = IndexTrees {
                    tree: index.tree,
                    delta: None,
                };
                &without_buffer
            }
            false => &index.trees,
        };
        change::visit_prefix_from(self.pool, trees, prefix, from, &mut |key, value| {
            let entry = decode_entry(layout, value)?;
            each(Seen {
                key,
                pk: &key[key.len() - entry.pk_len..],
                stamp: entry.stamp,
                marked: entry.marked,
                is_past: false,
            })
        })
    }
}

//! What a table is made of: the definition it is created from ([`TableSpec`]), and its present
//! shape ([`Layout`]). A layout never changes: DDL publishes a new one (`versions.rs`).
use crate::base::{FileId, IndexId, TrxId};
use crate::btree::Tree;
use crate::change::{Buffering, Delta};
use crate::index::Index;
use crate::table::catalog::foreign_key::ForeignKeySpec;
use crate::table::catalog::key_part::KeyPart;
use crate::txn::ReadView;
use std::sync::Arc;

/// A secondary index to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexSpec {
    pub name: String,
    /// Each index key has one row. Entries that say [`has_null`](crate::table::Entry::has_null) are
    /// exempt.
    pub unique: bool,
    /// Entry keys, the clustered key included, may have
    /// [`WIDE_KEY_MAX`](crate::btree::WIDE_KEY_MAX) bytes in place of
    /// [`KEY_MAX`](crate::btree::KEY_MAX). Nodes have four pages, and no change of the index is
    /// buffered.
    pub wide: bool,
    /// What its key is made of, without the clustered key; empty: not known. A foreign key needs
    /// it.
    pub parts: Vec<KeyPart>,
}

/// A table to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSpec {
    /// Unlogged, known to this run of the engine only.
    pub temporary: bool,
    /// The clustered key is an id given by `Table::next_row_id`.
    pub hidden_pk: bool,
    /// Its clustered keys may be as long as those of a wide index.
    pub wide_pk: bool,
    /// Every clustered key has this length; 0 = they vary.
    pub pk_fixed_len: u32,
    /// Its rows say whether they are of the past: `row/past.rs`.
    pub marks_past: bool,
    /// As [`IndexSpec::parts`], of the clustered key.
    pub pk_parts: Vec<KeyPart>,
    pub indexes: Vec<IndexSpec>,
    /// Foreign keys in which the table is the child.
    pub foreign: Vec<ForeignKeySpec>,
    /// Which changes of its indexes are buffered; None: as the engine's setting says.
    pub change_buffering: Option<Buffering>,
    /// The user's own notes, given back at open.
    pub schema: Vec<u8>,
}

/// A secondary index of a layout.
#[derive(Clone, Debug)]
pub struct Secondary {
    pub index: Index,
    /// A page of it could not be read when the index had to be changed: the index is neither read
    /// nor kept up (`index_quarantine.rs`).
    pub quarantined: bool,
    /// Transaction that built it: views that do not see it cannot use it. 0 = older than every
    /// view.
    pub created: TrxId,
    /// As in [`IndexSpec::parts`].
    pub parts: Vec<KeyPart>,
}

/// The shape of a table between two DDL statements.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Number of the table's incarnation and of its data file (TRUNCATE makes a new one). Undo
    /// records name it.
    pub id: FileId,
    pub temporary: bool,
    pub hidden_pk: bool,
    pub pk_fixed_len: usize,
    /// As in [`TableSpec`].
    pub marks_past: bool,
    /// As in [`TableSpec::pk_parts`].
    pub pk_parts: Vec<KeyPart>,
    pub clustered: Index,
    pub secondary: Vec<Secondary>,
    /// Foreign keys in which the table is the child.
    pub foreign: Vec<Arc<ForeignKeySpec>>,
    /// The table that an ALTER TABLE will replace by this one, if foreign keys have to follow.
    pub replaces: Option<String>,
    /// As in [`TableSpec`].
    pub change_buffering: Option<Buffering>,
    pub schema: Vec<u8>,
    /// When the table was made, renamed or altered last: what the server shows as its time of
    /// creation.
    pub created_s: u64,
    /// As in [`Secondary::created`], for the table.
    pub created: TrxId,
    /// Trees (index number, root) of dropped indexes, whose pages are still being freed.
    pub freeing: Vec<(IndexId, u32)>,
}

impl Layout {
    /// A tree of it is wide.
    pub fn has_wide(&self) -> bool {
        let is_wide = |index: &Index| index.tree.is_wide();
        is_wide(&self.clustered) || self.secondary.iter().any(|s| is_wide(&s.index))
    }
    /// The secondary index of that number, if it (still) exists.
    pub fn secondary_by_id(&self, id: IndexId) -> Option<&Secondary> {
        self.secondary.iter().find(|s| s.index.id == id)
    }
    /// Numbers of all indexes, clustered first.
    pub(in crate::table) fn index_ids(&self) -> impl Iterator<Item = IndexId> + '_ {
        std::iter::once(self.clustered.id).chain(self.secondary.iter().map(|s| s.index.id))
    }
    /// The ordinal of the index with this number, as [`Layout::index`] takes it. None: the index
    /// has gone.
    pub(in crate::table) fn ordinal_of(&self, id: IndexId) -> Option<u32> {
        let mut ordinals = 0..=self.secondary.len() as u32;
        ordinals.find(|ordinal| self.index(*ordinal).is_some_and(|index| index.id == id))
    }
    /// The secondary indexes stand in the order in which they were made. Of indexes that an ALTER
    /// TABLE has added in place, a younger one may stand before an older one.
    pub(in crate::table) fn is_by_age(&self) -> bool {
        self.secondary.is_sorted_by_key(|s| s.index.id)
    }
    /// 0 = clustered, i + 1 = secondary i.
    pub fn index(&self, ordinal: u32) -> Option<&Index> {
        match ordinal {
            0 => Some(&self.clustered),
            i => self.secondary.get(i as usize - 1).map(|s| &s.index),
        }
    }
    /// The parts of an index: 0 = clustered, i + 1 = secondary i.
    pub fn parts(&self, ordinal: u32) -> &[KeyPart] {
        match ordinal {
            0 => &self.pk_parts,
            i => self.secondary.get(i as usize - 1).map_or(&[], |s| &s.parts),
        }
    }
    /// The catalog knows what the table's keys are made of.
    pub fn has_parts(&self) -> bool {
        let has_no_key = self.hidden_pk && self.secondary.is_empty();
        has_no_key || !self.pk_parts.is_empty() || self.secondary.iter().any(|s| !s.parts.is_empty())
    }
    /// False: the table or the index (0 = clustered, i + 1 = secondary i) is younger than the view,
    /// and does not show what was before. Rows that were copied or loaded look as if they had
    /// always been there; removed rows and old keys are missing.
    pub(in crate::table) fn is_seen_by(&self, view: &ReadView, index: u32) -> bool {
        let index_created = match index {
            0 => 0,
            i => self.secondary.get(i as usize - 1).map_or(0, |s| s.created),
        };
        view.sees(self.created) && view.sees(index_created)
    }
    /// Sets what the table says about buffering in the delta trees, and uniqueness in those of
    /// unique indexes.
    pub(in crate::table) fn set_up_deltas(&self) {
        for index in self.secondary.iter().map(|s| &s.index) {
            let Some(delta) = &index.delta else { continue };
            delta.set_buffering(self.change_buffering);
            if index.unique {
                delta.set_unique(self.pk_fixed_len);
            }
        }
    }
    /// The secondary indexes that have a delta tree and are kept up.
    pub(in crate::table) fn buffered(&self) -> impl Iterator<Item = (&Index, &Delta)> {
        let indexes = self.secondary.iter().filter(|s| !s.quarantined).map(|s| &s.index);
        indexes.filter_map(|index| Some((index, index.delta.as_deref()?)))
    }
    /// The trees of all indexes, delta trees included.
    pub(in crate::table) fn all_trees(&self) -> impl Iterator<Item = Tree> + '_ {
        let secondary = self.secondary.iter().map(|s| &s.index);
        let of_changes = secondary.clone().filter_map(|index| Some(index.delta.as_ref()?.tree));
        std::iter::once(self.clustered.tree)
            .chain(secondary.map(|index| index.tree))
            .chain(of_changes)
    }
    pub fn tree(&self, root: u32, index: IndexId) -> Tree {
        Tree {
            file: self.id,
            root,
            index,
        }
    }
}

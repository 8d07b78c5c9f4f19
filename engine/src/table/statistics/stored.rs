//! Statistics on disk: a tree of their own in the system file. Its root is in slot 3 of the file's
//! header (`catalog/dictionary`); 0 = no statistics were ever stored.
//!
//! Key: table number u32 big-endian, piece number u8: a record too long for one entry goes on in
//! the next piece. Joined:
//! ```text
//! version     u8      2
//! rows        varint
//! updated     varint  seconds since the epoch; 0 = unknown
//! computed    varint  seconds since the epoch; 0 = only rows and updated are known
//! indexes     count varint, then each: index number, rows, leaf pages, pages, pages read,
//!             count of prefixes, and for each prefix its number of values: varints
//! ```
//! An index of version 1 has no `rows`; those of the table are taken. A record that cannot be
//! decoded counts as none: the statistics are computed anew. Writers hold the DDL mutex. DROP and
//! TRUNCATE remove the record in the Mtr that changes the catalog. Called by `optimizer/keeper` and
//! `catalog/ddl`.
use crate::base::bytes::{push_varint, take_varint};
use crate::base::ids::SYSTEM_FILE;
use crate::base::sync::{holds, Rank};
use crate::base::{planted, FileId, IndexId, Mutant, PageNo, Result};
use crate::btree::{Intent, Placed, Seek, Tree, ENTRY_MAX};
use crate::pool::{Mtr, Pool};
use crate::space;
use crate::table::statistics::state::{IndexStatistics, TableStatistics};
use std::sync::atomic::{AtomicU32, Ordering};

/// Place of the root's number in the header page of the system file.
pub(in crate::table) const STATISTICS_SLOT: usize = space::ROOTS_OFFSET + 12;
/// Index number of the tree.
const STATISTICS_INDEX: IndexId = 2;

const VERSION: u8 = 2;
const VERSION_WITHOUT_ROWS: u8 = 1;
const PIECE_MAX: usize = ENTRY_MAX / 2;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    pub rows: u64,
    pub updated_s: u64,
    /// None: only the fields above are known.
    pub computed: Option<TableStatistics>,
}

fn key(table: FileId, piece: u8) -> [u8; 5] {
    let [a, b, c, d] = table.to_be_bytes();
    [a, b, c, d, piece]
}

impl Stored {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        let empty = TableStatistics::default();
        let computed = self.computed.as_ref().unwrap_or(&empty);
        for number in [
            self.rows,
            self.updated_s,
            computed.computed_s,
            computed.indexes.len() as u64,
        ] {
            push_varint(&mut out, number);
        }
        for of in &computed.indexes {
            for number in [
                of.index as u64,
                of.rows,
                of.leaf_pages,
                of.pages,
                of.pages_read,
                of.distinct.len() as u64,
            ] {
                push_varint(&mut out, number);
            }
            of.distinct.iter().for_each(|number| push_varint(&mut out, *number));
        }
        debug_assert!(
            Stored::decode(&out).is_some_and(|read| read.rows == self.rows && read.updated_s == self.updated_s),
            "what is stored of a table reads back"
        );
        out
    }
    fn decode(bytes: &[u8]) -> Option<Stored> {
        let version = *bytes.first()?;
        if !matches!(version, VERSION | VERSION_WITHOUT_ROWS) {
            return None;
        }
        let mut at = 1;
        let mut number = || take_varint(bytes, &mut at);
        let (rows, updated_s, computed_s) = (number()?, number()?, number()?);
        let mut indexes = Vec::new();
        for _ in 0..number()? {
            let mut of = IndexStatistics {
                index: u32::try_from(number()?).ok()?,
                rows: match version {
                    VERSION_WITHOUT_ROWS => rows,
                    _ => number()?,
                },
                leaf_pages: number()?,
                pages: number()?,
                pages_read: number()?,
                distinct: Vec::new(),
            };
            for _ in 0..number()? {
                of.distinct.push(number()?);
            }
            indexes.push(of);
        }
        let computed = TableStatistics {
            rows,
            computed_s,
            indexes,
        };
        Some(Stored {
            rows,
            updated_s,
            computed: (computed_s > 0).then_some(computed),
        })
    }
}

/// The tree of stored statistics.
pub(in crate::table) struct StoredStatistics {
    /// Root page; 0 = the tree is not made yet.
    root: AtomicU32,
}

impl StoredStatistics {
    /// `root`: of the header's slot.
    pub fn new(root: PageNo) -> StoredStatistics {
        StoredStatistics {
            root: AtomicU32::new(root),
        }
    }

    fn tree(&self) -> Option<Tree> {
        let root = self.root.load(Ordering::Acquire);
        (root != 0).then_some(Tree {
            file: SYSTEM_FILE,
            root,
            index: STATISTICS_INDEX,
        })
    }

    pub fn read(&self, pool: &Pool, table: FileId) -> Result<Option<Stored>> {
        let Some(tree) = self.tree() else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        let mut leaf = tree.seek(pool, Seek::Ge, &key(table, 0))?;
        'pieces: while let Some(at) = leaf {
            for slot in at.slot()..at.len() {
                let (key, value) = at.entry_at(slot);
                if !key.starts_with(&table.to_be_bytes()) {
                    break 'pieces;
                }
                bytes.extend_from_slice(value);
            }
            leaf = tree.next_leaf(pool, at)?;
        }
        Ok(Stored::decode(&bytes))
    }

    /// The DDL mutex is held.
    pub fn write(&self, pool: &Pool, table: FileId, stored: &Stored) -> Result<()> {
        let bytes = stored.encode();
        let pieces: Vec<&[u8]> = bytes.chunks(PIECE_MAX).collect();
        let mut room = pool.begin();
        space::ensure_free(&mut room, SYSTEM_FILE, 8 + 3 * pieces.len() as u32)?;
        room.commit();
        let mut mtr = pool.begin();
        if let Err(e) = self.put_pieces(&mut mtr, table, &pieces) {
            if mtr.has_changes() {
                pool.poison(&format!("statistics could be written only in part: {e}"));
            }
            return Err(e);
        }
        mtr.commit();
        Ok(())
    }

    fn put_pieces(&self, mtr: &mut Mtr<'_>, table: FileId, pieces: &[&[u8]]) -> Result<()> {
        debug_assert!(holds(Rank::Catalog), "statistics are stored under the DDL mutex");
        debug_assert!(pieces.len() <= 256, "the number of a piece has one byte");
        let tree = match self.tree() {
            Some(tree) => tree,
            None => self.make_tree(mtr)?,
        };
        for (piece, value) in pieces.iter().enumerate() {
            let key = key(table, piece as u8);
            let at = tree.leaf_for_write(mtr, &key, Intent::Grow(key.len() + value.len()), None)?;
            let placed = match at.found {
                true => at.set_value(mtr, value)?,
                false => at.insert(mtr, &key, value)?,
            };
            assert_eq!(placed, Placed::Done, "Grow makes room");
        }
        self.remove_pieces(mtr, tree, table, pieces.len())
    }

    /// The DDL mutex is held. If the Mtr fails after this, the engine is poisoned: it has changes.
    fn make_tree(&self, mtr: &mut Mtr<'_>) -> Result<Tree> {
        debug_assert!(self.tree().is_none(), "the tree of statistics is made once");
        let tree = Tree::create(mtr, SYSTEM_FILE, STATISTICS_INDEX)?;
        let header = space::header(mtr, SYSTEM_FILE)?;
        mtr.edit_u32(header, STATISTICS_SLOT, tree.root);
        self.root.store(tree.root, Ordering::Release);
        Ok(tree)
    }

    fn remove_pieces(&self, mtr: &mut Mtr<'_>, tree: Tree, table: FileId, first: usize) -> Result<()> {
        debug_assert!(holds(Rank::Catalog), "statistics are removed under the DDL mutex");
        for piece in first..=255 {
            let at = tree.leaf_for_write(mtr, &key(table, piece as u8), Intent::Grow(0), None)?;
            if !at.found {
                return Ok(());
            }
            at.remove(mtr)?;
        }
        Ok(())
    }

    /// Removes what is stored of a table that is dropped or emptied, before the catalog is changed
    /// in the same Mtr.
    pub fn remove(&self, mtr: &mut Mtr<'_>, table: FileId) -> Result<()> {
        let Some(tree) = self.tree().filter(|_| !planted(Mutant::StatisticsSurviveDrop)) else {
            return Ok(());
        };
        match self.remove_pieces(mtr, tree, table, 0) {
            // A page of statistics that cannot be read must not keep a table from being dropped.
            Err(e) if e.is_corrupt() && !mtr.has_changes() => Ok(()),
            removed => removed,
        }
    }

    /// Tables of which something is stored. For tests.
    #[cfg(test)]
    pub fn tables(&self, pool: &Pool) -> Result<Vec<FileId>> {
        let mut tables = Vec::new();
        let Some(tree) = self.tree() else {
            return Ok(tables);
        };
        let mut leaf = tree.seek(pool, Seek::First, &[])?;
        while let Some(at) = leaf {
            for slot in 0..at.len() {
                let id = at
                    .key_at(slot)
                    .first_chunk::<4>()
                    .map_or(0, |id| u32::from_be_bytes(*id));
                tables.push(id);
            }
            leaf = tree.next_leaf(pool, at)?;
        }
        tables.dedup();
        Ok(tables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back() {
        let of = |index, distinct: &[u64]| IndexStatistics {
            index,
            rows: (1 << 40) - index as u64,
            leaf_pages: 1000,
            pages: 1007,
            pages_read: 60,
            distinct: distinct.to_vec(),
        };
        let computed = TableStatistics {
            rows: 1 << 40,
            computed_s: 1_700_000_000,
            indexes: vec![of(16, &[7, 300]), of(17, &[])],
        };
        let stored = Stored {
            rows: 1 << 40,
            updated_s: 5,
            computed: Some(computed),
        };
        let bytes = stored.encode();
        assert_eq!(Stored::decode(&bytes), Some(stored));
        for cut in 0..bytes.len() {
            assert_eq!(Stored::decode(&bytes[..cut]), None);
        }
        let only_rows = Stored {
            rows: 3,
            updated_s: 4,
            computed: None,
        };
        assert_eq!(Stored::decode(&only_rows.encode()), Some(only_rows));
        assert_eq!(Stored::decode(&[9, 1, 1, 1, 0]), None, "a later version's record");
        let old = Stored::decode(&[1, 100, 5, 6, 1, 16, 4, 5, 4, 1, 7]).expect("version 1");
        let of = &old.computed.expect("computed").indexes[0];
        assert_eq!(
            (of.index, of.rows, of.leaf_pages, &of.distinct[..]),
            (16, 100, 4, &[7][..])
        );
    }
}

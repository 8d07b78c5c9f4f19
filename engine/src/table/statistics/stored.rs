//! Statistics on disk: a tree of their own in the system file, whose root is in slot 3 of the file's header (`catalog`; 0 = no
//! statistics were ever stored).
//!
//! Key: table number u32 big-endian, piece number u8: a record too long for one entry goes on in the next piece. Joined:
//! ```text
//! version     u8      1
//! rows        varint
//! updated     varint  seconds since the epoch; 0 = unknown
//! computed    varint  seconds since the epoch; 0 = only rows and updated are known
//! indexes     count varint, then each: index number, leaf pages, pages, pages read, count of prefixes, and for each
//!             prefix its number of values: varints
//! ```
//! A record that cannot be decoded is as good as none: the statistics are computed anew. Writers hold the DDL mutex; DROP and
//! TRUNCATE remove the record in the Mtr that changes the catalog.
use super::{IndexStatistics, TableStatistics};
use crate::base::bytes::{push_varint, take_varint};
use crate::base::ids::SYSTEM_FILE;
use crate::base::{planted, Error, FileId, Mutant, Result};
use crate::btree::{Intent, Placed, Seek, Tree, ENTRY_MAX};
use crate::pool::Mtr;
use crate::space;
use crate::table::catalog::dictionary::STATISTICS_INDEX;
use crate::table::catalog::table::Table;
use crate::table::store::Store;
use std::sync::atomic::Ordering;

const VERSION: u8 = 1;
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
                of.leaf_pages,
                of.pages,
                of.pages_read,
                of.distinct.len() as u64,
            ] {
                push_varint(&mut out, number);
            }
            of.distinct.iter().for_each(|number| push_varint(&mut out, *number));
        }
        out
    }
    fn decode(bytes: &[u8]) -> Option<Stored> {
        if bytes.first() != Some(&VERSION) {
            return None;
        }
        let mut at = 1;
        let mut number = || take_varint(bytes, &mut at);
        let (rows, updated_s, computed_s) = (number()?, number()?, number()?);
        let mut indexes = Vec::new();
        for _ in 0..number()? {
            let mut of = IndexStatistics {
                index: u32::try_from(number()?).ok()?,
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

impl Store {
    fn statistics_tree(&self) -> Option<Tree> {
        let root = self.catalog.statistics_root.load(Ordering::Acquire);
        (root != 0).then_some(Tree {
            file: SYSTEM_FILE,
            root,
            index: STATISTICS_INDEX,
        })
    }

    fn read_stored(&self, table: FileId) -> Result<Option<Stored>> {
        let Some(tree) = self.statistics_tree() else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        let mut leaf = tree.seek(&self.pool, Seek::Ge, &key(table, 0))?;
        'pieces: while let Some(at) = leaf {
            for slot in at.slot()..at.len() {
                let (key, value) = at.entry_at(slot);
                if !key.starts_with(&table.to_be_bytes()) {
                    break 'pieces;
                }
                bytes.extend_from_slice(value);
            }
            leaf = tree.next_leaf(&self.pool, at)?;
        }
        Ok(Stored::decode(&bytes))
    }

    /// Reads what is stored of a table, once.
    pub(super) fn load_statistics(&self, table: &Table) -> Result<()> {
        let state = &table.statistics;
        if state.marks.lock().loaded {
            return Ok(());
        }
        let found = match self.read_stored(table.layout().id) {
            Err(Error::Corrupt(damage)) => {
                self.tell_warning(&format!(
                    "the stored statistics of table {} cannot be read ({}): they are computed anew",
                    self.catalog.shown(table),
                    damage.what
                ));
                None
            }
            found => found?,
        };
        let mut marks = state.marks.lock();
        if std::mem::replace(&mut marks.loaded, true) {
            return Ok(());
        }
        let Some(found) = found else { return Ok(()) };
        marks.updated_s = marks.updated_s.max(found.updated_s);
        drop(marks);
        if found.computed.is_some() {
            state.publish(found.computed);
        }
        Ok(())
    }

    /// The stored number of rows, if the clustered index has not grown or shrunk by more than a fiftieth since; scaled with it.
    pub(super) fn stored_rows(&self, table: &Table, leaf_pages: u64) -> Result<Option<u64>> {
        let Some(stored) = self.read_stored(table.layout().id)? else {
            return Ok(None);
        };
        let clustered = stored.computed.as_ref().and_then(|computed| computed.indexes.first());
        Ok(match clustered {
            Some(of) if of.leaf_pages > 0 && of.leaf_pages.abs_diff(leaf_pages) * 50 > of.leaf_pages => None,
            _ => Some(stored.rows),
        })
    }

    /// Stores what is known of the table, if its statistics are persistent. A full disk keeps nobody from working.
    pub(super) fn save_statistics(&self, table: &Table) -> Result<()> {
        let state = &table.statistics;
        let layout = table.layout();
        let (changes, now_us) = (state.counts.changes(), self.pool.disk().now_us());
        {
            let mut marks = state.marks.lock();
            (marks.saved_at, marks.saved_us) = (changes, now_us);
        }
        if layout.temporary || !state.is_persistent(&self.statistics_settings) || !state.counts.is_known() {
            return Ok(());
        }
        let stored = Stored {
            rows: state.counts.rows(),
            updated_s: state.look_for_changes(self.pool.disk().wall_s()),
            computed: state.current.read().as_deref().cloned(),
        };
        let _ddl = self.start_ddl()?;
        if table.is_gone() || table.layout().id != layout.id {
            return Ok(());
        }
        match self.write_stored(layout.id, &stored.encode()) {
            Err(Error::Full(_)) => Ok(()),
            Err(e) if e.is_corrupt() => {
                let table = self.catalog.shown(table);
                self.tell_warning(&format!("the statistics of table {table} cannot be stored: {e}"));
                Ok(())
            }
            written => written,
        }
    }

    /// The DDL mutex is held.
    fn write_stored(&self, table: FileId, bytes: &[u8]) -> Result<()> {
        let pieces: Vec<&[u8]> = bytes.chunks(PIECE_MAX).collect();
        let mut room = self.pool.begin();
        space::ensure_free(&mut room, SYSTEM_FILE, 8 + 3 * pieces.len() as u32)?;
        room.commit();
        let mut mtr = self.pool.begin();
        if let Err(e) = self.put_pieces(&mut mtr, table, &pieces) {
            if mtr.has_changes() {
                self.pool
                    .poison(&format!("statistics could be written only in part: {e}"));
            }
            return Err(e);
        }
        mtr.commit();
        Ok(())
    }

    fn put_pieces(&self, mtr: &mut Mtr<'_>, table: FileId, pieces: &[&[u8]]) -> Result<()> {
        let tree = match self.statistics_tree() {
            Some(tree) => tree,
            None => self.catalog.make_statistics_tree(mtr)?,
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

    fn remove_pieces(&self, mtr: &mut Mtr<'_>, tree: Tree, table: FileId, first: usize) -> Result<()> {
        for piece in first..=255 {
            let at = tree.leaf_for_write(mtr, &key(table, piece as u8), Intent::Grow(0), None)?;
            if !at.found {
                return Ok(());
            }
            at.remove(mtr)?;
        }
        Ok(())
    }

    /// Removes what is stored of a table that is dropped or emptied, before the catalog is changed in the same Mtr.
    pub(in crate::table) fn remove_stored(&self, mtr: &mut Mtr<'_>, table: FileId) -> Result<()> {
        let Some(tree) = self
            .statistics_tree()
            .filter(|_| !planted(Mutant::StatisticsSurviveDrop))
        else {
            return Ok(());
        };
        match self.remove_pieces(mtr, tree, table, 0) {
            // A page of statistics that cannot be read keeps nobody from dropping a table.
            Err(e) if e.is_corrupt() && !mtr.has_changes() => Ok(()),
            removed => removed,
        }
    }

    /// Tables of which something is stored. For tests.
    #[cfg(test)]
    pub(crate) fn tables_with_stored_statistics(&self) -> Result<Vec<FileId>> {
        let mut tables = Vec::new();
        let Some(tree) = self.statistics_tree() else {
            return Ok(tables);
        };
        let mut leaf = tree.seek(&self.pool, Seek::First, &[])?;
        while let Some(at) = leaf {
            for slot in 0..at.len() {
                let id = at
                    .key_at(slot)
                    .first_chunk::<4>()
                    .map_or(0, |id| u32::from_be_bytes(*id));
                tables.push(id);
            }
            leaf = tree.next_leaf(&self.pool, at)?;
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
    }
}

//! The catalog: which tables exist. On disk a B+tree in the system file (`format`), in memory all
//! of it.
//!
//! The system file's header page holds, as owner's fields (`space::ROOTS_OFFSET`):
//! ```text
//! slot 0  root page of the catalog tree
//! slot 1  next table (and file) number      never given twice (I10)
//! slot 2  next index number
//! slot 3  root page of the tree of statistics (`statistics/stored.rs`); 0 = none was ever stored
//! ```
//! DDL statements run one at a time under `ddl` (rank Catalog, taken before page latches). A
//! statement's change of the catalog is one Mtr. Inside one Mtr all descents are made under
//! `Intent::Grow`. It X-latches from the root, so the Mtr meets the pages that it already holds as
//! its own.
//!
//! Called by `ddl` and by the engine's open.
use crate::base::bytes::get_u32;
use crate::base::ids::{FIRST_TABLE_FILE, SYSTEM_FILE};
use crate::base::sync::{holds, Rank, RankedGuard, RankedMutex};
use crate::base::{Error, FileId, IndexId, PageId, Result};
use crate::btree::WIDE_BIT;
use crate::btree::{Intent, Placed, Seek, Tree};
use crate::change::ChangeBuffer;
use crate::change::DELTA_BIT;
use crate::pool::{Mtr, Pool};
use crate::space;
use crate::table::catalog::foreign_names::ForeignNames;
use crate::table::catalog::format::{self, decode, encode, pieces_max, split_key};
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use crate::table::statistics::stored::{StoredStatistics, STATISTICS_SLOT};
use parking_lot::RwLock;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

const ROOT_SLOT: usize = space::ROOTS_OFFSET;
const NEXT_TABLE_SLOT: usize = space::ROOTS_OFFSET + 4;
const NEXT_INDEX_SLOT: usize = space::ROOTS_OFFSET + 8;

/// Index number of the catalog tree itself; tables get later ones.
pub const CATALOG_INDEX: IndexId = 1;
const FIRST_INDEX: IndexId = 16;

/// The next numbers to be given. Its mutex serialises DDL.
pub struct DdlNumbers {
    next_table: FileId,
    next_index: IndexId,
}

#[derive(Default)]
struct Maps {
    by_name: BTreeMap<String, Arc<Table>>,
    by_id: HashMap<FileId, Arc<Table>>,
}

/// Gives a table's name as the user writes it. Called from any thread, without latches.
pub type TableText = Arc<dyn Fn(&str) -> String + Send + Sync>;

pub struct Catalog {
    tree: Tree,
    pub(in crate::table) statistics: StoredStatistics,
    ddl: RankedMutex<DdlNumbers>,
    maps: RwLock<Maps>,
    /// Foreign keys by name.
    pub(in crate::table) foreign: RwLock<ForeignNames>,
    /// What the delta trees of all tables share.
    pub(in crate::table) buffer: Arc<ChangeBuffer>,
    table_text: TableText,
}

impl Catalog {
    /// Formats the catalog of a fresh engine; the system file exists.
    pub fn create(pool: &Pool) -> Result<()> {
        let mut mtr = pool.begin();
        let tree = Tree::create(&mut mtr, SYSTEM_FILE, CATALOG_INDEX)?;
        let header = space::header(&mut mtr, SYSTEM_FILE)?;
        mtr.edit_u32(header, ROOT_SLOT, tree.root);
        mtr.edit_u32(header, NEXT_TABLE_SLOT, FIRST_TABLE_FILE);
        mtr.edit_u32(header, NEXT_INDEX_SLOT, FIRST_INDEX);
        mtr.commit();
        Ok(())
    }

    /// Reads the whole catalog; after redo.
    pub fn open(pool: &Pool, buffer: Arc<ChangeBuffer>, table_text: TableText) -> Result<Catalog> {
        let (root, next_table, next_index, statistics_root) = {
            let header = pool.read(PageId::new(SYSTEM_FILE, space::HEADER_PAGE))?;
            let slot = |at| get_u32(&header, at);
            (
                slot(ROOT_SLOT),
                slot(NEXT_TABLE_SLOT),
                slot(NEXT_INDEX_SLOT),
                slot(STATISTICS_SLOT),
            )
        };
        if root == 0 {
            return Err(Error::corrupt("the system file holds no catalog"));
        }
        let tree = Tree {
            file: SYSTEM_FILE,
            root,
            index: CATALOG_INDEX,
        };
        let mut maps = Maps::default();
        for (name, bytes) in read_all(&tree, pool)? {
            let layout = decode(&table_text(&name), &bytes, &buffer)?;
            maps.add(Arc::new(Table::new(&name, layout)));
        }
        Ok(Catalog {
            tree,
            statistics: StoredStatistics::new(statistics_root),
            ddl: RankedMutex::new(Rank::Catalog, DdlNumbers { next_table, next_index }),
            maps: RwLock::new(maps),
            foreign: RwLock::default(),
            buffer,
            table_text,
        })
    }

    /// The table's name as the user writes it.
    pub fn shown(&self, table: &Table) -> String {
        self.shown_name(&table.name())
    }
    /// As `shown`, of a table that need not exist.
    pub fn shown_name(&self, name: &str) -> String {
        (self.table_text)(name)
    }
    pub fn get(&self, name: &str) -> Option<Arc<Table>> {
        self.maps.read().by_name.get(name).cloned()
    }
    /// The table whose present incarnation has that number.
    pub fn by_id(&self, id: FileId) -> Option<Arc<Table>> {
        self.maps.read().by_id.get(&id).cloned()
    }
    pub fn names(&self) -> Vec<String> {
        self.maps.read().by_name.keys().cloned().collect()
    }
    /// The table that a foreign key means by this name: also one that an ALTER TABLE has moved.
    pub(in crate::table) fn parent_named(&self, name: &str) -> Option<Arc<Table>> {
        self.get(name).or_else(|| {
            let moved = self.foreign.read().moved_to(name).map(str::to_string);
            self.get(&moved?)
        })
    }
    /// Tables with a foreign key that names this parent, which need not exist.
    pub fn children_of(&self, parent: &str) -> Vec<String> {
        self.foreign.read().children_of(parent)
    }
    pub fn tables(&self) -> Vec<Arc<Table>> {
        self.maps.read().by_name.values().cloned().collect()
    }

    /// One DDL statement at a time. Held across I/O.
    pub(crate) fn begin_ddl(&self) -> RankedGuard<'_, DdlNumbers> {
        self.ddl.lock()
    }

    /// New numbers, written in `mtr`: a table and `indexes` consecutive index numbers.
    pub(in crate::table) fn take_numbers(
        &self,
        ddl: &mut DdlNumbers,
        mtr: &mut Mtr<'_>,
        indexes: u32,
    ) -> Result<(FileId, IndexId)> {
        let header = space::header(mtr, SYSTEM_FILE)?;
        let given = (ddl.next_table, ddl.next_index);
        debug_assert!(indexes > 0, "numbers are taken for at least one tree");
        debug_assert!(
            given.0 >= get_u32(mtr.bytes(header), NEXT_TABLE_SLOT)
                && given.1 >= get_u32(mtr.bytes(header), NEXT_INDEX_SLOT),
            "I10: the numbers in memory are never behind those in the file"
        );
        ddl.next_table += 1;
        ddl.next_index += indexes;
        debug_assert!(
            ddl.next_index & (WIDE_BIT | DELTA_BIT) == 0,
            "an index number leaves room for its marks"
        );
        mtr.edit_u32(header, NEXT_TABLE_SLOT, ddl.next_table);
        mtr.edit_u32(header, NEXT_INDEX_SLOT, ddl.next_index);
        Ok(given)
    }

    /// Passes a file number that a found file has, but no table. The number was given, but the
    /// crash took the record of that. It is never given again (I10): the log will say that this
    /// file was dropped.
    pub fn pass_number(&self, mtr: &mut Mtr<'_>, file: FileId) -> Result<()> {
        let mut ddl = self.ddl.lock();
        if ddl.next_table <= file {
            let header = space::header(mtr, SYSTEM_FILE)?;
            ddl.next_table = file + 1;
            debug_assert!(
                get_u32(mtr.bytes(header), NEXT_TABLE_SLOT) <= file,
                "I10: the number in the file only grows"
            );
            mtr.edit_u32(header, NEXT_TABLE_SLOT, ddl.next_table);
        }
        Ok(())
    }

    /// Gets room for these definitions in the system file, in an Mtr of its own. So the change of
    /// the catalog does not end half way on a full disk. The DDL mutex is held, so no other thread
    /// takes pages of that file. On error nothing has changed.
    pub(in crate::table) fn make_room(&self, pool: &Pool, layouts: &[&Layout]) -> Result<()> {
        if layouts.is_empty() {
            return Ok(());
        }
        // Each piece may split its leaf and the leaf's parent. The list of unfinished trees may
        // need one more piece. The root may grow.
        let mut pages = 8;
        for layout in layouts {
            pages += 3 * (pieces_max(layout)? as u32 + 1);
        }
        let mut mtr = pool.begin();
        space::ensure_free(&mut mtr, SYSTEM_FILE, pages)?;
        mtr.commit();
        Ok(())
    }

    /// Writes or replaces a table's definition in `mtr`.
    pub(in crate::table) fn put(&self, mtr: &mut Mtr<'_>, name: &str, layout: &Layout) -> Result<()> {
        debug_assert!(layout.id >= FIRST_TABLE_FILE, "the engine's own files are no tables");
        let pieces = encode(name, layout)?;
        debug_assert!(
            pieces.is_sorted_by(|before, after| before.0 < after.0),
            "the pieces of a definition are read back in their order"
        );
        for (key, value) in &pieces {
            let at = self
                .tree
                .leaf_for_write(mtr, key, Intent::Grow(key.len() + value.len()), None)?;
            let placed = if at.found {
                at.set_value(mtr, value)?
            } else {
                at.insert(mtr, key, value)?
            };
            assert_eq!(placed, Placed::Done, "Grow makes room");
        }
        self.remove_from(mtr, name, pieces.len())
    }

    /// Removes a table's definition in `mtr`.
    pub(in crate::table) fn delete(&self, mtr: &mut Mtr<'_>, name: &str) -> Result<()> {
        self.remove_from(mtr, name, 0)
    }

    fn remove_from(&self, mtr: &mut Mtr<'_>, name: &str, first_piece: usize) -> Result<()> {
        debug_assert!(holds(Rank::Catalog), "definitions change under the DDL mutex");
        for piece in first_piece..=255 {
            let key = format::key(name, piece as u8);
            let at = self.tree.leaf_for_write(mtr, &key, Intent::Grow(0), None)?;
            if !at.found {
                return Ok(());
            }
            at.remove(mtr)?;
        }
        Ok(())
    }

    pub(in crate::table) fn add(&self, table: Arc<Table>) {
        debug_assert!(holds(Rank::Catalog), "tables come under the DDL mutex");
        self.maps.write().add(table);
    }
    pub(in crate::table) fn forget(&self, name: &str) {
        debug_assert!(holds(Rank::Catalog), "tables go under the DDL mutex");
        let mut maps = self.maps.write();
        if let Some(table) = maps.by_name.remove(name) {
            let removed = maps.by_id.remove(&table.layout().id);
            debug_assert!(removed.is_some(), "a table that has a name is known by its number, too");
        }
    }
    /// Takes the layouts that the table had before, if the table has no user now.
    pub(in crate::table) fn take_old_layouts(&self, name: &str) -> Vec<Layout> {
        let mut maps = self.maps.write();
        let Some(mut table) = maps.by_name.remove(name) else {
            return Vec::new();
        };
        maps.by_id.remove(&table.layout().id);
        let old = Arc::get_mut(&mut table).map(Table::take_old_layouts);
        maps.add(table);
        old.unwrap_or_default()
    }
    pub(in crate::table) fn renamed(&self, from: &str, to: &str) {
        debug_assert!(holds(Rank::Catalog), "tables get names under the DDL mutex");
        let mut maps = self.maps.write();
        if let Some(table) = maps.by_name.remove(from) {
            table.set_name(to);
            let replaced = maps.by_name.insert(to.to_string(), table);
            debug_assert!(replaced.is_none(), "a table name is taken once");
        }
    }
    /// TRUNCATE: from now on the table is found under its new number only. Undo of the old number
    /// concerns no table.
    pub(in crate::table) fn renumbered(&self, table: &Arc<Table>, from: FileId, to: FileId) {
        debug_assert!(holds(Rank::Catalog), "tables get numbers under the DDL mutex");
        let mut maps = self.maps.write();
        let removed = maps.by_id.remove(&from);
        debug_assert!(
            removed.is_some_and(|removed| Arc::ptr_eq(&removed, table)),
            "a table is known by its number"
        );
        debug_assert!(!maps.by_id.contains_key(&to), "I10: a number is never given twice");
        maps.by_id.insert(to, table.clone());
    }
}

impl Maps {
    fn add(&mut self, table: Arc<Table>) {
        self.by_id.insert(table.layout().id, table.clone());
        let old = self.by_name.insert(table.name(), table);
        assert!(old.is_none(), "a table name is taken once");
    }
}

/// Names and joined definitions.
fn read_all(tree: &Tree, pool: &Pool) -> Result<Vec<(String, Vec<u8>)>> {
    let mut out: Vec<(String, Vec<u8>)> = Vec::new();
    let mut leaf = tree.seek(pool, Seek::First, &[])?;
    while let Some(at) = leaf {
        for slot in 0..at.len() {
            let bad = || Error::corrupt("the catalog holds a key that is no table name");
            let (name, piece) = split_key(at.key_at(slot)).ok_or_else(bad)?;
            if piece == 0 {
                out.push((name.to_string(), at.value_at(slot).to_vec()));
            } else {
                let last = out.last_mut().filter(|(n, _)| n == name).ok_or_else(bad)?;
                last.1.extend_from_slice(at.value_at(slot));
            }
        }
        leaf = tree.next_leaf(pool, at)?;
    }
    Ok(out)
}

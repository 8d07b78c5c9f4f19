//! Tables, indexes and files, as INFORMATION_SCHEMA shows them.
//!
//! Names and numbers come from the catalog in memory. The pages in use come from the file's header,
//! under the table's gate: a statement that removes the file waits for that one page. Called by
//! `ffi`.
use crate::base::ids::{SYSTEM_FILE, UNDO_FILE};
use crate::base::{Error, FileId, IndexId, PageNo, Result};
use crate::engine::instance::Engine;
use crate::io::FileSize;
use crate::space::file_number;
use crate::space::{self, Usage};
use crate::table::Table;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Also the number of its file.
    pub id: FileId,
    pub name: String,
    pub temporary: bool,
    pub indexes: u32,
    /// None: no statement has needed the number since the start.
    pub rows: Option<u64>,
    /// Rows changed since the table was loaded into memory.
    pub changes: u64,
    /// Next AUTO_INCREMENT value; 0 = there is none. None: no statement has needed it since the
    /// start.
    pub autoinc: Option<u64>,
    /// Handles that are open.
    pub handles: u32,
    pub created_s: u64,
    /// Why the table cannot be used.
    pub broken: Option<String>,
}

/// How rows are found by an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// Of the primary key.
    Clustered,
    /// Of hidden row numbers.
    ClusteredHidden,
    Unique,
    Plain,
}

/// An index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexInfo {
    pub id: IndexId,
    pub table: FileId,
    pub name: String,
    pub kind: IndexKind,
    /// Columns of its own key. None: not known of a table that an old version made.
    pub parts: Option<u32>,
    pub root: PageNo,
    /// Root of the tree of buffered changes. None: no change of it is buffered.
    pub delta_root: Option<PageNo>,
    pub wide: bool,
    pub quarantined: bool,
}

/// What a file of the directory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    System,
    Undo,
    Table,
    Temporary,
    RedoLog,
    Doublewrite,
    /// No table has it: it is just being made or removed, or it could not be removed.
    Unnamed,
}

/// A file of the engine's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    pub name: String,
    pub kind: FileKind,
    /// Of a data file.
    pub id: Option<FileId>,
    /// The table's name.
    pub owner: Option<String>,
    pub size: FileSize,
    /// Of a data file that can be read.
    pub usage: Option<Usage>,
}

fn table_info(table: &Table) -> TableInfo {
    let layout = table.layout();
    let counts = &table.statistics.counts;
    TableInfo {
        id: layout.id,
        name: table.name(),
        temporary: layout.temporary,
        indexes: 1 + layout.secondary.len() as u32,
        rows: counts.is_known().then(|| counts.rows()),
        changes: counts.changes(),
        autoinc: table.counters_loaded.load(Ordering::Acquire).then(|| table.autoinc()),
        handles: table.opened.load(Ordering::Relaxed),
        created_s: layout.created_s,
        broken: table.broken().map(str::to_string),
    }
}

fn indexes_of(table: &Table) -> Vec<IndexInfo> {
    let layout = table.layout();
    let info = |ordinal: usize| {
        let index = layout.index(ordinal as u32)?;
        let parts = layout.parts(ordinal as u32).len() as u32;
        let hidden = layout.hidden_pk && ordinal == 0;
        Some(IndexInfo {
            id: index.id,
            table: layout.id,
            name: match (ordinal, hidden) {
                (0, true) => "GEN_CLUST_INDEX".into(),
                (0, false) => "PRIMARY".into(),
                _ => index.name.clone(),
            },
            kind: match ordinal {
                0 if hidden => IndexKind::ClusteredHidden,
                0 => IndexKind::Clustered,
                _ if index.unique => IndexKind::Unique,
                _ => IndexKind::Plain,
            },
            parts: (hidden || parts > 0).then_some(parts),
            root: index.tree.root,
            delta_root: index.delta.as_ref().map(|delta| delta.tree.root),
            wide: index.tree.is_wide(),
            quarantined: ordinal > 0 && layout.secondary[ordinal - 1].quarantined,
        })
    };
    let infos: Vec<IndexInfo> = (0..=layout.secondary.len()).filter_map(info).collect();
    debug_assert_eq!(infos.len(), 1 + layout.secondary.len(), "every index is shown");
    infos
}

fn tables_by_number(engine: &Engine) -> Vec<Arc<Table>> {
    let mut tables = engine.store.catalog.tables();
    tables.retain(|table| !table.is_dropped());
    tables.sort_by_key(|table| table.layout().id);
    tables
}
/// All tables, by number.
pub fn table_infos(engine: &Engine) -> Vec<TableInfo> {
    tables_by_number(engine).iter().map(|table| table_info(table)).collect()
}
/// The indexes of all tables, by table; the clustered one first.
pub fn index_infos(engine: &Engine) -> Vec<IndexInfo> {
    tables_by_number(engine)
        .iter()
        .flat_map(|table| indexes_of(table))
        .collect()
}

/// Calls `each` with each file of the directory. An error of `each` ends the list early, because a
/// page of each data file may have to be read.
pub fn each_file(engine: &Engine, each: &mut dyn FnMut(FileInfo) -> Result<()>) -> Result<()> {
    engine.check_alive()?;
    let tables: HashMap<FileId, Arc<Table>> = tables_by_number(engine)
        .into_iter()
        .map(|table| (table.layout().id, table))
        .collect();
    let disk = engine.store.pool.disk().clone();
    for name in disk.list()? {
        // A file may be removed while the list is gone through.
        let Some(size) = disk.size(&name)? else { continue };
        each(file_info(engine, name, size, &tables)?)?;
    }
    Ok(())
}

fn file_info(engine: &Engine, name: String, size: FileSize, tables: &HashMap<FileId, Arc<Table>>) -> Result<FileInfo> {
    let temporary_table = format!("{}table_", space::TEMPORARY_PREFIX);
    let id = match name.strip_prefix(&temporary_table) {
        Some(digits) => FileId::from_str_radix(digits, 16).ok(),
        None => file_number(&name),
    };
    let table = id.and_then(|id| tables.get(&id));
    let kind = match id {
        Some(SYSTEM_FILE) => FileKind::System,
        Some(UNDO_FILE) => FileKind::Undo,
        _ if name.starts_with(space::TEMPORARY_PREFIX) => FileKind::Temporary,
        Some(_) if table.is_some() => FileKind::Table,
        _ if name.starts_with("redo_") => FileKind::RedoLog,
        _ if name == "doublewrite" => FileKind::Doublewrite,
        _ => FileKind::Unnamed,
    };
    let usage = match (kind, id, table) {
        (FileKind::System | FileKind::Undo, Some(id), _) => readable(space::usage(&engine.store.pool, id))?,
        (_, Some(id), Some(table)) => usage_of(engine, table, id)?,
        _ => None,
    };
    Ok(FileInfo {
        name,
        kind,
        id,
        owner: table.map(|table| table.name()),
        size,
        usage,
    })
}

fn usage_of(engine: &Engine, table: &Table, id: FileId) -> Result<Option<Usage>> {
    let _gate = table.gate.read();
    match table.is_gone() || table.layout().id != id {
        true => Ok(None),
        false => readable(space::usage(&engine.store.pool, id)),
    }
}

/// A page that cannot be read is reported by the statement that needs it.
fn readable(usage: Result<Usage>) -> Result<Option<Usage>> {
    match usage {
        Err(Error::Corrupt(_) | Error::Io(_)) => Ok(None),
        usage => usage.map(Some),
    }
}

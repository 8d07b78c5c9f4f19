//! The catalog: tables and their trees. Drawn in `engine/src/table/catalog/dictionary.rs` (the
//! system file's header) and `format.rs`.
use crate::bytes::{u32_at, Reader};
use crate::store::Store;
use crate::tree::{self, Walked};
use std::collections::BTreeMap;

pub const SYSTEM_FILE: u32 = 1;
pub const DELTA_BIT: u32 = 1 << 31;
const ROOTS_AT: usize = 80;
const CATALOG_INDEX: u32 = 1;
/// The version of a definition that has the parts of its keys, and foreign keys.
const WITH_PARTS: u8 = 4;
/// The same, and the name of the table that an ALTER TABLE will replace by this one.
const WITH_REPLACES: u8 = 5;
/// The same, and its rows say whether they are of the past.
const WITH_PAST: u8 = 6;
/// Root of the tree of statistics, drawn in `engine/src/table/statistics/stored.rs`; 0: there is
/// none.
const STATISTICS_AT: usize = ROOTS_AT + 12;
const STATISTICS_INDEX: u32 = 2;

pub struct Secondary {
    pub name: String,
    pub index: u32,
    pub root: u32,
    /// 0: it has no delta tree.
    pub delta_root: u32,
    /// A page of it could not be read: the engine neither reads it nor keeps it up.
    pub quarantined: bool,
}

/// One part of an index.
pub struct Part {
    pub column: String,
    /// The part is the whole column.
    pub is_whole: bool,
    pub nullable: bool,
    /// DESC.
    pub inverted: bool,
    /// Of the image, unless it is a string's.
    pub len: usize,
    /// BINARY: it is compared with a VARBINARY byte by byte.
    pub is_binary: bool,
    /// Of a string: drawn in `engine/src/index/key_shape.rs`.
    pub levels: Vec<StringLevel>,
}

pub struct StringLevel {
    pub form: u8,
    pub unit: u8,
    pub space: [u8; 4],
}

/// A foreign key of a child.
pub struct Foreign {
    pub name: String,
    pub parent: String,
    pub columns: Vec<String>,
    pub parent_columns: Vec<String>,
}

pub struct Table {
    pub name: String,
    pub file: u32,
    pub hidden_key: bool,
    /// Its rows say whether they are of the past: drawn in `engine/src/table/row/past.rs`.
    pub marks_past: bool,
    pub key_len: usize,
    pub index: u32,
    pub root: u32,
    pub schema: String,
    pub secondary: Vec<Secondary>,
    /// Of the clustered index, then of the others; empty in older versions.
    pub parts: Vec<Vec<Part>>,
    pub foreign: Vec<Foreign>,
    /// (index, root) of trees that are being given up.
    pub freeing: Vec<(u32, u32)>,
}

pub struct Catalog {
    pub tables: Vec<Table>,
    pub walked: Walked,
}

pub fn read(store: &Store) -> Result<Catalog, String> {
    let header = store
        .read(SYSTEM_FILE, 0)
        .map_err(|what| format!("{} page 0: {what}", store.name_of(SYSTEM_FILE)))?;
    let mut definitions: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut odd = Vec::new();
    let mut walked = tree::walk(
        store,
        SYSTEM_FILE,
        CATALOG_INDEX,
        u32_at(&header, ROOTS_AT),
        &mut |key, value| {
            // Name, a zero byte, number of the piece.
            match key.split_at_checked(key.len().saturating_sub(2)) {
                Some((name, [0, _])) => definitions
                    .entry(String::from_utf8_lossy(name).into_owned())
                    .or_default()
                    .extend_from_slice(value),
                _ => odd.push(crate::bytes::hex(key)),
            }
        },
    );
    walked.findings.extend(
        odd.into_iter()
            .map(|key| format!("the catalog holds a key that is no table's: {key}")),
    );
    walk_statistics(store, u32_at(&header, STATISTICS_AT), &mut walked);
    let mut tables = Vec::new();
    for (name, bytes) in definitions {
        match decode(&name, &bytes) {
            Some(table) => tables.push(table),
            None => walked
                .findings
                .push(format!("the definition of table {name} cannot be decoded")),
        }
    }
    Ok(Catalog { tables, walked })
}

/// The engine computes statistics again where they cannot be read. The pages must be sound anyway.
fn walk_statistics(store: &Store, root: u32, walked: &mut Walked) {
    if root == 0 {
        return;
    }
    let mut odd = 0;
    let found = tree::walk(store, SYSTEM_FILE, STATISTICS_INDEX, root, &mut |key, value| {
        // Table number, number of the piece.
        odd += (key.len() != 5 || value.is_empty()) as u32;
    });
    walked.findings.extend(found.findings);
    if odd > 0 {
        walked
            .findings
            .push(format!("{odd} entries of the statistics are no table's"));
    }
    walked.pages.extend(found.pages);
}

fn decode(name: &str, bytes: &[u8]) -> Option<Table> {
    let mut b = Reader::new(bytes);
    let version = b.u8().filter(|version| (1..=WITH_PAST).contains(version))?;
    let flags = b.u8()?;
    let file = b.u32()?;
    let key_len = b.varint()? as usize;
    b.varint()?;
    let (index, root) = (b.u32()?, b.u32()?);
    let schema = String::from_utf8_lossy(b.bytes()?).into_owned();
    let mut secondary = Vec::new();
    for _ in 0..b.varint()? {
        let (index, root) = (b.u32()?, b.u32()?);
        let delta_root = if version > 1 { b.u32()? } else { 0 };
        let flags = b.u8()?;
        let name = String::from_utf8_lossy(b.bytes()?).into_owned();
        secondary.push(Secondary {
            name,
            index,
            root,
            delta_root,
            quarantined: flags & 2 != 0,
        });
    }
    let mut freeing = Vec::new();
    for _ in 0..b.varint()? {
        freeing.push((b.u32()?, b.u32()?));
    }
    let (mut parts, mut foreign) = (Vec::new(), Vec::new());
    if version >= WITH_PARTS {
        for _ in 0..=secondary.len() {
            parts.push(take_parts(&mut b)?);
        }
        foreign = take_foreign_keys(&mut b)?;
    }
    if version >= WITH_REPLACES {
        b.bytes()?;
    }
    if !b.is_at_end() {
        return None;
    }
    Some(Table {
        name: name.to_string(),
        file,
        hidden_key: flags & 1 != 0,
        marks_past: version == WITH_PAST,
        key_len,
        index,
        root,
        schema,
        secondary,
        parts,
        foreign,
        freeing,
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The parts of one index, drawn in `engine/src/table/catalog/key_part.rs`.
fn take_parts(b: &mut Reader<'_>) -> Option<Vec<Part>> {
    const WHOLE: u8 = 1;
    const NULLABLE: u8 = 2;
    const INVERTED: u8 = 4;
    const STRING: u8 = 8;
    let mut parts = Vec::new();
    for _ in 0..b.varint()? {
        let (column, domain) = (text(b.bytes()?), text(b.bytes()?));
        let flags = b.u8()?;
        let (mut len, mut levels) = (0, Vec::new());
        if flags & STRING == 0 {
            len = b.u32()? as usize;
        } else {
            for _ in 0..b.u8()? {
                let (form, unit) = (b.u8()?, b.u8()?);
                let space = b.take(4)?.try_into().ok()?;
                levels.push(StringLevel { form, unit, space });
            }
            let is_known = |level: &StringLevel| level.form < 3 && (1..=4).contains(&level.unit);
            if !levels.iter().all(is_known) {
                return None;
            }
        }
        parts.push(Part {
            column,
            is_whole: flags & WHOLE != 0,
            nullable: flags & NULLABLE != 0,
            inverted: flags & INVERTED != 0,
            len,
            is_binary: levels.is_empty() && domain.starts_with("binary("),
            levels,
        });
    }
    Some(parts)
}

/// Drawn in `engine/src/table/catalog/format.rs`.
fn take_foreign_keys(b: &mut Reader<'_>) -> Option<Vec<Foreign>> {
    const ACTIONS: u8 = 4;
    let mut keys = Vec::new();
    for _ in 0..b.varint()? {
        let (name, parent) = (text(b.bytes()?), text(b.bytes()?));
        for _ in 0..2 {
            b.u8().filter(|action| *action < ACTIONS)?;
        }
        let (mut columns, mut parent_columns) = (Vec::new(), Vec::new());
        for _ in 0..b.varint()? {
            columns.push(text(b.bytes()?));
            parent_columns.push(text(b.bytes()?));
        }
        keys.push(Foreign {
            name,
            parent,
            columns,
            parent_columns,
        });
    }
    Some(keys)
}

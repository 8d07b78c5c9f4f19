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

pub struct Table {
    pub name: String,
    pub file: u32,
    pub hidden_key: bool,
    pub key_len: usize,
    pub index: u32,
    pub root: u32,
    pub schema: String,
    pub secondary: Vec<Secondary>,
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
    let version = b.u8().filter(|version| (1..=3).contains(version))?;
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
    Some(Table {
        name: name.to_string(),
        file,
        hidden_key: flags & 1 != 0,
        key_len,
        index,
        root,
        schema,
        secondary,
        freeing,
    })
}

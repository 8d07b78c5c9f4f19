//! How a table stands in the catalog tree.
//!
//! Key: table name, a zero byte, piece number (u8). A definition too long for one entry goes on in
//! the next piece. The pieces joined:
//! ```text
//! version     u8      2; 3 if a tree of it is wide; 4 if it has what follows `freeing`;
//!                     5 if it has `replaces`, too; 6 if its rows of the past are marked, with
//!                     all that follows `freeing` (1, without the delta roots, is read too)
//! flags       u8      bit 0 = hidden clustered key
//!                     bits 1 to 3 = change buffering: 0 as the engine's setting says,
//!                     else its number + 1
//! id          varint  table and file number
//! pk_fixed    varint  length of every clustered key; 0 = they vary
//! created     varint  seconds since the epoch
//! clustered   index varint, root page varint
//! schema      bytes
//! secondary   count varint, then each: index varint, root varint, delta root varint (0 = none),
//!             flags u8 (1 = unique, 2 = quarantined), name bytes
//! freeing     count varint, then each: index varint, root varint
//!             (trees of dropped indexes whose pages are still being freed)
//! parts       of the clustered key, then of each secondary index: `key_part.rs`
//! foreign     count varint, then each: name bytes, parent's name bytes, on delete u8,
//!             on update u8, columns varint, then each: column bytes, parent's column bytes
//! replaces    bytes: name of the table that an ALTER TABLE will replace by this one; empty: none
//! ```
//! bytes = varint length + data. Transaction numbers are not kept: after a restart every view is
//! younger than every table.
//!
//! Called by `dictionary`; takes no latch.
use crate::base::bytes::{push_bytes, push_varint, take_bytes, take_varint};
use crate::base::{Error, Result};
use crate::btree::{Tree, ENTRY_MAX, KEY_MAX, WIDE_BIT};
use crate::change::{Buffering, ChangeBuffer, Delta, DELTA_BIT};
use crate::index::Index;
use crate::table::catalog::foreign_key::{ForeignAction, ForeignKeySpec};
use crate::table::catalog::key_part::{push_parts, take_parts, take_text, KeyPart};
use crate::table::catalog::layout::{Layout, Secondary};
use std::sync::Arc;

const VERSION: u8 = 2;
/// Versions of Sluice without wide trees refuse this version by name.
const WITH_WIDE: u8 = 3;
/// With the parts of keys, and with foreign keys.
const WITH_PARTS: u8 = 4;
/// With the name of the table that is to be replaced.
const WITH_REPLACES: u8 = 5;
/// Its rows say whether they are of the past (`row/past.rs`). `replaces` may be empty.
const WITH_PAST: u8 = 6;
const WITHOUT_DELTAS: u8 = 1;
const HIDDEN_PK: u8 = 1;
const BUFFERING_SHIFT: u8 = 1;
const BUFFERING_BITS: u8 = 7;
const UNIQUE: u8 = 1;
const QUARANTINED: u8 = 2;

/// Longest table name in bytes.
pub const NAME_MAX: usize = KEY_MAX - 2;
const PIECE_MAX: usize = ENTRY_MAX / 2;

pub fn key(name: &str, piece: u8) -> Vec<u8> {
    debug_assert!(!name.contains('\0'), "a zero byte ends the name in a key");
    let mut key = name.as_bytes().to_vec();
    key.extend_from_slice(&[0, piece]);
    key
}

/// The name and piece number in a key.
pub fn split_key(key: &[u8]) -> Option<(&str, u8)> {
    let (name, tail) = key.split_at_checked(key.len().checked_sub(2)?)?;
    Some((std::str::from_utf8(name).ok()?, tail[1]))
}

/// Pieces that the definition may take, whatever the table's name.
pub fn pieces_max(layout: &Layout) -> Result<usize> {
    let pieces = encode_definition(layout)
        .len()
        .div_ceil(PIECE_MAX.min(ENTRY_MAX - NAME_MAX - 2));
    if pieces > 255 {
        return Err(Error::TooBig("definition of a table".into()));
    }
    Ok(pieces)
}

/// (key, value) of each piece.
pub fn encode(name: &str, layout: &Layout) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let bytes = encode_definition(layout);
    let pieces = bytes.chunks(PIECE_MAX.min(ENTRY_MAX - name.len().min(NAME_MAX) - 2));
    if name.is_empty() || name.contains('\0') {
        let what = format!("table name {name:?}: a name has at least one byte, and no byte of it is zero");
        return Err(Error::Invalid(what));
    }
    if name.len() > NAME_MAX {
        let what = format!("a table name of {} bytes; the longest has {NAME_MAX}", name.len());
        return Err(Error::TooBig(what));
    }
    if pieces.len() > 255 {
        return Err(Error::TooBig(format!("definition of table {name}")));
    }
    debug_assert!(
        pieces_max(layout).map_or(true, |most| pieces.len() <= most),
        "a definition has no more pieces than room was made for"
    );
    Ok(pieces
        .enumerate()
        .map(|(i, p)| (key(name, i as u8), p.to_vec()))
        .collect())
}

fn encode_definition(layout: &Layout) -> Vec<u8> {
    let buffering = layout.change_buffering.map_or(0, |b| b.number() as u8 + 1);
    debug_assert!(buffering <= BUFFERING_BITS, "the format has three bits for it");
    debug_assert!(!layout.temporary, "a temporary table is in no catalog");
    debug_assert!(
        layout.all_trees().all(|tree| tree.file == layout.id),
        "every tree of a table lies in its file: the definition has the roots alone"
    );
    debug_assert!(
        layout
            .buffered()
            .all(|(index, delta)| delta.tree.index == index.id | DELTA_BIT),
        "a delta tree has the number of its index, with a mark"
    );
    debug_assert!(
        layout
            .index_ids()
            .enumerate()
            .all(|(i, id)| layout.index_ids().take(i).all(|other| other != id)),
        "I10: each index of a table has a number of its own"
    );
    let has_wide = layout.has_wide() || layout.freeing.iter().any(|(index, _)| index & WIDE_BIT != 0);
    let has_replaces = layout.replaces.is_some() || layout.marks_past;
    let has_parts = layout.has_parts() || !layout.foreign.is_empty() || has_replaces;
    let mut out = vec![
        match (has_parts, has_wide) {
            _ if layout.marks_past => WITH_PAST,
            _ if layout.replaces.is_some() => WITH_REPLACES,
            (true, _) => WITH_PARTS,
            (false, true) => WITH_WIDE,
            (false, false) => VERSION,
        },
        (layout.hidden_pk as u8 * HIDDEN_PK) | (buffering << BUFFERING_SHIFT),
    ];
    let (id, root) = (layout.clustered.id as u64, layout.clustered.tree.root as u64);
    for number in [layout.id as u64, layout.pk_fixed_len as u64, layout.created_s, id, root] {
        push_varint(&mut out, number);
    }
    push_bytes(&mut out, &layout.schema);
    push_varint(&mut out, layout.secondary.len() as u64);
    for Secondary { index, quarantined, .. } in &layout.secondary {
        push_varint(&mut out, index.id as u64);
        push_varint(&mut out, index.tree.root as u64);
        push_varint(&mut out, index.delta.as_ref().map_or(0, |d| d.tree.root as u64));
        out.push(if index.unique { UNIQUE } else { 0 } | if *quarantined { QUARANTINED } else { 0 });
        push_bytes(&mut out, index.name.as_bytes());
    }
    push_varint(&mut out, layout.freeing.len() as u64);
    for (index, root) in &layout.freeing {
        push_varint(&mut out, *index as u64);
        push_varint(&mut out, *root as u64);
    }
    if has_parts {
        push_parts(&mut out, &layout.pk_parts);
        layout.secondary.iter().for_each(|s| push_parts(&mut out, &s.parts));
        push_foreign(&mut out, layout);
    }
    if has_replaces {
        push_bytes(&mut out, layout.replaces.as_deref().unwrap_or_default().as_bytes());
    }
    out
}

fn push_foreign(out: &mut Vec<u8>, layout: &Layout) {
    push_varint(out, layout.foreign.len() as u64);
    for key in &layout.foreign {
        debug_assert_eq!(
            key.columns.len(),
            key.parent_columns.len(),
            "a foreign key has as many columns in the parent as in the child"
        );
        push_bytes(out, key.name.as_bytes());
        push_bytes(out, key.parent.as_bytes());
        out.extend([key.on_delete.number(), key.on_update.number()]);
        push_varint(out, key.columns.len() as u64);
        for (column, of_parent) in key.columns.iter().zip(&key.parent_columns) {
            push_bytes(out, column.as_bytes());
            push_bytes(out, of_parent.as_bytes());
        }
    }
}

fn take_foreign(b: &[u8], at: &mut usize) -> Option<ForeignKeySpec> {
    let mut key = ForeignKeySpec {
        name: take_text(b, at)?,
        parent: take_text(b, at)?,
        ..ForeignKeySpec::default()
    };
    let mut action = || {
        let number = *b.get(*at)?;
        *at += 1;
        ForeignAction::from_number(number)
    };
    (key.on_delete, key.on_update) = (action()?, action()?);
    for _ in 0..take_varint(b, at)? {
        key.columns.push(take_text(b, at)?);
        key.parent_columns.push(take_text(b, at)?);
    }
    Some(key)
}

/// `name`: as the user writes it.
pub fn decode(name: &str, bytes: &[u8], buffer: &Arc<ChangeBuffer>) -> Result<Layout> {
    match bytes.first() {
        Some(&VERSION | &WITHOUT_DELTAS | &WITH_WIDE | &WITH_PARTS | &WITH_REPLACES | &WITH_PAST) => {}
        Some(v) => {
            return Err(Error::Unsupported(format!(
                "table {name} was written by a later version of Sluice (definition format {v})"
            )))
        }
        None => return Err(Error::corrupt(format!("table {name} has an empty definition"))),
    }
    decode_definition(bytes, buffer)
        .ok_or_else(|| Error::corrupt(format!("the definition of table {name} cannot be decoded")))
}

fn decode_definition(b: &[u8], buffer: &Arc<ChangeBuffer>) -> Option<Layout> {
    let flags = *b.get(1)?;
    let mut at = 2;
    let int = |at: &mut usize| take_varint(b, at).and_then(|v| u32::try_from(v).ok());
    let id = int(&mut at)?;
    let pk_fixed_len = int(&mut at)? as usize;
    let created_s = take_varint(b, &mut at)?;
    let index = |at: &mut usize, name: &str| {
        let index = int(at)?;
        let root = int(at)?;
        Some(Index::new(name, true, Tree { file: id, root, index }, None))
    };
    let clustered = index(&mut at, "PRIMARY")?;
    let schema = take_bytes(b, &mut at)?.to_vec();
    let count = int(&mut at)?;
    let mut secondary = Vec::new();
    for _ in 0..count {
        let mut index = index(&mut at, "")?;
        let root = if b[0] == WITHOUT_DELTAS { 0 } else { int(&mut at)? };
        if root != 0 {
            let tree = Tree {
                file: id,
                root,
                index: index.id | DELTA_BIT,
            };
            index.trees.delta = Some(Arc::new(Delta::found(tree, buffer)));
        }
        let flags = *b.get(at)?;
        index.unique = flags & UNIQUE != 0;
        let quarantined = flags & QUARANTINED != 0;
        at += 1;
        index.name = String::from_utf8(take_bytes(b, &mut at)?.to_vec()).ok()?;
        secondary.push(Secondary {
            index,
            quarantined,
            created: 0,
            parts: Vec::new(),
        });
    }
    let count = int(&mut at)?;
    let mut freeing = Vec::new();
    for _ in 0..count {
        freeing.push((int(&mut at)?, int(&mut at)?));
    }
    let (pk_parts, foreign, replaces) = take_keys(b, &mut at, &mut secondary)?;
    let buffering = (flags >> BUFFERING_SHIFT) & BUFFERING_BITS;
    let layout = Layout {
        id,
        temporary: false,
        hidden_pk: flags & HIDDEN_PK != 0,
        pk_fixed_len,
        marks_past: b[0] == WITH_PAST,
        pk_parts,
        clustered,
        secondary,
        foreign,
        replaces,
        change_buffering: buffering.checked_sub(1).map(|n| Buffering::from_number(n as u64)),
        schema,
        created_s,
        created: 0,
        freeing,
    };
    layout.set_up_deltas();
    Some(layout)
}

/// The parts of the clustered key, the foreign keys, the table that is to be replaced.
type Keys = (Vec<KeyPart>, Vec<Arc<ForeignKeySpec>>, Option<String>);

/// The parts of the other keys go to `secondary`.
fn take_keys(b: &[u8], at: &mut usize, secondary: &mut [Secondary]) -> Option<Keys> {
    if ![WITH_PARTS, WITH_REPLACES, WITH_PAST].contains(&b[0]) {
        return Some((Vec::new(), Vec::new(), None));
    }
    let clustered = take_parts(b, at)?;
    for s in secondary {
        s.parts = take_parts(b, at)?;
    }
    let mut foreign = Vec::new();
    for _ in 0..take_varint(b, at)? {
        foreign.push(Arc::new(take_foreign(b, at)?));
    }
    let replaces = match b[0] {
        WITH_PARTS => String::new(),
        _ => take_text(b, at)?,
    };
    Some((clustered, foreign, Some(replaces).filter(|name| !name.is_empty())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::key_shape::{PartImage, PartShape};

    fn buffer() -> Arc<ChangeBuffer> {
        Arc::new(ChangeBuffer::new(Buffering::All, 25, 1 << 20, 0))
    }
    /// Versions without wide trees must not open such a table. Tables without wide trees keep their
    /// version.
    #[test]
    fn a_wide_tree_is_a_version_of_its_own() {
        let narrow = layout(10);
        assert_eq!(encode_definition(&narrow)[0], VERSION);
        let mut wide = layout(10);
        wide.clustered.id |= WIDE_BIT;
        wide.clustered.trees.tree.index |= WIDE_BIT;
        let bytes = encode_definition(&wide);
        assert_eq!(bytes[0], WITH_WIDE);
        let back = decode("t", &bytes, &buffer()).expect("decoded");
        assert!(back.clustered.tree.is_wide() && back.has_wide());
        let mut freeing = layout(10);
        freeing.freeing.push((77 | WIDE_BIT, 9));
        assert_eq!(encode_definition(&freeing)[0], WITH_WIDE);
    }
    fn layout(schema_len: usize) -> Layout {
        let index = |id, name: &str, unique| {
            let tree = Tree {
                file: 16,
                root: id + 100,
                index: id,
            };
            Index::new(name, unique, tree, None)
        };
        let mut secondary = index(4, "by_name", true);
        let tree = Tree {
            file: 16,
            root: 5,
            index: 4 | DELTA_BIT,
        };
        secondary.trees.delta = Some(Arc::new(Delta::found(tree, &buffer())));
        Layout {
            id: 16,
            temporary: false,
            hidden_pk: true,
            pk_fixed_len: 6,
            marks_past: false,
            pk_parts: Vec::new(),
            foreign: Vec::new(),
            replaces: None,
            clustered: index(3, "PRIMARY", true),
            secondary: vec![Secondary {
                index: secondary,
                quarantined: true,
                created: 0,
                parts: Vec::new(),
            }],
            change_buffering: [None, Some(Buffering::None), Some(Buffering::All)][schema_len % 3],
            schema: vec![7; schema_len],
            created_s: 1_700_000_000,
            created: 0,
            freeing: vec![(9, 77)],
        }
    }

    #[test]
    fn definitions_of_any_length_read_back() {
        for schema_len in [0, 1, 5000, 40_000] {
            let was = layout(schema_len);
            let pieces = encode("./db/t", &was).expect("fits");
            let mut joined = Vec::new();
            for (i, (key, value)) in pieces.iter().enumerate() {
                assert_eq!(split_key(key), Some(("./db/t", i as u8)));
                assert!(key.len() + value.len() <= ENTRY_MAX);
                joined.extend_from_slice(value);
            }
            let now = decode("./db/t", &joined, &buffer()).expect("whole definition");
            assert_eq!(format!("{now:?}"), format!("{was:?}"));
            let delta = now.secondary[0].index.delta.as_ref().expect("has one");
            assert_eq!(delta.buffering(), was.change_buffering);
            for cut in 0..joined.len().min(60) {
                assert!(decode("./db/t", &joined[..cut], &buffer()).is_err());
            }
        }
    }

    /// The first version of the format: its indexes are not buffered, and the next change writes
    /// the current version.
    #[test]
    fn a_definition_without_deltas_still_opens() {
        let mut was = layout(3);
        was.secondary[0].index.trees.delta = None;
        let mut old = encode_definition(&was);
        let at = old.windows(2).position(|w| w == [104, 0]).expect("root and delta root");
        old.remove(at + 1);
        old[0] = WITHOUT_DELTAS;
        let now = decode("./db/t", &old, &buffer()).expect("an old definition");
        assert_eq!(format!("{now:?}"), format!("{was:?}"));
    }

    #[test]
    fn parts_and_foreign_keys_read_back() {
        let part = |column: &str| KeyPart {
            column: column.into(),
            domain: "int 4".into(),
            is_whole: true,
            shape: PartShape {
                nullable: true,
                inverted: false,
                image: PartImage::Fixed(4),
            },
        };
        let mut was = layout(10);
        was.pk_parts = vec![part("id")];
        was.secondary[0].parts = vec![part("a"), part("b")];
        was.foreign.push(Arc::new(ForeignKeySpec {
            name: "db/t_ibfk_1".into(),
            columns: vec!["a".into(), "b".into()],
            parent: "./db/p".into(),
            parent_columns: vec!["x".into(), "y".into()],
            on_delete: ForeignAction::Cascade,
            on_update: ForeignAction::SetNull,
        }));
        let bytes = encode_definition(&was);
        assert_eq!(bytes[0], WITH_PARTS);
        let now = decode("t", &bytes, &buffer()).expect("decoded");
        assert_eq!(format!("{now:?}"), format!("{was:?}"));
        for cut in 0..bytes.len() {
            assert!(decode("t", &bytes[..cut], &buffer()).is_err());
        }
    }
    /// Versions that do not know the marks must not open such a table.
    #[test]
    fn a_table_that_marks_rows_of_the_past_has_a_version_of_its_own() {
        for replaces in [None, Some("./db/old".to_string())] {
            let mut was = layout(10);
            was.marks_past = true;
            was.replaces = replaces;
            let bytes = encode_definition(&was);
            assert_eq!(bytes[0], WITH_PAST);
            let now = decode("t", &bytes, &buffer()).expect("decoded");
            assert_eq!(format!("{now:?}"), format!("{was:?}"));
        }
    }

    #[test]
    fn names_that_cannot_be_keys_are_refused() {
        assert!(encode("", &layout(0)).is_err());
        assert!(encode("a\0b", &layout(0)).is_err());
        assert!(encode(&"x".repeat(NAME_MAX + 1), &layout(0)).is_err());
    }
}

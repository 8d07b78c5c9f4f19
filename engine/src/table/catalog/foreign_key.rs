//! [`ForeignKeySpec`]: a foreign key as its child's definition holds it. [`ForeignKey`]: the same,
//! bound to the indexes of child and parent, as row changes use it.
//!
//! A key of the child's index refers to a key of the parent. Both differ only in null bytes, in the
//! inversion of DESC parts, and in the form of byte strings. [`ForeignKey::parent_key`] and
//! [`ForeignKey::child_key`] exchange these (`docs/decisions/2026-11-28-foreign-keys.md`).
//!
//! Takes no latch. Called by the catalog and by row changes.
use crate::base::{FileId, ForeignFault, IndexId};
use crate::index::key_shape::{KeyShape, PartEnds, PartImage, PartShape};
use crate::table::catalog::byte_strings;
use crate::table::catalog::key_part::KeyPart;
use std::sync::Arc;

/// What happens to child rows when their parent row goes, or gets another key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ForeignAction {
    #[default]
    NoAction,
    Restrict,
    Cascade,
    SetNull,
}

const _: () = {
    let mut i = 0;
    while i < ForeignAction::ALL.len() {
        assert!(
            ForeignAction::ALL[i] as usize == i,
            "actions are listed in the order of their numbers on disk"
        );
        i += 1;
    }
};

impl ForeignAction {
    pub const ALL: [ForeignAction; 4] = [
        ForeignAction::NoAction,
        ForeignAction::Restrict,
        ForeignAction::Cascade,
        ForeignAction::SetNull,
    ];
    /// Its number on disk and in the C ABI.
    pub fn number(self) -> u8 {
        self as u8
    }
    pub fn from_number(number: u8) -> Option<ForeignAction> {
        Self::ALL.get(number as usize).copied()
    }
    /// Child rows are changed, not only looked for.
    pub fn changes_children(self) -> bool {
        matches!(self, ForeignAction::Cascade | ForeignAction::SetNull)
    }
}

/// A foreign key of a child table, by names. Column names compare without regard to case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignKeySpec {
    /// Unique among the foreign keys of a database; the caller gives one to each.
    pub name: String,
    pub columns: Vec<String>,
    /// Name of the parent table; it need not exist.
    pub parent: String,
    pub parent_columns: Vec<String>,
    pub on_delete: ForeignAction,
    pub on_update: ForeignAction,
}

impl ForeignKeySpec {
    /// As it is after columns of `table` got new names, (old, new). `child`: name of its child.
    pub fn with_new_names(&self, child: &str, table: &str, renamed: &[(&str, &str)]) -> ForeignKeySpec {
        let new_name = |column: &mut String| {
            let pair = renamed.iter().find(|(old, _)| same_column(old, column));
            if let Some((_, new)) = pair {
                *column = new.to_string();
            }
        };
        debug_assert!(
            renamed.iter().all(|(old, new)| old != new),
            "a column gets another name, perhaps in other letters"
        );
        let mut spec = self.clone();
        if child == table {
            spec.columns.iter_mut().for_each(new_name);
        }
        if spec.parent == table {
            spec.parent_columns.iter_mut().for_each(new_name);
        }
        spec
    }
    /// Rows that satisfy the one satisfy the other.
    pub fn asks_the_same(&self, other: &ForeignKeySpec) -> bool {
        let same = |(a, b): (&Vec<String>, &Vec<String>)| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_column(a, b))
        };
        let columns = [
            (&self.columns, &other.columns),
            (&self.parent_columns, &other.parent_columns),
        ];
        self.name == other.name && self.parent == other.parent && columns.into_iter().all(same)
    }
}

/// One end of a foreign key: an index whose first parts are the key's columns.
#[derive(Clone, Debug)]
pub struct ForeignEnd {
    pub table: FileId,
    pub index: IndexId,
    /// The parts of the foreign key alone.
    pub shape: KeyShape,
    /// The foreign key has all parts of the clustered key.
    pub is_whole_clustered_key: bool,
}

/// A foreign key, bound. It is bound anew when a definition of either table changes.
#[derive(Clone, Debug)]
pub struct ForeignKey {
    pub spec: Arc<ForeignKeySpec>,
    /// Its place in the child's definition.
    pub ordinal: u32,
    /// The table that the child is going to replace has the same foreign key: rows that are copied
    /// from there need no check.
    pub is_carried_over: bool,
    /// A child that has lost the index: its clustered index, with no part of it (K6).
    pub child: ForeignEnd,
    /// None: the parent does not exist, or lost the index.
    pub parent: Option<ForeignEnd>,
}

/// The foreign keys of a table.
#[derive(Clone, Debug, Default)]
pub struct ForeignKeys {
    /// Those in which the table is the child; `ForeignKey::ordinal` is their place.
    pub references: Vec<Arc<ForeignKey>>,
    /// Those in which the table is the parent. A child that is being made to replace another table
    /// is not among them.
    pub referenced: Vec<Arc<ForeignKey>>,
    /// Foreign keys name the table as parent that it does not fit: it has lost the index.
    pub has_unbound_children: bool,
}

impl ForeignKeys {
    pub fn is_empty(&self) -> bool {
        self.references.is_empty() && !self.has_children()
    }
    /// Foreign keys name the table as parent.
    pub fn has_children(&self) -> bool {
        !self.referenced.is_empty() || self.has_unbound_children
    }
}

/// The beginning of an index key that a foreign key is about.
pub enum KeyOfForeign {
    /// A part is NULL: the row refers to nothing.
    Null,
    Key(Vec<u8>),
    /// The columns of the other end cannot have these values: a byte string has another length.
    Unmatched,
}

impl ForeignKey {
    pub fn parts(&self) -> usize {
        self.spec.columns.len()
    }
    /// The child has lost the index, while checks were off.
    pub fn lacks_index(&self) -> bool {
        self.child.shape.parts.is_empty()
    }
    /// The child refers to rows of its own table.
    pub fn is_to_itself(&self) -> bool {
        self.parent
            .as_ref()
            .is_some_and(|parent| parent.table == self.child.table)
    }
    /// A part of `child`, a key of the child's index, is NULL: the row refers to nothing. None:
    /// `child` is cut short.
    pub fn is_null(&self, child: &[u8]) -> Option<bool> {
        let same = convert(&self.child.shape, &self.child.shape, child)?;
        Some(matches!(same, KeyOfForeign::Null))
    }
    /// The error of a row that breaks the foreign key. `child`: name of the child's table.
    pub fn fault(&self, child: String) -> Box<ForeignFault> {
        Box::new(ForeignFault {
            child,
            constraint: self.spec.name.clone(),
            index: 0,
        })
    }
    /// The parent's key that `child`, a key of the child's index, refers to. None: `child` is cut
    /// short, or the foreign key is unbound.
    pub fn parent_key(&self, child: &[u8]) -> Option<KeyOfForeign> {
        debug_assert!(!self.lacks_index(), "K6: no key is made without the child's index");
        convert(&self.child.shape, &self.parent.as_ref()?.shape, child)
    }
    /// The key in the child's index of the rows that refer to `parent`, a key of the parent's
    /// index. None: as in `parent_key`.
    pub fn child_key(&self, parent: &[u8]) -> Option<KeyOfForeign> {
        debug_assert!(!self.lacks_index(), "K6: no key is made without the child's index");
        convert(&self.parent.as_ref()?.shape, &self.child.shape, parent)
    }
    /// A referenced column is NULL in `parent`, a key of the parent's index: no row refers to it.
    pub fn has_null_parent(&self, parent: &[u8]) -> bool {
        self.parent.as_ref().is_some_and(|end| has_null(&end.shape, parent))
    }
}

/// The bytes of the foreign key's parts at the beginning of `key`, a key of an index with this
/// shape.
pub fn foreign_prefix<'a>(shape: &KeyShape, key: &'a [u8]) -> Option<&'a [u8]> {
    let mut ends = PartEnds::new();
    shape.part_ends(key, &mut ends);
    (ends.len() == shape.parts.len()).then(|| &key[..ends.last().map_or(0, |end| *end as usize)])
}

fn has_null(shape: &KeyShape, key: &[u8]) -> bool {
    let mut ends = PartEnds::new();
    shape.part_ends(key, &mut ends);
    debug_assert!(
        ends.len() >= shape.parts.len(),
        "a row's key has all columns of the foreign key"
    );
    let begins = std::iter::once(0).chain(ends.iter().map(|end| *end as usize));
    let mut parts = shape.parts.iter().zip(begins);
    parts.any(|(part, begin)| part.nullable && key.get(begin) == Some(&null_byte(part, 0)))
}

fn convert(from: &KeyShape, to: &KeyShape, key: &[u8]) -> Option<KeyOfForeign> {
    debug_assert_eq!(from.parts.len(), to.parts.len(), "both ends have the same columns");
    let mut ends = PartEnds::new();
    from.part_ends(key, &mut ends);
    if ends.len() < from.parts.len() {
        return None;
    }
    let mut out = Vec::with_capacity(key.len() + to.parts.len());
    let (mut begin, mut is_matched) = (0, true);
    for ((part, other), end) in from.parts.iter().zip(&to.parts).zip(ends) {
        let mut image = &key[begin..end as usize];
        begin = end as usize;
        if part.nullable {
            let is_null = image[0] == null_byte(part, 0);
            if is_null {
                return Some(KeyOfForeign::Null);
            }
            image = &image[1..];
        }
        if part.image == other.image {
            put_image(&mut out, other, part.inverted, image);
            continue;
        }
        let mask = if part.inverted { 0xFF } else { 0 };
        let plain = Vec::from_iter(image.iter().map(|byte| byte ^ mask));
        let is_fixed = matches!(part.image, PartImage::Fixed(_));
        match byte_strings::converted(&plain, is_fixed, &other.image) {
            Some(image) => put_image(&mut out, other, false, &image),
            // A later column may be NULL.
            None => is_matched = false,
        }
    }
    if !is_matched {
        return Some(KeyOfForeign::Unmatched);
    }
    debug_assert!(
        foreign_prefix(to, &out).is_some_and(|prefix| prefix == out),
        "the key of the other end has all parts, and nothing else"
    );
    Some(KeyOfForeign::Key(out))
}

/// Appends a part that is not NULL. `image`: of its value, without a null byte.
pub fn put_image(to: &mut Vec<u8>, part: &PartShape, is_inverted: bool, image: &[u8]) {
    if part.nullable {
        to.push(null_byte(part, 1));
    }
    match part.inverted == is_inverted {
        true => to.extend_from_slice(image),
        false => to.extend(image.iter().map(|byte| !byte)),
    }
}

fn null_byte(part: &PartShape, byte: u8) -> u8 {
    if part.inverted {
        !byte
    } else {
        byte
    }
}

/// Whether an index with these parts serves the foreign key's columns: they are its first parts,
/// in this order, all of them whole.
pub fn begins_with(parts: &[KeyPart], columns: &[String]) -> bool {
    let same = |(part, column): (&KeyPart, &String)| part.is_whole && same_column(&part.column, column);
    parts.len() >= columns.len() && !columns.is_empty() && parts.iter().zip(columns).all(same)
}

/// Column names compare as the server compares them: without regard to case.
pub fn same_column(left: &str, right: &str) -> bool {
    left == right || left.to_lowercase() == right.to_lowercase()
}

/// The first of these columns whose values in the two indexes cannot be compared.
pub fn first_unlike<'a>(
    child: &'a [KeyPart],
    parent: &'a [KeyPart],
    columns: usize,
) -> Option<(&'a KeyPart, &'a KeyPart)> {
    let alike = |(c, p): &(&KeyPart, &KeyPart)| {
        let same = c.domain == p.domain && c.shape.image == p.shape.image;
        same || byte_strings::are_comparable(&c.domain, &p.domain)
    };
    child.iter().zip(parent).take(columns).find(|pair| !alike(pair))
}

pub fn shape_of(parts: &[KeyPart], columns: usize) -> KeyShape {
    debug_assert!(
        columns <= parts.len(),
        "an index has all columns of the foreign key that it serves"
    );
    KeyShape {
        parts: parts.iter().take(columns).map(|part| part.shape.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::key_shape::{LevelForm, StringLevel};
    use smallvec::SmallVec;

    fn end(parts: &[(bool, bool)]) -> ForeignEnd {
        let part = |(nullable, inverted): &(bool, bool)| PartShape {
            nullable: *nullable,
            inverted: *inverted,
            image: PartImage::Fixed(2),
        };
        ForeignEnd {
            table: 20,
            index: 1,
            shape: KeyShape {
                parts: parts.iter().map(part).collect(),
            },
            is_whole_clustered_key: false,
        }
    }
    fn key(child: &[(bool, bool)], parent: &[(bool, bool)]) -> ForeignKey {
        ForeignKey {
            spec: Arc::default(),
            ordinal: 0,
            is_carried_over: false,
            child: end(child),
            parent: Some(end(parent)),
        }
    }
    fn bytes(key: Option<KeyOfForeign>) -> Option<Vec<u8>> {
        match key? {
            KeyOfForeign::Null | KeyOfForeign::Unmatched => None,
            KeyOfForeign::Key(key) => Some(key),
        }
    }

    #[test]
    fn null_bytes_and_inversion_are_exchanged() {
        let child = b"\x01abcdREST";
        let foreign = key(&[(true, false), (false, false)], &[(false, false), (false, true)]);
        let parent = bytes(foreign.parent_key(child)).expect("whole");
        assert_eq!(parent, [b'a', b'b', !b'c', !b'd']);
        assert_eq!(bytes(foreign.child_key(&parent)).expect("whole"), b"\x01abcd");
        assert_eq!(foreign_prefix(&foreign.child.shape, child), Some(&b"\x01abcd"[..]));
    }
    #[test]
    fn a_part_that_is_null_refers_to_nothing() {
        let foreign = key(&[(true, false), (true, true)], &[(false, false), (true, false)]);
        assert!(matches!(foreign.parent_key(b"\x00\xFEab"), Some(KeyOfForeign::Null)));
        assert!(matches!(foreign.parent_key(b"\x01ab\xFFxx"), Some(KeyOfForeign::Null)));
        let inverted = [1, b'a', b'b', !1, !b'c', !b'd'];
        assert_eq!(bytes(foreign.parent_key(&inverted)).expect("whole"), b"ab\x01cd");
    }
    #[test]
    fn byte_strings_are_converted() {
        let level = StringLevel {
            form: LevelForm::Plain,
            unit: 1,
            space: [0; 4],
        };
        let mut foreign = key(&[(true, true), (true, false)], &[(false, false), (false, false)]);
        let parent = foreign.parent.as_mut().expect("bound");
        parent.shape.parts[0].image = PartImage::String(SmallVec::from_elem(level, 1));
        let child = [!1, !b'a', !0, 1, b'c', b'd'];
        assert_eq!(bytes(foreign.parent_key(&child)).expect("whole"), b"a\0\xFF\0\0cd");
        assert_eq!(bytes(foreign.child_key(b"a\0\xFF\0\0cd")).expect("whole"), child);
        assert!(matches!(foreign.child_key(b"a\0\0cd"), Some(KeyOfForeign::Unmatched)));
        let with_null = [!1, !b'a', !0, 0];
        assert!(matches!(foreign.parent_key(&with_null), Some(KeyOfForeign::Null)));
        foreign.child.shape.parts[0].image = PartImage::Fixed(3);
        foreign.parent.as_mut().expect("bound").shape.parts[0].image = PartImage::Fixed(2);
        let with_null = [!1, !b'a', !0, !0, 0];
        assert!(
            matches!(foreign.parent_key(&with_null), Some(KeyOfForeign::Null)),
            "also after a value without a match"
        );
    }
    #[test]
    fn a_key_that_is_cut_short_has_no_counterpart() {
        let foreign = key(&[(true, false)], &[(false, false)]);
        assert!(foreign.parent_key(b"\x01a").is_none());
        assert!(foreign.parent_key(b"").is_none());
    }
}

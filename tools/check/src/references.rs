//! Foreign keys: which rows refer to a parent row that is not there. Such a row is no damage, since
//! `foreign_key_checks = 0` lets users make it. It is reported, and a finding only if asked for.
//!
//! Two values are compared by their images. The child's key and the parent's differ only in the
//! byte of a column that may be NULL, and in the inversion of DESC. A BINARY has another form than
//! a VARBINARY. Rows of the past are neither parents nor children.
use crate::bytes::hex;
use crate::catalog::{Catalog, Foreign, Part, StringLevel, Table, DELTA_BIT};
use crate::pending::{live_key_len, Pending};
use crate::store::Store;
use crate::table::{is_past, ROW_HEADER, ROW_MARKED};
use crate::tree;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Keys that are named.
const NAMED_MAX: usize = 5;

/// A line for each foreign key of the table that has something to tell. Every transaction has
/// ended.
pub fn check(store: &Store, catalog: &Catalog, table: &Table) -> Vec<String> {
    let told =
        |key: &Foreign| orphans_of(store, catalog, table, key).map(|what| format!("foreign key {}: {what}", key.name));
    table.foreign.iter().filter_map(told).collect()
}

fn orphans_of(store: &Store, catalog: &Catalog, child: &Table, key: &Foreign) -> Option<String> {
    let not_checked = |why: &str| Some(format!("its rows are not checked: {why}"));
    let Some(index) = index_for(child, &key.columns) else {
        return not_checked("the table has no index for it");
    };
    let parent = catalog.tables.iter().find(|table| table.name == key.parent);
    let end = parent.and_then(|parent| Some((parent, index_for(parent, &key.parent_columns)?)));
    let mut parents = HashSet::new();
    if let Some((parent, index)) = end {
        let parts = &parent.parts[index][..key.columns.len()];
        let sound = live_keys(store, parent, index, &mut |entry| {
            parents.extend(image(parts, entry).map(|image| hash(&image)));
        });
        if !sound {
            return not_checked("the parent's index is broken");
        }
    }
    let parts = &child.parts[index][..key.columns.len()];
    let (mut rows, mut first, mut last) = (0u64, Vec::new(), Vec::new());
    let sound = live_keys(store, child, index, &mut |entry| {
        let Some(image) = image(parts, entry).filter(|image| !parents.contains(&hash(image))) else {
            return;
        };
        rows += 1;
        if image != last && first.len() < NAMED_MAX {
            first.push(hex(&image));
        }
        last = image;
    });
    let first = first.join(", ");
    match (rows, end) {
        _ if !sound => not_checked("its own index is broken"),
        (0, _) => None,
        (rows, Some((parent, _))) => Some(format!(
            "{rows} rows have no parent row in {}; the first values: {first}",
            parent.name
        )),
        (rows, None) => Some(format!(
            "{rows} rows refer to {}, which is missing or has no index for it; the first values: {first}",
            key.parent
        )),
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// The first index whose first parts are these columns, whole. 0 = clustered, i + 1 = secondary i.
fn index_for(table: &Table, columns: &[String]) -> Option<usize> {
    let same = |(part, column): (&Part, &String)| part.is_whole && part.column.to_lowercase() == column.to_lowercase();
    let fits = |parts: &Vec<Part>| parts.len() >= columns.len() && parts.iter().zip(columns).all(same);
    table.parts.iter().position(fits).filter(|_| !columns.is_empty())
}

/// The key of each row, or of each entry that counts. False: something of the index is broken.
fn live_keys(store: &Store, table: &Table, index: usize, each: &mut dyn FnMut(&[u8])) -> bool {
    let (is_clustered, mut past) = (index == 0, HashSet::new());
    if is_clustered || table.marks_past {
        let walked = tree::walk(store, table.file, table.index, table.root, &mut |key, value| {
            let is_there = value.len() >= ROW_HEADER && value[0] & ROW_MARKED == 0;
            let is_past = is_there && table.marks_past && is_past(value);
            if is_past {
                past.insert(hash(key));
            }
            if is_clustered && is_there && !is_past {
                each(key);
            }
        });
        if is_clustered || !walked.findings.is_empty() {
            return walked.findings.is_empty();
        }
    }
    let secondary = &table.secondary[index - 1];
    let mut pending = Pending::default();
    let mut sound = !secondary.quarantined;
    if secondary.delta_root != 0 {
        let number = secondary.index | DELTA_BIT;
        let delta = tree::walk(store, table.file, number, secondary.delta_root, &mut |key, value| {
            sound &= pending.add(key, value);
        });
        sound &= delta.findings.is_empty();
    }
    let mut see = |key: &[u8], value: Result<Option<Vec<u8>>, String>| match value {
        Err(_) => sound = false,
        Ok(value) => {
            let row_key_len = value.and_then(|value| live_key_len(&value, table.key_len));
            let row_key = row_key_len.and_then(|len| key.get(key.len().checked_sub(len)?..));
            if row_key.is_some_and(|row| !past.contains(&hash(row))) {
                each(key);
            }
        }
    };
    let walked = tree::walk(store, table.file, secondary.index, secondary.root, &mut |key, value| {
        see(key, pending.settle(key, Some(value)));
    });
    for key in pending.rest() {
        see(&key, pending.settle(&key, None));
    }
    sound && walked.findings.is_empty()
}

/// The values of these parts at the beginning of `key`, as an ascending index of columns that are
/// NOT NULL has them. None: one of them is NULL, or the key is cut short.
fn image(parts: &[Part], key: &[u8]) -> Option<Vec<u8>> {
    let (mut out, mut at) = (Vec::new(), 0);
    for part in parts {
        let mask = if part.inverted { 0xff } else { 0 };
        if part.nullable {
            if key.get(at)? ^ mask == 0 {
                return None;
            }
            at += 1;
        }
        let begin = at;
        at = match part.levels.is_empty() {
            true => at.checked_add(part.len)?,
            false => part
                .levels
                .iter()
                .try_fold(at, |at, level| end_of(level, key, at, mask))?,
        };
        let bytes = key.get(begin..at)?.iter().map(|byte| byte ^ mask);
        match part.is_binary {
            false => out.extend(bytes),
            // As a VARBINARY: drawn in `engine/src/table/catalog/byte_strings.rs`.
            true => {
                for byte in bytes {
                    out.push(byte);
                    out.extend((byte == 0).then_some(0xff));
                }
                out.extend([0, 0]);
            }
        }
    }
    Some(out)
}

/// Where a string level ends: drawn in `engine/src/index/key_shape.rs`.
fn end_of(level: &StringLevel, key: &[u8], mut at: usize, mask: u8) -> Option<usize> {
    const PADDED: u8 = 1;
    const PLAIN: u8 = 0;
    const PADDED_END: u8 = 2;
    const RUN_ABOVE: u8 = 3;
    const LONG_RUN: u8 = 0xff;
    let unit = level.unit as usize;
    loop {
        let weight: Vec<u8> = key.get(at..at + unit)?.iter().map(|byte| byte ^ mask).collect();
        at += unit;
        let is_zero = level.form != PADDED && weight.iter().all(|byte| *byte == 0);
        let is_space = level.form != PLAIN && weight[..] == level.space[..unit];
        if !is_zero && !is_space {
            continue;
        }
        let mark = key.get(at)? ^ mask;
        at += 1;
        if is_zero && mark == 0 || !is_zero && mark == PADDED_END {
            return Some(at);
        }
        if is_space {
            let mask = if mark == RUN_ABOVE { !mask } else { mask };
            at += if key.get(at)? ^ mask == LONG_RUN { 3 } else { 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(nullable: bool, inverted: bool, levels: Vec<StringLevel>) -> Part {
        Part {
            column: "a".into(),
            is_whole: true,
            nullable,
            inverted,
            len: 2,
            is_binary: false,
            levels,
        }
    }

    #[test]
    fn values_are_alike_whatever_the_index() {
        let level = || StringLevel {
            form: 0,
            unit: 1,
            space: *b" \0\0\0",
        };
        let plain = [part(false, false, vec![]), part(false, false, vec![level()])];
        let other = [part(true, false, vec![]), part(true, true, vec![level()])];
        let key = b"\x12\x34ab\0\xffc\0\0rest";
        let inverted: Vec<u8> = key[2..9].iter().map(|byte| !byte).collect();
        let with_nulls = [&b"\x01\x12\x34\xfe"[..], &inverted, b"rest"].concat();
        let expected = key[..9].to_vec();
        assert_eq!(image(&plain, key), Some(expected.clone()));
        assert_eq!(image(&other, &with_nulls), Some(expected));
        assert_eq!(image(&other, b"\0ab"), None);
        assert_eq!(image(&other, b"\x01\x12\x34\xff"), None);
        for cut in 0..9 {
            assert_eq!(image(&plain, &key[..cut]), None, "cut after {cut}");
        }
    }
    #[test]
    fn byte_strings_are_alike_whatever_their_form() {
        let level = StringLevel {
            form: 0,
            unit: 1,
            space: [0; 4],
        };
        let mut fixed = part(true, true, vec![]);
        fixed.is_binary = true;
        let varying = [part(false, false, vec![level])];
        assert_eq!(image(&[fixed], b"\xfe\x9e\xff"), image(&varying, b"a\0\xff\0\0"));
    }
    #[test]
    fn runs_of_spaces_are_passed() {
        let level = StringLevel {
            form: 1,
            unit: 1,
            space: *b" \0\0\0",
        };
        let parts = [part(false, false, vec![level])];
        for key in [
            &b"ab \x02"[..],
            b"a \x01\x05b \x02",
            b"a \x03\xfab \x02",
            b"a \x01\xff\x01\x02b \x02",
            b"a \x03\0\x01\x02b \x02",
        ] {
            assert_eq!(image(&parts, &[key, b"more"].concat()), Some(key.to_vec()));
        }
    }
}

//! Rows of a simulated table through the engine: entries made from a row as the table's indexes
//! want them, and scans.
use super::statement::KEY_LEN;
use super::twin::{Kind, Twin};
use crate::base::Result;
use crate::btree::{Seek, KEY_MAX, WIDE_KEY_MAX};
use crate::engine::tests::fixture::Row;
use crate::engine::Engine;
use crate::table::{BulkInsert, Entry, EntryChange, IndexSpec, LockChoice, NewRow, Table, TableLoad, TableSpec};
use crate::txn::Trx;
use std::sync::Arc;

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Group => "group",
            Kind::Tag => "tag",
            Kind::Wide => "wide",
            Kind::Huge => "huge",
        }
    }
    pub fn of_name(name: &str) -> Option<Kind> {
        super::twin::KINDS.into_iter().find(|k| k.name() == name)
    }
    /// The whole key of the row's entry, and the length of the index key in it.
    pub fn entry_key(self, pk: &[u8], row: &Row) -> (Vec<u8>, usize) {
        let user_key = self.user_key(row);
        ([&user_key[..], pk].concat(), user_key.len())
    }
    pub fn spec(self) -> IndexSpec {
        IndexSpec {
            name: self.name().into(),
            unique: self == Kind::Tag,
            wide: self == Kind::Huge,
            ..IndexSpec::default()
        }
    }
    /// Index key, clustered key not included.
    pub fn user_key(self, row: &Row) -> Vec<u8> {
        match (self, row.tag) {
            (Kind::Group, _) => vec![b'g', row.group],
            (Kind::Tag, None) => vec![0, 0, 0],
            (Kind::Tag, Some(t)) => vec![1, (t >> 8) as u8, t as u8],
            (Kind::Wide, _) => {
                let byte = row.body.first().map_or(1, |b| b | 1);
                let mut key = vec![byte; 20 + row.body.len() % 140];
                key.push(0);
                key
            }
            (Kind::Huge, _) => {
                // Longer than a page's node takes, and alike for long: so the separators are long,
                // too.
                let more = WIDE_KEY_MAX - KEY_MAX - KEY_LEN - 8;
                let byte = row.body.first().map_or(1, |b| b % 4 + 1);
                let mut key = vec![byte; KEY_MAX + row.body.len() * 37 % more];
                key.push(0);
                key
            }
        }
    }
    pub fn is_checked(self, row: &Row) -> bool {
        self == Kind::Tag && row.tag.is_some()
    }
    pub fn raw(self, row: &Row) -> Vec<u8> {
        match self {
            Kind::Group => vec![row.shade],
            // So that the index has several leaves, which come and go.
            Kind::Tag => vec![b't'; 400 + row.body.len() % 300],
            Kind::Wide => vec![],
            Kind::Huge => vec![b'h'; row.body.len() % 50],
        }
    }
}

pub fn spec(kinds: &[Kind]) -> TableSpec {
    // Some with a unique index, and some without.
    let varying = kinds.len() != 1 && !kinds.contains(&Kind::Group);
    TableSpec {
        pk_fixed_len: if varying { 0 } else { KEY_LEN as u32 },
        indexes: kinds.iter().map(|k| k.spec()).collect(),
        wide_pk: kinds.contains(&Kind::Huge),
        ..TableSpec::default()
    }
}

/// Owns what an `Entry` borrows.
pub struct OwnedEntry {
    ordinal: u32,
    user_key_len: usize,
    checked: bool,
    pub key: Vec<u8>,
    raw: Vec<u8>,
}

impl OwnedEntry {
    fn all(kinds: &[Kind], pk: &[u8], row: &Row) -> Vec<OwnedEntry> {
        let one = |(i, kind): (usize, &Kind)| {
            let mut key = kind.user_key(row);
            let user_key_len = key.len();
            key.extend_from_slice(pk);
            OwnedEntry {
                ordinal: i as u32,
                user_key_len,
                checked: kind.is_checked(row),
                key,
                raw: kind.raw(row),
            }
        };
        kinds.iter().enumerate().map(one).collect()
    }
    fn entry(&self) -> Entry<'_> {
        Entry {
            index: self.ordinal,
            user_key_len: self.user_key_len as u32,
            has_null: !self.checked,
            key: &self.key,
            value: &self.raw,
        }
    }
}

pub fn load_row(load: &mut TableLoad, kinds: &[Kind], pk: &[u8], row: &Row) -> Result<()> {
    let owned = OwnedEntry::all(kinds, pk, row);
    let entries: Vec<Entry<'_>> = owned.iter().map(OwnedEntry::entry).collect();
    load.add(pk, &row.encode(), &entries)
}

/// An open table and the indexes that its users know.
pub struct Handle<'a> {
    pub engine: &'a Arc<Engine>,
    pub table: Arc<Table>,
    pub kinds: &'a [Kind],
}

impl Handle<'_> {
    pub fn insert(&self, trx: &mut Trx, pk: &[u8], row: &Row) -> Result<()> {
        let owned = OwnedEntry::all(self.kinds, pk, row);
        let entries: Vec<Entry<'_>> = owned.iter().map(OwnedEntry::entry).collect();
        let store = self.engine.store();
        store
            .rows()
            .insert(trx, &self.table, &NewRow::new(pk, &row.encode(), &entries), false)
    }
    /// Nothing is rolled back.
    pub fn load<'r>(
        &self,
        mut bulk: BulkInsert,
        trx: &mut Trx,
        rows: impl Iterator<Item = (&'r [u8], &'r Row)>,
    ) -> Result<()> {
        let mut done = Ok(());
        for (pk, row) in rows {
            let owned = OwnedEntry::all(self.kinds, pk, row);
            let entries: Vec<Entry<'_>> = owned.iter().map(OwnedEntry::entry).collect();
            done = done.and_then(|()| bulk.add(trx, pk, &row.encode(), &entries));
        }
        done = done.and_then(|()| bulk.finish(trx));
        bulk.end(trx);
        done
    }
    pub fn delete(&self, trx: &mut Trx, pk: &[u8], row: &Row) -> Result<()> {
        let owned = OwnedEntry::all(self.kinds, pk, row);
        let entries: Vec<Entry<'_>> = owned.iter().map(OwnedEntry::entry).collect();
        self.engine.store().rows().delete(trx, &self.table, pk, &entries)
    }
    pub fn update(&self, trx: &mut Trx, pk: &[u8], old: &Row, new: &Row) -> Result<()> {
        let before = OwnedEntry::all(self.kinds, pk, old);
        let after = OwnedEntry::all(self.kinds, pk, new);
        let changes: Vec<EntryChange<'_>> = (before.iter().zip(&after))
            .filter(|(b, a)| (&b.key, &b.raw) != (&a.key, &a.raw))
            .map(|(b, a)| EntryChange {
                index: a.ordinal,
                user_key_len: a.user_key_len as u32,
                has_null: !a.checked,
                old_key: &b.key,
                new_key: &a.key,
                new_value: &a.raw,
            })
            .collect();
        let store = self.engine.store();
        store
            .rows()
            .update(trx, &self.table, pk, &new.encode(), &changes, false)
    }
    pub fn move_row(&self, trx: &mut Trx, from: (&[u8], &Row), to: (&[u8], &Row)) -> Result<()> {
        let before = OwnedEntry::all(self.kinds, from.0, from.1);
        let after = OwnedEntry::all(self.kinds, to.0, to.1);
        let old: Vec<Entry<'_>> = before.iter().map(OwnedEntry::entry).collect();
        let entries: Vec<Entry<'_>> = after.iter().map(OwnedEntry::entry).collect();
        let row = to.1.encode();
        let new = NewRow::new(to.0, &row, &entries);
        let store = self.engine.store();
        store.rows().move_row(trx, &self.table, from.0, &old, &new, false)
    }
    pub fn get(&self, trx: &mut Trx, pk: &[u8]) -> Result<Option<Row>> {
        let mut cursor = self.engine.store().cursor(self.table.clone());
        let found = cursor.get(trx, pk, LockChoice::default())?;
        Ok(cursor.found().filter(|_| found).map(|f| Row::decode(f.row)))
    }
    /// (key, clustered key, row or raw part, covering) of every entry that the transaction sees.
    pub fn scan(&self, trx: &mut Trx, index: u32, backward: bool, covering: bool) -> Result<Vec<Seen>> {
        let mut cursor = self.engine.store().cursor(self.table.clone());
        cursor.begin(trx, index, LockChoice::default(), covering)?;
        let mut out = Vec::new();
        let mut more = cursor.seek(trx, if backward { Seek::Last } else { Seek::First }, &[])?;
        while more {
            let f = cursor.found().expect("handed out");
            out.push(Seen {
                key: f.key.to_vec(),
                pk: f.pk.to_vec(),
                data: f.row.to_vec(),
                covering: f.covering,
            });
            more = if backward { cursor.prev(trx)? } else { cursor.next(trx)? };
        }
        Ok(out)
    }
    /// The transaction sees exactly the twin's rows through an index. Ok(Err) says what is wrong.
    pub fn compare(
        &self,
        trx: &mut Trx,
        twin: &Twin,
        index: u32,
        backward: bool,
        covering: bool,
    ) -> Result<std::result::Result<(), String>> {
        let seen = self.scan(trx, index, backward, covering)?;
        Ok(differ(&seen, twin, index, backward).map_or(Ok(()), Err))
    }
}

pub struct Seen {
    key: Vec<u8>,
    pk: Vec<u8>,
    data: Vec<u8>,
    covering: bool,
}

impl Seen {
    pub fn row(&self) -> (Vec<u8>, Row) {
        (self.pk.clone(), Row::decode(&self.data))
    }
}

fn differ(seen: &[Seen], twin: &Twin, index: u32, backward: bool) -> Option<String> {
    let kind = index.checked_sub(1).map(|i| twin.kinds[i as usize]);
    let key = |pk: &[u8], row: &Row| match kind {
        Some(kind) => [&kind.user_key(row)[..], pk].concat(),
        None => pk.to_vec(),
    };
    let mut expected: Vec<_> = twin.rows.iter().map(|(pk, row)| (key(pk, row), pk, row)).collect();
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    if backward {
        expected.reverse();
    }
    let name = kind.map_or("clustered", Kind::name);
    let text = |k: &[u8]| String::from_utf8_lossy(k).into_owned();
    if let Some(i) = (0..seen.len().max(expected.len())).find(|i| {
        let (s, e) = (seen.get(*i), expected.get(*i));
        s.map(|s| (&s.key, &s.pk)) != e.map(|e| (&e.0, e.1))
    }) {
        return Some(format!(
            "index {name}: {} entries, expected {}; place {i} is of row {:?}, expected {:?}",
            seen.len(),
            expected.len(),
            seen.get(i).map(|s| text(&s.pk)),
            expected.get(i).map(|e| text(e.1))
        ));
    }
    for (s, (_, pk, row)) in seen.iter().zip(&expected) {
        let right = match (s.covering, kind) {
            (true, Some(kind)) => s.data == kind.raw(row),
            _ => Row::decode(&s.data) == **row,
        };
        if !right {
            return Some(format!("index {name}: the row {:?} has other bytes", text(pk)));
        }
    }
    None
}

//! What the tests share: a table of made-up rows with two secondary indexes, and its twin in
//! memory.
use crate::base::Result;
use crate::btree::Seek;
use crate::change::{self, Buffering};
use crate::engine::{Config, Engine};
use crate::io::Disk;
use crate::table::*;
use crate::txn::{Isolation, LockMode, ThreadWaiter, Trx, Xid};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A row. `group` is indexed (not unique) with `shade` as raw byte beside it: rows of one group may
/// differ in shade, as words do in case. `tag` is indexed uniquely; None = NULL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    pub group: u8,
    pub shade: u8,
    pub tag: Option<u16>,
    pub body: Vec<u8>,
}

pub const BY_GROUP: u32 = 1;
pub const BY_TAG: u32 = 2;

/// The table's twin: clustered key -> row.
pub type Model = BTreeMap<Vec<u8>, Row>;

/// The XID of a transaction to be prepared.
pub fn xid(data: &[u8]) -> Xid {
    Xid {
        format_id: 1,
        gtrid_len: data.len() as u32,
        bqual_len: 0,
        data: data.to_vec(),
    }
}
/// The clustered key of row `n`; keys vary in length.
pub fn pk(n: u32) -> Vec<u8> {
    let mut key = format!("{:x}", n.wrapping_mul(2_654_435_761) >> 12).into_bytes();
    key.push(0);
    key
}

impl Row {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.group, self.shade, self.tag.is_some() as u8];
        out.extend_from_slice(&self.tag.unwrap_or(0).to_be_bytes());
        out.extend_from_slice(&self.body);
        out
    }
    pub fn decode(b: &[u8]) -> Row {
        let tag = u16::from_be_bytes([b[3], b[4]]);
        Row {
            group: b[0],
            shade: b[1],
            tag: (b[2] != 0).then_some(tag),
            body: b[5..].to_vec(),
        }
    }
    pub fn group_key(&self, pk: &[u8]) -> Vec<u8> {
        [&[b'g', self.group], pk].concat()
    }
    pub fn tag_key(&self, pk: &[u8]) -> Vec<u8> {
        match self.tag {
            None => [&[0, 0, 0], pk].concat(),
            Some(t) => [&[1, (t >> 8) as u8, t as u8], pk].concat(),
        }
    }
}

/// Calls `body` with the row's entries.
pub fn with_entries<T>(pk: &[u8], row: &Row, body: impl FnOnce(&[Entry<'_>]) -> T) -> T {
    let (group, tag, shade) = (row.group_key(pk), row.tag_key(pk), [row.shade]);
    body(&[
        Entry {
            index: 0,
            user_key_len: 2,
            has_null: false,
            key: &group,
            value: &shade,
        },
        Entry {
            index: 1,
            user_key_len: 3,
            has_null: row.tag.is_none(),
            key: &tag,
            value: &[],
        },
    ])
}

thread_local! {
    static CHANCE: RefCell<Chance> = const { RefCell::new(Chance(7)) };
}

pub struct TableFixture {
    pub engine: Arc<Engine>,
    pub table: Arc<Table>,
}

pub fn config() -> Config {
    Config {
        buffer_pool_size: 3 << 20,
        redo_log_capacity: 8 << 20,
        redo_log_buffer_size: 1 << 20,
        read_io_threads: 0,
        io_capacity: 200,
        io_capacity_max: 2000,
        flush_method: crate::engine::FlushMethod::Buffered,
        change_buffering: Buffering::All,
        change_buffer_test_mode: buffer_mode(),
        ..Config::default()
    }
}

/// SLUICE_TEST_BUFFER: 1 buffers every change of a secondary index that can be buffered, 2 every
/// other one. Both merge at random moments. Without it the engine buffers those that pay.
fn buffer_mode() -> u8 {
    let asked = std::env::var("SLUICE_TEST_BUFFER").ok();
    asked.map_or(0, |mode| mode.parse().expect("0, 1 or 2"))
}

pub fn spec() -> TableSpec {
    let index = |name: &str, unique| IndexSpec {
        name: name.into(),
        unique,
        wide: false,
        ..IndexSpec::default()
    };
    TableSpec {
        indexes: vec![index("by_group", false), index("by_tag", true)],
        ..TableSpec::default()
    }
}

impl TableFixture {
    pub fn create(disk: Arc<dyn Disk>) -> TableFixture {
        TableFixture::with(Engine::open(disk, config()).expect("fresh engine"))
    }
    /// In a fresh engine.
    pub fn with(engine: Arc<Engine>) -> TableFixture {
        engine.store().tables().create_table("t", &spec()).expect("create");
        let table = engine.store().tables().open_table("t").expect("open");
        TableFixture { engine, table }
    }
    pub fn reopen(disk: Arc<dyn Disk>) -> Result<TableFixture> {
        let engine = Engine::open(disk, config())?;
        let table = engine.store().tables().open_table("t")?;
        Ok(TableFixture { engine, table })
    }
    pub fn store(&self) -> &Arc<Store> {
        self.engine.store()
    }
    /// For figures: from now on nothing is merged at random moments.
    pub fn steady(&self) {
        if self.store().change.merges_at_random() {
            self.engine.set("change_buffer_test_mode", 4).expect("set");
        }
    }
    /// Where everything is buffered, by the environment or the test, it comes to be merged at
    /// random moments, as by the worker.
    pub fn begin(&self, isolation: Isolation) -> Trx {
        CHANCE.with_borrow_mut(|chance| {
            if chance.below(3) == 0 {
                // A disk that died tells it elsewhere.
                let _ = self.store().merge_scheduler().merge_at_random(chance);
            }
        });
        let mut trx = self.engine.new_trx(Arc::new(ThreadWaiter::new()), 0);
        self.engine.start(&mut trx, isolation, 20_000);
        trx
    }
    pub fn is_in_doubt(&self, table: &str, losers: bool) -> Result<bool> {
        Ok(self.engine.in_doubt.find_writer(table, losers)?.is_some())
    }
    pub fn insert(&self, trx: &mut Trx, pk: &[u8], row: &Row) -> Result<()> {
        with_entries(pk, row, |entries| {
            self.store()
                .rows()
                .insert(trx, &self.table, &NewRow::new(pk, &row.encode(), entries), false)
        })
    }
    pub fn delete(&self, trx: &mut Trx, pk: &[u8], row: &Row) -> Result<()> {
        with_entries(pk, row, |entries| {
            self.store().rows().delete(trx, &self.table, pk, entries)
        })
    }
    pub fn update(&self, trx: &mut Trx, pk: &[u8], old: &Row, new: &Row) -> Result<()> {
        let (old_group, new_group) = (old.group_key(pk), new.group_key(pk));
        let (old_tag, new_tag) = (old.tag_key(pk), new.tag_key(pk));
        let shade = [new.shade];
        let mut changes = Vec::new();
        if (old.group, old.shade) != (new.group, new.shade) {
            changes.push(EntryChange {
                index: 0,
                user_key_len: 2,
                has_null: false,
                old_key: &old_group,
                new_key: &new_group,
                new_value: &shade,
            });
        }
        if old.tag != new.tag {
            changes.push(EntryChange {
                index: 1,
                user_key_len: 3,
                has_null: new.tag.is_none(),
                old_key: &old_tag,
                new_key: &new_tag,
                new_value: &[],
            });
        }
        self.store()
            .rows()
            .update(trx, &self.table, pk, &new.encode(), &changes, false)
    }
    pub fn move_row(&self, trx: &mut Trx, old_pk: &[u8], old: &Row, new_pk: &[u8], new: &Row) -> Result<()> {
        with_entries(old_pk, old, |old_entries| {
            with_entries(new_pk, new, |entries| {
                let row = new.encode();
                let new = NewRow::new(new_pk, &row, entries);
                self.store()
                    .rows()
                    .move_row(trx, &self.table, old_pk, old_entries, &new, false)
            })
        })
    }
    pub fn get(&self, trx: &mut Trx, pk: &[u8], mode: Option<LockMode>) -> Result<Option<Row>> {
        let mut cursor = self.store().cursor(self.table.clone());
        let lock = LockChoice {
            mode,
            ..LockChoice::default()
        };
        let found = cursor.get(trx, pk, lock)?;
        Ok(if found {
            cursor.found().map(|f| Row::decode(f.row))
        } else {
            None
        })
    }
    /// (key, pk, row or raw bytes) of every entry in an index.
    pub fn scan(
        &self,
        trx: &mut Trx,
        index: u32,
        backward: bool,
        covering: bool,
        mode: Option<LockMode>,
    ) -> Result<Vec<Scanned>> {
        let mut cursor = self.store().cursor(self.table.clone());
        cursor.begin(
            trx,
            index,
            LockChoice {
                mode,
                ..LockChoice::default()
            },
            covering,
        )?;
        let mut out = Vec::new();
        let mut more = cursor.seek(trx, if backward { Seek::Last } else { Seek::First }, &[])?;
        while more {
            let f = cursor.found().expect("handed out");
            out.push(Scanned {
                covering: f.covering,
                key: f.key.to_vec(),
                pk: f.pk.to_vec(),
                row: f.row.to_vec(),
            });
            more = if backward { cursor.prev(trx)? } else { cursor.next(trx)? };
        }
        Ok(out)
    }

    /// Everything that the transaction sees is as in the model, through every index and both ways.
    pub fn check_view(&self, trx: &mut Trx, model: &Model, what: &str) {
        for backward in [false, true] {
            for covering in [false, true] {
                for index in [0, BY_GROUP, BY_TAG] {
                    let found = self.scan(trx, index, backward, covering, None).expect("scan");
                    compare(&found, model, index, backward, what);
                }
            }
        }
    }
    /// CHECK TABLE, extended; under a view of its own.
    pub fn check_table(&self) {
        let mut trx = self.begin(Isolation::RepeatableRead);
        let findings = self.findings(&mut trx, CheckLevel::Extended);
        self.engine.commit(&mut trx, false).expect("commit");
        assert!(findings.is_empty(), "{findings:#?}");
    }
    pub fn findings(&self, trx: &mut Trx, level: CheckLevel) -> Vec<String> {
        let names = self
            .table
            .layout()
            .secondary
            .iter()
            .map(|s| s.index.name.clone())
            .collect();
        let mut asker = FindingsChecker(Vec::new(), names);
        let sound = self
            .store()
            .check_table(trx, &self.table, level, &mut asker)
            .expect("check");
        assert_eq!(sound, asker.0.is_empty());
        asker.0
    }
    pub fn purge_all(&self) {
        while self.store().purger().purge_step(7).expect("purge") {}
    }
    /// From now on all changes of secondary indexes are buffered, those of half the keys, or none:
    /// by the number.
    pub fn buffer_by(&self, number: u64) {
        let (buffering, mode) = [(5, 1), (5, 2), (0, 0)][number as usize % 3];
        self.engine.set("change_buffering", buffering).expect("set");
        self.engine.set("change_buffer_test_mode", mode).expect("set");
    }
    /// One step of what merges buffered changes: of a leaf, of a sweep, or the beginning of a
    /// partition.
    pub fn merge_some(&self, random: &mut Random) -> Result<()> {
        let pool = &self.store().pool;
        let layout = self.table.layout();
        let index = &layout.secondary[random.below(2) as usize].index;
        let Some(delta) = &index.delta else { return Ok(()) };
        match random.below(6) {
            0 => delta.begin_partition(),
            1 | 2 => drop(change::sweep_step(pool, index, 1 + random.below(3) as usize)?),
            _ => {
                let key = [b'g' * random.below(2) as u8, random.below(6) as u8];
                change::merge_leaf(pool, index, &key)?;
            }
        }
        Ok(())
    }
    /// Entries that stand in an index, pending ones and dead ones included.
    pub fn entries_in_tree(&self, index: u32) -> u64 {
        let layout = self.table.layout();
        let index = layout.index(index).expect("index");
        let mut entries = 0;
        let count = &mut |_: &[u8], _: &[u8]| {
            entries += 1;
            Ok(true)
        };
        change::visit_prefix(&self.store().pool, index, &[], count).expect("visit");
        entries
    }
}

/// Has a table checked, and knows what its rows' entries must be: (findings, names of the indexes).
pub struct FindingsChecker(pub Vec<String>, pub Vec<String>);

impl Checker for FindingsChecker {
    fn finding(&mut self, line: &str) {
        self.0.push(line.to_string());
    }
    fn knows_entries(&self) -> bool {
        let known = spec().indexes;
        self.1.iter().all(|name| known.iter().any(|i| i.name == *name))
    }
    fn entries(&mut self, pk: &[u8], row: &[u8], each: EntrySink<'_>) {
        with_entries(pk, &Row::decode(row), |entries| {
            for (e, spec) in entries.iter().zip(spec().indexes) {
                // Its place in this table, which may lack it.
                if let Some(at) = self.1.iter().position(|name| *name == spec.name) {
                    each(at as u32, e.key, e.value);
                }
            }
        });
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Scanned {
    pub covering: bool,
    pub key: Vec<u8>,
    pub pk: Vec<u8>,
    pub row: Vec<u8>,
}

fn compare(found: &[Scanned], model: &Model, index: u32, backward: bool, what: &str) {
    let key = |pk: &[u8], row: &Row| match index {
        BY_GROUP => row.group_key(pk),
        BY_TAG => row.tag_key(pk),
        _ => pk.to_vec(),
    };
    let mut expected: Vec<(Vec<u8>, &Vec<u8>, &Row)> = model.iter().map(|(pk, row)| (key(pk, row), pk, row)).collect();
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    if backward {
        expected.reverse();
    }
    let keys = |it: &mut dyn Iterator<Item = Vec<u8>>| it.collect::<Vec<_>>();
    assert_eq!(
        keys(&mut found.iter().map(|f| f.key.clone())),
        keys(&mut expected.iter().map(|e| e.0.clone())),
        "{what}: keys of index {index}, backward {backward}"
    );
    for (f, (_, pk, row)) in found.iter().zip(&expected) {
        assert_eq!(&f.pk, *pk, "{what}");
        match (f.covering, index) {
            (true, BY_GROUP) => assert_eq!(f.row, [row.shade], "{what}: raw of {pk:?}"),
            (true, _) => assert!(f.row.is_empty()),
            (false, _) => assert_eq!(Row::decode(&f.row), **row, "{what}: row {pk:?} by index {index}"),
        }
    }
}

/// Seeds of a random test: the usual few, or those of SLUICE_SEEDS="from-to" for a soak.
pub fn seeds(usual: u64) -> std::ops::RangeInclusive<u64> {
    let asked = std::env::var("SLUICE_SEEDS").ok();
    let range = asked.as_ref().and_then(|s| s.split_once('-'));
    match range {
        Some((from, to)) => from.parse().expect("a number")..=to.parse().expect("a number"),
        None => 1..=usual,
    }
}

/// A small seeded generator: the same seed gives the same test.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
    pub fn row(&mut self, tags: u64) -> Row {
        let len = match self.below(100) {
            0..=69 => self.below(60),
            70..=94 => self.below(1500),
            _ => self.below(60_000),
        };
        let byte = self.below(256) as u8;
        Row {
            group: self.below(6) as u8,
            shade: self.below(3) as u8,
            tag: self.chance(80).then(|| self.below(tags) as u16),
            body: vec![byte; len as usize],
        }
    }
}

/// An ALTER TABLE that changes nothing: for `..change_of(table)`.
pub fn change_of(table: &Arc<Table>) -> IndexChange<'_> {
    IndexChange {
        table,
        drop: vec![],
        rename: vec![],
        add: vec![],
        order: vec![],
        change_buffering: None,
        schema: b"",
        keys: Default::default(),
    }
}

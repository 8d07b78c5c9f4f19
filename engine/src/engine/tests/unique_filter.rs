//! New unique values of a table that is larger than the pool
//! (`docs/decisions/2026-11-21-unique-filter.md`). They are put without a read of their leaf.
//! Another insert of the same value finds them, whatever has become of them.
use super::fixture::{change_of, config};
use crate::base::{Error, Result};
use crate::engine::{Close, Config, Engine};
use crate::io::sim::SimDisk;
use crate::pool::PAGE_SIZE;
use crate::table::{CheckLevel, Checker, Entry, EntrySink, IndexSpec, NewRow, StoreConfig, Table, TableSpec};
use crate::txn::{Isolation, ThreadWaiter, Trx};
use std::sync::atomic::Ordering;
use std::sync::Arc;

const FRAMES: u64 = 96;
/// The unique index alone takes more than twice the pool.
const ROWS: u32 = 5000;
const RAW: [u8; PAGE_SIZE / 30] = [7; PAGE_SIZE / 30];

/// A table of rows (number, value), the value unique.
struct World {
    disk: Arc<SimDisk>,
    engine: Arc<Engine>,
    table: Arc<Table>,
    varying: bool,
    /// The first byte of the index's keys.
    lead: u8,
}

fn small() -> Config {
    Config {
        buffer_pool_size: FRAMES * PAGE_SIZE as u64,
        change_buffer_test_mode: 0,
        ..config()
    }
}
fn scattered(n: u32) -> u32 {
    n.wrapping_mul(0x9e37_79b1)
}

impl World {
    /// Rows 0, 1, 2 ... with the values 0, 2, 4 ..., each leaf of which has come and gone.
    fn filled(varying: bool) -> World {
        World::filled_with(varying, small())
    }
    fn filled_with(varying: bool, config: Config) -> World {
        let disk = SimDisk::new(1);
        let engine = Engine::open(disk.clone(), config).expect("fresh engine");
        let spec = TableSpec {
            pk_fixed_len: if varying { 0 } else { 4 },
            indexes: vec![IndexSpec {
                name: "by_value".into(),
                unique: true,
                wide: false,
                ..IndexSpec::default()
            }],
            ..TableSpec::default()
        };
        engine.store().tables().create_table("t", &spec).expect("create");
        let world = World::with(disk, engine, varying);
        let mut trx = world.begin();
        for n in 0..ROWS {
            world.insert(&mut trx, n, scattered(n * 2)).expect("insert");
        }
        world.commit(trx);
        world.settle();
        world
    }
    fn with(disk: Arc<SimDisk>, engine: Arc<Engine>, varying: bool) -> World {
        let table = engine.store().tables().open_table("t").expect("open");
        // A look brings leaves in.
        engine.store().verify.store(false, Ordering::Relaxed);
        World {
            disk,
            engine,
            table,
            varying,
            lead: 1,
        }
    }
    /// Everything is merged, and all leaves have been in the pool since.
    fn settle(&self) {
        self.engine.store().merge_scheduler().drain_changes().expect("drain");
        self.check();
    }
    fn check(&self) {
        let mut trx = self.begin();
        let mut lines = Vec::new();
        let store = self.engine.store();
        let mut asker = FindingsChecker(&mut lines, self);
        store
            .check_table(&mut trx, &self.table, CheckLevel::Extended, &mut asker)
            .expect("check");
        self.commit(trx);
        assert!(lines.is_empty(), "{lines:?}");
    }
    fn begin(&self) -> Trx {
        let mut trx = self.engine.new_trx(Arc::new(ThreadWaiter::new()), 0);
        self.engine.start(&mut trx, Isolation::ReadCommitted, 50);
        trx
    }
    fn commit(&self, mut trx: Trx) {
        self.engine.commit(&mut trx, false).expect("commit");
    }
    fn pk(&self, n: u32) -> Vec<u8> {
        let mut pk = n.to_be_bytes().to_vec();
        pk.extend_from_slice(if self.varying {
            &b"row."[..1 + n as usize % 4]
        } else {
            b""
        });
        pk
    }
    fn with_entry<T>(&self, n: u32, value: u32, body: impl FnOnce(&[u8], &[Entry<'_>]) -> T) -> T {
        let pk = self.pk(n);
        let key = [&[self.lead], &value.to_be_bytes()[..], &pk].concat();
        let entry = Entry {
            index: 0,
            user_key_len: 5,
            has_null: false,
            key: &key,
            value: &RAW,
        };
        body(&pk, &[entry])
    }
    fn insert(&self, trx: &mut Trx, n: u32, value: u32) -> Result<()> {
        self.with_entry(n, value, |pk, entries| {
            let row = value.to_be_bytes();
            let new = NewRow::new(pk, &row, entries);
            self.engine.store().rows().insert(trx, &self.table, &new, false)
        })
    }
    fn delete(&self, trx: &mut Trx, n: u32, value: u32) {
        let deleted = self.with_entry(n, value, |pk, entries| {
            self.engine.store().rows().delete(trx, &self.table, pk, entries)
        });
        deleted.expect("delete");
    }
    fn is_row(&self, result: Result<()>, n: u32) {
        let pk = self.pk(n);
        assert_eq!(result, Err(Error::Duplicate { index: 1, pk }));
    }
    fn spared(&self) -> u64 {
        self.engine.counters().change_buffer_unique_checks_spared.get()
    }
    fn reads(&self) -> u64 {
        let c = self.engine.counters();
        c.buffer_pool_reads.get() + c.buffer_pool_read_ahead.get()
    }
    /// A new value put unseen, not committed: by the first row from `n` on that can.
    fn put_unseen(&self, trx: &mut Trx, n: u32) -> (u32, u32) {
        // Another row each time: a row that its transaction deleted is put back with a look at what
        // it left.
        for n in n..n + 500 {
            let (before, value) = (self.spared(), scattered(2 * n + 1));
            self.insert(trx, n, value).expect("insert");
            if self.spared() > before {
                return (n, value);
            }
        }
        unreachable!("one is put unseen")
    }
}

struct FindingsChecker<'a>(&'a mut Vec<String>, &'a World);

impl Checker for FindingsChecker<'_> {
    fn finding(&mut self, line: &str) {
        self.0.push(line.to_string());
    }
    fn knows_entries(&self) -> bool {
        true
    }
    fn entries(&mut self, pk: &[u8], row: &[u8], each: EntrySink<'_>) {
        let n = u32::from_be_bytes(pk[..4].try_into().expect("a row's number"));
        let value = u32::from_be_bytes(row.try_into().expect("its value"));
        self.1
            .with_entry(n, value, |_, entries| each(0, entries[0].key, entries[0].value));
    }
}

#[test]
fn new_values_of_a_large_index_are_put_unseen() {
    for varying in [false, true] {
        let reads_of = |buffering: u64| {
            let world = World::filled(varying);
            world.engine.set("change_buffering", buffering).expect("set");
            let (reads, spared) = (world.reads(), world.spared());
            let mut trx = world.begin();
            for n in 0..300 {
                world
                    .insert(&mut trx, ROWS + n, scattered(2 * n + 1))
                    .expect("a new value");
            }
            let (reads, spared) = (world.reads() - reads, world.spared() - spared);
            // Every value is there now, pending or in its leaf.
            for n in (0..300).step_by(7) {
                world.is_row(world.insert(&mut trx, 2 * ROWS, scattered(2 * n + 1)), ROWS + n);
                world.is_row(world.insert(&mut trx, 2 * ROWS, scattered(2 * n)), n);
            }
            world.commit(trx);
            world.settle();
            (reads, spared)
        };
        let (without, with) = (reads_of(0), reads_of(5));
        assert_eq!(without.1, 0);
        if varying {
            assert_eq!(with.1, 0, "a key does not tell where its value ends");
            continue;
        }
        assert!(with.1 > 100, "varying {varying}: {with:?}, without {without:?}");
        assert!(
            with.0 * 3 < without.0 * 2,
            "varying {varying}: {with:?}, without {without:?}"
        );
    }
}

/// The second of two inserters of one value waits for the first, whose entry is not merged, and
/// whose leaf is not in memory.
#[test]
fn an_unread_value_belongs_to_its_inserter() {
    let world = World::filled(false);
    for undone in [false, true] {
        let mut first = world.begin();
        let (row, value) = world.put_unseen(&mut first, 2 * ROWS + 1000 * undone as u32);
        let mut second = world.begin();
        assert_eq!(world.insert(&mut second, row + 1, value), Err(Error::LockWaitTimeout));
        if undone {
            world.engine.rollback(&mut first).expect("rollback");
            world.insert(&mut second, row + 1, value).expect("it is free again");
        } else {
            world.commit(first);
            world.is_row(world.insert(&mut second, row + 1, value), row);
        }
        world.commit(second);
    }
    world.settle();
}

/// Marked, purged while it is pending, merged or not: the value is free then, and once only.
#[test]
fn an_unseen_value_that_was_deleted_is_free() {
    for merged in [false, true] {
        let world = World::filled(false);
        let mut trx = world.begin();
        let (row, value) = world.put_unseen(&mut trx, 2 * ROWS);
        world.commit(trx);
        let mut trx = world.begin();
        world.delete(&mut trx, row, value);
        let mut other = world.begin();
        assert_eq!(
            world.insert(&mut other, 3 * ROWS, value),
            Err(Error::LockWaitTimeout),
            "the delete may be undone"
        );
        world.commit(trx);
        if merged {
            world.engine.store().merge_scheduler().drain_changes().expect("drain");
        }
        while world.engine.store().purger().purge_step(7).expect("purge") {}
        world.insert(&mut other, 3 * ROWS, value).expect("free");
        world.is_row(world.insert(&mut other, 4 * ROWS, value), 3 * ROWS);
        world.commit(other);
        world.settle();
    }
}

/// After a restart there is no filter of any leaf: every value is looked for, until the leaves have
/// been read and evicted again.
#[test]
fn what_is_known_of_leaves_ends_with_the_engine() {
    for crash in [false, true] {
        let world = World::filled(false);
        let mut trx = world.begin();
        let (row, value) = world.put_unseen(&mut trx, 2 * ROWS);
        world.commit(trx);
        let World { disk, engine, .. } = world;
        let disk = if crash {
            engine.flush_log().expect("flush");
            disk.crash(7)
        } else {
            engine.close(Close::Fast).expect("close");
            disk
        };
        drop(engine);
        let engine = Engine::open(disk.clone(), small()).expect("open");
        let world = World::with(disk, engine, false);
        assert_eq!(world.engine.store().pool.absence_filters().count(), 0);
        let mut trx = world.begin();
        world.is_row(world.insert(&mut trx, 3 * ROWS, value), row);
        for n in 0..100 {
            world.is_row(world.insert(&mut trx, 3 * ROWS, scattered(2 * n)), n);
        }
        world.commit(trx);
        world.settle();
        let mut trx = world.begin();
        world.put_unseen(&mut trx, 4 * ROWS);
        world.commit(trx);
        world.settle();
    }
}

/// The index is replaced by another one, of other keys. Its leaves are the pages of the first one,
/// which were known to lack them.
#[test]
fn pages_given_to_another_index_lack_nothing_of_it() {
    for past_the_pool in [false, true] {
        let mut config = small();
        config.store = StoreConfig {
            bulk_load_min: if past_the_pool { 0 } else { u64::MAX },
            ..config.store
        };
        let mut world = World::filled_with(false, config);
        let store = world.engine.store().clone();
        assert!(store.pool.absence_filters().count() > 50);
        let table = &world.table.clone();
        let mut drop = change_of(table);
        drop.drop = vec!["by_value"];
        store.indexes().alter_indexes(&[drop]).expect("dropped");
        world.lead = 2;
        let spec = IndexSpec {
            name: "again".into(),
            unique: true,
            wide: false,
            ..IndexSpec::default()
        };
        let mut build = store.indexes().begin_build(table, &spec).expect("begun");
        for n in 0..ROWS {
            world
                .with_entry(n, scattered(n * 2), |_, e| build.add(e[0].key, 5, true, e[0].value))
                .expect("added");
        }
        let trx = world.begin();
        build.finish(&trx).expect("built");
        world.commit(trx);
        let mut add = change_of(table);
        (add.add, add.order) = (vec![&build], vec!["again"]);
        store.indexes().alter_indexes(&[add]).expect("published");
        store.pool.flush_all().expect("written");
        store.pool.evict_clean();
        let mut trx = world.begin();
        for n in 0..1000 {
            world.is_row(world.insert(&mut trx, 2 * ROWS, scattered(2 * n)), n);
        }
        world.commit(trx);
        world.settle();
    }
}

/// A table keeps its old layouts, and with them what was pending for their indexes. Each TRUNCATE
/// left its filters in memory, until there was none for the filter of a new value. Then each unique
/// insert of the engine read its leaf again.
#[test]
fn filters_go_with_the_index_that_they_were_of() {
    let config = Config {
        change_buffer_test_mode: 1,
        ..small()
    };
    let world = World::filled_with(false, config);
    let store = world.engine.store();
    for round in 0..20 {
        let mut trx = world.begin();
        for n in 0..10 {
            world
                .insert(&mut trx, 2 * ROWS + n, scattered(n * 2 + 1))
                .expect("insert");
        }
        world.commit(trx);
        assert!(store.change.entries() >= 10 && store.change.filter_memory().0 > 0);
        match round % 2 {
            0 => store.tables().truncate_table("t").expect("truncated"),
            _ => replace_index(&world),
        }
        assert_eq!(store.change.entries(), 0);
        assert_eq!(store.change.filter_memory(), (0, 0), "round {round}");
    }
}

/// In the place of the index comes one of the same name, without an entry; then the table is
/// emptied.
fn replace_index(world: &World) {
    let store = world.engine.store();
    let spec = IndexSpec {
        name: "by_value".into(),
        unique: true,
        wide: false,
        ..IndexSpec::default()
    };
    let mut build = store.indexes().begin_build(&world.table, &spec).expect("begun");
    let trx = world.begin();
    build.finish(&trx).expect("built");
    world.commit(trx);
    let mut change = change_of(&world.table);
    (change.drop, change.add, change.order) = (vec!["by_value"], vec![&build], vec!["by_value"]);
    store.indexes().alter_indexes(&[change]).expect("published");
    store.tables().truncate_table("t").expect("truncated");
}

/// A table that is emptied again and again kept a layout of each time.
#[test]
fn old_layouts_go_when_the_table_is_not_in_use() {
    let world = World::filled_with(false, small());
    let World { engine, table, .. } = world;
    let store = engine.store();
    store.tables().truncate_table("t").expect("truncated");
    let again = store.tables().open_table("t").expect("open");
    assert!(again.has_old_layouts(), "a handle has it");
    store.tables().close_table(&again);
    store.tables().close_table(&table);
    drop((again, table));
    for _ in 0..3 {
        store.tables().truncate_table("t").expect("truncated");
        let table = store.tables().open_table("t").expect("open");
        assert!(!table.has_old_layouts());
        let (id, name) = (table.layout().id, table.name());
        assert_eq!(store.catalog.by_id(id).map(|table| table.name()), Some(name));
        store.tables().close_table(&table);
    }
}

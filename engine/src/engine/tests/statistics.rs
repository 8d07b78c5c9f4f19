//! Statistics for the optimizer: right within a factor of two whatever the values are like, kept
//! over a restart, refreshed as the table changes. Before, the keys of one random leaf were
//! counted: nearly every index had a cardinality of 1.
use super::fixture::{change_of, config, TableFixture};
use crate::engine::{Close, Config, Engine};
use crate::index::key_shape::{KeyShape, PartImage, PartShape};
use crate::io::sim::SimDisk;
use crate::table::*;
use crate::txn::{Isolation, ThreadWaiter};
use std::ops::Range;
use std::sync::Arc;

const ROWS: u32 = 30_000;

/// An index: how many bytes each part has (each may be NULL), and the values of row n.
struct Kind {
    name: &'static str,
    parts: usize,
    values: fn(u32) -> [Option<u32>; 2],
    /// Different values of the first part, and of both.
    distinct: [u64; 2],
}

/// A permutation of 0..ROWS: neighbours in the primary key are far apart.
fn mixed(n: u32) -> u32 {
    (n as u64 * 17_389 % ROWS as u64) as u32
}

fn keeper(engine: &Engine) -> &StatisticsKeeper {
    engine.store().statistics_keeper()
}

fn compute(engine: &Engine, table: &Table) {
    keeper(engine).compute_statistics(table).expect("computed");
}

/// What is known.
fn computed(engine: &Engine, table: &Table) -> Arc<TableStatistics> {
    keeper(engine).statistics(table).expect("read").expect("computed")
}

const KINDS: [Kind; 7] = [
    Kind {
        name: "uniform",
        parts: 1,
        values: |n| [Some(n % 3000), None],
        distinct: [3000, 0],
    },
    Kind {
        name: "two_values",
        parts: 1,
        values: |n| [Some(n % 2), None],
        distinct: [2, 0],
    },
    Kind {
        name: "few",
        parts: 1,
        values: |n| [Some(mixed(n) % 25), None],
        distinct: [25, 0],
    },
    Kind {
        name: "mostly_null",
        parts: 1,
        values: |n| [(n % 10 == 0).then_some(n), None],
        distinct: [ROWS as u64 / 10 + 1, 0],
    },
    Kind {
        name: "skewed",
        parts: 1,
        // One value has all rows but 300.
        values: |n| [Some(if n % 100 == 0 { 1_000_000 + n } else { 500 }), None],
        distinct: [ROWS as u64 / 100 + 1, 0],
    },
    Kind {
        name: "unique_values",
        parts: 1,
        values: |n| [Some(mixed(n)), None],
        distinct: [ROWS as u64, 0],
    },
    Kind {
        name: "pair",
        parts: 2,
        values: |n| [Some(n % 10), Some(n % 1000)],
        distinct: [10, 1000],
    },
];

fn key(kind: &Kind, n: u32) -> Vec<u8> {
    let mut key = Vec::new();
    for value in &(kind.values)(n)[..kind.parts] {
        key.push(value.is_some() as u8);
        key.extend(value.iter().flat_map(|value| value.to_be_bytes()));
    }
    key
}

fn options() -> StatisticsOptions {
    let part = |nullable| PartShape {
        nullable,
        inverted: false,
        image: PartImage::Fixed(4),
    };
    let shape = |parts: usize, nullable| KeyShape {
        parts: vec![part(nullable); parts],
    };
    let secondary = KINDS.iter().map(|kind| shape(kind.parts, true));
    StatisticsOptions {
        shapes: std::iter::once(shape(1, false)).chain(secondary).collect(),
        ..StatisticsOptions::default()
    }
}

/// Of a table without the first index.
fn options_before_the_index() -> StatisticsOptions {
    let mut options = options();
    options.shapes.remove(1);
    options
}

fn open(engine: &Arc<Engine>) -> Arc<Table> {
    let table = engine.store().tables().open_table("s").expect("open");
    keeper(engine).describe_statistics(&table, &options());
    table
}

fn insert(engine: &Arc<Engine>, table: &Table, rows: Range<u32>) {
    insert_into(engine, table, rows, &KINDS);
}

fn insert_into(engine: &Arc<Engine>, table: &Table, rows: Range<u32>, kinds: &[Kind]) {
    let mut trx = engine.new_trx(Arc::new(ThreadWaiter::new()), 0);
    engine.start(&mut trx, Isolation::ReadCommitted, 1000);
    for n in rows {
        let pk = n.to_be_bytes();
        let keys: Vec<Vec<u8>> = kinds.iter().map(|kind| [&key(kind, n)[..], &pk].concat()).collect();
        let entry = |(i, key): (usize, &Vec<u8>)| (i as u32, key.len() as u32 - 4);
        let entries: Vec<Entry<'_>> = keys
            .iter()
            .enumerate()
            .map(|of| Entry {
                index: entry(of).0,
                user_key_len: entry(of).1,
                key: of.1,
                ..Entry::default()
            })
            .collect();
        let new = NewRow::new(&pk, b"a row", &entries);
        engine
            .store()
            .rows()
            .insert(&mut trx, table, &new, false)
            .expect("insert");
    }
    engine.commit(&mut trx, false).expect("commit");
}

fn spec() -> TableSpec {
    let index = |kind: &Kind| IndexSpec {
        name: kind.name.into(),
        ..IndexSpec::default()
    };
    TableSpec {
        pk_fixed_len: 4,
        indexes: KINDS.iter().map(index).collect(),
        ..TableSpec::default()
    }
}

fn empty(engine: &Arc<Engine>) -> Arc<Table> {
    engine.store().tables().create_table("s", &spec()).expect("create");
    open(engine)
}

fn filled(engine: &Arc<Engine>) -> Arc<Table> {
    let table = empty(engine);
    insert(engine, &table, 0..ROWS);
    table
}

fn check(engine: &Arc<Engine>, table: &Table, when: &str) {
    check_within(engine, table, 2, when);
}

fn check_within(engine: &Arc<Engine>, table: &Table, factor: u64, when: &str) {
    let found = computed(engine, table);
    assert_eq!(found.rows, ROWS as u64, "{when}");
    for (i, kind) in KINDS.iter().enumerate() {
        let of = &found.indexes[i + 1];
        for (part, truth) in kind.distinct[..kind.parts].iter().enumerate() {
            let estimated = of.distinct[part];
            let name = kind.name;
            assert!(
                estimated * factor >= *truth && estimated <= truth * factor,
                "{when}: {name}, {part}: {estimated}, true {truth}"
            );
        }
        assert!(
            of.distinct[kind.parts].abs_diff(ROWS as u64) < ROWS as u64 / 10 * factor,
            "{when}: with the clustered key {of:?}"
        );
    }
}

#[test]
fn numbers_of_values_are_right_within_a_factor_of_two() {
    let engine = TableFixture::create(SimDisk::new(1)).engine;
    let table = filled(&engine);
    for seed in 0..10 {
        compute(&engine, &table);
        check(&engine, &table, &format!("time {seed}"));
    }
}

/// Most entries wait in the change buffer, in several partitions.
#[test]
fn pending_changes_count() {
    let engine = TableFixture::create(SimDisk::new(1)).engine;
    engine.set("change_buffer_test_mode", 3).expect("set");
    let table = filled(&engine);
    compute(&engine, &table);
    check(&engine, &table, "buffered");
    let parts = |table: &Table| {
        for secondary in &table.layout().secondary {
            secondary.index.delta.as_ref().expect("buffered").begin_partition();
        }
    };
    let more = KINDS.len();
    parts(&table);
    assert_eq!(table.layout().secondary.len(), more);
    compute(&engine, &table);
    check(&engine, &table, "in a closed partition");
}

/// Entries that a merge moved while the index was sampled were counted in neither of its two trees.
/// Now some are counted in both: a factor of two, and the sample has one of its own.
#[test]
fn changes_that_are_merged_meanwhile_count() {
    let engine = TableFixture::create(SimDisk::new(1)).engine;
    engine.set("change_buffer_test_mode", 3).expect("set");
    for round in 0..3 {
        let table = filled(&engine);
        std::thread::scope(|scope| {
            let merges = scope.spawn(|| engine.store().merge_scheduler().drain_changes().expect("merged"));
            while !merges.is_finished() {
                compute(&engine, &table);
                check_within(&engine, &table, 4, &format!("merged meanwhile, round {round}"));
            }
        });
        drop(table);
        engine.store().tables().drop_table("s").expect("dropped");
    }
}

#[test]
fn statistics_and_row_counts_are_kept_over_a_restart() {
    for how in [Close::Fast, Close::LogOnly] {
        let disk = SimDisk::new(1);
        let engine = Engine::open(disk.clone(), config()).expect("fresh");
        let table = filled(&engine);
        compute(&engine, &table);
        let updated_s = keeper(&engine).table_stats(&table).expect("stats").update_time_s;
        assert!(updated_s > 0);
        drop(table);
        engine.close(how).expect("close");
        drop(engine);
        let engine = Engine::open(disk.clone(), config()).expect("again");
        let table = open(&engine);
        let stats = keeper(&engine).table_stats(&table).expect("stats");
        assert_eq!((stats.rows, stats.update_time_s), (ROWS as u64, updated_s));
        check(&engine, &table, "after a restart");
        assert_eq!(table.statistics.version(), 1, "nothing was computed again");
    }
}

/// The count that was stored while the table was empty was believed after a crash, because its one
/// leaf was still one leaf. ANALYZE did not correct it.
#[test]
fn a_small_tables_rows_are_counted_after_a_crash() {
    let disk = SimDisk::new(1);
    let engine = Engine::open(disk.clone(), config()).expect("fresh");
    let table = empty(&engine);
    compute(&engine, &table);
    engine.checkpoint().expect("checkpoint");
    insert(&engine, &table, 0..40);
    engine.flush_log().expect("flush");
    drop(table);
    drop(engine);
    let engine = Engine::open(disk.crash(1), config()).expect("again");
    let table = open(&engine);
    assert_eq!(keeper(&engine).table_stats(&table).expect("stats").rows, 40);
}

#[test]
fn statistics_follow_the_table() {
    let engine = TableFixture::create(SimDisk::new(1)).engine;
    let store = engine.store();
    let table = filled(&engine);
    keeper(&engine).ensure_statistics(&table).expect("computed");
    let version = table.statistics.version();
    insert(&engine, &table, ROWS..ROWS + 100);
    keeper(&engine).ensure_statistics(&table).expect("nothing to do");
    assert_eq!(table.statistics.version(), version, "a few changes");
    insert(&engine, &table, ROWS + 100..2 * ROWS + 100);
    keeper(&engine).ensure_statistics(&table).expect("computed");
    assert!(table.statistics.version() > version, "as many changes as rows");
    store.tables().truncate_table("s").expect("truncate");
    assert!(keeper(&engine).statistics(&table).expect("read").is_none());
    keeper(&engine).ensure_statistics(&table).expect("computed");
    assert_eq!(computed(&engine, &table).rows, 0);
    store.tables().drop_table("s").expect("drop");
    assert_eq!(
        keeper(&engine).tables_with_stored_statistics().expect("read"),
        Vec::<u32>::new()
    );
}

/// STATS_PERSISTENT=0, STATS_AUTO_RECALC=0, STATS_SAMPLE_PAGES.
#[test]
fn a_tables_own_options_are_obeyed() {
    let disk = SimDisk::new(1);
    let engine = Engine::open(disk.clone(), Config { ..config() }).expect("fresh");
    let table = filled(&engine);
    let own = StatisticsOptions {
        persistent: Some(false),
        auto_recalc: Some(false),
        sample_pages: 2,
        ..options()
    };
    keeper(&engine).describe_statistics(&table, &own);
    compute(&engine, &table);
    let read = |table: &Table| {
        let found = computed(&engine, table);
        found.indexes[1].pages_read
    };
    let few = read(&table);
    keeper(&engine).describe_statistics(&table, &options());
    keeper(&engine).describe_statistics(&table, &own);
    let version = table.statistics.version();
    insert(&engine, &table, ROWS..3 * ROWS);
    keeper(&engine).ensure_statistics(&table).expect("left alone");
    while keeper(&engine).statistics_step().expect("step") {}
    assert_eq!(table.statistics.version(), version, "STATS_AUTO_RECALC=0");
    assert_eq!(
        keeper(&engine).tables_with_stored_statistics().expect("read"),
        Vec::<u32>::new()
    );
    let more = StatisticsOptions {
        sample_pages: 100_000,
        ..own
    };
    keeper(&engine).describe_statistics(&table, &more);
    compute(&engine, &table);
    assert!(read(&table) > few, "{} pages with all, {few} with two", read(&table));
}

/// ALTER TABLE that drops the first index, or builds it anew in place from the rows of `insert`.
fn alter(engine: &Arc<Engine>, table: &Arc<Table>, rows: Option<u32>) {
    let indexes = engine.store().indexes();
    let mut trx = engine.new_trx(Arc::new(ThreadWaiter::new()), 0);
    engine.start(&mut trx, Isolation::ReadCommitted, 1000);
    let build = rows.map(|rows| {
        let mut build = indexes.begin_build(table, &spec().indexes[0]).expect("begun");
        for n in 0..rows {
            let key = [&key(&KINDS[0], n)[..], &n.to_be_bytes()].concat();
            build.add(&key, key.len() - 4, false, &[]).expect("added");
        }
        build.finish(&trx).expect("built");
        build
    });
    let change = IndexChange {
        drop: if rows.is_none() { vec![KINDS[0].name] } else { vec![] },
        add: build.iter().collect(),
        order: KINDS[rows.is_none() as usize..].iter().map(|kind| kind.name).collect(),
        ..change_of(table)
    };
    indexes.alter_indexes(&[change]).expect("published");
    engine.commit(&mut trx, false).expect("commit");
}

/// An index that was built in place had no statistics before the next recalculation.
#[test]
fn a_new_index_has_statistics_at_the_next_question_and_others_keep_theirs() {
    let disk = SimDisk::new(1);
    let engine = Engine::open(disk.clone(), config()).expect("fresh");
    let table = filled(&engine);
    alter(&engine, &table, None);
    keeper(&engine).describe_statistics(&table, &options_before_the_index());
    compute(&engine, &table);
    let before = computed(&engine, &table);
    insert_into(&engine, &table, ROWS..ROWS + 500, &KINDS[1..]);
    alter(&engine, &table, Some(ROWS + 500));
    let version = table.statistics.version();
    keeper(&engine).ensure_statistics(&table).expect("of no use yet");
    assert_eq!(
        table.statistics.version(),
        version,
        "how long its parts are is not known"
    );
    compute(&engine, &table);
    assert_eq!(
        computed(&engine, &table).indexes.len(),
        KINDS.len(),
        "all but the new one"
    );

    keeper(&engine).describe_statistics(
        &table,
        &StatisticsOptions {
            auto_recalc: Some(false),
            ..options()
        },
    );
    let others = computed(&engine, &table).indexes[1..].to_vec();
    insert(&engine, &table, ROWS + 500..ROWS + 700);
    keeper(&engine).ensure_statistics(&table).expect("computed");
    let found = computed(&engine, &table);
    let new = found
        .of(table.layout().secondary[0].index.id)
        .expect("of the new index");
    assert!(is_near(new.distinct[0], KINDS[0].distinct[0]), "{new:?}");
    assert_eq!(new.rows, ROWS as u64 + 700);
    assert_eq!(found.indexes[2..], others[..], "the others have theirs");
    assert_eq!((before.rows, found.rows), (ROWS as u64, ROWS as u64 + 500));
    let version = table.statistics.version();
    keeper(&engine).ensure_statistics(&table).expect("nothing to do");
    assert_eq!(table.statistics.version(), version, "once");

    drop(table);
    engine.close(Close::Fast).expect("close");
    drop(engine);
    let engine = Engine::open(disk, config()).expect("again");
    let table = open(&engine);
    assert_eq!(computed(&engine, &table).indexes, found.indexes, "after a restart");
}

/// TRUNCATE gives the indexes new numbers, and an open table is not described again.
#[test]
fn the_parts_of_keys_are_known_after_truncate() {
    let engine = TableFixture::create(SimDisk::new(1)).engine;
    let table = empty(&engine);
    engine.store().tables().truncate_table("s").expect("truncate");
    insert(&engine, &table, 0..ROWS);
    compute(&engine, &table);
    check(&engine, &table, "after TRUNCATE");
}

/// The rows of the table with a wide index, and how many values it has.
const WIDE_ROWS: u32 = 1200;
const WIDE_VALUES: u32 = 150;
const WIDE_PAD: usize = 4000;

/// Keys differ only at their ends: a separator is as long as a key.
fn wide_key(value: u32) -> Vec<u8> {
    [&[b'w'; WIDE_PAD][..], &value.to_be_bytes()].concat()
}

fn open_wide(engine: &Arc<Engine>) -> Arc<Table> {
    let table = engine.store().tables().open_table("w").expect("open");
    let shape = |lens: &[u32]| KeyShape {
        parts: lens
            .iter()
            .map(|len| PartShape {
                nullable: false,
                inverted: false,
                image: PartImage::Fixed(*len),
            })
            .collect(),
    };
    let options = StatisticsOptions {
        shapes: vec![shape(&[4]), shape(&[WIDE_PAD as u32, 4])],
        ..StatisticsOptions::default()
    };
    keeper(engine).describe_statistics(&table, &options);
    table
}

fn fill_wide(engine: &Arc<Engine>) -> Arc<Table> {
    let spec = TableSpec {
        pk_fixed_len: 4,
        indexes: vec![IndexSpec {
            wide: true,
            name: "by_value".into(),
            ..IndexSpec::default()
        }],
        ..TableSpec::default()
    };
    engine.store().tables().create_table("w", &spec).expect("create");
    let table = open_wide(engine);
    for n in 0..WIDE_ROWS {
        let mut trx = engine.new_trx(Arc::new(ThreadWaiter::new()), 0);
        engine.start(&mut trx, Isolation::ReadCommitted, 1000);
        let pk = n.to_be_bytes();
        let key = [wide_key(n * 7 % WIDE_VALUES), pk.to_vec()].concat();
        let entry = Entry {
            user_key_len: key.len() as u32 - 4,
            key: &key,
            ..Entry::default()
        };
        let new = NewRow::new(&pk, b"a row", std::slice::from_ref(&entry));
        engine
            .store()
            .rows()
            .insert(&mut trx, &table, &new, false)
            .expect("insert");
        engine.commit(&mut trx, false).expect("commit");
        engine.checkpoint().expect("room in the log");
    }
    table
}

fn is_near(estimated: u64, truth: u64) -> bool {
    estimated * 2 >= truth && estimated <= truth * 2
}

fn check_wide(engine: &Arc<Engine>, table: &Table, when: &str) {
    let found = computed(engine, table);
    let of = &found.indexes[1];
    assert_eq!(found.rows, WIDE_ROWS as u64, "{when}");
    assert_eq!(of.distinct[0], 1, "{when}: what all keys begin with");
    assert!(is_near(of.distinct[1], WIDE_VALUES as u64), "{when}: {of:?}");
    assert!(
        is_near(of.distinct[2], WIDE_ROWS as u64),
        "{when}: with the clustered key {of:?}"
    );
    // Four pages a node, of which an entry takes a quarter of the first.
    let least = WIDE_ROWS as u64 * WIDE_PAD as u64 / crate::pool::PAGE_SIZE as u64;
    assert_eq!((of.leaf_pages % 4, of.pages % 4), (0, 0), "{when}: {of:?}");
    assert!(
        (least..least * 4).contains(&of.leaf_pages),
        "{when}: {of:?}, at least {least}"
    );
    assert!(
        of.pages > of.leaf_pages && of.pages < of.leaf_pages * 2,
        "{when}: {of:?}"
    );
    assert_eq!(of.pages_read % 4, 0, "{when}: {of:?}");
    assert!(of.pages_read < of.leaf_pages, "{when}: a part was read, {of:?}");
    for (from, to) in [(0, 1), (70, 80), (0, WIDE_VALUES / 2), (149, 150)] {
        let (lo, hi) = (wide_key(from), wide_key(to));
        let estimated = keeper(engine)
            .records_in_range(table, 1, Some(&lo), Some(&hi))
            .expect("range");
        let truth = ((to - from) * WIDE_ROWS / WIDE_VALUES) as u64;
        assert!(
            is_near(estimated, truth),
            "{when}: {estimated} from {from} to {to}, true {truth}"
        );
    }
}

#[test]
fn a_wide_index_has_the_statistics_of_any_other() {
    let disk = SimDisk::new(1);
    let engine = Engine::open(
        disk.clone(),
        Config {
            redo_log_capacity: 16 << 20,
            ..config()
        },
    )
    .expect("fresh");
    let table = fill_wide(&engine);
    for time in 0..10 {
        compute(&engine, &table);
        check_wide(&engine, &table, &format!("time {time}"));
    }
    drop(table);
    engine.close(Close::Fast).expect("close");
    drop(engine);
    let engine = Engine::open(disk, config()).expect("again");
    let table = open_wide(&engine);
    check_wide(&engine, &table, "after a restart");
    assert_eq!(table.statistics.version(), 1, "nothing was computed again");
}

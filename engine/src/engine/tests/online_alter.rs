//! An index that is built while writers go on has an entry for each row, and no others.
use super::fixture::{change_of, seeds, Random, Row, TableFixture};
use crate::base::{Error, Result};
use crate::btree::Seek;
use crate::io::SimDisk;
use crate::table::{Followed, IndexBuild, IndexChange, IndexSpec, LockChoice, OnlineAlter, Pass, Replacement};
use crate::txn::{Isolation, Trx};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const KEYS: u64 = 150;

fn spec(unique: bool) -> IndexSpec {
    IndexSpec {
        name: "new".into(),
        unique,
        ..IndexSpec::default()
    }
}

/// Key in the new index, and its length without the clustered key.
fn entry(pk: &[u8], row: &Row, unique: bool) -> (Vec<u8>, usize) {
    match unique {
        true => (row.tag_key(pk), row.tag_key(pk).len() - pk.len()),
        false => ([&[row.shade, row.group], pk].concat(), 2),
    }
}

fn base(fixture: &TableFixture, build: &mut IndexBuild, view: &mut Trx, unique: bool) -> Result<()> {
    let mut cursor = fixture.store().cursor(fixture.table.clone());
    cursor.begin(view, 0, LockChoice::default(), false)?;
    let mut more = cursor.seek(view, Seek::First, &[])?;
    while more {
        let found = cursor.found().expect("handed out");
        let row = Row::decode(found.row);
        let (key, len) = entry(found.pk, &row, unique);
        build.add(&key, len, row.tag.is_some(), &[])?;
        more = cursor.next(view)?;
    }
    build.finish(view)
}

/// One round; the newer view takes the place of the older one. Returns the keys on its list.
fn round(
    fixture: &TableFixture,
    online: &OnlineAlter,
    build: &mut IndexBuild,
    view: &mut Trx,
    unique: bool,
) -> Result<u64> {
    let mut newer = fixture.begin(Isolation::RepeatableRead);
    let done = online.round(view, &mut newer, &mut |change| {
        let pk = change.key;
        if let Some(was) = change.was {
            build.remove(&entry(pk, &Row::decode(was), unique).0)?;
        }
        if let Some(is) = change.is {
            let row = Row::decode(is);
            let (key, len) = entry(pk, &row, unique);
            build.put(&key, len, row.tag.is_some(), &[])?;
        }
        Ok(Followed::Whole)
    })?;
    let older = std::mem::replace(view, newer);
    end(fixture, older);
    assert!(done.changed <= done.keys && done.again <= done.keys);
    Ok(done.keys)
}

fn end(fixture: &TableFixture, mut trx: Trx) {
    fixture.engine.commit(&mut trx, false).expect("a view ends");
}

fn publish(fixture: &TableFixture, build: &IndexBuild) {
    let change = IndexChange {
        add: vec![build],
        order: vec!["by_group", "by_tag", "new"],
        ..change_of(&fixture.table)
    };
    fixture.store().indexes().alter_indexes(&[change]).expect("published");
}

/// Rows as they are now.
fn rows(fixture: &TableFixture) -> Vec<(Vec<u8>, Row)> {
    let mut trx = fixture.begin(Isolation::RepeatableRead);
    let found = fixture.scan(&mut trx, 0, false, false, None).expect("scan");
    end(fixture, trx);
    found.into_iter().map(|f| (f.pk, Row::decode(&f.row))).collect()
}

fn check(fixture: &TableFixture, unique: bool) {
    let mut trx = fixture.begin(Isolation::RepeatableRead);
    let found = fixture.scan(&mut trx, 3, false, false, None).expect("scan");
    end(fixture, trx);
    let keys: Vec<Vec<u8>> = found.into_iter().map(|f| f.key).collect();
    let rows = rows(fixture);
    let mut meant: Vec<Vec<u8>> = rows.iter().map(|(pk, row)| entry(pk, row, unique).0).collect();
    meant.sort();
    assert_eq!(keys, meant, "each row has its entry, and there are no others");
    assert_eq!(fixture.entries_in_tree(3), meant.len() as u64, "no entry is left over");
}

/// A transaction of a few changes, some taken back. Rows of other writers may be in the way.
fn write(fixture: &TableFixture, random: &mut Random) {
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    let mut failed = false;
    for _ in 0..1 + random.below(4) {
        let pk = (random.below(KEYS) as u32).to_be_bytes();
        let savepoint = fixture.store().rollbacks().savepoint(&trx);
        let new = Row {
            body: vec![7; random.below(40) as usize],
            ..random.row(60_000)
        };
        let lock = Some(crate::txn::LockMode::Exclusive);
        let done = match fixture.get(&mut trx, &pk, lock) {
            Ok(Some(old)) if random.chance(30) => fixture.delete(&mut trx, &pk, &old),
            Ok(Some(old)) => fixture.update(&mut trx, &pk, &old, &new),
            Ok(None) => fixture.insert(&mut trx, &pk, &new),
            Err(e) => Err(e),
        };
        match done {
            Ok(()) if random.chance(15) => fixture
                .store()
                .rollbacks()
                .rollback_to(&mut trx, savepoint)
                .expect("back"),
            Ok(()) | Err(Error::Duplicate { .. } | Error::NotFound) => {}
            Err(Error::Deadlock | Error::LockWaitTimeout) => {
                failed = true;
                break;
            }
            Err(e) => panic!("{e}"),
        }
    }
    match failed || random.chance(25) {
        true => fixture.engine.rollback(&mut trx).expect("rollback"),
        false => fixture.engine.commit(&mut trx, false).expect("commit"),
    }
}

fn filled(seed: u64) -> TableFixture {
    let fixture = TableFixture::create(SimDisk::new(seed));
    let mut random = Random(seed);
    (0..60).for_each(|_| write(&fixture, &mut random));
    fixture
}

#[test]
fn an_index_built_beside_writers_is_complete() {
    for seed in seeds(6) {
        let unique = seed % 2 == 0;
        let fixture = filled(seed);
        let mut build = fixture
            .store()
            .indexes()
            .begin_build(&fixture.table, &spec(unique))
            .expect("begin");
        let mut view = fixture.begin(Isolation::RepeatableRead);
        let online = fixture.store().begin_online(&fixture.table, &mut view).expect("begin");
        let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let (fixture, stop, written) = (&fixture, &stop, &written);
                scope.spawn(move || {
                    let mut random = Random(seed * 100 + writer);
                    while !stop.load(Ordering::Relaxed) {
                        write(fixture, &mut random);
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            base(&fixture, &mut build, &mut view, unique).expect("base");
            for rounds in 1.. {
                while written.load(Ordering::Relaxed) < rounds * 20 {
                    std::thread::yield_now();
                }
                round(&fixture, &online, &mut build, &mut view, unique).expect("round");
                fixture.purge_all();
                if rounds == 8 {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        round(&fixture, &online, &mut build, &mut view, unique).expect("the last round");
        build
            .prove_unique()
            .expect("the table's own unique index has the same values");
        drop(online);
        publish(&fixture, &build);
        end(&fixture, view);
        check(&fixture, unique);
    }
}

fn put(fixture: &TableFixture, pk: u32, row: &Row) {
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    fixture.insert(&mut trx, &pk.to_be_bytes(), row).expect("insert");
    fixture.engine.commit(&mut trx, false).expect("commit");
}
fn row(shade: u8, tag: u16) -> Row {
    Row {
        group: 1,
        shade,
        tag: Some(tag),
        body: vec![],
    }
}

/// The change is made before a round and committed after it.
#[test]
fn a_transaction_that_outlasts_rounds_is_followed() {
    let fixture = TableFixture::create(SimDisk::new(1));
    (0..20).for_each(|pk| put(&fixture, pk, &row(1, pk as u16)));
    let mut build = fixture
        .store()
        .indexes()
        .begin_build(&fixture.table, &spec(false))
        .expect("begin");
    let mut view = fixture.begin(Isolation::RepeatableRead);
    let online = fixture.store().begin_online(&fixture.table, &mut view).expect("begin");
    base(&fixture, &mut build, &mut view, false).expect("base");
    let (mut commits, mut rolls_back) = (
        fixture.begin(Isolation::ReadCommitted),
        fixture.begin(Isolation::ReadCommitted),
    );
    let (three, four) = (3u32.to_be_bytes(), 4u32.to_be_bytes());
    fixture
        .update(&mut commits, &three, &row(1, 3), &row(2, 3))
        .expect("update");
    fixture.delete(&mut rolls_back, &four, &row(1, 4)).expect("delete");
    for _ in 0..3 {
        let keys = round(&fixture, &online, &mut build, &mut view, false).expect("round");
        assert_eq!(keys, 2, "both go from list to list");
    }
    fixture.engine.commit(&mut commits, false).expect("commit");
    fixture.engine.rollback(&mut rolls_back).expect("rollback");
    round(&fixture, &online, &mut build, &mut view, false).expect("round");
    assert_eq!(round(&fixture, &online, &mut build, &mut view, false), Ok(0));
    drop(online);
    publish(&fixture, &build);
    end(&fixture, view);
    check(&fixture, false);
}

#[test]
fn a_value_that_two_rows_have_at_the_end_is_found() {
    let fixture = TableFixture::create(SimDisk::new(2));
    (0..4).for_each(|pk| put(&fixture, pk, &row(pk as u8, pk as u16)));
    let unique_by_shade = |pk: &[u8], row: &Row| ([&[row.shade], pk].concat(), 1);
    for swaps in [true, false] {
        let mut build = fixture
            .store()
            .indexes()
            .begin_build(&fixture.table, &spec(true))
            .expect("begin");
        let mut view = fixture.begin(Isolation::RepeatableRead);
        let online = fixture.store().begin_online(&fixture.table, &mut view).expect("begin");
        for (pk, row) in rows(&fixture) {
            let (key, len) = unique_by_shade(&pk, &row);
            build.add(&key, len, true, &[]).expect("add");
        }
        build.finish(&view).expect("finish");
        let mut trx = fixture.begin(Isolation::ReadCommitted);
        let (first, second) = (rows(&fixture)[0].1.clone(), rows(&fixture)[1].1.clone());
        let with = |old: &Row, shade| Row { shade, ..old.clone() };
        fixture
            .update(&mut trx, &0u32.to_be_bytes(), &first, &with(&first, second.shade))
            .expect("update");
        if swaps {
            fixture
                .update(&mut trx, &1u32.to_be_bytes(), &second, &with(&second, first.shade))
                .expect("update");
        }
        fixture.engine.commit(&mut trx, false).expect("commit");
        let mut newer = fixture.begin(Isolation::RepeatableRead);
        online
            .round(&mut view, &mut newer, &mut |change| {
                let pk = change.key;
                build.remove(&unique_by_shade(pk, &Row::decode(change.was.expect("was"))).0)?;
                let (key, len) = unique_by_shade(pk, &Row::decode(change.is.expect("is")));
                build.put(&key, len, true, &[])?;
                Ok(Followed::Whole)
            })
            .expect("round");
        let proved = build.prove_unique();
        assert_eq!(proved.is_ok(), swaps, "{proved:?}");
        drop(online);
        build.abort().expect("abort");
        end(&fixture, view);
        end(&fixture, newer);
    }
}

/// However many rows are changed, few values are kept. One that two rows have is never forgotten.
#[test]
fn few_values_of_a_unique_index_are_kept_to_be_proved() {
    for ends_twice in [true, false] {
        let fixture = TableFixture::create(SimDisk::new(8));
        let mut build = fixture
            .store()
            .indexes()
            .begin_build(&fixture.table, &spec(true))
            .expect("begin");
        build.finish(&fixture.begin(Isolation::RepeatableRead)).expect("finish");
        let put = |build: &mut IndexBuild, pk: u32, value: u32| {
            let (pk, value) = (pk.to_be_bytes(), value.to_be_bytes());
            build.put(&[value, pk].concat(), 4, true, &[]).expect("put");
        };
        put(&mut build, 1, 7);
        put(&mut build, 2, 7);
        for n in 0..1000 {
            put(&mut build, 100 + n, 100 + n);
            assert!(build.values_to_be_proved() <= 64, "{n} rows were changed");
        }
        if !ends_twice {
            build
                .remove(&[7u32.to_be_bytes(), 2u32.to_be_bytes()].concat())
                .expect("remove");
        }
        let proved = build.prove_unique();
        assert_eq!(proved.is_err(), ends_twice, "{proved:?}");
        build.abort().expect("abort");
    }
}

#[test]
fn a_list_that_is_full_ends_the_alter_and_no_writer() {
    let fixture = TableFixture::create(SimDisk::new(3));
    fixture.engine.set("online_alter_log_max_size", 65_536).expect("set");
    let mut view = fixture.begin(Isolation::RepeatableRead);
    let online = fixture.store().begin_online(&fixture.table, &mut view).expect("begin");
    let again = fixture
        .store()
        .begin_online(&fixture.table, &mut fixture.begin(Isolation::RepeatableRead));
    assert!(matches!(again, Err(Error::Unsupported(_))), "one ALTER TABLE at a time");
    (0..4000).for_each(|pk| put(&fixture, pk, &row(1, pk as u16)));
    let mut newer = fixture.begin(Isolation::RepeatableRead);
    let full = online.round(&mut view, &mut newer, &mut |_| Ok(Followed::Whole));
    assert!(matches!(full, Err(Error::OnlineAlterFull(_))), "{full:?}");
    drop(online);
    end(&fixture, view);
    end(&fixture, newer);
    put(&fixture, 4000, &row(1, 4000));
}

/// The steps of a rebuild, with a crash after each.
#[test]
fn a_rebuilt_table_takes_the_place_of_the_old_one() {
    for replaces in [false, true] {
        let disk = SimDisk::new(9);
        let fixture = TableFixture::create(disk.clone());
        (0..300).for_each(|pk| put(&fixture, pk, &row(1, pk as u16)));
        let tables = fixture.store().tables();
        tables.create_table("rebuilt", &super::fixture::spec()).expect("create");
        let rebuilt = TableFixture {
            engine: fixture.engine.clone(),
            table: tables.open_table("rebuilt").expect("open"),
        };
        for (pk, row) in rows(&fixture) {
            let mut trx = rebuilt.begin(Isolation::ReadCommitted);
            rebuilt.insert(&mut trx, &pk, &row).expect("insert");
            rebuilt.engine.commit(&mut trx, false).expect("commit");
        }
        let mut old_view = fixture.begin(Isolation::RepeatableRead);
        fixture.scan(&mut old_view, 0, false, false, None).expect("scan");
        let meant = rows(&fixture);
        if replaces {
            tables
                .replace_table(&fixture.table, "rebuilt", false)
                .expect("replaced");
            assert!(tables.open_table("rebuilt").is_err());
            let refused = fixture.scan(&mut old_view, 0, false, false, None);
            assert!(
                matches!(refused, Err(Error::TableChanged)),
                "an older view does not see the new rows"
            );
            fixture.check_table();
            assert_eq!(rows(&fixture), meant);
            put(&fixture, 1000, &row(2, 1000));
        }
        end(&fixture, old_view);
        fixture.engine.flush_log().expect("durable");
        drop(rebuilt);
        drop(fixture);
        let fixture = TableFixture::reopen(disk.crash(1)).expect("recovered");
        super::crash::wait_for_rollback(&fixture.engine);
        fixture.check_table();
        assert_eq!(rows(&fixture).len(), meant.len() + replaces as usize);
        assert_eq!(fixture.store().tables().open_table("rebuilt").is_ok(), !replaces);
    }
}

/// No row is written between the end of the rebuild and the crash.
#[test]
fn a_rebuilt_table_keeps_its_auto_increment_counter() {
    let disk = SimDisk::new(6);
    let fixture = TableFixture::create(disk.clone());
    fixture.table.autoinc_raise(500);
    put(&fixture, 1, &row(1, 1));
    let tables = fixture.store().tables();
    tables.create_table("rebuilt", &super::fixture::spec()).expect("create");
    tables
        .replace_table(&fixture.table, "rebuilt", false)
        .expect("replaced");
    assert_eq!(fixture.table.autoinc(), 500);
    drop(fixture);
    let fixture = TableFixture::reopen(disk.crash(1)).expect("recovered");
    assert_eq!(
        fixture.table.autoinc(),
        500,
        "a new row must not get a number that was given before"
    );
}

/// Row 0 takes the value that row 1 gives up, and the other way round.
#[test]
fn a_unique_value_changes_hands_while_a_table_is_rebuilt() {
    for waits in [true, false] {
        let fixture = TableFixture::create(SimDisk::new(4));
        (0..3).for_each(|pk| put(&fixture, pk, &row(1, 10 + pk as u16)));
        let tables = fixture.store().tables();
        tables.create_table("rebuilt", &super::fixture::spec()).expect("create");
        let rebuilt = TableFixture {
            engine: fixture.engine.clone(),
            table: tables.open_table("rebuilt").expect("open"),
        };
        let mut view = fixture.begin(Isolation::RepeatableRead);
        let online = fixture.store().begin_online(&fixture.table, &mut view).expect("begin");
        (0..3).for_each(|pk| put(&rebuilt, pk, &row(1, 10 + pk as u16)));
        let mut trx = fixture.begin(Isolation::ReadCommitted);
        let (zero, one) = (0u32.to_be_bytes(), 1u32.to_be_bytes());
        let steps = [(&zero, 10, 99), (&one, 11, 10), (&zero, 99, 11)];
        for (pk, old, new) in steps {
            fixture
                .update(&mut trx, pk, &row(1, old), &row(1, new))
                .expect("update");
        }
        fixture.engine.commit(&mut trx, false).expect("commit");
        let mut newer = fixture.begin(Isolation::RepeatableRead);
        let mut writes = rebuilt.begin(Isolation::ReadCommitted);
        let done = online.round(&mut view, &mut newer, &mut |change| {
            if let Some(was) = change.was {
                rebuilt.delete(&mut writes, change.key, &Row::decode(was))?;
            }
            match change.is {
                Some(_) if waits && change.pass == Pass::First => return Ok(Followed::OlderRowOnly),
                Some(is) => rebuilt.insert(&mut writes, change.key, &Row::decode(is))?,
                None => {}
            }
            Ok(Followed::Whole)
        });
        end(&fixture, writes);
        match waits {
            true => {
                assert_eq!(done.map(|round| round.changed), Ok(2));
                assert_eq!(rows(&rebuilt), rows(&fixture));
            }
            false => assert!(matches!(done, Err(Error::Duplicate { .. })), "{done:?}"),
        }
        drop(online);
        end(&fixture, view);
        end(&fixture, newer);
    }
}

/// Partitions are replaced in one change.
#[test]
fn several_tables_are_replaced_at_once() {
    let fixture = TableFixture::create(SimDisk::new(5));
    put(&fixture, 1, &row(1, 1));
    let tables = fixture.store().tables();
    let spec = super::fixture::spec();
    let names = ["other", "rebuilt", "rebuilt_other"];
    let opened = names.map(|name| {
        tables.create_table(name, &spec).expect("create");
        tables.open_table(name).expect("open")
    });
    for (number, table) in opened.iter().enumerate() {
        let fixture = TableFixture {
            engine: fixture.engine.clone(),
            table: table.clone(),
        };
        put(&fixture, 10 + number as u32, &row(1, 1));
    }
    let replacements = [
        Replacement {
            table: &fixture.table,
            rebuilt: "rebuilt",
            has_own_counter: false,
        },
        Replacement {
            table: &opened[0],
            rebuilt: "rebuilt_other",
            has_own_counter: false,
        },
    ];
    tables.replace_tables(&replacements, false).expect("replaced");
    let found = [&fixture.table, &opened[0]].map(|table| {
        let fixture = TableFixture {
            engine: fixture.engine.clone(),
            table: table.clone(),
        };
        fixture.check_table();
        rows(&fixture)[0].0.clone()
    });
    assert_eq!(found, [11u32, 12].map(|pk| pk.to_be_bytes().to_vec()));
    assert!(names[1..].iter().all(|name| tables.open_table(name).is_err()));
}

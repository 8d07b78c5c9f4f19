//! An index that is built while writers go on has an entry for each row, and no others.
use super::fixture::{change_of, seeds, Random, Row, TableFixture};
use crate::base::{Error, Result};
use crate::btree::Seek;
use crate::io::SimDisk;
use crate::table::{IndexBuild, IndexChange, IndexSpec, LockChoice, OnlineAlter, Passes, Replacement};
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

fn base(rig: &TableFixture, build: &mut IndexBuild, view: &mut Trx, unique: bool) -> Result<()> {
    let mut cursor = rig.store().cursor(rig.table.clone());
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
    rig: &TableFixture,
    online: &OnlineAlter,
    build: &mut IndexBuild,
    view: &mut Trx,
    unique: bool,
) -> Result<u64> {
    let mut newer = rig.begin(Isolation::RepeatableRead);
    let done = online.round(view, &mut newer, Passes::One, &mut |pk, was, is| {
        if let Some(was) = was {
            build.remove(&entry(pk, &Row::decode(was), unique).0)?;
        }
        if let Some(is) = is {
            let row = Row::decode(is);
            let (key, len) = entry(pk, &row, unique);
            build.put(&key, len, row.tag.is_some(), &[])?;
        }
        Ok(())
    })?;
    let older = std::mem::replace(view, newer);
    end(rig, older);
    assert!(done.changed <= done.keys && done.again <= done.keys);
    Ok(done.keys)
}

fn end(rig: &TableFixture, mut trx: Trx) {
    rig.engine.commit(&mut trx, false).expect("a view ends");
}

fn publish(rig: &TableFixture, build: &IndexBuild) {
    let change = IndexChange {
        add: vec![build],
        order: vec!["by_group", "by_tag", "new"],
        ..change_of(&rig.table)
    };
    rig.store().indexes().alter_indexes(&[change]).expect("published");
}

/// Rows as they are now.
fn rows(rig: &TableFixture) -> Vec<(Vec<u8>, Row)> {
    let mut trx = rig.begin(Isolation::RepeatableRead);
    let found = rig.scan(&mut trx, 0, false, false, None).expect("scan");
    end(rig, trx);
    found.into_iter().map(|f| (f.pk, Row::decode(&f.row))).collect()
}

fn check(rig: &TableFixture, unique: bool) {
    let mut trx = rig.begin(Isolation::RepeatableRead);
    let found = rig.scan(&mut trx, 3, false, false, None).expect("scan");
    end(rig, trx);
    let keys: Vec<Vec<u8>> = found.into_iter().map(|f| f.key).collect();
    let rows = rows(rig);
    let mut meant: Vec<Vec<u8>> = rows.iter().map(|(pk, row)| entry(pk, row, unique).0).collect();
    meant.sort();
    assert_eq!(keys, meant, "each row has its entry, and there are no others");
    assert_eq!(rig.entries_in_tree(3), meant.len() as u64, "no entry is left over");
}

/// A transaction of a few changes, some taken back. Rows of other writers may be in the way.
fn write(rig: &TableFixture, random: &mut Random) {
    let mut trx = rig.begin(Isolation::ReadCommitted);
    let mut failed = false;
    for _ in 0..1 + random.below(4) {
        let pk = (random.below(KEYS) as u32).to_be_bytes();
        let savepoint = rig.store().rollbacks().savepoint(&trx);
        let new = Row {
            body: vec![7; random.below(40) as usize],
            ..random.row(60_000)
        };
        let lock = Some(crate::txn::LockMode::Exclusive);
        let done = match rig.get(&mut trx, &pk, lock) {
            Ok(Some(old)) if random.chance(30) => rig.delete(&mut trx, &pk, &old),
            Ok(Some(old)) => rig.update(&mut trx, &pk, &old, &new),
            Ok(None) => rig.insert(&mut trx, &pk, &new),
            Err(e) => Err(e),
        };
        match done {
            Ok(()) if random.chance(15) => rig.store().rollbacks().rollback_to(&mut trx, savepoint).expect("back"),
            Ok(()) | Err(Error::Duplicate { .. } | Error::NotFound) => {}
            Err(Error::Deadlock | Error::LockWaitTimeout) => {
                failed = true;
                break;
            }
            Err(e) => panic!("{e}"),
        }
    }
    match failed || random.chance(25) {
        true => rig.engine.rollback(&mut trx).expect("rollback"),
        false => rig.engine.commit(&mut trx, false).expect("commit"),
    }
}

fn filled(seed: u64) -> TableFixture {
    let rig = TableFixture::create(SimDisk::new(seed));
    let mut random = Random(seed);
    (0..60).for_each(|_| write(&rig, &mut random));
    rig
}

#[test]
fn an_index_built_beside_writers_is_complete() {
    for seed in seeds(6) {
        let unique = seed % 2 == 0;
        let rig = filled(seed);
        let mut build = rig
            .store()
            .indexes()
            .begin_build(&rig.table, &spec(unique))
            .expect("begin");
        let mut view = rig.begin(Isolation::RepeatableRead);
        let online = rig.store().begin_online(&rig.table, &mut view).expect("begin");
        let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let (rig, stop, written) = (&rig, &stop, &written);
                scope.spawn(move || {
                    let mut random = Random(seed * 100 + writer);
                    while !stop.load(Ordering::Relaxed) {
                        write(rig, &mut random);
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            base(&rig, &mut build, &mut view, unique).expect("base");
            for rounds in 1.. {
                while written.load(Ordering::Relaxed) < rounds * 20 {
                    std::thread::yield_now();
                }
                round(&rig, &online, &mut build, &mut view, unique).expect("round");
                rig.purge_all();
                if rounds == 8 {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        round(&rig, &online, &mut build, &mut view, unique).expect("the last round");
        build
            .prove_unique()
            .expect("the table's own unique index has the same values");
        drop(online);
        publish(&rig, &build);
        end(&rig, view);
        check(&rig, unique);
    }
}

fn put(rig: &TableFixture, pk: u32, row: &Row) {
    let mut trx = rig.begin(Isolation::ReadCommitted);
    rig.insert(&mut trx, &pk.to_be_bytes(), row).expect("insert");
    rig.engine.commit(&mut trx, false).expect("commit");
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
    let rig = TableFixture::create(SimDisk::new(1));
    (0..20).for_each(|pk| put(&rig, pk, &row(1, pk as u16)));
    let mut build = rig
        .store()
        .indexes()
        .begin_build(&rig.table, &spec(false))
        .expect("begin");
    let mut view = rig.begin(Isolation::RepeatableRead);
    let online = rig.store().begin_online(&rig.table, &mut view).expect("begin");
    base(&rig, &mut build, &mut view, false).expect("base");
    let (mut commits, mut rolls_back) = (rig.begin(Isolation::ReadCommitted), rig.begin(Isolation::ReadCommitted));
    let (three, four) = (3u32.to_be_bytes(), 4u32.to_be_bytes());
    rig.update(&mut commits, &three, &row(1, 3), &row(2, 3))
        .expect("update");
    rig.delete(&mut rolls_back, &four, &row(1, 4)).expect("delete");
    for _ in 0..3 {
        let keys = round(&rig, &online, &mut build, &mut view, false).expect("round");
        assert_eq!(keys, 2, "both go from list to list");
    }
    rig.engine.commit(&mut commits, false).expect("commit");
    rig.engine.rollback(&mut rolls_back).expect("rollback");
    round(&rig, &online, &mut build, &mut view, false).expect("round");
    assert_eq!(round(&rig, &online, &mut build, &mut view, false), Ok(0));
    drop(online);
    publish(&rig, &build);
    end(&rig, view);
    check(&rig, false);
}

#[test]
fn a_value_that_two_rows_have_at_the_end_is_found() {
    let rig = TableFixture::create(SimDisk::new(2));
    (0..4).for_each(|pk| put(&rig, pk, &row(pk as u8, pk as u16)));
    let unique_by_shade = |pk: &[u8], row: &Row| ([&[row.shade], pk].concat(), 1);
    for swaps in [true, false] {
        let mut build = rig
            .store()
            .indexes()
            .begin_build(&rig.table, &spec(true))
            .expect("begin");
        let mut view = rig.begin(Isolation::RepeatableRead);
        let online = rig.store().begin_online(&rig.table, &mut view).expect("begin");
        for (pk, row) in rows(&rig) {
            let (key, len) = unique_by_shade(&pk, &row);
            build.add(&key, len, true, &[]).expect("add");
        }
        build.finish(&view).expect("finish");
        let mut trx = rig.begin(Isolation::ReadCommitted);
        let (first, second) = (rows(&rig)[0].1.clone(), rows(&rig)[1].1.clone());
        let with = |old: &Row, shade| Row { shade, ..old.clone() };
        rig.update(&mut trx, &0u32.to_be_bytes(), &first, &with(&first, second.shade))
            .expect("update");
        if swaps {
            rig.update(&mut trx, &1u32.to_be_bytes(), &second, &with(&second, first.shade))
                .expect("update");
        }
        rig.engine.commit(&mut trx, false).expect("commit");
        let mut newer = rig.begin(Isolation::RepeatableRead);
        online
            .round(&mut view, &mut newer, Passes::One, &mut |pk, was, is| {
                build.remove(&unique_by_shade(pk, &Row::decode(was.expect("was"))).0)?;
                let (key, len) = unique_by_shade(pk, &Row::decode(is.expect("is")));
                build.put(&key, len, true, &[])
            })
            .expect("round");
        let proved = build.prove_unique();
        assert_eq!(proved.is_ok(), swaps, "{proved:?}");
        drop(online);
        build.abort().expect("abort");
        end(&rig, view);
        end(&rig, newer);
    }
}

/// However many rows are changed, few values are kept. One that two rows have is never forgotten.
#[test]
fn few_values_of_a_unique_index_are_kept_to_be_proved() {
    for ends_twice in [true, false] {
        let rig = TableFixture::create(SimDisk::new(8));
        let mut build = rig
            .store()
            .indexes()
            .begin_build(&rig.table, &spec(true))
            .expect("begin");
        build.finish(&rig.begin(Isolation::RepeatableRead)).expect("finish");
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
    let rig = TableFixture::create(SimDisk::new(3));
    rig.engine.set("online_alter_log_max_size", 65_536).expect("set");
    let mut view = rig.begin(Isolation::RepeatableRead);
    let online = rig.store().begin_online(&rig.table, &mut view).expect("begin");
    let again = rig
        .store()
        .begin_online(&rig.table, &mut rig.begin(Isolation::RepeatableRead));
    assert!(matches!(again, Err(Error::Unsupported(_))), "one ALTER TABLE at a time");
    (0..4000).for_each(|pk| put(&rig, pk, &row(1, pk as u16)));
    let mut newer = rig.begin(Isolation::RepeatableRead);
    let full = online.round(&mut view, &mut newer, Passes::One, &mut |_, _, _| Ok(()));
    assert!(matches!(full, Err(Error::OnlineAlterFull(_))), "{full:?}");
    drop(online);
    end(&rig, view);
    end(&rig, newer);
    put(&rig, 4000, &row(1, 4000));
}

/// The steps of a rebuild, with a crash after each.
#[test]
fn a_rebuilt_table_takes_the_place_of_the_old_one() {
    for replaces in [false, true] {
        let disk = SimDisk::new(9);
        let rig = TableFixture::create(disk.clone());
        (0..300).for_each(|pk| put(&rig, pk, &row(1, pk as u16)));
        let tables = rig.store().tables();
        tables.create_table("rebuilt", &super::fixture::spec()).expect("create");
        let rebuilt = TableFixture {
            engine: rig.engine.clone(),
            table: tables.open_table("rebuilt").expect("open"),
        };
        for (pk, row) in rows(&rig) {
            let mut trx = rebuilt.begin(Isolation::ReadCommitted);
            rebuilt.insert(&mut trx, &pk, &row).expect("insert");
            rebuilt.engine.commit(&mut trx, false).expect("commit");
        }
        let mut old_view = rig.begin(Isolation::RepeatableRead);
        rig.scan(&mut old_view, 0, false, false, None).expect("scan");
        let meant = rows(&rig);
        if replaces {
            tables.replace_table(&rig.table, "rebuilt", false).expect("replaced");
            assert!(tables.open_table("rebuilt").is_err());
            let refused = rig.scan(&mut old_view, 0, false, false, None);
            assert!(
                matches!(refused, Err(Error::TableChanged)),
                "an older view does not see the new rows"
            );
            rig.check_table();
            assert_eq!(rows(&rig), meant);
            put(&rig, 1000, &row(2, 1000));
        }
        end(&rig, old_view);
        rig.engine.flush_log().expect("durable");
        drop(rebuilt);
        drop(rig);
        let rig = TableFixture::reopen(disk.crash(1)).expect("recovered");
        super::crash::wait_for_rollback(&rig.engine);
        rig.check_table();
        assert_eq!(rows(&rig).len(), meant.len() + replaces as usize);
        assert_eq!(rig.store().tables().open_table("rebuilt").is_ok(), !replaces);
    }
}

/// No row is written between the end of the rebuild and the crash.
#[test]
fn a_rebuilt_table_keeps_its_auto_increment_counter() {
    let disk = SimDisk::new(6);
    let rig = TableFixture::create(disk.clone());
    rig.table.autoinc_raise(500);
    put(&rig, 1, &row(1, 1));
    let tables = rig.store().tables();
    tables.create_table("rebuilt", &super::fixture::spec()).expect("create");
    tables.replace_table(&rig.table, "rebuilt", false).expect("replaced");
    assert_eq!(rig.table.autoinc(), 500);
    drop(rig);
    let rig = TableFixture::reopen(disk.crash(1)).expect("recovered");
    assert_eq!(
        rig.table.autoinc(),
        500,
        "a new row must not get a number that was given before"
    );
}

/// Row 0 takes the value that row 1 gives up, and the other way round.
#[test]
fn a_unique_value_changes_hands_while_a_table_is_rebuilt() {
    for passes in [Passes::Two, Passes::One] {
        let rig = TableFixture::create(SimDisk::new(4));
        (0..3).for_each(|pk| put(&rig, pk, &row(1, 10 + pk as u16)));
        let tables = rig.store().tables();
        tables.create_table("rebuilt", &super::fixture::spec()).expect("create");
        let rebuilt = TableFixture {
            engine: rig.engine.clone(),
            table: tables.open_table("rebuilt").expect("open"),
        };
        let mut view = rig.begin(Isolation::RepeatableRead);
        let online = rig.store().begin_online(&rig.table, &mut view).expect("begin");
        (0..3).for_each(|pk| put(&rebuilt, pk, &row(1, 10 + pk as u16)));
        let mut trx = rig.begin(Isolation::ReadCommitted);
        let (zero, one) = (0u32.to_be_bytes(), 1u32.to_be_bytes());
        let steps = [(&zero, 10, 99), (&one, 11, 10), (&zero, 99, 11)];
        for (pk, old, new) in steps {
            rig.update(&mut trx, pk, &row(1, old), &row(1, new)).expect("update");
        }
        rig.engine.commit(&mut trx, false).expect("commit");
        let mut newer = rig.begin(Isolation::RepeatableRead);
        let mut writes = rebuilt.begin(Isolation::ReadCommitted);
        let done = online.round(&mut view, &mut newer, passes, &mut |pk, was, is| {
            if let Some(was) = was {
                rebuilt.delete(&mut writes, pk, &Row::decode(was))?;
            }
            is.map_or(Ok(()), |is| rebuilt.insert(&mut writes, pk, &Row::decode(is)))
        });
        end(&rig, writes);
        match passes {
            Passes::Two => {
                assert_eq!(done.map(|round| round.changed), Ok(2));
                assert_eq!(rows(&rebuilt), rows(&rig));
            }
            Passes::One => assert!(matches!(done, Err(Error::Duplicate { .. })), "{done:?}"),
        }
        drop(online);
        end(&rig, view);
        end(&rig, newer);
    }
}

/// Partitions are replaced in one change.
#[test]
fn several_tables_are_replaced_at_once() {
    let rig = TableFixture::create(SimDisk::new(5));
    put(&rig, 1, &row(1, 1));
    let tables = rig.store().tables();
    let spec = super::fixture::spec();
    let names = ["other", "rebuilt", "rebuilt_other"];
    let opened = names.map(|name| {
        tables.create_table(name, &spec).expect("create");
        tables.open_table(name).expect("open")
    });
    for (number, table) in opened.iter().enumerate() {
        let fixture = TableFixture {
            engine: rig.engine.clone(),
            table: table.clone(),
        };
        put(&fixture, 10 + number as u32, &row(1, 1));
    }
    let replacements = [
        Replacement {
            table: &rig.table,
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
    let found = [&rig.table, &opened[0]].map(|table| {
        let fixture = TableFixture {
            engine: rig.engine.clone(),
            table: table.clone(),
        };
        fixture.check_table();
        rows(&fixture)[0].0.clone()
    });
    assert_eq!(found, [11u32, 12].map(|pk| pk.to_be_bytes().to_vec()));
    assert!(names[1..].iter().all(|name| tables.open_table(name).is_err()));
}

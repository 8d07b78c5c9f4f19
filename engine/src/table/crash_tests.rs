//! Crashes at any write: what was committed is there, what was not is not, and the indexes agree. Several lives on one disk,
//! each cut short at a change of the disk drawn from the seed.
use super::test_rig::*;
use crate::base::{Error, Result};
use crate::engine::Engine;
use crate::io::sim::SimDisk;
use crate::txn::{Isolation, Trx};
use std::sync::Arc;
use std::time::Duration;

/// What may be found after a crash: one of these.
struct Expected {
    committed: Model,
    /// The crash fell into this commit.
    in_doubt: Option<Model>,
}

/// Changes rows until the disk dies or the work is done.
fn live(rig: &Rig, random: &mut Random, expected: &mut Expected) {
    for _ in 0..150 {
        let mut pending = expected.committed.clone();
        let mut trx = rig.begin(Isolation::ReadCommitted);
        if change_rows(rig, random, &mut trx, &mut pending).is_err() {
            std::mem::forget(trx);
            return;
        }
        if random.chance(15) {
            if rig.engine.rollback(&mut trx).is_err() {
                std::mem::forget(trx);
                return;
            }
        } else if rig.engine.commit(&mut trx, true).is_ok() {
            expected.committed = pending;
        } else {
            expected.in_doubt = Some(pending);
            return;
        }
    }
}

fn change_rows(rig: &Rig, random: &mut Random, trx: &mut Trx, model: &mut Model) -> Result<()> {
    for _ in 0..1 + random.below(8) {
        let key = pk(random.below(120) as u32);
        let row = Row {
            tag: None,
            ..random.row(1)
        };
        let (savepoint, before) = (super::Store::savepoint(trx), model.clone());
        match model.get(&key).cloned() {
            None => rig.insert(trx, &key, &row)?,
            Some(old) if random.chance(30) => rig.delete(trx, &key, &old)?,
            Some(old) => rig.update(trx, &key, &old, &row)?,
        }
        model.insert(key.clone(), row);
        let gone = rig.get(trx, &key, None)?.is_none();
        if gone {
            model.remove(&key);
        }
        if random.chance(10) {
            rig.store().rollback_to(trx, savepoint)?;
            *model = before;
        }
    }
    Ok(())
}

fn wait_for_rollback(engine: &Engine) {
    for _ in 0..10_000 {
        if engine.counters().active_transactions.get() == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("losers are not rolled back");
}

fn verify(rig: &Rig, expected: &mut Expected, what: &str) {
    let mut trx = rig.begin(Isolation::RepeatableRead);
    let found = rig.scan(&mut trx, 0, false, false, None).expect("scan");
    let found: Model = found.into_iter().map(|f| (f.pk, Row::decode(&f.row))).collect();
    if let Some(in_doubt) = expected.in_doubt.take() {
        if found == in_doubt {
            expected.committed = in_doubt;
        }
    }
    rig.check_view(&mut trx, &expected.committed, what);
    rig.engine.start_background();
    wait_for_rollback(&rig.engine);
    rig.check_view(&mut trx, &expected.committed, what);
    rig.engine.commit(&mut trx, false).expect("commit");
    rig.check_table();
}

#[test]
fn crashes_lose_nothing_committed() {
    for seed in 1..=14u64 {
        let mut random = Random(seed);
        let mut disk = SimDisk::new(seed);
        let rig = Rig::create(disk.clone());
        rig.engine.start_background();
        let mut expected = Expected {
            committed: Model::new(),
            in_doubt: None,
        };
        let mut rig = Some(rig);
        for life in 0..5 {
            let now = rig.take().expect("alive");
            disk.crash_at(disk.changes() + 1 + random.below(500));
            live(&now, &mut random, &mut expected);
            let after = disk.crash(seed * 100 + life);
            drop(now);
            disk = after;
            // Sometimes the recovery is cut short too.
            if random.chance(40) {
                disk.crash_at(1 + random.below(60));
                if let Ok(half) = Rig::reopen(disk.clone()) {
                    half.engine.start_background();
                    drop(half);
                }
                disk = disk.crash(seed * 1000 + life);
            }
            let again = Rig::reopen(disk.clone()).unwrap_or_else(|e| panic!("seed {seed} life {life}: {e}"));
            verify(&again, &mut expected, &format!("seed {seed} life {life}"));
            rig = Some(again);
        }
    }
}

/// A full disk fails statements, not the engine.
#[test]
fn a_full_disk_fails_the_statement_only() {
    let disk = SimDisk::new(4);
    let rig = Rig::create(disk.clone());
    let used: u64 = crate::io::Disk::list(&*disk)
        .expect("list")
        .iter()
        .map(|n| disk.bytes(n).map_or(0, |b| b.len() as u64))
        .sum();
    disk.set_space(Some(used + (2 << 20)));
    let mut random = Random(4);
    let mut model = Model::new();
    let mut full = 0;
    for n in 0..3000 {
        let mut trx = rig.begin(Isolation::ReadCommitted);
        let row = Row {
            tag: None,
            body: vec![7; 2000],
            ..random.row(1)
        };
        match rig.insert(&mut trx, &pk(n), &row) {
            Ok(()) => {
                model.insert(pk(n), row);
            }
            Err(Error::Full(_)) => full += 1,
            Err(e) => panic!("insert {n}: {e}"),
        }
        rig.engine.commit(&mut trx, false).expect("commit");
        if full > 20 {
            break;
        }
    }
    assert!(full > 20, "the disk was filled");
    let mut trx = rig.begin(Isolation::ReadCommitted);
    rig.check_view(&mut trx, &model, "a full disk");
    disk.set_space(None);
    rig.insert(&mut trx, b"later\0", &random.row(1)).expect("room again");
    rig.engine.commit(&mut trx, true).expect("commit");
    rig.check_table();
}

// ---- DDL ----

/// Tables by name, each with the clustered keys of its rows and the number of its indexes.
type Tables = std::collections::BTreeMap<String, (Vec<Vec<u8>>, usize)>;

fn tables_of(engine: &Arc<Engine>) -> Tables {
    let store = engine.store();
    let one = |name: String| {
        let table = store.open_table(&name).expect("open");
        let indexes = table.layout().secondary.len();
        let rig = Rig {
            engine: engine.clone(),
            table,
        };
        let mut trx = rig.begin(Isolation::ReadCommitted);
        let rows = rig.scan(&mut trx, 0, false, false, None).expect("scan");
        rig.engine.commit(&mut trx, false).expect("commit");
        (name, (rows.into_iter().map(|r| r.pk).collect(), indexes))
    };
    store.catalog.names().into_iter().map(one).collect()
}

/// One statement; on success `tables` is as it should be then.
fn ddl(engine: &Arc<Engine>, random: &mut Random, tables: &mut Tables, next: &mut u32) -> Result<()> {
    let store = engine.store();
    let names: Vec<String> = tables.keys().cloned().collect();
    if names.is_empty() || random.chance(30) {
        *next += 1;
        let name = format!("t{next}");
        store.create_table(
            &name,
            &super::TableSpec {
                indexes: vec![],
                ..spec()
            },
        )?;
        tables.insert(name.clone(), (vec![], 0));
        return fill(engine, &name, tables);
    }
    let name = names[random.below(names.len() as u64) as usize].clone();
    match random.below(4) {
        0 => {
            store.drop_table(&name)?;
            tables.remove(&name);
        }
        1 => {
            *next += 1;
            let to = format!("r{next}");
            store.rename_table(&name, &to)?;
            let was = tables.remove(&name).expect("known");
            tables.insert(to, was);
        }
        2 => {
            store.truncate_table(&name)?;
            tables.get_mut(&name).expect("known").0.clear();
        }
        _ => add_or_drop_index(engine, &name, tables)?,
    }
    Ok(())
}

fn fill(engine: &Arc<Engine>, name: &str, tables: &mut Tables) -> Result<()> {
    let table = engine.store().open_table(name)?;
    let rig = Rig {
        engine: engine.clone(),
        table,
    };
    let mut trx = rig.begin(Isolation::ReadCommitted);
    for n in 0..40u32 {
        let key = n.to_be_bytes();
        if let Err(e) = rig.store().insert(&mut trx, &rig.table, &key, &[7; 300], &[], false) {
            std::mem::forget(trx);
            return Err(e);
        }
    }
    rig.engine.commit(&mut trx, true)?;
    tables.get_mut(name).expect("known").0 = (0..40u32).map(|n| n.to_be_bytes().to_vec()).collect();
    Ok(())
}

fn add_or_drop_index(engine: &Arc<Engine>, name: &str, tables: &mut Tables) -> Result<()> {
    let store = engine.store();
    let table = store.open_table(name)?;
    let known = tables.get_mut(name).expect("known");
    if known.1 > 0 {
        store.alter_indexes(&table, &[], &["i"], &[], b"")?;
        known.1 = 0;
        return Ok(());
    }
    let mut build = store.begin_build(
        &table,
        &super::IndexSpec {
            name: "i".into(),
            unique: true,
        },
    )?;
    for pk in known.0.iter().rev() {
        let key = [&[b'k', !pk[3]], &pk[..]].concat();
        build.add(&key, 2, true, b"raw")?;
    }
    let rig = Rig {
        engine: engine.clone(),
        table: table.clone(),
    };
    let mut trx = rig.begin(Isolation::ReadCommitted);
    build.finish(&trx)?;
    rig.engine.commit(&mut trx, false)?;
    store.alter_indexes(&table, &[&build], &[], &["i"], b"")?;
    known.1 = 1;
    Ok(())
}

#[test]
fn ddl_is_all_or_nothing() {
    for seed in 1..=25u64 {
        let mut random = Random(seed * 31);
        let mut disk = SimDisk::new(seed);
        let mut tables = Tables::new();
        let mut next = 0;
        let mut engine = Engine::open(disk.clone(), config()).expect("fresh");
        engine.start_background();
        for life in 0..4 {
            disk.crash_at(disk.changes() + 1 + random.below(250));
            let mut before = tables.clone();
            for _ in 0..200 {
                before = tables.clone();
                if ddl(&engine, &mut random, &mut tables, &mut next).is_err() {
                    break;
                }
            }
            let after = disk.crash(seed * 77 + life);
            drop(engine);
            disk = after;
            engine = Engine::open(disk.clone(), config()).unwrap_or_else(|e| panic!("seed {seed} life {life}: {e}"));
            engine.start_background();
            wait_for_rollback(&engine);
            let found = tables_of(&engine);
            // The interrupted statement: not begun, done, or (CREATE and its rows) done but for the rows.
            let what = || format!("seed {seed} life {life}\nbefore {before:?}\nafter {tables:?}\nfound {found:?}");
            let done = find_done(&before, &tables, &found);
            assert!(done, "{}", what());
            tables = found;
            check_all(&engine, &disk);
        }
    }
}

/// `tables` was changed as far as the interrupted statement got; it may have got one step further on disk.
fn find_done(before: &Tables, tables: &Tables, found: &Tables) -> bool {
    if found == before || found == tables {
        return true;
    }
    // One table differs from `tables`: created, dropped, renamed, emptied, filled, or with one index more or less.
    let gone: Vec<_> = tables.iter().filter(|(n, t)| found.get(*n) != Some(t)).collect();
    let new: Vec<_> = found.iter().filter(|(n, t)| tables.get(*n) != Some(t)).collect();
    match (&gone[..], &new[..]) {
        ([], [(_, (rows, 0))]) => rows.is_empty(),
        ([_], []) => true,
        ([(_, was)], [(_, is)]) => is == was || is.0.is_empty() || was.0.is_empty() || is.0 == was.0,
        _ => false,
    }
}

fn check_all(engine: &Arc<Engine>, disk: &SimDisk) {
    let mut files = vec!["00000001.slu".to_string(), "00000002.slu".to_string()];
    for table in engine.store().catalog.tables() {
        let rig = Rig {
            engine: engine.clone(),
            table,
        };
        rig.check_table();
        files.push(crate::space::file_name(rig.table.layout().id));
    }
    files.sort();
    let mut found: Vec<String> = crate::io::Disk::list(disk).expect("list");
    found.retain(|n| n.ends_with(".slu") || n.starts_with("tmp_"));
    found.sort();
    assert_eq!(found, files, "files and catalog agree");
}

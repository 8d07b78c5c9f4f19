//! Data files that the catalog does not name. A restored catalog that was older than the files
//! beside it lost the newer tables. The next start took their files for the remains of a crash, and
//! removed them. Now a file goes only when its rows provably belong to no table.
use super::fixture::{config, pk, spec, TableFixture};
use crate::base::ids::{FIRST_TABLE_FILE, SYSTEM_FILE, UNDO_FILE};
use crate::base::{Error, FileId};
use crate::engine::{Close, Engine};
use crate::io::sim::hooked::{Call, HookedDisk};
use crate::io::sim::Fault;
use crate::io::{Caching, Disk, Mode, SimDisk};
use crate::pool::PAGE_SIZE;
use crate::space::file_name;
use crate::table::NewRow;
use crate::txn::Isolation;
use parking_lot::Mutex;
use std::sync::Arc;

/// The second table's.
const NEWER: FileId = FIRST_TABLE_FILE + 1;

/// Makes, or opens, what is there; adds a table of that name with a row, and closes it all.
fn add_table(disk: &Arc<SimDisk>, name: &str) {
    let engine = Engine::open(disk.clone(), config()).expect("opens");
    let spec = crate::table::TableSpec {
        indexes: vec![],
        ..spec()
    };
    engine.store().tables().create_table(name, &spec).expect("create");
    let table = engine.store().tables().open_table(name).expect("open");
    let fixture = TableFixture { engine, table };
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    fixture
        .store()
        .rows()
        .insert(&mut trx, &fixture.table, &NewRow::new(&pk(1), b"row", &[]), false)
        .expect("insert");
    fixture.engine.commit(&mut trx, true).expect("commit");
    fixture.engine.close(Close::Slow).expect("close");
}

fn put(disk: &SimDisk, name: &str, bytes: &[u8]) {
    disk.remove(name).expect("out of the way");
    let file = disk.open(name, Mode::Create, Caching::Buffered).expect("create");
    file.set_len(bytes.len() as u64).expect("length");
    file.write_at(bytes, 0).expect("write");
    file.sync().expect("sync");
}

/// Every data file is a table's.
fn files_agree(engine: &Engine, disk: &SimDisk, seed: u64) {
    let mut expected = vec![file_name(SYSTEM_FILE), file_name(UNDO_FILE)];
    expected.extend(engine.store().catalog.tables().iter().map(|t| file_name(t.layout().id)));
    expected.sort();
    let mut found = disk.list().expect("list");
    found.retain(|name| name.ends_with(".slu") || name.starts_with("tmp_"));
    found.sort();
    assert_eq!(found, expected, "seed {seed}");
}

fn refused(disk: &Arc<SimDisk>) -> String {
    let before = disk.list().expect("list");
    let why = Engine::open_still(disk.clone(), config()).err().expect("is refused");
    assert!(matches!(why, Error::Corrupt(_)), "{why}");
    assert_eq!(disk.list().expect("list"), before, "nothing was removed");
    why.to_string()
}

#[test]
fn a_table_that_an_older_catalog_does_not_know_is_not_removed() {
    let disk = SimDisk::new(1);
    add_table(&disk, "old");
    let (backup, disk) = (disk.crash(1), disk.crash(1));
    add_table(&disk, "new");
    let all: Vec<String> = backup.list().expect("list");
    // The doublewrite file remembers something of it, so an older system file is detected even
    // without this; not for ever.
    for files in [vec![file_name(SYSTEM_FILE), "doublewrite".into()], all] {
        let disk = disk.crash(2);
        for name in &files {
            put(&disk, name, &backup.bytes(name).expect("in the backup"));
        }
        let why = refused(&disk);
        assert!(why.contains(&file_name(NEWER)) && why.contains("restore"), "{why}");
        // The way out.
        disk.remove(&file_name(NEWER)).expect("moved away");
        let engine = Engine::open_still(disk.clone(), config()).expect("opens");
        assert_eq!(engine.store().catalog.names(), ["old"]);
    }
}

#[test]
fn a_dropped_tables_file_that_somebody_brought_back_is_not_removed() {
    let disk = SimDisk::new(1);
    add_table(&disk, "old");
    add_table(&disk, "new");
    let name = file_name(NEWER);
    let bytes = disk.bytes(&name).expect("there");
    let engine = Engine::open(disk.clone(), config()).expect("opens");
    engine.store().tables().drop_table("new").expect("drop");
    engine.close(Close::Fast).expect("close");
    put(&disk, &name, &bytes);
    assert!(refused(&disk).contains(&name));
}

#[test]
fn a_blank_file_goes_and_its_number_is_not_given_again() {
    let disk = SimDisk::new(1);
    add_table(&disk, "old");
    let name = file_name(NEWER);
    for bytes in [vec![], vec![0; 700], vec![0; 9 * PAGE_SIZE]] {
        let disk = disk.crash(2);
        put(&disk, &name, &bytes);
        add_table(&disk, "new");
        let files = disk.list().expect("list");
        assert!(!files.contains(&name), "{files:?}");
        assert!(files.contains(&file_name(NEWER + 1)), "{files:?}");
        assert_eq!(disk.bytes(&name), None);
    }
    // One with anything in it stays.
    let disk = disk.crash(3);
    let mut bytes = vec![0; 8 * PAGE_SIZE];
    bytes[70_000] = 1;
    put(&disk, &name, &bytes);
    assert!(refused(&disk).contains(&name));
}

#[test]
fn a_temporary_tables_file_goes() {
    let disk = SimDisk::new(1);
    add_table(&disk, "old");
    let engine = Engine::open(disk.clone(), config()).expect("opens");
    let temporary = crate::table::TableSpec {
        temporary: true,
        ..spec()
    };
    engine
        .store()
        .tables()
        .create_table("brief", &temporary)
        .expect("create");
    engine.store().pool.flush_all().expect("its pages are written");
    let before = disk.list().expect("list").len();
    let disk = disk.crash(3);
    assert_eq!(disk.list().expect("list").len(), before);
    drop(engine);
    let engine = Engine::open_still(disk.clone(), config()).expect("opens");
    assert_eq!(engine.store().catalog.names(), ["old"]);
    assert_eq!(disk.list().expect("list").len(), before - 1);
}

#[test]
fn a_temporary_table_that_finds_no_room_leaves_no_file() {
    let disk = SimDisk::new(1);
    let engine = Engine::open_still(disk.clone(), config()).expect("opens");
    let temporary = crate::table::TableSpec {
        temporary: true,
        ..spec()
    };
    let before = disk.list().expect("list");
    disk.set_space(Some(0));
    engine
        .store()
        .tables()
        .create_table("brief", &temporary)
        .expect_err("no room");
    assert_eq!(disk.list().expect("list"), before);
}

/// Any call of CREATE, TRUNCATE and DROP fails, unlinking too. Whatever checkpoint there may be
/// after it, the next start finds out which files must go.
#[test]
fn a_statement_that_fails_between_log_and_directory_is_decided_by_the_next_start() {
    let mut failures = 0;
    for seed in 0.. {
        let disk = SimDisk::new(seed);
        add_table(&disk, "old");
        let engine = Engine::open_still(disk.clone(), config()).expect("opens");
        let store = engine.store();
        disk.fail_change(disk.changes() + 1 + seed, Fault::Eio);
        let done = (store.tables().create_table("new", &spec()))
            .and_then(|()| store.tables().truncate_table("old"))
            .and_then(|()| store.tables().drop_table("new"));
        if done.is_err() {
            failures += 1;
            let _ = engine.checkpoint();
        }
        // A file that could not be removed is no failure of the statement.
        let strikes = disk.struck() > 0;
        disk.heal();
        let disk = disk.crash(seed);
        drop(engine);
        let engine = Engine::open_still(disk.clone(), config()).expect("the next start goes on");
        files_agree(&engine, &disk, seed);
        if !strikes {
            break;
        }
    }
    assert!(failures > 10, "{failures} calls could fail");
}

type Meanwhile = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// While DROP, TRUNCATE and CREATE are between log and directory, everything is written, a
/// checkpoint comes, and then the power fails. The next start must still find out what the files
/// are.
#[test]
fn a_checkpoint_within_a_statement_does_not_forget_its_files() {
    for (seed, statement) in (0..24).map(|seed| (seed, seed % 3)) {
        let disk = SimDisk::new(seed);
        add_table(&disk, "old");
        // Just before a data file is removed, or just after one was made.
        let meanwhile: Meanwhile = Arc::default();
        let due = meanwhile.clone();
        let watched = HookedDisk::new(disk.clone(), move |call| {
            if let Call::Made(name) | Call::ToRemove(name) = call {
                let act = name.ends_with(".slu").then(|| due.lock().take()).flatten();
                if let Some(act) = act {
                    act();
                }
            }
            Ok(())
        });
        let engine = Engine::open_still(watched, config()).expect("opens");
        let (store, at_once) = (engine.store().clone(), engine.clone());
        store
            .tables()
            .set_table_schema("old", b"so that the checkpoint can move")
            .expect("logged");
        let checkpoint_before = engine.redo().checkpoint_lsn();
        let crashing = disk.clone();
        *meanwhile.lock() = Some(Box::new(move || {
            at_once.checkpoint().expect("a checkpoint beside a statement");
            crashing.crash_at(crashing.changes() + 1);
        }));
        let done = match statement {
            0 => store.tables().drop_table("old"),
            1 => store.tables().truncate_table("old"),
            _ => store.tables().create_table("new", &spec()),
        };
        assert!(done.is_err(), "the power failed");
        assert!(meanwhile.lock().is_none() && engine.redo().checkpoint_lsn() > checkpoint_before);
        let disk = disk.crash(seed);
        drop((store, engine));
        let engine = Engine::open_still(disk.clone(), config()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let names = engine.store().catalog.names();
        assert_eq!(names.len(), (statement != 0) as usize, "seed {seed}: {names:?}");
        files_agree(&engine, &disk, seed);
    }
}

/// A table's file that could not be unlinked (chattr +i) ended the engine's work, and the next
/// start was refused on the same file. Now DROP and TRUNCATE succeed. Starts go on as long as the
/// file is stuck, whether or not the log still has the drop. At last the file goes.
#[test]
fn a_file_that_cannot_be_removed_stops_nothing() {
    for (seed, crashes, truncates) in (0..4).map(|seed| (seed, seed & 1 != 0, seed & 2 != 0)) {
        let disk = SimDisk::new(seed);
        add_table(&disk, "old");
        add_table(&disk, "other");
        let engine = Engine::open_still(stuck_if(true, &disk), config()).expect("opens");
        let temporary = crate::table::TableSpec {
            temporary: true,
            ..spec()
        };
        let brief = engine.store().tables().create_table("brief", &temporary);
        brief
            .and_then(|()| engine.store().tables().drop_table("brief"))
            .expect("done");
        match truncates {
            true => engine.store().tables().truncate_table("old"),
            false => engine.store().tables().drop_table("old"),
        }
        .expect("it is durable");
        add_row(&engine, "other", 2);
        end(engine, crashes);
        let old = file_name(FIRST_TABLE_FILE);
        let mut disk = disk;
        for round in 3..6 {
            disk = disk.crash(seed);
            assert!(disk.exists(&old).expect("a look"), "it is stuck");
            let engine = Engine::open_still(stuck_if(true, &disk), config()).expect("starts all the same");
            assert_eq!(engine.store().catalog.names().len(), 1 + truncates as usize);
            add_row(&engine, "other", round);
            end(engine, crashes && round == 3);
        }
        let disk = disk.crash(seed);
        let engine = Engine::open_still(disk.clone(), config()).expect("opens");
        files_agree(&engine, &disk, seed);
        assert_eq!(crate::space::orphans(&engine.store().pool).expect("read"), []);
        end(engine, false);
        // A file of that number that comes back now belongs to no table, and no record explains it:
        // it stays.
        put(&disk, &old, &[7; PAGE_SIZE]);
        refused(&disk);
    }
}

/// The power fails at any call of DROP and TRUNCATE whose files cannot be removed, and again at the
/// starts after it.
#[test]
fn a_crash_does_not_forget_what_could_not_be_removed() {
    for seed in 0.. {
        let mut disk = SimDisk::new(seed);
        add_table(&disk, "old");
        add_table(&disk, "other");
        let engine = Engine::open_still(stuck_if(true, &disk), config()).expect("opens");
        disk.crash_at(disk.changes() + 1 + seed);
        let _ =
            (engine.store().tables().truncate_table("old")).and_then(|()| engine.store().tables().drop_table("other"));
        let _ = engine.checkpoint();
        let is_last = !disk.is_dead();
        drop(engine);
        for is_stuck in [true, true, false] {
            disk = disk.crash(seed);
            let engine =
                Engine::open_still(stuck_if(is_stuck, &disk), config()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            engine.checkpoint().expect("a checkpoint");
            if !is_stuck {
                files_agree(&engine, &disk, seed);
            }
        }
        if is_last {
            assert!(seed > 10, "{seed} calls could fail");
            break;
        }
    }
}

/// Data files cannot be removed if `is_stuck`.
fn stuck_if(is_stuck: bool, disk: &Arc<SimDisk>) -> Arc<HookedDisk> {
    HookedDisk::new(disk.clone(), move |call| match call {
        Call::ToRemove(name) if is_stuck && (name.ends_with(".slu") || name.starts_with("tmp_")) => {
            Err(Error::io(format!("cannot remove {name}: not permitted")))
        }
        _ => Ok(()),
    })
}
fn end(engine: Arc<Engine>, crashes: bool) {
    if !crashes {
        engine.close(Close::Fast).expect("close");
    }
}

fn add_row(engine: &Arc<Engine>, name: &str, n: u32) {
    let table = engine.store().tables().open_table(name).expect("open");
    let fixture = TableFixture {
        engine: engine.clone(),
        table,
    };
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    let inserted = fixture
        .store()
        .rows()
        .insert(&mut trx, &fixture.table, &NewRow::new(&pk(n), b"row", &[]), false);
    inserted.expect("insert");
    fixture.engine.commit(&mut trx, true).expect("commit");
}

//! Files and logs of another database, or of another time, beside those of this one: refused, and
//! nothing is touched.
use super::damage::{filled_from, others_serve_on, text};
use super::fixture::{config, TableFixture};
use crate::base::ids::{FIRST_TABLE_FILE, UNDO_FILE};
use crate::engine::{Close, Engine};
use crate::io::{Caching, Disk, Mode, SimDisk};
use crate::space::file_name;

fn replace(disk: &SimDisk, from: &SimDisk, name: &str) {
    let bytes = from.bytes(name).expect("there");
    let file = disk.open(name, Mode::Open, Caching::Buffered).expect("open");
    file.set_len(bytes.len() as u64).expect("length");
    file.write_at(&bytes, 0).expect("write");
    file.sync().expect("sync");
}

#[test]
fn files_of_another_database_are_refused() {
    let (disk, other) = (filled_from(1), filled_from(2));
    // A table's file: the same number, the same table, another database.
    replace(&disk, &other, &file_name(FIRST_TABLE_FILE));
    let engine = Engine::open_still(disk.clone(), config()).expect("opens");
    let refused = engine.store().tables().open_table("t").err().expect("not ours");
    assert!(text(refused).contains("another database"));
    let fixture = TableFixture {
        table: engine.store().tables().open_table("u").expect("ours"),
        engine,
    };
    others_serve_on(&fixture, 2);
    drop(fixture);
    // The undo file: nothing goes without it.
    let disk = filled_from(1);
    replace(&disk, &other, &file_name(UNDO_FILE));
    let refused = Engine::open_still(disk, config()).err().expect("not ours");
    let said = text(refused);
    assert!(said.contains("another database") && said.contains("restore"), "{said}");
}

/// The LSNs of the two fit each other: only the number tells.
#[test]
fn a_log_of_another_database_is_refused_and_nothing_of_it_is_applied() {
    for drops in [false, true] {
        let (disk, other) = (filled_from(1), filled_from(2));
        if drops {
            // Its log says that a file of a number that ours has too is to be removed.
            let fixture = TableFixture::reopen(other.clone()).expect("open");
            let dropped = fixture.store().tables().open_table("u").expect("open").layout().id;
            fixture.store().tables().drop_table("u").expect("drop");
            fixture.engine.close(Close::LogOnly).expect("close");
            assert!(disk.bytes(&file_name(dropped)).is_some());
        }
        let ours: Vec<_> = files_of(&disk);
        for name in disk.list().expect("list").iter().filter(|n| n.starts_with("redo_")) {
            replace(&disk, &other, name);
        }
        let refused = Engine::open_still(disk.clone(), config()).err().expect("not ours");
        let said = text(refused);
        assert!(said.contains("another database") && said.contains("restore"), "{said}");
        assert!(files_of(&disk) == ours, "the data files were touched");
    }
}

fn files_of(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    let mut names: Vec<String> = disk.list().expect("list");
    names.retain(|name| name.ends_with(".slu"));
    names.sort();
    names
        .into_iter()
        .map(|name| {
            let bytes = disk.bytes(&name).expect("there");
            (name, bytes)
        })
        .collect()
}

#[test]
fn a_log_that_ends_before_its_files_is_refused() {
    let disk = SimDisk::new(1);
    let fixture = TableFixture::create(disk.clone());
    let young = disk.crash(5);
    drop(fixture);
    let disk = filled_from(1);
    for name in disk
        .list()
        .expect("list")
        .iter()
        .filter(|name| name.starts_with("redo_"))
    {
        if young.bytes(name).is_some() {
            replace(&disk, &young, name);
        } else {
            disk.remove(name).expect("removed");
        }
    }
    let said = text(Engine::open_still(disk, config()).err().expect("older than the files"));
    assert!(said.contains("restore"), "{said}");
}

//! Loads that did not end: their directory is sound, and the checker accounts for their pages.
use super::*;

/// Loads of tables that other connections use: cut short before and after the link, and rolled
/// back. Their pages are accounted for. No row of theirs is saved, though pages that were given
/// back still look like what was written.
#[test]
fn loads_that_did_not_end_leave_a_sound_directory() {
    let folder = Folder::new("loads");
    let mut config = config();
    config.store.bulk_load_min = 0;
    let db = open(&folder.0, config).expect("opens");
    let names = ["building", "linked", "undone", "aborted", "committed"];
    for name in names {
        let table = make(&db, name, &[]);
        let mut trx = db.begin();
        let bulk = db.engine().store().loads().begin_bulk_insert(&table).expect("look");
        let mut bulk = bulk.expect("an empty table");
        for n in 0..20_000u32 {
            bulk.add(trx.trx(), &n.to_be_bytes(), &row(n % 96 + 1), &[])
                .expect("add");
        }
        if !["building", "aborted"].contains(&name) {
            bulk.finish(trx.trx()).expect("finish");
            bulk.end(trx.trx());
        } else {
            std::mem::drop(bulk);
        }
        match name {
            "undone" | "aborted" => trx.rollback().expect("rollback"),
            "committed" => trx.commit().expect("commit"),
            _ => std::mem::forget(trx),
        }
    }
    db.engine().flush_log().expect("flush");
    db.engine().close(Close::LogOnly).expect("close");
    let (code, text) = check(&[], &folder.0);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("transactions that did not end: 2"), "{text}");
    for name in names {
        let (code, text) = check(&["--dump", name], &folder.0);
        assert_eq!(code, Some(0), "{name}: {text}");
        let saved = text.lines().filter(|line| line.contains('\t')).count();
        assert_eq!(saved, if name == "committed" { 20_000 } else { 0 }, "{name}");
    }
}

/// Loads of tables that no connection has opened, cut short before a row is linked. And a load of a
/// copy that ALTER TABLE made, when rows are linked and their entries are not. The server drops
/// such tables when it starts again.
#[test]
fn loads_into_new_tables_that_were_cut_short_leave_a_sound_directory() {
    let folder = Folder::new("copies");
    let mut config = config();
    config.store.bulk_load_min = 0;
    let db = open(&folder.0, config).expect("opens");
    for name in ["./d/t", "./d/#sql-alter-1-1"] {
        let table = make(&db, name, &["by_rest"]);
        let load = db.engine().store().loads().begin_load(&table).expect("look");
        let mut load = load.expect("an empty table");
        let mut add = |n: u32| {
            let pk = n.to_be_bytes();
            let key = entry_key(n, &pk);
            load.add(&pk, &row(n % 96 + 1), &[entry(&key)]).expect("add");
        };
        (1..20_000).for_each(&mut add);
        if name != "./d/t" {
            // Out of order: what came before is linked.
            add(0);
        }
        std::mem::forget(load);
    }
    db.engine().flush_log().expect("flush");
    db.engine().close(Close::LogOnly).expect("close");
    let (code, text) = check(&[], &folder.0);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("#sql-alter-1-1: 20000 rows"), "{text}");
    assert_eq!(text.matches("a load into it was cut short").count(), 2, "{text}");
    assert_eq!(check(&["--dump", "d.t"], &folder.0).0, Some(0));
}

//! Broken pages (`table/catalog/index_quarantine.rs`): each kind is broken on disk between two runs
//! of the engine. What can go on must go on, nothing may be answered wrongly, and the error names
//! the place.
use super::fixture::{config, pk, spec, with_entries, Row, TableFixture, BY_GROUP, BY_TAG};
use crate::base::bytes::get_u32;
use crate::base::ids::{FIRST_TABLE_FILE, UNDO_FILE};
use crate::base::{Error, FileId, Result};
use crate::btree::Seek;
use crate::change::DELTA_BIT;
use crate::engine::{Close, Engine, LogSink};
use crate::io::{Caching, Disk, Mode, SimDisk};
use crate::pool::page::{page_index, page_level, page_type};
use crate::pool::{PageType, PAGE_SIZE};
use crate::space::file_name;
use crate::table::*;
use crate::txn::{Isolation, LockMode};
use parking_lot::Mutex;
use std::sync::Arc;

pub const ROWS: u32 = 2000;

pub fn row(n: u32) -> Row {
    Row {
        group: (n % 7) as u8,
        shade: (n % 3) as u8,
        tag: Some(n as u16),
        body: vec![n as u8; 60],
    }
}

/// Table t with its indexes, and table u beside it, closed.
pub fn filled() -> Arc<SimDisk> {
    filled_from(7)
}
pub fn filled_from(seed: u64) -> Arc<SimDisk> {
    let disk = SimDisk::new(seed);
    let fixture = TableFixture::create(disk.clone());
    fixture.store().tables().create_table("u", &spec()).expect("create");
    let other = fixture.store().tables().open_table("u").expect("open");
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    for n in 0..ROWS {
        fixture.insert(&mut trx, &pk(n), &row(n)).expect("insert");
    }
    with_entries(&pk(1), &row(1), |entries| {
        fixture
            .store()
            .rows()
            .insert(&mut trx, &other, &NewRow::new(&pk(1), &row(1).encode(), entries), false)
    })
    .expect("insert into u");
    fixture.engine.commit(&mut trx, true).expect("commit");
    fixture.engine.close(Close::Slow).expect("close");
    disk
}

/// Overwrites the first page that `wanted` (type, level, index) with what `change` makes of it.
pub fn damage(disk: &SimDisk, file: FileId, wanted: impl Fn(u8, u8, u32) -> bool, change: impl Fn(&mut [u8])) -> u32 {
    let name = file_name(file);
    let bytes = disk.bytes(&name).expect("the file is there");
    let is_wanted =
        |page: &[u8]| get_u32(page, 4) == file && wanted(page_type(page), page_level(page), page_index(page));
    let no = bytes
        .chunks_exact(PAGE_SIZE)
        .rposition(is_wanted)
        .expect("there is such a page");
    let mut page = bytes[no * PAGE_SIZE..][..PAGE_SIZE].to_vec();
    change(&mut page);
    let open = disk.open(&name, Mode::Open, Caching::Buffered).expect("open");
    open.write_at(&page, (no * PAGE_SIZE) as u64).expect("write");
    open.sync().expect("sync");
    no as u32
}

pub fn flip(page: &mut [u8]) {
    page[PAGE_SIZE / 2] ^= 4;
}
pub fn leaf_of(index: u32) -> impl Fn(u8, u8, u32) -> bool {
    move |kind, level, of| kind == PageType::Tree as u8 && level == 0 && of == index
}

/// The engine on that disk, and the lines that it logged.
pub fn reopen(disk: &Arc<SimDisk>) -> (TableFixture, Arc<Mutex<Vec<String>>>) {
    reopen_with(disk, config().open_files)
}
pub fn reopen_with(disk: &Arc<SimDisk>, open_files: u32) -> (TableFixture, Arc<Mutex<Vec<String>>>) {
    let logged: Arc<Mutex<Vec<String>>> = Arc::default();
    let into = logged.clone();
    let log: LogSink = Arc::new(move |level, text: &str| into.lock().push(format!("{level:?}: {text}")));
    let config = crate::engine::Config {
        log,
        open_files,
        ..config()
    };
    let engine = Engine::open_still(disk.clone(), config).expect("opens");
    // A buffered change does not meet the broken leaf.
    engine.set("change_buffering", 0).expect("set");
    engine
        .store()
        .merge_scheduler()
        .drain_changes()
        .expect("nothing is pending, and that is known");
    let table = engine.store().tables().open_table("t").expect("table");
    (TableFixture { engine, table }, logged)
}

pub fn count(fixture: &TableFixture, table: &Arc<Table>, index: u32) -> Result<u64> {
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    let mut cursor = fixture.store().cursor(table.clone());
    let mut scan = || -> Result<u64> {
        cursor.begin(&mut trx, index, LockChoice::default(), index > 0)?;
        let mut rows = 0;
        let mut more = cursor.seek(&mut trx, Seek::First, &[])?;
        while more {
            rows += 1;
            more = cursor.next(&mut trx)?;
        }
        Ok(rows)
    };
    let counted = scan();
    fixture.engine.commit(&mut trx, false)?;
    counted.map_err(|e| fixture.store().name_damage(e))
}

/// Table u is read and written, and the engine lives.
pub fn others_serve_on(fixture: &TableFixture, n: u32) {
    let other = fixture.store().tables().open_table("u").expect("open u");
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    with_entries(&pk(n), &row(n), |entries| {
        fixture
            .store()
            .rows()
            .insert(&mut trx, &other, &NewRow::new(&pk(n), &row(n).encode(), entries), false)
    })
    .expect("insert into u");
    fixture.engine.commit(&mut trx, true).expect("commit");
    assert!(count(fixture, &other, 0).expect("u can be read") >= 2);
    fixture.engine.checkpoint().expect("pages and checkpoint are written");
}

pub fn text(error: Error) -> String {
    assert!(error.is_corrupt(), "{error}");
    error.to_string()
}

/// The indexes' numbers: (by_group, by_tag, clustered).
pub fn numbers(fixture: &TableFixture) -> [u32; 3] {
    let layout = fixture.table.layout();
    [
        layout.secondary[0].index.id,
        layout.secondary[1].index.id,
        layout.clustered.id,
    ]
}

#[test]
fn a_secondary_index_that_a_rollback_cannot_reach_is_quarantined_and_rebuilt() {
    let disk = filled();
    let (fixture, _) = reopen(&disk);
    let [by_group, ..] = numbers(&fixture);
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    for n in ROWS..ROWS + 200 {
        fixture.insert(&mut trx, &pk(n), &row(n)).expect("insert");
    }
    // As a crash leaves it: the changes are in the log, and the pages are broken.
    fixture.engine.checkpoint().expect("checkpoint");
    let disk = disk.crash(1);
    let page = damage(&disk, FIRST_TABLE_FILE, leaf_of(by_group), flip);
    let (fixture, logged) = reopen(&disk);
    let losers = fixture.engine.in_doubt.take_losers();
    let mut losers = crate::engine::steps::LoserRollback::new(losers);
    while losers.step(fixture.store(), 64).expect("the index is left out") {}
    let logged = logged.lock().join("\n");
    for word in [
        "table t",
        "index by_group",
        "00000010.slu",
        &format!("page {page}"),
        "REPAIR TABLE",
        "quarantined",
    ] {
        assert!(logged.contains(word), "{word} is missing in: {logged}");
    }
    assert_eq!(count(&fixture, &fixture.table, 0), Ok(ROWS as u64));
    assert_eq!(count(&fixture, &fixture.table, BY_TAG), Ok(ROWS as u64));
    assert!(text(count(&fixture, &fixture.table, BY_GROUP).unwrap_err()).contains("index by_group is quarantined"));
    let status = fixture.engine.status_text();
    assert!(
        status.contains("Quarantined secondary indexes: 1 (by_group of table t)"),
        "{status}"
    );
    others_serve_on(&fixture, 2);
    // Rows are changed without it, also after a restart.
    let disk = disk.crash(2);
    let (fixture, _) = reopen(&disk);
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    fixture.insert(&mut trx, &pk(ROWS + 1), &row(ROWS + 1)).expect("insert");
    fixture.delete(&mut trx, &pk(5), &row(5)).expect("delete");
    fixture.engine.commit(&mut trx, true).expect("commit");
    assert!(count(&fixture, &fixture.table, BY_GROUP).is_err());
    rebuild_by_group(&fixture);
    assert_eq!(count(&fixture, &fixture.table, BY_GROUP), Ok(ROWS as u64));
    assert!(fixture
        .engine
        .status_text()
        .contains("Quarantined secondary indexes: 0\n"));
    assert!(
        fixture.table.layout().freeing.is_empty(),
        "the old tree's pages were freed"
    );
    fixture.check_table();
}

/// What REPAIR TABLE does.
pub fn rebuild_by_group(fixture: &TableFixture) {
    let store = fixture.store();
    let mut trx = fixture.begin(Isolation::ReadUncommitted);
    let mut build = store
        .indexes()
        .begin_build(&fixture.table, &spec().indexes[0])
        .expect("begin");
    let mut cursor = store.cursor(fixture.table.clone());
    cursor.begin(&mut trx, 0, LockChoice::default(), false).expect("scan");
    let mut more = cursor.seek(&mut trx, Seek::First, &[]).expect("seek");
    while more {
        let found = cursor.found().expect("a row");
        let row = Row::decode(found.row);
        build
            .add(&row.group_key(found.pk), 2, false, &[row.shade])
            .expect("add");
        more = cursor.next(&mut trx).expect("next");
    }
    build.finish(&trx).expect("finish");
    fixture.engine.commit(&mut trx, false).expect("end");
    let change = IndexChange {
        table: &fixture.table,
        drop: vec!["by_group"],
        rename: vec![],
        add: vec![&build],
        order: vec!["by_group", "by_tag"],
        change_buffering: None,
        schema: &[],
        keys: Default::default(),
    };
    store.indexes().alter_indexes(&[change]).expect("published");
}

#[test]
fn a_broken_clustered_page_makes_the_rollback_wait_and_nothing_else() {
    let disk = filled();
    let (fixture, _) = reopen(&disk);
    let [_, _, clustered] = numbers(&fixture);
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    for n in 0..ROWS {
        fixture.delete(&mut trx, &pk(n), &row(n)).expect("delete");
    }
    fixture.engine.checkpoint().expect("checkpoint");
    let disk = disk.crash(1);
    let page = damage(&disk, FIRST_TABLE_FILE, leaf_of(clustered), |page| page.fill(0));
    let (fixture, logged) = reopen(&disk);
    let found = fixture.engine.in_doubt.take_losers();
    let mut losers = crate::engine::steps::LoserRollback::new(found);
    let stopped = loop {
        match losers.step(fixture.store(), 64) {
            Ok(more) => assert!(more, "the broken page is in the way"),
            Err(e) => break e,
        }
    };
    losers.put_off_current(fixture.store(), &stopped);
    assert_eq!(fixture.store().rollbacks().rollbacks_waiting(), 1);
    let named = text(fixture.store().name_damage(stopped));
    for word in [
        "table t",
        "clustered index",
        "00000010.slu",
        &format!("page {page}"),
        "restore",
    ] {
        assert!(named.contains(word), "{word} is missing in: {named}");
    }
    assert!(
        logged.lock().iter().any(|line| line.contains("waits")),
        "{:?}",
        logged.lock()
    );
    assert!(text(count(&fixture, &fixture.table, 0).unwrap_err()).contains("all zeros"));
    others_serve_on(&fixture, 2);
    assert_eq!(fixture.store().rollbacks().retry_rollback(64), Ok(false));
    // Once the table is gone, nothing is left to undo.
    fixture.store().tables().close_table(&fixture.table);
    fixture.store().tables().drop_table("t").expect("drop");
    while fixture.store().rollbacks().retry_rollback(64).expect("it can go on") {}
    assert_eq!(fixture.store().rollbacks().rollbacks_waiting(), 0);
    let last = logged.lock().pop().expect("logged");
    assert!(last.starts_with("Info: ") && last.ends_with("is finished"), "{last}");
}

#[test]
fn a_statement_that_cannot_be_undone_dooms_its_transaction() {
    let disk = filled();
    let (fixture, _) = reopen(&disk);
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    let savepoint = fixture.store().rollbacks().savepoint(&trx);
    fixture.delete(&mut trx, &pk(3), &row(3)).expect("delete");
    let layout = fixture.table.layout();
    let page = layout
        .clustered
        .tree
        .get(&fixture.store().pool, &pk(3))
        .expect("read")
        .expect("there")
        .page_no();
    // Its page is written, forgotten and broken.
    fixture.engine.checkpoint().expect("checkpoint");
    disk.flip(&file_name(FIRST_TABLE_FILE), page as u64 * PAGE_SIZE as u64 + 5000, 1);
    fixture.store().pool.discard_file(FIRST_TABLE_FILE);
    assert!(fixture
        .store()
        .rollbacks()
        .rollback_to(&mut trx, savepoint)
        .is_err_and(|e| e.is_corrupt()));
    assert!(
        fixture.insert(&mut trx, &pk(ROWS), &row(ROWS)).is_err(),
        "it may do nothing more"
    );
    assert!(
        fixture.engine.commit(&mut trx, true).is_err(),
        "half a statement is not committed"
    );
    assert_eq!(fixture.store().rollbacks().rollbacks_waiting(), 1);
    others_serve_on(&fixture, 2);
    // The page comes back: so does the row.
    disk.flip(&file_name(FIRST_TABLE_FILE), page as u64 * PAGE_SIZE as u64 + 5000, 1);
    while fixture.store().rollbacks().retry_rollback(64).expect("it can go on") {}
    assert_eq!(count(&fixture, &fixture.table, 0), Ok(ROWS as u64));
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    assert_eq!(
        fixture.get(&mut trx, &pk(3), Some(LockMode::Exclusive)),
        Ok(Some(row(3))),
        "and it is not locked"
    );
    fixture.engine.rollback(&mut trx).expect("rollback");
}

#[test]
fn purge_passes_over_what_is_broken() {
    for broken in 0..3 {
        let disk = filled();
        let (fixture, _) = reopen(&disk);
        let [by_group, _, clustered] = numbers(&fixture);
        let mut trx = fixture.begin(Isolation::ReadCommitted);
        for n in 0..ROWS / 2 {
            fixture.delete(&mut trx, &pk(n), &row(n)).expect("delete");
        }
        fixture.engine.commit(&mut trx, true).expect("commit");
        fixture.engine.close(Close::Fast).expect("close");
        match broken {
            0 => damage(&disk, FIRST_TABLE_FILE, leaf_of(by_group), flip),
            1 => damage(&disk, FIRST_TABLE_FILE, leaf_of(clustered), flip),
            _ => damage(
                &disk,
                FIRST_TABLE_FILE,
                |kind, _, _| kind == PageType::Bitmap as u8,
                flip,
            ),
        };
        let (fixture, logged) = reopen(&disk);
        while fixture.store().purger().purge_step(100).expect("it goes on") {}
        assert_eq!(fixture.store().trx_sys.undo.history_length(), 0);
        let logged = logged.lock().join("\n");
        assert!(
            logged.contains("purge passes over") && logged.contains("table t"),
            "{logged}"
        );
        others_serve_on(&fixture, 2);
        fixture
            .engine
            .close(Close::Slow)
            .expect("a slow close is none the worse");
    }
}

#[test]
fn a_broken_undo_page_stops_the_purge_of_its_stream_only() {
    let disk = filled();
    let (fixture, _) = reopen(&disk);
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    let mut beside = fixture.begin(Isolation::ReadCommitted);
    fixture.delete(&mut beside, &pk(9), &row(9)).expect("delete");
    for n in 100..100 + ROWS / 2 {
        fixture.delete(&mut trx, &pk(n), &row(n)).expect("delete");
    }
    fixture.engine.checkpoint().expect("checkpoint");
    fixture.engine.commit(&mut beside, true).expect("commit");
    fixture.engine.commit(&mut trx, true).expect("commit");
    // In the middle of the longer stream: while it runs the engine does not read there again but
    // for purge.
    let undo = disk.bytes(&file_name(UNDO_FILE)).expect("there");
    let page = |no: &usize| &undo[no * PAGE_SIZE..];
    // Its stream goes on after it.
    let is_middle = |no: &usize| page_type(page(no)) == PageType::Undo as u8 && get_u32(page(no), 32) != 0;
    let pages: Vec<usize> = (2..undo.len() / PAGE_SIZE).filter(is_middle).collect();
    let no = pages[pages.len() / 2];
    fixture.engine.checkpoint().expect("checkpoint");
    disk.flip(&file_name(UNDO_FILE), (no * PAGE_SIZE + 3000) as u64, 1);
    fixture.store().pool.discard_file(UNDO_FILE);
    let mut failed = 0;
    loop {
        match fixture.store().purger().purge_step(100) {
            Ok(true) => {}
            Ok(false) => break,
            Err(e) => {
                failed += 1;
                assert!(text(fixture.store().name_damage(e)).contains("undo"));
                assert!(failed < 3, "the stream is left alone");
            }
        }
    }
    assert_eq!(failed, 1);
    others_serve_on(&fixture, 2);
}

#[test]
fn recovery_leaves_out_a_page_that_it_cannot_read() {
    let disk = filled();
    let (fixture, _) = reopen(&disk);
    let [by_group, by_tag, _] = numbers(&fixture);
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    for n in ROWS..ROWS + 200 {
        fixture.insert(&mut trx, &pk(n), &row(n)).expect("insert");
    }
    fixture.engine.commit(&mut trx, true).expect("commit");
    let disk = disk.crash(3);
    damage(&disk, FIRST_TABLE_FILE, leaf_of(by_tag), flip);
    let (fixture, logged) = reopen(&disk);
    assert!(
        logged
            .lock()
            .iter()
            .any(|line| line.contains("table t") && line.contains("page")),
        "{:?}",
        logged.lock()
    );
    assert_eq!(count(&fixture, &fixture.table, 0), Ok(ROWS as u64 + 200));
    assert_eq!(count(&fixture, &fixture.table, BY_GROUP), Ok(ROWS as u64 + 200));
    assert!(text(count(&fixture, &fixture.table, BY_TAG).unwrap_err()).contains("by_tag"));
    assert_ne!(by_group | DELTA_BIT, by_tag);
    others_serve_on(&fixture, 2);
}

#[test]
fn a_file_that_ends_early_is_a_broken_file() {
    let disk = filled();
    let name = file_name(FIRST_TABLE_FILE);
    let file = disk.open(&name, Mode::Open, Caching::Buffered).expect("open");
    file.set_len(3 * PAGE_SIZE as u64).expect("cut");
    file.sync().expect("sync");
    let logged: Arc<Mutex<Vec<String>>> = Arc::default();
    let engine = Engine::open_still(disk.clone(), config()).expect("opens");
    let opened = engine.store().tables().open_table("t");
    // Its header says how long it should be: it is made so, and the pages are found to be
    // unwritten.
    let table = opened.expect("the header can be read");
    let fixture = TableFixture { engine, table };
    assert!(text(count(&fixture, &fixture.table, 0).unwrap_err()).contains("table t"));
    assert!(logged.lock().is_empty());
    others_serve_on(&fixture, 2);
}

/// The page that is to take the end marker was written and forgotten, and is broken when COMMIT
/// comes: this used to stop the engine.
#[test]
fn a_commit_that_cannot_be_written_is_undone() {
    let disk = filled();
    let (fixture, _) = reopen(&disk);
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    fixture.delete(&mut trx, &pk(3), &row(3)).expect("delete");
    let at = trx.undo_top().page as u64 * PAGE_SIZE as u64 + 5000;
    fixture.engine.checkpoint().expect("checkpoint");
    disk.flip(&file_name(UNDO_FILE), at, 1);
    fixture.store().pool.discard_file(UNDO_FILE);
    assert!(fixture.engine.commit(&mut trx, true).is_err_and(|e| e.is_corrupt()));
    assert_eq!(fixture.store().rollbacks().rollbacks_waiting(), 1);
    fixture.store().pool.check_alive().expect("the engine goes on");
    others_serve_on(&fixture, 2);
    assert_eq!(fixture.store().rollbacks().retry_rollback(64), Ok(false), "not yet");
    // The page comes back.
    disk.flip(&file_name(UNDO_FILE), at, 1);
    waiting_rollback_ends(&fixture);
}

/// The rollback that waits restores row 3 and releases its lock.
fn waiting_rollback_ends(fixture: &TableFixture) {
    while fixture.store().rollbacks().retry_rollback(64).expect("it can go on") {}
    assert_eq!(fixture.store().rollbacks().rollbacks_waiting(), 0);
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    assert_eq!(
        fixture.get(&mut trx, &pk(3), Some(LockMode::Exclusive)),
        Ok(Some(row(3)))
    );
    fixture.engine.rollback(&mut trx).expect("rollback");
}

/// The statement that failed had undone everything. Then the page that was to take the end marker
/// could not be read. The engine went on and left the transaction as it was: its rows locked,
/// without an owner to end it. Then it stopped the engine.
#[test]
fn a_rollback_whose_end_cannot_be_read_waits() {
    let disk = filled();
    let (fixture, _) = reopen(&disk);
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    let savepoint = fixture.store().rollbacks().savepoint(&trx);
    fixture.delete(&mut trx, &pk(3), &row(3)).expect("delete");
    fixture
        .store()
        .rollbacks()
        .rollback_to(&mut trx, savepoint)
        .expect("the part");
    fixture.engine.checkpoint().expect("checkpoint");
    fixture.store().pool.discard_file(UNDO_FILE);
    disk.fail_read(disk.reads() + 1);
    let done = fixture.engine.rollback(&mut trx);
    assert!(matches!(done, Err(Error::Io(_))), "{done:?}");
    fixture.store().pool.check_alive().expect("the engine goes on");
    assert_eq!(fixture.store().rollbacks().rollbacks_waiting(), 1);
    waiting_rollback_ends(&fixture);
    fixture.check_table();
}

/// The check ended after the first index with a broken leaf. A broken free-space map was reported
/// as damage of every index.
#[test]
fn a_check_names_all_that_is_broken_and_nothing_else() {
    let disk = filled();
    let [by_group, by_tag, _] = numbers(&reopen(&disk).0);
    damage(&disk, FIRST_TABLE_FILE, leaf_of(by_group), flip);
    damage(&disk, FIRST_TABLE_FILE, leaf_of(by_tag), flip);
    for level in [CheckLevel::Quick, CheckLevel::Medium] {
        let (fixture, _) = reopen(&disk);
        let findings = fixture.findings(&mut fixture.begin(Isolation::ReadCommitted), level);
        for index in ["index by_group", "index by_tag"] {
            let named = |line: &&String| line.contains(index) && line.contains("REPAIR TABLE");
            assert_eq!(findings.iter().filter(named).count(), 1, "{index}: {findings:#?}");
        }
    }
    let disk = filled();
    damage(
        &disk,
        FIRST_TABLE_FILE,
        |kind, _, _| kind == PageType::Bitmap as u8,
        flip,
    );
    let (fixture, _) = reopen(&disk);
    let findings = fixture.findings(&mut fixture.begin(Isolation::ReadCommitted), CheckLevel::Medium);
    assert!(
        findings.len() == 1 && findings[0].contains("ALTER TABLE ... FORCE"),
        "{findings:#?}"
    );
}

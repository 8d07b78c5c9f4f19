//! The checker against directories that the engine made: the formats as they are, not as they were
//! drawn once.
mod loads;
mod log;
mod references;
mod reopen;

use reopen::open;
use sluice::engine::{Close, Config, Database};
use sluice::table::{Entry, IndexSpec, Table, TableSpec};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

const PAGE: u64 = 16384;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("sluice-check-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }
}
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn config() -> Config {
    Config {
        buffer_pool_size: 4 << 20,
        redo_log_capacity: 16 << 20,
        redo_log_buffer_size: 1 << 20,
        io_capacity: 200,
        io_capacity_max: 2000,
        // Everything is buffered, and waits.
        change_buffer_test_mode: 3,
        ..Config::default()
    }
}

fn row(n: u32) -> Vec<u8> {
    vec![n as u8; if n % 97 == 0 { 40_000 } else { 100 }]
}
fn entry_key(n: u32, pk: &[u8]) -> Vec<u8> {
    [&(n % 13).to_be_bytes()[..], pk].concat()
}

fn entry(key: &[u8]) -> Entry<'_> {
    Entry {
        index: 0,
        user_key_len: 4,
        has_null: false,
        key,
        value: b"raw",
    }
}

/// A table of keys of four bytes, with such indexes.
fn make(db: &Database, name: &str, indexes: &[&str]) -> Arc<Table> {
    let index = |name: &&str| IndexSpec {
        name: name.to_string(),
        unique: false,
        wide: false,
        ..IndexSpec::default()
    };
    let spec = TableSpec {
        pk_fixed_len: 4,
        indexes: indexes.iter().map(index).collect(),
        ..TableSpec::default()
    };
    db.create_table(name, &spec).expect("create");
    db.table(name).expect("open")
}

/// Commits rows, deletes some, leaves a transaction unfinished, and ends as `how`. Returns the
/// committed rows.
fn fill(dir: &Path, how: Close) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let db = open(dir, config()).expect("opens");
    let table = make(&db, "./d/t", &["by_rest"]);
    let mut rows = BTreeMap::new();
    for batch in 0..6u32 {
        let mut trx = db.begin();
        for n in batch * 500..(batch + 1) * 500 {
            let pk = n.wrapping_mul(2_654_435_761u32).to_be_bytes().to_vec();
            let key = entry_key(n, &pk);
            let entry = entry(&key);
            trx.insert(&table, &pk, &row(n), &[entry]).expect("insert");
            if n % 10 == 3 && batch > 3 {
                trx.delete(&table, &pk, &[entry]).expect("delete");
            } else {
                rows.insert(pk, row(n));
            }
        }
        // The last one does not end.
        if batch == 5 && how == Close::LogOnly {
            db.engine().flush_log().expect("flush");
            rows.retain(|pk, _| (0..2500u32).any(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[..] == pk[..]));
            std::mem::forget(trx);
        } else {
            trx.commit().expect("commit");
        }
    }
    db.engine().close(how).expect("close");
    rows
}

fn check(arguments: &[&str], dir: &Path) -> (Option<i32>, String) {
    let output: Output = Command::new(env!("CARGO_BIN_EXE_sluice-check"))
        .arg(dir)
        .args(arguments)
        .output()
        .expect("runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

fn flip(dir: &Path, file: &str, offset: u64) {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(dir.join(file))
        .expect("open");
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).expect("read");
    file.write_all_at(&[byte[0] ^ 4], offset).expect("write");
}

#[test]
fn what_the_engine_left_is_sound() {
    for (name, how) in [("slow", Close::Slow), ("fast", Close::Fast), ("crash", Close::LogOnly)] {
        let folder = Folder::new(name);
        let rows = fill(&folder.0, how);
        let (code, text) = check(&[], &folder.0);
        assert_eq!(code, Some(0), "{name}: {text}");
        assert!(text.contains("everything is sound"), "{text}");
        let (_, counts) = text.split_once("entries + buffered: by_rest ").expect("told");
        let (counts, _) = counts.split_once(';').expect("told");
        let buffered = counts.split_once('+').map(|(_, buffered)| buffered.parse::<u64>());
        assert_eq!(
            buffered.expect("told").expect("a number") > 0,
            how != Close::Slow,
            "{name}: {text}"
        );
        let (code, text) = check(&["--dump", "d.t"], &folder.0);
        assert_eq!(code, Some(0), "{name}: {text}");
        let hex = |b: &[u8]| b.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let found: BTreeMap<&str, &str> = text
            .lines()
            .filter(|l| !l.starts_with('#'))
            .filter_map(|l| l.split_once('\t'))
            .collect();
        assert_eq!(found.len(), rows.len(), "{name}");
        for (pk, row) in &rows {
            assert_eq!(found.get(&hex(pk)[..]), Some(&&hex(row)[..]), "{name}: {}", hex(pk));
        }
    }
}

/// Nodes of four pages, of rows and of an index; then a broken page in the middle of one.
#[test]
fn wide_nodes_are_read_as_one() {
    let folder = Folder::new("wide");
    let db = open(&folder.0, config()).expect("opens");
    let spec = TableSpec {
        wide_pk: true,
        indexes: vec![IndexSpec {
            name: "by_rest".into(),
            unique: false,
            wide: true,
            ..IndexSpec::default()
        }],
        ..TableSpec::default()
    };
    db.create_table("./d/t", &spec).expect("create");
    let table = db.table("./d/t").expect("open");
    let mut trx = db.begin();
    for n in 0..40u8 {
        let pk = [&[b'p'; 6000][..], &[n, 1]].concat();
        let user_key = [&[n % 3; 6000][..], &[255]].concat();
        let key = [&user_key[..], &pk].concat();
        let entry = Entry {
            user_key_len: user_key.len() as u32,
            ..entry(&key)
        };
        trx.insert(&table, &pk, b"a row", &[entry]).expect("insert");
    }
    trx.commit().expect("commit");
    db.engine().close(Close::LogOnly).expect("close");
    drop((db, table));
    let (code, text) = check(&[], &folder.0);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("everything is sound"), "{text}");
    let (code, text) = check(&["--dump", "d.t"], &folder.0);
    assert_eq!((code, text.lines().filter(|l| l.contains('\t')).count()), (Some(0), 40));

    let db = open(&folder.0, config()).expect("opens");
    db.engine().close(Close::Slow).expect("close");
    let file = std::fs::read(folder.0.join("00000010.slu")).expect("read");
    let rest = file
        .chunks(16 << 10)
        .position(|page| page[24] == 8)
        .expect("a page of that type");
    flip(&folder.0, "00000010.slu", (rest as u64) * (16 << 10) + 9000);
    let (code, text) = check(&[], &folder.0);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(&format!("page {rest}")), "{text}");
}

/// The root of a tree with a broken page is freed last. A crash comes before: the root points to
/// pages that are free already.
#[test]
fn a_tree_that_is_half_freed_is_no_finding() {
    let folder = Folder::new("half-freed");
    fill(&folder.0, Close::Slow);
    let db = open(&folder.0, config()).expect("opens");
    let table = db.table("./d/t").expect("open");
    let spec = IndexSpec {
        name: "built".into(),
        unique: false,
        wide: false,
        ..IndexSpec::default()
    };
    let mut build = db
        .engine()
        .store()
        .indexes()
        .begin_build(&table, &spec)
        .expect("begins");
    for n in 0..20_000u32 {
        build.add(&entry_key(n, &n.to_be_bytes()), 4, false, b"").expect("add");
    }
    let mut trx = db.begin();
    build.finish(trx.trx()).expect("finish");
    trx.commit().expect("commit");
    std::mem::forget(build);
    db.engine().close(Close::Fast).expect("close");
    assert_eq!(check(&[], &folder.0).0, Some(0), "nothing is freed yet");
    let path = folder.0.join("00000010.slu");
    let mut bytes = std::fs::read(&path).expect("read");
    let number = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4"));
    let is_tree = |page: &[u8]| page[24] == 3;
    let pages: Vec<&[u8]> = bytes.chunks(PAGE as usize).collect();
    let last = pages
        .iter()
        .filter(|page| is_tree(page))
        .map(|page| number(page, 12) & !(1 << 31));
    let built = last.max().expect("an index");
    let leaf = |page: &&[u8]| is_tree(page) && page[25] == 0 && number(page, 12) == built;
    let no = pages.iter().position(leaf).expect("a leaf");
    // As a page is freed: its kind, its bit in the bitmap, the count of pages in use.
    bytes[no * PAGE as usize + 24] = 0;
    bytes[PAGE as usize + 64 + (no - 1) / 8] ^= 1 << ((no - 1) % 8);
    let used = number(&bytes, 60) - 1;
    bytes[60..64].copy_from_slice(&used.to_le_bytes());
    for no in [0, 1, no] {
        let page = &mut bytes[no * PAGE as usize..(no + 1) * PAGE as usize];
        let crc = crc32c::crc32c(&page[4..]);
        page[..4].copy_from_slice(&crc.to_le_bytes());
    }
    std::fs::write(&path, bytes).expect("written");
    let (code, text) = check(&[], &folder.0);
    assert_eq!(code, Some(0), "{text}");
}

/// The undo file is truncated while its pages' changes are still in the log. A crash comes between
/// the log record and the truncation.
#[test]
fn an_undo_file_that_was_cut_is_sound_as_long_and_as_short() {
    let folder = Folder::new("cut");
    let mut config = config();
    config.store.undo_pages_kept = 8;
    let db = open(&folder.0, config.clone()).expect("opens");
    let table = make(&db, "t", &[]);
    let undo = folder.0.join("00000002.slu");
    let mut before = Vec::new();
    for round in 0..2 {
        let mut trx = db.begin();
        for n in 0..1500u32 {
            match round {
                0 => trx
                    .insert(&table, &n.to_be_bytes(), &[n as u8; 2000], &[])
                    .expect("insert"),
                _ => trx
                    .update(&table, &n.to_be_bytes(), &[!n as u8; 2000], &[])
                    .expect("update"),
            }
        }
        // All of it is still needed.
        before = std::fs::read(&undo).expect("read");
        trx.commit().expect("commit");
    }
    let is_cut = || db.engine().counters().undo_pages_cut.get() > 0;
    let come = (0..600).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        is_cut()
    });
    assert!(come, "nothing was cut");
    db.engine().flush_log().expect("flush");
    db.engine().close(Close::LogOnly).expect("close");
    drop((table, db));
    let short = std::fs::metadata(&undo).expect("metadata").len();
    assert!(short < before.len() as u64 / 2, "{short} of {}", before.len());
    let sound = |what: &str| {
        let (code, text) = check(&[], &folder.0);
        assert_eq!(code, Some(0), "{what}: {text}");
    };
    sound("cut");
    let file = OpenOptions::new().write(true).open(&undo).expect("open");
    file.write_all_at(&before[short as usize..], short).expect("write");
    sound("before the truncation");
    let db = open(&folder.0, config).expect("opens");
    db.close().expect("close");
    let end = std::fs::metadata(&undo).expect("metadata").len();
    assert!(end < before.len() as u64 / 2, "the start left {end} bytes");
    sound("started again");
}

#[test]
fn every_broken_page_is_named() {
    let folder = Folder::new("broken");
    fill(&folder.0, Close::Slow);
    for file in ["00000001.slu", "00000002.slu", "00000010.slu"] {
        let pages = std::fs::metadata(folder.0.join(file)).expect("there").len() / PAGE;
        for no in 0..pages {
            let bytes = std::fs::read(folder.0.join(file)).expect("read");
            let page = &bytes[(no * PAGE) as usize..((no + 1) * PAGE) as usize];
            // By the file's only bitmap, page 1.
            let in_use = no == 0 || bytes[PAGE as usize + 64 + (no as usize - 1) / 8] >> ((no - 1) % 8) & 1 == 1;
            if page.iter().all(|b| *b == 0) || !in_use {
                continue;
            }
            flip(&folder.0, file, no * PAGE + 5000);
            let (code, text) = check(&["--quiet"], &folder.0);
            assert_eq!(code, Some(1), "{file} page {no}: {text}");
            assert!(
                text.contains(&format!("{file} page {no}")) || text.contains(&format!("page {no}:")),
                "{file} page {no}: {text}"
            );
            flip(&folder.0, file, no * PAGE + 5000);
        }
    }
    assert_eq!(check(&[], &folder.0).0, Some(0), "all is as it was");
}

#[test]
fn a_broken_log_and_a_missing_file_are_named() {
    let folder = Folder::new("log");
    fill(&folder.0, Close::LogOnly);
    let (_, text) = check(&[], &folder.0);
    assert!(!text.contains("log: 0 groups"), "there is something to apply: {text}");
    // How broken the tables look without the log depends on what the page cleaner has written. That
    // pages are older does not.
    let (_, text) = check(&["--no-redo"], &folder.0);
    assert!(
        text.contains("pages are older than the log") && !text.contains("up to 0 pages"),
        "{text}"
    );
    flip(&folder.0, "redo_control", 30);
    flip(&folder.0, "redo_control", 4096 + 30);
    let (code, text) = check(&[], &folder.0);
    assert!(code == Some(1) && text.contains("redo_control"), "{text}");
    flip(&folder.0, "redo_control", 30);
    flip(&folder.0, "redo_control", 4096 + 30);
    std::fs::remove_file(folder.0.join("00000010.slu")).expect("removed");
    let (code, text) = check(&[], &folder.0);
    assert!(code == Some(1) && text.contains("00000010.slu is missing"), "{text}");
    assert_eq!(check(&[], Path::new("/nonexistent")).0, Some(2));
}

#[test]
fn rows_of_whole_pages_are_saved_beside_a_broken_one() {
    let folder = Folder::new("saved");
    let rows = fill(&folder.0, Close::Slow);
    let bytes = std::fs::read(folder.0.join("00000010.slu")).expect("read");
    let clustered_leaf = |page: &[u8]| page[24] == 3 && page[25] == 0 && page[12] == 16;
    let no = bytes.chunks(PAGE as usize).position(clustered_leaf).expect("a leaf") as u64;
    flip(&folder.0, "00000010.slu", no * PAGE + 9000);
    let (code, text) = check(&["--dump", "./d/t"], &folder.0);
    let saved = text.lines().filter(|line| line.contains('\t')).count();
    assert_eq!(code, Some(1));
    assert!(text.contains(&format!("page {no}")), "the broken page is named");
    assert!(
        saved < rows.len() && saved > rows.len() / 2,
        "{saved} of {}",
        rows.len()
    );
}

fn copied(from: &Path, name: &str) -> Folder {
    let to = Folder::new(name);
    std::fs::create_dir_all(&to.0).expect("made");
    for entry in std::fs::read_dir(from).expect("list").flatten() {
        match std::fs::copy(entry.path(), to.0.join(entry.file_name())) {
            // The engine runs: a file may go or be renamed after the listing (spare segments of the
            // log, temporary files).
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            result => drop(result.expect("copied")),
        }
    }
    to
}
/// The engine and the checker say the same of the directory and of a dump. Returns what the checker
/// and the dump say.
fn agree(dir: &Path, what: &str) -> (String, String) {
    let (code, text) = check(&[], dir);
    let (dump_code, dump) = check(&["--dump", "d.t"], dir);
    let opens = match open(dir, config()) {
        Ok(db) => db.engine().close(Close::LogOnly).is_ok(),
        Err(_) => false,
    };
    assert_eq!(
        code,
        Some(!opens as i32),
        "{what}: the engine opens it: {opens}; {text}"
    );
    assert_eq!(dump_code == Some(0), opens, "{what}: the dump ends with {dump_code:?}");
    (text, dump)
}

/// The checker said of a file without a table that the next start removes it. The engine refuses to
/// start, except for a blank file.
#[test]
fn a_file_that_no_table_has_is_judged_as_the_engine_judges_it() {
    for (name, how) in [("strange", Close::Slow), ("strange-killed", Close::LogOnly)] {
        let folder = Folder::new(name);
        fill(&folder.0, how);
        let stray = |bytes: &[u8], what: &str| {
            let copy = copied(&folder.0, &format!("{name}-{what}"));
            std::fs::write(copy.0.join("00000077.slu"), bytes).expect("written");
            let (code, text) = check(&[], &copy.0);
            let refused = open(&copy.0, config()).is_err();
            assert_eq!(code, Some(refused as i32), "{what}: {text}");
            assert_eq!(text.contains("BROKEN 00000077.slu: no table has it"), refused, "{text}");
            assert_eq!(text.contains("the next start removes it"), !refused, "{text}");
            assert_eq!(text.contains("\n1 finding\n"), refused, "{text}");
            refused
        };
        // (The killed engine may not have written a page of the table yet.)
        let written = std::fs::read(folder.0.join("00000001.slu")).expect("read");
        assert!(stray(&written, "copy"));
        assert!(!stray(&[], "empty"));
        assert!(!stray(&[0; 3 * PAGE as usize], "blank"));
        assert!(!stray(&[0; 5000], "short"));
    }
}

/// DROP could not remove the file. The next start does, and it is not reported as a file without a
/// table. (A directory in its place cannot be unlinked.)
#[test]
fn a_dropped_tables_file_that_could_not_be_removed_is_no_finding() {
    let folder = Folder::new("left-over");
    fill(&folder.0, Close::Slow);
    let (file, aside) = (folder.0.join("00000010.slu"), folder.0.join("aside"));
    let db = open(&folder.0, config()).expect("opens");
    db.table("./d/t").expect("open");
    std::fs::rename(&file, &aside).expect("aside");
    std::fs::create_dir(&file).expect("in its place");
    db.drop_table("./d/t").expect("drop");
    db.close().expect("close");
    std::fs::remove_dir(&file).expect("removed");
    std::fs::rename(&aside, &file).expect("back");
    let (code, text) = check(&[], &folder.0);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("00000010.slu: of a dropped table"), "{text}");
    let db = open(&folder.0, config()).expect("opens");
    db.close().expect("close");
    assert!(!file.exists());
    let (code, text) = check(&[], &folder.0);
    assert!(code == Some(0) && !text.contains("00000010"), "{text}");
}

/// The system file names a table's file as one that could not be removed. Neither the engine nor
/// the checker decides.
#[test]
fn a_table_whose_file_is_also_a_dropped_tables_is_refused() {
    let folder = Folder::new("both");
    fill(&folder.0, Close::Slow);
    let system = folder.0.join("00000001.slu");
    let mut bytes = std::fs::read(&system).expect("read");
    bytes[512] = 0x10;
    let crc = crc32c::crc32c(&bytes[4..PAGE as usize]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&system, bytes).expect("written");
    let (code, text) = check(&[], &folder.0);
    assert!(code == Some(1) && text.contains("also named as a dropped"), "{text}");
    assert!(open(&folder.0, config()).is_err());
    assert!(folder.0.join("00000010.slu").exists());
}

/// Written once, without a copy, and torn: what a start restores from the log is whole for the
/// checker.
#[test]
fn a_torn_page_that_the_log_mends_is_sound() {
    let name = "00000010.slu";
    let keys = || (0..2000u32).map(|n| n.to_be_bytes());
    let folder = Folder::new("mended");
    let db = open(&folder.0, config()).expect("opens");
    let table = make(&db, "./d/t", &[]);
    let mut trx = db.begin();
    keys().for_each(|pk| trx.insert(&table, &pk, &[0; 100], &[]).expect("insert"));
    trx.commit().expect("commit");
    let (value, old, torn) = (1..100u8)
        .find_map(|value| {
            db.engine().checkpoint().expect("checkpoint");
            let old = std::fs::read(folder.0.join(name)).expect("read");
            let store = db.engine().store();
            let _hold = store.redo.hold_checkpoint();
            let batches = store.counters.dblwr_writes.get();
            let mut trx = db.begin();
            keys().for_each(|pk| trx.update(&table, &pk, &[value; 100], &[]).expect("update"));
            trx.commit().expect("commit");
            store.pool.flush_all().expect("flush");
            // All in one batch, and none by the page cleaner before: a crash may tear the last
            // batch.
            let torn = copied(&folder.0, "mended-torn");
            (store.counters.dblwr_writes.get() == batches + 1).then_some((value, old, torn))
        })
        .expect("a batch of all");
    let new = std::fs::read(torn.0.join(name)).expect("read");
    let page = PAGE as usize;
    let changed = old.chunks(page).zip(new.chunks(page)).filter(|(old, new)| old != new);
    assert!(changed.count() > 10);
    let sectors = old.chunks(512).zip(new.chunks(512)).enumerate();
    let mixed = sectors.flat_map(|(n, (old, new))| if n % 3 == 1 { old } else { new });
    std::fs::write(torn.0.join(name), mixed.copied().collect::<Vec<u8>>()).expect("written");
    let (code, text) = check(&[], &torn.0);
    assert_eq!(code, Some(0), "{text}");
    let db = open(&torn.0, config()).expect("opens");
    let table = db.table("./d/t").expect("table");
    let mut trx = db.begin();
    keys().for_each(|pk| assert_eq!(trx.get(&table, &pk).expect("get"), Some(vec![value; 100])));
}

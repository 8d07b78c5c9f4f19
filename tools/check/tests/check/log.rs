//! Logs that lack something: segments, an end, the newer control block; and a log that was off.
use super::{agree, config, copied, entry, entry_key, fill, flip, open, row, Folder};
use sluice::engine::Close;
use std::path::Path;

fn segments(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir)
        .expect("list")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("redo_0")).collect();
    names.sort();
    names
}

/// A log whose segments were removed was called sound, with 0 groups, and dumped as if nothing were
/// missing. The engine refuses it.
#[test]
fn missing_segments_are_named_where_the_engine_refuses_them() {
    for (name, how) in [("killed", Close::LogOnly), ("stopped", Close::Slow)] {
        let folder = Folder::new(name);
        fill(&folder.0, how);
        let all = segments(&folder.0);
        assert!(all.len() > 3, "{all:?}");
        for (i, one) in all.iter().enumerate() {
            let copy = copied(&folder.0, &format!("{name}-without-{i}"));
            std::fs::remove_file(copy.0.join(one)).expect("removed");
            let (text, dump) = agree(&copy.0, &format!("{name} without {one} of {all:?}"));
            if text.contains("BROKEN") {
                assert!(text.contains(one) && text.contains("missing"), "{text}");
                let lacks = dump.matches("the redo log is missing or incomplete").count();
                assert_eq!(lacks, 2, "before and behind the rows");
            }
        }
        for kept in 0..all.len() {
            let copy = copied(&folder.0, &format!("{name}-first-{kept}"));
            for one in &all[kept..] {
                std::fs::remove_file(copy.0.join(one)).expect("removed");
            }
            let (text, _) = agree(&copy.0, &format!("{name} with the first {kept} of {all:?}"));
            assert!(kept > 0 || text.contains("none holds the checkpoint"), "{text}");
        }
        let copy = copied(&folder.0, &format!("{name}-uncontrolled"));
        std::fs::remove_file(copy.0.join("redo_control")).expect("removed");
        let (text, dump) = agree(&copy.0, "without redo_control");
        assert!(text.contains("BROKEN log and files: redo_control"), "{text}");
        assert!(dump.contains("the redo log is missing or incomplete"), "{name}");
    }
}

/// The newest control block says up to where the log was durable, and the log ends before.
#[test]
fn a_log_that_ends_before_its_durable_end_lacks_segments() {
    let folder = Folder::new("durable");
    fill(&folder.0, Close::LogOnly);
    let path = folder.0.join("redo_control");
    let mut control = std::fs::read(&path).expect("read");
    for slot in control.chunks_exact_mut(4096) {
        let later = u64::from_le_bytes(slot[40..48].try_into().expect("8")) * 100;
        slot[32..40].copy_from_slice(&later.to_le_bytes());
        let crc = crc32c::crc32c(&slot[4..]);
        slot[..4].copy_from_slice(&crc.to_le_bytes());
    }
    std::fs::write(&path, control).expect("written");
    for one in &segments(&folder.0)[1..] {
        std::fs::remove_file(folder.0.join(one)).expect("removed");
    }
    let (text, _) = agree(&folder.0, "durable later");
    assert!(text.contains("durable up to"), "{text}");
}

/// Rows of a database whose log was off at a crash were dumped without a word.
#[test]
fn a_dump_says_that_the_log_was_off() {
    let folder = Folder::new("off");
    fill(&folder.0, Close::Slow);
    let db = open(&folder.0, config()).expect("opens");
    db.engine().set_redo_log(false).expect("off");
    let copy = copied(&folder.0, "off-crashed");
    db.engine().close(Close::Fast).expect("close");
    drop(db);
    let (_, dump) = agree(&copy.0, "off");
    assert_eq!(dump.matches("these files may hold half of any change").count(), 2);
    agree(&folder.0, "off, then shut down");
}

/// The newer half of the control file breaks. The log may go on in an epoch that the older half
/// does not have.
#[test]
fn a_control_file_that_is_older_than_the_log_is_named() {
    let folder = Folder::new("older");
    fill(&folder.0, Close::Slow);
    let db = open(&folder.0, config()).expect("opens");
    let table = db.table("./d/t").expect("open");
    let mut trx = db.begin();
    let pk = 4_000_000_001u32.to_be_bytes();
    let key = entry_key(1, &pk);
    let entry = entry(&key);
    trx.insert(&table, &pk, &row(1), &[entry]).expect("insert");
    trx.commit().expect("commit");
    db.engine().close(Close::LogOnly).expect("close");
    drop((table, db));
    let copies = [0, 1].map(|slot| (slot, copied(&folder.0, &format!("older-{slot}"))));
    let mut refused = 0;
    for (slot, copy) in copies {
        flip(&copy.0, "redo_control", slot * 4096 + 700);
        let (text, _) = agree(&copy.0, &format!("without slot {slot}"));
        refused += text.contains("it is older than the log") as u32;
    }
    assert_eq!(refused, 1);
}

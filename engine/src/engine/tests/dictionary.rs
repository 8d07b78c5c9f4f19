//! Tables, indexes, files and metrics, as INFORMATION_SCHEMA shows them, and the sections of SHOW
//! ENGINE STATUS.
use super::fixture::*;
use crate::base::counters::Kind;
use crate::base::{Counters, Error};
use crate::engine::report::dictionary::{each_file, index_infos, table_infos, FileInfo, FileKind, IndexKind};
use crate::engine::report::metrics::metrics as all_metrics;
use crate::io::sim::SimDisk;
use crate::pool::PAGE_SIZE;
use crate::txn::Isolation;

fn filled() -> TableFixture {
    let fixture = TableFixture::create(SimDisk::new(1));
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    for n in 0..50u8 {
        let row = Row {
            group: n,
            shade: 0,
            tag: Some(n as u16),
            body: vec![n; 100],
        };
        fixture.insert(&mut trx, &[n], &row).expect("insert");
    }
    fixture.engine.commit(&mut trx, false).expect("commit");
    fixture
}

fn file_infos(fixture: &TableFixture) -> Vec<FileInfo> {
    let mut files = Vec::new();
    let mut add = |file| {
        files.push(file);
        Ok(())
    };
    each_file(&fixture.engine, &mut add).expect("files");
    files
}

#[test]
fn a_list_of_files_ends_when_its_user_says_so() {
    let fixture = filled();
    let mut given = 0;
    let ended = each_file(&fixture.engine, &mut |_| {
        given += 1;
        Err(Error::Interrupted)
    });
    assert_eq!((ended, given), (Err(Error::Interrupted), 1));
}

#[test]
fn each_table_has_its_indexes_and_its_file() {
    let fixture = filled();
    let tables = table_infos(&fixture.engine);
    let [table] = &tables[..] else { panic!("{tables:?}") };
    assert_eq!((table.name.as_str(), table.indexes, table.temporary), ("t", 3, false));
    assert_eq!((table.id, table.broken.as_ref()), (fixture.table.layout().id, None));
    let indexes = index_infos(&fixture.engine);
    let kinds: Vec<IndexKind> = indexes.iter().map(|index| index.kind).collect();
    assert_eq!(kinds, [IndexKind::Clustered, IndexKind::Plain, IndexKind::Unique]);
    assert!(indexes
        .iter()
        .all(|index| index.table == table.id && !index.quarantined));
    assert_eq!(indexes[0].delta_root, None);
    let files = file_infos(&fixture);
    let mine = files.iter().find(|file| file.id == Some(table.id)).expect("its file");
    assert_eq!((mine.kind, mine.owner.as_deref()), (FileKind::Table, Some("t")));
    let usage = mine.usage.expect("readable");
    assert_eq!(mine.size.bytes, usage.pages as u64 * PAGE_SIZE as u64);
    assert!(usage.used > 3 && usage.used <= usage.pages, "{usage:?}");
    for kind in [FileKind::System, FileKind::Undo, FileKind::RedoLog] {
        assert!(files.iter().any(|file| file.kind == kind), "{kind:?}");
    }
    assert!(files.iter().all(|file| file.kind != FileKind::Unnamed), "{files:?}");
}

#[test]
fn metrics_are_the_counters() {
    let fixture = filled();
    let (_, metrics) = all_metrics(&fixture.engine);
    assert_eq!(metrics.len(), Counters::NAMES.len());
    let of = |name: &str| metrics.iter().find(|metric| metric.name == name).expect("a metric");
    assert_eq!((of("rows_inserted").value, of("rows_inserted").subsystem), (50, "dml"));
    assert_eq!(
        (of("redo_log_lsn").kind, of("redo_log_lsn").per_second),
        (Kind::Gauge, None)
    );
    assert_eq!(of("change_buffer_age").comment.find("Gauge"), None);
    assert_eq!(of("engine_stopped").value, 0);
    fixture.engine.poison("a test");
    assert_eq!(
        all_metrics(&fixture.engine).1.last().map(|metric| metric.value),
        Some(1)
    );
}

#[test]
fn the_status_has_the_sections_of_innodb() {
    let fixture = filled();
    let text = fixture.engine.status_text_with("a row was refused\n");
    let mut from = 0;
    for title in [
        "BACKGROUND THREAD",
        "SEMAPHORES",
        "LATEST FOREIGN KEY ERROR",
        "TRANSACTIONS",
        "FILE I/O",
        "INSERT BUFFER",
        "LOG",
        "BUFFER POOL AND MEMORY",
        "ROW OPERATIONS",
    ] {
        let at = text[from..].find(&format!("\n{title}"));
        from += at.unwrap_or_else(|| panic!("{title} is missing, or comes too early:\n{text}"));
    }
    assert!(text.contains("Number of rows inserted 50, "), "{text}");
    assert!(!fixture.engine.status_text().contains("FOREIGN KEY ERROR"));
}

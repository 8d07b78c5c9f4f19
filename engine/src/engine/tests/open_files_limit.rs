//! The process may open no more files.
use super::fixture::*;
use crate::io::SimDisk;
use crate::table::TableSpec;
use crate::txn::Isolation::ReadCommitted;

/// The log's next segments get the descriptors of data files that are not in use. The engine
/// stopped at the first of them.
#[test]
fn the_log_goes_on_while_data_files_can_be_closed() {
    let disk = SimDisk::new(1);
    let fixture = TableFixture::create(disk.clone());
    for n in 0..10 {
        fixture
            .store()
            .tables()
            .create_table(&format!("other{n}"), &TableSpec::default())
            .expect("create");
    }
    disk.set_handles(Some(disk.handles()));
    let begin = fixture.store().redo.lsn();
    for n in 0..3000u32 {
        let mut trx = fixture.begin(ReadCommitted);
        let row = Row {
            group: n as u8,
            shade: 0,
            tag: None,
            body: vec![n as u8; 500],
        };
        fixture.insert(&mut trx, &pk(n), &row).expect("insert");
        fixture.engine.commit(&mut trx, true).expect("commit");
    }
    // Sixteen to a ring.
    let segments = (fixture.store().redo.lsn() - begin) / (config().redo_log_capacity / 16);
    assert!(segments > 2 && disk.struck() > 0, "{segments} segments");
    fixture.check_table();
}

//! No descriptor is left for a segment that must be opened or made.
use super::*;
use crate::io::{Caching, File, Mode};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

type OpenFiles = Arc<Mutex<Vec<Arc<dyn File>>>>;

/// A log on a disk whose last descriptor is in use.
fn crowded() -> (Arc<SimDisk>, Redo) {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    disk.set_handles(Some(disk.handles()));
    (disk, redo)
}
/// As [`crowded`], where two of the open files are a data file's. Each `tries`th request of the log
/// closes one of them.
fn with_data_file(tries: usize) -> (Arc<SimDisk>, Redo, OpenFiles) {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    drop(disk.open("data", Mode::Create, Caching::Direct).unwrap());
    let open = || disk.open("data", Mode::Open, Caching::Direct).unwrap();
    let held = Arc::new(Mutex::new(vec![open(), open()]));
    disk.set_handles(Some(disk.handles()));
    let (files, asked) = (held.clone(), AtomicUsize::new(0));
    redo.set_files_closer(Box::new(move || {
        if (asked.fetch_add(1, Ordering::Relaxed) + 1) % tries == 0 {
            files.lock().pop();
        }
    }));
    (disk, redo, held)
}

/// The engine used to stop when the log came to its next segment.
#[test]
fn the_writer_gets_the_descriptor_of_an_unused_file() {
    for tries in [1, 4] {
        let (disk, redo, held) = with_data_file(tries);
        for number in 0..800 {
            let (_, end) = redo.append(&group(number, 900));
            redo.flush(end, FlushMode::Sync).unwrap();
        }
        assert!(disk.struck() >= tries as u64 && held.lock().is_empty());
        let (groups, ..) = reopen(&disk.crash(1)).unwrap();
        assert!(groups.iter().map(|g| number_of(g)).eq(0..800));
    }
}

#[test]
fn a_change_is_refused_while_no_segment_can_be_made_ahead() {
    let (disk, redo) = crowded();
    let mut changes = 0;
    let refused = loop {
        if let Err(why) = redo.reserve_wait() {
            break why;
        }
        redo.append(&group(changes, 900));
        changes += 1;
    };
    assert!(
        matches!(&refused, Error::Full(why) if why.contains("too many open files")),
        "{refused:?}"
    );
    redo.adjust_segments().unwrap();
    assert!(matches!(redo.reserve_to_go_on(), Err(Error::Full(_))));
    redo.check_alive().unwrap();
    disk.set_handles(None);
    redo.reserve_wait().unwrap();
    redo.flush(redo.lsn(), FlushMode::Sync).unwrap();
    let (groups, ..) = reopen(&disk.crash(1)).unwrap();
    assert!(groups.iter().map(|g| number_of(g)).eq(0..changes));
}

#[test]
fn no_checkpoint_stops_when_no_segment_can_be_opened() {
    let (disk, redo) = crowded();
    disk.set_handles(None);
    let mut last = 0;
    for number in 0..200 {
        last = redo.append(&group(number, 900)).0;
    }
    redo.flush(redo.lsn(), FlushMode::Sync).unwrap();
    disk.set_handles(Some(disk.handles()));
    redo.write_checkpoint(last, b"").unwrap();
    assert_eq!(redo.checkpoint_lsn(), last);
    assert!(disk.struck() > 0 && !redo.has_all_segments());
    disk.set_handles(None);
    (0..100).for_each(|_| redo.adjust_segments().unwrap());
    assert!(redo.has_all_segments());
}

#[test]
fn a_writer_that_waits_in_vain_stops_and_loses_nothing_that_was_durable() {
    let (disk, redo) = crowded();
    let mut durable = 0;
    let why = loop {
        let (_, end) = redo.append(&group(durable, 900));
        match redo.flush(end, FlushMode::Sync) {
            Ok(()) => durable += 1,
            Err(why) => break why,
        }
    };
    assert!(
        matches!(&why, Error::Poisoned(why) if why.contains("too many open files")),
        "{why:?}"
    );
    disk.set_handles(None);
    let (groups, ..) = reopen(&disk.crash(1)).unwrap();
    assert!(groups.iter().map(|g| number_of(g)).eq(0..durable));
}

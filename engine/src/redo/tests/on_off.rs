//! The log is turned off and on, with full disks and lost files.
use super::*;
use crate::io::{Caching, Mode};

/// A log that could not be turned on used to stop the engine, with its mark standing: the next
/// start refused all files.
#[test]
fn a_full_disk_leaves_the_log_off_and_it_can_be_turned_on_later() {
    for fault in 1.. {
        let disk = SimDisk::new(1);
        let redo = create(&disk);
        (0..4).for_each(|_| redo.adjust_segments().unwrap());
        redo.turn_off().unwrap();
        redo.append(&group(1, 100));
        disk.fail_change(disk.changes() + fault, Fault::Full);
        let begun = redo.begin_on();
        if disk.struck() == 0 {
            assert!(begun.is_ok() && fault > 6 * 3, "six segments have new numbers");
            return;
        }
        assert!(matches!(begun, Err(Error::Full(_))), "{begun:?}");
        redo.check_alive().unwrap();
        assert!(redo.is_off());
        let names = list_segments(&*disk).unwrap();
        assert!(
            names.last().unwrap() - names[0] < names.len() as u64,
            "no gap: {names:?}"
        );
        redo.append(&group(2, 100));
        let first = redo.begin_on().unwrap();
        redo.end_on(first).unwrap();
        for number in 3..1000 {
            redo.reserve_wait().unwrap();
            redo.append(&group(number, 300));
        }
        redo.flush(redo.lsn(), FlushMode::Sync).unwrap();
        let (groups, ..) = reopen(&disk.crash(fault)).unwrap();
        assert!(groups.iter().map(|g| number_of(g)).eq(3..1000));
    }
}

/// While the log is off its segments are not needed. Without the first one the log could not be
/// turned on any more.
#[test]
fn a_log_that_is_off_can_be_turned_on_without_its_files() {
    for gone in [0..1, 1..2, 0..9] {
        let disk = SimDisk::new(1);
        let redo = create(&disk);
        (0..4).for_each(|_| redo.adjust_segments().unwrap());
        redo.turn_off().unwrap();
        for number in gone {
            disk.remove(&segment_name(number)).unwrap();
        }
        let first = redo.begin_on().unwrap();
        redo.end_on(first).unwrap();
        for number in 0..1000 {
            redo.reserve_wait().unwrap();
            redo.append(&group(number, 300));
        }
        redo.flush(redo.lsn(), FlushMode::Sync).unwrap();
        let (groups, ..) = reopen(&disk.crash(1)).unwrap();
        assert!(groups.iter().map(|g| number_of(g)).eq(0..1000));
    }
}

/// Segments can neither be opened nor be made: the directory is away for a while.
#[test]
fn a_log_that_is_off_stays_off_while_its_directory_is_away() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    (0..4).for_each(|_| redo.adjust_segments().unwrap());
    redo.turn_off().unwrap();
    disk.refuse(Some(""));
    for _ in 0..2 {
        let begun = redo.begin_on();
        assert!(matches!(begun, Err(Error::Io(_))), "{begun:?}");
        redo.check_alive().unwrap();
        assert!(redo.is_off());
    }
    disk.refuse(None);
    let first = redo.begin_on().unwrap();
    redo.end_on(first).unwrap();
    let (_, end) = redo.append(&group(1, 300));
    redo.flush(end, FlushMode::Sync).unwrap();
    let (groups, ..) = reopen(&disk.crash(1)).unwrap();
    assert!(groups.iter().map(|g| number_of(g)).eq([1]));
}

/// A failed sync of a new segment counted as a refusal, and the engine went on writing.
#[test]
fn a_log_stays_off_only_when_no_segment_was_begun() {
    for (seed, has_remains) in (0..8).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut refused = 0;
        for fault in 1.. {
            let disk = SimDisk::new(seed);
            let redo = create(&disk);
            redo.turn_off().unwrap();
            for number in list_segments(&*disk).unwrap() {
                disk.remove(&segment_name(number)).unwrap();
            }
            if has_remains {
                disk.open("redo_new", Mode::Create, Caching::Direct).unwrap();
            }
            disk.fail_change(disk.changes() + fault, Fault::Eio);
            let begun = redo.begin_on();
            match redo.check_alive() {
                // Only the removal of an unneeded file can have failed.
                Ok(()) if begun.is_ok() => break,
                Ok(()) => {
                    assert!(matches!(begun, Err(Error::Io(_))), "{begun:?}");
                    assert!(!disk.exists("redo_new").unwrap(), "what was begun has failed");
                    assert!(redo.is_off());
                    redo.begin_on().unwrap();
                    refused += 1;
                }
                Err(_) => assert!(matches!(begun, Err(Error::Poisoned(_))), "{begun:?}"),
            }
        }
        assert_eq!(refused, 1, "the file could not be created");
    }
}

//! Appending, flushing, waiting, wrapping, resizing, poisoning.
use super::*;
use crate::io::{Caching, Mode};
use crate::redo::ahead::scan_ahead;

#[test]
fn an_empty_log_opens_empty() {
    let disk = SimDisk::new(1);
    assert!(!Redo::exists(&*disk).unwrap());
    drop(create(&disk));
    assert!(Redo::exists(&*disk).unwrap());
    let disk = disk.crash(1);
    for _ in 0..300 {
        let (groups, end, redo) = reopen(&disk).unwrap();
        assert!(groups.is_empty() && !end.torn && end.lsn == FIRST_LSN);
        assert_eq!((redo.lsn(), redo.durable_lsn()), (FIRST_LSN, FIRST_LSN));
    }
}

#[test]
fn lsns_are_contiguous_and_skip_headers() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    let mut before = redo.lsn();
    for i in 0..2000 {
        let (start, end) = redo.append(&group(i, (i % 700) as usize));
        assert_eq!(start, before);
        assert!(end % BLOCK as u64 >= 16);
        before = end;
    }
    assert_eq!(redo.lsn(), before);
    redo.flush(before, FlushMode::Sync).unwrap();
    assert_eq!(redo.durable_lsn(), before);
    let (groups, end) = read(&disk, FIRST_LSN).unwrap();
    assert_eq!(groups.len(), 2000);
    assert_eq!(
        end,
        ScanEnd {
            lsn: before,
            torn: false
        }
    );
}

#[test]
fn the_ring_wraps_and_keeps_its_size() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    for i in 0..9000 {
        redo.reserve_wait().unwrap();
        let (start, end) = redo.append(&group(i, 900));
        if i % 10 == 0 {
            redo.flush(end, FlushMode::Sync).unwrap();
        }
        if redo.wanted() {
            redo.write_checkpoint(start, b"x").unwrap();
        }
    }
    let end = redo.lsn();
    assert!(end > 7 * CAPACITY);
    redo.flush(end, FlushMode::Sync).unwrap();
    let size = segment_size_for(CAPACITY);
    assert!(list_segments(&*disk).unwrap().len() as u64 <= CAPACITY / size + 2);
    let (groups, _, redo) = reopen(&disk.crash(3)).unwrap();
    let first = number_of(&groups[0]);
    assert!(groups.iter().map(|g| number_of(g)).eq(first..9000));
    assert!(redo.durable_lsn() >= end);
}

#[test]
fn resizing_changes_how_many_segments_exist() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    let size = segment_size_for(CAPACITY);
    let run = |capacity: u64| {
        redo.set_capacity(capacity).unwrap();
        for i in 0..4000u64 {
            redo.reserve_wait().unwrap();
            let (start, _) = redo.append(&group(i, 900));
            if redo.wanted() || i % 50 == 0 {
                redo.write_checkpoint(start, b"").unwrap();
            }
        }
        list_segments(&*disk).unwrap().len() as u64
    };
    assert!(run(CAPACITY * 4) >= CAPACITY * 4 / size);
    assert!(run(CAPACITY / 2) <= CAPACITY / 2 / size + 3);
    assert_eq!(redo.room(), CAPACITY / 2 - (redo.lsn() - redo.checkpoint_lsn()));
}

/// A checkpoint whose place was looked up before the log was turned off and on, and that was written afterwards, stopped the engine.
#[test]
fn a_checkpoint_that_comes_late_is_left_out() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    let (early, end) = redo.append(&group(1, 100));
    redo.flush(end, FlushMode::Sync).unwrap();
    redo.turn_off().unwrap();
    let first = redo.begin_on().unwrap();
    redo.end_on(first).unwrap();
    assert!(early < first);
    redo.write_checkpoint(early, b"late").unwrap();
    assert_eq!(redo.checkpoint_lsn(), first);
    let (_, payload) = Redo::read_checkpoint(&*disk).unwrap();
    assert_ne!(payload, b"late");
}

/// A log that was larger, and a start with a smaller capacity: the files that hold its end were taken for room to spare, if the new epoch
/// happened to begin with a page of 4096 bytes. The start after the next crash was refused for good.
#[test]
fn a_start_with_a_smaller_capacity_keeps_what_recovery_needs() {
    for block_in_page in 0..8 {
        let disk = SimDisk::new(1);
        let redo = create(&disk);
        redo.set_capacity(4 * CAPACITY).unwrap();
        let mut count = 0;
        let next_block = |redo: &Redo| block::next_whole_block(block::position_of(redo.lsn()));
        while redo.age() < 2 * CAPACITY || next_block(&redo) % 8 != block_in_page {
            redo.reserve_wait().unwrap();
            redo.append(&group(count, if redo.age() < 2 * CAPACITY { 900 } else { 10 }));
            count += 1;
        }
        redo.flush(redo.lsn(), FlushMode::Sync).unwrap();
        let disk = disk.crash(1);
        let (groups, _, redo) = reopen(&disk).unwrap();
        assert_eq!(groups.len() as u64, count);
        (0..100).for_each(|_| redo.settle().unwrap());
        let disk = disk.crash(2);
        let (groups, ..) = reopen(&disk).unwrap();
        assert_eq!(groups.len() as u64, count, "block {block_in_page} of a page");
    }
}

/// An idle server used to keep the files of a log that was made smaller until somebody wrote.
#[test]
fn files_follow_a_resize_without_a_write() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    let count = || list_segments(&*disk).unwrap().len() as u64;
    let (size, steps) = (segment_size_for(CAPACITY), 100);
    let settled = |capacity: u64| {
        redo.set_capacity(capacity).unwrap();
        let before = count();
        redo.settle().unwrap();
        assert!(count() <= before + 1, "a step makes one file");
        (0..steps).for_each(|_| redo.settle().unwrap());
        count()
    };
    assert_eq!(settled(CAPACITY * 4), CAPACITY * 4 / size + 1);
    assert_eq!(settled(CAPACITY / 2), CAPACITY / 2 / size + 1);
    // On a full disk it waits, and goes on when there is room.
    disk.set_space(Some(disk.used() + size));
    redo.set_capacity(CAPACITY).unwrap();
    assert!(matches!(redo.settle(), Ok(())) && count() == CAPACITY / 2 / size + 1);
    disk.set_space(None);
    assert_eq!(settled(CAPACITY), CAPACITY / size + 1);
}

#[test]
fn a_poisoned_log_refuses_and_never_panics() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    let (_, end) = redo.append(&group(1, 100));
    redo.flush(end, FlushMode::Sync).unwrap();
    disk.fail_change(disk.changes() + 2, Fault::Eio);
    let (_, lost) = redo.append(&group(2, 100));
    assert!(matches!(redo.flush(lost, FlushMode::Sync), Err(Error::Poisoned(_))));
    let changes = disk.changes();
    assert!(redo.poison_state().why().unwrap().contains("redo_00000000"));
    redo.flush(end, FlushMode::Sync).unwrap();
    let before = redo.lsn();
    assert!((0..10_000).all(|i| redo.append(&group(i, 200)).0 >= before));
    assert!(matches!(redo.flush(lost, FlushMode::Sync), Err(Error::Poisoned(_))));
    assert!(matches!(redo.reserve_wait(), Err(Error::Poisoned(_))));
    assert!(matches!(redo.write_checkpoint(end, b""), Err(Error::Poisoned(_))));
    assert_eq!(disk.changes(), changes, "nothing is written any more");
}

#[test]
fn a_full_disk_is_met_before_a_change() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    let size = segment_size_for(CAPACITY) + SEGMENT_HEADER as u64;
    disk.set_space(Some(4 * size + 8192));
    let mut i = 0;
    let refused = loop {
        if let Err(e) = redo.reserve_wait() {
            break e;
        }
        i += 1;
        let (_, end) = redo.append(&group(i, 3000));
        redo.flush(end, FlushMode::Sync).unwrap();
    };
    assert!(matches!(refused, Error::Full(_)) && !redo.poison_state().is_set());
    // A checkpoint gives segments free, and all goes on.
    redo.write_checkpoint(redo.lsn(), b"").unwrap();
    redo.reserve_wait().unwrap();
}

#[test]
fn committers_in_many_threads() {
    let disk = SimDisk::new(1);
    let counters = Arc::new(Counters::default());
    let redo = Redo::create(disk.clone(), config(), counters.clone()).unwrap();
    std::thread::scope(|s| {
        for thread in 0..8u64 {
            let redo = &redo;
            s.spawn(move || {
                for i in 0..300 {
                    redo.reserve_wait().unwrap();
                    let (_, end) = redo.append(&group(thread << 32 | i, (i * 13 % 1500) as usize));
                    let mode = if i % 5 == 0 { FlushMode::Write } else { FlushMode::Sync };
                    redo.flush(end, mode).unwrap();
                    assert!(mode == FlushMode::Write || redo.durable_lsn() >= end);
                }
            });
        }
        let redo = &redo;
        s.spawn(move || {
            for _ in 0..200 {
                redo.write_checkpoint(redo.checkpoint_lsn(), b"").unwrap();
                redo.set_capacity(CAPACITY * 4).unwrap();
                std::thread::yield_now();
            }
        });
    });
    redo.flush(redo.lsn(), FlushMode::Sync).unwrap();
    let (groups, _) = read(&disk.crash(5), FIRST_LSN).unwrap();
    let mut next = [0u64; 8];
    for group in &groups {
        let number = number_of(group);
        let thread = (number >> 32) as usize;
        assert_eq!(number & 0xffff_ffff, next[thread], "each thread's groups in order");
        next[thread] += 1;
    }
    assert_eq!(next, [300; 8]);
    assert_eq!(counters.redo_log_groups.get(), 2400);
}

#[test]
fn a_poison_wakes_all_who_wait() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    std::thread::scope(|s| {
        for i in 0..6u64 {
            let redo = &redo;
            s.spawn(move || loop {
                let (_, end) = redo.append(&group(i, 50));
                if redo.flush(end, FlushMode::Sync).is_err() {
                    break;
                }
            });
        }
        s.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(30));
            redo.poison("test");
        });
    });
    assert_eq!(redo.poison_state().why().unwrap(), "test");
}

#[test]
fn writers_wait_for_room_until_a_checkpoint() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    while redo.room() > CAPACITY / 8 {
        redo.append(&group(1, 4000));
    }
    assert!(redo.wanted());
    std::thread::scope(|s| {
        let waiter = s.spawn(|| redo.reserve_wait());
        std::thread::sleep(std::time::Duration::from_millis(20));
        redo.write_checkpoint(redo.lsn(), b"").unwrap();
        waiter.join().unwrap().unwrap();
    });
    assert!(!redo.wanted());
}

#[test]
fn a_checkpoint_that_is_held_back_does_not_pass() {
    let redo = create(&SimDisk::new(1));
    let (_, before) = redo.append(&group(1, 100));
    let hold = redo.hold_checkpoint();
    let (_, after) = redo.append(&group(2, 100));
    redo.write_checkpoint(after, b"").unwrap();
    assert_eq!(redo.checkpoint_lsn(), before);
    drop(hold);
    redo.write_checkpoint(after, b"").unwrap();
    assert_eq!(redo.checkpoint_lsn(), after);
    // One that was begun late is not a way back.
    let (_, end) = redo.append(&group(3, 100));
    let _hold = redo.hold_checkpoint();
    redo.write_checkpoint(end, b"").unwrap();
    redo.write_checkpoint(after, b"").unwrap();
    assert_eq!(redo.checkpoint_lsn(), end);
}

fn read_ahead_is_the_same(disk: &dyn Disk, checkpoint: u64) {
    let mut groups = Vec::new();
    let scanned = scan(disk, checkpoint, &mut |start, end, group| {
        groups.push((start, end, group.to_vec()));
        Ok(())
    });
    let mut left = groups.iter();
    let ahead = scan_ahead(disk, checkpoint, &mut |start, end, group| {
        assert_eq!(left.next(), Some(&(start, end, group.to_vec())));
        Ok(())
    });
    assert_eq!((ahead.unwrap(), left.next()), (scanned.unwrap(), None));
    // Whoever looks at the groups has enough: the scan does not go on, nor wait for him.
    let mut looks = 0;
    let ended = scan_ahead(disk, checkpoint, &mut |_, _, _| {
        looks += 1;
        Err(Error::NotFound)
    });
    assert_eq!((ended, looks), (Err(Error::NotFound), 1));
}

#[test]
fn a_log_on_a_real_disk_is_read_back() {
    let dir = std::env::temp_dir().join(format!("sluice-redo-real-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    for direct_io in [true, false] {
        let config = RedoConfig { direct_io, ..config() };
        let disk = RealDisk::open(dir.join(direct_io.to_string())).unwrap();
        let redo = Redo::create(disk.clone(), config.clone(), Arc::default()).unwrap();
        for i in 0..3000 {
            redo.reserve_wait().unwrap();
            let (start, end) = redo.append(&group(i, (i * 37 % 2000) as usize));
            // Both kinds of rounds, so that a log that may write direct changes over and back.
            let sync = i < 100 || i % 500 > 300;
            redo.flush(end, if sync { FlushMode::Sync } else { FlushMode::Write })
                .unwrap();
            if i % 700 == 699 {
                redo.write_checkpoint(start, &i.to_le_bytes()).unwrap();
            }
        }
        let end = redo.lsn();
        redo.flush(end, FlushMode::Sync).unwrap();
        drop(redo);
        let (checkpoint, payload) = Redo::read_checkpoint(&*disk).unwrap();
        let mut next = u64::from_le_bytes(payload.try_into().unwrap());
        let scanned = scan(&*disk, checkpoint, &mut |_, _, group| {
            assert_eq!(number_of(group), next);
            next += 1;
            Ok(())
        });
        assert_eq!(scanned.unwrap(), ScanEnd { lsn: end, torn: false });
        assert_eq!(next, 3000);
        read_ahead_is_the_same(&*disk, checkpoint);
        let redo = Redo::open(disk.clone(), config, Arc::default(), checkpoint, end).unwrap();
        let (_, last) = redo.append(&group(3000, 50));
        redo.flush(last, FlushMode::Sync).unwrap();
        assert_eq!(scan(&*disk, checkpoint, &mut |_, _, _| Ok(())).unwrap().lsn, last);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// The log that could not be turned on stopped the engine, with its mark standing: the next start refused all files.
#[test]
fn a_full_disk_leaves_the_log_off_and_it_can_be_turned_on_later() {
    for fault in 1.. {
        let disk = SimDisk::new(1);
        let redo = create(&disk);
        (0..4).for_each(|_| redo.settle().unwrap());
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

/// A full disk can refuse names and lengths that it has: the checkpointer took that for its end, and the engine's.
#[test]
fn a_full_disk_stops_no_checkpoint() {
    let size = segment_size_for(CAPACITY);
    let begun = |before: u64| {
        let disk = SimDisk::new(1);
        let redo = create(&disk);
        redo.set_capacity(before).unwrap();
        (0..100).for_each(|_| redo.settle().unwrap());
        let mut lsns = Vec::new();
        for number in 0..400 {
            lsns.push(redo.append(&group(number, 900)).0);
        }
        redo.flush(redo.lsn(), FlushMode::Sync).unwrap();
        let before = disk.changes();
        redo.write_checkpoint(lsns[1], b"").unwrap();
        let of_control = disk.changes() - before;
        (disk, redo, lsns[250], of_control)
    };
    // Segments are renumbered; some are, and some removed; one is made; some of the end are removed.
    let half = CAPACITY / 2;
    let cases = [
        (half, half),
        (half, CAPACITY / 4),
        (half, CAPACITY),
        (half, CAPACITY / 16),
        (CAPACITY, CAPACITY / 16),
    ];
    for (before, capacity) in cases {
        for fault in 1.. {
            let (disk, redo, lsn, of_control) = begun(before);
            redo.set_capacity(capacity).unwrap();
            disk.fail_change(disk.changes() + of_control + fault, Fault::Full);
            redo.write_checkpoint(lsn, b"").unwrap();
            assert_eq!(redo.checkpoint_lsn(), lsn);
            redo.check_alive().unwrap();
            if disk.struck() == 0 {
                assert!(fault > 3, "there was something to do");
                break;
            }
            (0..fault % 3 * 20 + 1).for_each(|_| redo.settle().unwrap());
            let crashed = disk.crash(fault);
            let (groups, ..) = reopen(&crashed).unwrap();
            assert!(groups.iter().map(|g| number_of(g)).eq(250..400));

            let (disk, redo, lsn, of_control) = begun(before);
            redo.set_capacity(capacity).unwrap();
            disk.fail_change(disk.changes() + of_control + fault, Fault::Full);
            redo.write_checkpoint(lsn, b"").unwrap();
            (0..100).for_each(|_| redo.settle().unwrap());
            for number in 400..600 {
                let (start, _) = redo.append(&group(number, 900));
                if number % 20 == 19 {
                    redo.write_checkpoint(start, b"").unwrap();
                }
            }
            assert!(redo.is_settled());
            let count = list_segments(&*disk).unwrap().len() as u64;
            assert!(count <= redo.capacity() / size + 2, "{count} of {capacity}");
            let (groups, ..) = reopen(&disk.crash(fault)).unwrap();
            assert!(groups.iter().map(|g| number_of(g)).eq(599..600));
        }
    }
}

/// A segment that could not be opened stayed, and all behind it: the log took the disk bit by bit.
#[test]
fn a_segment_that_cannot_be_opened_holds_up_no_other() {
    for is_gone in [false, true] {
        let disk = SimDisk::new(1);
        let redo = create(&disk);
        let segments_max = CAPACITY / segment_size_for(CAPACITY) + 2;
        let name = crate::redo::ring::segment_name(2);
        let mut number = 0;
        for _ in 0..20 {
            let begin = redo.lsn();
            while redo.lsn() - begin < CAPACITY / 2 {
                redo.append(&group(number, 900));
                number += 1;
            }
            redo.flush(redo.lsn(), FlushMode::Sync).unwrap();
            match is_gone {
                true => disk.remove(&name).unwrap(),
                false => disk.refuse(Some(&name)),
            }
            redo.write_checkpoint(redo.lsn(), b"").unwrap();
            redo.settle().unwrap();
            let segments = list_segments(&*disk).unwrap().len() as u64;
            assert!(segments <= segments_max, "{segments}");
        }
        assert!(!disk.exists(&name).unwrap());
        let (groups, ..) = reopen(&disk.crash(1)).unwrap();
        assert!(groups.is_empty());
    }
}

/// While the log is off nobody needs its segments. Without the first it could not be turned on any more.
#[test]
fn a_log_that_is_off_can_be_turned_on_without_its_files() {
    for gone in [0..1, 1..2, 0..9] {
        let disk = SimDisk::new(1);
        let redo = create(&disk);
        (0..4).for_each(|_| redo.settle().unwrap());
        redo.turn_off().unwrap();
        for number in gone {
            disk.remove(&crate::redo::ring::segment_name(number)).unwrap();
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

/// Neither its segments can be opened nor one be made: the directory is not there for a while.
#[test]
fn a_log_that_is_off_stays_off_while_its_directory_is_away() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    (0..4).for_each(|_| redo.settle().unwrap());
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

/// It counted as refused that the file which was made could not be synced, and the engine went on writing.
#[test]
fn a_log_stays_off_only_when_no_segment_was_begun() {
    for (seed, has_remains) in (0..8).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut refused = 0;
        for fault in 1.. {
            let disk = SimDisk::new(seed);
            let redo = create(&disk);
            redo.turn_off().unwrap();
            for number in list_segments(&*disk).unwrap() {
                disk.remove(&crate::redo::ring::segment_name(number)).unwrap();
            }
            if has_remains {
                disk.open("redo_new", Mode::Create, Caching::Direct).unwrap();
            }
            disk.fail_change(disk.changes() + fault, Fault::Eio);
            let begun = redo.begin_on();
            match redo.check_alive() {
                // (Only a removal of what is not needed can have failed.)
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

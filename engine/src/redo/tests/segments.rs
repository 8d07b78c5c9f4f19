//! The ring of segments: it wraps, is resized, and meets a full disk or a segment that cannot be
//! opened.
use super::*;

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

/// A start with a smaller capacity took the files that hold the log's end for spare ones. That
/// happened when the new epoch began with a page of 4096 bytes. The start after the next crash was
/// refused for good.
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
        (0..100).for_each(|_| redo.adjust_segments().unwrap());
        let disk = disk.crash(2);
        let (groups, ..) = reopen(&disk).unwrap();
        assert_eq!(groups.len() as u64, count, "block {block_in_page} of a page");
    }
}

/// An idle server used to keep the files of a log that was made smaller until the next write.
#[test]
fn files_follow_a_resize_without_a_write() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    let count = || list_segments(&*disk).unwrap().len() as u64;
    let (size, steps) = (segment_size_for(CAPACITY), 100);
    let settled = |capacity: u64| {
        redo.set_capacity(capacity).unwrap();
        let before = count();
        redo.adjust_segments().unwrap();
        assert!(count() <= before + 1, "a step makes one file");
        (0..steps).for_each(|_| redo.adjust_segments().unwrap());
        count()
    };
    assert_eq!(settled(CAPACITY * 4), CAPACITY * 4 / size + 1);
    assert_eq!(settled(CAPACITY / 2), CAPACITY / 2 / size + 1);
    // On a full disk the resize waits, and continues when there is room.
    disk.set_space(Some(disk.used() + size));
    redo.set_capacity(CAPACITY).unwrap();
    assert!(matches!(redo.adjust_segments(), Ok(())) && count() == CAPACITY / 2 / size + 1);
    disk.set_space(None);
    assert_eq!(settled(CAPACITY), CAPACITY / size + 1);
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
    // A checkpoint frees segments, and writers go on.
    redo.write_checkpoint(redo.lsn(), b"").unwrap();
    redo.reserve_wait().unwrap();
}

/// Segments that a backup has not copied yet take room. A writer that needs it comes first.
#[test]
fn a_full_disk_ends_the_hold_of_a_copy() {
    let disk = SimDisk::new(1);
    let redo = Arc::new(create(&disk));
    let size = segment_size_for(CAPACITY) + SEGMENT_HEADER as u64;
    disk.set_space(Some(6 * size + 8192));
    let mut copy = redo.begin_copy().unwrap();
    for i in 0..600 {
        redo.reserve_wait().unwrap();
        let (_, end) = redo.append(&group(i, 3000));
        redo.flush(end, FlushMode::Sync).unwrap();
        redo.write_checkpoint(redo.lsn(), b"").unwrap();
    }
    let copied = copy.copy_some(1 << 20, &|| None, &mut |_, _| Ok(()));
    assert!(matches!(copied, Err(Error::Full(why)) if why.contains("no room")));
    drop(copy);
    assert!(!redo.is_copied() && !redo.poison_state().is_set());
}

/// A full disk can refuse renames and truncations too: such a refusal used to stop the
/// checkpointer, and with it the engine.
#[test]
fn a_full_disk_stops_no_checkpoint() {
    let size = segment_size_for(CAPACITY);
    let begun = |before: u64| {
        let disk = SimDisk::new(1);
        let redo = create(&disk);
        redo.set_capacity(before).unwrap();
        (0..100).for_each(|_| redo.adjust_segments().unwrap());
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
    // Segments are renumbered; renumbered and removed; made; removed at the end.
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
            (0..fault % 3 * 20 + 1).for_each(|_| redo.adjust_segments().unwrap());
            let crashed = disk.crash(fault);
            let (groups, ..) = reopen(&crashed).unwrap();
            assert!(groups.iter().map(|g| number_of(g)).eq(250..400));

            let (disk, redo, lsn, of_control) = begun(before);
            redo.set_capacity(capacity).unwrap();
            disk.fail_change(disk.changes() + of_control + fault, Fault::Full);
            redo.write_checkpoint(lsn, b"").unwrap();
            (0..100).for_each(|_| redo.adjust_segments().unwrap());
            for number in 400..600 {
                let (start, _) = redo.append(&group(number, 900));
                if number % 20 == 19 {
                    redo.write_checkpoint(start, b"").unwrap();
                }
            }
            assert!(redo.has_all_segments());
            let count = list_segments(&*disk).unwrap().len() as u64;
            assert!(count <= redo.capacity() / size + 2, "{count} of {capacity}");
            let (groups, ..) = reopen(&disk.crash(fault)).unwrap();
            assert!(groups.iter().map(|g| number_of(g)).eq(599..600));
        }
    }
}

/// A segment that could not be opened used to stay, with all after it: the log filled the disk bit
/// by bit.
#[test]
fn a_segment_that_cannot_be_opened_holds_up_no_other() {
    for is_gone in [false, true] {
        let disk = SimDisk::new(1);
        let redo = create(&disk);
        let segments_max = CAPACITY / segment_size_for(CAPACITY) + 2;
        let name = segment_name(2);
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
            redo.adjust_segments().unwrap();
            let segments = list_segments(&*disk).unwrap().len() as u64;
            assert!(segments <= segments_max, "{segments}");
        }
        assert!(!disk.exists(&name).unwrap());
        let (groups, ..) = reopen(&disk.crash(1)).unwrap();
        assert!(groups.is_empty());
    }
}

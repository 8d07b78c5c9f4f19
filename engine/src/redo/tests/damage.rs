//! Torn tails are cut off. Damage to what was durable is refused by name.
use super::*;

/// Damages an unsynced log at each of its last sectors: groups before the damage are whole, later
/// ones are gone.
#[test]
fn a_torn_tail_is_cut_off_at_every_sector() {
    for sectors in 0..19u64 {
        let disk = SimDisk::new(1);
        let redo = create(&disk);
        let mut ends = Vec::new();
        for i in 0..40 {
            ends.push(redo.append(&group(i, 230)).1);
        }
        // Written, never synced: the tail may be torn anywhere.
        redo.flush(redo.lsn(), FlushMode::Write).unwrap();
        let cut = block::block_of(redo.lsn()) - sectors;
        let size = segment_size_for(CAPACITY);
        disk.flip(&segment_name(0), file_offset(block::block_start(cut), size) + 100, 1);
        let (groups, end) = read(&disk, FIRST_LSN).unwrap();
        let whole = ends.iter().filter(|end| block::block_of(**end - 1) < cut).count();
        assert_eq!(groups.len(), whole, "{sectors} sectors");
        assert!(end.torn || whole == ends.len());
        // The log continues past the cut, and the earlier blocks there never come back.
        let checkpoint = Redo::read_checkpoint(&*disk).unwrap().0;
        let redo = Redo::open(disk.clone(), config(), Arc::default(), checkpoint, end.lsn).unwrap();
        let (_, last) = redo.append(&group(1000, 10));
        redo.flush(last, FlushMode::Sync).unwrap();
        let (groups, end) = read(&disk, FIRST_LSN).unwrap();
        assert_eq!((groups.len(), end.lsn), (whole + 1, last));
        assert_eq!(number_of(&groups[whole]), 1000);
    }
}

#[test]
fn a_hole_in_what_was_durable_is_refused() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    for i in 0..400 {
        let (_, end) = redo.append(&group(i, 300));
        redo.flush(end, FlushMode::Sync).unwrap();
    }
    let size = segment_size_for(CAPACITY);
    let last = block::block_of(redo.lsn());
    for number in (8..last).step_by(7) {
        let lsn = block::block_start(number);
        let (name, offset) = (segment_name(lsn / size), file_offset(lsn, size));
        disk.flip(&name, offset + 30, 4);
        let found = read(&disk, FIRST_LSN);
        let is_named = |text: &str| text.contains(&name) && text.contains(&format!("offset {offset}"));
        assert!(
            matches!(&found, Err(Error::Corrupt(damage)) if is_named(&damage.what)),
            "{found:?}"
        );
        disk.flip(&name, offset + 30, 4);
    }
    assert_eq!(read(&disk, FIRST_LSN).unwrap().0.len(), 400);
}

#[test]
fn damage_that_no_later_block_proves_is_found_by_the_checkpoint() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    let (start, end) = redo.append(&group(1, 3000));
    redo.write_checkpoint(start, b"").unwrap();
    assert_eq!(redo.durable_lsn(), start);
    redo.flush(end, FlushMode::Sync).unwrap();
    redo.write_checkpoint(start, b"").unwrap();
    let offset = file_offset(end, segment_size_for(CAPACITY));
    disk.flip(&segment_name(0), offset - 1, 1);
    assert!(matches!(read(&disk, start), Err(Error::Corrupt(_))));
}

#[test]
fn missing_or_damaged_segments_are_refused_by_name() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    let size = segment_size_for(CAPACITY);
    let mut end = 0;
    while end < 3 * size {
        end = redo.append(&group(1, 400)).1;
    }
    redo.flush(end, FlushMode::Sync).unwrap();
    disk.flip(&segment_name(2), 20, 1);
    assert!(matches!(read(&disk, FIRST_LSN), Err(Error::Corrupt(text)) if text.contains("redo_00000002")));
    disk.flip(&segment_name(2), 20, 1);
    disk.rename(&segment_name(1), "gone").unwrap();
    assert!(matches!(read(&disk, FIRST_LSN), Err(Error::Corrupt(text)) if text.contains("redo_00000001")));
    disk.rename("gone", &segment_name(1)).unwrap();
    read(&disk, FIRST_LSN).unwrap();
}

/// Only the slot written at the last start names that start's epoch. When that slot was damaged
/// later, the older slot counted. The log seemed to end where that start had found its end, and all
/// later commits were dropped silently.
#[test]
fn a_damaged_slot_of_the_control_file_loses_no_epoch() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    redo.flush(redo.append(&group(0, 300)).1, FlushMode::Sync).unwrap();
    drop(redo);
    let (_, _, redo) = reopen(&disk).unwrap();
    redo.flush(redo.append(&group(1, 300)).1, FlushMode::Sync).unwrap();
    drop(redo);
    let mut refused = 0;
    for slot in [0, 4096] {
        disk.flip(CONTROL_FILE, slot + 100, 1);
        match read(&disk, FIRST_LSN) {
            Ok((groups, _)) => assert_eq!(groups.len(), 2, "the older slot is not needed"),
            Err(Error::Corrupt(damage)) => {
                assert!(damage.what.contains(CONTROL_FILE), "{}", damage.what);
                refused += 1;
            }
            Err(other) => panic!("{other}"),
        }
        disk.flip(CONTROL_FILE, slot + 100, 1);
    }
    assert_eq!(refused, 1);
}

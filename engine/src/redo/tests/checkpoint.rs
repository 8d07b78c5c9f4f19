//! Checkpoints: late ones, ones held back, and writers that wait for one.
use super::*;
use crate::base::sync_point;
use std::sync::mpsc::channel;

/// A checkpoint that was computed before the log was turned off and on, and written afterwards,
/// used to stop the engine.
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

#[test]
fn writers_wait_for_room_until_a_checkpoint() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    while redo.room() > CAPACITY / 8 {
        redo.append(&group(1, 4000));
    }
    assert!(redo.wanted());
    std::thread::scope(|s| {
        let (tell, waits) = channel();
        let redo = &redo;
        let waiter = s.spawn(move || {
            sync_point::at(SyncPoint::RoomAwaited, move || tell.send(()).unwrap());
            redo.reserve_wait()
        });
        waits.recv().unwrap();
        assert!(!waiter.is_finished());
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
    // A later hold does not move the checkpoint back.
    let (_, end) = redo.append(&group(3, 100));
    let _hold = redo.hold_checkpoint();
    redo.write_checkpoint(end, b"").unwrap();
    redo.write_checkpoint(after, b"").unwrap();
    assert_eq!(redo.checkpoint_lsn(), end);
}

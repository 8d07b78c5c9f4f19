//! Batches on their way to disk: what they hold back, and what holds them up.
use super::rig::{Rig, FILE};
use crate::base::{Lsn, PageId};
use crate::pool::{PageType, PAGE_SIZE};
use crate::redo::FlushMode;

const LOGGED: PageId = PageId::new(FILE, 1);
const UNLOGGED: PageId = PageId::new(FILE + 1, 1);

/// One logged file, one that is not.
fn rig() -> Rig {
    let rig = Rig::create(7, 16);
    rig.add_file(LOGGED.file, 4, true);
    rig.add_file(UNLOGGED.file, 4, false);
    rig
}

/// The page is changed. Where it is in the pool.
fn change(rig: &Rig, id: PageId, byte: u8) -> u32 {
    let mut mtr = rig.pool.begin();
    let page = mtr.create(id, 0, PageType::System, 0).unwrap();
    mtr.edit(page, 64, &[byte]);
    mtr.commit();
    rig.pool.read(id).unwrap().index()
}

/// The flight began with a page that is not logged, and bounded nothing; the page that it took from the frame was another by then.
#[test]
fn no_checkpoint_passes_a_page_that_took_an_unlogged_ones_frame() {
    let rig = rig();
    let frame = change(&rig, UNLOGGED, 1);
    let (flight, candidates) = rig.pool.begin_flight(&[frame], 0, Lsn::MAX, false);
    assert_eq!(candidates.len(), 1);
    // Another thread needs the frame.
    assert_eq!(rig.pool.write_cold(&[frame]).unwrap(), 1);
    rig.pool.evict_clean();
    let before = rig.pool.redo().lsn();
    assert_eq!(change(&rig, LOGGED, 2), frame, "the same frame");
    let lsn = rig.pool.redo().lsn();
    assert!(lsn > before);
    let mut buffer = vec![0; PAGE_SIZE];
    let (claimed, _) = rig.pool.claim(candidates, &mut buffer).unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!(rig.in_place(LOGGED)[64], 0, "on its way");
    assert!(rig.pool.checkpoint_lsn() <= before);
    rig.pool.redo().flush(lsn, FlushMode::Sync).unwrap();
    rig.pool.dirty.end_flight(flight);
    assert_eq!(rig.pool.checkpoint_lsn(), lsn);
}

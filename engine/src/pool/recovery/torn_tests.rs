//! A page written without a copy, torn in every way that leaves each sector old or new.
use crate::base::PageId;
use crate::io::{Caching, Disk, Mode, SimDisk};
use crate::pool::testing::{PoolFixture, FILE};
use crate::pool::write::doublewrite::LISTS_AT;
use crate::pool::{PageType, PAGE_BODY, PAGE_SIZE};
use std::sync::Arc;

const P1: PageId = PageId::new(FILE, 1);
const NAME: &str = "00000010.slu";
const SECTOR: usize = 512;

/// Page 1, whole in its place, and a checkpoint after that.
fn fixture() -> PoolFixture {
    let fixture = PoolFixture::create(1, 32);
    fixture.add_file(FILE, 10, true);
    let mut mtr = fixture.pool.begin();
    let page = mtr.create(P1, 0, PageType::System, 0).unwrap();
    (PAGE_BODY..PAGE_SIZE)
        .step_by(64)
        .for_each(|at| mtr.edit(page, at, b"first"));
    mtr.commit();
    fixture.pool.flush_all().unwrap();
    fixture.checkpoint();
    fixture
}

/// Writes that reach every sector, some bytes twice.
fn write(fixture: &PoolFixture, round: u8) {
    for shift in [0, 3] {
        let mut mtr = fixture.pool.begin();
        let page = mtr.write(P1).unwrap();
        for at in (PAGE_BODY..PAGE_SIZE - 16).step_by(200) {
            mtr.edit(page, at + shift, &[round, shift as u8, round, round ^ at as u8]);
        }
        mtr.commit();
    }
}

fn move_some(fixture: &PoolFixture) {
    let mut mtr = fixture.pool.begin();
    let page = mtr.write(P1).unwrap();
    mtr.move_within(page, 1000, 900, 300);
    mtr.commit();
}

fn copies(fixture: &PoolFixture) -> u64 {
    fixture.pool.counters().dblwr_pages_written.get()
}

/// The page before and after a flush; and whether that made a copy.
fn flush(fixture: &PoolFixture) -> (Vec<u8>, Vec<u8>, bool) {
    let (old, before) = (fixture.in_place(P1), copies(fixture));
    fixture.pool.flush_all().unwrap();
    (old, fixture.in_place(P1), copies(fixture) > before)
}

/// A disk on which the sectors of the page that are set in `arrived` are those of `new`, the others
/// those of `old`.
fn torn(fixture: &PoolFixture, old: &[u8], new: &[u8], arrived: u64) -> Arc<SimDisk> {
    let disk = fixture.disk.crash(1);
    let is_new = |sector: usize| arrived >> (sector % 64) & 1 == 1;
    let pairs = old.chunks(SECTOR).zip(new.chunks(SECTOR)).enumerate();
    let mixed: Vec<u8> = pairs
        .flat_map(|(n, (old, new))| if is_new(n) { new } else { old })
        .copied()
        .collect();
    let file = disk.open(NAME, Mode::Open, Caching::Buffered).unwrap();
    file.write_at(&mixed, PAGE_SIZE as u64).unwrap();
    file.sync().unwrap();
    disk
}

fn recovered(disk: Arc<SimDisk>) -> PoolFixture {
    PoolFixture::recover(disk, 32, &mut |_, _| {})
}

fn recovery_panics(disk: &Arc<SimDisk>) -> bool {
    let disk = disk.clone();
    std::thread::spawn(|| drop(recovered(disk))).join().is_err()
}

/// Tears: none of it, all but the header, the header alone, and mixtures.
fn patterns() -> impl Iterator<Item = u64> {
    let mixtures = (1..40u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    [0, !0, !1, 1].into_iter().chain(mixtures)
}

#[test]
fn a_page_of_plain_writes_is_mended_whatever_of_it_arrived() {
    let fixture = fixture();
    write(&fixture, 1);
    let (old, new, copied) = flush(&fixture);
    assert!(!copied && old != new);
    for arrived in patterns() {
        let again = recovered(torn(&fixture, &old, &new, arrived));
        assert!(
            again.pool.read(P1).unwrap()[PAGE_BODY..] == new[PAGE_BODY..],
            "{arrived:x}"
        );
    }
}

/// The base is then what was written before, not what the checkpoint had.
#[test]
fn so_is_a_page_written_a_second_time_and_changed_after_that() {
    let fixture = fixture();
    move_some(&fixture);
    assert!(flush(&fixture).2, "a move needs a copy");
    write(&fixture, 2);
    assert!(!flush(&fixture).2);
    write(&fixture, 3);
    let (old, new, copied) = flush(&fixture);
    assert!(!copied);
    // Not in place yet, and a move besides: redo's.
    write(&fixture, 4);
    move_some(&fixture);
    fixture.sync_log();
    let expected = fixture.pool.read(P1).unwrap()[PAGE_BODY..].to_vec();
    for arrived in patterns() {
        let again = recovered(torn(&fixture, &old, &new, arrived));
        assert!(again.pool.read(P1).unwrap()[PAGE_BODY..] == expected[..], "{arrived:x}");
    }
}

#[test]
fn a_crash_while_it_is_mended_leaves_it_to_the_next_start() {
    let fixture = fixture();
    write(&fixture, 1);
    let (old, new, _) = flush(&fixture);
    let changes = {
        let disk = torn(&fixture, &old, &new, 0xaa);
        let before = disk.changes();
        recovered(disk.clone());
        disk.changes() - before
    };
    assert!(changes > 2, "the page, its sync, and what any start does");
    for n in 1..=changes {
        let disk = torn(&fixture, &old, &new, 0xaa);
        disk.crash_at(disk.changes() + n);
        let _ = recovery_panics(&disk);
        let again = recovered(disk.crash(n));
        assert!(
            again.pool.read(P1).unwrap()[PAGE_BODY..] == new[PAGE_BODY..],
            "at change {n}"
        );
    }
}

/// What the list says of a page may be of the past. Then it proves nothing, or the log does not
/// have all that came later.
#[test]
fn an_entry_from_before_the_checkpoint_mends_nothing() {
    let fixture = fixture();
    write(&fixture, 1);
    assert!(!flush(&fixture).2);
    fixture.pool.flusher().set_doublewrite(false).unwrap();
    move_some(&fixture);
    write(&fixture, 2);
    let (old, new, _) = flush(&fixture);
    fixture.checkpoint();
    let again = recovered(torn(&fixture, &old, &new, 0x5));
    let error = again
        .pool
        .read(P1)
        .err()
        .expect("broken, rather than wrong")
        .to_string();
    assert!(error.contains("checksum"), "{error}");
}

#[test]
fn a_sector_that_is_neither_old_nor_new_is_found() {
    let fixture = fixture();
    write(&fixture, 1);
    let (old, new, _) = flush(&fixture);
    let disk = torn(&fixture, &old, &new, 0xff);
    // A byte that no record names.
    disk.flip(NAME, (PAGE_SIZE + PAGE_SIZE - 3) as u64, 0x10);
    assert!(recovery_panics(&disk), "`finish` says that the page cannot be read");
}

/// A file without lists is brought up with its copies, at whichever change a crash comes. On a full
/// disk it stays as it is.
#[test]
fn a_file_of_the_older_format_keeps_its_copies() {
    let fixture = fixture();
    move_some(&fixture);
    let (old, new, copied) = flush(&fixture);
    assert!(copied);
    let of_format_1 = || {
        let disk = torn(&fixture, &old, &new, 0x3);
        let file = disk.open("doublewrite", Mode::Open, Caching::Buffered).unwrap();
        file.set_len(LISTS_AT as u64).unwrap();
        file.write_at(&1u32.to_le_bytes(), 8).unwrap();
        file.sync().unwrap();
        disk
    };
    let is_whole = |fixture: &PoolFixture| fixture.pool.read(P1).unwrap()[PAGE_BODY..] == new[PAGE_BODY..];
    for n in 1..12 {
        let disk = of_format_1();
        disk.crash_at(disk.changes() + n);
        let _ = recovery_panics(&disk);
        assert!(is_whole(&recovered(disk.crash(n))), "at change {n}");
    }
    let disk = of_format_1();
    disk.set_space(Some(disk.used()));
    let again = recovered(disk.clone());
    assert!(is_whole(&again));
    // Each page gets a copy then.
    again.pool.flush_all().unwrap();
    write(&again, 5);
    assert!(flush(&again).2);
    disk.set_space(None);
    drop(again);
    let again = recovered(disk);
    again.pool.flush_all().unwrap();
    write(&again, 6);
    assert!(!flush(&again).2);
}

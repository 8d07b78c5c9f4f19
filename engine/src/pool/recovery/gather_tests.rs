//! What recovery makes of the log: groups in pieces, pages that are not read, and a dirty list in
//! the order of the log.
use crate::base::{PageId, Result};
use crate::io::Disk;
use crate::pool::testing::{PoolFixture, FILE};
use crate::pool::{split, Gathered, PageType, Piece, Void, PAGE_SIZE};
use crate::redo::record::Record;
use crate::redo::RecordSink;

const P1: PageId = PageId::new(FILE, 1);
const P2: PageId = PageId::new(FILE, 2);

/// Pages with the number of their records' bytes, and None for a record about no page.
fn pieces(group: &[u8]) -> Result<Vec<Option<(PageId, usize)>>> {
    let mut found = Vec::new();
    split(9, group, &mut |piece| {
        found.push(match piece {
            Piece::Page(page, records) => Some((page, records.len())),
            Piece::Other(_) => None,
        });
        Ok(())
    })?;
    Ok(found)
}

fn write_of(len: usize) -> usize {
    3 + len
}

#[test]
fn a_group_is_taken_to_pieces() {
    let mut image = vec![0; PAGE_SIZE];
    image[4..8].copy_from_slice(&FILE.to_le_bytes());
    image[8..12].copy_from_slice(&1u32.to_le_bytes());
    let mut group = RecordSink::default();
    group.write(P1, 100, b"void");
    group.write(P2, 100, b"one");
    group.file_drop(7);
    group.write(P2, 100, b"three");
    group.write(P1, 100, b"void");
    group.image(P1, &image, 32, PAGE_SIZE);
    group.write(P1, 100, b"seven");
    let image_len = 1 + 1 + 32 + 1;
    let expected = [
        Some((P1, write_of(4))),
        Some((P2, write_of(3))),
        None,
        Some((P2, write_of(5))),
        Some((P1, image_len + write_of(5))),
    ];
    assert_eq!(pieces(group.as_bytes()).unwrap(), expected);
}

#[test]
fn a_group_that_does_not_fit_its_pages_is_refused() {
    let mut beyond = RecordSink::default();
    beyond.write(P1, PAGE_SIZE - 2, b"abc");
    let mut moved = RecordSink::default();
    moved.move_within(P1, 40, PAGE_SIZE - 2, 3);
    let mut unnamed = RecordSink::default();
    unnamed.image(P1, &vec![0; PAGE_SIZE], 32, PAGE_SIZE);
    for (group, why) in [(beyond, "beyond"), (moved, "beyond"), (unnamed, "another page")] {
        let refused = pieces(group.as_bytes()).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    let mut whole = RecordSink::default();
    whole.write(P1, 100, b"abc");
    let refused = pieces(&whole.as_bytes()[3..]).unwrap_err().to_string();
    assert!(refused.contains("without a page"), "{refused}");
}

#[test]
fn what_may_be_kept_is_bounded_by_groups() {
    let mut kept = Gathered::new(100);
    for n in 1..=3 {
        kept.push(P1, (n * 10, n * 10 + 5), &[2; 30]).unwrap();
        kept.end_group(n * 10 + 5);
        assert_eq!(kept.is_full(), n >= 2, "{n}");
    }
    assert_eq!((kept.end(), kept.bytes() > 100), (35, true));
}

/// A group that changes `page`, and one that writes an image of it if asked.
fn change(fixture: &PoolFixture, page: PageId, image: bool, what: &[u8]) {
    let mut mtr = fixture.pool.begin();
    let handle = match image {
        true => mtr.create(page, 9, PageType::Tree, 0).unwrap(),
        false => mtr.write(page).unwrap(),
    };
    mtr.edit(handle, 100, what);
    mtr.commit();
}

/// The newest image counts, in whichever group it is: what came before it may be in place, torn, or
/// missing.
#[test]
fn a_page_with_an_image_after_the_checkpoint_is_not_read() {
    let fixture = PoolFixture::create(7, 32);
    fixture.add_file(FILE, 100, true);
    for page in [P1, P2] {
        change(&fixture, page, true, b"old");
    }
    fixture.pool.flush_all().unwrap();
    fixture.checkpoint();
    for page in [P1, P2] {
        change(&fixture, page, false, b"edited");
    }
    change(&fixture, P1, true, b"new");
    change(&fixture, P1, false, b"newer");
    fixture.sync_log();
    let disk = fixture.disk.crash(3);
    drop(fixture);
    let file = disk.open(
        &format!("{FILE:08x}.slu"),
        crate::io::Mode::Open,
        crate::io::Caching::Buffered,
    );
    let torn = vec![7; PAGE_SIZE / 2];
    file.unwrap().write_at(&torn, PAGE_SIZE as u64).unwrap();
    let fixture = PoolFixture::recover(disk, 32, &mut |_, _| ());
    assert_eq!(&fixture.pool.read(P1).unwrap()[100..105], b"newer");
    assert_eq!(&fixture.pool.read(P2).unwrap()[100..106], b"edited");
    let read = fixture.pool.counters().buffer_pool_read_ahead.get() + fixture.pool.counters().buffer_pool_reads.get();
    assert_eq!(read, 1, "only the page without an image");
}

/// Pages are recovered in the order of their numbers. A checkpoint can still move page by page as
/// they are written.
#[test]
fn recovered_pages_are_written_in_the_order_of_the_log() {
    let fixture = PoolFixture::create(7, 64);
    fixture.add_file(FILE, 100, true);
    for no in (0..20).rev() {
        change(&fixture, PageId::new(FILE, no), true, b"x");
    }
    fixture.sync_log();
    let disk = fixture.disk.crash(3);
    drop(fixture);
    let fixture = PoolFixture::recover(disk, 64, &mut |_, _| ());
    let mut bounds = vec![fixture.pool.checkpoint_lsn()];
    while fixture.pool.flusher().step(1).unwrap() > 0 {
        bounds.push(fixture.pool.checkpoint_lsn());
    }
    assert_eq!(bounds.len(), 21);
    assert!(bounds.windows(2).all(|two| two[0] < two[1]), "{bounds:?}");
}

/// What a later part of the log makes void is void, too, in the round that has only the earlier
/// part.
#[test]
fn a_void_edit_is_no_reason_to_read_or_to_grow() {
    let fixture = PoolFixture::create(7, 32);
    fixture.add_file(FILE, 100, true);
    let mut void = crate::pool::Void::default();
    void.learn(&Record::FileDrop { file: 99 }, 50);
    let mut kept = Gathered::new(1000);
    kept.push(PageId::new(99, 5), (10, 20), &[2, 100, 1, 7]).unwrap();
    let mut image = RecordSink::default();
    image.image(PageId::new(99, 6), &vec![0; PAGE_SIZE], 32, PAGE_SIZE);
    kept.push(PageId::new(99, 6), (20, 30), &image.as_bytes()[3..]).unwrap();
    // No file has the number 99.
    fixture.pool.recovery().apply(kept, &void, &mut |_| ()).unwrap();
}

/// A file is truncated, grows and is truncated again. What the log says of a page between the two
/// is void only if the second truncation took the page, too.
#[test]
fn each_truncation_makes_void_what_the_log_said_before_it_of_the_pages_after_it() {
    let mut void = Void::default();
    let mut truncate = |first, end| {
        void.learn(
            &Record::Truncate {
                first: PageId::new(FILE, first),
            },
            end,
        );
        // The group that says so, and what comes later, holds.
        assert!(!void.holds(PageId::new(FILE, first), end));
        [10, 20, 30].map(|no| {
            (1..1000)
                .take_while(|lsn| void.holds(PageId::new(FILE, no), *lsn))
                .count()
        })
    };
    assert_eq!(truncate(20, 100), [0, 99, 99]);
    assert_eq!(truncate(30, 200), [0, 99, 199]);
    assert_eq!(truncate(10, 300), [299, 299, 299]);
    assert_eq!(truncate(21, 400), [299, 299, 399]);
    assert_eq!(truncate(21, 500), [299, 299, 499]);
    assert!(!void.holds(PageId::new(FILE + 1, 30), 1), "another file's");
}

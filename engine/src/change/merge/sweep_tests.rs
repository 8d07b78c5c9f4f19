//! Sweeps and pages that cannot be read. (For whole tables: the engine's tests.)
use crate::base::Error;
use crate::btree::tests::fixture::{check, checkpoint, FILE};
use crate::change::fixture::{found_again, new_index};
use crate::change::{drain, submit, sweep_step, Buffering, Delta, IndexTrees, Op};
use crate::entry::secondary::encode;
use crate::io::{Disk, SimDisk};
use crate::pool::page::{page_index, page_level};
use crate::pool::testing::PoolFixture;
use crate::pool::{Pool, PAGE_SIZE};
use crate::space::file_name;

const KEYS: u32 = 8_000;
const FRAMES: usize = 900;
const RETRY_US: u64 = 11_000_000;

/// Long keys, so that the tree gets inner pages below its root.
fn key(n: u32) -> Vec<u8> {
    let mut key = vec![b'k'; PAGE_SIZE / 40];
    // Neighbours differ at the end, so no separator is short. Others differ at the front, so no
    // page has a long common prefix.
    key[..4].copy_from_slice(&(n / 64).to_be_bytes());
    key.extend((n % 64).to_be_bytes());
    key
}
fn put(pool: &Pool, index: &IndexTrees, n: u32, stamp: u64) {
    let mut value = Vec::new();
    encode(&mut value, stamp, 4, 4, &n.to_le_bytes());
    let op = Op::Put {
        key: &key(n),
        value: &value,
    };
    submit(pool, index, op).unwrap();
}
fn delta(index: &IndexTrees) -> &Delta {
    index.delta.as_deref().expect("it has one")
}
/// The number of an inner page below the root, in the middle.
fn an_inner_page(disk: &SimDisk, index: &IndexTrees) -> u32 {
    let bytes = disk.bytes(&file_name(FILE)).expect("the file is there");
    let pages = || bytes.chunks_exact(PAGE_SIZE).enumerate();
    let is_inner = |page: &[u8]| page_index(page) == index.tree.index && page_level(page) == 1;
    let inner: Vec<_> = pages().filter(|(_, page)| is_inner(page)).collect();
    assert!(inner.len() > 3, "{} inner pages", inner.len());
    inner[inner.len() / 2].0 as u32
}
fn flip(disk: &SimDisk, page: u32) {
    disk.flip(&file_name(FILE), page as u64 * PAGE_SIZE as u64 + 500, 4);
}
/// An index with entries, without a page in memory and with something pending for each leaf; and an
/// inner page of it.
fn filled() -> (PoolFixture, IndexTrees, u32) {
    let fixture = PoolFixture::create(3, FRAMES);
    let index = new_index(&fixture.pool, 0);
    delta(&index).buffer().set_buffering(Buffering::None);
    (0..KEYS).for_each(|n| put(&fixture.pool, &index, n, 1));
    assert!(check(&fixture.pool, &index.tree, false).height > 2);
    checkpoint(&fixture.pool);
    let fixture = PoolFixture::recover(fixture.disk.crash(1), FRAMES, &mut |_, _| ());
    let index = found_again(&fixture.pool, &index, 1);
    let page = an_inner_page(&fixture.disk, &index);
    (0..KEYS).step_by(10).for_each(|n| put(&fixture.pool, &index, n, 2));
    (fixture, index, page)
}
fn a_pass(pool: &Pool, index: &IndexTrees) {
    while !sweep_step(pool, index, 8).expect("it goes on").end {}
}

#[test]
fn a_broken_inner_page_keeps_nothing_outside_it_from_being_merged() {
    let (fixture, index, page) = filled();
    let all = delta(&index).entries();
    flip(&fixture.disk, page);
    a_pass(&fixture.pool, &index);
    let left = delta(&index).entries();
    assert!(left > 0 && left < all / 3, "{left} of {all} are left");
    let waiting = delta(&index)
        .unmergeable(fixture.pool.disk().now_us())
        .pop()
        .expect("some");
    assert!(waiting.is_lasting && waiting.why.to_string().contains(&format!("page {page}")));
    let (bytes, all) = (waiting.bytes, delta(&index).bytes());
    assert!(
        bytes * 2 > all && bytes <= all,
        "{bytes} of {all} bytes are said to wait"
    );
    // The page comes back.
    flip(&fixture.disk, page);
    drain(&fixture.pool, &index).expect("drain");
    assert_eq!(delta(&index).entries(), 0);
    assert!(delta(&index).unmergeable(0).is_empty());
}

/// One failed read of the root counted everything pending as lost to a broken page. So the index
/// was quarantined.
#[test]
fn what_the_disk_failed_to_read_lasts_only_if_it_fails_again() {
    let (fixture, index, _) = filled();
    let (pool, disk) = (&fixture.pool, &fixture.disk);
    let fail = || {
        let why = Error::io("read");
        delta(&index).cannot_go_on(pool, why);
        let said = delta(&index).unmergeable(disk.now_us()).pop();
        said.is_some_and(|all| all.is_lasting && all.bytes == delta(&index).bytes())
    };
    assert!(!fail());
    sweep_step(pool, &index, 1).expect("the next step goes");
    assert!(
        delta(&index).unmergeable(disk.now_us()).is_empty(),
        "the next step ends it"
    );
    for _ in 0..2 {
        assert!(!fail());
        disk.advance_us(RETRY_US);
    }
    assert!(fail());
    a_pass(pool, &index);
    assert!(delta(&index).unmergeable(disk.now_us()).is_empty());
}

#[test]
fn one_failed_read_anywhere_is_over_with_the_next_pass() {
    for n in [1, 2, 3, 5, 8, 13, 40] {
        let (fixture, index, _) = filled();
        fixture.disk.fail_read(fixture.disk.reads() + n);
        while !sweep_step(&fixture.pool, &index, 8).is_ok_and(|swept| swept.end) {}
        let now = fixture.disk.now_us();
        assert!(!delta(&index).unmergeable(now).iter().any(|one| one.is_lasting));
        a_pass(&fixture.pool, &index);
        assert_eq!(delta(&index).entries(), 0, "read {n}");
        assert!(delta(&index).unmergeable(now).is_empty(), "read {n}");
    }
}

/// Entries that wait for a broken leaf and entries that one failed read kept from being merged were
/// one sum, and all counted as broken.
#[test]
fn a_failed_read_does_not_count_as_what_is_broken() {
    let (fixture, index, _) = filled();
    let pool = &fixture.pool;
    let last = index.tree.leaf_number(pool, &key(KEYS - 10)).unwrap();
    pool.flush_all().unwrap();
    pool.discard_file(FILE);
    flip(&fixture.disk, last);
    assert!(index.tree.leaf_owning(pool, &key(KEYS - 10)).is_err(), "it is broken");
    // Reads of inner pages fail, too, at the pass's beginning, more than once.
    (4..12).for_each(|n| fixture.disk.fail_read(fixture.disk.reads() + n));
    a_pass(pool, &index);
    let now = fixture.disk.now_us();
    let waits = |index: &IndexTrees| -> u64 {
        let lasting = delta(index).unmergeable(now).into_iter().filter(|one| one.is_lasting);
        lasting.map(|one| one.bytes).sum()
    };
    let (all, of_leaf) = (delta(&index).bytes(), waits(&index));
    assert!(of_leaf > 0 && of_leaf < all / 2, "{of_leaf} of {all}");
    let why = Error::io("read");
    sweep_step(pool, &index, 1).unwrap();
    delta(&index).cannot_go_on(pool, why);
    assert_eq!(waits(&index), of_leaf);
}

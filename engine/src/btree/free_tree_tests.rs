//! Freeing trees that cannot be walked: damaged ones, and trees in a file where a load goes on.
use crate::base::PageId;
use crate::btree::extents::ExtentList;
use crate::btree::node::Node;
use crate::btree::tests::fixture::*;
use crate::btree::{Intent, Tree, TreeRemover};
use crate::io::{Caching, Disk, Mode};
use crate::pool::direct::Direct;
use crate::pool::testing::PoolFixture;
use crate::pool::{Pool, PAGE_SIZE};
use crate::space::{self, file_name, EXTENT_PAGES};

/// Pages of the tree at that level.
fn pages_at(pool: &Pool, tree: &Tree, level: u8) -> Vec<u32> {
    let is_one = |no: &u32| {
        let id = PageId::new(FILE, *no);
        space::is_used(pool, id).unwrap()
            && pool.read(id).is_ok_and(|page| {
                let node = Node::new(&page);
                node.belongs_to(tree.index) && node.level() == level
            })
    };
    (1..space::usage(pool, FILE).unwrap().pages).filter(is_one).collect()
}

/// Only the parent of a page in the middle names the page. The scan did not read the parent's list
/// of children: the page stayed in use for ever, and CHECK TABLE never passed again.
#[test]
fn a_broken_page_is_freed_with_the_tree_whose_parent_knows_it() {
    for level in [0, 1] {
        let (fixture, tree) = fixture_with_tree(3, 4096);
        for n in 0u64..9000 {
            // Neighbouring keys differ at their ends only: separators are long, and there are many
            // inner pages.
            let key = [&(n / 20).to_be_bytes()[..], &[b'k'; 1000], &(n % 20).to_be_bytes()].concat();
            put(&fixture.pool, &tree, &key, b"v");
        }
        checkpoint(&fixture.pool);
        let broken = pages_at(&fixture.pool, &tree, level)[5];
        assert!(!pages_at(&fixture.pool, &tree, 2).is_empty(), "three levels");
        let disk = fixture.disk.crash(1);
        drop(fixture);
        let file = disk.open(&file_name(FILE), Mode::Open, Caching::Buffered).unwrap();
        file.write_at(&[7; 512], broken as u64 * PAGE_SIZE as u64 + 4096)
            .unwrap();
        file.sync().unwrap();
        let fixture = PoolFixture::recover(disk, 4096, &mut |_, _| ());
        if level == 1 {
            assert!(TreeRemover::new(&fixture.pool, &tree)
                .remove()
                .unwrap_err()
                .is_corrupt());
        }
        assert_eq!(TreeRemover::new(&fixture.pool, &tree).remove_scattered(), Ok(Some(0)));
        assert_eq!(space::usage(&fixture.pool, FILE).unwrap().used, 2);
    }
}

/// Freed leaves still name their old tree on disk until the load that got them writes them. They
/// were freed once more, while the load used them.
#[test]
fn pages_of_a_load_are_not_those_of_the_tree_that_had_them_before() {
    let (fixture, tree) = fixture_with_tree(4, 4096);
    for n in 0u64..6000 {
        let key = [&(n / 20).to_be_bytes()[..], &[b'k'; 1000], &(n % 20).to_be_bytes()].concat();
        put(&fixture.pool, &tree, &key, b"v");
    }
    checkpoint(&fixture.pool);
    let inner = pages_at(&fixture.pool, &tree, 1);
    let leaves = pages_at(&fixture.pool, &tree, 0);
    // The second page from the left is broken: all pages to its right can be freed.
    let first = PageId::new(FILE, tree.leaf_number(&fixture.pool, b"").unwrap());
    let upper = tree.leaf_place(&fixture.pool, b"").unwrap().unwrap().1.unwrap();
    assert!(inner.len() > 4 && leaves.contains(&first.no) && !upper.is_empty());
    let broken = inner[1];
    let disk = fixture.disk.crash(1);
    drop(fixture);
    disk.flip(&file_name(FILE), broken as u64 * PAGE_SIZE as u64 + 4096, 4);
    let fixture = PoolFixture::recover(disk, 4096, &mut |_, _| ());
    assert!(TreeRemover::new(&fixture.pool, &tree)
        .remove()
        .unwrap_err()
        .is_corrupt());
    let is_free = |no: &u32| !space::is_used(&fixture.pool, PageId::new(FILE, *no)).unwrap();
    assert!(
        leaves.iter().filter(|no| is_free(no)).count() > 100,
        "most of it is free"
    );

    let mut mtr = fixture.pool.begin();
    let list = ExtentList::create(&mut mtr, FILE, tree.index + 1, 77).unwrap();
    mtr.commit();
    let mut load = Direct::begin(&fixture.pool, FILE).unwrap();
    let mut given = vec![list.page];
    for _ in 0..4 {
        let (first, lsn) = list.allocate(&fixture.pool).unwrap();
        load.given(first, EXTENT_PAGES, lsn).unwrap();
        given.extend(first..first + EXTENT_PAGES);
    }
    assert!(
        given.iter().any(|no| leaves.contains(no)),
        "the load has got some of them"
    );
    assert_eq!(
        TreeRemover::new(&fixture.pool, &tree).remove_scattered(),
        Ok(None),
        "while it goes on"
    );
    // The load ends unfinished.
    drop(load);
    assert!(TreeRemover::new(&fixture.pool, &tree)
        .remove_scattered()
        .unwrap()
        .is_some());
    assert!(!given.iter().any(is_free), "they are the load's");
    assert!(leaves.iter().all(|no| is_free(no) || given.contains(no)));
    list.free_all(&fixture.pool).unwrap();
    assert_eq!(space::usage(&fixture.pool, FILE).unwrap().used, 2);
}

/// The root was freed first. A repeated free, after an error or a crash, took the tree for freed:
/// its other pages stayed in use for ever.
#[test]
fn freeing_scattered_pages_can_be_done_again_wherever_it_was_cut_short() {
    let mut failed = 0;
    for n in (3..).step_by(7) {
        let (fixture, tree) = fixture_with_tree(4, 64);
        for n in 0u64..3000 {
            let key = [&(n / 20).to_be_bytes()[..], &[b'k'; 1000], &(n % 20).to_be_bytes()].concat();
            put(&fixture.pool, &tree, &key, b"v");
        }
        checkpoint(&fixture.pool);
        let broken = pages_at(&fixture.pool, &tree, 1)[1];
        let disk = fixture.disk.crash(1);
        drop(fixture);
        disk.flip(&file_name(FILE), broken as u64 * PAGE_SIZE as u64 + 4096, 4);
        let fixture = PoolFixture::recover(disk, 64, &mut |_, _| ());
        fixture.disk.fail_read(fixture.disk.reads() + n);
        loop {
            match TreeRemover::new(&fixture.pool, &tree).remove() {
                Err(e) if e.is_corrupt() && TreeRemover::new(&fixture.pool, &tree).remove_scattered().is_ok() => break,
                Err(_) => {}
                Ok(()) => break,
            }
        }
        assert_eq!(space::usage(&fixture.pool, FILE).unwrap().used, 2, "read {n}");
        match fixture.disk.struck() {
            0 => break,
            _ => failed += 1,
        }
    }
    assert!(failed > 3, "{failed}");
}

/// A tree was freed, but a crash lost the note of that. A load got the root's page, and a second
/// crash cut its write short. The root was freed once more, while the load used it.
#[test]
fn a_root_that_is_a_loads_now_is_not_freed_with_the_tree_that_is_gone() {
    let (fixture, before) = fixture_with_tree(4, 512);
    for n in 0u64..2000 {
        let key = [&n.to_be_bytes()[..], &[b'k'; 1000]].concat();
        put(&fixture.pool, &before, &key, b"v");
    }
    let tree = add_tree(&fixture.pool, before.index + 2);
    assert!(tree.root > EXTENT_PAGES, "not in the first extent");
    TreeRemover::new(&fixture.pool, &before).remove().unwrap();
    TreeRemover::new(&fixture.pool, &tree).remove().unwrap();
    checkpoint(&fixture.pool);
    let mut mtr = fixture.pool.begin();
    let list = ExtentList::create(&mut mtr, FILE, tree.index + 1, 77).unwrap();
    mtr.commit();
    let mut load = Direct::begin(&fixture.pool, FILE).unwrap();
    loop {
        let (first, lsn) = list.allocate(&fixture.pool).unwrap();
        load.given(first, EXTENT_PAGES, lsn).unwrap();
        if (first..first + EXTENT_PAGES).contains(&tree.root) {
            break;
        }
    }
    checkpoint(&fixture.pool);
    let disk = fixture.disk.crash(1);
    disk.flip(&file_name(FILE), tree.root as u64 * PAGE_SIZE as u64 + 4096, 4);
    let fixture = PoolFixture::recover(disk, 512, &mut |_, _| ());
    assert!(TreeRemover::new(&fixture.pool, &tree)
        .remove()
        .unwrap_err()
        .is_corrupt());
    assert!(TreeRemover::new(&fixture.pool, &tree)
        .remove_scattered()
        .unwrap()
        .is_some());
    assert!(space::is_used(&fixture.pool, PageId::new(FILE, tree.root)).unwrap());
    list.free_all(&fixture.pool).unwrap();
    assert_eq!(space::usage(&fixture.pool, FILE).unwrap().used, 2);
}

/// A leaf became sparse, and its neighbour was unreadable. The removal that made it sparse was
/// committed, and still returned the neighbour's error. A rollback stopped the engine for it.
#[test]
fn a_merge_with_a_neighbour_that_cannot_be_read_is_called_off() {
    for flips in [false, true] {
        let (fixture, tree) = fixture_with_tree(4, 512);
        let key = |n: u64| [&n.to_be_bytes()[..], &[b'k'; 500]].concat();
        (0u64..300).for_each(|n| assert!(put(&fixture.pool, &tree, &key(n), b"v")));
        checkpoint(&fixture.pool);
        let leaf = |pool: &Pool, n: u64| tree.leaf_place(pool, &key(n)).unwrap().unwrap().0.no;
        let (first, count) = (
            leaf(&fixture.pool, 0),
            (0..)
                .take_while(|n| leaf(&fixture.pool, *n) == leaf(&fixture.pool, 0))
                .count() as u64,
        );
        let second = leaf(&fixture.pool, count);
        let disk = fixture.disk.crash(1);
        drop(fixture);
        if flips {
            disk.flip(&file_name(FILE), second as u64 * PAGE_SIZE as u64 + 4096, 4);
        }
        let fixture = PoolFixture::recover(disk, 512, &mut |_, _| ());
        assert_eq!(
            tree.leaf_number(&fixture.pool, &key(0)),
            Ok(first),
            "it is in the pool now"
        );
        for n in 0..count {
            if !flips {
                fixture.disk.fail_read(fixture.disk.reads() + 1);
            }
            assert_eq!(
                try_delete(&fixture.pool, &tree, &key(n), Intent::Leaf).map(|it| it.0),
                Ok(true)
            );
        }
        fixture.pool.check_alive().unwrap();
    }
}

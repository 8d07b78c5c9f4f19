//! Giving back trees that cannot be walked.
use super::kit::*;
use crate::base::PageId;
use crate::btree::node::Node;
use crate::btree::Tree;
use crate::io::{Caching, Disk, Mode};
use crate::pool::tests::Rig;
use crate::pool::{Pool, PAGE_SIZE};
use crate::space::{self, file_name};

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

/// A page in the middle was known by its parent only, which was not asked: it stayed in use for ever, and CHECK TABLE never passed again.
#[test]
fn a_broken_page_is_freed_with_the_tree_whose_parent_knows_it() {
    for level in [0, 1] {
        let (rig, tree) = rig_with_tree(3, 4096);
        for n in 0u64..9000 {
            // What parts two neighbours stands at their ends, so that inner pages have long keys and there are many of them.
            let key = [&(n / 20).to_be_bytes()[..], &[b'k'; 1000], &(n % 20).to_be_bytes()].concat();
            put(&rig.pool, &tree, &key, b"v");
        }
        checkpoint(&rig.pool);
        let broken = pages_at(&rig.pool, &tree, level)[5];
        assert!(!pages_at(&rig.pool, &tree, 2).is_empty(), "three levels");
        let disk = rig.disk.crash(1);
        drop(rig);
        let file = disk.open(&file_name(FILE), Mode::Open, Caching::Buffered).unwrap();
        file.write_at(&[7; 512], broken as u64 * PAGE_SIZE as u64 + 4096)
            .unwrap();
        file.sync().unwrap();
        let rig = Rig::recover(disk, 4096, &mut |_, _| ());
        if level == 1 {
            assert!(tree.free_all(&rig.pool).unwrap_err().is_corrupt());
        }
        assert_eq!(tree.free_scattered(&rig.pool), Ok(0));
        assert_eq!(space::usage(&rig.pool, FILE).unwrap().used, 2);
    }
}

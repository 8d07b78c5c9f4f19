//! Fixtures for tests of indexes with a change buffer: make an index, and open it again as a
//! restart does.
use crate::btree::tests::fixture::FILE;
use crate::btree::Tree;
use crate::change::{Buffering, ChangeBuffer, Delta, IndexTrees, DELTA_BIT};
use crate::pool::Pool;
use crate::space;
use std::sync::Arc;

pub(crate) const INDEX: u32 = 20;

/// `mode`: as in [`ChangeBuffer::set_test_mode`].
fn buffer_of(pool: &Pool, mode: u8) -> Arc<ChangeBuffer> {
    Arc::new(ChangeBuffer::new(Buffering::All, 25, pool.size(), mode))
}
fn index_with(tree: Tree, delta: Delta) -> IndexTrees {
    IndexTrees {
        tree,
        delta: Some(Arc::new(delta)),
    }
}
/// An index in a new file.
pub(crate) fn new_index(pool: &Pool, mode: u8) -> IndexTrees {
    space::create_file(pool, FILE, false).expect("there is room for a file");
    let mut mtr = pool.begin();
    let trees = Tree::create_many(&mut mtr, FILE, &[INDEX, INDEX | DELTA_BIT]).expect("there is room for two roots");
    mtr.commit();
    index_with(trees[0], Delta::fresh(trees[1], &buffer_of(pool, mode)))
}
/// A unique index in a new file, with absence filters. `pk_len`: as in [`Delta::set_unique`].
pub(crate) fn new_unique_index(pool: &Pool, mode: u8, pk_len: usize) -> IndexTrees {
    let index = new_index(pool, mode);
    let delta = index.delta.as_ref().expect("it was made with one");
    delta.set_unique(pk_len);
    pool.absence_filters().set_hasher(delta.buffer().page_hasher());
    index
}
/// The index as after a restart: nothing is known of it in memory.
pub(crate) fn found_again(pool: &Pool, old: &IndexTrees, mode: u8) -> IndexTrees {
    let delta = old.delta.as_ref().expect("it was made by new_index");
    index_with(old.tree, Delta::found(delta.tree, &buffer_of(pool, mode)))
}

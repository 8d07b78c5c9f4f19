//! Filling an empty tree with sorted entries: page by page through the pool, or past the pool and
//! the log.
//!
//! Called by index builds and loads, which hold no latch.
use crate::base::sync::holds_no_latch;
use crate::base::{Error, Result, TrxId};
use crate::btree::build::Builder;
use crate::btree::extents::ExtentList;
use crate::btree::load::Loader;
use crate::btree::Tree;
use crate::index::secondary;
use crate::index::Index;
use crate::pool::Pool;
use crate::table::bulk::sort::Sorter;
use crate::table::row::entry::{check_key_len, NewEntry};
use crate::txn::{Trx, Waiter};
use std::sync::Arc;

/// Share of each leaf that a build fills: room for the changes to come.
pub(in crate::table) const FILL_PERCENT: u32 = 94;

/// Takes the next key and value.
pub(in crate::table) type Push<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<()>;

/// An index's entry for a [`Sorter`], made in `value`, and its note.
pub(in crate::table) fn sort_entry(
    value: &mut Vec<u8>,
    index: &Index,
    new: &NewEntry<'_>,
    pk_fixed_len: usize,
    stamp: TrxId,
) -> Result<u64> {
    let (key, user_key_len) = (new.key, new.user_key_len);
    check_key_len(index, key, key.len().saturating_sub(user_key_len))?;
    if user_key_len > key.len() {
        let what = "an index key that is longer than the entry's key";
        return Err(Error::Invalid(what.into()));
    }
    let raw = secondary::fitting(index.tree.entry_max(), key.len(), new.raw);
    secondary::encode(value, stamp, key.len() - user_key_len, pk_fixed_len, raw);
    debug_assert!(
        key.len() + value.len() <= index.tree.entry_max(),
        "an entry that is sorted fits a leaf of its index"
    );
    Ok((user_key_len as u64) << 1 | new.unique_check as u64)
}

/// `Interrupted` once the statement is killed.
pub(in crate::table) fn kill_poll(trx: &Trx) -> impl FnMut() -> Result<()> {
    let waiter = trx.shared.waiter.clone();
    move || match waiter.killed() {
        true => Err(Error::Interrupted),
        false => Ok(()),
    }
}

/// Reports the progress of one or several sorts to the statement's connection.
pub(in crate::table) struct SortProgress {
    waiter: Arc<dyn Waiter>,
    done: u64,
    reported: u64,
    all: u64,
}

impl SortProgress {
    /// Bytes between two reports.
    const STEP: u64 = 1 << 18;

    /// `all`: bytes of all sorts.
    pub fn new(trx: &Trx, all: u64) -> SortProgress {
        SortProgress {
            waiter: trx.shared.waiter.clone(),
            done: 0,
            reported: 0,
            all,
        }
    }
    fn add(&mut self, bytes: usize) {
        self.done += bytes as u64;
        debug_assert!(self.done <= self.all, "the sorts hand out no more than they took");
        if self.done - self.reported >= SortProgress::STEP {
            self.reported = self.done;
            self.waiter.progress(self.done, self.all);
        }
    }
}

/// The entries of [`sort_entry`] in order; if `unique`, each value once.
pub(in crate::table) fn in_order(
    sorter: Sorter,
    unique: bool,
    trx: &Trx,
    progress: &mut SortProgress,
    push: Push<'_>,
) -> Result<()> {
    // The value last checked: (key, length of the index key in it).
    let mut last: (Vec<u8>, usize) = (Vec::new(), 0);
    sorter.merge(&mut kill_poll(trx), &mut |key, value, note| {
        progress.add(key.len() + value.len());
        let user_len = (note >> 1) as usize;
        if unique && note & 1 != 0 {
            if !last.0.is_empty() && last.0[..last.1] == key[..user_len] {
                return Err(Error::Duplicate {
                    index: 0,
                    pk: key[user_len..].to_vec(),
                });
            }
            last.0.clear();
            last.0.extend_from_slice(key);
            last.1 = user_len;
        }
        push(key, value)
    })
}

/// Fills an empty tree with what `feed` gives in order, page by page through the pool. No other
/// thread uses the tree.
pub(in crate::table) fn fill_small(
    pool: &Arc<Pool>,
    tree: Tree,
    feed: impl FnOnce(Push<'_>) -> Result<()>,
) -> Result<()> {
    let mut builder = Builder::new(pool, tree, FILL_PERCENT);
    feed(&mut |key, value| builder.push(key, value))?;
    builder.finish().map(|_| ())
}

/// Fills an empty tree past the pool and the log. `list`: of the load, empty.
pub(in crate::table) fn fill_past_pool(
    pool: &Arc<Pool>,
    tree: Tree,
    list: ExtentList,
    feed: impl FnOnce(Push<'_>) -> Result<()>,
) -> Result<()> {
    assert!(
        list.file == tree.file && list.index == tree.index,
        "a tree is loaded from its own list of extents: a rollback frees what the list names"
    );
    let mut load = Loader::new(pool, tree, list, FILL_PERCENT)?;
    feed(&mut |key, value| load.push(key, value))?;
    link_load(pool, load)
}

pub(in crate::table) fn link_load(pool: &Arc<Pool>, load: Loader) -> Result<()> {
    debug_assert!(
        holds_no_latch(),
        "I5: the pages of a load are forced to disk with no latch held"
    );
    let loaded = load.finish()?;
    pool.redo().reserve_to_go_on()?;
    let mut mtr = pool.begin();
    let linked = loaded.link(&mut mtr)?;
    mtr.commit();
    assert!(linked, "no other thread knows the tree");
    Ok(())
}

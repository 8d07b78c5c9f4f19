//! A stretch of base leaves merged in one mini-transaction (I4): the leaves are written anew,
//! together with what was pending for them.
//!
//! A leaf that a bulk build filled has no room for what is pending for it, and neither have its
//! neighbours. Merged one by one each would be split; together they need one page in eight more. An
//! image of each page goes to the log. That is as many bytes as its doublewrite would be, and so
//! the page needs no doublewrite (`pool::flush`).
//!
//! Latches: a parent and several base leaves (X), then delta leaves as `merge::batch` says. Called
//! by: `merge::leaf`, with no latch held.
use super::batch::{Batch, Limits, Reach, TakenOut};
use crate::base::{planted, sync_point, Mutant, Result, SyncPoint};
use crate::btree::Tree;
use crate::change::delta::Delta;
use crate::pool::{Pool, Presence, PAGE_SIZE};

/// Leaves of one stretch, at most.
const STRETCH_MAX: usize = 8;
/// A stretch's images take at most this part (1/n) of the log, and its leaves this part of the
/// pool.
const LOG_SHARE: u64 = 32;
const POOL_SHARE: u64 = 64;
/// Entries that one mini-transaction takes, and delta leaves that it latches for each base leaf,
/// about.
const ENTRIES_MAX: usize = 4096;
const DELTA_LEAVES: usize = 4;

#[cfg(test)]
thread_local! {
    /// Stretches that this thread has merged, and their leaves.
    pub(crate) static REDISTRIBUTED: std::cell::Cell<(u64, u64)> = const { std::cell::Cell::new((0, 0)) };
}

/// The outcome of a stretch's merge.
pub struct MergedStretch {
    /// Base leaves before the merge.
    pub leaves: usize,
    /// Where the last of them ended; None = it was the index's last.
    pub end: Option<Vec<u8>>,
    /// Something is left, from this key on.
    pub rest: Option<Vec<u8>>,
}

/// Merges the leaf that owns `at` and its right neighbours. None: nothing was changed, and the leaf
/// must be merged by itself.
pub fn merge_stretch(batch: &mut Batch<'_>, at: &[u8]) -> Result<Option<MergedStretch>> {
    let (pool, tree) = (batch.pool, batch.tree);
    let bytes = (pool.redo().capacity() / LOG_SHARE).min(pool.size() / POOL_SHARE);
    let leaves_max = STRETCH_MAX.min(bytes as usize / PAGE_SIZE);
    let stretch = read_stretch(pool, tree, batch.delta, at, leaves_max)?;
    if stretch < 2 {
        return Ok(None);
    }
    pool.redo().reserve_to_go_on()?;
    let mut mtr = pool.begin();
    let Some(siblings) = crate::btree::Siblings::latch(tree, &mut mtr, at, stretch)? else {
        return Ok(None);
    };
    debug_assert!(siblings.count() >= 1, "the leaf that owns the key is latched");
    let lo = siblings.lower(&mtr).to_vec();
    debug_assert!(lo[..] <= *at, "the stretch begins with the leaf that owns the key");
    let hi = siblings.upper(&mtr).map(<[u8]>::to_vec);
    let limits = Limits {
        entries: ENTRIES_MAX,
        leaves: DELTA_LEAVES * stretch,
    };
    let reach = batch.collect(&mut mtr, &lo, hi.as_deref(), limits)?;
    let contents = siblings.contents(&mtr);
    let (mut kept, mut made) = (Vec::new(), Vec::new());
    let base: Vec<_> = contents.entries().collect();
    let shape = fold(batch, &base, &mut kept, &mut made);
    let items: Vec<(&[u8], &[u8])> = shape
        .into_iter()
        .map(|item| match item {
            Item::Base(i) => base[i],
            Item::Pending { key, from, to } => (batch.pending.key(key), &made[from..to]),
        })
        .collect();
    debug_assert!(
        items.is_sorted_by(|before, after| before.0 < after.0),
        "the entries of the new leaves come in key order, each once"
    );
    if batch.pending.is_empty() || !siblings.redistribute(&mut mtr, &items)? {
        return Ok(None);
    }
    let (stuck, done) = (batch.stuck, batch.pending.len());
    let taken = match planted(Mutant::RedistributedEntryMergedTwice) {
        true => TakenOut::default(),
        false => batch.take_out(&mut mtr, done, &kept),
    };
    debug_assert!(kept.len() <= done, "kept keys are among those met");
    mtr.commit();
    #[cfg(test)]
    REDISTRIBUTED.with(|sum| sum.set((sum.get().0 + 1, sum.get().1 + siblings.count() as u64)));
    sync_point(SyncPoint::MergedToBeCounted);
    batch.count_merged(done, &kept, &taken);
    batch.free_empty(taken)?;
    let rest = match reach {
        Reach::All => None,
        Reach::Below(key) => Some(key),
        Reach::Older => {
            // The stuck entries are met again.
            batch.stuck = stuck;
            Some(lo)
        }
    };
    Ok(Some(MergedStretch {
        leaves: siblings.count(),
        end: hi,
        rest,
    }))
}

/// The number of leaves in a row, from the one that owns `at` on, for which something is pending. A
/// neighbour without pending entries is not worth its write. The leaves, and the pages of their
/// pending entries, are read here. With the parent latched, reads would hold up every other thread.
pub(super) fn read_stretch(pool: &Pool, tree: &Tree, delta: &Delta, at: &[u8], leaves_max: usize) -> Result<usize> {
    let place = |key: &[u8]| tree.leaf_place(pool, key);
    let mut leaves = 1;
    let mut end = place(at)?.and_then(|(_, end)| end);
    while let Some(from) = end.take().filter(|_| leaves < leaves_max) {
        let next = delta.next_key(pool, &from)?;
        let Some((leaf, to)) = place(&from)? else { break };
        let has_none = next.is_none_or(|key| to.as_ref().is_some_and(|to| key >= *to));
        let is_absent = pool.presence(leaf) == Presence::Absent;
        if has_none || is_absent && pool.read(leaf).is_err() {
            break;
        }
        leaves += 1;
        end = to;
    }
    debug_assert!(leaves <= leaves_max.max(1), "I7: a stretch is bounded");
    Ok(leaves)
}

/// The new content of the stretch: base entries and pending keys in key order, each evaluated.
/// Values go to `made`; keys that fit no entry of the base go to `kept`.
fn fold(batch: &mut Batch<'_>, base: &[(&[u8], &[u8])], kept: &mut Vec<usize>, made: &mut Vec<u8>) -> Vec<Item> {
    let (pending, value) = (&batch.pending, &mut batch.value);
    let mut items = Vec::with_capacity(base.len() + pending.len());
    let mut next = 0;
    for key in 0..pending.len() {
        if key == 0 && planted(Mutant::RedistributedEntryLost) {
            continue;
        }
        let place = place_of(base, next, pending.key(key));
        debug_assert!(place >= next, "base entries and pending keys are joined in key order");
        debug_assert!(
            key == 0 || pending.key(key - 1) < pending.key(key),
            "a key's pending entries are one group"
        );
        items.extend((next..place).map(Item::Base));
        next = place;
        let found = base.get(place).filter(|entry| entry.0 == pending.key(key));
        match pending.evaluate(key, found.map(|entry| entry.1), value) {
            Ok(true) => {
                let from = made.len();
                made.extend_from_slice(value);
                let to = made.len();
                items.push(Item::Pending { key, from, to });
            }
            Ok(false) => {}
            Err(_) => {
                kept.push(key);
                items.extend(found.map(|_| Item::Base(place)));
            }
        }
        next += found.is_some() as usize;
    }
    items.extend((next..base.len()).map(Item::Base));
    items
}

/// The first entry from `next` on that is not below `key`. It is near, because much is pending. A
/// search in steps that double finds it among a few neighbours. A binary search of the rest would
/// look at a dozen entries far apart.
fn place_of(base: &[(&[u8], &[u8])], next: usize, key: &[u8]) -> usize {
    let (mut from, mut step) = (next, 1);
    while base.get(from + step - 1).is_some_and(|entry| entry.0 < key) {
        from += step;
        step *= 2;
    }
    let to = base.len().min(from + step - 1);
    let place = from + base[from..to].partition_point(|entry| entry.0 < key);
    debug_assert!(
        base.get(place).is_none_or(|entry| entry.0 >= key),
        "no entry below the key comes after its place"
    );
    place
}

/// The origin of an entry of the new leaves.
#[derive(Clone, Copy)]
enum Item {
    Base(usize),
    /// A pending key; its value is these bytes of `made`.
    Pending {
        key: usize,
        from: usize,
        to: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::place_of;

    #[test]
    fn a_place_is_found_from_everywhere() {
        let keys: Vec<[u8; 1]> = (0..40).map(|n| [2 * n + 1]).collect();
        for len in 0..=keys.len() {
            let base: Vec<(&[u8], &[u8])> = keys[..len].iter().map(|key| (&key[..], &[][..])).collect();
            for key in 0..=81 {
                let wanted = base.iter().filter(|entry| entry.0 < &[key][..]).count();
                for next in 0..=wanted {
                    assert_eq!(
                        place_of(&base, next, &[key]),
                        wanted,
                        "{len} entries, {key}, from {next}"
                    );
                }
            }
        }
    }
}

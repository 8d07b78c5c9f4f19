//! A stretch of base leaves merged by one Mtr, and written anew with what was pending for them (`btree::Siblings`).
//!
//! A leaf that a bulk build filled has no room for what is pending for it, and neither have its neighbours. Merged one by one each would be
//! split; together they need one page in eight more. An image of each page goes to the log, which is as many bytes as its doublewrite
//! would be; in return it needs none (`pool::flush`). Latches as in `merge.rs`, with a parent and several leaves in the place of one.
use super::merge::{Merge, Next, Reach};
use crate::base::{moment, planted, Moment, Mutant, Result};
use crate::pool::{Presence, PAGE_SIZE};

/// Leaves of one stretch, at most.
const STRETCH_MAX: usize = 8;
/// A stretch's images take at most this part of the log (1/n), and its leaves this part of the pool.
const LOG_SHARE: u64 = 32;
const POOL_SHARE: u64 = 64;
/// Entries that one Mtr takes, and delta leaves that it latches for each base leaf, about.
const ENTRIES_MAX: usize = 4096;
const DELTA_LEAVES: usize = 4;

#[cfg(test)]
thread_local! {
    /// Stretches that this thread has merged, and their leaves.
    pub(crate) static SPREAD: std::cell::Cell<(u64, u64)> = const { std::cell::Cell::new((0, 0)) };
}

impl Merge<'_> {
    /// One Mtr: as `step`, for the leaf that owns `at` and its right neighbours.
    pub(super) fn spread(&mut self, at: &mut Vec<u8>) -> Result<Next> {
        let bytes = (self.pool.redo().capacity() / LOG_SHARE).min(self.pool.size() / POOL_SHARE);
        let stretch = self.stretch(at, STRETCH_MAX.min(bytes as usize / PAGE_SIZE))?;
        if stretch < 2 {
            return Ok(Next::Alone);
        }
        self.pool.redo().reserve_to_go_on()?;
        let mut mtr = self.pool.begin();
        let Some(siblings) = crate::btree::Siblings::latch(&self.tree, &mut mtr, at, stretch)? else {
            return Ok(Next::Alone);
        };
        let lo = siblings.lower(&mtr).to_vec();
        let hi = siblings.upper(&mtr).map(<[u8]>::to_vec);
        let usual = (self.entries_max, self.leaves_max);
        (self.entries_max, self.leaves_max) = (ENTRIES_MAX, DELTA_LEAVES * stretch);
        let reach = self.collect(&mut mtr, &lo, hi.as_deref());
        (self.entries_max, self.leaves_max) = usual;
        let reach = reach?;
        self.pending.settle();
        let contents = siblings.contents(&mtr);
        let (mut kept, mut made) = (Vec::new(), Vec::new());
        let base: Vec<_> = contents.entries().collect();
        let shape = self.fold(&base, &mut kept, &mut made);
        let items: Vec<(&[u8], &[u8])> = shape
            .into_iter()
            .map(|item| match item {
                Item::Base(i) => base[i],
                Item::Pending { key, from, to } => (self.pending.key(key), &made[from..to]),
            })
            .collect();
        if self.pending.is_empty() || !siblings.redistribute(&mut mtr, &items)? {
            return Ok(Next::Alone);
        }
        let stuck = self.stuck;
        let empty = match planted(Mutant::SpreadEntryMergedTwice) {
            true => Vec::new(),
            false => self.take_out(&mut mtr, self.pending.len(), &kept),
        };
        mtr.commit();
        #[cfg(test)]
        SPREAD.with(|spread| spread.set((spread.get().0 + 1, spread.get().1 + siblings.len() as u64)));
        moment(Moment::MergedToBeCounted);
        self.account(self.pending.len(), &kept);
        for key in empty {
            self.delta.tree.try_merge_nodes(self.pool, &key)?;
        }
        self.leaves += siblings.len() - 1;
        self.end = Some(hi);
        Ok(match reach {
            Reach::All => Next::Done,
            Reach::Below(key) => {
                *at = key;
                Next::From
            }
            Reach::Older => {
                // They are met again.
                self.stuck = stuck;
                *at = lo;
                Next::From
            }
        })
    }
    /// How many leaves in a row, from the one that owns `at` on, have something pending. A neighbour without is not worth its write. They are
    /// brought into the pool, as what is pending for them was to be found: not while their parent is latched, which is in everybody's way.
    pub(super) fn stretch(&self, at: &[u8], leaves_max: usize) -> Result<usize> {
        let place = |key: &[u8]| self.tree.leaf_place(self.pool, key);
        let mut leaves = 1;
        let mut end = place(at)?.and_then(|(_, end)| end);
        while let Some(from) = end.take().filter(|_| leaves < leaves_max) {
            let next = self.delta.next_key(self.pool, &from)?;
            let Some((leaf, to)) = place(&from)? else { break };
            let has_none = next.is_none_or(|key| to.as_ref().is_some_and(|to| key >= *to));
            let is_absent = self.pool.presence(leaf) == Presence::Absent;
            if has_none || is_absent && self.pool.read(leaf).is_err() {
                break;
            }
            leaves += 1;
            end = to;
        }
        Ok(leaves)
    }
    /// What the stretch shall hold: base entries and pending keys in key order, each evaluated. Values go to `made`; keys that do not fit
    /// the entry they meet to `kept`.
    fn fold(&mut self, base: &[(&[u8], &[u8])], kept: &mut Vec<usize>, made: &mut Vec<u8>) -> Vec<Item> {
        let mut items = Vec::with_capacity(base.len() + self.pending.len());
        let mut next = 0;
        for key in 0..self.pending.len() {
            if key == 0 && planted(Mutant::SpreadEntryLost) {
                continue;
            }
            let place = place_of(base, next, self.pending.key(key));
            items.extend((next..place).map(Item::Base));
            next = place;
            let found = base.get(place).filter(|entry| entry.0 == self.pending.key(key));
            match self.pending.evaluate(key, found.map(|entry| entry.1), &mut self.value) {
                Ok(true) => {
                    let from = made.len();
                    made.extend_from_slice(&self.value);
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
}

/// The first entry from `next` on that is not below `key`. It is near, for much is pending: looked for in steps that double, it is found
/// in a few neighbours, where halving all that is left would look at a dozen entries far apart.
fn place_of(base: &[(&[u8], &[u8])], next: usize, key: &[u8]) -> usize {
    let (mut from, mut step) = (next, 1);
    while base.get(from + step - 1).is_some_and(|entry| entry.0 < key) {
        from += step;
        step *= 2;
    }
    let to = base.len().min(from + step - 1);
    from + base[from..to].partition_point(|entry| entry.0 < key)
}

/// Where an entry of the new leaves comes from.
#[derive(Clone, Copy)]
enum Item {
    Base(usize),
    /// A pending key; its value is these bytes of what was made.
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

//! How many different values the keys of an index have, prefix by prefix, estimated from some of
//! its leaves.
//!
//! A *boundary* of the first k parts is an entry whose first k parts differ from those of the entry
//! before it. An index with D boundaries has D + 1 values. The level above the leaves says where
//! each leaf begins ([`LeafMap`]). A leaf between two bounds with equal first k parts holds one
//! value and no boundary of them, and need not be read. The other leaves form strata by the first k
//! for which their bounds differ. Of each stratum some leaves are read, evenly spaced, and their
//! boundaries counted; a small index is read whole. So a value that fills half of the index does
//! not hide the others.
//!
//! Changes that wait in the change buffer lie in other trees, one run for each partition. Each run
//! is sampled like the index itself. Of the values found in it, those count that no earlier run
//! has, which some searches find out. Merges move entries from a run to the index. So the index is
//! sampled after the runs: an entry that moves meanwhile is counted twice rather than left out.
//!
//! Delete-marked entries are not counted. NULL counts as one value. Latches: one leaf at a time,
//! shared. Called by `optimizer/keeper`.
use crate::base::bytes::common_prefix;
use crate::base::{PageId, Result};
use crate::btree::leaf_map::{LeafMap, LeafRanges};
use crate::btree::{LeafRead, Seek, Tree};
use crate::change::Delta;
use crate::index::key_shape::{KeyShape, PartEnds};
use crate::pool::Pool;

/// Nodes of the level above the leaves that are read of one tree, at most.
const NODES_MAX: usize = 64;
/// A stratum of at most so many times the asked number of leaves is read whole.
const WHOLE_TIMES: usize = 3;
/// Searches, for each prefix, for values of a run of the change buffer in earlier runs.
const SEARCHES_MAX: usize = 32;
/// Leaves that are read of one range of the map, at most. It was one leaf when the map was read.
const LEAVES_OF_RANGE_MAX: usize = 64;
/// Leaves that are asked for ahead at a time.
const AHEAD: usize = 32;

/// What one run of entries holds, or a whole index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Entries that are not delete-marked.
    pub entries: f64,
    /// Different values of the first 1, 2, ... parts.
    pub distinct: Vec<f64>,
    pub leaf_pages: u64,
    pub leaf_pages_read: u64,
}

/// Tells whether an entry (key, value) is one that counts.
pub type Counts<'a> = &'a dyn Fn(&[u8], &[u8]) -> Result<bool>;

/// A sorted run of entries: an index's tree, or one partition of its delta tree.
pub struct Run<'a> {
    pub tree: &'a Tree,
    /// Precedes every key in the tree: a partition number, or nothing.
    pub prefix: Vec<u8>,
    pub counts: Counts<'a>,
}

/// A leaf that is to be read: its group and place in the map.
type Choice = (usize, usize);

/// What the leaves of one stratum say.
#[derive(Clone, Default)]
struct Stratum {
    leaves: Vec<Choice>,
    read: u64,
    entries: u64,
    /// By prefix.
    boundaries: Vec<u64>,
}

/// Values of a run: (prefix, the value's bytes).
#[derive(Default)]
struct Begun {
    /// At most one for each leaf and prefix, which begins at a boundary. So a value that fills many
    /// leaves is not taken more often than others.
    at_boundaries: Vec<(usize, Vec<u8>)>,
    /// Of the first entry that was read.
    first: Vec<(usize, Vec<u8>)>,
}

/// `pages`: leaves that are read of each stratum.
pub fn sample(pool: &Pool, base: &Run<'_>, pending: &[Run<'_>], shape: &KeyShape, pages: usize) -> Result<Sample> {
    let mut found_pending = Vec::new();
    for (i, run) in pending.iter().enumerate() {
        let mut begun = Begun::default();
        let mut found = sample_run(pool, run, shape, pages, &mut begun)?;
        let earlier: Vec<&Run<'_>> = std::iter::once(base).chain(&pending[..i]).collect();
        for (k, distinct) in found.distinct.iter_mut().enumerate() {
            *distinct *= share_of_new(pool, &earlier, k, &begun)?;
        }
        found_pending.push(found);
    }
    let mut whole = sample_run(pool, base, shape, pages, &mut Begun::default())?;
    for found in found_pending {
        for (all, distinct) in whole.distinct.iter_mut().zip(&found.distinct) {
            *all += distinct;
        }
        whole.entries += found.entries;
        whole.leaf_pages_read += found.leaf_pages_read;
    }
    debug_assert_eq!(whole.distinct.len(), shape.len(), "each prefix has a number of values");
    let entries = whole.entries;
    let mut least = 0.0f64;
    for distinct in &mut whole.distinct {
        *distinct = distinct.max(least).min(entries);
        least = *distinct;
    }
    debug_assert!(whole.distinct.is_sorted(), "a longer prefix has no fewer values");
    Ok(whole)
}

/// The partitions of a delta tree as runs.
pub fn runs_of<'a>(delta: &'a Delta, counts: Counts<'a>) -> Vec<Run<'a>> {
    let run = |prefix: [u8; 2]| Run {
        tree: &delta.tree,
        prefix: prefix.to_vec(),
        counts,
    };
    delta.partition_prefixes().into_iter().map(run).collect()
}

fn sample_run(pool: &Pool, run: &Run<'_>, shape: &KeyShape, pages: usize, begun: &mut Begun) -> Result<Sample> {
    let end = end_of(&run.prefix);
    let random = pool.disk().random();
    let map = LeafMap::read(run.tree, pool, &run.prefix, end.as_deref(), NODES_MAX, random)?;
    let (parts, node_pages) = (shape.len(), u64::from(run.tree.node_pages()));
    let mut strata = strata_of(&map, run, shape);
    let mut counter = Counter::new(shape, run);
    let mut chosen: Vec<(Choice, usize)> = Vec::new();
    for (s, stratum) in strata.iter().enumerate() {
        chosen.extend(
            choose(&stratum.leaves, pages, random)
                .into_iter()
                .map(|choice| (choice, s)),
        );
    }
    chosen.sort_unstable();
    debug_assert!(
        chosen.is_sorted_by(|before, after| before < after),
        "a leaf is read once, for one stratum"
    );
    for some in chosen.chunks(AHEAD) {
        let ids: Vec<PageId> = some
            .iter()
            .flat_map(|((group, i), _)| run.tree.pages_of(map.groups[*group].page(*i)))
            .collect();
        pool.prefetch(&ids);
        for ((group, i), s) in some {
            counter.read_leaf(pool, &map.groups[*group], *i, &mut strata[*s], begun)?;
        }
    }
    let mut sample = Sample {
        distinct: vec![0.0; parts],
        leaf_pages: map.leaves() * node_pages,
        ..Sample::default()
    };
    for stratum in strata.iter().filter(|stratum| stratum.read > 0) {
        debug_assert!(
            stratum.read <= stratum.leaves.len() as u64,
            "a leaf of a stratum is read once"
        );
        let each_stands_for = map.weight() * stratum.leaves.len() as f64 / stratum.read as f64;
        sample.entries += stratum.entries as f64 * each_stands_for;
        sample.leaf_pages_read += stratum.read * node_pages;
        for (distinct, boundaries) in sample.distinct.iter_mut().zip(&stratum.boundaries) {
            *distinct += *boundaries as f64 * each_stands_for;
        }
    }
    if sample.entries > 0.0 {
        sample.distinct.iter_mut().for_each(|distinct| *distinct += 1.0);
    }
    Ok(sample)
}

/// The first key after those that begin with `prefix`; None: there is none.
fn end_of(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xFF)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    debug_assert!(
        !end.starts_with(prefix) && end[..] > *prefix,
        "the end comes after all of its keys"
    );
    Some(end)
}

/// Leaves by the first prefix in which their bounds differ.
fn strata_of(map: &LeafMap, run: &Run<'_>, shape: &KeyShape) -> Vec<Stratum> {
    let stratum = Stratum {
        boundaries: vec![0; shape.len()],
        ..Stratum::default()
    };
    let mut strata = vec![stratum; shape.len()];
    let mut ends = PartEnds::new();
    for (group, ranges) in map.groups.iter().enumerate() {
        for i in 0..ranges.len() {
            let lower = ranges.lower(i).strip_prefix(&run.prefix[..]).unwrap_or_default();
            let upper = ranges.upper(i).and_then(|upper| upper.strip_prefix(&run.prefix[..]));
            shape.part_ends(lower, &mut ends);
            let shared = upper.map_or(0, |upper| common_prefix(lower, upper));
            let equal = ends
                .iter()
                .take_while(|end| **end as usize <= shared && **end > 0)
                .count();
            strata[equal.min(shape.len() - 1)].leaves.push((group, i));
        }
    }
    debug_assert_eq!(
        strata.iter().map(|stratum| stratum.leaves.len()).sum::<usize>(),
        map.groups.iter().map(LeafRanges::len).sum::<usize>(),
        "each leaf of the map is in one stratum"
    );
    strata
}

/// So many of them, evenly spaced; all, if they are few.
fn choose(leaves: &[Choice], pages: usize, random: u64) -> Vec<Choice> {
    debug_assert!(pages > 0, "some leaves are read of each stratum");
    if leaves.len() <= pages * WHOLE_TIMES {
        return leaves.to_vec();
    }
    let step = leaves.len() as f64 / pages as f64;
    let first = step * (random % 1024) as f64 / 1024.0;
    (0..pages)
        .map(|n| leaves[((first + n as f64 * step) as usize).min(leaves.len() - 1)])
        .collect()
}

struct Counter<'a> {
    shape: &'a KeyShape,
    run: &'a Run<'a>,
    last: Vec<u8>,
    /// Of `last`.
    ends: PartEnds,
    next_ends: PartEnds,
}

impl<'a> Counter<'a> {
    fn new(shape: &'a KeyShape, run: &'a Run<'a>) -> Counter<'a> {
        Counter {
            shape,
            run,
            last: Vec::new(),
            ends: PartEnds::new(),
            next_ends: PartEnds::new(),
        }
    }

    /// Counts the entries of a range of the map. A leaf that cannot be read is left out: the others
    /// stand for it.
    fn read_leaf(
        &mut self,
        pool: &Pool,
        ranges: &LeafRanges,
        i: usize,
        stratum: &mut Stratum,
        begun: &mut Begun,
    ) -> Result<()> {
        let mut lower = ranges.lower(i).max(&self.run.prefix[..]).to_vec();
        let upper = ranges.upper(i);
        stratum.read += 1;
        for leaves in 0..LEAVES_OF_RANGE_MAX {
            let leaf = match self.run.tree.leaf_owning(pool, &lower) {
                Err(e) if e.is_corrupt() => {
                    stratum.read -= (leaves == 0) as u64;
                    break;
                }
                leaf => leaf?,
            };
            // The leaf was split since the map was read.
            let is_more =
                |fence: &&[u8]| upper.is_none_or(|upper| *fence < upper) && fence.starts_with(&self.run.prefix);
            let next = leaf.upper_fence().filter(is_more).map(<[u8]>::to_vec);
            self.count(&leaf, next.as_deref().or(upper), stratum, begun)?;
            match next {
                Some(next) => lower = next,
                None => break,
            }
        }
        Ok(())
    }

    fn count(
        &mut self,
        leaf: &LeafRead<'_>,
        upper: Option<&[u8]>,
        stratum: &mut Stratum,
        begun: &mut Begun,
    ) -> Result<()> {
        let mut has_last = false;
        // Prefixes of which this leaf has shown no new value yet.
        let mut unseen = self.shape.len();
        for slot in leaf.slot()..leaf.len() {
            let (whole, value) = leaf.entry_at(slot);
            if upper.is_some_and(|upper| whole >= upper) {
                break;
            }
            let Some(key) = whole.strip_prefix(&self.run.prefix[..]) else {
                break;
            };
            if !(self.run.counts)(key, value)? {
                continue;
            }
            debug_assert!(!has_last || self.last[..] < *key, "a leaf is in key order");
            stratum.entries += 1;
            let shared = if has_last { common_prefix(&self.last, key) } else { 0 };
            self.shape.part_ends(key, &mut self.next_ends);
            // The first prefix in which the entry differs from the one before.
            let differs = self
                .next_ends
                .iter()
                .take_while(|end| has_last && **end as usize <= shared)
                .count();
            if has_last {
                stratum.boundaries[differs.min(self.shape.len())..]
                    .iter_mut()
                    .for_each(|n| *n += 1);
            }
            if has_last || begun.first.is_empty() {
                let to = if has_last {
                    &mut begun.at_boundaries
                } else {
                    &mut begun.first
                };
                for k in differs..unseen.min(self.next_ends.len()) {
                    to.push((k, key[..self.next_ends[k] as usize].to_vec()));
                }
            }
            if has_last {
                unseen = unseen.min(differs);
            }
            std::mem::swap(&mut self.ends, &mut self.next_ends);
            self.last.clear();
            self.last.extend_from_slice(key);
            has_last = true;
        }
        if has_last {
            self.count_upper_bound(upper, stratum);
        }
        Ok(())
    }

    /// Counts a boundary between this leaf's last entry and the next leaf. There is one if the
    /// bound between them is beyond all keys with the last entry's value.
    fn count_upper_bound(&self, upper: Option<&[u8]>, stratum: &mut Stratum) {
        let Some(upper) = upper.and_then(|upper| upper.strip_prefix(&self.run.prefix[..])) else {
            return;
        };
        let shared = common_prefix(&self.last, upper);
        let differs = self.ends.iter().take_while(|end| **end as usize <= shared).count();
        stratum.boundaries[differs.min(self.shape.len())..]
            .iter_mut()
            .for_each(|n| *n += 1);
    }
}

/// Of the values of the prefix in `begun`, the share that none of the runs has.
fn share_of_new(pool: &Pool, runs: &[&Run<'_>], prefix: usize, begun: &Begun) -> Result<f64> {
    let of = |all: &'_ [(usize, Vec<u8>)]| -> Vec<Vec<u8>> {
        let of_prefix = all.iter().filter(|(k, _)| *k == prefix);
        of_prefix.map(|(_, value)| value.clone()).collect()
    };
    let mut values = of(&begun.at_boundaries);
    if values.is_empty() {
        values = of(&begun.first);
    }
    let step = values.len().div_ceil(SEARCHES_MAX).max(1);
    let (mut looked, mut new) = (0, 0);
    for value in values.iter().step_by(step) {
        looked += 1;
        let mut known = false;
        for run in runs {
            let wanted = [&run.prefix[..], &value[..]].concat();
            known |= match run.tree.seek(pool, Seek::Ge, &wanted) {
                Ok(found) => found.is_some_and(|leaf| leaf.key().starts_with(&wanted)),
                Err(e) if e.is_corrupt() => false,
                Err(e) => return Err(e),
            };
            if known {
                break;
            }
        }
        new += !known as u64;
    }
    debug_assert!(new <= looked, "the new values are among those looked for");
    Ok(if looked == 0 { 1.0 } else { new as f64 / looked as f64 })
}

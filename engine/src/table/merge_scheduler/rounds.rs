//! Background work on buffered changes: which indexes are swept, when, and how much at a time. The
//! sweep itself is `change::sweep_step`. `capacity` is `io_capacity` in leaves a second, `max` is
//! `io_capacity_max`. The bound is what may be pending.
//!
//! | when | leaves |
//! |---|---|
//! | next to nothing has happened for a second | `capacity`, until nothing is left |
//! | more than half of the bound is pending | `pressed_leaves` |
//! | more than the bound is pending (it was lowered) | `capacity` or more; from 5/4 on `max` |
//! | the user asked for a drain | `max`, or what other lines give if that is more |
//! | changes are older than `change_buffer_max_age` | `capacity`, or a quarter of the due ones |
//! | an index has used up its partition numbers | as if its changes were too old |
//! | after the engine was opened | `max` pages, to look into each index and count |
//! | a leaf is expected to take 128 entries or more | 50 of such in a round, at most `max` |
//! | few changes come, a leaf takes 16 entries or more | twice `capacity`, with those due; `max` |
//! | an index lives in memory | 32 of such in a round |
//!
//! | pending, of the bound | leaves (`pressed_leaves`): those that take what came, times a gain |
//! |---|---|
//! | 1/2 to 3/4 | at most `max` |
//! | 3/4 to 7/8 | what exceeds `max` is added by a share that grows from 0 to 1 |
//! | from 7/8 on | no limit, as far as the round has time |
//!
//! Changes that are too old get `capacity` in their indexes, or a quarter as many leaves as are due
//! elsewhere. An index without partition numbers takes no more changes until it is empty. An index
//! that lives in memory saves no read by buffering, and while anything is pending readers have to
//! look for it.
//!
//! A leaf costs a read and a write whatever it gets. So the index whose next leaf is expected to
//! get most is swept first. But changes that are too old, and all changes in a drain, are swept in
//! equal shares. Else an index that is written hard would leave the others nothing.
//!
//! `io_capacity_max` gives way before the writers do. From 7/8 of the bound on writers merge leaves
//! themselves (`change/merge/backpressure.rs`). That costs the disk as many reads and writes a row,
//! and costs the writers time. A worker that still kept to its limit then would spare them nothing.
//!
//! A delayed merge lets more changes collect for the same leaf. But if what comes in five minutes
//! is less than what is pending, waiting at best halves the visits. Meanwhile each read by the
//! index looks for pending changes and reads pages of delta trees as well. The load is over, and
//! the queries after it pay.
//!
//! A leaf that cannot be merged (no room, a page that cannot be read) is passed over. An index in
//! which a pass left such a leaf is left alone for a while. It is left alone altogether if only
//! corrupt leaves are left. What is pending there stays pending, up to a bound
//! (`health/unmergeable`). Reports are in `change_report.rs`.
//!
//! Takes a table's gate, shared. Called by the change worker, ten times a second (I7), and by a
//! slow close.
use crate::base::{Error, FileId, Result};
use crate::change::{self, Delta, Swept};
use crate::index::Index;
use crate::table::catalog::table::Table;
use crate::table::merge_scheduler::rates::{Recent, Speed, ROUNDS, SECOND_US};
use crate::table::merge_scheduler::scheduler::MergeScheduler;
use std::collections::HashSet;
use std::sync::Arc;

/// The engine counts as idle up to so much work in a second for each page of `io_capacity`. A row
/// read counts 1.
const IDLE: u64 = 10;
/// A commit, a row inserted or purged counts so much. Merging then adds a tenth to the time of
/// reads, and ten times that to the time of writes.
const CHANGE: u64 = 100;
/// Tables looked at in a round, whether there is anything to merge in them or not. Tables in which
/// there was something are looked at besides, so many at most.
const TABLES_MAX: usize = 256;
const UNFINISHED_MAX: usize = 1024;
/// Leaves of one index before it is asked again which index is the best.
const LEAVES_MAX: usize = 64;
/// A leaf that is expected to take this many entries is worth its write at any time. In the buffer
/// the entries would only fill memory.
const MERGE_ALWAYS_FROM: u64 = 128;
/// Leaves of that kind in a round, and before the indexes are compared again.
const MERGE_ALWAYS_LEAVES: usize = 50;
const MERGE_ALWAYS_STEP: usize = 4;
/// This many entries are worth a write while few changes come. Leaves of that kind before the
/// indexes are compared again.
const MERGE_WHEN_SLOW_FROM: u64 = 16;
const MERGE_WHEN_SLOW_STEP: usize = 32;
/// Leaves beyond io_capacity_max before the clock is read.
const BEYOND_MAX_STEP: usize = 16;
/// Few changes come if, by the rate of the last second, what is pending would double in no fewer
/// than these seconds.
const SLOW_SECONDS: u64 = 300;
/// So many times `io_capacity` is merged then. It does not last long, and reads pay for what is
/// pending meanwhile.
const SLOW_CAPACITY_TIMES: usize = 2;
/// Leaves of indexes that live in memory, in a round.
const MEMORY_LEAVES: usize = 32;
/// About how many pages the first look into a delta tree reads, unless it is empty: its first and
/// last leaf, and a sample.
const LOAD_PAGES: usize = 12;
/// Delta leaves counted in one go.
const COUNTED_MAX: usize = 16;

/// Where the rounds stand.
#[derive(Debug, Default)]
pub struct Rounds {
    table: usize,
    /// Tables in which the last round found something to merge: the next round looks at them again.
    unfinished: Vec<FileId>,
    activity: u64,
    recent: Recent,
    /// Changes buffered until the last round, and how many come.
    buffered: u64,
    coming: Recent,
    /// Entries that a leaf took lately; 0 = not known.
    entries_a_leaf: u64,
    /// Tables in a row in which nothing was left to merge.
    clean: usize,
    /// Grows with each round: decides which index is first where the leaves do not suffice for all.
    rotation: usize,
    /// The request for a drain that the rounds follow; 0 = none.
    draining: u64,
    speed: Speed,
}

impl Rounds {
    /// A drain had been asked for when the last round began.
    pub fn was_draining(&self) -> bool {
        self.draining != 0
    }
}

/// What one round may still do.
struct Budget {
    /// Leaves of indexes that live in memory.
    memory_leaves: usize,
    /// After the engine was opened: pages for the first look into delta trees, and delta leaves
    /// that are counted.
    loaded: usize,
    counted: usize,
}

/// An index with something to merge.
struct Found {
    table: Arc<Table>,
    index: u32,
    /// Entries that the next leaf is expected to take.
    entries: u64,
    is_old: bool,
}

/// Leaves of a round. `fill`: what is pending, in thousandths of the bound. `came`: entries since
/// the last round. The result is as many leaves as take those, times a gain. The gain is 0 at a
/// half of the bound, and 1 at three quarters, where what is pending stays as it is. Up to there
/// the result is at most `most`. Then a growing share of what exceeds `most` is added, unless the
/// yield of a leaf is not known. From 7/8 on, where writers begin to merge themselves, all is
/// added.
fn pressed_leaves(fill: u64, came: u64, entries_a_leaf: u64, most: usize) -> usize {
    let over = fill.saturating_sub(500).min(500);
    let pressed = (came * over / 250 / entries_a_leaf.max(1)) as usize;
    let held = pressed.min(most);
    match entries_a_leaf {
        0 => held,
        _ => held + (pressed - held) * fill.saturating_sub(750).min(125) as usize / 125,
    }
}

impl MergeScheduler {
    /// One round. Returns the number of leaves merged.
    pub fn merge_round(&self, rounds: &mut Rounds) -> Result<usize> {
        self.pool.check_alive()?;
        self.look_for_a_drain(rounds);
        let due = self.leaves_of_round(rounds);
        let (usual, most) = self.pool.flusher().io_capacity();
        let (usual, most) = (usual as usize / ROUNDS, (most as usize / ROUNDS).max(1));
        let ends_us = self.pool.disk().now_us() + SECOND_US / ROUNDS as u64;
        let at_most = |leaves: usize| leaves.min(most);
        let mut budget = Budget {
            memory_leaves: if self.change.is_forced() {
                0
            } else {
                at_most(MEMORY_LEAVES)
            },
            loaded: most.max(LOAD_PAGES),
            counted: most.max(COUNTED_MAX),
        };
        let (mut found, merged_in_memory) = self.look_for_changes(rounds, &mut budget)?;
        let is_slow = !self.change.holds() && self.is_slow(&rounds.coming);
        // What is due counts towards these. Few changes come to an idle engine too, and a drain
        // must not get less.
        let slow_leaves = at_most(usual * SLOW_CAPACITY_TIMES).max(1);
        let slow_until = if is_slow { due.max(slow_leaves) } else { due };
        let always_until = match self.change.holds() {
            true => due,
            false => at_most(due + MERGE_ALWAYS_LEAVES).max(slow_until),
        };
        rounds.rotation = rounds.rotation.wrapping_add(1);
        let mut merged = match rounds.was_draining() {
            true => self.sweep_evenly(&mut found, at_most(due), rounds.rotation, |_| true)?,
            false => {
                let old_leaves = if due == 0 { usual } else { at_most(due) / 4 };
                self.sweep_evenly(&mut found, old_leaves.max(1), rounds.rotation, |found| found.is_old)?
            }
        };
        while let Some(best) = (0..found.len()).max_by_key(|i| found[*i].entries) {
            // What is not due is merged if it pays.
            let (until, at_a_time) = match found[best].entries {
                _ if merged < due => (due, LEAVES_MAX),
                MERGE_ALWAYS_FROM.. => (always_until, MERGE_ALWAYS_STEP),
                MERGE_WHEN_SLOW_FROM.. => (slow_until, MERGE_WHEN_SLOW_STEP),
                _ => (due, LEAVES_MAX),
            };
            // More than io_capacity_max is merged only as long as the round has time, and in small
            // steps. Changes that are too old, and a stop of the worker, wait for the round's end.
            let is_beyond = merged >= most;
            if merged >= until || is_beyond && self.pool.disk().now_us() >= ends_us {
                break;
            }
            let at_a_time = at_a_time.min(if is_beyond { BEYOND_MAX_STEP } else { most - merged });
            let leaves = at_a_time.min(until - merged);
            let swept = self.sweep_one(&mut found[best], leaves)?;
            if let Some(now) = swept.entries.checked_div(swept.leaves) {
                rounds.entries_a_leaf = match rounds.entries_a_leaf {
                    0 => now as u64,
                    before => ((before * 3 + now as u64) / 4).max(1),
                };
            }
            if swept.leaves == 0 || found[best].entries == 0 {
                found.swap_remove(best);
            }
            merged += swept.leaves;
        }
        self.unmergeable.look_after()?;
        let expected = match rounds.was_draining() {
            true => (most * ROUNDS) as u64 * rounds.entries_a_leaf,
            false => 0,
        };
        self.publish_round(&mut rounds.speed, expected);
        Ok(merged + merged_in_memory)
    }
    /// The user has asked for a drain, for another one, or for none any more.
    fn look_for_a_drain(&self, rounds: &mut Rounds) {
        let asked_for = self.change.drain_asked_for();
        if asked_for != rounds.draining {
            rounds.draining = asked_for;
            rounds.clean = 0;
            rounds.speed.begin_anew();
            if rounds.was_draining() {
                self.retry_all();
            }
        }
    }
    /// Tries again what failed a moment ago and was to be left alone for a while.
    fn retry_all(&self) {
        for table in self.catalog.tables() {
            let _gate = table.gate.read();
            if !table.is_gone() {
                table
                    .layout()
                    .buffered()
                    .for_each(|(_, delta)| delta.progress.retry_now());
            }
        }
    }
    /// Sweeps so many leaves of the `wanted` indexes, each its share. Returns how many leaves were
    /// merged.
    fn sweep_evenly(
        &self,
        found: &mut Vec<Found>,
        leaves: usize,
        rotation: usize,
        wanted: impl Fn(&Found) -> bool,
    ) -> Result<usize> {
        let mut chosen: Vec<usize> = (0..found.len()).filter(|i| wanted(&found[*i])).collect();
        let number = chosen.len();
        // The tables come in rotated order. Rotated once more, some indexes would never be first.
        chosen.sort_unstable_by_key(|i| (found[*i].table.layout().id, found[*i].index));
        chosen.rotate_left(rotation % number.max(1));
        let mut left = leaves;
        for (before, i) in chosen.into_iter().enumerate() {
            let share = left.div_ceil(number - before).min(LEAVES_MAX);
            if share == 0 {
                break;
            }
            left -= self.sweep_one(&mut found[i], share)?.leaves.min(left);
        }
        found.retain(|found| found.entries > 0);
        Ok(leaves - left)
    }
    /// Finds the indexes that have something to merge. Also counts those not counted yet, and
    /// merges so many leaves of those that live in memory.
    fn look_for_changes(&self, rounds: &mut Rounds, budget: &mut Budget) -> Result<(Vec<Found>, usize)> {
        let all = self.catalog.tables();
        let mut found = Vec::new();
        let mut merged = 0;
        for table in self.tables_of_round(&all, rounds) {
            let before = found.len();
            let (leaves, is_clean) = self.look_into(&table, budget, &mut found)?;
            merged += leaves;
            if !is_clean {
                rounds.clean = 0;
            }
            if found.len() > before {
                rounds.unfinished.push(table.layout().id);
            }
        }
        debug_assert!(
            found.iter().all(|found| found.entries > 0),
            "what is found has something to merge"
        );
        // Tables beyond the limit are met again in their turn.
        let too_many = rounds.unfinished.len().saturating_sub(UNFINISHED_MAX);
        rounds.unfinished.drain(..too_many);
        if rounds.clean >= all.len() {
            self.change.drained(rounds.draining);
        }
        Ok((found, merged))
    }
    /// The tables in which the last round found something, and the next ones of all. (With the
    /// latter alone, if few of many tables were written, only those that a round met got their
    /// leaves.)
    fn tables_of_round(&self, all: &[Arc<Table>], rounds: &mut Rounds) -> Vec<Arc<Table>> {
        let mut unfinished = std::mem::take(&mut rounds.unfinished);
        // The last round rotated their order.
        unfinished.sort_unstable();
        let rotation = rounds.rotation % unfinished.len().max(1);
        unfinished.rotate_left(rotation);
        let looked_at: HashSet<FileId> = unfinished.iter().copied().collect();
        let mut tables: Vec<_> = unfinished.into_iter().filter_map(|id| self.catalog.by_id(id)).collect();
        for _ in 0..all.len().min(TABLES_MAX) {
            rounds.table = (rounds.table + 1) % all.len();
            rounds.clean += 1;
            let table = &all[rounds.table];
            if !looked_at.contains(&table.layout().id) {
                tables.push(table.clone());
            }
        }
        tables
    }
    /// Returns the leaves merged, and whether nothing is left to be merged in the table.
    fn look_into(&self, table: &Arc<Table>, budget: &mut Budget, found: &mut Vec<Found>) -> Result<(usize, bool)> {
        let now_us = self.pool.disk().now_us();
        let (mut merged, mut is_clean) = (0, true);
        let _gate = table.gate.read();
        if table.is_gone() {
            return Ok((0, true));
        }
        for (index, delta) in table.layout().buffered() {
            delta.close_if_idle();
            if !delta.is_worth_a_sweep(now_us) {
                continue;
            }
            is_clean = false;
            if !delta.is_known() && !self.count_some(delta, budget)? {
                continue;
            }
            let is_old = delta.takes_no_more() || self.change.is_too_old(delta.age_us(now_us));
            if budget.memory_leaves > 0 && !is_old && delta.lives_in_memory() {
                let leaves = self.sweep(index, delta, LEAVES_MAX.min(budget.memory_leaves))?.leaves;
                budget.memory_leaves -= leaves.min(budget.memory_leaves);
                merged += leaves;
            }
            found.push(Found {
                table: table.clone(),
                index: index.id,
                entries: delta.expected_yield().max(1),
                is_old,
            });
        }
        Ok((merged, is_clean))
    }
    /// True: everything pending for the index is counted now.
    fn count_some(&self, delta: &Delta, budget: &mut Budget) -> Result<bool> {
        // Looked into even if there is nothing to count: what the tree holds is a part of the bound
        // from here on.
        if !delta.is_loaded() {
            if budget.loaded == 0 {
                return Ok(false);
            }
            // A page that cannot be read is met by the count.
            delta.load(&self.pool).ok();
            let pages = if delta.is_known() { 1 } else { LOAD_PAGES };
            budget.loaded = budget.loaded.saturating_sub(pages);
        }
        if delta.is_known() {
            return Ok(true);
        }
        while budget.counted > 0 {
            let counted = match delta.count_step(&self.pool, COUNTED_MAX) {
                Err(e @ Error::Poisoned(_)) => return Err(e),
                Err(e) => {
                    delta.cannot_go_on(&self.pool, e);
                    return Ok(false);
                }
                Ok(all) => all,
            };
            budget.counted = budget.counted.saturating_sub(if counted { 1 } else { COUNTED_MAX });
            if counted {
                return Ok(true);
            }
        }
        Ok(false)
    }
    fn leaves_of_round(&self, rounds: &mut Rounds) -> usize {
        let c = &self.counters;
        let changes = c.commits.get() + c.rows_inserted.get() + c.purged_records.get();
        let activity = c.rows_read.get() + changes * CHANGE;
        let now_us = self.pool.disk().now_us();
        rounds.recent.note(now_us, activity.saturating_sub(rounds.activity));
        rounds.activity = activity;
        let buffered = c.change_buffer_buffered_inserts.get()
            + c.change_buffer_buffered_delete_marks.get()
            + c.change_buffer_buffered_deletes.get();
        debug_assert!(buffered >= rounds.buffered, "what was buffered is only counted up");
        let came = buffered - rounds.buffered;
        rounds.buffered = buffered;
        rounds.coming.note(now_us, came);
        let (usual, most) = self.pool.flusher().io_capacity();
        let most = (most as usize / ROUNDS).max(1);
        let fill = self.change.fill();
        let pressed = pressed_leaves(fill, came, rounds.entries_a_leaf, most);
        if self.change.is_draining() {
            return pressed.max(most);
        }
        let is_idle = rounds.recent.a_second() <= usual as u64 * IDLE && !self.change.holds();
        let idle = if is_idle { usual as usize / ROUNDS } else { 0 };
        // Writers help from the bound on; but there may be no writers.
        let beyond = match fill {
            0..=1000 => 0,
            1001..=1250 => (usual as usize / ROUNDS).max(1),
            _ => most,
        };
        idle.max(pressed).max(beyond)
    }
    /// Few changes come: see [`SLOW_SECONDS`]. Right after the start the rate is not known.
    fn is_slow(&self, coming: &Recent) -> bool {
        coming.a_second().saturating_mul(SLOW_SECONDS) < self.change.entries()
    }
    fn sweep_one(&self, found: &mut Found, leaves_max: usize) -> Result<Swept> {
        let _gate = found.table.gate.read();
        let layout = found.table.layout();
        debug_assert!(
            leaves_max > 0,
            "a sweep goes over a leaf at least, or the round would not end (I7)"
        );
        let index = match found.table.is_gone() {
            true => None,
            false => layout.buffered().find(|(index, _)| index.id == found.index),
        };
        found.entries = 0;
        let Some((index, delta)) = index else {
            return Ok(Swept::default());
        };
        let swept = self.sweep(index, delta, leaves_max)?;
        if delta.is_worth_a_sweep(self.pool.disk().now_us()) {
            found.entries = delta.expected_yield().max(1);
        }
        Ok(swept)
    }
    fn sweep(&self, index: &Index, delta: &Delta, leaves_max: usize) -> Result<Swept> {
        match change::sweep_step(&self.pool, index, leaves_max) {
            Err(e @ Error::Poisoned(_)) => Err(e),
            Err(e) => {
                delta.cannot_go_on(&self.pool, e);
                Ok(Swept::default())
            }
            swept => swept,
        }
    }
    /// `expected`: entries a second, as long as none is known.
    fn publish_round(&self, speed: &mut Speed, expected: u64) {
        let c = &self.counters;
        speed.look(self.pool.disk().now_us(), c.change_buffer_merged_entries.get());
        let entries = self.change.entries();
        c.change_buffer_entries.set(entries);
        c.change_buffer_bytes.set(self.change.bytes());
        c.change_buffer_drain_eta.set(speed.seconds_for(entries, expected));
    }
}

#[cfg(test)]
mod tests {
    use super::pressed_leaves;

    /// At 7/8 of the bound the worker kept to io_capacity_max, with time left, while the writers
    /// merged what was beyond it.
    #[test]
    fn io_capacity_max_gives_way_before_the_writers_have_to() {
        let leaves = |fill| pressed_leaves(fill, 60_000, 60, 400);
        // The limit holds as long as the writers do not merge ...
        assert_eq!([500, 550, 600, 750].map(leaves), [0, 200, 400, 400]);
        // ... then less and less, without a step ...
        let all: Vec<usize> = (500..=1100).map(leaves).collect();
        assert!(all.windows(2).all(|w| w[0] <= w[1] && w[1] - w[0] <= 20), "{all:?}");
        // ... and where the writers begin it does not hold. What comes is matched before.
        assert_eq!([875, 1000, 5000].map(leaves), [1500, 2000, 2000]);
        assert!(leaves(835) >= 1000);
        // Where the limit is not reached nothing changes.
        assert_eq!(pressed_leaves(800, 60_000, 60, 5000), 1200);
        // The first round knows of no leaf.
        assert_eq!([7, 60_000].map(|came| pressed_leaves(1000, came, 0, 400)), [14, 400]);
    }
}

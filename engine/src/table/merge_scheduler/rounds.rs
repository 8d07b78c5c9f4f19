//! Background work on buffered changes: which indexes are swept, when, and how much at a time. The sweep itself is `change::sweep_step`.
//!
//! | when | leaves in a round |
//! |---|---|
//! | next to nothing has happened for a second | `io_capacity` a second, until nothing is left |
//! | more than half of the bound is pending | as many as take what came since, times a gain: 0 at a half, 1 at three quarters; at most `io_capacity_max` a second, and from three quarters on more and more of what is beyond that, all of it from 7/8 on, as far as the round has time |
//! | more than the bound is pending, since it was made smaller | `io_capacity` a second at least; from 5/4 of it on `io_capacity_max` |
//! | the user asked for a drain | `io_capacity_max` a second, or what is due by the lines above, if that is more, until nothing is left |
//! | something has been pending longer than `change_buffer_max_age` | `io_capacity` a second, in the indexes that it is in; while others are due, a quarter as many as those |
//! | an index has used up the numbers of its partitions, and takes no more until it is empty | as if it were too old |
//! | after the engine was opened | each index is looked into; what is pending is counted, index by index: `io_capacity_max` pages a second |
//! | a leaf is expected to take 128 entries or more | 50 of such, but no more than `io_capacity_max` a second |
//! | next to nothing comes, measured by what is pending, and a leaf is expected to take 16 entries or more | twice `io_capacity` a second, with what is due; at most `io_capacity_max` |
//! | an index lives in memory | 32 of such, and no more than that: no read is spared there, and while anything is pending readers have to look for it |
//!
//! A leaf costs a read and a write whatever it gets, so the index whose next leaf is expected to get most is swept first. But what is too
//! old, and in a drain everything, is swept in equal shares: an index that is written hard would leave the others nothing for ever.
//!
//! `io_capacity_max` gives way before the writers do. From 7/8 of the bound on they merge leaves themselves (`change/merge/backpressure.rs`), which costs the disk
//! as many reads and writes a row, and them their time: a worker that still stood at its limit then would spare them nothing.
//!
//! What waits, waits for company: a leaf visited later takes more entries. Where what comes in five minutes is less than what is pending,
//! waiting makes the visits but half as many, while each read by the index looks for it and reads pages of delta trees beside: a load
//! is over, and those who query it pay.
//!
//! Who calls: the change worker, ten times a second (I7), and a slow close. A leaf that cannot be merged (no room, a page that cannot
//! be read) is passed over, and an index in which a pass left such a leaf is left alone for a while; one of which only what is corrupt is
//! left is left alone altogether. What is pending there stays pending, up to a bound (`unmerged.rs`). What users are told of all this is
//! in `change_report.rs`.
use crate::base::{Error, FileId, Result};
use crate::change::{self, Delta, Swept};
use crate::index::Index;
use crate::table::catalog::table::Table;
use crate::table::merge_scheduler::rates::{Recent, Speed, ROUNDS, SECOND_US};
use crate::table::merge_scheduler::scheduler::MergeScheduler;
use std::collections::HashSet;
use std::sync::Arc;

/// The engine counts as idle when what it did in the last second was at most so much for each page of `io_capacity`, a row read being 1 ...
const IDLE: u64 = 10;
/// ... and a commit, a row inserted or purged so much. Merging then adds a tenth to what reads take, and ten times what writes do.
const CHANGE: u64 = 100;
/// Tables looked at in a round, whether there is anything to merge in them or not; and beside them those in which there was something, so
/// many at most.
const TABLES_MAX: usize = 256;
const UNFINISHED_MAX: usize = 1024;
/// Leaves of one index before it is asked again which index is the best.
const LEAVES_MAX: usize = 64;
/// A leaf that can be expected to take so many entries is worth its write at any time: in the buffer they would only fill memory.
const RICH: u64 = 128;
/// Leaves of that kind in a round, and at a time.
const RICH_LEAVES: usize = 50;
const LEAVES_LOOK: usize = 4;
/// So many entries are worth it where waiting brings no more; leaves of that kind at a time.
const DENSE: u64 = 16;
const DENSE_LOOK: usize = 32;
/// Leaves beyond io_capacity_max before the clock is looked at.
const BEYOND_LOOK: usize = 16;
/// It brings no more where it takes longer than these seconds until as much has come as is pending, by what came in the last one.
const CALM_SECONDS: u64 = 300;
/// So many times `io_capacity` is merged then: it does not last long, and who reads meanwhile pays for what is pending.
const CALM_TIMES: usize = 2;
/// Leaves of indexes that live in memory, in a round.
const MEMORY_LEAVES: usize = 32;
/// Pages that the first look into a delta tree reads, about, unless it is empty: its first and last leaf, and a sample.
const LOAD_PAGES: usize = 12;
/// Delta leaves counted in one go.
const COUNTED_MAX: usize = 16;

/// Where the rounds stand.
#[derive(Debug, Default)]
pub struct Rounds {
    table: usize,
    /// Tables in which the last round found something to merge: the next one finds it without coming by.
    unfinished: Vec<FileId>,
    activity: u64,
    recent: Recent,
    /// Changes buffered until the last round, and how many come.
    buffered: u64,
    coming: Recent,
    /// Entries that a leaf took lately; 0 = nobody knows.
    entries_a_leaf: u64,
    /// Tables in a row in which nothing was left to merge.
    clean: usize,
    /// Moves on with each round: who is first where the leaves do not suffice for all.
    turn: usize,
    /// The request for a drain that the rounds are about; 0 = none.
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
    /// After the engine was opened: pages for the first look into delta trees, and delta leaves that are counted.
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

/// Leaves of a round, by what is pending (thousandths of the bound) and the entries that came since the last one: as many as take those, times a gain
/// that is 0 at a half of the bound, and 1 at three quarters, where what is pending stays as it is. Up to there `most` at most; from there to 7/8,
/// where the writers begin to merge themselves, evenly more of what is beyond it, unless it is not known what a leaf takes.
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
    /// One round. Number of leaves merged.
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
        let (mut found, beside) = self.look_for_changes(rounds, &mut budget)?;
        let is_calm = !self.change.holds() && self.is_calm(&rounds.coming);
        // What is due counts towards these: an idle engine is calm as well, and a drain is not to be outdone.
        let in_calm = at_most(usual * CALM_TIMES).max(1);
        let dense_until = if is_calm { due.max(in_calm) } else { due };
        let rich_until = match self.change.holds() {
            true => due,
            false => at_most(due + RICH_LEAVES).max(dense_until),
        };
        rounds.turn = rounds.turn.wrapping_add(1);
        let mut merged = match rounds.was_draining() {
            true => self.sweep_evenly(&mut found, at_most(due), rounds.turn, |_| true)?,
            false => {
                let old_leaves = if due == 0 { usual } else { at_most(due) / 4 };
                self.sweep_evenly(&mut found, old_leaves.max(1), rounds.turn, |found| found.is_old)?
            }
        };
        while let Some(best) = (0..found.len()).max_by_key(|i| found[*i].entries) {
            // What is not due is merged if it pays.
            let (until, at_a_time) = match found[best].entries {
                _ if merged < due => (due, LEAVES_MAX),
                RICH.. => (rich_until, LEAVES_LOOK),
                DENSE.. => (dense_until, DENSE_LOOK),
                _ => (due, LEAVES_MAX),
            };
            // Beyond io_capacity_max only as long as the round has time, and in small steps: what is too old, and who stops the worker, wait for its end.
            let is_beyond = merged >= most;
            if merged >= until || is_beyond && self.pool.disk().now_us() >= ends_us {
                break;
            }
            let at_a_time = at_a_time.min(if is_beyond { BEYOND_LOOK } else { most - merged });
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
        Ok(merged + beside)
    }
    /// The user has asked for one, or another one, or for none any more.
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
    /// What failed a moment ago, and was to be left alone for a while, is tried again.
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
    /// So many leaves of the `wanted` indexes, each its share. Returns how many it were.
    fn sweep_evenly(
        &self,
        found: &mut Vec<Found>,
        leaves: usize,
        turn: usize,
        wanted: impl Fn(&Found) -> bool,
    ) -> Result<usize> {
        let mut chosen: Vec<usize> = (0..found.len()).filter(|i| wanted(&found[*i])).collect();
        let number = chosen.len();
        // They come in the order of a turn of tables: turned once more, some would never be the first.
        chosen.sort_unstable_by_key(|i| (found[*i].table.layout().id, found[*i].index));
        chosen.rotate_left(turn % number.max(1));
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
    /// The indexes that have something to merge; on the way, those not counted yet are counted, and what is in memory is merged: so
    /// many leaves.
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
        // Those that are too many are come by again.
        let too_many = rounds.unfinished.len().saturating_sub(UNFINISHED_MAX);
        rounds.unfinished.drain(..too_many);
        if rounds.clean >= all.len() {
            self.change.drained(rounds.draining);
        }
        Ok((found, merged))
    }
    /// Those in which the last round found something, and the next ones of all. (The latter alone: of many tables few of which are written only
    /// those got their leaves that a round happened to come by.)
    fn tables_of_round(&self, all: &[Arc<Table>], rounds: &mut Rounds) -> Vec<Arc<Table>> {
        let mut unfinished = std::mem::take(&mut rounds.unfinished);
        // The last round turned them.
        unfinished.sort_unstable();
        let turn = rounds.turn % unfinished.len().max(1);
        unfinished.rotate_left(turn);
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
    /// Leaves merged, and is nothing left to be merged in the table?
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
        // Whether there is anything to be counted before it or not: what it holds is a part of the bound from here on.
        if !delta.is_loaded() {
            if budget.loaded == 0 {
                return Ok(false);
            }
            // What cannot be read is met by the count.
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
        // Who comes helps from the bound on; but nobody may come.
        let beyond = match fill {
            0..=1000 => 0,
            1001..=1250 => (usual as usize / ROUNDS).max(1),
            _ => most,
        };
        idle.max(pressed).max(beyond)
    }
    /// It takes long until as much has come as is pending. Right after the start nobody knows.
    fn is_calm(&self, coming: &Recent) -> bool {
        coming.a_second().saturating_mul(CALM_SECONDS) < self.change.entries()
    }
    fn sweep_one(&self, found: &mut Found, leaves_max: usize) -> Result<Swept> {
        let _gate = found.table.gate.read();
        let layout = found.table.layout();
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

    /// At 7/8 of the bound the worker stood at io_capacity_max, with time left, while the writers merged what was beyond it.
    #[test]
    fn io_capacity_max_gives_way_before_the_writers_have_to() {
        let leaves = |fill| pressed_leaves(fill, 60_000, 60, 400);
        // It holds as long as the writers are left out of it ...
        assert_eq!([500, 550, 600, 750].map(leaves), [0, 200, 400, 400]);
        // ... then less and less, without a step ...
        let all: Vec<usize> = (500..=1100).map(leaves).collect();
        assert!(all.windows(2).all(|w| w[0] <= w[1] && w[1] - w[0] <= 20), "{all:?}");
        // ... and where they begin it does not. What comes is matched before.
        assert_eq!([875, 1000, 5000].map(leaves), [1500, 2000, 2000]);
        assert!(leaves(835) >= 1000);
        // Where it is not in the way nothing changes.
        assert_eq!(pressed_leaves(800, 60_000, 60, 5000), 1200);
        // The first round knows of no leaf.
        assert_eq!([7, 60_000].map(|came| pressed_leaves(1000, came, 0, 400)), [14, 400]);
    }
}

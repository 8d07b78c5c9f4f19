//! Background work on buffered changes: which indexes are swept, when, and how much at a time. The sweep itself is `change::sweep_step`.
//!
//! | when | leaves in a round |
//! |---|---|
//! | nothing has happened for a second | `io_capacity` a second, until nothing is left |
//! | more than half of the bound is pending | as many as take what came since, times a gain: 0 at a half, 1 at three quarters; at most `io_capacity_max` a second |
//! | the user asked for a drain | `io_capacity_max` a second, until nothing is left |
//! | something has been pending for ten minutes | 16 of its index |
//! | a leaf is expected to take 128 entries or more | 50 of such |
//!
//! A leaf costs a read and a write whatever it gets, so the index whose next leaf is expected to get most is swept first.
//!
//! Who calls: the change worker, ten times a second (I7), and a slow close. An index that cannot be merged (no room, a page that
//! cannot be read) is passed over: what is pending for it stays pending, and whoever reads it is told why.
use super::def::{Layout, Table};
use super::store::Store;
use crate::base::{Error, Result};
use crate::change::{self, Delta, Swept};
use crate::index::Index;
use std::sync::Arc;

/// Rounds a second.
pub const ROUNDS: usize = 10;
/// Rounds without a row or a commit after which the engine counts as idle.
const IDLE_ROUNDS: u32 = ROUNDS as u32;
/// Age from which on pending changes are merged though the engine is busy.
const AGE_MAX_US: u64 = 600 * 1_000_000;
/// Tables looked at in a round; of these so many that were not looked at since the engine was opened.
const TABLES_MAX: usize = 256;
const NEW_MAX: usize = 4;
/// Leaves of one index before it is asked again which index is the best.
const LEAVES_MAX: usize = 64;
/// Leaves of an index that is merged for its age.
const LEAVES_AGED_MAX: usize = 16;
/// A leaf that can be expected to take so many entries is worth its write at any time: in the buffer they would only fill memory.
const RICH: u64 = 128;
/// Leaves of that kind in a round, and at a time.
const RICH_LEAVES: usize = 50;
const LEAVES_LOOK: usize = 4;

/// Where the rounds stand.
#[derive(Debug, Default)]
pub struct Rounds {
    table: usize,
    activity: u64,
    quiet: u32,
    /// Changes buffered until the last round.
    buffered: u64,
    /// Entries that a leaf took lately.
    entries_a_leaf: u64,
    /// Tables in a row in which nothing was left to merge.
    clean: usize,
}

/// An index with something to merge.
struct Found {
    table: Arc<Table>,
    index: u32,
    /// Entries that the next leaf is expected to take.
    entries: u64,
}

impl Store {
    /// One round. Number of leaves merged.
    pub fn merge_round(&self, rounds: &mut Rounds) -> Result<usize> {
        self.pool.check_alive()?;
        self.update_change_gauges();
        let due = self.leaves_of_round(rounds);
        let mut found = self.look_for_changes(rounds, due == 0)?;
        let mut merged = 0;
        while let Some(best) = (0..found.len()).max_by_key(|i| found[*i].entries) {
            // What is not due is merged if it pays.
            let most = match due.saturating_sub(merged) {
                0 if found[best].entries < RICH || merged >= due + RICH_LEAVES => break,
                0 => LEAVES_LOOK,
                left => left.min(LEAVES_MAX),
            };
            let swept = self.sweep_one(&mut found[best], most)?;
            if let Some(now) = swept.entries.checked_div(swept.leaves) {
                rounds.entries_a_leaf = (rounds.entries_a_leaf * 3 + now as u64) / 4;
            }
            if swept.leaves == 0 || found[best].entries == 0 {
                found.swap_remove(best);
            }
            merged += swept.leaves;
        }
        Ok(merged)
    }
    /// The indexes that have something pending; on the way, those not counted yet are counted and (`aged`) old changes merged.
    fn look_for_changes(&self, rounds: &mut Rounds, aged: bool) -> Result<Vec<Found>> {
        let tables = self.catalog.tables();
        let mut found = Vec::new();
        let mut new = 0;
        for _ in 0..tables.len().min(TABLES_MAX) {
            rounds.table = (rounds.table + 1) % tables.len();
            rounds.clean += 1;
            let table = &tables[rounds.table];
            let _gate = table.gate.read();
            if table.is_gone() {
                continue;
            }
            for (index, delta) in buffered(table.layout()) {
                if delta.is_empty() {
                    continue;
                }
                rounds.clean = 0;
                if !delta.is_known() {
                    new += 1;
                    if new > NEW_MAX {
                        continue;
                    }
                    self.sweep(index, LEAVES_AGED_MAX)?;
                } else if aged && self.is_old(delta) {
                    self.sweep(index, LEAVES_AGED_MAX)?;
                }
                found.push(Found {
                    table: table.clone(),
                    index: index.id,
                    entries: delta.expected_yield().max(1),
                });
            }
        }
        if rounds.clean >= tables.len() {
            self.change.set_draining(false);
        }
        Ok(found)
    }
    fn leaves_of_round(&self, rounds: &mut Rounds) -> usize {
        let c = &self.counters;
        let activity = c.commits.get() + c.rows_read.get() + c.rows_inserted.get() + c.purged_records.get();
        rounds.quiet = if activity == rounds.activity {
            rounds.quiet.saturating_add(1)
        } else {
            0
        };
        rounds.activity = activity;
        let buffered = c.change_buffer_buffered_inserts.get()
            + c.change_buffer_buffered_delete_marks.get()
            + c.change_buffer_buffered_deletes.get();
        let came = buffered - rounds.buffered;
        rounds.buffered = buffered;
        let (usual, most) = self.pool.io_capacity();
        let most = (most as usize / ROUNDS).max(1);
        if self.change.is_draining() {
            return most;
        }
        let idle = match rounds.quiet >= IDLE_ROUNDS {
            true => usual as usize / ROUNDS,
            false => 0,
        };
        // As much as came, times a gain: where that is 1, what is pending stays as it is.
        let over = self.change.fill().saturating_sub(500).min(500);
        let pressed = came * over / 250 / rounds.entries_a_leaf.max(1);
        idle.max((pressed as usize).min(most))
    }
    fn is_old(&self, delta: &Delta) -> bool {
        let since = delta.since_us();
        since > 0 && self.pool.disk().now_us().saturating_sub(since) > AGE_MAX_US
    }
    fn sweep_one(&self, found: &mut Found, leaves_max: usize) -> Result<Swept> {
        let _gate = found.table.gate.read();
        let layout = found.table.layout();
        let index = match found.table.is_gone() {
            true => None,
            false => buffered(layout).find(|(index, _)| index.id == found.index),
        };
        found.entries = 0;
        let Some((index, delta)) = index else {
            return Ok(Swept::default());
        };
        let swept = self.sweep(index, leaves_max)?;
        if !delta.is_empty() {
            found.entries = delta.expected_yield().max(1);
        }
        Ok(swept)
    }
    fn sweep(&self, index: &Index, leaves_max: usize) -> Result<Swept> {
        match change::sweep_step(&self.pool, index, leaves_max) {
            Err(e @ Error::Poisoned(_)) => Err(e),
            Err(_) => Ok(Swept::default()),
            swept => swept,
        }
    }

    /// Merges everything that is pending, as far as it can be merged.
    pub fn drain_changes(&self) -> Result<()> {
        for table in self.catalog.tables() {
            self.drain_table(&table)?;
        }
        self.update_change_gauges();
        Ok(())
    }
    pub fn drain_table(&self, table: &Table) -> Result<()> {
        let _gate = table.gate.read();
        if table.is_gone() {
            return Ok(());
        }
        for (index, delta) in buffered(table.layout()) {
            if delta.is_empty() {
                continue;
            }
            match change::drain(&self.pool, index) {
                Err(e @ Error::Poisoned(_)) => return Err(e),
                _ => continue,
            }
        }
        Ok(())
    }
    pub fn update_change_gauges(&self) {
        self.counters.change_buffer_entries.set(self.change.entries());
        self.counters.change_buffer_bytes.set(self.change.bytes());
    }
}

fn buffered(layout: &Layout) -> impl Iterator<Item = (&Index, &Delta)> {
    let indexes = layout.secondary.iter().filter(|s| !s.aside).map(|s| &s.index);
    indexes.filter_map(|index| Some((index, index.delta.as_deref()?)))
}

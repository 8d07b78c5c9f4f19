//! Background work on buffered changes: which indexes are swept, when, and how much at a time. The sweep itself is `change::sweep_step`.
//!
//! | when | leaves in a round |
//! |---|---|
//! | nothing has happened for a second | `io_capacity` a second, until nothing is left |
//! | more than half of the bound is pending | from nothing at a half to `io_capacity_max` a second at the bound |
//! | the user asked for a drain | `io_capacity_max` a second, until nothing is left |
//! | something has been pending for ten minutes | 16 of its index |
//!
//! Who calls: the change worker, ten times a second (I7), and a slow close. An index that cannot be merged (no room, a page that
//! cannot be read) is passed over: what is pending for it stays pending, and whoever reads it is told why.
use super::def::{Layout, Table};
use super::store::Store;
use crate::base::{Error, Result};
use crate::change::{self, Delta};
use crate::index::Index;

/// Rounds a second.
pub const ROUNDS: usize = 10;
/// Rounds without a row or a commit after which the engine counts as idle.
const IDLE_ROUNDS: u32 = ROUNDS as u32;
/// Age from which on pending changes are merged though the engine is busy.
const AGE_MAX_US: u64 = 600 * 1_000_000;
/// Tables looked at in a round; of these so many that were not looked at since the engine was opened.
const TABLES_MAX: usize = 256;
const NEW_MAX: usize = 4;
/// Leaves of one index before the next one has its turn.
const LEAVES_MAX: usize = 16;
const LEAVES_PRESSED_MAX: usize = 256;

/// Where the rounds stand.
#[derive(Debug, Default)]
pub struct Rounds {
    table: usize,
    activity: u64,
    quiet: u32,
    /// Tables in a row in which nothing was left to merge.
    clean: usize,
}

impl Store {
    /// One round. Number of leaves merged.
    pub fn merge_round(&self, rounds: &mut Rounds) -> Result<usize> {
        self.pool.check_alive()?;
        self.update_change_gauges();
        let mut left = self.leaves_of_round(rounds);
        let aged = left == 0;
        let tables = self.catalog.tables();
        let (mut merged, mut new) = (0, 0);
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
                if !delta.is_known() {
                    new += 1;
                    if new > NEW_MAX {
                        continue;
                    }
                }
                rounds.clean = 0;
                let due = left > 0 || (aged && self.is_old(delta));
                if due || !delta.is_known() {
                    let most = if aged { LEAVES_MAX } else { left.min(LEAVES_PRESSED_MAX) };
                    let leaves = self.sweep(index, most)?;
                    merged += leaves;
                    left = left.saturating_sub(leaves);
                }
            }
            if merged > 0 && left == 0 {
                break;
            }
        }
        if rounds.clean >= tables.len() {
            self.change.set_draining(false);
        }
        Ok(merged)
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
        let (usual, most) = self.pool.io_capacity();
        if self.change.is_draining() {
            return (most as usize / ROUNDS).max(1);
        }
        let idle = if rounds.quiet >= IDLE_ROUNDS { usual as usize } else { 0 };
        let over = (self.change.fill() as usize).saturating_sub(500).min(500);
        idle.max(most as usize * over / 500) / ROUNDS
    }
    fn is_old(&self, delta: &Delta) -> bool {
        let since = delta.since_us();
        since > 0 && self.pool.disk().now_us().saturating_sub(since) > AGE_MAX_US
    }
    fn sweep(&self, index: &Index, leaves_max: usize) -> Result<usize> {
        match change::sweep_step(&self.pool, index, leaves_max) {
            Ok(swept) => Ok(swept.leaves),
            Err(e @ Error::Poisoned(_)) => Err(e),
            Err(_) => Ok(0),
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
        self.counters.change_pending_entries.set(self.change.entries());
        self.counters.change_pending_bytes.set(self.change.bytes());
    }
}

fn buffered(layout: &Layout) -> impl Iterator<Item = (&Index, &Delta)> {
    let indexes = layout.secondary.iter().filter(|s| !s.aside).map(|s| &s.index);
    indexes.filter_map(|index| Some((index, index.delta.as_deref()?)))
}

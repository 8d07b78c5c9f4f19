//! For tests: merges buffered changes at random moments and places.
//!
//! `change/testing/random_merge.rs` chooses the place. Called by the merge worker, and by tests
//! that have none.
use crate::base::{Error, Result};
use crate::change;
use crate::table::merge_scheduler::scheduler::MergeScheduler;

/// A sequence of random numbers, from a seed.
#[derive(Debug)]
pub struct Chance(pub u64);

impl Chance {
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn next(&mut self) -> u64 {
        self.0 = (self.0.wrapping_mul(6_364_136_223_846_793_005)).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 24
    }
}

impl MergeScheduler {
    /// Merges some leaves of an index of a table, if the test mode says so. Returns the entries
    /// merged.
    pub fn merge_at_random(&self, chance: &mut Chance) -> Result<usize> {
        let tables = self.catalog.tables();
        if !self.change.merges_at_random() || tables.is_empty() {
            return Ok(0);
        }
        let table = &tables[chance.below(tables.len() as u64) as usize];
        let _gate = table.gate.read();
        if table.is_gone() {
            return Ok(0);
        }
        let layout = table.layout();
        let indexes = layout.buffered().count() as u64;
        let chosen = chance.below(indexes.max(1)) as usize;
        let Some((index, _)) = layout.buffered().nth(chosen) else {
            return Ok(0);
        };
        match change::merge_at_random(&self.pool, index, chance.next()) {
            Err(e @ Error::Poisoned(_)) => Err(e),
            // A statement that needs the leaf gets the error.
            Err(_) => Ok(0),
            merged => merged,
        }
    }
}

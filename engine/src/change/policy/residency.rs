//! Where an index lives, in memory or on disk: the share of its target leaves that were resident.
//!
//! An index that lives on disk is asked about its leaf only once in [`ASK_EVERY`] changes. The
//! other changes need no descent of the base tree.
//!
//! Locks: none. Called by: `apply`, `unique`.
use crate::pool::Presence;
use std::sync::atomic::{AtomicU32, Ordering};

/// An index that lives on disk is asked about its target leaf once in this many changes.
const ASK_EVERY: u32 = 16;
/// A unique index that lives in memory is asked about its leaf once in this many new values. It may
/// not live there any more.
const ASK_UNIQUE_EVERY: u32 = 64;

/// The share of resident target leaves if all are.
const ALL: u32 = 1024;
/// From this share on an index counts as living in memory.
const IN_MEMORY: u32 = 983;
/// Below this share an index counts as living on disk.
const ON_DISK: u32 = 900;
/// The first share of an index that was just opened: between the two.
const UNKNOWN: u32 = (IN_MEMORY + ON_DISK) / 2;

/// The residency of one index.
pub struct Residency {
    /// Moving share of target leaves that were resident, of [`ALL`].
    share: AtomicU32,
    asked: AtomicU32,
    unique_asked: AtomicU32,
}

impl Default for Residency {
    fn default() -> Residency {
        Residency {
            share: AtomicU32::new(UNKNOWN),
            asked: AtomicU32::new(0),
            unique_asked: AtomicU32::new(0),
        }
    }
}

impl Residency {
    /// Of an index that was just made: all its leaves are in the pool.
    pub fn of_new_index() -> Residency {
        Residency {
            share: AtomicU32::new(ALL),
            ..Residency::default()
        }
    }
    /// Were nearly all recent target leaves resident?
    pub fn lives_in_memory(&self) -> bool {
        self.share.load(Ordering::Relaxed) >= IN_MEMORY
    }
    /// The index lives on disk, and this change is not the one in [`ASK_EVERY`] that asks.
    pub fn need_not_ask(&self) -> bool {
        self.share.load(Ordering::Relaxed) < ON_DISK && !self.is_turn_to_ask()
    }
    /// Is this change the one in [`ASK_EVERY`] that asks about its leaf?
    pub fn is_turn_to_ask(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) % ASK_EVERY == 0
    }
    /// Is this new unique value one that asks about its leaf? On disk each asks.
    pub fn is_turn_to_ask_unique(&self) -> bool {
        self.unique_asked.fetch_add(1, Ordering::Relaxed) % ASK_UNIQUE_EVERY == 0
    }
    /// Counts a target leaf that was found so.
    pub fn note(&self, leaf: Presence) {
        let old = self.share.load(Ordering::Relaxed);
        debug_assert!(old <= ALL, "a share is a part of all");
        let new = old - old / 32 + if leaf == Presence::Absent { 0 } else { 32 };
        let new = new.min(ALL);
        if new != old {
            self.share.store(new, Ordering::Relaxed);
        }
    }
    /// Is a change applied directly to a target leaf that was found so?
    pub fn goes_direct(&self, leaf: Presence) -> bool {
        match leaf {
            Presence::Absent => false,
            Presence::Clean => self.lives_in_memory(),
            Presence::Dirty => true,
        }
    }
}

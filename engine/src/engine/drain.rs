//! Log lines about a long drain of the change buffer: at its begin, every ten seconds, and at its
//! end.
//!
//! Called by the merge worker during a drain that a user requested, and by a slow close.
use super::config::{Level, LogSink};
use crate::base::observer::{progress, Stage};
use crate::table::Store;

const NOTE_EVERY_US: u64 = 10 * 1_000_000;

/// Writes the notes of one drain after another.
#[derive(Default)]
pub(super) struct DrainNotes {
    drain: Option<Drain>,
    /// Entries merged as of the last look.
    merged: u64,
}

struct Drain {
    began_us: u64,
    noted_us: u64,
    merged: u64,
    /// An earlier drain had been asked to stop.
    other_stopped: bool,
}

impl DrainNotes {
    /// Called repeatedly. `draining`: a drain is running.
    pub fn look(&mut self, store: &Store, log: &LogSink, draining: bool) {
        let now_us = store.pool.disk().now_us();
        let merged = store.counters.change_buffer_merged_entries.get();
        let left = store.change.entries();
        let merged_before = std::mem::replace(&mut self.merged, merged);
        debug_assert!(merged >= merged_before, "the counter of merged entries only grows");
        if let (Some(drain), true) = (&self.drain, draining) {
            let done = merged - drain.merged;
            progress(Stage::Drain, done, done + left.max(1));
        }
        match &mut self.drain {
            None if draining => {
                if left > 0 {
                    log(
                        Level::Info,
                        &format!("change buffer: draining begins, {left} entries are pending"),
                    );
                }
                self.drain = Some(Drain {
                    began_us: now_us,
                    noted_us: now_us,
                    merged: merged_before,
                    other_stopped: store.change.was_drain_stopped(),
                });
            }
            Some(drain) if draining && now_us >= drain.noted_us + NOTE_EVERY_US => {
                drain.noted_us = now_us;
                debug_assert!(now_us >= drain.began_us, "a note comes after the begin of its drain");
                debug_assert!(merged >= drain.merged, "the counter only grows");
                let done = merged - drain.merged;
                let seconds = (now_us - drain.began_us) / 1_000_000;
                let eta = (left as u128 * seconds as u128).checked_div(done as u128);
                let eta = eta.map_or("more changes arrive than are merged".into(), |eta| {
                    format!("about {eta} s to go")
                });
                log(
                    Level::Info,
                    &format!("change buffer: {done} entries merged in {seconds} s, {left} are left; {eta}"),
                );
            }
            Some(drain) if !draining => {
                let (done, seconds) = (merged - drain.merged, (now_us - drain.began_us) / 1_000_000);
                match left {
                    0 if done > 0 => log(
                        Level::Info,
                        &format!("change buffer: drained, {done} entries in {seconds} s"),
                    ),
                    0 => {}
                    left => {
                        let is_stopped = store.change.was_drain_stopped() && !drain.other_stopped;
                        let why = match (is_stopped, store.change.has_unmergeable()) {
                            (true, _) => "it was stopped",
                            (_, true) => "new ones arrived, or they cannot be merged (CHECK TABLE shows which)",
                            (_, false) => "new ones arrived",
                        };
                        log(Level::Info, &format!("change buffer: draining ended, {done} entries merged in {seconds} s, {left} are left: {why}"));
                    }
                }
                progress(Stage::Drain, 1, 1);
                self.drain = None;
            }
            _ => {}
        }
    }
}

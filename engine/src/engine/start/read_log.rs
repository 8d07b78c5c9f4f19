//! Reads the log to its end, and then applies it.
//!
//! A later part of the log may make an earlier one void, so it is read to the end first. The groups
//! are kept as far as memory allows, and the rest is read a second time. Pages are never written
//! ahead of the log (I1), so the log cannot change in between. The log was opened again meanwhile,
//! and its control file has the end that was found. A second reading that ends earlier is refused
//! as damage. Called by `recover.rs`.
use crate::base::{FileId, Lsn, Result};
use crate::engine::config::{Config, Level, LogSink};
use crate::io::Disk;
use crate::pool::{split, Gathered, Piece, Pool, Void};
use crate::redo::read_ahead::scan_ahead;
use crate::redo::reader::scan;
use crate::redo::record::Record;
use std::collections::BTreeSet;

/// Bytes of redo between two notes of progress.
const NOTE_EVERY: u64 = 64 << 20;
/// With less redo than this the rate of recovery cannot be measured.
const RATE_BYTES_MIN: u64 = 4 << 20;

/// What the log says, read from its checkpoint to its end.
#[derive(Default)]
pub(super) struct LogFacts {
    pub void: Void,
    pub touched: BTreeSet<FileId>,
    /// Files that were made, by the log.
    pub made: BTreeSet<FileId>,
    pub end: Lsn,
    /// When reading began.
    start_us: u64,
}

/// Reads the log from its checkpoint on; returns what it says, and its groups as far as they may be
/// kept.
pub(super) fn read_log(disk: &dyn Disk, from: Lsn, config: &Config) -> Result<(LogFacts, Gathered)> {
    let mut facts = LogFacts {
        start_us: disk.now_us(),
        ..LogFacts::default()
    };
    let mut kept = Gathered::new(Gathered::bytes_max_for(config.buffer_pool_size));
    let mut notes = Notes::begin(disk, from);
    // A cache of the latest files: a look-up in the set is too slow for every record.
    let mut met: [FileId; 64] = [0; 64];
    let read = if config.read_io_threads > 0 { scan_ahead } else { scan };
    let mut reached = from;
    let end = read(disk, from, &mut |start, end, group| {
        assert!(reached <= start && start < end, "groups come in log order");
        reached = end;
        let keep = !kept.is_full();
        split(end, group, &mut |piece| {
            match piece {
                Piece::Page(page, records) => {
                    let place = &mut met[page.file as usize % 64];
                    if std::mem::replace(place, page.file) != page.file {
                        facts.touched.insert(page.file);
                    }
                    if keep {
                        kept.push(page, (start, end), records)?;
                    }
                }
                Piece::Other(Record::FileNew { file, .. }) => drop(facts.made.insert(file)),
                Piece::Other(record) => facts.void.learn(&record, end),
            }
            Ok(())
        })?;
        if keep {
            kept.end_group(end);
        }
        notes.reached(end, |megabytes, seconds| {
            (config.log)(
                Level::Info,
                &format!("recovery: {megabytes} MiB of redo read, {seconds} s"),
            )
        });
        Ok(())
    })?;
    assert!(reached <= end.lsn, "no group ends after the log");
    facts.end = end.lsn;
    Ok((facts, kept))
}

/// When to log how far recovery is.
struct Notes<'d> {
    disk: &'d dyn Disk,
    start_us: u64,
    from: Lsn,
    next: Lsn,
}

impl Notes<'_> {
    fn begin(disk: &dyn Disk, from: Lsn) -> Notes<'_> {
        Notes {
            disk,
            start_us: disk.now_us(),
            from,
            next: from + NOTE_EVERY,
        }
    }
    /// Calls `note` with megabytes and seconds if it is time to.
    fn reached(&mut self, lsn: Lsn, note: impl FnOnce(u64, u64)) {
        if lsn >= self.next {
            self.next = lsn + NOTE_EVERY;
            let seconds = (self.disk.now_us() - self.start_us) / 1_000_000;
            note((lsn - self.from) >> 20, seconds);
        }
    }
}

pub(super) fn apply_log(
    disk: &dyn Disk,
    pool: &Pool,
    from: Lsn,
    facts: &LogFacts,
    kept: Gathered,
    log: &LogSink,
) -> Result<()> {
    assert!(
        from <= facts.end && kept.end() <= facts.end,
        "all groups lie before the log's end"
    );
    let total = facts.end - from;
    log(
        Level::Info,
        &format!("recovery: applying {} MiB of redo from LSN {from} on", total >> 20),
    );
    let mut notes = Notes::begin(disk, from);
    let (is_all, mut behind) = (!kept.is_full(), kept.end());
    // Within a round progress is in bytes, which are nearly LSNs.
    let mut apply = |round: Gathered, from: Lsn| {
        let to = round.end();
        pool.recovery().apply(round, &facts.void, &mut |bytes| {
            notes.reached((from + bytes as u64).min(to), |megabytes, seconds| {
                let text = format!("recovery: {megabytes} of {} MiB applied, {seconds} s", total >> 20);
                log(Level::Info, &text);
            });
        })
    };
    apply(kept, from)?;
    if is_all {
        return Ok(());
    }
    let round_max = Gathered::bytes_max_for(pool.size());
    let mut round = Gathered::new(round_max);
    scan(disk, behind, &mut |start, end, group| {
        debug_assert!(behind <= start && start < end, "no group is applied in two rounds");
        split(end, group, &mut |piece| match piece {
            Piece::Page(page, records) => round.push(page, (start, end), records),
            Piece::Other(_) => Ok(()),
        })?;
        round.end_group(end);
        if round.is_full() {
            let full = std::mem::replace(&mut round, Gathered::new(round_max));
            apply(full, behind)?;
            behind = end;
        }
        Ok(())
    })?;
    apply(round, behind)
}

pub(super) fn log_rate(pool: &Pool, total: u64, facts: &LogFacts, log: &LogSink) {
    let took_ms = (pool.disk().now_us() - facts.start_us) / 1000;
    if total >= RATE_BYTES_MIN {
        pool.redo().set_recovery_rate(total * 1000 / took_ms.max(1));
    }
    log(
        Level::Info,
        &format!(
            "recovery: redo is done, up to LSN {}, in {}.{:03} s",
            facts.end,
            took_ms / 1000,
            took_ms % 1000
        ),
    );
}

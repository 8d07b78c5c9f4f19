//! Reads the redo stream back in a thread of its own, ahead of the thread that applies it.
//!
//! Blocks are read and checked while the caller handles the groups before them. Groups travel in
//! batches. The number of batches under way is bounded, and their memory is reused. The promises of
//! [`scan`] hold here too. An error of the caller's function ends the scan. Takes no locks. Called
//! by: the engine's recovery.
use super::reader::{scan, EachGroup, ScanEnd};
use crate::base::{Error, Lsn, Result};
use crate::io::Disk;
use std::sync::mpsc::{channel, sync_channel, Sender, SyncSender};

/// Bytes of a batch: small enough to pass from one core's cache to the other's.
const BATCH_BYTES: usize = 128 << 10;
const BATCHES_MAX: usize = 16;

#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Start, end, and where in `bytes` the group ends.
    groups: Vec<(Lsn, Lsn, usize)>,
}

/// As [`scan`]. `each` is called in the caller's thread.
pub fn scan_ahead(disk: &dyn Disk, from: Lsn, each: EachGroup<'_>) -> Result<ScanEnd> {
    let (full, batches) = sync_channel::<Batch>(BATCHES_MAX);
    let (used, empty) = channel::<Batch>();
    std::thread::scope(|scope| {
        let scanner = scope.spawn(move || {
            let mut batch = Batch::default();
            let end = scan(disk, from, &mut |start, end, group| {
                batch.bytes.extend_from_slice(group);
                batch.groups.push((start, end, batch.bytes.len()));
                if batch.bytes.len() >= BATCH_BYTES {
                    let next = empty.try_recv().unwrap_or_default();
                    pass_on(&full, std::mem::replace(&mut batch, next))?;
                }
                Ok(())
            })?;
            pass_on(&full, batch)?;
            Ok(end)
        });
        // On an error the loop ends; the scanner notices when it passes on the next batch.
        let looked_at = batches.into_iter().try_for_each(|batch| look_at(batch, each, &used));
        let scanned = scanner.join().expect("a bug in the scan ends recovery");
        looked_at.and(scanned)
    })
}

fn pass_on(full: &SyncSender<Batch>, batch: Batch) -> Result<()> {
    full.send(batch).map_err(|_| Error::NotFound)
}

fn look_at(mut batch: Batch, each: EachGroup<'_>, used: &Sender<Batch>) -> Result<()> {
    let mut from = 0;
    for (start, end, to) in batch.groups.drain(..) {
        debug_assert!(
            start < end && from < to,
            "a group has bytes, in the log and in the batch"
        );
        each(start, end, &batch.bytes[from..to])?;
        from = to;
    }
    debug_assert_eq!(from, batch.bytes.len(), "all bytes of a batch are those of its groups");
    batch.bytes.clear();
    // The scanner may have ended.
    let _ = used.send(batch);
    Ok(())
}

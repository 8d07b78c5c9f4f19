//! One round of group commit writes while the round before it syncs.
use super::*;
use crate::base::sync_point;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest wait of a test for another thread.
const PATIENCE: Duration = Duration::from_secs(60);

/// A log in which a round may overlap: an earlier round has opened the segment.
fn begun(disk: &Arc<SimDisk>) -> Arc<Redo> {
    let redo = Arc::new(create(disk));
    redo.flush(redo.append(&group(0, 300)).1, FlushMode::Sync).unwrap();
    redo
}

/// The time between the write and the sync of a round, while another thread works.
struct Beside {
    redo: Arc<Redo>,
    /// The log was written up to here before the other thread began.
    written: Lsn,
    /// Gets a message when the other thread comes to wait for this round's sync.
    awaits: Receiver<()>,
}

impl Beside {
    fn until_written(&self) {
        until(|| self.redo.written.load(Ordering::Acquire) != self.written);
    }
    fn until_awaited(&self) {
        self.awaits
            .recv_timeout(PATIENCE)
            .expect("the other thread waits for the sync");
    }
    fn stays_unwritten(self) {
        self.until_awaited();
        assert_eq!(self.redo.written.load(Ordering::Acquire), self.written);
    }
}

/// Flushes group 1. Between its write and its sync another thread does `meanwhile`, and `then` is
/// done here. Returns the results of both.
fn flush_beside<R: Send + 'static>(
    redo: &Arc<Redo>,
    meanwhile: impl FnOnce(&Redo) -> R + Send + 'static,
    then: impl FnOnce(Beside) + 'static,
) -> (Result<Lsn>, R) {
    let other: Arc<std::sync::Mutex<Option<JoinHandle<R>>>> = Arc::default();
    let (theirs, started) = (redo.clone(), other.clone());
    sync_point::at(SyncPoint::LogToBeSynced, move || {
        let (shared, written) = (theirs.clone(), theirs.written.load(Ordering::Acquire));
        let (tell, awaits) = channel();
        *started.lock().unwrap() = Some(std::thread::spawn(move || {
            // Not every test receives: the channel may be closed.
            sync_point::at(SyncPoint::SyncAwaited, move || {
                let _ = tell.send(());
            });
            meanwhile(&shared)
        }));
        then(Beside {
            redo: theirs,
            written,
            awaits,
        });
    });
    let (_, end) = redo.append(&group(1, 300));
    let done = redo.flush(end, FlushMode::Sync).map(|()| end);
    let other = other.lock().unwrap().take().expect("the sync point was reached");
    (done, other.join().unwrap())
}

fn commit(redo: &Redo, number: u64, len: usize) -> Result<Lsn> {
    let (_, end) = redo.append(&group(number, len));
    redo.flush(end, FlushMode::Sync).map(|()| end)
}

fn until(done: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !done() {
        assert!(begun.elapsed() < PATIENCE, "it never comes");
        std::thread::yield_now();
    }
}

#[test]
fn a_round_writes_while_the_one_before_syncs() {
    let disk = SimDisk::new(1);
    let redo = begun(&disk);
    let durable = redo.durable_lsn();
    let both = flush_beside(
        &redo,
        |redo| commit(redo, 2, 700),
        move |beside| {
            beside.until_written();
            assert_eq!(beside.redo.durable_lsn(), durable, "neither is synced");
        },
    );
    assert!(both.0.unwrap() < both.1.unwrap());
    assert_eq!(read(&disk.crash(1), FIRST_LSN).unwrap().0.len(), 3);
}

#[test]
fn what_was_written_beside_a_sync_that_failed_is_not_acknowledged() {
    let disk = SimDisk::new(1);
    let redo = begun(&disk);
    let durable = redo.durable_lsn();
    let failing = disk.clone();
    let both = flush_beside(
        &redo,
        |redo| commit(redo, 2, 700),
        move |beside| {
            beside.until_written();
            failing.fail_change(failing.changes() + 1, Fault::Eio);
        },
    );
    assert!(matches!(both.0, Err(Error::Poisoned(_))), "{:?}", both.0);
    assert!(matches!(both.1, Err(Error::Poisoned(_))), "{:?}", both.1);
    assert_eq!(redo.durable_lsn(), durable);
    assert!(!read(&disk.crash(1), FIRST_LSN).unwrap().0.is_empty());
}

#[test]
fn a_write_that_fails_beside_a_sync_takes_nothing_back() {
    let disk = SimDisk::new(1);
    let redo = begun(&disk);
    disk.fail_change(disk.changes() + 2, Fault::Eio);
    let both = flush_beside(
        &redo,
        |redo| commit(redo, 2, 700),
        |beside| until(|| beside.redo.poison_state().why().is_some()),
    );
    assert!(matches!(both.1, Err(Error::Poisoned(_))), "{:?}", both.1);
    assert_eq!(redo.durable_lsn(), both.0.unwrap(), "its sync returned");
    assert!(read(&disk.crash(1), FIRST_LSN).unwrap().0.len() >= 2);
}

/// A long write would need syncs of its own in between, which must not overtake the sync under way.
#[test]
fn a_long_write_waits_for_the_sync_before() {
    let disk = SimDisk::new(1);
    let redo = begun(&disk);
    let both = flush_beside(&redo, |redo| commit(redo, 2, 100_000), Beside::stays_unwritten);
    assert!(both.0.unwrap() < both.1.unwrap());
}

/// The device fetches pages from the system's cache as long as a sync lasts: a block must not
/// change meanwhile.
#[test]
fn buffered_rounds_wait_for_each_other() {
    let disk = SimDisk::new(1);
    let buffered = RedoConfig {
        direct_io: false,
        ..config()
    };
    let redo = Arc::new(Redo::create(disk.clone(), buffered, Arc::default()).unwrap());
    redo.flush(redo.append(&group(0, 300)).1, FlushMode::Sync).unwrap();
    let both = flush_beside(&redo, |redo| commit(redo, 2, 20), Beside::stays_unwritten);
    assert!(both.0.unwrap() < both.1.unwrap());
}

/// Otherwise the end of the sync would set back the LSNs of the log that was turned on again.
#[test]
fn turning_the_log_off_waits_for_the_sync() {
    let disk = SimDisk::new(1);
    let redo = begun(&disk);
    let both = flush_beside(
        &redo,
        |redo| redo.turn_off(),
        |beside| {
            beside.until_awaited();
            assert!(beside.redo.is_on());
        },
    );
    assert!(both.0.is_ok() && both.1.is_ok() && redo.is_off());
}

/// The disk dies under eight committers: every acknowledged group is found.
#[test]
fn a_crash_under_many_threads_loses_nothing_acknowledged() {
    for seed in 0..40u64 {
        let disk = SimDisk::new(seed);
        let redo = create(&disk);
        disk.crash_at(disk.changes() + 3 + seed * 7);
        let acknowledged: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|s| {
            for (thread, last) in acknowledged.iter().enumerate() {
                let redo = &redo;
                s.spawn(move || {
                    for i in 1.. {
                        let len = 20 + i as usize * (thread + 1) * 37 % 900;
                        if commit(redo, (thread as u64) << 32 | i, len).is_err() {
                            break;
                        }
                        last.store(i, Ordering::Relaxed);
                    }
                });
            }
        });
        let mut found = [0; 8];
        for group in read(&disk.crash(seed), FIRST_LSN).unwrap().0 {
            let number = number_of(&group);
            let of_thread = &mut found[(number >> 32) as usize];
            assert_eq!(number & 0xffff_ffff, *of_thread + 1, "each thread's groups in order");
            *of_thread += 1;
        }
        for (last, found) in acknowledged.iter().zip(found) {
            assert!(last.load(Ordering::Relaxed) <= found, "seed {seed}: lost");
        }
    }
}

//! Writers, readers and purge with real threads.
use super::{Bed, Rng};
use crate::base::{schedule_jitter, sync_point, SyncPoint, TrxId, UndoPtr};
use crate::txn::*;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What the threads share.
#[derive(Default)]
struct Shared {
    /// Ended, one way or the other.
    committed: Mutex<BTreeSet<TrxId>>,
    /// Open just now, by reader.
    views: Mutex<HashMap<u64, Arc<ReadView>>>,
    stop: AtomicBool,
}

impl Shared {
    fn write(&self, bed: &Bed, seed: u64) {
        let mut rng = Rng(seed);
        let mut trx = bed.trx();
        for _ in 0..1500 {
            bed.sys.start(&mut trx, Isolation::RepeatableRead, 1000);
            for _ in 0..1 + rng.below(3) {
                bed.append(&mut trx, &[1; 100]).unwrap();
            }
            let id = trx.id();
            if rng.below(5) == 0 {
                bed.sys.rolled_back_to(&mut trx, UndoPtr::NONE);
                bed.sys.end_rollback(&mut trx).unwrap();
            } else {
                bed.sys.commit(&mut trx);
            }
            assert!(!bed.sys.is_active(id));
            self.committed.lock().unwrap().insert(id);
        }
    }
    fn read(&self, bed: &Bed, number: u64) {
        let mut reader = bed.trx();
        while !self.stop.load(Ordering::Relaxed) {
            let before = self.committed.lock().unwrap().clone();
            let view = bed.sys.visibility.open_view(&mut reader);
            self.views.lock().unwrap().insert(number, view.clone());
            assert!(before.iter().all(|id| view.sees(*id)));
            let below = bed.sys.visibility.all_see_below();
            assert!(below <= view.low);
            std::thread::sleep(std::time::Duration::from_micros(200));
            assert!(view.active.iter().all(|id| !view.sees(*id)));
            self.views.lock().unwrap().remove(&number);
            drop(view);
            bed.sys.visibility.close_view(&mut reader);
        }
    }
    fn purge(&self, bed: &Bed) {
        while !self.stop.load(Ordering::Relaxed) {
            let Some(job) = bed.sys.next_purge(20).unwrap() else {
                continue;
            };
            for view in self.views.lock().unwrap().values() {
                assert!(job.records.iter().all(|r| view.sees(r.record.trx)));
            }
            bed.sys.purged(job).unwrap();
        }
    }
}

/// Writers, readers and purge at once. No view misses what was committed before it, or sees what
/// was not. Purge takes nothing that an open view does not see.
#[test]
fn views_and_purge_agree_under_threads() {
    let _rests = schedule_jitter::ScheduleJitter::begin();
    let (bed, shared) = (&Bed::create(31), &Shared::default());
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3).map(|n| scope.spawn(move || shared.write(bed, n))).collect();
        (0..2).for_each(|n| drop(scope.spawn(move || shared.read(bed, n))));
        (0..2).for_each(|_| drop(scope.spawn(|| shared.purge(bed))));
        writers.into_iter().for_each(|w| w.join().unwrap());
        shared.stop.store(true, Ordering::Relaxed);
    });
    while let Some(job) = bed.sys.next_purge(1000).unwrap() {
        bed.sys.purged(job).unwrap();
    }
    assert_eq!(bed.sys.undo.history_length(), 0);
    bed.check_pages();
}

/// The first transaction begins to end before the second, and is seen after it. Purge learns the
/// horizon while no view is open, and takes its work later. A view made in between does not see the
/// first transaction, and needs its records.
#[test]
fn a_view_made_while_purge_looks_for_work_keeps_who_is_committing() {
    let bed = Arc::new(Bed::create(32));
    let [mut first, mut second] = [bed.trx(), bed.trx()];
    for trx in [&mut first, &mut second] {
        bed.append(trx, &[1; 100]).unwrap();
    }
    let (learned, has_learned) = std::sync::mpsc::channel();
    let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
    let his = bed.clone();
    let purge = move || {
        sync_point::at(SyncPoint::HorizonLearned, move || {
            learned.send(()).expect("awaited");
            may_go_on.recv().expect("sent");
        });
        his.sys.next_purge(20).unwrap()
    };
    let (send, received) = std::sync::mpsc::channel();
    let his = bed.clone();
    sync_point::at(SyncPoint::EndLogged, move || {
        his.sys.commit(&mut second);
        let purge = std::thread::spawn(purge);
        has_learned.recv().expect("it comes so far");
        let mut reader = his.trx();
        let view = his.sys.visibility.open_view(&mut reader);
        send.send((purge, reader, view)).expect("received");
    });
    let id = first.id();
    bed.sys.commit(&mut first);
    go_on.send(()).expect("awaited");
    let (purge, mut reader, view) = received.recv().expect("sent");
    assert!(!view.sees(id));
    let job = purge.join().expect("no panic");
    let taken = job.iter().flat_map(|job| &job.records);
    assert!(taken.into_iter().all(|r| view.sees(r.record.trx)));
    job.into_iter().for_each(|job| bed.sys.purged(job).unwrap());
    drop(view);
    bed.sys.visibility.close_view(&mut reader);
    while let Some(job) = bed.sys.next_purge(20).unwrap() {
        bed.sys.purged(job).unwrap();
    }
    assert_eq!(bed.sys.undo.history_length(), 0);
}

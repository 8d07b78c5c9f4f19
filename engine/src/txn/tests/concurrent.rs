//! Writers, readers and purge with real threads.
use super::{Bed, Dice};
use crate::base::{TrxId, UndoPtr};
use crate::txn::*;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Writers, readers and purge at once: no view misses what was committed before it, or sees what was not; purge takes
/// nothing that an open view does not see.
#[test]
fn views_and_purge_agree_under_threads() {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::Mutex;
    let bed = Bed::create(31);
    let committed: Mutex<BTreeSet<TrxId>> = Mutex::new(BTreeSet::new());
    let views: Mutex<HashMap<u64, Arc<ReadView>>> = Mutex::new(HashMap::new());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3u64)
            .map(|n| {
                let (bed, committed) = (&bed, &committed);
                scope.spawn(move || {
                    let mut dice = Dice(n);
                    let mut trx = bed.trx();
                    for _ in 0..1500 {
                        bed.sys.start(&mut trx, Isolation::RepeatableRead, 1000);
                        for _ in 0..1 + dice.below(3) {
                            bed.append(&mut trx, &[1; 100]).unwrap();
                        }
                        let id = trx.id();
                        if dice.below(5) == 0 {
                            bed.sys.rolled_back_to(&mut trx, UndoPtr::NONE);
                            bed.sys.end_rollback(&mut trx).unwrap();
                        } else {
                            bed.sys.commit(&mut trx);
                        }
                        assert!(!bed.sys.is_active(id));
                        committed.lock().unwrap().insert(id);
                    }
                })
            })
            .collect();
        for n in 0..2u64 {
            let (bed, committed, views, stop) = (&bed, &committed, &views, &stop);
            scope.spawn(move || {
                let mut reader = bed.trx();
                while !stop.load(Ordering::Relaxed) {
                    let before = committed.lock().unwrap().clone();
                    let view = bed.sys.open_view(&mut reader);
                    views.lock().unwrap().insert(n, view.clone());
                    assert!(before.iter().all(|id| view.sees(*id)));
                    let below = bed.sys.all_see_below();
                    assert!(below <= view.low);
                    std::thread::sleep(std::time::Duration::from_micros(200));
                    assert!(view.active.iter().all(|id| !view.sees(*id)));
                    views.lock().unwrap().remove(&n);
                    drop(view);
                    bed.sys.close_view(&mut reader);
                }
            });
        }
        for _ in 0..2 {
            let (bed, views, stop) = (&bed, &views, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Some(job) = bed.sys.next_purge(20).unwrap() else {
                        continue;
                    };
                    for view in views.lock().unwrap().values() {
                        assert!(job.records.iter().all(|r| view.sees(r.record.trx)));
                    }
                    bed.sys.purged(job).unwrap();
                }
            });
        }
        writers.into_iter().for_each(|w| w.join().unwrap());
        stop.store(true, Ordering::Relaxed);
    });
    while let Some(job) = bed.sys.next_purge(1000).unwrap() {
        bed.sys.purged(job).unwrap();
    }
    assert_eq!(bed.sys.history_length(), 0);
    bed.check_pages();
}

//! The undo file becomes shorter: idle streams move, busy ones go on below, and no record is lost.
//! (The simulation's workload "undo is cut off" crashes at every I/O of it.)
use crate::base::ids::UNDO_FILE;
use crate::pool::PAGE_SIZE;
use crate::space;
use crate::txn::tests::{Bed, Rng};
use crate::txn::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Pages that are always kept.
const KEPT: u32 = 32;

fn pages(bed: &Bed) -> u32 {
    let pages = space::usage(&bed.fixture.pool, UNDO_FILE).unwrap().pages;
    let len = bed.fixture.disk.bytes("00000002.slu").unwrap().len();
    assert!(len >= pages as usize * PAGE_SIZE);
    pages
}

fn purge_all(bed: &Bed) {
    while let Some(job) = bed.sys.next_purge(500).unwrap() {
        bed.sys.purged(job).unwrap();
    }
}

/// As often as the engine would in half a minute.
fn shrink(bed: &Bed) {
    for _ in 0..30 {
        while bed.sys.truncate_undo(KEPT).unwrap() {}
    }
}

/// Many streams, and then a long reader holds all undo back.
fn grown(seed: u64) -> Bed {
    let bed = Bed::create(seed);
    let mut reader = bed.trx();
    bed.sys.visibility.open_view(&mut reader);
    let mut rng = Rng(seed);
    for _ in 0..200 {
        let mut open: Vec<Trx> = (0..6).map(|_| bed.trx()).collect();
        for trx in &mut open {
            bed.append(trx, &vec![7; 1 + rng.below(6000) as usize]).unwrap();
        }
        for mut trx in open {
            trx.set_position(vec![3; 20]);
            bed.sys.commit(&mut trx);
        }
    }
    assert!(pages(&bed) > 200, "{} pages", pages(&bed));
    // Nothing that a transaction needs may be cut.
    shrink(&bed);
    bed.check_pages();
    assert!(pages(&bed) > 200);
    bed.sys.commit(&mut reader);
    bed
}

#[test]
fn what_purge_has_freed_is_cut_off_and_the_streams_live_on() {
    let bed = grown(51);
    purge_all(&bed);
    shrink(&bed);
    assert!(pages(&bed) <= 2 * KEPT + 1, "{} pages are left", pages(&bed));
    assert_eq!(
        bed.fixture.disk.bytes("00000002.slu").unwrap().len(),
        pages(&bed) as usize * PAGE_SIZE
    );
    bed.check_pages();
    assert_eq!(bed.sys.position(), vec![3; 20]);
    // It grows again, into what was cut; and a crash loses none of that.
    let mut trx = bed.trx();
    let mut written = Vec::new();
    for n in 0..300u64 {
        let payload = vec![n as u8; 5000];
        written.push((bed.append(&mut trx, &payload).unwrap(), payload));
    }
    assert!(pages(&bed) > 70);
    bed.flush();
    let bed = bed.crash(5);
    for (at, payload) in written {
        assert_eq!(bed.sys.undo.read(at).unwrap().payload, payload);
    }
    assert_eq!(bed.sys.position(), vec![3; 20]);
    bed.check_pages();
}

#[test]
fn an_open_transaction_keeps_its_pages_and_lets_go_of_them_at_its_end() {
    let bed = grown(52);
    let mut trx = bed.trx();
    let at = bed.append(&mut trx, b"up there").unwrap();
    purge_all(&bed);
    shrink(&bed);
    assert_eq!(bed.sys.undo.read(at).unwrap().payload, b"up there");
    assert!(pages(&bed) > at.page);
    // What it writes from now on is below.
    let mut last = at;
    for _ in 0..20 {
        last = bed.append(&mut trx, &[1; 4000]).unwrap();
    }
    assert!(last.page < 2 * KEPT, "it goes on at page {}", last.page);
    bed.sys.commit(&mut trx);
    purge_all(&bed);
    shrink(&bed);
    assert!(pages(&bed) <= 2 * KEPT + 1, "{} pages are left", pages(&bed));
    bed.check_pages();
}

/// A start finds the file longer than its header says, cut or never grown.
#[test]
fn a_start_cuts_what_a_crash_left_behind_the_end() {
    let bed = grown(53);
    purge_all(&bed);
    shrink(&bed);
    bed.flush();
    let file = bed.fixture.pool.files().get(UNDO_FILE).unwrap().file;
    file.set_len(500 * PAGE_SIZE as u64).unwrap();
    file.sync().unwrap();
    let bed = bed.crash(1);
    assert_eq!(
        bed.fixture.disk.bytes("00000002.slu").unwrap().len(),
        pages(&bed) as usize * PAGE_SIZE
    );
    bed.check_pages();
}

/// Writers that make the file longer while its end is cut off.
#[test]
fn cuts_and_writers_under_threads() {
    let bed = Bed::create(54);
    let stop = AtomicBool::new(false);
    let cut = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3u64)
            .map(|n| {
                let (bed, cut) = (&bed, &cut);
                scope.spawn(move || {
                    let mut rng = Rng(n);
                    for round in 0..4000u64 {
                        // On a busy machine it takes longer until the other thread has its turn.
                        if round >= 40 && cut.load(Ordering::Relaxed) > 0 {
                            break;
                        }
                        // A large transaction reads its own undo back; then pages are free.
                        let mut trx = bed.trx();
                        let mut written = Vec::new();
                        for i in 0..40u64 {
                            let payload = vec![(n * 100 + round + i) as u8; 1 + rng.below(9000) as usize];
                            written.push((bed.append(&mut trx, &payload).unwrap(), payload));
                        }
                        for (at, payload) in written {
                            assert!(bed.sys.undo.read(at).unwrap().payload == payload);
                        }
                        bed.sys.commit(&mut trx);
                        purge_all(bed);
                    }
                })
            })
            .collect();
        let (bed, stop, cut) = (&bed, &stop, &cut);
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                bed.sys.truncate_undo(8).unwrap();
                cut.store(bed.sys.counters.undo_pages_cut.get(), Ordering::Relaxed);
                bed.fixture.pool.flusher().step(20).unwrap();
                // Or the writers wait for ever for room in the log.
                bed.fixture.checkpoint();
            }
        });
        writers.into_iter().for_each(|w| w.join().unwrap());
        stop.store(true, Ordering::Relaxed);
    });
    assert!(cut.load(Ordering::Relaxed) > 0, "nothing was cut");
    purge_all(&bed);
    bed.check_pages();
    bed.flush();
    let bed = bed.crash(9);
    bed.check_pages();
}

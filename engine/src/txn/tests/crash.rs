//! A crash at every write of a workload. Confirmed transactions are there, others are whole or
//! gone, and no page is lost.
use super::{payload, Bed, Rng};
use crate::base::{Error, TrxId, UndoPtr};
use crate::redo::FlushMode;
use crate::txn::*;
use std::collections::BTreeSet;

/// A few clients in turn; every commit is flushed before it counts. Returns (id -> commit
/// confirmed), (id -> commit begun).
fn workload(
    bed: &Bed,
    rng: &mut Rng,
    confirmed: &mut BTreeSet<TrxId>,
    begun: &mut BTreeSet<TrxId>,
) -> Result<(), Error> {
    let mut open: Vec<Trx> = Vec::new();
    for step in 0..60 {
        if open.len() < 3 {
            open.push(bed.trx());
        }
        let i = rng.below(open.len() as u64) as usize;
        let mut trx = open.swap_remove(i);
        let max = if rng.below(6) == 0 { 30_000 } else { 2_000 };
        bed.append(&mut trx, &payload(rng, max))?;
        if rng.below(3) != 0 {
            open.push(trx);
            continue;
        }
        let id = trx.id();
        begun.insert(id);
        let lsn = bed.sys.commit(&mut trx);
        bed.fixture.pool.redo().flush(lsn, FlushMode::Sync)?;
        confirmed.insert(id);
        if step % 7 == 0 {
            bed.fixture.pool.flusher().step(20)?;
        }
        if step % 5 == 0 {
            while let Some(job) = bed.sys.next_purge(10)? {
                // Purged means: it was committed. It need not be found again.
                job.records.iter().for_each(|r| {
                    confirmed.remove(&r.record.trx);
                });
                bed.sys.purged(job)?;
            }
        }
    }
    Ok(())
}

#[test]
fn after_a_crash_at_any_write_the_confirmed_commits_are_there() {
    let total = {
        let bed = Bed::create(21);
        let before = bed.fixture.disk.changes();
        workload(&bed, &mut Rng(5), &mut BTreeSet::new(), &mut BTreeSet::new()).unwrap();
        bed.fixture.disk.changes() - before
    };
    assert!(total > 50);
    for n in 1..=total {
        let bed = Bed::create(21);
        let (mut confirmed, mut begun) = (BTreeSet::new(), BTreeSet::new());
        bed.fixture.disk.crash_at(bed.fixture.disk.changes() + n);
        let outcome = workload(&bed, &mut Rng(5), &mut confirmed, &mut begun);
        assert!(outcome.is_err(), "crash {n} of {total} must be felt");
        let bed = bed.crash(n);
        bed.check_pages();
        for loser in &bed.recovered {
            assert!(!confirmed.contains(&loser.id), "crash {n}: a confirmed commit is lost");
            let mut trx = bed.sys.adopt(loser).unwrap();
            let mut at = trx.undo_top();
            while !at.is_none() {
                let record = bed.sys.undo.read(at).unwrap();
                assert_eq!(record.trx, loser.id);
                at = record.prev;
            }
            bed.sys.rolled_back_to(&mut trx, UndoPtr::NONE);
            bed.sys.end_rollback(&mut trx).unwrap();
        }
        let mut found = BTreeSet::new();
        while let Some(job) = bed.sys.next_purge(100).unwrap() {
            for record in job.records.iter().filter(|r| !r.undone) {
                assert!(begun.contains(&record.record.trx), "crash {n}: never committed");
                found.insert(record.record.trx);
            }
            bed.sys.purged(job).unwrap();
        }
        assert!(
            found.is_superset(&confirmed),
            "crash {n}: lost {:?}",
            confirmed.difference(&found)
        );
        bed.check_pages();
    }
}

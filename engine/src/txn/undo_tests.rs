//! Undo streams over a real pool and a simulated disk: round trips, partial rollback, purge against a model, restarts,
//! and a crash at every write.
use super::wait::ThreadWaiter;
use super::*;
use crate::base::ids::UNDO_FILE;
use crate::base::{Counters, Error, TrxId, UndoPtr};
use crate::io::SimDisk;
use crate::pool::tests::Rig;
use crate::redo::FlushMode;
use crate::space;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

const FRAMES: usize = 256;

/// splitmix64.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

struct Bed {
    rig: Rig,
    sys: Arc<TrxSys>,
    recovered: Vec<RecoveredTrx>,
}

impl Bed {
    fn create(seed: u64) -> Bed {
        let rig = Rig::create(seed, FRAMES);
        TrxSys::create(&rig.pool).unwrap();
        let bed = Bed::open(rig);
        bed.flush();
        bed
    }
    fn open(rig: Rig) -> Bed {
        let (sys, recovered) = TrxSys::open(rig.pool.clone(), Arc::new(Counters::default())).unwrap();
        Bed { rig, sys, recovered }
    }
    /// Stops without a clean end and starts again.
    fn crash(self, seed: u64) -> Bed {
        Bed::after(self.rig.disk.crash(seed))
    }
    fn after(disk: Arc<SimDisk>) -> Bed {
        Bed::open(Rig::recover(disk, FRAMES, &mut |_, _| ()))
    }
    fn trx(&self) -> Trx {
        let mut trx = self.sys.new_trx(Arc::new(ThreadWaiter::new()), 1);
        self.sys.start(&mut trx, Isolation::RepeatableRead, 1000);
        trx
    }
    fn append(&self, trx: &mut Trx, payload: &[u8]) -> Result<UndoPtr, Error> {
        self.sys.ensure_id(trx)?;
        self.sys.reserve_undo(trx, payload.len())?;
        let mut mtr = self.rig.pool.begin();
        let at = self.sys.append_undo(trx, &mut mtr, payload)?;
        trx.last_lsn = mtr.commit();
        Ok(at)
    }
    fn flush(&self) {
        let redo = self.rig.pool.redo();
        redo.flush(redo.lsn(), FlushMode::Sync).unwrap();
    }
    /// Every page of the undo file has an owner.
    fn check_pages(&self) {
        let used = space::usage(&self.rig.pool, UNDO_FILE).unwrap().used;
        let undo = self.sys.counters.undo_pages.get();
        // Header, bitmap, system page; with the first stream a directory page.
        let others = if undo == 0 { 3 } else { 4 };
        assert_eq!(used as u64, undo + others);
    }
}

fn payload(dice: &mut Dice, max: u64) -> Vec<u8> {
    let len = dice.below(max + 1) as usize;
    let first = dice.next();
    (0..len).map(|i| (first as usize + i * 7) as u8).collect()
}

#[test]
fn records_come_back_whatever_their_size() {
    let bed = Bed::create(1);
    let mut dice = Dice(1);
    let mut trx = bed.trx();
    let mut written = Vec::new();
    for n in 0..400 {
        let max = if n % 10 == 0 { 60_000 } else { 200 };
        let bytes = payload(&mut dice, max);
        let prev = trx.undo_top;
        let at = bed.append(&mut trx, &bytes).unwrap();
        assert_eq!(trx.undo_top, at);
        let record = UndoRecord {
            trx: trx.id(),
            prev,
            payload: bytes,
        };
        written.push((at, record));
    }
    for (at, record) in &written {
        assert_eq!(bed.sys.read_undo(*at).unwrap(), *record);
    }
    assert!(bed.sys.read_undo(UndoPtr { page: 0, offset: 99 }).is_err());
    bed.sys.commit(&mut trx);
    bed.check_pages();
}

#[test]
fn several_records_in_one_mini_transaction() {
    let bed = Bed::create(2);
    let mut trx = bed.trx();
    bed.sys.ensure_id(&mut trx).unwrap();
    bed.sys.reserve_undo(&mut trx, 50_000).unwrap();
    let mut mtr = bed.rig.pool.begin();
    let at: Vec<UndoPtr> = (0..40u8)
        .map(|n| bed.sys.append_undo(&mut trx, &mut mtr, &[n; 1200]).unwrap())
        .collect();
    mtr.commit();
    for (n, at) in at.iter().enumerate() {
        assert_eq!(bed.sys.read_undo(*at).unwrap().payload, [n as u8; 1200]);
    }
    bed.sys.end_rollback(&mut trx).unwrap();
}

#[test]
fn small_transactions_share_pages() {
    let bed = Bed::create(3);
    let mut trx = bed.trx();
    let mut pages = HashSet::new();
    for n in 0..100u32 {
        bed.sys.start(&mut trx, Isolation::ReadCommitted, 1);
        pages.insert(bed.append(&mut trx, &n.to_le_bytes()).unwrap().page);
        assert!(bed.sys.commit(&mut trx) > 0);
    }
    assert_eq!(pages.len(), 1);
    assert_eq!(bed.sys.history_length(), 100);
}

#[test]
fn the_log_carries_little_more_than_the_records() {
    let bed = Bed::create(4);
    let mut trx = bed.trx();
    bed.append(&mut trx, &[1; 50]).unwrap();
    let before = bed.rig.pool.redo().lsn();
    for _ in 0..100 {
        bed.append(&mut trx, &[2; 50]).unwrap();
    }
    let overhead = (bed.rig.pool.redo().lsn() - before) / 100 - 50;
    assert!(overhead <= 40, "{overhead} bytes a record");
}

#[test]
fn a_chain_passes_over_what_was_undone() {
    let bed = Bed::create(5);
    let mut trx = bed.trx();
    let a = bed.append(&mut trx, b"a").unwrap();
    bed.append(&mut trx, b"b").unwrap();
    bed.append(&mut trx, b"c").unwrap();
    bed.sys.rolled_back_to(&mut trx, a);
    let d = bed.append(&mut trx, b"d").unwrap();
    assert_eq!(bed.sys.read_undo(d).unwrap().prev, a);
    bed.flush();
    let id = trx.id();
    let bed = bed.crash(1);
    let loser = RecoveredTrx { id, xid: None };
    assert_eq!(bed.recovered, [loser.clone()]);
    assert!(bed.sys.is_active(id));
    let mut trx = bed.sys.adopt(&loser).unwrap();
    assert_eq!(trx.undo_top, d);
    bed.sys.rolled_back_to(&mut trx, UndoPtr::NONE);
    bed.sys.end_rollback(&mut trx).unwrap();
    assert!(!bed.sys.is_active(id));
    assert!(matches!(bed.sys.adopt(&loser), Err(Error::NotFound)));
    let job = bed.sys.next_purge(100).unwrap().unwrap();
    let undone: Vec<_> = job.records.iter().map(|r| (r.record.payload[0], r.undone)).collect();
    assert_eq!(undone, [(b'a', true), (b'b', true), (b'c', true), (b'd', true)]);
    bed.sys.purged(job).unwrap();
    assert!(bed.sys.next_purge(1).unwrap().is_none());
}

#[test]
fn a_prepared_transaction_survives_until_decided() {
    let bed = Bed::create(6);
    let xid = Xid {
        format_id: 1,
        gtrid_len: 3,
        bqual_len: 2,
        data: b"gtrbq".to_vec(),
    };
    let mut trx = bed.trx();
    assert_eq!(bed.sys.prepare(&mut trx, &xid).unwrap(), 0, "it has written nothing");
    let top = bed.append(&mut trx, b"x").unwrap();
    bed.append(&mut trx, b"undone").unwrap();
    bed.sys.rolled_back_to(&mut trx, top);
    let lsn = bed.sys.prepare(&mut trx, &xid).unwrap();
    bed.rig.pool.redo().flush(lsn, FlushMode::Sync).unwrap();
    let id = trx.id();
    let bed = bed.crash(2).crash(3);
    let prepared = bed.recovered[0].clone();
    assert_eq!(
        prepared,
        RecoveredTrx {
            id,
            xid: Some(xid.clone())
        }
    );
    let mut trx = bed.sys.adopt(&prepared).unwrap();
    assert!(trx.is_prepared());
    assert_eq!(trx.undo_top, top);
    let mut reader = bed.trx();
    assert!(!bed.sys.open_view(&mut reader).sees(id));
    bed.sys.commit(&mut trx);
    bed.sys.close_view(&mut reader);
    assert!(bed.sys.open_view(&mut reader).sees(id));
    bed.flush();
    let bed = bed.crash(4);
    assert_eq!(bed.recovered, []);
    let job = bed.sys.next_purge(10).unwrap().unwrap();
    let undone: Vec<bool> = job.records.iter().map(|r| r.undone).collect();
    assert_eq!(undone, [false, true]);
}

#[test]
fn views_see_commits_in_their_order() {
    let bed = Bed::create(7);
    let (mut a, mut b, mut reader) = (bed.trx(), bed.trx(), bed.trx());
    let (ida, idb) = (bed.sys.ensure_id(&mut a).unwrap(), bed.sys.ensure_id(&mut b).unwrap());
    bed.append(&mut a, b"a").unwrap();
    assert_eq!(bed.sys.all_see_below(), ida);
    let view = bed.sys.open_view(&mut reader);
    bed.sys.commit(&mut a);
    assert!(!bed.sys.is_active(ida) && bed.sys.is_active(idb));
    assert!(!view.sees(ida) && !view.sees(idb) && !view.sees(idb + 1));
    assert!(bed.sys.next_purge(1).unwrap().is_none(), "the view holds it back");
    assert_eq!(bed.sys.all_see_below(), ida);
    assert_eq!(bed.sys.oldest_view().1, 1);
    // Its own id is given after the view was made.
    let own = bed.sys.ensure_id(&mut reader).unwrap();
    assert!(bed.sys.open_view(&mut reader).sees(own));
    bed.sys.commit(&mut reader);
    assert_eq!(bed.sys.all_see_below(), idb);
    let job = bed.sys.next_purge(1).unwrap().unwrap();
    assert_eq!(job.records.len(), 1);
    bed.sys.purge_failed(job);
    let job = bed.sys.next_purge(1).unwrap().unwrap();
    assert_eq!(job.records.len(), 1);
    bed.sys.purged(job).unwrap();
    bed.sys.end_rollback(&mut b).unwrap();
    assert!(bed.sys.all_see_below() > own);
}

#[test]
fn positions_outlive_purge_and_crash() {
    let mut bed = Bed::create(8);
    for round in 0..3u8 {
        for n in 0..200u8 {
            let mut trx = bed.trx();
            bed.append(&mut trx, &[n; 300]).unwrap();
            trx.position = vec![round, n];
            bed.sys.commit(&mut trx);
            if n > 150 {
                while let Some(job) = bed.sys.next_purge(50).unwrap() {
                    bed.sys.purged(job).unwrap();
                }
            }
        }
        bed.flush();
        bed = bed.crash(round as u64);
        assert_eq!(bed.sys.position(), [round, 199]);
        bed.check_pages();
    }
}

#[test]
fn numbers_never_repeat() {
    let mut bed = Bed::create(9);
    let mut last = 0;
    for round in 0..4 {
        // The log is flushed in some rounds only: ids that were given and lost must not come again once they were seen
        // in anything durable; the bound's own group is flushed with the first of them.
        for n in 0..40_000u64 {
            let mut trx = bed.trx();
            let id = bed.sys.ensure_id(&mut trx).unwrap();
            assert!(id > last, "{id} after {last}");
            last = id;
            if n % 1000 == 0 {
                bed.append(&mut trx, b"x").unwrap();
            }
            bed.sys.commit(&mut trx);
        }
        bed.flush();
        bed = bed.crash(round);
    }
}

#[test]
fn a_full_disk_fails_the_statement_and_not_the_commit() {
    let bed = Bed::create(10);
    let (mut a, mut b) = (bed.trx(), bed.trx());
    bed.append(&mut a, b"a").unwrap();
    bed.append(&mut b, b"b").unwrap();
    bed.rig.disk.set_space(Some(0));
    let mut n = 0;
    let full = loop {
        match bed.append(&mut a, &[1; 3000]) {
            Ok(_) => n += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, Error::Full(_)), "{full}");
    assert!(n < 1000);
    a.position = vec![7; POSITION_MAX];
    assert!(bed.sys.commit(&mut a) > 0);
    bed.sys.end_rollback(&mut b).unwrap();
    bed.rig.pool.check_alive().unwrap();
}

#[test]
fn work_done_for_good_is_not_handed_out_again() {
    let bed = Bed::create(11);
    let mut trx = bed.trx();
    let at: Vec<UndoPtr> = (0..3u8).map(|n| bed.append(&mut trx, &[n]).unwrap()).collect();
    bed.sys.commit(&mut trx);
    let job = bed.sys.next_purge(10).unwrap().unwrap();
    assert_eq!(job.records.len(), 3);
    let mut mtr = bed.rig.pool.begin();
    bed.sys.mark_applied(&mut mtr, at[1]).unwrap();
    mtr.commit();
    bed.flush();
    let bed = bed.crash(1);
    let job = bed.sys.next_purge(10).unwrap().unwrap();
    let again: Vec<UndoPtr> = job.records.iter().map(|r| r.at).collect();
    assert_eq!(again, [at[0], at[2]]);
}

/// What the model knows of a transaction.
#[derive(Default)]
struct ModelTrx {
    /// (address, payload, undone) in the order written.
    records: Vec<(UndoPtr, Vec<u8>, bool)>,
    /// Commits and rollbacks before its end.
    ended: Option<u64>,
}

/// Random transactions, savepoints, views, purge and restarts against a model.
struct Model {
    bed: Option<Bed>,
    dice: Dice,
    open: Vec<Trx>,
    readers: Vec<(Trx, u64)>,
    trxs: BTreeMap<TrxId, ModelTrx>,
    /// By transaction too: pages are used again.
    purged: HashSet<(TrxId, UndoPtr)>,
    /// Purged before a restart.
    perhaps_again: HashSet<(TrxId, UndoPtr)>,
    ends: u64,
}

impl Model {
    fn bed(&self) -> &Bed {
        self.bed.as_ref().unwrap()
    }
    fn pick(&mut self) -> Option<usize> {
        let n = self.open.len() as u64;
        (n > 0).then(|| self.dice.below(n) as usize)
    }
    fn write(&mut self) {
        if self.open.len() < 6 && self.dice.below(4) == 0 {
            self.open.push(self.bed().trx());
        }
        let Some(i) = self.pick() else { return };
        let max = if self.dice.below(20) == 0 { 40_000 } else { 400 };
        let bytes = payload(&mut self.dice, max);
        let mut trx = self.open.swap_remove(i);
        let at = self.bed().append(&mut trx, &bytes).unwrap();
        let model = self.trxs.entry(trx.id()).or_default();
        model.records.push((at, bytes, false));
        self.open.push(trx);
    }
    fn undo_some(&mut self) {
        let Some(i) = self.pick() else { return };
        let Some(model) = self.trxs.get_mut(&self.open[i].id()) else {
            return;
        };
        let live: Vec<usize> = (0..model.records.len()).filter(|r| !model.records[*r].2).collect();
        if live.is_empty() {
            return;
        }
        let keep = self.dice.below(live.len() as u64 + 1) as usize;
        let to = if keep == 0 {
            UndoPtr::NONE
        } else {
            model.records[live[keep - 1]].0
        };
        live[keep..].iter().for_each(|r| model.records[*r].2 = true);
        let bed = self.bed.as_ref().unwrap();
        bed.sys.rolled_back_to(&mut self.open[i], to);
    }
    fn end(&mut self) {
        let Some(i) = self.pick() else { return };
        let commit = self.dice.below(4) != 0;
        let mut trx = self.open.swap_remove(i);
        let id = trx.id();
        if commit {
            self.bed().sys.commit(&mut trx);
        } else {
            self.bed().sys.end_rollback(&mut trx).unwrap();
        }
        self.ended(id, commit);
    }
    fn ended(&mut self, id: TrxId, commit: bool) {
        self.ends += 1;
        let Some(model) = self.trxs.get_mut(&id) else { return };
        model.ended = Some(self.ends);
        if !commit {
            model.records.iter_mut().for_each(|r| r.2 = true);
        }
    }
    fn view(&mut self) {
        if self.readers.len() < 3 && self.dice.below(2) == 0 {
            let mut reader = self.bed().trx();
            self.bed().sys.open_view(&mut reader);
            self.readers.push((reader, self.ends));
        } else if !self.readers.is_empty() {
            let i = self.dice.below(self.readers.len() as u64) as usize;
            let (mut reader, _) = self.readers.swap_remove(i);
            self.bed().sys.commit(&mut reader);
        }
    }
    fn purge(&mut self, records_max: usize) -> bool {
        let sys = self.bed().sys.clone();
        let Some(job) = sys.next_purge(records_max).unwrap() else {
            return false;
        };
        assert!(job.records.len() <= records_max);
        let oldest_reader = self.readers.iter().map(|(_, ends)| *ends).min().unwrap_or(u64::MAX);
        for record in &job.records {
            let model = &self.trxs[&record.record.trx];
            let ended = model.ended.expect("only ended transactions are purged");
            assert!(ended <= oldest_reader, "a view still needs it");
            let (_, bytes, undone) = model.records.iter().find(|r| r.0 == record.at).expect("it was written");
            assert_eq!((bytes, undone), (&record.record.payload, &record.undone));
        }
        if self.dice.below(8) == 0 {
            sys.purge_failed(job);
            return true;
        }
        for record in &job.records {
            assert!(self.purged.insert((record.record.trx, record.at)), "handed out twice");
        }
        sys.purged(job).unwrap();
        true
    }
    /// Whatever is not purged can be read, and the views know who has ended.
    fn check(&self) {
        let bed = self.bed();
        for (id, model) in &self.trxs {
            let gone = |at: UndoPtr| self.purged.contains(&(*id, at)) || self.perhaps_again.contains(&(*id, at));
            for (at, bytes, _) in model.records.iter().filter(|r| !gone(r.0)) {
                let record = bed.sys.read_undo(*at).unwrap();
                assert_eq!((record.trx, &record.payload), (*id, bytes));
            }
            for (reader, ends) in &self.readers {
                let sees = reader.view.as_ref().unwrap().sees(*id);
                assert_eq!(sees, model.ended.is_some_and(|ended| ended <= *ends), "trx {id}");
            }
            assert_eq!(bed.sys.is_active(*id), model.ended.is_none());
        }
        bed.check_pages();
    }
    /// Everything is flushed, then the machine stops. Records of half-purged pages may come again.
    fn restart(&mut self) {
        self.bed().flush();
        self.open.clear();
        self.readers.clear();
        let seed = self.dice.next();
        let mut bed = self.bed.take().unwrap().crash(seed);
        let recovered = std::mem::take(&mut bed.recovered);
        let active: BTreeSet<TrxId> = recovered.iter().map(|r| r.id).collect();
        let expected: BTreeSet<TrxId> = self
            .trxs
            .iter()
            .filter(|(_, t)| t.ended.is_none())
            .map(|(id, _)| *id)
            .collect();
        assert_eq!(active, expected);
        self.bed = Some(bed);
        for loser in recovered {
            let bed = self.bed();
            let mut trx = bed.sys.adopt(&loser).unwrap();
            let chain: Vec<UndoPtr> = std::iter::successors(Some(trx.undo_top), |at| {
                Some(bed.sys.read_undo(*at).unwrap().prev).filter(|prev| !prev.is_none())
            })
            .collect();
            // From the newest record on; what was undone after the last append is undone again.
            let model = &self.trxs[&loser.id];
            let newest = model.records.len() - 1;
            let live = (0..=newest).filter(|r| !model.records[*r].2 || chain.contains(&model.records[*r].0));
            let expected: Vec<UndoPtr> = live.map(|r| model.records[r].0).collect();
            assert_eq!(chain.iter().rev().copied().collect::<Vec<_>>(), expected);
            assert_eq!(chain[0], model.records[newest].0);
            bed.sys.rolled_back_to(&mut trx, UndoPtr::NONE);
            bed.sys.end_rollback(&mut trx).unwrap();
            self.ended(loser.id, false);
        }
        // The durable heads lag by up to a page a stream.
        self.perhaps_again.extend(self.purged.drain());
    }
}

fn run_model(seed: u64, steps: usize, restarts: bool) {
    let mut model = Model {
        bed: Some(Bed::create(seed)),
        dice: Dice(seed),
        open: Vec::new(),
        readers: Vec::new(),
        trxs: BTreeMap::new(),
        purged: HashSet::new(),
        perhaps_again: HashSet::new(),
        ends: 0,
    };
    for step in 0..steps {
        match model.dice.below(100) {
            0..=59 => model.write(),
            60..=69 => model.undo_some(),
            70..=84 => model.end(),
            85..=91 => model.view(),
            92..=98 => {
                let max = 1 + model.dice.below(30) as usize;
                model.purge(max);
            }
            _ if restarts && model.dice.below(3) == 0 => model.restart(),
            _ => model.check(),
        }
        if step % 400 == 0 {
            model.check();
        }
    }
    while !model.open.is_empty() {
        model.end();
    }
    while !model.readers.is_empty() {
        model.view();
    }
    while model.purge(64) {}
    assert_eq!(model.bed().sys.history_length(), 0);
    let written: usize = model.trxs.values().map(|t| t.records.len()).sum();
    let handed_out = model.purged.union(&model.perhaps_again).count();
    assert_eq!(handed_out, written, "each record is handed out");
    model.check();
    let pages = model.bed().sys.counters.undo_pages.get();
    assert!(pages <= 60, "{pages} pages are left to 6 streams");
}

#[test]
fn purge_hands_out_each_record_once_and_frees_every_page() {
    for seed in 1..=6 {
        run_model(seed, 4_000, false);
    }
}

#[test]
fn restarts_lose_nothing() {
    for seed in 101..=106 {
        run_model(seed, 3_000, true);
    }
}

/// A few clients in turn; every commit is flushed before it counts. Returns (id -> commit confirmed), (id -> commit begun).
fn workload(
    bed: &Bed,
    dice: &mut Dice,
    confirmed: &mut BTreeSet<TrxId>,
    begun: &mut BTreeSet<TrxId>,
) -> Result<(), Error> {
    let mut open: Vec<Trx> = Vec::new();
    for step in 0..60 {
        if open.len() < 3 {
            open.push(bed.trx());
        }
        let i = dice.below(open.len() as u64) as usize;
        let mut trx = open.swap_remove(i);
        let max = if dice.below(6) == 0 { 30_000 } else { 2_000 };
        bed.append(&mut trx, &payload(dice, max))?;
        if dice.below(3) != 0 {
            open.push(trx);
            continue;
        }
        let id = trx.id();
        begun.insert(id);
        let lsn = bed.sys.commit(&mut trx);
        bed.rig.pool.redo().flush(lsn, FlushMode::Sync)?;
        confirmed.insert(id);
        if step % 7 == 0 {
            bed.rig.pool.flush_step(20)?;
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
        let before = bed.rig.disk.changes();
        workload(&bed, &mut Dice(5), &mut BTreeSet::new(), &mut BTreeSet::new()).unwrap();
        bed.rig.disk.changes() - before
    };
    assert!(total > 50);
    for n in 1..=total {
        let bed = Bed::create(21);
        let (mut confirmed, mut begun) = (BTreeSet::new(), BTreeSet::new());
        bed.rig.disk.crash_at(bed.rig.disk.changes() + n);
        let outcome = workload(&bed, &mut Dice(5), &mut confirmed, &mut begun);
        assert!(outcome.is_err(), "crash {n} of {total} must be felt");
        let bed = bed.crash(n);
        bed.check_pages();
        for loser in &bed.recovered {
            assert!(!confirmed.contains(&loser.id), "crash {n}: a confirmed commit is lost");
            let mut trx = bed.sys.adopt(loser).unwrap();
            let mut at = trx.undo_top;
            while !at.is_none() {
                let record = bed.sys.read_undo(at).unwrap();
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

/// Run with `--release --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn bench_small_transactions() {
    let bed = Bed::create(41);
    let n = 300_000u64;
    let mut trx = bed.trx();
    let start = std::time::Instant::now();
    for i in 0..n {
        bed.sys.start(&mut trx, Isolation::RepeatableRead, 1000);
        bed.append(&mut trx, &[i as u8; 60]).unwrap();
        bed.sys.commit(&mut trx);
    }
    println!("begin, append, commit: {} ns", start.elapsed().as_nanos() as u64 / n);
    let start = std::time::Instant::now();
    let mut records = 0;
    while let Some(job) = bed.sys.next_purge(300).unwrap() {
        records += job.records.len() as u64;
        bed.sys.purged(job).unwrap();
    }
    assert_eq!(records, n);
    println!("purge: {} ns a record", start.elapsed().as_nanos() as u64 / n);
    let start = std::time::Instant::now();
    for _ in 0..n {
        bed.sys.start(&mut trx, Isolation::RepeatableRead, 1000);
        bed.sys.open_view(&mut trx);
        bed.sys.commit(&mut trx);
    }
    println!("read-only with a view: {} ns", start.elapsed().as_nanos() as u64 / n);
}

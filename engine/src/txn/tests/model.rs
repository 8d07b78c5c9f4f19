//! Random transactions, savepoints, views, purge and restarts against a model. It checks what purge
//! hands out, and when; what stays readable; which transactions are active after a restart.
use super::{payload, Bed, Rng};
use crate::base::{Error, TrxId, UndoPtr};
use crate::txn::*;
use std::collections::{BTreeMap, BTreeSet, HashSet};

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
    rng: Rng,
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
        (n > 0).then(|| self.rng.below(n) as usize)
    }
    fn write(&mut self) {
        if self.open.len() < 6 && self.rng.below(4) == 0 {
            self.open.push(self.bed().trx());
        }
        let Some(i) = self.pick() else { return };
        let max = if self.rng.below(20) == 0 { 40_000 } else { 400 };
        let bytes = payload(&mut self.rng, max);
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
        let keep = self.rng.below(live.len() as u64 + 1) as usize;
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
        let commit = self.rng.below(4) != 0;
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
        if self.readers.len() < 3 && self.rng.below(2) == 0 {
            let mut reader = self.bed().trx();
            self.bed().sys.visibility.open_view(&mut reader);
            self.readers.push((reader, self.ends));
        } else if !self.readers.is_empty() {
            let i = self.rng.below(self.readers.len() as u64) as usize;
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
        if self.rng.below(8) == 0 {
            sys.undo.purge_failed(job, &Error::Full(String::new()));
            return true;
        }
        for record in &job.records {
            assert!(self.purged.insert((record.record.trx, record.at)), "handed out twice");
        }
        sys.purged(job).unwrap();
        true
    }
    /// Every record that is not purged can be read, and the views know which transactions have
    /// ended.
    fn check(&self) {
        let bed = self.bed();
        for (id, model) in &self.trxs {
            let gone = |at: UndoPtr| self.purged.contains(&(*id, at)) || self.perhaps_again.contains(&(*id, at));
            for (at, bytes, _) in model.records.iter().filter(|r| !gone(r.0)) {
                let record = bed.sys.undo.read(*at).unwrap();
                assert_eq!((record.trx, &record.payload), (*id, bytes));
            }
            for (reader, ends) in &self.readers {
                let sees = reader.view().unwrap().sees(*id);
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
        let seed = self.rng.next();
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
            let chain: Vec<UndoPtr> = std::iter::successors(Some(trx.undo_top()), |at| {
                Some(bed.sys.undo.read(*at).unwrap().prev).filter(|prev| !prev.is_none())
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
        rng: Rng(seed),
        open: Vec::new(),
        readers: Vec::new(),
        trxs: BTreeMap::new(),
        purged: HashSet::new(),
        perhaps_again: HashSet::new(),
        ends: 0,
    };
    for step in 0..steps {
        match model.rng.below(100) {
            0..=59 => model.write(),
            60..=69 => model.undo_some(),
            70..=84 => model.end(),
            85..=91 => model.view(),
            92..=98 => {
                let max = 1 + model.rng.below(30) as usize;
                model.purge(max);
            }
            _ if restarts && model.rng.below(3) == 0 => model.restart(),
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
    assert_eq!(model.bed().sys.undo.history_length(), 0);
    let written: usize = model.trxs.values().map(|t| t.records.len()).sum();
    let handed_out = model.purged.union(&model.perhaps_again).count();
    assert_eq!(handed_out, written, "each record is handed out");
    model.check();
    let pages = model.bed().sys.undo.stream_pages.get();
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

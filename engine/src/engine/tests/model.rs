//! Random changes against the table's twin in memory: savepoints, rollbacks, duplicates, old
//! snapshots, purge and restarts.
use super::fixture::*;
use crate::base::Error;
use crate::engine::Close;
use crate::io::sim::SimDisk;
use crate::table::Savepoint;
use crate::txn::{Isolation, Trx};

const KEYS: u64 = 60;
const TAGS: u64 = 90;

struct Run {
    fixture: TableFixture,
    random: Random,
    committed: Model,
    /// The writer's own view, and what it would go back to: (savepoint, model).
    pending: Model,
    writer: Option<Trx>,
    savepoints: Vec<(Savepoint, Model)>,
    readers: Vec<(Trx, Model)>,
}

impl Run {
    fn new(seed: u64) -> Run {
        Run {
            fixture: TableFixture::create(SimDisk::new(seed)),
            random: Random(seed),
            committed: Model::new(),
            pending: Model::new(),
            writer: None,
            savepoints: Vec::new(),
            readers: Vec::new(),
        }
    }

    fn writer(&mut self) -> &mut Trx {
        if self.writer.is_none() {
            self.pending = self.committed.clone();
            self.writer = Some(self.fixture.begin(Isolation::ReadCommitted));
        }
        self.writer.as_mut().expect("just made")
    }

    fn key(&mut self) -> Vec<u8> {
        pk(self.random.below(KEYS) as u32)
    }

    /// The row that another one may not have the tag of.
    fn tag_taken(&self, but: &[u8], row: &Row) -> Option<Vec<u8>> {
        let tag = row.tag?;
        let taken = self.pending.iter().find(|(pk, r)| r.tag == Some(tag) && *pk != but);
        taken.map(|(pk, _)| pk.clone())
    }

    fn change(&mut self) {
        let key = self.key();
        let row = self.random.row(TAGS);
        let kind = self.random.below(10);
        self.writer();
        let mut trx = self.writer.take().expect("begun");
        let old = self.pending.get(&key).cloned();
        let taken = self.tag_taken(&key, &row);
        match (old, kind) {
            (None, _) => {
                let result = self.fixture.insert(&mut trx, &key, &row);
                self.settle(result, taken, key, row);
            }
            (Some(_), 0) => {
                let result = self.fixture.insert(&mut trx, &key, &row);
                assert_eq!(result, Err(Error::Duplicate { index: 0, pk: key }));
            }
            (Some(old), 1..=3) => {
                self.fixture.delete(&mut trx, &key, &old).expect("delete");
                self.pending.remove(&key);
            }
            (Some(old), 4) => self.move_somewhere(&mut trx, &key, &old, row),
            (Some(old), _) => {
                let result = self.fixture.update(&mut trx, &key, &old, &row);
                self.settle(result, taken, key, row);
            }
        }
        self.writer = Some(trx);
    }

    fn settle(&mut self, result: crate::base::Result<()>, taken: Option<Vec<u8>>, key: Vec<u8>, row: Row) {
        match taken {
            Some(pk) => assert_eq!(result, Err(Error::Duplicate { index: 2, pk })),
            None => {
                result.expect("nothing is in the way");
                self.pending.insert(key, row);
            }
        }
    }

    fn move_somewhere(&mut self, trx: &mut Trx, key: &[u8], old: &Row, row: Row) {
        let to = self.key();
        let row = Row { tag: old.tag, ..row };
        let result = self.fixture.move_row(trx, key, old, &to, &row);
        if to != key && self.pending.contains_key(&to) {
            assert_eq!(result, Err(Error::Duplicate { index: 0, pk: to }));
        } else {
            result.expect("free");
            self.pending.remove(key);
            self.pending.insert(to, row);
        }
    }

    fn end(&mut self, commit: bool) {
        let Some(mut trx) = self.writer.take() else { return };
        self.savepoints.clear();
        if commit {
            self.fixture.engine.commit(&mut trx, false).expect("commit");
            self.committed = std::mem::take(&mut self.pending);
        } else {
            self.fixture.engine.rollback(&mut trx).expect("rollback");
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..=64 => self.change(),
            65..=68 => {
                let store = self.fixture.store().clone();
                let at = store.rollbacks().savepoint(self.writer());
                self.savepoints.push((at, self.pending.clone()));
            }
            69..=72 => {
                if let Some((at, model)) = self.savepoints.pop() {
                    let trx = self.writer.as_mut().expect("it has savepoints");
                    self.fixture.store().rollbacks().rollback_to(trx, at).expect("rollback");
                    self.pending = model;
                }
            }
            73..=78 => self.end(true),
            79..=81 => self.end(false),
            82..=85 => self.open_reader(),
            86..=88 => self.close_reader(),
            89..=90 => {
                let _ = self.fixture.store().purger().purge_step(5).expect("purge");
            }
            91..=93 => self.fixture.merge_some(&mut self.random).expect("merge"),
            _ => self.look(),
        }
    }

    fn open_reader(&mut self) {
        if self.readers.len() >= 4 {
            self.close_reader();
        }
        let mut trx = self.fixture.begin(Isolation::RepeatableRead);
        self.fixture.store().trx_sys.visibility.open_view(&mut trx);
        self.readers.push((trx, self.committed.clone()));
    }

    fn close_reader(&mut self) {
        if !self.readers.is_empty() {
            let (mut trx, model) = self.readers.swap_remove(0);
            self.fixture.check_view(&mut trx, &model, "a reader at its end");
            self.fixture.engine.commit(&mut trx, false).expect("commit");
        }
    }

    fn look(&mut self) {
        if let Some(trx) = &mut self.writer {
            // READ COMMITTED: a view of its own for each look.
            self.fixture.store().trx_sys.visibility.close_view(trx);
            self.fixture.check_view(trx, &self.pending, "the writer");
        }
        for (trx, model) in &mut self.readers {
            self.fixture.check_view(trx, model, "a reader");
        }
    }

    fn finish(mut self) -> TableFixture {
        self.end(true);
        while !self.readers.is_empty() {
            self.close_reader();
        }
        let mut trx = self.fixture.begin(Isolation::ReadCommitted);
        self.fixture.check_view(&mut trx, &self.committed, "the end");
        self.fixture.engine.commit(&mut trx, false).expect("commit");
        self.fixture.check_table();
        self.fixture.purge_all();
        self.fixture.check_table();
        let rows = self.committed.len() as u64;
        let left = [0, BY_GROUP, BY_TAG].map(|i| self.fixture.entries_in_tree(i));
        assert_eq!(left, [rows; 3], "purge leaves one entry for each row");
        let stats = self
            .fixture
            .store()
            .statistics_keeper()
            .table_stats(&self.fixture.table)
            .expect("stats");
        assert_eq!(stats.rows, rows, "the row count is kept");
        self.fixture
    }
}

#[test]
fn every_snapshot_is_as_its_model() {
    for seed in seeds(12) {
        let mut run = Run::new(seed);
        run.fixture.buffer_by(seed);
        for _ in 0..700 {
            run.step();
        }
        let fixture = run.finish();
        fixture.engine.close(Close::Fast).expect("close");
    }
}

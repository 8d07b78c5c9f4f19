//! A consistent scan that turns anywhere, with changes of its own transaction and of others between
//! its steps. Some steps find their entry in the batch. They must leave the scan where a new
//! descent would have.
use super::fixture::*;
use crate::btree::Seek;
use crate::io::sim::SimDisk;
use crate::table::{Cursor, LockChoice};
use crate::txn::{Isolation, Trx};
use std::collections::BTreeSet;

const ROWS: u32 = 3000;

fn row_of(n: u32) -> Row {
    Row {
        group: 1,
        shade: 0,
        tag: Some(n as u16),
        body: vec![1; 10],
    }
}
/// Both indexes are in the order of the numbers.
fn pk(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}
fn put(fixture: &TableFixture, trx: &mut Trx, n: u32) {
    fixture.insert(trx, &pk(n), &row_of(n)).expect("inserted");
}
fn remove(fixture: &TableFixture, trx: &mut Trx, n: u32) {
    fixture.delete(trx, &pk(n), &row_of(n)).expect("deleted");
}

/// What the scan's transaction changes is seen at once, what the other does never.
struct Walk {
    fixture: TableFixture,
    trx: Trx,
    seen: BTreeSet<u32>,
    random: Random,
}

impl Walk {
    fn new(seed: u64) -> Walk {
        let fixture = TableFixture::create(SimDisk::new(seed));
        let mut trx = fixture.begin(Isolation::RepeatableRead);
        (0..ROWS).step_by(3).for_each(|n| put(&fixture, &mut trx, n));
        fixture.engine.commit(&mut trx, true).expect("committed");
        let trx = fixture.begin(Isolation::RepeatableRead);
        Walk {
            fixture,
            trx,
            seen: (0..ROWS).step_by(3).collect(),
            random: Random(seed),
        }
    }
    /// Numbers that are 0 modulo 3 are there at first, 1 come from the scan's transaction, 2 from
    /// others.
    fn change(&mut self) {
        let n = self.random.below(ROWS as u64) as u32;
        match n % 3 {
            2 => {
                let mut other = self.fixture.begin(Isolation::ReadCommitted);
                if self.fixture.get(&mut other, &pk(n), None).expect("read").is_none() {
                    put(&self.fixture, &mut other, n);
                }
                self.fixture.engine.commit(&mut other, false).expect("committed");
            }
            _ if self.seen.remove(&n) => remove(&self.fixture, &mut self.trx, n),
            _ => {
                put(&self.fixture, &mut self.trx, n);
                self.seen.insert(n);
            }
        }
    }
    fn run(&mut self, cursor: &mut Cursor, mut at: u32) {
        for _ in 0..40 {
            let forward = self.random.below(10) < 6;
            for _ in 0..1 + self.random.below(90) {
                let expected = match forward {
                    true => self.seen.range(at + 1..).next(),
                    false => self.seen.range(..at).next_back(),
                };
                let Some(&expected) = expected else { return };
                let moved = match forward {
                    true => cursor.next(&mut self.trx),
                    false => cursor.prev(&mut self.trx),
                };
                assert_eq!(moved, Ok(true), "from {at}");
                assert_eq!(cursor.found().expect("handed out").pk, pk(expected), "from {at}");
                at = expected;
            }
            if self.random.below(10) < 3 {
                self.change();
            }
        }
    }
}

#[test]
fn a_scan_that_turns_anywhere_meets_every_row_once() {
    for seed in 1..=4 {
        let mut walk = Walk::new(seed);
        let mut cursor = walk.fixture.store().cursor(walk.fixture.table.clone());
        for round in 0..30 {
            let (index, covering) = [(0, false), (BY_TAG, true), (BY_TAG, false)][round % 3];
            cursor
                .begin(&mut walk.trx, index, LockChoice::default(), covering)
                .expect("begun");
            let from = walk.random.below(ROWS as u64) as u32;
            let Some(&first) = walk.seen.range(from..).next() else {
                continue;
            };
            let key = match index {
                0 => pk(from).to_vec(),
                _ => row_of(from).tag_key(&[]),
            };
            assert_eq!(cursor.seek(&mut walk.trx, Seek::Ge, &key), Ok(true));
            assert_eq!(cursor.found().expect("handed out").pk, pk(first));
            walk.run(&mut cursor, first);
        }
        drop(cursor);
        walk.fixture.engine.commit(&mut walk.trx, false).expect("committed");
    }
}

//! Schedules from seeds: each seed has a temper (what it likes to do, what bad luck it meets), and
//! gives the same ops for ever.
use super::op::{Op, SLOTS};
use super::setup::Setup;
use super::statement::APART;
use crate::engine::tests::fixture::Random;
use crate::io::sim::{Damage, Fault};

#[derive(Clone, Debug)]
pub struct Schedule {
    pub setup: Setup,
    pub ops: Vec<Op>,
}

/// What kind of bad luck a schedule meets.
#[derive(Clone, Copy, PartialEq)]
enum Luck {
    Crashes,
    /// Failing calls, a full disk; crashes too.
    Errors,
    /// A disk that lies.
    Lies,
}

struct Author {
    random: Random,
    luck: Luck,
    /// Of 100 ops, how many are DDL.
    ddl: u64,
    /// Keys that rows are chosen from.
    keys: u64,
    /// Of 100 statements, before how many all pages leave the pool.
    evictions: u64,
    /// Of 100 ops, before how many something comes to many leaves of an index, which are then
    /// spread over their neighbours.
    spreads: u64,
    /// Of 100 ops, before how many the worker looks for partitions of the change buffer that are
    /// idle.
    looks: u64,
    ops: Vec<Op>,
}

impl Schedule {
    pub fn of_seed(seed: u64) -> Schedule {
        let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0xabc);
        let setup = Setup::draw(seed);
        let luck = match random.below(10) {
            0..=5 => Luck::Crashes,
            6..=8 => Luck::Errors,
            _ => Luck::Lies,
        };
        let mut author = Author {
            luck,
            ddl: [1, 3, 12][random.below(3) as usize],
            keys: [8, 24, 64][random.below(3) as usize],
            evictions: [0, 5, 15, 40][random.below(4) as usize],
            spreads: if setup.is_large() { 5 } else { 0 },
            looks: if setup.buffer_memory > 0 { 25 } else { 0 },
            ops: Vec::new(),
            random,
        };
        let mut kinds = author.random.below(8);
        // Its nodes take four times the pages.
        if setup.is_large() && author.random.chance(25) {
            kinds |= 8;
        }
        if author.evictions > 0 {
            // One is unique.
            kinds |= 2;
        }
        if setup.is_large() {
            author.fill_and_spread(kinds);
        } else {
            author.ops.push(Op::Create { kinds });
            author.load_some();
        }
        // Each op takes longer there.
        let more = if setup.is_large() { 70 } else { 120 };
        let len = 30 + author.random.below(more);
        for _ in 0..len {
            let op = author.next();
            author.ops.push(op);
        }
        Schedule { setup, ops: author.ops }
    }
}

impl Author {
    fn n(&mut self, below: u64) -> u64 {
        self.random.below(below)
    }
    fn trx(&mut self) -> u64 {
        // Mostly one or two at a time.
        let all = self.n(SLOTS);
        self.n(all + 1)
    }
    fn key(&mut self) -> u64 {
        let keys = self.keys;
        self.n(keys)
    }
    fn next(&mut self) -> Op {
        let spreads = self.spreads;
        if spreads > 0 && self.random.chance(spreads) {
            self.spread_some();
        }
        let looks = self.looks;
        if looks > 0 && self.random.chance(looks) {
            self.ops.push(Op::CloseIdle);
        }
        let ddl = self.ddl;
        if self.random.chance(ddl) {
            return self.ddl();
        }
        if self.random.chance(ddl) {
            return [Op::OnlineStep, Op::OnlineEnd][self.n(2) as usize];
        }
        match self.n(100) {
            0..=49 => {
                self.evict_some();
                self.statement()
            }
            50..=74 => self.transaction(),
            75..=91 => self.background(),
            _ => self.bad_luck(),
        }
    }
    /// An index with full leaves, for each of which something comes.
    fn fill_and_spread(&mut self, kinds: u64) {
        let (trx, table) = (0, 0);
        let (key, rows, len) = (APART, 50 + self.n(45), 300 + self.n(40));
        self.ops.push(Op::Create { kinds: kinds & !2 });
        for (key, rows) in [(key, rows), (key + rows, 30 + self.n(60))] {
            let flush = self.n(3);
            self.ops.push(Op::Fill {
                trx,
                table,
                key,
                rows,
                len,
            });
            self.ops.push(Op::Commit { trx, flush });
            if key == APART {
                self.ops.push(Op::AddIndex { table, kind: 1 });
            }
        }
        self.merge_all();
    }
    fn spread_some(&mut self) {
        let (trx, table) = (self.trx(), self.n(2));
        let (key, rows, len) = (APART + self.n(150), 10 + self.n(50), 300 + self.n(40));
        self.ops.push(match self.random.chance(65) {
            true => Op::Fill {
                trx,
                table,
                key,
                rows,
                len,
            },
            false => Op::Clear { trx, table, key, rows },
        });
        self.ops.push(Op::Commit { trx, flush: 1 });
        self.merge_all();
    }
    /// Mostly the pages are then written, sometimes for the last time.
    fn merge_all(&mut self) {
        if self.random.chance(30) {
            self.ops.push(Op::Checkpoint);
        }
        for partition in [self.random.chance(20), false] {
            self.ops.push(Op::Merge { leaves: 40, partition });
        }
        if self.random.chance(40) {
            let after = 1 + self.n(30);
            self.ops.push(Op::Crash { after, again: 0 });
        }
        let pages = 20 + self.n(80);
        self.ops.push(Op::Flush { pages });
    }
    /// So that new rows come to indexes of several leaves, which have been in the pool and are not
    /// any more.
    fn evict_some(&mut self) {
        let evictions = self.evictions;
        if !self.random.chance(evictions) {
            return;
        }
        if self.random.chance(30) {
            let partition = self.random.chance(20);
            self.ops.push(Op::Merge { leaves: 40, partition });
        }
        self.ops.push(Op::Flush { pages: 101 });
        let (trx, table) = (self.trx(), self.n(4));
        for _ in 0..1 + self.n(6) {
            let (key, row) = (self.n(64), self.n(1 << 20));
            self.ops.push(Op::Insert { trx, table, key, row });
        }
    }
    fn statement(&mut self) -> Op {
        let (trx, table, key) = (self.trx(), self.n(4), self.key());
        let row = self.n(1 << 20);
        match self.n(100) {
            0..=34 => Op::Insert { trx, table, key, row },
            35..=59 => Op::Update { trx, table, key, row },
            60..=73 => Op::Delete { trx, table, key },
            74..=79 => {
                let to = self.key();
                Op::Move {
                    trx,
                    table,
                    key,
                    to,
                    row,
                }
            }
            80..=82 => self.load(),
            83..=86 => {
                let (rows, len) = (2 + self.n(30), 20 + self.n(700));
                Op::Fill {
                    trx,
                    table,
                    key,
                    rows,
                    len,
                }
            }
            87..=91 => {
                let rows = 2 + self.n(30);
                Op::Clear { trx, table, key, rows }
            }
            _ => {
                let way = self.n(64);
                Op::Look { trx, table, key, way }
            }
        }
    }
    fn transaction(&mut self) -> Op {
        let trx = self.trx();
        let flush = [1, 1, 1, 2, 0][self.n(5) as usize];
        match self.n(100) {
            0..=17 => {
                let snapshot = self.random.chance(60);
                Op::Begin { trx, snapshot }
            }
            18..=63 => Op::Commit { trx, flush },
            64..=75 => Op::Rollback { trx },
            76..=85 => Op::Savepoint { trx },
            86..=90 => Op::RollbackTo { trx },
            91..=95 => Op::Prepare { trx, flush },
            _ => {
                let (which, commit) = (self.n(4), self.random.chance(50));
                Op::Decide { which, commit }
            }
        }
    }
    /// Often into a table that has just been made or emptied.
    fn load_some(&mut self) {
        if self.random.chance(15) {
            return self.load_in_vain();
        }
        if self.random.chance(40) {
            let load = self.load();
            self.ops.push(load);
        }
    }
    /// A load that is rolled back, after its transaction and another have changed the same few rows
    /// after the loaded ones.
    fn load_in_vain(&mut self) {
        let (table, first) = (self.n(4), self.key());
        let loader = self.trx();
        let other = (loader + 1 + self.n(SLOTS - 1)) % SLOTS;
        let snapshot = self.random.chance(20);
        let (key, rows) = (first + 3, 1 + self.n(3));
        let len = 20 + self.n(500);
        self.ops.push(Op::Commit { trx: loader, flush: 0 });
        self.ops.push(Op::Begin { trx: loader, snapshot });
        self.ops.push(Op::Savepoint { trx: loader });
        self.ops.push(Op::Load {
            trx: loader,
            table,
            key,
            rows,
            len,
        });
        for _ in 0..4 + self.n(8) {
            let (key, row) = (first + self.n(3), self.n(1 << 20));
            let trx = [loader, loader, other][self.n(3) as usize];
            let op = match self.n(3) {
                0 => Op::Insert { trx, table, key, row },
                1 => Op::Update { trx, table, key, row },
                _ => Op::Delete { trx, table, key },
            };
            self.ops.push(op);
            if trx == other {
                self.ops.push(Op::Commit { trx, flush: 0 });
            }
        }
        let whole = self.random.chance(50);
        self.ops.push(match whole {
            true => Op::Rollback { trx: loader },
            false => Op::RollbackTo { trx: loader },
        });
    }
    fn load(&mut self) -> Op {
        let (trx, table, key) = (self.trx(), self.n(4), self.key());
        let (rows, len) = (1 + self.n(40), 20 + self.n(500));
        Op::Load {
            trx,
            table,
            key,
            rows,
            len,
        }
    }
    fn ddl(&mut self) -> Op {
        let table = self.n(4);
        match self.n(10) {
            0..=1 => {
                let kinds = self.n(8);
                Op::Create { kinds }
            }
            2 => Op::Drop { table },
            3 => Op::Rename { table },
            4..=5 => {
                self.ops.push(Op::Truncate { table });
                self.load_some();
                self.background()
            }
            6 => {
                let kind = self.n(3);
                Op::AddIndex { table, kind }
            }
            7 => self.alter_online(table),
            _ => {
                let which = self.n(3);
                Op::DropIndex { table, which }
            }
        }
    }
    /// Others write between its steps. Mostly they are done when it ends.
    fn alter_online(&mut self, table: u64) -> Op {
        let kind = [0, 1, 2, 4, 4][self.n(5) as usize];
        self.ops.push(Op::OnlineBegin { table, kind });
        for _ in 0..1 + self.n(4) {
            for _ in 0..self.n(6) {
                let (trx, key, row) = (self.trx(), self.key(), self.n(1 << 20));
                let to = self.key();
                let op = match self.n(10) {
                    0..=2 => Op::Insert { trx, table, key, row },
                    3..=4 => Op::Update { trx, table, key, row },
                    5..=6 => Op::Delete { trx, table, key },
                    7 => Op::Move {
                        trx,
                        table,
                        key,
                        to,
                        row,
                    },
                    8 => self.transaction(),
                    _ => self.background(),
                };
                self.ops.push(op);
            }
            self.ops.push(Op::OnlineStep);
        }
        if self.random.chance(80) {
            for trx in 0..SLOTS {
                let flush = self.n(3);
                self.ops.push(match self.random.chance(70) {
                    true => Op::Commit { trx, flush },
                    false => Op::Rollback { trx },
                });
            }
        }
        Op::OnlineEnd
    }
    fn background(&mut self) -> Op {
        match self.n(100) {
            0..=24 => {
                let records = 1 + self.n(20);
                Op::Purge { records }
            }
            25..=26 => Op::Shrink,
            27 => {
                let table = self.n(4);
                Op::Analyze { table }
            }
            28..=29 => Op::Clean,
            30 => {
                let more = self.n(120);
                Op::ResizePool { more }
            }
            31 => {
                let load = self.random.chance(70);
                Op::PageList { load }
            }
            32..=39 => {
                let leaves = 1 + self.n(6);
                let partition = self.random.chance(30);
                Op::Merge { leaves, partition }
            }
            40..=59 => {
                let pages = 1 + self.n(30);
                Op::Flush { pages }
            }
            60..=79 => Op::Checkpoint,
            80..=86 => Op::SyncLog,
            87..=95 => {
                let records = 1 + self.n(10);
                Op::Losers { records }
            }
            96 => {
                let on = self.random.chance(70);
                Op::RedoLog { on }
            }
            97 if self.random.chance(50) => {
                let size = self.n(4);
                Op::ResizeLog { size }
            }
            97 => {
                let us = self.n(2_000_000);
                Op::Wait { us }
            }
            _ => {
                let how = self.n(3);
                Op::Close { how }
            }
        }
    }
    fn bad_luck(&mut self) -> Op {
        let after = 1 + self.n(60);
        match (self.luck, self.n(10)) {
            (Luck::Errors, 0..=3) => {
                let fault = [Fault::Eio, Fault::Eio, Fault::Short, Fault::Full][self.n(4) as usize];
                Op::Fail { after, fault }
            }
            (Luck::Errors, 4..=5) => Op::FailRead { after: 1 + after / 4 },
            (Luck::Errors, 6..=7) => {
                let kib = self.n(3) * self.n(200);
                Op::Space { kib }
            }
            (Luck::Lies, 0..=7) => {
                let damage = [Damage::Flipped, Damage::Stray, Damage::Misplaced, Damage::Lost][self.n(4) as usize];
                Op::Lie { after, damage }
            }
            (Luck::Lies, _) => Op::Close { how: 1 },
            _ => {
                let again = if self.random.chance(40) { 1 + self.n(2) } else { 0 };
                let after = if self.random.chance(60) { after } else { 0 };
                Op::Crash { after, again }
            }
        }
    }
}

//! The random transactions, and what the server answered to them.
//!
//! Two tables. `lists`: a row is not there until its first append; after `LIST_MAX` appends its slot goes on to a new key, so that
//! there are always rows missing, among others that are there, and lists stay short. `registers`: rows that are always there, whose one
//! value is read, then written. In both, `place` lies in the band of its row and changes with every write, so a read by `place` must
//! find each row exactly once, though its entries in the indexes move all the time.
use crate::Plan;
use isolation_judge::history::TrxNo;
use isolation_judge::{End, History, Item, Level, Lock, Op, Path, Seen, Transaction, Value, Way, What};
use lab_server::is_lost;
use mysql::prelude::Queryable;
use mysql::Conn;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LIST_MAX: u32 = 24;
const BAND: u32 = 64;
/// As long as a restart after a kill may take.
const RECONNECT_S: u64 = 120;
/// Duplicate key (another inserted the row), snapshot conflict, lock wait timeout, deadlock: begin the transaction again.
const AGAIN: [u16; 4] = [1062, 1020, 1205, 1213];

type Result<T> = std::result::Result<T, mysql::Error>;

struct Shared {
    /// Appends tried in each slot of `lists`.
    appends: Vec<AtomicU32>,
    values: AtomicU32,
    commits: AtomicU64,
}

pub fn run(plan: &Plan) -> std::result::Result<History, String> {
    set_up(plan).map_err(|e| format!("the tables could not be made: {e}"))?;
    let shared = Shared {
        appends: (0..plan.rows).map(|_| AtomicU32::new(0)).collect(),
        values: AtomicU32::new(1),
        commits: AtomicU64::new(0),
    };
    let style =
        indicatif::ProgressStyle::with_template("{bar:40} {pos}/{len} commits, {per_sec}, {eta}").expect("a template");
    let bar = indicatif::ProgressBar::new(plan.commits).with_style(style);
    let mut history = History::default();
    std::thread::scope(|scope| {
        let sessions: Vec<_> = (0..plan.connections)
            .map(|number| {
                let shared = &shared;
                scope.spawn(move || Session::new(plan, shared, number).run())
            })
            .collect();
        while sessions.iter().any(|s| !s.is_finished()) {
            bar.set_position(shared.commits.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_millis(50));
        }
        for session in sessions {
            let (transactions, misread) = session.join().map_err(|_| "a session panicked")??;
            let first = history.transactions.len() as TrxNo;
            history.transactions.extend(transactions);
            history
                .misread
                .extend(misread.into_iter().map(|(trx, text)| (first + trx, text)));
        }
        Ok::<_, String>(())
    })?;
    bar.finish_and_clear();
    history.left = Some(left(plan).map_err(|e| format!("the end could not be read: {e}"))?);
    Ok(history)
}

fn set_up(plan: &Plan) -> Result<()> {
    let mut c = plan.server.connect(None)?;
    let Plan {
        database, engine, rows, ..
    } = plan;
    c.query_drop(format!("DROP DATABASE IF EXISTS {database}"))?;
    c.query_drop(format!("CREATE DATABASE {database} CHARACTER SET latin1"))?;
    c.query_drop(format!("USE {database}"))?;
    let keys = "KEY place (place), KEY covering (place, last)";
    c.query_drop(format!(
        "CREATE TABLE lists (id INT PRIMARY KEY, place INT NOT NULL, last INT NOT NULL, list VARCHAR(4000) NOT NULL, {keys}) ENGINE={engine}"
    ))?;
    c.query_drop(format!(
        "CREATE TABLE registers (id INT PRIMARY KEY, place INT NOT NULL, last INT NOT NULL, {keys}) ENGINE={engine}"
    ))?;
    let all: Vec<_> = (0..*rows).map(|id| format!("({id}, {}, 0)", id * BAND)).collect();
    c.query_drop(format!("INSERT INTO registers VALUES {}", all.join(", ")))
}

/// What both tables hold, by the primary key and by the indexes.
fn left(plan: &Plan) -> Result<Vec<(Item, Seen)>> {
    let mut c = plan.server.connect(Some(&plan.database))?;
    let mut left = Vec::new();
    for (id, list) in c.query::<(u32, String), _>("SELECT id, list FROM lists")? {
        left.push((Item::List(id), Seen::List(values(&list))));
    }
    for (id, value) in c.query::<(u32, Value), _>("SELECT id, last FROM registers WHERE last > 0")? {
        left.push((Item::Register(id), Seen::Last(value)));
    }
    for table in ["lists", "registers"] {
        let checked: Vec<(String, String, String, String)> = c.query(format!("CHECK TABLE {table} EXTENDED"))?;
        assert!(
            checked.iter().all(|row| row.3 == "OK"),
            "CHECK TABLE {table}: {checked:?}"
        );
        let by = |index: &str| {
            format!("SELECT COUNT(*), SUM(id), SUM(last) FROM {table} FORCE INDEX ({index}) WHERE place >= 0")
        };
        let answers = ["place", "covering", "PRIMARY"]
            .map(by)
            .map(|sql| c.query_first::<mysql::Row, _>(sql));
        let [a, b, p] = answers.map(|row| row.map(|r| r.map(|r| format!("{:?}", r.unwrap()))));
        let (a, b, p) = (a?, b?, p?);
        assert!(
            a == p && b == p,
            "{table} by its indexes: {a:?}, {b:?}, by its rows: {p:?}"
        );
    }
    Ok(left)
}

fn values(list: &str) -> Vec<Value> {
    list.split(',').map(|v| v.parse().unwrap_or(0)).collect()
}

struct Session<'a> {
    plan: &'a Plan,
    shared: &'a Shared,
    number: u32,
    random: fastrand::Rng,
    connection: Option<Conn>,
    ops: Vec<Op>,
    undoing: bool,
    transactions: Vec<Transaction>,
    misread: Vec<(TrxNo, String)>,
}

type Record = (Vec<Transaction>, Vec<(TrxNo, String)>);

impl<'a> Session<'a> {
    fn new(plan: &'a Plan, shared: &'a Shared, number: u32) -> Session<'a> {
        let random = fastrand::Rng::with_seed(plan.seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        Session {
            plan,
            shared,
            number,
            random,
            connection: None,
            ops: Vec::new(),
            undoing: false,
            transactions: Vec::new(),
            misread: Vec::new(),
        }
    }

    fn run(mut self) -> std::result::Result<Record, String> {
        while self.shared.commits.load(Ordering::Relaxed) < self.plan.commits {
            if self.connection.is_none() {
                self.connection = Some(self.reconnect()?);
            }
            let end = self.transaction()?;
            if end == End::Committed {
                self.shared.commits.fetch_add(1, Ordering::Relaxed);
            }
            let ops = std::mem::take(&mut self.ops);
            self.transactions.push(Transaction {
                session: self.number,
                end,
                ops,
            });
        }
        Ok((self.transactions, self.misread))
    }

    fn reconnect(&self) -> std::result::Result<Conn, String> {
        let until = Instant::now() + Duration::from_secs(RECONNECT_S);
        loop {
            let connected = (self.plan.server.connect(Some(&self.plan.database))).and_then(|mut c| {
                self.prepare(&mut c)?;
                Ok(c)
            });
            match connected {
                Ok(connection) => return Ok(connection),
                Err(e) if Instant::now() > until => return Err(format!("the server does not come back: {e}")),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    fn prepare(&self, c: &mut Conn) -> Result<()> {
        c.query_drop(format!(
            "SET SESSION TRANSACTION ISOLATION LEVEL {}",
            self.plan.level.sql()
        ))?;
        c.query_drop("SET lock_wait_timeout = 20, innodb_lock_wait_timeout = 20")?;
        // Sluice's is global and set by who starts the server.
        let snapshot = (self.plan.level != Level::LooseRepeatableRead) as u8;
        c.query_drop(format!("SET innodb_snapshot_isolation = {snapshot}"))
    }

    fn transaction(&mut self) -> std::result::Result<End, String> {
        self.undoing = false;
        let error = match self.statements() {
            Ok(()) if self.random.u8(0..100) < 8 => match self.send("ROLLBACK") {
                Ok(()) => return Ok(End::RolledBack),
                Err(e) => e,
            },
            Ok(()) => match self.send("COMMIT") {
                Ok(()) => return Ok(End::Committed),
                Err(e) if is_lost(&e) => {
                    self.connection = None;
                    return Ok(End::Unknown);
                }
                Err(e) => e,
            },
            Err(e) => e,
        };
        let again = matches!(&error, mysql::Error::MySqlError(e) if AGAIN.contains(&e.code));
        if is_lost(&error) || (again && self.send("ROLLBACK").is_err()) {
            self.connection = None;
        } else if !again {
            return Err(format!("session {}: {error}", self.number));
        }
        Ok(End::RolledBack)
    }

    fn statements(&mut self) -> Result<()> {
        let begin = match self.random.u8(0..8) {
            0 => "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            _ => "BEGIN",
        };
        self.send(begin)?;
        let steps = self.random.u32(1..=5);
        // Not first: an engine that the transaction has not come to yet is not asked by SAVEPOINT, and ROLLBACK TO then ends its whole
        // part, snapshot and locks with it. That is the server's way with every engine.
        let savepoint = (self.random.u8(0..8) == 0).then(|| self.random.u32(1..=steps));
        for step in 0..steps {
            if savepoint == Some(step) {
                self.send("SAVEPOINT s")?;
                self.undoing = true;
                for _ in 0..self.random.u32(1..=2) {
                    self.step()?;
                }
                self.undoing = false;
                self.send("ROLLBACK TO s")?;
            }
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        let slot = self.random.u32(0..self.plan.rows);
        match self.random.u8(0..100) {
            0..18 => self.append(slot, Path::Primary),
            18..28 => self.append(slot, Path::Secondary),
            28..38 => self.write_back(slot),
            38..50 => self.set_register(slot),
            50..58 => self.read_registers(slot),
            kind => {
                let path = match kind % 3 {
                    0 => Path::Primary,
                    1 => Path::Secondary,
                    _ => Path::Covering,
                };
                let lock = match self.random.u8(0..12) {
                    0 => Lock::Share,
                    1 => Lock::Update,
                    _ => Lock::None,
                };
                let key = self.key(slot);
                let (from, to) = match self.random.u8(0..2) {
                    0 => (key, key),
                    _ => (key.saturating_sub(self.random.u32(0..3)), key + self.random.u32(1..4)),
                };
                self.read_lists(from, to, path, lock).map(|_| ())
            }
        }
    }

    // ---- lists ----

    fn key(&self, slot: u32) -> u32 {
        slot + self.plan.rows * (self.shared.appends[slot as usize].load(Ordering::Relaxed) / LIST_MAX)
    }

    /// The key to append to, the value, and where the row will be found by its index.
    fn next_append(&mut self, slot: u32) -> (u32, Value, u32) {
        let key = self.key(slot);
        self.shared.appends[slot as usize].fetch_add(1, Ordering::Relaxed);
        (key, self.value(), self.place(key))
    }
    fn value(&self) -> Value {
        self.shared.values.fetch_add(1, Ordering::Relaxed)
    }
    fn place(&mut self, key: u32) -> u32 {
        key * BAND + self.random.u32(0..BAND)
    }

    /// The server appends.
    fn append(&mut self, slot: u32, path: Path) -> Result<()> {
        let (key, value, place) = self.next_append(slot);
        let (index, condition) = by(path, key, key);
        let set = format!("list = CONCAT(list, ',{value}'), last = {value}, place = {place}");
        self.send(&format!("UPDATE lists{index} SET {set} WHERE {condition}"))?;
        let way = Way {
            path,
            lock: Lock::Update,
            ..Way::default()
        };
        match self.affected() {
            0 => {
                self.note(
                    Item::List(key),
                    What::Read(Seen::Nothing),
                    Way { by_update: true, ..way },
                );
                self.send(&format!(
                    "INSERT INTO lists VALUES ({key}, {place}, {value}, '{value}')"
                ))?;
            }
            1 => {}
            n => self.complain(format!("an UPDATE of list {key} changed {n} rows")),
        }
        self.note(Item::List(key), What::Write { value, over: None }, way);
        Ok(())
    }

    /// The client appends to what it has read. Below snapshot isolation it locks what it reads: the update would be lost.
    fn write_back(&mut self, slot: u32) -> Result<()> {
        let (key, value, place) = self.next_append(slot);
        let read = self.read_lists(key, key, Path::Primary, self.lock_before_write())?;
        let over = read.last();
        if let Seen::List(mut list) = read {
            list.push(value);
            let list = list.iter().map(Value::to_string).collect::<Vec<_>>().join(",");
            self.send(&format!(
                "UPDATE lists SET list = '{list}', last = {value}, place = {place} WHERE id = {key}"
            ))?;
        } else {
            self.send(&format!(
                "INSERT INTO lists VALUES ({key}, {place}, {value}, '{value}')"
            ))?;
        }
        if self.affected() != 1 {
            self.complain(format!("list {key} was read and then not there to be written"));
        }
        self.note(
            Item::List(key),
            What::Write {
                value,
                over: Some(over),
            },
            Way::default(),
        );
        Ok(())
    }

    fn lock_before_write(&self) -> Lock {
        match self.plan.level {
            Level::ReadUncommitted | Level::ReadCommitted => Lock::Update,
            _ => Lock::None,
        }
    }

    /// Reads all keys from..=to; returns what was seen of `from`.
    fn read_lists(&mut self, from: u32, to: u32, path: Path, lock: Lock) -> Result<Seen> {
        let (index, condition) = by(path, from, to);
        let column = if path == Path::Covering { "last" } else { "list" };
        let clause = clause(lock);
        let rows: Vec<(u32, String)> = self.ask(&format!(
            "SELECT id, {column} FROM lists{index} WHERE {condition}{clause}"
        ))?;
        let mut found = HashMap::new();
        for (id, text) in rows {
            let seen = match path {
                Path::Covering => Seen::Last(text.parse().unwrap_or(0)),
                _ => Seen::List(values(&text)),
            };
            if found.insert(id, seen).is_some() || !(from..=to).contains(&id) {
                self.complain(format!(
                    "a read of lists {from} to {to} by {path:?} met row {id} twice, or at all"
                ));
            }
        }
        let way = Way {
            path,
            lock,
            range: (from != to).then_some((from, to)),
            by_update: false,
        };
        let first = found.get(&from).cloned().unwrap_or(Seen::Nothing);
        for key in from..=to {
            let seen = found.remove(&key).unwrap_or(Seen::Nothing);
            self.note(Item::List(key), What::Read(seen), way);
        }
        Ok(first)
    }

    // ---- registers ----

    /// Reads a register and writes it, by its key or by the very place where it was read.
    fn set_register(&mut self, key: u32) -> Result<()> {
        let (value, place) = (self.value(), self.place(key));
        let lock = self.lock_before_write();
        let sql = format!("SELECT last, place FROM registers WHERE id = {key}{}", clause(lock));
        let row = self.ask::<(Value, u32)>(&sql)?.first().copied();
        let Some((old, old_place)) = row else {
            self.complain(format!("register {key} is not there"));
            return Ok(());
        };
        let item = Item::Register(key);
        let seen = register(old);
        let over = Some(seen.last());
        self.note(item, What::Read(seen), Way { lock, ..Way::default() });
        let path = if self.random.bool() {
            Path::Primary
        } else {
            Path::Secondary
        };
        let way = Way {
            path,
            lock: Lock::Update,
            ..Way::default()
        };
        let (index, condition) = match path {
            Path::Primary => by(path, key, key),
            _ => (" FORCE INDEX (place)", format!("place = {old_place}")),
        };
        self.send(&format!(
            "UPDATE registers{index} SET last = {value}, place = {place} WHERE {condition}"
        ))?;
        if self.affected() == 1 {
            self.note(item, What::Write { value, over }, way);
        } else {
            self.note(item, What::Read(Seen::Nothing), Way { by_update: true, ..way });
        }
        Ok(())
    }

    fn read_registers(&mut self, from: u32) -> Result<()> {
        let to = (from + self.random.u32(0..3)).min(self.plan.rows - 1);
        let path = if self.random.bool() {
            Path::Primary
        } else {
            Path::Covering
        };
        let (index, condition) = by(path, from, to);
        let rows: Vec<(u32, Value)> = self.ask(&format!("SELECT id, last FROM registers{index} WHERE {condition}"))?;
        let mut ids: Vec<u32> = rows.iter().map(|row| row.0).collect();
        ids.sort_unstable();
        if !ids.iter().copied().eq(from..=to) {
            self.complain(format!(
                "a read of registers {from} to {to} by {path:?} met rows {ids:?}"
            ));
        }
        for (id, value) in rows {
            let way = Way {
                path,
                range: Some((from, to)),
                ..Way::default()
            };
            self.note(Item::Register(id), What::Read(register(value)), way);
        }
        Ok(())
    }

    // ---- the connection and the record ----

    fn send(&mut self, sql: &str) -> Result<()> {
        self.connection.as_mut().expect("connected").query_drop(sql)
    }
    fn ask<T: mysql::prelude::FromRow>(&mut self, sql: &str) -> Result<Vec<T>> {
        self.connection.as_mut().expect("connected").query(sql)
    }
    fn affected(&self) -> u64 {
        self.connection.as_ref().expect("connected").affected_rows()
    }
    fn note(&mut self, item: Item, what: What, way: Way) {
        self.ops.push(Op {
            item,
            what,
            way,
            undone: self.undoing,
        });
    }
    /// A statement's rows make no sense by themselves. READ UNCOMMITTED promises nothing about a scan among changes.
    fn complain(&mut self, text: String) {
        if self.plan.level != Level::ReadUncommitted {
            self.misread.push((self.transactions.len() as TrxNo, text));
        }
    }
}

fn register(value: Value) -> Seen {
    match value {
        0 => Seen::Nothing,
        value => Seen::Last(value),
    }
}

fn clause(lock: Lock) -> &'static str {
    match lock {
        Lock::None => "",
        Lock::Share => " LOCK IN SHARE MODE",
        Lock::Update => " FOR UPDATE",
    }
}

/// How the rows from..=to are found: an index, and a condition.
fn by(path: Path, from: u32, to: u32) -> (&'static str, String) {
    let band = format!("place BETWEEN {} AND {}", from * BAND, to * BAND + BAND - 1);
    match path {
        Path::Primary if from == to => ("", format!("id = {from}")),
        Path::Primary => (" FORCE INDEX (PRIMARY)", format!("id BETWEEN {from} AND {to}")),
        Path::Secondary => (" FORCE INDEX (place)", band),
        Path::Covering => (" FORCE INDEX (covering)", band),
    }
}

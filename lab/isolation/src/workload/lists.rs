//! Statements on `lists`, and how rows of either table are looked for.
use super::session::{code, is_gone, Session, DUPLICATE};
use super::{Result, BAND};
use isolation_judge::{Item, Level, Lock, Path, Seen, Value, Version, Way, What};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

fn append(value: Value) -> What {
    What::Write {
        value,
        over: None,
        gone: false,
    }
}

pub(super) fn values(list: &str) -> Vec<Value> {
    list.split(',').map(|v| v.parse().unwrap_or(0)).collect()
}

/// What a read does about rows that another has locked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Locked {
    Wait,
    Refuse,
    Skip,
}

/// How a read looks for rows.
#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) path: Path,
    pub(super) lock: Lock,
    pub(super) on_locked: Locked,
    pub(super) backward: bool,
}

impl Look {
    pub(super) fn plain(lock: Lock) -> Look {
        Look {
            path: Path::Primary,
            lock,
            on_locked: Locked::Wait,
            backward: false,
        }
    }
    pub(super) fn random(random: &mut fastrand::Rng) -> Look {
        let lock = match random.u8(0..12) {
            0 => Lock::Share,
            1..3 => Lock::Update,
            _ => Lock::None,
        };
        let on_locked = match random.u8(0..8) {
            0 if lock != Lock::None => Locked::Refuse,
            1 if lock != Lock::None => Locked::Skip,
            _ => Locked::Wait,
        };
        let path = match random.u8(0..10) {
            0..3 => Path::Primary,
            3..6 => Path::Secondary,
            6..9 => Path::Covering,
            _ => Path::Merged,
        };
        Look {
            path,
            lock,
            on_locked,
            backward: random.u8(0..3) == 0,
        }
    }
    pub(super) fn way(&self, from: u32, to: u32) -> Way {
        Way {
            path: self.path,
            lock: self.lock,
            range: (from != to).then_some((from, to)),
            backward: self.backward,
            ..Way::default()
        }
    }
    /// The statement that reads these columns of the rows from..=to.
    pub(super) fn sql(&self, columns: &str, table: &str, from: u32, to: u32) -> String {
        let (index, condition) = by(self.path, from, to);
        let order = match (self.backward, self.path) {
            (false, _) => "",
            (true, Path::Primary | Path::Merged) => " ORDER BY id DESC",
            (true, _) => " ORDER BY place DESC",
        };
        let lock = match self.lock {
            Lock::None => "",
            Lock::Share => " LOCK IN SHARE MODE",
            Lock::Update => " FOR UPDATE",
        };
        let wait = match self.on_locked {
            Locked::Wait => "",
            Locked::Refuse => " NOWAIT",
            Locked::Skip => " SKIP LOCKED",
        };
        format!("SELECT {columns} FROM {table}{index} WHERE {condition}{order}{lock}{wait}")
    }
    /// Whether a row that was not found is absent. READ UNCOMMITTED promises nothing about a scan
    /// among changes. Without a snapshot and gap locks, a scan that waits for a lock may miss a row
    /// whose entry moves meanwhile.
    pub(super) fn tells_absence(&self, level: Level) -> bool {
        let (locks, by_key) = (self.lock != Lock::None, self.path == Path::Primary);
        let may_miss = match level {
            Level::ReadUncommitted => !locks || !by_key,
            Level::ReadCommitted => locks && !by_key,
            Level::LooseRepeatableRead | Level::RepeatableRead | Level::Serializable => false,
        };
        self.on_locked != Locked::Skip && !may_miss
    }
}

/// How the rows from..=to are found: an index, and a condition.
pub(super) fn by(path: Path, from: u32, to: u32) -> (&'static str, String) {
    let band = |from, to| format!("place BETWEEN {} AND {}", from * BAND, to * BAND + BAND - 1);
    match path {
        Path::Primary if from == to => ("", format!("id = {from}")),
        Path::Primary => (" FORCE INDEX (PRIMARY)", format!("id BETWEEN {from} AND {to}")),
        Path::Secondary => (" FORCE INDEX (place)", band(from, to)),
        Path::Covering => (" FORCE INDEX (covering)", band(from, to)),
        Path::Merged => {
            let middle = from + (to - from) / 2;
            let condition = format!("({} OR id BETWEEN {} AND {to})", band(from, middle), middle + 1);
            (" FORCE INDEX (place, PRIMARY)", condition)
        }
    }
}

fn changing(path: Path) -> Way {
    Way {
        path,
        lock: Lock::Update,
        ..Way::default()
    }
}

impl Session<'_> {
    /// The key to append to, the value, and where the row will be found by its index.
    fn next_append(&mut self, slot: u32) -> (u32, Value, u32) {
        let key = self.key(slot);
        self.shared.appends[slot as usize].fetch_add(1, Ordering::Relaxed);
        (key, self.values(1), self.place(key))
    }

    /// The server appends.
    pub(super) fn append(&mut self, slot: u32, path: Path) -> Result<()> {
        let (key, value, place) = self.next_append(slot);
        let (index, condition) = by(path, key, key);
        let set = format!("list = CONCAT(list, ',{value}'), last = {value}, place = {place}");
        let written = [(Item::List(key), value)];
        self.write(&format!("UPDATE lists{index} SET {set} WHERE {condition}"), &written)?;
        let way = changing(path);
        match self.affected() {
            0 => {
                let by_update = Way { by_update: true, ..way };
                self.note(Item::List(key), What::Read(Seen::Nothing), by_update);
                let sql = format!("INSERT INTO lists VALUES ({key}, {place}, {value}, '{value}')");
                self.write(&sql, &written)?;
            }
            1 => {}
            n => self.complain(format!("an UPDATE of list {key} changed {n} rows")),
        }
        self.note(Item::List(key), append(value), way);
        Ok(())
    }

    /// In one statement, whether there is a row or not. So it may be an autocommit statement, whose
    /// answer may get lost.
    pub(super) fn append_or_insert(&mut self, slot: u32) -> Result<()> {
        let (key, value, place) = self.next_append(slot);
        let set = format!("list = CONCAT(list, ',{value}'), last = {value}, place = {place}");
        let sql =
            format!("INSERT INTO lists VALUES ({key}, {place}, {value}, '{value}') ON DUPLICATE KEY UPDATE {set}");
        let item = Item::List(key);
        let answer = self.send(&sql);
        match &answer {
            Err(error) if !self.is_alone() || !is_gone(error) => self.note_failed(&[(item, value)]),
            _ => self.note(item, append(value), changing(Path::Primary)),
        }
        answer
    }

    /// Two rows at once. The second often exists, and then the first must not stay. The transaction
    /// continues.
    pub(super) fn insert_two(&mut self, slot: u32) -> Result<()> {
        let other = (slot + 1) % self.plan.rows;
        let keys = [self.key(slot) + self.plan.rows, self.key(other)];
        let first = self.values(2);
        let rows = [(keys[0], first), (keys[1], first + 1)].map(|(key, value)| (key, value, self.place(key)));
        let [one, two] = rows.map(|(key, value, place)| format!("{key}, {place}, {value}, '{value}'"));
        let source = match self.random.bool() {
            true => format!("VALUES ({one}), ({two})"),
            false => {
                let row = |id, row| format!("SELECT {row} FROM pair WHERE id = {id}");
                format!("{} UNION ALL {}", row(0, &one), row(1, &two))
            }
        };
        let written = rows.map(|(key, value, _)| (Item::List(key), value));
        match self.write(&format!("INSERT INTO lists {source}"), &written) {
            Err(error) if code(&error) == DUPLICATE => {
                if self.random.bool() {
                    let look = Look::random(&mut self.random);
                    self.read_lists(keys[0], keys[0], look)?;
                    self.read_lists(keys[1], keys[1], look)?;
                }
                return Ok(());
            }
            answer => answer?,
        }
        let way = changing(Path::Primary);
        for (item, value) in written {
            let by_update = Way { by_update: true, ..way };
            self.note(item, What::Read(Seen::Nothing), by_update);
            self.note(item, append(value), way);
        }
        Ok(())
    }

    /// The client appends to what it has read. Below snapshot isolation it locks what it reads;
    /// otherwise the update would be lost.
    pub(super) fn write_back(&mut self, slot: u32) -> Result<()> {
        let (key, value, place) = self.next_append(slot);
        let read = self.read_lists(key, key, Look::plain(self.lock_before_write()))?;
        let over = Some(read.version());
        let sql = match read {
            Seen::List(mut list) => {
                list.push(value);
                let list = list.iter().map(Value::to_string).collect::<Vec<_>>().join(",");
                format!("UPDATE lists SET list = '{list}', last = {value}, place = {place} WHERE id = {key}")
            }
            _ => format!("INSERT INTO lists VALUES ({key}, {place}, {value}, '{value}')"),
        };
        self.write(&sql, &[(Item::List(key), value)])?;
        if self.affected() != 1 {
            self.complain(format!("list {key} was read and then not there to be written"));
        }
        let gone = false;
        self.note(Item::List(key), What::Write { value, over, gone }, Way::default());
        Ok(())
    }

    pub(super) fn read_some_lists(&mut self, slot: u32) -> Result<()> {
        let look = Look::random(&mut self.random);
        let next = if self.random.u8(0..8) == 0 { self.plan.rows } else { 0 };
        let key = self.key(slot) + next;
        let (from, to) = match self.random.bool() {
            true => (key, key),
            false => (key.saturating_sub(self.random.u32(0..3)), key + self.random.u32(1..4)),
        };
        self.read_lists(from, to, look).map(|_| ())
    }

    /// Reads all keys from..=to; returns what was seen of `from`.
    fn read_lists(&mut self, from: u32, to: u32, look: Look) -> Result<Seen> {
        let column = if look.path == Path::Covering { "last" } else { "list" };
        let sql = look.sql(&format!("id, {column}"), "lists", from, to);
        let Some(rows) = self.ask_or_pass::<(u32, String)>(&sql, look.on_locked == Locked::Refuse)? else {
            return Ok(Seen::Nothing);
        };
        let mut found = HashMap::new();
        for (id, text) in rows {
            let seen = match look.path {
                Path::Covering => Seen::Last(text.parse().unwrap_or(0)),
                _ => Seen::List(values(&text)),
            };
            if found.insert(id, seen).is_some() || !(from..=to).contains(&id) {
                let path = look.path;
                self.complain(format!(
                    "a read of lists {from} to {to} by {path:?} met row {id} twice, or at all"
                ));
            }
        }
        let way = look.way(from, to);
        let first = found.get(&from).cloned().unwrap_or(Seen::Nothing);
        let tells = look.tells_absence(self.plan.served());
        for key in from..=to {
            let seen = found.remove(&key).or(tells.then_some(Seen::Nothing));
            if let Some(seen) = seen {
                self.note(Item::List(key), What::Read(seen), way);
            }
        }
        Ok(first)
    }

    pub(super) fn write_over(&mut self, item: Item, value: Value, over: Version, gone: bool, way: Way) {
        let over = Some(over);
        self.note(item, What::Write { value, over, gone }, way);
    }
}

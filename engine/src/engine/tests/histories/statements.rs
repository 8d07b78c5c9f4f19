//! What the steps of a session do, as the server would: a write locks the newest row first. Each
//! notes what it was shown and what it wrote.
use super::super::fixture::*;
use super::sessions::*;
use crate::base::{Error, Result};
use crate::btree::Seek;
use crate::table::LockChoice;
use crate::txn::{Isolation, LockMode, Trx};
use isolation_judge::{Item, Level, Lock, Op, Path, Seen, Value, Version, Way, What};
use std::collections::HashMap;

impl World {
    /// False: the step is not done yet.
    pub(super) fn perform(&self, session: &mut Session, step: Step) -> Result<bool> {
        match step {
            Step::Read(Aim::Key(key), lock) => {
                let row = self.get(session, key, lock)?;
                self.note(session, key, row.as_ref(), Path::Primary, lock);
            }
            Step::Read(aim, lock) => {
                let Some(scan) = self.scan(session, aim, lock)? else {
                    return Ok(false);
                };
                self.note_scan(session, aim, lock, &scan);
            }
            Step::WriteFound(aim) => {
                let Some(scan) = self.scan(session, aim, Lock::Update)? else {
                    return Ok(false);
                };
                self.write_found(session, aim, scan)?;
            }
            Step::Append(slot) => self.append(session, slot)?,
            Step::ReadForWriteBack(slot) => {
                let (key, lock) = (self.key(slot), self.lock_before_write());
                let row = self.get(session, key, lock)?;
                self.note(session, key, row.as_ref(), Path::Primary, lock);
                session.read = row.map(|row| (row.clone(), list_of(&row)));
                // The key may go on to the next before the list is written back.
                session.steps[session.at + 1] = Step::WriteBack(key);
            }
            Step::WriteBack(key) => self.write_back(session, key)?,
            Step::SetRegister(n) => self.set_register(session, FIRST_REGISTER + n, false)?,
            Step::RemoveRegister(n) => self.set_register(session, FIRST_REGISTER + n, true)?,
            Step::InsertTwo(slot) => self.insert_two(session, slot)?,
            Step::Savepoint => {
                let trx = session.trx.as_ref().expect("begun");
                session.savepoint = Some(self.fixture().store().rollbacks().savepoint(trx));
            }
            Step::RollbackTo => {
                let savepoint = session.savepoint.take().expect("set before");
                let trx = session.trx.as_mut().expect("begun");
                self.fixture().store().rollbacks().rollback_to(trx, savepoint)?;
            }
        }
        Ok(true)
    }

    // ---- statements ----

    fn get(&self, session: &mut Session, key: u32, lock: Lock) -> Result<Option<Row>> {
        let trx = session.trx.as_mut().expect("begun");
        self.fixture().get(trx, &key_bytes(key), self.choice(lock).mode)
    }
    fn note(&self, session: &mut Session, key: u32, row: Option<&Row>, path: Path, lock: Lock) {
        let seen = row.map_or(Seen::Nothing, |row| seen(key, row));
        self.noted(session, key, What::Read(seen), path, lock);
    }
    fn append(&self, session: &mut Session, slot: u32) -> Result<()> {
        let key = self.key(slot);
        let old = self.get(session, key, Lock::Update)?;
        if old.is_none() {
            self.note(session, key, None, Path::Primary, Lock::Update);
        }
        let mut list = old.as_ref().map(list_of).unwrap_or_default();
        let value = self.value();
        list.push(value);
        self.put(session, key, old, value, &list)?;
        self.appended(slot);
        self.note_write(session, key, value, None);
        Ok(())
    }
    /// The second is often there already: then the first must not stay, and the transaction goes
    /// on.
    fn insert_two(&self, session: &mut Session, slot: u32) -> Result<()> {
        let keys = [self.key(slot) + SLOTS, self.key((slot + 1) % SLOTS)];
        let before = self
            .fixture()
            .store()
            .rollbacks()
            .savepoint(session.trx.as_ref().expect("begun"));
        let values = [self.value(), self.value()];
        let inserted = (keys.iter().zip(values))
            .try_for_each(|(key, value)| self.put(session, *key, None, value, std::slice::from_ref(&value)));
        let failed = matches!(inserted, Err(Error::Duplicate { .. }));
        if failed {
            let trx = session.trx.as_mut().expect("begun");
            self.fixture().store().rollbacks().rollback_to(trx, before)?;
        } else {
            inserted?;
        }
        for (key, value) in keys.into_iter().zip(values) {
            self.note_write(session, key, value, None);
            let op = session.ops.last_mut().expect("noted");
            (op.way.failed, op.undone) = (failed, op.undone || failed);
        }
        Ok(())
    }
    fn write_back(&self, session: &mut Session, key: u32) -> Result<()> {
        // An UPDATE looks at the newest row, whatever was read.
        let now = self.get(session, key, Lock::Update)?;
        let (_, mut list) = session
            .read
            .clone()
            .unwrap_or_else(|| (self.row(0, None, &[]), Vec::new()));
        let over = list.last().map_or(Version::Nothing, |value| Version::Value(*value));
        let value = self.value();
        list.push(value);
        match (&now, &session.read) {
            // The row came or went meanwhile: the statement finds nothing, or a duplicate.
            (None, Some(_)) => {
                self.noted(session, key, What::Read(Seen::Nothing), Path::Primary, Lock::Update);
                return Ok(());
            }
            (Some(_), None) => return Err(Error::Conflict),
            _ => self.put(session, key, now, value, &list)?,
        }
        self.appended(key % SLOTS);
        self.note_write(session, key, value, Some(over));
        Ok(())
    }
    /// Reads a register, and writes it, brings it back or removes it.
    fn set_register(&self, session: &mut Session, key: u32, remove: bool) -> Result<()> {
        let lock = self.lock_before_write();
        let read = self.get(session, key, lock)?;
        let over = read.as_ref().map_or(Version::Nothing, |row| seen(key, row).version());
        self.note(session, key, read.as_ref(), Path::Primary, lock);
        if remove && read.is_none() {
            return Ok(());
        }
        // Two statements: a rollback to a savepoint gives back locks of rows that the same
        // statement changed.
        self.fixture()
            .store()
            .rollbacks()
            .savepoint(session.trx.as_ref().expect("begun"));
        let now = self.get(session, key, Lock::Update)?;
        let value = self.value();
        match (now, &read) {
            // As in `write_back`.
            (None, Some(_)) => {
                self.note(session, key, None, Path::Primary, Lock::Update);
                return Ok(());
            }
            (Some(_), None) => return Err(Error::Conflict),
            (Some(now), _) if remove => {
                let trx = session.trx.as_mut().expect("begun");
                self.fixture().delete(trx, &key_bytes(key), &now)?;
            }
            // REPLACE: the row goes and comes.
            (Some(now), _) if self.below(3) == 0 => {
                let (trx, fixture) = (session.trx.as_mut().expect("begun"), self.fixture());
                fixture.delete(trx, &key_bytes(key), &now)?;
                self.put(session, key, None, value, &[])?;
            }
            (now, _) => self.put(session, key, now, value, &[])?,
        }
        self.note_write(session, key, value, Some(over));
        if let What::Write { gone, .. } = &mut session.ops.last_mut().expect("noted").what {
            *gone = remove;
        }
        Ok(())
    }
    /// As the server's UPDATE by an index whose keys it changes: first all rows are found, then
    /// each is fetched and written.
    fn write_found(&self, session: &mut Session, aim: Aim, scan: Scan) -> Result<()> {
        self.note_scan(session, aim, Lock::Update, &scan);
        let is_meant = |key: &u32| match aim {
            Aim::Slots(slot, _) => *key == self.key(slot),
            _ => *key >= FIRST_REGISTER,
        };
        let keys: Vec<u32> = scan.found.iter().map(|(key, _)| *key).filter(is_meant).collect();
        for key in keys {
            let row = self.get(session, key, Lock::Update)?.expect("locked by the scan");
            let (mut list, value) = (list_of(&row), self.value());
            let over = seen(key, &row).version();
            match item(key) {
                Item::List(_) => list.push(value),
                Item::Register(_) => list.clear(),
            }
            self.put(session, key, Some(row), value, &list)?;
            self.note_write(session, key, value, Some(over));
        }
        if let Aim::Slots(slot, _) = aim {
            self.appended(slot);
        }
        Ok(())
    }
    fn put(&self, session: &mut Session, key: u32, old: Option<Row>, value: Value, list: &[Value]) -> Result<()> {
        let slot = if key >= FIRST_REGISTER { SLOTS } else { key % SLOTS };
        let new = self.row(slot, Some(value as u16), list);
        let trx = session.trx.as_mut().expect("begun");
        match old {
            Some(old) => self.fixture().update(trx, &key_bytes(key), &old, &new),
            None => self.fixture().insert(trx, &key_bytes(key), &new),
        }
    }

    /// A few entries more of a scan; what it found, when it has come to its end.
    fn scan(&self, session: &mut Session, aim: Aim, lock: Lock) -> Result<Option<Scan>> {
        let trx = session.trx.as_mut().expect("begun");
        if session.scan.is_none() {
            let backward = self.below(3) == 0;
            session.scan = Some(begin_scan(&self.fixture(), trx, aim, self.choice(lock), backward)?);
        }
        let scan = session.scan.as_mut().expect("begun");
        for _ in 0..1 + self.below(6) {
            let more = match (std::mem::replace(&mut scan.begun, true), scan.backward) {
                (false, _) => seek(scan, trx, aim)?,
                (true, false) => scan.cursor.next(trx)?,
                (true, true) => scan.cursor.prev(trx)?,
            };
            if !more {
                return Ok(session.scan.take());
            }
            let found = scan.cursor.found().expect("handed out");
            let key = key_of(found.pk);
            if scan.cursor.was_semi_consistent() {
                // It is wanted: so it is read again, with the lock.
                let row = self.fixture().get(trx, &key_bytes(key), Some(LockMode::Exclusive))?;
                scan.found.extend(row.map(|row| (key, seen(key, &row))));
                continue;
            }
            let seen = match scan.covering {
                true if found.key[0] == 0 => Seen::Initial,
                true => Seen::Last(u16::from_be_bytes([found.key[1], found.key[2]]) as Value),
                false => seen(key, &Row::decode(found.row)),
            };
            scan.found.push((key, seen));
        }
        Ok(None)
    }
    fn note_scan(&self, session: &mut Session, aim: Aim, lock: Lock, scan: &Scan) {
        let path = match aim {
            Aim::All => Path::Covering,
            Aim::RegistersByKey => Path::Primary,
            _ => Path::Secondary,
        };
        let mut found = HashMap::new();
        for (key, seen) in &scan.found {
            // READ UNCOMMITTED promises nothing about a scan among changes.
            if found.insert(*key, seen.clone()).is_some() && self.level != Level::ReadUncommitted {
                let text = format!("a scan by {path:?} met row {key} twice");
                let mut history = self.history.borrow_mut();
                let trx = history.transactions.len() as u32;
                history.misread.push((trx, text));
            }
        }
        // Where neither a snapshot nor gaps are kept, a scan that locks may miss a row whose entry
        // moves meanwhile.
        let tells = match self.level {
            _ if path == Path::Primary => true,
            Level::ReadUncommitted => false,
            Level::ReadCommitted => lock == Lock::None,
            Level::LooseRepeatableRead | Level::RepeatableRead | Level::Serializable => true,
        };
        for key in self.wanted(aim) {
            if let Some(seen) = found.remove(&key).or(tells.then_some(Seen::Nothing)) {
                self.noted(session, key, What::Read(seen), path, lock);
                session.ops.last_mut().expect("noted").way.backward = scan.backward;
            }
        }
    }
    fn noted(&self, session: &mut Session, key: u32, what: What, path: Path, lock: Lock) {
        let way = Way {
            path,
            lock,
            ..Way::default()
        };
        session.ops.push(Op {
            item: item(key),
            what,
            way,
            undone: session.savepoint.is_some(),
            sent: session.sent,
            done: self.now(),
        });
    }
    fn note_write(&self, session: &mut Session, key: u32, value: Value, over: Option<Version>) {
        let gone = false;
        let what = What::Write { value, over, gone };
        self.noted(session, key, what, Path::Primary, Lock::Update);
    }

    /// The keys that a scan says something about: of the lists, those of late and the next ones.
    fn wanted(&self, aim: Aim) -> Vec<u32> {
        let (slots, registers) = match aim {
            Aim::Key(_) => (0..0, 0),
            Aim::Slots(from, to) => (from..to + 1, 0),
            Aim::Registers | Aim::RegistersByKey => (0..0, REGISTERS),
            Aim::All => (0..SLOTS, REGISTERS),
        };
        let around = |slot| {
            let now = self.key(slot);
            [now.checked_sub(SLOTS), Some(now), Some(now + SLOTS)]
                .into_iter()
                .flatten()
        };
        let lists = slots.flat_map(around);
        lists.chain((0..registers).map(|n| FIRST_REGISTER + n)).collect()
    }
}

/// From where to where the places of a scan go.
fn places(aim: Aim) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let place = |slot: u32| vec![b'g', (slot as u64 * BAND) as u8];
    match aim {
        Aim::Slots(from, to) => Some((place(from), Some(place(to + 1)))),
        Aim::Registers => Some((place(SLOTS), None)),
        Aim::RegistersByKey => Some((key_bytes(FIRST_REGISTER), None)),
        _ => None,
    }
}

fn begin_scan(fixture: &TableFixture, trx: &mut Trx, aim: Aim, lock: LockChoice, backward: bool) -> Result<Scan> {
    let (index, covering) = match aim {
        Aim::All => (BY_TAG, true),
        Aim::RegistersByKey => (0, false),
        _ => (BY_GROUP, false),
    };
    let mut cursor = fixture.store().cursor(fixture.table.clone());
    cursor.set_semi_consistent(index == 0 && trx.isolation <= Isolation::ReadCommitted);
    cursor.begin(trx, index, lock, covering)?;
    if let Some((lo, hi)) = places(aim) {
        cursor.set_bounds(&lo, hi.as_deref());
    }
    Ok(Scan {
        cursor,
        covering,
        backward,
        begun: false,
        found: Vec::new(),
    })
}

fn seek(scan: &mut Scan, trx: &mut Trx, aim: Aim) -> Result<bool> {
    match (scan.backward, places(aim)) {
        (false, Some((lo, _))) => scan.cursor.seek(trx, Seek::Ge, &lo),
        (false, None) => scan.cursor.seek(trx, Seek::First, &[]),
        (true, Some((_, Some(hi)))) => scan.cursor.seek(trx, Seek::Lt, &hi),
        (true, _) => scan.cursor.seek(trx, Seek::Last, &[]),
    }
}

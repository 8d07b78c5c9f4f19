//! What the steps of a session do, as the server would: a write locks the newest row first. Each notes what it was shown and what it wrote.
use super::super::rig::*;
use super::world::*;
use crate::base::{Error, Result};
use crate::btree::Seek;
use crate::table::{Cursor, LockChoice};
use crate::txn::Trx;
use isolation_judge::{Level, Lock, Op, Path, Seen, Value, Way, What};
use std::collections::HashMap;

impl World {
    /// False: the step is not done yet.
    pub(super) fn perform(&mut self, session: &mut Session, step: Step) -> Result<bool> {
        match step {
            Step::Read(Aim::Key(key), lock) => {
                let row = self.get(session, key, lock)?;
                self.note(session, key, row.as_ref(), Path::Primary, lock);
            }
            Step::Read(aim, lock) => return self.scan(session, aim, lock),
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
            Step::SetRegister(n) => self.set_register(session, FIRST_REGISTER + n)?,
            Step::Savepoint => {
                let trx = session.trx.as_ref().expect("begun");
                session.savepoint = Some(self.rig.store().savepoint(trx));
            }
            Step::RollbackTo => {
                let savepoint = session.savepoint.take().expect("set before");
                let trx = session.trx.as_mut().expect("begun");
                self.rig.store().rollback_to(trx, savepoint)?;
            }
        }
        Ok(true)
    }

    // ---- statements ----

    fn get(&self, session: &mut Session, key: u32, lock: Lock) -> Result<Option<Row>> {
        let trx = session.trx.as_mut().expect("begun");
        self.rig.get(trx, &key_bytes(key), self.choice(lock).mode)
    }
    fn note(&self, session: &mut Session, key: u32, row: Option<&Row>, path: Path, lock: Lock) {
        let seen = row.map_or(Seen::Nothing, |row| seen(key, row));
        note(session, key, What::Read(seen), path, lock);
    }
    fn append(&mut self, session: &mut Session, slot: u32) -> Result<()> {
        let key = self.key(slot);
        let old = self.get(session, key, Lock::Update)?;
        if old.is_none() {
            self.note(session, key, None, Path::Primary, Lock::Update);
        }
        let mut list = old.as_ref().map(list_of).unwrap_or_default();
        let value = self.value();
        list.push(value);
        self.put(session, key, old, value, &list)?;
        *self.appends.entry(slot).or_default() += 1;
        note(
            session,
            key,
            What::Write { value, over: None },
            Path::Primary,
            Lock::Update,
        );
        Ok(())
    }
    fn write_back(&mut self, session: &mut Session, key: u32) -> Result<()> {
        // An UPDATE looks at the newest row, whatever was read.
        let now = self.get(session, key, Lock::Update)?;
        let (_, mut list) = session
            .read
            .clone()
            .unwrap_or_else(|| (self.row(0, None, &[]), Vec::new()));
        let over = Some(list.last().copied());
        let value = self.value();
        list.push(value);
        match (&now, &session.read) {
            // The row came or went meanwhile: the statement finds nothing, or a duplicate.
            (None, Some(_)) => {
                note(session, key, What::Read(Seen::Nothing), Path::Primary, Lock::Update);
                return Ok(());
            }
            (Some(_), None) => return Err(Error::Conflict),
            _ => self.put(session, key, now, value, &list)?,
        }
        *self.appends.entry(key % SLOTS).or_default() += 1;
        note(session, key, What::Write { value, over }, Path::Primary, Lock::Update);
        Ok(())
    }
    fn set_register(&mut self, session: &mut Session, key: u32) -> Result<()> {
        let lock = self.lock_before_write();
        let read = self.get(session, key, lock)?;
        let over = Some(read.as_ref().and_then(|row| row.tag).map(Value::from));
        self.note(session, key, read.as_ref(), Path::Primary, lock);
        // Two statements: a rollback to a savepoint gives back locks of rows that the same statement changed.
        self.rig.store().savepoint(session.trx.as_ref().expect("begun"));
        let now = self.get(session, key, Lock::Update)?;
        let value = self.value();
        self.put(session, key, now, value, &[])?;
        note(session, key, What::Write { value, over }, Path::Primary, Lock::Update);
        Ok(())
    }
    fn put(&mut self, session: &mut Session, key: u32, old: Option<Row>, value: Value, list: &[Value]) -> Result<()> {
        let slot = if key >= FIRST_REGISTER { SLOTS } else { key % SLOTS };
        let new = self.row(slot, Some(value as u16), list);
        let trx = session.trx.as_mut().expect("begun");
        match old {
            Some(old) => self.rig.update(trx, &key_bytes(key), &old, &new),
            None => self.rig.insert(trx, &key_bytes(key), &new),
        }
    }

    /// A few entries more of a scan.
    fn scan(&mut self, session: &mut Session, aim: Aim, lock: Lock) -> Result<bool> {
        let trx = session.trx.as_mut().expect("begun");
        if session.scan.is_none() {
            session.scan = Some(begin_scan(&self.rig, trx, aim, self.choice(lock))?);
        }
        let scan = session.scan.as_mut().expect("begun");
        for _ in 0..1 + self.random.below(6) {
            let more = match std::mem::replace(&mut scan.begun, true) {
                false => scan.cursor.seek(trx, Seek::First, &[])?,
                true => scan.cursor.next(trx)?,
            };
            if !more {
                let scan = session.scan.take().expect("begun");
                self.note_scan(session, aim, lock, scan);
                return Ok(true);
            }
            let found = scan.cursor.found().expect("handed out");
            let key = key_of(found.pk);
            let seen = match scan.covering {
                true if found.key[0] == 0 => Seen::Nothing,
                true => Seen::Last(u16::from_be_bytes([found.key[1], found.key[2]]) as Value),
                false => seen(key, &Row::decode(found.row)),
            };
            scan.found.push((key, seen));
        }
        Ok(false)
    }
    fn note_scan(&mut self, session: &mut Session, aim: Aim, lock: Lock, scan: Scan) {
        let path = if scan.covering { Path::Covering } else { Path::Secondary };
        let mut found = HashMap::new();
        for (key, seen) in scan.found {
            // READ UNCOMMITTED promises nothing about a scan among changes.
            if found.insert(key, seen).is_some() && self.level != Level::ReadUncommitted {
                let text = format!("a scan by {path:?} met row {key} twice");
                self.history
                    .misread
                    .push((self.history.transactions.len() as u32, text));
            }
        }
        for key in self.wanted(aim) {
            let seen = found.remove(&key).unwrap_or(Seen::Nothing);
            note(session, key, What::Read(seen), path, lock);
        }
    }
    /// The keys that a scan says something about: of the lists, those of late and the next ones.
    fn wanted(&self, aim: Aim) -> Vec<u32> {
        let (slots, registers) = match aim {
            Aim::Key(_) => (0..0, 0),
            Aim::Slots(from, to) => (from..to + 1, 0),
            Aim::Registers => (0..0, REGISTERS),
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

fn note(session: &mut Session, key: u32, what: What, path: Path, lock: Lock) {
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
    });
}

fn begin_scan(rig: &Rig, trx: &mut Trx, aim: Aim, lock: LockChoice) -> Result<Scan> {
    let (index, covering) = match aim {
        Aim::All => (BY_TAG, true),
        _ => (BY_GROUP, false),
    };
    let mut cursor = Cursor::new(rig.store().clone(), rig.table.clone());
    cursor.begin(trx, index, lock, covering)?;
    let place = |slot: u32| [b'g', (slot as u64 * BAND) as u8];
    match aim {
        Aim::Slots(from, to) => cursor.set_bounds(&place(from), Some(&place(to + 1))),
        Aim::Registers => cursor.set_bounds(&place(SLOTS), None),
        _ => {}
    }
    Ok(Scan {
        cursor,
        covering,
        begun: false,
        found: Vec::new(),
    })
}

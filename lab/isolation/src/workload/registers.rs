//! Statements on `registers`. The writer of a register knows what it was before: it has read it, or
//! the statement itself shows it.
use super::lists::{by, Locked, Look};
use super::session::{code, is_gone, Session, DUPLICATE};
use super::{Result, BAND, TAKEN};
use isolation_judge::{Item, Lock, Path, Seen, Value, Version, Way, What};
use std::collections::HashMap;

pub(super) fn seen(value: Value) -> Seen {
    match value {
        0 => Seen::Initial,
        value => Seen::Last(value),
    }
}

fn changing(path: Path, by_update: bool) -> Way {
    Way {
        path,
        lock: Lock::Update,
        by_update,
        ..Way::default()
    }
}

/// Of "id:last;id:last".
fn values_told(told: &str) -> HashMap<u32, Value> {
    let rows = told.split_terminator(';').filter_map(|row| row.split_once(':'));
    rows.filter_map(|(id, last)| Some((id.parse().ok()?, last.parse().ok()?)))
        .collect()
}

impl Session<'_> {
    /// What a register is, and where; read as one that will be written.
    fn read_to_write(&mut self, key: u32) -> Result<(Version, u32)> {
        let look = Look::plain(self.lock_before_write());
        let row = self.ask::<(Value, u32)>(&look.sql("last, place", "registers", key, key))?;
        let seen = row.first().map_or(Seen::Nothing, |(value, _)| seen(*value));
        let version = seen.version();
        self.note(Item::Register(key), What::Read(seen), look.way(key, key));
        Ok((version, row.first().map_or(0, |(_, place)| *place)))
    }

    /// Reads a register and writes it: by its key, by the place where it was read, or by a
    /// statement that brings it back.
    pub(super) fn set_register(&mut self, key: u32) -> Result<()> {
        let (value, place) = (self.values(1), self.place(key));
        let (over, old_place) = self.read_to_write(key)?;
        if over == Version::Nothing && self.random.u8(0..3) == 0 {
            return self.move_register((key + 1) % self.plan.rows, key);
        }
        let (item, row) = (Item::Register(key), format!("({key}, {place}, {value})"));
        let set = format!("last = {value}, place = {place}");
        // A locking read of an absent row prevents no insert of it: only INSERT finds out.
        let is_free = over == Version::Nothing && self.lock_before_write() != Lock::None;
        let (sql, path) = match self.random.u8(if is_free { 2 } else { 0 }..6) {
            0 => (format!("REPLACE INTO registers VALUES {row}"), None),
            1 => {
                let sql = format!("INSERT INTO registers VALUES {row} ON DUPLICATE KEY UPDATE {set}");
                (sql, None)
            }
            _ if over == Version::Nothing => (format!("INSERT INTO registers VALUES {row}"), None),
            2..4 => {
                let sql = format!("UPDATE registers FORCE INDEX (place) SET {set} WHERE place = {old_place}");
                (sql, Some(Path::Secondary))
            }
            _ => {
                let sql = format!("UPDATE registers SET {set} WHERE id = {key}");
                (sql, Some(Path::Primary))
            }
        };
        self.write(&sql, &[(item, value)])?;
        match path {
            Some(path) if self.affected() != 1 => {
                self.note(item, What::Read(Seen::Nothing), changing(path, true));
            }
            _ => self.write_over(item, value, over, false, changing(path.unwrap_or_default(), false)),
        }
        Ok(())
    }

    /// And appends to a list, which shows after a crash whether the transaction is there. An absent
    /// row shows no transaction.
    pub(super) fn remove_register(&mut self, key: u32) -> Result<()> {
        let (over, place) = self.read_to_write(key)?;
        if over == Version::Nothing {
            return Ok(());
        }
        let path = [Path::Primary, Path::Secondary][self.random.usize(0..2)];
        self.send(&match path {
            Path::Primary => format!("DELETE FROM registers WHERE id = {key}"),
            _ => format!("DELETE FROM registers WHERE place = {place}"),
        })?;
        if self.affected() != 1 {
            self.note(Item::Register(key), What::Read(Seen::Nothing), changing(path, true));
            return Ok(());
        }
        let value = self.values(1);
        self.write_over(Item::Register(key), value, over, true, changing(path, false));
        self.append_or_insert(key)
    }

    /// To a key that had no row: one register goes and another comes, in one statement.
    fn move_register(&mut self, from: u32, to: u32) -> Result<()> {
        let (over, _) = self.read_to_write(from)?;
        if from == to || over == Version::Nothing {
            return Ok(());
        }
        let (gone, value, place) = (self.values(1), self.values(1), self.place(to));
        let sql = format!("UPDATE registers SET id = {to}, last = {value}, place = {place} WHERE id = {from}");
        self.write(&sql, &[(Item::Register(to), value)])?;
        if self.affected() != 1 {
            let way = changing(Path::Primary, true);
            self.note(Item::Register(from), What::Read(Seen::Nothing), way);
            return Ok(());
        }
        let way = changing(Path::Primary, false);
        self.write_over(Item::Register(from), gone, over, true, way);
        self.write_over(Item::Register(to), value, Version::Nothing, false, way);
        self.append_or_insert(from)
    }

    /// Several in one statement, which notes itself what it overwrites. Or the statement fails at
    /// the last of them. Then nothing is written, and the transaction continues.
    pub(super) fn set_several(&mut self, from: u32, fails: bool) -> Result<()> {
        let to = (from + self.random.u32(1..4)).min(self.plan.rows - 1);
        let path = [Path::Primary, Path::Secondary][self.random.usize(0..2)];
        let (index, condition) = by(path, from, to);
        let first = self.values(to - from + 1);
        let value = |key: u32| first + (key - from);
        let shift = self.random.u32(0..BAND);
        let mut set = format!(
            "last = IF((@seen := CONCAT(@seen, id, ':', last, ';')) IS NULL, 0, {first} + id - {from}), place = id * {BAND} + {shift}"
        );
        if fails {
            set += &format!(", id = IF(id = {to}, {TAKEN}, id)");
        }
        self.send("SET @seen = ''")?;
        let written: Vec<_> = (from..=to).map(|key| (Item::Register(key), value(key))).collect();
        match self.write(
            &format!("UPDATE registers{index} SET {set} WHERE {condition}"),
            &written,
        ) {
            Err(error) if fails && code(&error) == DUPLICATE => {
                return match self.random.bool() {
                    true => {
                        let look = Look::random(&mut self.random);
                        self.read_registers(from, to, look)
                    }
                    false => Ok(()),
                };
            }
            answer => answer?,
        }
        let times = (self.sent, self.done);
        let told = self.ask::<String>("SELECT @seen")?.concat();
        (self.sent, self.done) = times;
        let mut told = values_told(&told);
        for key in from..=to {
            let way = Way {
                range: Some((from, to)),
                ..changing(path, true)
            };
            if let Some(old) = told.remove(&key) {
                let old = seen(old);
                let over = old.version();
                self.note(Item::Register(key), What::Read(old), way);
                self.write_over(Item::Register(key), value(key), over, false, way);
            } else if path == Path::Primary {
                self.note(Item::Register(key), What::Read(Seen::Nothing), way);
            }
        }
        Ok(())
    }

    /// In autocommit mode, for a value that was read before. So the overwritten version is known
    /// even if the answer gets lost.
    pub(super) fn set_if_still(&mut self, key: u32, old: Version) -> Result<()> {
        let (value, place) = (self.values(1), self.place(key));
        let last = match old {
            Version::Value(value) => value,
            Version::Initial | Version::Nothing => 0,
        };
        let path = [Path::Primary, Path::Secondary][self.random.usize(0..2)];
        let (index, condition) = by(path, key, key);
        let sql =
            format!("UPDATE registers{index} SET last = {value}, place = {place} WHERE {condition} AND last = {last}");
        let (item, way) = (Item::Register(key), changing(path, true));
        let answer = self.send(&sql);
        match &answer {
            Ok(()) if self.affected() == 0 => {}
            Err(error) if !is_gone(error) => self.note_failed(&[(item, value)]),
            _ => {
                self.note(item, What::Read(seen(last)), way);
                self.write_over(item, value, old, false, way);
            }
        }
        answer
    }

    /// Alone: what a statement that writes elsewhere reads, by one range or by several. Its number
    /// shows that the row is the one that it wrote.
    pub(super) fn copy_registers(&mut self, from: u32) -> Result<()> {
        let to = (from + self.random.u32(0..4)).min(self.plan.rows - 1);
        let path = [Path::Primary, Path::Secondary, Path::Covering][self.random.usize(0..3)];
        let (index, range) = by(path, from, to);
        let condition = match self.random.bool() {
            true => range,
            false => (from..=to)
                .map(|key| by(path, key, key).1)
                .collect::<Vec<_>>()
                .join(" OR "),
        };
        let session = self.number;
        let number = self.values(1);
        let told = "GROUP_CONCAT(id, ':', last SEPARATOR ';')";
        self.send(&format!(
            "REPLACE INTO copies SELECT {session}, {number}, {told} FROM registers{index} WHERE {condition}"
        ))?;
        let times = (self.sent, self.done);
        let written =
            self.ask::<(Value, Option<String>)>(&format!("SELECT number, told FROM copies WHERE session = {session}"))?;
        (self.sent, self.done) = times;
        let Some((_, told)) = written.into_iter().find(|(last, _)| *last == number) else {
            self.complain(format!(
                "a REPLACE wrote row {number} of copies, and the row is not there"
            ));
            return Ok(());
        };
        let mut found = values_told(&told.unwrap_or_default());
        let way = Way {
            path,
            range: (from != to).then_some((from, to)),
            ..Way::default()
        };
        for key in from..=to {
            let seen = found.remove(&key).map_or(Seen::Nothing, seen);
            self.note(Item::Register(key), What::Read(seen), way);
        }
        Ok(())
    }

    pub(super) fn read_some_registers(&mut self, from: u32) -> Result<()> {
        let to = (from + self.random.u32(0..3)).min(self.plan.rows - 1);
        let look = Look::random(&mut self.random);
        self.read_registers(from, to, look)
    }

    fn read_registers(&mut self, from: u32, to: u32, look: Look) -> Result<()> {
        let sql = look.sql("id, last", "registers", from, to);
        let Some(rows) = self.ask_or_pass::<(u32, Value)>(&sql, look.on_locked == Locked::Refuse)? else {
            return Ok(());
        };
        let mut found = HashMap::new();
        for (id, value) in rows {
            if found.insert(id, seen(value)).is_some() || !(from..=to).contains(&id) {
                let path = look.path;
                self.complain(format!(
                    "a read of registers {from} to {to} by {path:?} met row {id} twice, or at all"
                ));
            }
        }
        if self.is_alone() {
            self.remembered = found.get(&from).map(|seen| (from, seen.version()));
        }
        let tells = look.tells_absence(self.plan.served());
        for key in from..=to {
            let seen = found.remove(&key).or(tells.then_some(Seen::Nothing));
            if let Some(seen) = seen {
                self.note(Item::Register(key), What::Read(seen), look.way(from, to));
            }
        }
        Ok(())
    }
}

//! What rows a family has, and what each statement must answer. Rows of the past are not among
//! them.
use crate::engine::tests::foreign::family::{Cascade, Restrict, SetNull};
use crate::table::ForeignAction;
use std::collections::BTreeMap;

pub const TABLES: [&str; 4] = ["p", "c", "g", "s"];
/// The table that others refer to by an index that it may lose.
pub const PARENT: usize = 0;
/// The table that refers to itself.
pub const SELF: usize = 3;

/// Table and clustered key.
pub type Key = (usize, u64);
/// The second column of each row.
pub type Rows = BTreeMap<Key, Option<u64>>;
/// What a transaction has changed; None: the row is gone.
pub type Own = BTreeMap<Key, Option<Option<u64>>>;
/// The tables that keep rows of the past.
pub type Pasts = [bool; 4];
/// The tables that have lost their index.
pub type Lost = [bool; 4];

/// The tables whose columns have their other names.
pub type Renamed = [bool; 4];

/// What a crash must leave.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct State {
    pub rows: Rows,
    /// The changes of prepared transactions.
    pub prepared: BTreeMap<u32, Own>,
    pub lost: Lost,
    pub renamed: Renamed,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Refusal {
    Duplicate,
    Foreign,
}

/// What children do: [of c, g or s] on delete, on update.
pub type Actions = [(ForeignAction, ForeignAction); 3];

#[derive(Clone, Copy, Debug)]
pub enum Statement {
    Insert(Key, Option<u64>),
    Delete(Key),
    Update(Key, Option<u64>),
    Move(Key, u64),
}

/// The twin's rules.
pub struct Twin {
    pub rows: Rows,
    pub actions: Actions,
    pub lost: Lost,
    /// Statements that were refused because an index is lost (K6).
    pub refused_by_lost: u64,
}

impl Twin {
    pub fn run(&mut self, statement: Statement) -> std::result::Result<(), Refusal> {
        match statement {
            Statement::Insert(key, second) => {
                // Before a duplicate, and the row is not its own parent.
                if self.lost[key.0] {
                    self.has_parent(key.0, second)?;
                }
                self.is_free(key, second)?;
                self.rows.insert(key, second);
                self.has_parent(key.0, second)
            }
            Statement::Delete(key) => {
                let second = self.rows.remove(&key).expect("it is there");
                match key.0 {
                    PARENT => self.follow(1, second, None),
                    1 => self.follow(2, Some(key.1), None),
                    SELF if second == Some(key.1) && self.actions[SELF - 1].0 == Restrict => Err(Refusal::Foreign),
                    SELF => self.follow(SELF, Some(key.1), None),
                    _ => Ok(()),
                }
            }
            Statement::Update(key, second) => {
                let old = self.rows.remove(&key).expect("it is there");
                let free = self.is_free(key, second);
                self.rows.insert(key, second);
                if old != second {
                    if key.0 == PARENT {
                        self.follow(1, old, Some(second))?;
                    }
                    self.has_parent(key.0, second)?;
                }
                free
            }
            Statement::Move(key, to) => {
                let second = self.rows.remove(&key).expect("it is there");
                let free = self.is_free((key.0, to), second);
                let refers = |(other, value): (&Key, &Option<u64>)| other.0 == SELF && *value == Some(key.1);
                let is_referred = second == Some(key.1) || self.rows.iter().any(refers);
                match key.0 {
                    _ if key.1 == to => {}
                    1 => {
                        if self.lost[1] {
                            self.has_parent(1, second)?;
                        }
                        self.follow(2, Some(key.1), Some(Some(to)))?;
                    }
                    // An update that goes round in one table is refused.
                    SELF if is_referred => return Err(Refusal::Foreign),
                    SELF => self.follow(SELF, Some(key.1), Some(Some(to)))?,
                    _ => {}
                }
                free?;
                self.rows.insert((key.0, to), second);
                match key.1 == to {
                    true => Ok(()),
                    false => self.has_parent(key.0, second),
                }
            }
        }
    }
    fn is_free(&self, key: Key, second: Option<u64>) -> std::result::Result<(), Refusal> {
        let unique = key.0 == PARENT && !self.lost[PARENT];
        let same_value = |(other, value): (&Key, &Option<u64>)| unique && other.0 == PARENT && *value == second;
        match self.rows.contains_key(&key) || self.rows.iter().any(same_value) {
            true => Err(Refusal::Duplicate),
            false => Ok(()),
        }
    }
    pub fn has_parent(&self, table: usize, second: Option<u64>) -> std::result::Result<(), Refusal> {
        let Some(wanted) = second.filter(|_| table > 0) else {
            return Ok(());
        };
        let is_it = |(key, second): (&Key, &Option<u64>)| match table {
            1 => key.0 == PARENT && *second == Some(wanted) && !self.lost[PARENT],
            2 => *key == (1, wanted),
            _ => *key == (SELF, wanted),
        };
        self.rows.iter().any(is_it).then_some(()).ok_or(Refusal::Foreign)
    }
    /// `new`: what the key becomes; None: the parent is deleted.
    fn follow(&mut self, table: usize, old: Option<u64>, new: Option<Option<u64>>) -> std::result::Result<(), Refusal> {
        // As in InnoDB: no foreign key is bound to a parent without the index.
        if table == 1 && self.lost[PARENT] {
            return Ok(());
        }
        if self.lost[table] {
            self.refused_by_lost += 1;
            return Err(Refusal::Foreign);
        }
        let (on_delete, on_update) = self.actions[table - 1];
        let action = if new.is_some() { on_update } else { on_delete };
        let all = self
            .rows
            .iter()
            .filter(|(key, second)| key.0 == table && **second == old);
        let children: Vec<Key> = all.map(|(key, _)| *key).collect();
        for child in children {
            match (action, new) {
                (Cascade, None) => self.run(Statement::Delete(child))?,
                (Cascade, Some(new)) => drop(self.rows.insert(child, new)),
                (SetNull, _) => drop(self.rows.insert(child, None)),
                _ => return Err(Refusal::Foreign),
            }
        }
        Ok(())
    }
}

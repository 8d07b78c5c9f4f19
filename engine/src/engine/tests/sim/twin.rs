//! What the engine should hold: its twin in memory, and which states a crash may leave.
//!
//! The log is one stream, so what survives a crash is a *prefix* of the changes in the order in
//! which they were made final. That is at least all that was acknowledged as durable, at most all
//! that was tried, each change whole. [`History`] keeps exactly that: a state that must be there,
//! and the changes after it of which any number may be.
use crate::base::Lsn;
use crate::engine::tests::fixture::Row;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a secondary index is made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Not unique, few values, `shade` as the raw part.
    Group,
    /// Unique, NULLs.
    Tag,
    /// Long keys: few entries to a leaf.
    Wide,
    /// Keys for which nodes of one page are too small.
    Huge,
}

pub const KINDS: [Kind; 4] = [Kind::Group, Kind::Tag, Kind::Wide, Kind::Huge];

pub type Rows = BTreeMap<Vec<u8>, Row>;
/// Table, clustered key, new row (None: deleted).
pub type RowChanges = BTreeMap<(String, Vec<u8>), Option<Row>>;

#[derive(Clone, Debug, Default)]
pub struct Twin {
    pub kinds: Vec<Kind>,
    pub rows: Rows,
    /// Grows with every DDL: an older view may be refused.
    pub version: u32,
}

#[derive(Clone, Debug, Default)]
pub struct State {
    pub tables: BTreeMap<String, Twin>,
    /// Prepared transactions by the number in their XA name.
    pub prepared: BTreeMap<u32, RowChanges>,
}

/// Something that becomes final at one moment.
#[derive(Clone, Debug)]
pub enum Change {
    Rows(RowChanges),
    Create(String, Vec<Kind>),
    Drop(String),
    Rename(String, String),
    Truncate(String),
    Indexes(String, Vec<Kind>),
    Prepare(u32, RowChanges),
    /// true: committed.
    Decide(u32, bool),
}

impl State {
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Rows(rows) => self.apply_rows(rows),
            Change::Create(name, kinds) => {
                let twin = Twin {
                    kinds: kinds.clone(),
                    ..Twin::default()
                };
                self.tables.insert(name.clone(), twin);
            }
            Change::Drop(name) => {
                self.tables.remove(name);
            }
            Change::Rename(from, to) => {
                let twin = self.tables.remove(from).expect("the twin has it");
                self.tables.insert(to.clone(), twin);
            }
            Change::Truncate(name) => {
                let twin = self.tables.get_mut(name).expect("the twin has it");
                twin.rows.clear();
                twin.version += 1;
            }
            Change::Indexes(name, kinds) => {
                let twin = self.tables.get_mut(name).expect("the twin has it");
                twin.kinds.clone_from(kinds);
                twin.version += 1;
            }
            Change::Prepare(xid, rows) => {
                self.prepared.insert(*xid, rows.clone());
            }
            Change::Decide(xid, commit) => {
                let rows = self.prepared.remove(xid).expect("the twin has it");
                if *commit {
                    self.apply_rows(&rows);
                }
            }
        }
    }
    fn apply_rows(&mut self, changes: &RowChanges) {
        for ((table, pk), row) in changes {
            // A table dropped since (under a prepared transaction) takes its rows along.
            let Some(twin) = self.tables.get_mut(table) else {
                continue;
            };
            match row {
                Some(row) => twin.rows.insert(pk.clone(), row.clone()),
                None => twin.rows.remove(pk),
            };
        }
    }
    /// What the two differ in; None: they are equal as far as a user can see.
    pub fn difference(&self, found: &State) -> Option<String> {
        let names = |s: &State| s.tables.keys().cloned().collect::<Vec<_>>();
        if names(self) != names(found) {
            return Some(format!("tables {:?}, found {:?}", names(self), names(found)));
        }
        for (name, twin) in &self.tables {
            let other = &found.tables[name];
            if twin.kinds != other.kinds {
                return Some(format!("indexes of {name}: {:?}, found {:?}", twin.kinds, other.kinds));
            }
            if let Some(what) = rows_differ(&twin.rows, &other.rows) {
                return Some(format!("table {name}: {what}"));
            }
        }
        let xids = |s: &State| s.prepared.keys().copied().collect::<Vec<_>>();
        (xids(self) != xids(found)).then(|| format!("prepared {:?}, found {:?}", xids(self), xids(found)))
    }
}

fn rows_differ(expected: &Rows, found: &Rows) -> Option<String> {
    let say = |row: Option<&Row>| match row {
        None => "none".to_string(),
        Some(r) => format!(
            "(group {}, shade {}, tag {:?}, {} x {:?})",
            r.group,
            r.shade,
            r.tag,
            r.body.len(),
            r.body.first()
        ),
    };
    let mut keys = expected.keys().chain(found.keys());
    let wrong = keys.find(|k| expected.get(*k) != found.get(*k))?;
    Some(format!(
        "row {:?}: {}, found {}",
        String::from_utf8_lossy(wrong),
        say(expected.get(wrong)),
        say(found.get(wrong))
    ))
}

/// See the head of this file.
#[derive(Default)]
pub struct History {
    /// Survives any crash.
    durable: State,
    /// Final, in order, not known to be durable: (end LSN, change).
    after: Vec<(Lsn, Change)>,
    /// All of it.
    current: Rc<State>,
    /// Was under way when something failed: may have become final.
    in_doubt: Option<Change>,
}

impl History {
    /// This state, and nothing before it.
    pub fn of(state: State) -> History {
        History {
            durable: state.clone(),
            current: Rc::new(state),
            ..History::default()
        }
    }
    pub fn current(&self) -> &Rc<State> {
        &self.current
    }
    /// The change is final: every new view sees it. `lsn`: not below its end.
    pub fn add(&mut self, change: Change, lsn: Lsn) {
        Rc::make_mut(&mut self.current).apply(&change);
        self.after.push((lsn, change));
    }
    /// Everything so far was acknowledged as durable.
    pub fn all_durable(&mut self) {
        self.durable_to(Lsn::MAX);
    }
    /// The engine says that its log is durable up to here.
    pub fn durable_to(&mut self, lsn: Lsn) {
        let n = self.after.iter().take_while(|(end, _)| *end <= lsn).count();
        for (_, change) in self.after.drain(..n) {
            self.durable.apply(&change);
        }
    }
    pub fn doubt(&mut self, change: Change) {
        self.in_doubt = Some(change);
    }
    /// After an error that the engine survived: whether the change in doubt happened.
    pub fn resolve(&mut self, found: &State, lsn: Lsn) -> Result<(), String> {
        let Some(change) = self.in_doubt.take() else {
            return Ok(());
        };
        let mut done = (*self.current).clone();
        done.apply(&change);
        let Some(what) = self.current.difference(found) else {
            return Ok(());
        };
        if done.difference(found).is_none() {
            self.add(change, lsn);
            return Ok(());
        }
        Err(format!("a failed statement left half of itself: {what}"))
    }
    /// After a crash: `found` must be one of the legal states, and is the only one from now on. The
    /// state is the engine's durable one only when recovery says so: until then a second crash may
    /// not go back before `durable`.
    pub fn settle(&mut self, found: &State) -> Result<(), String> {
        let mut state = self.durable.clone();
        let mut mismatch = state.difference(found);
        let after: Vec<Change> = std::mem::take(&mut self.after).into_iter().map(|(_, c)| c).collect();
        for change in after.iter().chain(&self.in_doubt.take()) {
            if mismatch.is_none() {
                break;
            }
            state.apply(change);
            mismatch = state.difference(found);
        }
        if mismatch.is_some() {
            // The nearest guess tells most: everything that was acknowledged.
            let what = self.durable.difference(found).unwrap_or_default();
            return Err(format!(
                "a crash left a state that never was. Against what was acknowledged as durable: {what}. \
                 Against all that was tried ({} changes more): {}",
                after.len(),
                mismatch.unwrap_or_default()
            ));
        }
        self.durable = state.clone();
        self.current = Rc::new(state);
        Ok(())
    }
}

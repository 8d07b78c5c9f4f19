//! The state of a simulated disk, and what its fault rules make of each call.
//!
//! The rules S1 to S11 are stated in the head of `sim`. Called by: `disk`, `file` and `faults`
//! here, under the disk's lock.
use super::pending::{Body, Pending};
use super::rng::Rng;
use crate::base::{Error, Result};
use crate::io::disk::IO_ALIGN;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// How a changing call fails (S5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    Eio,
    Full,
    Short,
}

/// What a disk does to a write that it reports as done (S8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    Flipped,
    Stray,
    Misplaced,
    Lost,
}

/// Everything of a simulated disk, under its one lock.
pub(super) struct State {
    pub names: BTreeMap<String, u64>,
    /// Files created unsynced, and not renamed yet.
    pub unsynced: BTreeSet<u64>,
    /// Contents by number. A removed file lives on for its open handles.
    pub bodies: HashMap<u64, Body>,
    pub next_body: u64,
    pub rng: Rng,
    pub sector: usize,
    pub changes: u64,
    pub reads: u64,
    pub crash_at: Option<u64>,
    pub dead: bool,
    pub change_faults: BTreeMap<u64, Fault>,
    pub read_faults: Vec<u64>,
    pub refused: Option<String>,
    pub bad: Option<(String, u64)>,
    /// Every open file holds a clone.
    pub open: Arc<()>,
    pub handles_max: Option<usize>,
    pub damages: BTreeMap<u64, Damage>,
    /// Faults and damages that have happened.
    pub struck: u64,
    pub trace: u64,
    pub space: Option<u64>,
    pub clock_us: u64,
    /// Microseconds that a read takes.
    pub read_us: u64,
}

/// What becomes of a changing call.
#[derive(PartialEq)]
pub(super) enum Fate {
    Done,
    /// The crash happens in the call.
    Crashed,
    Failed,
    Short,
}

pub(super) fn io_error(what: &str, path: &str, why: &str) -> Error {
    Error::io(format!("cannot {what} {path}: {why} (simulated)"))
}

impl State {
    pub fn new(seed: u64) -> State {
        State {
            names: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            bodies: HashMap::new(),
            next_body: 0,
            rng: Rng(seed),
            sector: 512,
            changes: 0,
            reads: 0,
            crash_at: None,
            dead: false,
            change_faults: BTreeMap::new(),
            read_faults: Vec::new(),
            refused: None,
            bad: None,
            open: Arc::default(),
            handles_max: None,
            damages: BTreeMap::new(),
            struck: 0,
            trace: 0,
            space: None,
            clock_us: 1,
            read_us: 0,
        }
    }
    pub fn add_body(&mut self, bytes: Vec<u8>) -> u64 {
        self.next_body += 1;
        debug_assert!(
            !self.bodies.contains_key(&self.next_body),
            "contents have a number of their own"
        );
        let body = Body {
            live: bytes.clone(),
            durable: bytes,
            pending: Vec::new(),
        };
        self.bodies.insert(self.next_body, body);
        self.next_body
    }
    pub fn check_alive(&self, what: &str, path: &str) -> Result<()> {
        match self.dead {
            true => Err(io_error(what, path, "the machine has crashed")),
            false => Ok(()),
        }
    }
    /// Applies S11 to a read.
    pub fn is_bad(&mut self, name: &str, offset: u64, len: usize) -> bool {
        let within = |at: u64| (offset..offset + len as u64).contains(&at);
        let bad = self.bad.as_ref().is_some_and(|(file, at)| file == name && within(*at));
        self.struck += bad as u64;
        bad
    }
    /// Applies S9 to an open or a read.
    pub fn refuses(&mut self, name: &str) -> bool {
        let refused = self.refused.as_deref().is_some_and(|one| one.is_empty() || one == name);
        self.struck += refused as u64;
        refused
    }
    /// Counts a changing call and returns what becomes of it (S4, S5).
    pub fn change(&mut self, what: &str, path: &str) -> Result<Fate> {
        self.check_alive(what, path)?;
        self.changes += 1;
        self.note(what, path, self.changes);
        if self.crash_at == Some(self.changes) {
            self.dead = true;
            return Ok(Fate::Crashed);
        }
        let mut fault = self.change_faults.remove(&self.changes);
        debug_assert!(
            self.crash_at.is_none_or(|at| at > self.changes),
            "S4: nothing is written after the crash"
        );
        debug_assert!(
            self.change_faults.keys().all(|at| *at > self.changes),
            "S5: a fault strikes when its call comes"
        );
        if fault == Some(Fault::Full) && what == "sync" {
            fault = None;
            self.change_faults.entry(self.changes + 1).or_insert(Fault::Full);
        }
        self.struck += fault.is_some() as u64;
        match fault {
            None => Ok(Fate::Done),
            Some(Fault::Eio) => Ok(Fate::Failed),
            Some(Fault::Short) => Ok(Fate::Short),
            Some(Fault::Full) => Err(Error::Full(format!(
                "cannot {what} {path}: no space left on device (simulated)"
            ))),
        }
    }
    fn note(&mut self, what: &str, path: &str, number: u64) {
        let crc = crc32c::crc32c_append(crc32c::crc32c(what.as_bytes()), path.as_bytes()) as u64;
        self.trace = Rng(self.trace ^ crc << 32 ^ number).next();
    }
    /// Applies S8 to a write. None: the write goes nowhere.
    pub fn damaged(&mut self, name: &str, id: u64, offset: u64, mut data: Vec<u8>) -> Option<Pending> {
        let damage = match name.ends_with(".slu") {
            true => self.damages.remove(&self.changes),
            false => None,
        };
        self.struck += damage.is_some() as u64;
        let mut offset = offset as usize;
        match damage {
            None => {}
            Some(Damage::Lost) => return None,
            Some(Damage::Flipped) => {
                let at = self.rng.below(data.len() as u64) as usize;
                data[at] ^= 1 << self.rng.below(8);
            }
            Some(kind) => {
                if kind == Damage::Stray {
                    let data = data.clone();
                    self.add_pending(id, Pending::Write { offset, data });
                }
                let places = (self.bodies[&id].live.len().saturating_sub(data.len()) / IO_ALIGN) as u64 + 1;
                offset = self.rng.below(places) as usize * IO_ALIGN;
            }
        }
        Some(Pending::Write { offset, data })
    }
    /// Applies S6 to a growth of the file to `len` bytes.
    pub fn check_space(&mut self, what: &str, path: &str, id: u64, len: usize) -> Result<()> {
        let old = self.bodies[&id].live.len();
        let (Some(space), true) = (self.space, len > old) else {
            return Ok(());
        };
        let used: usize = self.names.values().map(|id| self.bodies[id].live.len()).sum();
        if (used + len - old) as u64 <= space {
            return Ok(());
        }
        self.struck += 1;
        Err(Error::Full(format!(
            "cannot {what} {path}: no space left on device (simulated)"
        )))
    }
    pub fn body(&mut self, id: u64) -> &mut Body {
        self.bodies.get_mut(&id).expect("an open file has a body")
    }
    pub fn add_pending(&mut self, id: u64, change: Pending) {
        let body = self.body(id);
        change.apply(&mut body.live);
        body.pending.push(change);
    }
    /// A create, remove or rename (S3).
    pub fn name_change(&mut self, what: &str, path: &str, act: impl FnOnce(&mut State)) -> Result<()> {
        match self.change(what, path)? {
            Fate::Done => {
                act(self);
                Ok(())
            }
            fate => {
                if self.rng.coin() {
                    act(self);
                }
                let why = if fate == Fate::Crashed { "crash" } else { "EIO" };
                Err(io_error(what, path, why))
            }
        }
    }
}

//! The simulated disk: files in memory, with faults by stated rules. For tests of every layer.
//!
//! Fault rules:
//! - S1 A write, and a change of length, is *pending* until the next `sync` of its file. Reads see it at once. `sync`
//!   makes all pending changes of the file durable.
//! - S2 A crash keeps any part of what is pending, file by file, in one of four ways drawn from the seed: nothing, all, the
//!   first n changes, or each sector of each write (and each change of length) by its own coin. A sector (512 bytes, or as
//!   set) is never torn. Overlapping writes that survive apply in the order in which they were issued.
//! - S3 Create, remove and rename are durable on return. One that the crash interrupts has happened or not (seed). A file created
//!   unsynced is there after a crash or not (seed), until it is renamed.
//! - S4 Every changing call (write, sync, set_len, create, remove, rename; each piece of a batch) and every read is
//!   counted. `crash_at(n)`: changing call n takes effect as pending (S2) or by coin (S3) and fails, and so does everything
//!   after it. A disk that crashed stays dead; `crash` gives the disk that the next start finds.
//! - S5 `fail_change(n, Fault::Eio)`: a write may leave any of its sectors pending; a sync makes a part of what is pending durable and
//!   *forgets the rest, though reads still show it*: a later successful sync does not bring it back. `Fault::Short`: a write leaves
//!   its first sectors pending and fails. `Fault::Full`: nothing happens, `Error::Full`; a sync passes it on to the call after it.
//!   `fail_read(n)`: that read fails, once.
//! - S6 `set_space(bytes)`: growth over this sum of file lengths is `Error::Full`.
//! - S7 All is decided by the seed and the order of calls. The clock moves only by `advance_us`, and by what `set_read_us` says that a read takes. `trace`
//!   tells two runs apart.
//! - S8 `damage_write(n, Damage)`: write n is reported done, and is not: one bit of it is wrong; or it hit another place of the
//!   same file too; or only that place; or none (the old bytes stay). Writes of data files only: elsewhere it does nothing.
//! - S9 `refuse(Some(name))`: until it is taken back that file can neither be opened nor read. Who has it open can write and sync it.
//!   `Some("")`: so it is with all files, and none can be made.
//! - S10 `set_handles(n)`: while n files are open, opening one more is `Error::TooManyFiles`.
//! - S11 `set_bad(Some((name, offset)))`: a sector that cannot be read, whatever is written to it.
//!
//! Direct files assert aligned buffers, offsets and lengths, as O_DIRECT would. Takes one leaf lock inside each call.
use super::align::is_aligned;
pub(crate) use super::sim_pending::Dice;
use super::sim_pending::{apply_some, split, survivors, Body, Pending};
use super::{first_error, Caching, Disk, File, Mode, ReadOp, WriteOp, IO_ALIGN};
use crate::base::sync::{Rank, RankedGuard, RankedMutex};
use crate::base::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

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

struct State {
    names: BTreeMap<String, u64>,
    /// Created unsynced, and not renamed yet.
    unsynced: BTreeSet<u64>,
    /// Removed files live on while handles use them.
    bodies: HashMap<u64, Body>,
    next_body: u64,
    dice: Dice,
    sector: usize,
    changes: u64,
    reads: u64,
    crash_at: Option<u64>,
    dead: bool,
    change_faults: BTreeMap<u64, Fault>,
    read_faults: Vec<u64>,
    refused: Option<String>,
    bad: Option<(String, u64)>,
    /// Every open file has a clone.
    open: Arc<()>,
    handles_max: Option<usize>,
    damages: BTreeMap<u64, Damage>,
    /// Faults and damages that have happened.
    struck: u64,
    trace: u64,
    space: Option<u64>,
    clock_us: u64,
    /// That a read takes.
    read_us: u64,
}

/// What becomes of a changing call.
#[derive(PartialEq)]
enum Fate {
    Done,
    /// The crash happens in it.
    Crashed,
    Failed,
    Short,
}

#[derive(Clone)]
pub struct SimDisk {
    state: Arc<RankedMutex<State>>,
}

impl SimDisk {
    pub fn new(seed: u64) -> Arc<SimDisk> {
        let state = State {
            names: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            bodies: HashMap::new(),
            next_body: 0,
            dice: Dice(seed),
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
        };
        Arc::new(SimDisk {
            state: Arc::new(RankedMutex::new(Rank::Leaf, state)),
        })
    }
    fn state(&self) -> RankedGuard<'_, State> {
        self.state.lock()
    }
    /// The disk that a start after a crash now finds (S2). This one is dead from now on. Counts start at zero again.
    pub fn crash(&self, seed: u64) -> Arc<SimDisk> {
        let mut dice = Dice(seed);
        let mut old = self.state();
        old.dead = true;
        let left: Vec<(String, Vec<u8>)> = old
            .names
            .iter()
            .filter_map(|(name, id)| {
                let is_there = !old.unsynced.contains(id) || dice.coin();
                is_there.then(|| (name.clone(), survivors(&old.bodies[id], old.sector, &mut dice)))
            })
            .collect();
        let (sector, space, clock_us) = (old.sector, old.space, old.clock_us);
        drop(old);
        let after = SimDisk::new(dice.next());
        let mut new = after.state();
        (new.sector, new.space, new.clock_us) = (sector, space, clock_us);
        for (name, bytes) in left {
            let id = new.add_body(bytes);
            new.names.insert(name, id);
        }
        drop(new);
        after
    }
}

fn io(what: &str, path: &str, why: &str) -> Error {
    Error::io(format!("cannot {what} {path}: {why} (simulated)"))
}

impl State {
    fn add_body(&mut self, bytes: Vec<u8>) -> u64 {
        self.next_body += 1;
        let body = Body {
            live: bytes.clone(),
            durable: bytes,
            pending: Vec::new(),
        };
        self.bodies.insert(self.next_body, body);
        self.next_body
    }
    fn check_alive(&self, what: &str, path: &str) -> Result<()> {
        match self.dead {
            true => Err(io(what, path, "the machine has crashed")),
            false => Ok(()),
        }
    }
    fn is_bad(&mut self, name: &str, offset: u64, len: usize) -> bool {
        let within = |at: u64| (offset..offset + len as u64).contains(&at);
        let bad = self.bad.as_ref().is_some_and(|(file, at)| file == name && within(*at));
        self.struck += bad as u64;
        bad
    }
    fn refuses(&mut self, name: &str) -> bool {
        let refused = self.refused.as_deref().is_some_and(|one| one.is_empty() || one == name);
        self.struck += refused as u64;
        refused
    }
    /// Counts a changing call and says what becomes of it (S4, S5).
    fn change(&mut self, what: &str, path: &str) -> Result<Fate> {
        self.check_alive(what, path)?;
        self.changes += 1;
        self.note(what, path, self.changes);
        if self.crash_at == Some(self.changes) {
            self.dead = true;
            return Ok(Fate::Crashed);
        }
        let mut fault = self.change_faults.remove(&self.changes);
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
        self.trace = Dice(self.trace ^ crc << 32 ^ number).next();
    }
    /// S8. None: the write goes nowhere.
    fn damaged(&mut self, name: &str, id: u64, offset: u64, mut data: Vec<u8>) -> Option<Pending> {
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
                let at = self.dice.below(data.len() as u64) as usize;
                data[at] ^= 1 << self.dice.below(8);
            }
            Some(kind) => {
                if kind == Damage::Stray {
                    let data = data.clone();
                    self.add_pending(id, Pending::Write { offset, data });
                }
                let places = (self.bodies[&id].live.len().saturating_sub(data.len()) / IO_ALIGN) as u64 + 1;
                offset = self.dice.below(places) as usize * IO_ALIGN;
            }
        }
        Some(Pending::Write { offset, data })
    }
    /// S6.
    fn check_space(&mut self, what: &str, path: &str, id: u64, len: usize) -> Result<()> {
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
    fn body(&mut self, id: u64) -> &mut Body {
        self.bodies.get_mut(&id).expect("an open file has a body")
    }
    fn add_pending(&mut self, id: u64, change: Pending) {
        let body = self.body(id);
        change.apply(&mut body.live);
        body.pending.push(change);
    }
    /// A create, remove or rename (S3).
    fn name_change(&mut self, what: &str, path: &str, act: impl FnOnce(&mut State)) -> Result<()> {
        match self.change(what, path)? {
            Fate::Done => {
                act(self);
                Ok(())
            }
            fate => {
                if self.dice.coin() {
                    act(self);
                }
                let why = if fate == Fate::Crashed { "crash" } else { "EIO" };
                Err(io(what, path, why))
            }
        }
    }
}

impl Disk for SimDisk {
    fn open(&self, name: &str, mode: Mode, caching: Caching) -> Result<Arc<dyn File>> {
        assert!(
            !name.is_empty() && !name.contains('/'),
            "file names are plain names: {name:?}"
        );
        let mut state = self.state();
        state.check_alive("open", name)?;
        if state
            .handles_max
            .is_some_and(|max| Arc::strong_count(&state.open) > max)
        {
            state.struck += 1;
            return Err(Error::TooManyFiles(format!(
                "cannot open {name}: too many open files (simulated)"
            )));
        }
        let found = state.names.get(name).copied();
        let id = match (found, mode) {
            (Some(_), Mode::Open) if state.refuses(name) => return Err(io("open", name, "EACCES")),
            (Some(id), Mode::Open) => id,
            (Some(_), _) => return Err(Error::Exists(name.into())),
            (None, Mode::Open) => return Err(io("open", name, "no such file")),
            (None, _) if state.refused.as_deref() == Some("") => return Err(io("open", name, "EACCES")),
            (None, Mode::Create) => {
                let id = state.add_body(Vec::new());
                state.name_change("create", name, |s| {
                    s.names.insert(name.into(), id);
                })?;
                id
            }
            (None, Mode::CreateUnsynced) => {
                match state.change("create", name)? {
                    Fate::Failed | Fate::Short => return Err(io("create", name, "EIO")),
                    Fate::Crashed => return Err(io("create", name, "crash")),
                    Fate::Done => {}
                }
                let id = state.add_body(Vec::new());
                state.names.insert(name.into(), id);
                state.unsynced.insert(id);
                id
            }
        };
        Ok(Arc::new(SimFile {
            state: self.state.clone(),
            id,
            name: name.into(),
            direct: caching == Caching::Direct,
            _open: state.open.clone(),
        }))
    }
    fn exists(&self, name: &str) -> Result<bool> {
        let state = self.state();
        state.check_alive("look for", name)?;
        Ok(state.names.contains_key(name))
    }
    fn remove(&self, name: &str) -> Result<()> {
        self.state().name_change("remove", name, |s| {
            s.names.remove(name);
        })
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut state = self.state();
        let Some(id) = state.names.get(from).copied() else {
            return Err(io("rename", from, "no such file"));
        };
        state.name_change("rename", from, |s| {
            s.names.remove(from);
            s.names.insert(to.into(), id);
            s.unsynced.remove(&id);
        })
    }
    fn list(&self) -> Result<Vec<String>> {
        let state = self.state();
        state.check_alive("list", "the directory")?;
        Ok(state.names.keys().cloned().collect())
    }
    fn write_many(&self, ops: &[WriteOp<'_>]) -> Result<()> {
        first_error(ops.iter().map(|op| op.file.write_at(op.data, op.offset)))
    }
    fn read_many(&self, ops: &mut [ReadOp<'_>]) -> Vec<Result<()>> {
        ops.iter_mut().map(|op| op.file.read_at(op.data, op.offset)).collect()
    }
    fn now_us(&self) -> u64 {
        self.state().clock_us
    }
    fn wall_s(&self) -> u64 {
        1_700_000_000 + self.state().clock_us / 1_000_000
    }
    fn random(&self) -> u64 {
        self.state().dice.next()
    }
}

struct SimFile {
    state: Arc<RankedMutex<State>>,
    id: u64,
    name: String,
    direct: bool,
    _open: Arc<()>,
}

impl SimFile {
    fn check_aligned(&self, data: &[u8], offset: u64) {
        assert!(
            !self.direct || is_aligned(data, offset),
            "direct I/O on {} must be aligned: offset {offset}, {} bytes",
            self.name,
            data.len()
        );
    }
}

impl File for SimFile {
    fn read_at(&self, data: &mut [u8], offset: u64) -> Result<()> {
        self.check_aligned(data, offset);
        let mut state = self.state.lock();
        state.check_alive("read", &self.name)?;
        state.reads += 1;
        state.clock_us += state.read_us;
        let number = state.reads;
        if let Some(at) = state.read_faults.iter().position(|n| *n == number) {
            state.read_faults.remove(at);
            state.struck += 1;
            return Err(io("read", &self.name, &format!("EIO at offset {offset}")));
        }
        if state.refuses(&self.name) || state.is_bad(&self.name, offset, data.len()) {
            return Err(io("read", &self.name, &format!("EIO at offset {offset}")));
        }
        let live = &state.body(self.id).live;
        let start = offset as usize;
        match live.get(start..start + data.len()) {
            Some(bytes) => {
                data.copy_from_slice(bytes);
                Ok(())
            }
            None => {
                let why = format!("offset {offset}, {} bytes: the file ends before", data.len());
                Err(io("read", &self.name, &why))
            }
        }
    }
    fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        self.check_aligned(data, offset);
        let mut state = self.state.lock();
        let fate = state.change("write", &self.name)?;
        state.check_space("write", &self.name, self.id, offset as usize + data.len())?;
        let Some(change) = state.damaged(&self.name, self.id, offset, data.to_vec()) else {
            return Ok(());
        };
        match fate {
            Fate::Done => {
                state.add_pending(self.id, change);
                Ok(())
            }
            Fate::Crashed => {
                state.add_pending(self.id, change);
                Err(io("write", &self.name, "crash"))
            }
            Fate::Failed => {
                let mut parts = Vec::new();
                split(&change, state.sector, &mut parts);
                for part in parts {
                    if state.dice.coin() {
                        state.add_pending(self.id, part);
                    }
                }
                Err(io("write", &self.name, "EIO"))
            }
            Fate::Short => {
                let mut parts = Vec::new();
                split(&change, state.sector, &mut parts);
                let written = state.dice.below(parts.len() as u64) as usize;
                parts
                    .into_iter()
                    .take(written)
                    .for_each(|part| state.add_pending(self.id, part));
                Err(io("write", &self.name, "cut short"))
            }
        }
    }
    fn sync(&self) -> Result<()> {
        let mut state = self.state.lock();
        let fate = state.change("sync", &self.name)?;
        if fate == Fate::Crashed {
            return Err(io("sync", &self.name, "crash"));
        }
        let sector = state.sector;
        let State { bodies, dice, .. } = &mut *state;
        let body = bodies.get_mut(&self.id).expect("an open file has a body");
        let pending = std::mem::take(&mut body.pending);
        if fate != Fate::Done {
            pending
                .iter()
                .for_each(|p| apply_some(p, sector, &mut body.durable, dice));
            return Err(io("sync", &self.name, "EIO"));
        }
        pending.iter().for_each(|p| p.apply(&mut body.durable));
        Ok(())
    }
    fn len(&self) -> Result<u64> {
        let mut state = self.state.lock();
        state.check_alive("read the length of", &self.name)?;
        Ok(state.body(self.id).live.len() as u64)
    }
    fn set_len(&self, len: u64) -> Result<()> {
        let mut state = self.state.lock();
        let fate = state.change("set the length of", &self.name)?;
        state.check_space("extend", &self.name, self.id, len as usize)?;
        if fate == Fate::Done || fate == Fate::Crashed {
            state.add_pending(self.id, Pending::Len(len as usize));
        }
        match fate {
            Fate::Done => Ok(()),
            _ => Err(io("set the length of", &self.name, "crash or EIO")),
        }
    }
    fn is_direct(&self) -> bool {
        self.direct
    }
    fn path(&self) -> &str {
        &self.name
    }
    fn fd(&self) -> Option<i32> {
        None
    }
}

#[path = "sim_faults.rs"]
mod faults;
#[cfg(test)]
#[path = "sim_tests.rs"]
mod tests;

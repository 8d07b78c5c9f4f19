//! [`SimDisk`]: the simulated directory.
//!
//! Takes `Rank::Leaf` inside each call. Called by: tests of every layer, mostly through [`Disk`].
use super::file::SimFile;
use super::pending::survivors;
use super::rng::Rng;
use super::state::{io_error, Fate, State};
use crate::base::sync::{Rank, RankedGuard, RankedMutex};
use crate::base::{Error, Result};
use crate::io::disk::{first_error, Caching, Disk, File, FileSize, Mode, ReadOp, WriteOp};
use std::sync::Arc;

/// A disk in memory. Clones share it.
#[derive(Clone)]
pub struct SimDisk {
    state: Arc<RankedMutex<State>>,
}

impl SimDisk {
    /// An empty disk.
    pub fn new(seed: u64) -> Arc<SimDisk> {
        Arc::new(SimDisk {
            state: Arc::new(RankedMutex::new(Rank::Leaf, State::new(seed))),
        })
    }
    pub(super) fn state(&self) -> RankedGuard<'_, State> {
        self.state.lock()
    }
    /// The disk that a start after a crash now finds (S2), with all counts at zero. This disk is
    /// dead from now on.
    pub fn crash(&self, seed: u64) -> Arc<SimDisk> {
        let mut rng = Rng(seed);
        let mut old = self.state();
        debug_assert!(
            old.names.values().all(|id| old.bodies.contains_key(id)),
            "every name has contents"
        );
        old.dead = true;
        let left: Vec<(String, Vec<u8>)> = old
            .names
            .iter()
            .filter_map(|(name, id)| {
                let is_there = !old.unsynced.contains(id) || rng.coin();
                is_there.then(|| (name.clone(), survivors(&old.bodies[id], old.sector, &mut rng)))
            })
            .collect();
        let (sector, space, clock_us) = (old.sector, old.space, old.clock_us);
        drop(old);
        let after = SimDisk::new(rng.next());
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
            (Some(_), Mode::Open) if state.refuses(name) => return Err(io_error("open", name, "EACCES")),
            (Some(id), Mode::Open) => id,
            (Some(_), _) => return Err(Error::Exists(name.into())),
            (None, Mode::Open) => return Err(io_error("open", name, "no such file")),
            (None, _) if state.refused.as_deref() == Some("") => return Err(io_error("open", name, "EACCES")),
            (None, Mode::Create) => {
                let id = state.add_body(Vec::new());
                state.name_change("create", name, |s| {
                    s.names.insert(name.into(), id);
                })?;
                id
            }
            (None, Mode::CreateUnsynced) => {
                match state.change("create", name)? {
                    Fate::Failed | Fate::Short => return Err(io_error("create", name, "EIO")),
                    Fate::Crashed => return Err(io_error("create", name, "crash")),
                    Fate::Done => {}
                }
                let id = state.add_body(Vec::new());
                state.names.insert(name.into(), id);
                state.unsynced.insert(id);
                id
            }
        };
        let direct = caching == Caching::Direct;
        let open = state.open.clone();
        Ok(Arc::new(SimFile::new(self.state.clone(), id, name, direct, open)))
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
        debug_assert_ne!(from, to, "a file gets another name");
        let mut state = self.state();
        let Some(id) = state.names.get(from).copied() else {
            return Err(io_error("rename", from, "no such file"));
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
    fn size(&self, name: &str) -> Result<Option<FileSize>> {
        let state = self.state();
        state.check_alive("ask for the size of", name)?;
        let bytes = |id: &u64| state.bodies[id].live.len() as u64;
        Ok(state.names.get(name).map(bytes).map(|bytes| FileSize {
            bytes,
            allocated: bytes,
        }))
    }
    fn write_many(&self, ops: &[WriteOp<'_>]) -> Result<()> {
        first_error(ops.iter().map(|op| op.file.write_at(op.data, op.offset)))
    }
    fn read_many(&self, ops: &mut [ReadOp<'_>]) -> Vec<Result<()>> {
        ops.iter_mut().map(|op| op.file.read_at(op.data, op.offset)).collect()
    }
    /// A test copies the files when nothing is written.
    fn hold_writes(&self, _hold: bool) {}
    fn now_us(&self) -> u64 {
        self.state().clock_us
    }
    fn wall_s(&self) -> u64 {
        1_700_000_000 + self.state().clock_us / 1_000_000
    }
    fn random(&self) -> u64 {
        self.state().rng.next()
    }
}

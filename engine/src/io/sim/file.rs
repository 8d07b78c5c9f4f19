//! A file of the simulated disk.
//!
//! Takes the disk's lock (`Rank::Leaf`) inside each call. Called by: `disk` here, which opens
//! files, and their users through [`File`].
use super::pending::{apply_some, split, Pending};
use super::state::{io_error, Fate, State};
use crate::base::sync::RankedMutex;
use crate::base::Result;
use crate::io::align::is_aligned;
use crate::io::disk::File;
use std::sync::Arc;

/// An open file of a [`SimDisk`](super::SimDisk).
pub(super) struct SimFile {
    state: Arc<RankedMutex<State>>,
    id: u64,
    name: String,
    direct: bool,
    _open: Arc<()>,
}

impl SimFile {
    /// `id`: of the file's body. `open`: counts open files.
    pub fn new(state: Arc<RankedMutex<State>>, id: u64, name: &str, direct: bool, open: Arc<()>) -> SimFile {
        SimFile {
            state,
            id,
            name: name.into(),
            direct,
            _open: open,
        }
    }
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
            return Err(io_error("read", &self.name, &format!("EIO at offset {offset}")));
        }
        if state.refuses(&self.name) || state.is_bad(&self.name, offset, data.len()) {
            return Err(io_error("read", &self.name, &format!("EIO at offset {offset}")));
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
                Err(io_error("read", &self.name, &why))
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
                Err(io_error("write", &self.name, "crash"))
            }
            Fate::Failed => {
                let mut parts = Vec::new();
                split(&change, state.sector, &mut parts);
                for part in parts {
                    if state.rng.coin() {
                        state.add_pending(self.id, part);
                    }
                }
                Err(io_error("write", &self.name, "EIO"))
            }
            Fate::Short => {
                let mut parts = Vec::new();
                split(&change, state.sector, &mut parts);
                let written = state.rng.below(parts.len() as u64) as usize;
                parts
                    .into_iter()
                    .take(written)
                    .for_each(|part| state.add_pending(self.id, part));
                Err(io_error("write", &self.name, "cut short"))
            }
        }
    }
    fn sync(&self) -> Result<()> {
        let mut state = self.state.lock();
        let fate = state.change("sync", &self.name)?;
        if fate == Fate::Crashed {
            return Err(io_error("sync", &self.name, "crash"));
        }
        let sector = state.sector;
        let State { bodies, rng, .. } = &mut *state;
        let body = bodies.get_mut(&self.id).expect("an open file has a body");
        let pending = std::mem::take(&mut body.pending);
        if fate != Fate::Done {
            pending
                .iter()
                .for_each(|p| apply_some(p, sector, &mut body.durable, rng));
            return Err(io_error("sync", &self.name, "EIO"));
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
            _ => Err(io_error("set the length of", &self.name, "crash or EIO")),
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

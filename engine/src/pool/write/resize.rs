//! [`Resize`]: one resize of the pool at a time, and a text about its progress.
//!
//! Lock: one of rank `Leaf`, not held while frames come or go.
//! Called by: the pool.
use super::batch::BatchWriter;
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Error, Result};
use crate::pool::frames::geometry::PoolGeometry;
use crate::pool::page::PAGE_SIZE;

pub(in crate::pool) struct Resize {
    state: RankedMutex<State>,
}

struct State {
    is_running: bool,
    status: String,
}

impl Resize {
    pub fn new() -> Resize {
        let state = State {
            is_running: false,
            status: String::new(),
        };
        Resize {
            state: RankedMutex::new(Rank::Leaf, state),
        }
    }
    pub fn status(&self) -> String {
        self.state.lock().status.clone()
    }
    fn set_status(&self, status: String) {
        self.state.lock().status = status;
    }
    /// See [`Pool::resize`](crate::pool::Pool::resize).
    pub fn run(&self, writer: &BatchWriter, bytes: u64, watch: &dyn Fn() -> Result<()>) -> Result<()> {
        writer.check_alive()?;
        {
            let mut state = self.state.lock();
            if state.is_running {
                return Err(Error::InUse(
                    "another connection is changing sluice_buffer_pool_size: wait until it is done (Sluice_buffer_pool_resize_status)".into(),
                ));
            }
            state.is_running = true;
        }
        let _running = Running(self);
        let (old, new) = (writer.store.frames.len(), PoolGeometry::for_size(bytes).frames());
        let (from, to) = (old * PAGE_SIZE, new * PAGE_SIZE);
        let done = if new > writer.store.frames.max() {
            Err(Error::Full(format!(
                "the buffer pool cannot grow beyond {} bytes while the engine runs; set sluice_buffer_pool_size_max and restart",
                writer.store.frames.max() * PAGE_SIZE
            )))
        } else if new > old {
            self.set_status(format!("Growing from {from} to {to} bytes"));
            writer.grow(new)
        } else if new < old {
            self.set_status(format!("Shrinking from {from} to {to} bytes"));
            writer.shrink(new, &|done, all| {
                self.set_status(format!(
                    "Shrinking from {from} to {to} bytes: {done} of {all} pages withdrawn"
                ));
                watch()
            })
        } else {
            Ok(())
        };
        debug_assert_eq!(
            writer.store.frames.len(),
            if done.is_ok() { new } else { old },
            "W3: a resize is done, or the size is what it was"
        );
        debug_assert_eq!(
            writer.store.frames.len(),
            writer.store.frames.mapped(),
            "W1: no frame is left half withdrawn"
        );
        self.set_status(match &done {
            Ok(()) => format!("Completed: from {from} to {to} bytes"),
            Err(why) => format!("Failed: the size stays {from} bytes: {why}"),
        });
        done
    }
}

struct Running<'a>(&'a Resize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_running = false;
    }
}

//! The poison state of an engine (I6), one for all its layers.
//!
//! A layer that meets a failed write, a failed sync or a broken invariant sets the state. Every
//! layer refuses work from then on. Lock-free: the hit path of the buffer pool checks the state.
//! Called by: `redo`, `pool`, `engine`.
use super::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

/// Why the engine has stopped, if it has.
#[derive(Default)]
pub struct Poison {
    why: OnceLock<Why>,
    /// The failure was logged.
    reported: AtomicBool,
}

enum Why {
    Failed(String),
    Closed,
}

impl Poison {
    /// The first reason is kept.
    pub fn set(&self, why: &str) {
        debug_assert!(!why.is_empty(), "users are told why the engine stopped");
        let _ = self.why.set(Why::Failed(why.to_string()));
    }
    /// The engine was closed: later calls get [`Error::Closed`], and nothing is logged.
    pub fn close(&self) {
        let _ = self.why.set(Why::Closed);
    }
    #[inline]
    pub fn is_set(&self) -> bool {
        self.why.get().is_some()
    }
    /// Why the engine failed. None: it runs, or was closed.
    pub fn why(&self) -> Option<&str> {
        match self.why.get()? {
            Why::Failed(why) => Some(why),
            Why::Closed => None,
        }
    }
    /// `Error::Poisoned` after a failure, `Error::Closed` after a close.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.why.get() {
            None => Ok(()),
            Some(Why::Failed(why)) => Err(Error::Poisoned(why.clone())),
            Some(Why::Closed) => Err(Error::Closed),
        }
    }
    /// True once after a failure: the caller that gets true logs it.
    pub fn is_news(&self) -> bool {
        self.why().is_some() && !self.reported.swap(true, Ordering::Relaxed)
    }
}

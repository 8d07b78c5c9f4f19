//! The end of an engine's writing (I6), one for all its layers: whoever meets a failed write, a failed sync or a broken
//! invariant sets it, and everybody refuses work from then on. Lock-free: the hit path of the buffer pool asks it.
use super::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

#[derive(Default)]
pub struct Poison {
    why: OnceLock<Why>,
    told: AtomicBool,
}

enum Why {
    Failed(String),
    Closed,
}

impl Poison {
    /// The first reason is kept.
    pub fn set(&self, why: &str) {
        let _ = self.why.set(Why::Failed(why.to_string()));
    }
    /// The engine was closed: whoever still holds it is refused, and nobody need be told.
    pub fn close(&self) {
        let _ = self.why.set(Why::Closed);
    }
    #[inline]
    pub fn is_set(&self) -> bool {
        self.why.get().is_some()
    }
    /// None: it has not failed.
    pub fn why(&self) -> Option<&str> {
        match self.why.get()? {
            Why::Failed(why) => Some(why),
            Why::Closed => None,
        }
    }
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.why.get() {
            None => Ok(()),
            Some(Why::Failed(why)) => Err(Error::Poisoned(why.clone())),
            Some(Why::Closed) => Err(Error::Closed),
        }
    }
    /// True once: people are told once.
    pub fn is_news(&self) -> bool {
        self.why().is_some() && !self.told.swap(true, Ordering::Relaxed)
    }
}

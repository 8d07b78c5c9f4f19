//! The end of an engine's writing (I6), one for all its layers: whoever meets a failed write, a failed sync or a broken
//! invariant sets it, and everybody refuses work from then on. Lock-free: the hit path of the buffer pool asks it.
use super::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

#[derive(Default)]
pub struct Poison {
    why: OnceLock<String>,
    told: AtomicBool,
}

impl Poison {
    /// The first reason is kept.
    pub fn set(&self, why: &str) {
        let _ = self.why.set(why.to_string());
    }
    #[inline]
    pub fn is_set(&self) -> bool {
        self.why.get().is_some()
    }
    pub fn why(&self) -> Option<&str> {
        self.why.get().map(String::as_str)
    }
    #[inline]
    pub fn check(&self) -> Result<()> {
        match self.why.get() {
            None => Ok(()),
            Some(why) => Err(Error::Poisoned(why.clone())),
        }
    }
    /// True once: people are told once.
    pub fn is_news(&self) -> bool {
        self.is_set() && !self.told.swap(true, Ordering::Relaxed)
    }
}

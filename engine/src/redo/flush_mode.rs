//! [`FlushMode`]: how far a flush of the log goes.
//!
//! Called by: the other files here, and every caller of `Redo::flush`.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushMode {
    /// Written to the operating system, not synced.
    Write,
    /// Durable.
    Sync,
}

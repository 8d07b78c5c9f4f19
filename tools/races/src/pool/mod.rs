//! The folder of the engine's `pool`: see `frames`.
pub mod frames;
mod page {
    /// The smallest that makes a filter of one word.
    pub const PAGE_SIZE: usize = 512;
}

//! What a pool is opened with.
//!
//! Called by: the engine's start, which fills it from the user's settings, and tests.

/// See [`PoolConfig::check_body`].
pub type CheckBody = fn(&[u8]) -> std::result::Result<(), String>;

#[derive(Clone, Debug)]
pub struct PoolConfig {
    /// Bytes of frames, rounded down to whole pages. On top come frame headers and the page table,
    /// under 1 %, and up to 6 MiB of batch buffers.
    pub size: u64,
    /// Bytes of frames that the pool can grow to: addresses are reserved for them. 0: several times
    /// `size`.
    pub size_max: u64,
    pub doublewrite: bool,
    /// Pages a second that the page cleaner writes without pressure.
    pub io_capacity: u32,
    /// Pages a second that the page cleaner writes under pressure, at most.
    pub io_capacity_max: u32,
    /// 0: no read-ahead.
    pub read_io_threads: u32,
    /// Can the body of a page just read be followed without leaving the page? `Err(reason)`: no.
    /// The layer that knows what the pages hold gives this function. The checksum does not answer
    /// the question: it is right, too, for bytes that were damaged in memory before the write.
    pub check_body: CheckBody,
}

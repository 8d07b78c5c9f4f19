//! What an engine is opened with, and where its notes go.
pub use crate::base::Level;
use crate::change::Buffering;
use crate::table::{StoreConfig, TableText};
use std::sync::Arc;

/// Takes the engine's notes for people (recovery progress, poison). Called from any thread, without latches.
pub type LogSink = Arc<dyn Fn(Level, &str) + Send + Sync>;

/// A key as people write it: table, index (0 = clustered, i + 1 = secondary i), key. None: in digits. Called from any thread, without latches.
pub type KeyText = Arc<dyn Fn(&str, u32, &[u8]) -> Option<String> + Send + Sync>;

/// When a commit returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitFlush {
    /// Log written and synced once a second.
    Lazy,
    /// Durable.
    Sync,
    /// Written to the operating system; synced once a second.
    Write,
}

impl CommitFlush {
    /// The numbers of `flush_log_at_trx_commit`.
    pub fn from_number(n: u64) -> CommitFlush {
        match n {
            0 => CommitFlush::Lazy,
            2 => CommitFlush::Write,
            _ => CommitFlush::Sync,
        }
    }
    pub fn number(self) -> u64 {
        match self {
            CommitFlush::Lazy => 0,
            CommitFlush::Sync => 1,
            CommitFlush::Write => 2,
        }
    }
}

#[derive(Clone)]
pub struct Config {
    /// Bytes.
    pub buffer_pool_size: u64,
    /// Bytes.
    pub redo_log_capacity: u64,
    /// Bytes.
    pub redo_log_buffer_size: usize,
    pub commit_flush: CommitFlush,
    /// Pages a second in the background: usually, and when pressed.
    pub io_capacity: u32,
    pub io_capacity_max: u32,
    pub read_io_threads: u32,
    pub purge_threads: u32,
    pub doublewrite: bool,
    pub direct_io: bool,
    /// Data files that are kept open.
    pub open_files: u32,
    /// Which changes of secondary indexes are buffered.
    pub change_buffering: Buffering,
    /// Share of the pool that newly buffered changes may have.
    pub change_buffer_max_size_percent: u32,
    /// Bytes that buffered changes may take in all, on disk; from once to ten times that share; 0 = ten times.
    pub change_buffer_max_disk_size: u64,
    /// Seconds after which buffered changes are merged though the engine is busy; 0 = only when it is idle, or when they are many.
    pub change_buffer_max_age_s: u32,
    /// Tests: 1 = buffer whatever may be buffered, 2 = the half of it, 3 = as 1 and merge only when asked to.
    pub change_buffer_test_mode: u8,
    pub store: StoreConfig,
    pub log: LogSink,
    pub key_text: KeyText,
    pub table_text: TableText,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            buffer_pool_size: 128 << 20,
            redo_log_capacity: 96 << 20,
            redo_log_buffer_size: 16 << 20,
            commit_flush: CommitFlush::Sync,
            io_capacity: 200,
            io_capacity_max: 2000,
            read_io_threads: 4,
            purge_threads: 1,
            doublewrite: true,
            direct_io: true,
            open_files: 2000,
            change_buffering: Buffering::All,
            change_buffer_max_size_percent: 25,
            change_buffer_max_disk_size: 0,
            change_buffer_max_age_s: 600,
            change_buffer_test_mode: 0,
            store: StoreConfig::default(),
            log: Arc::new(|_, _| ()),
            key_text: Arc::new(|_, _, _| None),
            table_text: Arc::new(|name| name.to_string()),
        }
    }
}

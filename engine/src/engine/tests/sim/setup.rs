//! What the seed of a run decides beside its ops: the disk, the sizes, the switches.
use crate::change::Buffering;
use crate::engine::tests::fixture::Random;
use crate::engine::{Config, Engine};
use crate::pool::PAGE_SIZE;
use crate::table::StoreConfig;

/// Of the smallest log: an op must fit into half of it, whatever it splits.
pub const REDO_CAPACITY: u64 = 64 * PAGE_SIZE as u64;

/// Of a pool and a log in which full leaves are spread over their neighbours, eight at a time
/// (`change/merge/multi_leaf.rs`).
pub const LARGE_FRAMES: u64 = 8 * 64;
pub const LARGE_REDO_CAPACITY: u64 = 4 * REDO_CAPACITY;
/// Of 100 schedules, how many have such.
const LARGE_PERCENT: u64 = 5;

/// Of 100 schedules with a change buffer, how many come to its bound.
const BOUND_PERCENT: u64 = 30;

/// What the seed decides beside the ops.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub seed: u64,
    /// Of the buffer pool.
    pub frames: u64,
    pub redo_capacity: u64,
    /// What the disk never tears.
    pub sector: usize,
    pub doublewrite: bool,
    pub direct_io: bool,
    /// Changes of secondary indexes: 0 none is buffered, 1 all are, 2 those of half the keys, 3 as
    /// it pays.
    pub buffer: u8,
    /// Memory of the change buffer, in bytes; 0: as much as a server gives it, which no schedule
    /// fills.
    pub buffer_memory: u64,
    /// Index builds go past the pool and the log, however small.
    pub load_past: bool,
}

impl Setup {
    pub fn draw(seed: u64) -> Setup {
        let mut random = Random(seed ^ 0x5e7u64);
        // Without doublewrite a page must be written whole or not at all.
        let sector = [512, 512, 512, 4096, PAGE_SIZE][random.below(5) as usize];
        let small = Setup {
            seed,
            frames: 24 + random.below(60),
            redo_capacity: REDO_CAPACITY << random.below(3),
            sector,
            doublewrite: sector < PAGE_SIZE || random.chance(50),
            direct_io: random.chance(50),
            buffer: [1, 1, 2, 3, 0][random.below(5) as usize],
            buffer_memory: 0,
            load_past: random.chance(50),
        };
        if random.chance(LARGE_PERCENT) {
            return Setup {
                frames: LARGE_FRAMES,
                redo_capacity: LARGE_REDO_CAPACITY,
                buffer: 1 + random.below(2) as u8,
                ..small
            };
        }
        let bound = small.buffer > 0 && random.chance(BOUND_PERCENT);
        Setup {
            buffer_memory: if bound { 256 << random.below(4) } else { 0 },
            ..small
        }
    }
    /// An engine was opened.
    pub fn set_memory(&self, engine: &Engine) {
        if self.buffer_memory > 0 {
            engine.store().change.set_memory_max(self.buffer_memory);
        }
    }
    pub fn is_large(&self) -> bool {
        self.frames >= LARGE_FRAMES
    }
    pub fn config(&self) -> Config {
        let store = StoreConfig {
            bulk_load_min: if self.load_past { 0 } else { u64::MAX },
            undo_pages_kept: 2,
            ..StoreConfig::default()
        };
        Config {
            store,
            buffer_pool_size: self.frames * PAGE_SIZE as u64,
            redo_log_capacity: self.redo_capacity,
            redo_log_buffer_size: 128 << 10,
            read_io_threads: 0,
            open_files: 3,
            doublewrite: self.doublewrite,
            io_capacity: 200,
            io_capacity_max: 2000,
            flush_method: crate::engine::FlushMethod::direct_if(self.direct_io),
            change_buffering: if self.buffer == 0 {
                Buffering::None
            } else {
                Buffering::All
            },
            change_buffer_test_mode: self.buffer % 3,
            ..Config::default()
        }
    }
}

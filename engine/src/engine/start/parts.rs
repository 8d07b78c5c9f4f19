//! The parts of an engine, made as its configuration says. Called by `open.rs` and `recover.rs`.
use crate::base::{Counters, Result};
use crate::btree;
use crate::change::ChangeBuffer;
use crate::engine::config::Config;
use crate::io::{Caching, Disk, Files};
use crate::pool::{Pool, PoolConfig};
use crate::redo::{Redo, RedoConfig};
use crate::table::Catalog;
use crate::txn::{RecoveredTrx, TrxSys};
use std::sync::Arc;

pub(super) struct Opened {
    pub pool: Arc<Pool>,
    pub redo: Arc<Redo>,
    pub trx_sys: Arc<TrxSys>,
    pub catalog: Catalog,
    pub recovered: Vec<RecoveredTrx>,
}

pub(super) fn redo_config(config: &Config) -> RedoConfig {
    RedoConfig {
        capacity: config.redo_log_capacity,
        buffer_size: config.redo_log_buffer_size,
        direct_io: config.flush_method.is_direct(),
    }
}

pub(super) fn new_pool(
    disk: Arc<dyn Disk>,
    config: &Config,
    redo: Arc<Redo>,
    counters: Arc<Counters>,
) -> Result<Arc<Pool>> {
    let pool_config = PoolConfig {
        size: config.buffer_pool_size,
        size_max: config.buffer_pool_size_max,
        doublewrite: config.doublewrite,
        io_capacity: config.io_capacity,
        io_capacity_max: config.io_capacity_max,
        read_io_threads: config.read_io_threads,
        check_body: btree::check_body,
    };
    let caching = if config.flush_method.is_direct() {
        Caching::Direct
    } else {
        Caching::Buffered
    };
    let files = Arc::new(Files::new(disk.clone(), caching, config.open_files as usize));
    let unused = files.clone();
    redo.set_files_closer(Box::new(move || unused.close_half()));
    Pool::new(pool_config, disk, files, redo, counters)
}

pub(super) fn change_buffer(config: &Config, pool: &Pool) -> Arc<ChangeBuffer> {
    let percent = config.change_buffer_max_size;
    let mode = config.change_buffer_test_mode;
    let buffer = ChangeBuffer::new(config.change_buffering, percent, pool.size(), mode);
    buffer.set_max_disk_size(config.change_buffer_max_disk_size);
    buffer.set_age_max(config.change_buffer_max_age as u64);
    pool.absence_filters().set_hasher(buffer.page_hasher());
    let buffer = Arc::new(buffer);
    pool.observe_geometry(&buffer);
    buffer
}

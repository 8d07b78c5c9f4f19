//! A pool over the simulated disk, for the tests of this layer and those above: make one, crash it, recover it.
use crate::base::{Counters, FileId, Lsn, PageId};
use crate::io::{Caching, Disk, Files, Mode, SimDisk};
use crate::pool::{split, Gathered, Piece, Pool, PoolConfig, Void, PAGE_SIZE};
use crate::redo::{reader, FlushMode, Redo, RedoConfig};
use std::sync::Arc;

pub(crate) struct PoolFixture {
    pub disk: Arc<SimDisk>,
    pub pool: Arc<Pool>,
    /// End of the last group that recovery found (0 in a fresh rig).
    pub recovered: Lsn,
}

pub(crate) fn redo_config() -> RedoConfig {
    RedoConfig {
        capacity: 64 << 20,
        buffer_size: 1 << 20,
        direct_io: false,
    }
}

fn pool_config(frames: usize, read_io_threads: u32) -> PoolConfig {
    PoolConfig {
        size: (frames * PAGE_SIZE) as u64,
        doublewrite: true,
        io_capacity: 1000,
        io_capacity_max: 2000,
        read_io_threads,
        check_body: |_| Ok(()),
    }
}

/// So few that files are closed and opened again in every test that has some.
fn files_of(disk: &Arc<SimDisk>) -> Arc<Files> {
    Arc::new(Files::new(disk.clone(), Caching::Direct, 1))
}

/// Bytes of the log that the rig's recovery applies at once.
const GATHER_MAX: usize = 16 * 1024;

/// A data file for tests of this layer: raw pages, no allocation.
pub(crate) const FILE: FileId = 16;

impl PoolFixture {
    pub fn add_file(&self, id: FileId, pages: u32, logged: bool) {
        let name = format!("{id:08x}.slu");
        let file = self.disk.open(&name, Mode::Create, Caching::Direct).unwrap();
        file.set_len(pages as u64 * PAGE_SIZE as u64).unwrap();
        file.sync().unwrap();
        self.pool.files().add(id, &name, logged);
    }
    pub fn checkpoint(&self) {
        let lsn = self.pool.checkpoint_lsn();
        self.pool.redo().flush(lsn, FlushMode::Sync).unwrap();
        self.pool.redo().write_checkpoint(lsn, b"").unwrap();
    }
    /// What the file holds at the page's place, whatever the pool holds.
    pub fn in_place(&self, page: PageId) -> Vec<u8> {
        let bytes = self.disk.bytes(&format!("{:08x}.slu", page.file)).unwrap();
        bytes[page.no as usize * PAGE_SIZE..][..PAGE_SIZE].to_vec()
    }
    pub fn create(seed: u64, frames: usize) -> PoolFixture {
        PoolFixture::create_with(seed, frames, 0)
    }
    pub fn create_with(seed: u64, frames: usize, read_io_threads: u32) -> PoolFixture {
        let disk = SimDisk::new(seed);
        PoolFixture::create_over(disk.clone(), disk, frames, read_io_threads)
    }
    /// Batches of pages go to `batches`, all else to the disk.
    pub fn create_over(disk: Arc<SimDisk>, batches: Arc<dyn Disk>, frames: usize, read_io_threads: u32) -> PoolFixture {
        let counters = Arc::new(Counters::default());
        let redo = Redo::create(disk.clone(), redo_config(), counters.clone()).unwrap();
        let config = pool_config(frames, read_io_threads);
        let pool = Pool::new(config, batches, files_of(&disk), Arc::new(redo), counters).unwrap();
        PoolFixture {
            disk,
            pool,
            recovered: 0,
        }
    }
    /// What a start after a crash does below the catalog: redo of every data file found. `each` sees every group.
    pub fn recover(disk: Arc<SimDisk>, frames: usize, each: &mut dyn FnMut(Lsn, &[u8])) -> PoolFixture {
        let counters = Arc::new(Counters::default());
        let (checkpoint, _) = Redo::read_checkpoint(&*disk).unwrap();
        let mut groups: Vec<(Lsn, Lsn, Vec<u8>)> = Vec::new();
        let mut void = Void::default();
        let end = reader::scan(&*disk, checkpoint, &mut |start, end, group| {
            groups.push((start, end, group.to_vec()));
            split(end, group, &mut |piece| {
                if let Piece::Other(record) = piece {
                    void.learn(&record, end);
                }
                Ok(())
            })
        })
        .unwrap();
        let redo = Redo::open(disk.clone(), redo_config(), counters.clone(), checkpoint, end.lsn).unwrap();
        let files = files_of(&disk);
        for name in disk.list().unwrap() {
            if let Some(id) = name.strip_suffix(".slu") {
                let id = FileId::from_str_radix(id, 16).unwrap();
                files.add(id, &name, true);
            }
        }
        let pool = Pool::new(pool_config(frames, 0), disk.clone(), files, Arc::new(redo), counters).unwrap();
        let mut read_log = |each: &mut dyn FnMut(Lsn, &[u8]) -> crate::base::Result<()>| {
            groups.iter().try_for_each(|(_, end, group)| each(*end, group))
        };
        pool.recover_doublewrite(&void, &mut read_log).unwrap();
        // In rounds, as with a log that does not fit.
        let mut gathered = Gathered::new(GATHER_MAX);
        for (start, end, group) in &groups {
            split(*end, group, &mut |piece| match piece {
                Piece::Page(page, records) => gathered.push(page, (*start, *end), records),
                Piece::Other(_) => Ok(()),
            })
            .unwrap();
            gathered.end_group(*end);
            if gathered.is_full() {
                let full = std::mem::replace(&mut gathered, Gathered::new(GATHER_MAX));
                pool.redo_apply(full, &void, &mut |_| ()).unwrap();
            }
            each(*end, group);
        }
        pool.redo_apply(gathered, &void, &mut |_| ()).unwrap();
        pool.redo_done(&mut |_, e| Err(e)).unwrap();
        let recovered = end.lsn;
        PoolFixture { disk, pool, recovered }
    }
}

//! A pool over the simulated disk: make one, crash it, recover it.
//!
//! Called by: the tests of the pool and of the layers above.
use crate::base::{Counters, FileId, Lsn, PageId, Result};
use crate::io::{Caching, Disk, Files, Mode, SimDisk};
use crate::pool::{split, Gathered, PageType, Piece, Pool, PoolConfig, Void, PAGE_SIZE};
use crate::redo::{reader, Redo, RedoConfig};
use std::sync::Arc;

pub(crate) struct PoolFixture {
    pub disk: Arc<SimDisk>,
    pub pool: Arc<Pool>,
    /// End of the last group that recovery found; 0 in a fresh fixture.
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
        size_max: 0,
        doublewrite: true,
        io_capacity: 1000,
        io_capacity_max: 2000,
        read_io_threads,
        check_body: |_| Ok(()),
    }
}

/// One file may be open at a time: every test with several files closes and opens them again.
fn files_of(disk: &Arc<SimDisk>) -> Arc<Files> {
    Arc::new(Files::new(disk.clone(), Caching::Direct, 1))
}

/// Bytes of the log that recovery applies at once.
const GATHER_MAX: usize = 16 * 1024;

/// A data file for tests of this layer: raw pages, no allocation.
pub(crate) const FILE: FileId = 16;

/// Groups of the log: start, end, records.
type Groups = Vec<(Lsn, Lsn, Vec<u8>)>;

impl PoolFixture {
    pub fn add_file(&self, id: FileId, pages: u32, logged: bool) {
        let name = format!("{id:08x}.slu");
        let made = self.disk.open(&name, Mode::Create, Caching::Direct);
        let file = made.expect("the file is new");
        file.set_len(pages as u64 * PAGE_SIZE as u64).expect("there is room");
        file.sync().expect("the disk works");
        self.pool.files().add(id, &name, logged);
    }
    pub fn checkpoint(&self) {
        let lsn = self.pool.checkpoint_lsn();
        self.pool.sync_log(lsn).expect("the disk works");
        let written = self.pool.redo().write_checkpoint(lsn, b"");
        written.expect("the disk works");
    }
    /// Makes all of the log durable.
    pub fn sync_log(&self) {
        self.pool.sync_log(self.pool.redo().lsn()).expect("the disk works");
    }
    /// What the file holds at the page's place, whatever the pool holds.
    pub fn in_place(&self, page: PageId) -> Vec<u8> {
        let name = format!("{:08x}.slu", page.file);
        let bytes = self.disk.bytes(&name).expect("the file is there");
        bytes[page.no as usize * PAGE_SIZE..][..PAGE_SIZE].to_vec()
    }
    pub fn create(seed: u64, frames: usize) -> PoolFixture {
        PoolFixture::create_with(seed, frames, 0)
    }
    pub fn create_with(seed: u64, frames: usize, read_io_threads: u32) -> PoolFixture {
        let disk = SimDisk::new(seed);
        PoolFixture::create_over(disk.clone(), disk, frames, read_io_threads)
    }
    /// A pool with a file of `pages`, each with its number at 64.
    pub fn filled(frames: usize, pages: u32, read_io_threads: u32) -> PoolFixture {
        let fixture = PoolFixture::create_with(5, frames, read_io_threads);
        fixture.add_file(FILE, pages, true);
        for no in 0..pages {
            let mut mtr = fixture.pool.begin();
            let page = mtr.create(PageId::new(FILE, no), 0, PageType::System, 0);
            mtr.edit_u32(page.expect("there are frames"), 64, no);
            mtr.commit();
        }
        fixture
    }
    /// Batches of pages go to `batches`, all else to the disk.
    pub fn create_over(disk: Arc<SimDisk>, batches: Arc<dyn Disk>, frames: usize, read_io_threads: u32) -> PoolFixture {
        let counters = Arc::new(Counters::default());
        let redo = Redo::create(disk.clone(), redo_config(), counters.clone()).expect("a new log");
        let config = pool_config(frames, read_io_threads);
        let pool = Pool::new(config, batches, files_of(&disk), Arc::new(redo), counters);
        PoolFixture {
            disk,
            pool: pool.expect("a new pool"),
            recovered: 0,
        }
    }
    /// What a start after a crash does below the catalog: redo of every data file found. `each`
    /// sees every group.
    pub fn recover(disk: Arc<SimDisk>, frames: usize, each: &mut dyn FnMut(Lsn, &[u8])) -> PoolFixture {
        let counters = Arc::new(Counters::default());
        let (checkpoint, _) = Redo::read_checkpoint(&*disk).expect("there is a checkpoint");
        let (groups, void, end) = read_log(&disk, checkpoint).expect("the log can be read");
        let redo = Redo::open(disk.clone(), redo_config(), counters.clone(), checkpoint, end);
        let files = files_of(&disk);
        for name in disk.list().expect("the disk works") {
            if let Some(id) = name.strip_suffix(".slu") {
                let id = FileId::from_str_radix(id, 16).expect("a file's name is its number");
                files.add(id, &name, true);
            }
        }
        let redo = Arc::new(redo.expect("the log can be opened"));
        let pool = Pool::new(pool_config(frames, 0), disk.clone(), files, redo, counters);
        let pool = pool.expect("a new pool");
        apply_log(&pool, &groups, &void).expect("the log can be applied");
        groups.iter().for_each(|(_, end, group)| each(*end, group));
        PoolFixture {
            disk,
            pool,
            recovered: end,
        }
    }
}

/// The groups from the checkpoint on, what they make void, and the end of the log.
fn read_log(disk: &Arc<SimDisk>, checkpoint: Lsn) -> Result<(Groups, Void, Lsn)> {
    let mut groups: Groups = Vec::new();
    let mut void = Void::default();
    let end = reader::scan(&**disk, checkpoint, &mut |start, end, group| {
        groups.push((start, end, group.to_vec()));
        split(end, group, &mut |piece| {
            if let Piece::Other(record) = piece {
                void.learn(&record, end);
            }
            Ok(())
        })
    })?;
    Ok((groups, void, end.lsn))
}

/// In rounds, as with a log that does not fit into memory.
fn apply_log(pool: &Pool, groups: &Groups, void: &Void) -> Result<()> {
    let mut read_again = |each: &mut dyn FnMut(Lsn, &[u8]) -> Result<()>| {
        groups.iter().try_for_each(|(_, end, group)| each(*end, group))
    };
    let recovery = pool.recovery();
    recovery.restore_torn(void, &mut read_again)?;
    let mut gathered = Gathered::new(GATHER_MAX);
    for (start, end, group) in groups {
        split(*end, group, &mut |piece| match piece {
            Piece::Page(page, records) => gathered.push(page, (*start, *end), records),
            Piece::Other(_) => Ok(()),
        })?;
        gathered.end_group(*end);
        if gathered.is_full() {
            let full = std::mem::replace(&mut gathered, Gathered::new(GATHER_MAX));
            recovery.apply(full, void, &mut |_| ())?;
        }
    }
    recovery.apply(gathered, void, &mut |_| ())?;
    recovery.finish(&mut |_, e| Err(e))
}

//! Reading the pages of a page list, in the order of their places, a batch at a time.
//!
//! A load takes only free frames, so it evicts nothing. It skips pages that do not exist any more
//! or cannot be read: a thread that needs such a page gets the error. While a bulk load of rows
//! writes a file past the pool, that file's pages are skipped (`write::loads`).
//!
//! Holds no latch between steps. Called by: the engine's worker for page lists.
use super::format::{decode, Run};
use crate::base::ids::FIRST_TABLE_FILE;
use crate::base::sync::holds_no_latch;
use crate::base::{Error, PageId, Result};
use crate::io::{Caching, Mode};
use crate::pool::buffer_pool::Pool;
use crate::pool::page::PAGE_SIZE;

/// Pages of one step. Steps follow each other, so another reader waits for at most one of them.
const BATCH: u32 = 64;

/// A load of a page list.
pub struct PageListLoad {
    runs: Vec<Run>,
    /// The run that is read, and how many of its pages are done.
    at: (usize, u32),
    /// Pages of the list.
    pub listed: usize,
    /// Pages of the list that were read or skipped.
    pub tried: usize,
    /// Pages that the load has read into the pool.
    pub read: usize,
    /// The load ended because too few frames were free.
    pub is_full: bool,
}

impl PageListLoad {
    /// Reads the list. `Invalid`: why it is not used.
    pub fn begin(pool: &Pool, name: &str) -> Result<PageListLoad> {
        let file = pool.disk().open(name, Mode::Open, Caching::Buffered)?;
        let mut text = vec![0; file.len()? as usize];
        file.read_at(&mut text, 0)?;
        let runs = decode(pool.database(), &text).map_err(|why| Error::Invalid(format!("{}: {why}", file.path())))?;
        Ok(PageListLoad {
            listed: runs.iter().map(|run| run.count as usize).sum(),
            runs,
            at: (0, 0),
            tried: 0,
            read: 0,
            is_full: false,
        })
    }
    /// Reads one batch. False: the load is done.
    pub fn step(&mut self, pool: &Pool) -> Result<bool> {
        debug_assert!(holds_no_latch(), "I7: no latch is held between steps");
        pool.check_alive()?;
        let batch = self.next_batch();
        let Some(first) = batch.first() else { return Ok(false) };
        self.tried += batch.len();
        let clock = &pool.store().clock;
        if clock.free_count() < batch.len() + clock.free_target() {
            self.is_full = true;
            return Ok(false);
        }
        // (The undo file shrinks while it is used. Its pages, and the system file's, are few.)
        let Some(_no_loads) = pool
            .loads()
            .keep_off(first.file)
            .filter(|_| first.file >= FIRST_TABLE_FILE)
        else {
            return Ok(true);
        };
        let absent: Vec<PageId> = batch.into_iter().filter(|id| !pool.is_resident(*id)).collect();
        pool.reader().read_ahead(absent.clone());
        self.read += absent.iter().filter(|id| pool.is_resident(**id)).count();
        debug_assert!(
            self.read <= self.tried && self.tried <= self.listed,
            "a page of the list is tried once"
        );
        Ok(true)
    }
    /// The next pages of one file. Empty: there are none.
    fn next_batch(&mut self) -> Vec<PageId> {
        let mut batch: Vec<PageId> = Vec::new();
        while let Some(run) = self.runs.get(self.at.0) {
            let room = BATCH - batch.len() as u32;
            if room == 0 || batch.first().is_some_and(|id| id.file != run.file) {
                break;
            }
            let count = room.min(run.count - self.at.1);
            let first = run.first + self.at.1;
            batch.extend((first..first + count).map(|no| PageId::new(run.file, no)));
            self.at.1 += count;
            if self.at.1 == run.count {
                self.at = (self.at.0 + 1, 0);
            }
        }
        debug_assert!(
            batch.len() <= BATCH as usize && batch.windows(2).all(|pair| pair[0].file == pair[1].file),
            "a step's pages are of one file"
        );
        batch
    }
    /// Bytes that the load has read into the pool.
    pub fn bytes(&self) -> u64 {
        (self.read * PAGE_SIZE) as u64
    }
}

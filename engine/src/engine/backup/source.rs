//! [`Backup`]: writes the files and the log of a running engine into a stream.
//!
//! The calls are those of a server's backup interface:
//!
//! | call | what it does |
//! |---|---|
//! | [`Backup::start`] | keeps the log, makes loads write to the log, lists the files |
//! | [`Backup::step`] | copies a bounded piece (I7) |
//! | [`BackupControl::fix_point`] | while commits are blocked: fixes the end of the backup |
//! | drop | ends the backup, complete or not |
//!
//! Before the point is fixed, steps read the data files, and then copy the log as it grows. Later
//! steps copy the log up to the point, and write END. Each step copies log before pages, so that
//! the engine need not keep much of the log. Takes no latch but in `copy_pages`, and `RedoControl`.
//! Called by: `ffi`, users of the crate.
use super::control::{BackupControl, Phase};
use super::format::{FrameWriter, BEGIN, BROKEN, COPIED, END, FAILED, FILE, LOG, PAGES};
use crate::base::{Counters, Error, FileId, Lsn, PageNo, Result};
use crate::engine::instance::Engine;
use crate::io::files::OpenFile;
use crate::io::AlignedBuf;
use crate::pool::page_copy::copy_pages;
use crate::pool::{Pool, PAGE_SIZE};
use crate::redo::LogCopy;
use crate::space;
use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;

/// Pages of one step.
const STEP_PAGES: usize = if cfg!(test) { 4 } else { (2 << 20) / PAGE_SIZE };
/// Bytes of log of one step. More than a step's pages, so that the copy of the log keeps up.
const STEP_LOG: usize = if cfg!(test) { 64 << 10 } else { 4 << 20 };

/// A data file that is being read.
struct OpenCopy {
    open: OpenFile,
    next: PageNo,
    pages: PageNo,
}

/// A backup that is under way.
pub struct Backup {
    control: Arc<BackupControl>,
    pool: Arc<Pool>,
    counters: Arc<Counters>,
    out: FrameWriter<Box<dyn Write + Send>>,
    log: LogCopy,
    files: VecDeque<FileId>,
    current: Option<OpenCopy>,
    buffer: AlignedBuf,
    pages: u64,
    broken: u64,
}

impl Backup {
    /// Begins a backup, which is written to `out`. `Error::InUse`: another backup runs.
    /// `Error::Unsupported`: the log is off (B6).
    pub fn start(engine: &Engine, out: Box<dyn Write + Send>) -> Result<Backup> {
        engine.check_alive()?;
        let pool = engine.store().pool.clone();
        let log = pool.redo().begin_copy()?;
        let out = FrameWriter::new(out)?;
        engine.backup.enter(Phase::Files);
        debug_assert!(engine.redo_log_is_on(), "B6: the log is on from start to end");
        let mut backup = Backup {
            control: engine.backup.clone(),
            out,
            counters: engine.counters().clone(),
            log,
            files: VecDeque::new(),
            current: None,
            buffer: AlignedBuf::new(STEP_PAGES * PAGE_SIZE),
            pages: 0,
            broken: 0,
            pool,
        };
        backup.begin()?;
        Ok(backup)
    }
    fn begin(&mut self) -> Result<()> {
        // B4: in this order. No load writes without a record after `logged_from`.
        self.pool.loads().set_logged(true);
        let logged_from = self.pool.redo().lsn();
        assert!(
            logged_from >= self.log.start.checkpoint,
            "the log of the copy begins before B4"
        );
        let mut names = self.pool.disk().list()?;
        names.sort_unstable();
        let mut bytes = 0;
        for file in names.iter().filter_map(|name| space::file_number(name)) {
            // A file without an entry in `Files` is being made or dropped: the log says so.
            if let Some(open) = self.pool.files().find(file)? {
                bytes += open.file.len()?;
                self.files.push_back(file);
            }
        }
        self.counters.backup_bytes_total.set(bytes);
        debug_assert!(
            self.files.iter().zip(self.files.iter().skip(1)).all(|(a, b)| a < b),
            "each file is copied once"
        );
        self.counters.backup_bytes_copied.set(0);
        let mut head = self.pool.database().to_le_bytes().to_vec();
        head.extend(logged_from.to_le_bytes());
        head.extend((self.files.len() as u32).to_le_bytes());
        head.extend(bytes.to_le_bytes());
        self.out.put(BEGIN, &head, &self.log.start.encode())
    }
    /// Copies a bounded piece. [`Phase::End`]: the backup is complete, and the writer has it.
    /// In [`Phase::Log`] there may be nothing to copy for a while.
    pub fn step(&mut self) -> Result<Phase> {
        let stepped = self.try_step();
        if let Err(why) = &stepped {
            // An error is ignored: the reader may have ended.
            let _ = self.out.put(FAILED, why.to_string().as_bytes(), b"");
            let _ = self.out.flush();
        }
        stepped
    }
    fn try_step(&mut self) -> Result<Phase> {
        self.pool.check_alive()?;
        self.control.check_wanted()?;
        let more = self.copy_log()?;
        match self.control.phase() {
            Phase::Files => self.copy_files()?,
            Phase::Log if !more => match self.control.point() {
                Some((point, about)) => self.finish(point, &about)?,
                None => self.out.flush()?,
            },
            _ => {}
        }
        Ok(self.control.phase())
    }
    fn copy_log(&mut self) -> Result<bool> {
        let (out, control) = (&mut self.out, &self.control);
        let point = || control.point().map(|(point, _)| point);
        self.log.copy_some(STEP_LOG, &point, &mut |lsn, blocks| {
            out.put(LOG, &lsn.to_le_bytes(), blocks)
        })
    }
    fn finish(&mut self, point: Lsn, about: &[u8]) -> Result<()> {
        debug_assert!(
            point >= self.log.start.checkpoint,
            "B3: the copied log begins before the point"
        );
        assert!(
            self.current.is_none() && self.files.is_empty(),
            "B3: the point is taken after the last page was read"
        );
        let out = &mut self.out;
        self.log
            .copy_end(point, &mut |lsn, blocks| out.put(LOG, &lsn.to_le_bytes(), blocks))?;
        let end = [point.to_le_bytes(), self.pages.to_le_bytes()].concat();
        // The reader may end as soon as it has this frame, so nothing is asked of it after that.
        self.out.put(END, &end, about)?;
        self.control.enter(Phase::End);
        Ok(())
    }
    fn copy_files(&mut self) -> Result<()> {
        if self.current.is_none() && !self.open_next()? {
            // Before COPIED is written: after it, the reader may block commits at once.
            self.control.enter(Phase::Log);
            self.out.put(COPIED, b"", b"")?;
            return self.out.flush();
        }
        let Some(copy) = &mut self.current else { return Ok(()) };
        assert!(copy.next < copy.pages, "a file that is read has pages left");
        let count = (copy.pages - copy.next).min(STEP_PAGES as u32);
        let into = &mut self.buffer[..count as usize * PAGE_SIZE];
        let read = copy_pages(&self.pool, &copy.open, copy.next, into);
        let broken = match read {
            Ok(broken) => broken,
            // The file was truncated or dropped. The log says so.
            Err(_) if copy.open.file.len()? < (copy.next + count) as u64 * PAGE_SIZE as u64 => {
                copy.pages = copy.next.max((copy.open.file.len()? / PAGE_SIZE as u64) as u32);
                return self.end_if_done();
            }
            Err(why) => return Err(why.reading(copy.open.id, copy.next)),
        };
        let (file, first) = (copy.open.id, copy.next);
        debug_assert!(
            broken.iter().all(|no| (first..first + count).contains(no)),
            "B2: broken pages are pages that were read"
        );
        copy.next += count;
        debug_assert!(
            copy.next <= copy.pages,
            "no page is read past the end that the file had"
        );
        self.send(file, first, count as usize)?;
        for no in broken {
            self.broken += 1;
            self.counters.backup_pages_broken.set(self.broken);
            self.out.put(BROKEN, &pair(file, no), b"")?;
        }
        self.counters.backup_bytes_copied.add(count as u64 * PAGE_SIZE as u64);
        self.end_if_done()
    }
    fn end_if_done(&mut self) -> Result<()> {
        self.current.take_if(|copy| copy.next >= copy.pages);
        Ok(())
    }
    /// Sends the runs of pages in the buffer that are not all zeros.
    fn send(&mut self, file: FileId, first: PageNo, count: usize) -> Result<()> {
        debug_assert!(count <= STEP_PAGES, "I7: a step's pages fit its buffer");
        let is_blank = |page: &[u8]| page.iter().all(|byte| *byte == 0);
        let mut at = 0;
        while at < count {
            let rest = self.buffer[at * PAGE_SIZE..count * PAGE_SIZE].chunks_exact(PAGE_SIZE);
            let run = rest.take_while(|page| !is_blank(page)).count();
            let bytes = &self.buffer[at * PAGE_SIZE..(at + run) * PAGE_SIZE];
            if run > 0 {
                self.out.put(PAGES, &pair(file, first + at as u32), bytes)?;
            }
            self.pages += run as u64;
            at += run + 1;
        }
        Ok(())
    }
    /// False: there is no further file.
    fn open_next(&mut self) -> Result<bool> {
        while let Some(file) = self.files.pop_front() {
            // A file that was dropped meanwhile: the log says so.
            let Some(open) = self.pool.files().find(file)? else {
                continue;
            };
            let pages = u32::try_from(open.file.len()? / PAGE_SIZE as u64)
                .map_err(|_| Error::corrupt(format!("{}: the file is too long", open.file.path())))?;
            self.out.put(FILE, &pair(file, pages), b"")?;
            if pages > 0 {
                let next = 0;
                self.current = Some(OpenCopy { open, next, pages });
                return Ok(true);
            }
        }
        Ok(false)
    }
    /// Pages so far whose checksum was wrong on disk, and that were not in memory.
    pub fn broken_pages(&self) -> u64 {
        self.broken
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        self.pool.loads().set_logged(false);
        self.control.enter(Phase::None);
    }
}

fn pair(file: u32, no: u32) -> [u8; 8] {
    let mut out = [0; 8];
    out[..4].copy_from_slice(&file.to_le_bytes());
    out[4..].copy_from_slice(&no.to_le_bytes());
    out
}

//! [`Restore`]: makes files from the stream of a backup. An engine opens them as after a crash.
//!
//! The caller gives the frames in their order. Data files were read while they changed. So after
//! the last frame [`Restore::finish`] changes them by the records of the copied log (B5):
//!
//! | record after S | what is done |
//! |---|---|
//! | GIVEN | the pages are filled with zeros: the log has what the load wrote |
//! | CUT | the file is truncated: the log has the pages that were added later |
//! | FILE_NEW | a missing file is made, empty (for any LSN from the checkpoint on) |
//!
//! The control file of the log is written last, after these changes. So an engine refuses the files
//! of a restore that a crash has ended. An engine that opens complete files recovers them. Called
//! by: tools, users of the crate.
use super::format::{BEGIN, BROKEN, COPIED, END, FAILED, FILE, LOG, PAGES, TOOL_KINDS};
use crate::base::bytes::{get_u32, get_u64};
use crate::base::{planted, Error, FileId, Lsn, Mutant, PageId, PageNo, Result};
use crate::io::{Caching, Disk, File, Mode};
use crate::pool::PAGE_SIZE;
use crate::redo::copy::{LogRestore, RestoredLog};
use crate::redo::record::{decode, Record};
use crate::redo::LogStart;
use crate::space;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The result of a restore.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Restored {
    /// LSN up to which the backup has all changes.
    pub point: Lsn,
    pub pages: u64,
    /// Pages whose checksum was wrong when they were copied. A check shows whether they are in use.
    pub broken: Vec<PageId>,
}

/// A restore that is under way.
pub struct Restore {
    disk: Arc<dyn Disk>,
    begin: Option<Begin>,
    open: Option<(FileId, Arc<dyn File>)>,
    restored: Restored,
    ended: bool,
    /// False: another layer follows.
    is_last: bool,
    /// Data files of this backup.
    files: BTreeSet<FileId>,
    /// Pages of this backup.
    pages: u64,
}

struct Begin {
    logged_from: Lsn,
    /// None: another layer follows, and its log counts.
    log: Option<LogRestore>,
}

/// Changes of files that the records of the log require before recovery.
#[derive(Default)]
struct Changes {
    made: BTreeSet<FileId>,
    dropped: BTreeSet<FileId>,
    blank: Vec<(PageId, u32)>,
    cut: BTreeMap<FileId, PageNo>,
}

impl Restore {
    /// `disk`: an empty directory.
    pub fn new(disk: Arc<dyn Disk>) -> Result<Restore> {
        if let Some(name) = disk.list()?.first() {
            return Err(Error::Invalid(format!(
                "a backup is restored into an empty directory; {name} is in this one"
            )));
        }
        Ok(Restore {
            disk,
            begin: None,
            open: None,
            restored: Restored::default(),
            ended: false,
            is_last: true,
            files: BTreeSet::new(),
            pages: 0,
        })
    }
    /// Begins a layer: the frames of one backup follow. The full backup is the first layer, and its
    /// increments come after it. An increment has the pages that differ from the layer before. A
    /// full backup alone needs no call.
    pub fn begin_layer(&mut self, is_last: bool) {
        self.is_last = is_last;
        (self.begin, self.ended, self.pages) = (None, false, 0);
        self.files.clear();
        self.restored.broken.clear();
    }
    /// Fills pages with zeros: an increment names pages that the layer before has and that are
    /// zeros now.
    pub fn blank(&mut self, file: FileId, first: PageNo, count: u32) -> Result<()> {
        self.sync_open()?;
        blank(&*self.disk, PageId::new(file, first), count)
    }
    /// Takes a frame. Frames of tools are ignored.
    pub fn put(&mut self, (kind, payload): (u32, &[u8])) -> Result<()> {
        if kind >= TOOL_KINDS {
            return Ok(());
        }
        if self.ended || (self.begin.is_none() && kind != BEGIN && kind != FAILED) {
            return Err(unexpected(kind));
        }
        let needed = match kind {
            BEGIN => 28,
            END => 16,
            FILE | PAGES | LOG | BROKEN => 8,
            _ => 0,
        };
        if payload.len() < needed {
            return Err(unexpected(kind));
        }
        match kind {
            BEGIN => self.begin(payload),
            FILE => self.file(get_u32(payload, 0), get_u32(payload, 4)),
            PAGES => self.pages(get_u32(payload, 0), get_u32(payload, 4), &payload[8..]),
            LOG => {
                let begin = self.begin.as_mut().ok_or_else(|| unexpected(kind))?;
                match &mut begin.log {
                    Some(log) => log.put(get_u64(payload, 0), &payload[8..]),
                    None => Ok(()),
                }
            }
            BROKEN => {
                let page = PageId::new(get_u32(payload, 0), get_u32(payload, 4));
                self.restored.broken.push(page);
                Ok(())
            }
            COPIED => Ok(()),
            END => {
                self.ended = true;
                self.restored.point = get_u64(payload, 0);
                self.restored.pages += self.pages;
                match self.pages == get_u64(payload, 8) {
                    true => Ok(()),
                    false => Err(Error::corrupt("the backup lacks pages")),
                }
            }
            FAILED => Err(Error::Unsupported(String::from_utf8_lossy(payload).into_owned())),
            _ => Err(unexpected(kind)),
        }
    }
    fn begin(&mut self, payload: &[u8]) -> Result<()> {
        self.sync_open()?;
        let start = LogStart::decode(&payload[28..]).filter(|_| self.begin.is_none());
        let start = start.ok_or_else(|| unexpected(BEGIN))?;
        self.begin = Some(Begin {
            logged_from: get_u64(payload, 8),
            log: match self.is_last {
                true => Some(LogRestore::new(self.disk.clone(), start)?),
                false => None,
            },
        });
        Ok(())
    }
    fn file(&mut self, file: FileId, pages: PageNo) -> Result<()> {
        self.sync_open()?;
        self.files.insert(file);
        let opened = match open_existing(&*self.disk, file)? {
            Some(open) => open,
            None => create(&*self.disk, file)?,
        };
        opened.set_len(pages as u64 * PAGE_SIZE as u64)?;
        self.open = Some((file, opened));
        Ok(())
    }
    fn pages(&mut self, file: FileId, first: PageNo, bytes: &[u8]) -> Result<()> {
        let (_, open) = self
            .open
            .as_ref()
            .filter(|(open, _)| *open == file && bytes.len() % PAGE_SIZE == 0)
            .ok_or_else(|| unexpected(PAGES))?;
        self.pages += (bytes.len() / PAGE_SIZE) as u64;
        open.write_at(bytes, first as u64 * PAGE_SIZE as u64)
    }
    /// Removes data files that only an earlier backup has.
    fn remove_others(&self) -> Result<()> {
        for name in self.disk.list()? {
            if space::file_number(&name).is_some_and(|file| !self.files.contains(&file)) {
                self.disk.remove(&name)?;
            }
        }
        Ok(())
    }
    fn sync_open(&mut self) -> Result<()> {
        match self.open.take() {
            Some((_, file)) => file.sync(),
            None => Ok(()),
        }
    }
    /// Completes the files after the last frame. An engine can open the directory then.
    pub fn finish(mut self) -> Result<Restored> {
        self.sync_open()?;
        let begin = self.begin.take().filter(|_| self.ended);
        let begin = begin.ok_or_else(|| Error::corrupt("the backup is not whole: it ends before its last frame"))?;
        let not_last = || Error::Invalid("the last backup is missing".into());
        self.remove_others()?;
        let log = begin.log.ok_or_else(not_last)?.finish(self.restored.point)?;
        debug_assert!(self.is_last, "a log is restored with the last layer alone");
        Changes::of(&log, begin.logged_from)?.make(&*self.disk)?;
        log.publish()?;
        Ok(self.restored)
    }
}

impl Changes {
    fn of(log: &RestoredLog, logged_from: Lsn) -> Result<Changes> {
        let mut changes = Changes::default();
        let mut reached = 0;
        log.scan(&mut |start, end, group| {
            debug_assert!(reached <= start && start < end, "B5: records are learnt in log order");
            reached = end;
            decode(group, |record| {
                let is_later = end > logged_from;
                match record {
                    Record::FileNew { file, .. } => drop(changes.made.insert(file)),
                    Record::FileDrop { file } => drop(changes.dropped.insert(file)),
                    Record::Given { first, count } if is_later => changes.blank.push((first, count)),
                    Record::Truncate { first } if is_later => {
                        let cut = changes.cut.entry(first.file).or_insert(first.no);
                        *cut = first.no.min(*cut);
                    }
                    _ => {}
                }
                Ok(())
            })
        })?;
        Ok(changes)
    }
    fn make(&self, disk: &dyn Disk) -> Result<()> {
        for file in self.made.difference(&self.dropped) {
            if !disk.exists(&space::file_name(*file))? {
                create(disk, *file)?.sync()?;
            }
        }
        for (file, first) in &self.cut {
            let len = *first as u64 * PAGE_SIZE as u64;
            let Some(open) = open_existing(disk, *file)? else {
                continue;
            };
            if open.len()? > len && !planted(Mutant::RestoreKeepsCutPages) {
                open.set_len(len)?;
                open.sync()?;
            }
        }
        if planted(Mutant::RestoreKeepsGivenPages) {
            return Ok(());
        }
        for (first, count) in &self.blank {
            blank(disk, *first, *count)?;
        }
        Ok(())
    }
}

/// Fills pages with zeros, up to the end of the file. A missing file is left out.
fn blank(disk: &dyn Disk, first: PageId, count: u32) -> Result<()> {
    let Some(open) = open_existing(disk, first.file)? else {
        return Ok(());
    };
    let end = (open.len()? / PAGE_SIZE as u64).min(first.no as u64 + count as u64);
    for no in first.no as u64..end {
        open.write_at(&[0; PAGE_SIZE], no * PAGE_SIZE as u64)?;
    }
    open.sync()
}

fn create(disk: &dyn Disk, file: FileId) -> Result<Arc<dyn File>> {
    disk.open(&space::file_name(file), Mode::Create, Caching::Buffered)
}

fn open_existing(disk: &dyn Disk, file: FileId) -> Result<Option<Arc<dyn File>>> {
    let name = space::file_name(file);
    match disk.exists(&name)? {
        true => disk.open(&name, Mode::Open, Caching::Buffered).map(Some),
        false => Ok(None),
    }
}

fn unexpected(kind: u32) -> Error {
    Error::corrupt(format!(
        "the backup is damaged: a frame of kind {kind} is not expected here"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::sim::SimDisk;

    const FILE: FileId = 20;
    const PAGES: usize = 6;

    /// A file whose pages are full of ones.
    fn copied() -> Arc<SimDisk> {
        let disk = SimDisk::new(1);
        let file = create(&*disk, FILE).expect("a new file");
        file.write_at(&[1; PAGES * PAGE_SIZE], 0).expect("write");
        disk
    }
    /// The first byte of each page.
    fn pages(disk: &SimDisk) -> Vec<u8> {
        let file = open_existing(disk, FILE).expect("open").expect("the file is there");
        let mut bytes = vec![0; file.len().expect("length") as usize];
        file.read_at(&mut bytes, 0).expect("read");
        bytes.chunks(PAGE_SIZE).map(|page| page[0]).collect()
    }

    /// B5, GIVEN: also where the range goes beyond the end of the file, which stays.
    #[test]
    fn pages_that_were_given_to_a_load_become_zeros() {
        for (first, count, expected) in [(1, 2, [1, 0, 0, 1, 1, 1]), (4, 9, [1, 1, 1, 1, 0, 0])] {
            let disk = copied();
            let changes = Changes {
                blank: vec![(PageId::new(FILE, first), count)],
                ..Changes::default()
            };
            changes.make(&*disk).expect("changes");
            assert_eq!(pages(&disk), expected);
        }
    }

    /// B5, CUT: a file that is shorter already keeps its length.
    #[test]
    fn a_file_that_the_log_cuts_is_cut() {
        for (first, expected) in [(2, 2), (8, PAGES)] {
            let disk = copied();
            let changes = Changes {
                cut: BTreeMap::from([(FILE, first)]),
                ..Changes::default()
            };
            changes.make(&*disk).expect("changes");
            assert_eq!(pages(&disk), vec![1; expected]);
        }
    }
}

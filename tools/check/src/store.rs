//! The engine's directory as it would be after recovery: data files, torn pages restored from the
//! doublewrite file, the log's changes applied. All of it is in memory; nothing is written.
use crate::bytes::{u32_at, u64_at};
use crate::log::Log;
use crate::page::{self, PAGE};
use crate::redo::Redo;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const SLOTS: usize = 3;
const PAGES_PER_SLOT: usize = 128;
const LISTS_AT: usize = (1 + SLOTS * PAGES_PER_SLOT) * PAGE;
const LIST: usize = 4096;
const ENTRY: usize = 28;
const LOG_LACKS: &str =
    "the redo log is missing or incomplete: later changes are not in the files, and half of some may be";
const LOG_OFF: &str = "the redo log was off when the engine stopped: these files may hold half of any change";

pub struct DataFile {
    pub name: String,
    file: File,
    /// Pages by the file's length.
    pub len: u32,
}

/// A line of a doublewrite list: what a page was before a write, and what it was to be.
struct Listed {
    base: u64,
    lsn: u64,
    checksum: u32,
}

pub struct Store {
    pub dir: PathBuf,
    pub files: BTreeMap<u32, DataFile>,
    redo: Redo,
    /// Newest whole copies.
    copies: HashMap<(u32, u32), Vec<u8>>,
    /// Newest versions that were written without a copy.
    listed: HashMap<(u32, u32), Listed>,
    checkpoint: u64,
    /// Where the log ends; 0: there is none, or it was ignored.
    pub log_end: u64,
    pub log_groups: u64,
    /// [`Store::open`] was called without the log.
    pub is_log_ignored: bool,
    /// Why these files, with this log, are not what was committed.
    pub log_lacks: Option<&'static str>,
    pub findings: Vec<String>,
    pub notes: Vec<String>,
}

impl Store {
    /// `with_log` false: the data files as they are.
    pub fn open(dir: &Path, with_log: bool) -> Result<Store, String> {
        let mut store = Store {
            dir: dir.to_path_buf(),
            files: BTreeMap::new(),
            redo: Redo::default(),
            copies: HashMap::new(),
            listed: HashMap::new(),
            checkpoint: 0,
            log_end: 0,
            log_groups: 0,
            is_log_ignored: !with_log,
            log_lacks: None,
            findings: Vec::new(),
            notes: Vec::new(),
        };
        store.find_files()?;
        match Log::open(dir) {
            Ok(log) => store.read_log(log, with_log),
            Err(what) => {
                store.log_lacks = Some(LOG_LACKS);
                store.findings.push(what);
            }
        }
        store.read_doublewrite();
        if with_log {
            for file in store.redo.dropped.clone() {
                if let Some(gone) = store.files.remove(&file) {
                    store
                        .notes
                        .push(format!("{}: dropped in the log; the next start removes it", gone.name));
                }
            }
        }
        Ok(store)
    }

    fn find_files(&mut self) -> Result<(), String> {
        for entry in std::fs::read_dir(&self.dir)
            .map_err(|e| format!("{}: {e}", self.dir.display()))?
            .flatten()
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            let digits = name.strip_suffix(".slu").filter(|digits| digits.len() == 8);
            let Some(number) = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok()) else {
                continue;
            };
            let file = File::open(entry.path()).map_err(|e| format!("{name}: {e}"))?;
            let bytes = file.metadata().map_err(|e| format!("{name}: {e}"))?.len();
            // Of a statement that was cut short any length may be left, of zeros.
            if bytes % PAGE as u64 != 0 && !is_blank(&file, bytes).unwrap_or(false) {
                self.findings
                    .push(format!("{name}: its length, {bytes} bytes, is no number of pages"));
            }
            let len = (bytes / PAGE as u64) as u32;
            self.files.insert(number, DataFile { name, file, len });
        }
        Ok(())
    }

    fn read_log(&mut self, mut log: Log, apply: bool) {
        if !log.control.is_ready {
            self.findings
                .push("redo_control: the database was never made whole; the next start makes it anew".into());
        }
        if log.control.is_off {
            self.findings.push(
                "redo_control: the log was off when the engine stopped: the files may hold half of any change".into(),
            );
        }
        self.checkpoint = log.control.checkpoint;
        let redo = &mut self.redo;
        log.replay(&mut |end, group| redo.add(end, group));
        if log.control.is_off {
            self.log_lacks = Some(LOG_OFF);
        } else if !log.findings.is_empty() {
            self.log_lacks = Some(LOG_LACKS);
        }
        self.findings.append(&mut log.findings);
        (self.log_end, self.log_groups) = (log.end, log.groups);
        if !apply {
            let behind = self.redo.pages().count();
            self.notes.push(format!(
                "up to {behind} pages are older than the log, which was left aside"
            ));
            self.redo.forget_pages();
        }
    }

    fn read_doublewrite(&mut self) {
        let path = self.dir.join("doublewrite");
        let Ok(bytes) = std::fs::read(&path) else {
            self.notes
                .push("doublewrite: the file is missing; the next start makes one".into());
            return;
        };
        let whole = bytes.len() >= LISTS_AT && &bytes[..8] == b"SLUICEDW";
        let numbers = [8, 12, 16, 20].map(|at| u32_at(&bytes, at));
        if !whole {
            self.findings
                .push("doublewrite: it is cut short or no doublewrite file".into());
            return;
        }
        let format = numbers[0];
        if !(1..=2).contains(&format) || numbers[1..] != [PAGE as u32, SLOTS as u32, PAGES_PER_SLOT as u32] {
            self.findings.push(format!(
                "doublewrite: format {format}, pages of {} bytes: not those of this program",
                numbers[1]
            ));
            return;
        }
        for copy in bytes[..LISTS_AT].chunks_exact(PAGE).skip(1) {
            let id = (u32_at(copy, 4), u32_at(copy, 8));
            let newer = self
                .copies
                .get(&id)
                .is_none_or(|other| page::lsn(other) < page::lsn(copy));
            if newer && page::verify(copy, id.0, id.1).is_ok() {
                self.copies.insert(id, copy.to_vec());
            }
        }
        if format > 1 {
            let lists = bytes[LISTS_AT..].chunks_exact(LIST).take(SLOTS);
            lists.for_each(|list| self.read_list(list));
        }
    }
    /// A list with a bad checksum is skipped: the write of its batch had not begun.
    fn read_list(&mut self, list: &[u8]) {
        if u32_at(list, 0) != crc32c::crc32c(&list[4..]) {
            return;
        }
        for entry in list[8..].chunks_exact(ENTRY).take(u32_at(list, 4) as usize) {
            let id = (u32_at(entry, 0), u32_at(entry, 4));
            let (base, lsn, checksum) = (u64_at(entry, 8), u64_at(entry, 16), u32_at(entry, 24));
            if self.listed.get(&id).is_none_or(|other| other.lsn < lsn) {
                self.listed.insert(id, Listed { base, lsn, checksum });
            }
        }
    }

    /// The page as recovery would leave it; Err: what is wrong with it.
    pub fn read(&self, file: u32, no: u32) -> Result<Vec<u8>, String> {
        let of = self
            .files
            .get(&file)
            .ok_or_else(|| format!("file {file:08x}.slu is missing"))?;
        let mut bytes = vec![0; PAGE];
        let mut state = match no < of.len {
            true => {
                let read = of.file.read_exact_at(&mut bytes, no as u64 * PAGE as u64);
                read.map_err(|e| format!("cannot be read: {e}"))
                    .and_then(|()| page::verify(&bytes, file, no))
            }
            false => Err(format!("the file ends before it, after {} pages", of.len)),
        };
        if let Some(copy) = self.copies.get(&(file, no)) {
            if state.is_err() && page::lsn(copy) >= self.checkpoint {
                bytes.copy_from_slice(copy);
                state = Ok(());
            } else if state.is_ok() && page::lsn(copy) <= self.checkpoint && page::lsn(&bytes) < page::lsn(copy) {
                state = Err(lost_write(page::lsn(&bytes), page::lsn(copy)));
            }
        }
        if let Some(listed) = self.listed.get(&(file, no)) {
            if state.is_err() && listed.lsn >= self.checkpoint && self.mend((file, no), listed, &mut bytes) {
                state = Ok(());
            } else if state.is_ok() && listed.lsn <= self.checkpoint && page::lsn(&bytes) < listed.lsn {
                state = Err(lost_write(page::lsn(&bytes), listed.lsn));
            }
        }
        let mut whole = state.is_ok();
        self.redo.apply(file, no, &mut bytes, &mut whole);
        if !whole {
            return Err(state.err().unwrap_or_default());
        }
        // Where the log is cut short, pages are rightly newer than what is left of it.
        if self.log_end != 0 && self.log_lacks.is_none() && page::lsn(&bytes) > self.log_end {
            return Err(format!(
                "its LSN {} is behind the log's end {}: it is of another database",
                page::lsn(&bytes),
                self.log_end
            ));
        }
        page::identity(&bytes, file, no)?;
        Ok(bytes)
    }
    /// Rebuilds the version that was to be written from what is in place, whether each sector of it
    /// is old or new. False: it cannot be proved.
    fn mend(&self, (file, no): (u32, u32), listed: &Listed, bytes: &mut [u8]) -> bool {
        self.redo.write_again(file, no, listed.base..listed.lsn, bytes)
            && crc32c::crc32c(&bytes[4..]) == listed.checksum
            && page::identity(bytes, file, no).is_ok()
    }
    /// Pages by the file's length, or more if the log knows of more.
    pub fn pages_of(&self, file: u32) -> u32 {
        let len = self.files.get(&file).map_or(0, |f| f.len);
        let in_log = self
            .redo
            .pages()
            .filter(|(f, _)| *f == file)
            .map(|(_, no)| no + 1)
            .max();
        len.max(in_log.unwrap_or(0))
    }
    /// Nothing but zeros.
    pub fn is_blank(&self, file: u32) -> Result<bool, String> {
        let Some(of) = self.files.get(&file) else {
            return Ok(true);
        };
        let len = of.file.metadata().map_err(|e| e.to_string())?.len();
        is_blank(&of.file, len).map_err(|e| format!("cannot be read: {e}"))
    }
    /// The log, after its checkpoint, says that the file was made.
    pub fn was_made(&self, file: u32) -> bool {
        self.redo.made.contains(&file)
    }
    pub fn name_of(&self, file: u32) -> String {
        format!("{file:08x}.slu")
    }
}

fn lost_write(found: u64, written: u64) -> String {
    format!("it is of LSN {found}, but LSN {written} was written there: the disk lost a write")
}

fn is_blank(file: &File, len: u64) -> std::io::Result<bool> {
    let mut bytes = vec![0; 64 << 10];
    let mut at = 0;
    while at < len {
        let part = (len - at).min(bytes.len() as u64) as usize;
        file.read_exact_at(&mut bytes[..part], at)?;
        if bytes[..part].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += part as u64;
    }
    Ok(true)
}

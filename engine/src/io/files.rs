//! The table of data files, by number: opens a file at its first use, and closes files over a
//! bound.
//!
//! When more than `open_max` files are open, one that was not used for long is closed (second
//! chance). An [`OpenFile`] keeps its file open, so a batch that writes and then syncs uses one
//! descriptor for both. The bound is exceeded by the files that are in use at once. Locks:
//! `Rank::Files`, held while a file is opened; that reads only the directory entry and the inode.
//! Called by: `pool`, which reads and writes pages through this table, and `space`, which fills it.
use super::disk::{Caching, Disk, File, Mode};
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Error, FileId, Result};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// A file in use: it stays open as long as this value lives.
#[derive(Clone)]
pub struct OpenFile {
    pub id: FileId,
    pub file: Arc<dyn File>,
    /// False for temporary tables: changes make no redo, pages need no doublewrite and no
    /// log-before-page.
    pub logged: bool,
}

struct Known {
    name: String,
    logged: bool,
    /// None: not open.
    file: Option<Arc<dyn File>>,
    /// Used since the last look of [`Table::make_room`].
    used: bool,
    /// Held by a thread that extends or truncates the file.
    length: Arc<RankedMutex<()>>,
}

#[derive(Default)]
struct Table {
    known: HashMap<FileId, Known>,
    /// Files that are open, and perhaps some that were removed; the next candidate first.
    open: VecDeque<FileId>,
}

/// See the head of this file.
pub struct Files {
    disk: Arc<dyn Disk>,
    caching: Caching,
    open_max: usize,
    table: RankedMutex<Table>,
}

impl Files {
    pub fn new(disk: Arc<dyn Disk>, caching: Caching, open_max: usize) -> Files {
        Files {
            disk,
            caching,
            open_max,
            table: RankedMutex::new(Rank::Files, Table::default()),
        }
    }
    /// A new file, durable with its name on return, not yet known under its number: [`Files::add`].
    pub fn create(&self, name: &str) -> Result<Arc<dyn File>> {
        self.disk.open(name, Mode::Create, self.caching)
    }
    /// Registers a file that exists under that name.
    pub fn add(&self, id: FileId, name: &str, logged: bool) {
        let known = Known {
            name: name.to_string(),
            logged,
            file: None,
            used: false,
            length: Arc::new(RankedMutex::new(Rank::FileLength, ())),
        };
        let old = self.table.lock().known.insert(id, known);
        assert!(old.is_none(), "a file number is used once");
    }
    /// Returns the file's name. None: the file was not registered.
    pub fn remove(&self, id: FileId) -> Option<String> {
        self.table.lock().known.remove(&id).map(|known| known.name)
    }
    /// As `get`. None: the file is not registered, because it is being dropped.
    pub fn find(&self, id: FileId) -> Result<Option<OpenFile>> {
        match self.get(id) {
            Err(_) if !self.contains(id) => Ok(None),
            found => found.map(Some),
        }
    }
    /// The file, opened if need be. `Error::Io` for every reason of a failed open.
    pub fn get(&self, id: FileId) -> Result<OpenFile> {
        let mut table = self.table.lock();
        if !table.known.contains_key(&id) {
            return Err(Error::corrupt(format!(
                "data file {id} is not open: it is missing or was dropped"
            )));
        }
        if table.known[&id].file.is_none() {
            table.make_room(self.open_max);
            let name = table.known[&id].name.clone();
            let mut file = self.disk.open(&name, Mode::Open, self.caching);
            if file.is_err() {
                // The process may have run out of descriptors: fewer open files make some free.
                table.close_half();
                file = self.disk.open(&name, Mode::Open, self.caching);
            }
            let file = file.map_err(|why| match why {
                Error::TooManyFiles(why) => Error::io(why),
                why => why,
            })?;
            table.open.push_back(id);
            table.known.get_mut(&id).expect("looked up above").file = Some(file);
        }
        debug_assert!(table.open.contains(&id), "every open file is a candidate for closing");
        let known = table.known.get_mut(&id).expect("looked up above");
        known.used = true;
        Ok(OpenFile {
            id,
            file: known.file.clone().expect("opened above"),
            logged: known.logged,
        })
    }
    /// The lock to hold while the file's length is changed. None: the file is not registered.
    pub fn length_lock(&self, id: FileId) -> Option<Arc<RankedMutex<()>>> {
        self.table.lock().known.get(&id).map(|known| known.length.clone())
    }
    pub fn contains(&self, id: FileId) -> bool {
        self.table.lock().known.contains_key(&id)
    }
    /// Closes about half of the open files, as far as they are not in use. Makes descriptors free
    /// for other files.
    pub fn close_half(&self) {
        self.table.lock().close_half();
    }
    /// Number of files that are open now.
    pub fn open_count(&self) -> usize {
        let table = self.table.lock();
        table.known.values().filter(|known| known.file.is_some()).count()
    }
}

impl Table {
    fn close_half(&mut self) {
        let half = self.open.len() / 2;
        self.make_room(half);
    }
    /// Closes files until fewer than `open_max` are open, as far as they are not in use.
    fn make_room(&mut self, open_max: usize) {
        let mut looks = 2 * self.open.len();
        while self.open.len() >= open_max.max(1) && looks > 0 {
            looks -= 1;
            let Some(id) = self.open.pop_front() else { return };
            let Some(known) = self.known.get_mut(&id) else { continue };
            let in_use = known.file.as_ref().is_some_and(|file| Arc::strong_count(file) > 1);
            if std::mem::take(&mut known.used) || in_use {
                self.open.push_back(id);
            } else {
                known.file = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::SimDisk;
    use super::*;

    fn files(count: u32, open_max: usize) -> Files {
        let files = Files::new(SimDisk::new(1), Caching::Direct, open_max);
        for id in 0..count {
            files
                .create(&id.to_string())
                .expect("made")
                .set_len(4096)
                .expect("room");
            files.add(id, &id.to_string(), true);
        }
        files
    }

    #[test]
    fn few_files_are_open_however_many_there_are() {
        let files = files(100, 10);
        assert_eq!(files.open_count(), 0);
        for id in (0..100).chain(0..100) {
            assert_eq!(files.get(id).expect("there").file.len().expect("length"), 4096);
            assert!(files.open_count() <= 10);
        }
    }

    #[test]
    fn a_file_in_use_stays_open() {
        let files = files(20, 4);
        let held: Vec<_> = (0..6).map(|id| files.get(id).expect("there")).collect();
        assert_eq!(files.open_count(), 6);
        for id in 6..20 {
            files.get(id).expect("there");
        }
        for file in &held {
            assert!(Arc::ptr_eq(&file.file, &files.get(file.id).expect("there").file));
        }
        drop(held);
        files.get(19).expect("there");
        files.get(18).expect("there");
        files.get(17).expect("there");
        assert!(files.open_count() <= 7);
    }

    #[test]
    fn what_is_removed_is_not_found() {
        let files = files(3, 2);
        files.get(1).expect("there");
        assert_eq!(files.remove(1).as_deref(), Some("1"));
        assert_eq!(files.remove(1), None);
        assert!(files.get(1).is_err());
        assert_eq!(files.open_count(), 0);
    }
}

//! The data files, by number. The pool reads and writes pages through this table; `space` fills it.
//!
//! A file is opened when it is first needed. When more are open than `open_max`, one that was not needed for long is closed again
//! (second chance); whoever holds an [`OpenFile`] keeps it open, so a batch that writes and then syncs does both through the same
//! descriptor, and the bound may be passed by as many files as are in use at once.
//! Locks: one mutex (rank Files), held while a file is opened: that needs no disk access but its directory entry and inode.
use super::{Caching, Disk, File, Mode};
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Error, FileId, Result};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// What the pool must know of a file besides its bytes.
#[derive(Clone)]
pub struct OpenFile {
    pub id: FileId,
    pub file: Arc<dyn File>,
    /// False for temporary tables: changes make no redo, pages need no doublewrite and no log-before-page.
    pub logged: bool,
}

struct Known {
    name: String,
    logged: bool,
    /// None: not open.
    file: Option<Arc<dyn File>>,
    /// Needed since the last look.
    used: bool,
    /// Held by who makes it longer or shorter.
    length: Arc<RankedMutex<()>>,
}

#[derive(Default)]
struct Table {
    known: HashMap<FileId, Known>,
    /// Files that are open, and perhaps some that are gone; the next to be looked at first.
    open: VecDeque<FileId>,
}

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
    /// The file of that name exists.
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
    /// Its name; None: it was not known.
    pub fn remove(&self, id: FileId) -> Option<String> {
        self.table.lock().known.remove(&id).map(|known| known.name)
    }
    /// As `get`; None: nobody knows the file (it is being dropped).
    pub fn find(&self, id: FileId) -> Result<Option<OpenFile>> {
        match self.get(id) {
            Err(_) if !self.contains(id) => Ok(None),
            found => found.map(Some),
        }
    }
    /// Opens it if it is not open. `Error::Io` whatever it cannot be opened for.
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
                // The process may be out of descriptors: with fewer files open it is not.
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
        let known = table.known.get_mut(&id).expect("looked up above");
        known.used = true;
        Ok(OpenFile {
            id,
            file: known.file.clone().expect("opened above"),
            logged: known.logged,
        })
    }
    /// Whoever changes the file's length holds this; nobody else needs it. None: nobody knows the file.
    pub fn length_lock(&self, id: FileId) -> Option<Arc<RankedMutex<()>>> {
        self.table.lock().known.get(&id).map(|known| known.length.clone())
    }
    pub fn contains(&self, id: FileId) -> bool {
        self.table.lock().known.contains_key(&id)
    }
    /// Closes about half of the open files, as far as nobody uses them: for who needs a descriptor for another file.
    pub fn close_half(&self) {
        self.table.lock().close_half();
    }
    /// How many are open now.
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

//! The open data files, by number. The pool reads and writes pages through this table; `space` fills it.
use super::File;
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{Error, FileId, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// What the pool must know of a file besides its bytes.
#[derive(Clone)]
pub struct OpenFile {
    pub id: FileId,
    pub file: Arc<dyn File>,
    /// False for temporary tables: changes make no redo, pages need no doublewrite and no log-before-page.
    pub logged: bool,
}

#[derive(Default)]
struct Table(HashMap<FileId, OpenFile>);

pub struct Files {
    table: RankedMutex<Table>,
}

impl Default for Files {
    fn default() -> Self {
        Files {
            table: RankedMutex::new(Rank::Files, Table::default()),
        }
    }
}

impl Files {
    pub fn add(&self, file: OpenFile) {
        let old = self.table.lock().0.insert(file.id, file);
        assert!(old.is_none(), "a file number is opened once");
    }
    pub fn remove(&self, id: FileId) -> Option<OpenFile> {
        self.table.lock().0.remove(&id)
    }
    pub fn get(&self, id: FileId) -> Result<OpenFile> {
        let found = self.table.lock().0.get(&id).cloned();
        found.ok_or_else(|| Error::Corrupt(format!("data file {id} is not open: it is missing or was dropped")))
    }
    pub fn contains(&self, id: FileId) -> bool {
        self.table.lock().0.contains_key(&id)
    }
    pub fn ids(&self) -> Vec<FileId> {
        self.table.lock().0.keys().copied().collect()
    }
}

//! Of which leaves the pool keeps absence filters: those of unique indexes that get new values.
//!
//! An absence filter holds the hashes of the values that a leaf had when it left the pool. Its
//! purpose and rules are in `docs/decisions/2026-11-21-unique-filter.md`.
//!
//! Locks: `indexes`, of no rank, under which no other lock is taken. Called by: the pool at an
//! eviction, `unique`, `delta::tree`.
use crate::base::{FileId, IndexId};
use crate::btree::leaf_entries;
use crate::pool::page::{page_id, page_index};
use crate::pool::PageHasher;
use parking_lot::RwLock;
use std::collections::HashMap;

/// The unique indexes with absence filters, and the bytes of their clustered keys.
#[derive(Default)]
pub struct UniqueLeaves {
    indexes: RwLock<HashMap<(FileId, IndexId), usize>>,
}

impl UniqueLeaves {
    /// From now on leaves of this index get absence filters. `pk_len`: bytes of a clustered key.
    pub fn add(&self, file: FileId, index: IndexId, pk_len: usize) {
        debug_assert!(pk_len > 0, "a key must tell where its value ends");
        self.indexes.write().insert((file, index), pk_len);
    }
    /// The index is dropped.
    pub fn remove(&self, file: FileId, index: IndexId) {
        self.indexes.write().remove(&(file, index));
    }
}

impl PageHasher for UniqueLeaves {
    fn hash_page(&self, page: &[u8], add: &mut dyn FnMut(u32)) -> bool {
        let id = (page_id(page).file, page_index(page));
        let Some(pk_len) = self.indexes.read().get(&id).copied() else {
            return false;
        };
        leaf_entries(page, &mut |key, _| {
            let value_len = key.len().checked_sub(pk_len);
            value_len.map(|len| add(hash_of(&key[..len]))).is_some()
        })
    }
}

/// The hash by which an absence filter knows a value.
pub fn hash_of(value: &[u8]) -> u32 {
    crc32c::crc32c(value)
}

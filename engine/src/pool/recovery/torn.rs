//! Mending a torn page from the log: on top of what is in place, be each sector of it old or new.
//!
//! A torn write leaves each sector as it was, at the *base* LSN, or as it was to be. If all changes between were plain writes, done again in
//! their order they make what was to be of either: bytes that none of them names are the same in both. The page's checksum, taken down before
//! the write (`dblwr`), proves the result; without the proof the page stays broken. Why the log has all these changes: `docs/decisions/2026-11-26-pages-written-once.md`.
//!
//! Before redo, so that redo finds whole pages; a crash meanwhile leaves the same kind of mixture. Takes no locks. Called by `dblwr`.
use crate::base::bytes::get_u32;
use crate::base::{Lsn, PageId, Result};
use crate::io::AlignedBuf;
use crate::pool::page::page_id;
use crate::pool::page::{check, page_lsn, seal, set_page_lsn, PAGE_SIZE};
use crate::pool::recovery::gather::{split, Piece};
use crate::pool::Pool;
use crate::redo::record::{decode, Record};
use std::collections::BTreeMap;

/// Of a page that is about to be written without a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pool) struct Entry {
    pub page: PageId,
    /// Of the version in place.
    pub base: Lsn,
    /// Of the version to be written, and its checksum.
    pub lsn: Lsn,
    pub checksum: u32,
}

impl Entry {
    /// `bytes`: the sealed page.
    pub fn of(bytes: &[u8], base: Lsn) -> Entry {
        Entry {
            page: page_id(bytes),
            base,
            lsn: page_lsn(bytes),
            checksum: get_u32(bytes, 0),
        }
    }
}

/// Calls with each group from the checkpoint on: where it ends, and its records.
pub type ReadLog<'a> = dyn FnMut(&mut dyn FnMut(Lsn, &[u8]) -> Result<()>) -> Result<()> + 'a;

struct Torn {
    entry: Entry,
    bytes: AlignedBuf,
    /// Something that is no plain write.
    hopeless: bool,
}

impl Pool {
    /// Mends those of the pages that do not check, as far as that can be proved. Returns how many.
    pub(in crate::pool) fn mend(&self, entries: Vec<Entry>, read_log: &mut ReadLog<'_>) -> Result<usize> {
        let mut newest: BTreeMap<PageId, Entry> = BTreeMap::new();
        for entry in entries {
            let known = newest.entry(entry.page).or_insert(entry);
            if known.lsn < entry.lsn {
                *known = entry;
            }
        }
        let mut torn = BTreeMap::new();
        for entry in newest.into_values() {
            if let Some(bytes) = self.torn_bytes(entry.page)? {
                let hopeless = false;
                torn.insert(entry.page, Torn { entry, bytes, hopeless });
            }
        }
        if torn.is_empty() {
            return Ok(0);
        }
        let last = torn.values().map(|torn| torn.entry.lsn).max().unwrap_or(0);
        read_log(&mut |end, group| {
            if end > last {
                return Ok(());
            }
            split(end, group, &mut |piece| match piece {
                Piece::Page(page, records) => match torn.get_mut(&page) {
                    Some(torn) if torn.entry.base < end && end <= torn.entry.lsn => torn.apply(records),
                    _ => Ok(()),
                },
                Piece::Other(_) => Ok(()),
            })
        })?;
        let mut mended = 0;
        for torn in torn.into_values() {
            let page = torn.entry.page;
            if let Some(whole) = torn.mended() {
                let file = self.files.get(page.file)?.file;
                file.write_at(&whole, page.no as u64 * PAGE_SIZE as u64)?;
                file.sync()?;
                mended += 1;
            }
        }
        Ok(mended)
    }
    /// What is in the page's place, if that is not a page.
    fn torn_bytes(&self, page: PageId) -> Result<Option<AlignedBuf>> {
        let file = self.files.get(page.file)?.file;
        let offset = page.no as u64 * PAGE_SIZE as u64;
        if file.len()? < offset + PAGE_SIZE as u64 {
            return Ok(None);
        }
        let mut bytes = AlignedBuf::new(PAGE_SIZE);
        // Redo asks for a page that cannot be read, and ends there.
        let is_read = file.read_at(&mut bytes, offset).is_ok();
        Ok((is_read && check(&bytes, page).is_err()).then_some(bytes))
    }
}

impl Torn {
    fn apply(&mut self, records: &[u8]) -> Result<()> {
        decode(records, |record| {
            match record {
                Record::Write { offset, data } => self.bytes[offset..offset + data.len()].copy_from_slice(data),
                _ => self.hopeless = true,
            }
            Ok(())
        })
    }
    /// None: it is not what was to be written.
    fn mended(mut self) -> Option<AlignedBuf> {
        set_page_lsn(&mut self.bytes, self.entry.lsn);
        seal(&mut self.bytes);
        let is_it = get_u32(&self.bytes, 0) == self.entry.checksum && check(&self.bytes, self.entry.page).is_ok();
        (is_it && !self.hopeless).then_some(self.bytes)
    }
}

//! Restoring torn pages, before redo: from their copies in the doublewrite file, or from the log.
//!
//! A torn write leaves each sector of a page as it was, at the *base* LSN, or as it was to be. If
//! all changes between the two were plain writes, applying them again in their order makes the new
//! version of either. Bytes that no change names are the same in both. The page's checksum,
//! recorded before the write (`doublewrite`), proves the result. Without the proof the page stays
//! broken.
//!
//! Why the log has all these changes: `docs/decisions/2026-11-26-pages-written-once.md`.
//!
//! It happens before redo, so that redo finds whole pages. A crash meanwhile leaves the same kind
//! of mixture. Takes no latch, and one lock of rank `Leaf` (`written`).
//! Called by: the engine's start.
use super::gather::{split, Piece};
use super::state::Recovery;
use super::void::Void;
use crate::base::bytes::get_u32;
use crate::base::{Lsn, PageId, Result};
use crate::io::{AlignedBuf, File};
use crate::pool::page::{check, seal, set_page_lsn, PAGE_SIZE};
use crate::pool::write::doublewrite::{Doublewrite, ListEntry, NAME};
use crate::redo::record::{decode, Record};
use std::collections::BTreeMap;

/// Calls its argument with each group from the checkpoint on: where the group ends, and its
/// records.
pub type ReadLog<'a> = dyn FnMut(&mut dyn FnMut(Lsn, &[u8]) -> Result<()>) -> Result<()> + 'a;

/// A page that was torn, and is being made whole.
struct TornPage {
    entry: ListEntry,
    bytes: AlignedBuf,
    /// A change was no plain write.
    hopeless: bool,
}

impl Recovery<'_> {
    /// Restores torn pages; before redo is applied and before anything is flushed. Data files are
    /// open. A copy that is older than what the log says of its page (`void`) belongs to the page
    /// no more. `read_log` reads the log from the checkpoint on.
    ///
    /// Returns how many pages were restored from copies, and how many the log has mended.
    pub fn restore_torn(&self, void: &Void, read_log: &mut ReadLog<'_>) -> Result<(usize, usize)> {
        let writer = self.reader.writer();
        if !writer.disk.exists(NAME)? {
            return Ok((0, 0));
        }
        let checkpoint = writer.redo.checkpoint_lsn();
        let doublewrite = Doublewrite::open(&*writer.disk)?;
        let mut restored = 0;
        for (id, (lsn, copy)) in doublewrite.copies()? {
            if !writer.files.contains(id.file) {
                continue;
            }
            if lsn <= checkpoint {
                // It was durable in place before the checkpoint passed it: an older page there is a
                // lost write.
                writer.written.note(std::iter::once((id, lsn)));
            }
            if lsn >= checkpoint && !void.holds(id, lsn) {
                restored += self.restore_copy(id, &copy)? as usize;
            }
        }
        let mut entries = doublewrite.entries()?;
        entries.retain(|entry| writer.files.contains(entry.page.file));
        let below = entries.iter().filter(|entry| entry.lsn <= checkpoint);
        writer.written.note(below.map(|entry| (entry.page, entry.lsn)));
        // As with copies: the log does not have all that came after a version below the checkpoint.
        // So redo would go wrong on that version.
        entries.retain(|entry| entry.lsn >= checkpoint && !void.holds(entry.page, entry.lsn));
        Ok((restored, self.mend(entries, read_log)?))
    }
    /// Puts the copy in the place of a broken page. False: the page in place is whole.
    fn restore_copy(&self, id: PageId, copy: &[u8]) -> Result<bool> {
        debug_assert_eq!(copy.len(), PAGE_SIZE, "a copy is one page");
        let file = self.reader.files().get(id.file)?.file;
        let offset = id.no as u64 * PAGE_SIZE as u64;
        let mut in_place = AlignedBuf::new(PAGE_SIZE);
        let whole = offset + PAGE_SIZE as u64 <= file.len()?
            && file.read_at(&mut in_place, offset).is_ok()
            && check(&in_place, id).is_ok();
        if whole {
            return Ok(false);
        }
        grow_to_hold(&*file, id)?;
        file.write_at(copy, offset)?;
        file.sync()?;
        Ok(true)
    }
    /// Mends those pages of the list that are broken, as far as that can be proved. Returns how
    /// many.
    fn mend(&self, entries: Vec<ListEntry>, read_log: &mut ReadLog<'_>) -> Result<usize> {
        let mut newest: BTreeMap<PageId, ListEntry> = BTreeMap::new();
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
                torn.insert(entry.page, TornPage { entry, bytes, hopeless });
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
                let file = self.reader.files().get(page.file)?.file;
                file.write_at(&whole, page.no as u64 * PAGE_SIZE as u64)?;
                file.sync()?;
                mended += 1;
            }
        }
        Ok(mended)
    }
    /// What is in the page's place, if that is not the page.
    fn torn_bytes(&self, page: PageId) -> Result<Option<AlignedBuf>> {
        let file = self.reader.files().get(page.file)?.file;
        let offset = page.no as u64 * PAGE_SIZE as u64;
        if file.len()? < offset + PAGE_SIZE as u64 {
            return Ok(None);
        }
        let mut bytes = AlignedBuf::new(PAGE_SIZE);
        // Redo asks for a page that the disk fails to read, and ends there.
        let is_read = file.read_at(&mut bytes, offset).is_ok();
        Ok((is_read && check(&bytes, page).is_err()).then_some(bytes))
    }
}

impl TornPage {
    fn apply(&mut self, records: &[u8]) -> Result<()> {
        decode(records, |record| {
            match record {
                Record::Write { offset, data } => self.bytes[offset..offset + data.len()].copy_from_slice(data),
                _ => self.hopeless = true,
            }
            Ok(())
        })
    }
    /// The whole page. None: it is not what was to be written.
    fn mended(mut self) -> Option<AlignedBuf> {
        set_page_lsn(&mut self.bytes, self.entry.lsn);
        seal(&mut self.bytes);
        let is_it = get_u32(&self.bytes, 0) == self.entry.checksum && check(&self.bytes, self.entry.page).is_ok();
        (is_it && !self.hopeless).then_some(self.bytes)
    }
}

/// A file may be shorter than its redo says: its growth was not durable yet at the crash.
pub(super) fn grow_to_hold(file: &dyn File, id: PageId) -> Result<()> {
    let need = (id.no as u64 + 1) * PAGE_SIZE as u64;
    if file.len()? < need {
        file.set_len(need)?;
    }
    Ok(())
}

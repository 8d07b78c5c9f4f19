//! What the log says of each page, kept by page and applied when the page is read. The formats are
//! drawn in `engine/src/redo/record.rs`. Memory: about the size of the log after its checkpoint.
use crate::bytes::{u32_at, u64_at, Reader};
use crate::page::PAGE;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

enum Edit {
    Write { offset: usize, data: Vec<u8> },
    Move { dst: usize, src: usize, len: usize },
    Image { low: Vec<u8>, high: Vec<u8> },
}

/// LSN after a group, and its edits of one page.
type Group = (u64, Vec<Edit>);

#[derive(Default)]
pub struct Redo {
    /// By page: the edits of each group that changed it, with the LSN after the group.
    pages: HashMap<(u32, u32), Vec<Group>>,
    pub dropped: BTreeSet<u32>,
    pub made: BTreeSet<u32>,
}

impl Redo {
    pub fn add(&mut self, end: u64, group: &[u8]) -> Result<(), String> {
        let mut reader = Reader::new(group);
        let mut about = None;
        while !reader.is_at_end() {
            let record = self.record(&mut reader, &mut about, end);
            record.ok_or("a record cannot be decoded")?;
        }
        Ok(())
    }

    fn record(&mut self, reader: &mut Reader<'_>, about: &mut Option<(u32, u32)>, end: u64) -> Option<()> {
        let edit = match reader.u8()? {
            0x01 => {
                *about = Some((reader.u32()?, reader.u32()?));
                return Some(());
            }
            0x02 => {
                let offset = reader.varint()? as usize;
                let data = reader.bytes()?.to_vec();
                (offset + data.len() <= PAGE).then_some(Edit::Write { offset, data })?
            }
            0x03 => {
                let (dst, src, len) = (
                    reader.varint()? as usize,
                    reader.varint()? as usize,
                    reader.varint()? as usize,
                );
                (dst + len <= PAGE && src + len <= PAGE).then_some(Edit::Move { dst, src, len })?
            }
            0x04 => {
                let (low, high) = (reader.bytes()?.to_vec(), reader.bytes()?.to_vec());
                (low.len() + high.len() <= PAGE).then_some(Edit::Image { low, high })?
            }
            0x10 => {
                self.made.insert(reader.u32()?);
                return reader.bytes().map(|_| ());
            }
            0x11 => {
                self.dropped.insert(reader.u32()?);
                return Some(());
            }
            // What the log said of these pages before is void: they were written past it.
            0x12 => {
                let (file, first, count) = (reader.u32()?, reader.u32()?, reader.u32()?);
                for no in first..first.checked_add(count)? {
                    if let Some(groups) = self.pages.get_mut(&(file, no)) {
                        groups.retain(|(group, _)| *group == end);
                    }
                }
                return Some(());
            }
            // The file ends there: what the log says of later pages is void.
            0x13 => {
                let (file, first) = (reader.u32()?, reader.u32()?);
                for (_, groups) in self.pages.iter_mut().filter(|(id, _)| id.0 == file && id.1 >= first) {
                    groups.retain(|(group, _)| *group == end);
                }
                self.pages.retain(|_, groups| !groups.is_empty());
                return Some(());
            }
            0x20 => return reader.varint().and_then(|_| reader.bytes()).map(|_| ()),
            _ => return None,
        };
        let groups = self.pages.entry((*about)?).or_default();
        match groups.last_mut() {
            Some((last, edits)) if *last == end => edits.push(edit),
            _ => groups.push((end, vec![edit])),
        }
        Some(())
    }

    /// What it says of files stays.
    pub fn forget_pages(&mut self) {
        self.pages.clear();
    }
    /// Pages that the log has changes for.
    pub fn pages(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.pages.keys().copied()
    }

    /// Repeats the writes of the groups that end after `lsns.start`, up to `lsns.end`, and sets the
    /// page's LSN. False: there are records other than plain writes.
    pub fn write_again(&self, file: u32, no: u32, lsns: Range<u64>, page: &mut [u8]) -> bool {
        let groups = self.pages.get(&(file, no)).into_iter().flatten();
        for (_, edits) in groups.filter(|(end, _)| lsns.start < *end && *end <= lsns.end) {
            for edit in edits {
                let Edit::Write { offset, data } = edit else {
                    return false;
                };
                page[*offset..*offset + data.len()].copy_from_slice(data);
            }
        }
        page[16..24].copy_from_slice(&lsns.end.to_le_bytes());
        true
    }

    /// Brings a page up to the end of the log. `whole`: the page as read is valid. True: the log
    /// changed it.
    pub fn apply(&self, file: u32, no: u32, page: &mut [u8], whole: &mut bool) -> bool {
        let Some(groups) = self.pages.get(&(file, no)) else {
            return false;
        };
        let mut changed = false;
        for (end, edits) in groups {
            let begins_anew = matches!(edits.first(), Some(Edit::Image { .. }));
            if (*whole && u64_at(page, 16) >= *end) || !(*whole || begins_anew) {
                continue;
            }
            for edit in edits {
                match edit {
                    Edit::Write { offset, data } => page[*offset..*offset + data.len()].copy_from_slice(data),
                    Edit::Move { dst, src, len } => page.copy_within(*src..*src + *len, *dst),
                    Edit::Image { low, high } => {
                        page.fill(0);
                        page[..low.len()].copy_from_slice(low);
                        page[PAGE - high.len()..].copy_from_slice(high);
                    }
                }
            }
            page[16..24].copy_from_slice(&end.to_le_bytes());
            *whole = true;
            changed = true;
        }
        debug_assert!(!changed || u32_at(page, 8) == no);
        changed
    }
}

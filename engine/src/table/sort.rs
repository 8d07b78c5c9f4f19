//! External merge sort for index builds: entries gather in memory up to a budget, then go to a file as one sorted run; at the end
//! the runs are merged.
//!
//! A run's file is named `tmp_*`: whatever is left of one is removed when the engine is opened. A record of a run leaves out what it
//! has in common with the record before, because what is written here comes on top of the index itself:
//! ```text
//! shared varint   bytes of the key that are those of the key before
//! rest   bytes    the key's other bytes
//! note   varint   twice the caller's number; + 1: the value is the one before
//! value  bytes    unless it is that
//! ```
//! bytes = varint length + data.
use crate::base::bytes::{common_prefix, push_bytes, push_varint, take_bytes, take_varint};
use crate::base::{Error, Result};
use crate::io::{Caching, Disk, File, Mode, IO_ALIGN};
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Bytes read or written of a run at once.
const CHUNK: usize = 256 << 10;
/// What an entry costs in memory beside its bytes.
const ENTRY_OVERHEAD: usize = std::mem::size_of::<Slot>();

#[derive(Clone, Copy)]
struct Slot {
    /// The key's first bytes as a number: most comparisons need no more.
    head: u64,
    at: usize,
    key_len: u32,
    value_len: u32,
    note: u64,
}

/// Takes key, value and note of each entry.
type EachEntry<'a> = &'a mut dyn FnMut(&[u8], &[u8], u64) -> Result<()>;

pub(super) struct Sorter {
    disk: Arc<dyn Disk>,
    budget: usize,
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    runs: Vec<Run>,
    total: u64,
}

/// A sorted run in a file, which goes with it.
struct Run {
    disk: Arc<dyn Disk>,
    name: String,
    file: Arc<dyn File>,
    len: u64,
}

impl Drop for Run {
    fn drop(&mut self) {
        // Left behind it would be removed at the next open.
        let _ = self.disk.remove(&self.name);
    }
}

impl Sorter {
    pub fn new(disk: Arc<dyn Disk>, budget: u64) -> Sorter {
        Sorter {
            disk,
            budget: (budget as usize).max(CHUNK),
            bytes: Vec::new(),
            slots: Vec::new(),
            runs: Vec::new(),
            total: 0,
        }
    }
    /// Bytes of all keys and values.
    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn push(&mut self, key: &[u8], value: &[u8], note: u64) -> Result<()> {
        let used = self.bytes.len() + self.slots.len() * ENTRY_OVERHEAD;
        if !self.slots.is_empty() && used + key.len() + value.len() > self.budget {
            self.spill()?;
        }
        self.total += (key.len() + value.len()) as u64;
        self.slots.push(Slot {
            head: head_of(key),
            at: self.bytes.len(),
            key_len: key.len() as u32,
            value_len: value.len() as u32,
            note,
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        Ok(())
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        let key = |s: &Slot| &bytes[s.at..s.at + s.key_len as usize];
        self.slots
            .sort_unstable_by(|a, b| a.head.cmp(&b.head).then_with(|| key(a).cmp(key(b))));
    }
    fn entry(&self, slot: &Slot) -> (&[u8], &[u8]) {
        let end = slot.at + slot.key_len as usize + slot.value_len as usize;
        self.bytes[slot.at..end].split_at(slot.key_len as usize)
    }

    fn spill(&mut self) -> Result<()> {
        self.sort();
        let name = format!("tmp_sort_{:016x}", self.disk.random());
        let file = self.disk.open(&name, Mode::Create, Caching::Buffered)?;
        let mut run = Run {
            disk: self.disk.clone(),
            name,
            file,
            len: 0,
        };
        let mut out = Vec::with_capacity(CHUNK + (64 << 10));
        let mut before: (&[u8], &[u8]) = (&[], &[]);
        for slot in &self.slots {
            let (key, value) = self.entry(slot);
            let shared = common_prefix(before.0, key);
            push_varint(&mut out, shared as u64);
            push_bytes(&mut out, &key[shared..]);
            let same = value == before.1;
            push_varint(&mut out, slot.note << 1 | same as u64);
            if !same {
                push_bytes(&mut out, value);
            }
            before = (key, value);
            if out.len() >= CHUNK {
                let whole = out.len() / IO_ALIGN * IO_ALIGN;
                run.file.write_at(&out[..whole], run.len)?;
                run.len += whole as u64;
                out.drain(..whole);
            }
        }
        run.file.write_at(&out, run.len)?;
        run.len += out.len() as u64;
        self.runs.push(run);
        self.bytes.clear();
        self.slots.clear();
        Ok(())
    }

    /// Hands out all entries in key order.
    pub fn merge(mut self, each: EachEntry<'_>) -> Result<()> {
        if self.runs.is_empty() {
            self.sort();
            for slot in &self.slots {
                let (key, value) = self.entry(slot);
                each(key, value, slot.note)?;
            }
            return Ok(());
        }
        if !self.slots.is_empty() {
            self.spill()?;
        }
        self.bytes = Vec::new();
        let mut readers: Vec<Reader<'_>> = self.runs.iter().map(Reader::new).collect();
        let mut heap = BinaryHeap::new();
        for (i, reader) in readers.iter_mut().enumerate() {
            if reader.advance()? {
                heap.push(Reverse((head_of(&reader.key), reader.key.clone(), i)));
            }
        }
        while let Some(mut least) = heap.peek_mut() {
            let Reverse((head, key, i)) = &mut *least;
            let reader = &mut readers[*i];
            each(key, &reader.value, reader.note)?;
            if reader.advance()? {
                *head = head_of(&reader.key);
                key.clone_from(&reader.key);
            } else {
                PeekMut::pop(least);
            }
        }
        Ok(())
    }
}

fn head_of(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    let n = key.len().min(8);
    head[..n].copy_from_slice(&key[..n]);
    u64::from_be_bytes(head)
}

/// Reads a run from its start.
struct Reader<'r> {
    run: &'r Run,
    /// File position behind `chunk`.
    read: u64,
    chunk: Vec<u8>,
    at: usize,
    key: Vec<u8>,
    value: Vec<u8>,
    note: u64,
}

impl<'r> Reader<'r> {
    fn new(run: &'r Run) -> Reader<'r> {
        Reader {
            run,
            read: 0,
            chunk: Vec::new(),
            at: 0,
            key: Vec::new(),
            value: Vec::new(),
            note: 0,
        }
    }
    /// To the next entry. False: the run ends.
    fn advance(&mut self) -> Result<bool> {
        loop {
            if self.take().is_some() {
                return Ok(true);
            }
            if self.read == self.run.len {
                if self.at == self.chunk.len() {
                    return Ok(false);
                }
                return Err(Error::Corrupt(format!(
                    "sort file {} ends inside an entry",
                    self.run.name
                )));
            }
            self.chunk.drain(..self.at);
            self.at = 0;
            let n = (self.run.len - self.read).min(CHUNK as u64) as usize;
            let start = self.chunk.len();
            self.chunk.resize(start + n, 0);
            self.run.file.read_at(&mut self.chunk[start..], self.read)?;
            self.read += n as u64;
        }
    }
    /// The entry at `at`, if all of it has been read.
    fn take(&mut self) -> Option<()> {
        let mut at = self.at;
        let shared = take_varint(&self.chunk, &mut at)? as usize;
        let rest = take_bytes(&self.chunk, &mut at)?;
        let note = take_varint(&self.chunk, &mut at)?;
        if note & 1 == 0 {
            let value = take_bytes(&self.chunk, &mut at)?;
            self.value.clear();
            self.value.extend_from_slice(value);
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(rest);
        self.note = note >> 1;
        self.at = at;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::sim::SimDisk;

    #[test]
    fn entries_come_out_sorted_however_many_runs() {
        for budget in [0, 1 << 20, 64 << 20] {
            let disk = SimDisk::new(3);
            let mut sorter = Sorter::new(disk.clone(), budget);
            let mut expected = Vec::new();
            for i in 0..30_000u64 {
                let x = i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
                let value = vec![i as u8; (i % 40) as usize];
                sorter.push(&x, &value, i).expect("room");
                expected.push((x.to_vec(), value, i));
            }
            expected.sort();
            let spilled = sorter.runs.len();
            assert_eq!(spilled > 0, budget < 64 << 20, "{spilled} runs with {budget} bytes");
            let mut got = Vec::new();
            let each = &mut |k: &[u8], v: &[u8], n| {
                got.push((k.to_vec(), v.to_vec(), n));
                Ok(())
            };
            sorter.merge(each).expect("merge");
            assert_eq!(got, expected);
            let left: Vec<_> = disk.list().expect("list");
            assert!(left.is_empty(), "run files are gone: {left:?}");
        }
    }
}

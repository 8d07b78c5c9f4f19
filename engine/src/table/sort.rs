//! External merge sort for index builds: entries gather in memory up to a budget, then go to a file as one sorted run; at the end
//! the runs are merged, with what is still in memory.
//!
//! A run's file is named `tmp_*`: whatever is left of one is removed when the engine is opened. A record of a run leaves out what it
//! has in common with the record before, because what is written here comes on top of the index itself:
//! ```text
//! shared varint   bytes of the key that are those of the key before
//! rest   bytes    the key's other bytes
//! note   varint   four times the caller's number, and how the value is written:
//!                 0 bytes; 1 it is the one before; 2 a piece of it is in the key (an index over texts that are their own weights);
//!                 3 the same, with head, place and tail of the last 2:
//! len    varint   (if 2 or 3) of the piece
//! at     varint   (if 2) its place in the key
//! head   bytes    (if 2) before the piece
//! tail   bytes    (if 2) behind the piece
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
        let mut frame = None;
        for slot in &self.slots {
            let (key, value) = self.entry(slot);
            let shared = common_prefix(before.0, key);
            push_varint(&mut out, shared as u64);
            push_bytes(&mut out, &key[shared..]);
            push_value(&mut out, slot.note, key, value, before.1, &mut frame);
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
        self.sort();
        let mut sources: Vec<Source<'_>> = (self.runs.iter().map(|run| Source::Run(Reader::new(run))))
            .chain([Source::Memory { sorter: &self, next: 0 }])
            .collect();
        let mut heap = BinaryHeap::new();
        for (i, source) in sources.iter_mut().enumerate() {
            if source.advance()? {
                let (key, ..) = source.entry();
                heap.push(Reverse((head_of(key), key.to_vec(), i)));
            }
        }
        while let Some(mut least) = heap.peek_mut() {
            let Reverse((head, key, i)) = &mut *least;
            let source = &mut sources[*i];
            let (_, value, note) = source.entry();
            each(key, value, note)?;
            if source.advance()? {
                let (next, ..) = source.entry();
                *head = head_of(next);
                key.clear();
                key.extend_from_slice(next);
            } else {
                PeekMut::pop(least);
            }
        }
        Ok(())
    }
}

/// Where entries come from in order: [`Source::advance`], then [`Source::entry`].
enum Source<'s> {
    Run(Reader<'s>),
    /// The last entries: writing them out only to read them back would cost twice.
    Memory {
        sorter: &'s Sorter,
        next: usize,
    },
}

impl Source<'_> {
    /// False: there are no more.
    fn advance(&mut self) -> Result<bool> {
        match self {
            Source::Run(reader) => reader.advance(),
            Source::Memory { sorter, next } => {
                *next += 1;
                Ok(*next <= sorter.slots.len())
            }
        }
    }
    /// Key, value and note.
    fn entry(&self) -> (&[u8], &[u8], u64) {
        match self {
            Source::Run(reader) => (&reader.key, &reader.value, reader.note),
            Source::Memory { sorter, next } => {
                let slot = &sorter.slots[*next - 1];
                let (key, value) = sorter.entry(slot);
                (key, value, slot.note)
            }
        }
    }
}

const WHOLE: u64 = 0;
const SAME: u64 = 1;
const IN_KEY: u64 = 2;
const FRAMED: u64 = 3;
/// Shorter values are not looked for in the key.
const PIECE_MIN: usize = 16;

/// What a value has around a piece of its key.
#[derive(Default, PartialEq, Eq)]
struct Frame<B> {
    /// Place of the piece in the key.
    at: usize,
    head: B,
    tail: B,
}

/// Note and value of an entry. `frame`: the last one written.
fn push_value<'b>(
    out: &mut Vec<u8>,
    note: u64,
    key: &[u8],
    value: &'b [u8],
    before: &[u8],
    frame: &mut Option<Frame<&'b [u8]>>,
) {
    if value == before {
        return push_varint(out, note << 2 | SAME);
    }
    let Some((start, at, len)) = piece_in(key, value) else {
        push_varint(out, note << 2 | WHOLE);
        return push_bytes(out, value);
    };
    let (head, tail) = (&value[..start], &value[start + len..]);
    let now = Some(Frame { at, head, tail });
    let kind = if *frame == now { FRAMED } else { IN_KEY };
    push_varint(out, note << 2 | kind);
    push_varint(out, len as u64);
    if kind == IN_KEY {
        push_varint(out, at as u64);
        push_bytes(out, head);
        push_bytes(out, tail);
        *frame = now;
    }
}

/// A piece of the value, from its middle out, that is in the key too: (start in the value, place in the key, length).
fn piece_in(key: &[u8], value: &[u8]) -> Option<(usize, usize, usize)> {
    if value.len() < PIECE_MIN || key.len() < PIECE_MIN {
        return None;
    }
    let middle = value.len() / 2;
    let anchor = &value[middle..middle + 8];
    let found = key.windows(8).position(|w| w == anchor)?;
    let left = (value[..middle].iter().rev().zip(key[..found].iter().rev()))
        .take_while(|(a, b)| a == b)
        .count();
    let right = common_prefix(&value[middle..], &key[found..]);
    Some((middle - left, found - left, left + right))
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
    frame: Frame<Vec<u8>>,
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
            frame: Frame::default(),
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
                return Err(Error::corrupt(format!(
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
        // Everything of the entry is there before anything is changed: it may have to be taken again.
        let whole = match note & 3 {
            WHOLE => Some(take_bytes(&self.chunk, &mut at)?),
            _ => None,
        };
        let piece = match note & 3 {
            IN_KEY | FRAMED => Some(take_varint(&self.chunk, &mut at)? as usize),
            _ => None,
        };
        let frame = match note & 3 {
            IN_KEY => Some(Frame {
                at: take_varint(&self.chunk, &mut at)? as usize,
                head: take_bytes(&self.chunk, &mut at)?,
                tail: take_bytes(&self.chunk, &mut at)?,
            }),
            _ => None,
        };
        self.key.truncate(shared);
        self.key.extend_from_slice(rest);
        if let Some(whole) = whole {
            self.value.clear();
            self.value.extend_from_slice(whole);
        }
        if let Some(Frame { at, head, tail }) = frame {
            self.frame = Frame {
                at,
                head: head.to_vec(),
                tail: tail.to_vec(),
            };
        }
        if let Some(len) = piece {
            let Frame { at, head, tail } = &self.frame;
            self.value.clear();
            self.value.extend_from_slice(head);
            self.value.extend_from_slice(&self.key[*at..at + len]);
            self.value.extend_from_slice(tail);
        }
        self.note = note >> 2;
        self.at = at;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::sim::SimDisk;

    /// An index over texts has each of them twice: as weights in the key, and as it is in the value.
    #[test]
    fn a_text_is_not_written_twice() {
        for (shapes, permille) in [(5, 625), (1, 520)] {
            let disk = SimDisk::new(4);
            let mut sorter = Sorter::new(disk.clone(), 1 << 20);
            let mut expected = Vec::new();
            for i in 0..20_000u64 {
                let hash = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let text: String = (0..8)
                    .map(|n| format!("{:08x}", hash.rotate_left(n * 7) as u32))
                    .collect();
                let key = [&[1], text.as_bytes(), &i.to_be_bytes()].concat();
                let value = match i % shapes {
                    1 => text[..20].to_uppercase().into_bytes(),
                    2 => [b"ab", text.as_bytes()].concat(),
                    3 => [text.as_bytes(), b"behind"].concat(),
                    _ => [&[0; 7], &text.as_bytes()[..60 + i as usize % 4], &[9]].concat(),
                };
                sorter.push(&key, &value, i).expect("room");
                expected.push((key, value, i));
            }
            expected.sort();
            let bytes = sorter.total();
            let written: u64 = sorter.runs.iter().map(|r| r.len).sum();
            assert!(
                written > 0 && written < bytes * permille / 1000,
                "{written} of {bytes} bytes written"
            );
            let mut got = Vec::new();
            let each = &mut |k: &[u8], v: &[u8], n| {
                got.push((k.to_vec(), v.to_vec(), n));
                Ok(())
            };
            sorter.merge(each).expect("merge");
            assert!(got == expected);
        }
    }

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
                if got.is_empty() {
                    assert_eq!(disk.list()?.len(), spilled, "what is in memory is merged from there");
                }
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

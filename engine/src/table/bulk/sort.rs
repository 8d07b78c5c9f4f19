//! External merge sort for index builds. Entries gather in memory up to a budget, then go to a file
//! as one sorted run (`sort_run.rs`). At the end the runs are merged with the entries still in
//! memory.
//!
//! A merge reads a piece of each run, and all pieces together fit the budget. Pieces have a minimum
//! size, so one merge takes a limited number of runs. If there are more, some are merged into
//! longer ones first: the shortest ones, and as few as necessary.
//!
//! Called by index builds and loads, with no latch held.
use crate::base::Result;
use crate::io::{Disk, IO_ALIGN};
use crate::table::bulk::sort_run::{place_for_run, Reader, Run, RunPlace, Writer, CHUNK};
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// Bytes read of a run at once, at least. Smaller pieces cost more calls, and more seeks where the
/// system's cache does not hold the runs.
const CHUNK_MIN: usize = 32 << 10;
/// Runs that one merge takes at least, whatever the budget. They take 8 MiB, once in a build, whose
/// sorters merge one after the other. With fewer, most entries would be written once more. A budget
/// of 4 MiB is an index's share in a pool of 128 MiB; it leaves 150 runs of some 600 MB.
const RUNS_MIN: usize = 256;

/// Entries between two checks of `Waiter::killed`.
const KILL_POLL: u64 = 4096;

/// Memory of an entry besides its bytes.
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
/// Called repeatedly; an error ends the work.
pub(in crate::table) type Poll<'a> = &'a mut dyn FnMut() -> Result<()>;

pub(in crate::table) struct Sorter {
    disk: Arc<dyn Disk>,
    budget: usize,
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    runs: Vec<Run>,
    /// Where the last run written ends.
    next_run: Option<RunPlace>,
    total: u64,
}

impl Sorter {
    pub fn new(disk: Arc<dyn Disk>, budget: u64) -> Sorter {
        Sorter {
            disk,
            budget: (budget as usize).max(CHUNK),
            bytes: Vec::new(),
            slots: Vec::new(),
            runs: Vec::new(),
            next_run: None,
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
        debug_assert!(
            key.len() <= u32::MAX as usize && value.len() <= u32::MAX as usize,
            "lengths of a slot"
        );
        self.slots.push(Slot {
            head: head_of(key),
            at: self.bytes.len(),
            key_len: key.len() as u32,
            value_len: value.len() as u32,
            note,
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        debug_assert!(
            self.slots.len() == 1
                || self.bytes.len() + self.slots.len() * ENTRY_OVERHEAD <= self.budget + ENTRY_OVERHEAD,
            "the entries in memory keep to the budget, unless a single one exceeds it"
        );
        Ok(())
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        let key = |s: &Slot| &bytes[s.at..s.at + s.key_len as usize];
        self.slots
            .sort_unstable_by(|a, b| a.head.cmp(&b.head).then_with(|| key(a).cmp(key(b))));
        debug_assert!(
            self.slots
                .is_sorted_by(|before, after| self.entry(before).0 <= self.entry(after).0),
            "the heads of keys have the keys' order"
        );
    }
    fn entry(&self, slot: &Slot) -> (&[u8], &[u8]) {
        let end = slot.at + slot.key_len as usize + slot.value_len as usize;
        self.bytes[slot.at..end].split_at(slot.key_len as usize)
    }

    fn new_run(&mut self) -> Result<Writer> {
        let place = place_for_run(&self.disk, self.next_run.take())?;
        self.next_run = Some(place.clone());
        Ok(Writer::new(place))
    }
    fn keep_run(&mut self, run: Run) {
        debug_assert!(run.len > 0, "a run has entries");
        self.next_run = Some(run.next_place());
        self.runs.push(run);
    }

    fn spill(&mut self) -> Result<()> {
        self.sort();
        let mut run = self.new_run()?;
        for slot in &self.slots {
            let (key, value) = self.entry(slot);
            run.push(key, value, slot.note)?;
        }
        self.keep_run(run.end()?);
        self.bytes.clear();
        self.slots.clear();
        Ok(())
    }

    /// Runs that one merge takes.
    fn runs_max(&self) -> usize {
        (self.budget / CHUNK_MIN).max(RUNS_MIN)
    }
    /// Bytes to read of each of so many runs at once.
    fn chunk(&self, runs: usize) -> usize {
        let share = self.budget / runs.max(1);
        let chunk = share.clamp(CHUNK_MIN, CHUNK) / IO_ALIGN * IO_ALIGN;
        debug_assert!(chunk >= CHUNK_MIN, "CHUNK_MIN is aligned");
        chunk
    }

    /// Merges runs into longer ones, until one merge takes all that remain. An error of `poll` ends
    /// the work.
    fn reduce_runs(&mut self, poll: Poll<'_>) -> Result<()> {
        let runs_max = self.runs_max();
        while self.runs.len() > runs_max {
            // Only the first merge takes fewer runs than possible. Then all others take the most,
            // and the fewest entries are written again.
            let surplus = self.runs.len() - runs_max;
            let n = (surplus - 1) % (runs_max - 1) + 2;
            debug_assert!(
                (2..=runs_max).contains(&n),
                "a merge takes two runs at least, and no more than it can"
            );
            self.runs.sort_by_key(|run| run.len);
            let shortest: Vec<Run> = self.runs.drain(..n).collect();
            let chunk = self.chunk(n);
            let mut longer = self.new_run()?;
            let mut count = 0u64;
            let sources = shortest.iter().map(|run| Source::Run(Reader::new(run, chunk)));
            merge_sources(sources.collect(), &mut |key, value, note| {
                count += 1;
                if count % KILL_POLL == 0 {
                    poll()?;
                }
                longer.push(key, value, note)
            })?;
            self.keep_run(longer.end()?);
        }
        Ok(())
    }

    /// Hands out all entries in key order. `poll` as in `reduce_runs`.
    pub fn merge(mut self, poll: Poll<'_>, each: EachEntry<'_>) -> Result<()> {
        self.reduce_runs(poll)?;
        self.sort();
        let (mut count, mut bytes) = (0u64, 0u64);
        let each = &mut |key: &[u8], value: &[u8], note| {
            count += 1;
            bytes += (key.len() + value.len()) as u64;
            if count % KILL_POLL == 0 {
                poll()?;
            }
            each(key, value, note)
        };
        if self.runs.is_empty() {
            for slot in &self.slots {
                let (key, value) = self.entry(slot);
                each(key, value, slot.note)?;
            }
        } else {
            let chunk = self.chunk(self.runs.len());
            let runs = self.runs.iter().map(|run| Source::Run(Reader::new(run, chunk)));
            let memory = Source::Memory { sorter: &self, next: 0 };
            merge_sources(runs.chain([memory]).collect(), each)?;
        }
        debug_assert_eq!(bytes, self.total, "each entry is handed out once");
        Ok(())
    }
}

fn merge_sources(mut sources: Vec<Source<'_>>, each: EachEntry<'_>) -> Result<()> {
    debug_assert!(!sources.is_empty(), "a merge has something to merge");
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
            debug_assert!(next >= &key[..], "a source is sorted");
            *head = head_of(next);
            key.clear();
            key.extend_from_slice(next);
        } else {
            PeekMut::pop(least);
        }
    }
    Ok(())
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

fn head_of(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    let n = key.len().min(8);
    head[..n].copy_from_slice(&key[..n]);
    u64::from_be_bytes(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Error;
    use crate::io::sim::SimDisk;
    use crate::io::{Caching, Mode};

    fn bytes_of(runs: &[Run]) -> u64 {
        runs.iter().map(|run| run.len).sum()
    }
    /// Files of runs, and their bytes.
    fn files(disk: &SimDisk) -> (usize, u64) {
        let names = disk.list().expect("list");
        let len = |name: &String| {
            let file = disk.open(name, Mode::Open, Caching::Buffered).expect("open");
            file.len().expect("len")
        };
        (names.len(), names.iter().map(len).sum())
    }

    /// An index over texts has each of them twice: as weights in the key, and as it is in the
    /// value.
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
            let written = bytes_of(&sorter.runs);
            assert!(
                written > 0 && written < bytes * permille / 1000,
                "{written} of {bytes} bytes written"
            );
            let mut got = Vec::new();
            let each = &mut |k: &[u8], v: &[u8], n| {
                got.push((k.to_vec(), v.to_vec(), n));
                Ok(())
            };
            sorter.merge(&mut || Ok(()), each).expect("merge");
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
            let written = files(&disk);
            let mut got = Vec::new();
            let each = &mut |k: &[u8], v: &[u8], n| {
                if got.is_empty() {
                    assert_eq!(files(&disk), written, "what is in memory is merged from there");
                }
                got.push((k.to_vec(), v.to_vec(), n));
                Ok(())
            };
            sorter.merge(&mut || Ok(()), each).expect("merge");
            assert_eq!(got, expected);
            let left: Vec<_> = disk.list().expect("list");
            assert!(left.is_empty(), "run files are gone: {left:?}");
        }
    }

    #[test]
    fn a_merge_can_be_killed() {
        for budget in [0, 1 << 20] {
            let mut sorter = Sorter::new(SimDisk::new(7), budget);
            for n in 0..3 * KILL_POLL {
                sorter.push(&n.to_be_bytes(), &[], 0).expect("room");
            }
            let mut seen = 0;
            let done = sorter.merge(&mut || Err(Error::Interrupted), &mut |_, _, _| {
                seen += 1;
                Ok(())
            });
            assert_eq!(done, Err(Error::Interrupted));
            assert!(seen <= KILL_POLL);
        }
    }

    /// Neither descriptors nor memory grow with the runs. No more is written again than has to be.
    #[test]
    fn many_runs_take_no_more_files_and_memory_than_few() {
        let disk = SimDisk::new(6);
        let mut sorter = Sorter::new(disk.clone(), 0);
        let (mut expected, mut n) = (Vec::new(), 0u64);
        while sorter.runs.len() < 5 * RUNS_MIN {
            let key = n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
            // Few different ones, so that most are not written.
            sorter.push(&key, &[key[0] >> 5; 3000], n).expect("room");
            expected.push((key, n));
            n += 1;
        }
        expected.sort();
        let before = bytes_of(&sorter.runs);
        assert_eq!(files(&disk).0, 1);
        let mut polls = 0;
        let mut poll = || {
            polls += 1;
            Ok(())
        };
        sorter.reduce_runs(&mut poll).expect("thin");
        assert!(polls > 0, "it can be killed");
        assert_eq!(sorter.runs.len(), RUNS_MIN);
        let (opened, after) = files(&disk);
        assert_eq!(opened, 1);
        assert!(after < 2 * before, "{after} bytes written for {before}");
        assert!(RUNS_MIN * sorter.chunk(RUNS_MIN) <= 8 << 20);
        let mut got = Vec::new();
        let each = &mut |k: &[u8], v: &[u8], n| {
            assert_eq!(v, [k[0] >> 5; 3000]);
            got.push((k.try_into().expect("8 bytes"), n));
            Ok(())
        };
        sorter.merge(&mut || Ok(()), each).expect("merge");
        assert!(got == expected);
        assert_eq!(files(&disk).0, 0);
    }

    /// Of what CREATE INDEX usually sorts, nothing is written twice.
    #[test]
    fn a_few_hundred_runs_of_the_default_size_are_merged_at_once() {
        let sorter = Sorter::new(SimDisk::new(7), 16 << 20);
        assert!(sorter.runs_max() >= 512 && sorter.chunk(64) == CHUNK);
    }
}

//! The log as a whole: what was flushed is read back, whatever happened in between.
use super::block::{self, BLOCK, BLOCK_DATA};
use super::control::CONTROL_FILE;
use super::reader::{scan, ScanEnd};
use super::ring::{file_offset, list_segments, segment_name, segment_size_for, SEGMENT_HEADER};
use super::*;
use crate::base::{Counters, Error, Lsn, Result};
use crate::io::sim::Fault;
use crate::io::{Disk, SimDisk};
use proptest::prelude::*;
use std::sync::Arc;

const CAPACITY: u64 = 1 << 20;

fn config() -> RedoConfig {
    RedoConfig {
        capacity: CAPACITY,
        buffer_size: 256 << 10,
        direct_io: true,
    }
}
fn create(disk: &Arc<SimDisk>) -> Redo {
    Redo::create(disk.clone(), config(), Arc::default()).unwrap()
}
/// Recovers: groups since the checkpoint, and the log opened behind them.
fn reopen(disk: &Arc<SimDisk>) -> Result<(Vec<Vec<u8>>, ScanEnd, Redo)> {
    let (checkpoint, _) = Redo::read_checkpoint(&**disk)?;
    let (groups, end) = read(disk, checkpoint)?;
    let redo = Redo::open(disk.clone(), config(), Arc::default(), checkpoint, end.lsn)?;
    Ok((groups, end, redo))
}
fn read(disk: &Arc<SimDisk>, from: Lsn) -> Result<(Vec<Vec<u8>>, ScanEnd)> {
    let mut groups = Vec::new();
    let mut last = from;
    let end = scan(&**disk, from, &mut |start, end, group| {
        assert!(start >= last && end > start, "groups come in order");
        last = end;
        groups.push(group.to_vec());
        Ok(())
    })?;
    assert!(end.lsn >= last);
    Ok((groups, end))
}
/// A group that says which it is.
fn group(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(len.max(8), number as u8);
    bytes
}
fn number_of(group: &[u8]) -> u64 {
    assert!(group[8..].iter().all(|b| *b == group[0]), "a group comes back whole");
    u64::from_le_bytes(group[..8].try_into().unwrap())
}

#[test]
fn an_empty_log_opens_empty() {
    let disk = SimDisk::new(1);
    assert!(!Redo::exists(&*disk).unwrap());
    drop(create(&disk));
    assert!(Redo::exists(&*disk).unwrap());
    let disk = disk.crash(1);
    for _ in 0..300 {
        let (groups, end, redo) = reopen(&disk).unwrap();
        assert!(groups.is_empty() && !end.torn && end.lsn == FIRST_LSN);
        assert_eq!((redo.lsn(), redo.durable_lsn()), (FIRST_LSN, FIRST_LSN));
    }
}

#[test]
fn lsns_are_contiguous_and_skip_headers() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    let mut before = redo.lsn();
    for i in 0..2000 {
        let (start, end) = redo.append(&group(i, (i % 700) as usize));
        assert_eq!(start, before);
        assert!(end % BLOCK as u64 >= 16);
        before = end;
    }
    assert_eq!(redo.lsn(), before);
    redo.flush(before, FlushMode::Sync).unwrap();
    assert_eq!(redo.durable_lsn(), before);
    let (groups, end) = read(&disk, FIRST_LSN).unwrap();
    assert_eq!(groups.len(), 2000);
    assert_eq!(
        end,
        ScanEnd {
            lsn: before,
            torn: false
        }
    );
}

#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Flush(bool),
    /// Checkpoint at a group boundary this far back from the end, in percent.
    Checkpoint(u64),
    Crash(u64),
    Resize(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (8usize..300).prop_map(Step::Append),
        4 => (300usize..5000).prop_map(Step::Append),
        1 => (5000usize..150_000).prop_map(Step::Append),
        4 => any::<bool>().prop_map(Step::Flush),
        1 => (0u64..100).prop_map(Step::Checkpoint),
        1 => any::<u64>().prop_map(Step::Crash),
        1 => (CAPACITY / 4..CAPACITY * 2).prop_map(Step::Resize),
    ];
    proptest::collection::vec(step, 1..200)
}

/// The log beside what it must hold: (start, end, group) in order, and how far a sync has confirmed.
struct Model {
    disk: Arc<SimDisk>,
    redo: Redo,
    groups: Vec<(Lsn, Lsn, u64)>,
    next: u64,
    synced: Lsn,
}

impl Model {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Append(len) => {
                // Nobody else would make room.
                if self.redo.room() < self.redo.capacity() / 4 {
                    self.checkpoint(100);
                }
                self.redo.reserve_wait().unwrap();
                let (start, end) = self.redo.append(&group(self.next, *len));
                self.groups.push((start, end, self.next));
                self.next += 1;
                if self.redo.wanted() {
                    self.checkpoint(50);
                }
            }
            Step::Flush(sync) => {
                let lsn = self.redo.lsn();
                let mode = if *sync { FlushMode::Sync } else { FlushMode::Write };
                self.redo.flush(lsn, mode).unwrap();
                if *sync {
                    self.synced = lsn;
                }
            }
            Step::Checkpoint(percent) => self.checkpoint(*percent),
            Step::Crash(seed) => self.crash(*seed),
            Step::Resize(bytes) => self.redo.set_capacity(*bytes).unwrap(),
        }
    }
    fn checkpoint(&mut self, percent: u64) {
        let at = self.groups.len() * percent as usize / 100;
        let lsn = self.groups.get(at).map_or(self.redo.lsn(), |g| g.0);
        self.redo.write_checkpoint(lsn, &self.next.to_le_bytes()).unwrap();
        self.groups.drain(..at);
        self.synced = self.synced.max(lsn);
    }
    fn crash(&mut self, seed: u64) {
        self.disk = self.disk.crash(seed);
        let (groups, end, redo) = reopen(&self.disk).unwrap();
        let numbers: Vec<u64> = groups.iter().map(|g| number_of(g)).collect();
        let expected: Vec<u64> = self.groups.iter().map(|g| g.2).collect();
        assert!(expected.starts_with(&numbers), "in order, no gap, nothing foreign");
        let kept = numbers.len();
        if let Some(lost) = self.groups.get(kept) {
            assert!(lost.1 > self.synced, "a group whose sync returned is there");
        }
        self.groups.truncate(kept);
        if let Some(last) = self.groups.last() {
            assert!(end.lsn >= last.1);
        }
        assert!(redo.lsn() >= end.lsn);
        self.synced = redo.lsn();
        self.redo = redo;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn what_was_synced_is_read_back(steps in steps()) {
        let disk = SimDisk::new(7);
        let redo = create(&disk);
        let mut model = Model { disk, redo, groups: Vec::new(), next: 1, synced: 0 };
        steps.iter().for_each(|step| model.step(step));
        model.crash(99);
    }
}

#[test]
fn the_ring_wraps_and_keeps_its_size() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    for i in 0..9000 {
        redo.reserve_wait().unwrap();
        let (start, end) = redo.append(&group(i, 900));
        if i % 10 == 0 {
            redo.flush(end, FlushMode::Sync).unwrap();
        }
        if redo.wanted() {
            redo.write_checkpoint(start, b"x").unwrap();
        }
    }
    let end = redo.lsn();
    assert!(end > 7 * CAPACITY);
    redo.flush(end, FlushMode::Sync).unwrap();
    let size = segment_size_for(CAPACITY);
    assert!(list_segments(&*disk).unwrap().len() as u64 <= CAPACITY / size + 2);
    let (groups, _, redo) = reopen(&disk.crash(3)).unwrap();
    let first = number_of(&groups[0]);
    assert!(groups.iter().map(|g| number_of(g)).eq(first..9000));
    assert!(redo.durable_lsn() >= end);
}

#[test]
fn resizing_changes_how_many_segments_exist() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    let size = segment_size_for(CAPACITY);
    let run = |capacity: u64| {
        redo.set_capacity(capacity).unwrap();
        for i in 0..4000u64 {
            redo.reserve_wait().unwrap();
            let (start, _) = redo.append(&group(i, 900));
            if redo.wanted() || i % 50 == 0 {
                redo.write_checkpoint(start, b"").unwrap();
            }
        }
        list_segments(&*disk).unwrap().len() as u64
    };
    assert!(run(CAPACITY * 4) >= CAPACITY * 4 / size);
    assert!(run(CAPACITY / 2) <= CAPACITY / 2 / size + 3);
    assert_eq!(redo.room(), CAPACITY / 2 - (redo.lsn() - redo.checkpoint_lsn()));
}

/// Flips the last log bytes of a synced log away sector by sector: a group is either whole or, from the first torn one on, gone.
#[test]
fn a_torn_tail_is_cut_off_at_every_sector() {
    for sectors in 0..19u64 {
        let disk = SimDisk::new(1);
        let redo = create(&disk);
        let mut ends = Vec::new();
        for i in 0..40 {
            ends.push(redo.append(&group(i, 230)).1);
        }
        // Written, never synced: the tail may be torn anywhere.
        redo.flush(redo.lsn(), FlushMode::Write).unwrap();
        let cut = block::block_of(redo.lsn()) - sectors;
        let size = segment_size_for(CAPACITY);
        disk.flip(&segment_name(0), file_offset(block::block_start(cut), size) + 100, 1);
        let (groups, end) = read(&disk, FIRST_LSN).unwrap();
        let whole = ends.iter().filter(|end| block::block_of(**end - 1) < cut).count();
        assert_eq!(groups.len(), whole, "{sectors} sectors");
        assert!(end.torn || whole == ends.len());
        // The log goes on behind the cut, and what stood there never comes back.
        let checkpoint = Redo::read_checkpoint(&*disk).unwrap().0;
        let redo = Redo::open(disk.clone(), config(), Arc::default(), checkpoint, end.lsn).unwrap();
        let (_, last) = redo.append(&group(1000, 10));
        redo.flush(last, FlushMode::Sync).unwrap();
        let (groups, end) = read(&disk, FIRST_LSN).unwrap();
        assert_eq!((groups.len(), end.lsn), (whole + 1, last));
        assert_eq!(number_of(&groups[whole]), 1000);
    }
}

#[test]
fn a_hole_in_what_was_durable_is_refused() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    for i in 0..400 {
        let (_, end) = redo.append(&group(i, 300));
        redo.flush(end, FlushMode::Sync).unwrap();
    }
    let size = segment_size_for(CAPACITY);
    let last = block::block_of(redo.lsn());
    for number in (8..last).step_by(7) {
        let lsn = block::block_start(number);
        let (name, offset) = (segment_name(lsn / size), file_offset(lsn, size));
        disk.flip(&name, offset + 30, 4);
        let found = read(&disk, FIRST_LSN);
        let is_named = |text: &str| text.contains(&name) && text.contains(&format!("offset {offset}"));
        assert!(
            matches!(&found, Err(Error::Corrupt(text)) if is_named(text)),
            "{found:?}"
        );
        disk.flip(&name, offset + 30, 4);
    }
    assert_eq!(read(&disk, FIRST_LSN).unwrap().0.len(), 400);
}

#[test]
fn damage_that_no_later_block_proves_is_found_by_the_checkpoint() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    let (start, end) = redo.append(&group(1, 3000));
    redo.write_checkpoint(start, b"").unwrap();
    assert_eq!(redo.durable_lsn(), start);
    redo.flush(end, FlushMode::Sync).unwrap();
    redo.write_checkpoint(start, b"").unwrap();
    let offset = file_offset(end, segment_size_for(CAPACITY));
    disk.flip(&segment_name(0), offset - 1, 1);
    assert!(matches!(read(&disk, start), Err(Error::Corrupt(_))));
}

#[test]
fn missing_or_foreign_segments_are_refused_by_name() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    let size = segment_size_for(CAPACITY);
    let mut end = 0;
    while end < 3 * size {
        end = redo.append(&group(1, 400)).1;
    }
    redo.flush(end, FlushMode::Sync).unwrap();
    disk.flip(&segment_name(2), 20, 1);
    assert!(matches!(read(&disk, FIRST_LSN), Err(Error::Corrupt(text)) if text.contains("redo_00000002")));
    disk.flip(&segment_name(2), 20, 1);
    disk.rename(&segment_name(1), "gone").unwrap();
    assert!(matches!(read(&disk, FIRST_LSN), Err(Error::Corrupt(text)) if text.contains("redo_00000001")));
    disk.rename("gone", &segment_name(1)).unwrap();
    read(&disk, FIRST_LSN).unwrap();
}

/// The workload of the next two tests; returns the groups whose sync returned, and the highest checkpoint that did.
fn work(disk: &Arc<SimDisk>, appended: &mut Vec<(u64, Lsn)>) -> (Lsn, Lsn) {
    let (mut synced, mut checkpoint) = (0, 0);
    let Ok(redo) = Redo::create(disk.clone(), config(), Arc::default()) else {
        return (0, 0);
    };
    for i in 1..=140u64 {
        if redo.reserve_wait().is_err() {
            break;
        }
        let (start, end) = redo.append(&group(i, (i * 7919 % 9000) as usize));
        appended.push((i, end));
        let mode = if i % 3 == 0 { FlushMode::Sync } else { FlushMode::Write };
        if i % 2 == 0 && redo.flush(end, mode).is_ok() && mode == FlushMode::Sync {
            synced = end;
        }
        if i % 20 == 0 && redo.write_checkpoint(start, &i.to_le_bytes()).is_ok() {
            checkpoint = start;
            synced = synced.max(start);
        }
    }
    (synced, checkpoint)
}

/// Checks what a start after the crash finds; the log must then take new groups.
fn check_after(disk: &Arc<SimDisk>, appended: &[(u64, Lsn)], synced: Lsn, checkpoint: Lsn) {
    if !Redo::exists(&**disk).unwrap() {
        assert_eq!(synced, 0);
        drop(create(disk));
        return;
    }
    let (from, payload) = Redo::read_checkpoint(&**disk).unwrap();
    assert!(from >= checkpoint);
    let (groups, end, redo) = reopen(disk).unwrap();
    let first = match payload.is_empty() {
        true => 1,
        false => u64::from_le_bytes(payload.try_into().unwrap()),
    };
    let numbers: Vec<u64> = groups.iter().map(|g| number_of(g)).collect();
    assert!(
        numbers.iter().copied().eq(first..first + numbers.len() as u64),
        "{numbers:?}"
    );
    for (number, group_end) in appended {
        let is_there = *number < first || numbers.contains(number);
        assert!(
            is_there || *group_end > synced,
            "group {number} was acknowledged and is lost"
        );
    }
    let (_, last) = redo.append(&group(5000, 600));
    redo.flush(last, FlushMode::Sync).unwrap();
    let (again, _) = read(disk, from).unwrap();
    assert_eq!(again.len(), numbers.len() + 1);
    assert!(last > end.lsn && number_of(again.last().unwrap()) == 5000);
}

#[test]
fn a_crash_at_every_io_loses_nothing_acknowledged() {
    let disk = SimDisk::new(3);
    work(&disk, &mut Vec::new());
    let changes = disk.changes();
    assert!(changes > 150);
    for at in 1..=changes {
        let disk = SimDisk::new(3);
        disk.crash_at(at);
        let mut appended = Vec::new();
        let (synced, checkpoint) = work(&disk, &mut appended);
        assert!(disk.is_dead());
        check_after(&disk.crash(at), &appended, synced, checkpoint);
    }
}

#[test]
fn a_crash_during_recovery_changes_nothing() {
    for seed in 0..12 {
        let disk = SimDisk::new(seed);
        disk.crash_at(120 + seed * 5);
        let mut appended = Vec::new();
        let (synced, checkpoint) = work(&disk, &mut appended);
        let mut disk = disk.crash(seed);
        for at in 1.. {
            disk.crash_at(at);
            let opened = reopen(&disk);
            let dead = disk.is_dead();
            assert_eq!(opened.is_err(), dead);
            drop(opened);
            disk = disk.crash(at);
            if !dead {
                break;
            }
        }
        check_after(&disk, &appended, synced, checkpoint);
    }
}

#[test]
fn a_failed_write_or_sync_poisons() {
    let counts = SimDisk::new(3);
    work(&counts, &mut Vec::new());
    let first = {
        let disk = SimDisk::new(3);
        create(&disk);
        disk.changes() + 1
    };
    for at in (first..=counts.changes()).step_by(3) {
        let disk = SimDisk::new(3);
        disk.fail_change(at, Fault::Eio);
        let mut appended = Vec::new();
        let (synced, checkpoint) = work(&disk, &mut appended);
        check_after(&disk.crash(at), &appended, synced, checkpoint);
    }
}

#[test]
fn a_poisoned_log_refuses_and_never_panics() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    let (_, end) = redo.append(&group(1, 100));
    redo.flush(end, FlushMode::Sync).unwrap();
    disk.fail_change(disk.changes() + 2, Fault::Eio);
    let (_, lost) = redo.append(&group(2, 100));
    assert!(matches!(redo.flush(lost, FlushMode::Sync), Err(Error::Poisoned(_))));
    let changes = disk.changes();
    assert!(redo.poisoned().unwrap().contains("redo_00000000"));
    redo.flush(end, FlushMode::Sync).unwrap();
    let before = redo.lsn();
    assert!((0..10_000).all(|i| redo.append(&group(i, 200)).0 >= before));
    assert!(matches!(redo.flush(lost, FlushMode::Sync), Err(Error::Poisoned(_))));
    assert!(matches!(redo.reserve_wait(), Err(Error::Poisoned(_))));
    assert!(matches!(redo.write_checkpoint(end, b""), Err(Error::Poisoned(_))));
    assert_eq!(disk.changes(), changes, "nothing is written any more");
}

#[test]
fn a_full_disk_is_met_before_a_change() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    let size = segment_size_for(CAPACITY) + SEGMENT_HEADER as u64;
    disk.set_space(Some(4 * size + 8192));
    let mut i = 0;
    let refused = loop {
        if let Err(e) = redo.reserve_wait() {
            break e;
        }
        i += 1;
        let (_, end) = redo.append(&group(i, 3000));
        redo.flush(end, FlushMode::Sync).unwrap();
    };
    assert!(matches!(refused, Error::Full(_)) && redo.poisoned().is_none());
    // A checkpoint gives segments free, and all goes on.
    redo.write_checkpoint(redo.lsn(), b"").unwrap();
    redo.reserve_wait().unwrap();
}

#[test]
fn committers_in_many_threads() {
    let disk = SimDisk::new(1);
    let counters = Arc::new(Counters::default());
    let redo = Redo::create(disk.clone(), config(), counters.clone()).unwrap();
    std::thread::scope(|s| {
        for thread in 0..8u64 {
            let redo = &redo;
            s.spawn(move || {
                for i in 0..300 {
                    redo.reserve_wait().unwrap();
                    let (_, end) = redo.append(&group(thread << 32 | i, (i * 13 % 1500) as usize));
                    let mode = if i % 5 == 0 { FlushMode::Write } else { FlushMode::Sync };
                    redo.flush(end, mode).unwrap();
                    assert!(mode == FlushMode::Write || redo.durable_lsn() >= end);
                }
            });
        }
        let redo = &redo;
        s.spawn(move || {
            for _ in 0..200 {
                redo.write_checkpoint(redo.checkpoint_lsn(), b"").unwrap();
                redo.set_capacity(CAPACITY * 4).unwrap();
                std::thread::yield_now();
            }
        });
    });
    redo.flush(redo.lsn(), FlushMode::Sync).unwrap();
    let (groups, _) = read(&disk.crash(5), FIRST_LSN).unwrap();
    let mut next = [0u64; 8];
    for group in &groups {
        let number = number_of(group);
        let thread = (number >> 32) as usize;
        assert_eq!(number & 0xffff_ffff, next[thread], "each thread's groups in order");
        next[thread] += 1;
    }
    assert_eq!(next, [300; 8]);
    assert_eq!(counters.redo_log_groups.get(), 2400);
}

#[test]
fn a_poison_wakes_all_who_wait() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    std::thread::scope(|s| {
        for i in 0..6u64 {
            let redo = &redo;
            s.spawn(move || loop {
                let (_, end) = redo.append(&group(i, 50));
                if redo.flush(end, FlushMode::Sync).is_err() {
                    break;
                }
            });
        }
        s.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(30));
            redo.poison("test");
        });
    });
    assert_eq!(redo.poisoned().unwrap(), "test");
}

#[test]
fn writers_wait_for_room_until_a_checkpoint() {
    let disk = SimDisk::new(1);
    let redo = create(&disk);
    while redo.room() > CAPACITY / 8 {
        redo.append(&group(1, 4000));
    }
    assert!(redo.wanted());
    std::thread::scope(|s| {
        let waiter = s.spawn(|| redo.reserve_wait());
        std::thread::sleep(std::time::Duration::from_millis(20));
        redo.write_checkpoint(redo.lsn(), b"").unwrap();
        waiter.join().unwrap().unwrap();
    });
    assert!(!redo.wanted());
}

#[test]
fn the_control_file_is_made_last() {
    let disk = SimDisk::new(1);
    create(&disk);
    let changes = disk.changes();
    for at in 1..=changes {
        let disk = SimDisk::new(1);
        disk.crash_at(at);
        let _ = Redo::create(disk.clone(), config(), Arc::default());
        let disk = disk.crash(at);
        match disk.exists(CONTROL_FILE).unwrap() {
            true => drop(reopen(&disk).unwrap()),
            false => drop(create(&disk)),
        }
    }
}

#[test]
fn blocks_hold_what_they_claim() {
    assert_eq!(BLOCK_DATA, 496);
    assert_eq!(segment_size_for(1 << 20), 64 << 10);
    assert_eq!(segment_size_for(1 << 40), 32 << 20);
}

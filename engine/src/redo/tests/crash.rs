//! Crashes and failures at every I/O, and random histories against a model.
use super::*;

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

/// The log, and what it must hold: (start, end, group) in order, and the end of what a sync
/// confirmed.
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
                // No other thread makes room.
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
        assert!(
            expected.starts_with(&numbers),
            "in order, without a gap, no other group"
        );
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

/// The workload of the next tests. Returns the end of what a sync confirmed, and the highest
/// checkpoint that was confirmed.
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

/// Checks what a start after the crash finds. The log must then take new groups.
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

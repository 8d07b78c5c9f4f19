//! Appends and flushes, on simulated and real disks; poisoning; many committers.
use super::*;
use crate::redo::read_ahead::scan_ahead;

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
    assert!(redo.poison_state().why().unwrap().contains("redo_00000000"));
    redo.flush(end, FlushMode::Sync).unwrap();
    let before = redo.lsn();
    assert!((0..10_000).all(|i| redo.append(&group(i, 200)).0 >= before));
    assert!(matches!(redo.flush(lost, FlushMode::Sync), Err(Error::Poisoned(_))));
    assert!(matches!(redo.reserve_wait(), Err(Error::Poisoned(_))));
    assert!(matches!(redo.write_checkpoint(end, b""), Err(Error::Poisoned(_))));
    assert_eq!(disk.changes(), changes, "nothing is written any more");
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
            // Committers wait for each other's rounds by now.
            while redo.counters.redo_log_commit_waits.get() < 1000 {
                std::thread::yield_now();
            }
            redo.poison("test");
        });
    });
    assert_eq!(redo.poison_state().why().unwrap(), "test");
}

fn read_ahead_is_the_same(disk: &dyn Disk, checkpoint: u64) {
    let mut groups = Vec::new();
    let scanned = scan(disk, checkpoint, &mut |start, end, group| {
        groups.push((start, end, group.to_vec()));
        Ok(())
    });
    let mut left = groups.iter();
    let ahead = scan_ahead(disk, checkpoint, &mut |start, end, group| {
        assert_eq!(left.next(), Some(&(start, end, group.to_vec())));
        Ok(())
    });
    assert_eq!((ahead.unwrap(), left.next()), (scanned.unwrap(), None));
    // The caller's function fails: the scan ends, and does not wait for the caller.
    let mut looks = 0;
    let ended = scan_ahead(disk, checkpoint, &mut |_, _, _| {
        looks += 1;
        Err(Error::NotFound)
    });
    assert_eq!((ended, looks), (Err(Error::NotFound), 1));
}

#[test]
fn a_log_on_a_real_disk_is_read_back() {
    let dir = std::env::temp_dir().join(format!("sluice-redo-real-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    for direct_io in [true, false] {
        let config = RedoConfig { direct_io, ..config() };
        let disk = RealDisk::open(dir.join(direct_io.to_string())).unwrap();
        let redo = Redo::create(disk.clone(), config.clone(), Arc::default()).unwrap();
        for i in 0..3000 {
            redo.reserve_wait().unwrap();
            let (start, end) = redo.append(&group(i, (i * 37 % 2000) as usize));
            // Both kinds of rounds: a log that may write direct changes to buffered I/O and back.
            let sync = i < 100 || i % 500 > 300;
            redo.flush(end, if sync { FlushMode::Sync } else { FlushMode::Write })
                .unwrap();
            if i % 700 == 699 {
                redo.write_checkpoint(start, &i.to_le_bytes()).unwrap();
            }
        }
        let end = redo.lsn();
        redo.flush(end, FlushMode::Sync).unwrap();
        drop(redo);
        let (checkpoint, payload) = Redo::read_checkpoint(&*disk).unwrap();
        let mut next = u64::from_le_bytes(payload.try_into().unwrap());
        let scanned = scan(&*disk, checkpoint, &mut |_, _, group| {
            assert_eq!(number_of(group), next);
            next += 1;
            Ok(())
        });
        assert_eq!(scanned.unwrap(), ScanEnd { lsn: end, torn: false });
        assert_eq!(next, 3000);
        read_ahead_is_the_same(&*disk, checkpoint);
        let redo = Redo::open(disk.clone(), config, Arc::default(), checkpoint, end).unwrap();
        let (_, last) = redo.append(&group(3000, 50));
        redo.flush(last, FlushMode::Sync).unwrap();
        assert_eq!(scan(&*disk, checkpoint, &mut |_, _, _| Ok(())).unwrap().lsn, last);
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

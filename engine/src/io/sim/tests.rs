//! Tests of the simulated disk: each fault rule by its number.
use super::{Damage, Fault, SimDisk};
use crate::base::Error;
use crate::io::{Caching, Disk, File, Mode};
use std::sync::Arc;

fn make(disk: &SimDisk, name: &str) -> Arc<dyn File> {
    disk.open(name, Mode::Create, Caching::Buffered).unwrap()
}

#[test]
fn synced_bytes_survive_every_crash() {
    for seed in 0..50 {
        let disk = SimDisk::new(1);
        let file = make(&disk, "f");
        file.write_at(&[1; 2000], 100).unwrap();
        file.sync().unwrap();
        file.write_at(&[2; 1024], 4096).unwrap();
        let after = disk.crash(seed);
        assert!(file.read_at(&mut [0; 1], 100).is_err(), "the old disk is dead");
        let bytes = after.bytes("f").unwrap();
        assert!(bytes[100..2100].iter().all(|b| *b == 1));
    }
}

#[test]
fn unsynced_writes_are_lost_kept_and_torn_at_sectors() {
    let (mut lost, mut kept, mut torn) = (0, 0, 0);
    for seed in 0..200 {
        let disk = SimDisk::new(1);
        let file = make(&disk, "f");
        file.set_len(4096).unwrap();
        file.sync().unwrap();
        file.write_at(&[9; 4096], 0).unwrap();
        let bytes = disk.crash(seed).bytes("f").unwrap();
        let sectors = bytes.chunks(512).filter(|s| s.iter().all(|b| *b == 9)).count();
        let zeros = bytes.chunks(512).filter(|s| s.iter().all(|b| *b == 0)).count();
        assert_eq!(sectors + zeros, 8, "no sector is torn");
        match sectors {
            0 => lost += 1,
            8 => kept += 1,
            _ => torn += 1,
        }
    }
    assert!(lost > 10 && kept > 10 && torn > 10, "{lost} {kept} {torn}");
}

#[test]
fn the_same_seed_gives_the_same_crash() {
    let run = |seed| {
        let disk = SimDisk::new(1);
        let file = make(&disk, "f");
        (0..20u8).for_each(|i| file.write_at(&[i; 3000], i as u64 * 1000).unwrap());
        disk.crash(seed).bytes("f")
    };
    assert!((0..20).all(|seed| run(seed) == run(seed)));
    assert!((0..20).any(|seed| run(seed) != run(seed + 1)));
}

#[test]
fn crash_at_stops_the_disk() {
    let disk = SimDisk::new(1);
    let file = make(&disk, "f");
    disk.crash_at(3);
    file.write_at(&[1; 10], 0).unwrap();
    assert!(file.sync().is_err());
    assert!(disk.is_dead() && disk.exists("f").is_err() && file.write_at(&[1], 0).is_err());
    assert_eq!(disk.changes(), 3);
    assert!(disk.crash(2).exists("f").unwrap());
}

#[test]
fn a_failed_sync_forgets_what_it_did_not_write() {
    let mut forgotten = 0;
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        let file = make(&disk, "f");
        file.set_len(512).unwrap();
        file.sync().unwrap();
        file.write_at(&[5; 512], 0).unwrap();
        disk.fail_change(disk.changes() + 1, Fault::Eio);
        assert!(matches!(file.sync(), Err(Error::Io(_))));
        file.sync().unwrap();
        assert_eq!(disk.bytes("f").unwrap(), [5; 512]);
        forgotten += (disk.crash(seed).bytes("f").unwrap() == [0; 512]) as u32;
    }
    assert!(forgotten > 10);
}

#[test]
fn a_full_disk_says_so() {
    let disk = SimDisk::new(1);
    let file = make(&disk, "f");
    disk.set_space(Some(8192));
    file.set_len(8192).unwrap();
    assert!(matches!(file.set_len(8193), Err(Error::Full(_))));
    assert!(matches!(make(&disk, "g").write_at(&[1], 0), Err(Error::Full(_))));
    disk.set_space(None);
    disk.fail_change(disk.changes() + 1, Fault::Full);
    assert!(matches!(file.write_at(&[1], 0), Err(Error::Full(_))));
    file.write_at(&[1], 0).unwrap();
    disk.fail_change(disk.changes() + 1, Fault::Full);
    file.sync().unwrap();
    assert!(matches!(file.write_at(&[1], 0), Err(Error::Full(_))));
}

#[test]
fn names_are_durable_on_return() {
    for seed in 0..20 {
        let disk = SimDisk::new(1);
        make(&disk, "a").write_at(&[1], 0).unwrap();
        make(&disk, "b");
        disk.rename("a", "c").unwrap();
        disk.remove("b").unwrap();
        assert_eq!(disk.crash(seed).list().unwrap(), ["c"]);
    }
}

#[test]
fn what_was_created_unsynced_may_be_gone_until_it_has_another_name() {
    let (mut kept, mut gone) = (0, 0);
    for seed in 0..40 {
        let disk = SimDisk::new(1);
        let make = |name| disk.open(name, Mode::CreateUnsynced, Caching::Buffered);
        make("a").unwrap();
        disk.rename("a", "b").unwrap();
        disk.fail_change(disk.changes() + 1, Fault::Eio);
        assert!(make("a").is_err() && !disk.exists("a").unwrap());
        make("a").unwrap();
        assert!(matches!(make("a"), Err(Error::Exists(_))));
        let after = disk.crash(seed);
        assert!(after.exists("b").unwrap());
        match after.exists("a").unwrap() {
            true => kept += 1,
            false => gone += 1,
        }
    }
    assert!(kept > 5 && gone > 5, "{kept} {gone}");
}

#[test]
#[should_panic(expected = "must be aligned")]
fn direct_files_insist_on_alignment() {
    let disk = SimDisk::new(1);
    let file = disk.open("f", Mode::Create, Caching::Direct).unwrap();
    let _ = file.write_at(&[0; 100], 0);
}

#[test]
fn a_short_write_leaves_its_beginning() {
    let lengths = (0..40).map(|seed| {
        let disk = SimDisk::new(seed);
        let file = make(&disk, "f");
        disk.fail_change(disk.changes() + 1, Fault::Short);
        assert!(file.write_at(&[9; 4096], 0).is_err());
        assert_eq!(disk.struck(), 1);
        let bytes = disk.bytes("f").unwrap();
        assert!(bytes.len() % 512 == 0 && bytes.iter().all(|b| *b == 9));
        bytes.len()
    });
    let lengths: std::collections::BTreeSet<usize> = lengths.collect();
    assert!(lengths.len() > 4 && *lengths.last().unwrap() < 4096);
}

#[test]
fn a_lying_disk_damages_data_files_only() {
    for damage in [Damage::Flipped, Damage::Misplaced, Damage::Lost] {
        let disk = SimDisk::new(3);
        let (data, log) = (make(&disk, "1.slu"), make(&disk, "log"));
        for file in [&data, &log] {
            file.set_len(64 << 10).unwrap();
            disk.damage_write(disk.changes() + 1, damage);
            file.write_at(&[7; 4096], 8192).unwrap();
            file.sync().unwrap();
        }
        let right = |name| disk.bytes(name).unwrap()[8192..12288].iter().all(|b| *b == 7);
        assert!(!right("1.slu") && right("log"), "{damage:?}");
        assert_eq!(disk.struck(), 1);
    }
}

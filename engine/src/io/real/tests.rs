//! Tests of the real disk: files in a folder of the system's temporary directory.
use super::batch::Batch;
use super::disk::LOCK_FILE;
use super::error::{io_error, sync_error};
use super::file::RealFile;
use super::gate::Gate;
use super::RealDisk;
use crate::base::Error;
use crate::io::{AlignedBuf, Caching, Disk, File, Mode, ReadOp, WriteOp};
use std::path::{Path, PathBuf};

/// A directory of its own for each test, removed at the end.
struct TempDir(PathBuf);

impl TempDir {
    fn new(name: &str) -> TempDir {
        let dir = std::env::temp_dir().join(format!("sluice-io-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        TempDir(dir)
    }
}
impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_directory_is_opened_once() {
    let dir = TempDir::new("lock");
    let first = RealDisk::open(&dir.0).unwrap();
    let is_refused = || matches!(RealDisk::open(&dir.0), Err(Error::InUse(text)) if text.contains("locked"));
    assert!(is_refused());
    // Removing the lock file used to unlock the directory; two engines then wrote the same files.
    std::fs::remove_file(dir.0.join(LOCK_FILE)).unwrap();
    assert!(is_refused());
    drop(first);
    RealDisk::open(&dir.0).unwrap();
}

/// A mistyped name began an empty engine.
#[test]
fn a_directory_that_must_exist_is_not_made() {
    let dir = TempDir::new("existing");
    let inside = dir.0.join("inside");
    let refusal = |path: &Path| match RealDisk::open_existing(path) {
        Err(Error::Invalid(text)) => text,
        other => panic!("{:?}", other.err()),
    };
    for path in [&dir.0, &inside] {
        let text = refusal(path);
        assert!(
            text.contains(&format!("{} does not exist; make it", path.display())),
            "{text}"
        );
        assert!(!dir.0.exists());
    }
    std::fs::create_dir(&dir.0).unwrap();
    RealDisk::open_existing(&dir.0).unwrap();
    RealDisk::open(inside.join("far")).unwrap();
    let file = inside.join("file");
    std::fs::write(&file, "").unwrap();
    for (path, why) in [
        (file.as_path(), "is no directory; correct"),
        (Path::new(""), "has no name"),
    ] {
        assert!(refusal(path).contains(why), "{}", refusal(path));
        assert!(matches!(RealDisk::open(path), Err(Error::Invalid(text)) if text.contains(why)));
    }
}

#[test]
fn names_are_made_moved_and_removed() {
    let dir = TempDir::new("names");
    let disk = RealDisk::open(&dir.0).unwrap();
    disk.open("a", Mode::Create, Caching::Buffered).unwrap();
    assert!(matches!(
        disk.open("a", Mode::Create, Caching::Direct),
        Err(Error::Exists(_))
    ));
    disk.rename("a", "b").unwrap();
    assert_eq!(disk.list().unwrap(), ["b"]);
    assert!(disk.exists("b").unwrap() && !disk.exists("a").unwrap());
    assert!(matches!(disk.open("a", Mode::Open, Caching::Direct), Err(Error::Io(text)) if text.contains("/a")));
    disk.remove("b").unwrap();
    disk.remove("b").unwrap();
    assert!(disk.list().unwrap().is_empty());
}

#[test]
fn direct_files_take_unaligned_buffers_and_allocate() {
    let dir = TempDir::new("direct");
    let disk = RealDisk::open(&dir.0).unwrap();
    let file = disk.open("f", Mode::Create, Caching::Direct).unwrap();
    file.set_len(3 * 4096).unwrap();
    assert_eq!(file.len().unwrap(), 3 * 4096);
    let data = vec![7u8; 4097];
    file.write_at(&data[1..], 4096).unwrap();
    file.sync().unwrap();
    let mut back = vec![1u8; 2 * 4096 + 1];
    file.read_at(&mut back[1..], 0).unwrap();
    assert!(back[1..4097].iter().all(|b| *b == 0) && back[4097..].iter().all(|b| *b == 7));
    file.set_len(4096).unwrap();
    let error = file.read_at(&mut back[..4096], 4096).unwrap_err();
    assert!(matches!(&error, Error::Io(text) if text.contains("offset 4096") && text.contains("/f")));
}

/// Writes and reads a batch larger than a ring, in scattered order. The last read is past the end
/// of the file.
fn batch_round_trip(batch: &Batch, file: &dyn File) {
    const N: usize = 300;
    let page = |i: usize| AlignedBuf::from_slice(&[(i % 251) as u8; 4096]);
    let pages: Vec<AlignedBuf> = (0..N).map(page).collect();
    let place = |i: usize| ((i * 7) % N * 4096) as u64;
    let ops = pages.iter().enumerate().map(|(i, data)| WriteOp {
        file,
        offset: place(i),
        data,
    });
    batch.write(&ops.collect::<Vec<_>>(), &Gate::default()).unwrap();
    let mut back: Vec<AlignedBuf> = (0..N + 1).map(|_| AlignedBuf::new(4096)).collect();
    let reads = back.iter_mut().enumerate().map(|(i, data)| ReadOp {
        file,
        offset: if i < N { place(i) } else { (N * 4096) as u64 },
        data,
    });
    let results = batch.read(&mut reads.collect::<Vec<_>>());
    assert!(results[..N].iter().all(|r| r.is_ok()));
    assert!(matches!(&results[N], Err(Error::Io(text)) if text.contains("ends before")));
    assert!(pages.iter().zip(&back).all(|(wrote, read)| wrote[..] == read[..]));
}

#[test]
fn batches_by_ring_and_by_threads() {
    let dir = TempDir::new("batch");
    let disk = RealDisk::open(&dir.0).unwrap();
    for (name, batch) in [("ring", Batch::detect()), ("threads", Batch::without_ring())] {
        for caching in [Caching::Direct, Caching::Buffered] {
            let file = disk.open(name, Mode::Create, caching).unwrap();
            batch_round_trip(&batch, &*file);
            disk.remove(name).unwrap();
        }
    }
}

#[test]
fn a_failed_write_of_a_batch_names_the_place() {
    let dir = TempDir::new("failed");
    let disk = RealDisk::open(&dir.0).unwrap();
    disk.open("f", Mode::Create, Caching::Buffered).unwrap();
    let read_only = RealFile {
        file: std::fs::File::open(dir.0.join("f")).unwrap(),
        path: "f".into(),
        direct: false,
        gate: Default::default(),
    };
    let data = [0u8; 4096];
    let ops = [0u64, 4096].map(|offset| WriteOp {
        file: &read_only,
        offset,
        data: &data,
    });
    assert!(matches!(disk.write_many(&ops), Err(Error::Io(text)) if text.contains("f at offset 0, 4096 bytes")));
}

#[test]
fn a_sync_refused_for_want_of_room_has_failed() {
    for no_room in [libc::ENOSPC, libc::EDQUOT] {
        let why = || std::io::Error::from_raw_os_error(no_room);
        assert!(matches!(io_error("write", "f", None, why()), Error::Full(_)));
        assert!(
            matches!(sync_error("sync", "f", why()), Error::Io(damage) if damage.what.starts_with("cannot sync f: "))
        );
    }
}

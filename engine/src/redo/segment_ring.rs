//! [`SegmentRing`]: the segment files `redo_00000000`, `redo_00000001`, ... numbered without end.
//!
//! Segment n holds the LSNs [n * segment_size, (n + 1) * segment_size). So finding a place needs no
//! table, and a resize only changes how many segments may lie ahead. Segments below the checkpoint
//! are renamed to future numbers: their blocks are allocated and written, so a later fdatasync has
//! no file metadata to write.
//! ```text
//! segment file, 4096 + segment_size bytes
//!    0 checksum      u32  CRC-32C of bytes 4..64
//!    4 magic         8 bytes "SLUICERL"
//!   12 format        u32  as the control file's; others are refused by name
//!   16 number        u64
//!   24 segment_size  u64
//!   32 epoch         u32  in which the header was written (for people)
//!   36 zeros
//! 4096 blocks             see block_format.rs
//! ```
//! Keeps: a file under the name of a segment at or above the checkpoint is whole and has that
//! segment's header. A new segment is made under another name, and a recycled one gets its header
//! before its new name. The numbers have no gap.
//!
//! The writer opens each segment when it comes to it; segments are made ahead. When no descriptor
//! is left (`Error::TooManyFiles`), unused files are closed ([`SegmentRing::set_files_closer`]),
//! and the open is retried. If that fails too, a thread that makes a segment ahead is refused, as
//! on a full disk. The writer, whose changes cannot be taken back, retries for a while. A reserved
//! descriptor would be less safe: another thread of the process may take it between its close and
//! the open.
//!
//! Takes `RedoRing`, also across I/O: a thread that needs a missing segment waits until it is made.
//! Called by: `block_writer.rs`, `reserve.rs`, `checkpoint.rs`, `on_off.rs`, `log.rs`, and
//! `reader.rs` (names, headers).
use super::control::{is_known_format, other_format, FORMAT};
use crate::base::bytes::{get_u32, get_u64, put_u32, put_u64};
use crate::base::sync::{Rank, RankedCondvar, RankedMutex};
use crate::base::{Error, Lsn, Result};
use crate::io::{AlignedBuf, Caching, Disk, File, Mode, IO_ALIGN};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const PREFIX: &str = "redo_";
/// Name of a segment that is being made.
const NEW: &str = "redo_new";
const MAGIC: &[u8; 8] = b"SLUICERL";
pub const SEGMENT_HEADER: usize = IO_ALIGN;
const SEGMENT_MIN: u64 = 64 << 10;
const SEGMENT_MAX: u64 = 32 << 20;
/// Bytes of zeros written at a time.
const ZEROS: usize = 1 << 20;
/// Length and number of the pauses of a writer that gets no descriptor, before the log stops: half
/// a minute. A burst of connections or tables that takes the descriptors mostly ends sooner. The
/// client of a commit that waits longer gives up anyway.
const PAUSE_MS: u64 = if cfg!(test) { 1 } else { 100 };
const PAUSES_MAX: usize = if cfg!(test) { 10 } else { 300 };

pub fn segment_name(number: u64) -> String {
    format!("{PREFIX}{number:08}")
}
/// Bytes of a segment: a sixteenth of the ring, fine enough to recycle evenly. Small rings (tests)
/// get small segments.
pub fn segment_size_for(capacity: u64) -> u64 {
    (capacity / 16).clamp(SEGMENT_MIN, SEGMENT_MAX) / IO_ALIGN as u64 * IO_ALIGN as u64
}
pub fn file_offset(lsn: Lsn, segment_size: u64) -> u64 {
    SEGMENT_HEADER as u64 + lsn % segment_size
}
/// Numbers of all segment files, sorted.
pub fn list_segments(disk: &dyn Disk) -> Result<Vec<u64>> {
    let names = disk.list()?;
    let number = |name: &String| {
        let number = name.strip_prefix(PREFIX)?.parse().ok()?;
        (segment_name(number) == *name).then_some(number)
    };
    let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}
/// Opens a segment that must exist, and checks its header and length.
pub fn open_segment(disk: &dyn Disk, number: u64, segment_size: u64, caching: Caching) -> Result<Arc<dyn File>> {
    let file = disk.open(&segment_name(number), Mode::Open, caching)?;
    let len = file.len()?;
    let corrupt = |what: String| Error::corrupt(format!("{}: {what}", file.path()));
    if len != SEGMENT_HEADER as u64 + segment_size {
        return Err(corrupt(format!(
            "the file has {len} bytes, {} are right",
            SEGMENT_HEADER as u64 + segment_size
        )));
    }
    let mut header = AlignedBuf::new(SEGMENT_HEADER);
    file.read_at(&mut header, 0)?;
    if &header[4..12] != MAGIC || get_u32(&header, 0) != crc32c::crc32c(&header[4..64]) {
        return Err(corrupt("the segment header is damaged".into()));
    }
    if !is_known_format(get_u32(&header, 12)) {
        return Err(other_format(file.path(), get_u32(&header, 12)));
    }
    if (get_u64(&header, 16), get_u64(&header, 24)) != (number, segment_size) {
        return Err(corrupt(format!(
            "the header is of segment {} of {} bytes",
            get_u64(&header, 16),
            get_u64(&header, 24)
        )));
    }
    Ok(file)
}

/// The header of a segment.
pub fn header(number: u64, segment_size: u64, epoch: u32) -> AlignedBuf {
    let mut header = AlignedBuf::new(SEGMENT_HEADER);
    header[4..12].copy_from_slice(MAGIC);
    put_u32(&mut header, 12, FORMAT);
    put_u64(&mut header, 16, number);
    put_u64(&mut header, 24, segment_size);
    put_u32(&mut header, 32, epoch);
    let crc = crc32c::crc32c(&header[4..64]);
    put_u32(&mut header, 0, crc);
    header
}

/// Numbers of the segments that exist.
#[derive(Default)]
struct Numbers {
    first: u64,
    last: u64,
    /// Highest number that may hold redo: it was given to the writer, in this run or before.
    /// Neither this segment nor the next one is removed.
    used: u64,
}

impl Numbers {
    /// For asserts.
    fn is_sound(&self) -> bool {
        self.first <= self.last
    }
}
/// Why a segment was not renumbered, or not made.
#[derive(Debug)]
pub enum MoveError {
    /// The file cannot be opened or created (too many open files, rights), or the disk is full. No
    /// step that was begun has failed: a retry is safe.
    Refused(Error),
    /// A write, a sync or a rename failed (I6).
    Broken(Error),
}

impl MoveError {
    fn of(e: Error) -> MoveError {
        match e {
            Error::Full(_) | Error::TooManyFiles(_) => MoveError::Refused(e),
            e => MoveError::Broken(e),
        }
    }
    /// A retry may succeed later; another segment would meet the same failure now.
    fn may_pass(&self) -> bool {
        matches!(self, MoveError::Refused(Error::Full(_) | Error::TooManyFiles(_)))
    }
    fn into_error(self) -> Error {
        match self {
            MoveError::Refused(e) | MoveError::Broken(e) => e,
        }
    }
}

/// See the head of this file.
pub struct SegmentRing {
    disk: Arc<dyn Disk>,
    segment_size: u64,
    epoch: u32,
    numbers: RankedMutex<Numbers>,
    /// Mirror of `Numbers::last`: all segments up to this number exist.
    ready: AtomicU64,
    capacity: AtomicU64,
    /// Closes unused files of other layers.
    close_files: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl SegmentRing {
    /// A new log: removes the remains of an interrupted creation, makes the first segments.
    pub fn create(disk: Arc<dyn Disk>, capacity: u64, epoch: u32) -> Result<SegmentRing> {
        for number in list_segments(&*disk)? {
            disk.remove(&segment_name(number))?;
        }
        let segment_size = segment_size_for(capacity);
        let ring = SegmentRing {
            disk,
            segment_size,
            epoch,
            numbers: RankedMutex::new(Rank::RedoRing, Numbers::default()),
            ready: AtomicU64::new(0),
            capacity: AtomicU64::new(capacity),
            close_files: OnceLock::new(),
        };
        ring.make(0)?;
        ring.ensure(1)?;
        Ok(ring)
    }
    /// Opens the segments from `needed` on, up to the first gap; all other segments are remains,
    /// and are removed. `needed`: from the checkpoint's segment to the one in which the log
    /// continues. A smaller capacity removes none of these: a recovery reads them.
    pub fn open(
        disk: Arc<dyn Disk>,
        capacity: u64,
        epoch: u32,
        segment_size: u64,
        needed: RangeInclusive<u64>,
    ) -> Result<SegmentRing> {
        let (needed, used) = needed.into_inner();
        disk.remove(NEW)?;
        let numbers = list_segments(&*disk)?;
        if !numbers.contains(&needed) {
            return Err(Error::corrupt(format!(
                "{}: the segment is missing",
                segment_name(needed)
            )));
        }
        let mut last = needed;
        while numbers.binary_search(&(last + 1)).is_ok() {
            last += 1;
        }
        for number in numbers.into_iter().filter(|n| *n < needed || *n > last) {
            disk.remove(&segment_name(number))?;
        }
        Ok(SegmentRing {
            disk,
            segment_size,
            epoch,
            numbers: RankedMutex::new(
                Rank::RedoRing,
                Numbers {
                    first: needed,
                    last,
                    used,
                },
            ),
            ready: AtomicU64::new(last),
            capacity: AtomicU64::new(capacity),
            close_files: OnceLock::new(),
        })
    }
    /// Renumbers all segments, from `first` on. Their contents are not needed any more. A crash in
    /// between leaves numbers with a gap; the control file says then that the log is off. When
    /// descriptors or disk space run out, the ring consists of the segments renumbered so far, if
    /// there are any. A segment that cannot be opened for another reason is left out.
    pub fn jump(&self, first: u64) -> std::result::Result<(), MoveError> {
        let mut numbers = self.numbers.lock();
        assert!(first > numbers.last + 1, "a ring goes forward");
        debug_assert!(numbers.is_sound(), "the numbers have no gap");
        let (mut next, mut done) = (first, Ok(()));
        let mut left = Vec::new();
        for number in numbers.first..=numbers.last {
            if done.is_err() {
                left.push(number);
                continue;
            }
            match self.move_segment(number, next) {
                Ok(()) => next += 1,
                Err(broken @ MoveError::Broken(_)) => return Err(broken),
                Err(refused) => {
                    left.push(number);
                    if refused.may_pass() {
                        done = Err(refused);
                    }
                }
            }
        }
        if next == first && done.is_ok() {
            // No segment is left. Making one fails too, if the directory cannot be reached.
            self.try_make(first)?;
            next += 1;
        }
        if next > first {
            for number in left {
                // The next start removes what stays: it is far below every checkpoint.
                let _ = self.disk.remove(&segment_name(number));
            }
            *numbers = Numbers {
                first,
                last: next - 1,
                used: first,
            };
            self.ready.store(numbers.last, Ordering::Release);
        }
        done
    }
    fn move_segment(&self, from: u64, to: u64) -> std::result::Result<(), MoveError> {
        let file = self.open_plain(from).map_err(MoveError::Refused)?;
        self.rename_segment(&*file, from, to).map_err(MoveError::of)
    }
    /// `close` closes unused files. It is called under `RedoRing`, and under all locks that the
    /// writer of the log holds.
    pub fn set_files_closer(&self, close: Box<dyn Fn() + Send + Sync>) {
        assert!(self.close_files.set(close).is_ok(), "set once");
    }
    /// Calls `open`; when no descriptor is left, once more with fewer files open.
    fn with_descriptor<T>(&self, open: impl Fn() -> Result<T>) -> Result<T> {
        match (open(), self.close_files.get()) {
            (Err(Error::TooManyFiles(_)), Some(close)) => {
                close();
                open()
            }
            (done, _) => done,
        }
    }
    pub fn segment_size(&self) -> u64 {
        self.segment_size
    }
    pub fn segment_of(&self, lsn: Lsn) -> u64 {
        lsn / self.segment_size
    }
    pub fn file_offset(&self, lsn: Lsn) -> u64 {
        file_offset(lsn, self.segment_size)
    }
    pub fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Relaxed)
    }
    pub fn set_capacity(&self, bytes: u64) {
        self.capacity.store(bytes, Ordering::Relaxed);
    }
    /// The segment of `lsn` and the next one exist: appends find their place on disk.
    pub fn is_ready(&self, lsn: Lsn) -> bool {
        self.ready.load(Ordering::Acquire) > self.segment_of(lsn)
    }
    /// The segment of `lsn` exists.
    pub fn holds(&self, lsn: Lsn) -> bool {
        self.ready.load(Ordering::Acquire) >= self.segment_of(lsn)
    }
    /// Number of the last segment.
    pub fn last(&self) -> u64 {
        self.ready.load(Ordering::Acquire)
    }
    /// Makes all segments up to `number` exist.
    pub fn ensure(&self, number: u64) -> Result<()> {
        if self.ready.load(Ordering::Acquire) >= number {
            return Ok(());
        }
        self.extend(&mut self.numbers.lock(), number)
    }
    fn extend(&self, numbers: &mut Numbers, number: u64) -> Result<()> {
        debug_assert!(
            numbers.last >= self.ready.load(Ordering::Acquire),
            "the mirror says what there is"
        );
        while numbers.last < number {
            self.make(numbers.last + 1)?;
            numbers.last += 1;
            self.ready.store(numbers.last, Ordering::Release);
        }
        Ok(())
    }
    /// The file of segment `number`, for writing; made now if it was not made ahead. Waits a while
    /// when no descriptor is left.
    pub fn segment(&self, number: u64, caching: Caching) -> Result<Arc<dyn File>> {
        for _ in 0..PAUSES_MAX {
            match self.try_segment(number, caching) {
                Err(Error::TooManyFiles(_)) => self.pause(),
                done => return done,
            }
        }
        self.try_segment(number, caching)
    }
    fn try_segment(&self, number: u64, caching: Caching) -> Result<Arc<dyn File>> {
        let mut numbers = self.numbers.lock();
        self.extend(&mut numbers, number)?;
        numbers.used = numbers.used.max(number);
        debug_assert!(numbers.used <= numbers.last, "the writer's segment is one of the ring");
        debug_assert!(number >= numbers.first, "no segment below the checkpoint is written");
        self.with_descriptor(|| open_segment(&*self.disk, number, self.segment_size, caching))
    }
    /// No thread ends the pause early.
    #[cold]
    fn pause(&self) {
        let lock = RankedMutex::new(Rank::Leaf, ());
        RankedCondvar::new().wait_for(&mut lock.lock(), Duration::from_millis(PAUSE_MS));
    }
    fn last_wanted(&self, numbers: &Numbers, checkpoint: Lsn) -> u64 {
        self.segment_of(checkpoint + self.capacity()).max(numbers.used + 1)
    }
    /// There are as many files as the capacity asks for.
    pub fn has_all_segments(&self, checkpoint: Lsn) -> bool {
        let numbers = self.numbers.lock();
        numbers.last == self.last_wanted(&numbers, checkpoint)
    }
    /// Bytes of all segment files.
    pub fn disk_bytes(&self) -> u64 {
        let numbers = self.numbers.lock();
        (numbers.last - numbers.first + 1) * (SEGMENT_HEADER as u64 + self.segment_size)
    }
    /// Segments below the checkpoint become future ones, or are removed when the ring has enough.
    /// When the ring has too few, because it is new or was enlarged, each call adds one, so that a
    /// checkpoint is never long (I7).
    ///
    /// A full disk, which may refuse a rename too, ends the call early, as does a lack of
    /// descriptors. The rest stays below the checkpoint, for the next call or for
    /// [`SegmentRing::open`]. A file that cannot be opened for another reason is removed. No thread
    /// needs a further segment yet. A writer that needs one meets the full disk before it changes
    /// anything.
    ///
    /// `kept`: segments from this LSN on stay, too, because they are being copied.
    pub fn recycle(&self, checkpoint: Lsn, kept: Lsn) -> Result<()> {
        let mut numbers = self.numbers.lock();
        match self.try_recycle(&mut numbers, checkpoint, kept) {
            Err(Error::Full(_) | Error::TooManyFiles(_)) => Ok(()),
            done => done,
        }
    }
    fn try_recycle(&self, numbers: &mut Numbers, checkpoint: Lsn, kept: Lsn) -> Result<()> {
        let needed = self.segment_of(checkpoint.min(kept));
        let wanted_last = self.last_wanted(numbers, checkpoint);
        debug_assert!(numbers.is_sound(), "the numbers have no gap");
        while numbers.first < needed {
            if numbers.last < wanted_last {
                match self.move_segment(numbers.first, numbers.last + 1) {
                    Ok(()) => {
                        numbers.last += 1;
                        self.ready.store(numbers.last, Ordering::Release);
                    }
                    Err(MoveError::Broken(e)) => return Err(e),
                    Err(refused) if refused.may_pass() => return Ok(()),
                    // The file's rights forbid it, or the file is gone. Kept, this segment and all
                    // after it would stay for ever, beside new ones. It is not needed: if the
                    // removal fails too, the next start removes it.
                    Err(_) => drop(self.disk.remove(&segment_name(numbers.first))),
                }
            } else {
                self.disk.remove(&segment_name(numbers.first))?;
            }
            numbers.first += 1;
        }
        if numbers.last < wanted_last {
            let next = numbers.last + 1;
            self.extend(numbers, next)?;
        }
        while numbers.last > wanted_last {
            // No writer uses this segment from now on. If its removal fails, it is the ring's last
            // segment as before: a gap would count as damage.
            self.ready.store(numbers.last - 1, Ordering::Release);
            if let Err(e) = self.disk.remove(&segment_name(numbers.last)) {
                self.ready.store(numbers.last, Ordering::Release);
                return Err(e);
            }
            numbers.last -= 1;
        }
        Ok(())
    }

    /// Makes a segment, allocated and written, so that later syncs of it need no metadata.
    fn make(&self, number: u64) -> Result<()> {
        self.try_make(number).map_err(MoveError::into_error)
    }
    fn try_make(&self, number: u64) -> std::result::Result<(), MoveError> {
        let file = self.create_new()?;
        self.finish_new(number, &*file).map_err(MoveError::of)
    }
    /// Creates the file of a new segment. Nothing is synced here: the file is synced when it is
    /// whole, its name by the rename. So a refusal here follows no failed sync.
    fn create_new(&self) -> std::result::Result<Arc<dyn File>, MoveError> {
        let create = || self.with_descriptor(|| self.disk.open(NEW, Mode::CreateUnsynced, Caching::Direct));
        let created = match create() {
            Err(Error::Exists(_)) => {
                // The remains of an earlier failure.
                self.disk.remove(NEW).map_err(MoveError::of)?;
                create()
            }
            created => created,
        };
        created.map_err(MoveError::Refused)
    }
    fn finish_new(&self, number: u64, file: &dyn File) -> Result<()> {
        let filled = self.fill_new(number, file);
        if filled.is_err() {
            // The first error is returned.
            let _ = self.disk.remove(NEW);
        }
        filled?;
        self.disk.rename(NEW, &segment_name(number))
    }
    fn fill_new(&self, number: u64, file: &dyn File) -> Result<()> {
        let len = SEGMENT_HEADER as u64 + self.segment_size;
        file.set_len(len)?;
        let zeros = AlignedBuf::new(ZEROS);
        let mut at = SEGMENT_HEADER as u64;
        while at < len {
            let n = (len - at).min(ZEROS as u64);
            debug_assert_eq!(n % IO_ALIGN as u64, 0, "direct I/O takes whole pages");
            file.write_at(&zeros[..n as usize], at)?;
            at += n;
        }
        file.write_at(&header(number, self.segment_size, self.epoch), 0)?;
        file.sync()
    }
    fn open_plain(&self, number: u64) -> Result<Arc<dyn File>> {
        self.with_descriptor(|| self.disk.open(&segment_name(number), Mode::Open, Caching::Direct))
    }
    fn rename_segment(&self, file: &dyn File, from: u64, to: u64) -> Result<()> {
        debug_assert!(
            from < to,
            "a segment gets a higher number, so no older block in it is valid"
        );
        file.write_at(&header(to, self.segment_size, self.epoch), 0)?;
        file.sync()?;
        self.disk.rename(&segment_name(from), &segment_name(to))
    }
}

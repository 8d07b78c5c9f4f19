//! The segment files of the redo ring: `redo_00000000`, `redo_00000001`, ... numbered without end.
//!
//! Segment n holds the LSNs [n * segment_size, (n + 1) * segment_size), so finding a place needs no table and resizing the
//! log only changes how many segments may lie ahead. Segments below the checkpoint are renamed to future numbers:
//! their blocks are allocated and written, so that a later fdatasync of the log has no file metadata to write.
//! ```text
//! segment file, 4096 + segment_size bytes
//!    0 checksum      u32  CRC-32C of bytes 4..64
//!    4 magic         8 bytes "SLUICERL"
//!   12 format        u32  as the control file's; others are refused by name
//!   16 number        u64
//!   24 segment_size  u64
//!   32 epoch         u32  in which the header was written (for people)
//!   36 zeros
//! 4096 blocks             see block.rs
//! ```
//! Keeps: a file under a segment's name at or above the checkpoint is whole and has that segment's header, because a new
//! one is made under another name, and a recycled one gets its header before its new name. The numbers are without gap.
//!
//! A segment is opened whenever the writer comes to it, and made ahead. When no descriptor is left for that (`Error::TooManyFiles`),
//! files that nobody uses are closed ([`SegmentRing::set_files_closer`]), and it is tried again. In vain, who makes one ahead is refused, as on a
//! full disk; the writer, who has changes that cannot be taken back, tries for a while longer. One descriptor kept in reserve would be
//! less sure: any other thread of the process may take it between its closing and the opening.
//! Takes `RedoRing`, also across I/O: whoever needs a segment that does not exist waits for it to be made.
//! Called by writer (all), reader (names, headers).
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
/// A segment in the making.
const NEW: &str = "redo_new";
const MAGIC: &[u8; 8] = b"SLUICERL";
pub const SEGMENT_HEADER: usize = IO_ALIGN;
const SEGMENT_MIN: u64 = 64 << 10;
const SEGMENT_MAX: u64 = 32 << 20;
/// Pieces of zeros written at a time.
const ZEROS: usize = 1 << 20;
/// Pauses of the writer for which no descriptor is left, and how many before the log stops: half a minute, for a burst of connections or
/// tables that takes them mostly ends sooner, and a commit that waits longer is given up by its client all the same.
const PAUSE_MS: u64 = if cfg!(test) { 1 } else { 100 };
const PAUSES_MAX: usize = if cfg!(test) { 10 } else { 300 };

pub fn segment_name(number: u64) -> String {
    format!("{PREFIX}{number:08}")
}
/// Sixteen to a ring: fine enough to recycle evenly. Small rings (tests) get small segments.
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

#[derive(Default)]
struct Numbers {
    first: u64,
    last: u64,
    /// Highest number that may hold redo: ever handed to the writer, in this run or before. Neither it nor the next is removed.
    used: u64,
}

/// Why a segment did not get its new number, or was not made.
#[derive(Debug)]
pub enum MoveError {
    /// The file cannot be opened or created (too many open files, rights), or the disk is full. Nothing failed that was begun: it can be
    /// tried again.
    Refused(Error),
    /// A write, a sync or a name (I6).
    Broken(Error),
}

impl MoveError {
    fn of(e: Error) -> MoveError {
        match e {
            Error::Full(_) | Error::TooManyFiles(_) => MoveError::Refused(e),
            e => MoveError::Broken(e),
        }
    }
    /// It may go well later, and would go no better with another segment now.
    fn may_pass(&self) -> bool {
        matches!(self, MoveError::Refused(Error::Full(_) | Error::TooManyFiles(_)))
    }
    fn into_error(self) -> Error {
        match self {
            MoveError::Refused(e) | MoveError::Broken(e) => e,
        }
    }
}

pub struct SegmentRing {
    disk: Arc<dyn Disk>,
    segment_size: u64,
    epoch: u32,
    numbers: RankedMutex<Numbers>,
    /// Mirror of `Numbers::last`: all segments up to it exist.
    ready: AtomicU64,
    capacity: AtomicU64,
    /// Closes files of others that are not in use.
    close_files: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl SegmentRing {
    /// A new log: removes remains of one whose making was interrupted, makes the first segments.
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
    /// The segments of `needed` on without gap; all others are remains and are removed. `needed`: from the checkpoint's to the one in which
    /// the log goes on. A capacity that reaches less far takes none of them away: a recovery reads them.
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
    /// All segments get new numbers, from `first` on. Whatever they hold is not needed any more, and a crash in between leaves
    /// numbers with a gap: the control file says that the log is off. When there is no descriptor or no room for one, the ring is those before
    /// it, if there are any; one that cannot be opened for another reason is left out.
    pub fn jump(&self, first: u64) -> std::result::Result<(), MoveError> {
        let mut numbers = self.numbers.lock();
        assert!(first > numbers.last + 1, "a ring goes forward");
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
            // None is left. Nor may one be made, if all of the directory cannot be reached.
            self.try_make(first)?;
            next += 1;
        }
        if next > first {
            for number in left {
                // What stays is removed by the next start: it is far below every checkpoint.
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
    /// `close` closes files that nobody uses. It is called under `RedoRing`, and under whatever the writer of the log holds.
    pub fn set_files_closer(&self, close: Box<dyn Fn() + Send + Sync>) {
        assert!(self.close_files.set(close).is_ok(), "set once");
    }
    /// Opens something; when no descriptor is left, once more with fewer files open.
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
    /// True if the segment of `lsn` and the one behind it exist: what is appended now finds its place on disk.
    pub fn is_ready(&self, lsn: Lsn) -> bool {
        self.ready.load(Ordering::Acquire) > self.segment_of(lsn)
    }
    /// True if the segment of `lsn` exists.
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
        while numbers.last < number {
            self.make(numbers.last + 1)?;
            numbers.last += 1;
            self.ready.store(numbers.last, Ordering::Release);
        }
        Ok(())
    }
    /// The file to write segment `number` with; made now if nobody made it ahead. Waits a while when no descriptor is left.
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
        self.with_descriptor(|| open_segment(&*self.disk, number, self.segment_size, caching))
    }
    /// Nobody ends it early.
    #[cold]
    fn pause(&self) {
        let lock = RankedMutex::new(Rank::Leaf, ());
        RankedCondvar::new().wait_for(&mut lock.lock(), Duration::from_millis(PAUSE_MS));
    }
    fn last_wanted(&self, numbers: &Numbers, checkpoint: Lsn) -> u64 {
        self.segment_of(checkpoint + self.capacity()).max(numbers.used + 1)
    }
    /// False while the files are fewer or more than the capacity asks for.
    pub fn is_settled(&self, checkpoint: Lsn) -> bool {
        let numbers = self.numbers.lock();
        numbers.last == self.last_wanted(&numbers, checkpoint)
    }
    /// Bytes of all segment files.
    pub fn disk_bytes(&self) -> u64 {
        let numbers = self.numbers.lock();
        (numbers.last - numbers.first + 1) * (SEGMENT_HEADER as u64 + self.segment_size)
    }
    /// Segments below the checkpoint become future ones, or are removed when the ring has enough. When it has
    /// too few (it is new, or was enlarged), one is added: one a call, so that a checkpoint is never long (I7).
    /// A full disk, which may refuse a name too, or that no descriptor is left ends the call early: what is left stays below the checkpoint,
    /// for the next call or for [`SegmentRing::open`]. A file that cannot be opened for another reason is removed. Nobody needs a further segment yet; whoever does will meet the full disk before he changes anything.
    pub fn recycle(&self, checkpoint: Lsn) -> Result<()> {
        let mut numbers = self.numbers.lock();
        match self.try_recycle(&mut numbers, checkpoint) {
            Err(Error::Full(_) | Error::TooManyFiles(_)) => Ok(()),
            done => done,
        }
    }
    fn try_recycle(&self, numbers: &mut Numbers, checkpoint: Lsn) -> Result<()> {
        let needed = self.segment_of(checkpoint);
        let wanted_last = self.last_wanted(numbers, checkpoint);
        while numbers.first < needed {
            if numbers.last < wanted_last {
                match self.move_segment(numbers.first, numbers.last + 1) {
                    Ok(()) => {
                        numbers.last += 1;
                        self.ready.store(numbers.last, Ordering::Release);
                    }
                    Err(MoveError::Broken(e)) => return Err(e),
                    Err(refused) if refused.may_pass() => return Ok(()),
                    // Its rights, or it is gone: kept, it and all behind it would stay for ever beside those that are made instead. Nobody
                    // needs it: what cannot be removed either is left to the next start.
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
            // Nobody goes there from now on; if it stays, it is the ring's last as before: a gap behind it would be damage.
            self.ready.store(numbers.last - 1, Ordering::Release);
            if let Err(e) = self.disk.remove(&segment_name(numbers.last)) {
                self.ready.store(numbers.last, Ordering::Release);
                return Err(e);
            }
            numbers.last -= 1;
        }
        Ok(())
    }

    fn header(&self, number: u64) -> AlignedBuf {
        let mut header = AlignedBuf::new(SEGMENT_HEADER);
        header[4..12].copy_from_slice(MAGIC);
        put_u32(&mut header, 12, FORMAT);
        put_u64(&mut header, 16, number);
        put_u64(&mut header, 24, self.segment_size);
        put_u32(&mut header, 32, self.epoch);
        let crc = crc32c::crc32c(&header[4..64]);
        put_u32(&mut header, 0, crc);
        header
    }
    /// A new segment, allocated and written, so that later syncs of it need no metadata.
    fn make(&self, number: u64) -> Result<()> {
        self.try_make(number).map_err(MoveError::into_error)
    }
    fn try_make(&self, number: u64) -> std::result::Result<(), MoveError> {
        let file = self.create_new()?;
        self.finish_new(number, &*file).map_err(MoveError::of)
    }
    /// It is synced when it is whole, and its name by the change of that. So who is refused here has met no failed sync.
    fn create_new(&self) -> std::result::Result<Arc<dyn File>, MoveError> {
        let create = || self.with_descriptor(|| self.disk.open(NEW, Mode::CreateUnsynced, Caching::Direct));
        let created = match create() {
            Err(Error::Exists(_)) => {
                // What is left of one that failed.
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
            // The first error is the one to tell.
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
            file.write_at(&zeros[..n as usize], at)?;
            at += n;
        }
        file.write_at(&self.header(number), 0)?;
        file.sync()
    }
    fn open_plain(&self, number: u64) -> Result<Arc<dyn File>> {
        self.with_descriptor(|| self.disk.open(&segment_name(number), Mode::Open, Caching::Direct))
    }
    fn rename_segment(&self, file: &dyn File, from: u64, to: u64) -> Result<()> {
        file.write_at(&self.header(to), 0)?;
        file.sync()?;
        self.disk.rename(&segment_name(from), &segment_name(to))
    }
}

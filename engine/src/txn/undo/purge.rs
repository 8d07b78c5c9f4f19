//! Purge's view of the undo streams: jobs of records that no reader can need any more, and the
//! freeing of their pages.
//!
//! Why no reader needs the records of a purged transaction:
//! - A reader follows a row's [`UndoPtr`] only past versions that its view does not see. So every
//!   record it reads was written by a transaction that had not ended when the view was made.
//! - The commit number of such a transaction is not below the view's (`commit.rs` keeps that true
//!   while a commit is half done).
//! - Purge takes only transactions whose number is below that of every open view. Views made later
//!   see their ends.
//! - Rolled back transactions get a number too: a reader may hold a pointer that it copied before
//!   the rollback.
//!
//! Hence the rule for callers (I9): a thread that follows an undo pointer holds an open view, or
//! works for the record's own transaction.
//!
//! A job is bounded by records, bytes and pages (I7), and may span several small transactions of
//! one stream. Records that were undone are handed out too, marked so. One job at a time works on a
//! stream, so several purge threads never meet in one.
//!
//! Latches: undo pages one at a time; to free pages a directory page, the system page, space pages.
//! Called by `txn/purge.rs` and the table layer's purge.
use super::directory::{Position, Slot};
use super::format::{Kind, Reader};
use super::history::{no_record_before_limit, Passed, Work};
use super::streams::{UndoRecord, UndoStreams};
use crate::base::ids::UNDO_FILE;
use crate::base::sync::holds_no_latch;
use crate::base::{Error, PageId, PageNo, Result, UndoPtr};
use crate::pool::Pool;
use crate::space;

/// One record of a [`PurgeJob`].
pub struct PurgeRecord {
    pub at: UndoPtr,
    pub record: UndoRecord,
    /// The record was rolled back, with its whole transaction or to a savepoint. It is on no `prev`
    /// chain from the transaction's end.
    pub undone: bool,
}

/// Work for purge: records of ended transactions (committed or rolled back), old enough for all
/// views, in the order in which they were written. Small transactions come several in a job, large
/// ones in several jobs (I7). A job may hold no record at all: then there were only end markers.
/// Ends in `TrxSys::purged` or [`UndoStreams::purge_failed`]. After a crash some records come
/// again.
pub struct PurgeJob {
    pub records: Vec<PurgeRecord>,
    end: JobEnd,
}

/// A job ends when it has read about so much.
const JOB_BYTES_MAX: usize = 1 << 20;
const JOB_PAGES_MAX: usize = 64;
/// What `UndoStreams::finish_job` needs to know of a job.
struct JobEnd {
    /// As taken, moved on to where the job ends.
    work: Work,
    start: (UndoPtr, UndoPtr),
    passed: Passed,
    pages_left: Vec<PageNo>,
}

impl JobEnd {
    fn back_at_start(self) -> Work {
        let mut work = self.work;
        (work.at, work.skip_until) = self.start;
        work
    }
}

impl UndoStreams {
    /// The job's records were applied: moves the stream's head, frees whole pages. `position`: the
    /// newest replication position, which may be lost with a page.
    pub(in crate::txn) fn finish_job(&self, job: PurgeJob, position: &dyn Fn() -> Position) -> Result<()> {
        debug_assert!(holds_no_latch(), "I5: room in the log is waited for with no latch held");
        if !job.end.pages_left.is_empty() {
            if let Err(error) = self.move_head(&job.end, position) {
                self.purge_failed(job, &error);
                return Err(error);
            }
        }
        self.stream_pages.sub(job.end.pages_left.len() as u64);
        self.history.done(job.end.work, &job.end.passed);
        self.counters.history_list_length.set(self.history.len());
        Ok(())
    }

    /// Purge leaves pages: the head moves in the directory, and they are free. A position whose
    /// commit marker may have been in one of them is saved first.
    fn move_head(&self, end: &JobEnd, position: &dyn Fn() -> Position) -> Result<()> {
        self.pool.redo().reserve_to_go_on()?;
        let position = position();
        let slot = Slot {
            head: end.work.at,
            skip_until: end.work.skip_until,
        };
        let left: Vec<PageId> = end.pages_left.iter().map(|no| PageId::new(UNDO_FILE, *no)).collect();
        let mut mtr = self.pool.begin();
        // A page that cannot be read is met before the first change.
        self.directory.latch_slot(&mut mtr, end.work.stream)?;
        space::free(&mut mtr, &left)?;
        self.directory.set_slot(&mut mtr, end.work.stream, slot)?;
        self.directory.save_position(&mut mtr, &position)?;
        mtr.commit();
        Ok(())
    }

    /// All heads are made durable as they are, so that the next start hands no purged record out
    /// again.
    pub(in crate::txn) fn save_heads(&self, position: &Position) -> Result<()> {
        for (stream, head, skip_until) in self.history.heads() {
            self.pool.redo().reserve_to_go_on()?;
            let mut mtr = self.pool.begin();
            self.directory.latch_slot(&mut mtr, stream)?;
            self.directory.set_slot(&mut mtr, stream, Slot { head, skip_until })?;
            self.directory.save_position(&mut mtr, position)?;
            mtr.commit();
        }
        Ok(())
    }

    /// The job was not done, or not wholly: it will be handed out again. A job that failed at
    /// something that cannot be read lets the other streams go before.
    pub fn purge_failed(&self, job: PurgeJob, error: &Error) {
        let work = job.end.back_at_start();
        match error {
            Error::Io(_) | Error::Corrupt(_) => self
                .history
                .give_back_later(work, self.pool.disk().now_us() + UNDONE_US),
            _ => self.history.give_back(work),
        }
    }

    /// Before a close: streams that failed are tried once more. A stream that fails from now on is
    /// not handed out again.
    pub fn begin_last_purge(&self) {
        self.history.begin_last_round();
    }

    /// Some stream has work with a commit number in `from..to`, and none has any below `from`.
    pub(in crate::txn) fn has_work_from(&self, from: u64, to: u64) -> bool {
        self.history.has_work_from(from, to)
    }

    /// Reads the next job: at most `records_max` records, of commit numbers below `horizon`. None:
    /// nothing is old enough. Several threads may hold jobs.
    pub(in crate::txn) fn next_job(&self, horizon: u64, records_max: usize) -> Result<Option<PurgeJob>> {
        let (pool, history) = (&self.pool, &self.history);
        history.wake_in_turn(horizon, pool.disk().now_us());
        let Some(work) = history.take_work(horizon) else {
            return Ok(None);
        };
        let mut job = PurgeJob {
            records: Vec::new(),
            end: JobEnd {
                start: (work.at, work.skip_until),
                work,
                passed: Passed::default(),
                pages_left: Vec::new(),
            },
        };
        match fill(pool, &mut job, records_max) {
            Ok(()) => Ok(Some(job)),
            // The stream cannot be read on. It is left out until the next start, and the others are
            // purged.
            Err(error) if error.is_corrupt() => Err(error),
            // The disk's failure may pass.
            Err(error @ Error::Io(_)) => {
                let due_us = pool.disk().now_us() + UNREAD_US;
                history.give_back_later(job.end.back_at_start(), due_us);
                Err(error)
            }
            Err(error) => {
                history.give_back(job.end.back_at_start());
                Err(error)
            }
        }
    }
}

/// Pause of a stream that the disk failed to read, and of one whose records failed elsewhere.
const UNREAD_US: u64 = 10 * 1_000_000;
const UNDONE_US: u64 = 1_000_000;

fn fill(pool: &Pool, job: &mut PurgeJob, records_max: usize) -> Result<()> {
    let JobEnd {
        work,
        passed,
        pages_left,
        ..
    } = &mut job.end;
    let mut reader = Reader::open(pool, work.at)?;
    let mut bytes = 0;
    while job.records.len() < records_max.max(1) && bytes < JOB_BYTES_MAX && reader.left.len() < JOB_PAGES_MAX {
        let Some((at, header)) = reader.header()? else {
            return Err(no_record_before_limit(work.stream));
        };
        let undone = is_undone(work, passed, at);
        if header.kind == Kind::Row {
            let payload = reader.payload(&header)?;
            bytes += payload.len();
            let record = UndoRecord {
                trx: header.trx,
                prev: header.prev,
                payload,
            };
            job.records.push(PurgeRecord { at, record, undone });
        } else {
            reader.skip_payload(&header)?;
        }
        work.at = reader.position();
        if header.kind.is_end() {
            passed.ends.push(at);
            if at == work.limit {
                break;
            }
        }
    }
    *pages_left = reader.left;
    debug_assert!(
        pages_left.is_empty() || !pages_left.contains(&work.at.page),
        "the page of the new head is not freed"
    );
    Ok(())
}

/// Is the record at `at` undone? Keeps `skip_until` for the records that follow.
fn is_undone(work: &mut Work, passed: &mut Passed, at: UndoPtr) -> bool {
    if work.skip_until == at {
        work.skip_until = UndoPtr::NONE;
    }
    let inside = !work.skip_until.is_none();
    let Some(skip) = work.skips.get(&at) else { return inside };
    passed.skips.push(at);
    // A skip that begins inside another one is a part of it.
    if !inside {
        work.skip_until = skip.until;
    }
    inside || skip.inclusive
}

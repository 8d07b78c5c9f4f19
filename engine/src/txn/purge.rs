//! Purge's view of the undo streams: jobs of records that nobody can need any more, and the freeing of their pages.
//!
//! Why the records of a purged transaction are never needed by a reader: a reader follows a row's [`UndoPtr`] only past
//! versions its view does not see, so every record it reads was written by a transaction that had not ended when its
//! view was made; such a transaction's commit number is not below the view's (`sys.rs` keeps that true while a commit
//! is half done). Purge takes only transactions whose number is below that of every open view, and views made later see
//! those ended ones. Rolled back transactions get a number too: a reader may hold a pointer it copied before the rollback.
//! Hence the rule for callers: who follows an undo pointer holds an open view, or is the record's own transaction.
//!
//! A job is bounded by records, bytes and pages, and may span several small transactions of one stream. Records that
//! were undone (with their whole transaction, or to a savepoint) are handed out too, marked so. A stream is worked on by
//! one job at a time, so several purge threads never meet in one.
use super::directory::Slot;
use super::history::{no_record_before_limit, History, Passed, Work};
use super::undo::{Kind, Reader};
use super::{PurgeJob, PurgeRecord, TrxSys, UndoRecord};
use crate::base::ids::UNDO_FILE;
use crate::base::{planted, sync_point, Error, Mutant, PageId, PageNo, Result, SyncPoint, UndoPtr};
use crate::pool::{Pool, PAGE_SIZE};
use crate::space;

/// A job ends when it has read about so much.
const JOB_BYTES_MAX: usize = 1 << 20;
const JOB_PAGES_MAX: usize = 64;
/// What `TrxSys::purged` needs to know of a job.
pub(crate) struct JobEnd {
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

impl TrxSys {
    /// Next piece of purge work, at most `records_max` records; None: nothing is old enough. Several threads may hold jobs.
    pub fn next_purge(&self, records_max: usize) -> Result<Option<PurgeJob>> {
        let (horizon, settled) = self.horizons();
        sync_point(SyncPoint::HorizonLearned);
        let settled = match self.history.has_work_from(settled, horizon) {
            false => settled,
            true => {
                self.settle_all()?;
                self.horizons().1
            }
        };
        next_job(&self.pool, &self.history, horizon.min(settled), records_max)
    }

    /// Commit numbers: all views, also those made later, see what is below the first; no crash takes back what is below the second
    /// (`settled.rs`).
    fn horizons(&self) -> (u64, u64) {
        let mut state = self.state.lock();
        let oldest = state.views.oldest().filter(|_| !planted(Mutant::PurgeIgnoresViews));
        // Without a view it is what the next one would have: that one will not see who is committing just now.
        let horizon = oldest.map_or_else(|| state.commit_no(), |view| view.commit_no);
        self.settle(&mut state);
        (horizon, state.settling.settled.commit_no)
    }

    /// The job's records were applied: moves the stream's head, frees whole pages.
    pub fn purged(&self, job: PurgeJob) -> Result<()> {
        if !job.end.pages_left.is_empty() {
            if let Err(error) = self.move_head(&job.end) {
                self.purge_failed(job, &error);
                return Err(error);
            }
        }
        self.stream_pages.sub(job.end.pages_left.len() as u64);
        self.history.done(job.end.work, &job.end.passed);
        self.counters.history_list_length.set(self.history.len());
        Ok(())
    }

    /// Purge leaves pages: the head moves in the directory, and they are free. A position whose commit marker may have
    /// been in one of them is saved first.
    fn move_head(&self, end: &JobEnd) -> Result<()> {
        self.pool.redo().reserve_to_go_on()?;
        let (number, position) = self.state.lock().position.clone();
        let slot = Slot {
            head: end.work.at,
            skip_until: end.work.skip_until,
        };
        let left: Vec<PageId> = end.pages_left.iter().map(|no| PageId::new(UNDO_FILE, *no)).collect();
        let mut mtr = self.pool.begin();
        // Whatever cannot be read is met before the first change.
        self.directory.latch_slot(&mut mtr, end.work.stream)?;
        space::free(&mut mtr, &left)?;
        self.directory.set_slot(&mut mtr, end.work.stream, slot)?;
        self.directory.save_position(&mut mtr, number, &position)?;
        mtr.commit();
        Ok(())
    }

    /// All heads are made durable as they are, so that the next start hands nothing out again that was purged.
    pub fn save_heads(&self) -> Result<()> {
        let (number, position) = self.state.lock().position.clone();
        for (stream, head, skip_until) in self.history.heads() {
            self.pool.redo().reserve_to_go_on()?;
            let mut mtr = self.pool.begin();
            self.directory.latch_slot(&mut mtr, stream)?;
            self.directory.set_slot(&mut mtr, stream, Slot { head, skip_until })?;
            self.directory.save_position(&mut mtr, number, &position)?;
            mtr.commit();
        }
        Ok(())
    }

    /// The job was not done, or not wholly: it will be handed out again. What failed at something that cannot be read lets the other streams
    /// go before.
    pub fn purge_failed(&self, job: PurgeJob, error: &Error) {
        let work = job.end.back_at_start();
        match error {
            Error::Io(_) | Error::Corrupt(_) => self
                .history
                .give_back_later(work, self.pool.disk().now_us() + UNDONE_US),
            _ => self.history.give_back(work),
        }
    }

    /// Before a close: streams that were let alone for a while are tried once more. What fails from now on is not handed out again.
    pub fn begin_last_purge(&self) {
        self.history.begin_last_round();
    }

    /// In the undo streams.
    pub fn undo_bytes(&self) -> u64 {
        self.stream_pages.get() * PAGE_SIZE as u64
    }

    /// Ended transactions not yet purged.
    pub fn history_length(&self) -> u64 {
        self.history.len()
    }
}

/// A stream that the disk failed to read is left alone so long, and one whose records failed elsewhere.
const UNREAD_US: u64 = 10 * 1_000_000;
const UNDONE_US: u64 = 1_000_000;

/// Reads the next job, or None if nothing is old enough.
fn next_job(pool: &Pool, history: &History, horizon: u64, records_max: usize) -> Result<Option<PurgeJob>> {
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
        // The stream cannot be read on: it is left alone until the next start, so that the others are purged.
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

//! The undo streams: the door to everything in this room.
//!
//! [`UndoStreams`] gives transactions their streams, room in them, and reads records back.
//! `purge.rs` takes records out, `truncate.rs` makes the file shorter: parts of the same type.
//! Knows nothing of transactions beyond their ids. Latches: undo pages, then the undo file's space
//! pages. Called by: `sys.rs`, `commit.rs`, `recover.rs`.
use super::ceiling::Ceiling;
use super::directory::{self, Directory, Slot, SystemPage};
use super::format::{corrupt, Kind, Reader};
use super::history::{End, History, StreamHead, Taken};
use super::stream::StreamTail;

use crate::base::counters::Counter;
use crate::base::ids::UNDO_FILE;
use crate::base::{Counters, Result, TrxId, UndoPtr};
use crate::pool::{Mtr, Pool, PAGE_SIZE};
use crate::space;
use std::sync::Arc;

/// An undo record, as read back. `payload` is the table layer's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoRecord {
    pub trx: TrxId,
    /// The record this transaction wrote before and did not roll back yet (NONE at its start).
    pub prev: UndoPtr,
    pub payload: Vec<u8>,
}

pub struct UndoStreams {
    pub(super) pool: Arc<Pool>,
    pub(super) counters: Arc<Counters>,
    pub(super) directory: Directory,
    pub(super) history: History,
    pub(super) ceiling: Ceiling,
    /// Pages that the undo streams own.
    pub(in crate::txn) stream_pages: Counter,
}

impl UndoStreams {
    /// Creates the undo file with the transaction system page (fresh engine).
    pub fn create(pool: &Pool) -> Result<()> {
        directory::create(pool)
    }

    /// After redo; the undo file is open. `recover.rs` walks the streams then.
    pub(in crate::txn) fn open(pool: Arc<Pool>, counters: Arc<Counters>) -> Result<(UndoStreams, SystemPage)> {
        space::truncate_excess(&pool, UNDO_FILE)?;
        let (directory, system_page) = Directory::open(&pool)?;
        let streams = UndoStreams {
            pool,
            counters,
            directory,
            history: History::new(),
            ceiling: Ceiling::default(),
            stream_pages: Counter::default(),
        };
        Ok((streams, system_page))
    }
    pub(in crate::txn) fn pool(&self) -> &Pool {
        &self.pool
    }
    /// The directory's slots, by stream.
    pub(in crate::txn) fn slots(&self) -> Result<Vec<Option<Slot>>> {
        self.directory.slots(&self.pool)
    }
    /// Recovery: a stream as it was found. `tail` None: the stream belongs to a recovered
    /// transaction.
    pub(in crate::txn) fn restore(&self, number: u32, head: StreamHead, tail: Option<Box<StreamTail>>, pages: u64) {
        self.stream_pages.add(pages);
        self.history.restore(number, head, tail);
    }

    // ---- for the transaction that owns a stream ----

    /// A stream with room for an end marker.
    pub(in crate::txn) fn take(&self) -> Result<Box<StreamTail>> {
        let mut tail = match self.history.take_stream()? {
            Taken::Free(tail) => tail,
            Taken::Make(number) => match self.directory.add_stream(&self.pool, number) {
                Ok(tail) => {
                    self.history.add_stream(&tail);
                    self.stream_pages.inc();
                    Box::new(tail)
                }
                Err(error) => {
                    self.history.give_number_back(number);
                    return Err(error);
                }
            },
        };
        if tail.has_room_to_end() {
            return Ok(tail);
        }
        match self.reserve(&mut tail, 0) {
            Ok(()) => {
                debug_assert!(tail.has_room_to_end(), "the end of a transaction cannot fail");
                Ok(tail)
            }
            Err(error) => {
                self.give_back(tail);
                Err(error)
            }
        }
    }
    /// The stream was not written to.
    pub(in crate::txn) fn give_back(&self, tail: Box<StreamTail>) {
        debug_assert!(!tail.used, "the undo of a transaction that has not ended stays with it");
        self.history.end(tail, None);
    }
    /// The owner has ended; `end`: its end marker, if it has written. The stream is free for the
    /// next owner.
    pub(in crate::txn) fn end_owner(&self, tail: Box<StreamTail>, end: Option<End>) {
        debug_assert!(end.is_none() || tail.used, "an end is a record in the stream");
        self.history.end(tail, end);
        self.counters.history_list_length.set(self.history.len());
    }
    /// Room for a record of `bytes` and an end marker, in an Mtr of its own. With no latch held.
    pub(in crate::txn) fn reserve(&self, tail: &mut StreamTail, bytes: usize) -> Result<()> {
        let added = tail.reserve(&self.pool, self.ceiling.get(), bytes)?;
        self.stream_pages.add(added as u64);
        Ok(())
    }
    /// The same in the caller's Mtr. Errors come before any change.
    pub(in crate::txn) fn make_room(&self, mtr: &mut Mtr<'_>, tail: &mut StreamTail, bytes: usize) -> Result<()> {
        let added = tail.make_room(mtr, self.ceiling.get(), bytes)?;
        if added > 0 {
            self.stream_pages.add(added as u64);
        }
        Ok(())
    }

    // ---- for everyone ----

    /// Reserves numbers above `next` and returns the new bound: durable before anything that
    /// carries one of them, by the order of the log.
    pub(in crate::txn) fn reserve_numbers(&self, next: u64) -> Result<u64> {
        self.directory.reserve_numbers(&self.pool, next)
    }
    /// Before the first undo record of a load: versions that do not know such records must not read
    /// what follows. With no latch held.
    pub fn allow_loads(&self) -> Result<()> {
        self.directory.note_loads(&self.pool)
    }
    /// Takes S latches on undo pages, one at a time. The caller holds an open view that does not
    /// see the record's transaction, or is that transaction (`purge.rs` says why that suffices).
    pub fn read(&self, at: UndoPtr) -> Result<UndoRecord> {
        let mut reader = Reader::open(&self.pool, at)?;
        match reader.header()? {
            Some((_, header)) if header.kind == Kind::Row => Ok(UndoRecord {
                trx: header.trx,
                prev: header.prev,
                payload: reader.payload(&header)?,
            }),
            _ => Err(corrupt(at, "is not there")),
        }
    }
    /// Bytes of the pages in the undo streams.
    pub fn bytes(&self) -> u64 {
        self.stream_pages.get() * PAGE_SIZE as u64
    }
    /// Ended transactions not yet purged.
    pub fn history_length(&self) -> u64 {
        self.history.len()
    }
}

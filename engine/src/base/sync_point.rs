//! Sync points: named places between two steps of a thread at which a test lets others act.
//!
//! A test that registers an action meets on every run an interleaving that threads meet once in a
//! million runs. Outside the tests [`sync_point`] compiles to nothing. Called by: every layer.
#[cfg(test)]
use super::sync::as_another_thread;
#[cfg(test)]
use std::cell::RefCell;
#[cfg(test)]
use std::rc::Rc;

/// The places, each named by the step that has just ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncPoint {
    /// A round of group commit has written its bytes and passed the lead on; its sync comes next.
    /// The round holds `RedoSync`.
    LogToBeSynced,
    /// A round of group commit, or a thread that turns the log off, waits next for the sync of the
    /// round before.
    SyncAwaited,
    /// A writer that found no room in the log sleeps next. It holds the lock of the wake-up.
    RoomAwaited,
    /// A locking read has copied an entry, and checks next whether its transaction is active.
    EntryCopied,
    /// A locking read locks next a row that has moved since the read began, and whose entry it has
    /// passed.
    MovedRowFound,
    /// A consistent read has the visible version of an entry's row, and checks next whether the
    /// entry is unchanged.
    RowOfEntryCopied,
    /// A semi-consistent read has copied the newest version of a row, and checks next whether its
    /// transaction is active.
    VersionCopied,
    /// The walk back through a row's versions has an older version, and checks next whether that
    /// version is the visible one.
    SteppedBack,
    /// A semi-consistent read has the newest committed version, and reads its overflow pages next.
    CommittedVersionFound,
    /// A transaction that ends has its end marker in the log, and read views do not see it yet.
    EndLogged,
    /// Purge has learned what all read views see, and takes work next.
    HorizonLearned,
    /// A transaction that ends is visible to read views, and still counts as active.
    EndSeen,
    /// A unique check has collected the entries of rivals, and checks next whether one of their
    /// transactions is active. The index's leaf is latched.
    RivalMet,
    /// A unique check has had the lock of a rival's row, and looks again next.
    RivalLocked,
    /// An append has found the newest partition of a delta tree full, and begins the next one.
    PartitionDue,
    /// A merge has ended its mini-transaction, and subtracts next what it took out of the delta
    /// tree.
    MergedToBeCounted,
    /// An appender near the bound has taken the leaf that it is to merge, and not latched it.
    LeafTaken,
    /// A merge or a reader, with the base leaf latched, has learned which partitions of a delta
    /// tree hold something, and reads them next.
    PartitionsLearned,
    /// The freeing of dropped indexes has read the table's list of them, and takes one next.
    TreeToBeFreed,
    /// CREATE has made a table's file and its trees; the catalog does not name it yet.
    FileMade,
    /// The giving of pages to a load has checked whether one of them is dirty, and checks next
    /// whether one is being written.
    PastAsked,
    /// A mini-transaction has the table's raised AUTO_INCREMENT counter in the file's header, and
    /// is not in the log yet.
    CounterWritten,
    /// An insert has read where the latest row was placed, and latches that leaf next.
    AppendHintRead,
    /// An insert has found a remembered leaf resident, and latches it next.
    LeafToBeTried,
    /// A check whether a table is empty has found nothing pending for one of its indexes, and
    /// reads its tree next.
    NothingPending,
    /// A child row's maker has looked for the parent row, locked it if there is one, and changes
    /// its own row next.
    ParentLookedFor,
    /// A parent row is changed, and its child rows are looked for next.
    ChildrenToBeFound,
    /// A search for rows of a foreign key has met an entry, and checks next whether the entry's
    /// transaction is active. The index's leaf is latched.
    ForeignEntryMet,
    /// A page has moved to another frame, and the frame that it had still has its number. Its shard
    /// of the page table is locked.
    PageMoved,
    /// A frame that is to be withdrawn is empty, or cannot be emptied now.
    FrameEmptied,
    /// A load with rows out of order has linked its clustered tree, and places those rows next.
    LateToBePlaced,
}

#[cfg(not(test))]
#[inline(always)]
pub fn sync_point(_: SyncPoint) {}

#[cfg(test)]
type Action = (SyncPoint, Box<dyn FnOnce()>);

#[cfg(test)]
thread_local! {
    static ACTIONS: RefCell<Vec<Action>> = const { RefCell::new(Vec::new()) };
}

#[cfg(test)]
type Visitor = Rc<dyn Fn(SyncPoint)>;

#[cfg(test)]
thread_local! {
    static VISITOR: RefCell<Option<Visitor>> = const { RefCell::new(None) };
}

/// From now on, calls `visitor` with each sync point that this thread reaches.
#[cfg(test)]
pub fn at_each(visitor: Option<Visitor>) {
    let has_one = VISITOR.with_borrow(Option::is_some);
    assert!(
        visitor.is_none() || !has_one,
        "a visitor ends before the next one begins"
    );
    VISITOR.set(visitor);
}

/// Runs `action` when this thread reaches the sync point for the next time.
#[cfg(test)]
pub fn at(point: SyncPoint, action: impl FnOnce() + 'static) {
    ACTIONS.with_borrow_mut(|actions| actions.push((point, Box::new(action))));
}

#[cfg(test)]
pub fn sync_point(now: SyncPoint) {
    super::schedule_jitter::pause(8);
    let due = ACTIONS.with_borrow_mut(|actions| {
        let at = actions.iter().position(|(point, _)| *point == now)?;
        Some(actions.remove(at).1)
    });
    if let Some(action) = due {
        as_another_thread(action);
    }
    let visitor = VISITOR.with_borrow(Clone::clone);
    if let Some(visitor) = visitor {
        as_another_thread(|| visitor(now));
    }
}

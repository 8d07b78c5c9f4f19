//! Named moments between two steps of a thread, at which a test lets others act: what else happens once in a million runs happens each
//! time then. Outside the tests they are nothing.
#[cfg(test)]
use std::cell::RefCell;
#[cfg(test)]
use std::rc::Rc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// A round of group commit has written its bytes and given the lead on, and not synced yet. It holds `RedoSync`.
    LogToBeSynced,
    /// A locking read has copied an entry, and not asked yet whether its maker is active.
    EntryCopied,
    /// A locking read is to lock a row that has moved since it began, and whose entry it has passed.
    MovedRowFound,
    /// A consistent read has the visible version of an entry's row, and not asked yet whether the entry is as it was.
    RowOfEntryCopied,
    /// A semi-consistent read has copied the newest version of a row, and not asked yet whether its maker is active.
    VersionCopied,
    /// Whoever rewinds a row has an older version, and not asked yet whether it is the one to be shown.
    SteppedBack,
    /// A semi-consistent read has the newest committed version, and not read what is in overflow pages.
    CommittedVersionFound,
    /// A transaction that ends has its end marker in the log, and views do not see it yet.
    EndLogged,
    /// Purge has learned what all views see, and not yet taken work.
    HorizonLearned,
    /// A transaction that ends is seen by views, and active still.
    EndSeen,
    /// Whoever looks for the rivals of a unique value has collected entries, and not asked yet whether a maker is active. The index's leaf
    /// is latched.
    RivalMet,
    /// It has had the lock of a rival's row, and not looked again.
    RivalLocked,
    /// Who appends has found the newest partition of a delta tree full, and not begun the next.
    PartitionDue,
    /// A merge has ended its mini-transaction, and not counted down yet what it took out of the delta tree.
    MergedToBeCounted,
    /// An appender near the bound has taken the leaf that it is to merge, and not latched it.
    LeafTaken,
    /// A merge or a reader, with the base leaf latched, has learned which partitions of a delta tree hold something, and not looked into them.
    PartitionsLearned,
    /// Whoever frees dropped indexes has read the table's list of them, and comes to the next.
    TreeToBeFreed,
    /// CREATE has made a table's file and its trees; the catalog does not name it yet.
    FileMade,
    /// Whoever gives pages to a load has asked whether one of them is to be written, and not whether it is on its way.
    PastAsked,
    /// An Mtr has the table's raised AUTO_INCREMENT counter in the file's header, and is not in the log.
    CounterWritten,
    /// Who inserts knows where the latest row was placed, and has not latched that leaf.
    RisingLeafKnown,
    /// Who tries a remembered leaf has found it resident, and not latched it.
    LeafToBeTried,
    /// Who looks whether a table is empty knows that nothing is pending for one of its indexes, and has not looked at its tree.
    NothingPending,
    /// A load with rows out of order has linked its clustered tree, and placed none of these yet.
    LateToBePlaced,
}

#[cfg(not(test))]
#[inline(always)]
pub fn moment(_: Moment) {}

#[cfg(test)]
type Action = (Moment, Box<dyn FnOnce()>);

#[cfg(test)]
thread_local! {
    static ACTIONS: RefCell<Vec<Action>> = const { RefCell::new(Vec::new()) };
}

#[cfg(test)]
type Visitor = Rc<dyn Fn(Moment)>;

#[cfg(test)]
thread_local! {
    static VISITOR: RefCell<Option<Visitor>> = const { RefCell::new(None) };
}

/// Tells `visitor` of each moment that this thread comes to, from now on.
#[cfg(test)]
pub fn at_each(visitor: Option<Visitor>) {
    VISITOR.set(visitor);
}

/// Does `action` when this thread comes to the moment next.
#[cfg(test)]
pub fn at(moment: Moment, action: impl FnOnce() + 'static) {
    ACTIONS.with_borrow_mut(|actions| actions.push((moment, Box::new(action))));
}

#[cfg(test)]
pub fn moment(now: Moment) {
    super::rests::rest(8);
    let due = ACTIONS.with_borrow_mut(|actions| {
        let at = actions.iter().position(|(moment, _)| *moment == now)?;
        Some(actions.remove(at).1)
    });
    if let Some(action) = due {
        action();
    }
    let visitor = VISITOR.with_borrow(Clone::clone);
    if let Some(visitor) = visitor {
        visitor(now);
    }
}

//! Mutants: planted bugs, which show that the tests find such bugs.
//!
//! They exist only with the feature `mutants`, which no release has. Without the feature
//! [`planted`] is a constant `false`. One mutant is active at a time, named by SLUICE_MUTANT.
//! `make mutants` runs the simulation against each and prints the test that catches it. Called by:
//! the steps that the mutants break.

macro_rules! mutants {
    ($($(#[doc = $doc:literal])* $name:ident),* $(,)?) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Mutant { $($(#[doc = $doc])* $name),* }
        impl Mutant {
            pub const ALL: &'static [Mutant] = &[$(Mutant::$name),*];
        }
    };
}

mutants! {
    /// The log is written, and its sync is left out.
    LogSyncSkipped,
    /// The sync of one round of group commit fails, and the next round, which has written
    /// meanwhile, syncs and goes on.
    FailedSyncForgotten,
    /// A commit is acknowledged when its log is written, not durable.
    CommitBeforeDurable,
    /// Pages go to their places without a copy in the doublewrite file.
    DoublewriteSkipped,
    /// A page of which the log has an image is never copied again, although the page changes
    /// after it was written.
    ImageTrustedForGood,
    /// A page of which a part was moved counts as a page that the log can repair.
    MoveForgotten,
    /// Pages that the log can repair are written before their list.
    ListForgotten,
    /// Pages are written before the log that made them (I1).
    PageBeforeLog,
    /// Pages are written, and the sync of their file is left out.
    PageSyncSkipped,
    /// The checkpoint passes changes that are in dirty pages only.
    CheckpointAheadOfDirtyPages,
    /// Recovery applies a group to pages that have it already.
    RedoAppliedTwice,
    /// Recovery brings back what pages held before they were given to a load.
    GivenForgotten,
    /// Recovery brings back what was truncated with the end of a file.
    TruncateForgotten,
    /// A file is truncated before the log record of that is durable.
    TruncateNotDurable,
    /// A file is truncated, and the pool keeps pages past the new end.
    TruncateLeavesPages,
    /// A load is linked before its pages are durable.
    LoadNotForced,
    /// The log is turned off without its durable mark.
    LogOffUnmarked,
    /// Turning the log on leaves the data files unsynced.
    LogOnUnsynced,
    /// Any block with the right number belongs to the log, whatever its checksum and epoch.
    TornTailBelieved,
    /// A rollback leaves a transaction's first change as it is.
    RollbackSkipsRecord,
    /// A rollback notes that a record is undone before it undoes it.
    RollbackNotedAhead,
    /// An index entry that is to be removed stays.
    SecondaryRemovalLost,
    /// A rebuild gives columns new names, and the definitions of the table's children keep the old
    /// ones.
    ChildrenKeepOldNames,
    /// A statement publishes the foreign keys that a table keeps as they were when it began.
    ForeignKeysAsRead,
    /// DROP TABLE leaves the table's statistics in the system file.
    StatisticsSurviveDrop,
    /// Purge takes what an open view still needs.
    PurgeIgnoresViews,
    /// Unique values are not looked up.
    UniqueCheckSkipped,
    /// A frame that is withdrawn stays on the free list.
    WithdrawnFrameStaysFree,
    /// A dirty page that moves to another frame counts as clean there.
    MoveLosesChange,
    /// The absence filter of a page is still used after the page came back to the pool.
    AbsenceFilterKept,
    /// Unique values are not looked up among pending changes when a filter says that the leaf
    /// lacks them.
    PendingValueOverlooked,
    /// The rollback of a prepared transaction begins, and the log does not say so.
    PreparedRollbackNotLogged,
    /// The rollback of a prepared transaction is acknowledged before it is durable.
    PreparedRollbackNotDurable,
    /// A merge forgets to apply the first entry that it takes out of the change buffer.
    BufferedEntryLost,
    /// A merge leaves what it has applied in the change buffer.
    BufferedEntryMergedTwice,
    /// Leaves are redistributed over their neighbours without the first entry that is taken out
    /// for them.
    RedistributedEntryLost,
    /// Entries that were merged by a redistribution stay in the change buffer.
    RedistributedEntryMergedTwice,
    /// A merge under back-pressure takes a leaf's entries out of the change buffer, and applies
    /// none of them.
    BackpressureEntriesLost,
    /// When the newest partition is full, the oldest one is forgotten with what is in it.
    OldestPartitionForgotten,
    /// A partition that is closed because no thread writes to it is forgotten with what is in it.
    IdlePartitionForgotten,
    /// A change goes to its leaf though an older one is pending.
    BufferedEntryOvertaken,
    /// Of several partitions the newest comes first.
    PartitionsInWrongOrder,
    /// DROP INDEX frees the index, and not what is buffered for it.
    BufferSurvivesDropIndex,
    /// DROP TABLE removes the file without telling the log.
    DropNotLogged,
    /// The rollback of a load leaves its rows.
    LoadSurvivesRollback,
    /// A rollback gives entries the stamp of the row's version before, although that version left
    /// the entries unchanged.
    StampOfVersionBefore,
    /// A child row's maker looks at the parent row, and does not lock it.
    ParentNotLocked,
    /// To foreign keys, rows of the past count as rows of the present.
    PastCounts,
    /// Some rows that are changed beside an ALTER TABLE are not on its list.
    TouchedKeyForgotten,
    /// A row whose change was not committed when a round of ALTER TABLE looked at it is not looked
    /// at again.
    OpenChangeForgotten,
    /// Child rows are looked for without the buffered changes of their index.
    CascadeOverlooksBuffered,
    /// A child that has lost the index of a foreign key takes rows without a parent (K6).
    LostIndexNeedsNoParent,
    /// A parent row goes although its children cannot be found without their index (K6).
    LostIndexFreesParents,
    /// The foreign keys without an index count as unchanged in each child row that a cascade
    /// updates (K6).
    CascadeKeepsUnindexed,
    /// A transaction with a place in a cluster's order waits for all requests that came before its
    /// own (C1).
    NoPassingInQueue,
    /// Such a transaction is the victim of a deadlock as any other (C1).
    VictimIgnoresPlace,
    /// A position without changes of rows is not in the log when it is given.
    PositionNotFlushed,
    /// Checkpoints recycle segments of the log that a backup has not copied (B1).
    BackupLogNotHeld,
    /// The last block of a backup's log keeps what follows the point.
    BackupBlockNotCut,
    /// A load logs no images of its pages while a backup runs (B4).
    BackupLoadsNotLogged,
    /// A restore leaves pages as they are that were given to a load (B5).
    RestoreKeepsGivenPages,
    /// A restore leaves files as long as they are that the log cuts (B5).
    RestoreKeepsCutPages,
}

#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn planted(_: Mutant) -> bool {
    false
}

#[cfg(feature = "mutants")]
pub fn planted(mutant: Mutant) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<Mutant>> = std::sync::OnceLock::new();
    let choose = || {
        let name = std::env::var("SLUICE_MUTANT").ok()?;
        let named = Mutant::ALL.iter().find(|m| format!("{m:?}") == name);
        Some(*named.unwrap_or_else(|| panic!("SLUICE_MUTANT={name}: no such mutant")))
    };
    *CHOSEN.get_or_init(choose) == Some(mutant)
}

//! [`OnlineAlter`]: an ALTER TABLE that does not block writers. It applies their changes in rounds;
//! a round applies the difference of two snapshots.
//!
//! **L1** After a round, the new index or table has for every key what the round's view sees.
//! Proof: `docs/decisions/2026-11-28-online-alter.md`.
//!
//! Takes no latch for longer than one read of a row. Called by the engine and by the C ABI.
use crate::base::sync::holds_no_latch;
use crate::base::{planted, Error, Mutant, Result};
use crate::index::RowHeader;
use crate::pool::Pool;
use crate::table::bulk::fill::kill_poll;
use crate::table::catalog::table::Table;
use crate::table::catalog::touched_keys::TouchedKeys;
use crate::table::scan::cursor::Cursor;
use crate::table::scan::lock_choice::LockChoice;
use crate::table::scan::reader::Reader;
use crate::txn::{ReadView, Trx, TrxSys};
use std::sync::Arc;

/// Keys of a round between two checks for KILL.
const KEYS_PER_POLL: usize = 64;

/// A row that differs between the two views of a round. None: the view has no such row.
#[derive(Clone, Copy, Debug)]
pub struct RowChange<'a> {
    /// The clustered key.
    pub key: &'a [u8],
    /// By the older view. None in the second pass.
    pub was: Option<&'a [u8]>,
    /// By the newer view.
    pub is: Option<&'a [u8]>,
    pub pass: Pass,
}

/// A round gives each changed key in the first pass. Those whose newer row has to wait come again
/// in the second pass, when all older rows are gone. So a unique value that moves from one row to
/// another is never in a rebuilt table twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pass {
    First,
    Second,
}

/// What was done with a [`RowChange`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Followed {
    Whole,
    /// The newer row comes again in the second pass.
    OlderRowOnly,
}

pub type EachChange<'a> = &'a mut dyn FnMut(&RowChange<'_>) -> Result<Followed>;

/// An ALTER TABLE that runs. A drop removes the list of touched keys from the table.
pub struct OnlineAlter {
    pool: Arc<Pool>,
    trx_sys: Arc<TrxSys>,
    reader: Arc<Reader>,
    table: Arc<Table>,
    keys: Arc<TouchedKeys>,
}

/// The result of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Keys on its list.
    pub keys: u64,
    /// Keys whose rows differ in the two views.
    pub changed: u64,
    /// Keys that went to the next list, because a transaction that has changed them is active.
    pub again: u64,
}

impl OnlineAlter {
    /// Begins to record touched keys, and takes the first snapshot, in `base`: a transaction at
    /// REPEATABLE READ without a snapshot. Until this returns, no transaction may have changes in
    /// the table, or begin one. `bytes_max`: memory for keys.
    pub(in crate::table) fn begin(
        reader: &Arc<Reader>,
        table: &Arc<Table>,
        base: &mut Trx,
        bytes_max: u64,
    ) -> Result<OnlineAlter> {
        reader.pool.check_alive()?;
        debug_assert!(
            base.view().is_none(),
            "L1: the first snapshot is taken after keys are noted"
        );
        let keys = Arc::new(TouchedKeys::new(bytes_max));
        if !table.note_touched_keys(&keys) {
            let what = format!("table {} is already being altered", reader.catalog.shown(table));
            return Err(Error::Unsupported(what));
        }
        reader.trx_sys.visibility.open_view(base);
        Ok(OnlineAlter {
            pool: reader.pool.clone(),
            trx_sys: reader.trx_sys.clone(),
            reader: reader.clone(),
            table: table.clone(),
            keys,
        })
    }

    /// One round. `old` has the snapshot of the round before, or the first one; `new` gets one
    /// here. The caller ends `old` then, and uses `new` as the `old` of the next round. `each` gets
    /// the rows that differ. In the last round no other transaction has changes in the table;
    /// then `again` is 0.
    pub fn round(&self, old: &mut Trx, new: &mut Trx, each: EachChange<'_>) -> Result<Round> {
        debug_assert!(holds_no_latch(), "the rows of a round go to the server, which may wait");
        debug_assert!(
            old.view().is_some() && new.view().is_none(),
            "L1: a round goes from the snapshot of the one before to one of its own"
        );
        // In this order: see the proof of L1.
        let view = self.trx_sys.visibility.open_view(new);
        let keys = self.keys.take();
        self.check_not_full()?;
        let (mut before, mut after) = (self.cursor(), self.cursor());
        let waiter = new.shared.waiter.clone();
        let mut killed = kill_poll(new);
        let mut done = Round::default();
        let mut waiting = Vec::new();
        for (i, key) in keys.iter().enumerate() {
            if i % KEYS_PER_POLL == 0 {
                killed()?;
                waiter.progress(i as u64, keys.len() as u64);
            }
            done.keys += 1;
            let was = row_by(&mut before, old, key)?;
            let is = row_by(&mut after, new, key)?;
            if was != is {
                done.changed += 1;
                let change = RowChange {
                    key,
                    was: was.as_deref(),
                    is: is.as_deref(),
                    pass: Pass::First,
                };
                match each(&change)? {
                    Followed::OlderRowOnly if is.is_some() => waiting.push(i),
                    Followed::OlderRowOnly | Followed::Whole => {}
                }
            }
            if self.is_changed_since(key, &view)? {
                done.again += 1;
                if !planted(Mutant::OpenChangeForgotten) {
                    self.keys.add(key);
                }
            }
        }
        for (i, at) in waiting.into_iter().enumerate() {
            if i % KEYS_PER_POLL == 0 {
                killed()?;
            }
            let is = row_by(&mut after, new, &keys[at])?;
            let followed = each(&RowChange {
                key: &keys[at],
                was: None,
                is: is.as_deref(),
                pass: Pass::Second,
            })?;
            debug_assert!(followed == Followed::Whole, "there is no third pass");
        }
        self.check_not_full()?;
        debug_assert!(
            done.changed <= done.keys && done.again <= done.keys,
            "a round counts each key of its list once"
        );
        Ok(done)
    }

    /// The newest version of the row is by a transaction that the view does not see.
    fn is_changed_since(&self, key: &[u8], view: &ReadView) -> Result<bool> {
        let leaf = self.table.layout().clustered.tree.get(&self.pool, key)?;
        Ok(leaf.is_some_and(|leaf| !view.sees(RowHeader::read(leaf.value()).trx)))
    }

    fn check_not_full(&self) -> Result<()> {
        match self.keys.is_full() {
            false => Ok(()),
            true => Err(Error::OnlineAlterFull(self.reader.catalog.shown(&self.table))),
        }
    }

    fn cursor(&self) -> Cursor {
        Cursor::new(self.reader.clone(), self.table.clone())
    }
}

fn row_by(cursor: &mut Cursor, view: &mut Trx, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let is_there = cursor.get(view, key, LockChoice::default())?;
    Ok(cursor.found().filter(|_| is_there).map(|found| found.row.to_vec()))
}

impl Drop for OnlineAlter {
    fn drop(&mut self) {
        self.table.forget_touched_keys();
    }
}

//! Which transactions are active, and what each reader may see of them.
//!
//! [`Visibility`] gives ids and commit numbers, keeps the active set, makes and closes read views,
//! and knows which ends are durable. Invariant: an end whose number is below a view's `commit_no`
//! is seen by that view. Purge depends on it (`undo/purge.rs`), `commit.rs` says how it holds.
//!
//! Locks: one mutex ([`Rank::TrxSys`]), held for a few stores (a view copies the active ids). It is
//! never held while a page is fetched or the log is written. Called by: `sys.rs`, `commit.rs`,
//! `purge.rs`; the table layer opens and closes views here.
use super::active::ActiveSet;
use super::durable_reads::{DurableEnds, Safety};
use super::numbers::Numbers;
use super::shared::TrxShared;
use super::trx::{ActiveTrx, OpenView, Trx};
use super::undo::directory::Position;
use super::view::registry::{OldestView, ViewRegistry};
use super::view::snapshot::ReadView;
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{planted, Lsn, Mutant, Result, TrxId};
use crate::pool::Pool;
use crate::redo::FlushMode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

struct State {
    numbers: Numbers,
    views: ViewRegistry,
    ends: DurableEnds,
    /// Newest replication position.
    position: Position,
}

pub struct Visibility {
    pool: Arc<Pool>,
    active: ActiveSet,
    state: RankedMutex<State>,
    /// `low` of the oldest open view, MAX if there is none. Written under the mutex.
    oldest_view_low: AtomicU64,
    safety: Safety,
    /// Every transaction with a lower id has ended, durably. Written under the mutex.
    durable_low: AtomicU64,
    /// Clock of the latest `tick`.
    tick_us: AtomicU64,
}

/// The end of a transaction, as [`Visibility::end`] needs it.
pub(super) struct VisibleEnd<'a> {
    pub id: TrxId,
    /// From [`Visibility::begin_end`], if the transaction has an end marker.
    pub number: Option<u64>,
    /// A commit that readers must know to be durable: the LSN of its end marker.
    pub commit_lsn: Option<Lsn>,
    /// The replication position of a commit; empty: none.
    pub position: &'a [u8],
}

impl Visibility {
    /// `active`: ids of the transactions that recovery found, in ascending order; `bound`: numbers
    /// go on from there.
    pub(super) fn new(pool: Arc<Pool>, bound: u64, active: Vec<TrxId>, position: Position) -> Visibility {
        Visibility {
            pool,
            active: ActiveSet::new(active.first().copied().unwrap_or(bound)),
            state: RankedMutex::new(
                Rank::TrxSys,
                State {
                    numbers: Numbers::new(bound, active),
                    views: ViewRegistry::default(),
                    ends: DurableEnds::default(),
                    position,
                },
            ),
            oldest_view_low: AtomicU64::new(u64::MAX),
            safety: Safety::default(),
            durable_low: AtomicU64::new(0),
            tick_us: AtomicU64::new(0),
        }
    }

    // ---- begin and end ----

    /// Draws the next id, active at once, so that no view falls between the two. None: numbers must
    /// be reserved first ([`Visibility::next_unreserved`]). `show` must follow.
    pub(super) fn begin(&self) -> Option<TrxId> {
        let mut state = self.state.lock();
        if !state.numbers.can_draw() {
            return None;
        }
        let is_only_one = state.numbers.active().is_empty();
        let id = state.numbers.begin();
        if is_only_one {
            debug_assert!(id >= self.oldest_active(), "the oldest active id only grows");
            self.active.low.store(id, Ordering::Release);
        }
        Some(id)
    }
    /// Other transactions that meet the id find `shared` from now on.
    pub(super) fn show(&self, id: TrxId, shared: &Arc<TrxShared>) {
        self.active.add(id, shared);
    }
    /// The next number, if more numbers must be reserved before it is drawn.
    pub(super) fn next_unreserved(&self) -> Option<u64> {
        let state = self.state.lock();
        (!state.numbers.can_draw()).then(|| state.numbers.next())
    }
    pub(super) fn raise_bound(&self, bound: u64) {
        self.state.lock().numbers.raise_bound(bound);
    }
    /// Draws the commit number of an end. `end` or `take_end_back` must follow.
    pub(super) fn begin_end(&self) -> u64 {
        self.state.lock().numbers.begin_end()
    }
    /// The end marker could not be written: the transaction stays active.
    pub(super) fn take_end_back(&self, number: Option<u64>) {
        self.state.lock().numbers.end_committing(number);
    }
    /// The end becomes visible: to new views at once, to other threads that meet the id with
    /// `hide`.
    pub(super) fn end(&self, end: VisibleEnd<'_>) {
        let mut state = self.state.lock();
        state.numbers.end_committing(end.number);
        let low = state.numbers.leave(end.id);
        debug_assert!(low >= self.oldest_active(), "the oldest active id only grows");
        self.active.low.store(low, Ordering::Release);
        if let Some(lsn) = end.commit_lsn {
            state.ends.note_commit(lsn);
        }
        let number = end.number.unwrap_or(0);
        if !end.position.is_empty() && state.position.0 < number {
            state.position = (number, end.position.to_vec());
        }
    }
    /// After `end`.
    pub(super) fn hide(&self, id: TrxId) {
        self.active.remove(id);
    }
    /// The newest replication position that was committed, and survives.
    pub(super) fn position(&self) -> Position {
        self.state.lock().position.clone()
    }

    // ---- the active set ----

    pub(super) fn is_active(&self, id: TrxId) -> bool {
        self.active.contains(id)
    }
    /// The active transaction of that id. O(1) "no" for old ids.
    pub(super) fn get(&self, id: TrxId) -> Option<Arc<TrxShared>> {
        self.active.get(id)
    }
    /// No transaction with a smaller id is active, and the ends of all such are visible.
    pub(super) fn oldest_active(&self) -> TrxId {
        self.active.low.load(Ordering::Acquire)
    }
    /// Every transaction below this id is committed and visible to every present and future view.
    pub fn all_see_below(&self) -> TrxId {
        // In this order: a view that is older than `low` as read here had stored its own before
        // `low` moved on.
        let low = self.active.low.load(Ordering::Acquire);
        low.min(self.oldest_view_low.load(Ordering::Acquire))
    }

    // ---- views ----

    /// Makes the consistent-read view if there is none.
    pub fn open_view(&self, trx: &mut Trx) -> Arc<ReadView> {
        trx.active_mut().view_is_fresh = false;
        debug_assert!(
            trx.view().is_none_or(|view| view.own == trx.id()),
            "a view shows the changes of its own transaction"
        );
        if let Some(view) = trx.view() {
            return view.clone();
        }
        let open = self.register(trx);
        let view = open.view.clone();
        trx.active_mut().view = Some(open);
        view
    }

    /// As `open_view`, for a locking read that can do with a newer view as long as it has seen
    /// nothing.
    pub fn open_fresh_view(&self, trx: &mut Trx) {
        self.open_view(trx);
        trx.active_mut().view_is_fresh = true;
    }

    /// Makes the statement's view if there is none: it is no ground for a conflict.
    pub fn open_statement_view(&self, trx: &mut Trx) -> Arc<ReadView> {
        if let Some(view) = trx.statement_view() {
            return view.clone();
        }
        let open = self.register(trx);
        let view = open.view.clone();
        trx.active_mut().statement_view = Some(open);
        view
    }

    fn register(&self, trx: &mut Trx) -> OpenView {
        let mut view = trx.spare.view.take().unwrap_or_default();
        if Arc::get_mut(&mut view).is_none() {
            view = Arc::default();
        }
        let content = Arc::get_mut(&mut view).expect("no cursor holds the view");
        content.own = trx.id();
        let opened_us = self.about_now_us(&trx.shared);
        trx.shared.snapshot_us.store(opened_us, Ordering::Relaxed);
        let mut state = self.state.lock();
        content.high = state.numbers.next();
        content.low = state.numbers.oldest_active();
        content.active.clear();
        content.active.extend_from_slice(state.numbers.active());
        content.commit_no = state.numbers.commit_no();
        debug_assert!(
            content.low <= content.high && content.commit_no <= content.high,
            "a view sees no number that was not given"
        );
        debug_assert!(
            content.low >= self.oldest_view_low.load(Ordering::Relaxed) || state.views.len() == 0,
            "views open in the order of their `low`"
        );
        debug_assert!(content.active.last().is_none_or(|newest| *newest < content.high));
        self.advance_durable(&mut state);
        content.not_durable = state.ends.missing(&state.numbers);
        let slot = state.views.open(content, trx.shared.connection, opened_us);
        if state.views.len() == 1 {
            self.oldest_view_low.store(content.low, Ordering::Release);
        }
        drop(state);
        OpenView { view, slot }
    }

    /// The transaction got its id after its views were made: they see its changes.
    pub(super) fn show_own(active: &mut ActiveTrx, id: TrxId) {
        for open in [&mut active.view, &mut active.statement_view].into_iter().flatten() {
            debug_assert!([0, id].contains(&open.view.own), "a transaction gets one id");
            Arc::make_mut(&mut open.view).own = id;
        }
    }

    /// Closes the statement's view, too.
    pub fn close_view(&self, trx: &mut Trx) {
        let Some(active) = &mut trx.active else { return };
        note_shown(active);
        let views = [active.view.take(), active.statement_view.take()];
        self.close(trx, views);
    }

    /// Not the statement's view: that statement goes on.
    pub fn close_own_view(&self, trx: &mut Trx) {
        let Some(active) = &mut trx.active else { return };
        note_shown(active);
        let view = active.view.take();
        self.close(trx, [view, None]);
    }

    fn close(&self, trx: &mut Trx, views: [Option<OpenView>; 2]) {
        if views.iter().all(Option::is_none) {
            return;
        }
        if trx.statement_view().is_none() {
            trx.shared.snapshot_us.store(0, Ordering::Relaxed);
        }
        let mut was_oldest = false;
        let mut state = self.state.lock();
        for open in views.iter().flatten() {
            was_oldest |= state.views.close(open.slot);
        }
        if was_oldest {
            let low = state.views.oldest().map_or(u64::MAX, |view| view.low);
            debug_assert!(
                low >= self.oldest_view_low.load(Ordering::Relaxed),
                "the oldest view's `low` only grows while there are views"
            );
            self.oldest_view_low.store(low, Ordering::Release);
        }
        drop(state);
        trx.spare.view = views.into_iter().flatten().next().map(|open| open.view);
    }

    /// The view that holds purge back, and how many are open.
    pub fn oldest_view(&self) -> (Option<OldestView>, usize) {
        let state = self.state.lock();
        (state.views.oldest(), state.views.len())
    }

    /// The clock to the second, without a call of the system: statements make snapshots often.
    fn about_now_us(&self, trx: &TrxShared) -> u64 {
        let tick = self.tick_us.load(Ordering::Relaxed);
        trx.started_us.load(Ordering::Relaxed).max(tick).max(1)
    }
    /// Called about once a second.
    pub fn tick(&self) {
        self.tick_us.store(self.pool.disk().now_us(), Ordering::Relaxed);
    }

    // ---- what is durable (`durable_reads.rs`) ----

    /// How safe a commit is when its client learns of it; None: nothing is written at commit. Until
    /// this is called: None.
    pub fn set_commit_safety(&self, mode: Option<FlushMode>) {
        self.safety.set(mode);
    }
    /// A locking read has met the newest version of a row, or an entry, which `maker` made.
    pub fn note_newest(&self, trx: &mut Trx, maker: TrxId) {
        if maker >= self.durable_low.load(Ordering::Relaxed) && maker != trx.id() {
            trx.active_mut().shows_newest = true;
        }
    }
    fn is_safe(&self, lsn: Lsn) -> bool {
        self.safety
            .get()
            .is_none_or(|mode| self.pool.redo().is_flushed(lsn, mode))
    }
    fn advance_durable(&self, state: &mut State) {
        state.ends.advance(&state.numbers, |lsn| self.is_safe(lsn));
        let before = self.durable_low.swap(state.ends.low(), Ordering::Relaxed);
        debug_assert!(before <= state.ends.low(), "what is durable only grows");
    }
    /// Every end that is visible by now is durable on return.
    pub(super) fn make_durable(&self) -> Result<()> {
        let newest = self.state.lock().ends.newest();
        match self.safety.get() {
            Some(mode) if !self.is_safe(newest) => self.pool.redo().flush(newest, mode),
            _ => Ok(()),
        }
    }
    /// What the end of a transaction that wrote nothing must wait for; 0: nothing.
    pub(super) fn shown_lsn(&self, trx: &mut Trx) -> Lsn {
        let Some(active) = &mut trx.active else { return 0 };
        note_shown(active);
        let lsn = match active.shows_newest {
            true => self.state.lock().ends.newest(),
            false => active.shown_lsn,
        };
        match self.is_safe(lsn) {
            true => 0,
            false => lsn,
        }
    }

    /// Commit numbers for purge. All views, also those made later, see the ends below the first; no
    /// crash takes back an end below the second.
    pub(super) fn horizons(&self) -> (u64, u64) {
        let mut state = self.state.lock();
        let oldest = state.views.oldest().filter(|_| !planted(Mutant::PurgeIgnoresViews));
        // Without a view: what the next one would have, which does not see the ends under way.
        let horizon = oldest.map_or_else(|| state.numbers.commit_no(), |view| view.commit_no);
        debug_assert!(
            horizon <= state.numbers.commit_no(),
            "an end under way is above the horizon of purge"
        );
        self.advance_durable(&mut state);
        (horizon, state.ends.commit_no())
    }

    #[cfg(test)]
    pub(super) fn next_number(&self) -> u64 {
        self.state.lock().numbers.next()
    }
}

/// The views go, or the transaction ends: what they have shown stays noted.
fn note_shown(active: &mut ActiveTrx) {
    let shown = active.views().filter_map(|open| open.view.not_durable.as_ref());
    let lsn = shown.map(|not_durable| not_durable.shown_lsn()).max();
    active.shown_lsn = active.shown_lsn.max(lsn.unwrap_or(0));
}

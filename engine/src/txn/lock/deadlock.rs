//! Deadlocks: found at the wait, by a search of the wait-for graph from the transaction about to
//! sleep.
//!
//! The graph is not kept. Its edges are read from the queues, one shard at a time, under
//! [`Rank::DeadlockSearch`], so that one search runs at a time. That finds every deadlock. Each
//! participant queues its request first and searches then, so the last one to search sees the
//! others' requests queued. A request may come before a sleeper's later, by an upgrade or a range.
//! It does so by its owner's thread, which searches when it waits, then or later. Where another
//! thread does it, that thread searches (`implicit.rs`).
//!
//! A search may, rarely, see a circle of edges that never existed all at one time. So before a
//! victim is chosen, every wait of the circle is looked at again. A wait that is decided is part of
//! no circle. The victim's wait is decided before the next search begins, so a circle costs one
//! victim, however many transactions search for it.
//!
//! A hot row with n waiters is expanded once, not n times: the requests before a waiter stand
//! before all later waiters too.
//!
//! Victim: the transaction whose wait closed the circle, unless another has at most half as much to
//! lose (undo records and locks). A transaction that has changed tables without transactions is
//! spared: its rollback leaves those changes. A transaction with a place in a cluster's order is no
//! victim, unless all have one: then it is the last in that order (C1). The victim's own thread
//! leaves the queue and rolls back.
//! Called by `sleep.rs` and `implicit.rs` with no latch and no mutex held.
use super::held::WaitPlace;
use super::table::LockTable;
use super::wait_flag::{decide, WAIT_DEADLOCK};
use crate::base::sync::{Rank, RankedMutex};
use crate::base::{planted, Counters, Mutant};
use crate::txn::info::{DeadlockInfo, DeadlockParty};
use crate::txn::shared::TrxShared;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, OnceLock};

/// Accounts that are kept.
pub const DEADLOCKS_KEPT_MAX: usize = 5;

/// Monotonic microseconds, from the engine's `Disk`.
pub(in crate::txn) type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

/// Called for each deadlock, without latches and locks, by the thread that found it.
pub type DeadlockListener = Box<dyn Fn(&DeadlockInfo) + Send + Sync>;

struct Node {
    trx: Arc<TrxShared>,
    wait_no: u64,
    /// The node that waits for this one.
    parent: usize,
    /// The queue through which the node was found, if all before it in that queue were found too.
    via: Option<WaitPlace>,
}

pub(super) struct DeadlockSearch {
    /// One search at a time. The content are the accounts of the latest deadlocks, newest first.
    latest: RankedMutex<VecDeque<DeadlockInfo>>,
    listener: OnceLock<DeadlockListener>,
    counters: Arc<Counters>,
}

impl DeadlockSearch {
    pub fn new(counters: Arc<Counters>) -> DeadlockSearch {
        DeadlockSearch {
            latest: RankedMutex::new(Rank::DeadlockSearch, VecDeque::new()),
            listener: OnceLock::new(),
            counters,
        }
    }

    /// To be called once.
    pub fn listen(&self, listener: DeadlockListener) {
        let first = self.listener.set(listener).is_ok();
        assert!(first, "one listens to deadlocks");
    }

    /// Newest first.
    pub fn latest(&self) -> Vec<DeadlockInfo> {
        self.latest.lock().iter().cloned().collect()
    }

    /// Searches from `start`, which waits. The victims, of which it may be one, are marked and
    /// woken.
    pub fn find(&self, table: &LockTable, start: &Arc<TrxShared>, clock: &Clock) {
        let found = self.search_from(table, start, clock);
        for (victim, _) in &found {
            victim.waiter.wake();
        }
        if let Some(listener) = self.listener.get() {
            found.iter().for_each(|(_, account)| listener(account));
        }
    }

    /// The victims, marked, and the accounts.
    fn search_from(
        &self,
        table: &LockTable,
        start: &Arc<TrxShared>,
        clock: &Clock,
    ) -> Vec<(Arc<TrxShared>, DeadlockInfo)> {
        let mut found = Vec::new();
        let mut latest = self.latest.lock();
        while let Some(circle) = find_circle(table, start) {
            debug_assert!(
                Arc::ptr_eq(&circle[0].trx, start),
                "a circle begins where the search did"
            );
            if !is_there(table, &circle) {
                continue;
            }
            let victim = choose_victim(&circle);
            debug_assert!(victim < circle.len(), "the victim is one of the circle");
            let account = account(table, &circle, victim, clock());
            if !condemn(table, &circle[victim]) {
                // The victim's wait has ended another way, and the circle with it.
                continue;
            }
            self.counters.deadlocks.inc();
            latest.truncate(DEADLOCKS_KEPT_MAX - 1);
            latest.push_front(account.clone());
            debug_assert!(latest.len() <= DEADLOCKS_KEPT_MAX, "an old one goes for each new one");
            found.push((circle[victim].trx.clone(), account));
        }
        found
    }
}

/// Each node still waits for the next, in the same wait as when the search found it. A transaction
/// that waits gives nothing back meanwhile. (An edge may be out of date: its holder can have given
/// the lock back, and gone into another wait before the search finds it.)
fn is_there(table: &LockTable, circle: &[Node]) -> bool {
    let waits_for = |node: &Node, next: &Node| {
        let place = node.trx.wait_place();
        place
            .map(|place| table.blockers(&node.trx, place))
            .is_some_and(|blockers| blockers.iter().any(|b| Arc::ptr_eq(b, &next.trx)))
    };
    let mut pairs = circle.iter().zip(circle.iter().cycle().skip(1));
    pairs.all(|(node, next)| waits_for(node, next))
        && circle.iter().all(|node| node.trx.wait_no.load(Acquire) == node.wait_no)
}

/// The shortest circle of waits through `start`, which comes first; each waits for the next.
fn find_circle(table: &LockTable, start: &Arc<TrxShared>) -> Option<Vec<Node>> {
    let node = |trx: &Arc<TrxShared>, parent, via| Node {
        trx: trx.clone(),
        wait_no: trx.wait_no.load(Acquire),
        parent,
        via,
    };
    let mut nodes = vec![node(start, 0, None)];
    let mut seen: HashSet<*const TrxShared> = HashSet::new();
    let mut at = 0;
    while at < nodes.len() {
        let trx = nodes[at].trx.clone();
        debug_assert!(
            nodes[at].parent <= at,
            "a node is found from an earlier one, so that every path ends"
        );
        let place = trx.wait_place().filter(|place| Some(*place) != nodes[at].via);
        if let Some(place) = place {
            let edges = table.edges(&trx, place);
            let via = edges.whole_queue.then_some(place);
            for blocker in &edges.blockers {
                if Arc::ptr_eq(blocker, start) {
                    return Some(path(nodes, at));
                }
                if seen.insert(Arc::as_ptr(blocker)) {
                    nodes.push(node(blocker, at, via));
                }
            }
        }
        at += 1;
    }
    None
}

/// Marks the victim; false: its wait has been decided meanwhile.
fn condemn(table: &LockTable, victim: &Node) -> bool {
    let trx = &victim.trx;
    let same_wait = || trx.wait_no.load(Acquire) == victim.wait_no;
    table.while_queued(trx, || same_wait() && decide(trx, WAIT_DEADLOCK))
}

fn account(table: &LockTable, circle: &[Node], victim: usize, at_us: u64) -> DeadlockInfo {
    let before = |i: usize| &circle[(i + circle.len() - 1) % circle.len()].trx;
    let party = |(i, node): (usize, &Node)| {
        let statement = node.trx.statement.lock().clone();
        DeadlockParty {
            trx: table.info(&node.trx, at_us),
            statement,
            holds: table.held_against(before(i), &node.trx),
        }
    };
    DeadlockInfo {
        at_us,
        circle: circle.iter().enumerate().map(party).collect(),
        victim,
    }
}

/// The nodes from the root to `last`.
fn path(nodes: Vec<Node>, last: usize) -> Vec<Node> {
    let mut on_path = vec![last];
    while on_path[on_path.len() - 1] != 0 {
        on_path.push(nodes[on_path[on_path.len() - 1]].parent);
    }
    let mut nodes: Vec<Option<Node>> = nodes.into_iter().map(Some).collect();
    on_path
        .iter()
        .rev()
        .map(|i| nodes[*i].take().expect("a path has no node twice"))
        .collect()
}

fn choose_victim(circle: &[Node]) -> usize {
    let weight = |node: &Node| node.trx.undo_records.load(Relaxed) + node.trx.lock_count.load(Relaxed);
    let loss = |i: &usize| (circle[*i].trx.changes_stay.load(Relaxed), weight(&circle[*i]));
    let place = |i: &usize| circle[*i].trx.place.load(Relaxed);
    let without_place: Vec<usize> = (0..circle.len()).filter(|i| place(i) == 0).collect();
    if without_place.len() < circle.len() && !planted(Mutant::VictimIgnoresPlace) {
        let lightest = without_place.into_iter().min_by_key(loss);
        let last = (0..circle.len()).max_by_key(place);
        return lightest.or(last).expect("a circle has nodes");
    }
    let lightest = (0..circle.len()).min_by_key(loss).expect("a circle has nodes");
    let ((stay, least), (first_stay, first)) = (loss(&lightest), loss(&0));
    if stay != first_stay || least * 2 <= first {
        lightest
    } else {
        0
    }
}

//! Deadlocks: found at the wait, by a search of the wait-for graph from the transaction that is about to sleep.
//!
//! The graph is not kept: its edges are read from the queues, one shard at a time, under [`Rank::DeadlockSearch`] (one
//! search at a time). That finds every deadlock: each participant queues its request first and searches then, so the
//! last of them to search sees the others' requests queued. Who comes before a sleeper later, by an upgrade or a range, does so by its own
//! thread, and searches when it waits, then or later; where it is by another's, that one searches (`explicit.rs`).
//!
//! A search may, rarely, see a circle of edges that never existed all at one time; before a victim is chosen every wait of the circle is
//! looked at again. Whose wait has its verdict is part of no circle: the victim has its own before the next search begins, so that a circle
//! costs one of them, whoever else looks for it.
//!
//! A hot row with n waiters is expanded once, not n times: what stands before a waiter stands before those behind it.
//!
//! Victim: the transaction whose wait closed the circle, unless another has less than half as much to lose (undo records
//! and locks). It leaves its queue and its transaction is rolled back by its own thread.
use super::lock::{LockSys, WaitPlace};
use super::lock_table::Request;
use super::report::{BlockerInfo, DeadlockInfo, DeadlockParty, HeldInfo, TrxInfo, WaitInfo};
use super::sleep::{decide, is_verdict, WAIT_DEADLOCK};
use super::{LockMode, TrxShared};
use std::collections::HashSet;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::Arc;

/// Accounts that are kept.
pub const DEADLOCKS_KEPT_MAX: usize = 5;

struct Node {
    trx: Arc<TrxShared>,
    wait_no: u64,
    /// The node that waits for this one.
    parent: usize,
    /// The queue through which it was found, if everyone before it in that queue was found too.
    via: Option<WaitPlace>,
}

/// A wait as read from its queue.
struct Edges {
    blockers: Vec<Arc<TrxShared>>,
    /// Everyone before it in its queue blocks it.
    whole_queue: bool,
}

impl LockSys {
    /// Searches from `start`, which waits. The victims, of which it may be one, are marked and woken.
    pub(super) fn find_deadlock(&self, start: &Arc<TrxShared>) {
        let found = self.search_from(start);
        for (victim, _) in &found {
            victim.waiter.wake();
        }
        if let Some(listener) = self.listener.get() {
            found.iter().for_each(|(_, account)| listener(account));
        }
    }

    /// The victims, marked, and the accounts.
    fn search_from(&self, start: &Arc<TrxShared>) -> Vec<(Arc<TrxShared>, DeadlockInfo)> {
        let mut found = Vec::new();
        let mut latest = self.search.lock();
        while let Some(circle) = self.find_circle(start) {
            if !self.is_there(&circle) {
                continue;
            }
            let victim = choose_victim(&circle);
            let account = self.account(&circle, victim);
            if !self.condemn(&circle[victim]) {
                // Its wait has ended another way, and the circle with it.
                continue;
            }
            self.counters.deadlocks.inc();
            latest.truncate(DEADLOCKS_KEPT_MAX - 1);
            latest.push_front(account.clone());
            found.push((circle[victim].trx.clone(), account));
        }
        found
    }

    /// Each still waits for the next, in the wait that it was in when it was found: whoever waits gives nothing back meanwhile. (An edge
    /// may have been read before: its holder can have given the lock back and gone into another wait by the time it is found.)
    fn is_there(&self, circle: &[Node]) -> bool {
        let waits_for = |node: &Node, next: &Node| {
            WaitPlace::of(&node.trx)
                .map(|place| self.blockers(&node.trx, place))
                .is_some_and(|blockers| blockers.iter().any(|b| Arc::ptr_eq(b, &next.trx)))
        };
        let mut pairs = circle.iter().zip(circle.iter().cycle().skip(1));
        pairs.all(|(node, next)| waits_for(node, next))
            && circle.iter().all(|node| node.trx.wait_no.load(Acquire) == node.wait_no)
    }

    /// The shortest circle of waits through `start`, which comes first; each waits for the next.
    fn find_circle(&self, start: &Arc<TrxShared>) -> Option<Vec<Node>> {
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
            let place = WaitPlace::of(&trx).filter(|place| Some(*place) != nodes[at].via);
            if let Some(place) = place {
                let edges = self.edges(&trx, place);
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

    /// Whom `trx` waits for, in the order of the queue; nobody if its wait has been decided.
    pub(super) fn blockers(&self, trx: &Arc<TrxShared>, place: WaitPlace) -> Vec<Arc<TrxShared>> {
        self.edges(trx, place).blockers
    }

    /// Its wait as it is now.
    fn edges(&self, trx: &Arc<TrxShared>, place: WaitPlace) -> Edges {
        let none = Edges {
            blockers: Vec::new(),
            whole_queue: false,
        };
        if is_verdict(trx.wait_flag.load(Acquire)) {
            return none;
        }
        match place {
            WaitPlace::Row(at) => self.with_shard(at, |shard, slot| {
                let Some(entry) = shard.get(slot) else { return none };
                let Some(request) = entry.waiting_request(trx) else {
                    return none;
                };
                Edges {
                    whole_queue: request.mode == LockMode::Exclusive
                        && !entry.granted().iter().any(|r| Arc::ptr_eq(&r.trx, trx)),
                    blockers: entry.blockers(trx).cloned().collect(),
                }
            }),
            WaitPlace::Range(index) => Edges {
                blockers: self
                    .ranges
                    .blockers(trx, index)
                    .map_or(Vec::new(), |(_, owners)| owners),
                whole_queue: false,
            },
        }
    }

    /// Marks the victim; false: its wait has been decided meanwhile.
    fn condemn(&self, victim: &Node) -> bool {
        let trx = &victim.trx;
        let same_wait = || trx.wait_no.load(Acquire) == victim.wait_no;
        let mark = || same_wait() && decide(trx, WAIT_DEADLOCK);
        // Under the queue's mutex no new wait can begin in between.
        match WaitPlace::of(trx) {
            Some(WaitPlace::Row(at)) => self.with_shard(at, |shard, slot| {
                shard.get(slot).is_some_and(|e| e.waiting_request(trx).is_some()) && mark()
            }),
            Some(WaitPlace::Range(index)) => self.ranges.while_queued(trx, index, mark),
            None => false,
        }
    }

    fn account(&self, circle: &[Node], victim: usize) -> DeadlockInfo {
        let at_us = (self.clock)();
        let before = |i: usize| &circle[(i + circle.len() - 1) % circle.len()].trx;
        let party = |(i, node): (usize, &Node)| {
            let statement = node.trx.statement.lock().clone();
            DeadlockParty {
                trx: TrxInfo::of(&node.trx, self, at_us),
                statement,
                holds: self.held_against(before(i), &node.trx),
            }
        };
        DeadlockInfo {
            at_us,
            circle: circle.iter().enumerate().map(party).collect(),
            victim,
        }
    }

    /// What `holder` has that `waiting` waits for.
    fn held_against(&self, waiting: &Arc<TrxShared>, holder: &Arc<TrxShared>) -> Option<HeldInfo> {
        match WaitPlace::of(waiting)? {
            WaitPlace::Row(at) => self.with_shard(at, |shard, slot| {
                let entry = shard.get(slot)?;
                let of = |requests: &[Request]| requests.iter().find(|r| Arc::ptr_eq(&r.trx, holder)).map(|r| r.mode);
                let granted = of(entry.granted());
                Some(HeldInfo {
                    index: entry.index,
                    key: entry.key.to_vec(),
                    mode: Some(granted.or(of(entry.waiting()))?),
                    granted: granted.is_some(),
                })
            }),
            WaitPlace::Range(index) => Some(HeldInfo {
                index,
                key: self.ranges.blockers(waiting, index)?.0,
                mode: None,
                granted: true,
            }),
        }
    }

    /// What the transaction waits for now.
    pub fn wait_of(&self, trx: &Arc<TrxShared>) -> Option<WaitInfo> {
        match WaitPlace::of(trx)? {
            WaitPlace::Row(at) => self.with_shard(at, |shard, slot| {
                let entry = shard.get(slot)?;
                let request = entry.waiting_request(trx)?;
                Some(WaitInfo {
                    index: entry.index,
                    key: entry.key.to_vec(),
                    mode: Some(request.mode),
                    blockers: distinct(entry.blockers(trx)),
                })
            }),
            WaitPlace::Range(index) => {
                let (key, owners) = self.ranges.blockers(trx, index)?;
                Some(WaitInfo {
                    index,
                    key,
                    mode: None,
                    blockers: distinct(owners.iter()),
                })
            }
        }
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
    let lightest = (0..circle.len())
        .min_by_key(|i| weight(&circle[*i]))
        .expect("a circle has nodes");
    if weight(&circle[lightest]) * 2 < weight(&circle[0]) {
        lightest
    } else {
        0
    }
}

/// Each once: one may hold a lock of a row and wait for a stronger one.
fn distinct<'a>(blockers: impl Iterator<Item = &'a Arc<TrxShared>>) -> Vec<BlockerInfo> {
    let mut all = Vec::new();
    for trx in blockers {
        let blocker = BlockerInfo {
            id: trx.id(),
            connection: trx.connection(),
            xid: trx.xid.lock().clone(),
        };
        if !all.contains(&blocker) {
            all.push(blocker);
        }
    }
    all
}

//! What the clock shows. A transaction whose commit was reported before a statement was sent is
//! visible to that statement. So is a transaction that another reader was shown before.
//!
//! All times are of the one process that records the history, so they are in one order.
//!
//! In a cluster a commit reaches the nodes at different moments. So each node has times of its own:
//! the answer to a COMMIT counts on the writer's node, and a read on the reader's.
//!
//! For each version: the latest moment at which it was committed. Its writer had the answer, a
//! read was shown the version, or another transaction had overwritten it.
//! For each read: the earliest moment at which what it shows was the newest. A consistent read has
//! one state for its statement (READ COMMITTED), or for its transaction (from REPEATABLE READ on).
//! The state is no older than that statement or transaction, and no older than the COMMITs of
//! what it shows. A locking read shows each row as it is at that moment. READ UNCOMMITTED is not
//! judged.
//!
//! Reads of transactions that were rolled back are judged as others. They prove nothing, because a
//! crash may take back what they show.
//!
//! This file also finds which removals a read may have met that was shown no row of a register.
use crate::findings::{Anomaly, Findings, Level};
use crate::history::{Form, History, Item, Op, Path, Seen, Time, Transaction, TrxNo, Value, What};
use crate::versions::Versions;
use std::collections::HashMap;

/// Transactions this near an impossible operation, and this many, are shown with it.
const AROUND_US: Time = 20_000;
const AROUND_MAX: usize = 40;

/// Reads that were shown no row of a register, by transaction and operation. The places are those
/// of the first and the last removal that it can be.
pub type Absences = HashMap<(TrxNo, usize), (usize, usize)>;

pub fn judge(history: &History, versions: &Versions, level: Level, findings: &mut Findings) -> Absences {
    let mut absences = Absences::new();
    if level == Level::ReadUncommitted {
        return absences;
    }
    let times = Times::new(history, versions);
    let judge = Judge {
        history,
        versions,
        level,
        times,
    };
    let may_have_committed = |(trx, t): &(usize, &Transaction)| versions.committed[*trx] || t.was_answered();
    for (trx, transaction) in history.transactions.iter().enumerate().filter(may_have_committed) {
        judge.transaction(trx as TrxNo, transaction, &mut absences, findings);
    }
    absences
}

/// The latest moment at which a version was committed, and the transaction that shows it. That one
/// wrote the version, was shown it, or overwrote it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Known {
    at: Time,
    by: TrxNo,
}

struct Times {
    /// Of each node, by place in the item's order, from 0: of this version or a later one.
    known: Vec<HashMap<Item, Vec<Known>>>,
    /// The places of removals, and when their COMMITs were sent. Before that moment no other
    /// transaction sees the removal.
    removals: HashMap<Item, Vec<(usize, Time)>>,
}

impl Times {
    fn new(history: &History, versions: &Versions) -> Times {
        let told = |node: u32, value: u32| {
            let by = versions.writer(value);
            let writer = &history.transactions[by as usize];
            let answered = writer.committed.filter(|_| writer.node == node);
            let at = answered.unwrap_or(Time::MAX);
            Known { at, by }
        };
        let of_item = |node, order: &[u32]| order.iter().map(|value| told(node, *value)).collect();
        let of_node = |node| {
            let items = versions.order.iter();
            items.map(|(item, order)| (*item, of_item(node, order))).collect()
        };
        let last = history.transactions.iter().map(|t| t.node).max().unwrap_or(0);
        let mut times = Times {
            known: (0..=last).map(of_node).collect(),
            removals: HashMap::new(),
        };
        for (trx, transaction) in versions.committed_ones(history) {
            for op in &transaction.ops {
                times.learn(versions, trx, transaction, op);
            }
        }
        for known in times.known.iter_mut().flat_map(|node| node.values_mut()) {
            for i in (1..known.len()).rev() {
                known[i - 1] = known[i - 1].min(known[i]);
            }
        }
        times.removals.values_mut().for_each(|places| places.sort_unstable());
        times
    }

    /// What a read was shown is committed, and so is the version that a write overwrote.
    fn learn(&mut self, versions: &Versions, trx: TrxNo, transaction: &Transaction, op: &Op) {
        let place = match &op.what {
            What::Read(seen) => versions.place_seen(op.item, seen),
            What::Write { value, gone, .. } => {
                let place = versions.place(*value);
                if let (true, Some(place)) = (gone, place) {
                    self.removals
                        .entry(op.item)
                        .or_default()
                        .push((place, transaction.commit_sent));
                }
                place.map(|place| place - 1)
            }
        };
        let (Some(place @ 1..), Some(order)) = (place, versions.order.get(&op.item)) else {
            return;
        };
        if versions.writer(order[place - 1]) != trx {
            let node = &mut self.known[transaction.node as usize];
            let known = &mut node.get_mut(&op.item).expect("ordered")[place - 1];
            let at = op.done;
            *known = Known { at, by: trx }.min(*known);
        }
    }
}

struct Judge<'a> {
    history: &'a History,
    versions: &'a Versions,
    level: Level,
    times: Times,
}

impl Judge<'_> {
    fn transaction(&self, trx: TrxNo, transaction: &Transaction, absences: &mut Absences, findings: &mut Findings) {
        let own = self.newest_at(trx, transaction, |_| true, transaction.begun);
        let mut statement = (0, 0);
        for (number, op) in transaction.ops.iter().enumerate().filter(|(_, op)| !op.way.failed) {
            let is_alone = transaction.form == Form::Statement || self.level == Level::ReadCommitted;
            let earliest = match &op.what {
                What::Read(_) if self.is_consistent(transaction, op) && !is_alone => own,
                What::Read(_) if self.is_consistent(transaction, op) => {
                    if statement.0 != op.sent {
                        let same = |other: &Op| other.sent == op.sent;
                        statement = (op.sent, self.newest_at(trx, transaction, same, op.sent));
                    }
                    statement.1
                }
                _ => op.sent,
            };
            // Nothing follows from a row that the transaction removed itself.
            let removes = |o: &Op| matches!(o.what, What::Write { gone: true, .. }) && (op.undone || !o.undone);
            if matches!(op.what, What::Read(Seen::Nothing))
                && transaction.ops.iter().any(|o| o.item == op.item && removes(o))
            {
                continue;
            }
            self.operation((trx, transaction, number), op, (own, earliest), absences, findings);
        }
    }

    /// By a snapshot. SERIALIZABLE locks what it reads, except in an autocommit statement.
    fn is_consistent(&self, transaction: &Transaction, op: &Op) -> bool {
        let locks = self.level == Level::Serializable && transaction.form != Form::Statement;
        !locks && !op.way.is_locking()
    }

    /// The earliest moment at which the state that these consistent reads were shown was the
    /// newest.
    fn newest_at(&self, trx: TrxNo, transaction: &Transaction, of: impl Fn(&Op) -> bool, sent: Time) -> Time {
        let mut earliest = sent;
        for op in transaction
            .ops
            .iter()
            .filter(|op| of(op) && self.is_consistent(transaction, op))
        {
            let What::Read(seen) = &op.what else { continue };
            let (Some(place @ 1..), Some(order)) = (
                self.versions.place_seen(op.item, seen),
                self.versions.order.get(&op.item),
            ) else {
                continue;
            };
            let writer = self.versions.writer(order[place - 1]);
            if writer != trx {
                earliest = earliest.max(self.history.transactions[writer as usize].commit_sent);
            }
        }
        earliest
    }

    /// `own`: the moment of the transaction's snapshot.
    fn operation(
        &self,
        (trx, transaction, number): (TrxNo, &Transaction, usize),
        op: &Op,
        (own, earliest): (Time, Time),
        absences: &mut Absences,
        findings: &mut Findings,
    ) {
        let place = match &op.what {
            // By another index a row may move past a scan that waits.
            What::Read(Seen::Nothing) if op.way.is_locking() && op.way.path != Path::Primary => return,
            What::Read(Seen::Nothing) if matches!(op.item, Item::Register(_)) => {
                if !self.versions.committed[trx as usize] {
                    return;
                }
                let since = match self.level {
                    Level::RepeatableRead if transaction.form != Form::Statement => own.min(earliest),
                    _ => earliest,
                };
                let possible = self.removals(trx, op, (since, earliest), findings);
                absences.extend(possible.map(|places| ((trx, number), places)));
                return;
            }
            What::Read(seen) => self.versions.place_seen(op.item, seen),
            What::Write { value, .. } => self.versions.place(*value),
        };
        let late = place.and_then(|place| self.known_before(trx, op.item, place, earliest));
        if let Some((other, Known { at, by })) = late {
            let text = format!(
                "T{trx}'s state of {:?} comes before T{other}'s write, which T{by} shows to be committed at {at}; its own is no older than {earliest}",
                op.item
            );
            let mut shown = vec![other, trx];
            shown.extend((by != other && by != trx).then_some(by));
            findings.say(Anomaly::StaleRead, shown, text);
        }
    }

    /// A version after this place that was known before to be committed, on the transaction's node,
    /// and what shows it.
    fn known_before(&self, trx: TrxNo, item: Item, place: usize, time: Time) -> Option<(TrxNo, Known)> {
        let node = self.history.transactions[trx as usize].node;
        let known = self.times.known[node as usize].get(&item)?;
        let first = known.get(place).copied().filter(|first| first.at < time)?;
        // In ascending order: the last version that was known then.
        let last = known.partition_point(|k| k.at <= first.at) - 1;
        Some((self.versions.writer(self.versions.order[&item][last]), first))
    }

    /// The transactions that met the item shortly before or after this operation, committed or
    /// not; the operation's own first.
    fn around(&self, trx: TrxNo, op: &Op) -> Vec<TrxNo> {
        let near = |other: &Op| {
            other.item == op.item && other.sent <= op.done + AROUND_US && other.done + AROUND_US >= op.sent
        };
        let others = self.history.transactions.iter().enumerate();
        let met = others.filter(|(other, t)| *other as TrxNo != trx && t.ops.iter().any(near));
        let mut met: Vec<(Time, TrxNo)> = met.map(|(other, t)| (t.begun, other as TrxNo)).collect();
        met.sort_unstable();
        let all = std::iter::once(trx).chain(met.into_iter().map(|(_, other)| other));
        all.take(AROUND_MAX).collect()
    }

    /// The first and the last removal that can have left no row for this read. A removal must have
    /// been in force at `earliest` or later. For a read by snapshot, a snapshot of `since` that was
    /// without the row is enough: the row may have come and gone meanwhile.
    fn removals(
        &self,
        trx: TrxNo,
        op: &Op,
        (since, earliest): (Time, Time),
        findings: &mut Findings,
    ) -> Option<(usize, usize)> {
        if self.versions.unordered.contains(&op.item) {
            return None;
        }
        let all = self.times.removals.get(&op.item).map_or(&[][..], Vec::as_slice);
        let order = self.versions.order.get(&op.item).map_or(&[][..], Vec::as_slice);
        if all
            .iter()
            .any(|(place, _)| self.versions.writer(order[place - 1]) == trx)
        {
            return None;
        }
        if !all.iter().any(|(_, sent)| *sent <= op.done) {
            let text = format!("{:?} was not there, and nobody had removed it", op.item);
            findings.say(Anomaly::Garbage, vec![trx], text);
            return None;
        }
        // From the first version that may still have been the newest, to where even the version
        // before it had not been committed.
        let order = &self.versions.order[&op.item];
        let too_old = all.partition_point(|(place, _)| self.known_before(trx, op.item, *place, earliest).is_some());
        let is_begun = |place: usize| {
            let before = place.checked_sub(2).map(|i| self.versions.writer(order[i]));
            before.is_none_or(|writer| self.history.transactions[writer as usize].commit_sent <= op.done)
        };
        let possible = all[too_old..].iter().take_while(|(place, _)| is_begun(*place));
        let mut possible = possible.filter(|(_, sent)| *sent <= op.done);
        let Some((first, _)) = possible.next() else {
            let after = too_old.checked_sub(1).map(|last| all[last].0);
            let back = after.and_then(|place| self.known_before(trx, op.item, place, earliest));
            let shows = back.map_or(String::new(), |(_, known)| {
                format!("; T{} shows that at {}", known.by, known.at)
            });
            let text = format!(
                "{:?} was not there, and had been brought back before {earliest}{shows}",
                op.item
            );
            let mut shown = self.around(trx, op);
            shown.extend(back.map(|(_, known)| known.by).filter(|by| !shown.contains(by)));
            findings.say(Anomaly::StaleRead, shown, text);
            return None;
        };
        let last = possible.last().map_or(*first, |(last, _)| *last);
        let of_snapshot = all.partition_point(|(place, _)| self.known_before(trx, op.item, *place, since).is_some());
        let first = all[of_snapshot].0.min(*first);
        Some((self.as_if_not_back(first, all, order), last))
    }

    /// A transaction may bring a row back and remove it again. For others that leaves what was
    /// there before, so the earlier removal is possible, too.
    fn as_if_not_back(&self, removal: usize, all: &[(usize, Time)], order: &[Value]) -> usize {
        let mut first = removal;
        let before = all
            .iter()
            .rev()
            .map(|(place, _)| *place)
            .skip_while(|place| *place >= removal);
        for place in before {
            let writer = self.versions.writer(order[first - 1]);
            if order[place..first - 1]
                .iter()
                .any(|value| self.versions.writer(*value) != writer)
            {
                break;
            }
            first = place;
        }
        first
    }
}

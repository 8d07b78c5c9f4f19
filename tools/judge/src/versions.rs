//! The order in which each item got its values, and everything that can be told without a graph: values from nowhere, writes that are gone,
//! aborted and intermediate reads, reads that no order explains, transactions that do not see themselves.
//!
//! The order of a list is the list at the end (or the longest that was seen); a register's is the chain of what its writers had read.
//! An item with no such order is out of the graph: what is wrong with it is reported here.
use crate::findings::{Anomaly, Findings, Level};
use crate::history::{End, History, Item, Op, Seen, Transaction, TrxNo, Value, What};
use std::collections::{HashMap, HashSet};

/// Who wrote a value.
#[derive(Clone, Copy)]
struct Source {
    trx: TrxNo,
    item: Item,
    /// Written between a savepoint and the return to it.
    undone: bool,
    /// The last value that its transaction gave the item.
    last: bool,
}

pub struct Versions {
    sources: HashMap<Value, Source>,
    pub committed: Vec<bool>,
    /// Values of each item in order; only of items that have one.
    pub order: HashMap<Item, Vec<Value>>,
    places: HashMap<Value, usize>,
}

impl Versions {
    /// The writer of a value that stands in an order.
    pub fn writer(&self, value: Value) -> TrxNo {
        self.sources[&value].trx
    }
    /// How many values the item had when this one was its last.
    pub fn place(&self, value: Value) -> Option<usize> {
        self.places.get(&value).copied()
    }
}

pub fn judge(history: &History, level: Level, findings: &mut Findings) -> Versions {
    let sources = sources(history);
    let committed = outcomes(history, &sources);
    let mut versions = Versions {
        sources,
        committed,
        order: HashMap::new(),
        places: HashMap::new(),
    };
    for (trx, text) in &history.misread {
        findings.say(Anomaly::Garbage, vec![*trx], text.clone());
    }
    let mut unordered = HashSet::new();
    for (trx, transaction) in committed_ones(history, &versions.committed) {
        for op in &transaction.ops {
            if let What::Read(seen) = &op.what {
                judge_read(&versions, trx, op.item, seen, findings, &mut unordered);
            }
        }
        judge_internal(trx, transaction, level, findings);
    }
    lost_updates(history, &versions, findings, &mut unordered);
    order_lists(history, level, &mut versions, findings, &mut unordered);
    order_registers(history, &mut versions, &unordered);
    for values in versions.order.values() {
        versions
            .places
            .extend(values.iter().enumerate().map(|(i, value)| (*value, i + 1)));
    }
    versions
}

fn committed_ones<'a>(history: &'a History, committed: &'a [bool]) -> impl Iterator<Item = (TrxNo, &'a Transaction)> {
    let numbered = history.transactions.iter().enumerate();
    numbered.filter(|(i, _)| committed[*i]).map(|(i, t)| (i as TrxNo, t))
}

fn sources(history: &History) -> HashMap<Value, Source> {
    let mut sources = HashMap::new();
    for (trx, transaction) in history.transactions.iter().enumerate() {
        let mut later = HashSet::new();
        for op in transaction.ops.iter().rev() {
            let What::Write { value, .. } = op.what else { continue };
            let last = !op.undone && later.insert(op.item);
            let source = Source {
                trx: trx as TrxNo,
                item: op.item,
                undone: op.undone,
                last,
            };
            assert!(
                sources.insert(value, source).is_none(),
                "value {value} is written twice"
            );
        }
    }
    sources
}

/// A transaction whose end nobody knows has committed if anything of it was seen outside, by one that has; be that known, or found here.
fn outcomes(history: &History, sources: &HashMap<Value, Source>) -> Vec<bool> {
    let mut committed: Vec<bool> = history.transactions.iter().map(|t| t.end == End::Committed).collect();
    let mut to_look_at: Vec<TrxNo> = (0..committed.len())
        .filter(|i| committed[*i])
        .map(|i| i as TrxNo)
        .collect();
    let mut look = |trx: Option<TrxNo>, seen: &Seen, to_look_at: &mut Vec<TrxNo>| {
        let values = match seen {
            Seen::List(list) => list.as_slice(),
            Seen::Last(value) => std::slice::from_ref(value),
            Seen::Nothing => &[],
        };
        for source in values.iter().filter_map(|value| sources.get(value)) {
            let is_unknown = history.transactions[source.trx as usize].end == End::Unknown;
            let was_seen = is_unknown && !source.undone && Some(source.trx) != trx;
            if was_seen && !std::mem::replace(&mut committed[source.trx as usize], true) {
                to_look_at.push(source.trx);
            }
        }
    };
    for (_, seen) in history.left.iter().flatten() {
        look(None, seen, &mut to_look_at);
    }
    while let Some(trx) = to_look_at.pop() {
        for op in &history.transactions[trx as usize].ops {
            if let What::Read(seen) = &op.what {
                look(Some(trx), seen, &mut to_look_at);
            }
        }
    }
    committed
}

fn judge_read(
    versions: &Versions,
    reader: TrxNo,
    item: Item,
    seen: &Seen,
    findings: &mut Findings,
    unordered: &mut HashSet<Item>,
) {
    let values = match seen {
        Seen::Nothing => return,
        Seen::List(list) => list.as_slice(),
        Seen::Last(value) => std::slice::from_ref(value),
    };
    let mut met = HashSet::new();
    for (i, value) in values.iter().enumerate() {
        let source = versions.sources.get(value).filter(|source| source.item == item);
        let Some(source) = source.filter(|_| met.insert(value)) else {
            findings.say(
                Anomaly::Garbage,
                vec![reader],
                format!("{item:?}: {value} was never written there, or stands twice"),
            );
            unordered.insert(item);
            continue;
        };
        if source.trx == reader {
            continue;
        }
        if source.undone || !versions.committed[source.trx as usize] {
            let text = format!("T{reader} saw {value} of T{}, which was rolled back", source.trx);
            findings.say(Anomaly::AbortedRead, vec![source.trx, reader], text);
        } else if i + 1 == values.len() && !source.last {
            let text = format!(
                "T{reader} saw {value} of T{}, which wrote {item:?} once more",
                source.trx
            );
            findings.say(Anomaly::IntermediateRead, vec![source.trx, reader], text);
        }
    }
}

/// What a transaction knows of an item from its own reads and writes.
#[derive(Clone, PartialEq)]
struct Known {
    last: Option<Value>,
    list: Option<Vec<Value>>,
    written: bool,
}

/// A transaction sees what it wrote, and from REPEATABLE READ on what it saw before.
fn judge_internal(trx: TrxNo, transaction: &Transaction, level: Level, findings: &mut Findings) {
    let repeatable = level >= Level::LooseRepeatableRead;
    let mut known: HashMap<Item, Known> = HashMap::new();
    let mut at_savepoint = None;
    for op in &transaction.ops {
        match (&at_savepoint, op.undone) {
            (None, true) => at_savepoint = Some(known.clone()),
            (Some(_), false) => known = at_savepoint.take().expect("just seen"),
            _ => {}
        }
        match &op.what {
            What::Write { value, .. } => {
                let before = known.get(&op.item).filter(|k| repeatable || k.written);
                let list = before.and_then(|k| k.list.clone()).map(|mut list| {
                    list.push(*value);
                    list
                });
                known.insert(
                    op.item,
                    Known {
                        last: Some(*value),
                        list,
                        written: true,
                    },
                );
            }
            What::Read(seen) => {
                let now = learned(op, seen, &known);
                let judged = known.get(&op.item).filter(|k| repeatable || k.written);
                if let Some(text) = judged.and_then(|before| contradiction(op.item, before, &now)) {
                    findings.say(Anomaly::Internal, vec![trx], text);
                }
                known.insert(op.item, now);
            }
        }
    }
}

fn learned(op: &Op, seen: &Seen, known: &HashMap<Item, Known>) -> Known {
    let before = known.get(&op.item);
    let list = match seen {
        Seen::Nothing => Some(Vec::new()),
        Seen::List(list) => Some(list.clone()),
        Seen::Last(_) => before.filter(|k| k.last == seen.last()).and_then(|k| k.list.clone()),
    };
    Known {
        last: seen.last(),
        list,
        written: before.is_some_and(|k| k.written),
    }
}

fn contradiction(item: Item, before: &Known, now: &Known) -> Option<String> {
    let lists_differ = matches!((&before.list, &now.list), (Some(a), Some(b)) if a != b);
    let show = |known: &Known| match &known.list {
        Some(list) => format!("{list:?}"),
        None => format!("... {:?}", known.last),
    };
    (before.last != now.last || lists_differ)
        .then(|| format!("{item:?} was {}, without a write {}", show(before), show(now)))
}

/// Two committed transactions wrote over the same value that both had read.
fn lost_updates(history: &History, versions: &Versions, findings: &mut Findings, unordered: &mut HashSet<Item>) {
    let mut over_what: HashMap<(Item, Option<Value>), (TrxNo, Value)> = HashMap::new();
    for (trx, transaction) in committed_ones(history, &versions.committed) {
        for op in transaction.ops.iter().filter(|op| !op.undone) {
            let What::Write {
                value,
                over: Some(over),
            } = op.what
            else {
                continue;
            };
            if let Some((first, its)) = over_what.insert((op.item, over), (trx, value)) {
                let text = format!(
                    "T{first} wrote {its} and T{trx} wrote {value}, both over {over:?} of {:?}",
                    op.item
                );
                findings.say(Anomaly::LostUpdate, vec![first, trx], text);
                unordered.insert(op.item);
            }
        }
    }
}

fn order_lists(
    history: &History,
    level: Level,
    versions: &mut Versions,
    findings: &mut Findings,
    unordered: &mut HashSet<Item>,
) {
    let mut longest: HashMap<Item, &[Value]> = HashMap::new();
    let left = history.left.iter().flatten().map(|(item, seen)| (*item, seen));
    let read = committed_ones(history, &versions.committed).flat_map(|(_, t)| &t.ops);
    let read = read.filter(|op| !op.undone || history.left.is_none());
    let reads = read.filter_map(|op| {
        if let What::Read(seen) = &op.what {
            Some((op.item, seen))
        } else {
            None
        }
    });
    let seen: Vec<_> = if history.left.is_some() {
        left.collect()
    } else {
        reads.collect()
    };
    for (item, seen) in seen {
        if let Seen::List(list) = seen {
            let known = longest.entry(item).or_insert(list);
            if known.len() < list.len() {
                *known = list;
            }
        }
    }
    for (trx, transaction) in committed_ones(history, &versions.committed) {
        for op in &transaction.ops {
            let spine = longest.get(&op.item).copied().unwrap_or_default();
            judge_place(history, level, versions, trx, op, spine, findings, unordered);
        }
    }
    let ordered = |(item, _): &(Item, &[Value])| !unordered.contains(item);
    let orders = longest
        .into_iter()
        .filter(ordered)
        .map(|(item, list)| (item, list.to_vec()));
    versions.order.extend(orders);
}

/// What was read and written of a list has its place in the list's order.
#[allow(clippy::too_many_arguments)]
fn judge_place(
    history: &History,
    level: Level,
    versions: &Versions,
    trx: TrxNo,
    op: &Op,
    spine: &[Value],
    findings: &mut Findings,
    unordered: &mut HashSet<Item>,
) {
    if !matches!(op.item, Item::List(_)) || unordered.contains(&op.item) {
        return;
    }
    let own = |value: &Value| versions.sources.get(value).is_some_and(|s| s.trx == trx);
    let undone = |value: &Value| {
        let source = versions.sources.get(value);
        source.is_some_and(|s| s.undone || !versions.committed[s.trx as usize])
    };
    match &op.what {
        What::Write { value, .. } if !op.undone && history.left.is_some() && !spine.contains(value) => {
            let text = format!("{value} of {:?}, which holds {spine:?} at the end", op.item);
            findings.say(rewritten(level, Anomaly::LostWrite), vec![trx], text);
        }
        // What one has undone oneself, and what was read although it is rolled back (an aborted read), is no matter of order.
        What::Read(Seen::List(list))
            if !spine.starts_with(list) && !list.iter().any(|v| undone(v) || (op.undone && own(v))) =>
        {
            let text = format!("{:?} was read as {list:?}, and its order is {spine:?}", op.item);
            findings.say(rewritten(level, Anomaly::IncompatibleOrder), vec![trx], text);
            unordered.insert(op.item);
        }
        _ => {}
    }
}

/// Where an update may be lost, a client writes back a list without what was appended since: no wonder if that is gone.
fn rewritten(level: Level, otherwise: Anomaly) -> Anomaly {
    match level {
        Level::LooseRepeatableRead => Anomaly::LostUpdate,
        _ => otherwise,
    }
}

fn order_registers(history: &History, versions: &mut Versions, unordered: &HashSet<Item>) {
    let mut next: HashMap<(Item, Option<Value>), Value> = HashMap::new();
    let mut registers = HashSet::new();
    for (_, transaction) in committed_ones(history, &versions.committed) {
        for op in transaction.ops.iter().filter(|op| !op.undone) {
            if let (
                Item::Register(_),
                What::Write {
                    value,
                    over: Some(over),
                },
            ) = (op.item, &op.what)
            {
                next.insert((op.item, *over), *value);
                registers.insert(op.item);
            }
        }
    }
    for item in registers.into_iter().filter(|item| !unordered.contains(item)) {
        let mut values = Vec::new();
        while let Some(value) = next.remove(&(item, values.last().copied())) {
            values.push(value);
        }
        versions.order.insert(item, values);
    }
}

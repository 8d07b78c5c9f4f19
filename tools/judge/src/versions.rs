//! The order in which each item got its values, and the anomalies that need no graph.
//!
//! Those are values that no transaction wrote, writes that are lost or should be, aborted and
//! intermediate reads, and reads that no order explains.
//!
//! The order of a list is the list at the end, or the longest one that was seen. The order of a
//! register is the chain of what its writers had read (`registers`). An item without such an order
//! is not in the graph. What is wrong with it is reported here.
use crate::findings::{Anomaly, Findings, Level};
use crate::history::{End, History, Item, Op, Seen, Time, Transaction, TrxNo, Value, Version, What};
use crate::registers;
use std::collections::{HashMap, HashSet};

/// The writer of a value.
#[derive(Clone, Copy)]
struct Source {
    trx: TrxNo,
    item: Item,
    /// Written between a savepoint and the rollback to it, or by a statement that failed.
    undone: bool,
    failed: bool,
    /// The last value that its transaction gave the item.
    last: bool,
}

pub struct Versions {
    sources: HashMap<Value, Source>,
    pub committed: Vec<bool>,
    /// Values of each item in order; only items that have an order.
    pub order: HashMap<Item, Vec<Value>>,
    pub unordered: HashSet<Item>,
    places: HashMap<Value, usize>,
}

impl Versions {
    /// The writer of a value that is in an order.
    pub fn writer(&self, value: Value) -> TrxNo {
        self.sources[&value].trx
    }
    /// How many values the item had when this one was its last.
    pub fn place(&self, value: Value) -> Option<usize> {
        self.places.get(&value).copied()
    }
    /// The same for what a read was shown. None: the value is not in the order (rolled back), or
    /// the read alone does not say (no row of a register).
    pub fn place_seen(&self, item: Item, seen: &Seen) -> Option<usize> {
        match (seen.version(), item) {
            (Version::Value(value), _) => self.place(value),
            (Version::Initial, _) | (Version::Nothing, Item::List(_)) => Some(0),
            (Version::Nothing, Item::Register(_)) => None,
        }
    }
    pub fn committed_ones<'a, 'h: 'a>(
        &'a self,
        history: &'h History,
    ) -> impl Iterator<Item = (TrxNo, &'h Transaction)> + 'a {
        let numbered = history.transactions.iter().enumerate();
        numbered
            .filter(|(i, _)| self.committed[*i])
            .map(|(i, t)| (i as TrxNo, t))
    }
}

pub fn judge(history: &History, level: Level, findings: &mut Findings) -> Versions {
    let sources = sources(history);
    let committed = outcomes(history, level, &sources);
    let mut versions = Versions {
        sources,
        committed,
        order: HashMap::new(),
        unordered: HashSet::new(),
        places: HashMap::new(),
    };
    for (trx, text) in &history.misread {
        findings.say(Anomaly::Garbage, vec![*trx], text.clone());
    }
    for (trx, text) in &history.refused {
        findings.say(Anomaly::RefusedCommit, vec![*trx], text.clone());
    }
    let mut unordered = HashSet::new();
    for (trx, transaction) in history.transactions.iter().enumerate() {
        for op in &transaction.ops {
            if let What::Read(seen) = &op.what {
                judge_read(history, &versions, trx as TrxNo, op, seen, findings, &mut unordered);
            }
        }
    }
    judge_left(history, &versions, findings, &mut unordered);
    let written = registers::written(history, &versions);
    registers::lost_updates(&written, findings, &mut unordered);
    order_lists(history, level, &mut versions, findings, &mut unordered);
    registers::order(history, &written, &mut versions, &unordered, findings);
    versions.unordered = unordered;
    for values in versions.order.values() {
        versions
            .places
            .extend(values.iter().enumerate().map(|(i, value)| (*value, i + 1)));
    }
    versions
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
                failed: op.way.failed,
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

/// A transaction whose end is unknown has committed if a committed transaction saw a write of it,
/// known as committed or found so here. At READ UNCOMMITTED only locked rows prove that: other
/// reads may show what never committed.
fn outcomes(history: &History, level: Level, sources: &HashMap<Value, Source>) -> Vec<bool> {
    let mut committed: Vec<bool> = history.transactions.iter().map(|t| t.end == End::Committed).collect();
    let mut to_look_at: Vec<TrxNo> = (0..committed.len())
        .filter(|i| committed[*i])
        .map(|i| i as TrxNo)
        .collect();
    let mut look = |trx: Option<TrxNo>, seen: &Seen, to_look_at: &mut Vec<TrxNo>| {
        for source in seen.values().iter().filter_map(|value| sources.get(value)) {
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
            let What::Read(seen) = &op.what else { continue };
            if level > Level::ReadUncommitted || op.way.is_locking() {
                look(Some(trx), seen, &mut to_look_at);
            }
        }
    }
    committed
}

/// Also for a reader that was rolled back. Only such a reader may have been shown a commit that a
/// crash took back before it was reported.
fn judge_read(
    history: &History,
    versions: &Versions,
    reader: TrxNo,
    op: &Op,
    seen: &Seen,
    findings: &mut Findings,
    unordered: &mut HashSet<Item>,
) {
    let (item, values) = (op.item, seen.values());
    let was_taken_back =
        |trx: TrxNo| history.transactions[trx as usize].end == End::Unknown && !versions.committed[reader as usize];
    for (value, source) in sources_of(versions, item, values) {
        let Some(source) = source else {
            let text = format!("{item:?}: {value} was never written there, or stands twice");
            findings.say(Anomaly::Garbage, vec![reader], text);
            unordered.insert(item);
            continue;
        };
        if source.trx == reader {
            if source.failed || (source.undone && !op.undone) {
                let text = format!("T{reader} saw {value}, which it had undone itself");
                findings.say(Anomaly::AbortedRead, vec![reader], text);
            }
        } else if source.undone || (!versions.committed[source.trx as usize] && !was_taken_back(source.trx)) {
            let text = format!("T{reader} saw {value} of T{}, which was rolled back", source.trx);
            findings.say(Anomaly::AbortedRead, vec![source.trx, reader], text);
        } else if values.last() == Some(&value) && !source.last {
            let text = format!(
                "T{reader} saw {value} of T{}, which wrote {item:?} once more",
                source.trx
            );
            findings.say(Anomaly::IntermediateRead, vec![source.trx, reader], text);
        }
    }
}

/// Each value with its writer. None: no transaction wrote it, or the value is there twice.
fn sources_of<'a>(
    versions: &'a Versions,
    item: Item,
    values: &'a [Value],
) -> impl Iterator<Item = (Value, Option<&'a Source>)> {
    let mut met = HashSet::new();
    values.iter().map(move |value| {
        let source = versions.sources.get(value).filter(|source| source.item == item);
        (*value, source.filter(|_| met.insert(*value)))
    })
}

/// Each value at the end was written by a transaction that committed.
fn judge_left(history: &History, versions: &Versions, findings: &mut Findings, unordered: &mut HashSet<Item>) {
    for (item, seen) in history.left.iter().flatten() {
        for (value, source) in sources_of(versions, *item, seen.values()) {
            match source {
                None => {
                    let text = format!("{item:?} at the end: {value} was never written there, or stands twice");
                    findings.say(Anomaly::Garbage, Vec::new(), text);
                }
                Some(source) if source.undone || !versions.committed[source.trx as usize] => {
                    let text = format!("{item:?} at the end: {value}, which was rolled back");
                    findings.say(Anomaly::KeptWrite, vec![source.trx], text);
                }
                Some(_) => continue,
            }
            unordered.insert(*item);
        }
    }
}

/// Each list at the end, or the longest one that was seen, if the end was not read.
fn longest<'h>(history: &'h History, versions: &Versions) -> HashMap<Item, &'h [Value]> {
    let mut longest: HashMap<Item, &[Value]> = HashMap::new();
    let mut look = |item: Item, seen: &'h Seen| {
        if let Seen::List(list) = seen {
            let known = longest.entry(item).or_insert(list);
            if known.len() < list.len() {
                *known = list;
            }
        }
    };
    if let Some(left) = &history.left {
        left.iter().for_each(|(item, seen)| look(*item, seen));
        return longest;
    }
    for op in versions.committed_ones(history).flat_map(|(_, t)| &t.ops) {
        if let (What::Read(seen), false) = (&op.what, op.undone) {
            look(op.item, seen);
        }
    }
    longest
}

fn order_lists(
    history: &History,
    level: Level,
    versions: &mut Versions,
    findings: &mut Findings,
    unordered: &mut HashSet<Item>,
) {
    let longest = longest(history, versions);
    let rewrites = Rewrites::new(history, versions, level);
    for (trx, transaction) in versions.committed_ones(history) {
        for op in &transaction.ops {
            let spine = longest.get(&op.item).copied().unwrap_or_default();
            judge_place(history, &rewrites, versions, trx, op, spine, findings, unordered);
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
    rewrites: &Rewrites,
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
            let writer = &history.transactions[trx as usize];
            let anomaly = rewrites.may_lose(op, writer, Anomaly::LostWrite);
            findings.say(anomaly, vec![trx], text);
        }
        // What a transaction has undone itself, and a read of a value that was rolled back (an
        // aborted read), have no place in the order.
        What::Read(Seen::List(list))
            if !spine.starts_with(list) && !list.iter().any(|v| undone(v) || (op.undone && own(v))) =>
        {
            let text = format!("{:?} was read as {list:?}, and its order is {spine:?}", op.item);
            let anomaly = rewrites.may_have(op, Anomaly::IncompatibleOrder);
            findings.say(anomaly, vec![trx], text);
            unordered.insert(op.item);
        }
        _ => {}
    }
}

/// Where an update may be lost, a client writes back a list without what was appended since. The
/// loss of that is then expected.
struct Rewrites(HashMap<Item, Vec<Rewrite>>);

struct Rewrite {
    /// From this moment on its transaction may have read what it wrote back.
    from: Time,
    /// Then it had written.
    until: Time,
    node: u32,
}

impl Rewrites {
    fn new(history: &History, versions: &Versions, level: Level) -> Rewrites {
        let mut rewrites: HashMap<Item, Vec<Rewrite>> = HashMap::new();
        if level == Level::LooseRepeatableRead {
            for (_, transaction) in versions.committed_ones(history) {
                for op in transaction
                    .ops
                    .iter()
                    .filter(|op| matches!(op.what, What::Write { over: Some(_), .. }))
                {
                    rewrites.entry(op.item).or_default().push(Rewrite {
                        from: transaction.begun,
                        until: op.done,
                        node: transaction.node,
                    });
                }
            }
        }
        Rewrites(rewrites)
    }
    fn may_have(&self, op: &Op, otherwise: Anomaly) -> Anomaly {
        match self.0.contains_key(&op.item) {
            true => Anomaly::LostUpdate,
            false => otherwise,
        }
    }
    /// On another node of a cluster a commit is seen later than it is answered.
    fn may_lose(&self, op: &Op, writer: &Transaction, otherwise: Anomaly) -> Anomaly {
        let loses = |rewrite: &Rewrite| {
            let seen = writer.committed.filter(|_| rewrite.node == writer.node);
            rewrite.from <= seen.unwrap_or(Time::MAX) && rewrite.until >= op.sent
        };
        match self.0.get(&op.item) {
            Some(rewrites) if rewrites.iter().any(loses) => Anomaly::LostUpdate,
            _ => otherwise,
        }
    }
}

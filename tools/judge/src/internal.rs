//! What a transaction knows by itself: it sees its own writes and, from REPEATABLE READ on, what it
//! saw before.
use crate::findings::{Anomaly, Findings, Level};
use crate::history::{History, Item, Op, Seen, Transaction, TrxNo, Value, Version, What};
use std::collections::HashMap;

/// Whether it has committed or not.
pub fn judge(history: &History, level: Level, findings: &mut Findings) {
    for (trx, transaction) in history.transactions.iter().enumerate() {
        judge_one(trx as TrxNo, transaction, level, findings);
    }
}

/// What a transaction knows of an item from its own reads and writes.
#[derive(Clone, PartialEq)]
struct Known {
    last: Version,
    list: Option<Vec<Value>>,
    written: bool,
}

fn judge_one(trx: TrxNo, transaction: &Transaction, level: Level, findings: &mut Findings) {
    let repeatable = level >= Level::LooseRepeatableRead;
    let mut known: HashMap<Item, Known> = HashMap::new();
    let mut at_savepoint = None;
    // What a failed statement did was undone before another statement could look.
    for op in transaction.ops.iter().filter(|op| !op.way.failed) {
        match (&at_savepoint, op.undone) {
            (None, true) => at_savepoint = Some(known.clone()),
            (Some(_), false) => known = at_savepoint.take().expect("just seen"),
            _ => {}
        }
        match &op.what {
            What::Write { value, gone, .. } => {
                let before = known.get(&op.item).filter(|k| repeatable || k.written);
                let list = before.filter(|_| !gone).and_then(|k| k.list.clone()).map(|mut list| {
                    list.push(*value);
                    list
                });
                known.insert(
                    op.item,
                    Known {
                        last: if *gone {
                            Version::Nothing
                        } else {
                            Version::Value(*value)
                        },
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
        Seen::Nothing | Seen::Initial => Some(Vec::new()),
        Seen::List(list) => Some(list.clone()),
        Seen::Last(_) => before.filter(|k| k.last == seen.version()).and_then(|k| k.list.clone()),
    };
    Known {
        last: seen.version(),
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

//! The order of each register: the chain of what its writers had read, from its first state to the
//! last. Before that: which writer overwrote the same version as another (lists too, where a client
//! wrote a list back).
//!
//! "No row" does not say which removal caused it. A transaction that removes a row, or brings it
//! back, holds its lock until it ends. So the removals and returns of a register happened in the
//! order in which their statements were answered.
use crate::findings::{Anomaly, Findings};
use crate::history::{History, Item, Seen, Time, Transaction, TrxNo, Value, Version, What};
use crate::versions::Versions;
use std::collections::{HashMap, HashSet};

/// A committed write over a version that its transaction had read.
pub struct Written {
    trx: TrxNo,
    item: Item,
    value: Value,
    over: Version,
    gone: bool,
    /// The overwritten version was read under a lock, so no transaction came between. A missing row
    /// has no lock.
    locked: bool,
    done: Time,
}

pub fn written(history: &History, versions: &Versions) -> Vec<Written> {
    let mut all = Vec::new();
    for (trx, transaction) in versions.committed_ones(history) {
        of_transaction(trx, transaction, &mut all);
    }
    name_removals(&mut all);
    all
}

fn of_transaction(trx: TrxNo, transaction: &Transaction, all: &mut Vec<Written>) {
    let mut read_locked = HashMap::new();
    for op in &transaction.ops {
        match op.what {
            What::Read(ref seen) => {
                let is_locked = op.way.is_locking() && *seen != Seen::Nothing;
                read_locked.insert(op.item, is_locked);
            }
            What::Write {
                value,
                over: Some(over),
                gone,
            } if !op.undone => all.push(Written {
                trx,
                item: op.item,
                value,
                over,
                gone,
                locked: read_locked.get(&op.item).copied().unwrap_or(false),
                done: op.done,
            }),
            What::Write { .. } => {}
        }
    }
}

/// A re-insert follows the latest earlier delete of its register. It gets that delete as the
/// version that it overwrote.
fn name_removals(all: &mut [Written]) {
    let is_delete_or_reinsert =
        |w: &&mut Written| matches!(w.item, Item::Register(_)) && (w.gone || w.over == Version::Nothing);
    let mut changes: Vec<&mut Written> = all.iter_mut().filter(is_delete_or_reinsert).collect();
    changes.sort_by_key(|w| w.done);
    let mut removed: HashMap<Item, Value> = HashMap::new();
    for change in changes {
        if let (Version::Nothing, Some(removal)) = (change.over, removed.get(&change.item)) {
            change.over = Version::Value(*removal);
        }
        if change.gone {
            removed.insert(change.item, change.value);
        }
    }
}

/// Two committed transactions overwrote the same version, which both had read. If both had locked
/// it, one of the writes was lost.
pub fn lost_updates(written: &[Written], findings: &mut Findings, unordered: &mut HashSet<Item>) {
    let mut over_what: HashMap<(Item, Version), &Written> = HashMap::new();
    for second in written {
        if let Some(first) = over_what.insert((second.item, second.over), second) {
            let text = format!(
                "T{} wrote {} and T{} wrote {}, both over {:?} of {:?}",
                first.trx, first.value, second.trx, second.value, second.over, second.item
            );
            let anomaly = match first.locked && second.locked {
                true => Anomaly::LostWrite,
                false => Anomaly::LostUpdate,
            };
            findings.say(anomaly, vec![first.trx, second.trx], text);
            unordered.insert(second.item);
        }
    }
}

pub fn order(
    history: &History,
    written: &[Written],
    versions: &mut Versions,
    unordered: &HashSet<Item>,
    findings: &mut Findings,
) {
    let is_ordered_register = |w: &&Written| matches!(w.item, Item::Register(_)) && !unordered.contains(&w.item);
    let mut next: HashMap<Item, HashMap<Version, &Written>> = HashMap::new();
    for write in written.iter().filter(is_ordered_register) {
        next.entry(write.item).or_default().insert(write.over, write);
    }
    let left: HashMap<Item, &Seen> = history.left.iter().flatten().map(|(i, s)| (*i, s)).collect();
    for (item, mut next) in next {
        let mut values = Vec::new();
        let (mut end, mut last) = (Version::Initial, None);
        while let Some(write) = next.remove(&end) {
            values.push(write.value);
            (end, last) = (Version::Value(write.value), Some(write));
        }
        for write in next.values() {
            let text = format!(
                "{item:?}: {} was written over {:?}, which no order of the writes reaches",
                write.value, write.over
            );
            findings.say(Anomaly::LostWrite, vec![write.trx], text);
        }
        let expected = match last {
            Some(write) if write.gone => Version::Nothing,
            _ => end,
        };
        let is = left.get(&item).map_or(Version::Nothing, |seen| seen.version());
        if history.left.is_some() && is != expected {
            let text = format!("{item:?} at the end is {is:?}, and the last write made it {expected:?}");
            findings.say(Anomaly::LostWrite, last.map(|w| w.trx).into_iter().collect(), text);
        }
        versions.order.insert(item, values);
    }
}

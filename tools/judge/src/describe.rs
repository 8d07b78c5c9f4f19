//! A transaction as the statements that it sent, for the examples in the report.
use crate::history::{End, Form, Item, Lock, Op, Path, Seen, Transaction, Version, What};

pub fn describe(transaction: &Transaction) -> Vec<String> {
    let (begin, commit) = match transaction.form {
        Form::Begin => ("BEGIN;", "COMMIT;"),
        Form::Statement => ("-- one statement alone:", "-- done"),
        Form::Xa => ("XA START;", "XA END; XA PREPARE; XA COMMIT;"),
    };
    let mut lines = vec![format!(
        "{begin}  -- session {}, from {}",
        transaction.session, transaction.begun
    )];
    let mut undoing = false;
    for op in &transaction.ops {
        let undone = op.undone && !op.way.failed;
        if undone != undoing && !op.way.failed {
            lines.push(if undone { "SAVEPOINT s;" } else { "ROLLBACK TO s;" }.into());
            undoing = undone;
        }
        let failed = if op.way.failed { "  -- failed" } else { "" };
        lines.push(format!("{}{failed}  [{}..{}]", statement(op), op.sent, op.done));
    }
    if undoing {
        lines.push("ROLLBACK TO s;".into());
    }
    lines.push(match (transaction.end, transaction.committed) {
        (End::Committed, Some(at)) => format!("{commit}  [{}..{at}]", transaction.commit_sent),
        (End::Committed, None) => commit.into(),
        (End::RolledBack, _) => "ROLLBACK;".into(),
        (End::Unknown, _) => format!("{commit}  -- the connection was lost"),
    });
    lines
}

fn statement(op: &Op) -> String {
    let (table, column, key) = match op.item {
        Item::List(key) => ("lists", "list", key),
        Item::Register(key) => ("registers", "last", key),
    };
    let (index, condition) = place(op, key);
    match &op.what {
        What::Read(seen) if op.way.by_update => {
            format!("UPDATE {table}{index} ... WHERE {condition};  -- {}", shown(key, seen))
        }
        What::Read(seen) => {
            let lock = match op.way.lock {
                Lock::None => "",
                Lock::Share => " LOCK IN SHARE MODE",
                Lock::Update => " FOR UPDATE",
            };
            let order = if op.way.backward { " ORDER BY ... DESC" } else { "" };
            let column = if op.way.path == Path::Covering { "last" } else { column };
            format!(
                "SELECT id, {column} FROM {table}{index} WHERE {condition}{order}{lock};  -- {}",
                shown(key, seen)
            )
        }
        What::Write { gone: true, .. } => format!("DELETE FROM {table} WHERE id = {key};"),
        What::Write { value, over: None, .. } => {
            format!("UPDATE {table}{index} SET {column} = CONCAT({column}, {value}) WHERE {condition};")
        }
        What::Write {
            value,
            over: Some(Version::Value(over)),
            ..
        } => {
            format!("UPDATE {table} SET {column} = (what was read, up to {over}), {value} WHERE id = {key};")
        }
        What::Write {
            value, over: Some(_), ..
        } => format!("INSERT or UPDATE {table} SET {column} = {value} WHERE id = {key};"),
    }
}

/// An index hint, and a condition.
fn place(op: &Op, key: u32) -> (&'static str, String) {
    match (op.way.path, op.way.range) {
        (Path::Primary, None) => ("", format!("id = {key}")),
        (Path::Primary, Some((from, to))) => ("", format!("id BETWEEN {from} AND {to}")),
        (path, range) => {
            let (from, to) = range.unwrap_or((key, key));
            let index = match path {
                Path::Covering => " FORCE INDEX (covering)",
                Path::Merged => " FORCE INDEX (place, PRIMARY)",
                _ => " FORCE INDEX (place)",
            };
            (index, format!("place of {from}..{to}"))
        }
    }
}

fn shown(key: u32, seen: &Seen) -> String {
    match seen {
        Seen::Nothing => format!("{key}: no row"),
        Seen::Initial => format!("{key}: as it began"),
        Seen::List(list) => format!("{key}: {list:?}"),
        Seen::Last(value) => format!("{key}: ... {value}"),
    }
}

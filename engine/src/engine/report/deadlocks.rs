//! Reports of deadlocks: in SHOW ENGINE STATUS, and in the error log if a setting asks for that.
//!
//! The text is made when the deadlock is found. Called by the thread that found it, without
//! latches and locks, and by `status.rs`.
use crate::base::sync::RankedMutex;
use crate::base::{IndexId, TrxId};
use crate::engine::config::{KeyText, Level, LogSink};
use crate::table::Store;
use crate::txn::{BlockerInfo, DeadlockInfo, DeadlockParty, HeldInfo, LockMode, TrxInfo, WaitInfo, DEADLOCKS_KEPT_MAX};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// Makes the texts, with names of tables, indexes and keys. Clones share their content.
#[derive(Clone)]
pub(in crate::engine) struct DeadlockTexts {
    store: Weak<Store>,
    key_text: KeyText,
    kept: KeptTexts,
}

/// The texts of the latest deadlocks. They have the names of that time: an index may have been
/// dropped or renamed since. No latch is taken under the mutex.
type KeptTexts = Arc<RankedMutex<VecDeque<(DeadlockInfo, String)>>>;

impl DeadlockTexts {
    pub fn new(store: &Arc<Store>, key_text: KeyText) -> DeadlockTexts {
        DeadlockTexts {
            store: Arc::downgrade(store),
            key_text,
            kept: KeptTexts::default(),
        }
    }

    /// From now on a text is made of every deadlock. While `wanted` is set, it is written to the
    /// log, too. Called once, at open.
    pub fn listen(&self, store: &Store, wanted: Arc<AtomicBool>, log: LogSink) {
        let texts = self.clone();
        store.trx_sys.locks().on_deadlock(Box::new(move |deadlock| {
            let text = texts.text_of(deadlock);
            if wanted.load(Ordering::Relaxed) {
                log(Level::Info, &format!("deadlock found:\n{}", text.trim_end()));
            }
            let mut kept = texts.kept.lock();
            kept.truncate(DEADLOCKS_KEPT_MAX - 1);
            kept.push_front((deadlock.clone(), text));
            debug_assert!(
                kept.len() <= DEADLOCKS_KEPT_MAX,
                "no more texts are kept than deadlocks"
            );
        }));
    }

    /// The text made when the deadlock was found. If it is not stored yet, a new one.
    pub fn text_of_latest(&self, deadlock: &DeadlockInfo) -> String {
        let kept = self.kept.lock();
        let found = kept.iter().find(|(of, _)| of == deadlock);
        let found = found.map(|(_, text)| text.clone());
        drop(kept);
        found.unwrap_or_else(|| self.text_of(deadlock))
    }

    /// The transactions of the deadlock: what each did, held and waited for, and which was rolled
    /// back.
    pub fn text_of(&self, deadlock: &DeadlockInfo) -> String {
        debug_assert!(
            deadlock.victim < deadlock.circle.len(),
            "the victim is one of the circle"
        );
        let mut out = String::new();
        for (i, party) in deadlock.circle.iter().enumerate() {
            let DeadlockParty { trx, statement, holds } = party;
            let _ = writeln!(out, "({}) transaction{}", i + 1, about(trx));
            if !statement.is_empty() {
                let _ = writeln!(out, "   statement: {}", statement.trim());
            }
            if let Some(held) = holds {
                let _ = writeln!(out, "   {}", self.held(held));
            }
            if let Some(wait) = &trx.wait {
                let _ = writeln!(out, "   waits for {}", self.waited_for(wait));
            }
        }
        let _ = writeln!(out, "Rolled back: ({})", deadlock.victim + 1);
        out
    }

    fn held(&self, held: &HeldInfo) -> String {
        let what = match (held.mode, held.granted) {
            (None, _) => "holds a range with",
            (Some(LockMode::Exclusive), true) => "holds the exclusive lock of",
            (Some(LockMode::Shared), true) => "holds the shared lock of",
            // The request stands before the other one in the queue.
            (Some(_), false) => "waits before the other for",
        };
        format!("{what} {}", self.key(held.index, &held.key))
    }

    pub fn waited_for(&self, wait: &WaitInfo) -> String {
        let what = match wait.mode {
            Some(LockMode::Exclusive) => "the exclusive lock of",
            Some(LockMode::Shared) => "the shared lock of",
            None => "an insert into a locked range of",
        };
        let mut text = format!("{what} {}", self.key(wait.index, &wait.key));
        for (i, blocker) in wait.blockers.iter().enumerate() {
            let before = if i == 0 { "; in the way:" } else { "," };
            let _ = write!(text, "{before} transaction{} ({})", number(blocker.id), whose(blocker));
        }
        text
    }

    /// Table, index and key, as the catalog has them now.
    fn key(&self, id: IndexId, key: &[u8]) -> String {
        let in_digits = || key.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let Some(store) = self.store.upgrade() else {
            return in_digits();
        };
        for table in store.catalog.tables() {
            let (layout, name) = (table.layout(), table.name());
            let (index, ordinal) = if layout.clustered.id == id {
                ("clustered index".to_string(), 0)
            } else if let Some(at) = layout.secondary.iter().position(|s| s.index.id == id) {
                (format!("index {}", layout.secondary[at].index.name), at as u32 + 1)
            } else {
                continue;
            };
            debug_assert!(
                layout.index(ordinal).is_some_and(|index| index.id == id),
                "the key is named by the index that has it"
            );
            let key = (self.key_text)(&name, ordinal, key).unwrap_or_else(in_digits);
            let name = store.catalog.shown(&table);
            return format!("table {name}, {index}, key {key}");
        }
        if id == crate::table::AUTOINC_LOCKS {
            let table = key
                .try_into()
                .ok()
                .and_then(|id| store.catalog.by_id(u32::from_be_bytes(id)));
            return format!(
                "AUTO_INCREMENT of table {}",
                table.map_or(in_digits(), |table| store.catalog.shown(&table))
            );
        }
        format!("index {id}, which is dropped, key {}", in_digits())
    }
}

/// After the word "transaction": one that has written nothing has no number.
fn number(id: TrxId) -> String {
    debug_assert!(id >> 48 == 0, "a transaction id has six bytes");
    match id {
        0 => " without a number yet".into(),
        id => format!(" {id}"),
    }
}

/// The connection, or what else a user can search for.
fn whose(blocker: &BlockerInfo) -> String {
    match (blocker.connection, &blocker.xid) {
        (0, None) => "without a connection".into(),
        (0, Some(xid)) => format!("XA {xid}, without a connection"),
        (connection, _) => format!("connection {connection}"),
    }
}

/// After the word "transaction".
pub(super) fn about(trx: &TrxInfo) -> String {
    let mut text = number(trx.id);
    match (trx.age_us, trx.connection) {
        (None, _) => text.push_str(", found at start"),
        (Some(_), 0) => text.push_str(", without a connection"),
        (Some(_), connection) => {
            let _ = write!(text, ", connection {connection}");
        }
    }
    if let Some(age_us) = trx.age_us {
        let _ = write!(text, ", active {} s", age_us / 1_000_000);
    }
    if let Some(xid) = &trx.xid {
        let _ = write!(text, ", XA {xid}");
    }
    if trx.prepared {
        text.push_str(", prepared");
    } else if trx.rolling_back {
        text.push_str(", rolling back");
    }
    let _ = write!(text, ", undo records {}, row locks {}", trx.undo_records, trx.row_locks);
    if trx.range_locks > 0 {
        let _ = write!(text, ", range locks {}", trx.range_locks);
    }
    text
}

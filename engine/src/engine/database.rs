//! The engine embedded: a database directory, tables of byte strings, transactions.
//!
//! Keys compare as bytes (I8). A table has rows, each with a clustered key, and secondary indexes
//! whose keys the caller makes. An index entry's key is its index key followed by the clustered
//! key. This file is an interface over [`Engine`], [`Store`] and [`Cursor`]; it takes no latch.
//!
//! ```
//! use sluice::engine::{Config, Database};
//! use sluice::table::{Entry, IndexSpec, TableSpec};
//!
//! # fn main() -> sluice::base::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("sluice-example-{}", std::process::id()));
//! # let _ = std::fs::remove_dir_all(&dir);
//! let db = Database::open(&dir, Config::default())?;
//! let by_town = IndexSpec { name: "by_town".into(), ..IndexSpec::default() };
//! db.create_table("people", &TableSpec { indexes: vec![by_town], ..Default::default() })?;
//!
//! let mut trx = db.begin();
//! let people = db.table("people")?;
//! for (name, town) in [("ann", "oslo"), ("bob", "rome"), ("eve", "oslo")] {
//!     let key = [town.as_bytes(), b"\0", name.as_bytes()].concat();
//!     let user_key_len = town.len() as u32 + 1;
//!     let entry = Entry { index: 0, user_key_len, key: &key, ..Default::default() };
//!     trx.insert(&people, name.as_bytes(), town.as_bytes(), &[entry])?;
//! }
//! trx.commit()?;
//!
//! let mut trx = db.begin();
//! let mut found = Vec::new();
//! // Index 1 is the first secondary one; 0 would be the clustered one.
//! trx.scan(&people, 1, b"oslo\0", Some(b"oslo\x01"), |entry| {
//!     found.push(String::from_utf8_lossy(entry.pk).into_owned());
//!     true
//! })?;
//! assert_eq!(found, ["ann", "eve"]);
//! trx.commit()?;
//! db.close()?;
//! # let _ = std::fs::remove_dir_all(&dir);
//! # Ok(())
//! # }
//! ```
use super::config::{default_number, Config};
use super::instance::{Close, Engine};
use crate::base::sync::holds_nothing;
use crate::base::{Error, Result};
use crate::btree::Seek;
use crate::io::Disk;
use crate::io::RealDisk;
use crate::table::{ChangeReport, Entry, EntryChange, Found, LockChoice, NewRow, Savepoint, Store, Table, TableSpec};
use crate::txn::{Isolation, ThreadWaiter, Trx};
use std::path::Path;
use std::sync::Arc;

/// An open database directory. Clones are the same database: when one is closed all are. The
/// directory stays locked until the last clone, and the last [`Transaction`], has gone.
#[derive(Clone)]
pub struct Database {
    engine: Arc<Engine>,
    /// How long a transaction waits for a row lock: the default of the server's variable.
    lock_wait_timeout_ms: u32,
}

impl Database {
    /// Opens the directory; makes it if it does not exist. Uncommitted changes of a crash are
    /// rolled back in the background. [`Error::InUse`]: another process, or this one, has it open.
    pub fn open(dir: impl AsRef<Path>, config: Config) -> Result<Database> {
        Database::on(RealDisk::open(dir)?, config)
    }
    /// On any disk, for tests.
    pub fn on(disk: Arc<dyn Disk>, config: Config) -> Result<Database> {
        let engine = Engine::open(disk, config)?;
        engine.start_background();
        Ok(Database {
            engine,
            lock_wait_timeout_ms: default_number("lock_wait_timeout") as u32 * 1000,
        })
    }
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
    /// Writes all pages. Every call of other clones and of open transactions fails from then on,
    /// with [`Error::Closed`]. The next open rolls back what they have not committed.
    pub fn close(self) -> Result<()> {
        self.engine.close(Close::Fast)
    }
    /// Durable on return. [`Error::Exists`], and [`Error::Invalid`] of an empty name.
    pub fn create_table(&self, name: &str, spec: &TableSpec) -> Result<()> {
        self.engine.store().tables().create_table(name, spec)
    }
    /// Durable on return. Callers that have the table open get [`Error::NoSuchTable`] from then on.
    pub fn drop_table(&self, name: &str) -> Result<()> {
        self.engine.store().tables().drop_table(name)
    }
    pub fn table(&self, name: &str) -> Result<Arc<Table>> {
        self.engine.check_alive()?;
        self.engine.store().tables().open_table(name)
    }
    /// What the change buffer holds; index by index:
    /// [`changes_by_index`](crate::table::MergeScheduler::changes_by_index).
    pub fn change_buffer(&self) -> ChangeReport {
        self.engine.store().merge_scheduler().change_report()
    }
    /// Merges everything that is buffered now; returns when that is done.
    pub fn drain_change_buffer(&self) -> Result<()> {
        self.engine.check_alive()?;
        self.engine.store().merge_scheduler().drain_changes()
    }
    /// A transaction under snapshot isolation.
    pub fn begin(&self) -> Transaction {
        self.begin_with(Isolation::RepeatableRead)
    }
    pub fn begin_with(&self, isolation: Isolation) -> Transaction {
        let mut trx = self.engine.new_trx(Arc::new(ThreadWaiter::new()), 0);
        trx.snapshot_by_locking = true;
        self.engine.start(&mut trx, isolation, self.lock_wait_timeout_ms);
        debug_assert!(trx.is_started() && trx.id() == 0, "the id comes with the first write");
        Transaction {
            engine: self.engine.clone(),
            trx,
            open: true,
        }
    }
}

/// One transaction, used by one thread at a time. A drop without `commit` rolls it back.
pub struct Transaction {
    engine: Arc<Engine>,
    trx: Trx,
    open: bool,
}

impl Transaction {
    fn store(&self) -> &Arc<Store> {
        self.engine.store()
    }
    /// What the lower-level calls of [`Store`] and [`Cursor`] take.
    pub fn trx(&mut self) -> &mut Trx {
        &mut self.trx
    }
    /// [`Error::Duplicate`]: the row is there, or in a unique index its value.
    pub fn insert(&mut self, table: &Table, pk: &[u8], row: &[u8], entries: &[Entry<'_>]) -> Result<()> {
        self.on(table, |store, trx| {
            store.rows().insert(trx, table, &NewRow::new(pk, row, entries), false)
        })
    }
    pub fn update(&mut self, table: &Table, pk: &[u8], row: &[u8], changes: &[EntryChange<'_>]) -> Result<()> {
        self.on(table, |store, trx| {
            store.rows().update(trx, table, pk, row, changes, false)
        })
    }
    pub fn delete(&mut self, table: &Table, pk: &[u8], entries: &[Entry<'_>]) -> Result<()> {
        self.on(table, |store, trx| store.rows().delete(trx, table, pk, entries))
    }
    /// The row of a clustered key, as this transaction's snapshot sees it.
    pub fn get(&mut self, table: &Arc<Table>, pk: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get_by(table, pk, LockChoice::default())
    }
    /// Same, newest version, locked exclusively until the end of the transaction.
    pub fn get_for_update(&mut self, table: &Arc<Table>, pk: &[u8]) -> Result<Option<Vec<u8>>> {
        let lock = LockChoice {
            mode: Some(crate::txn::LockMode::Exclusive),
            ..Default::default()
        };
        self.get_by(table, pk, lock)
    }
    fn get_by(&mut self, table: &Arc<Table>, pk: &[u8], lock: LockChoice) -> Result<Option<Vec<u8>>> {
        self.on(table, |store, trx| {
            let mut cursor = store.cursor(table.clone());
            let found = cursor.get(trx, pk, lock)?;
            debug_assert!(!found || cursor.found().is_some(), "a row that was found is at hand");
            Ok(cursor.found().filter(|_| found).map(|f| f.row.to_vec()))
        })
    }
    /// Every row with `lo <= key < hi` in an index (0 = clustered, i + 1 = secondary i), in key
    /// order, until `each` returns false.
    pub fn scan(
        &mut self,
        table: &Arc<Table>,
        index: u32,
        lo: &[u8],
        hi: Option<&[u8]>,
        mut each: impl FnMut(Found<'_>) -> bool,
    ) -> Result<()> {
        self.on(table, |store, trx| {
            let mut cursor = store.cursor(table.clone());
            cursor.begin(trx, index, LockChoice::default(), false)?;
            cursor.set_bounds(lo, hi);
            let mut more = cursor.seek(trx, Seek::Ge, lo)?;
            while more {
                let found = cursor.found().ok_or(Error::NotFound)?;
                debug_assert!(
                    found.key >= lo && hi.is_none_or(|hi| found.key < hi),
                    "a scan stays within its bounds"
                );
                if !each(found) {
                    break;
                }
                more = cursor.next(trx)?;
            }
            Ok(())
        })
    }
    /// Runs `body` on a table that another thread may drop before, or meanwhile.
    fn on<T>(&mut self, table: &Table, body: impl FnOnce(&Arc<Store>, &mut Trx) -> Result<T>) -> Result<T> {
        let gone = || Error::NoSuchTable(format!("{}, which was dropped", table.name()));
        self.engine.check_alive()?;
        if table.is_dropped() {
            return Err(gone());
        }
        let done = body(self.engine.store(), &mut self.trx);
        debug_assert!(holds_nothing(), "I5: a call leaves no latch and no mutex held");
        match done {
            Err(e) if e.is_corrupt() && table.is_dropped() => Err(gone()),
            done => done,
        }
    }
    pub fn savepoint(&self) -> Savepoint {
        self.store().rollbacks().savepoint(&self.trx)
    }
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.engine.store().rollbacks().rollback_to(&mut self.trx, savepoint)
    }
    /// Durable on return, unless the configuration says otherwise.
    pub fn commit(mut self) -> Result<()> {
        self.engine.check_alive()?;
        self.open = false;
        self.engine.commit(&mut self.trx, true)
    }
    pub fn rollback(mut self) -> Result<()> {
        self.open = false;
        self.engine.rollback(&mut self.trx)
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if self.open {
            // An error has poisoned the engine; the next open rolls back.
            let _ = self.engine.rollback(&mut self.trx);
        }
    }
}

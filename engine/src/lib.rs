//! Sluice: a transactional storage engine with InnoDB's architecture and a change buffer.
//!
//! The `mod` lines below are the map, in the order of a row's trip from SQL down to the disk. A
//! module uses only modules BELOW it; `tests/tidy/` has the exact table. Read top down.
#![deny(unsafe_op_in_unsafe_fn)]

/// Opens and wires the layers: open/close, recovery driver, checkpoint, background workers.
pub mod engine;
/// Rows: insert, update, delete, scan; catalog, rollback, purge.
pub mod table;
/// Transactions: read views, row locks, undo streams, commit.
pub mod txn;
/// One B+tree index as the table layer sees it: clustered or secondary.
pub mod index;
/// The change buffer: changes of secondary indexes, applied or buffered, and merged later.
pub mod change;
/// The formats of index entries: values of clustered and of secondary indexes.
pub mod entry;
/// The tree mechanism over pages: descend, split, merge, verify. Has no transactions.
pub mod btree;
/// Data files: creation, page allocation, free space.
pub mod space;
/// The buffer pool: pin, latch, evict, flush, and the mini-transaction.
pub mod pool;
/// The redo log: append, group flush, read back.
pub mod redo;
/// Disk, clock and randomness, as one trait.
pub mod io;
/// Ids, errors, byte codec, counters, ranked locks.
pub mod base;

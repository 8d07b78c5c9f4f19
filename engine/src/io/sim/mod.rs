//! The simulated disk: files in memory, with faults by stated rules, for tests of every layer.
//!
//! Fault rules:
//! - S1 A write, and a change of length, is *pending* until the next `sync` of its file. Reads see
//!   it at once. `sync` makes all pending changes of the file durable.
//! - S2 A crash keeps any part of the pending changes, file by file. The seed draws one of four
//!   ways: nothing, all, the first n changes, or single parts. In the last way each sector of each
//!   write, and each change of length, survives by its own coin. A sector (512 bytes, or as set) is
//!   never torn. Overlapping writes that survive apply in the order in which they were issued.
//! - S3 Create, remove and rename are durable on return. A call that the crash interrupts has
//!   happened or not (seed). A file created unsynced survives a crash or not (seed), until it is
//!   renamed.
//! - S4 Every changing call and every read is counted. Changing calls are write, sync, set_len,
//!   create, remove, rename; each operation of a batch counts. `crash_at(n)`: changing call n takes
//!   effect as pending (S2) or by coin (S3) and fails, as everything after it does. A disk that
//!   crashed stays dead; `crash` gives the disk that the next start finds.
//! - S5 `fail_change(n, Fault::Eio)`: a write may leave any of its sectors pending. A sync makes a
//!   part of the pending changes durable and *forgets the rest, though reads still show it*. A
//!   later successful sync does not bring the rest back. `Fault::Short`: a write leaves its first
//!   sectors pending and fails. `Fault::Full`: nothing happens, `Error::Full`; a sync passes the
//!   fault on to the next call. `fail_read(n)`: that read fails, once.
//! - S6 `set_space(bytes)`: growth over this sum of file lengths is `Error::Full`.
//! - S7 The seed and the order of calls decide everything. The clock moves only by `advance_us`,
//!   and by the time that `set_read_us` gives each read. `trace` tells two runs apart.
//! - S8 `damage_write(n, Damage)`: write n is reported done, and is not. One bit of it is wrong, or
//!   it hit another place of the file too, or only that place, or none (the old bytes stay).
//!   Only writes of data files are damaged.
//! - S9 `refuse(Some(name))`: until this is taken back, that file can neither be opened nor read.
//!   Open handles can write and sync it. `Some("")`: the same for all files, and none can be
//!   created.
//! - S10 `set_handles(n)`: while n files are open, opening one more is `Error::TooManyFiles`.
//! - S11 `set_bad(Some((name, offset)))`: a sector that cannot be read, whatever is written to it.
//!
//! Direct files assert aligned buffers, offsets and lengths, as O_DIRECT would. Order of the files,
//! top to bottom: `hooked` and `faults`, `disk`, `file`, `state`, `pending`, `rng`.
mod rng;
mod disk;
mod faults;
mod file;
#[cfg(test)]
pub mod hooked;
mod pending;
mod state;

#[cfg(test)]
mod tests;

pub use disk::SimDisk;
#[cfg(test)]
pub(crate) use rng::Rng;
pub use state::{Damage, Fault};

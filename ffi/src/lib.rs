//! C ABI of the engine: the Rust side of `plugin/sluice_abi.h`.
//!
//! Every entry goes through [`error::guard`]: a panic is caught, poisons the engine (I6) and
//! becomes `SLC_POISONED`. No logic lives here: pointers become slices, slices become calls of the
//! `sluice` crate, results become codes.
//!
//! Order of the files, top to bottom: `backup`, `online`, `build`, `load`, `bulk`, `cursor`, `row`,
//! `stats`, `table`, `foreign`, `statistics`, `trx`, `waiter`, `locks`. Then `dictionary`, `pool`,
//! `engine`, `observer`, `error`, `abi`.
//!
//! # Safety
//! Every function of the ABI has this contract; the files' heads add what is special to them.
//! - *Handles.* A `slc_x *` is null only where the header allows it. Otherwise it came from the
//!   function that makes an `x`, and was not given to the function that ends an `x`. A handle
//!   outlives the handles made from it: the engine outlives tables and transactions, a table
//!   outlives its cursors, builds and loads.
//! - *Threads.* One thread at a time uses a handle. Exceptions: an engine's and a table's are only
//!   read through `&`; `slc_trx_cancel_wait` touches only the part of a transaction that is made
//!   for other threads.
//! - *Inputs.* A pointer to a struct or an array is valid for reads through the call. An array has
//!   as many members as its count says, and may be null if that is 0. A `slc_bytes` is null, or
//!   points to `len` bytes that nothing changes during the call. A name is NUL-terminated.
//! - *Outputs.* An `out` pointer is valid for writes, and nothing else refers to its target during
//!   the call.
//! - *Callbacks.* A function pointer has the header's signature, may be called with the context
//!   given with it, and does not unwind.
//! - *Results.* Bytes that a handle gives out point into that handle. The caller uses them only
//!   until its next call with the handle, or until the end that the function's comment names.
#![allow(non_camel_case_types)]
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(clippy::missing_safety_doc)] // stated above, once for all functions

mod abi;
mod backup;
mod build;
mod bulk;
mod cursor;
mod dictionary;
mod engine;
mod error;
mod foreign;
mod load;
mod locks;
mod observer;
mod online;
mod pool;
mod row;
mod statistics;
mod stats;
mod table;
mod trx;
mod waiter;

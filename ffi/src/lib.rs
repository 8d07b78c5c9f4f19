//! C ABI of the engine: the Rust side of `plugin/sluice_abi.h`.
//!
//! Every entry goes through [`error::guard`]: a panic is caught, poisons the engine (I6) and becomes `SLC_POISONED`.
//! No logic lives here: pointers become slices, slices become calls of the `sluice` crate, results become codes.
#![allow(non_camel_case_types)]
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(clippy::missing_safety_doc)] // the contract of every function is the header's

mod abi;
mod build;
mod bulk;
mod cursor;
mod engine;
mod error;
mod load;
mod locks;
mod row;
mod statistics;
mod stats;
mod table;
mod trx;
mod waiter;

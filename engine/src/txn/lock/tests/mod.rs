//! Tests of locks.
//!
//! `locks` has threads. `holders_named` has the holders that waiters hear of, and `order`
//! transactions of a cluster's order. `report` has locks and waits as INFORMATION_SCHEMA shows
//! them.
mod holders_named;
mod locks;
mod order;
mod report;

//! Tests of locks: `locks` (with threads), `holders_named` (the holders that waiters hear of), `order`
//! (transactions of a cluster's order),
//! `report` (locks and waits as INFORMATION_SCHEMA shows them).
mod holders_named;
mod locks;
mod order;
mod report;

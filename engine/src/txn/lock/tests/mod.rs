//! Tests of locks: `locks` (with threads), `holders_named` (the holders that waiters hear of),
//! `report` (locks and waits as INFORMATION_SCHEMA shows them).
mod holders_named;
mod locks;
mod report;

//! Tests of locks: `locks` (with threads), `holders_named` (the holders that waiters are told of),
//! `report` (locks and waits as INFORMATION_SCHEMA shows them).
mod holders_named;
mod locks;
mod report;

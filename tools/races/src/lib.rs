//! Models of the engine's lock-free code, checked by loom.
//!
//! The engine's own files are compiled here, by `#[path]`, with loom's atomics and locks in place
//! of the standard ones. So loom runs the very code that ships. A model is a function `model_...`
//! beside the file that it checks, because most items of these files are private to their module.
//! `tests/models.rs` runs each model as a test.
//!
//! Loom runs a model once for each interleaving of its threads, and for each older value that the
//! memory model allows a load to return.
//!
//! The folders follow those of the engine. Files here that have the name of an engine file stand
//! in for it. `scripts/races` runs the models, and then runs them on planted bugs
//! (`planted.toml`), which they must find.
// The engine's files have more than the models call.
#![allow(dead_code, unused_imports)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

mod base;
pub mod change;
mod io;
pub mod pool;
pub mod redo;
pub mod table;

/// Runs a model, and prints how often. `preemptions`: at most so many switches away from a thread
/// that could go on. The variable PREEMPTIONS replaces it. With `any`, two models of the counting
/// filter do not end within eight minutes; no model has failed.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 20_000;
    builder.preemption_bound = match std::env::var("PREEMPTIONS").as_deref() {
        Ok("any") => None,
        Ok(number) => Some(number.parse().expect("PREEMPTIONS is a number, or `any`")),
        Err(_) => Some(preemptions),
    };
    let runs = Arc::new(AtomicU64::new(0));
    let count = runs.clone();
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let runs = runs.load(Ordering::Relaxed);
    assert!(runs > 1, "loom finds no two accesses that conflict");
    println!("runs: {runs}");
}

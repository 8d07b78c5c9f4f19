//! Read views: what a consistent read may see, and which views are open.
//!
//! Order, top to bottom: `registry`, `snapshot`. `visibility.rs` makes and closes views.
pub(super) mod registry;
pub mod snapshot;

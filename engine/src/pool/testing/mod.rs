//! What the tests of the pool and of the layers above share.
//!
//! Called by: tests only.
mod fixture;

pub(crate) use fixture::{PoolFixture, FILE};

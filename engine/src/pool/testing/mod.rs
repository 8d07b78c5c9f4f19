//! What the tests of the pool and of the layers above share.
pub(crate) mod fixture;

pub(crate) use fixture::PoolFixture;

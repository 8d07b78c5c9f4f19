//! Compiles `absence_filter.rs` of the engine's `pool/frames` with loom's types.
#[path = "../../../../../engine/src/pool/frames/absence_filter.rs"]
mod absence_filter;
pub mod absence_filter_model;
mod geometry {
    /// Eight frames make two sets of filters.
    pub struct PoolGeometry;
    impl PoolGeometry {
        pub fn frames(&self) -> usize {
            8
        }
    }
}

//! Compiles `append_hint.rs` and `versions.rs` of the engine's `table/catalog` with loom's types.
#[path = "../../../../../engine/src/table/catalog/append_hint.rs"]
mod append_hint;
pub mod append_hint_model;
mod layout {
    //! Stands in for the engine's layout: a number, in memory that loom watches.
    use loom::cell::UnsafeCell;

    pub struct Layout(UnsafeCell<u32>);

    // SAFETY: written before it is shared; loom checks that.
    unsafe impl Sync for Layout {}

    impl Layout {
        pub fn new(no: u32) -> Layout {
            Layout(UnsafeCell::new(no))
        }
        pub fn no(&self) -> u32 {
            // SAFETY: nothing writes to it.
            self.0.with(|no| unsafe { *no })
        }
    }
}
#[path = "../../../../../engine/src/table/catalog/versions.rs"]
mod versions;
pub mod versions_model;

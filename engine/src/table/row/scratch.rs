//! Buffers of one row operation, kept per thread so that a row change allocates nothing.
use std::cell::Cell;

#[derive(Default)]
pub(in crate::table) struct Scratch {
    /// Payload of the undo record.
    pub undo: Vec<u8>,
    /// Value of the clustered entry.
    pub value: Vec<u8>,
    /// Value of a secondary entry.
    pub entry: Vec<u8>,
}

thread_local! {
    static SPARE: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// A buffer that grew beyond this is given back to the allocator.
const KEEP_MAX: usize = 64 << 10;

pub(in crate::table) fn with<T>(body: impl FnOnce(&mut Scratch) -> T) -> T {
    let mut scratch = SPARE.take().unwrap_or_default();
    let result = body(&mut scratch);
    for buffer in [&mut scratch.undo, &mut scratch.value, &mut scratch.entry] {
        if buffer.capacity() > KEEP_MAX {
            *buffer = Vec::new();
        }
    }
    SPARE.set(Some(scratch));
    result
}

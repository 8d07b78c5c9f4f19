//! When a change is buffered, and how much is.
pub mod change_buffer;

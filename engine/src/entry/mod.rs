//! The formats of index entries: what a value of a clustered and of a secondary index holds.
//!
//! `index` hands both to the layers above; `change` edits flags and stamp of secondary entries.
//! The two files use nothing of each other.
pub mod clustered;
pub mod secondary;

//! [`Orphans`]: the report of a check about rows whose parent row is missing.
//!
//! Takes no latch. Called by `check` and `references`.

/// Why rows count as orphans, or were not compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OrphanKind {
    NoParentRow,
    /// The parent's table is missing, or has no fitting index: no row has a parent.
    NoParentTable,
    /// The table has lost the index of the foreign key: nothing was compared.
    NoChildIndex,
    /// Definitions changed all the time: nothing was compared.
    NotCompared,
}

/// The rows of one foreign key that refer to no parent row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Orphans {
    pub kind: OrphanKind,
    /// The foreign key's place in the table's definition.
    pub foreign: u32,
    pub name: String,
    pub rows: u64,
    /// Clustered key and row of the first ones, each with another key.
    pub first: Vec<(Vec<u8>, Vec<u8>)>,
}

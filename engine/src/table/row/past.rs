//! Rows of the past. A table with system versioning keeps the earlier versions of its rows as rows
//! of their own. To foreign keys they are neither children nor parents.
//!
//! The rows of a table whose layout says [`marks_past`](Layout::marks_past) tell it themselves: bit
//! 6 of their second byte is set in a row of the past. Both bytes are in the leaf, also of a long
//! row. The rest of a row stays the caller's.
//!
//! Takes no latch. Called by row changes, loads and checks.
use crate::base::{planted, Mutant};
use crate::index::{OVERFLOW_REF, ROW_HEADER, ROW_OVERFLOW};
use crate::table::catalog::layout::Layout;

/// Which byte of a row has the mark.
const MARK_AT: usize = 1;
const MARK: u8 = 1 << 6;

pub(in crate::table) fn is_past(layout: &Layout, row: &[u8]) -> bool {
    layout.marks_past && row.get(MARK_AT).is_some_and(|byte| byte & MARK != 0) && !planted(Mutant::PastCounts)
}

/// `value`: of the clustered entry.
pub(in crate::table) fn value_is_past(layout: &Layout, value: &[u8]) -> bool {
    debug_assert!(
        value.len() >= ROW_HEADER,
        "a clustered entry's value begins with its header"
    );
    let row_at = match value[0] & ROW_OVERFLOW {
        0 => ROW_HEADER,
        _ => ROW_HEADER + OVERFLOW_REF,
    };
    is_past(layout, value.get(row_at..).unwrap_or_default())
}

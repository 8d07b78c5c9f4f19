//! The AUTO_INCREMENT counter on disk: in the header page of the table's file.
//!
//! Latches: the file's header page, within the Mtr of a row change. Called by row changes and
//! loads.
use crate::base::bytes::get_u64;
use crate::base::{sync_point, Result, SyncPoint};
use crate::pool::Mtr;
use crate::space;
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use std::sync::atomic::Ordering;

/// Writes a raised AUTO_INCREMENT counter into the file's header, in the row's own Mtr. Returns
/// what the header holds then, for [`Table::autoinc_is_saved`] once the Mtr is committed; 0 if the
/// header was not read.
pub(in crate::table) fn save_autoinc(table: &Table, layout: &Layout, mtr: &mut Mtr<'_>) -> Result<u64> {
    let next = table.autoinc.load(Ordering::Relaxed);
    if next <= table.autoinc_saved.load(Ordering::Acquire) {
        return Ok(0);
    }
    let header = space::header(mtr, layout.id)?;
    // Under the page's latch, so that the counter on disk never goes back.
    let saved = get_u64(mtr.bytes(header), space::AUTOINC_OFFSET);
    let next = table.autoinc.load(Ordering::Relaxed);
    if next > saved {
        mtr.edit_u64(header, space::AUTOINC_OFFSET, next);
        sync_point(SyncPoint::CounterWritten);
    }
    Ok(next.max(saved))
}

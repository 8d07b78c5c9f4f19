//! Sizes and estimates of a table, CHECK TABLE, and the list of buffered changes.
//!
//! # Safety
//! The contract of `lib.rs`. Rows, lines and bytes that a callback gets live through the callback's
//! call. A `slc_check_sink` lives through the call of `entries` that got it, and only that call
//! uses it.
use super::abi::*;
use super::engine::{check_writable, enter, enter_value, slc_engine};
use super::table::slc_table;
use super::trx::slc_trx;
use sluice::base::bytes::prefix_successor;
use sluice::base::Error;
use sluice::table::{CheckLevel, Checker, EntrySink, OrphanKind, Orphans};
use std::borrow::Cow;
use std::ffi::c_void;

/// Calls `cb` with the bytes, which it may use until it returns.
fn send(cb: slc_text_cb, ctx: *mut c_void, bytes: &[u8]) {
    if let Some(cb) = cb {
        unsafe { cb(ctx, bytes.as_ptr().cast(), bytes.len()) }
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_get_stats(table: *mut slc_table, out: *mut slc_table_stats) -> slc_err {
    let table = unsafe { slc_table::of(table) };
    enter(&table.engine, || {
        let s = table.engine.store().statistics_keeper().table_stats(&table.table)?;
        let stats = slc_table_stats {
            rows: s.rows,
            data_bytes: s.data_bytes,
            index_bytes: s.index_bytes,
            empty_buffer_bytes: s.empty_buffer_bytes,
            free_bytes: s.free_bytes,
            file_bytes: s.file_bytes,
            clustered_leaf_pages: s.clustered_leaf_pages,
            create_time: s.create_time_s as i64,
            update_time: s.update_time_s as i64,
        };
        unsafe { *out = stats };
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_index_leaf_pages(table: *mut slc_table, index: u32) -> u64 {
    let table = unsafe { slc_table::of(table) };
    enter_value(&table.engine, 0, || {
        // This is an estimate for the optimizer; reads report a broken tree.
        table
            .engine
            .store()
            .statistics_keeper()
            .leaf_pages(&table.table, index)
            .unwrap_or(0)
    })
}

/// The least key that is not before the place; None: no bound.
///
/// # Safety
/// The key's bytes live and stay unchanged for `'a`.
unsafe fn key_at<'a>(bound: slc_bound) -> Option<Cow<'a, [u8]>> {
    // SAFETY: the caller's promise.
    let key = unsafe { bound.key.get() };
    match bound.after {
        0 => (!key.is_empty()).then_some(key.into()),
        _ => prefix_successor(key).map(Cow::from),
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_records_in_range(
    table: *mut slc_table,
    index: u32,
    lo: slc_bound,
    hi: slc_bound,
    out: *mut u64,
) -> slc_err {
    let table = unsafe { slc_table::of(table) };
    enter(&table.engine, || {
        let (lo, hi) = unsafe { (key_at(lo), key_at(hi)) };
        let store = table.engine.store();
        let estimate = store
            .statistics_keeper()
            .records_in_range(&table.table, index, lo.as_deref(), hi.as_deref())?;
        unsafe { *out = estimate };
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_change_buffer_list(
    engine: *mut slc_engine,
    cb: slc_index_changes_cb,
    ctx: *mut c_void,
) -> slc_err {
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || {
        let bytes = |text: &str| slc_bytes::of(text.as_bytes());
        engine.store().merge_scheduler().changes_by_index(&mut |changes| {
            let row = slc_index_changes {
                table: bytes(&changes.table),
                index: bytes(&changes.index),
                buffering: bytes(changes.buffering.word()),
                own: changes.own.is_some() as u8,
                counted: changes.counted as u8,
                entries: changes.entries,
                bytes: changes.bytes,
                partitions: changes.partitions,
                pages: changes.pages,
                age_s: changes.age_s,
                merged: changes.merged,
            };
            if let Some(cb) = cb {
                unsafe { cb(ctx, &row) }
            }
        })
    })
}

/// As in the header.
#[repr(C)]
pub struct slc_check {
    level: u32,
    ctx: *mut c_void,
    finding: slc_text_cb,
    entries: Option<unsafe extern "C" fn(*mut c_void, slc_bytes, slc_bytes, *mut slc_check_sink)>,
    progress: Option<unsafe extern "C" fn(*mut c_void, u32, u32, u64, u64)>,
    orphans: Option<unsafe extern "C" fn(*mut c_void, *const slc_orphans)>,
}

/// As in the header.
#[repr(C)]
pub struct slc_orphans {
    foreign: u32,
    kind: u32,
    name: slc_bytes,
    rows: u64,
    count: u32,
    keys: *const slc_bytes,
    images: *const slc_bytes,
}

/// What `slc_check_sink *` points to, for the length of one call of `entries`.
pub struct slc_check_sink<'a>(EntrySink<'a>);

struct Callbacks<'a>(&'a slc_check);

impl Checker for Callbacks<'_> {
    fn finding(&mut self, line: &str) {
        send(self.0.finding, self.0.ctx, line.as_bytes());
    }
    fn knows_entries(&self) -> bool {
        self.0.entries.is_some()
    }
    fn entries(&mut self, pk: &[u8], row: &[u8], each: EntrySink<'_>) {
        let Some(entries) = self.0.entries else { return };
        let mut sink = slc_check_sink(each);
        unsafe {
            entries(
                self.0.ctx,
                slc_bytes::of(pk),
                slc_bytes::of(row),
                std::ptr::from_mut(&mut sink).cast(),
            )
        };
    }
    fn orphans(&mut self, orphans: &Orphans) {
        let Some(callback) = self.0.orphans else { return };
        let keys = Vec::from_iter(orphans.first.iter().map(|(pk, _)| slc_bytes::of(pk)));
        let images = Vec::from_iter(orphans.first.iter().map(|(_, row)| slc_bytes::of(row)));
        let all = slc_orphans {
            foreign: orphans.foreign,
            kind: match orphans.kind {
                OrphanKind::NoParentRow => SLC_ORPHANS_NO_ROW,
                OrphanKind::NoParentTable => SLC_ORPHANS_NO_TABLE,
                OrphanKind::NotCompared => SLC_ORPHANS_NOT_COMPARED,
                OrphanKind::NoChildIndex => SLC_ORPHANS_NO_CHILD_INDEX,
            },
            name: slc_bytes::of(orphans.name.as_bytes()),
            rows: orphans.rows,
            count: keys.len() as u32,
            keys: keys.as_ptr(),
            images: images.as_ptr(),
        };
        unsafe { callback(self.0.ctx, &all) }
    }
    fn progress(&mut self, stage: u32, stages: u32, done: u64, total: u64) {
        if let Some(progress) = self.0.progress {
            unsafe { progress(self.0.ctx, stage, stages, done, total) }
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_check_entry(sink: *mut slc_check_sink<'_>, index: u32, key: slc_bytes, value: slc_bytes) {
    unsafe { ((*sink).0)(index, key.get(), value.get()) }
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_defragment(
    table: *mut slc_table,
    is_killed: slc_killed_cb,
    ctx: *mut c_void,
) -> slc_err {
    let table = unsafe { slc_table::of(table) };
    let watch = || match is_killed {
        Some(is_killed) if unsafe { is_killed(ctx) } != 0 => Err(Error::Interrupted),
        _ => Ok(()),
    };
    enter(&table.engine, || {
        check_writable(table.read_only)?;
        table.engine.store().defragment(&table.table, &watch)?;
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_check(trx: *mut slc_trx, table: *mut slc_table, how: *const slc_check) -> slc_err {
    let table = unsafe { slc_table::of(table) };
    let (engine, trx) = unsafe { slc_trx::of(trx) };
    let how = unsafe { &*how };
    let level = match how.level {
        SLC_CHECK_QUICK => CheckLevel::Quick,
        SLC_CHECK_MEDIUM => CheckLevel::Medium,
        _ => CheckLevel::Extended,
    };
    enter(engine, || {
        if engine
            .store()
            .check_table(trx, &table.table, level, &mut Callbacks(how))?
        {
            return Ok(());
        }
        Err(Error::corrupt(format!("table {} failed its check", table.table.name())))
    })
}

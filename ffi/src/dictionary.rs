//! Counters, mutexes, tables, indexes and files, one call of a callback each.
//!
//! # Safety
//! The contract of `lib.rs`. What a callback gets, and the texts in it, live through its call.
use super::abi::*;
use super::engine::{enter, slc_engine};
use sluice::base::counters::Kind;
use sluice::base::sync::contention;
use sluice::base::Error;
use sluice::engine::report::dictionary::{each_file, index_infos, table_infos, FileKind, IndexKind};
use sluice::engine::report::metrics::metrics;
use std::ffi::c_void;

fn text(text: &str) -> slc_bytes {
    slc_bytes::of(text.as_bytes())
}

fn known(value: Option<u64>) -> i64 {
    value.map_or(-1, |value| value as i64)
}

/// # Safety
/// `cb` may be called with `ctx`.
unsafe fn send<T>(cb: Option<unsafe extern "C" fn(*mut c_void, *const T)>, ctx: *mut c_void, row: &T) {
    if let Some(cb) = cb {
        // SAFETY: the caller's promise.
        unsafe { cb(ctx, row) }
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_metric_list(engine: *mut slc_engine, cb: slc_metric_cb, ctx: *mut c_void) -> slc_err {
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || {
        let (age_s, all) = metrics(engine);
        for metric in &all {
            let row = slc_metric {
                name: text(metric.name),
                subsystem: text(metric.subsystem),
                comment: text(&metric.comment),
                value: metric.value,
                per_second: metric.per_second.unwrap_or(0.0),
                kind: match metric.kind {
                    Kind::Total => SLC_METRIC_TOTAL,
                    Kind::Gauge => SLC_METRIC_GAUGE,
                    Kind::Maximum => SLC_METRIC_MAXIMUM,
                },
                elapsed_s: age_s as u64,
            };
            unsafe { send(cb, ctx, &row) };
        }
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_mutex_list(cb: slc_mutex_cb, ctx: *mut c_void) {
    for (rank, waits) in contention() {
        let name = format!("{rank:?}");
        let row = slc_mutex_info {
            name: text(&name),
            rank: rank as u32,
            waits,
        };
        unsafe { send(cb, ctx, &row) };
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_info_list(
    engine: *mut slc_engine,
    cb: slc_table_info_cb,
    ctx: *mut c_void,
) -> slc_err {
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || {
        for table in table_infos(engine) {
            let row = slc_table_info {
                id: table.id,
                name: text(&table.name),
                temporary: table.temporary as u8,
                indexes: table.indexes,
                handles: table.handles,
                rows: known(table.rows),
                autoinc: table.autoinc.unwrap_or(0),
                autoinc_known: table.autoinc.is_some() as u8,
                changes: table.changes,
                created: table.created_s as i64,
                broken: text(table.broken.as_deref().unwrap_or("")),
            };
            unsafe { send(cb, ctx, &row) };
        }
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_index_info_list(
    engine: *mut slc_engine,
    cb: slc_index_info_cb,
    ctx: *mut c_void,
) -> slc_err {
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || {
        for index in index_infos(engine) {
            let row = slc_index_info {
                id: index.id,
                table: index.table,
                name: text(&index.name),
                kind: match index.kind {
                    IndexKind::Plain => SLC_INDEX_OF_PLAIN,
                    IndexKind::ClusteredHidden => SLC_INDEX_OF_HIDDEN_KEY,
                    IndexKind::Unique => SLC_INDEX_OF_UNIQUE,
                    IndexKind::Clustered => SLC_INDEX_OF_PRIMARY_KEY,
                },
                parts: index.parts.map_or(-1, |parts| parts as i32),
                root: index.root,
                delta_root: known(index.delta_root.map(u64::from)),
                wide: index.wide as u8,
                quarantined: index.quarantined as u8,
            };
            unsafe { send(cb, ctx, &row) };
        }
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_file_info_list(
    engine: *mut slc_engine,
    cb: slc_file_info_cb,
    ctx: *mut c_void,
) -> slc_err {
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || {
        each_file(engine, &mut |file| {
            let row = slc_file_info {
                name: text(&file.name),
                owner: text(file.owner.as_deref().unwrap_or("")),
                kind: match file.kind {
                    FileKind::System => SLC_FILE_SYSTEM,
                    FileKind::Undo => SLC_FILE_UNDO,
                    FileKind::Table => SLC_FILE_TABLE,
                    FileKind::Temporary => SLC_FILE_TEMPORARY,
                    FileKind::RedoLog => SLC_FILE_REDO_LOG,
                    FileKind::Doublewrite => SLC_FILE_DOUBLEWRITE,
                    FileKind::Unnamed => SLC_FILE_UNNAMED,
                },
                id: known(file.id.map(u64::from)),
                bytes: file.size.bytes,
                allocated: file.size.allocated,
                pages: known(file.usage.map(|usage| usage.pages as u64)),
                pages_used: known(file.usage.map(|usage| usage.used as u64)),
            };
            match cb {
                Some(cb) if unsafe { cb(ctx, &row) } != 0 => Err(Error::Interrupted),
                _ => Ok(()),
            }
        })
    })
}

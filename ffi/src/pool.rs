//! The buffer pool: its size, its page list, its statistics.
//!
//! # Safety
//! The contract of `lib.rs`. `is_killed` is called by the thread that resizes, during that call.
use super::abi::*;
use super::engine::{enter, enter_value, name, slc_engine};
use sluice::base::Error;
use sluice::engine::PoolControl;
use std::ffi::{c_char, c_void};

#[no_mangle]
pub unsafe extern "C" fn slc_pool_resize(
    engine: *mut slc_engine,
    bytes: u64,
    is_killed: slc_killed_cb,
    ctx: *mut c_void,
) -> slc_err {
    let engine = unsafe { slc_engine::of(engine) };
    let watch = || match is_killed {
        Some(is_killed) if unsafe { is_killed(ctx) } != 0 => Err(Error::Interrupted),
        _ => Ok(()),
    };
    enter(engine, || PoolControl(engine).resize(bytes, &watch))
}

#[no_mangle]
pub unsafe extern "C" fn slc_page_list_dump(
    engine: *mut slc_engine,
    file: *const c_char,
    percent: u32,
    at_close: u8,
) -> slc_err {
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || {
        PoolControl(engine).dump(unsafe { name(file)? }, percent, at_close != 0)
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_page_list_load(engine: *mut slc_engine, file: *const c_char, if_there: u8) -> slc_err {
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || {
        PoolControl(engine).request_load(unsafe { name(file)? }, if_there != 0)
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_page_list_abort(engine: *mut slc_engine) {
    let engine = unsafe { slc_engine::of(engine) };
    enter_value(engine, (), || PoolControl(engine).abort_load());
}

#[no_mangle]
pub unsafe extern "C" fn slc_pool_status_text(engine: *mut slc_engine, which: u32, cb: slc_text_cb, ctx: *mut c_void) {
    let engine = unsafe { slc_engine::of(engine) };
    let texts = enter_value(engine, Default::default(), || PoolControl(engine).status_texts());
    if let (Some(cb), Some(text)) = (cb, texts.get(which as usize)) {
        unsafe { cb(ctx, text.as_ptr().cast(), text.len()) };
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_pool_stats_get(engine: *mut slc_engine, out: *mut slc_pool_stats) {
    let engine = unsafe { slc_engine::of(engine) };
    let stats = enter_value(engine, Default::default(), || PoolControl(engine).stats());
    let (totals, since) = (stats.totals, stats.since);
    let stats = slc_pool_stats {
        pages: stats.pages,
        free: stats.free,
        resident: stats.heat.pages,
        cold: stats.heat.cold,
        dirty: stats.dirty,
        in_flight: stats.heat.in_flight,
        read: totals.read,
        read_ahead: totals.read_ahead,
        created: totals.created,
        written: totals.written,
        evicted: totals.evicted,
        requested: totals.requested,
        hits_per_thousand: stats.hits_per_thousand(),
        read_rate: stats.rate(since.read),
        read_ahead_rate: stats.rate(since.read_ahead),
        created_rate: stats.rate(since.created),
        written_rate: stats.rate(since.written),
        evicted_rate: stats.rate(since.evicted),
    };
    unsafe { *out = stats };
}

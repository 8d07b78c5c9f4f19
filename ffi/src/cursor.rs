//! Cursors: scans and point reads. An entry that is handed out points into the cursor's buffers
//! until the cursor's next call.
//!
//! # Safety
//! The contract of `lib.rs`. A cursor handle is a `Box` from `slc_cursor_new`, which
//! `slc_cursor_free` takes back; one thread at a time uses it. `slc_cursor_begin` and
//! `slc_cursor_go_on` keep the transaction's handle for the steps of the scan. The caller calls
//! `slc_cursor_reset` before it frees that transaction. The function and the context of
//! `slc_cursor_follow_moved` live until the scan's next `begin` or `reset`, and only the cursor's
//! thread calls the function.
use super::abi::*;
use super::engine::{enter_code, enter_value};
use super::error::code;
use super::table::slc_table;
use super::trx::slc_trx;
use sluice::base::bytes::prefix_successor;
use sluice::base::{Error, Result};
use sluice::btree::Seek;
use sluice::engine::Engine;
use sluice::index::scan::Direction;
use sluice::table::{Cursor, Found, KeyOf, LockChoice, OnLocked};
use sluice::txn::{LockMode, Trx};
use std::borrow::Cow;
use std::ffi::c_void;
use std::sync::Arc;

/// What `slc_cursor *` points to.
pub struct slc_cursor {
    engine: Arc<Engine>,
    cursor: Cursor,
    /// The transaction of the scan in progress; null when there is none. A cursor serves one
    /// connection after the other, so `slc_cursor_reset` forgets the transaction.
    trx: *mut slc_trx,
}

impl slc_cursor {
    /// The cursor, and the transaction of its scan in progress. Error: the code of `Unsupported`,
    /// if there is no scan.
    unsafe fn of_scan<'a>(cursor: *mut slc_cursor) -> std::result::Result<(&'a mut slc_cursor, &'a mut Trx), slc_err> {
        let handle = unsafe { &mut *cursor };
        if handle.trx.is_null() {
            return Err(code(&Error::Unsupported("a step of a scan that was not begun".into())));
        }
        let (_, trx) = unsafe { slc_trx::of(handle.trx) };
        Ok((handle, trx))
    }
}

fn lock_choice(lock: u32, policy: u32) -> LockChoice {
    let gaps = lock & SLC_LOCK_GAPS != 0;
    let lock = lock & !SLC_LOCK_GAPS;
    LockChoice {
        mode: match lock {
            SLC_LOCK_NONE | SLC_LOCK_NONE_STATEMENT_VIEW | SLC_LOCK_NONE_NEWEST => None,
            SLC_LOCK_SHARED => Some(LockMode::Shared),
            _ => Some(LockMode::Exclusive),
        },
        on_locked: match policy {
            SLC_NOWAIT => OnLocked::Refuse,
            SLC_SKIP_LOCKED => OnLocked::Skip,
            _ => OnLocked::Wait,
        },
        by_statement_view: lock == SLC_LOCK_NONE_STATEMENT_VIEW,
        newest: lock == SLC_LOCK_NONE_NEWEST,
        gaps,
    }
}

/// The result of a step: an entry is written to `out`; `none` is the code if there is none.
unsafe fn hand_out(cursor: &Cursor, step: Result<bool>, none: slc_err, out: *mut slc_found) -> slc_err {
    match step {
        Err(e) => code(&cursor.name_damage(e)),
        Ok(false) => none,
        Ok(true) => {
            let Some(found) = cursor.found() else { return none };
            unsafe { *out = abi_of(&found) };
            SLC_OK
        }
    }
}

fn abi_of(found: &Found<'_>) -> slc_found {
    slc_found {
        flags: if found.covering { SLC_ENTRY_COVERING } else { 0 },
        key: slc_bytes::of(found.key),
        pk: slc_bytes::of(found.pk),
        row: slc_bytes::of(found.row),
    }
}

/// A step of the scan in progress.
unsafe fn step(
    cursor: *mut slc_cursor,
    out: *mut slc_found,
    body: impl FnOnce(&mut Cursor, &mut Trx) -> Result<bool>,
) -> slc_err {
    let (handle, trx) = match unsafe { slc_cursor::of_scan(cursor) } {
        Ok(both) => both,
        Err(error) => return error,
    };
    enter_code(&handle.engine, || {
        let result = body(&mut handle.cursor, trx);
        unsafe { hand_out(&handle.cursor, result, SLC_END, out) }
    })
}

/// A step to the next entry in `direction`. Most steps find it in the batch that was read before.
unsafe fn go(cursor: *mut slc_cursor, out: *mut slc_found, direction: Direction) -> slc_err {
    let (handle, trx) = match unsafe { slc_cursor::of_scan(cursor) } {
        Ok(both) => both,
        Err(error) => return error,
    };
    enter_code(&handle.engine, || {
        if let Some(found) = handle.cursor.take_at_hand(trx, direction) {
            unsafe { *out = abi_of(&found) };
            return SLC_OK;
        }
        let result = match direction {
            Direction::Forward => handle.cursor.next(trx),
            Direction::Backward => handle.cursor.prev(trx),
        };
        unsafe { hand_out(&handle.cursor, result, SLC_END, out) }
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_cursor_new(table: *mut slc_table) -> *mut slc_cursor {
    let table = unsafe { slc_table::of(table) };
    let engine = &table.engine;
    enter_value(engine, std::ptr::null_mut(), || {
        Box::into_raw(Box::new(slc_cursor {
            engine: engine.clone(),
            cursor: engine.store().cursor(table.table.clone()),
            trx: std::ptr::null_mut(),
        }))
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_cursor_free(cursor: *mut slc_cursor) {
    // SAFETY: the caller gives the pointer up.
    let handle = unsafe { Box::from_raw(cursor) };
    let engine = handle.engine.clone();
    enter_value(&engine, (), || drop(handle));
}

#[no_mangle]
pub unsafe extern "C" fn slc_cursor_begin(
    cursor: *mut slc_cursor,
    trx: *mut slc_trx,
    index: u32,
    lock: u32,
    policy: u32,
    covering: i32,
) -> slc_err {
    let handle = unsafe { &mut *cursor };
    handle.trx = trx;
    let (engine, trx) = unsafe { slc_trx::of(trx) };
    super::engine::enter(engine, || {
        handle
            .cursor
            .begin(trx, index, lock_choice(lock, policy), covering != 0)
    })
}

/// The caller's function that computes the key of a row, and its context.
struct KeyFunction(slc_key_of, *mut c_void);
// SAFETY: only the thread that moves the cursor calls it.
unsafe impl Send for KeyFunction {}

impl KeyFunction {
    fn key_of(&self, pk: &[u8], row: &[u8], to: &mut Vec<u8>) -> Result<()> {
        let key = unsafe { (self.0)(self.1, slc_bytes::of(pk), slc_bytes::of(row)) };
        if key.ptr.is_null() {
            return Err(Error::corrupt("a row's key in an index cannot be computed"));
        }
        to.extend_from_slice(unsafe { key.get() });
        Ok(())
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_cursor_follow_moved(cursor: *mut slc_cursor, key_of: slc_key_of, ctx: *mut c_void) {
    let (handle, trx) = match unsafe { slc_cursor::of_scan(cursor) } {
        Ok(both) => both,
        Err(_) => return,
    };
    let function = KeyFunction(key_of, ctx);
    let key_of: KeyOf = Box::new(move |pk, row, to| function.key_of(pk, row, to));
    enter_value(&handle.engine, (), || handle.cursor.follow_moved(trx, key_of));
}

#[no_mangle]
pub unsafe extern "C" fn slc_cursor_go_on(
    cursor: *mut slc_cursor,
    trx: *mut slc_trx,
    lock: u32,
    policy: u32,
) -> slc_err {
    let handle = unsafe { &mut *cursor };
    handle.trx = trx;
    let (engine, trx) = unsafe { slc_trx::of(trx) };
    super::engine::enter(engine, || handle.cursor.go_on_with(trx, lock_choice(lock, policy)))
}

#[no_mangle]
pub unsafe extern "C" fn slc_cursor_bounds(cursor: *mut slc_cursor, lo: slc_bytes, hi: slc_bound) -> slc_err {
    let handle = unsafe { &mut *cursor };
    enter_code(&handle.engine, || {
        let (lo, key) = unsafe { (lo.get(), hi.key.get()) };
        match hi.after {
            0 => handle.cursor.set_bounds(lo, (!key.is_empty()).then_some(key)),
            _ => handle.cursor.set_bounds_to_prefix(lo, key),
        }
        SLC_OK
    })
}

/// Where a seek goes, and its key. None: there is no such place, and the scan is at its end.
fn target(seek: u32, key: &[u8]) -> Option<(Seek, Cow<'_, [u8]>)> {
    let by = |seek| Some((seek, Cow::Borrowed(key)));
    match seek {
        SLC_SEEK_FIRST => by(Seek::First),
        SLC_SEEK_LAST => by(Seek::Last),
        SLC_SEEK_GE => by(Seek::Ge),
        SLC_SEEK_GT => by(Seek::Gt),
        SLC_SEEK_LE => by(Seek::Le),
        SLC_SEEK_LT => by(Seek::Lt),
        SLC_SEEK_AFTER_PREFIX => prefix_successor(key).map(|end| (Seek::Ge, end.into())),
        _ => Some(prefix_successor(key).map_or((Seek::Last, [][..].into()), |end| (Seek::Lt, end.into()))),
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_cursor_seek(
    cursor: *mut slc_cursor,
    seek: u32,
    key: slc_bytes,
    out: *mut slc_found,
) -> slc_err {
    let target = target(seek, unsafe { key.get() });
    let go_to = |cursor: &mut Cursor, trx: &mut Trx| match target {
        Some((seek, key)) => cursor.seek(trx, seek, &key),
        None => Ok(false),
    };
    unsafe { step(cursor, out, go_to) }
}

#[no_mangle]
pub unsafe extern "C" fn slc_cursor_next(cursor: *mut slc_cursor, out: *mut slc_found) -> slc_err {
    unsafe { go(cursor, out, Direction::Forward) }
}

#[no_mangle]
pub unsafe extern "C" fn slc_cursor_prev(cursor: *mut slc_cursor, out: *mut slc_found) -> slc_err {
    unsafe { go(cursor, out, Direction::Backward) }
}

#[no_mangle]
pub unsafe extern "C" fn slc_cursor_expect(cursor: *mut slc_cursor, rows: u64) {
    unsafe { &mut (*cursor).cursor }.expect(rows);
}

#[no_mangle]
pub unsafe extern "C" fn slc_row_get(
    cursor: *mut slc_cursor,
    trx: *mut slc_trx,
    pk: slc_bytes,
    lock: u32,
    policy: u32,
    out: *mut slc_found,
) -> slc_err {
    let handle = unsafe { &mut *cursor };
    let (engine, trx) = unsafe { slc_trx::of(trx) };
    enter_code(engine, || unsafe {
        let result = handle.cursor.get(trx, pk.get(), lock_choice(lock, policy));
        hand_out(&handle.cursor, result, SLC_NOT_FOUND, out)
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_cursor_unlock_row(cursor: *mut slc_cursor, trx: *mut slc_trx) {
    let handle = unsafe { &mut *cursor };
    let (engine, trx) = unsafe { slc_trx::of(trx) };
    enter_value(engine, (), || handle.cursor.unlock_row(trx));
}

#[no_mangle]
pub unsafe extern "C" fn slc_cursor_semi_consistent(cursor: *mut slc_cursor, on: i32) {
    unsafe { &mut (*cursor).cursor }.set_semi_consistent(on != 0);
}

#[no_mangle]
pub unsafe extern "C" fn slc_cursor_was_semi_consistent(cursor: *mut slc_cursor) -> i32 {
    unsafe { &(*cursor).cursor }.was_semi_consistent() as i32
}

#[no_mangle]
pub unsafe extern "C" fn slc_cursor_reset(cursor: *mut slc_cursor) {
    let handle = unsafe { &mut *cursor };
    handle.trx = std::ptr::null_mut();
    enter_value(&handle.engine, (), || handle.cursor.reset());
}

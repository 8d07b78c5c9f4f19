//! The last error of each thread, and the guard that no panic passes.
//!
//! # Safety
//! The contract of `lib.rs`. `slc_error_text` gets a null pointer, or `size` writable bytes. What
//! `slc_duplicate_pk` points to lives until the thread's next error.
use super::abi::*;
use sluice::base::{Error, ForeignFault, ForeignFlaw, Result};
use std::cell::RefCell;
use std::ffi::c_char;
use std::panic::{catch_unwind, AssertUnwindSafe};

#[derive(Default)]
struct LastError {
    text: String,
    duplicate_index: u32,
    duplicate_pk: Vec<u8>,
    foreign: ForeignFault,
}

thread_local! {
    static LAST: RefCell<LastError> = RefCell::default();
}

/// The code of an error; its text is kept for `slc_error_text`.
pub fn code(error: &Error) -> slc_err {
    LAST.with(|last| {
        let mut last = last.borrow_mut();
        use std::fmt::Write;
        last.text.clear();
        let _ = write!(last.text, "{error}");
        if let Error::Duplicate { index, pk } = error {
            last.duplicate_index = *index;
            last.duplicate_pk.clone_from(pk);
        }
        if let Some(fault) = error.foreign_fault() {
            last.foreign.clone_from(fault);
            if matches!(error, Error::ForeignDuplicate(_)) {
                last.duplicate_index = fault.index;
            }
        }
        match error {
            Error::ForeignDefinition(refusal) => last.foreign.constraint.clone_from(&refusal.constraint),
            Error::ForeignNameTaken(name) => last.foreign.constraint.clone_from(name),
            _ => {}
        }
    });
    match error {
        Error::Duplicate { .. } => SLC_DUPLICATE,
        Error::NotFound => SLC_NOT_FOUND,
        Error::LockWaitTimeout => SLC_LOCK_WAIT_TIMEOUT,
        Error::Deadlock => SLC_DEADLOCK,
        Error::Interrupted => SLC_INTERRUPTED,
        Error::Locked => SLC_LOCKED,
        Error::Conflict => SLC_CONFLICT,
        Error::Full(_) => SLC_FULL,
        Error::Corrupt(_) => SLC_CORRUPT,
        Error::Io(_) | Error::TooManyFiles(_) => SLC_IO,
        Error::Poisoned(_) | Error::Closed => SLC_POISONED,
        Error::InUse(_) => SLC_IO,
        Error::Unsupported(_) | Error::Invalid(_) => SLC_UNSUPPORTED,
        Error::Exists(_) => SLC_EXISTS,
        Error::NoSuchTable(_) => SLC_NO_TABLE,
        Error::TooBig(_) => SLC_TOO_BIG,
        Error::ReadOnly(_) => SLC_READ_ONLY,
        Error::TableChanged => SLC_TABLE_CHANGED,
        Error::NoReferencedRow(_) => SLC_NO_REFERENCED_ROW,
        Error::RowIsReferenced(_) => SLC_ROW_IS_REFERENCED,
        Error::ForeignDuplicate(_) => SLC_FOREIGN_DUPLICATE,
        Error::ForeignNeedsIndex(_) => SLC_FOREIGN_NEEDS_INDEX,
        Error::TableIsReferenced(_) => SLC_TABLE_IS_REFERENCED,
        Error::ForeignDepth(..) => SLC_FOREIGN_DEPTH,
        Error::ForeignDefinition(refusal) => match refusal.flaw {
            ForeignFlaw::NoParentIndex => SLC_FOREIGN_NO_PARENT_INDEX,
            ForeignFlaw::NotNull => SLC_FOREIGN_NOT_NULL,
            ForeignFlaw::Other => SLC_FOREIGN_DEFINITION,
        },
        Error::ForeignUnfit(_) => SLC_FOREIGN_UNFIT,
        Error::ForeignNameTaken(_) => SLC_FOREIGN_NAME_TAKEN,
        Error::RowNotMade => SLC_ROW_NOT_MADE,
        Error::OnlineAlterFull(_) => SLC_ONLINE_ALTER_FULL,
    }
}

pub fn code_of<T>(result: Result<T>) -> slc_err {
    match result {
        Ok(_) => SLC_OK,
        Err(e) => code(&e),
    }
}

/// Runs `body`. A panic in it ends here: `on_panic`, which poisons the engine, gets its text, and
/// `fallback` is returned.
pub fn guard<T>(on_panic: impl FnOnce(&str), fallback: T, body: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(v) => v,
        Err(panic) => {
            let why = panic_text(panic.as_ref());
            let _ = catch_unwind(AssertUnwindSafe(|| on_panic(&why)));
            code(&Error::Poisoned(why));
            fallback
        }
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("a bug was caught: {}", text.unwrap_or("(no text)"))
}

#[no_mangle]
pub unsafe extern "C" fn slc_error_text(buf: *mut c_char, size: usize) -> usize {
    LAST.with(|last| {
        let last = last.borrow();
        if buf.is_null() || size == 0 {
            return last.text.len();
        }
        let n = last.text.len().min(size - 1);
        unsafe {
            std::ptr::copy_nonoverlapping(last.text.as_ptr(), buf.cast(), n);
            *buf.add(n) = 0;
        }
        n
    })
}

#[no_mangle]
pub extern "C" fn slc_duplicate_index() -> u32 {
    LAST.with(|last| last.borrow().duplicate_index)
}

/// Valid until this thread's next error.
#[no_mangle]
pub extern "C" fn slc_duplicate_pk() -> slc_bytes {
    LAST.with(|last| slc_bytes::of(&last.borrow().duplicate_pk))
}

/// Valid until this thread's next error.
#[no_mangle]
pub extern "C" fn slc_foreign_child() -> slc_bytes {
    LAST.with(|last| slc_bytes::of(last.borrow().foreign.child.as_bytes()))
}

/// Valid until this thread's next error.
#[no_mangle]
pub extern "C" fn slc_foreign_name() -> slc_bytes {
    LAST.with(|last| slc_bytes::of(last.borrow().foreign.constraint.as_bytes()))
}

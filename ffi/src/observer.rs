//! The observer of the engine's waits, files, threads and stages: the plugin's callbacks.
//!
//! # Safety
//! The contract of `lib.rs`. A callback that gets `run` and `arg` calls `run(arg)` exactly once,
//! before it returns. A panic in between does not unwind through the plugin: it goes on after the
//! callback.
use super::abi::*;
use sluice::base::observer::{observe, FileCall, FilePart, Memory, Observer, Stage};
use std::any::Any;
use std::ffi::{c_char, c_int, c_void, CString};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

/// As in the header. A null pointer: the call is not observed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct slc_observer {
    pub mutex_wait: Option<unsafe extern "C" fn(rank: u32, run: slc_run, arg: *mut c_void)>,
    pub file_open:
        Option<unsafe extern "C" fn(path: *const c_char, creates: c_int, open: slc_open_run, arg: *mut c_void)>,
    pub file_call: Option<
        unsafe extern "C" fn(call: u32, parts: *const slc_file_part, count: u32, run: slc_run, arg: *mut c_void),
    >,
    pub file_close: Option<unsafe extern "C" fn(fd: c_int)>,
    pub file_removed: Option<unsafe extern "C" fn(path: *const c_char)>,
    pub thread: Option<unsafe extern "C" fn(name: slc_bytes, run: slc_run, arg: *mut c_void)>,
    pub progress: Option<unsafe extern "C" fn(stage: u32, done: u64, total: u64)>,
    pub memory: Option<unsafe extern "C" fn(what: u32, bytes: i64)>,
}

/// A closure, and the panic that it ended with.
struct Body<'a> {
    body: &'a mut dyn FnMut(),
    panic: Option<Box<dyn Any + Send>>,
}

unsafe extern "C" fn run_body(arg: *mut c_void) {
    // SAFETY: `through` passes a body that lives through the call.
    let body = unsafe { &mut *arg.cast::<Body<'_>>() };
    body.panic = catch_unwind(AssertUnwindSafe(|| (body.body)())).err();
}

/// `around` gets the closure in the plugin's form.
fn through(body: &mut dyn FnMut(), around: impl FnOnce(slc_run, *mut c_void)) {
    let mut body = Body { body, panic: None };
    around(Some(run_body), std::ptr::from_mut(&mut body).cast());
    if let Some(panic) = body.panic {
        resume_unwind(panic);
    }
}

/// As `Body`.
struct Open<'a> {
    open: &'a mut dyn FnMut() -> Option<i32>,
    panic: Option<Box<dyn Any + Send>>,
}

unsafe extern "C" fn run_open(arg: *mut c_void) -> c_int {
    // SAFETY: as in `run_body`.
    let open = unsafe { &mut *arg.cast::<Open<'_>>() };
    match catch_unwind(AssertUnwindSafe(|| (open.open)())) {
        Ok(fd) => fd.unwrap_or(-1),
        Err(panic) => {
            open.panic = Some(panic);
            -1
        }
    }
}

fn call_number(call: FileCall) -> u32 {
    match call {
        FileCall::Read => SLC_FILE_READ,
        FileCall::Write => SLC_FILE_WRITE,
        FileCall::Sync => SLC_FILE_SYNC,
        FileCall::ChangeSize => SLC_FILE_CHANGE_SIZE,
    }
}

fn stage_number(stage: Stage) -> u32 {
    match stage {
        Stage::Drain => SLC_STAGE_DRAIN,
        Stage::RollbackAtStart => SLC_STAGE_ROLLBACK_AT_START,
    }
}

fn memory_number(what: Memory) -> u32 {
    match what {
        Memory::BufferPool => SLC_MEMORY_BUFFER_POOL,
    }
}

impl Observer for slc_observer {
    fn mutex_wait(&self, rank: u8, wait: &mut dyn FnMut()) {
        match self.mutex_wait {
            Some(cb) => through(wait, |run, arg| unsafe { cb(rank as u32, run, arg) }),
            None => wait(),
        }
    }
    fn file_open(&self, path: &str, creates: bool, open: &mut dyn FnMut() -> Option<i32>) {
        let (Some(cb), Ok(path)) = (self.file_open, CString::new(path)) else {
            open();
            return;
        };
        let mut open = Open { open, panic: None };
        unsafe {
            cb(
                path.as_ptr(),
                creates as c_int,
                Some(run_open),
                std::ptr::from_mut(&mut open).cast(),
            )
        };
        if let Some(panic) = open.panic {
            resume_unwind(panic);
        }
    }
    fn file_call(&self, call: FileCall, parts: &[FilePart], body: &mut dyn FnMut()) {
        let Some(cb) = self.file_call else { return body() };
        let parts: Vec<slc_file_part> = parts
            .iter()
            .map(|part| slc_file_part {
                fd: part.fd,
                bytes: part.bytes as u64,
            })
            .collect();
        through(body, |run, arg| unsafe {
            cb(call_number(call), parts.as_ptr(), parts.len() as u32, run, arg)
        })
    }
    fn file_close(&self, fd: i32) {
        if let Some(cb) = self.file_close {
            unsafe { cb(fd) }
        }
    }
    fn file_removed(&self, path: &str) {
        if let (Some(cb), Ok(path)) = (self.file_removed, CString::new(path)) {
            unsafe { cb(path.as_ptr()) }
        }
    }
    fn thread(&self, name: &str, body: &mut dyn FnMut()) {
        match self.thread {
            Some(cb) => through(body, |run, arg| unsafe { cb(slc_bytes::of(name.as_bytes()), run, arg) }),
            None => body(),
        }
    }
    fn progress(&self, stage: Stage, done: u64, total: u64) {
        if let Some(cb) = self.progress {
            unsafe { cb(stage_number(stage), done, total) }
        }
    }
    fn memory(&self, what: Memory, bytes: i64) {
        if let Some(cb) = self.memory {
            unsafe { cb(memory_number(what), bytes) }
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_observe(observer: *const slc_observer) {
    observe(Box::new(unsafe { *observer }));
}

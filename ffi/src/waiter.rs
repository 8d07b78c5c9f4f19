//! How a connection waits: [`Waiter`] by the functions of the plugin.
//!
//! The functions take the connection as a plain pointer. The thread of another connection wakes it,
//! or is about to wait for it, and must find it alive. `used_by_others` keeps the connection from
//! being freed during such a call.
//!
//! - The lock is taken by recursive reads, since a call about a connection may end in another call
//!   about the same one. Example: a replica's worker is killed because of its wait. The inner call
//!   must not queue after the connection that waits to leave.
//! - A connection that leaves holds no mutex that these functions take, and the functions never
//!   wait for a connection to leave. So there is no deadlock.
//! - A connection's own thread takes no lock: it neither waits nor scans while it ends itself.
//!
//! # Safety
//! The contract of `lib.rs`. `ctx` is a connection of the plugin, alive until
//! [`CallbackWaiter::leave`] has returned. Until then any thread may call `wake`, and
//! `about_to_wait` with it as second argument. The other functions are called by the connection's
//! own thread. A context read under `used_by_others` stays alive until the lock is released.
use super::abi::*;
use parking_lot::RwLock;
use sluice::txn::{WaitOutcome, Waiter};
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Bytes of a waiting statement that the account of a deadlock shows.
const STATEMENT_BYTES_MAX: usize = 1024;

/// The plugin's waiter. A prepared transaction may keep it longer than its connection lives.
pub struct CallbackWaiter {
    calls: slc_waiter,
    /// The connection; null once it has left.
    ctx: AtomicPtr<c_void>,
    /// Held shared while another thread calls a function with the connection, exclusively while the
    /// connection leaves.
    used_by_others: RwLock<()>,
}
// SAFETY: the header's contract of `slc_waiter`.
unsafe impl Send for CallbackWaiter {}
// SAFETY: as above.
unsafe impl Sync for CallbackWaiter {}

impl CallbackWaiter {
    pub fn new(calls: slc_waiter) -> CallbackWaiter {
        CallbackWaiter {
            calls,
            ctx: AtomicPtr::new(calls.ctx),
            used_by_others: RwLock::new(()),
        }
    }
    /// The connection leaves: after this returns no thread uses it any more.
    pub fn leave(&self) {
        let _alone = self.used_by_others.write();
        self.ctx.store(std::ptr::null_mut(), Ordering::Release);
    }
    fn ctx(&self) -> Option<*mut c_void> {
        let ctx = self.ctx.load(Ordering::Acquire);
        (!ctx.is_null()).then_some(ctx)
    }
}

impl Waiter for CallbackWaiter {
    fn wait(&self, flag: &AtomicU32, timeout_us: u64) -> WaitOutcome {
        let (Some(wait), Some(ctx)) = (self.calls.wait, self.ctx()) else {
            return WaitOutcome::Killed;
        };
        match unsafe { wait(ctx, flag.as_ptr(), timeout_us) } {
            SLC_WAIT_WOKEN => WaitOutcome::Woken,
            SLC_WAIT_TIMEOUT => WaitOutcome::Timeout,
            _ => WaitOutcome::Killed,
        }
    }
    fn wake(&self) {
        // The connection may have left `wait` by itself, and be about to leave.
        let _stays = self.used_by_others.read_recursive();
        if let (Some(wake), Some(ctx)) = (self.calls.wake, self.ctx()) {
            unsafe { wake(ctx) }
        }
    }
    fn killed(&self) -> bool {
        match (self.calls.killed, self.ctx()) {
            (Some(killed), Some(ctx)) => unsafe { killed(ctx) != 0 },
            _ => false,
        }
    }
    fn progress(&self, done: u64, all: u64) {
        if let (Some(progress), Some(ctx)) = (self.calls.progress, self.ctx()) {
            unsafe { progress(ctx, done, all) }
        }
    }
    fn about_to_wait(&self, holder: &dyn Waiter) -> bool {
        let (Some(about), Some(ctx)) = (self.calls.about_to_wait, self.ctx()) else {
            return true;
        };
        let mut goes_on = true;
        holder.with_context(&mut |holder| {
            if holder != 0 {
                goes_on = unsafe { about(ctx, holder as *mut c_void) == 0 };
            }
        });
        goes_on
    }
    fn statement(&self, to: &mut String) {
        to.clear();
        let (Some(statement), Some(ctx)) = (self.calls.statement, self.ctx()) else {
            return;
        };
        let mut text = vec![0u8; STATEMENT_BYTES_MAX];
        let written = unsafe { statement(ctx, text.as_mut_ptr().cast(), text.len()) };
        to.push_str(&String::from_utf8_lossy(&text[..written.min(text.len())]));
    }
    fn context(&self) -> usize {
        self.ctx.load(Ordering::Acquire) as usize
    }
    fn with_context(&self, call: &mut dyn FnMut(usize)) {
        let _stays = self.used_by_others.read_recursive();
        call(self.context());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::c_int;
    use std::sync::atomic::AtomicBool;
    use std::sync::Arc;
    use std::time::Duration;

    /// A connection of the plugin.
    #[derive(Default)]
    struct Connection {
        entered: AtomicBool,
        gone: AtomicBool,
        gone_in_call: AtomicBool,
    }

    impl Connection {
        /// A slow call of another thread: records whether the connection was freed during it.
        fn used(&self) {
            self.entered.store(true, Ordering::Release);
            std::thread::sleep(Duration::from_millis(100));
            let gone = self.gone.load(Ordering::Acquire);
            self.gone_in_call.store(gone, Ordering::Release);
        }
    }

    unsafe extern "C" fn wake(ctx: *mut c_void) {
        // SAFETY: a `Connection` of the test, which outlives its threads.
        unsafe { &*ctx.cast::<Connection>() }.used();
    }
    unsafe extern "C" fn about_to_wait(_: *mut c_void, holder: *mut c_void) -> c_int {
        // SAFETY: as above.
        unsafe { &*holder.cast::<Connection>() }.used();
        0
    }

    fn waiter(connection: &Connection) -> Arc<CallbackWaiter> {
        Arc::new(CallbackWaiter::new(slc_waiter {
            ctx: (connection as *const Connection).cast_mut().cast(),
            wait: None,
            wake: Some(wake),
            killed: None,
            about_to_wait: Some(about_to_wait),
            statement: None,
            progress: None,
        }))
    }

    /// The holder of a lock commits and disconnects while another thread runs `call` about it.
    fn goes_under(call: impl FnOnce(&CallbackWaiter) + Send) {
        let holder = Connection::default();
        let waiter = waiter(&holder);
        std::thread::scope(|scope| {
            let theirs = waiter.clone();
            scope.spawn(move || call(&theirs));
            while !holder.entered.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            waiter.leave();
            holder.gone.store(true, Ordering::Release);
        });
        assert!(!holder.gone_in_call.load(Ordering::Acquire), "freed during a call");
        // A later call does not reach the connection.
        holder.entered.store(false, Ordering::Release);
        waiter.wake();
        assert!(!holder.entered.load(Ordering::Acquire));
    }

    #[test]
    fn a_connection_stays_while_another_is_about_to_wait_for_it() {
        let mine = Connection::default();
        let me = waiter(&mine);
        goes_under(|holder| assert!(me.about_to_wait(holder)));
    }

    #[test]
    fn a_connection_stays_while_another_wakes_it() {
        goes_under(|waiter| waiter.wake());
    }
}

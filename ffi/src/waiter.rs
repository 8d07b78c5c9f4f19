//! A connection's way to wait, by the shim's functions.
//!
//! They take the connection as a plain pointer, and who wakes it, or is about to wait for it, is another connection's thread: nothing but
//! `used_by_others` keeps it from going meanwhile. A recursive read, for a call about a connection may end in another one about it
//! (a replica's worker is killed because of its wait), and must not queue behind the connection that waits to go. Whoever goes holds no
//! mutex that these functions take, and they never wait for a connection to go. Only waits pay for the lock.
use super::abi::*;
use parking_lot::RwLock;
use sluice::txn::{WaitOutcome, Waiter};
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Of a statement that waits, for the account of a deadlock.
const STATEMENT_BYTES_MAX: usize = 1024;

/// The shim's waiter. Its functions may be called from any thread while the connection lives; a prepared transaction
/// may outlive it.
pub struct CallbackWaiter {
    calls: slc_waiter,
    /// The connection; null once it is gone.
    ctx: AtomicPtr<c_void>,
    /// Shared: another thread has a call with the connection under way. Exclusive: the connection goes. Its own thread needs none of
    /// this: it does not wait, or scan, while it ends itself.
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
    /// The connection goes: on return nobody uses it, and nobody will.
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
        // SAFETY: the flag outlives the call; the callback only reads it.
        match unsafe { wait(ctx, flag.as_ptr(), timeout_us) } {
            SLC_WAIT_WOKEN => WaitOutcome::Woken,
            SLC_WAIT_TIMEOUT => WaitOutcome::Timeout,
            _ => WaitOutcome::Killed,
        }
    }
    fn wake(&self) {
        // It may have left `wait` by itself, and be about to go.
        let _stays = self.used_by_others.read_recursive();
        if let (Some(wake), Some(ctx)) = (self.calls.wake, self.ctx()) {
            // SAFETY: the connection lives, and stays until the lock is released.
            unsafe { wake(ctx) }
        }
    }
    fn killed(&self) -> bool {
        match (self.calls.killed, self.ctx()) {
            // SAFETY: called on behalf of the connection.
            (Some(killed), Some(ctx)) => unsafe { killed(ctx) != 0 },
            _ => false,
        }
    }
    fn about_to_wait(&self, holder: &dyn Waiter) -> bool {
        let (Some(about), Some(ctx)) = (self.calls.about_to_wait, self.ctx()) else {
            return true;
        };
        let mut goes_on = true;
        holder.with_context(&mut |holder| {
            if holder != 0 {
                // SAFETY: the holder's context is a connection of the same shim, and stays until this returns.
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
        // SAFETY: the callback writes at most `size` bytes.
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

    /// A connection of the shim.
    #[derive(Default)]
    struct Connection {
        entered: AtomicBool,
        gone: AtomicBool,
        gone_in_call: AtomicBool,
    }

    impl Connection {
        /// Another thread's call takes its time; was the connection freed under it?
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
        }))
    }

    /// The holder of a lock commits and disconnects while `call` is under way in a thread that has just been told of it.
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
        assert!(!holder.gone_in_call.load(Ordering::Acquire), "freed while it was used");
        // Who comes later meets nobody.
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

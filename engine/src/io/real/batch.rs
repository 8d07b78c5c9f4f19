//! Batches of reads or writes with many requests in flight: io_uring, or a few threads.
//!
//! Threads serve where the kernel refuses io_uring; a batch goes on with as many as the system
//! gives. Keeps: a batch call returns only when the kernel has released every buffer of the batch;
//! each failure names path and place. Rings are pooled: a call takes one out, uses it alone and
//! puts it back, so no call waits for another call's I/O. Takes `Rank::Leaf` around the pooled
//! rings, never across I/O. Holds `unsafe`. Called by: `disk` here.
use super::error::io_error;
use super::gate::Gate;
use super::observed;
use crate::base::observer::FileCall;
use crate::base::sync::{Rank, RankedMutex};
use crate::base::Result;
use crate::io::disk::{first_error, ReadOp, WriteOp, IO_ALIGN};
use io_uring::{opcode, types::Fd, IoUring};
use std::collections::VecDeque;

/// Entries of one ring. More requests in flight gained nothing on the devices measured.
const DEPTH: usize = 128;
/// Rings kept for the next call. Further rings are closed after use.
const RINGS_KEPT: usize = 8;
/// Threads of the fallback, the calling thread included.
const THREADS_MAX: usize = 4;
/// Bytes of such a thread's stack: it makes system calls, and formats an error at most.
const STACK: usize = 256 << 10;
/// Interval of polls for completions, once the kernel refuses to wait for them.
const POLL: std::time::Duration = std::time::Duration::from_millis(1);
/// A short transfer of a direct file is resumed at this boundary.
const RESUME_ALIGN: usize = IO_ALIGN;

/// One request in kernel terms. Plain numbers: the code that builds a request keeps the memory at
/// `address` alive.
#[derive(Clone, Copy)]
struct Request {
    fd: i32,
    address: *mut u8,
    len: u32,
    offset: u64,
    write: bool,
}

pub struct Batch {
    /// None: the kernel refuses io_uring (detected once, at start).
    rings: Option<RankedMutex<Vec<IoUring>>>,
}

impl Batch {
    pub fn detect() -> Batch {
        let first = IoUring::new(DEPTH as u32).ok();
        Batch {
            rings: first.map(|ring| RankedMutex::new(Rank::Leaf, vec![ring])),
        }
    }
    #[cfg(test)]
    pub fn without_ring() -> Batch {
        Batch { rings: None }
    }
    pub fn method(&self) -> &'static str {
        match self.rings {
            Some(_) => "io_uring",
            None => "threads",
        }
    }

    /// Passes the gate for the ring; plain calls pass it by themselves.
    pub fn write(&self, ops: &[WriteOp<'_>], gate: &Gate) -> Result<()> {
        let requests = ops.iter().map(|op| {
            Some(Request {
                fd: op.file.fd()?,
                // The kernel only reads from this address: the request says `write`.
                address: op.data.as_ptr().cast_mut(),
                len: u32::try_from(op.data.len()).ok()?,
                offset: op.offset,
                write: true,
            })
        });
        let passed = gate.pass();
        let results = self.run_on_ring(ops.len(), requests);
        drop(passed);
        let Some(results) = results else {
            return write_in_threads(ops);
        };
        first_error(ops.iter().zip(results).map(|(op, result)| {
            let len = op.data.len();
            match progress(result, len) {
                Ok(from) if from == len => Ok(()),
                Ok(from) => op.file.write_at(&op.data[from..], op.offset + from as u64),
                Err(e) => Err(io_error("write", op.file.path(), Some((op.offset, len)), e)),
            }
        }))
    }

    pub fn read(&self, ops: &mut [ReadOp<'_>]) -> Vec<Result<()>> {
        let n = ops.len();
        let requests = ops.iter_mut().map(|op| {
            Some(Request {
                fd: op.file.fd()?,
                address: op.data.as_mut_ptr(),
                len: u32::try_from(op.data.len()).ok()?,
                offset: op.offset,
                write: false,
            })
        });
        let Some(results) = self.run_on_ring(n, requests) else {
            return read_in_threads(ops);
        };
        let finish = |(op, result): (&mut ReadOp<'_>, i32)| {
            let len = op.data.len();
            match progress(result, len) {
                Ok(from) if from == len => Ok(()),
                Ok(from) => op.file.read_at(&mut op.data[from..], op.offset + from as u64),
                Err(e) => Err(io_error("read", op.file.path(), Some((op.offset, len)), e)),
            }
        };
        ops.iter_mut().zip(results).map(finish).collect()
    }

    /// Results in kernel terms, one for each request. None: the batch takes plain calls, because
    /// there is no ring, a file has no descriptor, or one system call does for a single request.
    fn run_on_ring(&self, n: usize, requests: impl Iterator<Item = Option<Request>>) -> Option<Vec<i32>> {
        let rings = self.rings.as_ref()?;
        if n < 2 {
            return None;
        }
        let requests: Vec<Request> = requests.collect::<Option<_>>()?;
        debug_assert_eq!(requests.len(), n, "a request for each operation");
        debug_assert!(
            requests.iter().all(|request| request.write == requests[0].write),
            "a batch reads or writes"
        );
        let kept = rings.lock().pop();
        let mut ring = match kept {
            Some(ring) => ring,
            None => IoUring::new(DEPTH as u32).ok()?,
        };
        let call = match requests[0].write {
            true => FileCall::Write,
            false => FileCall::Read,
        };
        let parts = requests.iter().map(|request| (request.fd, request.len as usize));
        let (results, sound) = observed::batch(call, parts, || {
            run(&mut ring, &requests, &mut |ring| ring.submit_and_wait(1))
        });
        debug_assert_eq!(results.len(), n, "a result for each operation");
        let mut kept = rings.lock();
        if sound && kept.len() < RINGS_KEPT {
            kept.push(ring);
        }
        Some(results)
    }
}

/// Bytes done after a completion. `Ok(len)`: all; less: a plain call resumes there; Err: failed.
fn progress(result: i32, len: usize) -> std::io::Result<usize> {
    match result {
        n if n >= 0 && n as usize >= len => Ok(len),
        n if n >= 0 => Ok(n as usize / RESUME_ALIGN * RESUME_ALIGN),
        // Nothing was transferred and nothing is broken: a plain call does the transfer.
        e if e == -libc::EINTR || e == -libc::EAGAIN => Ok(0),
        e => Err(std::io::Error::from_raw_os_error(-e)),
    }
}

/// Carries out all requests on a ring that no other thread uses. Returns when every request that
/// the kernel took has completed. `enter` submits and waits. False: `enter` failed, and the ring
/// must not be used again; requests that were not carried out say EAGAIN, and are left to plain
/// calls.
fn run(
    ring: &mut IoUring,
    requests: &[Request],
    enter: &mut dyn FnMut(&IoUring) -> std::io::Result<usize>,
) -> (Vec<i32>, bool) {
    let mut results = vec![-libc::EAGAIN; requests.len()];
    debug_assert!(
        ring.submission().is_empty(),
        "the call before has taken all its requests out"
    );
    let (mut next, mut in_flight) = (0, 0);
    let mut sound = true;
    while (sound && next < requests.len()) || in_flight > 0 {
        let mut queue = ring.submission();
        while sound && next < requests.len() && in_flight < DEPTH {
            let r = &requests[next];
            let entry = if r.write {
                opcode::Write::new(Fd(r.fd), r.address, r.len).offset(r.offset).build()
            } else {
                opcode::Read::new(Fd(r.fd), r.address, r.len).offset(r.offset).build()
            };
            // SAFETY: the caller's batch borrows the buffers, and this function does not return (or
            // unwind: nothing below panics) before every pushed entry has completed.
            if unsafe { queue.push(&entry.user_data(next as u64)) }.is_err() {
                break;
            }
            next += 1;
            in_flight += 1;
        }
        drop(queue);
        debug_assert!(in_flight <= DEPTH, "the ring has room for what is under way");
        if !sound {
            // Completions arrive in shared memory, without another call of the kernel.
            std::thread::sleep(POLL);
        } else if let Err(e) = enter(ring) {
            if !matches!(e.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) {
                // The kernel has pointers only to the buffers of requests that it took: only these
                // are waited for.
                in_flight -= ring.submission().len();
                sound = false;
            }
        }
        for completion in ring.completion() {
            debug_assert!(
                in_flight > 0 && (completion.user_data() as usize) < next,
                "a completion is of a request that was made"
            );
            results[completion.user_data() as usize] = completion.result();
            in_flight -= 1;
        }
    }
    debug_assert_eq!(in_flight, 0, "the kernel has released every buffer of the batch");
    debug_assert!(
        !sound || next == requests.len(),
        "a sound ring carries out every request"
    );
    (results, sound)
}

fn write_in_threads(ops: &[WriteOp<'_>]) -> Result<()> {
    let part = ops.len().div_ceil(THREADS_MAX).max(1);
    let results = in_threads(STACK, ops.chunks(part), |part: &[WriteOp<'_>]| {
        first_error(part.iter().map(|op| op.file.write_at(op.data, op.offset)))
    });
    first_error(results.into_iter())
}

fn read_in_threads(ops: &mut [ReadOp<'_>]) -> Vec<Result<()>> {
    let part = ops.len().div_ceil(THREADS_MAX).max(1);
    let results = in_threads(STACK, ops.chunks_mut(part), |part: &mut [ReadOp<'_>]| {
        let each = part.iter_mut().map(|op| op.file.read_at(op.data, op.offset));
        each.collect::<Vec<_>>()
    });
    results.into_iter().flatten().collect()
}

/// Results of all parts, in their order. The calling thread works too, alone if the system gives no
/// other thread.
fn in_threads<P: Send, R: Send>(stack: usize, parts: impl Iterator<Item = P>, run: impl Fn(P) -> R + Sync) -> Vec<R> {
    let parts: VecDeque<(usize, P)> = parts.enumerate().collect();
    let others = parts.len().saturating_sub(1);
    let waiting = RankedMutex::new(Rank::Leaf, parts);
    let next = || waiting.lock().pop_front();
    let work = || {
        let mut done = Vec::new();
        while let Some((number, part)) = next() {
            done.push((number, run(part)));
        }
        done
    };
    let mut done = std::thread::scope(|s| {
        let spawn = |_| std::thread::Builder::new().stack_size(stack).spawn_scoped(s, work);
        let threads: Vec<_> = (0..others).map_while(|n| spawn(n).ok()).collect();
        let mut done = work();
        for thread in threads {
            done.extend(thread.join().expect("an I/O thread does not panic"));
        }
        done
    });
    done.sort_unstable_by_key(|(number, _)| *number);
    debug_assert!(
        done.iter().enumerate().all(|(place, (number, _))| place == *number),
        "a result for each part"
    );
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    /// The kernel refuses to go on, before or after it has taken the requests: this used to end the
    /// process.
    #[test]
    fn a_ring_that_fails_leaves_the_rest_to_plain_calls() {
        let path = std::env::temp_dir().join(format!("sluice-io-broken-ring-{}", std::process::id()));
        let file = std::fs::File::create(&path).expect("create");
        for taken in [false, true] {
            let Ok(mut ring) = IoUring::new(DEPTH as u32) else {
                return; // No io_uring here.
            };
            let mut data = [7u8; 512];
            let mut request = |n: u64| Request {
                fd: file.as_raw_fd(),
                address: data.as_mut_ptr(),
                len: 512,
                offset: n * 512,
                write: true,
            };
            let requests: Vec<Request> = (0..4).map(&mut request).collect();
            let (results, sound) = run(&mut ring, &requests, &mut |ring| {
                if taken {
                    ring.submit()?;
                }
                Err(std::io::Error::from_raw_os_error(libc::ENOMEM))
            });
            assert!(!sound, "the ring is not used again");
            let each = if taken { 512 } else { -libc::EAGAIN };
            assert_eq!(results, [each; 4]);
        }
        std::fs::remove_file(&path).expect("remove");
    }

    /// It used to panic, with the buffers of the batch as they were.
    #[test]
    fn without_a_thread_the_caller_does_all() {
        // More than there are addresses.
        const NO_STACK: usize = 1 << 47;
        let here = std::thread::current().id();
        for (stack, is_alone) in [(NO_STACK, true), (STACK, false)] {
            for count in 0..=THREADS_MAX {
                let mut numbers: Vec<usize> = (0..count).collect();
                let results = in_threads(stack, numbers.iter_mut(), |number| {
                    assert!(!is_alone || std::thread::current().id() == here);
                    *number += 100;
                    *number
                });
                assert!(results.iter().eq(&numbers) && numbers.into_iter().eq(100..100 + count));
            }
        }
    }
}

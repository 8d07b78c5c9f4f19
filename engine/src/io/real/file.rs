//! A file of the real disk: whole reads and writes, direct or buffered.
//!
//! Keeps: a short transfer is resumed until all bytes are done; `set_len` allocates space, so a
//! full disk is met there. Every error names path, offset, length and the operating system's
//! reason. Takes no locks. Called by: `disk` here, which opens files, and their users through
//! [`File`].
use super::error::{io_error, retry, sync_error};
use super::gate::Gate;
use super::observed;
use crate::base::observer::FileCall;
use crate::base::Result;
use crate::io::align::{is_aligned, is_aligned_range, AlignedBuf};
use crate::io::disk::{File, IO_ALIGN};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// An open file of a [`RealDisk`](super::RealDisk).
pub struct RealFile {
    pub(super) file: std::fs::File,
    pub(super) path: String,
    pub(super) direct: bool,
    pub(super) gate: Arc<Gate>,
}

impl RealFile {
    fn check_aligned(&self, len: usize, offset: u64) {
        assert!(
            !self.direct || is_aligned_range(len, offset),
            "direct I/O on {} must be aligned: offset {offset}, {len} bytes",
            self.path
        );
    }
    fn read_whole(&self, data: &mut [u8], offset: u64) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let place = Some((at, data.len() - done));
            let n = retry(|| self.file.read_at(&mut data[done..], at))
                .map_err(|e| io_error("read", &self.path, place, e))?;
            let n = self.usable(n, data.len() - done);
            if n == 0 {
                let e = std::io::Error::other("the file ends before");
                return Err(io_error("read", &self.path, place, e));
            }
            done += n;
        }
        Ok(())
    }
    fn write_whole(&self, data: &[u8], offset: u64) -> Result<()> {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let place = Some((at, data.len() - done));
            let n =
                retry(|| self.file.write_at(&data[done..], at)).map_err(|e| io_error("write", &self.path, place, e))?;
            let n = self.usable(n, data.len() - done);
            if n == 0 {
                let e = std::io::Error::other("nothing was taken");
                return Err(io_error("write", &self.path, place, e));
            }
            done += n;
        }
        Ok(())
    }
    /// Number of bytes of a transfer of `n` bytes that count: a short direct transfer is resumed
    /// at an aligned offset.
    fn usable(&self, n: usize, wanted: usize) -> usize {
        debug_assert!(n <= wanted, "the system transfers no more than it was asked for");
        if self.direct && n < wanted {
            n / IO_ALIGN * IO_ALIGN
        } else {
            n
        }
    }
    fn allocate(&self, from: u64, to: u64) -> Result<()> {
        debug_assert!(from < to, "space is allocated for a file that grows");
        let place = Some((from, (to - from) as usize));
        let done = retry(|| {
            // SAFETY: a plain system call on a descriptor that `self` owns; it touches no memory.
            let r = unsafe { libc::fallocate(self.file.as_raw_fd(), 0, from as i64, (to - from) as i64) };
            if r == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        });
        match done {
            Ok(()) => Ok(()),
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => self.write_zeros(from, to),
            Err(e) => {
                // A partial allocation may have extended the file: the old length is restored.
                let _ = self.file.set_len(from);
                Err(io_error("allocate", &self.path, place, e))
            }
        }
    }
    /// Extends the file on a file system without fallocate.
    fn write_zeros(&self, from: u64, to: u64) -> Result<()> {
        let zeros = AlignedBuf::new(1 << 20);
        let mut at = from;
        while at < to {
            let n = (to - at).min(zeros.len() as u64) as usize;
            self.check_aligned(n, at);
            if let Err(e) = self.write_whole(&zeros[..n], at) {
                let _ = self.file.set_len(from);
                return Err(e);
            }
            at += n as u64;
        }
        Ok(())
    }
}

impl Drop for RealFile {
    fn drop(&mut self) {
        observed::close(&self.file);
    }
}

impl File for RealFile {
    fn read_at(&self, data: &mut [u8], offset: u64) -> Result<()> {
        observed::call(FileCall::Read, &self.file, data.len(), || {
            if !self.direct || is_aligned(data, offset) {
                return self.read_whole(data, offset);
            }
            self.check_aligned(data.len(), offset);
            let mut bounce = AlignedBuf::new(data.len());
            self.read_whole(&mut bounce, offset)?;
            data.copy_from_slice(&bounce);
            Ok(())
        })
    }
    fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        let _passed = self.gate.pass();
        observed::call(FileCall::Write, &self.file, data.len(), || {
            if !self.direct || is_aligned(data, offset) {
                return self.write_whole(data, offset);
            }
            self.check_aligned(data.len(), offset);
            self.write_whole(&AlignedBuf::from_slice(data), offset)
        })
    }
    fn sync(&self) -> Result<()> {
        let synced = observed::call(FileCall::Sync, &self.file, 0, || retry(|| self.file.sync_data()));
        synced.map_err(|e| sync_error("sync", &self.path, e))
    }
    fn len(&self) -> Result<u64> {
        let meta = self.file.metadata();
        Ok(meta
            .map_err(|e| io_error("read the length of", &self.path, None, e))?
            .len())
    }
    fn set_len(&self, len: u64) -> Result<()> {
        let _passed = self.gate.pass();
        let old = self.len()?;
        observed::call(FileCall::ChangeSize, &self.file, 0, || {
            if len > old {
                return self.allocate(old, len);
            }
            let shortened = retry(|| self.file.set_len(len));
            shortened.map_err(|e| io_error(&format!("shorten to {len} bytes"), &self.path, None, e))
        })
    }
    fn is_direct(&self) -> bool {
        self.direct
    }
    fn path(&self) -> &str {
        &self.path
    }
    fn fd(&self) -> Option<i32> {
        Some(self.file.as_raw_fd())
    }
}

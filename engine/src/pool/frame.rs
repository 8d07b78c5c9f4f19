//! Frames: memory, latch and state of one resident page each. `unsafe` of the pool lives here.
use super::page::page_lsn;
use crate::base::{Lsn, PageId};

/// A pinned, S-latched page. Dropping it lets go of both.
pub struct PageRead<'p> {
    bytes: &'p [u8],
    id: PageId,
}

impl PageRead<'_> {
    pub fn id(&self) -> PageId {
        self.id
    }
    /// Changes with every change of the page: a cursor that finds the same version finds the same slots.
    pub fn version(&self) -> Lsn {
        page_lsn(self.bytes)
    }
}

impl std::ops::Deref for PageRead<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

//! The value of a clustered index entry: header, row bytes, and the reference to overflow pages.
//!
//! ```text
//! 0  flags   u8    bit 0 = delete-marked, bit 1 = the row continues in overflow pages
//! 1  trx     u48   transaction that made this version
//! 7  undo    page u32 + offset u16   the version before (0 = none)
//! 13 row     bytes; with bit 1: total length u64, first overflow page u32, transaction
//!            that made the chain u48, then the row's prefix
//! ```
//! The entry's key is the clustered key. Pure: no latches. Called by: the row functions of `table`,
//! through `index`.
use crate::base::bytes::{get_u16, get_u32, get_u48, put_u16, put_u32, put_u48, put_u64};
use crate::base::{PageNo, TrxId, UndoPtr};

pub const ROW_HEADER: usize = 13;
pub const ROW_MARKED: u8 = 1;
pub const ROW_OVERFLOW: u8 = 2;

/// Header of a clustered entry's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowHeader {
    pub flags: u8,
    pub trx: TrxId,
    pub undo: UndoPtr,
}

impl RowHeader {
    pub fn read(value: &[u8]) -> RowHeader {
        RowHeader {
            flags: value[0],
            trx: get_u48(value, 1),
            undo: UndoPtr {
                page: get_u32(value, 7),
                offset: get_u16(value, 11),
            },
        }
    }
    pub fn write(&self, value: &mut [u8]) {
        debug_assert_eq!(self.flags & !(ROW_MARKED | ROW_OVERFLOW), 0, "the format has two flags");
        debug_assert!(self.trx >> 48 == 0, "the format has six bytes for a transaction");
        value[0] = self.flags;
        put_u48(value, 1, self.trx);
        put_u32(value, 7, self.undo.page);
        put_u16(value, 11, self.undo.offset);
    }
    pub fn marked(&self) -> bool {
        self.flags & ROW_MARKED != 0
    }
}

/// Bytes of the reference that precedes the prefix of a row with overflow pages.
pub const OVERFLOW_REF: usize = 18;

/// A row's chain of overflow pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChainRef {
    pub first: PageNo,
    /// The transaction that made the chain. Later updates and marks of the row do not change it.
    pub owner: TrxId,
}

impl ChainRef {
    /// The chain that a clustered entry's value refers to. None: the whole row is in the value.
    pub fn of(value: &[u8]) -> Option<ChainRef> {
        let long = value[0] & ROW_OVERFLOW != 0 && value.len() >= ROW_HEADER + OVERFLOW_REF;
        long.then(|| ChainRef {
            first: get_u32(value, ROW_HEADER + 8),
            owner: get_u48(value, ROW_HEADER + 12),
        })
    }
    /// Writes the reference after a value's header. `total`: bytes of the whole row.
    pub fn write(&self, value: &mut [u8], total: u64) {
        debug_assert_ne!(self.first, 0, "page 0 is a file's header");
        debug_assert!(total > 0, "a row without bytes needs no chain");
        put_u64(value, ROW_HEADER, total);
        put_u32(value, ROW_HEADER + 8, self.first);
        put_u48(value, ROW_HEADER + 12, self.owner);
    }
}

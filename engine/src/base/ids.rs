//! Ids: numbers of pages, files, indexes and transactions, and addresses made of them.
//!
//! All are plain integers on disk, little-endian unless a format says otherwise. Called by: every
//! layer.

/// Log sequence number: byte offset in the endless redo stream, block headers included. 0 = none.
pub type Lsn = u64;
/// Page number inside a file.
pub type PageNo = u32;
/// Data file number. Equals the table id for a table's file; never reused.
pub type FileId = u32;
/// Index number, unique in the whole engine, never reused.
pub type IndexId = u32;
/// Transaction id, given at the first write. 0 = none. 48 bits are stored.
pub type TrxId = u64;

/// The system file: catalog tree, transaction system page.
pub const SYSTEM_FILE: FileId = 1;
/// The undo file.
pub const UNDO_FILE: FileId = 2;
/// First id for table files; smaller ones are the engine's own.
pub const FIRST_TABLE_FILE: FileId = 16;
const _: () = assert!(
    0 < SYSTEM_FILE && SYSTEM_FILE < UNDO_FILE && UNDO_FILE < FIRST_TABLE_FILE,
    "0 is no file, and the engine's own files come before the tables'"
);

/// Address of a page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct PageId {
    pub file: FileId,
    pub no: PageNo,
}

impl PageId {
    pub const fn new(file: FileId, no: PageNo) -> PageId {
        PageId { file, no }
    }
    /// One integer, for hashing and tables.
    pub const fn as_u64(self) -> u64 {
        ((self.file as u64) << 32) | self.no as u64
    }
}

const _: () = assert!(
    PageId::new(1, PageNo::MAX).as_u64() < PageId::new(2, 0).as_u64(),
    "pages have the same order as numbers: by file, then by place"
);

impl std::fmt::Display for PageId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "file {} page {}", self.file, self.no)
    }
}

/// Address of an undo record: page in [`UNDO_FILE`] and byte offset in it. Zero = none: a fresh
/// insert has no older version.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct UndoPtr {
    pub page: PageNo,
    pub offset: u16,
}

impl UndoPtr {
    pub const NONE: UndoPtr = UndoPtr { page: 0, offset: 0 };
    pub fn is_none(self) -> bool {
        self.page == 0
    }
}

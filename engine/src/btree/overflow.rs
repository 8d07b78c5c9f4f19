//! Overflow chains: bytes too long for a leaf, in a list of pages of the same file. Who calls: the table layer.
//!
//! The first page names its owner (the transaction that made the chain): freeing is asked for again after a crash, and must not touch
//! a page that has been given to somebody else since.
use crate::base::{FileId, IndexId, Lsn, PageNo, Result, TrxId};
use crate::pool::{Mtr, Pool};

/// Allocates the first page, empty, in `mtr`: the caller logs the undo record that names it in the same Mtr.
pub fn create(_mtr: &mut Mtr<'_>, _file: FileId, _index: IndexId, _owner: TrxId) -> Result<PageNo> {
    todo!()
}
/// Fills a chain just created, in bounded Mtrs of its own. Returns the LSN of the last. On error the chain is shorter, but whole.
pub fn fill(_pool: &Pool, _file: FileId, _first: PageNo, _data: &[u8]) -> Result<Lsn> {
    todo!()
}
/// Appends the chain's bytes to `out`.
pub fn read(_pool: &Pool, _file: FileId, _first: PageNo, _out: &mut Vec<u8>) -> Result<()> {
    todo!()
}
/// Frees the chain, in bounded Mtrs, its first page last. Does nothing when `first` is not (any more) the first page of a chain of `owner`.
pub fn free(_pool: &Pool, _file: FileId, _first: PageNo, _owner: TrxId) -> Result<()> {
    todo!()
}

//! [`RowMaker`]: how a session makes rows. Only the user of the engine knows what the bytes of a
//! row mean. A cascade of a foreign key changes rows that the statement did not bring, so the table
//! layer asks the session for them. It also asks for the values of a foreign key whose index the
//! child has lost.
//!
//! Called by: the row changes of `table`, without latches, in the thread of the transaction.
use crate::base::Result;

/// The columns that a child row gets.
#[derive(Clone, Copy, Debug)]
pub enum ReferenceValue<'a> {
    Null,
    /// Those of the parent row, by the foreign key.
    Parent {
        table: &'a str,
        pk: &'a [u8],
        row: &'a [u8],
    },
}

/// A child row that is to be changed.
#[derive(Clone, Copy, Debug)]
pub struct ChildRow<'a> {
    /// Name of the table.
    pub table: &'a str,
    pub pk: &'a [u8],
    pub row: &'a [u8],
}

/// Makes rows and index entries from rows.
pub trait RowMaker: Send {
    /// Puts `of` with its entries into `to`. An error ends the statement.
    fn entries(&mut self, of: ChildRow<'_>, to: &mut MadeRow) -> Result<()>;
    /// Puts `of` as it is into `before`. Puts it into `after` as it becomes when the columns of
    /// the foreign key get `value`. `foreign`: place of the foreign key in the table's definition.
    /// Puts the row of the past that stays into `past`, or leaves that empty.
    fn changed(
        &mut self,
        of: ChildRow<'_>,
        foreign: u32,
        value: ReferenceValue<'_>,
        before: &mut MadeRow,
        after: &mut MadeRow,
        past: &mut MadeRow,
    ) -> Result<()>;
    /// Of a table that marks rows of the past. Puts `of` as it is into `before`, and the row of the
    /// past that it becomes now into `after`. Without the latter it goes without a trace.
    fn ended(&mut self, of: ChildRow<'_>, before: &mut MadeRow, after: &mut MadeRow) -> Result<()>;
    /// Puts the values that the columns of a foreign key have in the row `of` into `to`.
    fn reference(&mut self, of: ChildRow<'_>, foreign: u32, to: &mut Vec<MadeValue>) -> Result<()>;
}

/// The value of a column, as an ascending index on it would have it.
#[derive(Debug, Default)]
pub struct MadeValue {
    /// As in `KeyPart`.
    pub domain: String,
    /// Without a null byte. None: the value is NULL.
    pub image: Option<Vec<u8>>,
}

/// A row with its entries, as the row maker gives it.
#[derive(Debug, Default)]
pub struct MadeRow {
    pub pk: Vec<u8>,
    pub row: Vec<u8>,
    pub entries: Vec<MadeEntry>,
    /// As in `RowUpdate`, of the row that `RowMaker::changed` puts into `after`.
    pub keeps_unindexed: bool,
}

/// An entry of a secondary index.
#[derive(Debug, Default)]
pub struct MadeEntry {
    /// Secondary ordinal.
    pub index: u32,
    /// Length of the index key inside `key`.
    pub user_key_len: u32,
    /// A part of the index key is NULL.
    pub has_null: bool,
    /// Index key + clustered key.
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

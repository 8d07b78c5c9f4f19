//! Older versions of a row, made from the clustered entry and undo records.
//!
//! The rows were copied out of their leaf before; no latch is held while undo is read. A record
//! that is needed cannot be purged: the view that needs it holds purge back (I9). Called by scans.
use crate::base::{sync_point, Counters, Error, FileId, IndexId, Result, SyncPoint, TrxId, UndoPtr};
use crate::index::{RowHeader, ROW_HEADER, ROW_OVERFLOW};
use crate::table::catalog::layout::Layout;
use crate::table::row::overflow_row::LongRows;
use crate::table::row::undo_record::{Record, What};
use crate::txn::TrxSys;
use std::sync::Arc;

/// One version of a row; older ones are built in place.
pub(in crate::table) struct Version<'a> {
    pub table: FileId,
    pub pk: &'a [u8],
    pub header: RowHeader,
    /// The stored bytes after the header.
    pub stored: &'a mut Vec<u8>,
}

/// Follows the key that the versions of a row have in one secondary index, without computing keys.
/// Going back past an undo record that lists the index, the key becomes its old key.
pub(in crate::table) struct KeyWatch {
    index: IndexId,
    /// None: no record so far listed the index; the key is that of the newest version.
    pub key: Option<KeyThen>,
    /// Versions gone back.
    pub steps: u32,
}

#[derive(PartialEq, Eq, Debug)]
pub(in crate::table) enum KeyThen {
    /// Index key without the clustered key.
    Is(Vec<u8>),
    /// The version has no entry in the index (delete-marked).
    None,
}

impl KeyWatch {
    pub fn new(index: IndexId) -> KeyWatch {
        KeyWatch {
            index,
            key: None,
            steps: 0,
        }
    }
    fn pass(&mut self, record: &Record<'_>) {
        self.steps += 1;
        if let Some(touch) = record.touch(self.index) {
            self.key = Some(match touch.old {
                Some(key) => KeyThen::Is(key.to_vec()),
                None => KeyThen::None,
            });
        }
    }
}

/// Builds older versions of rows.
#[derive(Clone)]
pub(in crate::table) struct Versions {
    trx_sys: Arc<TrxSys>,
    counters: Arc<Counters>,
    long_rows: LongRows,
}

impl Versions {
    pub fn new(trx_sys: Arc<TrxSys>, counters: Arc<Counters>, long_rows: LongRows) -> Versions {
        Versions {
            trx_sys,
            counters,
            long_rows,
        }
    }

    /// Goes back to the newest version that is `enough`. False: there is none. The result may be
    /// delete-marked.
    pub(in crate::table) fn rewind(
        &self,
        enough: &dyn Fn(&RowHeader) -> bool,
        version: &mut Version<'_>,
        mut watch: Option<&mut KeyWatch>,
    ) -> Result<bool> {
        while !enough(&version.header) {
            if !self.step_back(version, watch.as_deref_mut())? {
                return Ok(false);
            }
            sync_point(SyncPoint::SteppedBack);
        }
        Ok(true)
    }

    /// The version before. False: there is none.
    fn step_back(&self, version: &mut Version<'_>, watch: Option<&mut KeyWatch>) -> Result<bool> {
        let at = version.header.undo;
        if at.is_none() {
            return Ok(false);
        }
        self.counters.versions_built.inc();
        let undo = self.trx_sys.undo.read(at)?;
        let record = Record::decode(&undo.payload)?;
        if undo.trx != version.header.trx || record.table != version.table || record.pk != version.pk {
            return Err(Error::corrupt(format!(
                "undo record {at:?} is not about the row of table {} that points at it",
                version.table
            )));
        }
        if let Some(watch) = watch {
            watch.pass(&record);
        }
        match record.what {
            What::Insert => return Ok(false),
            What::Update { old, diff, .. } => {
                diff.apply(version.stored)?;
                version.header = old;
            }
            What::Delete { old, .. } => version.header = old,
            What::Chain { .. } | What::Load { .. } => {
                return Err(Error::corrupt("a row points at an undo record that is about no row"));
            }
        }
        Ok(true)
    }

    /// Fetches a long row into `whole`. False: it is not long, `stored` is all of it.
    pub(in crate::table) fn fetch_whole(
        &self,
        layout: &Layout,
        header: &RowHeader,
        stored: &[u8],
        whole: &mut Vec<u8>,
    ) -> Result<bool> {
        if header.flags & ROW_OVERFLOW == 0 {
            return Ok(false);
        }
        self.long_rows.read_long_row(layout, stored, whole)?;
        Ok(true)
    }
}

/// Splits a clustered entry's value.
pub(in crate::table) fn split(value: &[u8]) -> (RowHeader, &[u8]) {
    (RowHeader::read(value), &value[ROW_HEADER..])
}

/// The entry's newest version is the one that the record at `undo` describes.
pub(in crate::table) fn points_at(value: &[u8], maker: TrxId, undo: UndoPtr) -> bool {
    let (header, _) = split(value);
    header.trx == maker && header.undo == undo
}

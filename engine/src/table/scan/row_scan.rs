//! [`RowScan`]: what consistent and locking reads share: the position, the view, the buffers in
//! which a row is handed out.
//!
//! What is handed out lies in these buffers and is valid until the cursor's next call. No latch is
//! held between calls. Called by the readers and by `cursor`.
use crate::base::{Error, Lsn, PageNo, Result};
use crate::index::{RowHeader, ROW_HEADER, ROW_OVERFLOW};
use crate::table::catalog::layout::Layout;
use crate::table::row::version::{split, KeyWatch, Version};
use crate::table::scan::lock_choice::LockChoice;
use crate::table::scan::position::Position;
use crate::table::scan::reader::Reader;
use crate::table::scan::version_cache::VersionCache;
use crate::txn::{Granted, Isolation, ReadView, Trx};
use std::cell::Cell;
use std::sync::Arc;

/// An entry handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    /// `row` is the raw part of a secondary entry, not the clustered row.
    pub covering: bool,
    /// Clustered key, or index key + clustered key.
    pub key: &'a [u8],
    pub pk: &'a [u8],
    pub row: &'a [u8],
}

/// Where the row that was handed out lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::table) enum RowAt {
    /// In the batch's value, after this many bytes.
    Batch(usize),
    /// In `RowScan::version`, after a row header.
    Version,
    /// In `RowScan::whole`.
    Whole,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::table) struct Current {
    /// By a point read: the key is `get_key`, not the batch's.
    pub point: bool,
    pub covering: bool,
    pub pk_len: usize,
    pub row: RowAt,
}

pub(in crate::table) struct RowScan {
    pub reader: Arc<Reader>,
    /// 0 = clustered, i + 1 = secondary i.
    pub index: u32,
    pub lock: LockChoice,
    pub covering: bool,
    pub semi_consistent: bool,
    pub view: Option<Arc<ReadView>>,
    pub at: Position,

    /// Value of the clustered entry (header and stored bytes), when it is not the batch's.
    pub version: Vec<u8>,
    /// Value of a secondary entry that was looked at again.
    pub entry: Vec<u8>,
    /// A row fetched from overflow pages.
    pub whole: Vec<u8>,
    /// Versions found before, for other entries of the same row.
    pub cache: VersionCache,
    /// Key of a point read.
    pub get_key: Vec<u8>,
    pub current: Option<Current>,
    /// The lock that the row handed out last got by this scan.
    pub taken: Option<Granted>,
    pub was_semi_consistent: bool,
}

impl RowScan {
    pub fn new(reader: Arc<Reader>) -> RowScan {
        RowScan {
            reader,
            index: 0,
            lock: LockChoice::default(),
            covering: false,
            semi_consistent: false,
            view: None,
            at: Position::new(),
            version: Vec::new(),
            entry: Vec::new(),
            whole: Vec::new(),
            cache: VersionCache::default(),
            get_key: Vec::new(),
            current: None,
            taken: None,
            was_semi_consistent: false,
        }
    }

    // ---- views ----

    /// Opens the view of a consistent read. Any read refuses tables and indexes younger than the
    /// transaction's snapshot.
    pub fn use_view(&mut self, trx: &mut Trx, layout: &Layout, index: u32, lock: LockChoice) -> Result<()> {
        self.view = None;
        let locking = lock.mode.is_some();
        if locking || trx.view_is_fresh() {
            self.reader.snapshots.check_not_younger(trx, layout, index)?;
        }
        if locking || lock.newest || trx.isolation == Isolation::ReadUncommitted {
            return Ok(());
        }
        let view = self.open_view(trx, lock);
        debug_assert!(view.sees(0), "what is older than every view");
        if !layout.is_seen_by(&view, index) {
            return Err(Error::TableChanged);
        }
        self.view = Some(view);
        Ok(())
    }
    fn open_view(&self, trx: &mut Trx, lock: LockChoice) -> Arc<ReadView> {
        match lock.by_statement_view {
            true => self.reader.trx_sys.visibility.open_statement_view(trx),
            false => self.reader.trx_sys.visibility.open_view(trx),
        }
    }
    /// A scan may outlive the transaction that it was begun in (HANDLER does). Its view no longer
    /// holds purge back then, and what the view needs may be gone. The scan goes on with the view
    /// of the present transaction.
    pub fn renew_view(&mut self, trx: &mut Trx) {
        let Some(view) = &self.view else { return };
        if !self.is_open(trx, view) {
            let view = self.open_view(trx, self.lock);
            debug_assert!(self.is_open(trx, &view), "I9: the view of a scan holds purge back");
            self.view = Some(view);
            self.at.drop_batch();
        }
    }
    pub fn is_open(&self, trx: &Trx, view: &Arc<ReadView>) -> bool {
        let open = match self.lock.by_statement_view {
            true => trx.statement_view(),
            false => trx.view(),
        };
        open.as_ref().is_some_and(|open| Arc::ptr_eq(open, view))
    }

    // ---- versions ----

    /// Copies the newest clustered entry into `version`. False: no such key.
    pub fn copy_newest(&mut self, layout: &Layout, pk: &[u8]) -> Result<bool> {
        Ok(self.copy_newest_from(layout, pk)?.is_some())
    }
    /// Copies the newest version of a row to `version`, if there is one. Returns the leaf that it
    /// is in, and the leaf's version.
    pub fn copy_newest_from(&mut self, layout: &Layout, pk: &[u8]) -> Result<Option<(PageNo, Lsn)>> {
        let Some(leaf) = layout.clustered.tree.get(&self.reader.pool, pk)? else {
            return Ok(None);
        };
        self.version.clear();
        self.version.extend_from_slice(leaf.value());
        Ok(Some((leaf.page_no(), leaf.version())))
    }
    pub fn newest_differs(&self, layout: &Layout, pk: &[u8], header: &RowHeader) -> Result<bool> {
        let leaf = layout.clustered.tree.get(&self.reader.pool, pk)?;
        Ok(leaf.is_none_or(|leaf| RowHeader::read(leaf.value()) != *header))
    }

    /// Goes back in `version` to what the view sees. False: no row there.
    pub fn rewind_version(&mut self, layout: &Layout, pk: &[u8]) -> Result<bool> {
        self.rewind_watching(layout, pk, None)
    }
    pub fn rewind_watching(&mut self, layout: &Layout, pk: &[u8], watch: Option<&mut KeyWatch>) -> Result<bool> {
        match self.view.clone() {
            None => Ok(!RowHeader::read(&self.version).marked()),
            Some(view) => {
                let shown = self.rewind_until(layout, pk, &|header| view.sees(header.trx), watch)?;
                debug_assert!(
                    !shown || view.sees(RowHeader::read(&self.version).trx),
                    "a version that is shown is one that the view sees"
                );
                Ok(shown)
            }
        }
    }
    /// Goes back in `version` to the newest version that is `enough`. False: there is none, or it
    /// is delete-marked.
    pub fn rewind_until(
        &mut self,
        layout: &Layout,
        pk: &[u8],
        enough: &dyn Fn(&RowHeader) -> bool,
        watch: Option<&mut KeyWatch>,
    ) -> Result<bool> {
        debug_assert!(self.version.len() >= ROW_HEADER, "a version was copied");
        let header = RowHeader::read(&self.version);
        if enough(&header) {
            return Ok(!header.marked());
        }
        let steps = Cell::new(0);
        let enough = |header: &RowHeader| {
            steps.set(steps.get() + 1);
            enough(header)
        };
        let mut stored = self.version.split_off(ROW_HEADER);
        let mut version = Version {
            table: layout.id,
            pk,
            header,
            stored: &mut stored,
        };
        let found = self.reader.versions.rewind(&enough, &mut version, watch)?;
        let header = version.header;
        self.at.count_steps(steps.get());
        header.write(&mut self.version);
        debug_assert_eq!(self.version.len(), ROW_HEADER, "the header goes before the columns");
        self.version.extend_from_slice(&stored);
        Ok(found && !header.marked())
    }

    // ---- handing out ----

    /// Hands out what is in `version`, fetching overflow pages. False: a dirty read found that the
    /// row is gone.
    pub fn hand_out_version(&mut self, layout: &Layout, pk: &[u8]) -> Result<bool> {
        loop {
            let (header, stored) = split(&self.version);
            debug_assert!(!header.marked(), "a row that is deleted is not handed out");
            match self
                .reader
                .versions
                .fetch_whole(layout, &header, stored, &mut self.whole)
            {
                Ok(fetched) => {
                    let row = if fetched { RowAt::Whole } else { RowAt::Version };
                    self.hand_out(false, pk.len(), row);
                    return Ok(true);
                }
                // A dirty read: the version may have been rolled back, and its pages given to
                // others.
                Err(_) if self.is_dirty_read() && self.newest_differs(layout, pk, &header)? => {
                    if !self.copy_newest(layout, pk)? || RowHeader::read(&self.version).marked() {
                        return Ok(false);
                    }
                }
                Err(e) => return Err(e),
            }
        }
    }
    fn is_dirty_read(&self) -> bool {
        self.view.is_none() && self.lock.mode.is_none()
    }
    /// Hands out the row in the batch's clustered entry.
    pub fn hand_out_batch(&mut self, layout: &Layout) -> Result<bool> {
        let (key, value) = self.at.entry();
        if RowHeader::read(value).flags & ROW_OVERFLOW == 0 {
            let pk_len = key.len();
            self.hand_out(false, pk_len, RowAt::Batch(ROW_HEADER));
            return Ok(true);
        }
        self.version.clear();
        self.version.extend_from_slice(value);
        let pk = key.to_vec();
        self.hand_out_version(layout, &pk)
    }
    pub fn hand_out(&mut self, covering: bool, pk_len: usize, row: RowAt) {
        debug_assert!(
            match row {
                RowAt::Batch(skip) => skip <= self.at.value().len(),
                RowAt::Version => self.version.len() >= ROW_HEADER,
                RowAt::Whole => true,
            },
            "a row lies in what was copied"
        );
        debug_assert!(
            !covering || self.covering,
            "an entry is handed out for a row only if the caller wants that"
        );
        self.at.count_row();
        self.current = Some(Current {
            point: false,
            covering,
            pk_len,
            row,
        });
    }
    /// Nothing is handed out until the next row is found.
    pub fn clear_found(&mut self) {
        self.current = None;
        self.taken = None;
        self.was_semi_consistent = false;
    }
    /// What the last successful call handed out.
    pub fn found(&self) -> Option<Found<'_>> {
        let current = self.current?;
        let key = if current.point {
            &self.get_key[..]
        } else {
            self.at.key()
        };
        debug_assert!(current.pk_len <= key.len(), "a key ends with the clustered key");
        let row = match current.row {
            RowAt::Batch(skip) => &self.at.value()[skip..],
            RowAt::Version => &self.version[ROW_HEADER..],
            RowAt::Whole => &self.whole,
        };
        Some(Found {
            covering: current.covering,
            key,
            pk: &key[key.len() - current.pk_len..],
            row,
        })
    }
}

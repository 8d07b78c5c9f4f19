//! Versions that a scan of a secondary index has built already. A row whose indexed column has
//! changed N times since the view has N entries there. Each entry asks which version the view sees.
//! Built anew each time, that would cost N times N steps.
//!
//! The version that a view sees stays the same, and so does its key, as long as the reader does not
//! change the row itself. After such a change the newest version has another header. (A key that is
//! only known to be that of the newest version is not kept. Another transaction may roll back to a
//! savepoint and make another version with the same header.)
//!
//! Called by the readers; takes no latch.
use crate::index::RowHeader;
use crate::txn::ReadView;
use std::collections::HashMap;
use std::sync::Arc;

/// Most bytes kept for one cursor, in each of two generations: when the newer is full, the older
/// goes.
const BYTES_MAX: usize = 256 << 10;
/// Memory of one kept answer besides its bytes.
const OVERHEAD: usize = 128;
/// Answers that took fewer steps are not kept.
const STEPS_MIN: u32 = 4;

#[derive(Default)]
pub(in crate::table) struct VersionCache {
    view: Option<Arc<ReadView>>,
    /// As `RowScan::index`.
    index: u32,
    /// By clustered key.
    rows: HashMap<Box<[u8]>, Cached>,
    bytes: usize,
    older: HashMap<Box<[u8]>, Cached>,
}

struct Cached {
    newest: RowHeader,
    answer: Answer,
}

/// What the view sees of a row.
pub(in crate::table) enum Answer {
    /// The version (as `RowScan::version`) and its index key. No key: no row, or one without an
    /// entry.
    Version(Vec<u8>, Option<Vec<u8>>),
    /// Whether there is a row.
    Sees(bool),
}

impl Cached {
    fn bytes(&self, pk: &[u8]) -> usize {
        let of_answer = match &self.answer {
            Answer::Version(version, key) => version.len() + key.as_ref().map_or(0, Vec::len),
            Answer::Sees(_) => 0,
        };
        pk.len() + of_answer + OVERHEAD
    }
}

impl VersionCache {
    pub fn get(&self, view: &Arc<ReadView>, index: u32, pk: &[u8], newest: &RowHeader) -> Option<&Answer> {
        let is_same = self.index == index && self.view.as_ref().is_some_and(|known| Arc::ptr_eq(known, view));
        let known = [&self.rows, &self.older].into_iter().filter(|_| is_same);
        let mut known = known.filter_map(|rows| rows.get(pk));
        let known = known.find(|known| known.newest == *newest)?;
        Some(&known.answer)
    }
    /// `steps`: how many it took to find the answer.
    pub fn put(
        &mut self,
        (view, index): (&Arc<ReadView>, u32),
        (pk, newest): (&[u8], RowHeader),
        steps: u32,
        answer: impl FnOnce() -> Answer,
    ) {
        if steps < STEPS_MIN {
            return;
        }
        if self.index != index || self.view.as_ref().is_none_or(|known| !Arc::ptr_eq(known, view)) {
            self.forget();
            self.view = Some(view.clone());
            self.index = index;
        }
        let answer = answer();
        let cached = Cached { newest, answer };
        self.bytes += cached.bytes(pk);
        if let Some(before) = self.rows.insert(pk.into(), cached) {
            self.bytes -= before.bytes(pk);
        }
        debug_assert!(self.bytes >= self.rows.len() * OVERHEAD, "each cached row is counted");
        if self.bytes > BYTES_MAX {
            self.older = std::mem::take(&mut self.rows);
            self.bytes = 0;
        }
    }
    /// Gives its memory back.
    pub fn forget(&mut self) {
        if self.view.is_some() {
            *self = VersionCache::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::ROW_HEADER;

    /// Many times more rows than are kept: the latest ones are kept, and the bytes are bounded.
    #[test]
    fn what_was_found_last_is_kept() {
        let (mut cache, view) = (VersionCache::default(), Arc::<ReadView>::default());
        let newest = RowHeader::read(&[0; ROW_HEADER]);
        let version = || Answer::Version(vec![7; 100], None);
        for n in 0..50_000u32 {
            cache.put((&view, 1), (&n.to_be_bytes(), newest), STEPS_MIN, version);
            for known in n.saturating_sub(500)..=n {
                assert!(
                    cache.get(&view, 1, &known.to_be_bytes(), &newest).is_some(),
                    "{known} behind {n}"
                );
            }
            assert!(cache.rows.len().max(cache.older.len()) * 232 <= BYTES_MAX + 232);
        }
        assert!(cache.get(&view, 2, &[0; 4], &newest).is_none(), "of another index");
    }
}

//! What a scan of a secondary index has rewound already. A row whose indexed column has changed N times since the view has N entries there, and each
//! asks which version the view sees: rewound anew each time that were N times N steps.
//!
//! The version that a view sees stays the same, and so does its key, for as long as the reader does not change the row itself: then its newest
//! version has another header. (A key that is only known to be that of the newest version is not kept: another may go back to a savepoint and
//! make another version with the same header.)
use crate::index::RowHeader;
use crate::txn::ReadView;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Rows known at a time. A power of two.
const SLOTS: usize = 64;
/// Shorter ways back are gone again.
const STEPS_MIN: u32 = 4;

#[derive(Default)]
pub(super) struct Rewinds {
    view: Option<Arc<ReadView>>,
    /// As `Cursor::index`.
    index: u32,
    slots: Vec<Option<Box<Rewound>>>,
}

struct Rewound {
    pk: Vec<u8>,
    newest: RowHeader,
    answer: Answer,
}

/// What the view sees of a row.
pub(super) enum Answer {
    /// The version (as `Cursor::version`) and its index key; no key: no row, or one without an entry.
    Version(Vec<u8>, Option<Vec<u8>>),
    /// Whether there is a row.
    Sees(bool),
}

fn slot_of(pk: &[u8]) -> usize {
    let mut hasher = DefaultHasher::new();
    pk.hash(&mut hasher);
    hasher.finish() as usize % SLOTS
}

impl Rewinds {
    pub fn get(&self, view: &Arc<ReadView>, index: u32, pk: &[u8], newest: &RowHeader) -> Option<&Answer> {
        let is_same = self.index == index && self.view.as_ref().is_some_and(|known| Arc::ptr_eq(known, view));
        let known = self.slots.get(slot_of(pk)).filter(|_| is_same)?.as_ref()?;
        (known.newest == *newest && known.pk == pk).then_some(&known.answer)
    }
    /// It took `steps` to find that out.
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
            self.view = Some(view.clone());
            self.index = index;
            self.slots.clear();
        }
        self.slots.resize_with(SLOTS, || None);
        self.slots[slot_of(pk)] = Some(Box::new(Rewound {
            pk: pk.to_vec(),
            newest,
            answer: answer(),
        }));
    }
}

//! [`Index`]: what the table layer knows of one index.
//!
//! Called by: every part of `table` that reads or changes an index.
use crate::base::IndexId;
use crate::btree::Tree;
use crate::change::{Delta, IndexTrees};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// An index of a table. Its trees are read as if they were its own fields: `index.tree`,
/// `index.delta`.
#[derive(Clone, Debug)]
pub struct Index {
    pub id: IndexId,
    pub name: String,
    pub unique: bool,
    pub trees: IndexTrees,
    /// The index is no longer kept up to date. Copies share the flag: a statement goes on with the
    /// layout that it began with.
    abandoned: Arc<AtomicBool>,
}

impl Index {
    /// `delta` None: changes are never buffered.
    pub fn new(name: &str, unique: bool, tree: Tree, delta: Option<Arc<Delta>>) -> Index {
        debug_assert!(
            delta.is_none() || !tree.is_wide(),
            "no change of a wide index is buffered"
        );
        debug_assert!(tree.index != 0, "an index has a number (I10)");
        Index {
            id: tree.index,
            name: name.into(),
            unique,
            trees: IndexTrees { tree, delta },
            abandoned: Arc::default(),
        }
    }
    /// From here on entries may be missing. Called before the first one is left out.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }
}

impl Deref for Index {
    type Target = IndexTrees;
    #[inline]
    fn deref(&self) -> &IndexTrees {
        &self.trees
    }
}

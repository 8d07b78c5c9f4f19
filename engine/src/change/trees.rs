//! [`IndexTrees`]: the trees of one index, as every function of the change buffer takes them.
use super::Delta;
use crate::btree::Tree;
use std::sync::Arc;

/// The tree of an index, and the delta tree that holds its pending changes.
#[derive(Clone, Debug)]
pub struct IndexTrees {
    pub tree: Tree,
    /// None: changes are never buffered (clustered indexes, wide indexes, temporary tables, indexes
    /// of an older definition format).
    pub delta: Option<Arc<Delta>>,
}

//! CHECK TABLE of a delta tree: every pending change fits the entry that it is for, and the filter
//! knows its key.
//!
//! Latches: one base leaf (S), then leaves of the delta tree. Called by: `table::check`, with no
//! latch held.
use crate::base::sync::holds_no_latch;
use crate::base::{Error, PageNo, Result};
use crate::change::delta::key::{entry_key, PARTITION_NUMBER};
use crate::change::delta::op_list::is_valid;
use crate::change::delta::Delta;
use crate::change::read::Merging;
use crate::change::IndexTrees;
use crate::pool::Pool;
use std::collections::BTreeSet;

/// Called for each leaf that is read; its error ends the check.
pub type Step<'a> = &'a mut dyn FnMut() -> Result<()>;

/// Checks the delta tree of an index. Findings go to `report`. Returns the delta tree's pages.
/// While something is pending, every leaf of the index is read.
pub fn check(
    pool: &Pool,
    index: &IndexTrees,
    step: Step<'_>,
    report: &mut dyn FnMut(&str),
) -> Result<BTreeSet<PageNo>> {
    debug_assert!(
        holds_no_latch(),
        "I5: a base leaf is latched before leaves of the delta tree"
    );
    let Some(delta) = &index.delta else {
        return Ok(BTreeSet::new());
    };
    let each = &mut |key: &[u8], value: &[u8]| {
        if key.len() < PARTITION_NUMBER || !is_valid(value) {
            return Some("a pending change that cannot be decoded".into());
        }
        (!delta.maybe_pending(entry_key(key))).then(|| "a pending change that the filter does not know".into())
    };
    let tree = delta.tree.verify_with(pool, each, step)?;
    tree.findings.iter().for_each(|finding| report(finding));
    if !tree.findings.is_empty() || tree.entries == 0 {
        return Ok(tree.pages);
    }
    match check_each(pool, index, delta, step, report) {
        // A broken page of the index is a finding of its own check.
        Ok(()) | Err(Error::Corrupt(_)) => Ok(tree.pages),
        Err(e) => Err(e),
    }
}
fn check_each(
    pool: &Pool,
    index: &IndexTrees,
    delta: &Delta,
    step: Step<'_>,
    report: &mut dyn FnMut(&str),
) -> Result<()> {
    let mut merging = Merging::default();
    let mut leaf = Some(index.tree.leaf_owning(pool, &[])?);
    while let Some(at) = leaf {
        step()?;
        merging.start(pool, delta, &at, &[], None)?;
        loop {
            match merging.next(&at, false) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(Error::Corrupt(damage)) => report(&damage.what),
                Err(e) => return Err(e),
            }
        }
        leaf = index.tree.step_right(pool, at)?;
    }
    Ok(())
}

//! How many asserts a module has for each thousand of its lines. Tests, and what they use, do not
//! count.
//!
//! An assert states what must hold whatever users, disks and files do: a pre- or postcondition, an
//! invariant, an order. A module that falls under its figure has got code without that.
use super::source::{code, Source};
use std::collections::BTreeMap;

/// Module, and its asserts for 1,000 lines, at least. The figures only rise.
const LEAST: &[(&str, usize)] = &[
    ("engine", 20),
    ("table", 20),
    ("txn", 20),
    ("index", 20),
    ("change", 20),
    ("entry", 20),
    ("btree", 20),
    ("space", 20),
    ("pool", 20),
    ("redo", 20),
    ("io", 16),
    ("base", 20),
];

/// Asserts and lines of each module.
fn counts(sources: &[Source]) -> BTreeMap<&str, (usize, usize)> {
    let mut out = BTreeMap::new();
    for source in sources {
        let Some((module, _)) = source.name.split_once('/') else {
            continue;
        };
        let (asserts, lines): &mut (usize, usize) = out.entry(module).or_default();
        let own = &source.lines[..source.test_from];
        *asserts += own.iter().filter(|line| is_assert(code(line))).count();
        *lines += own.len();
    }
    out
}

fn is_assert(line: &str) -> bool {
    let names = ["assert!(", "assert_eq!(", "assert_ne!("];
    names.iter().any(|name| line.contains(name))
}

/// The modules with too few asserts, and those without a figure.
pub fn too_few(sources: &[Source]) -> Vec<String> {
    let least = |module: &str| LEAST.iter().find(|(name, _)| *name == module).map(|(_, least)| *least);
    counts(sources)
        .into_iter()
        .filter_map(|(module, (asserts, lines))| match least(module) {
            None => Some(format!("{module}: it has no figure in the table")),
            Some(least) if asserts * 1000 < least * lines => Some(format!(
                "{module}: {asserts} asserts in {lines} lines, that is fewer than {least} for 1,000"
            )),
            Some(_) => None,
        })
        .collect()
}

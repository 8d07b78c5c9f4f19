//! What a statement that renames or drops a table means to foreign keys.
//!
//! Called by `ddl`, under the DDL mutex. Takes no latch.
use crate::base::sync::{holds, Rank};
use crate::base::{planted, Error, ForeignFault, Mutant, Result};
use crate::table::catalog::dictionary::Catalog;
use crate::table::catalog::foreign_key::ForeignKeySpec;
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use std::sync::Arc;

/// Gives the foreign keys of a table new names.
pub fn rename_foreign_keys(layout: &mut Layout, names: &[String]) -> Result<()> {
    if names.len() != layout.foreign.len() {
        let what = format!("{} names for {} foreign keys", names.len(), layout.foreign.len());
        return Err(Error::Invalid(what));
    }
    for (spec, name) in layout.foreign.iter_mut().zip(names) {
        Arc::make_mut(spec).name.clone_from(name);
    }
    Ok(())
}

/// The first `kept` foreign keys become what those of `table` are now (K8). Since the statement
/// read them, their parents and the parents' columns may have got new names. `renamed`: columns of
/// the table that get new names, (old, new).
pub(in crate::table) fn take_as_they_are(
    specs: &mut [Arc<ForeignKeySpec>],
    kept: usize,
    table: &Table,
    renamed: &[(&str, &str)],
) -> Result<()> {
    debug_assert!(holds(Rank::Catalog), "K8: no foreign key gets other names meanwhile");
    if planted(Mutant::ForeignKeysAsRead) {
        return Ok(());
    }
    let name = table.name();
    for spec in specs.iter_mut().take(kept) {
        let now = table.layout().foreign.iter().find(|now| now.name == spec.name);
        let now = now.ok_or_else(|| Error::Invalid(format!("{name} has no foreign key {}", spec.name)))?;
        *spec = Arc::new(now.with_new_names(&name, &name, renamed));
    }
    Ok(())
}

/// Makes the foreign keys that name `from` name `to`. Those of the table itself are in `layout`.
/// The new definitions of its children are returned.
pub(in crate::table) fn followers(
    catalog: &Catalog,
    from: &str,
    to: &str,
    layout: &mut Layout,
) -> Vec<(Arc<Table>, Layout)> {
    debug_assert!(holds(Rank::Catalog), "children follow a parent under the DDL mutex");
    debug_assert_ne!(from, to, "foreign keys follow to another name");
    let follow = |spec: &mut Arc<ForeignKeySpec>| {
        if spec.parent == from {
            Arc::make_mut(spec).parent = to.to_string();
        }
    };
    layout.foreign.iter_mut().for_each(follow);
    let children = catalog.foreign.read().children_of(from);
    let others = children.iter().filter(|child| *child != from);
    let others = others.filter_map(|child| catalog.get(child));
    others
        .map(|child| {
            let mut layout = child.layout().clone();
            layout.foreign.iter_mut().for_each(follow);
            (child, layout)
        })
        .collect()
}

/// The table that the new one `layout` replaces, if foreign keys have to follow to the new name.
pub(in crate::table) fn replaced(catalog: &Catalog, layout: &Layout, old: &str) -> Option<String> {
    let has_children = !catalog.foreign.read().children_of(old).is_empty();
    let is_noted = !layout.temporary && (has_children || !layout.foreign.is_empty());
    is_noted.then(|| old.to_string())
}

/// Fails if another table refers to this one, unless that child may lose its parent.
pub(in crate::table) fn check_no_child(catalog: &Catalog, name: &str, may_lose: &dyn Fn(&str) -> bool) -> Result<()> {
    debug_assert!(holds(Rank::Catalog), "no child comes between the check and the drop");
    let foreign = catalog.foreign.read();
    let children = foreign.children_of(name).into_iter();
    // A table that is being made is no child yet.
    let children = Vec::from_iter(children.filter(|child| child != name && foreign.replaced_by(child).is_none()));
    drop(foreign);
    for child in children.iter().filter(|child| !may_lose(child)) {
        let table = catalog.get(child);
        let foreign = table.iter().flat_map(|table| &table.layout().foreign);
        if let Some(spec) = foreign.into_iter().find(|spec| spec.parent == name) {
            return Err(Error::TableIsReferenced(Box::new(ForeignFault {
                child: child.clone(),
                constraint: spec.name.clone(),
                index: 0,
            })));
        }
    }
    Ok(())
}

/// The definitions of the other tables whose foreign keys name these columns of their parent
/// `table`, with the new names. `renamed`: (old, new). A table that is made to replace `table` has
/// the new names already.
pub(in crate::table) fn followers_of_columns(
    catalog: &Catalog,
    table: &str,
    renamed: &[(&str, &str)],
) -> Vec<(Arc<Table>, Layout)> {
    debug_assert!(holds(Rank::Catalog), "children follow a column under the DDL mutex");
    if renamed.is_empty() {
        return Vec::new();
    }
    let foreign = catalog.foreign.read();
    let mut children = foreign.children_of(table);
    children.retain(|child| child != table && foreign.replaced_by(child) != Some(table));
    drop(foreign);
    let others = children.iter().filter_map(|child| catalog.get(child));
    others
        .map(|child| {
            let (name, mut layout) = (child.name(), child.layout().clone());
            for spec in &mut layout.foreign {
                *spec = Arc::new(spec.with_new_names(&name, table, renamed));
            }
            (child, layout)
        })
        .collect()
}

//! Binds foreign keys to the indexes of their tables, and checks definitions that have or need any.
//!
//! A foreign key is bound anew whenever the definition of its child or of its parent changes. That
//! is done under the DDL mutex, after the change is durable. So the result of [`Table::foreign`]
//! may be outdated by one statement. A row change that depends on it checks it again at its end
//! (`dml/cascade.rs`).
//!
//! Locks: the catalog's maps, for a moment. Called by `ddl`, `dictionary` and index changes.
use crate::base::{Error, ForeignFlaw, ForeignRefusal, Result};
use crate::table::catalog::dictionary::Catalog;
use crate::table::catalog::foreign_key::{begins_with, first_unlike, shape_of};
use crate::table::catalog::foreign_key::{ForeignAction, ForeignEnd, ForeignKey, ForeignKeySpec, ForeignKeys};
use crate::table::catalog::key_part::{KeyPart, UNMARKED};
use crate::table::catalog::layout::Layout;
use crate::table::catalog::table::Table;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Binds the foreign keys of these tables, and of their parents and children. The caller holds the
/// DDL mutex, and the tables have their new definitions; a name without a table is a dropped one.
pub(in crate::table) fn bind(catalog: &Catalog, names: &[&str]) {
    let mut affected: BTreeSet<String> = BTreeSet::new();
    for name in names {
        let table = catalog.get(name);
        let specs = table.iter().flat_map(|table| &table.layout().foreign);
        let parents: BTreeSet<String> = specs.map(|spec| spec.parent.clone()).collect();
        let old = catalog.foreign.write().set(name, parents.clone());
        let parents = old.into_iter().chain(parents);
        affected.extend(
            parents
                .filter_map(|parent| catalog.parent_named(&parent))
                .map(|parent| parent.name()),
        );
        let foreign = catalog.foreign.read();
        affected.extend(
            foreign
                .names_of_parent(name)
                .iter()
                .flat_map(|name| foreign.children_of(name)),
        );
        drop(foreign);
        affected.insert(name.to_string());
    }
    for name in &affected {
        if let Some(table) = catalog.get(name) {
            table.set_foreign(keys_of(catalog, name, table.layout()));
        }
    }
}

/// Binds the foreign keys of all tables: at the start.
pub(in crate::table) fn bind_all(catalog: &Catalog) {
    let names = catalog.names();
    for table in names.iter().filter_map(|name| catalog.get(name)) {
        if let Some(replaces) = &table.layout().replaces {
            catalog.foreign.write().note_made(&table.name(), replaces, &[]);
        }
    }
    bind(catalog, &Vec::from_iter(names.iter().map(String::as_str)));
}

fn keys_of(catalog: &Catalog, name: &str, layout: &Layout) -> ForeignKeys {
    let mut keys = ForeignKeys::default();
    let carried_over = carried_over(catalog, name);
    for (i, spec) in layout.foreign.iter().enumerate() {
        let parent = catalog.parent_named(&spec.parent);
        let mut key = bound(layout, i, spec, parent.as_ref().map(|parent| parent.layout()));
        key.is_carried_over = carried_over.iter().any(|old| old.asks_the_same(spec));
        keys.references.push(Arc::new(key));
    }
    let (names, children) = {
        let foreign = catalog.foreign.read();
        let names = foreign.names_of_parent(name);
        let children = names.iter().flat_map(|name| foreign.children_of(name));
        let in_place = children.filter(|child| foreign.replaced_by(child).is_none());
        let children: BTreeSet<String> = in_place.collect();
        (names, children)
    };
    for child in children.iter().filter_map(|child| catalog.get(child)) {
        let foreign = child.layout().foreign.iter().enumerate();
        for (i, spec) in foreign.filter(|(_, spec)| names.contains(&spec.parent)) {
            let bound = Some(bound(child.layout(), i, spec, Some(layout))).filter(|key| key.parent.is_some());
            keys.has_unbound_children |= bound.is_none();
            keys.referenced.extend(bound.map(Arc::new));
        }
    }
    debug_assert!(
        keys.references
            .is_sorted_by(|before, after| before.ordinal < after.ordinal),
        "the references stand in the order of the definition"
    );
    keys.referenced.sort_by(|a, b| order(a).cmp(&order(b)));
    debug_assert!(
        keys.referenced.iter().all(|key| key.parent.is_some()),
        "a key that refers to a table is bound to it"
    );
    keys
}

/// The foreign keys of the table that this one, which is being made, will replace; with the names
/// that their columns have in this one.
fn carried_over(catalog: &Catalog, name: &str) -> Vec<ForeignKeySpec> {
    let foreign = catalog.foreign.read();
    let Some(replaced) = foreign.replaced_by(name).map(str::to_string) else {
        return Vec::new();
    };
    let renamed = foreign.renamed_by(name);
    drop(foreign);
    let table = catalog.get(&replaced);
    let specs = table.iter().flat_map(|table| &table.layout().foreign);
    specs
        .map(|spec| spec.with_new_names(&replaced, &replaced, &borrowed(&renamed)))
        .collect()
}

/// The order in which the children of a row are looked for: by the parent's index, then by name.
fn order(key: &ForeignKey) -> (u32, &str) {
    (key.parent.as_ref().map_or(0, |end| end.index), &key.spec.name)
}

pub(in crate::table) fn bound(
    child: &Layout,
    ordinal: usize,
    spec: &Arc<ForeignKeySpec>,
    parent: Option<&Layout>,
) -> ForeignKey {
    debug_assert!(
        ordinal < child.foreign.len(),
        "a foreign key has a place in its child's definition"
    );
    let columns = spec.columns.len();
    debug_assert_eq!(
        columns,
        spec.parent_columns.len(),
        "each column of a foreign key refers to one of the parent"
    );
    let child_index = index_for(child, &spec.columns);
    let parent_end = parent.and_then(|parent| {
        let (index, parts) = index_for(parent, &spec.parent_columns)?;
        let unlike = child_index.and_then(|(_, child_parts)| first_unlike(child_parts, parts, columns));
        unlike.is_none().then(|| end(parent, index, parts, columns))
    });
    ForeignKey {
        spec: spec.clone(),
        ordinal: ordinal as u32,
        is_carried_over: false,
        child: match child_index {
            Some((index, parts)) => end(child, index, parts, columns),
            None => end(child, 0, &[], 0),
        },
        parent: parent_end,
    }
}

fn end(layout: &Layout, index: u32, parts: &[KeyPart], columns: usize) -> ForeignEnd {
    let id = layout.index(index).map_or(0, |index| index.id);
    debug_assert_ne!(id, 0, "the parts are those of an index");
    debug_assert!(
        columns <= parts.len(),
        "the index has a part for each column of the foreign key"
    );
    ForeignEnd {
        table: layout.id,
        index: id,
        shape: shape_of(parts, columns),
        is_whole_clustered_key: index == 0 && columns > 0 && parts.len() == columns,
    }
}

/// The index that serves these columns: 0 = clustered, i + 1 = secondary i. As in InnoDB, the
/// oldest one.
pub(in crate::table) fn index_for<'a>(layout: &'a Layout, columns: &[String]) -> Option<(u32, &'a [KeyPart])> {
    let ordinals = 0..=layout.secondary.len() as u32;
    let all = ordinals.map(|ordinal| (ordinal, layout.parts(ordinal)));
    let fitting = all.filter(|(_, parts)| begins_with(parts, columns));
    fitting.min_by_key(|(ordinal, _)| layout.index(*ordinal).map(|index| index.id))
}

/// The table that a new one will replace. Both may have the same foreign keys.
#[derive(Clone, Copy)]
pub(in crate::table) struct Replaced<'a> {
    pub name: &'a str,
    /// Its columns that get new names, (old, new).
    pub renamed: &'a [(&'a str, &'a str)],
    /// By `replace_tables`: children that it does not fit may go on without a parent. A copy must
    /// fit them, as in InnoDB.
    pub in_place: bool,
}

/// Checks the foreign keys of a table that is created or altered, and those of children whose
/// missing parent has its name. `unchecked`: the user has turned checks off; a parent may be
/// missing.
pub(in crate::table) fn check_definition(
    catalog: &Catalog,
    name: &str,
    layout: &Layout,
    replaces: Option<Replaced<'_>>,
    unchecked: bool,
) -> Result<()> {
    check_own(catalog, name, layout, replaces.map(|replaced| replaced.name), unchecked)?;
    if unchecked {
        return Ok(());
    }
    let Some(Replaced {
        name: old,
        renamed,
        in_place,
    }) = replaces
    else {
        return check_waiting_children(catalog, name, layout, None, &[]);
    };
    let before = catalog.get(old).filter(|_| in_place);
    check_waiting_children(catalog, old, layout, before.as_ref().map(|old| old.layout()), renamed)
}

/// Checks the table's own foreign keys alone.
pub(in crate::table) fn check_own(
    catalog: &Catalog,
    name: &str,
    layout: &Layout,
    replaces: Option<&str>,
    unchecked: bool,
) -> Result<()> {
    for spec in &layout.foreign {
        check_name(catalog, name, layout, spec, replaces)?;
        let as_parent = (spec.parent == name || Some(&spec.parent[..]) == replaces).then_some(layout);
        let parent = match as_parent {
            Some(_) => None,
            None => catalog.parent_named(&spec.parent),
        };
        let parent = as_parent.or(parent.as_ref().map(|parent| parent.layout()));
        let replaced = replaces.and_then(|old| catalog.get(old));
        let old = replaced.as_ref().map(|old| old.layout());
        let is_it = |other: &&Arc<ForeignKeySpec>| other.name == spec.name && other.parent == spec.parent;
        let old_parent = as_parent.and(old).or(parent);
        match old.and_then(|old| Some((old, old.foreign.iter().find(is_it)?))) {
            // A foreign key may lack a fitting parent, or its index, if it did so before.
            Some((old, before)) => {
                let had_parent = check_key(catalog, old, before, old_parent, MayLack::BOTH).is_ok();
                let may_lack = MayLack {
                    parent: true,
                    index: unchecked || index_for(old, &before.columns).is_none(),
                };
                check_key(
                    catalog,
                    layout,
                    spec,
                    parent.filter(|_| had_parent && !unchecked),
                    may_lack,
                )?;
            }
            // As in InnoDB, a new one to the table itself needs an index that exists already.
            None => {
                let may_lack = MayLack {
                    parent: unchecked,
                    index: false,
                };
                check_key(catalog, layout, spec, old_parent, may_lack)?;
                check_key(catalog, layout, spec, parent, may_lack)?;
            }
        }
    }
    Ok(())
}

/// Checks that the other tables whose foreign keys name this parent can be bound to it. `before`:
/// the parent's definition before the statement; what did not fit it need not fit now.
/// `renamed`: columns that these foreign keys name by their old names, (old, new).
pub(in crate::table) fn check_waiting_children(
    catalog: &Catalog,
    name: &str,
    layout: &Layout,
    before: Option<&Layout>,
    renamed: &[(&str, &str)],
) -> Result<()> {
    let children = catalog.foreign.read().children_of(name);
    for child in children
        .iter()
        .filter(|child| *child != name)
        .filter_map(|child| catalog.get(child))
    {
        let renamed = match catalog.foreign.read().replaced_by(&child.name()) == Some(name) {
            true => &[][..],
            false => renamed,
        };
        let fits = |spec: &ForeignKeySpec, parent| check_key(catalog, child.layout(), spec, parent, MayLack::BOTH);
        for spec in child.layout().foreign.iter().filter(|spec| spec.parent == name) {
            if before.is_some_and(|before| fits(spec, Some(before)).is_err()) {
                continue;
            }
            let spec = spec.with_new_names(&child.name(), name, renamed);
            fits(&spec, Some(layout)).map_err(|e| match e {
                Error::ForeignDefinition(why) => Error::ForeignUnfit(why),
                e => e,
            })?;
        }
    }
    Ok(())
}

/// Why the parent of this foreign key of `child` does not fit it, so that the foreign key is not in
/// force. None: it does, or it is missing.
pub fn foreign_misfit(catalog: &Catalog, child: &Table, spec: &ForeignKeySpec) -> Option<String> {
    let parent = catalog.parent_named(&spec.parent)?;
    match check_key(catalog, child.layout(), spec, Some(parent.layout()), MayLack::BOTH) {
        Err(Error::ForeignDefinition(refusal)) => {
            let about = about(spec);
            Some(
                refusal
                    .why
                    .strip_prefix(&about)
                    .map_or(refusal.why.clone(), str::to_string),
            )
        }
        _ => None,
    }
}

/// How a reason begins.
fn about(spec: &ForeignKeySpec) -> String {
    format!("foreign key {}: ", constraint_of(&spec.name))
}

fn check_name(
    catalog: &Catalog,
    name: &str,
    layout: &Layout,
    spec: &ForeignKeySpec,
    replaces: Option<&str>,
) -> Result<()> {
    let same = |other: &Arc<ForeignKeySpec>| other.name.to_lowercase() == spec.name.to_lowercase();
    if layout.foreign.iter().filter(|other| same(other)).count() > 1 {
        return Err(Error::ForeignNameTaken(spec.name.clone()));
    }
    let others = catalog.foreign.read().all_children();
    let others = others
        .iter()
        .filter(|other| *other != name && Some(&other[..]) != replaces);
    for other in others.filter_map(|other| catalog.get(other)) {
        if other.layout().foreign.iter().any(same) {
            return Err(Error::ForeignNameTaken(spec.name.clone()));
        }
    }
    Ok(())
}

fn refused(spec: &ForeignKeySpec, flaw: ForeignFlaw, why: String) -> Error {
    Error::ForeignDefinition(Box::new(ForeignRefusal {
        constraint: spec.name.clone(),
        flaw,
        why: about(spec) + &why,
    }))
}

/// What a foreign key may be without.
#[derive(Clone, Copy)]
struct MayLack {
    /// The parent's table.
    parent: bool,
    /// The child's index.
    index: bool,
}

impl MayLack {
    const BOTH: MayLack = MayLack {
        parent: true,
        index: true,
    };
}

/// Faults of the parent are reported first, as in InnoDB.
fn check_key(
    catalog: &Catalog,
    child: &Layout,
    spec: &ForeignKeySpec,
    parent: Option<&Layout>,
    may_lack: MayLack,
) -> Result<()> {
    let other = |why: String| Err(refused(spec, ForeignFlaw::Other, why));
    if spec.columns.len() != spec.parent_columns.len() || spec.columns.is_empty() {
        return other("it must name as many columns of the parent as of the child".into());
    }
    let child_parts = match index_for(child, &spec.columns) {
        Some((_, parts)) => parts,
        None if may_lack.index => &[],
        None => {
            return other(format!(
                "the table has no index whose first columns are ({}), each in its whole length",
                spec.columns.join(", ")
            ))
        }
    };
    if child_parts.iter().any(|part| part.domain.ends_with(UNMARKED)) {
        return other(
            "an earlier version made the table, which has system versioning; run ALTER TABLE ... FORCE first".into(),
        );
    }
    match parent {
        Some(parent) => check_parent(catalog, child_parts, spec, parent)?,
        None if may_lack.parent => {}
        None => {
            let shown = catalog.shown_name(&spec.parent);
            return other(format!("the parent table {shown} does not exist"));
        }
    }
    let sets_null = [spec.on_delete, spec.on_update].contains(&ForeignAction::SetNull);
    let parts = child_parts.iter().take(spec.columns.len());
    let mut not_null = parts.filter(|part| sets_null && !part.shape.nullable);
    match not_null.next() {
        None => Ok(()),
        Some(part) => {
            let why = format!("SET NULL is not possible, because column {} is NOT NULL", part.column);
            Err(refused(spec, ForeignFlaw::NotNull, why))
        }
    }
}

/// `child_parts`: empty, if the child has lost the index.
fn check_parent(catalog: &Catalog, child_parts: &[KeyPart], spec: &ForeignKeySpec, parent: &Layout) -> Result<()> {
    let shown = catalog.shown_name(&spec.parent);
    if !parent.has_parts() {
        let why =
            format!("the parent table {shown} was made by an earlier version; run ALTER TABLE {shown} FORCE first");
        return Err(refused(spec, ForeignFlaw::Other, why));
    }
    let unfit = |why: String| Err(refused(spec, ForeignFlaw::NoParentIndex, why));
    let Some((_, parent_parts)) = index_for(parent, &spec.parent_columns) else {
        return unfit(format!(
            "the parent table {shown} has no index whose first columns are ({}), each in its whole length",
            spec.parent_columns.join(", ")
        ));
    };
    if parent_parts.iter().any(|part| part.domain.ends_with(UNMARKED)) {
        let why = format!(
            "an earlier version made the parent table {shown}, which has system versioning; run ALTER TABLE {shown} FORCE first"
        );
        return Err(refused(spec, ForeignFlaw::Other, why));
    }
    match first_unlike(child_parts, parent_parts, spec.columns.len()) {
        None => Ok(()),
        Some((child, parent)) => unfit(format!(
            "column {} ({}) has another type than column {} ({}) of the parent table {shown}",
            child.column, child.domain, parent.column, parent.domain
        )),
    }
}

pub(in crate::table) fn borrowed(renamed: &[(String, String)]) -> Vec<(&str, &str)> {
    let pairs = renamed.iter();
    pairs.map(|(old, new)| (old.as_str(), new.as_str())).collect()
}

/// The part of a foreign key's name after the database.
pub fn constraint_of(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, constraint)| constraint)
}

fn lost(old: &Layout, new: &Layout, before: &[String], after: &[String]) -> bool {
    index_for(old, before).is_some() && index_for(new, after).is_none()
}

/// The foreign key, if any, that an index of `old` serves and no index of `new` does: the name of
/// its child, and itself. `name`: of the table. `renamed`: its columns, (old, new).
pub(in crate::table) fn needs_lost_index(
    catalog: &Catalog,
    name: &str,
    old: &Layout,
    new: &Layout,
    renamed: &[(&str, &str)],
) -> Option<(String, Arc<ForeignKeySpec>)> {
    let lost = |before: &[String], after: &[String]| lost(old, new, before, after);
    for spec in &new.foreign {
        let Some(before) = old.foreign.iter().find(|before| before.name == spec.name) else {
            continue;
        };
        let of_parent = spec.parent == name && lost(&before.parent_columns, &spec.parent_columns);
        if of_parent || lost(&before.columns, &spec.columns) {
            return Some((name.to_string(), spec.clone()));
        }
    }
    let children = catalog.foreign.read().children_of(name);
    let mut others = children.iter().filter(|child| *child != name);
    others.find_map(|child| {
        let table = catalog.get(child)?;
        let loses_parent = |spec: &&Arc<ForeignKeySpec>| {
            let after = spec.with_new_names(child, name, renamed).parent_columns;
            spec.parent == name && lost(&spec.parent_columns, &after)
        };
        let spec = table.layout().foreign.iter().find(loses_parent).cloned();
        Some((child.clone(), spec?))
    })
}

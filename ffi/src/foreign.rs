//! Foreign keys: their definitions, their list, and the rows that a cascade makes.
//!
//! # Safety
//! The contract of `lib.rs`. A `slc_row_sink *` or `slc_value_sink *` is lent to a callback of
//! `slc_row_maker`, which uses it until it returns. The context of a row maker is a connection,
//! which outlives its transaction handle.
use super::abi::*;
use super::engine::{array, enter, enter_value, name, names, slc_engine};
use super::statistics::part;
use super::table::slc_table;
use super::trx::slc_trx;
use sluice::base::{Error, Result};
use sluice::table::{foreign_misfit, Catalog, ForeignAction, ForeignKeySpec, KeyPart, Table};
use sluice::txn::{ChildRow, MadeEntry, MadeRow, MadeValue, ReferenceValue, RowMaker};
use std::ffi::{c_char, c_int, c_void};

/// # Safety
/// `parts` has `count` members with NUL-terminated texts.
pub unsafe fn key_parts(parts: *const slc_index_part, count: u32) -> Result<Vec<KeyPart>> {
    // SAFETY: the caller's promise, here and below.
    let parts = unsafe { array(parts, count) }.iter();
    parts
        .map(|of| {
            Ok(KeyPart {
                column: unsafe { name(of.column)? }.to_string(),
                domain: unsafe { name(of.domain)? }.to_string(),
                is_whole: of.whole != 0,
                shape: part(&of.shape),
            })
        })
        .collect()
}

/// # Safety
/// `from` has `count` NUL-terminated texts.
unsafe fn texts(from: *const *const c_char, count: u32) -> Result<Vec<String>> {
    // SAFETY: the caller's promise.
    let texts = unsafe { names(from, count)? };
    Ok(texts.into_iter().map(str::to_string).collect())
}

/// # Safety
/// `defs` has `count` members, whose arrays are as long as their counts say.
pub unsafe fn foreign_specs(defs: *const slc_foreign_def, count: u32) -> Result<Vec<ForeignKeySpec>> {
    // SAFETY: the caller's promise, here and below.
    let defs = unsafe { array(defs, count) }.iter();
    let action = |number| {
        let unknown = || Error::Invalid(format!("action {number} of a foreign key"));
        ForeignAction::from_number(number).ok_or_else(unknown)
    };
    defs.map(|def| {
        Ok(ForeignKeySpec {
            name: unsafe { name(def.name)? }.to_string(),
            columns: unsafe { texts(def.columns, def.column_count)? },
            parent: unsafe { name(def.parent)? }.to_string(),
            parent_columns: unsafe { texts(def.parent_columns, def.column_count)? },
            on_delete: action(def.on_delete)?,
            on_update: action(def.on_update)?,
        })
    })
    .collect()
}

/// The index of the table that one end of a foreign key is bound to.
struct EndIndex<'a> {
    name: &'a str,
    parts: &'a [KeyPart],
}

/// None: the table has lost the index since.
fn end_index(table: &Table, id: u32) -> Option<EndIndex<'_>> {
    let layout = table.layout();
    let mut all = 0..=layout.secondary.len() as u32;
    let ordinal = all.find(|i| layout.index(*i).is_some_and(|index| index.id == id))?;
    Some(EndIndex {
        name: &layout.index(ordinal)?.name,
        parts: layout.parts(ordinal),
    })
}

/// The columns' names and whether each may be NULL: by the index, which writes names as the table
/// does. Without one, by the definition.
fn columns_of<'a>(named: &'a [String], index: Option<&EndIndex<'a>>) -> (Vec<slc_bytes>, Vec<u8>) {
    let by_index = |index: &EndIndex<'a>| {
        let parts = index.parts.iter().take(named.len());
        parts
            .map(|part| (slc_bytes::of(part.column.as_bytes()), u8::from(part.shape.nullable)))
            .unzip()
    };
    let by_definition = || named.iter().map(|name| (slc_bytes::of(name.as_bytes()), 0)).unzip();
    let fits = |index: &&EndIndex<'a>| index.parts.len() >= named.len();
    index.filter(fits).map_or_else(by_definition, by_index)
}

/// Gives the foreign keys of one child to `give`, those alone that name `parent` if it is given.
fn list_child(catalog: &Catalog, child: &Table, parent: Option<&str>, give: &mut dyn FnMut(&slc_foreign_info)) {
    let child_name = child.name();
    let keys = child.foreign();
    let bound = keys.iter().flat_map(|keys| &keys.references);
    for key in bound.filter(|key| parent.is_none_or(|parent| key.spec.parent == parent)) {
        let spec = &key.spec;
        let child_index = end_index(child, key.child.index).filter(|_| !key.lacks_index());
        let parent_table = key.parent.as_ref().and_then(|end| catalog.by_id(end.table));
        let parent = key.parent.as_ref().zip(parent_table.as_deref());
        let parent_index = parent.and_then(|(end, table)| end_index(table, end.index));
        let (columns, child_nullable) = columns_of(&spec.columns, child_index.as_ref());
        let (parent_columns, parent_nullable) = columns_of(&spec.parent_columns, parent_index.as_ref());
        let unbound = key.parent.is_none().then_some(spec);
        let misfit = unbound
            .and_then(|spec| foreign_misfit(catalog, child, spec))
            .unwrap_or_default();
        let name = |index: &Option<EndIndex<'_>>| {
            let name = index.as_ref().map(|index| slc_bytes::of(index.name.as_bytes()));
            name.unwrap_or(slc_bytes::EMPTY)
        };
        give(&slc_foreign_info {
            name: slc_bytes::of(spec.name.as_bytes()),
            child: slc_bytes::of(child_name.as_bytes()),
            parent: slc_bytes::of(spec.parent.as_bytes()),
            column_count: columns.len() as u32,
            columns: columns.as_ptr(),
            parent_columns: parent_columns.as_ptr(),
            child_nullable: child_nullable.as_ptr(),
            parent_nullable: parent_nullable.as_ptr(),
            child_index: name(&child_index),
            parent_index: name(&parent_index),
            misfit: slc_bytes::of(misfit.as_bytes()),
            on_delete: spec.on_delete.number(),
            on_update: spec.on_update.number(),
        });
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_foreign_list(
    engine: *mut slc_engine,
    which: u32,
    table: *const c_char,
    cb: slc_foreign_cb,
    ctx: *mut c_void,
) -> slc_err {
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || {
        let catalog = &engine.store().catalog;
        // SAFETY: the callback has the header's signature.
        let mut give = |info: &slc_foreign_info| {
            if let Some(cb) = cb {
                unsafe { cb(ctx, info) }
            }
        };
        let named = || unsafe { name(table) };
        match which {
            SLC_FOREIGN_OF_CHILD => {
                if let Some(child) = catalog.get(named()?) {
                    list_child(catalog, &child, None, &mut give);
                }
            }
            SLC_FOREIGN_OF_PARENT => {
                let parent = named()?;
                for child in catalog
                    .children_of(parent)
                    .iter()
                    .filter_map(|child| catalog.get(child))
                {
                    list_child(catalog, &child, Some(parent), &mut give);
                }
            }
            _ => {
                for child in catalog.tables() {
                    list_child(catalog, &child, None, &mut give);
                }
            }
        }
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_foreign(table: *mut slc_table) -> u32 {
    let table = unsafe { slc_table::of(table) };
    enter_value(&table.engine, 0, || {
        let keys = table.table.foreign();
        keys.as_ref().map_or(0, |keys| {
            let lacks_index = keys.references.iter().any(|key| key.lacks_index());
            let bits = [!keys.references.is_empty(), keys.has_children(), lacks_index];
            (0..).zip(bits).map(|(i, bit)| u32::from(bit) << i).sum()
        })
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_marks_past(table: *mut slc_table) -> c_int {
    let table = unsafe { slc_table::of(table) };
    enter_value(&table.engine, 0, || table.table.layout().marks_past as c_int)
}

/// What `slc_row_sink *` points to.
pub struct slc_row_sink(*mut MadeRow);

#[no_mangle]
pub unsafe extern "C" fn slc_row_sink_put(
    sink: *mut slc_row_sink,
    pk: slc_bytes,
    row: slc_bytes,
    entries: *const slc_entry,
    count: u32,
) {
    // SAFETY: the contract above, and that of the arguments.
    let (made, entries) = unsafe { (&mut *(*sink).0, array(entries, count)) };
    made.pk = unsafe { pk.get() }.to_vec();
    made.row = unsafe { row.get() }.to_vec();
    let made_entry = |entry: &slc_entry| MadeEntry {
        index: entry.index,
        user_key_len: entry.user_key_len,
        has_null: entry.unique_check == 0,
        key: unsafe { entry.key.get() }.to_vec(),
        value: unsafe { entry.value.get() }.to_vec(),
    };
    made.entries = entries.iter().map(made_entry).collect();
}

#[no_mangle]
pub unsafe extern "C" fn slc_row_sink_keeps_unindexed(sink: *mut slc_row_sink) {
    // SAFETY: the contract above.
    unsafe { (*(*sink).0).keeps_unindexed = true }
}

/// What `slc_value_sink *` points to.
pub struct slc_value_sink(*mut Vec<MadeValue>);

#[no_mangle]
pub unsafe extern "C" fn slc_value_sink_put(
    sink: *mut slc_value_sink,
    domain: slc_bytes,
    is_null: c_int,
    image: slc_bytes,
) {
    // SAFETY: the contract above, and that of the arguments.
    let (made, domain, image) = unsafe { (&mut *(*sink).0, domain.get(), image.get()) };
    made.push(MadeValue {
        domain: String::from_utf8_lossy(domain).into_owned(),
        image: (is_null == 0).then(|| image.to_vec()),
    });
}

/// A row of a table. The bytes live through the call of the row maker.
#[repr(C)]
pub struct slc_row_of {
    table: slc_bytes,
    pk: slc_bytes,
    row: slc_bytes,
}

impl slc_row_of {
    fn new(of: ChildRow<'_>) -> slc_row_of {
        slc_row_of {
            table: slc_bytes::of(of.table.as_bytes()),
            pk: slc_bytes::of(of.pk),
            row: slc_bytes::of(of.row),
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct slc_row_maker {
    ctx: *mut c_void,
    entries: Option<unsafe extern "C" fn(*mut c_void, child: *const slc_row_of, *mut slc_row_sink) -> c_int>,
    changed: Option<
        unsafe extern "C" fn(
            *mut c_void,
            child: *const slc_row_of,
            u32,
            parent: *const slc_row_of,
            *mut slc_row_sink,
            *mut slc_row_sink,
            *mut slc_row_sink,
        ) -> c_int,
    >,
    ended: Option<
        unsafe extern "C" fn(*mut c_void, child: *const slc_row_of, *mut slc_row_sink, *mut slc_row_sink) -> c_int,
    >,
    reference: Option<unsafe extern "C" fn(*mut c_void, child: *const slc_row_of, u32, *mut slc_value_sink) -> c_int>,
}
// SAFETY: the functions are called by the thread that uses the transaction handle.
unsafe impl Send for slc_row_maker {}

fn made(code: c_int) -> Result<()> {
    match code {
        0 => Ok(()),
        _ => Err(Error::RowNotMade),
    }
}

impl RowMaker for slc_row_maker {
    fn entries(&mut self, of: ChildRow<'_>, to: &mut MadeRow) -> Result<()> {
        let entries = self.entries.ok_or(Error::RowNotMade)?;
        // SAFETY: the header's signature; the bytes and the sink live through the call.
        made(unsafe { entries(self.ctx, &slc_row_of::new(of), &mut slc_row_sink(to)) })
    }
    fn changed(
        &mut self,
        of: ChildRow<'_>,
        foreign: u32,
        value: ReferenceValue<'_>,
        before: &mut MadeRow,
        after: &mut MadeRow,
        past: &mut MadeRow,
    ) -> Result<()> {
        let changed = self.changed.ok_or(Error::RowNotMade)?;
        let parent = match value {
            ReferenceValue::Null => None,
            ReferenceValue::Parent { table, pk, row } => Some(slc_row_of::new(ChildRow { table, pk, row })),
        };
        let parent = parent.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let (before, after, past) = (
            &mut slc_row_sink(before),
            &mut slc_row_sink(after),
            &mut slc_row_sink(past),
        );
        // SAFETY: as above.
        made(unsafe { changed(self.ctx, &slc_row_of::new(of), foreign, parent, before, after, past) })
    }
    fn ended(&mut self, of: ChildRow<'_>, before: &mut MadeRow, after: &mut MadeRow) -> Result<()> {
        let ended = self.ended.ok_or(Error::RowNotMade)?;
        let (before, after) = (&mut slc_row_sink(before), &mut slc_row_sink(after));
        // SAFETY: as above.
        made(unsafe { ended(self.ctx, &slc_row_of::new(of), before, after) })
    }
    fn reference(&mut self, of: ChildRow<'_>, foreign: u32, to: &mut Vec<MadeValue>) -> Result<()> {
        let reference = self.reference.ok_or(Error::RowNotMade)?;
        // SAFETY: as above.
        made(unsafe { reference(self.ctx, &slc_row_of::new(of), foreign, &mut slc_value_sink(to)) })
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_set_row_maker(trx: *mut slc_trx, maker: *const slc_row_maker) {
    let (engine, trx) = unsafe { slc_trx::of(trx) };
    let maker = unsafe { *maker };
    enter_value(engine, (), || trx.row_maker = Some(Box::new(maker)));
}

#[no_mangle]
pub unsafe extern "C" fn slc_trx_foreign_key_checks(trx: *mut slc_trx, on: c_int) {
    let (_, trx) = unsafe { slc_trx::of(trx) };
    trx.foreign_key_checks = on != 0;
}

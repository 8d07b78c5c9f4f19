//! Tables: DDL, handles, AUTO_INCREMENT.
//!
//! # Safety
//! The contract of `lib.rs`. A table handle is a `Box` from `slc_table_open`, which
//! `slc_table_close` takes back. Any number of threads may use it at once: the functions here only
//! take `&` of it. Schemas and index names that it gives out are kept in it until that close.
use super::abi::*;
use super::engine::{array, check_writable, enter, enter_code, enter_value, name, pairs_of_names, slc_engine};
use super::error::code;
use super::foreign::{foreign_specs, key_parts};
use super::trx::slc_trx;
use sluice::base::sync::RankedMutex;
use sluice::base::{Error, Result};
use sluice::change::Buffering;
use sluice::engine::Engine;
use sluice::table::{AutoincSeries, CreateMode, IndexSpec, RenameKind, RenameMode, Replacement, Table, TableSpec};
use std::ffi::{c_char, c_void, CString};
use std::sync::Arc;

/// What `slc_table *` points to: one open of a table.
pub struct slc_table {
    pub engine: Arc<Engine>,
    pub table: Arc<Table>,
    pub read_only: bool,
    /// Index names handed out as C strings; kept until close.
    names: RankedMutex<Vec<CString>>,
    /// Schemas handed out; kept until close.
    schema: RankedMutex<Vec<Vec<u8>>>,
}

impl slc_table {
    /// # Safety
    /// `table` is a live pointer from `slc_table_open`.
    pub unsafe fn of<'a>(table: *const slc_table) -> &'a slc_table {
        // SAFETY: the caller's promise.
        unsafe { &*table }
    }
}

/// # Safety
/// `def` has `index_count` indexes with NUL-terminated names, and a valid schema.
unsafe fn spec(def: &slc_table_def) -> Result<TableSpec> {
    let indexes = unsafe { array(def.indexes, def.index_count) }.iter();
    // SAFETY: the names are NUL-terminated.
    let indexes = indexes.map(|index| unsafe { index_spec(index) });
    Ok(TableSpec {
        temporary: def.flags & SLC_TABLE_TEMPORARY != 0,
        hidden_pk: def.flags & SLC_TABLE_HIDDEN_PK != 0,
        wide_pk: def.flags & SLC_TABLE_WIDE_PK != 0,
        pk_fixed_len: def.pk_fixed_len,
        marks_past: def.flags & SLC_TABLE_MARKS_PAST != 0,
        indexes: indexes.collect::<Result<_>>()?,
        pk_parts: unsafe { key_parts(def.parts, def.part_count)? },
        foreign: unsafe { foreign_specs(def.foreign, def.foreign_count)? },
        schema: unsafe { def.schema.get() }.to_vec(),
        change_buffering: own_buffering(def.change_buffering),
    })
}

/// As `slc_table_def` has it: 0 = the engine's setting, else the number + 1.
pub fn own_buffering(word: u32) -> Option<Buffering> {
    word.checked_sub(1).map(|n| Buffering::from_number(n as u64))
}

/// # Safety
/// The name of `def` is NUL-terminated.
pub unsafe fn index_spec(def: &slc_index_def) -> Result<IndexSpec> {
    Ok(IndexSpec {
        name: unsafe { name(def.name)? }.to_string(),
        unique: def.flags & SLC_INDEX_UNIQUE != 0,
        wide: def.flags & SLC_INDEX_WIDE != 0,
        parts: unsafe { key_parts(def.parts, def.part_count)? },
    })
}

/// # Safety
/// `text` is null or NUL-terminated.
unsafe fn text_or_null<'a>(text: *const c_char) -> Result<Option<&'a str>> {
    match text.is_null() {
        true => Ok(None),
        // SAFETY: the caller's promise.
        false => unsafe { name(text).map(Some) },
    }
}

/// A change of the catalog: refused on a read-only engine.
///
/// # Safety
/// `engine` is a live handle.
unsafe fn change(engine: *mut slc_engine, body: impl FnOnce(&Engine) -> Result<()>) -> slc_err {
    // SAFETY: the caller's promise.
    let (engine, read_only) = unsafe { (slc_engine::of(engine), slc_engine::is_read_only(engine)) };
    enter(engine, || {
        check_writable(read_only)?;
        body(engine)
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_create(
    engine: *mut slc_engine,
    table: *const c_char,
    def: *const slc_table_def,
) -> slc_err {
    unsafe {
        change(engine, |engine| {
            let replaces = text_or_null((*def).replaces)?;
            let unchecked = (*def).flags & SLC_TABLE_FOREIGN_UNCHECKED != 0;
            let mode = CreateMode {
                replaces,
                renamed_columns: &pairs_of_names((*def).renamed_columns, (*def).renamed_column_count)?,
                in_place: (*def).flags & SLC_TABLE_IN_PLACE != 0,
                kept_foreign: (*def).foreign_kept as usize,
                unchecked,
            };
            engine
                .store()
                .tables()
                .create_table_as(name(table)?, &spec(&*def)?, mode)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_drop(
    engine: *mut slc_engine,
    table: *const c_char,
    orphans: *const c_char,
) -> slc_err {
    unsafe {
        change(engine, |engine| {
            let orphans = text_or_null(orphans)?;
            let may_lose_parent = |child: &str| orphans.is_some_and(|prefix| child.starts_with(prefix));
            engine.store().tables().drop_table_as(name(table)?, &may_lose_parent)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_rename(
    engine: *mut slc_engine,
    from: *const c_char,
    to: *const c_char,
    mode: *const slc_rename,
) -> slc_err {
    unsafe {
        change(engine, |engine| {
            let mode = &*mode;
            let foreign_names = array(mode.foreign_names, mode.foreign_count).iter();
            let foreign_names = foreign_names.map(|text| Ok(name(*text)?.to_string()));
            let mode = RenameMode {
                kind: match mode.kind {
                    SLC_RENAME_OUT_OF_PLACE => RenameKind::OutOfPlace,
                    SLC_RENAME_INTO_PLACE => RenameKind::IntoPlace,
                    _ => RenameKind::Rename,
                },
                foreign_names: &foreign_names.collect::<Result<Vec<String>>>()?,
                replaces: text_or_null(mode.replaces)?,
                unchecked: mode.unchecked != 0,
            };
            engine.store().tables().rename_table_as(name(from)?, name(to)?, &mode)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_truncate(
    engine: *mut slc_engine,
    table: *const c_char,
    also: *const c_char,
    orphans: *const c_char,
) -> slc_err {
    unsafe {
        change(engine, |engine| {
            let orphans = text_or_null(orphans)?;
            let may_lose_parent = |child: &str| orphans.is_some_and(|prefix| child.starts_with(prefix));
            let names: Vec<&str> = std::iter::once(name(table)?).chain(text_or_null(also)?).collect();
            engine.store().tables().truncate_tables(&names, &may_lose_parent)
        })
    }
}

#[repr(C)]
pub struct slc_replacement {
    table: *mut slc_table,
    rebuilt: *const c_char,
    own_counter: i32,
}

#[no_mangle]
pub unsafe extern "C" fn slc_tables_replace(
    engine: *mut slc_engine,
    list: *const slc_replacement,
    count: u32,
    foreign_unchecked: i32,
) -> slc_err {
    unsafe {
        change(engine, |engine| {
            let mut replacements = Vec::new();
            for slc_replacement {
                table,
                rebuilt,
                own_counter,
            } in array(list, count)
            {
                let table = slc_table::of(*table);
                check_writable(table.read_only)?;
                let (table, rebuilt) = (&table.table, name(*rebuilt)?);
                replacements.push(Replacement {
                    table,
                    rebuilt,
                    has_own_counter: *own_counter != 0,
                });
            }
            engine
                .store()
                .tables()
                .replace_tables(&replacements, foreign_unchecked != 0)
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_check_decided(
    engine: *mut slc_engine,
    table: *const c_char,
    losers: i32,
    by: *mut u64,
) -> slc_err {
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || {
        let Some(writer) = engine.in_doubt.find_writer(unsafe { name(table)? }, losers != 0)? else {
            return Ok(());
        };
        unsafe { *by = writer };
        Err(Error::Locked)
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_exists(engine: *mut slc_engine, table: *const c_char) -> i32 {
    let engine = unsafe { slc_engine::of(engine) };
    enter_value(engine, 0, || match unsafe { name(table) } {
        Ok(name) => engine.store().catalog.get(name).is_some() as i32,
        Err(_) => 0,
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_list(engine: *mut slc_engine, cb: slc_text_cb, ctx: *mut c_void) {
    let engine = unsafe { slc_engine::of(engine) };
    let names = enter_value(engine, Vec::new(), || engine.store().catalog.names());
    if let Some(cb) = cb {
        for name in names {
            unsafe { cb(ctx, name.as_ptr().cast(), name.len()) };
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_open(
    engine: *mut slc_engine,
    table: *const c_char,
    out: *mut *mut slc_table,
) -> slc_err {
    let (engine, read_only) = unsafe { (slc_engine::of(engine), slc_engine::is_read_only(engine)) };
    enter_code(engine, || {
        let opened = unsafe { name(table) }.and_then(|name| engine.store().tables().open_table(name));
        match opened {
            Ok(table) => {
                let handle = slc_table {
                    engine: engine.clone(),
                    table,
                    read_only,
                    names: RankedMutex::default(),
                    schema: RankedMutex::default(),
                };
                unsafe { *out = Box::into_raw(Box::new(handle)) };
                SLC_OK
            }
            Err(e) => code(&engine.store().name_damage(e)),
        }
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_close(table: *mut slc_table) {
    // SAFETY: the caller gives the pointer up.
    let handle = unsafe { Box::from_raw(table) };
    enter_value(&handle.engine, (), || {
        handle.engine.store().tables().close_table(&handle.table)
    });
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_schema(table: *mut slc_table) -> slc_bytes {
    let handle = unsafe { slc_table::of(table) };
    let layout = handle.table.layout();
    let schema = &layout.schema;
    let mut kept = handle.schema.lock();
    if !kept.iter().any(|k| k == schema) {
        kept.push(schema.clone());
    }
    let found = kept.iter().find(|k| *k == schema);
    // The bytes of a kept Vec do not move when the outer Vec grows.
    found.map_or(slc_bytes::EMPTY, |k| slc_bytes::of(k))
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_replaces(
    engine: *mut slc_engine,
    named: *const c_char,
    cb: slc_text_cb,
    ctx: *mut c_void,
) -> slc_err {
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || {
        let tables = engine.store().tables();
        // SAFETY: the caller's promise.
        let table = tables.open_table(unsafe { name(named)? })?;
        let replaces = table.layout().replaces.clone();
        tables.close_table(&table);
        if let (Some(cb), Some(replaces)) = (cb, replaces) {
            // SAFETY: the callback has the header's signature.
            unsafe { cb(ctx, replaces.as_ptr().cast(), replaces.len()) }
        }
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_set_schema(
    engine: *mut slc_engine,
    table: *const c_char,
    schema: slc_bytes,
) -> slc_err {
    unsafe {
        change(engine, |engine| {
            engine.store().tables().set_table_schema(name(table)?, schema.get())
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_index_count(table: *mut slc_table) -> u32 {
    unsafe { slc_table::of(table) }.table.layout().secondary.len() as u32
}

/// Of two secondary indexes the younger one has the larger number: an operation checks them in that
/// order. `u32::MAX` for an ordinal out of range.
#[no_mangle]
pub unsafe extern "C" fn slc_table_index_id(table: *mut slc_table, i: u32) -> u32 {
    let handle = unsafe { slc_table::of(table) };
    let secondary = handle.table.layout().secondary.get(i as usize);
    secondary.map_or(u32::MAX, |secondary| secondary.index.id)
}

/// Valid until the table is closed; null for a number out of range.
#[no_mangle]
pub unsafe extern "C" fn slc_table_index_name(table: *mut slc_table, i: u32) -> *const c_char {
    let handle = unsafe { slc_table::of(table) };
    let Some(secondary) = handle.table.layout().secondary.get(i as usize) else {
        return std::ptr::null();
    };
    let Ok(name) = CString::new(secondary.index.name.as_str()) else {
        return std::ptr::null();
    };
    let mut kept = handle.names.lock();
    if let Some(known) = kept.iter().find(|k| **k == name) {
        return known.as_ptr();
    }
    let at = name.as_ptr();
    kept.push(name);
    at
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_next_row_id(table: *mut slc_table) -> u64 {
    unsafe { slc_table::of(table) }.table.next_row_id()
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_autoinc(table: *mut slc_table) -> u64 {
    unsafe { slc_table::of(table) }.table.autoinc()
}

fn series_of(series: &slc_autoinc_series) -> AutoincSeries {
    AutoincSeries {
        offset: series.offset,
        increment: series.increment,
        limit: series.limit,
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_autoinc_after(series: *const slc_autoinc_series, value: u64) -> u64 {
    series_of(unsafe { &*series }).after(value)
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_autoinc_reserve(
    table: *mut slc_table,
    series: *const slc_autoinc_series,
    wanted: u64,
    take: i32,
    first: *mut u64,
) -> u64 {
    let (handle, series) = unsafe { (slc_table::of(table), series_of(&*series)) };
    let values = match take {
        0 => handle.table.autoinc_next(&series),
        _ => handle.table.autoinc_reserve(&series, wanted),
    };
    unsafe { *first = values.first };
    values.count
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_autoinc_raise(table: *mut slc_table, next: u64) -> u64 {
    unsafe { slc_table::of(table) }.table.autoinc_raise(next)
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_autoinc_take_back(table: *mut slc_table, raised: u64, before: u64) {
    unsafe { slc_table::of(table) }.table.autoinc_take_back(raised, before);
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_autoinc_lock(table: *mut slc_table, trx: *mut slc_trx) -> slc_err {
    let handle = unsafe { slc_table::of(table) };
    let (engine, trx) = unsafe { slc_trx::of(trx) };
    enter(engine, || engine.store().row_locks().lock_autoinc(trx, &handle.table))
}
#[no_mangle]
pub unsafe extern "C" fn slc_table_autoinc_unlock(table: *mut slc_table, trx: *mut slc_trx) {
    let handle = unsafe { slc_table::of(table) };
    let (engine, trx) = unsafe { slc_trx::of(trx) };
    enter_value(engine, (), || {
        engine.store().row_locks().unlock_autoinc(trx, &handle.table)
    });
}
#[no_mangle]
pub unsafe extern "C" fn slc_table_autoinc_reset(table: *mut slc_table, next: u64) -> slc_err {
    let handle = unsafe { slc_table::of(table) };
    enter(&handle.engine, || {
        check_writable(handle.read_only)?;
        handle.engine.store().tables().reset_autoinc(&handle.table, next)
    })
}

/// Holds until the next restart. The catalog has the table's own option, too; the two differ only
/// after an EXCHANGE PARTITION.
#[no_mangle]
pub unsafe extern "C" fn slc_table_use_change_buffering(table: *mut slc_table, word: u32) {
    let table = unsafe { slc_table::of(table) };
    for secondary in &table.table.layout().secondary {
        if let Some(delta) = &secondary.index.delta {
            delta.set_buffering(own_buffering(word));
        }
    }
}

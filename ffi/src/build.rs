//! Index builds and the changes of a table's indexes.
//!
//! # Safety
//! The contract of `lib.rs`. A build handle is a `Box`: `slc_index_build_begin` gives it to the
//! caller. `slc_index_build_abort` takes it back, and so does a `slc_alter_indexes` that succeeds,
//! for each build in `add`. No build is named twice in one call. One thread at a time uses a build.
use super::abi::*;
use super::engine::{array, check_writable, enter, names, pairs_of_names, slc_engine};
use super::foreign::{foreign_specs, key_parts};
use super::table::{index_spec, own_buffering, slc_table};
use super::trx::slc_trx;
use sluice::base::{Error, Result};
use sluice::engine::Engine;
use sluice::table::{IndexBuild, IndexChange, KeyChange};
use std::ffi::c_char;
use std::sync::Arc;

/// What `slc_build *` points to.
pub struct slc_build {
    engine: Arc<Engine>,
    build: IndexBuild,
}

/// As in the header.
#[repr(C)]
pub struct slc_index_change {
    table: *mut slc_table,
    drop: *const *const c_char,
    drop_count: u32,
    rename: *const *const c_char,
    rename_count: u32,
    add: *const *mut slc_build,
    add_count: u32,
    order: *const *const c_char,
    order_count: u32,
    change_buffering: u32,
    schema: slc_bytes,
    keys: *const slc_index_def,
    key_count: u32,
    sets_foreign: u8,
    foreign_unchecked: u8,
    foreign: *const slc_foreign_def,
    foreign_count: u32,
    foreign_kept: u32,
    renamed_columns: *const *const c_char,
    renamed_column_count: u32,
}

#[no_mangle]
pub unsafe extern "C" fn slc_index_build_begin(
    engine: *mut slc_engine,
    table: *mut slc_table,
    def: *const slc_index_def,
    out: *mut *mut slc_build,
) -> slc_err {
    let (engine, table) = unsafe { (slc_engine::of(engine), slc_table::of(table)) };
    enter(engine, || {
        check_writable(table.read_only)?;
        let spec = unsafe { index_spec(&*def)? };
        let build = engine.store().indexes().begin_build(&table.table, &spec)?;
        let engine = engine.clone();
        unsafe { *out = Box::into_raw(Box::new(slc_build { engine, build })) };
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_index_build_add(
    build: *mut slc_build,
    key: slc_bytes,
    user_key_len: u32,
    unique_check: i32,
    value: slc_bytes,
) -> slc_err {
    let slc_build { engine, build } = unsafe { &mut *build };
    enter(engine, || {
        let (key, value) = unsafe { (key.get(), value.get()) };
        build.add(key, user_key_len as usize, unique_check != 0, value)
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_index_build_finish(build: *mut slc_build, trx: *mut slc_trx) -> slc_err {
    let slc_build { engine, build } = unsafe { &mut *build };
    let (_, trx) = unsafe { slc_trx::of(trx) };
    enter(engine, || build.finish(trx))
}

#[no_mangle]
pub unsafe extern "C" fn slc_index_build_put(
    build: *mut slc_build,
    key: slc_bytes,
    user_key_len: u32,
    unique_check: i32,
    value: slc_bytes,
) -> slc_err {
    let slc_build { engine, build } = unsafe { &mut *build };
    enter(engine, || {
        let (key, value) = unsafe { (key.get(), value.get()) };
        build.put(key, user_key_len as usize, unique_check != 0, value)
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_index_build_remove(build: *mut slc_build, key: slc_bytes) -> slc_err {
    let slc_build { engine, build } = unsafe { &mut *build };
    enter(engine, || build.remove(unsafe { key.get() }))
}

#[no_mangle]
pub unsafe extern "C" fn slc_index_build_prove(build: *mut slc_build) -> slc_err {
    let slc_build { engine, build } = unsafe { &mut *build };
    enter(engine, || build.prove_unique())
}

#[no_mangle]
pub unsafe extern "C" fn slc_index_build_abort(build: *mut slc_build) {
    if build.is_null() {
        return;
    }
    // SAFETY: the caller gives the pointer up.
    let slc_build { engine, build } = *unsafe { Box::from_raw(build) };
    // After an error the pages stay on the list of pages to free: the next open frees them.
    enter(&engine, || build.abort());
}

/// # Safety
/// As for [`index_change`].
unsafe fn key_change<'a>(change: &'a slc_index_change) -> Result<KeyChange<'a>> {
    // SAFETY: the caller's promise, here and below.
    let keys = unsafe { array(change.keys, change.key_count) }.iter();
    let foreign = match change.sets_foreign {
        0 => None,
        _ => Some(unsafe { foreign_specs(change.foreign, change.foreign_count)? }),
    };
    Ok(KeyChange {
        parts: keys
            .map(|key| unsafe { key_parts(key.parts, key.part_count) })
            .collect::<Result<_>>()?,
        foreign,
        kept_foreign: change.foreign_kept as usize,
        renamed_columns: unsafe { pairs_of_names(change.renamed_columns, change.renamed_column_count)? },
        unchecked: change.foreign_unchecked != 0,
    })
}

/// # Safety
/// Arrays of `change` are as long as their counts say. The builds and names in them live through
/// `'a`.
unsafe fn index_change<'a>(change: &'a slc_index_change) -> Result<IndexChange<'a>> {
    // SAFETY: the caller's promise, here and below.
    let table = unsafe { slc_table::of(change.table) };
    check_writable(table.read_only)?;
    if change.add_count > 0 && change.key_count == 0 {
        return Err(Error::Invalid(
            "the parts of an index that is added are not given".into(),
        ));
    }
    let add = unsafe { array(change.add, change.add_count) }.iter();
    Ok(IndexChange {
        table: &table.table,
        drop: unsafe { names(change.drop, change.drop_count)? },
        rename: unsafe { pairs_of_names(change.rename, change.rename_count)? },
        add: add.map(|build| unsafe { &(**build).build }).collect(),
        order: unsafe { names(change.order, change.order_count)? },
        change_buffering: own_buffering(change.change_buffering),
        schema: unsafe { change.schema.get() },
        keys: unsafe { key_change(change)? },
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_alter_indexes(
    engine: *mut slc_engine,
    changes: *const slc_index_change,
    count: u32,
) -> slc_err {
    let (engine, changes) = unsafe { (slc_engine::of(engine), array(changes, count)) };
    enter(engine, || {
        let each = changes.iter().map(|change| unsafe { index_change(change) });
        engine
            .store()
            .indexes()
            .alter_indexes(&each.collect::<Result<Vec<_>>>()?)?;
        for change in changes {
            for build in unsafe { array(change.add, change.add_count) } {
                // SAFETY: the build is published, so the caller has given it up.
                std::mem::drop(unsafe { Box::from_raw(*build) });
            }
        }
        Ok(())
    })
}

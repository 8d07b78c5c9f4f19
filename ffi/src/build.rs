//! Index builds and the changes of a table's indexes.
use super::abi::*;
use super::engine::{check_writable, enter, name, slc_engine};
use super::table::{index_spec, slc_table};
use super::trx::slc_trx;
use sluice::base::Result;
use sluice::engine::Engine;
use sluice::table::IndexBuild;
use std::ffi::c_char;
use std::sync::Arc;

/// What `slc_build *` points to.
pub struct slc_build {
    engine: Arc<Engine>,
    build: IndexBuild,
}

#[no_mangle]
pub unsafe extern "C" fn slc_index_build_begin(
    engine: *mut slc_engine,
    table: *mut slc_table,
    def: *const slc_index_def,
    out: *mut *mut slc_build,
) -> slc_err {
    // SAFETY: live by contract, here and below.
    let (engine, table) = unsafe { (slc_engine::of(engine), slc_table::of(table)) };
    enter(engine, || {
        check_writable(table.read_only)?;
        // SAFETY: a whole definition; `out` is the caller's to write.
        let spec = unsafe { index_spec(&*def)? };
        let build = engine.store().begin_build(&table.table, &spec)?;
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
        // SAFETY: the bytes live through the call.
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
pub unsafe extern "C" fn slc_index_build_abort(build: *mut slc_build) {
    if build.is_null() {
        return;
    }
    // SAFETY: the caller gives the pointer up.
    let slc_build { engine, build } = *unsafe { Box::from_raw(build) };
    // An error leaves the pages on the list of those to be freed: the next open does it.
    enter(&engine, || build.abort());
}

/// # Safety
/// `from` points to `n` NUL-terminated names.
unsafe fn names<'a>(from: *const *const c_char, n: u32) -> Result<Vec<&'a str>> {
    // SAFETY: the caller's promise.
    (0..n as usize).map(|i| unsafe { name(*from.add(i)) }).collect()
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_alter_indexes(
    engine: *mut slc_engine,
    table: *mut slc_table,
    add: *mut *mut slc_build,
    add_count: u32,
    drop: *const *const c_char,
    drop_count: u32,
    order: *const *const c_char,
    order_count: u32,
    schema: slc_bytes,
) -> slc_err {
    let (engine, table) = unsafe { (slc_engine::of(engine), slc_table::of(table)) };
    enter(engine, || {
        check_writable(table.read_only)?;
        // SAFETY: arrays as long as they say, of live builds and names.
        let (drop, order) = unsafe { (names(drop, drop_count)?, names(order, order_count)?) };
        let add: Vec<*mut slc_build> = (0..add_count as usize).map(|i| unsafe { *add.add(i) }).collect();
        let builds: Vec<&IndexBuild> = add.iter().map(|b| unsafe { &(**b).build }).collect();
        // SAFETY: the schema lives through the call.
        let schema = unsafe { schema.get() };
        let store = engine.store();
        store.alter_indexes(&table.table, &builds, &drop, &order, schema)?;
        for build in add {
            // SAFETY: published, and thereby given up by the caller.
            std::mem::drop(unsafe { Box::from_raw(build) });
        }
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_table_rename_index(
    engine: *mut slc_engine,
    table: *mut slc_table,
    from: *const c_char,
    to: *const c_char,
) -> slc_err {
    let (engine, table) = unsafe { (slc_engine::of(engine), slc_table::of(table)) };
    enter(engine, || {
        check_writable(table.read_only)?;
        // SAFETY: NUL-terminated names.
        let (from, to) = unsafe { (name(from)?, name(to)?) };
        engine.store().rename_index(&table.table, from, to)
    })
}

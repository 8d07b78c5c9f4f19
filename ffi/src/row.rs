//! Row changes. Entries become slices in a list on the stack: no allocation per call unless a table
//! has more indexes than fit there.
//!
//! # Safety
//! The contract of `lib.rs`. Keys, rows, entries and their bytes live through the call that they
//! are given to; the lists made of them do not outlive it.
use super::abi::*;
use super::engine::{array, check_writable, enter};
use super::table::slc_table;
use super::trx::slc_trx;
use sluice::base::Result;
use sluice::engine::Engine;
use sluice::table::{Entry, EntryChange, NewRow, RowUpdate, Table};
use sluice::txn::Trx;

/// Entries in the list on the stack; a longer list is allocated.
const INLINE: usize = 16;

/// # Safety
/// The entry's bytes live and stay unchanged for `'a`.
unsafe fn entry<'a>(e: &slc_entry) -> Entry<'a> {
    Entry {
        index: e.index,
        user_key_len: e.user_key_len,
        has_null: e.unique_check == 0,
        // SAFETY: the caller's promise.
        key: unsafe { e.key.get() },
        value: unsafe { e.value.get() },
    }
}

/// # Safety
/// As for [`entry`].
unsafe fn change<'a>(c: &slc_entry_change) -> EntryChange<'a> {
    EntryChange {
        index: c.index,
        user_key_len: c.user_key_len,
        has_null: c.unique_check == 0,
        // SAFETY: the caller's promise.
        old_key: unsafe { c.old_key.get() },
        new_key: unsafe { c.new_key.get() },
        new_value: unsafe { c.new_value.get() },
    }
}

/// Calls `body` with the converted list.
fn with_list<T: Copy, U: Copy + Default, R>(from: &[T], to: impl Fn(&T) -> U, body: impl FnOnce(&[U]) -> R) -> R {
    if from.len() <= INLINE {
        let mut list = [U::default(); INLINE];
        for (place, one) in list.iter_mut().zip(from) {
            *place = to(one);
        }
        body(&list[..from.len()])
    } else {
        body(&from.iter().map(to).collect::<Vec<U>>())
    }
}

/// Calls `body` with the entries.
///
/// # Safety
/// `entries` has `count` members, whose bytes live through the call.
pub unsafe fn with_entries<R>(entries: *const slc_entry, count: u32, body: impl FnOnce(&[Entry<'_>]) -> R) -> R {
    // SAFETY: the caller's promise.
    unsafe { with_list(array(entries, count), |e| entry(e), body) }
}

/// What the four changes have in common.
///
/// # Safety
/// `trx` and `table` are live handles.
unsafe fn write(
    trx: *mut slc_trx,
    table: *mut slc_table,
    body: impl FnOnce(&Engine, &mut Trx, &Table) -> Result<()>,
) -> slc_err {
    // SAFETY: the caller's promise.
    let ((engine, trx), table) = unsafe { (slc_trx::of(trx), slc_table::of(table)) };
    enter(engine, || {
        check_writable(table.read_only)?;
        body(engine, trx, &table.table)
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_row_insert(
    trx: *mut slc_trx,
    table: *mut slc_table,
    pk: slc_bytes,
    row: slc_bytes,
    entries: *const slc_entry,
    entry_count: u32,
    on_duplicate: i32,
) -> slc_err {
    unsafe {
        write(trx, table, |engine, trx, table| {
            with_entries(entries, entry_count, |entries| {
                let (store, new) = (engine.store(), NewRow::new(pk.get(), row.get(), entries));
                match on_duplicate {
                    SLC_ON_DUPLICATE_REPLACE => store.rows().insert_replacing(trx, table, &new),
                    _ => store
                        .rows()
                        .insert(trx, table, &new, on_duplicate == SLC_ON_DUPLICATE_EXCLUSIVE),
                }
            })
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_row_update(
    trx: *mut slc_trx,
    table: *mut slc_table,
    pk: slc_bytes,
    new_row: slc_bytes,
    changes: *const slc_entry_change,
    change_count: u32,
    x_on_duplicate: i32,
    flags: u32,
) -> slc_err {
    unsafe {
        write(trx, table, |engine, trx, table| {
            with_list(
                array(changes, change_count),
                |c| change(c),
                |list| {
                    let update = RowUpdate {
                        pk: pk.get(),
                        row: new_row.get(),
                        changes: list,
                        pk_rewritten: flags & SLC_UPDATE_PK_REWRITTEN != 0,
                        keeps_unindexed: flags & SLC_UPDATE_KEEPS_UNINDEXED != 0,
                    };
                    engine
                        .store()
                        .rows()
                        .update_row(trx, table, &update, x_on_duplicate != 0)
                },
            )
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_row_move(
    trx: *mut slc_trx,
    table: *mut slc_table,
    old_pk: slc_bytes,
    old_entries: *const slc_entry,
    new_pk: slc_bytes,
    new_row: slc_bytes,
    new_entries: *const slc_entry,
    entry_count: u32,
    x_on_duplicate: i32,
) -> slc_err {
    unsafe {
        write(trx, table, |engine, trx, table| {
            with_list(
                array(old_entries, entry_count),
                |e| entry(e),
                |old| {
                    with_list(
                        array(new_entries, entry_count),
                        |e| entry(e),
                        |entries| {
                            let (store, new) = (engine.store(), NewRow::new(new_pk.get(), new_row.get(), entries));
                            store
                                .rows()
                                .move_row(trx, table, old_pk.get(), old, &new, x_on_duplicate != 0)
                        },
                    )
                },
            )
        })
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_row_delete(
    trx: *mut slc_trx,
    table: *mut slc_table,
    pk: slc_bytes,
    entries: *const slc_entry,
    entry_count: u32,
) -> slc_err {
    unsafe {
        write(trx, table, |engine, trx, table| {
            with_entries(entries, entry_count, |list| {
                engine.store().rows().delete(trx, table, pk.get(), list)
            })
        })
    }
}

//! Statistics for the optimizer: what the keys are made of, computing, and what came of it.
use super::abi::*;
use super::engine::{enter, enter_value, slc_engine};
use super::table::slc_table;
use sluice::index::key_shape::{KeyShape, LevelForm, PartImage, PartShape, StringLevel};
use sluice::table::{StatisticsOptions, StatisticsRow};
use std::ffi::c_void;

/// A slice that C gives as pointer and length.
///
/// # Safety
/// `first` points to `len` values that live as long as the result is used, or `len` is 0.
unsafe fn slice<'a, T>(first: *const T, len: u32) -> &'a [T] {
    match len {
        0 => &[],
        // SAFETY: the caller's promise.
        _ => unsafe { std::slice::from_raw_parts(first, len as usize) },
    }
}

fn level(of: &slc_string_level) -> StringLevel {
    StringLevel {
        form: match of.form {
            SLC_LEVEL_PADDED => LevelForm::Padded,
            SLC_LEVEL_FILLED => LevelForm::Filled,
            _ => LevelForm::Plain,
        },
        unit: of.unit,
        space: of.space,
    }
}

fn part(of: &slc_key_part) -> PartShape {
    let levels = &of.levels[..(of.level_count as usize).min(SLC_STRING_LEVELS_MAX)];
    PartShape {
        nullable: of.nullable != 0,
        inverted: of.inverted != 0,
        image: match levels {
            [] => PartImage::Fixed(of.fixed),
            levels => PartImage::String(levels.iter().map(level).collect()),
        },
    }
}

fn choice(number: u8) -> Option<bool> {
    (number != 0).then_some(number == 2)
}

#[no_mangle]
pub unsafe extern "C" fn slc_statistics_describe(table: *mut slc_table, options: *const slc_statistics_options) {
    // SAFETY: both are live by contract, and so is what the options point to.
    let (table, options) = unsafe { (slc_table::of(table), &*options) };
    let shapes = unsafe { slice(options.shapes, options.shape_count) };
    let options = StatisticsOptions {
        shapes: shapes
            .iter()
            .map(|shape| KeyShape {
                parts: unsafe { slice(shape.parts, shape.part_count) }
                    .iter()
                    .map(part)
                    .collect(),
            })
            .collect(),
        persistent: choice(options.persistent),
        auto_recalc: choice(options.auto_recalc),
        sample_pages: options.sample_pages,
    };
    enter_value(&table.engine, (), || {
        table
            .engine
            .store()
            .statistics_keeper()
            .describe_statistics(&table.table, &options)
    });
}

#[no_mangle]
pub unsafe extern "C" fn slc_statistics_compute(table: *mut slc_table, anew: i32) -> slc_err {
    // SAFETY: live by contract.
    let table = unsafe { slc_table::of(table) };
    enter(&table.engine, || match anew {
        0 => table.engine.store().statistics_keeper().ensure_statistics(&table.table),
        _ => table
            .engine
            .store()
            .statistics_keeper()
            .compute_statistics(&table.table),
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_statistics_version(table: *mut slc_table) -> u64 {
    // SAFETY: live by contract.
    unsafe { slc_table::of(table) }.table.statistics.version()
}

#[no_mangle]
pub unsafe extern "C" fn slc_statistics_get(
    table: *mut slc_table,
    index: u32,
    rows: *mut u64,
    distinct: *mut u64,
    max: u32,
) -> u32 {
    // SAFETY: live by contract.
    let table = unsafe { slc_table::of(table) };
    enter_value(&table.engine, 0, || {
        // A page that cannot be read is for a statement to tell of.
        let Ok(Some(found)) = table.engine.store().statistics_keeper().statistics(&table.table) else {
            return 0;
        };
        let index = table.table.layout().index(index).map(|index| index.id);
        let Some(of) = index.and_then(|index| found.of(index)) else {
            return 0;
        };
        let count = of.distinct.len().min(max as usize);
        // SAFETY: `rows` is the caller's to write, and `distinct` has room for `max` numbers.
        unsafe {
            *rows = found.rows;
            std::ptr::copy_nonoverlapping(of.distinct.as_ptr(), distinct, count);
        }
        count as u32
    })
}

fn row<'a>(of: &'a StatisticsRow<'a>) -> slc_statistics_row {
    slc_statistics_row {
        table: slc_bytes::of(of.table.as_bytes()),
        index: slc_bytes::of(of.index.as_bytes()),
        schema: slc_bytes::of(of.schema),
        rows: of.rows,
        changes: of.changes,
        computed: of.computed_s as i64,
        updated: of.updated_s as i64,
        pages: of.pages,
        leaf_pages: of.leaf_pages,
        pages_read: of.pages_read,
        distinct: of.distinct.as_ptr(),
        distinct_count: of.distinct.len() as u32,
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_statistics_list(
    engine: *mut slc_engine,
    cb: slc_statistics_cb,
    ctx: *mut c_void,
) -> slc_err {
    // SAFETY: live by contract.
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || {
        engine.store().statistics_keeper().statistics_rows(&mut |of| {
            if let Some(cb) = cb {
                // SAFETY: the callback takes a row that lives through the call.
                unsafe { cb(ctx, &row(of)) }
            }
        })
    })
}

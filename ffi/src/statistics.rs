//! Statistics for the optimizer: the shapes of the keys, computing, and the result.
//!
//! # Safety
//! The contract of `lib.rs`. Shapes and their parts are copied during the call. The row that a
//! callback gets lives through the callback's call.
use super::abi::*;
use super::engine::{array, enter, enter_value, slc_engine};
use super::table::slc_table;
use sluice::index::key_shape::{KeyShape, LevelForm, PartImage, PartShape, StringLevel};
use sluice::table::{StatisticsOptions, StatisticsRow};
use std::ffi::c_void;

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

pub fn part(of: &slc_key_part) -> PartShape {
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
    let (table, options) = unsafe { (slc_table::of(table), &*options) };
    let shapes = unsafe { array(options.shapes, options.shape_count) };
    let options = StatisticsOptions {
        shapes: shapes
            .iter()
            .map(|shape| KeyShape {
                parts: unsafe { array(shape.parts, shape.part_count) }
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
    let table = unsafe { slc_table::of(table) };
    enter_value(&table.engine, 0, || {
        // An unreadable page is reported by the statement that needs it.
        let Ok(Some(found)) = table.engine.store().statistics_keeper().statistics(&table.table) else {
            return 0;
        };
        let index = table.table.layout().index(index).map(|index| index.id);
        let Some(of) = index.and_then(|index| found.of(index)) else {
            return 0;
        };
        let count = of.distinct.len().min(max as usize);
        unsafe {
            *rows = of.rows;
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
        persistent: of.persistent as u8,
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
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || {
        engine.store().statistics_keeper().statistics_rows(&mut |of| {
            if let Some(cb) = cb {
                unsafe { cb(ctx, &row(of)) }
            }
        })
    })
}

//! The C types of `plugin/abi/`, field for field. No logic.
//!
//! `tests/drift` compares both: fields and parameters by type and order, constants by value.
//!
//! # Safety
//! The contract of `lib.rs`. The function pointers here are the plugin's callbacks, with the
//! header's signatures.
#![allow(non_camel_case_types)]
use std::ffi::{c_char, c_int, c_void};

pub type slc_err = i32;
pub const SLC_OK: slc_err = 0;
pub const SLC_NOT_FOUND: slc_err = 1;
pub const SLC_END: slc_err = 2;
pub const SLC_DUPLICATE: slc_err = 3;
pub const SLC_LOCK_WAIT_TIMEOUT: slc_err = 4;
pub const SLC_DEADLOCK: slc_err = 5;
pub const SLC_INTERRUPTED: slc_err = 6;
pub const SLC_CONFLICT: slc_err = 7;
pub const SLC_FULL: slc_err = 8;
pub const SLC_CORRUPT: slc_err = 9;
pub const SLC_IO: slc_err = 10;
pub const SLC_POISONED: slc_err = 11;
pub const SLC_UNSUPPORTED: slc_err = 12;
pub const SLC_EXISTS: slc_err = 13;
pub const SLC_NO_TABLE: slc_err = 14;
pub const SLC_TOO_BIG: slc_err = 15;
pub const SLC_READ_ONLY: slc_err = 16;
pub const SLC_TABLE_CHANGED: slc_err = 17;
pub const SLC_LOCKED: slc_err = 18;
pub const SLC_NO_REFERENCED_ROW: slc_err = 19;
pub const SLC_ROW_IS_REFERENCED: slc_err = 20;
pub const SLC_FOREIGN_DUPLICATE: slc_err = 21;
pub const SLC_FOREIGN_NEEDS_INDEX: slc_err = 22;
pub const SLC_TABLE_IS_REFERENCED: slc_err = 23;
pub const SLC_FOREIGN_DEPTH: slc_err = 24;
pub const SLC_FOREIGN_DEFINITION: slc_err = 25;
pub const SLC_FOREIGN_NAME_TAKEN: slc_err = 26;
pub const SLC_ROW_NOT_MADE: slc_err = 27;
pub const SLC_ONLINE_ALTER_FULL: slc_err = 28;
pub const SLC_FOREIGN_UNFIT: slc_err = 29;
pub const SLC_FOREIGN_NO_PARENT_INDEX: slc_err = 30;
pub const SLC_FOREIGN_NOT_NULL: slc_err = 31;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct slc_bytes {
    pub ptr: *const u8,
    pub len: usize,
}

impl slc_bytes {
    pub const EMPTY: slc_bytes = slc_bytes {
        ptr: std::ptr::null(),
        len: 0,
    };
    pub fn of(b: &[u8]) -> slc_bytes {
        slc_bytes {
            ptr: b.as_ptr(),
            len: b.len(),
        }
    }
    /// # Safety
    /// `ptr` is null, or it points to `len` bytes that live and stay unchanged for `'a`.
    pub unsafe fn get<'a>(self) -> &'a [u8] {
        if self.ptr.is_null() || self.len == 0 {
            &[]
        } else {
            // SAFETY: the caller's promise.
            unsafe { std::slice::from_raw_parts(self.ptr, self.len) }
        }
    }
}

/// A place between keys.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct slc_bound {
    pub key: slc_bytes,
    pub after: u8,
}

#[repr(C)]
pub struct slc_autoinc_series {
    pub offset: u64,
    pub increment: u64,
    pub limit: u64,
}

pub type slc_text_cb = Option<unsafe extern "C" fn(ctx: *mut c_void, text: *const c_char, len: usize)>;

pub type slc_key_text_cb =
    Option<unsafe extern "C" fn(table: slc_bytes, index: u32, key: slc_bytes, to: *mut c_char, size: usize) -> usize>;

pub type slc_table_text_cb = Option<unsafe extern "C" fn(table: slc_bytes, to: *mut c_char, size: usize) -> usize>;

#[repr(C)]
pub struct slc_setting {
    pub name: *const c_char,
    pub value: u64,
}

#[repr(C)]
pub struct slc_config {
    pub dir: *const c_char,
    pub settings: *const slc_setting,
    pub setting_count: u32,
    pub read_only: u8,
    pub log: slc_text_cb,
    pub log_ctx: *mut c_void,
    pub key_text: slc_key_text_cb,
    pub table_text: slc_table_text_cb,
}

#[repr(C)]
pub struct slc_xid {
    pub format_id: i64,
    pub gtrid_len: u32,
    pub bqual_len: u32,
    pub data: [u8; 128],
}

pub const SLC_WAIT_WOKEN: c_int = 0;
pub const SLC_WAIT_TIMEOUT: c_int = 1;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct slc_waiter {
    pub ctx: *mut c_void,
    pub wait: Option<unsafe extern "C" fn(ctx: *mut c_void, flag: *mut u32, timeout_us: u64) -> c_int>,
    pub wake: Option<unsafe extern "C" fn(ctx: *mut c_void)>,
    pub killed: Option<unsafe extern "C" fn(ctx: *mut c_void) -> c_int>,
    pub about_to_wait: Option<unsafe extern "C" fn(ctx: *mut c_void, holder_ctx: *mut c_void) -> c_int>,
    pub statement: Option<unsafe extern "C" fn(ctx: *mut c_void, to: *mut c_char, size: usize) -> usize>,
    pub progress: Option<unsafe extern "C" fn(ctx: *mut c_void, done: u64, all: u64)>,
}

pub const SLC_ON_DUPLICATE_EXCLUSIVE: i32 = 1;
pub const SLC_ON_DUPLICATE_REPLACE: i32 = 2;
pub const SLC_UPDATE_PK_REWRITTEN: u32 = 1;
pub const SLC_UPDATE_KEEPS_UNINDEXED: u32 = 2;
/// The key that a row has in the index that is scanned; a null pointer: it cannot be computed.
pub type slc_key_of = unsafe extern "C" fn(ctx: *mut c_void, pk: slc_bytes, row: slc_bytes) -> slc_bytes;
pub const SLC_LOCK_NONE: u32 = 0;
pub const SLC_LOCK_SHARED: u32 = 1;
pub const SLC_LOCK_NONE_STATEMENT_VIEW: u32 = 3;
pub const SLC_LOCK_NONE_NEWEST: u32 = 8;
pub const SLC_LOCK_GAPS: u32 = 4;
pub const SLC_NOWAIT: u32 = 1;
pub const SLC_SKIP_LOCKED: u32 = 2;

pub const SLC_INDEX_UNIQUE: u32 = 1;
pub const SLC_INDEX_WIDE: u32 = 2;
pub const SLC_KEY_MAX: usize = 3500;
pub const SLC_WIDE_KEY_MAX: usize = 14_000;
const _: () = assert!(SLC_KEY_MAX == sluice::btree::KEY_MAX && SLC_WIDE_KEY_MAX == sluice::btree::WIDE_KEY_MAX);
#[repr(C)]
pub struct slc_index_part {
    pub column: *const c_char,
    pub domain: *const c_char,
    pub whole: u8,
    pub shape: slc_key_part,
}
#[repr(C)]
pub struct slc_index_def {
    pub name: *const c_char,
    pub flags: u32,
    pub part_count: u32,
    pub parts: *const slc_index_part,
}
#[repr(C)]
pub struct slc_foreign_def {
    pub name: *const c_char,
    pub parent: *const c_char,
    pub column_count: u32,
    pub columns: *const *const c_char,
    pub parent_columns: *const *const c_char,
    pub on_delete: u8,
    pub on_update: u8,
}
#[repr(C)]
pub struct slc_rename {
    pub kind: u32,
    pub unchecked: u8,
    pub foreign_count: u32,
    pub foreign_names: *const *const c_char,
    pub replaces: *const c_char,
}
pub const SLC_RENAME_OUT_OF_PLACE: u32 = 1;
pub const SLC_RENAME_INTO_PLACE: u32 = 2;
#[repr(C)]
pub struct slc_foreign_info {
    pub name: slc_bytes,
    pub child: slc_bytes,
    pub parent: slc_bytes,
    pub column_count: u32,
    pub columns: *const slc_bytes,
    pub parent_columns: *const slc_bytes,
    pub child_nullable: *const u8,
    pub parent_nullable: *const u8,
    pub child_index: slc_bytes,
    pub parent_index: slc_bytes,
    pub misfit: slc_bytes,
    pub on_delete: u8,
    pub on_update: u8,
}
pub type slc_foreign_cb = Option<unsafe extern "C" fn(ctx: *mut c_void, foreign: *const slc_foreign_info)>;
pub const SLC_FOREIGN_OF_CHILD: u32 = 0;
pub const SLC_FOREIGN_OF_PARENT: u32 = 1;

pub const SLC_TABLE_TEMPORARY: u32 = 1;
pub const SLC_TABLE_HIDDEN_PK: u32 = 2;
pub const SLC_TABLE_WIDE_PK: u32 = 4;
pub const SLC_TABLE_FOREIGN_UNCHECKED: u32 = 8;
pub const SLC_TABLE_MARKS_PAST: u32 = 16;
pub const SLC_TABLE_IN_PLACE: u32 = 32;
#[repr(C)]
pub struct slc_table_def {
    pub flags: u32,
    pub pk_fixed_len: u32,
    pub index_count: u32,
    pub indexes: *const slc_index_def,
    pub change_buffering: u32,
    pub schema: slc_bytes,
    pub part_count: u32,
    pub parts: *const slc_index_part,
    pub foreign_count: u32,
    pub foreign: *const slc_foreign_def,
    pub foreign_kept: u32,
    pub replaces: *const c_char,
    pub renamed_columns: *const *const c_char,
    pub renamed_column_count: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct slc_table_stats {
    pub rows: u64,
    pub data_bytes: u64,
    pub index_bytes: u64,
    pub empty_buffer_bytes: u64,
    pub free_bytes: u64,
    pub file_bytes: u64,
    pub clustered_leaf_pages: u64,
    pub create_time: i64,
    pub update_time: i64,
}

pub const SLC_CHECK_QUICK: u32 = 0;
pub const SLC_CHECK_MEDIUM: u32 = 1;
pub const SLC_ORPHANS_NO_ROW: u32 = 0;
pub const SLC_ORPHANS_NO_TABLE: u32 = 1;
pub const SLC_ORPHANS_NOT_COMPARED: u32 = 2;
pub const SLC_ORPHANS_NO_CHILD_INDEX: u32 = 3;
pub const SLC_LEVEL_PADDED: u8 = 1;
pub const SLC_LEVEL_FILLED: u8 = 2;
pub const SLC_STRING_LEVELS_MAX: usize = 6;
#[repr(C)]
#[derive(Clone, Copy)]
pub struct slc_string_level {
    pub form: u8,
    pub unit: u8,
    pub space: [u8; 4],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct slc_key_part {
    pub nullable: u8,
    pub inverted: u8,
    pub level_count: u8,
    pub fixed: u32,
    pub levels: [slc_string_level; SLC_STRING_LEVELS_MAX],
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct slc_key_shape {
    pub part_count: u32,
    pub parts: *const slc_key_part,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct slc_statistics_options {
    pub shape_count: u32,
    pub shapes: *const slc_key_shape,
    pub persistent: u8,
    pub auto_recalc: u8,
    pub sample_pages: u32,
}
#[repr(C)]
#[derive(Clone, Copy)]
pub struct slc_statistics_row {
    pub table: slc_bytes,
    pub index: slc_bytes,
    pub schema: slc_bytes,
    pub rows: u64,
    pub changes: u64,
    pub computed: i64,
    pub updated: i64,
    pub persistent: u8,
    pub pages: u64,
    pub leaf_pages: u64,
    pub pages_read: u64,
    pub distinct: *const u64,
    pub distinct_count: u32,
}
pub type slc_statistics_cb = Option<unsafe extern "C" fn(ctx: *mut c_void, row: *const slc_statistics_row)>;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct slc_entry {
    pub index: u32,
    pub user_key_len: u32,
    pub unique_check: u8,
    pub key: slc_bytes,
    pub value: slc_bytes,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct slc_entry_change {
    pub index: u32,
    pub user_key_len: u32,
    pub unique_check: u8,
    pub old_key: slc_bytes,
    pub new_key: slc_bytes,
    pub new_value: slc_bytes,
}

pub type slc_killed_cb = Option<unsafe extern "C" fn(ctx: *mut c_void) -> u8>;

/// As in the header.
#[repr(C)]
pub struct slc_pool_stats {
    pub pages: u64,
    pub free: u64,
    pub resident: u64,
    pub cold: u64,
    pub dirty: u64,
    pub in_flight: u64,
    pub read: u64,
    pub read_ahead: u64,
    pub created: u64,
    pub written: u64,
    pub evicted: u64,
    pub requested: u64,
    pub hits_per_thousand: u64,
    pub read_rate: f64,
    pub read_ahead_rate: f64,
    pub created_rate: f64,
    pub written_rate: f64,
    pub evicted_rate: f64,
}

/// As in the header.
#[repr(C)]
pub struct slc_index_changes {
    pub table: slc_bytes,
    pub index: slc_bytes,
    pub buffering: slc_bytes,
    pub own: u8,
    pub counted: u8,
    pub entries: u64,
    pub bytes: u64,
    pub partitions: u64,
    pub pages: u64,
    pub age_s: u64,
    pub merged: u64,
}
pub type slc_index_changes_cb = Option<unsafe extern "C" fn(ctx: *mut c_void, changes: *const slc_index_changes)>;

/// As in the header.
#[repr(C)]
pub struct slc_trx_info {
    pub number: u64,
    pub connection: u64,
    pub age_us: i64,
    pub waiting_us: i64,
    pub snapshot_age_us: i64,
    pub undo_records: u64,
    pub undo_bytes: u64,
    pub buffered_changes: u64,
    pub row_locks: u64,
    pub range_locks: u64,
    pub tables_locked: u64,
    pub indexes_locked: u64,
    pub weight: u64,
    pub requested_lock: slc_bytes,
    pub xid: slc_bytes,
    pub isolation: u8,
    pub has_id: u8,
    pub prepared: u8,
    pub rolling_back: u8,
}
pub const SLC_LOCKS_WAITED_FOR: u32 = 0;
pub const SLC_LOCKS_COUNTED: u32 = 1;
pub const SLC_LOCKED_ROW: u32 = 0;
pub const SLC_LOCKED_RANGE: u32 = 1;
pub const SLC_LOCKED_INSERT: u32 = 2;
pub const SLC_LOCKED_COUNTER: u32 = 3;
#[repr(C)]
pub struct slc_lock_info {
    pub id: slc_bytes,
    pub trx: u64,
    pub table: slc_bytes,
    pub index: slc_bytes,
    pub index_number: u32,
    pub kind: u32,
    pub key: slc_bytes,
    pub key_to: slc_bytes,
    pub exclusive: u8,
    pub granted: u8,
}
#[repr(C)]
pub struct slc_lock_wait {
    pub requesting_trx: u64,
    pub blocking_trx: u64,
    pub requested_lock: slc_bytes,
    pub blocking_lock: slc_bytes,
}

pub const SLC_SEEK_FIRST: u32 = 0;
pub const SLC_SEEK_LAST: u32 = 1;
pub const SLC_SEEK_GE: u32 = 2;
pub const SLC_SEEK_GT: u32 = 3;
pub const SLC_SEEK_LE: u32 = 4;
pub const SLC_SEEK_LT: u32 = 5;
pub const SLC_SEEK_AFTER_PREFIX: u32 = 6;

pub const SLC_ENTRY_COVERING: u32 = 1;
#[repr(C)]
pub struct slc_found {
    pub flags: u32,
    pub key: slc_bytes,
    pub pk: slc_bytes,
    pub row: slc_bytes,
}

pub const SLC_METRIC_TOTAL: u32 = 0;
pub const SLC_METRIC_GAUGE: u32 = 1;
pub const SLC_METRIC_MAXIMUM: u32 = 2;

#[repr(C)]
pub struct slc_metric {
    pub name: slc_bytes,
    pub subsystem: slc_bytes,
    pub comment: slc_bytes,
    pub value: u64,
    pub per_second: f64,
    pub kind: u32,
    pub elapsed_s: u64,
}
pub type slc_metric_cb = Option<unsafe extern "C" fn(ctx: *mut c_void, row: *const slc_metric)>;

#[repr(C)]
pub struct slc_mutex_info {
    pub name: slc_bytes,
    pub rank: u32,
    pub waits: u64,
}
pub type slc_mutex_cb = Option<unsafe extern "C" fn(ctx: *mut c_void, row: *const slc_mutex_info)>;

#[repr(C)]
pub struct slc_table_info {
    pub id: u32,
    pub name: slc_bytes,
    pub temporary: u8,
    pub indexes: u32,
    pub handles: u32,
    pub rows: i64,
    pub autoinc: u64,
    pub autoinc_known: u8,
    pub changes: u64,
    pub created: i64,
    pub broken: slc_bytes,
}
pub type slc_table_info_cb = Option<unsafe extern "C" fn(ctx: *mut c_void, row: *const slc_table_info)>;

pub const SLC_INDEX_OF_PLAIN: u32 = 0;
pub const SLC_INDEX_OF_HIDDEN_KEY: u32 = 1;
pub const SLC_INDEX_OF_UNIQUE: u32 = 2;
pub const SLC_INDEX_OF_PRIMARY_KEY: u32 = 3;

#[repr(C)]
pub struct slc_index_info {
    pub id: u32,
    pub table: u32,
    pub name: slc_bytes,
    pub kind: u32,
    pub parts: i32,
    pub root: u32,
    pub delta_root: i64,
    pub wide: u8,
    pub quarantined: u8,
}
pub type slc_index_info_cb = Option<unsafe extern "C" fn(ctx: *mut c_void, row: *const slc_index_info)>;

pub const SLC_FILE_SYSTEM: u32 = 0;
pub const SLC_FILE_UNDO: u32 = 1;
pub const SLC_FILE_TABLE: u32 = 2;
pub const SLC_FILE_TEMPORARY: u32 = 3;
pub const SLC_FILE_REDO_LOG: u32 = 4;
pub const SLC_FILE_DOUBLEWRITE: u32 = 5;
pub const SLC_FILE_UNNAMED: u32 = 6;

#[repr(C)]
pub struct slc_file_info {
    pub name: slc_bytes,
    pub owner: slc_bytes,
    pub kind: u32,
    pub id: i64,
    pub bytes: u64,
    pub allocated: u64,
    pub pages: i64,
    pub pages_used: i64,
}
pub type slc_file_info_cb = Option<unsafe extern "C" fn(ctx: *mut c_void, row: *const slc_file_info) -> c_int>;

pub type slc_run = Option<unsafe extern "C" fn(arg: *mut c_void)>;
pub type slc_open_run = Option<unsafe extern "C" fn(arg: *mut c_void) -> c_int>;
pub const SLC_FILE_READ: u32 = 0;
pub const SLC_FILE_WRITE: u32 = 1;
pub const SLC_FILE_SYNC: u32 = 2;
pub const SLC_FILE_CHANGE_SIZE: u32 = 3;
pub const SLC_STAGE_DRAIN: u32 = 0;
pub const SLC_STAGE_ROLLBACK_AT_START: u32 = 1;
pub const SLC_MEMORY_BUFFER_POOL: u32 = 0;

#[repr(C)]
pub struct slc_file_part {
    pub fd: c_int,
    pub bytes: u64,
}

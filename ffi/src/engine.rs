//! The engine handle: open, close, settings, counters, status text, XA recovery.
//!
//! # Safety
//! The contract of `lib.rs`. An engine handle is a `Box` from `slc_engine_open`, which
//! `slc_engine_close` takes back after every other handle has ended. Any number of threads may use
//! it at once. The callbacks of `slc_config` may be called from any thread until that close;
//! `key_text` and `table_text` write at most `size` bytes and return how many.
use super::abi::*;
use super::backup::BackupThread;
use super::error::{code, code_of, guard};
use sluice::base::sync::{Rank, RankedMutex};
use sluice::base::{Counters, Error, Result};
use sluice::engine::config::{Values, SETTINGS};
use sluice::engine::{Close, Config, Engine, KeyText, Level};
use sluice::io::RealDisk;
use sluice::table::TableText;
use sluice::txn::Xid;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::sync::{Arc, OnceLock};

/// What `slc_engine *` points to.
pub struct slc_engine {
    engine: Arc<Engine>,
    read_only: bool,
    backup: RankedMutex<BackupThread>,
}

/// `Err(ReadOnly)` if `sluice_read_only` is set.
pub fn check_writable(read_only: bool) -> Result<()> {
    if read_only {
        return Err(Error::ReadOnly("sluice_read_only is set".into()));
    }
    Ok(())
}

impl slc_engine {
    /// # Safety
    /// As for [`slc_engine::of`].
    pub unsafe fn is_read_only(engine: *const slc_engine) -> bool {
        // SAFETY: the caller's promise.
        unsafe { (*engine).read_only }
    }
    /// # Safety
    /// `engine` is a live pointer from `slc_engine_open`.
    pub unsafe fn of<'a>(engine: *const slc_engine) -> &'a Arc<Engine> {
        // SAFETY: the caller's promise.
        unsafe { &(*engine).engine }
    }
    /// # Safety
    /// As for [`slc_engine::of`].
    pub unsafe fn backup_of<'a>(engine: *const slc_engine) -> &'a RankedMutex<BackupThread> {
        // SAFETY: the caller's promise.
        unsafe { &(*engine).backup }
    }
}

/// Runs `body`. A panic poisons the engine and becomes `SLC_POISONED`; damage is named by table and
/// index.
pub fn enter(engine: &Arc<Engine>, body: impl FnOnce() -> Result<()>) -> slc_err {
    enter_code(engine, || code_of(body().map_err(|e| engine.store().name_damage(e))))
}
pub fn enter_code(engine: &Arc<Engine>, body: impl FnOnce() -> slc_err) -> slc_err {
    guard(|why| engine.poison(why), SLC_POISONED, body)
}
pub fn enter_value<T>(engine: &Arc<Engine>, fallback: T, body: impl FnOnce() -> T) -> T {
    guard(|why| engine.poison(why), fallback, body)
}

/// # Safety
/// `text` is a NUL-terminated string that lives for `'a`.
pub unsafe fn name<'a>(text: *const c_char) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map_err(|_| Error::Unsupported("a name that is not UTF-8".into()))
}

/// # Safety
/// `from` is null and `count` 0, or it points to `count` values that live and stay unchanged for
/// `'a`.
pub unsafe fn array<'a, T>(from: *const T, count: u32) -> &'a [T] {
    match count {
        0 => &[],
        // SAFETY: the caller's promise.
        _ => unsafe { std::slice::from_raw_parts(from, count as usize) },
    }
}

/// # Safety
/// As for [`array`], of NUL-terminated strings that live for `'a`.
pub unsafe fn names<'a>(from: *const *const c_char, count: u32) -> Result<Vec<&'a str>> {
    // SAFETY: the caller's promise.
    unsafe { array(from, count).iter().map(|text| name(*text)).collect() }
}

/// `count` pairs, for example an old name and a new one.
///
/// # Safety
/// As for [`names`], of `2 * count` strings.
pub unsafe fn pairs_of_names<'a>(from: *const *const c_char, count: u32) -> Result<Vec<(&'a str, &'a str)>> {
    // SAFETY: the caller's promise.
    let names = unsafe { names(from, 2 * count)? };
    Ok(names.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

/// The plugin's log callback with its context.
struct LogTarget(unsafe extern "C" fn(*mut c_void, *const c_char, usize), *mut c_void);
// SAFETY: `slc_config.log` may be called from any thread.
unsafe impl Send for LogTarget {}
// SAFETY: as above.
unsafe impl Sync for LogTarget {}

impl LogTarget {
    fn write(&self, level: Level, text: &str) {
        let letter = match level {
            Level::Info => 'I',
            Level::Warning => 'W',
            Level::Error => 'E',
        };
        let line = format!("{letter}{text}");
        unsafe { self.0(self.1, line.as_ptr().cast(), line.len()) }
    }
}

/// A key whose text is longer is shown in hexadecimal digits.
const KEY_TEXT_BYTES_MAX: usize = 4096;

fn key_text(cb: unsafe extern "C" fn(slc_bytes, u32, slc_bytes, *mut c_char, usize) -> usize) -> KeyText {
    Arc::new(move |table: &str, index, key: &[u8]| {
        let mut text = vec![0u8; KEY_TEXT_BYTES_MAX];
        let (table, key) = (slc_bytes::of(table.as_bytes()), slc_bytes::of(key));
        let written = unsafe { cb(table, index, key, text.as_mut_ptr().cast(), text.len()) };
        text.truncate(written);
        (written > 0).then(|| String::from_utf8_lossy(&text).into_owned())
    })
}

/// Longer than any name of a table with its schema, partition and quotes.
const TABLE_TEXT_BYTES_MAX: usize = 2048;

fn table_text(cb: unsafe extern "C" fn(slc_bytes, *mut c_char, usize) -> usize) -> TableText {
    Arc::new(move |table: &str| {
        let mut text = vec![0u8; TABLE_TEXT_BYTES_MAX];
        let written = unsafe { cb(slc_bytes::of(table.as_bytes()), text.as_mut_ptr().cast(), text.len()) };
        text.truncate(written);
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// # Safety
/// `c` keeps the contract of `slc_engine_open`: names are NUL-terminated, arrays as long as their
/// counts.
unsafe fn config(c: &slc_config) -> Result<Config> {
    let defaults = Config::default();
    let log = match c.log {
        Some(log) => {
            let target = LogTarget(log, c.log_ctx);
            Arc::new(move |level, text: &str| target.write(level, text)) as sluice::engine::LogSink
        }
        None => defaults.log.clone(),
    };
    let mut config = Config {
        log,
        key_text: c.key_text.map_or(defaults.key_text, key_text),
        table_text: c.table_text.map_or(defaults.table_text, table_text),
        ..Config::default()
    };
    for setting in unsafe { array(c.settings, c.setting_count) } {
        config.set(unsafe { name(setting.name)? }, setting.value)?;
    }
    Ok(config)
}

/// Only the default directory is made. Another name may be mistyped, or its file system may not be
/// mounted: then the engine would begin there, without tables.
fn open_directory(dir: &str) -> Result<Arc<RealDisk>> {
    let default = SETTINGS.iter().find(|setting| setting.name == "directory");
    match default.map(|setting| &setting.values) {
        Some(Values::Text { default }) if *default == dir => RealDisk::open(dir),
        _ => RealDisk::open_existing(dir),
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_engine_open(config_in: *const slc_config, out: *mut *mut slc_engine) -> slc_err {
    let read_only = unsafe { (*config_in).read_only != 0 };
    let open = || -> Result<Arc<Engine>> {
        let (config, dir) = unsafe { (config(&*config_in)?, name((*config_in).dir)?) };
        Engine::open(open_directory(dir)?, config)
    };
    guard(
        |_| (),
        SLC_POISONED,
        || match open() {
            Ok(engine) => {
                unsafe {
                    *out = Box::into_raw(Box::new(slc_engine {
                        engine,
                        read_only,
                        backup: RankedMutex::new(Rank::BackupThread, BackupThread::default()),
                    }))
                };
                SLC_OK
            }
            Err(e) => code(&e),
        },
    )
}

#[no_mangle]
pub unsafe extern "C" fn slc_engine_start_background(engine: *mut slc_engine) {
    let engine = unsafe { slc_engine::of(engine) };
    enter_value(engine, (), || engine.start_background());
}

/// The handle is gone afterwards, even after an error, which goes to the log.
#[no_mangle]
pub unsafe extern "C" fn slc_engine_close(engine: *mut slc_engine, fast: u32) {
    // SAFETY: the caller gives the pointer up.
    let handle = unsafe { Box::from_raw(engine) };
    let engine = &handle.engine;
    let how = match fast {
        0 => Close::Slow,
        1 => Close::Fast,
        _ => Close::LogOnly,
    };
    enter_value(engine, (), || handle.backup.lock().end(engine));
    enter_value(engine, (), || {
        if let Err(e) = engine.close(how) {
            let recovers = match e {
                Error::Poisoned(_) => "",
                _ if engine.redo_log_is_on() => "; the next start will recover",
                _ => "; the redo log is off, and the next start will refuse these files: a backup is needed",
            };
            engine.note(Level::Error, &format!("shutdown: {e}{recovers}"));
        }
    });
}

#[no_mangle]
pub unsafe extern "C" fn slc_engine_flush_log(engine: *mut slc_engine) -> slc_err {
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || engine.flush_log())
}

#[no_mangle]
pub unsafe extern "C" fn slc_engine_count_conflict(engine: *mut slc_engine) {
    unsafe { slc_engine::of(engine) }.counters().snapshot_conflicts.inc();
}

#[no_mangle]
pub unsafe extern "C" fn slc_engine_checkpoint(engine: *mut slc_engine) -> slc_err {
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || engine.checkpoint())
}

#[no_mangle]
pub unsafe extern "C" fn slc_engine_position(engine: *mut slc_engine, to: *mut u8, size: usize) -> usize {
    let engine = unsafe { slc_engine::of(engine) };
    let position = enter_value(engine, Vec::new(), || engine.store().trx_sys.position());
    let n = position.len().min(size);
    unsafe { std::ptr::copy_nonoverlapping(position.as_ptr(), to, n) };
    n
}

#[no_mangle]
pub unsafe extern "C" fn slc_engine_set_position(
    engine: *mut slc_engine,
    position: *const u8,
    len: usize,
    durable: c_int,
) -> slc_err {
    let read_only = unsafe { slc_engine::is_read_only(engine) };
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || {
        check_writable(read_only)?;
        let position = unsafe { std::slice::from_raw_parts(position, len) };
        match durable {
            0 => engine.set_position_lazily(position),
            _ => engine.set_position(position),
        }
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_engine_hold_writes(engine: *mut slc_engine, hold: c_int) -> slc_err {
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || engine.hold_writes(hold != 0))
}

#[no_mangle]
pub unsafe extern "C" fn slc_engine_lsn(engine: *mut slc_engine) -> u64 {
    unsafe { slc_engine::of(engine) }.lsn()
}

#[no_mangle]
pub unsafe extern "C" fn slc_engine_durable_lsn(engine: *mut slc_engine) -> u64 {
    unsafe { slc_engine::of(engine) }.durable_lsn()
}

#[no_mangle]
pub unsafe extern "C" fn slc_engine_set(engine: *mut slc_engine, setting: *const c_char, value: u64) -> slc_err {
    let read_only = unsafe { slc_engine::is_read_only(engine) };
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || {
        let setting = unsafe { name(setting)? };
        // With the log off, a crash costs tables that read_only protects.
        check_writable(read_only && setting == "redo_log" && value == 0)?;
        engine.set(setting, value)
    })
}

#[no_mangle]
pub extern "C" fn slc_counter_count() -> u32 {
    Counters::NAMES.len() as u32
}

/// NUL-terminated, for the life of the process; null for a number out of range.
#[no_mangle]
pub extern "C" fn slc_counter_name(i: u32) -> *const c_char {
    static NAMES: OnceLock<Vec<CString>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let c_string = |name: &&str| CString::new(*name).unwrap_or_default();
        Counters::NAMES.iter().map(c_string).collect()
    });
    names.get(i as usize).map_or(std::ptr::null(), |name| name.as_ptr())
}

/// Writes `slc_counter_count()` values.
#[no_mangle]
pub unsafe extern "C" fn slc_counter_values(engine: *mut slc_engine, out: *mut u64) {
    let out = unsafe { std::slice::from_raw_parts_mut(out, Counters::NAMES.len()) };
    out.fill(0);
    if engine.is_null() {
        return;
    }
    let engine = unsafe { slc_engine::of(engine) };
    enter_value(engine, (), || out.copy_from_slice(&engine.counter_values()));
}

#[no_mangle]
pub unsafe extern "C" fn slc_engine_status_text(
    engine: *mut slc_engine,
    foreign_error: slc_bytes,
    cb: slc_text_cb,
    ctx: *mut c_void,
) {
    let engine = unsafe { slc_engine::of(engine) };
    let foreign_error = String::from_utf8_lossy(unsafe { foreign_error.get() });
    let text = enter_value(engine, String::new(), || engine.status_text_with(&foreign_error));
    if let Some(cb) = cb {
        unsafe { cb(ctx, text.as_ptr().cast(), text.len()) };
    }
}

impl slc_xid {
    pub fn to_xid(&self) -> Xid {
        let len = (self.gtrid_len + self.bqual_len) as usize;
        Xid {
            format_id: self.format_id,
            gtrid_len: self.gtrid_len,
            bqual_len: self.bqual_len,
            data: self.data[..len.min(self.data.len())].to_vec(),
        }
    }
    fn of(xid: &Xid) -> slc_xid {
        let mut data = [0; 128];
        data[..xid.data.len()].copy_from_slice(&xid.data);
        slc_xid {
            format_id: xid.format_id,
            gtrid_len: xid.gtrid_len,
            bqual_len: xid.bqual_len,
            data,
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn slc_recovered_prepared(engine: *mut slc_engine, out: *mut slc_xid, max: u32) -> u32 {
    let engine = unsafe { slc_engine::of(engine) };
    let found = enter_value(engine, Vec::new(), || engine.in_doubt.prepared());
    let n = found.len().min(max as usize);
    for (i, xid) in found[..n].iter().enumerate() {
        unsafe { out.add(i).write(slc_xid::of(xid)) };
    }
    n as u32
}

#[no_mangle]
pub unsafe extern "C" fn slc_commit_by_xid(
    engine: *mut slc_engine,
    xid: *const slc_xid,
    position: *const u8,
    len: usize,
) -> slc_err {
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || {
        let position: &[u8] = match len {
            0 => &[],
            _ => unsafe { std::slice::from_raw_parts(position, len) },
        };
        engine.decide_at(&unsafe { &*xid }.to_xid(), true, position)
    })
}

#[no_mangle]
pub unsafe extern "C" fn slc_rollback_by_xid(engine: *mut slc_engine, xid: *const slc_xid) -> slc_err {
    let engine = unsafe { slc_engine::of(engine) };
    enter(engine, || engine.decide(&unsafe { &*xid }.to_xid(), false))
}

//! Hot backup: whatever happens while the files are copied, the restored engine has exactly what
//! was committed at the point. A stream that is cut short or damaged anywhere is refused.
use super::bulk_insert::{commit, fill, shuffled};
use super::crash::{change_rows, wait_for_rollback};
use super::fixture::*;
use super::load_new_table::{load_all, row, Rows};
use crate::base::{Error, Result};
use crate::engine::backup::format::{FrameReader, FRAME_HEAD, HEAD};
use crate::engine::backup::{Backup, Phase, Restore, Restored};
use crate::engine::{Close, Config, Engine};
use crate::io::sim::SimDisk;
use crate::io::Disk;
use crate::table::{StoreConfig, TableLoad};
use crate::txn::{Isolation, Trx};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// Where a backup is written to.
#[derive(Clone, Default)]
pub struct Stream(Arc<Mutex<Vec<u8>>>);

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Stream {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().clone()
    }
}

const LOG_CAPACITY: u64 = 16 << 20;

fn small() -> Config {
    Config {
        store: StoreConfig {
            bulk_load_min: 0,
            ..StoreConfig::default()
        },
        sort_buffer_size: 64 << 10,
        // Without workers no checkpoint makes room: more than the test writes between two.
        redo_log_capacity: LOG_CAPACITY,
        ..config()
    }
}

fn engine_on(disk: Arc<SimDisk>) -> Arc<Engine> {
    Engine::open_still(disk, small()).expect("engine")
}

fn restore(stream: &[u8], disk: Arc<SimDisk>) -> Result<Restored> {
    let mut frames = FrameReader::new(stream)?;
    let mut restore = Restore::new(disk)?;
    loop {
        let (kind, payload) = frames.next_frame()?;
        restore.put((kind, payload))?;
        if kind == crate::engine::backup::format::END {
            return restore.finish();
        }
    }
}

/// A table in an engine: by name.
fn table(engine: &Arc<Engine>, name: &str) -> TableFixture {
    let table = engine.store().tables().open_table(name).expect("open");
    let engine = engine.clone();
    TableFixture { engine, table }
}

fn create(engine: &Arc<Engine>, name: &str) -> TableFixture {
    engine.store().tables().create_table(name, &spec()).expect("create");
    table(engine, name)
}

/// Work that goes on while the backup runs, and what of it is committed.
struct World {
    engine: Arc<Engine>,
    random: Random,
    /// By table.
    committed: BTreeMap<String, Model>,
    load: Option<(String, TableLoad, Trx, Rows, usize)>,
    tables: u32,
}

impl World {
    fn new(seed: u64) -> World {
        let engine = engine_on(SimDisk::new(seed));
        create(&engine, "t");
        let mut world = World {
            engine,
            random: Random(seed),
            committed: BTreeMap::from([("t".into(), Model::new())]),
            load: None,
            tables: 0,
        };
        // More than the pool holds.
        let rows: Rows = (0..1500).map(|n| (pk(n), big(n))).collect();
        load_all(&create(&world.engine, "large"), &rows).expect("load");
        world.committed.insert("large".into(), rows.into_iter().collect());
        for _ in 0..30 {
            world.change();
        }
        world.engine.checkpoint().expect("checkpoint");
        world
    }
    fn change(&mut self) {
        let fixture = table(&self.engine, "t");
        let mut trx = fixture.begin(Isolation::ReadCommitted);
        let mut model = self.committed["t"].clone();
        change_rows(&fixture, &mut self.random, &mut trx, &mut model).expect("change");
        match self.random.chance(15) {
            true => self.engine.rollback(&mut trx).expect("rollback"),
            false => {
                commit(&fixture, trx);
                self.committed.insert("t".into(), model);
            }
        }
    }
    /// Changes a few rows of the large table, so that its pages are read, changed and written.
    fn change_large(&mut self) {
        let fixture = table(&self.engine, "large");
        let mut trx = fixture.begin(Isolation::ReadCommitted);
        let model = self.committed.get_mut("large").expect("there");
        for _ in 0..10 {
            let key = pk(self.random.below(1500) as u32);
            let Some(old) = model.get(&key).cloned() else { continue };
            if self.random.chance(10) {
                fixture.delete(&mut trx, &key, &old).expect("delete");
                model.remove(&key);
                continue;
            }
            let mut new = old.clone();
            new.group = self.random.below(6) as u8;
            new.body[0] ^= 1;
            fixture.update(&mut trx, &key, &old, &new).expect("update");
            model.insert(key, new);
        }
        commit(&fixture, trx);
    }
    /// One piece of a load of a new table.
    fn load_some(&mut self) {
        let Some((name, mut load, mut trx, rows, done)) = self.load.take() else {
            self.tables += 1;
            let name = format!("load{}", self.tables);
            let fixture = create(&self.engine, &name);
            let trx = fixture.begin(Isolation::ReadCommitted);
            let load = fixture.store().loads().begin_load(&fixture.table).expect("look");
            let count = 300 + self.random.below(1500) as u32;
            self.load = Some((name, load.expect("empty"), trx, shuffled(count), 0));
            return;
        };
        let end = rows.len().min(done + 400);
        for (pk, row) in &rows[done..end] {
            with_entries(pk, row, |entries| load.add(pk, &row.encode(), entries)).expect("add");
        }
        if end < rows.len() {
            self.load = Some((name, load, trx, rows, end));
            return;
        }
        load.finish(&mut trx).expect("finish");
        self.engine.commit(&mut trx, true).expect("commit");
        self.committed.insert(name, rows.into_iter().collect());
    }
    fn make_or_drop(&mut self) {
        let droppable = self.committed.keys().find(|name| name.len() > 2 && *name != "large");
        if let Some(name) = droppable.filter(|_| self.random.chance(60)).cloned() {
            self.engine.store().tables().drop_table(&name).expect("drop");
            self.committed.remove(&name);
            return;
        }
        self.tables += 1;
        let name = format!("new{}", self.tables);
        let fixture = create(&self.engine, &name);
        let mut trx = fixture.begin(Isolation::ReadCommitted);
        let rows: Model = (0..40).map(|n| (pk(n), row(n))).collect();
        for (pk, row) in &rows {
            fixture.insert(&mut trx, pk, row).expect("insert");
        }
        commit(&fixture, trx);
        self.committed.insert(name, rows);
    }
    fn act(&mut self) {
        if self.engine.store().redo.room() < LOG_CAPACITY / 2 {
            self.engine.checkpoint().expect("checkpoint");
        }
        match self.random.below(12) {
            0..=3 => self.change(),
            4 | 5 => self.change_large(),
            6..=8 => self.load_some(),
            9 => self.make_or_drop(),
            10 => self.engine.checkpoint().expect("checkpoint"),
            _ => {
                let store = self.engine.store();
                while store.purger().purge_step(50).expect("purge") {}
                while store.trx_sys.truncate_undo(0).unwrap_or(false) {}
                store.pool.evict_clean();
            }
        }
    }
    /// The files of a restored engine hold what was committed.
    fn judge(&self, disk: Arc<SimDisk>, expected: &BTreeMap<String, Model>, what: &str) {
        let engine = Engine::open(disk, small()).unwrap_or_else(|e| panic!("{what}: {e}"));
        engine.start_background();
        wait_for_rollback(&engine);
        for (name, model) in expected {
            let fixture = table(&engine, name);
            let mut trx = fixture.begin(Isolation::RepeatableRead);
            fixture.check_view(&mut trx, model, &format!("{what}, table {name}"));
            engine.commit(&mut trx, false).expect("commit");
            fixture.check_table();
        }
        engine.close(Close::Slow).expect("close");
    }
}

/// Longer than a page in part, and never empty.
fn big(n: u32) -> Row {
    Row {
        body: vec![n as u8; 1 + n as usize % 4000],
        tag: (n % 4 != 0).then_some(n as u16),
        ..row(n)
    }
}

/// A backup among changes of all kinds: its stream, and what was committed at its point.
fn busy_stream(seed: u64) -> (World, BTreeMap<String, Model>, Vec<u8>) {
    let mut world = World::new(seed);
    world
        .engine
        .set("change_buffering", [5, 0][seed as usize % 2])
        .expect("set");
    if seed % 3 == 0 {
        // A load that began before the backup.
        (0..2).for_each(|_| world.load_some());
    }
    let stream = Stream::default();
    let mut backup = Backup::start(&world.engine, Box::new(stream.clone())).expect("start");
    while backup.step().expect("step") == Phase::Files {
        (0..world.random.below(3)).for_each(|_| world.act());
    }
    for _ in 0..world.random.below(20) {
        world.act();
        backup.step().expect("step");
    }
    let fixture = table(&world.engine, "t");
    let mut open = fixture.begin(Isolation::ReadCommitted);
    let mut ignored = world.committed["t"].clone();
    change_rows(&fixture, &mut world.random, &mut open, &mut ignored).expect("change");
    assert!(world.engine.backup.fix_point(b"here").expect("point"));
    let expected = world.committed.clone();
    commit(&fixture, open);
    world.committed.insert("t".into(), ignored);
    (0..5).for_each(|_| world.act());
    while backup.step().expect("step") != Phase::End {}
    drop(backup);
    (world, expected, stream.bytes())
}

#[test]
fn a_restored_engine_has_what_was_committed_at_the_point() {
    for seed in seeds(4) {
        let (mut world, expected, stream) = busy_stream(seed);
        (0..3).for_each(|_| world.act());
        let disk = SimDisk::new(seed);
        let restored = restore(&stream, disk.clone()).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert!(restored.broken.is_empty(), "seed {seed}: {:?}", restored.broken);
        world.judge(disk, &expected, &format!("seed {seed}"));
    }
}

/// Files that have a log have all that the backup has.
#[test]
fn a_restore_that_a_crash_cuts_short_is_no_database() {
    let (world, expected, stream) = busy_stream(7);
    let whole = SimDisk::new(1);
    restore(&stream, whole.clone()).expect("whole");
    let changes = whole.changes();
    let (mut refused, mut opened) = (0, 0);
    for at in changes - 40..=changes {
        let disk = SimDisk::new(1);
        disk.crash_at(at);
        assert!(restore(&stream, disk.clone()).is_err(), "the disk stops at change {at}");
        let disk = disk.crash(at);
        if disk.exists("redo_control").expect("the disk works again") {
            world.judge(disk, &expected, &format!("crash at {at}"));
            opened += 1;
        } else {
            assert!(Engine::open(disk, small()).is_err(), "crash at {at}");
            refused += 1;
        }
    }
    assert!(refused > 0, "{opened} of the crashes left a control file");
}

fn whole_stream(seed: u64) -> (World, Vec<u8>) {
    let world = World::new(seed);
    let stream = Stream::default();
    let mut backup = Backup::start(&world.engine, Box::new(stream.clone())).expect("start");
    while backup.step().expect("step") == Phase::Files {}
    world.engine.backup.fix_point(b"here").expect("point");
    while backup.step().expect("step") != Phase::End {}
    drop(backup);
    (world, stream.bytes())
}

#[test]
fn a_stream_that_is_cut_or_damaged_is_refused() {
    let (world, stream) = whole_stream(3);
    let mut random = Random(5);
    for _ in 0..40 {
        let end = random.below(stream.len() as u64) as usize;
        let cut = restore(&stream[..end], SimDisk::new(1));
        assert!(matches!(cut, Err(Error::Corrupt(_))), "cut at {end}: {cut:?}");
        let mut damaged = stream.clone();
        let at = random.below(stream.len() as u64) as usize;
        damaged[at] ^= 1 << random.below(8);
        let found = restore(&damaged, SimDisk::new(1));
        let is_reserved = (12..HEAD).contains(&at);
        assert!(found.is_err() || is_reserved, "bit at {at}");
    }
    assert!(stream.len() > HEAD + FRAME_HEAD);
    let disk = SimDisk::new(1);
    restore(&stream, disk.clone()).expect("whole");
    assert!(
        matches!(restore(&stream, disk.clone()), Err(Error::Invalid(_))),
        "not empty"
    );
    world.judge(disk, &world.committed, "whole");
}

#[test]
fn one_backup_at_a_time_and_only_with_the_log_on() {
    let world = World::new(1);
    let engine = &world.engine;
    let backup = Backup::start(engine, Box::new(Stream::default())).expect("start");
    let second = Backup::start(engine, Box::new(Stream::default()));
    assert!(matches!(second, Err(Error::InUse(_))));
    assert_eq!(engine.backup.phase(), Phase::Files, "the first goes on");
    let off = engine.set_redo_log(false);
    assert!(matches!(off, Err(Error::Unsupported(text)) if text.contains("backup")));
    drop(backup);
    assert_eq!(engine.backup.phase(), Phase::None);
    assert!(!engine.backup.fix_point(b"here").expect("none"));
    engine.set_redo_log(false).expect("off");
    let off = Backup::start(engine, Box::new(Stream::default()));
    assert!(matches!(off, Err(Error::Unsupported(text)) if text.contains("redo log is off")));
    engine.set_redo_log(true).expect("on");
    drop(Backup::start(engine, Box::new(Stream::default())).expect("start"));
}

#[test]
fn a_point_that_comes_too_early_fails_the_backup() {
    let world = World::new(1);
    let stream = Stream::default();
    let mut backup = Backup::start(&world.engine, Box::new(stream.clone())).expect("start");
    backup.step().expect("step");
    assert!(world.engine.backup.fix_point(b"here").is_err());
    assert!(backup.step().is_err());
    drop(backup);
    let refused = restore(&stream.bytes(), SimDisk::new(1));
    assert!(matches!(refused, Err(Error::Unsupported(text)) if text.contains("commits were blocked")));
}

/// A pipe whose reader closes it after the last frame. True: the last frame is to come.
struct ClosedAfterEnd(Arc<AtomicBool>);

impl Write for ClosedAfterEnd {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(std::io::ErrorKind::BrokenPipe.into()),
            false => Ok(()),
        }
    }
}

#[test]
fn a_reader_that_ends_after_the_last_frame_fails_no_backup() {
    let world = World::new(3);
    let is_last = Arc::new(AtomicBool::new(false));
    let pipe = ClosedAfterEnd(is_last.clone());
    let mut backup = Backup::start(&world.engine, Box::new(pipe)).expect("start");
    while backup.step().expect("step") == Phase::Files {}
    assert!(world.engine.backup.fix_point(b"here").expect("point"));
    is_last.store(true, Ordering::Relaxed);
    while backup.step().expect("the reader has the whole backup") != Phase::End {}
}

#[test]
fn a_copy_that_lags_fails_and_stops_no_writer() {
    let world = World::new(2);
    let stream = Stream::default();
    let mut backup = Backup::start(&world.engine, Box::new(stream.clone())).expect("start");
    backup.step().expect("step");
    world.engine.set("redo_log_capacity", 1 << 20).expect("set");
    let begun = world.engine.lsn();
    // Loads are logged now. Each of these fills a part of the ring.
    for n in 0.. {
        if world.engine.lsn() >= begun + (4 << 20) {
            break;
        }
        load_all(&create(&world.engine, &format!("fill{n}")), &shuffled(200)).expect("load");
        world.engine.checkpoint().expect("checkpoint");
    }
    let redo = world.engine.store().redo.clone();
    assert!(matches!(backup.step(), Err(Error::Full(text)) if text.contains("too slow")));
    drop(backup);
    world.engine.checkpoint().expect("checkpoint");
    world.engine.store().redo.adjust_segments().expect("a segment");
    assert!(!redo.is_copied());
    let disk_bytes = (0..40).map(|_| redo.adjust_segments().expect("a segment")).count();
    assert_eq!(disk_bytes, 40);
    redo.publish_gauges();
    let bytes = world.engine.counters().redo_log_disk_bytes.get();
    assert!(bytes < 8 << 20, "the ring is small again: {bytes}");
}

#[test]
fn a_backup_among_threads() {
    let disk = SimDisk::new(9);
    let engine = Engine::open(disk, small()).expect("engine");
    engine.start_background();
    let rows: Rows = (0..1500).map(|n| (pk(n), big(n))).collect();
    load_all(&create(&engine, "large"), &rows).expect("load");
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writers: Vec<_> = (0..4u32)
        .map(|thread| {
            let (engine, stop) = (engine.clone(), stop.clone());
            create(&engine, &format!("w{thread}"));
            std::thread::spawn(move || {
                let fixture = table(&engine, &format!("w{thread}"));
                let mut n = 0;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    // Pairs of rows, that are there together or not at all.
                    let mut trx = fixture.begin(Isolation::ReadCommitted);
                    for key in [2 * n, 2 * n + 1] {
                        let row = Row { tag: None, ..row(key) };
                        fixture.insert(&mut trx, &pk(key), &row).expect("insert");
                    }
                    fixture.engine.commit(&mut trx, true).expect("commit");
                    n += 1;
                }
            })
        })
        .collect();
    let loader = {
        let (engine, stop) = (engine.clone(), stop.clone());
        std::thread::spawn(move || {
            for n in 0..60 {
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                let fixture = create(&engine, &format!("load{n}"));
                // A load of a transaction: whole or not there.
                let mut trx = fixture.begin(Isolation::ReadCommitted);
                fill(&fixture, &mut trx, &shuffled(800)).expect("load");
                commit(&fixture, trx);
            }
        })
    };
    for round in 0..4 {
        let stream = Stream::default();
        let mut backup = Backup::start(&engine, Box::new(stream.clone())).expect("start");
        while backup.step().expect("step") == Phase::Files {}
        std::thread::sleep(Duration::from_millis(20));
        assert!(engine.backup.fix_point(b"here").expect("point"));
        while backup.step().expect("step") != Phase::End {}
        drop(backup);
        let disk = SimDisk::new(round);
        restore(&stream.bytes(), disk.clone()).expect("restore");
        judge_threads(disk, &rows.iter().cloned().collect());
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().expect("writer"));
    loader.join().expect("loader");
    engine.close(Close::Fast).expect("close");
}

/// Tables are whole, pairs are whole, loads are whole or not there.
fn judge_threads(disk: Arc<SimDisk>, large: &Model) {
    let engine = Engine::open(disk, small()).expect("recovers");
    engine.start_background();
    wait_for_rollback(&engine);
    let view = |name: &str| {
        let fixture = table(&engine, name);
        fixture.check_table();
        let mut trx = fixture.begin(Isolation::RepeatableRead);
        let rows = fixture.scan(&mut trx, 0, false, false, None).expect("scan");
        engine.commit(&mut trx, false).expect("commit");
        rows.into_iter().map(|f| (f.pk, Row::decode(&f.row))).collect::<Model>()
    };
    assert_eq!(&view("large"), large);
    for thread in 0..4 {
        let rows = view(&format!("w{thread}"));
        let expected: Model = (0..rows.len() as u32)
            .map(|n| (pk(n), Row { tag: None, ..row(n) }))
            .collect();
        assert!(rows.len() % 2 == 0 && rows == expected, "writer {thread}");
    }
    let whole: Model = shuffled(800).into_iter().collect();
    for n in 0.. {
        let name = format!("load{n}");
        if engine.store().tables().open_table(&name).is_err() {
            break;
        }
        let rows = view(&name);
        assert!(rows.is_empty() || rows == whole, "load {n}");
    }
    engine.close(Close::Fast).expect("close");
}

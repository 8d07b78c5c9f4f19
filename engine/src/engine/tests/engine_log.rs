//! What users read in the engine's log of work that ends in the background, and at which level.
use super::fixture::*;
use crate::engine::{Config, Engine, Level, LogSink};
use crate::io::sim::SimDisk;
use crate::txn::Isolation;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

pub(super) type Logged = Arc<Mutex<Vec<(Level, String)>>>;

pub(super) fn open(disk: Arc<SimDisk>) -> (Arc<Engine>, Logged) {
    let logged = Logged::default();
    let into = logged.clone();
    let log: LogSink = Arc::new(move |level, text: &str| into.lock().push((level, text.to_string())));
    let engine = Engine::open(disk, Config { log, ..config() }).expect("opens");
    (engine, logged)
}

fn wait_for(logged: &Logged, start: &str) -> Level {
    for _ in 0..20_000 {
        if let Some((level, _)) = logged.lock().iter().find(|(_, text)| text.starts_with(start)) {
            return *level;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{start:?} was not logged: {:?}", logged.lock());
}

/// The limit changes at once, the files follow. The end of the resize was not logged.
#[test]
fn the_end_of_a_resize_of_the_log() {
    let (engine, logged) = open(SimDisk::new(1));
    engine.set("redo_log_capacity", 4 << 20).expect("set");
    assert_eq!(wait_for(&logged, "redo log: resized from 8 to 4 MiB"), Level::Info);
    assert!(engine.store().redo.has_all_segments());
    engine.set("redo_log_capacity", 5 << 20).expect("set");
    assert_eq!(wait_for(&logged, "redo log: resized from 4 to 5 MiB"), Level::Info);
}

#[test]
fn the_end_of_the_rollback_of_losers() {
    let disk = SimDisk::new(1);
    let fixture = TableFixture::create(disk.clone());
    let mut trx = fixture.begin(Isolation::ReadCommitted);
    let row = Row {
        group: 1,
        shade: 0,
        tag: None,
        body: vec![1; 20],
    };
    fixture.insert(&mut trx, &pk(1), &row).expect("insert");
    fixture.engine.flush_log().expect("durable");
    std::mem::forget(trx); // as at a crash: it is not ended
    let (engine, logged) = open(disk.crash(1));
    engine.start_background();
    let end = "rollback of uncommitted transactions is done: 1 in ";
    assert_eq!(wait_for(&logged, end), Level::Info);
    let text = logged.lock().pop().expect("logged").1;
    assert!(text.ends_with(" s"), "none waits: {text}");
}

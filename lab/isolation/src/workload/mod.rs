//! The random transactions, and what the server answered to them.
//!
//! There are two tables.
//! - `lists`: a row is absent until its first append. After `LIST_MAX` appends its slot goes on to
//!   a new key. So some rows are always missing among others, and lists stay short.
//! - `registers`: rows whose one value is read, then written. Sometimes one is deleted and brought
//!   back.
//!
//! In both, `place` is in the band of its row and changes with every write. So a read by `place`
//! must find each row exactly once, though its entries in the indexes move all the time.
//!
//! `session` has a connection, and how its transactions begin and end. `lists` and `registers` have
//! their statements.
mod lists;
mod registers;
mod session;

use crate::Plan;
use isolation_judge::history::TrxNo;
use isolation_judge::{History, Item, Seen, Time, Value};
use mysql::prelude::Queryable;
use session::Session;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// As long as a restart after a kill may take.
const RECONNECT_S: u64 = 120;
/// As long as all sessions may be without a commit. Then an answer will not come any more, or half
/// of it.
const ANSWER: Duration = Duration::from_secs(RECONNECT_S + 30);
const LIST_MAX: u32 = 24;
const BAND: u32 = 64;
/// A row of `registers` that no transaction changes: a statement that moves another row to its key
/// fails.
const TAKEN: u32 = 2_000_000_000;

type Result<T> = std::result::Result<T, mysql::Error>;

struct Shared {
    begun: Instant,
    /// Appends tried in each slot of `lists`.
    appends: Vec<AtomicU32>,
    values: AtomicU32,
    commits: AtomicU64,
}

/// What the tables hold in the end.
#[derive(Default)]
struct Left {
    rows: Vec<(Item, Seen)>,
    /// Where their indexes, or CHECK TABLE, say otherwise.
    broken: Vec<String>,
}

impl Shared {
    fn now(&self) -> Time {
        self.begun.elapsed().as_micros() as Time
    }
}

/// What the sessions met, and complaints about the tables that they left.
pub fn run(plan: &Plan) -> std::result::Result<(History, Vec<String>), String> {
    set_up(plan).map_err(|e| format!("the tables could not be made: {e}"))?;
    let shared = Shared {
        begun: Instant::now(),
        appends: (0..plan.rows).map(|_| AtomicU32::new(0)).collect(),
        values: AtomicU32::new(1),
        commits: AtomicU64::new(0),
    };
    let style =
        indicatif::ProgressStyle::with_template("{bar:40} {pos}/{len} commits, {per_sec}, {eta}").expect("a template");
    let bar = indicatif::ProgressBar::new(plan.commits).with_style(style);
    let mut history = History::default();
    std::thread::scope(|scope| {
        let sessions: Vec<_> = (0..plan.connections)
            .map(|number| {
                let shared = &shared;
                scope.spawn(move || Session::new(plan, shared, number).run())
            })
            .collect();
        let mut last = (0, Instant::now());
        while sessions.iter().any(|s| !s.is_finished()) {
            let commits = shared.commits.load(Ordering::Relaxed);
            if commits != last.0 {
                last = (commits, Instant::now());
            }
            if last.1.elapsed() > ANSWER {
                // The thread that waits cannot be joined.
                eprintln!("error: a session waits for an answer that does not come; {commits} commits");
                std::process::exit(1);
            }
            bar.set_position(commits);
            if let Some(file) = &plan.progress {
                std::fs::write(file, commits.to_string()).map_err(|e| format!("{}: {e}", file.display()))?;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        for session in sessions {
            let record = session.join().map_err(|_| "a session panicked")??;
            let first = history.transactions.len() as TrxNo;
            let numbered = |said: Vec<(TrxNo, String)>| said.into_iter().map(move |(trx, text)| (first + trx, text));
            history.transactions.extend(record.transactions);
            history.misread.extend(numbered(record.misread));
            history.refused.extend(numbered(record.refused));
        }
        Ok::<_, String>(())
    })?;
    bar.finish_and_clear();
    let left = left_at_last(plan).map_err(|e| format!("the end could not be read: {e}"))?;
    history.left = Some(left.rows);
    Ok((history, left.broken))
}

/// The last kill may come when all transactions have ended.
fn left_at_last(plan: &Plan) -> Result<Left> {
    let until = Instant::now() + Duration::from_secs(RECONNECT_S);
    loop {
        match left(plan) {
            Err(error) if session::is_gone(&error) && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(100));
            }
            read => return read,
        }
    }
}

fn set_up(plan: &Plan) -> Result<()> {
    let mut c = plan.server.connect(None)?;
    let Plan {
        database, engine, rows, ..
    } = plan;
    c.query_drop(format!("DROP DATABASE IF EXISTS {database}"))?;
    c.query_drop(format!("CREATE DATABASE {database} CHARACTER SET latin1"))?;
    c.query_drop(format!("USE {database}"))?;
    let keys = "KEY place (place), KEY covering (place, last)";
    let unique_keys = "KEY place (place), UNIQUE KEY covering (place, last)";
    c.query_drop(format!(
        "CREATE TABLE lists (id INT PRIMARY KEY, place INT NOT NULL, last INT NOT NULL, list VARCHAR(4000) NOT NULL, {keys}) ENGINE={engine}"
    ))?;
    c.query_drop(format!(
        "CREATE TABLE registers (id INT PRIMARY KEY, place INT NOT NULL, last INT NOT NULL, {unique_keys}) ENGINE={engine}"
    ))?;
    // Two rows that stay as they are, for INSERT ... SELECT.
    c.query_drop(format!("CREATE TABLE pair (id INT PRIMARY KEY) ENGINE={engine}"))?;
    c.query_drop("INSERT INTO pair VALUES (0), (1)")?;
    // What sessions have read by INSERT ... SELECT.
    c.query_drop(format!(
        "CREATE TABLE copies (session INT PRIMARY KEY, number INT NOT NULL, told TEXT) ENGINE={engine}"
    ))?;
    let all: Vec<_> = (0..*rows).map(|id| format!("({id}, {}, 0)", id * BAND)).collect();
    c.query_drop(format!(
        "INSERT INTO registers VALUES ({TAKEN}, {TAKEN}, 0), {}",
        all.join(", ")
    ))
}

/// Reads both tables, by the primary key and by the indexes.
fn left(plan: &Plan) -> Result<Left> {
    let mut c = plan.server.connect(Some(&plan.database))?;
    session::wait_for_cluster(plan, &mut c)?;
    let mut left = Left::default();
    for (id, list) in c.query::<(u32, String), _>("SELECT id, list FROM lists")? {
        left.rows.push((Item::List(id), Seen::List(lists::values(&list))));
    }
    let registers = format!("SELECT id, last FROM registers WHERE id < {TAKEN}");
    for (id, value) in c.query::<(u32, Value), _>(registers)? {
        left.rows.push((Item::Register(id), registers::seen(value)));
    }
    for table in ["lists", "registers"] {
        let checked: Vec<(String, String, String, String)> = c.query(format!("CHECK TABLE {table} EXTENDED"))?;
        let complaints = checked.iter().filter(|row| row.3 != "OK");
        left.broken
            .extend(complaints.map(|(_, _, kind, text)| format!("CHECK TABLE {table}: {kind}: {text}")));
        let by = |index: &str| {
            format!("SELECT COUNT(*), SUM(id), SUM(last) FROM {table} FORCE INDEX ({index}) WHERE place >= 0")
        };
        let answers = ["place", "covering", "PRIMARY"]
            .map(by)
            .map(|sql| c.query_first::<mysql::Row, _>(sql));
        let [a, b, p] = answers.map(|row| row.map(|r| r.map(|r| format!("{:?}", r.unwrap()))));
        let (a, b, p) = (a?, b?, p?);
        if a != p || b != p {
            left.broken
                .push(format!("{table} by its indexes: {a:?}, {b:?}, by its rows: {p:?}"));
        }
    }
    Ok(left)
}

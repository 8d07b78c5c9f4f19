//! Commits a second through the redo log alone.
//!
//! Each thread appends a group of 300 bytes, and waits until it is durable (`sync`) or written
//! (`write`). Direct and buffered I/O take turns. The figures are medians over the rounds.
//!
//! `cargo bench --bench redo_commit [-- --dir=DIRECTORY]` measures on a real disk. Without
//! `--bench`, as in `cargo test`, the program runs through once, so that it never rots.
use sluice::base::Counters;
use sluice::io::RealDisk;
use sluice::redo::{FlushMode, Redo, RedoConfig};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Plan {
    round: Duration,
    rounds: usize,
    capacity: u64,
}

fn main() {
    let full = std::env::args().any(|a| a == "--bench");
    let given = std::env::args().find_map(|a| a.strip_prefix("--dir=").map(PathBuf::from));
    let base = given.unwrap_or_else(std::env::temp_dir);
    let plan = match full {
        true => Plan {
            round: Duration::from_millis(300),
            rounds: 15,
            capacity: 64 << 20,
        },
        false => Plan {
            round: Duration::from_millis(10),
            rounds: 1,
            capacity: 1 << 20,
        },
    };
    let logs = [
        Log::create(&base, "buffered", &plan),
        Log::create(&base, "direct", &plan),
    ];
    for (name, mode) in [("sync", FlushMode::Sync), ("write", FlushMode::Write)] {
        for threads in [1, 2, 8, 32] {
            let mut rounds = [Vec::new(), Vec::new()];
            for _ in 0..plan.rounds {
                for (log, rounds) in logs.iter().zip(&mut rounds) {
                    rounds.push(log.round(plan.round, threads, mode));
                }
            }
            for (log, rounds) in logs.iter().zip(&rounds) {
                println!(
                    "{name:5} threads={threads:2} {:8} commits/s={:7.0} commits/fsync={:7.1} cpu_us/commit={:6.2}",
                    log.name,
                    median(rounds, |r| r.commits_per_s),
                    median(rounds, |r| r.commits_per_fsync),
                    median(rounds, |r| r.cpu_us),
                );
            }
        }
    }
}

struct Round {
    commits_per_s: f64,
    commits_per_fsync: f64,
    cpu_us: f64,
}

fn median(rounds: &[Round], of: impl Fn(&Round) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Processor time of the process so far, in microseconds (the kernel counts in hundredths of a
/// second).
fn cpu_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) * 10_000.0
}

/// A log in a directory of its own, removed at the end.
struct Log {
    name: &'static str,
    dir: PathBuf,
    redo: Redo,
    counters: Arc<Counters>,
}

impl Drop for Log {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Log {
    fn create(base: &Path, name: &'static str, plan: &Plan) -> Log {
        let dir = base.join(format!("sluice-redo-bench-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let disk = RealDisk::open(&dir).expect("the directory can be used");
        let counters = Arc::new(Counters::default());
        let config = RedoConfig {
            capacity: plan.capacity,
            buffer_size: 16 << 20,
            direct_io: name == "direct",
        };
        let redo = Redo::create(disk, config, counters.clone()).expect("a log can be made");
        // Checkpoints preallocate the ring.
        for _ in 0..16 {
            redo.write_checkpoint(redo.lsn(), b"").expect("checkpoint");
        }
        Log {
            name,
            dir,
            redo,
            counters,
        }
    }
    fn round(&self, length: Duration, threads: u32, mode: FlushMode) -> Round {
        let stop = AtomicBool::new(false);
        let fsyncs = self.counters.redo_log_fsyncs.get();
        let (start, cpu) = (Instant::now(), cpu_us());
        let commits: u64 = std::thread::scope(|s| {
            let committers: Vec<_> = (0..threads)
                .map(|_| s.spawn(|| self.commit_until(&stop, mode)))
                .collect();
            // To the last committer's end: one may be waiting for room that only a checkpoint
            // makes.
            while committers.iter().any(|c| !c.is_finished()) {
                stop.store(start.elapsed() >= length, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
                if self.redo.wanted() {
                    self.redo.write_checkpoint(self.redo.lsn(), b"").expect("checkpoint");
                }
            }
            committers.into_iter().map(|c| c.join().expect("a committer")).sum()
        });
        let fsyncs = (self.counters.redo_log_fsyncs.get() - fsyncs).max(1);
        Round {
            commits_per_s: commits as f64 / start.elapsed().as_secs_f64(),
            commits_per_fsync: commits as f64 / fsyncs as f64,
            cpu_us: (cpu_us() - cpu) / commits.max(1) as f64,
        }
    }
    fn commit_until(&self, stop: &AtomicBool, mode: FlushMode) -> u64 {
        let group = [7u8; 300];
        let mut commits = 0;
        while !stop.load(Ordering::Relaxed) {
            self.redo.reserve_wait().expect("room");
            let (_, end) = self.redo.append(&group);
            self.redo.flush(end, mode).expect("flush");
            commits += 1;
        }
        commits
    }
}

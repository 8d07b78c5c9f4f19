//! The progress of a backup, its rate and the time left; and the throttle.
use std::io::{IsTerminal, Read, Write};
use std::time::{Duration, Instant};

/// Reports on standard error: each second to a terminal, else each ten seconds. A server that
/// transfers its state gets lines `total` and `complete` on standard output.
pub struct Progress {
    quiet: bool,
    for_server: bool,
    start: Instant,
    next: Duration,
    total: u64,
    done: u64,
    pub phase: &'static str,
}

impl Progress {
    pub fn new(quiet: bool) -> Progress {
        Progress {
            quiet,
            for_server: false,
            start: Instant::now(),
            next: Duration::from_secs(1),
            total: 0,
            done: 0,
            phase: "data files",
        }
    }
    /// For a server that reads this program's standard output.
    pub fn for_server() -> Progress {
        Progress {
            for_server: true,
            ..Progress::new(true)
        }
    }
    pub fn expect(&mut self, bytes: u64) {
        self.total = bytes;
        if self.for_server {
            to_server("total", bytes);
        }
    }
    pub fn pass(&mut self, bytes: u64) {
        self.done += bytes;
        let passed = self.start.elapsed();
        if passed < self.next {
            return;
        }
        if self.for_server {
            self.next = passed + Duration::from_secs(1);
            to_server("complete", self.done);
        }
        if self.quiet {
            return;
        }
        let is_terminal = std::io::stderr().is_terminal();
        self.next = passed + Duration::from_secs(if is_terminal { 1 } else { 10 });
        let line = self.line(passed);
        match is_terminal {
            true => eprint!("\r\x1b[K{line}"),
            false => eprintln!("{line}"),
        }
        let _ = std::io::stderr().flush();
    }
    fn line(&self, passed: Duration) -> String {
        let rate = self.done as f64 / passed.as_secs_f64().max(0.001);
        let percent = self.done.min(self.total) * 100 / self.total.max(1);
        let left = (self.total.saturating_sub(self.done)) as f64 / rate.max(1.0);
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        format!(
            "{}: {percent} %, {:.0} of {:.0} MiB, {:.0} MiB/s, {} left",
            self.phase,
            mib(self.done as f64),
            mib(self.total as f64),
            mib(rate),
            clock(left as u64)
        )
    }
    /// A line of its own.
    pub fn say(&self, text: &str) {
        if !self.quiet {
            let clear = if std::io::stderr().is_terminal() {
                "\r\x1b[K"
            } else {
                ""
            };
            eprintln!("{clear}{text}");
        }
    }
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}

fn to_server(what: &str, bytes: u64) {
    // A server that is gone reads nothing: `sst::watch` ends this program.
    let _ = writeln!(std::io::stdout(), "{what} {bytes}");
}

fn clock(seconds: u64) -> String {
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// A reader with a bound of bytes per second. The full pipe makes the server wait.
pub struct Throttle<R: Read> {
    from: R,
    rate: Option<u64>,
    start: Instant,
    bytes: u64,
}

impl<R: Read> Throttle<R> {
    pub fn new(from: R, mib_a_second: Option<u64>) -> Throttle<R> {
        Throttle {
            from,
            rate: mib_a_second.map(|mib| mib.max(1) << 20),
            start: Instant::now(),
            bytes: 0,
        }
    }
}

impl<R: Read> Read for Throttle<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let n = self.from.read(into)?;
        let Some(rate) = self.rate else { return Ok(n) };
        self.bytes += n as u64;
        let due = Duration::from_secs_f64(self.bytes as f64 / rate as f64);
        let passed = self.start.elapsed();
        match due.checked_sub(passed) {
            Some(wait) if wait > Duration::from_millis(1) => std::thread::sleep(wait),
            // After a pause without data, at most a tenth of a second is caught up.
            None if passed - due > Duration::from_millis(100) => {
                self.start = Instant::now();
                self.bytes = 0;
            }
            _ => {}
        }
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_rate_and_the_rest() {
        let mut progress = Progress::new(true);
        progress.expect(400 << 20);
        progress.pass(100 << 20);
        let line = progress.line(Duration::from_secs(10));
        assert_eq!(line, "data files: 25 %, 100 of 400 MiB, 10 MiB/s, 0:00:30 left");
    }

    #[test]
    fn a_throttle_slows_down() {
        let start = Instant::now();
        let bytes = vec![0; 1 << 20];
        let mut out = Vec::new();
        Throttle::new(&bytes[..], Some(4)).read_to_end(&mut out).unwrap();
        assert!(start.elapsed() >= Duration::from_millis(230), "{:?}", start.elapsed());
    }
}

//! Bulk writers into a table of (primary key, text): the same rows under keys that differ in order
//! and in width.
//!
//! A kind of key is SOURCE:COLUMN, such as random:int or uuid7:binary. Sources: auto (the server
//! counts), counter (the client counts), random, uuid1, uuid4, uuid7, ulid. Columns: int, bigint,
//! char, binary, uuid (the server's own type). ULIDs and version-7 UUIDs are not monotonic within a
//! millisecond, neither within a writer nor across writers.
use crate::meter::{report, Meter};
use crate::target::{retryable, Target};
use clap::Args;
use mysql::prelude::Queryable;
use serde_json::Value;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

const TABLE: &str = "keyed";
const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// 100 ns steps between 1582-10-15 and 1970-01-01, as version-1 UUIDs count them.
const GREGORIAN_OFFSET: u64 = 0x01B2_1DD2_1381_4000;

#[derive(Args)]
pub struct Keys {
    /// SOURCE:COLUMN, such as auto:int, random:int, uuid4:char, ulid:char, uuid7:binary
    #[arg(long)]
    kind: String,
    #[arg(long)]
    rows: u64,
    #[arg(long, default_value_t = 8)]
    writers: usize,
    /// Rows of one INSERT, which is one commit
    #[arg(long, default_value_t = 100)]
    batch: u64,
    #[arg(long, default_value_t = 1024)]
    text_bytes: usize,
}

impl Keys {
    pub fn run(&self, target: &Target) -> mysql::Result<Value> {
        let (source, column) = self.kind.split_once(':').unwrap_or((&self.kind, "int"));
        let definition = match (source, column) {
            ("auto", "int") => "INT NOT NULL AUTO_INCREMENT",
            ("auto", _) => "BIGINT NOT NULL AUTO_INCREMENT",
            (_, "int") => "INT NOT NULL",
            (_, "bigint") => "BIGINT NOT NULL",
            (_, "binary") => "BINARY(16) NOT NULL",
            (_, "uuid") => "UUID NOT NULL",
            ("ulid", _) => "VARCHAR(26) NOT NULL",
            _ => "CHAR(36) NOT NULL",
        };
        target.create(
            &mut target.connect()?,
            TABLE,
            &format!("id {definition} PRIMARY KEY, body MEDIUMTEXT NOT NULL"),
        )?;
        let (left, counter) = (AtomicU64::new(self.rows), AtomicU64::new(1));
        let start = Instant::now();
        let mut meters = vec![];
        thread::scope(|scope| {
            let writers: Vec<_> = (0..self.writers)
                .map(|number| {
                    let (left, counter) = (&left, &counter);
                    scope.spawn(move || self.write(target, start, source, column, number, left, counter))
                })
                .collect();
            for writer in writers {
                meters.push(writer.join().expect("writer panicked")?);
            }
            Ok::<_, mysql::Error>(())
        })?;
        Ok(report(
            start.elapsed(),
            self.writers,
            &[("insert", &Meter::sum(start, meters))],
        ))
    }

    #[allow(clippy::too_many_arguments)] // what one writer needs, shared and own
    fn write(
        &self,
        target: &Target,
        start: Instant,
        source: &str,
        column: &str,
        number: usize,
        left: &AtomicU64,
        counter: &AtomicU64,
    ) -> mysql::Result<Meter> {
        let mut connection = target.connect()?;
        let mut random = fastrand::Rng::with_seed(target.seed.wrapping_mul(7919).wrapping_add(number as u64));
        let mut meter = Meter::new(start);
        loop {
            let taken = left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    Some(left.saturating_sub(self.batch))
                })
                .unwrap_or(0);
            let rows = taken.min(self.batch);
            if rows == 0 {
                return Ok(meter);
            }
            loop {
                // The statement is made again for each try, so that a random duplicate does not
                // come back.
                let statement = self.statement(source, column, rows, &mut random, counter);
                let due = Instant::now();
                match connection.query_drop(&statement) {
                    Ok(()) => {
                        meter.record(due, rows);
                        break;
                    }
                    Err(error) => meter.error(retryable(&error).ok_or(error)?),
                }
            }
        }
    }

    fn statement(
        &self,
        source: &str,
        column: &str,
        rows: u64,
        random: &mut fastrand::Rng,
        counter: &AtomicU64,
    ) -> String {
        let mut text = String::with_capacity(rows as usize * (self.text_bytes + 48));
        text.push_str(if source == "auto" {
            "INSERT INTO keyed (body) VALUES "
        } else {
            "INSERT INTO keyed (id, body) VALUES "
        });
        for row in 0..rows {
            text.push_str(if row == 0 { "(" } else { ",(" });
            if source != "auto" {
                push_key(&mut text, source, column, random, counter);
                text.push(',');
            }
            text.push('\'');
            text.extend((0..self.text_bytes).map(|_| random.lowercase()));
            text.push_str("')");
        }
        text
    }
}

fn push_key(text: &mut String, source: &str, column: &str, random: &mut fastrand::Rng, counter: &AtomicU64) {
    let number = match (source, column) {
        ("counter", _) => counter.fetch_add(1, Ordering::Relaxed) as u128,
        (_, "int") => random.u32(1..i32::MAX as u32) as u128,
        (_, "bigint") => random.u64(1..i64::MAX as u64) as u128,
        ("uuid1", _) => uuid1(random),
        ("uuid7", _) => uuid7(random),
        ("ulid", _) => ulid(random),
        _ => (random.u128(..) & !(0xF000_u128 << 64) & !(0xC_u128 << 60)) | (0x4000_u128 << 64) | (0x8_u128 << 60),
    };
    let _ = match (source, column) {
        (_, "int" | "bigint") => write!(text, "{number}"),
        (_, "binary") => write!(text, "x'{number:032x}'"),
        ("ulid", _) => write!(text, "'{}'", ulid_text(number)),
        _ => write!(
            text,
            "'{:08x}-{:04x}-{:04x}-{:04x}-{:012x}'",
            number >> 96,
            (number >> 80) & 0xFFFF,
            (number >> 64) & 0xFFFF,
            (number >> 48) & 0xFFFF,
            number & 0xFFFF_FFFF_FFFF
        ),
    };
}

fn nanoseconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}

fn uuid7(random: &mut fastrand::Rng) -> u128 {
    let milliseconds = (nanoseconds() / 1_000_000) as u128;
    (milliseconds << 80)
        | (0x7_u128 << 76)
        | ((random.u16(..) as u128 & 0xFFF) << 64)
        | (0x2_u128 << 62)
        | (random.u64(..) as u128 >> 2)
}

fn uuid1(random: &mut fastrand::Rng) -> u128 {
    let time = (nanoseconds() / 100 + GREGORIAN_OFFSET) as u128;
    ((time & 0xFFFF_FFFF) << 96)
        | (((time >> 32) & 0xFFFF) << 80)
        | (0x1_u128 << 76)
        | (((time >> 48) & 0xFFF) << 64)
        | (0x2_u128 << 62)
        | (random.u64(..) as u128 >> 2)
}

fn ulid(random: &mut fastrand::Rng) -> u128 {
    (((nanoseconds() / 1_000_000) as u128) << 80) | (random.u128(..) >> 48)
}

fn ulid_text(number: u128) -> String {
    (0..26)
        .rev()
        .map(|digit| CROCKFORD[((number >> (digit * 5)) & 31) as usize] as char)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: &str) -> String {
        let (source, column) = kind.split_once(':').unwrap();
        let mut text = String::new();
        push_key(
            &mut text,
            source,
            column,
            &mut fastrand::Rng::with_seed(1),
            &AtomicU64::new(41),
        );
        text
    }

    #[test]
    fn keys_have_the_form_of_their_kind() {
        assert_eq!(key("counter:int"), "41");
        assert!(key("random:int").parse::<i32>().unwrap() > 0);
        for (kind, version) in [("uuid1:char", "1"), ("uuid4:char", "4"), ("uuid7:uuid", "7")] {
            let text = key(kind);
            assert_eq!(text.len(), 38);
            assert_eq!(&text[15..16], version, "{text}");
            assert!("89ab".contains(&text[20..21]), "{text}");
        }
        assert_eq!(key("uuid7:binary").len(), 2 + 32 + 1);
        assert_eq!(key("ulid:char").len(), 28);
    }

    #[test]
    fn time_ordered_keys_ascend() {
        let mut random = fastrand::Rng::with_seed(1);
        let (first, ulid_first) = (uuid7(&mut random), ulid_text(ulid(&mut random)));
        thread::sleep(std::time::Duration::from_millis(3));
        assert!(uuid7(&mut random) > first);
        assert!(ulid_text(ulid(&mut random)) > ulid_first);
    }
}

//! The insert benchmark: a table of purchases with an ascending primary key and three secondary
//! indexes in random order.
//!
//! Two generations of the published workload differ in the first columns of the indexes:
//! - 2023: price FLOAT = (0..500 + customer) / 100; indexes (price, customer),
//!   (register, price, customer), (price, time, customer)
//! - now: price INT 0..499; indexes (product, customer, price), (register, customer, price),
//!   (price, time, customer)
//!
//! So new rows of the third index go to some 500 hot leaves now, and went to some 100,000 then.
//!
//! There is one inserter, whose statements a second thread makes ahead; any number of query
//! threads; optionally a deletion of the oldest rows. A statement is a commit. The same seed gives
//! the same rows, except for the time column.
use crate::meter::{report, Meter};
use crate::target::{retryable, Target};
use clap::{Args, ValueEnum};
use lab_server::is_lost;
use mysql::prelude::Queryable;
use serde_json::Value;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{sync_channel, Receiver};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub const TABLE: &str = "pi1";
const REGISTERS: u64 = 1_000;
const PRODUCTS: u64 = 10_000;
const CUSTOMERS: u64 = 100_000;
const PRICES: u64 = 500;
const STATEMENTS_AHEAD: usize = 8;

#[derive(Clone, Copy, ValueEnum)]
pub enum Schema {
    #[value(name = "2023")]
    Then,
    Now,
}

impl Schema {
    fn price_type(self) -> &'static str {
        match self {
            Schema::Then => "FLOAT",
            Schema::Now => "INT",
        }
    }

    /// Columns of the secondary indexes.
    fn indexes(self) -> [(&'static str, &'static [&'static str]); 3] {
        let third = ("price_time", ["price", "dateandtime", "customerid"].as_slice());
        match self {
            Schema::Then => [
                ("price_customer", ["price", "customerid"].as_slice()),
                ("register_price", ["cashregisterid", "price", "customerid"].as_slice()),
                third,
            ],
            Schema::Now => [
                ("product_customer", ["productid", "customerid", "price"].as_slice()),
                (
                    "register_customer",
                    ["cashregisterid", "customerid", "price"].as_slice(),
                ),
                third,
            ],
        }
    }

    fn price(self, random: &mut fastrand::Rng, customer: u64) -> String {
        match self {
            Schema::Then => format!("{:.2}", (random.f64() * PRICES as f64 + customer as f64) / 100.0),
            Schema::Now => random.u64(0..PRICES).to_string(),
        }
    }

    /// A value to start a range at, for the first column of an index.
    fn range_start(self, random: &mut fastrand::Rng, column: &str) -> String {
        match column {
            "productid" => random.u64(0..PRODUCTS).to_string(),
            "cashregisterid" => random.u64(0..REGISTERS).to_string(),
            _ => {
                let customer = random.u64(0..CUSTOMERS);
                self.price(random, customer)
            }
        }
    }
}

#[derive(Args)]
pub struct Index {
    #[arg(long, value_enum, default_value = "2023")]
    schema: Schema,
    /// One ALTER TABLE for each index instead of one for all
    #[arg(long)]
    one_by_one: bool,
}

impl Index {
    pub fn run(&self, target: &Target) -> mysql::Result<Value> {
        let mut connection = target.connect()?;
        let rows: u64 = connection
            .query_first(format!("SELECT COUNT(*) FROM {TABLE}"))?
            .unwrap_or(0);
        let adds = self
            .schema
            .indexes()
            .map(|(name, columns)| format!("ADD INDEX {name} ({})", columns.join(", ")));
        let start = Instant::now();
        let mut meter = Meter::new(start);
        if self.one_by_one {
            for add in &adds {
                let due = Instant::now();
                connection.query_drop(format!("ALTER TABLE {TABLE} {add}"))?;
                meter.record(due, rows / 3);
            }
        } else {
            connection.query_drop(format!("ALTER TABLE {TABLE} {}", adds.join(", ")))?;
            meter.record(start, rows);
        }
        Ok(report(start.elapsed(), 1, &[("index", &meter)]))
    }
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Query {
    /// 10 entries of a random index from a random value on, columns of the index only
    Range,
    /// 10 rows by primary key
    Point,
}

#[derive(Args)]
pub struct Insert {
    #[arg(long, value_enum, default_value = "2023")]
    schema: Schema,
    /// Make the table first
    #[arg(long)]
    setup: bool,
    /// Rows to insert; without it, inserts run for --seconds
    #[arg(long, required_unless_present = "seconds")]
    rows: Option<u64>,
    #[arg(long, conflicts_with = "rows")]
    seconds: Option<f64>,
    #[arg(long, default_value_t = 50)]
    rows_per_commit: u64,
    /// Rows a second; 0 is as fast as possible
    #[arg(long, default_value_t = 0)]
    rate: u64,
    #[arg(long, default_value_t = 0)]
    query_threads: usize,
    #[arg(long, value_enum, default_value = "range")]
    query: Query,
    /// Delete as many of the oldest rows as are inserted
    #[arg(long)]
    delete_oldest: bool,
    /// The server will be killed: a lost connection ends the load, and is no failure
    #[arg(long)]
    until_lost: bool,
    #[command(flatten)]
    lengths: Lengths,
}

#[derive(Args, Clone)]
pub struct Lengths {
    #[arg(long, default_value_t = 10)]
    pub data_length_min: usize,
    #[arg(long, default_value_t = 20)]
    pub data_length_max: usize,
}

impl Insert {
    pub fn run(&self, target: &Target) -> mysql::Result<Value> {
        if self.setup {
            let columns = format!(
                "transactionid BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, dateandtime DATETIME, cashregisterid INT NOT NULL, \
                 customerid INT NOT NULL, productid INT NOT NULL, price {} NOT NULL, data VARCHAR(4000)",
                self.schema.price_type()
            );
            target.create(&mut target.connect()?, TABLE, &columns)?;
        }
        let present: u64 = target
            .connect()?
            .query_first(format!("SELECT MAX(transactionid) FROM {TABLE}"))?
            .flatten()
            .unwrap_or(0);
        let stop = AtomicBool::new(false);
        let start = Instant::now();
        let mut document = self.run_threads(target, start, &stop)?;
        document["present"] = present.into();
        Ok(document)
    }

    fn run_threads(&self, target: &Target, start: Instant, stop: &AtomicBool) -> mysql::Result<Value> {
        thread::scope(|scope| {
            let queries: Vec<_> = (0..self.query_threads)
                .map(|number| scope.spawn(move || self.query(target, start, stop, number)))
                .collect();
            let inserted = self.insert(target, start);
            let elapsed = start.elapsed();
            stop.store(true, Ordering::Relaxed);
            let mut meters = vec![];
            for query in queries {
                meters.push(query.join().expect("query thread panicked")?);
            }
            let queries = Meter::sum(start, meters);
            let inserts = inserted?;
            let both = [("query", &queries), ("insert", &inserts)];
            Ok(report(
                elapsed,
                1 + self.query_threads,
                if self.query_threads > 0 { &both } else { &both[1..] },
            ))
        })
    }

    fn insert(&self, target: &Target, start: Instant) -> mysql::Result<Meter> {
        let mut connection = target.connect()?;
        let mut oldest: u64 = connection
            .query_first(format!("SELECT MIN(transactionid) FROM {TABLE}"))?
            .flatten()
            .unwrap_or(1);
        let mut meter = Meter::new(start);
        let statements = self.statements(target.seed);
        let mut rows_done = 0;
        for (statement, rows) in statements {
            let mut due = Instant::now();
            if self.rate > 0 {
                due = start + Duration::from_secs_f64(rows_done as f64 / self.rate as f64);
                if self
                    .seconds
                    .is_some_and(|seconds| due >= start + Duration::from_secs_f64(seconds))
                {
                    sleep_until(start + Duration::from_secs_f64(self.seconds.unwrap_or(0.0)));
                    break;
                }
                sleep_until(due);
            } else if self
                .seconds
                .is_some_and(|seconds| start.elapsed().as_secs_f64() >= seconds)
            {
                break;
            }
            match retry(&mut meter, || connection.query_drop(&statement)) {
                Err(error) if self.until_lost && is_lost(&error) => break,
                done => done?,
            }
            if self.delete_oldest {
                retry(&mut meter, || {
                    connection.query_drop(format!(
                        "DELETE FROM {TABLE} WHERE transactionid >= {oldest} AND transactionid < {}",
                        oldest + rows
                    ))
                })?;
                oldest += rows;
            }
            meter.record(due, rows);
            rows_done += rows;
        }
        Ok(meter)
    }

    /// Statements made ahead by a second thread, so that the inserter waits for the server only.
    fn statements(&self, seed: u64) -> Receiver<(String, u64)> {
        let (sender, receiver) = sync_channel(STATEMENTS_AHEAD);
        let (schema, rows, rows_per_commit) = (self.schema, self.rows.unwrap_or(u64::MAX), self.rows_per_commit);
        let mut source = Rows::new(schema, seed, &self.lengths);
        thread::spawn(move || {
            let mut left = rows;
            while left > 0 {
                let count = left.min(rows_per_commit);
                left -= count;
                let statement = insert_statement(&mut source, count);
                if sender.send((statement, count)).is_err() {
                    return; // the inserter has ended
                }
            }
        });
        receiver
    }

    fn query(&self, target: &Target, start: Instant, stop: &AtomicBool, number: usize) -> mysql::Result<Meter> {
        let mut connection = target.connect()?;
        let mut random = fastrand::Rng::with_seed(target.seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        let newest: u64 = connection
            .query_first(format!("SELECT MAX(transactionid) FROM {TABLE}"))?
            .flatten()
            .unwrap_or(1);
        let indexes = self.schema.indexes();
        let mut meter = Meter::new(start);
        while !stop.load(Ordering::Relaxed) {
            let statement = match self.query {
                Query::Range => {
                    let (index, columns) = indexes[random.usize(0..indexes.len())];
                    let from = self.schema.range_start(&mut random, columns[0]);
                    let list = columns.join(", ");
                    format!(
                        "SELECT {list} FROM {TABLE} FORCE INDEX ({index}) WHERE {} >= {from} ORDER BY {list} LIMIT 10",
                        columns[0]
                    )
                }
                Query::Point => {
                    let ids: Vec<_> = (0..10).map(|_| random.u64(1..=newest).to_string()).collect();
                    format!(
                        "SELECT transactionid, productid, data FROM {TABLE} WHERE transactionid IN ({})",
                        ids.join(",")
                    )
                }
            };
            let due = Instant::now();
            retry(&mut meter, || connection.query_drop(&statement))?;
            meter.record(due, 1);
        }
        Ok(meter)
    }
}

/// The rows of a seed, in the order in which they are inserted.
pub struct Rows {
    schema: Schema,
    random: fastrand::Rng,
    lengths: std::ops::RangeInclusive<usize>,
}

#[derive(Debug, PartialEq)]
pub struct Row {
    pub register: u64,
    pub product: u64,
    pub customer: u64,
    pub price: String,
    pub data: String,
}

impl Rows {
    pub fn new(schema: Schema, seed: u64, lengths: &Lengths) -> Self {
        Rows {
            schema,
            random: fastrand::Rng::with_seed(seed),
            lengths: lengths.data_length_min..=lengths.data_length_max,
        }
    }
}

impl Iterator for Rows {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        let random = &mut self.random;
        let (register, product, customer) = (
            random.u64(0..REGISTERS),
            random.u64(0..PRODUCTS),
            random.u64(0..CUSTOMERS),
        );
        let price = self.schema.price(random, customer);
        let data = data(random, self.lengths.clone());
        Some(Row {
            register,
            product,
            customer,
            price,
            data,
        })
    }
}

fn insert_statement(source: &mut Rows, rows: u64) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let mut text = String::with_capacity(rows as usize * 80 + 120);
    let _ = write!(
        text,
        "INSERT INTO {TABLE} (dateandtime, cashregisterid, customerid, productid, price, data) VALUES "
    );
    for (number, row) in source.take(rows as usize).enumerate() {
        let separator = if number == 0 { "" } else { "," };
        let _ = write!(
            text,
            "{separator}(FROM_UNIXTIME({now}),{},{},{},{},'{}')",
            row.register, row.customer, row.product, row.price, row.data
        );
    }
    text
}

/// Three eighths of the text are random, as half of three quarters are in the published client. The
/// rest compresses.
fn data(random: &mut fastrand::Rng, lengths: std::ops::RangeInclusive<usize>) -> String {
    let length = random.usize(lengths);
    let random_length = length * 3 / 8;
    let mut text: String = (0..random_length).map(|_| random.alphanumeric()).collect();
    text.extend(std::iter::repeat_n('a', length - random_length));
    text
}

/// Runs a statement until it is through; every failure that a retry can mend is counted.
fn retry(meter: &mut Meter, mut statement: impl FnMut() -> mysql::Result<()>) -> mysql::Result<()> {
    loop {
        match statement() {
            Ok(()) => return Ok(()),
            Err(error) => meter.error(retryable(&error).ok_or(error)?),
        }
    }
}

fn sleep_until(due: Instant) {
    thread::sleep(due.saturating_duration_since(Instant::now()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_rows() {
        let without_time = |text: &str| {
            text.split("FROM_UNIXTIME")
                .map(|part| part.split_once(')').map_or(part, |(_, rest)| rest).to_string())
                .collect::<String>()
        };
        let raw = |seed| {
            let lengths = Lengths {
                data_length_min: 10,
                data_length_max: 20,
            };
            without_time(&insert_statement(&mut Rows::new(Schema::Then, seed, &lengths), 3))
        };
        assert_eq!(raw(1), raw(1));
        assert_ne!(raw(1), raw(2));
    }

    #[test]
    fn prices_of_2023_depend_on_the_customer() {
        let mut random = fastrand::Rng::with_seed(1);
        for customer in [0, 99_999] {
            let price: f64 = Schema::Then.price(&mut random, customer).parse().unwrap();
            let base = customer as f64 / 100.0;
            assert!(price >= base - 0.01 && price <= base + 5.01, "{price}");
        }
    }
}

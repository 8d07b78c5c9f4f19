//! A shop's list page: 500 items, each with its images and its category, read as applications do.
//!
//! - lazy: one query for the items, then one for each item's images and one for each item's
//!   category (N+1)
//! - preload: three queries, for items, all their images, all their categories
//! - join: one query
//!
//! There is no HTTP and no framework. What is left is the server's part and the round trips. The
//! loop is closed, or open with --rate. In an open loop a page is charged from the moment it was
//! due.
use crate::meter::{report, Meter};
use crate::target::Target;
use clap::{Args, ValueEnum};
use mysql::prelude::Queryable;
use mysql::Conn;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const ROWS_PER_INSERT: u64 = 500;

#[derive(Args)]
pub struct Setup {
    #[arg(long, default_value_t = 10_000)]
    items: u64,
    #[arg(long, default_value_t = 3)]
    images: u64,
    #[arg(long, default_value_t = 50)]
    categories: u64,
}

impl Setup {
    pub fn run(&self, target: &Target) -> mysql::Result<Value> {
        let mut connection = target.connect()?;
        let start = Instant::now();
        let mut meter = Meter::new(start);
        target.create(
            &mut connection,
            "item_categories",
            "id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(255) NOT NULL",
        )?;
        target.create(&mut connection, "items", "id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(255) NOT NULL, price INT NOT NULL, item_category_id BIGINT NOT NULL, KEY (item_category_id)")?;
        target.create(&mut connection, "item_images", "id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, item_id BIGINT NOT NULL, url VARCHAR(255) NOT NULL, KEY (item_id)")?;
        let categories = self.categories;
        fill(
            &mut connection,
            &mut meter,
            "item_categories (name)",
            categories,
            |id| format!("('category {id}')"),
        )?;
        fill(
            &mut connection,
            &mut meter,
            "items (name, price, item_category_id)",
            self.items,
            |id| format!("('item {id}',{},{})", id * 7 % 10_000, id % categories + 1),
        )?;
        let images = self.images;
        fill(
            &mut connection,
            &mut meter,
            "item_images (item_id, url)",
            self.items * images,
            |id| format!("({},'https://images.example/{id}.jpg')", (id - 1) / images + 1),
        )?;
        Ok(report(start.elapsed(), 1, &[("insert", &meter)]))
    }
}

pub fn fill(
    connection: &mut Conn,
    meter: &mut Meter,
    into: &str,
    rows: u64,
    row: impl Fn(u64) -> String,
) -> mysql::Result<()> {
    let mut next = 1;
    while next <= rows {
        let last = rows.min(next + ROWS_PER_INSERT - 1);
        let values: Vec<_> = (next..=last).map(&row).collect();
        let due = Instant::now();
        connection.query_drop(format!("INSERT INTO {into} VALUES {}", values.join(",")))?;
        meter.record(due, last - next + 1);
        next = last + 1;
    }
    Ok(())
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    Lazy,
    Preload,
    Join,
}

#[derive(Args)]
pub struct Items {
    #[arg(long, value_enum)]
    mode: Mode,
    #[arg(long, default_value_t = 500)]
    page_items: u64,
    #[arg(long, default_value_t = 8)]
    threads: usize,
    #[arg(long)]
    seconds: f64,
    /// Pages a second that arrive, whether the server keeps up or not; 0 is a closed loop
    #[arg(long, default_value_t = 0.0)]
    rate: f64,
}

impl Items {
    pub fn run(&self, target: &Target) -> mysql::Result<Value> {
        let items: u64 = target
            .connect()?
            .query_first("SELECT COUNT(*) FROM items")?
            .unwrap_or(0);
        closed_or_open(
            target,
            self.threads,
            self.seconds,
            self.rate,
            "page",
            |connection, random, queries| {
                let first = random.u64(1..=items.saturating_sub(self.page_items).max(1));
                self.page(connection, first, queries)
            },
        )
    }

    fn page(&self, connection: &mut Conn, first: u64, queries: &mut u64) -> mysql::Result<()> {
        let where_page = format!("WHERE items.id >= {first} ORDER BY items.id LIMIT {}", self.page_items);
        if let Mode::Join = self.mode {
            *queries += 1;
            let joined = format!(
                "SELECT page.id, page.name, page.price, item_images.url, item_categories.name FROM (SELECT * FROM items {where_page}) page \
                 LEFT JOIN item_images ON item_images.item_id = page.id LEFT JOIN item_categories ON item_categories.id = page.item_category_id"
            );
            return connection.query_drop(joined);
        }
        let rows: Vec<(u64, String, i64, u64)> = connection.query(format!(
            "SELECT id, name, price, item_category_id FROM items {where_page}"
        ))?;
        *queries += 1;
        if let Mode::Lazy = self.mode {
            for (id, _, _, category) in &rows {
                connection.query_drop(format!("SELECT * FROM item_images WHERE item_id = {id}"))?;
                connection.query_drop(format!("SELECT * FROM item_categories WHERE id = {category} LIMIT 1"))?;
                *queries += 2;
            }
            return Ok(());
        }
        let list = |numbers: BTreeSet<u64>| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        connection.query_drop(format!(
            "SELECT * FROM item_images WHERE item_id IN ({})",
            list(rows.iter().map(|row| row.0).collect())
        ))?;
        connection.query_drop(format!(
            "SELECT * FROM item_categories WHERE id IN ({})",
            list(rows.iter().map(|row| row.3).collect())
        ))?;
        *queries += 2;
        Ok(())
    }
}

/// Runs requests in `threads` threads for `seconds`: one after the other, or as they arrive at
/// `rate`.
pub fn closed_or_open(
    target: &Target,
    threads: usize,
    seconds: f64,
    rate: f64,
    name: &str,
    request: impl Fn(&mut Conn, &mut fastrand::Rng, &mut u64) -> mysql::Result<()> + Sync,
) -> mysql::Result<Value> {
    let arrivals = AtomicU64::new(0);
    let queries_total = AtomicU64::new(0);
    let connections = (0..threads)
        .map(|_| target.connect())
        .collect::<mysql::Result<Vec<_>>>()?;
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(seconds);
    let mut meters = vec![];
    thread::scope(|scope| {
        let workers: Vec<_> = connections
            .into_iter()
            .enumerate()
            .map(|(number, mut connection)| {
                let (request, arrivals, queries_total) = (&request, &arrivals, &queries_total);
                scope.spawn(move || {
                    let mut random =
                        fastrand::Rng::with_seed(target.seed.wrapping_mul(104_729).wrapping_add(number as u64));
                    let mut meter = Meter::new(start);
                    let mut queries = 0;
                    loop {
                        let mut due = Instant::now();
                        if rate > 0.0 {
                            due =
                                start + Duration::from_secs_f64(arrivals.fetch_add(1, Ordering::Relaxed) as f64 / rate);
                            thread::sleep(due.min(end).saturating_duration_since(Instant::now()));
                        }
                        if Instant::now() >= end {
                            break;
                        }
                        request(&mut connection, &mut random, &mut queries)?;
                        meter.record(due, 1);
                    }
                    queries_total.fetch_add(queries, Ordering::Relaxed);
                    Ok::<_, mysql::Error>(meter)
                })
            })
            .collect();
        for worker in workers {
            meters.push(worker.join().expect("worker panicked")?);
        }
        Ok::<_, mysql::Error>(())
    })?;
    let mut document = report(start.elapsed(), threads, &[(name, &Meter::sum(start, meters))]);
    document["queries"] = queries_total.load(Ordering::Relaxed).into();
    Ok(document)
}

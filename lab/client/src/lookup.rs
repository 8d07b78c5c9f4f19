//! Requests that read random rows of two tables by primary key. The rows have a body of text.
//!
//! That is the server's part of an application's pages, when the question is how much of the data
//! its pool holds. Every row is equally likely.
use crate::items::{closed_or_open, fill};
use crate::meter::{report, Meter};
use crate::target::Target;
use clap::Args;
use mysql::prelude::Queryable;
use serde_json::Value;
use std::time::Instant;

const TABLES: [&str; 2] = ["small", "large"];

#[derive(Args)]
pub struct Setup {
    #[arg(long)]
    small_rows: u64,
    #[arg(long)]
    large_rows: u64,
    #[arg(long, default_value_t = 1500)]
    row_bytes: usize,
}

impl Setup {
    pub fn run(&self, target: &Target) -> mysql::Result<Value> {
        let mut connection = target.connect()?;
        let start = Instant::now();
        let mut meter = Meter::new(start);
        for (table, rows) in TABLES.into_iter().zip([self.small_rows, self.large_rows]) {
            target.create(
                &mut connection,
                table,
                "id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, body VARCHAR(8000) NOT NULL",
            )?;
            let body = |id: u64| {
                let mut random = fastrand::Rng::with_seed(target.seed ^ id);
                (0..self.row_bytes).map(|_| random.lowercase()).collect::<String>()
            };
            fill(&mut connection, &mut meter, &format!("{table} (body)"), rows, |id| {
                format!("('{}')", body(id))
            })?;
        }
        Ok(report(start.elapsed(), 1, &[("insert", &meter)]))
    }
}

#[derive(Args)]
pub struct Lookup {
    #[arg(long, default_value_t = 8)]
    threads: usize,
    #[arg(long)]
    seconds: f64,
    /// Requests a second that arrive; 0 is a closed loop
    #[arg(long, default_value_t = 0.0)]
    rate: f64,
    /// Lookups of one request, spread over both tables by their size
    #[arg(long, default_value_t = 10)]
    lookups: u64,
}

impl Lookup {
    pub fn run(&self, target: &Target) -> mysql::Result<Value> {
        let mut connection = target.connect()?;
        let mut count = |table| {
            connection
                .query_first::<u64, _>(format!("SELECT COUNT(*) FROM {table}"))
                .map(|rows| rows.unwrap_or(0))
        };
        let (small, large) = (count(TABLES[0])?, count(TABLES[1])?);
        closed_or_open(
            target,
            self.threads,
            self.seconds,
            self.rate,
            "request",
            |connection, random, queries| {
                for _ in 0..self.lookups {
                    let row = random.u64(1..=small + large);
                    let (table, id) = if row <= small {
                        (TABLES[0], row)
                    } else {
                        (TABLES[1], row - small)
                    };
                    connection.query_drop(format!("SELECT body FROM {table} WHERE id = {id}"))?;
                }
                *queries += self.lookups;
                Ok(())
            },
        )
    }
}

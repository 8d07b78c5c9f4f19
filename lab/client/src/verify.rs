//! After a crash: are the rows that `insert` had acknowledged there, with the values that were
//! sent? The rows are made again from the seed, and compared in the order of the primary key. That
//! is the order of one inserter.
use crate::insert::{Lengths, Row, Rows, Schema, TABLE};
use crate::target::Target;
use clap::Args;
use mysql::prelude::Queryable;
use serde_json::{json, Value};

#[derive(Args)]
pub struct Verify {
    #[arg(long, value_enum, default_value = "2023")]
    schema: Schema,
    #[arg(long, default_value_t = 50)]
    rows_per_commit: u64,
    /// Rows of which the server has said that they are committed
    #[arg(long)]
    acknowledged: u64,
    /// Largest key before the inserts
    #[arg(long, default_value_t = 0)]
    present: u64,
    #[command(flatten)]
    lengths: Lengths,
}

impl Verify {
    pub fn run(&self, target: &Target) -> mysql::Result<Value> {
        let sent = Rows::new(self.schema, target.seed, &self.lengths)
            .take((self.acknowledged + self.rows_per_commit) as usize);
        let mut connection = target.connect()?;
        let found = connection.query_iter(format!(
            "SELECT cashregisterid, productid, customerid, price, data FROM {TABLE} WHERE transactionid > {} ORDER BY transactionid",
            self.present
        ))?;
        let mut rows = vec![];
        for row in found {
            let (register, product, customer, price, data): (u64, u64, u64, f32, String) = mysql::from_row(row?);
            let price = price.to_string();
            rows.push(Row {
                register,
                product,
                customer,
                price,
                data,
            });
        }
        let (lost, beyond, strange) = account(sent, &rows, self.acknowledged);
        let torn = if beyond == self.rows_per_commit { 0 } else { beyond };
        Ok(json!({"acknowledged": self.acknowledged, "found": rows.len(), "lost": lost, "torn": torn + strange}))
    }
}

/// How many acknowledged rows are missing, how many others of the last statement are there, and how
/// many were never sent.
fn account(sent: impl Iterator<Item = Row>, found: &[Row], acknowledged: u64) -> (u64, u64, u64) {
    let (mut lost, mut beyond, mut matched) = (0, 0, 0);
    for (number, row) in sent.enumerate() {
        let is_there = found.get(matched).is_some_and(|other| same(&row, other));
        matched += usize::from(is_there);
        match ((number as u64) < acknowledged, is_there) {
            (true, false) => lost += 1,
            (false, true) => beyond += 1,
            _ => {}
        }
    }
    (lost, beyond, (found.len() - matched) as u64)
}

fn same(sent: &Row, found: &Row) -> bool {
    let price = |text: &str| text.parse::<f32>().ok();
    (sent.register, sent.product, sent.customer, &sent.data)
        == (found.register, found.product, found.customer, &found.data)
        && price(&sent.price) == price(&found.price)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: usize) -> Vec<Row> {
        let lengths = Lengths {
            data_length_min: 10,
            data_length_max: 20,
        };
        Rows::new(Schema::Then, 7, &lengths).take(count).collect()
    }

    #[test]
    fn every_kind_of_loss_is_counted() {
        assert_eq!(account(rows(12).into_iter(), &rows(10), 10), (0, 0, 0));
        assert_eq!(account(rows(12).into_iter(), &rows(12), 10), (0, 2, 0));
        assert_eq!(account(rows(12).into_iter(), &rows(7), 10), (3, 0, 0));
        let mut holed = rows(10);
        holed.remove(4);
        assert_eq!(account(rows(12).into_iter(), &holed, 10), (1, 0, 0));
        let mut changed = rows(10);
        changed[9].customer += 1;
        assert_eq!(account(rows(12).into_iter(), &changed, 10), (1, 0, 1));
    }
}

//! The lab's load generator: one subcommand for each kind of load, and one JSON document on
//! standard output at the end.
//!
//! Threads run a load, each with a connection and a `Meter`. Meters of one kind are added up when
//! the threads end. The lab measures the CPU of this process apart from the server's.
mod insert;
mod items;
mod keys;
mod lookup;
mod meter;
mod target;
mod verify;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Load generator of the lab; prints one JSON document")]
struct Arguments {
    #[command(flatten)]
    target: target::Target,
    #[command(subcommand)]
    load: Load,
}

#[derive(Subcommand)]
enum Load {
    /// Insert benchmark: insert rows, alone or beside queries (l.i0, l.i1, q100 ...)
    Insert(insert::Insert),
    /// Insert benchmark: create the secondary indexes (l.x)
    Index(insert::Index),
    /// After a crash: are the acknowledged rows of `insert` there?
    Verify(verify::Verify),
    /// Bulk writers into a table of (primary key, text), by kind of key
    Keys(keys::Keys),
    /// Fill the shop: items, their images and categories
    ItemsSetup(items::Setup),
    /// Pages of items, each with its images and category: row by row or with few queries
    Items(items::Items),
    /// Fill two tables for lookups by primary key
    LookupSetup(lookup::Setup),
    /// Requests of several lookups by primary key in two tables
    Lookup(lookup::Lookup),
}

fn main() {
    let arguments = Arguments::parse();
    let target = &arguments.target;
    let result = match &arguments.load {
        Load::Insert(load) => load.run(target),
        Load::Index(load) => load.run(target),
        Load::Verify(load) => load.run(target),
        Load::Keys(load) => load.run(target),
        Load::ItemsSetup(load) => load.run(target),
        Load::Items(load) => load.run(target),
        Load::LookupSetup(load) => load.run(target),
        Load::Lookup(load) => load.run(target),
    };
    match result {
        Ok(report) => println!("{report}"),
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    }
}

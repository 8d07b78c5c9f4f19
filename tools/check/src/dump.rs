//! Rows of a table as text: one line each, clustered key and row in hexadecimal. A page that cannot
//! be read costs its own rows only. Leaves are found by their own headers, not by their parents.
use crate::bytes::hex;
use crate::catalog::Table;
use crate::page;
use crate::space;
use crate::store::Store;
use crate::table::committed_row;
use crate::tree::{self, Node};
use std::io::{self, Write};

pub struct Dumped {
    pub rows: u64,
    pub findings: Vec<String>,
}

/// `undone`: transactions that never committed.
pub fn dump(store: &Store, table: &Table, undone: &[u64], out: &mut dyn Write) -> io::Result<Dumped> {
    let mut dumped = Dumped {
        rows: 0,
        findings: Vec::new(),
    };
    writeln!(out, "# table {}, file {}", table.name, store.name_of(table.file))?;
    writeln!(
        out,
        "# one row a line: clustered key, tab, row; both hexadecimal, as plugin/codec.h draws them (Key image, Row)."
    )?;
    writeln!(out, "# The catalog has no column types, so columns are not told apart here: SHOW CREATE TABLE, or the table's .frm file, has them.")?;
    if table.hidden_key {
        writeln!(
            out,
            "# The table has no primary key: the clustered key is a hidden number."
        )?;
    }
    // Rows of a table that was altered: their definitions, as plugin/row_history.h draws them.
    let is_definition = |line: &&str| {
        ["form ", "added ", "rows ", "key "]
            .iter()
            .any(|word| line.starts_with(word))
    };
    for line in table.schema.lines().filter(is_definition) {
        writeln!(out, "# {line}")?;
    }
    // Pages that a load gave back still look like what it wrote. Where the free-space map is
    // broken, all pages are read.
    let space = space::check(store, table.file);
    let is_free = |no: u32| space.findings.is_empty() && no < space.pages && !space.used.contains(&no);
    for no in (1..store.pages_of(table.file)).filter(|no| !is_free(*no)) {
        let Ok(page) = store.read(table.file, no) else {
            continue;
        };
        if page::kind(&page) != page::TREE || page::level(&page) != 0 || page::index(&page) != table.index {
            continue;
        }
        let page = match tree::join(store, table.file, no, page) {
            Ok(page) => page,
            Err(what) => {
                dumped.findings.push(format!("page {no}: {what}"));
                continue;
            }
        };
        let node = match Node::new(&page) {
            Ok(node) => node,
            Err(what) => {
                dumped.findings.push(format!("page {no}: {what}"));
                continue;
            }
        };
        for slot in 0..node.len() {
            match committed_row(store, table, node.value(slot), undone) {
                Ok(Some(row)) => {
                    dumped.rows += 1;
                    writeln!(out, "{}\t{}", hex(node.key(slot)), hex(&row))?;
                }
                Ok(None) => {}
                Err(what) => dumped.findings.push(format!("row {}: {what}", hex(node.key(slot)))),
            }
        }
    }
    Ok(dumped)
}

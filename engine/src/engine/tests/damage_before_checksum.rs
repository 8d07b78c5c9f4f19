//! Pages that were damaged before their checksum was made: it is right, and the page is refused all
//! the same when it is read.
use super::damage::{count, damage, filled, leaf_of, numbers, others_serve_on, rebuild_by_group, reopen, text, ROWS};
use super::fixture::{BY_GROUP, BY_TAG};
use crate::base::ids::FIRST_TABLE_FILE;
use crate::engine::Close;
use crate::pool::page::seal;

/// The engine stopped with the panic of the thread that read the page.
#[test]
fn a_page_that_was_damaged_before_its_checksum_was_made_is_refused_when_it_is_read() {
    // The first slot's entry, the number of slots, the lower fence.
    for (at, byte) in [(60, 0xFF), (32, 0xFF), (44, 0xFF)] {
        let disk = filled();
        let (fixture, _) = reopen(&disk);
        let [by_group, ..] = numbers(&fixture);
        fixture.engine.close(Close::Slow).expect("close");
        let page = damage(&disk, FIRST_TABLE_FILE, leaf_of(by_group), |page| {
            page[at..at + 2].fill(byte);
            seal(page);
        });
        let (fixture, _) = reopen(&disk);
        let named = text(count(&fixture, &fixture.table, BY_GROUP).unwrap_err());
        for word in ["table t", "index by_group", "00000010.slu", &format!("page {page}")] {
            assert!(named.contains(word), "{word} is missing in: {named}");
        }
        assert_eq!(count(&fixture, &fixture.table, 0), Ok(ROWS as u64));
        assert_eq!(count(&fixture, &fixture.table, BY_TAG), Ok(ROWS as u64));
        others_serve_on(&fixture, 2);
        rebuild_by_group(&fixture);
        fixture.check_table();
    }
}

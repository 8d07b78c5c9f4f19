//! CHECK TABLE ... EXTENDED reports the rows that refer to no parent row, and no others.
use super::family::*;
use crate::io::SimDisk;
use crate::txn::Trx;

/// p (id) <- c (id, ref): the key is the clustered one. t: by a nullable descending key of two
/// columns.
fn three() -> Family {
    let parent = Shape::new("p", "id a? ~word", "id").index("-word a");
    let child = Shape::new("c", "id ref?", "id").index("ref");
    let child = child.foreign("f", "ref", "p id", Restrict, Cascade);
    let other = Shape::new("t", "id ~word? a?", "id").index("word -a id");
    let other = other.foreign("g", "word a", "p word a", Restrict, Restrict);
    Family::create(SimDisk::new(1), &[parent, child, other])
}

fn unchecked(t: &Family, table: &str, rows: &[&str]) {
    let all = |trx: &mut Trx| {
        trx.foreign_key_checks = false;
        rows.iter().try_for_each(|row| t.insert(trx, table, row))
    };
    t.does(all).expect("unchecked");
}

#[test]
fn rows_without_a_parent_are_named_by_different_keys() {
    for buffered in [false, true] {
        let t = three();
        t.buffer(buffered);
        t.fill("p", &["1 - a", "2 5 b"]);
        t.fill("c", &["10 1", "11 -"]);
        t.fill("t", &["10 b 5", "11 - 7", "12 x -"]);
        t.check();
        unchecked(&t, "c", &["12 7", "13 7", "14 8", "15 2"]);
        // A parent whose key has a NULL is the parent of no row.
        unchecked(&t, "t", &["20 B 5", "21 a 5", "22 b 6"]);
        assert_eq!(t.orphans_of("p", &mut |_| ()), [] as [String; 0]);
        assert_eq!(t.orphans_of("c", &mut |_| ()), ["db/f NoParentRow 3: 12 7, 14 8"]);
        assert_eq!(t.orphans_of("t", &mut |_| ()), ["db/g NoParentRow 2: 21 a 5, 22 b 6"]);
        t.fill("p", &["7 - x", "8 - y", "9 5 a", "3 6 B"]);
        t.check();
    }
}

/// A row and its parent come and go together: between the look at the one and at the other.
#[test]
fn writers_make_no_false_alarm() {
    for buffered in [false, true] {
        let disk = SimDisk::new(1);
        let parent = Shape::new("p", "id", "id");
        let child = Shape::new("c", "id ref?", "id").index("ref");
        let child = child.foreign("f", "ref", "p id", Restrict, Restrict);
        let t = Family::create(disk.clone(), &[parent, child]);
        t.buffer(buffered);
        for n in 0..600 {
            t.fill("p", &[&format!("{n}")]);
            t.fill("c", &[&format!("{} {n}", n + 1000)]);
        }
        let (mut gone, mut calls) = (0, 0);
        let mut meanwhile = |stages_left: u32| {
            if stages_left > 0 {
                return;
            }
            calls += 1;
            // A view is kept for a second.
            disk.advance_us(600_000);
            for n in (0..600).filter(|n| n % 7 == calls % 7) {
                let moved = |trx: &mut Trx| {
                    t.delete(trx, "c", &format!("{} {n}", n + 1000))?;
                    t.delete(trx, "p", &format!("{n}"))?;
                    let new = n + 700 * calls;
                    t.insert(trx, "p", &format!("{new}"))?;
                    t.insert(trx, "c", &format!("{} {new}", new + 15_000))
                };
                gone += t.does(moved).is_ok() as u32;
            }
        };
        assert_eq!(t.orphans_of("c", &mut meanwhile), [] as [String; 0]);
        assert!(gone > 80, "{gone} rows have moved");
        t.check();
    }
}

#[test]
fn rows_of_a_missing_parent_table_are_counted() {
    let t = three();
    t.fill("p", &["1 - a"]);
    t.fill("c", &["10 1", "11 -", "12 1"]);
    t.store().tables().drop_table_as("p", &|_| true).expect("drop");
    assert_eq!(t.orphans_of("c", &mut |_| ()), ["db/f NoParentTable 2: 10 1"]);
}

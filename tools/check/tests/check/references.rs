//! Rows that refer to no parent row: reported, and a finding only if asked for.
use super::*;
use sluice::index::key_shape::{PartImage, PartShape};
use sluice::table::{ForeignAction, ForeignKeySpec, KeyPart};

fn part(column: &str, nullable: bool) -> KeyPart {
    KeyPart {
        column: column.into(),
        domain: "int".into(),
        is_whole: true,
        shape: PartShape {
            nullable,
            inverted: false,
            image: PartImage::Fixed(4),
        },
    }
}

/// p (id) <- c (id, ref), by a buffered index on ref.
fn family(db: &Database, marks_past: bool) -> (Arc<Table>, Arc<Table>) {
    let parent = TableSpec {
        pk_fixed_len: 4,
        pk_parts: vec![part("id", false)],
        marks_past,
        ..TableSpec::default()
    };
    db.create_table("./d/p", &parent).expect("create");
    let child = TableSpec {
        indexes: vec![IndexSpec {
            name: "ref".into(),
            parts: vec![part("Ref", true)],
            ..IndexSpec::default()
        }],
        foreign: vec![ForeignKeySpec {
            name: "d/f".into(),
            columns: vec!["ref".into()],
            parent: "./d/p".into(),
            parent_columns: vec!["id".into()],
            on_delete: ForeignAction::Restrict,
            on_update: ForeignAction::Restrict,
        }],
        ..parent
    };
    db.create_table("./d/c", &child).expect("create");
    (db.table("./d/p").expect("open"), db.table("./d/c").expect("open"))
}

#[test]
fn rows_without_a_parent_are_reported() {
    let folder = Folder::new("references");
    {
        let db = open(&folder.0, config()).expect("opens");
        let (parent, child) = family(&db, false);
        let insert = |trx: &mut sluice::engine::Transaction, n: u32, to: Option<u32>| {
            let pk = n.to_be_bytes();
            let key = match to {
                Some(to) => [&[1][..], &to.to_be_bytes(), &pk].concat(),
                None => [&[0][..], &pk].concat(),
            };
            let entry = Entry {
                user_key_len: if to.is_some() { 5 } else { 1 },
                has_null: to.is_none(),
                ..entry(&key)
            };
            trx.insert(&child, &pk, b"row", &[entry])
        };
        let mut trx = db.begin();
        for n in 0..500u32 {
            trx.insert(&parent, &n.to_be_bytes(), b"row", &[]).expect("parent");
            insert(&mut trx, n, (n % 5 > 0).then_some(n / 2)).expect("child");
        }
        assert!(insert(&mut trx, 1000, Some(700)).is_err(), "checks are on");
        trx.commit().expect("commit");
        db.engine().close(Close::LogOnly).expect("close");
    }
    let (code, text) = check(&["--orphans"], &folder.0);
    assert_eq!(code, Some(0), "{text}");
    assert!(!text.contains("foreign key"), "{text}");

    let db = open(&folder.0, config()).expect("opens");
    let child = db.table("./d/c").expect("open");
    let mut trx = db.begin();
    trx.trx().foreign_key_checks = false;
    for (n, to) in [(1000u32, 700u32), (1001, 700), (1002, 800)] {
        let pk = n.to_be_bytes();
        let key = [&[1][..], &to.to_be_bytes(), &pk].concat();
        let entry = Entry {
            user_key_len: 5,
            ..entry(&key)
        };
        trx.insert(&child, &pk, b"row", &[entry]).expect("unchecked");
    }
    trx.commit().expect("commit");
    db.engine().close(Close::LogOnly).expect("close");
    let told = "./d/c: foreign key d/f: 3 rows have no parent row in ./d/p; the first values: 000002bc, 00000320";
    let (code, text) = check(&[], &folder.0);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(told), "{text}");
    let (code, text) = check(&["--orphans", "--quiet"], &folder.0);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(&format!("BROKEN {told}")), "{text}");
}

/// Rows of the past are neither children nor parents.
#[test]
fn rows_of_the_past_are_passed_over() {
    const PAST: &[u8] = b"\x01\x40row";
    const NOW: &[u8] = b"\x01\x00row";
    let folder = Folder::new("references-past");
    {
        let db = open(&folder.0, config()).expect("opens");
        let (parent, child) = family(&db, true);
        let mut trx = db.begin();
        trx.trx().foreign_key_checks = false;
        for (n, row) in [(1u32, NOW), (2, PAST)] {
            trx.insert(&parent, &n.to_be_bytes(), row, &[]).expect("parent");
        }
        for (n, to, row) in [(1u32, 1u32, NOW), (2, 2, PAST), (3, 9, PAST), (4, 2, NOW)] {
            let pk = n.to_be_bytes();
            let key = [&[1][..], &to.to_be_bytes(), &pk].concat();
            let entry = Entry {
                user_key_len: 5,
                ..entry(&key)
            };
            trx.insert(&child, &pk, row, &[entry]).expect("child");
        }
        trx.commit().expect("commit");
        db.engine().close(Close::LogOnly).expect("close");
    }
    let (code, text) = check(&[], &folder.0);
    assert_eq!(code, Some(0), "{text}");
    let told = "./d/c: foreign key d/f: 1 rows have no parent row in ./d/p; the first values: 00000002";
    assert!(text.contains(told), "{text}");
}

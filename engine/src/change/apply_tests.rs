//! The five operations as a table: what each makes of an absent, a live, a marked and a dead entry;
//! and that each is idempotent.
use crate::base::Error;
use crate::btree::tests::fixture::{check, fixture_with_tree, Rng};
use crate::btree::Tree;
use crate::change::{submit, IndexTrees, Op};
use crate::entry::secondary::{decode, encode};
use crate::pool::Pool;

const OLD: u64 = 3;
const NEW: u64 = 0xABCD_EF01_2345;

fn index_of(tree: &Tree) -> IndexTrees {
    IndexTrees {
        tree: *tree,
        delta: None,
    }
}
fn value(stamp: u64, raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out, stamp, 4, 0, raw);
    out
}
/// (marked, dead, stamp, raw)
fn look(pool: &Pool, tree: &Tree, key: &[u8]) -> Option<(bool, bool, u64, Vec<u8>)> {
    let leaf = tree.get(pool, key).unwrap()?;
    let entry = decode(leaf.value(), 0).unwrap();
    assert_eq!(entry.pk_len, 4);
    Some((entry.marked, entry.dead, entry.stamp, entry.raw.to_vec()))
}

#[test]
fn what_each_operation_makes_of_each_state() {
    let (fixture, tree) = fixture_with_tree(1, 64);
    let pool = &*fixture.pool;
    let key = b"key";
    let other = value(NEW, b"a longer raw part");
    let put = Op::Put { key, value: &other };
    let mark = Op::Mark { key, stamp: NEW };
    let mark_dead = |if_stamp| Op::MarkDead { key, if_stamp };
    let unmark = |if_stamp, value| Op::Unmark {
        key,
        if_stamp,
        stamp: 2,
        value,
    };
    let remove = |if_stamp, marked| Op::Remove { key, if_stamp, marked };
    let raw = || b"raw".to_vec();
    let absent = None;
    let live = Some((false, false, OLD, raw()));
    let marked = Some((true, false, OLD, raw()));
    let dead = Some((true, true, OLD, raw()));
    let fresh = Some((false, false, NEW, b"a longer raw part".to_vec()));
    let restored = Some((false, false, 2, raw()));
    let restored_raw = Some((false, false, 2, b"was".to_vec()));
    let was = value(9, b"was");
    // Operation; outcome for an absent, live, marked and dead entry (the last three with stamp
    // OLD).
    let table = [
        (put, [&fresh, &fresh, &fresh, &fresh]),
        (mark_dead(OLD), [&absent, &dead, &dead, &dead]),
        (mark_dead(NEW), [&absent, &live, &marked, &dead]),
        (unmark(OLD, None), [&absent, &live, &restored, &restored]),
        (unmark(NEW, None), [&absent, &live, &marked, &dead]),
        (unmark(OLD, Some(&was)), [&absent, &live, &restored_raw, &restored_raw]),
        (remove(OLD, true), [&absent, &live, &absent, &absent]),
        (remove(OLD, false), [&absent, &absent, &marked, &dead]),
        (remove(NEW, true), [&absent, &live, &marked, &dead]),
    ];
    for (op, outcomes) in table {
        for (state, expected) in [&absent, &live, &marked, &dead].into_iter().zip(outcomes) {
            set(pool, &tree, key, state);
            for time in 0..2 {
                submit(pool, &index_of(&tree), op).unwrap();
                assert_eq!(&look(pool, &tree, key), expected, "{op:?} on {state:?}, time {time}");
            }
        }
    }
    for state in [&live, &marked, &dead] {
        set(pool, &tree, key, state);
        submit(pool, &index_of(&tree), mark).unwrap();
        assert_eq!(look(pool, &tree, key), Some((true, false, NEW, raw())));
    }
    set(pool, &tree, key, &absent);
    assert!(matches!(submit(pool, &index_of(&tree), mark), Err(Error::Corrupt(_))));
}

fn set(pool: &Pool, tree: &Tree, key: &[u8], state: &Option<(bool, bool, u64, Vec<u8>)>) {
    if let Some((marked, _, stamp, _)) = look(pool, tree, key) {
        let if_stamp = stamp;
        submit(pool, &index_of(tree), Op::Remove { key, if_stamp, marked }).unwrap();
    }
    let Some((marked, dead, stamp, raw)) = state else {
        return;
    };
    let value = value(*stamp, raw);
    submit(pool, &index_of(tree), Op::Put { key, value: &value }).unwrap();
    if *dead {
        let if_stamp = *stamp;
        submit(pool, &index_of(tree), Op::MarkDead { key, if_stamp }).unwrap();
    } else if *marked {
        submit(pool, &index_of(tree), Op::Mark { key, stamp: *stamp }).unwrap();
    }
    assert_eq!(&look(pool, tree, key), state);
}

#[test]
fn puts_split_and_removals_shrink() {
    let (fixture, tree) = fixture_with_tree(1, 256);
    let pool = &*fixture.pool;
    let mut rng = Rng(1);
    let mut keys: Vec<u64> = (0..6000).map(|_| rng.next()).collect();
    for key in &keys {
        let value = value(OLD, &vec![1; rng.below(100)]);
        submit(
            pool,
            &index_of(&tree),
            Op::Put {
                key: &key.to_be_bytes(),
                value: &value,
            },
        )
        .unwrap();
    }
    assert!(check(pool, &tree, true).leaf_pages > 20);
    keys.sort();
    for key in &keys {
        let op = Op::Remove {
            key: &key.to_be_bytes(),
            if_stamp: OLD,
            marked: false,
        };
        submit(pool, &index_of(&tree), op).unwrap();
    }
    let report = check(pool, &tree, true);
    assert!(report.entries == 0 && report.leaf_pages < 4);
}

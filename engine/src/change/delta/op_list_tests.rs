//! The algebra of operation lists, exhaustively. Every sequence of up to four operations is split
//! at every place into two partitions, and applied to every state of a base entry. The outcome is
//! that of the operations one by one.
use super::{apply, fold, is_valid, start, Folded, OPS_MAX};
use crate::change::delta::pending::Pending;
use crate::change::Op;
use crate::entry::secondary::encode;

const KEY: &[u8] = b"key";
const A: u64 = 3;
const B: u64 = 0xABCD_EF01_2345;

fn value(stamp: u64, raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out, stamp, 4, 0, raw);
    out
}

/// The state of an entry: its value while it is present.
type State = Option<Vec<u8>>;

fn bases() -> Vec<State> {
    let mut all = vec![None];
    for stamp in [A, B, 9] {
        for flags in [0, 1, 3] {
            let mut v = value(stamp, b"raw");
            v[0] = flags;
            all.push(Some(v));
        }
    }
    all
}

/// `values`: what Put and Unmark write.
fn ops(values: &[Vec<u8>; 2]) -> Vec<Op<'_>> {
    let key = KEY;
    let mut all = vec![Op::Put { key, value: &values[0] }, Op::Put { key, value: &values[1] }];
    for if_stamp in [A, B] {
        all.push(Op::Mark { key, stamp: if_stamp });
        all.push(Op::MarkDead { key, if_stamp });
        for value in [None, Some(&values[1][..])] {
            let stamp = 2;
            all.push(Op::Unmark {
                key,
                if_stamp,
                stamp,
                value,
            });
        }
        for marked in [false, true] {
            all.push(Op::Remove { key, if_stamp, marked });
        }
    }
    all
}

/// Err: the operation of that number is a Mark that met an absent entry. `blind`: a blind Mark
/// cannot find that out, and a later Put makes the state known again.
fn one_by_one(base: &State, sequence: &[Op<'_>], blind: bool) -> Result<State, usize> {
    let mut present = base.is_some();
    let mut value = base.clone().unwrap_or_default();
    for (i, op) in sequence.iter().enumerate() {
        let healed = || blind && sequence[i..].iter().any(|op| matches!(op, Op::Put { .. }));
        if apply(op, &mut present, &mut value).is_err() && !healed() {
            return Err(i);
        }
    }
    Ok(present.then_some(value))
}

/// The delta entry of a sequence. Err: the operation of that number is a Mark of an entry known to
/// be absent.
fn folded(sequence: &[Op<'_>]) -> Result<Vec<u8>, usize> {
    let (mut now, mut next) = (Vec::new(), Vec::new());
    for (i, op) in sequence.iter().enumerate() {
        if i == 0 {
            start(op, &mut next);
        } else {
            match fold(&now, op, &mut next).unwrap() {
                Folded::Done => {}
                Folded::Missing => return Err(i),
                Folded::Full => panic!("short sequences are never full"),
            }
        }
        std::mem::swap(&mut now, &mut next);
        assert!(is_valid(&now));
    }
    Ok(now)
}

fn check(sequence: &[Op<'_>], bases: &[State], pending: &mut Pending, out: &mut Vec<u8>) {
    for cut in 0..sequence.len() {
        pending.clear();
        let mut missing = None;
        for (partition, from, to) in [(0u16, 0, cut), (1, cut, sequence.len())] {
            if from < to && missing.is_none() {
                match folded(&sequence[from..to]) {
                    Ok(v) => pending.push(partition, KEY, &v),
                    Err(i) => missing = Some(from + i),
                }
            }
        }
        pending.group();
        for base in bases {
            let what = || format!("{sequence:?} on {base:?}, cut at {cut}");
            if let Some(i) = missing {
                // Folding refuses the Mark. Then its entry is missing on every base.
                assert!(one_by_one(base, &sequence[..=i], false).is_err(), "{}", what());
                continue;
            }
            let found = pending.evaluate(0, base.as_deref(), out);
            match one_by_one(base, sequence, true) {
                Ok(state) => {
                    assert_eq!(found, Ok(state.is_some()), "{}", what());
                    assert!(state.is_none_or(|v| v == *out), "{}", what());
                }
                Err(_) => assert!(found.is_err(), "{}", what()),
            }
        }
    }
}

/// Of the sequences, in operations. All of four take hours under Miri.
const LONGEST: u32 = if cfg!(miri) { 2 } else { 4 };

#[test]
fn folding_and_evaluating_is_applying_one_by_one() {
    let values = [value(A, b"a longer raw part"), value(B, b"x")];
    let ops = ops(&values);
    let bases = bases();
    let mut pending = Pending::default();
    let mut out = Vec::new();
    let n = ops.len();
    for len in 1..=LONGEST {
        for number in 0..n.pow(len) {
            let mut sequence = [ops[0]; 4];
            let mut rest = number;
            for op in &mut sequence[..len as usize] {
                *op = ops[rest % n];
                rest /= n;
            }
            check(&sequence[..len as usize], &bases, &mut pending, &mut out);
        }
    }
}

#[test]
fn a_list_is_bounded_and_a_put_ends_it() {
    let values = [value(A, b"v"), value(B, b"w")];
    let mark = Op::Mark { key: KEY, stamp: A };
    let (mut now, mut next) = (Vec::new(), Vec::new());
    start(&mark, &mut now);
    for _ in 1..OPS_MAX {
        assert_eq!(fold(&now, &mark, &mut next), Some(Folded::Done));
        std::mem::swap(&mut now, &mut next);
    }
    assert_eq!(fold(&now, &mark, &mut next), Some(Folded::Full));
    let put = Op::Put {
        key: KEY,
        value: &values[0],
    };
    assert_eq!(fold(&now, &put, &mut next), Some(Folded::Done));
    assert_eq!(&next[1..], &values[0][..]);
}

#[test]
fn keys_come_in_order_and_partitions_in_the_order_of_time() {
    let mut pending = Pending::default();
    let (old, new) = (value(A, b"old"), value(B, b"new"));
    let put = |v: &[u8]| {
        let mut out = Vec::new();
        start(&Op::Put { key: b"", value: v }, &mut out);
        out
    };
    for (partition, keys) in [(3u16, ["b", "d"]), (4, ["a", "b"]), (900, ["b", "c"])] {
        for key in keys {
            pending.push(
                partition,
                key.as_bytes(),
                &put(if partition == 900 { &new } else { &old }),
            );
        }
    }
    pending.group();
    let keys: Vec<&[u8]> = (0..pending.len()).map(|i| pending.key(i)).collect();
    assert_eq!(keys, [b"a", b"b", b"c", b"d"]);
    assert_eq!(pending.items_of(1).map(|i| i.0).collect::<Vec<_>>(), [3, 4, 900]);
    let mut out = Vec::new();
    assert_eq!(pending.evaluate(1, Some(&old), &mut out), Ok(true));
    assert_eq!(out, new);
}

#[test]
fn damaged_values_are_found() {
    for bad in [&[][..], &[7], &[2], &[2, 9], &[2, 1, 0, 0], &[0, 1], &[1, 0]] {
        assert!(!is_valid(bad));
    }
    let mut pending = Pending::default();
    pending.push(0, KEY, &[2, 1, 0]);
    pending.group();
    assert!(pending.evaluate(0, None, &mut Vec::new()).is_err());
}

//! The change buffer against a map in memory: random changes, all or half of them buffered, with
//! merges, new partitions and restarts at random moments. After a crash at any disk access each
//! entry is found in exactly one place.
use super::fixture::{found_again, new_index};
use crate::base::{Lsn, Result};
use crate::btree::tests::fixture::{checkpoint, Rng, FILE};
use crate::btree::{Seek, ENTRY_MAX, KEY_MAX};
use crate::change::delta::op_list;
use crate::change::{drain, merge_leaf, submit, sweep_step, IndexTrees, Op, Pending};
use crate::entry::secondary::{decode, encode};
use crate::io::SimDisk;
use crate::pool::testing::PoolFixture;
use crate::pool::Pool;
use crate::redo::{FlushMode, Redo};
use crate::space;
use std::collections::BTreeMap;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

const KEYS: usize = 500;

fn key_of(n: usize) -> Vec<u8> {
    let mut key = (n as u32).to_be_bytes().to_vec();
    key.resize(4 + [0, 0, 9, 30, KEY_MAX / 6][n % 5], b'.');
    key
}
fn value_of(rng: &mut Rng, stamp: u64) -> Vec<u8> {
    let mut value = Vec::new();
    let raw = vec![rng.below(256) as u8; [4, 20, 100, ENTRY_MAX / 6][rng.below(4)]];
    encode(&mut value, stamp, 4, 4, &raw);
    value
}

/// A change as a transaction would make it: a Mark only of an entry that is there.
fn with_change<T>(rng: &mut Rng, model: &Model, body: impl FnOnce(&Op<'_>) -> T) -> T {
    let key = key_of(rng.below(KEYS));
    let there = model.get(&key);
    let stamp = there.map_or(1, |v| decode(v, 4).unwrap().stamp);
    let if_stamp = if rng.below(4) > 0 { stamp } else { stamp + 1 };
    let new = 1 + rng.below(1000) as u64;
    let value = value_of(rng, new);
    let key = &key;
    match rng.below(10) {
        0..=3 => body(&Op::Put { key, value: &value }),
        4 | 5 if there.is_some() => body(&Op::Mark { key, stamp: new }),
        4..=6 => body(&Op::MarkDead { key, if_stamp }),
        7 => body(&Op::Unmark {
            key,
            if_stamp,
            stamp: new,
            value: (new % 2 == 0).then_some(&value[..]),
        }),
        n => body(&Op::Remove {
            key,
            if_stamp,
            marked: n == 8,
        }),
    }
}
fn follow(model: &mut Model, op: &Op<'_>) {
    let mut value = model.get(op.key()).cloned();
    let mut present = value.is_some();
    let mut bytes = value.take().unwrap_or_default();
    op_list::apply(op, &mut present, &mut bytes).expect("marks meet an entry");
    if present {
        model.insert(op.key().to_vec(), bytes);
    } else {
        model.remove(op.key());
    }
}

/// What a reader sees: leaf by leaf, base and pending.
fn read_all(pool: &Pool, index: &IndexTrees) -> Result<Model> {
    let delta = index.delta.as_ref().unwrap();
    let mut all = Model::new();
    let (mut pending, mut out) = (Pending::default(), Vec::new());
    let mut lo: Vec<u8> = Vec::new();
    loop {
        let mut here = Model::new();
        // `seek` skips leaves without an entry. Their range is read with the neighbour's, under its
        // latch. No merge runs here.
        let leaf = index.tree.seek(pool, Seek::Ge, &lo)?;
        let hi = leaf.as_ref().and_then(|l| l.upper_fence().map(<[u8]>::to_vec));
        if let Some(leaf) = &leaf {
            for slot in leaf.slot()..leaf.len() {
                let (key, value) = leaf.entry_at(slot);
                here.insert(key.to_vec(), value.to_vec());
            }
        }
        delta.pending_in(pool, &lo, hi.as_deref(), &mut pending)?;
        for i in 0..pending.len() {
            let key = pending.key(i);
            assert!(
                delta.maybe_pending(key),
                "F1: the filter never answers \"nothing\" wrongly"
            );
            let base = here.get(key).cloned();
            if pending.evaluate(i, base.as_deref(), &mut out)? {
                here.insert(key.to_vec(), out.clone());
            } else {
                here.remove(key);
            }
        }
        all.append(&mut here);
        match hi {
            Some(hi) => lo = hi,
            None => return Ok(all),
        }
    }
}
/// Both trees are sound and have all pages of the file between them.
fn check(pool: &Pool, index: &IndexTrees) {
    let delta = index.delta.as_ref().unwrap();
    let mut used = 2;
    let mut pending_entries = 0;
    for (tree, is_delta) in [(&index.tree, false), (&delta.tree, true)] {
        let each = &mut |_: &[u8], v: &[u8]| (is_delta && !op_list::is_valid(v)).then(|| "bad".to_string());
        let report = tree.verify(pool, each).unwrap();
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
        used += report.pages.len();
        if is_delta {
            pending_entries = report.entries;
        }
    }
    if delta.is_known() {
        assert_eq!(delta.entries(), pending_entries, "every entry is counted once");
        assert_eq!(delta.buffer().entries(), pending_entries);
    }
    assert_eq!(space::usage(pool, FILE).unwrap().used as usize, used);
}
fn maintain(pool: &Pool, index: &IndexTrees, rng: &mut Rng) -> Result<()> {
    match rng.below(60) {
        0..=5 => drop(merge_leaf(pool, index, &key_of(rng.below(KEYS)))?),
        6 => index.delta.as_ref().unwrap().begin_partition(),
        7 | 8 => drop(sweep_step(pool, index, 1 + rng.below(4))?),
        9 => {
            pool.flusher().step(8)?;
        }
        _ => {}
    }
    Ok(())
}

#[test]
fn base_and_pending_are_as_the_model() {
    for seed in 0..6 {
        let mode = 1 + (seed % 2) as u8;
        let fixture = PoolFixture::create(seed, 256);
        let pool = &*fixture.pool;
        let mut index = new_index(pool, mode);
        let mut rng = Rng(seed);
        let mut model = Model::new();
        for step in 0..4000 {
            let op_index = &index;
            let next = with_change(&mut rng, &model, |op| {
                submit(pool, op_index, *op).unwrap();
                let mut next = model.clone();
                follow(&mut next, op);
                next
            });
            model = next;
            maintain(pool, &index, &mut rng).unwrap();
            if rng.below(200) == 0 {
                assert!(read_all(pool, &index).unwrap() == model, "seed {seed}, step {step}");
                check(pool, &index);
            }
            if rng.below(500) == 0 {
                index = found_again(pool, &index, mode);
            }
            if step % 1000 == 999 {
                checkpoint(pool);
            }
        }
        assert!(pool.counters().change_buffer_buffered_inserts.get() > 300);
        let before = read_all(pool, &index).unwrap();
        assert!(before == model);
        drain(pool, &index).unwrap();
        let delta = index.delta.as_ref().unwrap();
        assert!(delta.is_empty() && !delta.maybe_pending(&key_of(1)));
        assert_eq!(
            delta.buffer().bytes(),
            0,
            "bytes are counted down as they were counted up"
        );
        check(pool, &index);
        assert!(read_all(pool, &index).unwrap() == model);
        assert_eq!(pool.counters().change_buffer_missing.get(), 0);
    }
}

/// A Mark of a missing entry is an error for its readers, stays pending, and does not keep other
/// entries from being merged.
#[test]
fn a_mark_of_a_missing_entry_is_an_error_and_kept() {
    let fixture = PoolFixture::create(3, 128);
    let pool = &*fixture.pool;
    let index = new_index(pool, 1);
    let (bad, good) = (key_of(7), key_of(8));
    submit(pool, &index, Op::Mark { key: &bad, stamp: 5 }).unwrap();
    let value = value_of(&mut Rng(1), 5);
    submit(
        pool,
        &index,
        Op::Put {
            key: &good,
            value: &value,
        },
    )
    .unwrap();
    assert_eq!(drain(pool, &index).unwrap(), 1);
    assert!(pool.counters().change_buffer_missing.get() > 0);
    assert_eq!(index.delta.as_ref().unwrap().entries(), 1);
    assert!(index.tree.get(pool, &good).unwrap().is_some());
    assert!(read_all(pool, &index).is_err());
    check(pool, &index);
}

/// A later Put of the key replaces a stuck Mark. The number of entries stayed that of the last
/// pass, and sweeps did not merge the Put.
#[test]
fn a_put_in_the_place_of_a_stuck_mark_is_worth_a_sweep() {
    let fixture = PoolFixture::create(3, 128);
    let pool = &*fixture.pool;
    let index = new_index(pool, 1);
    let delta = index.delta.as_ref().unwrap();
    let key = &key_of(7);
    submit(pool, &index, Op::Mark { key, stamp: 5 }).unwrap();
    drain(pool, &index).unwrap();
    let is_worth_it = || delta.is_worth_a_sweep(pool.disk().now_us());
    assert!(!is_worth_it());
    submit(pool, &index, Op::Mark { key, stamp: 6 }).unwrap();
    assert!(!is_worth_it(), "another Mark is stuck, too");
    let value = &value_of(&mut Rng(1), 7);
    submit(pool, &index, Op::Put { key, value }).unwrap();
    assert!(is_worth_it());
    sweep_step(pool, &index, 8).unwrap();
    assert!(delta.is_empty());
    check(pool, &index);
}

/// With more pending than one leaf holds a full leaf splits several times.
#[test]
fn merging_into_a_full_leaf_splits_it() {
    let fixture = PoolFixture::create(4, 512);
    let pool = &*fixture.pool;
    let index = new_index(pool, 1);
    let delta = index.delta.as_ref().unwrap();
    let mut model = Model::new();
    for round in 0..3 {
        for n in 0..3000usize {
            let key = ((n * 7919) as u32).to_be_bytes();
            let value = value_of(&mut Rng((n + round) as u64), 1 + round as u64);
            submit(
                pool,
                &index,
                Op::Put {
                    key: &key,
                    value: &value,
                },
            )
            .unwrap();
            model.insert(key.to_vec(), value);
        }
        delta.begin_partition();
    }
    assert_eq!(index.tree.stats(pool).unwrap().leaf_pages, 1);
    assert!(merge_leaf(pool, &index, &[]).unwrap() >= 3000);
    drain(pool, &index).unwrap();
    assert!(index.tree.stats(pool).unwrap().leaf_pages > 10);
    assert_eq!(delta.tree.stats(pool).unwrap().leaf_pages, 1, "emptied pages are freed");
    check(pool, &index);
    assert!(read_all(pool, &index).unwrap() == model);
}

/// Changes in log order: (LSN after the change, model after it).
struct Lived {
    history: Vec<(Lsn, Model)>,
    durable: Lsn,
}

fn live(fixture: &PoolFixture, index: &IndexTrees, seed: u64, lived: &mut Lived) -> Result<()> {
    let pool = &*fixture.pool;
    let mut rng = Rng(seed);
    let mut model = Model::new();
    for _ in 0..700 {
        let (result, next) = with_change(&mut rng, &model, |op| {
            let mut next = model.clone();
            follow(&mut next, op);
            (submit(pool, index, *op), next)
        });
        // The change's Mtr comes after everything before it; a merge after it does not matter. A
        // failed change may be in the log or not.
        lived
            .history
            .push((if result.is_ok() { pool.redo().lsn() } else { Lsn::MAX }, next.clone()));
        result?;
        model = next;
        maintain(pool, index, &mut rng)?;
        match rng.below(40) {
            0..=3 => {
                let lsn = pool.redo().lsn();
                pool.redo().flush(lsn, FlushMode::Sync)?;
                lived.durable = lsn;
            }
            4 => pool.redo().write_checkpoint(pool.checkpoint_lsn(), &[])?,
            _ => {}
        }
    }
    drain(pool, index)?;
    Ok(())
}

fn crash_once(seed: u64, at: Option<u64>) -> u64 {
    let fixture = PoolFixture::create(seed, 64);
    let index = new_index(&fixture.pool, 1);
    let lsn = fixture.pool.redo().lsn();
    fixture.pool.redo().flush(lsn, FlushMode::Sync).unwrap();
    let before = fixture.disk.changes();
    if let Some(at) = at {
        fixture.disk.crash_at(before + at);
    }
    let mut lived = Lived {
        history: vec![(lsn, Model::new())],
        durable: lsn,
    };
    let outcome = live(&fixture, &index, seed, &mut lived);
    let changes = fixture.disk.changes() - before;
    assert_eq!(outcome.is_err(), fixture.disk.is_dead(), "{outcome:?}");
    let disk: Arc<SimDisk> = fixture.disk.crash(seed ^ 0xC0FFEE);
    drop(fixture);
    let mut end = Redo::read_checkpoint(&*disk).unwrap().0;
    let fixture = PoolFixture::recover(disk, 64, &mut |lsn, _| end = end.max(lsn));
    let pool = &*fixture.pool;
    let index = found_again(pool, &index, 1);
    let found = read_all(pool, &index).unwrap();
    let first = lived
        .history
        .iter()
        .rposition(|(lsn, _)| *lsn <= lived.durable)
        .unwrap();
    // A change's own Mtr may end before the LSN noted for it, because a merge came with it. So the
    // next model is a candidate, too.
    let last = lived.history.iter().rposition(|(lsn, _)| *lsn <= end).unwrap() + 1;
    let candidates = &lived.history[first..lived.history.len().min(last.max(first) + 1)];
    assert!(
        candidates.iter().any(|(_, model)| *model == found),
        "seed {seed}, crash at {at:?}: {} entries are as at no moment since {first}",
        found.len()
    );
    check(pool, &index);
    drain(pool, &index).unwrap();
    check(pool, &index);
    assert!(read_all(pool, &index).unwrap() == found, "draining changes nothing");
    changes
}

#[test]
fn a_crash_anywhere_leaves_each_entry_in_one_place() {
    for seed in 0..3 {
        let total = crash_once(seed, None);
        assert!(total > 50, "{total} disk changes");
        let mut rng = Rng(seed);
        for _ in 0..25 {
            crash_once(seed, Some(1 + rng.below(total as usize) as u64));
        }
    }
}

/// Writers of disjoint keys, a merger and a sweeper at once.
#[test]
fn writers_and_mergers_at_once() {
    const WRITERS: usize = 3;
    let fixture = PoolFixture::create(5, 512);
    let pool = &*fixture.pool;
    let index = &new_index(pool, 2);
    let done = &std::sync::atomic::AtomicUsize::new(0);
    let models: Vec<Model> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|w| {
                scope.spawn(move || {
                    let mut rng = Rng(w as u64 + 77);
                    let mut model = Model::new();
                    for _ in 0..6000 {
                        let n = rng.below(KEYS) * WRITERS + w;
                        let key = key_of(n);
                        let stamp = 1 + rng.below(1 << 30) as u64;
                        let value = value_of(&mut rng, stamp);
                        let put = Op::Put {
                            key: &key,
                            value: &value,
                        };
                        let mark = Op::Mark { key: &key, stamp };
                        let op = match rng.below(3) {
                            0 if model.contains_key(&key) => mark,
                            _ => put,
                        };
                        submit(pool, index, op).unwrap();
                        follow(&mut model, &op);
                    }
                    done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    model
                })
            })
            .collect();
        for merger in 0..2 {
            scope.spawn(move || {
                let mut rng = Rng(merger + 5);
                while done.load(std::sync::atomic::Ordering::SeqCst) < WRITERS {
                    match rng.below(20) {
                        0 => index.delta.as_ref().unwrap().begin_partition(),
                        1..=4 => drop(sweep_step(pool, index, 3).unwrap()),
                        _ => drop(merge_leaf(pool, index, &key_of(rng.below(KEYS * WRITERS))).unwrap()),
                    }
                }
            });
        }
        writers.into_iter().map(|w| w.join().unwrap()).collect()
    });
    let model: Model = models.into_iter().flatten().collect();
    assert!(read_all(pool, index).unwrap() == model);
    check(pool, index);
    drain(pool, index).unwrap();
    assert!(read_all(pool, index).unwrap() == model);
    check(pool, index);
    assert!(index.delta.as_ref().unwrap().is_empty());
}

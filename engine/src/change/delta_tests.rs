//! A delta tree whose partition numbers have come to their end.
use super::super::kit::{found_again, new_index};
use super::super::{drain, submit, Index};
use super::*;
use crate::pool::tests::Rig;

fn put(pool: &Pool, index: &Index, key: &[u8]) {
    let mut value = Vec::new();
    super::super::entry::encode(&mut value, 1, 4, 4, b"raw");
    submit(pool, index, Op::Put { key, value: &value }).unwrap();
}

/// The last number but one was taken for "all partitions are to be counted", and what came after the restart was counted twice: the index was
/// never empty again.
#[test]
fn behind_a_restart_at_the_last_number_entries_are_counted_once() {
    for last in [u16::MAX - 2, u16::MAX - 1, u16::MAX] {
        let rig = Rig::create(1, 128);
        let (pool, index) = (&*rig.pool, new_index(&rig.pool, 1));
        index.delta.as_ref().unwrap().set_range(last, last);
        put(pool, &index, b"old");
        let index = found_again(pool, &index, 1);
        put(pool, &index, b"old");
        put(pool, &index, b"new");
        let delta = index.delta.as_ref().unwrap();
        delta.know(pool).unwrap();
        let in_tree = delta.tree.verify(pool, &mut |_, _| None).unwrap().entries;
        assert_eq!(
            (delta.entries(), delta.buffer().entries()),
            (in_tree, in_tree),
            "{last}"
        );
        drain(pool, &index).unwrap();
        assert!(delta.is_empty() && !delta.maybe_pending(b"new"));
    }
}

/// An index that was never once empty had no number left for another partition: the newest was not closed any more, and grew out of memory.
#[test]
fn an_index_whose_numbers_are_used_up_takes_no_more_until_it_is_empty() {
    let rig = Rig::create(2, 128);
    let (pool, index) = (&*rig.pool, new_index(&rig.pool, 1));
    let delta = index.delta.as_ref().unwrap();
    delta.set_range(u16::MAX - 1, u16::MAX - 1);
    put(pool, &index, b"old");
    assert!(!delta.takes_no_more());
    delta.begin_partition();
    assert!(delta.takes_no_more());
    for own in [None, Some(Buffering::All)] {
        delta.set_buffering(own);
        assert_eq!(delta.buffering(), own);
        put(pool, &index, b"new");
        assert_eq!(delta.entries(), 1, "it went to its leaf");
    }
    put(pool, &index, b"old");
    assert_eq!(delta.entries(), 2, "I3: something is pending for this key");
    drain(pool, &index).unwrap();
    assert_eq!((delta.entries(), delta.range()), (0, (0, 0)));
    assert!(!delta.takes_no_more());
    put(pool, &index, b"new");
    assert_eq!(delta.entries(), 1);
}

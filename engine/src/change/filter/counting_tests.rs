//! A filter of keys: what it counts, how it grows, and what all take together.
use super::*;

fn filters() -> Filters {
    Filters::new(64 << 20)
}
fn key(n: u32) -> [u8; 4] {
    // Not in the order of the numbers, which the hash would keep in part.
    n.wrapping_mul(0x9e37_79b1).to_be_bytes()
}
/// As an append does.
fn put(filter: &Filter, n: u32, filters: &Filters) {
    filter.up(&key(n), filters);
    if let Some(larger) = filter.larger(n as u64 + 1, filters) {
        filter.grow(larger, filters);
    }
}
fn len(filter: &Filter) -> usize {
    filter.slots.load().as_ref().map_or(0, |slots| slots.counts.len())
}

#[test]
fn counts_up_and_down_and_sticks_at_the_top() {
    let (filter, filters) = (Filter::default(), filters());
    assert!(!filter.may_have(b"a"));
    filter.up(b"a", &filters);
    filter.up(b"a", &filters);
    filter.down(b"a");
    assert!(filter.may_have(b"a"));
    filter.down(b"a");
    assert!(!filter.may_have(b"a"));
    for _ in 0..70_000 {
        filter.up(b"b", &filters);
    }
    for _ in 0..70_000 {
        filter.down(b"b");
    }
    assert!(filter.may_have(b"b"), "a slot that lost count never says nothing");
    filter.clear();
    assert!(!filter.may_have(b"b"));
}

/// Whatever an index once had pending, it kept a filter of a byte for each 256 of the pool: of five thousand indexes that were some GiB.
#[test]
fn memory_goes_with_the_last_entry_and_is_small_while_little_is_pending() {
    let filters = filters();
    let indexes: Vec<Filter> = (0..1000).map(|_| Filter::default()).collect();
    indexes.iter().for_each(|filter| put(filter, 0, &filters));
    assert_eq!(filters.taken(), 1000 * bytes_of(FIRST));
    for n in 1..100_000 {
        put(&indexes[0], n, &filters);
    }
    assert_eq!(len(&indexes[0]), filters.slots_max());
    for filter in &indexes {
        filter.down(&key(0));
        filter.clear();
        assert!(!filter.may_have(&key(0)));
    }
    assert_eq!(filters.taken(), 0);
}

/// An entry that a merge has taken out of the tree is counted down after a growth: it must not take away what another stands for.
#[test]
fn what_is_counted_down_after_a_growth_leaves_the_others_counted() {
    let (filter, filters) = (Filter::default(), filters());
    let entries = 10_000;
    for n in 0..entries {
        put(&filter, n, &filters);
        assert!((0..=n).step_by(97).all(|n| filter.may_have(&key(n))));
    }
    assert_eq!(len(&filter), filters.slots_max());
    let wrong = (entries..2 * entries).filter(|n| filter.may_have(&key(*n))).count();
    // 10,000 of 256 Ki slots, and what growing three times left too high.
    assert!(wrong < entries as usize / 7, "{wrong}");
    for n in (0..entries).rev() {
        assert!(filter.may_have(&key(n)));
        filter.down(&key(n));
    }
    let wrong = (0..entries).filter(|n| filter.may_have(&key(*n))).count();
    assert!(wrong < entries as usize / 10, "{wrong}");
}

#[test]
fn all_together_have_a_bound_and_who_gets_nothing_has_everything_perhaps() {
    let filters = Filters::new(0);
    let max = filters.memory.max();
    let large: Vec<Filter> = (0..20).map(|_| Filter::default()).collect();
    for filter in &large {
        (0..10_000).for_each(|n| put(filter, n, &filters));
    }
    assert!(filters.taken() <= max - max / 4 + 20 * bytes_of(FIRST));
    assert!(large.iter().any(|filter| len(filter) == filters.slots_max()));
    assert!((0..10_000).all(|n| large.iter().all(|filter| filter.may_have(&key(n)))));
    let small: Vec<Filter> = (0..2000).map(|_| Filter::default()).collect();
    small.iter().for_each(|filter| put(filter, 0, &filters));
    assert!(filters.taken() <= max);
    let (first, last) = (&small[0], &small[1999]);
    assert!(
        !(1..100).all(|n| first.may_have(&key(n))),
        "some are left for the first"
    );
    assert!((1..100).all(|n| last.may_have(&key(n))));
    last.down(&key(0));
    last.clear();
    assert!(!last.may_have(&key(0)));
}

/// Six indexes of a thousand entries took all that there was for larger filters; the others had the smallest, and asked again only when
/// twice as much was pending.
#[test]
fn memory_suffices_for_many_and_who_got_less_asks_again_in_time() {
    let filters = Filters::new(128 << 20);
    let most = filters.memory.max() / 4 * 3;
    let many: Vec<Filter> = (0..40).map(|_| Filter::default()).collect();
    for filter in &many {
        (0..2000).for_each(|n| put(filter, n, &filters));
    }
    assert!(many.iter().all(|filter| len(filter) == FIRST * STEP * STEP));
    // Somebody has all but what one of the second size takes.
    let others = filters
        .memory
        .take_more(most - filters.taken() - bytes_of(FIRST * STEP) - bytes_of(2 * FIRST));
    assert!(others.is_some());
    let (late, too_late) = (Filter::default(), Filter::default());
    (0..2000).for_each(|n| put(&late, n, &filters));
    assert_eq!(len(&late), FIRST * STEP, "less than suits it, but more than the first");
    let rest = filters.memory.take_more(most - filters.taken() - bytes_of(FIRST));
    assert!(rest.is_some());
    (0..2000).for_each(|n| put(&too_late, n, &filters));
    assert_eq!(len(&too_late), FIRST);
    drop((many, others, rest));
    (2000..2500).for_each(|n| put(&late, n, &filters));
    assert_eq!(len(&late), FIRST * STEP * STEP);
    let wrong = (5000..15_000).filter(|n| late.may_have(&key(*n))).count();
    assert!(wrong < 5000, "{wrong}");
    // One with eight entries a slot says "perhaps" of everything; as large as it may be it would go on with that for good.
    (2000..2500).for_each(|n| put(&too_late, n, &filters));
    assert_eq!(len(&too_late), FIRST);
    (0..2490).for_each(|n| too_late.down(&key(n)));
    let wrong = (5000..15_000).filter(|n| too_late.may_have(&key(*n))).count();
    assert!(wrong < 1000, "{wrong}");
    assert!((0..2500).all(|n| late.may_have(&key(n))) && (2490..2500).all(|n| too_late.may_have(&key(n))));
}

#[test]
fn the_largest_is_for_indexes_with_thousands_of_entries() {
    let filters = Filters::new(256 << 20);
    for (entries, slots) in [(4095, 1 << 16), (4096, 1 << 20), (u64::MAX, 1 << 20)] {
        assert_eq!(filters.slots_for(entries), slots);
    }
}

/// A growth that was begun is given up if all was merged meanwhile, or somebody was faster.
#[test]
fn a_larger_filter_that_comes_too_late_is_dropped() {
    let (filter, filters) = (Filter::default(), filters());
    (0..4).for_each(|n| filter.up(&key(n), &filters));
    let larger = filter.larger(4, &filters).expect("it is due");
    assert!(filter.larger(4, &filters).is_none(), "one is about it");
    filter.clear();
    filter.grow(larger, &filters);
    assert_eq!((len(&filter), filters.taken()), (0, 0));
    assert!(filter.larger(u64::MAX - 1, &filters).is_none(), "nothing is counted");

    filter.begin(1 << 20, &filters);
    assert_eq!(len(&filter), filters.slots_max(), "so much was found");
    filter.begin(0, &filters);
    assert_eq!(len(&filter), filters.slots_max());
}

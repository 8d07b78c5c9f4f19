//! Counting filters: what they count, how they grow, and how much memory they take together.
use super::*;

fn budget() -> SlotBudget {
    SlotBudget::new(64 << 20)
}
fn key(n: u32) -> [u8; 4] {
    // Scattered: the hash would keep some of the order of the numbers.
    n.wrapping_mul(0x9e37_79b1).to_be_bytes()
}
/// Counts and grows as an append does.
fn put(filter: &CountingFilter, n: u32, budget: &SlotBudget) {
    filter.up(&key(n), budget);
    if let Some(larger) = filter.larger(n as u64 + 1, budget) {
        filter.grow(larger, budget);
    }
}
fn len(filter: &CountingFilter) -> usize {
    filter.slots.load().as_ref().map_or(0, |slots| slots.counts.len())
}

#[test]
fn counts_up_and_down_and_sticks_at_the_top() {
    let (filter, budget) = (CountingFilter::default(), budget());
    assert!(!filter.may_have(b"a"));
    filter.up(b"a", &budget);
    filter.up(b"a", &budget);
    filter.down(b"a");
    assert!(filter.may_have(b"a"));
    filter.down(b"a");
    assert!(!filter.may_have(b"a"));
    for _ in 0..70_000 {
        filter.up(b"b", &budget);
    }
    for _ in 0..70_000 {
        filter.down(b"b");
    }
    assert!(filter.may_have(b"b"), "F1: a stuck slot never answers \"nothing\"");
    filter.clear();
    assert!(!filter.may_have(b"b"));
}

/// An index kept its largest filter, a byte for each 256 of the pool, after everything was merged.
/// With five thousand indexes these filters took some GiB.
#[test]
fn memory_goes_with_the_last_entry_and_is_small_while_little_is_pending() {
    let budget = budget();
    let indexes: Vec<CountingFilter> = (0..1000).map(|_| CountingFilter::default()).collect();
    indexes.iter().for_each(|filter| put(filter, 0, &budget));
    assert_eq!(budget.taken(), 1000 * bytes_of(FIRST));
    for n in 1..100_000 {
        put(&indexes[0], n, &budget);
    }
    assert_eq!(len(&indexes[0]), budget.slots_max());
    for filter in &indexes {
        filter.down(&key(0));
        filter.clear();
        assert!(!filter.may_have(&key(0)));
    }
    assert_eq!(budget.taken(), 0);
}

/// A merge may count an entry down after a growth. The counts of other entries must stay.
#[test]
fn what_is_counted_down_after_a_growth_leaves_the_others_counted() {
    let (filter, budget) = (CountingFilter::default(), budget());
    let entries = 10_000;
    for n in 0..entries {
        put(&filter, n, &budget);
        assert!((0..=n).step_by(97).all(|n| filter.may_have(&key(n))));
    }
    assert_eq!(len(&filter), budget.slots_max());
    let wrong = (entries..2 * entries).filter(|n| filter.may_have(&key(*n))).count();
    // 10,000 of 256 Ki slots are in use, and three growths left some more too high.
    assert!(wrong < entries as usize / 7, "{wrong}");
    for n in (0..entries).rev() {
        assert!(filter.may_have(&key(n)));
        filter.down(&key(n));
    }
    let wrong = (0..entries).filter(|n| filter.may_have(&key(*n))).count();
    assert!(wrong < entries as usize / 10, "{wrong}");
}

#[test]
fn the_sum_is_bounded_and_a_filter_without_memory_answers_perhaps() {
    let budget = SlotBudget::new(0);
    let max = budget.memory.max();
    let large: Vec<CountingFilter> = (0..20).map(|_| CountingFilter::default()).collect();
    for filter in &large {
        (0..10_000).for_each(|n| put(filter, n, &budget));
    }
    assert!(budget.taken() <= max - max / 4 + 20 * bytes_of(FIRST));
    assert!(large.iter().any(|filter| len(filter) == budget.slots_max()));
    assert!((0..10_000).all(|n| large.iter().all(|filter| filter.may_have(&key(n)))));
    let small: Vec<CountingFilter> = (0..2000).map(|_| CountingFilter::default()).collect();
    small.iter().for_each(|filter| put(filter, 0, &budget));
    assert!(budget.taken() <= max);
    let (first, last) = (&small[0], &small[1999]);
    assert!(
        !(1..100).all(|n| first.may_have(&key(n))),
        "memory for first filters is reserved"
    );
    assert!((1..100).all(|n| last.may_have(&key(n))));
    last.down(&key(0));
    last.clear();
    assert!(!last.may_have(&key(0)));
}

/// Six indexes of a thousand entries took all memory for larger filters. The others had the
/// smallest filter, and asked again only when twice as much was pending.
#[test]
fn memory_suffices_for_many_and_a_refused_filter_asks_again_in_time() {
    let budget = SlotBudget::new(128 << 20);
    let most = budget.memory.max() / 4 * 3;
    let many: Vec<CountingFilter> = (0..40).map(|_| CountingFilter::default()).collect();
    for filter in &many {
        (0..2000).for_each(|n| put(filter, n, &budget));
    }
    assert!(many.iter().all(|filter| len(filter) == FIRST * STEP * STEP));
    // Another reservation leaves room for one filter of the second size.
    let others = budget
        .memory
        .reserve_larger(most - budget.taken() - bytes_of(FIRST * STEP) - bytes_of(2 * FIRST));
    assert!(others.is_some());
    let (late, too_late) = (CountingFilter::default(), CountingFilter::default());
    (0..2000).for_each(|n| put(&late, n, &budget));
    assert_eq!(len(&late), FIRST * STEP, "less than suits it, but more than the first");
    let rest = budget.memory.reserve_larger(most - budget.taken() - bytes_of(FIRST));
    assert!(rest.is_some());
    (0..2000).for_each(|n| put(&too_late, n, &budget));
    assert_eq!(len(&too_late), FIRST);
    drop((many, others, rest));
    (2000..2500).for_each(|n| put(&late, n, &budget));
    assert_eq!(len(&late), FIRST * STEP * STEP);
    let wrong = (5000..15_000).filter(|n| late.may_have(&key(*n))).count();
    assert!(wrong < 5000, "{wrong}");
    // With eight entries a slot a filter answers "perhaps" for every key. After a growth it would
    // do so for good.
    (2000..2500).for_each(|n| put(&too_late, n, &budget));
    assert_eq!(len(&too_late), FIRST);
    (0..2490).for_each(|n| too_late.down(&key(n)));
    let wrong = (5000..15_000).filter(|n| too_late.may_have(&key(*n))).count();
    assert!(wrong < 1000, "{wrong}");
    assert!((0..2500).all(|n| late.may_have(&key(n))) && (2490..2500).all(|n| too_late.may_have(&key(n))));
}

#[test]
fn the_largest_is_for_indexes_with_thousands_of_entries() {
    let budget = SlotBudget::new(256 << 20);
    for (entries, slots) in [(4095, 1 << 16), (4096, 1 << 20), (u64::MAX, 1 << 20)] {
        assert_eq!(budget.slots_for(entries), slots);
    }
}

/// A growth is dropped if everything was merged meanwhile, or another growth came first.
#[test]
fn a_larger_filter_that_comes_too_late_is_dropped() {
    let (filter, budget) = (CountingFilter::default(), budget());
    (0..4).for_each(|n| filter.up(&key(n), &budget));
    let larger = filter.larger(4, &budget).expect("it is due");
    assert!(filter.larger(4, &budget).is_none(), "another caller has this growth");
    filter.clear();
    filter.grow(larger, &budget);
    assert_eq!((len(&filter), budget.taken()), (0, 0));
    assert!(filter.larger(u64::MAX - 1, &budget).is_none(), "nothing is counted");

    filter.begin(1 << 20, &budget);
    assert_eq!(len(&filter), budget.slots_max(), "sized for the entries announced");
    filter.begin(0, &budget);
    assert_eq!(len(&filter), budget.slots_max());
}

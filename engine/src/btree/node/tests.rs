//! One node against a sorted list: every edit, on plain memory, with the bytes checked after each
//! step. Also how many bytes an edit logs.
use super::check::check_body;
use super::edit::{self, PageEdit};
use super::format::*;
use super::view::Node;
use crate::base::bytes::put_u32;
use crate::pool::{PageType, PAGE_BODY, PAGE_SIZE};
use proptest::prelude::*;

/// A page in memory. It replays its own log into a copy, as recovery does.
struct MemoryPage {
    bytes: Vec<u8>,
    replayed: Vec<u8>,
    logged: usize,
    records: usize,
}

impl MemoryPage {
    fn new(new: &NewNode<'_>) -> MemoryPage {
        let mut bytes = vec![0; PAGE_SIZE];
        put_u32(&mut bytes, 12, 7);
        bytes[AT_TYPE] = PageType::Tree as u8;
        write_node(&mut bytes, new);
        let replayed = bytes.clone();
        MemoryPage {
            bytes,
            replayed,
            logged: 0,
            records: 0,
        }
    }
    fn log(&mut self, bytes: usize) {
        self.logged += bytes;
        self.records += 1;
    }
}

impl PageEdit for MemoryPage {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    fn edit(&mut self, offset: usize, data: &[u8]) {
        self.bytes[offset..offset + data.len()].copy_from_slice(data);
        self.replayed[offset..offset + data.len()].copy_from_slice(data);
        self.log(data.len() + 4);
    }
    fn move_within(&mut self, dst: usize, src: usize, len: usize) {
        self.bytes.copy_within(src..src + len, dst);
        self.replayed.copy_within(src..src + len, dst);
        self.log(8);
    }
    fn rewrite(&mut self, fill: &mut dyn FnMut(&mut [u8]) -> (usize, usize)) {
        let (start, end) = fill(&mut self.bytes);
        assert!(self.bytes[start..end].iter().all(|b| *b == 0), "the hole is zero");
        self.replayed.copy_from_slice(&self.bytes);
        self.log(PAGE_SIZE - (end - start));
    }
}

fn check(page: &MemoryPage, model: &[(Vec<u8>, Vec<u8>)]) {
    let node = page.node();
    node.validate().unwrap();
    assert!(page.bytes == page.replayed, "the log is the edits");
    assert_eq!(node.len(), model.len());
    let used: usize = model.iter().map(|(k, v)| item_size(k.len(), v.len())).sum();
    let fences = node.lower_fence().len() + node.upper_fence().map_or(0, <[u8]>::len);
    assert_eq!(node.used(), used + fences);
    for (slot, (key, value)) in model.iter().enumerate() {
        assert_eq!(node.entry(slot), (&key[..], &value[..]));
        assert_eq!((node.key(slot), node.value(slot)), node.entry(slot));
    }
}

fn search(model: &[(Vec<u8>, Vec<u8>)], key: &[u8]) -> (usize, bool) {
    let at = model.partition_point(|(k, _)| &k[..] < key);
    (at, model.get(at).is_some_and(|(k, _)| k == key))
}

#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<u8>, usize),
    SetValue(prop::sample::Index, usize, u8),
    Remove(prop::sample::Index),
    Truncate(prop::sample::Index),
    Upper(Vec<u8>),
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    // Few letters and shared beginnings: keys collide, nest and share heads. Some keys are long.
    prop_oneof![
        prop::collection::vec(0u8..3, 0..9),
        prop::collection::vec(prop::sample::select(vec![0u8, 1, 255]), 4..40).prop_map(|mut k| {
            k[..3].fill(9);
            k
        }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![4 => 0usize..40, 1 => 0usize..1400];
    prop_oneof![
        8 => (key(), length.clone()).prop_map(|(k, n)| Step::Insert(k, n)),
        4 => (any::<prop::sample::Index>(), length, any::<u8>()).prop_map(|(i, n, b)| Step::SetValue(i, n, b)),
        3 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => any::<prop::sample::Index>().prop_map(Step::Truncate),
        1 => prop::collection::vec(200u8..255, 1..60).prop_map(Step::Upper),
    ]
}

fn run(steps: Vec<Step>) {
    let mut page = MemoryPage::new(&NewNode::EMPTY);
    let mut model: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for (i, step) in steps.into_iter().enumerate() {
        match step {
            Step::Insert(key, len) => {
                let (slot, found) = page.node().search(&key);
                assert_eq!((slot, found), search(&model, &key));
                let value = vec![i as u8; len];
                if !found && page.node().has_room(key.len(), len) {
                    edit::insert(&mut page, slot, &key, &value);
                    model.insert(slot, (key, value));
                }
            }
            Step::SetValue(at, len, byte) if !model.is_empty() => {
                let slot = at.index(model.len());
                let value = vec![byte; len];
                if edit::value_fits(page.node(), slot, len) {
                    edit::set_value(&mut page, slot, &value);
                    model[slot].1 = value;
                }
            }
            Step::Remove(at) if !model.is_empty() => {
                let slot = at.index(model.len());
                edit::remove(&mut page, slot);
                model.remove(slot);
            }
            Step::Truncate(at) if i % 7 == 0 && !model.is_empty() => {
                let keep = at.index(model.len());
                edit::truncate(&mut page, keep);
                model.truncate(keep);
            }
            Step::Upper(fence) => {
                let old = page.node().upper_fence().map_or(0, <[u8]>::len);
                if fence.len() <= page.node().free() + old {
                    edit::set_upper(&mut page, &fence);
                    assert_eq!(page.node().upper_fence(), Some(&fence[..]));
                }
            }
            _ => {}
        }
        check(&page, &model);
    }
    for (key, _) in &model {
        for probe in [key.clone(), [&key[..], &[0]].concat(), key[..key.len() / 2].to_vec()] {
            assert_eq!(page.node().search(&probe), search(&model, &probe));
        }
    }
    edit::compact(&mut page);
    assert_eq!(page.node().garbage(), 0);
    check(&page, &model);
}

/// Few and short ones under Miri, which takes seconds for what takes milliseconds.
const fn fewer_under_miri(few: u32, all: u32) -> u32 {
    if cfg!(miri) {
        few
    } else {
        all
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: fewer_under_miri(2, 200), failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_node_is_a_sorted_list(steps in prop::collection::vec(step(), 1..fewer_under_miri(12, 120) as usize)) {
        run(steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: fewer_under_miri(2, 300), failure_persistence: None, ..ProptestConfig::default() })]
    /// Keys far from a straight line: the guess by proportion only says where the search begins.
    #[test]
    fn numbers_are_found_in_whatever_steps_they_come(
        steps in prop::collection::vec(prop_oneof![0u32..3, 5u32..8, 0u32..1 << 24], 1..fewer_under_miri(20, 200) as usize),
        probes in prop::collection::vec(any::<u32>(), 50),
    ) {
        let mut numbers: Vec<u32> = steps.iter().scan(0u32, |sum, step| { *sum = sum.saturating_add(*step); Some(*sum) }).collect();
        numbers.dedup();
        let model: Vec<(Vec<u8>, Vec<u8>)> = numbers.iter().map(|n| (n.to_be_bytes().to_vec(), vec![1])).collect();
        let items: Vec<(&[u8], &[u8])> = model.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        let page = MemoryPage::new(&NewNode { items: &items, ..NewNode::EMPTY });
        let near = numbers.iter().flat_map(|n| [n.saturating_sub(1), *n, n.saturating_add(1)]);
        for probe in near.chain(probes).chain([0, u32::MAX]) {
            let key = probe.to_be_bytes();
            assert_eq!(page.node().search(&key), search(&model, &key));
            let longer = [&key[..], &[0]].concat();
            assert_eq!(page.node().search(&longer), search(&model, &longer));
        }
    }
}

fn ascending(n: u64) -> MemoryPage {
    let mut page = MemoryPage::new(&NewNode::EMPTY);
    for i in 0..n {
        let key = (i * 10).to_be_bytes();
        let slot = page.node().search(&key).0;
        edit::insert(&mut page, slot, &key, &[7; 50]);
    }
    page
}

#[test]
fn an_insert_logs_four_small_records() {
    let mut page = ascending(40);
    (page.logged, page.records) = (0, 0);
    let key = 155u64.to_be_bytes();
    let slot = page.node().search(&key).0;
    edit::insert(&mut page, slot, &key, &[7; 50]);
    assert_eq!(page.records, 4, "entry, slot move, slot, header");
    assert!(page.logged < 50 + 8 + 48, "{} bytes", page.logged);
}

#[test]
fn a_change_of_few_bytes_logs_few_bytes() {
    let mut page = ascending(40);
    (page.logged, page.records) = (0, 0);
    let mut value = [7; 50];
    value[20] = 8;
    edit::set_value(&mut page, 3, &value);
    assert_eq!((page.records, page.logged), (1, 5));
}

#[test]
fn a_compaction_of_few_holes_is_no_image() {
    let mut page = ascending(40);
    for slot in [3, 17, 30] {
        edit::remove(&mut page, slot);
    }
    (page.logged, page.records) = (0, 0);
    edit::compact(&mut page);
    assert!(page.logged < 400, "{} bytes", page.logged);
    page.node().validate().unwrap();
}

#[test]
fn inner_nodes_route_by_separators() {
    let children: Vec<[u8; 4]> = (10u32..14).map(u32::to_le_bytes).collect();
    let keys: [&[u8]; 4] = [b"", b"f", b"mm", b"mn"];
    let items: Vec<(&[u8], &[u8])> = keys.iter().zip(&children).map(|(k, c)| (*k, &c[..])).collect();
    let mut page = MemoryPage::new(&NewNode {
        level: 1,
        items: &items,
        ..NewNode::EMPTY
    });
    let node = page.node();
    node.validate().unwrap();
    let route = |key: &[u8]| node.child(node.child_slot(key));
    assert_eq!([route(b""), route(b"e"), route(b"f"), route(b"m")], [10, 10, 11, 11]);
    assert_eq!(
        [route(b"mm"), route(b"mmz"), route(b"mn"), route(b"z")],
        [12, 12, 13, 13]
    );
    let before = |key: &[u8]| node.child(node.child_slot_before(key));
    assert_eq!(
        [
            before(b"a"),
            before(b"f"),
            before(b"fa"),
            before(b"mm"),
            before(b"mn\0")
        ],
        [10, 10, 11, 11, 13]
    );
    edit::insert(&mut page, 1, b"c", &99u32.to_le_bytes());
    page.node().validate().unwrap();
    assert_eq!(page.node().child(page.node().child_slot(b"d")), 99);
    assert_eq!(page.node().child(page.node().child_slot(b"b")), 10);
}

#[test]
fn a_damaged_node_does_not_validate() {
    let good = ascending(10);
    for (at, byte) in [
        (AT_SLOTS, 11),
        (AT_HEAP, 1),
        (AT_GARBAGE, 1),
        (AT_PREFIX, 8),
        (NODE_HEADER + 2, 0xEE),
        (NODE_HEADER + 4, 1),
    ] {
        let mut bytes = good.bytes.clone();
        bytes[at] = byte;
        assert!(Node::new(&bytes).validate().is_err(), "byte {at}");
    }
}

/// A bit of a node of 40 entries, mostly in its offsets and lengths.
fn bit() -> impl Strategy<Value = (usize, u8)> {
    let place = prop_oneof![3 => PAGE_BODY..NODE_HEADER + 40 * SLOT, 1 => PAGE_BODY..PAGE_SIZE];
    (place, 0..8u8)
}
proptest! {
    #![proptest_config(ProptestConfig::with_cases(fewer_under_miri(10, 5000)))]
    #[test]
    fn reading_a_damaged_node_that_is_taken_stays_within_its_page(bits in prop::collection::vec(bit(), 1..4)) {
        let mut bytes = ascending(40).bytes;
        prop_assert_eq!(check_body(&bytes), Ok(()));
        for (at, bit) in bits {
            bytes[at] ^= 1 << bit;
        }
        if check_body(&bytes).is_ok() {
            let node = Node::new(&bytes);
            for slot in 0..node.len() {
                let (key, value) = node.entry(slot);
                prop_assert!(key.len() + value.len() < PAGE_SIZE);
                node.search(key);
                node.search(value);
            }
            for key in [&b""[..], b"k", &[0xFF; 40]] {
                node.search(key);
                node.owns(key);
            }
            prop_assert!(node.used() <= CAPACITY);
            node.validate().ok();
        }
    }
}

//! What is pending for a range of keys, collected from the partitions of a delta tree.
//!
//! Pure: takes no latches, reads no pages. Called by: `delta::tree`, `read`, `merge`.
use super::op_list::{self, Missing};
use crate::base::{planted, Error, Mutant, Result};
use crate::btree::ENTRY_OVERHEAD;

/// One delta entry in [`Pending::bytes`].
#[derive(Clone, Copy)]
struct Item {
    at: u32,
    key_len: u16,
    value_len: u16,
    partition: u16,
}

/// The keys of a range with what is pending for each, in key order. One flat buffer, kept from
/// range to range.
#[derive(Default)]
pub struct Pending {
    bytes: Vec<u8>,
    /// While entries are pushed: by partition. After `group`: by key, and for each key by
    /// partition.
    items: Vec<Item>,
    /// First item of each key.
    groups: Vec<u32>,
}

impl Pending {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
        self.groups.clear();
    }
    /// Number of keys.
    pub fn len(&self) -> usize {
        self.groups.len()
    }
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
    /// Number of delta entries: a key may have one in each of several partitions.
    pub fn entries(&self) -> usize {
        self.items.len()
    }
    /// Bytes of a leaf that the whole states among them need, at most.
    pub fn put_bytes(&self) -> usize {
        let put = |item: &usize| op_list::is_present(self.item_value(*item));
        let bytes = |item: usize| self.items[item].key_len as usize + self.items[item].value_len as usize;
        (0..self.items.len())
            .filter(put)
            .map(|item| bytes(item) + ENTRY_OVERHEAD)
            .sum()
    }
    pub fn key(&self, i: usize) -> &[u8] {
        self.item_key(self.groups[i] as usize)
    }
    fn item_key(&self, item: usize) -> &[u8] {
        let item = self.items[item];
        &self.bytes[item.at as usize..][..item.key_len as usize]
    }
    fn item_value(&self, item: usize) -> &[u8] {
        let item = self.items[item];
        &self.bytes[item.at as usize + item.key_len as usize..][..item.value_len as usize]
    }
    /// Delta entries of key `i`, oldest partition first: (partition, value).
    pub fn items_of(&self, i: usize) -> impl Iterator<Item = (u16, &[u8])> + '_ {
        self.group_of(i)
            .map(|item| (self.items[item].partition, self.item_value(item)))
    }
    fn group_of(&self, i: usize) -> std::ops::Range<usize> {
        let end = self.groups.get(i + 1).map_or(self.items.len(), |g| *g as usize);
        self.groups[i] as usize..end
    }
    /// Adds a delta entry. Partitions come oldest first, and the keys of a partition in key order.
    pub fn push(&mut self, partition: u16, key: &[u8], value: &[u8]) {
        debug_assert!(
            match self.items.last() {
                Some(last) if last.partition == partition => self.item_key(self.items.len() - 1) < key,
                Some(last) => last.partition < partition,
                None => true,
            },
            "partitions come oldest first, and their keys in order"
        );
        debug_assert!(
            key.len() <= u16::MAX as usize && value.len() <= u16::MAX as usize && self.bytes.len() <= u32::MAX as usize,
            "an item has two bytes for a length, and four for its place"
        );
        self.items.push(Item {
            at: self.bytes.len() as u32,
            key_len: key.len() as u16,
            value_len: value.len() as u16,
            partition,
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }
    /// Groups the entries by key, once all are pushed.
    pub fn group(&mut self) {
        let one = self.items.first().map(|i| i.partition) == self.items.last().map(|i| i.partition);
        if !one {
            let bytes = &self.bytes;
            let key = |item: &Item| &bytes[item.at as usize..][..item.key_len as usize];
            debug_assert!(
                self.items.is_sorted_by_key(|item| item.partition),
                "partitions are pushed oldest first"
            );
            // Each partition is sorted by key already. A stable sort that keeps runs compares some
            // three times a key; another sort would compare ten times.
            match planted(Mutant::PartitionsInWrongOrder) {
                true => self
                    .items
                    .sort_by(|a, b| key(a).cmp(key(b)).then(b.partition.cmp(&a.partition))),
                false => self.items.sort_by(|a, b| key(a).cmp(key(b))),
            }
        }
        self.groups.clear();
        for item in 0..self.items.len() {
            if item == 0 || self.item_key(item) != self.item_key(item - 1) {
                self.groups.push(item as u32);
            }
        }
        debug_assert!(
            planted(Mutant::PartitionsInWrongOrder)
                || (0..self.len()).all(|i| self.items_of(i).is_sorted_by(|before, after| before.0 < after.0)),
            "a key has one item in a partition, and the oldest comes first"
        );
        debug_assert!(
            (1..self.len()).all(|i| self.key(i - 1) < self.key(i)),
            "a key is one group"
        );
    }
    /// Puts into `out` the value of key `i` with everything pending applied. `base`: its value in
    /// the base tree. False: the entry is absent. Error (`Corrupt`): a Mark met no entry, or a
    /// value cannot be decoded.
    pub fn evaluate(&self, i: usize, base: Option<&[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        out.clear();
        out.extend_from_slice(base.unwrap_or(&[]));
        let mut present = base.is_some();
        let items = self.group_of(i);
        // Values older than a whole state do not matter.
        let known = items
            .clone()
            .rev()
            .find(|item| op_list::is_known_state(self.item_value(*item)));
        for item in known.unwrap_or(items.start)..items.end {
            match op_list::evaluate(self.item_value(item), &mut present, out) {
                Some(Ok(())) => {}
                Some(Err(Missing)) => {
                    return Err(Error::corrupt(format!(
                        "a buffered change (key of {} bytes) needs an index entry that is missing; check the table, then rebuild the index",
                        self.key(i).len()
                    )))
                }
                None => return Err(Error::corrupt("a buffered change cannot be decoded; check the table")),
            }
        }
        debug_assert!(present || out.is_empty(), "an absent entry has no value");
        Ok(present)
    }
}

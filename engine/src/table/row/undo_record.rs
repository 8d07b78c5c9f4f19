//! Payloads of undo records: what the row looked like before a change, and the secondary keys the
//! change touched.
//!
//! ```text
//! kind     u8      1 insert, 2 update, 3 delete, 4 chain, 5 load begun, 6 load linked
//! table    varint  Layout::id
//! -- insert, update, delete:
//! pk       bytes   clustered key
//! -- update, delete: the version before
//! flags    u8      of its RowHeader
//! trx      varint
//! undo     page varint, offset varint
//! chain    first page varint, owner varint: its overflow chain, if the flags say that it has one
//! -- update (also an insert over a delete-marked row): its stored bytes (after the header),
//! -- against the newer version's:
//! prefix   varint  bytes in common at the start
//! suffix   varint  bytes in common at the end
//! middle   bytes
//! -- insert, update, delete:
//! touches  count varint, then for each secondary index:
//!   how    u8      1 = has an old key, 2 = has a new key, 4 = the new key is the old one,
//!                  8 = raw bytes follow
//!   index  varint  index number
//!   old    bytes   index key without the clustered key (if 1)
//!   new    bytes   (if 2 and not 4)
//!   raw    bytes   (if 8) raw part of the entry under `new` before the change
//! -- chain: overflow pages about to be filled, so that a rollback frees them
//! first    varint
//! -- load begun, load linked (`undo/load_rollback.rs`):
//! trees    count varint, then for each tree: index varint,
//!          first page of the list of its extents varint
//! ```
//! bytes = varint length + data. Decoding is total: any input gives a record or `Error::Corrupt`.
//!
//! Called by row changes, loads, rollback, purge and reads of older versions.
use crate::base::bytes::{common_prefix, push_bytes, push_varint, take_bytes, take_varint};
use crate::base::{Error, FileId, IndexId, PageNo, Result, UndoPtr};
use crate::index::{ChainRef, RowHeader, ROW_HEADER, ROW_OVERFLOW};

const KIND_INSERT: u8 = 1;
const KIND_UPDATE: u8 = 2;
const KIND_DELETE: u8 = 3;
const KIND_CHAIN: u8 = 4;
const KIND_LOAD_BEGUN: u8 = 5;
const KIND_LOAD_LINKED: u8 = 6;

const HAS_OLD: u8 = 1;
const HAS_NEW: u8 = 2;
const SAME_KEY: u8 = 4;
const HAS_RAW: u8 = 8;

/// What one change did to one secondary index. Keys without the clustered key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch<'a> {
    pub index: IndexId,
    /// Key of the version before (None: it had none).
    pub old: Option<&'a [u8]>,
    /// Key of the version made.
    pub new: Option<&'a [u8]>,
    /// Raw part of the entry under `new` before the change, where a rollback needs it. That is so
    /// if the key stays and the raw bytes change, or if the same transaction left that key earlier.
    pub raw: Option<&'a [u8]>,
}

/// Difference of the older version's stored bytes from the newer one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diff<'a> {
    pub prefix: usize,
    pub suffix: usize,
    pub middle: &'a [u8],
}

impl<'a> Diff<'a> {
    pub fn between(old: &'a [u8], new: &[u8]) -> Diff<'a> {
        let prefix = common_prefix(old, new);
        let most = old.len().min(new.len()) - prefix;
        let tail = old.iter().rev().zip(new.iter().rev()).take(most);
        let suffix = tail.take_while(|(x, y)| x == y).count();
        debug_assert!(prefix + suffix <= old.len().min(new.len()), "no byte is in both");
        let diff = Diff {
            prefix,
            suffix,
            middle: &old[prefix..old.len() - suffix],
        };
        debug_assert!(
            {
                let mut bytes = new.to_vec();
                diff.apply(&mut bytes).is_ok() && bytes == old
            },
            "the difference makes the older version from the newer one"
        );
        diff
    }
    /// Turns the newer version's bytes into the older one's.
    pub fn apply(&self, bytes: &mut Vec<u8>) -> Result<()> {
        if self.prefix.checked_add(self.suffix).is_none_or(|n| n > bytes.len()) {
            return Err(Error::corrupt("undo record does not fit its row"));
        }
        let end = bytes.len() - self.suffix;
        bytes.splice(self.prefix..end, self.middle.iter().copied());
        Ok(())
    }
}

/// A decoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub table: FileId,
    pub pk: &'a [u8],
    pub what: What<'a>,
    touches: &'a [u8],
    touch_count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    Insert,
    /// `chain`: that of the version before.
    Update {
        old: RowHeader,
        chain: Option<ChainRef>,
        diff: Diff<'a>,
    },
    Delete {
        old: RowHeader,
        chain: Option<ChainRef>,
    },
    Chain {
        first: PageNo,
    },
    /// `trees`: see [`Record::loaded_trees`].
    Load {
        linked: bool,
        trees: &'a [u8],
    },
}

/// Builds a record in `out`. Touches follow by [`push_touch`], as many as `touch_count`.
pub fn begin_insert(out: &mut Vec<u8>, table: FileId, pk: &[u8], touch_count: usize) {
    begin(out, KIND_INSERT, table, pk);
    push_varint(out, touch_count as u64);
}
/// `old_value` and `new_value`: whole values of the clustered entry.
pub fn begin_update(
    out: &mut Vec<u8>,
    table: FileId,
    pk: &[u8],
    old_value: &[u8],
    new_value: &[u8],
    touch_count: usize,
) {
    let diff = Diff::between(&old_value[ROW_HEADER..], &new_value[ROW_HEADER..]);
    begin(out, KIND_UPDATE, table, pk);
    push_old(out, old_value);
    push_varint(out, diff.prefix as u64);
    push_varint(out, diff.suffix as u64);
    push_bytes(out, diff.middle);
    push_varint(out, touch_count as u64);
}
pub fn begin_delete(out: &mut Vec<u8>, table: FileId, pk: &[u8], old_value: &[u8], touch_count: usize) {
    debug_assert!(!RowHeader::read(old_value).marked(), "a row is deleted once");
    begin(out, KIND_DELETE, table, pk);
    push_old(out, old_value);
    push_varint(out, touch_count as u64);
}
pub fn chain(out: &mut Vec<u8>, table: FileId, first: PageNo) {
    out.clear();
    out.push(KIND_CHAIN);
    push_varint(out, table as u64);
    push_varint(out, first as u64);
    debug_assert!(
        decode(out).is_some_and(|record| record.table == table && record.what == What::Chain { first }),
        "a rollback can read which pages it must free"
    );
}

/// `trees`: (index, first page of the list of its extents).
pub fn load(out: &mut Vec<u8>, table: FileId, linked: bool, trees: impl ExactSizeIterator<Item = (IndexId, PageNo)>) {
    out.clear();
    out.push(if linked { KIND_LOAD_LINKED } else { KIND_LOAD_BEGUN });
    push_varint(out, table as u64);
    debug_assert!(trees.len() > 0, "a load has the tree of the rows at least");
    let count = trees.len();
    push_varint(out, count as u64);
    for (index, list) in trees {
        push_varint(out, index as u64);
        push_varint(out, list as u64);
    }
    debug_assert!(
        decode(out).is_some_and(|record| record.table == table && record.loaded_trees().count() == count),
        "a rollback can read which trees it must take back"
    );
}

fn begin(out: &mut Vec<u8>, kind: u8, table: FileId, pk: &[u8]) {
    out.clear();
    out.push(kind);
    push_varint(out, table as u64);
    push_bytes(out, pk);
}

fn push_old(out: &mut Vec<u8>, old_value: &[u8]) {
    let h = RowHeader::read(old_value);
    out.push(h.flags);
    push_varint(out, h.trx);
    push_varint(out, h.undo.page as u64);
    push_varint(out, h.undo.offset as u64);
    if let Some(chain) = ChainRef::of(old_value) {
        push_varint(out, chain.first as u64);
        push_varint(out, chain.owner);
    }
}

pub fn push_touch(out: &mut Vec<u8>, touch: &Touch<'_>) {
    debug_assert!(touch.old.is_some() || touch.new.is_some(), "a touch has a key");
    debug_assert!(
        touch.raw.is_none() || touch.new.is_some(),
        "raw bytes are those under the new key"
    );
    let same = touch.old.is_some() && touch.old == touch.new;
    let flag = |on: bool, bit: u8| if on { bit } else { 0 };
    out.push(
        flag(touch.old.is_some(), HAS_OLD)
            | flag(touch.new.is_some(), HAS_NEW)
            | flag(same, SAME_KEY)
            | flag(touch.raw.is_some(), HAS_RAW),
    );
    push_varint(out, touch.index as u64);
    if let Some(key) = touch.old {
        push_bytes(out, key);
    }
    if let (Some(key), false) = (touch.new, same) {
        push_bytes(out, key);
    }
    if let Some(raw) = touch.raw {
        push_bytes(out, raw);
    }
}

impl<'a> Record<'a> {
    pub fn decode(payload: &'a [u8]) -> Result<Record<'a>> {
        decode(payload).ok_or_else(|| Error::corrupt("undo record cannot be decoded"))
    }
    pub fn touches(&self) -> impl Iterator<Item = Touch<'a>> {
        let (bytes, mut at) = (self.touches, 0);
        // Decoded once in `decode`: it cannot fail here.
        (0..self.touch_count).map_while(move |_| take_touch(bytes, &mut at))
    }
    pub fn touch(&self, index: IndexId) -> Option<Touch<'a>> {
        self.touches().find(|t| t.index == index)
    }
    /// Of a load: (index, first page of the list of its extents).
    pub fn loaded_trees(&self) -> impl Iterator<Item = (IndexId, PageNo)> + 'a {
        let bytes = match self.what {
            What::Load { trees, .. } => trees,
            _ => &[],
        };
        let mut at = 0;
        // Decoded once in `decode`, as above.
        std::iter::from_fn(move || take_tree(bytes, &mut at))
    }
}

fn decode(b: &[u8]) -> Option<Record<'_>> {
    let kind = *b.first()?;
    let mut at = 1;
    let table = take_u32(b, &mut at)?;
    if kind == KIND_CHAIN {
        let what = What::Chain {
            first: take_u32(b, &mut at)?,
        };
        return Some(Record {
            table,
            pk: &[],
            what,
            touches: &[],
            touch_count: 0,
        });
    }
    if matches!(kind, KIND_LOAD_BEGUN | KIND_LOAD_LINKED) {
        return take_load(b, at, kind == KIND_LOAD_LINKED, table);
    }
    let pk = take_bytes(b, &mut at)?;
    let what = match kind {
        KIND_INSERT => What::Insert,
        KIND_UPDATE => {
            let (old, chain) = take_old(b, &mut at)?;
            let diff = Diff {
                prefix: take_varint(b, &mut at)? as usize,
                suffix: take_varint(b, &mut at)? as usize,
                middle: take_bytes(b, &mut at)?,
            };
            What::Update { old, chain, diff }
        }
        KIND_DELETE => {
            let (old, chain) = take_old(b, &mut at)?;
            What::Delete { old, chain }
        }
        _ => return None,
    };
    let touch_count = take_varint(b, &mut at)? as usize;
    let touches = &b[at..];
    let mut end = 0;
    for _ in 0..touch_count {
        take_touch(touches, &mut end)?;
    }
    Some(Record {
        table,
        pk,
        what,
        touches,
        touch_count,
    })
}

fn take_load(b: &[u8], mut at: usize, linked: bool, table: FileId) -> Option<Record<'_>> {
    let count = take_varint(b, &mut at)?;
    let trees = &b[at..];
    let mut end = 0;
    for _ in 0..count {
        take_tree(trees, &mut end)?;
    }
    let trees = &trees[..end];
    Some(Record {
        table,
        pk: &[],
        what: What::Load { linked, trees },
        touches: &[],
        touch_count: 0,
    })
}

fn take_tree(b: &[u8], at: &mut usize) -> Option<(IndexId, PageNo)> {
    Some((take_u32(b, at)?, take_u32(b, at)?))
}

fn take_u32(b: &[u8], at: &mut usize) -> Option<u32> {
    u32::try_from(take_varint(b, at)?).ok()
}

fn take_old(b: &[u8], at: &mut usize) -> Option<(RowHeader, Option<ChainRef>)> {
    let flags = *b.get(*at)?;
    *at += 1;
    let header = RowHeader {
        flags,
        trx: take_varint(b, at)?,
        undo: UndoPtr {
            page: take_u32(b, at)?,
            offset: u16::try_from(take_varint(b, at)?).ok()?,
        },
    };
    let chain = if flags & ROW_OVERFLOW != 0 {
        let first = take_u32(b, at)?;
        let owner = take_varint(b, at)?;
        Some(ChainRef { first, owner })
    } else {
        None
    };
    Some((header, chain))
}

fn take_touch<'a>(b: &'a [u8], at: &mut usize) -> Option<Touch<'a>> {
    let how = *b.get(*at)?;
    *at += 1;
    let index = take_u32(b, at)?;
    let old = if how & HAS_OLD != 0 {
        Some(take_bytes(b, at)?)
    } else {
        None
    };
    let new = match (how & HAS_NEW != 0, how & SAME_KEY != 0) {
        (false, _) => None,
        (true, true) => Some(old?),
        (true, false) => Some(take_bytes(b, at)?),
    };
    let raw = if how & HAS_RAW != 0 {
        Some(take_bytes(b, at)?)
    } else {
        None
    };
    Some(Touch { index, old, new, raw })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_load_reads_back() {
        let trees = [(17, 9), (18, u32::MAX), (900, 1)];
        for linked in [false, true] {
            let mut bytes = Vec::new();
            load(&mut bytes, 300, linked, trees.into_iter());
            let record = Record::decode(&bytes).expect("a record");
            assert_eq!(record.table, 300);
            assert!(matches!(record.what, What::Load { linked: l, .. } if l == linked));
            assert_eq!(record.loaded_trees().collect::<Vec<_>>(), trees);
            for cut in 0..bytes.len() {
                assert!(Record::decode(&bytes[..cut]).is_err(), "{cut} bytes of it");
            }
        }
    }

    const OLD: RowHeader = RowHeader {
        flags: 1,
        trx: 77,
        undo: UndoPtr { page: 9, offset: 300 },
    };

    fn value(header: &RowHeader, stored: &[u8]) -> Vec<u8> {
        let mut v = vec![0; ROW_HEADER];
        header.write(&mut v);
        v.extend_from_slice(stored);
        v
    }

    #[test]
    fn an_update_reads_back_and_restores_the_old_bytes() {
        let (old, new) = (b"the old row".to_vec(), b"the new, longer row".to_vec());
        let touches = [
            Touch {
                index: 5,
                old: Some(b"a"),
                new: Some(b"b"),
                raw: None,
            },
            Touch {
                index: 6,
                old: Some(b"k"),
                new: Some(b"k"),
                raw: Some(b"K"),
            },
            Touch {
                index: 7,
                old: None,
                new: Some(b""),
                raw: None,
            },
            Touch {
                index: 8,
                old: Some(b"x"),
                new: None,
                raw: None,
            },
        ];
        let mut out = Vec::new();
        begin_update(
            &mut out,
            16,
            b"pk",
            &value(&OLD, &old),
            &value(&OLD, &new),
            touches.len(),
        );
        for t in &touches {
            push_touch(&mut out, t);
        }
        let record = Record::decode(&out).expect("whole record");
        assert_eq!((record.table, record.pk), (16, &b"pk"[..]));
        assert_eq!(record.touches().collect::<Vec<_>>(), touches);
        let What::Update {
            old: header,
            chain,
            diff,
        } = record.what
        else {
            panic!("an update was written")
        };
        assert_eq!((header, chain), (OLD, None));
        let mut bytes = new;
        diff.apply(&mut bytes).expect("fits");
        assert_eq!(bytes, old);
    }

    #[test]
    fn a_cut_record_is_refused() {
        let mut out = Vec::new();
        let long = RowHeader {
            flags: ROW_OVERFLOW,
            ..OLD
        };
        begin_delete(&mut out, 16, b"pk", &value(&long, &[5; 18]), 1);
        push_touch(
            &mut out,
            &Touch {
                index: 5,
                old: Some(b"abc"),
                new: None,
                raw: None,
            },
        );
        for n in 0..out.len() {
            assert!(Record::decode(&out[..n]).is_err(), "{n} bytes");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Record::decode(&bytes);
        }
        #[test]
        fn a_diff_restores(old in "[ab]{0,9}", new in "[ab]{0,9}") {
            let mut bytes = new.clone().into_bytes();
            Diff::between(old.as_bytes(), new.as_bytes()).apply(&mut bytes).expect("fits");
            prop_assert_eq!(bytes, old.into_bytes());
        }
    }
}

//! The byte codec: fixed-width integers, varints and byte strings in slices, and hashes of keys.
//!
//! Integers are little-endian on disk. Called by: every module that owns a format.

pub fn get_u16(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([b[at], b[at + 1]])
}
pub fn get_u32(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().unwrap())
}
pub fn get_u48(b: &[u8], at: usize) -> u64 {
    let mut x = [0u8; 8];
    x[..6].copy_from_slice(&b[at..at + 6]);
    u64::from_le_bytes(x)
}
pub fn get_u64(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(b[at..at + 8].try_into().unwrap())
}
pub fn put_u16(b: &mut [u8], at: usize, v: u16) {
    b[at..at + 2].copy_from_slice(&v.to_le_bytes());
}
pub fn put_u32(b: &mut [u8], at: usize, v: u32) {
    b[at..at + 4].copy_from_slice(&v.to_le_bytes());
}
pub fn put_u48(b: &mut [u8], at: usize, v: u64) {
    debug_assert!(v >> 48 == 0, "six bytes hold the number");
    b[at..at + 6].copy_from_slice(&v.to_le_bytes()[..6]);
}
pub fn put_u64(b: &mut [u8], at: usize, v: u64) {
    b[at..at + 8].copy_from_slice(&v.to_le_bytes());
}

/// Appends `v` as LEB128: seven bits a byte, low bits first.
pub fn push_varint(out: &mut Vec<u8>, number: u64) {
    let (start, mut v) = (out.len(), number);
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
    debug_assert_eq!(
        take_varint(out, &mut { start }),
        Some(number),
        "a varint reads back as it was written"
    );
}
/// Reads a varint at `*at` and moves `*at` past it. None when the bytes end early or the number has
/// more than 64 bits.
#[inline]
pub fn take_varint(b: &[u8], at: &mut usize) -> Option<u64> {
    let first = *b.get(*at)?;
    if first < 0x80 {
        *at += 1;
        return Some(first as u64);
    }
    take_long_varint(b, at)
}
fn take_long_varint(b: &[u8], at: &mut usize) -> Option<u64> {
    let start = *at;
    let mut v = 0u64;
    let mut shift = 0;
    loop {
        let byte = *b.get(*at)?;
        *at += 1;
        v |= ((byte & 0x7f) as u64) << shift;
        if byte < 0x80 {
            debug_assert!(*at - start <= 10, "ten bytes hold the 64 bits of a number");
            return Some(v);
        }
        shift += 7;
        if shift > 63 {
            return None;
        }
    }
}
/// Appends a byte string, with its length before it as a varint.
pub fn push_bytes(out: &mut Vec<u8>, b: &[u8]) {
    push_varint(out, b.len() as u64);
    out.extend_from_slice(b);
}
/// Reads what [`push_bytes`] wrote, and moves `*at` past it. None when the bytes end early.
#[inline]
pub fn take_bytes<'a>(b: &'a [u8], at: &mut usize) -> Option<&'a [u8]> {
    let n = take_varint(b, at)? as usize;
    let s = b.get(*at..at.checked_add(n)?)?;
    *at += n;
    Some(s)
}
/// Length of the common prefix.
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// A hash whose bits each depend on all 32 bits of the input: several table positions from one
/// checksum. The finalizer of MurmurHash3 (Appleby 2011).
pub fn mixed(hash: u32) -> u64 {
    mixed_wide(hash as u64 + 1)
}
fn mixed_wide(mut h: u64) -> u64 {
    h = (h ^ (h >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}
/// A hash for tables in memory, where the 32 bits of a checksum are too few. Never stored on disk.
pub fn hash_wide(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64;
    for part in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        hash = mixed_wide(hash.rotate_left(5) ^ u64::from_le_bytes(word));
    }
    hash
}

/// The smallest key that is larger than every key starting with `prefix`. None: there is none.
pub fn prefix_successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut key = prefix.to_vec();
    let is_there = raise_to_prefix_end(&mut key);
    debug_assert!(
        !is_there || (&key[..] > prefix && !key.starts_with(prefix)),
        "the successor is past all keys with the prefix"
    );
    is_there.then_some(key)
}
/// Makes `key` the smallest key that is larger than every key starting with it. False: there is
/// none, and `key` is empty.
pub fn raise_to_prefix_end(key: &mut Vec<u8>) -> bool {
    let kept = key.iter().rposition(|byte| *byte != 0xff).map_or(0, |last| last + 1);
    key.truncate(kept);
    if let Some(last) = key.last_mut() {
        *last += 1;
    }
    kept > 0
}

#[cfg(test)]
mod tests {
    use super::prefix_successor;

    #[test]
    fn the_successor_of_a_prefix_is_past_all_its_keys() {
        assert_eq!(prefix_successor(b"ab").as_deref(), Some(&b"ac"[..]));
        assert_eq!(prefix_successor(&[1, 0xff, 0xff]), Some(vec![2]));
        assert_eq!(prefix_successor(&[0xff, 0xff]), None);
        assert_eq!(prefix_successor(&[]), None);
    }
}
